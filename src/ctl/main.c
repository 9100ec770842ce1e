/* channelctl: reads the settings and the command line, and runs the command. */
#include "base/process.h"
#include "ctl/command.h"
#include "ctl/terminal.h"
#include "version.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

/* --- The command line --- */

/* Returns EXIT_OK, or prints what is wrong and returns the exit code. */
static int ctl_read_settings(struct options *o, int argc, char **argv)
{
    struct buf error = BUF_INIT;
    o->args = (struct settings_args){.usage = &ctl_usage, .target = o, .argc = argc, .argv = argv};
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
    while (settings_next_unknown(&ctl_usage, SPAN("CHANNELD_REDIS_"), &at, &text))
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

/* The commands that the words name, as bits; without words, all of them. */
static unsigned ctl_named_commands(const struct options *o)
{
    unsigned named = 0;
    int left = 0;
    for (size_t i = 0; i < ctl_usage.command_count; i++)
        if (ctl_is_named(&ctl_usage.commands[i], o, &left))
            named |= 1U << i;
    return named;
}

/* Names the ways to call the commands that the words name. A word that names none is not printed: it may be a
 * URL with a password. */
static int ctl_refuse(const struct options *o)
{
    unsigned named = ctl_named_commands(o);
    struct buf calls = BUF_INIT;
    if (o->word_count == 0 || named == 0)
        return usage_error(o->word_count == 0 ? "no command" : "no such command");
    for (size_t i = 0; i < ctl_usage.command_count; i++) {
        if ((named >> i & 1U) == 0)
            continue;
        buf_append_str(&calls, calls.len == 0 ? "expected " : ", or ");
        usage_write_call(&ctl_usage, &ctl_usage.commands[i], &calls);
    }
    int code = usage_error("%s", buf_message(&calls));
    buf_fini(&calls);
    return code;
}

static int ctl_run_command(struct options *o)
{
    static int (*const runs[])(const struct options *o, const char *argument) = {
#define ROW(run, name, argument, needs, takes, help) run,
        CTL_COMMANDS(ROW)
#undef ROW
    };
    unsigned given = 0; /* the flags of commands, as bits */
    int left = 0;
    int code = ctl_check_settings(o);
    if (code != EXIT_OK)
        return code;
    for (size_t i = 0; i < FLAGS_END; i++)
        given |= (unsigned)(o->args.flag[i] != NULL) << i;
    for (size_t i = 0; i < ctl_usage.command_count; i++) {
        const struct usage_command *c = &ctl_usage.commands[i];
        if (ctl_is_named(c, o, &left) && left == (c->argument != NULL) && (c->needs & ~given) == 0 &&
            (given & ~(c->needs | c->takes)) == 0)
            return runs[i](o, left > 0 ? o->args.argv[o->word_count - 1] : NULL);
    }
    return ctl_refuse(o);
}

/* --- Help and version --- */

/* Prints the help of the commands that the words name. */
static int ctl_print_help(const struct options *o)
{
    struct buf text = BUF_INIT;
    unsigned named = ctl_named_commands(o);
    if (named == 0)
        return ctl_refuse(o);
    usage_write_help(&ctl_usage, o->word_count > 0 ? named : USAGE_ALL, &text);
    bool is_written = buf_error(&text) == 0;
    if (is_written)
        (void)fwrite(text.data, 1, text.len, stdout);
    buf_fini(&text);
    return is_written ? output_finish() : memory_error();
}

static int ctl_run(struct options *o)
{
    if (o->args.flag[FLAG_HELP] != NULL)
        return ctl_print_help(o);
    if (o->args.flag[FLAG_VERSION] == NULL)
        return ctl_run_command(o);
    print_line(stdout, "channelctl " CHANNELD_VERSION);
    return output_finish();
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
    settings_fini(&ctl_usage, &options);
    return code;
}
