/* channelctl: reads the settings and the command line, and runs the command. */
#include "base/process.h"
#include "ctl/command.h"
#include "ctl/terminal.h"
#include "version.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

enum { WAIT_MAX_MS = 24 * 60 * 60 * 1000 };

static const struct setting TABLE[] = {
    REDIS_SETTINGS(struct options, redis),
    {"redis-prefix", SETTING_TEXT, offsetof(struct options, redis_prefix), "channels:", 0, 0, false,
     "Prefix of every Redis key"},
    {"channel-host", SETTING_TEXT, offsetof(struct options, channel_host), "max.ru", 0, 0, false,
     "Host of channel links"},
    {"web-host", SETTING_TEXT, offsetof(struct options, web_host), "web.max.ru", 0, 0, false,
     "Host of the same links in the web client"},
    {"wait", SETTING_DURATION, offsetof(struct options, wait), "0s", 0, WAIT_MAX_MS, false,
     "How long to wait for Redis to accept commands, where it cannot be reached yet or loads its data"},
};

static const struct settings SETTINGS = {TABLE, sizeof TABLE / sizeof TABLE[0], "CHANNELD_"};
_Static_assert(sizeof TABLE / sizeof TABLE[0] <= OPTIONS_SETTINGS_MAX, "options.sources is too short");

/* In the order of the FLAG_ bits. */
static const char *const SWITCHES[] = {"--replace", "--help", "--version", NULL};

static const char HELP[] =
    "channelctl: load channels into Redis for channeld, issue its API keys, check the catalogue\n"
    "\n"
    "usage: channelctl [settings] COMMAND\n"
    "\n"
    "  load FILE|- [--replace]   load channels from NDJSON, one card, or response with a card, per line as\n"
    "                            the API returns it;\n"
    "                            --replace: make the file the whole catalogue, remove all other channels.\n"
    "                            Only one load runs at a time: a second one waits up to 15 s, then fails\n"
    "  load --sample N [--seed S] [--replace]\n"
    "                            load generated channels, those that sample prints\n"
    "  keys issue [--count N] [--name NAME] [--expires WHEN]\n"
    "                            create API keys and print them; they cannot be printed again.\n"
    "                            --name: for logs and metrics, 1 to 64 of A-Z a-z 0-9 _ . -\n"
    "                            --expires: after a time (90d, 12h, 30m, 45s), or at one, in UTC\n"
    "                            (2027-02-20, 2027-02-20T10:00:00Z); without it they never do\n"
    "  keys revoke KEY|DIGEST    revoke an API key, given as the key or its SHA-256\n"
    "  keys list                 print the SHA-256 digest, name, age and expiry of each key\n"
    "  verify                    check the whole catalogue: types, values, TTLs, sizes, links, API keys\n"
    "  sample N [--seed S]       print N generated channels as NDJSON; the same seed gives the same "
    "channels\n"
    "\n"
    "  --help                    print this help and exit\n"
    "  --version                 print the version and exit\n"
    "\n"
    "Exit codes: 0 success; 1 failed, or something was refused; 2 wrong usage or settings; 128 plus the\n"
    "signal's number when a signal ended the command (130 for Ctrl-C).\n"
    "\n"
    "Settings (a flag overrides the environment):\n";

/* --- The command line --- */

/* If argv[*at] is the flag `name`: sets *value to what follows "=" or to the next word, and moves *at. */
static bool take_flag(const char *name, int argc, char **argv, int *at, const char **value)
{
    size_t length = strlen(name);
    if (strncmp(argv[*at], name, length) != 0)
        return false;
    const char *rest = argv[*at] + length;
    if (*rest == '=')
        *value = rest + 1;
    else if (*rest == '\0')
        *value = *at + 1 < argc ? argv[++*at] : "";
    else
        return false;
    return true;
}

/* Takes the flags of single commands out of argv: they are no settings, which have a variable each. */
static int take_command_flags(struct options *o, int argc, char **argv, char **others)
{
    int kept = 0;
    bool flags = true;
    for (int i = 0; i < argc; i++) {
        flags = flags && strcmp(argv[i], "--") != 0;
        if (flags && (take_flag("--count", argc, argv, &i, &o->count) ||
                      take_flag("--name", argc, argv, &i, &o->name) ||
                      take_flag("--expires", argc, argv, &i, &o->expires) ||
                      take_flag("--sample", argc, argv, &i, &o->sample) ||
                      take_flag("--seed", argc, argv, &i, &o->seed)))
            continue;
        others[kept++] = argv[i];
    }
    return kept;
}

static int read_settings(struct options *o, int argc, char **argv)
{
    struct buf error = BUF_INIT;
    struct settings_args args = {.argc = argc,
                                 .argv = argv,
                                 .switches = SWITCHES,
                                 .rest = o->words,
                                 .sources = o->sources,
                                 .files = o->files};
    int words = settings_read(&SETTINGS, o, &args, &error);
    o->flags = args.switched;
    bool invalid = words == -EINVAL && buf_error(&error) == 0;
    if (invalid)
        (void)usage_error("%s", buf_c_str(&error));
    else if (words < 0)
        (void)memory_error();
    else
        o->word_count = words;
    buf_fini(&error);
    return words >= 0 ? EXIT_OK : invalid ? EXIT_USAGE : EXIT_FAILED;
}

/* Only of the variables that channelctl shares with channeld: it does not use the others. */
static void warn_of_unknown_variables(void)
{
    struct buf text = BUF_INIT;
    size_t at = 0;
    while (settings_next_unknown(&SETTINGS, SPAN("CHANNELD_REDIS_"), &at, &text).data != NULL)
        if (buf_c_str(&text) != NULL)
            (void)fprintf(stderr, "channelctl: warning: %s\n", buf_c_str(&text));
    buf_fini(&text);
}

static bool is_host(const char *text)
{
    return *text != '\0' && text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-")] == '\0';
}

static int check_settings(struct options *o)
{
    if (keyspace_init(&o->keys, span_of(o->redis_prefix)) != 0)
        return setting_error(o, "redis-prefix", "expected 1 to 64 visible ASCII characters");
    if (!is_host(o->channel_host))
        return setting_error(o, "channel-host", "expected a host name in lower case");
    if (!is_host(o->web_host))
        return setting_error(o, "web-host", "expected a host name in lower case");
    warn_of_unknown_variables();
    o->hosts = (struct link_hosts){span_of(o->channel_host), span_of(o->web_host)};
    return EXIT_OK;
}

/* Returns EXIT_OK, or prints what is wrong and returns the exit code. options_fini is due in every case. */
static int options_read(struct options *o, int argc, char **argv)
{
    *o = (struct options){.settings = &SETTINGS};
    size_t size = (size_t)argc + 1;
    char **others = calloc(size, sizeof *others);
    o->words = calloc(size, sizeof *o->words);
    if (others == NULL || o->words == NULL) {
        free(others);
        (void)memory_error();
        return EXIT_FAILED;
    }
    int code = read_settings(o, take_command_flags(o, argc, argv, others), others);
    free(others);
    bool runs_command = (o->flags & (FLAG_HELP | FLAG_VERSION)) == 0;
    return code == EXIT_OK && runs_command ? check_settings(o) : code;
}

static void options_fini(struct options *o)
{
    settings_fini(&SETTINGS, o);
    free(o->words);
}

/* --- The commands --- */

static const struct {
    const char *name;
    int (*run)(const struct options *o, int count, char **words);
    bool replace, count, sample, seed; /* the flags it accepts */
} COMMANDS[] = {
    {"load", command_load, .replace = true, .sample = true, .seed = true},
    {"keys", command_keys, .count = true},
    {"verify", command_verify, .replace = false},
    {"sample", command_sample, .seed = true},
};

static int run_command(const struct options *o)
{
    if (o->word_count == 0)
        return usage_error("no command: expected load, keys, verify or sample");
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++) {
        if (strcmp(o->words[0], COMMANDS[i].name) != 0)
            continue;
        if ((o->flags & FLAG_REPLACE) != 0 && !COMMANDS[i].replace)
            return usage_error("--replace: only load accepts it");
        if (o->count != NULL && !COMMANDS[i].count)
            return usage_error("--count: only keys issue accepts it");
        if ((o->name != NULL || o->expires != NULL) && !COMMANDS[i].count)
            return usage_error("%s: only keys issue accepts it", o->name != NULL ? "--name" : "--expires");
        if (o->sample != NULL && !COMMANDS[i].sample)
            return usage_error("--sample: only load accepts it");
        if (o->seed != NULL && !COMMANDS[i].seed)
            return usage_error("--seed: only sample and load --sample accept it");
        return COMMANDS[i].run(o, o->word_count - 1, o->words + 1);
    }
    return usage_error("%s: no such command", o->words[0]);
}

static int print_help(void)
{
    struct buf settings = BUF_INIT;
    settings_write_help(&SETTINGS, &settings);
    bool complete = buf_error(&settings) == 0;
    if (complete)
        (void)printf("%s%.*s", HELP, (int)settings.len, settings.data);
    buf_fini(&settings);
    return complete ? output_finish() : memory_error();
}

static int print_version(void)
{
    (void)puts("channelctl " CHANNELD_VERSION);
    return output_finish();
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN); /* a write to a closed connection fails with EPIPE instead */
    process_forbid_dumps();
    if (process_open_standard_descriptors() != 0)
        return EXIT_FAILED;
    struct options options;
    int code = options_read(&options, argc, argv);
    if (code == EXIT_OK && (options.flags & FLAG_HELP) != 0)
        code = print_help();
    else if (code == EXIT_OK && (options.flags & FLAG_VERSION) != 0)
        code = print_version();
    else if (code == EXIT_OK)
        code = run_command(&options);
    options_fini(&options);
    return code;
}
