/* channelctl's command line and environment; see options.h. */
#include "ctl/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const struct setting TABLE[] = {
    REDIS_SETTINGS(struct options, redis),
    {"redis-prefix", SETTING_TEXT, offsetof(struct options, redis_prefix), "channels:", 0, 0, false,
     "What the name of every key in Redis begins with"},
    {"channel-host", SETTING_TEXT, offsetof(struct options, channel_host), "max.ru", 0, 0, false,
     "Host of channel links"},
    {"web-host", SETTING_TEXT, offsetof(struct options, web_host), "web.max.ru", 0, 0, false,
     "Host of the same links in the web client"},
};

static const struct settings SETTINGS = {TABLE, sizeof TABLE / sizeof TABLE[0], "CHANNELD_"};
_Static_assert(sizeof TABLE / sizeof TABLE[0] <= OPTIONS_SETTINGS_MAX, "options.sources is too short");

/* In the order of the SWITCH_ bits. */
static const char *const SWITCHES[] = {"--replace", "--help", "--version", NULL};

static const char HELP[] =
    "channelctl: loads channels into Redis for channeld, issues its API keys, checks what is there\n"
    "\n"
    "usage: channelctl [settings] COMMAND\n"
    "\n"
    "  load FILE|- [--replace]   load channels from NDJSON, one card a line as the API returns it;\n"
    "                            --replace makes the file the whole catalogue and removes what it lacks;\n"
    "                            one load at a time: a second one waits a little, then fails\n"
    "  load --sample N [--seed S] [--replace]\n"
    "                            load made-up channels, those that sample writes\n"
    "  keys issue [--count N]    make API keys and print them, this once\n"
    "  keys revoke KEY|DIGEST    end the validity of a key, named by itself or by its SHA-256\n"
    "  keys list                 print the SHA-256 digests of all valid keys\n"
    "  verify                    check the whole catalogue: types, values, TTLs, sizes, links, API keys\n"
    "  sample N [--seed S]       write N made-up channels as NDJSON, the same ones for the same seed\n"
    "\n"
    "  --help                    print this and exit\n"
    "  --version                 print the version and exit\n"
    "\n"
    "Exit codes: 0 done, 1 failed or something was refused, 2 wrong usage or settings; stopped by a signal: "
    "128 and\n"
    "its number (130 by Ctrl-C).\n"
    "\n"
    "Settings (flags win over the environment):\n";

int usage_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fputs("channelctl: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputs(" (channelctl --help tells more)\n", stderr);
    va_end(args);
    return EXIT_USAGE;
}

int memory_error(void)
{
    (void)fputs("channelctl: out of memory\n", stderr);
    return EXIT_FAILED;
}

int output_error(int err)
{
    (void)fprintf(stderr, "channelctl: cannot write to standard output: %s\n", strerror(-err));
    return EXIT_FAILED;
}

int output_end(void)
{
    return fflush(stdout) == 0 && ferror(stdout) == 0 ? EXIT_FINE : output_error(-errno);
}

int options_print_help(void)
{
    struct buf help = BUF_INIT;
    buf_append_str(&help, HELP);
    settings_write_help(&SETTINGS, &help);
    if (buf_error(&help) == 0)
        (void)fwrite(help.data, 1, help.len, stdout);
    int code = buf_error(&help) == 0 ? output_end() : memory_error();
    buf_fini(&help);
    return code;
}

/* When argv[*at] is the flag `name`, with its value after "=" or in the next word: sets *value, moves *at. */
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

/* Takes the flags that belong to one command out of argv, as they have no variable in the environment. */
static int take_own_flags(struct options *o, int argc, char **argv, char **others)
{
    int kept = 0;
    bool flags = true;
    for (int i = 0; i < argc; i++) {
        flags = flags && strcmp(argv[i], "--") != 0;
        if (flags && (take_flag("--count", argc, argv, &i, &o->count) ||
                      take_flag("--sample", argc, argv, &i, &o->sample) ||
                      take_flag("--seed", argc, argv, &i, &o->seed)))
            continue;
        others[kept++] = argv[i];
    }
    return kept;
}

int settings_error(const struct options *o, const char *name, const char *what)
{
    struct buf source = BUF_INIT;
    settings_write_source(&source, &SETTINGS, o->sources, name);
    const char *text = buf_c_str(&source);
    int code = text != NULL ? usage_error("%s: %s", text, what) : memory_error();
    buf_fini(&source);
    return code;
}

/* Of those that it shares with channeld: the others mean nothing to it. */
static void warn_of_unknown_variables(void)
{
    size_t at = 0;
    for (;;) {
        struct span name = settings_next_unknown(&SETTINGS, SPAN("CHANNELD_REDIS_"), &at);
        if (name.data == NULL)
            return;
        struct buf text = BUF_INIT;
        settings_write_unknown(&text, &SETTINGS, name);
        if (buf_c_str(&text) != NULL)
            (void)fprintf(stderr, "channelctl: warning: %s\n", buf_c_str(&text));
        buf_fini(&text);
    }
}

static int read_settings(struct options *o, int argc, char **argv)
{
    struct buf error = BUF_INIT;
    struct settings_args args = {
        .argc = argc, .argv = argv, .switches = SWITCHES, .rest = o->word, .sources = o->sources};
    int words = settings_read(&SETTINGS, o, &args, &error);
    o->switched = args.switched;
    int code = EXIT_FINE;
    if (words == -EINVAL && buf_error(&error) == 0)
        code = usage_error("%s", buf_c_str(&error));
    else if (words < 0)
        code = memory_error();
    else
        o->words = words;
    buf_fini(&error);
    return code;
}

static bool is_host(const char *text)
{
    return *text != '\0' && text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-")] == '\0';
}

static int check(struct options *o)
{
    if (keyspace_init(&o->keys, span_of(o->redis_prefix)) != 0)
        return settings_error(o, "redis-prefix", "1 to 64 visible ASCII characters are expected");
    if (!is_host(o->channel_host))
        return settings_error(o, "channel-host", "a host name in lower case is expected");
    if (!is_host(o->web_host))
        return settings_error(o, "web-host", "a host name in lower case is expected");
    warn_of_unknown_variables();
    o->hosts = (struct link_hosts){span_of(o->channel_host), span_of(o->web_host)};
    return EXIT_FINE;
}

int options_read(struct options *o, int argc, char **argv)
{
    *o = (struct options){0};
    size_t room = (size_t)argc + 1;
    char **others = calloc(room, sizeof *others);
    o->word = calloc(room, sizeof *o->word);
    bool room_is_there = others != NULL && o->word != NULL;
    int code =
        room_is_there ? read_settings(o, take_own_flags(o, argc, argv, others), others) : memory_error();
    free(others);
    bool told = (o->switched & (SWITCH_HELP | SWITCH_VERSION)) != 0;
    return code == EXIT_FINE && !told ? check(o) : code;
}

void options_fini(struct options *o)
{
    settings_fini(&SETTINGS, o);
    free(o->word);
}
