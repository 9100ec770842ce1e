/* The tables of channelctl: its settings, its commands and their flags; see command.h. */
#include "ctl/command.h"

enum { WAIT_MAX_MS = 24 * 60 * 60 * 1000 };

static const struct setting TABLE[] = {
    REDIS_SETTINGS(struct options, redis),
    {"redis-prefix", SETTING_TEXT, offsetof(struct options, redis_prefix), "channels:", 0, 0, false,
     "Prefix of every Redis key", NULL},
    {"channel-host", SETTING_TEXT, offsetof(struct options, channel_host), "max.ru", 0, 0, false,
     "Host of channel links", NULL},
    {"web-host", SETTING_TEXT, offsetof(struct options, web_host), "web.max.ru", 0, 0, false,
     "Host of the same links in the web client", NULL},
    {"wait", SETTING_DURATION, offsetof(struct options, wait), "0s", 0, WAIT_MAX_MS, false,
     "How long to wait for Redis while it cannot be reached or loads its data", NULL},
};

static const struct settings_flag FLAGS[] = {
#define ROW(name, flag, value, help) {flag, value, help},
    CTL_FLAGS(ROW)
#undef ROW
};

static const struct usage_command COMMANDS[] = {
#define ROW(run, name, argument, needs, takes, help) {name, argument, needs, takes, help},
    CTL_COMMANDS(ROW)
#undef ROW
};

const struct usage ctl_usage = {
    .program = "channelctl",
    .summary = "load, show and remove channels of channeld in Redis, issue its API keys, check the catalogue",
    .synopsis = "[settings] COMMAND",
    .commands = COMMANDS,
    .command_count = sizeof COMMANDS / sizeof COMMANDS[0],
    .flags = FLAGS,
    .flag_count = FLAGS_END,
    .exits = "0 success; 1 failed, or something was refused; 2 wrong usage or settings; 128 plus its number "
             "when a signal ended the command (130 for Ctrl-C)",
    .table = TABLE,
    .count = sizeof TABLE / sizeof TABLE[0],
    .others = "",
};
