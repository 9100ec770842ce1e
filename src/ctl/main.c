/* channelctl: reads the settings and the command line, and runs the command. */
#include "base/process.h"
#include "ctl/command.h"
#include "ctl/terminal.h"
#include "version.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

/* --- The command line --- */

/* If argv[*at] is a flag of a command, records its value, which may be the next word: then *at moves on. */
static bool ctl_parse_command_flag(struct options *o, int argc, char **argv, int *at)
{
    for (size_t i = 0; i < ctl_usage.flag_count; i++) {
        const struct usage_flag *f = &ctl_usage.flags[i];
        size_t length = strlen(f->name);
        const char *rest = strncmp(argv[*at], f->name, length) == 0 ? argv[*at] + length : NULL;
        if (rest == NULL || (*rest != '\0' && (*rest != '=' || f->value == NULL)))
            continue;
        if (*rest == '=')
            o->flag[i] = rest + 1;
        else
            o->flag[i] = f->value != NULL && *at + 1 < argc ? argv[++*at] : "";
        return true;
    }
    return false;
}

/* Records the flags of single commands in *o and copies all other words to `others`. These flags are not
 * settings, each of which has a variable. Returns how many words were copied. */
static int ctl_parse_command_flags(struct options *o, int argc, char **argv, char **others)
{
    int kept = 0;
    bool flags = true;
    for (int i = 0; i < argc; i++) {
        flags = flags && strcmp(argv[i], "--") != 0;
        if (flags && ctl_parse_command_flag(o, argc, argv, &i))
            continue;
        others[kept++] = argv[i];
    }
    return kept;
}

static int ctl_read_settings(struct options *o, int argc, char **argv)
{
    struct buf error = BUF_INIT;
    struct settings_args args = {.argc = argc,
                                 .argv = argv,
                                 .switches = ctl_usage.switches,
                                 .rest = o->words,
                                 .sources = o->sources,
                                 .files = o->files};
    int words = settings_read(ctl_usage.settings, o, &args, &error);
    if (words >= 0) {
        int err = settings_read_files(ctl_usage.settings, o, &args, &error);
        words = err != 0 ? err : words;
    }
    o->switched = args.switched;
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

/* Warns of unknown variables among those that channelctl shares with channeld: it does not use the others. */
static void ctl_warn_of_unknown_variables(void)
{
    struct buf text = BUF_INIT;
    size_t at = 0;
    while (settings_next_unknown(ctl_usage.settings, SPAN("CHANNELD_REDIS_"), &at, &text).data != NULL)
        if (buf_c_str(&text) != NULL)
            show_message("warning: %s", buf_c_str(&text));
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

/* Returns EXIT_OK, or prints what is wrong and returns the exit code. ctl_options_fini is due in every case.
 */
static int ctl_options_read(struct options *o, int argc, char **argv)
{
    *o = (struct options){.settings = ctl_usage.settings};
    size_t size = (size_t)argc + 1;
    char **others = calloc(size, sizeof *others);
    o->words = calloc(size, sizeof *o->words);
    if (others == NULL || o->words == NULL) {
        free(others);
        (void)memory_error();
        return EXIT_FAILED;
    }
    int code = ctl_read_settings(o, ctl_parse_command_flags(o, argc, argv, others), others);
    free(others);
    return code == EXIT_OK && o->switched == 0 ? ctl_check_settings(o) : code;
}

static void ctl_options_fini(struct options *o)
{
    settings_fini(o->settings, o);
    free(o->words);
}

/* --- The commands --- */

/* True when the command line begins with the words of the command's name. */
static bool ctl_is_called(const struct usage_command *c, const struct options *o)
{
    const char *name = c->name;
    for (int i = 0; *name != '\0'; i++) {
        size_t length = strcspn(name, " ");
        if (i >= o->word_count || !span_equal(span_of(o->words[i]), (struct span){name, length}))
            return false;
        name += length + strspn(name + length, " ");
    }
    return true;
}

static bool ctl_is_accepted(const struct options *o, size_t flag)
{
    for (size_t i = 0; i < ctl_usage.command_count; i++)
        if (usage_accepts(&ctl_usage.commands[i], flag) && ctl_is_called(&ctl_usage.commands[i], o))
            return true;
    return false;
}

/* Names the commands that accept the flag. */
static int ctl_refuse_flag(size_t flag)
{
    struct buf names = BUF_INIT;
    const char *last = "";
    for (size_t i = 0; i < ctl_usage.command_count; i++) {
        const struct usage_command *c = &ctl_usage.commands[i];
        if (!usage_accepts(c, flag) || strcmp(c->name, last) == 0)
            continue;
        buf_printf(&names, "%s%s", *last == '\0' ? "" : " or ", c->name);
        last = c->name;
    }
    int code = usage_error("%s: it belongs to %s", ctl_usage.flags[flag].name, buf_message(&names));
    buf_fini(&names);
    return code;
}

static int ctl_run_command(const struct options *o)
{
    static const struct {
        const char *name;
        int (*run)(const struct options *o, int count, char **words);
    } runs[] = {
#define ROW(run, name, argument, needs, takes, help) {name, run},
        CTL_COMMANDS(ROW)
#undef ROW
    };
    if (o->word_count == 0)
        return usage_error("no command");
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct span first = {runs[i].name, strcspn(runs[i].name, " ")};
        if (!span_equal(span_of(o->words[0]), first))
            continue;
        for (size_t flag = 0; flag < FLAGS_END; flag++)
            if (o->flag[flag] != NULL && !ctl_is_accepted(o, flag))
                return ctl_refuse_flag(flag);
        return runs[i].run(o, o->word_count - 1, o->words + 1);
    }
    return usage_error("no such command"); /* it may be a URL with a password */
}

/* Prints the text of --help or --version. */
static int ctl_print(bool help)
{
    struct buf text = BUF_INIT;
    if (help)
        usage_write_help(&ctl_usage, &text);
    else
        buf_append_str(&text, "channelctl " CHANNELD_VERSION "\n");
    bool complete = buf_error(&text) == 0;
    if (complete)
        (void)fwrite(text.data, 1, text.len, stdout);
    buf_fini(&text);
    return complete ? output_finish() : memory_error();
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN); /* a write to a closed connection fails with EPIPE instead */
    (void)signal(SIGXFSZ, SIG_IGN); /* and one beyond the greatest size of a file with EFBIG */
    interrupt_exit();
    process_set_dumpable(false);
    if (process_open_standard_descriptors() != 0)
        return EXIT_FAILED;
    struct options options;
    int code = ctl_options_read(&options, argc, argv);
    if (code == EXIT_OK)
        code = options.switched == 0 ? ctl_run_command(&options)
                                     : ctl_print((options.switched & SWITCH_HELP) != 0);
    ctl_options_fini(&options);
    return code;
}
