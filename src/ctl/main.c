/* channelctl: reads what is asked for and calls the command. */
#include "base/process.h"
#include "ctl/command.h"
#include "version.h"

#include <signal.h>
#include <stdio.h>

static const struct {
    const char *name;
    int (*run)(const struct options *o, int words, char **word);
    bool replace, count, sample, seed; /* which flags it knows */
} COMMANDS[] = {
    {"load", command_load, .replace = true, .sample = true, .seed = true},
    {"keys", command_keys, .count = true},
    {"verify", command_verify, .replace = false},
    {"sample", command_sample, .seed = true},
};

static int run(const struct options *o)
{
    if (o->words == 0)
        return usage_error("a command is expected: load, keys, verify or sample");
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++) {
        if (strcmp(o->word[0], COMMANDS[i].name) != 0)
            continue;
        if ((o->switched & SWITCH_REPLACE) != 0 && !COMMANDS[i].replace)
            return usage_error("--replace belongs to load");
        if (o->count != NULL && !COMMANDS[i].count)
            return usage_error("--count belongs to keys issue");
        if (o->sample != NULL && !COMMANDS[i].sample)
            return usage_error("--sample belongs to load");
        if (o->seed != NULL && !COMMANDS[i].seed)
            return usage_error("--seed belongs to sample and load --sample");
        return COMMANDS[i].run(o, o->words - 1, o->word + 1);
    }
    return usage_error("%s: no such command", o->word[0]);
}

static int print_version(void)
{
    (void)puts("channelctl " CHANNELD_VERSION);
    return output_end();
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN); /* a lost peer is an error of write(), not our end */
    process_forbid_dumps();
    if (process_open_standard_descriptors() != 0)
        return EXIT_FAILED;
    struct options options;
    int code = options_read(&options, argc, argv);
    if (code == EXIT_FINE && (options.switched & SWITCH_HELP) != 0)
        code = options_print_help();
    else if (code == EXIT_FINE && (options.switched & SWITCH_VERSION) != 0)
        code = print_version();
    else if (code == EXIT_FINE)
        code = run(&options);
    options_fini(&options);
    return code;
}
