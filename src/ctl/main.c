/* channelctl: reads the settings and the command line, and runs the command. */
#include "base/process.h"
#include "ctl/command.h"
#include "ctl/terminal.h"
#include "version.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

/* --- The tables --- */

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

#define FLAG(name) (1U << FLAG_##name)
#define LOAD_FLAGS (FLAG(REPLACE) | FLAG(MAX_REMOVED) | FLAG(EXPECT) | FLAG(DRY_RUN))

/* clang-format off */
/* The ways to call each command. */
static const struct usage_command COMMANDS[] = {
    {command_load, "load", "FILE|-", 0, LOAD_FLAGS,
     "load channels from NDJSON: each line is a card as the API returns it, or a response with one. Only one "
     "load runs at a time: a second one fails within 5 s, and waits up to 15 s for the lock of one that was killed"},
    {command_load, "load", NULL, FLAG(SAMPLE), LOAD_FLAGS,
     "load sample channels"},
    {command_show, "show", "ID|LINK", 0, 0,
     "print a channel as Redis holds it: the card as JSON, its place in the index, where its link leads"},
    {command_remove, "remove", "ID", 0, 0,
     "remove a channel: its place in the index, its card and its link key, in one transaction. It fails "
     "while a load runs, as a second load does"},
    {command_keys_issue, "keys issue", NULL, 0, FLAG(COUNT) | FLAG(NAME) | FLAG(EXPIRES),
     "create API keys and print them; they cannot be printed again"},
    {command_keys_revoke, "keys revoke", "KEY|DIGEST", 0, 0,
     "revoke an API key, given as the key or its SHA-256"},
    {command_keys_revoke, "keys revoke", NULL, FLAG(NAME), FLAG(ALL),
     "revoke the API key of that name"},
    {command_keys_list, "keys list", NULL, 0, FLAG(JSON),
     "print the SHA-256 digest, name, time of issue and expiry of each key"},
    {command_verify, "verify", NULL, 0, 0,
     "check the whole catalogue: types, values, TTLs, sizes, links, API keys"},
    {command_sample, "sample", "N", 0, 0,
     "print N sample channels as NDJSON"},
};
/* clang-format on */

static const struct usage USAGE = {
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

/* --- The command line --- */

static int ctl_read_settings(struct options *o, int argc, char **argv)
{
    struct buf error = BUF_INIT;
    o->args = (struct settings_args){.usage = &USAGE, .target = o, .argc = argc, .argv = argv};
    int words = settings_read(&o->args, &error);
    int err = words < 0 ? words : settings_read_files(&o->args, false, &error);
    if (err != 0)
        return settings_error(err, &error);
    bool is_help = words > 0 && strcmp(argv[0], "help") == 0; /* "help load" is "load --help" */
    if (is_help)
        o->args.flag[FLAG_HELP] = "";
    o->args.argv += is_help;
    o->word_count = words - is_help;
    buf_fini(&error);
    return EXIT_OK;
}

/* Warns of unknown variables that begin with CHANNELD_REDIS_. Others may belong to channeld alone. */
static void ctl_warn_of_unknown_variables(void)
{
    struct buf text = BUF_INIT;
    size_t at = 0;
    while (settings_next_unknown(&USAGE, SPAN("CHANNELD_REDIS_"), &at, &text))
        show_message("warning: %s", buf_message(&text));
    buf_fini(&text);
}

static bool ctl_is_host(const char *text)
{
    return *text != '\0' && text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-")] == '\0';
}

static int ctl_check_settings(struct options *o)
{
    if (keyspace_init(&o->keys, span_of(o->redis_prefix)) != 0)
        return setting_error(o, "redis-prefix", "expected 1 to 64 visible ASCII characters");
    if (!ctl_is_host(o->channel_host))
        return setting_error(o, "channel-host", "expected a host name in lower case");
    if (!ctl_is_host(o->web_host))
        return setting_error(o, "web-host", "expected a host name in lower case");
    ctl_warn_of_unknown_variables();
    o->hosts = (struct link_hosts){span_of(o->channel_host), span_of(o->web_host)};
    return EXIT_OK;
}

/* --- The commands --- */

/*
 * True when the words of the command line are those of the command's name, up to the end of either. *left:
 * the number of words that follow the name, or -1 when a part of the name is missing.
 */
static bool ctl_is_named(const struct usage_command *c, const struct options *o, int *left)
{
    const char *name = c->name;
    int i = 0;
    for (; *name != '\0' && i < o->word_count; i++) {
        size_t length = strcspn(name, " ");
        if (!span_equal(span_of(o->args.argv[i]), (struct span){name, length}))
            return false;
        name += length + strspn(name + length, " ");
    }
    *left = *name == '\0' ? o->word_count - i : -1;
    return true;
}

/* Names the ways to call the commands that the words name, as bits. A word that names none is not printed: it
 * may be a URL with a password. */
static int ctl_refuse(const struct options *o, unsigned named)
{
    struct buf calls = BUF_INIT;
    if (o->word_count == 0 || named == 0)
        return usage_error(o->word_count == 0 ? "no command" : "no such command");
    for (size_t i = 0; i < USAGE.command_count; i++) {
        if ((named >> i & 1U) == 0)
            continue;
        buf_append_str(&calls, calls.len == 0 ? "expected " : ", or ");
        usage_write_call(&USAGE, &COMMANDS[i], &calls);
    }
    int code = usage_error("%s", buf_message(&calls));
    buf_fini(&calls);
    return code;
}

static int ctl_print_help(unsigned commands)
{
    struct buf text = BUF_INIT;
    usage_write_help(&USAGE, commands, &text);
    bool is_written = buf_error(&text) == 0;
    if (is_written)
        (void)fwrite(text.data, 1, text.len, stdout);
    buf_fini(&text);
    return is_written ? output_finish() : FAIL("out of memory");
}

static int ctl_run(struct options *o)
{
    unsigned given = 0; /* flags, as bits */
    unsigned named = 0; /* the commands that the words name; without words, all of them */
    size_t called = USAGE.command_count;
    for (size_t i = 0; i < FLAGS_END; i++)
        given |= (unsigned)(o->args.flag[i] != NULL) << i;
    for (size_t i = 0; i < USAGE.command_count; i++) {
        const struct usage_command *c = &COMMANDS[i];
        int left = 0;
        if (!ctl_is_named(c, o, &left))
            continue;
        named |= 1U << i;
        if (left == (c->argument != NULL) && (c->needs & ~given) == 0 &&
            (given & ~(c->needs | c->takes)) == 0)
            called = i;
    }
    if ((given & FLAG(HELP)) != 0)
        return named == 0 ? ctl_refuse(o, named) : ctl_print_help(o->word_count > 0 ? named : USAGE_ALL);
    if ((given & FLAG(VERSION)) != 0) {
        print_line(stdout, "channelctl " CHANNELD_VERSION);
        return output_finish();
    }
    int code = ctl_check_settings(o);
    if (code != EXIT_OK)
        return code;
    if (called == USAGE.command_count)
        return ctl_refuse(o, named);
    if (COMMANDS[called].argument != NULL)
        o->argument = o->args.argv[o->word_count - 1];
    return COMMANDS[called].run(o);
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN); /* a write to a closed connection fails with EPIPE instead */
    (void)signal(SIGXFSZ, SIG_IGN); /* and one beyond the greatest size of a file with EFBIG */
    interrupt_init();
    process_set_dumpable(false);
    if (process_open_standard_descriptors() != 0)
        return EXIT_FAILED;
    struct options options = {.wait = 0};
    int code = ctl_read_settings(&options, argc, argv);
    if (code == EXIT_OK)
        code = ctl_run(&options);
    settings_fini(&USAGE, &options);
    return code;
}
