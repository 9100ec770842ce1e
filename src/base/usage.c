/* Printing --help; see usage.h. */
#include "base/usage.h"

/* Names begin in the first column, their meanings in the second. */
enum { WIDTH = 110, SECOND = 28 };

static const char MARGIN[] = "                            ";
_Static_assert(sizeof MARGIN == SECOND + 1, "the margin ends where the second column begins");

/* Appends the words of `text` in lines that begin with `prefix`; the first has `column` columns already. */
static void usage_wrap(struct buf *out, const char *prefix, const char *text, size_t column)
{
    bool has_word = false;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (has_word && column + 1 + word > WIDTH) {
            buf_append_char(out, '\n');
            column = 0;
            has_word = false;
        }
        if (column == 0) {
            buf_append_str(out, prefix);
            column = strlen(prefix);
        }
        if (has_word)
            buf_append_char(out, ' ');
        buf_append(out, text, word);
        column += word + has_word;
        has_word = true;
        text += word;
        text += strspn(text, " ");
    }
    buf_append_char(out, '\n');
}

/* A line of the first column begins at `start`. Its meaning is written next to it, or below. */
static void usage_write_meaning(struct buf *out, size_t start, const char *help)
{
    size_t used = out->len - start;
    bool beside = used + 2 <= SECOND;
    buf_append_str(out, beside ? MARGIN + used : "\n");
    usage_wrap(out, MARGIN, help, beside ? SECOND : 0);
}

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
        size_t start = out->len;
        usage_write_flag(out, &u->flags[i], "  ", "");
        usage_write_meaning(out, start, u->flags[i].help);
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
        size_t start = out->len;
        buf_append_str(out, "  ");
        usage_write_call(u, &u->commands[i], out);
        usage_write_meaning(out, start, u->commands[i].help);
        flags |= usage_flags_of(&u->commands[i]);
    }
    if (flags != 0)
        buf_append_str(out, "\nFlags of these commands:\n");
    usage_write_flags(out, u, flags);
    return flags;
}

static void usage_write_exits(struct buf *out, const struct usage *u)
{
    struct buf text = BUF_INIT;
    buf_append_str(&text, "Exit codes:");
    for (size_t i = 0; i < u->exit_count; i++)
        buf_printf(&text, " %s %s%s", u->exits[i].code, u->exits[i].help, i + 1 < u->exit_count ? ";" : ".");
    if (buf_c_str(&text) != NULL)
        usage_wrap(out, "", text.data, 0);
    else
        out->error = buf_error(&text);
    buf_fini(&text);
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
    usage_write_exits(out, u);
    buf_append_str(
        out,
        "\nEach setting is a flag or an environment variable; the flag wins. Defaults are in brackets.\n\n");
    settings_write_help(u->settings, out);
}
