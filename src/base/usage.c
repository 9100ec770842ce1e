/* Printing --help; see usage.h. */
#include "base/usage.h"

static void usage_write_flag(struct buf *out, const struct settings_flag *f, const char *before,
                             const char *after)
{
    buf_printf(out, "%s%s%s%s%s", before, f->name, f->value != NULL ? " " : "",
               f->value != NULL ? f->value : "", after);
}

void usage_write_call(const struct usage *u, const struct usage_command *c, struct buf *out)
{
    buf_append_str(out, c->name);
    for (size_t i = 0; i < u->flag_count; i++)
        if ((c->needs >> i & 1U) != 0)
            usage_write_flag(out, &u->flags[i], " ", "");
    if (c->argument != NULL)
        buf_printf(out, " %s", c->argument);
    for (size_t i = 0; i < u->flag_count; i++)
        if ((c->takes >> i & 1U) != 0)
            usage_write_flag(out, &u->flags[i], " [", "]");
}

static void usage_write_flags(struct buf *out, const struct usage *u, unsigned flags)
{
    for (size_t i = 0; i < u->flag_count; i++) {
        if ((flags >> i & 1U) == 0)
            continue;
        usage_write_flag(out, &u->flags[i], "  ", "\n");
        buf_printf(out, "      %s\n", u->flags[i].help);
    }
    buf_append_char(out, '\n');
}

/* Returns the flags of these commands. */
static unsigned usage_write_commands(struct buf *out, const struct usage *u, unsigned commands)
{
    unsigned flags = 0;
    for (size_t i = 0; i < u->command_count; i++) {
        if ((commands >> i & 1U) == 0)
            continue;
        buf_append_str(out, "  ");
        usage_write_call(u, &u->commands[i], out);
        buf_printf(out, "\n      %s\n", u->commands[i].help);
        flags |= u->commands[i].needs | u->commands[i].takes;
    }
    if (flags != 0)
        buf_append_str(out, "\nFlags of these commands:\n");
    usage_write_flags(out, u, flags);
    return flags;
}

void usage_write_help(const struct usage *u, unsigned commands, struct buf *out)
{
    if (commands == USAGE_ALL)
        buf_printf(out, "%s: %s\n\n", u->program, u->summary);
    buf_printf(out, "usage: %s %s\n\n", u->program, u->synopsis);
    unsigned of_commands = u->command_count > 0 ? usage_write_commands(out, u, commands) : 0;
    if (commands != USAGE_ALL) {
        buf_printf(out, "%s --help has the settings, the exit codes and the other commands.\n", u->program);
        return;
    }
    usage_write_flags(out, u, ~of_commands);
    buf_printf(out, "Exit codes: %s.\n\n", u->exits);
    buf_append_str(out, "Each setting is a flag or an environment variable; the flag wins. Defaults are in "
                        "brackets.\n\n");
    settings_write_help(u->settings, out);
}
