/*
 * Writes the manual pages, the completions of bash and zsh and the environment file from the tables of which
 * --help is printed: channeld_manual TEMPLATES OUTPUT. It is built and run with the programs, and not
 * installed.
 *
 * Templates hold what is not in a table. A line @NAME@ or @NAME ARGUMENT@ is replaced by what a table says;
 * @PROGRAM@,
 * @VERSION@ and @DATE@ stand anywhere. The date is that of SOURCE_DATE_EPOCH, so that equal sources make
 * equal files; without it there is none.
 */
#include "app/config.h"
#include "ctl/command.h"
#include "version.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ENV_WIDTH = 80, DATE_SIZE = 64 };

/* One file. */
struct page {
    const struct usage *usage;
    struct buf out;
    unsigned commands; /* those that a @COMMAND@ has described, as bits */
    bool wrong;
};

typedef void (*write_fn)(struct page *p, const char *argument);

static void complain(struct page *p, const char *what, const char *about)
{
    (void)fprintf(stderr, "channeld_manual: %s: %s: %s\n", p->usage->program, what, about);
    p->wrong = true;
}

/* --- The tables --- */

static const struct setting *setting_at(const struct usage *u, size_t i)
{
    return &u->settings->table[i];
}

static bool has_command(const struct page *p, size_t flag)
{
    for (size_t i = 0; i < p->usage->command_count; i++)
        if (usage_accepts(&p->usage->commands[i], flag))
            return true;
    return false;
}

/* The first command of this name; there may be others. */
static bool is_first(const struct usage *u, size_t command)
{
    for (size_t i = 0; i < command; i++)
        if (strcmp(u->commands[i].name, u->commands[command].name) == 0)
            return false;
    return true;
}

/* The flags that all commands of the name accept. */
static unsigned flags_of(const struct usage *u, const char *name)
{
    unsigned flags = 0;
    for (size_t i = 0; i < u->command_count; i++)
        if (strcmp(u->commands[i].name, name) == 0)
            flags |= u->commands[i].needs | u->commands[i].takes;
    return flags;
}

/* The first command of its name at or behind `i` that accepts flags, which become *flags; or the number of
 * all. */
static size_t next_with_flags(const struct usage *u, size_t i, unsigned *flags)
{
    for (; i < u->command_count; i++) {
        *flags = flags_of(u, u->commands[i].name);
        if (is_first(u, i) && *flags != 0)
            break;
    }
    return i;
}

static struct span first_word(const char *name)
{
    return (struct span){name, strcspn(name, " ")};
}

/* True for the first command that begins with its first word. */
static bool is_first_word(const struct usage *u, size_t command)
{
    for (size_t i = 0; i < command; i++)
        if (span_equal(first_word(u->commands[i].name), first_word(u->commands[command].name)))
            return false;
    return true;
}

/* The first command at or behind `i` of those that share their first word, and have another; or the number of
 * all. */
static size_t next_of_many(const struct usage *u, size_t i)
{
    while (i < u->command_count &&
           (!is_first_word(u, i) || u->commands[i].name[first_word(u->commands[i].name).len] == '\0'))
        i++;
    return i;
}

static bool takes_file(const struct usage_command *c)
{
    return c->argument != NULL && strncmp(c->argument, "FILE", 4) == 0;
}

/* 90000 as 90s, 3600000 as 1h: with the largest unit that leaves a whole number. */
static void write_bound(struct buf *out, const struct setting *s, int64_t value)
{
    static const struct {
        int64_t ms;
        const char *name;
    } units[] = {{3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
    if (s->type != SETTING_DURATION || value == 0) {
        setting_write_number(s, value, out);
        return;
    }
    size_t i = 0;
    while (value % units[i].ms != 0)
        i++;
    buf_printf(out, "%lld%s", (long long)(value / units[i].ms), units[i].name);
}

/* "From 10ms to 10m." for a number; nothing where any is valid. */
static void write_bounds(struct buf *out, const struct setting *s)
{
    if (s->max == 0)
        return;
    buf_append_str(out, "From ");
    write_bound(out, s, s->min);
    buf_append_str(out, " to ");
    write_bound(out, s, s->max);
    buf_append_str(out, ".");
}

/* Help as a sentence: the tables have none of its capital, and none of its full stop. */
static void write_sentence(struct buf *out, const char *help)
{
    buf_append_char(out, (char)toupper((unsigned char)help[0]));
    buf_append_str(out, help + 1);
    buf_append_char(out, '.');
}

/* --- Manual pages: mdoc(7) --- */

/* A text in lines of their own, one for each sentence. */
static void roff_text(struct buf *out, const char *text)
{
    bool starts = true;
    for (const char *p = text; *p != '\0'; p++) {
        if (starts && (*p == '.' || *p == '\''))
            buf_append_str(out, "\\&");
        starts = p[0] == '.' && p[1] == ' ' && isupper((unsigned char)p[2]);
        if (*p == '\\')
            buf_append_str(out, "\\e");
        else if (*p == '-' && (p == text || p[-1] == ' ' || p[-1] == '(') && p[1] == '-')
            buf_append_str(out, "\\-");
        else
            buf_append_char(out, *p);
        if (starts) {
            buf_append_char(out, '\n');
            p++;
        }
    }
    buf_append_char(out, '\n');
}

static void roff_sentence(struct buf *out, const char *help)
{
    struct buf text = BUF_INIT;
    write_sentence(&text, help);
    roff_text(out, buf_message(&text));
    buf_fini(&text);
}

static void roff_setting(struct buf *out, const struct usage *u, const struct setting *s)
{
    buf_printf(out, ".It Fl -%s Ar ", s->name);
    setting_write_kind(s, out);
    buf_append_str(out, "\n.Ev ");
    setting_write_variable(u->settings, s, "", out);
    buf_append_str(out, "\n.Pp\n");
    roff_sentence(out, s->help);
    if (s->max != 0) {
        write_bounds(out, s);
        buf_append_char(out, '\n');
    }
    if (s->fallback[0] != '\0')
        buf_printf(out, "Default:\n.Ql %s .\n", s->fallback);
    if (!s->from_file)
        return;
    buf_printf(out, ".Pp\nThe value can be in a file instead:\n.Fl -%s-file Ar FILE ,\n.Ev ", s->name);
    setting_write_variable(u->settings, s, "_FILE", out);
    buf_append_str(out, " .\n");
}

static void roff_settings(struct page *p, const char *argument)
{
    (void)argument;
    for (size_t i = 0; i < p->usage->settings->count; i++)
        roff_setting(&p->out, p->usage, setting_at(p->usage, i));
}

static void roff_switches(struct page *p, const char *argument)
{
    (void)argument;
    for (const struct settings_switch *s = p->usage->switches; s->name != NULL; s++) {
        buf_printf(&p->out, ".It Fl %s\n", s->name + 1);
        roff_sentence(&p->out, s->help);
    }
}

static void roff_flag(struct buf *out, const struct usage_flag *f, const char *before)
{
    buf_printf(out, "%sFl %s", before, f->name + 1);
    if (f->value != NULL)
        buf_printf(out, " Ar %s", f->value);
}

static void roff_call(struct page *p, const struct usage_command *c, const char *before)
{
    buf_printf(&p->out, "%s%s\n", before, c->name);
    for (size_t i = 0; i < p->usage->flag_count; i++)
        if ((c->needs >> i & 1U) != 0) {
            roff_flag(&p->out, &p->usage->flags[i], ".");
            buf_append_char(&p->out, '\n');
        }
    if (c->argument != NULL)
        buf_printf(&p->out, ".Ar %s\n", c->argument);
    for (size_t i = 0; i < p->usage->flag_count; i++)
        if ((c->takes >> i & 1U) != 0) {
            roff_flag(&p->out, &p->usage->flags[i], ".Op ");
            buf_append_char(&p->out, '\n');
        }
}

static void roff_synopsis(struct page *p, const char *argument)
{
    (void)argument;
    for (size_t i = 0; i < p->usage->command_count; i++) {
        buf_printf(&p->out, ".Nm\n.Op Ar settings\n");
        roff_call(p, &p->usage->commands[i], ".Cm ");
    }
}

/* All ways to call the command, and its flags. */
static void roff_command(struct page *p, const char *name)
{
    unsigned flags = flags_of(p->usage, name);
    bool found = false;
    for (size_t i = 0; i < p->usage->command_count; i++) {
        const struct usage_command *c = &p->usage->commands[i];
        if (strcmp(c->name, name) != 0)
            continue;
        p->commands |= 1U << i;
        if (found)
            buf_append_str(&p->out, ".Pp\n");
        else
            buf_printf(&p->out, ".Ss %s\n", name);
        found = true;
        buf_append_str(&p->out, ".Nm\n");
        roff_call(p, c, ".Cm ");
        buf_append_str(&p->out, ".Pp\n");
        roff_sentence(&p->out, c->help);
    }
    if (!found)
        complain(p, "no such command", name);
    if (flags == 0)
        return;
    buf_append_str(&p->out, ".Bl -tag -width Ds\n");
    for (size_t i = 0; i < p->usage->flag_count; i++) {
        if ((flags >> i & 1U) == 0)
            continue;
        roff_flag(&p->out, &p->usage->flags[i], ".It ");
        buf_append_char(&p->out, '\n');
        roff_sentence(&p->out, p->usage->flags[i].help);
    }
    buf_append_str(&p->out, ".El\n");
}

static void roff_exits(struct page *p, const char *argument)
{
    (void)argument;
    for (size_t i = 0; i < p->usage->exit_count; i++) {
        buf_printf(&p->out, ".It %s\n", p->usage->exits[i].code);
        roff_sentence(&p->out, p->usage->exits[i].help);
    }
}

/* --- The environment file --- */

static void env_paragraph(struct buf *out, const char *text)
{
    usage_wrap(out, "# ", text, ENV_WIDTH);
}

static void env_setting(struct buf *out, const struct usage *u, const struct setting *s)
{
    struct buf text = BUF_INIT;
    write_sentence(&text, s->help);
    if (s->max != 0)
        buf_append_char(&text, ' ');
    write_bounds(&text, s);
    buf_append_char(out, '\n');
    env_paragraph(out, buf_message(&text));
    if (s->from_file) {
        buf_clear(&text);
        buf_append_str(&text, "Or the path of a file that holds the value: ");
        setting_write_variable(u->settings, s, "_FILE", &text);
        env_paragraph(out, buf_message(&text));
    }
    buf_fini(&text);
    buf_append_char(out, '#');
    setting_write_variable(u->settings, s, "", out);
    buf_printf(out, "=%s\n", s->fallback);
}

static void env_settings(struct page *p, const char *argument)
{
    (void)argument;
    for (size_t i = 0; i < p->usage->settings->count; i++)
        env_setting(&p->out, p->usage, setting_at(p->usage, i));
}

/* --- Completions: lists of words --- */

/* All flags that are valid with any command, with blanks between them. */
static void shell_flags(struct page *p, const char *argument)
{
    const struct usage *u = p->usage;
    buf_printf(&p->out, "    %s'", argument);
    for (const struct settings_switch *s = u->switches; s->name != NULL; s++)
        buf_printf(&p->out, "%s ", s->name);
    for (size_t i = 0; i < u->settings->count; i++) {
        const struct setting *s = setting_at(u, i);
        buf_printf(&p->out, "--%s%s", s->name, i + 1 < u->settings->count || s->from_file ? " " : "");
        if (s->from_file)
            buf_printf(&p->out, "--%s-file%s", s->name, i + 1 < u->settings->count ? " " : "");
    }
    buf_append_str(&p->out, "'\n");
}

/* A pattern of the flags with a value: those that name a file, or all others without a choice of words. */
static void shell_valued(struct page *p, bool files)
{
    const struct usage *u = p->usage;
    const char *separator = "";
    for (size_t i = 0; i < u->settings->count; i++) {
        const struct setting *s = setting_at(u, i);
        if (s->type != SETTING_CHOICE && files == (s->type == SETTING_PATH)) {
            buf_printf(&p->out, "%s--%s", separator, s->name);
            separator = "|";
        }
        if (s->from_file && files) {
            buf_printf(&p->out, "%s--%s-file", separator, s->name);
            separator = "|";
        }
    }
    for (size_t i = 0; i < u->flag_count && !files; i++)
        if (u->flags[i].value != NULL && has_command(p, i))
            buf_printf(&p->out, "|%s", u->flags[i].name);
}

static void shell_files(struct page *p, const char *argument)
{
    (void)argument;
    buf_append_str(&p->out, "    ");
    shell_valued(p, true);
    buf_append_str(&p->out, ")\n");
}

static void shell_others(struct page *p, const char *argument)
{
    (void)argument;
    buf_append_str(&p->out, "    ");
    shell_valued(p, false);
    buf_append_str(&p->out, ")\n");
}

/* The two, and the flags with a choice of words. */
static void shell_all_valued(struct page *p, const char *argument)
{
    (void)argument;
    buf_append_str(&p->out, "        ");
    for (size_t i = 0; i < p->usage->settings->count; i++)
        if (setting_at(p->usage, i)->type == SETTING_CHOICE)
            buf_printf(&p->out, "--%s|", setting_at(p->usage, i)->name);
    shell_valued(p, true);
    buf_append_char(&p->out, '|');
    shell_valued(p, false);
    buf_append_str(&p->out, ")\n");
}

static void shell_choices(struct page *p, const char *argument)
{
    (void)argument;
    for (size_t i = 0; i < p->usage->settings->count; i++) {
        const struct setting *s = setting_at(p->usage, i);
        if (s->type == SETTING_CHOICE)
            buf_printf(&p->out, "    --%s) words='%s' ;;\n", s->name, s->choices);
    }
}

/* What may follow each command: the other words of its name, its flags, a file. */
static void shell_commands(struct page *p, const char *argument)
{
    const struct usage *u = p->usage;
    (void)argument;
    buf_append_str(&p->out, "    '') words='");
    const char *separator = "";
    for (size_t i = 0; i < u->command_count; i++) {
        struct span word = first_word(u->commands[i].name);
        if (!is_first_word(u, i))
            continue;
        buf_printf(&p->out, "%s%.*s", separator, (int)word.len, word.data);
        separator = " ";
    }
    buf_append_str(&p->out, "' ;;\n");
    for (size_t i = 0; (i = next_of_many(u, i)) < u->command_count; i++) {
        struct span word = first_word(u->commands[i].name);
        buf_printf(&p->out, "    %.*s) words='", (int)word.len, word.data);
        for (size_t k = i; k < u->command_count; k++)
            if (span_equal(first_word(u->commands[k].name), word))
                buf_printf(&p->out, "%s%s", k > i ? " " : "", u->commands[k].name + word.len + 1);
        buf_append_str(&p->out, "' ;;\n");
    }
    for (size_t i = 0; i < u->command_count; i++)
        if (takes_file(&u->commands[i]))
            buf_printf(&p->out, "    %s) files=1 ;;\n", u->commands[i].name);
}

static void shell_command_flags(struct page *p, const char *argument)
{
    const struct usage *u = p->usage;
    (void)argument;
    unsigned flags = 0;
    for (size_t i = 0; (i = next_with_flags(u, i, &flags)) < u->command_count; i++) {
        const char *name = u->commands[i].name;
        buf_printf(&p->out, "    '%s' | '%s '*) flags+='", name, name);
        for (size_t f = 0; f < u->flag_count; f++)
            if ((flags >> f & 1U) != 0)
                buf_printf(&p->out, " %s", u->flags[f].name);
        buf_append_str(&p->out, "' ;;\n");
    }
}

/* --- zsh: specifications of _arguments --- */

/* A text inside of single quotes; those that zsh would read as the end of it have a backslash. */
static void zsh_text(struct buf *out, const char *text, const char *special)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            buf_append_str(out, "'\\''");
        else if (strchr(special, *text) != NULL)
            buf_printf(out, "\\%c", *text);
        else
            buf_append_char(out, *text);
    }
}

static void zsh_option(struct buf *out, const char *flag, const char *suffix, const char *help)
{
    buf_printf(out, "        '--%s%s=[", flag, suffix);
    zsh_text(out, help, "[]\\");
    buf_append_str(out, "]:");
}

static void zsh_settings(struct page *p, const char *argument)
{
    struct buf *out = &p->out;
    (void)argument;
    for (size_t i = 0; i < p->usage->settings->count; i++) {
        const struct setting *s = setting_at(p->usage, i);
        zsh_option(out, s->name, "", s->help);
        if (s->type == SETTING_CHOICE)
            buf_printf(out, "word:(%s)'\n", s->choices);
        else if (s->type == SETTING_PATH)
            buf_append_str(out, "file:_files'\n");
        else {
            setting_write_kind(s, out);
            buf_append_str(out, ": '\n");
        }
        if (!s->from_file)
            continue;
        zsh_option(out, s->name, "-file", "File that holds the value of this setting");
        buf_append_str(out, "file:_files'\n");
    }
    for (const struct settings_switch *s = p->usage->switches; s->name != NULL; s++) {
        buf_printf(out, "        '%s[", s->name);
        zsh_text(out, s->help, "[]\\");
        buf_append_str(out, "]'\n");
    }
}

/* The flags of each command. */
static void zsh_command_flags(struct page *p, const char *argument)
{
    const struct usage *u = p->usage;
    (void)argument;
    unsigned flags = 0;
    for (size_t i = 0; (i = next_with_flags(u, i, &flags)) < u->command_count; i++) {
        const char *name = u->commands[i].name;
        buf_printf(&p->out, "    '%s'|'%s '*)\n        specs+=(\n", name, name);
        for (size_t f = 0; f < u->flag_count; f++) {
            if ((flags >> f & 1U) == 0)
                continue;
            buf_printf(&p->out, "            '%s%s[", u->flags[f].name, u->flags[f].value != NULL ? "=" : "");
            zsh_text(&p->out, u->flags[f].help, "[]\\");
            buf_append_char(&p->out, ']');
            if (u->flags[f].value != NULL)
                buf_printf(&p->out, ":%s: ", u->flags[f].value);
            buf_append_str(&p->out, "'\n");
        }
        buf_append_str(&p->out, "        ) ;;\n");
    }
}

static void zsh_described(struct buf *out, struct span word, const char *help)
{
    buf_printf(out, "            '%.*s:", (int)word.len, word.data);
    zsh_text(out, help, ":\\");
    buf_append_str(out, "'\n");
}

/* What may follow each command, with what it means. */
static void zsh_commands(struct page *p, const char *argument)
{
    const struct usage *u = p->usage;
    (void)argument;
    buf_append_str(&p->out, "    '')\n        words_next=(\n");
    for (size_t i = 0; i < u->command_count; i++)
        if (is_first_word(u, i)) {
            struct span word = first_word(u->commands[i].name);
            const char *rest = u->commands[i].name + word.len;
            zsh_described(&p->out, word, *rest == '\0' ? u->commands[i].help : "has commands of its own");
        }
    buf_append_str(&p->out, "        ) ;;\n");
    for (size_t i = 0; (i = next_of_many(u, i)) < u->command_count; i++) {
        struct span word = first_word(u->commands[i].name);
        buf_printf(&p->out, "    %.*s)\n        words_next=(\n", (int)word.len, word.data);
        for (size_t k = i; k < u->command_count; k++)
            if (span_equal(first_word(u->commands[k].name), word))
                zsh_described(&p->out, span_of(u->commands[k].name + word.len + 1), u->commands[k].help);
        buf_append_str(&p->out, "        ) ;;\n");
    }
    for (size_t i = 0; i < u->command_count; i++)
        if (takes_file(&u->commands[i]))
            buf_printf(&p->out, "    %s) next=_files ;;\n", u->commands[i].name);
}

/* --- Templates --- */

static const struct {
    const char *name;
    write_fn write;
} DIRECTIVES[] = {
    {"ROFF-SYNOPSIS", roff_synopsis},
    {"ROFF-SWITCHES", roff_switches},
    {"ROFF-SETTINGS", roff_settings},
    {"ROFF-COMMAND", roff_command},
    {"ROFF-EXITS", roff_exits},
    {"ENV-SETTINGS", env_settings},
    {"SHELL-FLAGS", shell_flags},
    {"SHELL-FILES", shell_files},
    {"SHELL-OTHERS", shell_others},
    {"SHELL-VALUED", shell_all_valued},
    {"SHELL-CHOICES", shell_choices},
    {"SHELL-COMMANDS", shell_commands},
    {"SHELL-COMMAND-FLAGS", shell_command_flags},
    {"ZSH-SETTINGS", zsh_settings},
    {"ZSH-COMMANDS", zsh_commands},
    {"ZSH-COMMAND-FLAGS", zsh_command_flags},
};

/* The line is @NAME@ or @NAME ARGUMENT@; the brackets are cut off. */
static void expand_directive(struct page *p, char *line)
{
    char *argument = line + strcspn(line, " ");
    if (*argument != '\0')
        *argument++ = '\0';
    for (size_t i = 0; i < sizeof DIRECTIVES / sizeof DIRECTIVES[0]; i++) {
        if (strcmp(line, DIRECTIVES[i].name) != 0)
            continue;
        DIRECTIVES[i].write(p, argument);
        return;
    }
    complain(p, "the template has an unknown directive", line);
}

/* In the form of mdoc(7); absent without SOURCE_DATE_EPOCH. */
static void write_date(struct page *p)
{
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    if (epoch == NULL)
        return;
    char *end = NULL;
    time_t seconds = (time_t)strtoll(epoch, &end, 10);
    struct tm day;
    char text[DATE_SIZE];
    if (*epoch == '\0' || *end != '\0' || gmtime_r(&seconds, &day) == NULL ||
        strftime(text, sizeof text, "%B %e, %Y", &day) == 0) {
        complain(p, "not a time", "SOURCE_DATE_EPOCH");
        return;
    }
    for (const char *c = text; *c != '\0'; c++)
        if (c[0] != ' ' || c[1] != ' ') /* of a day below ten */
            buf_append_char(&p->out, *c);
}

static void expand_words(struct page *p, const char *line)
{
    static const char program[] = "@PROGRAM@";
    static const char version[] = "@VERSION@";
    static const char date[] = "@DATE@";
    while (*line != '\0') {
        if (strncmp(line, program, sizeof program - 1) == 0) {
            buf_append_str(&p->out, p->usage->program);
            line += sizeof program - 1;
        } else if (strncmp(line, version, sizeof version - 1) == 0) {
            buf_append_str(&p->out, CHANNELD_VERSION);
            line += sizeof version - 1;
        } else if (strncmp(line, date, sizeof date - 1) == 0) {
            write_date(p);
            line += sizeof date - 1;
        } else {
            buf_append_char(&p->out, *line++);
        }
    }
    buf_append_char(&p->out, '\n');
}

/* A template for a program with commands may have lines for these alone: "@IF-COMMANDS@ line". */
static void expand_line(struct page *p, char *line)
{
    static const char conditional[] = "@IF-COMMANDS@";
    size_t length = strlen(line);
    if (strncmp(line, conditional, sizeof conditional - 1) == 0) {
        if (p->usage->command_count > 0)
            expand_line(p, line + sizeof conditional - 1);
        return;
    }
    bool directive =
        length > 2 && line[0] == '@' && line[length - 1] == '@' && strchr(line + 1, '@') == line + length - 1;
    if (directive && strcmp(line, "@DATE@") != 0) {
        line[length - 1] = '\0';
        expand_directive(p, line + 1);
        return;
    }
    expand_words(p, line);
}

static FILE *open_in(const char *folder, const char *name, const char *mode)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = n < (int)sizeof path ? fopen(path, mode) : NULL;
    if (file == NULL)
        (void)fprintf(stderr, "channeld_manual: %s/%s: %s\n", folder, name, strerror(errno));
    return file;
}

static bool read_template(struct page *p, const char *folder, const char *name)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t n = 0;
    FILE *file = open_in(folder, name, "r");
    if (file == NULL)
        return false;
    while ((n = getline(&line, &size, file)) > 0) {
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        expand_line(p, line);
    }
    bool complete = ferror(file) == 0;
    (void)fclose(file);
    free(line);
    return complete;
}

static bool write_output(const struct buf *out, const char *folder, const char *name)
{
    FILE *file = open_in(folder, name, "w");
    if (file == NULL)
        return false;
    bool complete = fwrite(out->data, 1, out->len, file) == out->len;
    return fclose(file) == 0 && complete;
}

/* Every page describes all commands, or none. */
static void check_commands(struct page *p, const char *name)
{
    for (size_t i = 0; i < p->usage->command_count && p->commands != 0; i++)
        if ((p->commands >> i & 1U) == 0)
            complain(p, name, p->usage->commands[i].name);
}

static bool generate(const struct usage *usage, const char *template, const char *output, char **folders)
{
    struct page p = {.usage = usage};
    bool done = read_template(&p, folders[0], template);
    check_commands(&p, template);
    done = done && !p.wrong && buf_error(&p.out) == 0 && write_output(&p.out, folders[1], output);
    buf_fini(&p.out);
    return done;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        (void)fputs("usage: channeld_manual TEMPLATES OUTPUT\n", stderr);
        return EXIT_FAILURE;
    }
    char **folders = argv + 1;
    bool done = generate(&config_usage, "channeld.8.in", "channeld.8", folders) &&
                generate(&ctl_usage, "channelctl.1.in", "channelctl.1", folders) &&
                generate(&config_usage, "completion.bash.in", "channeld.bash", folders) &&
                generate(&ctl_usage, "completion.bash.in", "channelctl.bash", folders) &&
                generate(&config_usage, "completion.zsh.in", "_channeld", folders) &&
                generate(&ctl_usage, "completion.zsh.in", "_channelctl", folders) &&
                generate(&config_usage, "channeld.env.in", "channeld.env", folders);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
