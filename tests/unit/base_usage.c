/* The text of --help: commands, their flags, switches, exit codes and settings, in two columns. */
#include "base/usage.h"

#include "unit/check.h"

struct values {
    int64_t wait;
};

static const struct setting TABLE[] = {
    {"wait", SETTING_DURATION, offsetof(struct values, wait), "0s", 0, 1000, false, "How long", NULL}};
static const struct settings SETTINGS = {TABLE, 1, "TOOL_"};

static const struct usage_flag FLAGS[] = {{"--all", NULL, "all of them"}, {"--size", "N", "how large"}};
static const struct usage_command COMMANDS[] = {
    {"get", "FILE", 0, 3, "get one"},
    {"make one", NULL, 2, 1,
     "make a thing of many words, which does not fit beside what precedes it in one line"},
};
static const struct settings_switch SWITCHES[] = {{"--help", "print this"}, {NULL, NULL}};
static const struct usage_exit EXITS[] = {{"0", "success"}, {"1", "failure"}};

static const struct usage USAGE = {
    "tool", "does things", "[settings] COMMAND", COMMANDS, 2, FLAGS, 2, SWITCHES, EXITS, 2, &SETTINGS};

TEST_CASE(help_has_everything_in_the_tables)
{
    SCOPED_BUF(out);
    usage_write_help(&USAGE, USAGE_ALL, &out);
    assert_buf(&out,
               "tool: does things\n"
               "\n"
               "usage: tool [settings] COMMAND\n"
               "\n"
               "  get FILE [--all] [--size N]\n"
               "                            get one\n"
               "  make one --size N [--all]\n"
               "                            make a thing of many words, which does not fit beside what "
               "precedes it in one line\n"
               "\n"
               "Flags of these commands:\n"
               "  --all                     all of them\n"
               "  --size N                  how large\n"
               "\n"
               "  --help                    print this\n"
               "\n"
               "Exit codes: 0 success; 1 failure.\n"
               "\n"
               "Each setting is a flag or an environment variable; the flag wins. Defaults are in brackets.\n"
               "\n"
               "  --wait DURATION\n"
               "      TOOL_WAIT\n"
               "      How long [0s]\n");
}

TEST_CASE(help_of_a_command_has_its_flags_only)
{
    SCOPED_BUF(out);
    usage_write_help(&USAGE, 1U << 1, &out);
    assert_buf(&out, "usage: tool [settings] COMMAND\n"
                     "\n"
                     "  make one --size N [--all]\n"
                     "                            make a thing of many words, which does not fit beside what "
                     "precedes it in one line\n"
                     "\n"
                     "Flags of these commands:\n"
                     "  --all                     all of them\n"
                     "  --size N                  how large\n"
                     "\n"
                     "tool --help has the settings, the exit codes and the other commands.\n");
}
