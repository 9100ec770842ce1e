/* Parsing and printing settings by their table; see settings.h. */
#include "base/settings.h"

#include "base/file.h"
#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FILE_VALUE_MAX = 64 * 1024, NAME_SIZE = 128 };

/* Writes the flag or the variable of a setting, or the one for its file, to `out`, and returns it. */
static const char *settings_spell(const struct setting *s, bool is_flag, bool is_file, char out[NAME_SIZE])
{
    (void)snprintf(out, NAME_SIZE, "%s%s%s", is_flag ? "--" : "CHANNELD_", s->name, is_file ? "-file" : "");
    for (char *p = out; !is_flag && *p != '\0'; p++)
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
    return out;
}

/* The setting with this flag or variable, or NULL. *is_file: it is the one for its file. */
static const struct setting *settings_find(const struct usage *u, struct span name, bool is_flag,
                                           bool *is_file)
{
    char spelt[NAME_SIZE];
    for (const struct setting *s = u->table; s < u->table + u->count; s++) {
        *is_file = s->from_file && span_equal(name, span_of(settings_spell(s, is_flag, true, spelt)));
        if (*is_file || span_equal(name, span_of(settings_spell(s, is_flag, false, spelt))))
            return s;
    }
    return NULL;
}

static bool settings_is_text(const struct setting *s)
{
    return s->type <= SETTING_SECRET;
}

static bool settings_is_secret(const struct setting *s)
{
    return s->type == SETTING_URL || s->type == SETTING_SECRET;
}

static int64_t *settings_number(const struct setting *s, const void *target)
{
    return (int64_t *)(void *)((char *)(uintptr_t)target + s->offset);
}

/* The name of a kind of value; of a number how errors describe it, and its units. */
static const struct {
    const char *name, *expected;
    const struct units *units;
} KINDS[] = {
    [SETTING_TEXT] = {"TEXT", NULL, NULL},
    [SETTING_PATH] = {"FILE", NULL, NULL},
    [SETTING_URL] = {"URL", NULL, NULL},
    [SETTING_SECRET] = {"TEXT", NULL, NULL},
    [SETTING_COUNT] = {"NUMBER", "a whole number", &text_counts},
    [SETTING_SIZE] = {"SIZE", "a size, such as 65536 or 64MiB,", &text_sizes},
    [SETTING_DURATION] = {"DURATION", "a duration, such as 500ms or 30s,", &text_durations},
};

int settings_reject(const struct settings_args *args, const char *name, struct buf *error, const char *what)
{
    settings_write_source(error, args, name);
    buf_printf(error, ": %s", what);
    return -EINVAL;
}

static int settings_parse_choice(const char *choices, struct span text, int64_t *out)
{
    struct span rest = span_of(choices);
    for (*out = 0; rest.len > 0; ++*out)
        if (span_equal(span_cut(&rest, '|'), text))
            return 0;
    return -EINVAL;
}

static void settings_write_choice(struct buf *out, const char *choices, int64_t which)
{
    while (which-- > 0)
        choices += strcspn(choices, "|") + 1;
    buf_append(out, choices, strcspn(choices, "|"));
}

static void settings_write_number(struct buf *out, const struct setting *s, int64_t value)
{
    struct span unit = unit_of(KINDS[s->type].units, &value);
    buf_append_int(out, value);
    buf_append_span(out, unit);
}

static int settings_set_number(const struct settings_args *a, const struct setting *s, const char *text,
                               struct buf *error)
{
    int64_t value = 0;
    bool is_choice = s->type == SETTING_CHOICE;
    int err = is_choice ? settings_parse_choice(s->choices, span_of(text), &value)
                        : parse_amount(span_of(text), KINDS[s->type].units, &value);
    if (err != 0) {
        (void)settings_reject(a, s->name, error, is_choice ? s->choices : KINDS[s->type].expected);
        buf_append_str(error, " is expected");
        return -EINVAL;
    }
    if (!is_choice && (value < s->min || value > s->max)) {
        (void)settings_reject(a, s->name, error, "must be at least ");
        settings_write_number(error, s, s->min);
        buf_append_str(error, " and at most ");
        settings_write_number(error, s, s->max);
        return -EINVAL;
    }
    *settings_number(s, a->target) = value;
    return 0;
}

static void settings_free_text(char *text)
{
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    free(text);
}

static int settings_set_value(const struct settings_args *a, const struct setting *s, const char *text,
                              struct buf *error)
{
    /* As a file of several lines gives it, or a tool that adds a newline. Redis would refuse such a password.
     */
    if (settings_is_secret(s) && strpbrk(text, "\r\n") != NULL)
        return settings_reject(a, s->name, error, "contains a line end");
    if (!settings_is_text(s))
        return settings_set_number(a, s, text, error);
    char *copy = strdup(text);
    if (copy == NULL)
        return -ENOMEM;
    settings_free_text(*settings_text(s, a->target));
    *settings_text(s, a->target) = copy;
    return 0; /* ANALYZER(malloc-leak): the slot is a member of the target, reached by its offset */
}

/* A file that is being written is empty first. */
static bool settings_is_emptied(const struct settings_args *a, const struct setting *s, const char *text)
{
    const char *last = settings_is_text(s) ? *settings_text(s, a->target) : NULL;
    return *text == '\0' && last != NULL && *last != '\0';
}

static int settings_read_file(const struct settings_args *a, const struct setting *s, struct buf *error)
{
    const char *path = a->source[s - a->usage->table].file;
    char text[FILE_VALUE_MAX + 1] = "";
    ssize_t n = file_read(path, text, sizeof text);
    if (n > FILE_VALUE_MAX)
        n = -EFBIG;
    int err = 0;
    if (n < 0) {
        err = settings_reject(a, s->name, error, "cannot read ");
        /* The value itself may have been given instead of its file. */
        buf_printf(error, "%s: %s", settings_is_secret(s) ? "the file" : path, strerror((int)-n));
    } else if (strnlen(text, sizeof text) != (size_t)n) {
        err = settings_reject(a, s->name, error, "the file holds a NUL byte");
    } else {
        if (n > 0 && text[n - 1] == '\n')
            text[n > 1 && text[n - 2] == '\r' ? n - 2 : n - 1] = '\0';
        err = settings_is_emptied(a, s, text) ? settings_reject(a, s->name, error, "the file is empty")
                                              : settings_set_value(a, s, text, error);
    }
    explicit_bzero(text, sizeof text);
    return err;
}

static int settings_read_source(const struct settings_args *a, const struct setting *s,
                                struct settings_source *source, struct buf *error)
{
    char name[NAME_SIZE];
    if (!source->is_flag) {
        source->text = getenv(settings_spell(s, false, false, name));
        source->file = s->from_file ? getenv(settings_spell(s, false, true, name)) : NULL;
    }
    if (source->file == NULL)
        return settings_set_value(a, s, source->text != NULL ? source->text : s->fallback, error);
    return source->text == NULL ? 0
                                : settings_reject(a, s->name, error, "give the value or its file, not both");
}

/* Where the value of a flag goes; NULL: no flag has this name. *plain becomes a flag that is not a setting.
 */
static const char **settings_find_flag(struct settings_args *a, struct span name,
                                       const struct settings_flag **plain)
{
    for (const struct settings_flag *f = a->usage->flags; f < a->usage->flags + a->usage->flag_count; f++)
        if (span_equal(name, span_of(f->name))) {
            *plain = f;
            return &a->flag[f - a->usage->flags];
        }
    bool is_file = false;
    const struct setting *s = settings_find(a->usage, name, true, &is_file);
    if (s == NULL)
        return NULL;
    struct settings_source *source = &a->source[s - a->usage->table];
    source->is_flag = true;
    return is_file ? &source->file : &source->text;
}

/* Parses the flag argv[*at]; *at moves to its last word. */
static int settings_read_flag(struct settings_args *a, int *at, struct buf *error)
{
    const char *word = strcmp(a->argv[*at], "-h") == 0 ? "--help" : a->argv[*at];
    const struct span name = {word, strcspn(word, "=")};
    const char *value = word[name.len] == '=' ? word + name.len + 1 : NULL;
    const struct settings_flag *plain = NULL;
    const char **to = settings_find_flag(a, name, &plain);
    bool takes_value = to != NULL && (plain == NULL || plain->value != NULL);
    if (takes_value && value == NULL && *at + 1 < a->argc &&
        (plain == NULL || strncmp(a->argv[*at + 1], "--", 2) != 0))
        value = a->argv[++*at];
    if (to == NULL || takes_value != (value != NULL)) {
        buf_printf(error, "%.*s: %s", (int)name.len, name.data,
                   takes_value ? "needs a value" : "unknown option");
        return -EINVAL;
    }
    *to = value != NULL ? value : "";
    return 0;
}

static int settings_read_words(struct settings_args *a, struct buf *error)
{
    int words = 0;
    bool flags = true;
    for (int i = 1; i < a->argc; i++) {
        char *word = a->argv[i];
        bool is_flag = flags && (strncmp(word, "--", 2) == 0 || strcmp(word, "-h") == 0);
        if (!is_flag) {
            a->argv[i] = a->argv[words];
            a->argv[words++] = word;
        } else if (strcmp(word, "--") == 0) {
            flags = false;
        } else if (settings_read_flag(a, &i, error) != 0) {
            return -EINVAL;
        }
    }
    return words;
}

int settings_read(struct settings_args *a, struct buf *error)
{
    assert(a->usage->count <= SETTINGS_ROWS_MAX && a->usage->flag_count <= SETTINGS_FLAGS_MAX);
    int words = settings_read_words(a, error);
    for (size_t i = 0; i < a->usage->count && words >= 0; i++) {
        int err = settings_read_source(a, &a->usage->table[i], &a->source[i], error);
        words = err != 0 ? err : words;
    }
    return words;
}

int settings_read_files(const struct settings_args *a, bool again, struct buf *error)
{
    int err = 0;
    for (size_t i = 0; i < a->usage->count && err == 0; i++)
        if (a->source[i].file != NULL && !(again && file_is_stream(a->source[i].file)))
            err = settings_read_file(a, &a->usage->table[i], error);
    return err;
}

/* --- unknown variables --- */

/*
 * For a Service called NAME Kubernetes sets NAME_SERVICE_HOST, NAME_SERVICE_PORT, ..._PORT_HTTP,
 * NAME_PORT=tcp://10.0.0.1:8080, NAME_PORT_8080_TCP, ..._TCP_ADDR and so on.
 */
static bool settings_is_service_link(const char *variable)
{
    return strstr(variable, "_SERVICE_") != NULL || strstr(variable, "_PORT_") != NULL ||
           (strstr(variable, "_PORT=") != NULL && strstr(variable, "://") != NULL);
}

static bool settings_is_variable(const struct usage *u, struct span name)
{
    bool is_file = false;
    for (struct span rest = span_of(u->others); rest.len > 0;)
        if (span_equal(span_cut(&rest, ' '), name))
            return true;
    return settings_find(u, name, false, &is_file) != NULL;
}

bool settings_next_unknown(const struct usage *u, struct span prefix, size_t *at, struct buf *warning)
{
    while (environ != NULL && environ[*at] != NULL) {
        const char *variable = environ[(*at)++];
        struct span name = {variable, strcspn(variable, "=")};
        if (!span_starts_with(name, prefix) || settings_is_service_link(variable) ||
            settings_is_variable(u, name))
            continue;
        buf_clear(warning);
        buf_append_span(warning, name);
        buf_append_str(warning, ": no such setting");
        return true;
    }
    return false;
}

void settings_write_source(struct buf *out, const struct settings_args *args, const char *name)
{
    const struct setting *s = args->usage->table;
    while (strcmp(s->name, name) != 0)
        s++;
    const struct settings_source *source = &args->source[s - args->usage->table];
    char spelt[NAME_SIZE];
    buf_append_str(out, settings_spell(s, source->is_flag, source->file != NULL, spelt));
}

void settings_fini(const struct usage *u, void *target)
{
    for (const struct setting *s = u->table; s < u->table + u->count; s++) {
        if (!settings_is_text(s))
            continue;
        settings_free_text(*settings_text(s, target));
        *settings_text(s, target) = NULL;
    }
}

/* --- printing values --- */

static const char MASK[] = "********";

/* Everything between the first colon and the last at-sign is masked: a password may have a slash that should
 * have been encoded. */
static void settings_write_url(struct buf *out, const char *url)
{
    const char *scheme = strstr(url, "://");
    const char *colon = strchr(scheme != NULL ? scheme + 3 : url, ':');
    const char *at = strrchr(url, '@');
    if (colon != NULL && at != NULL && at > colon)
        buf_printf(out, "%.*s%s%s", (int)(colon + 1 - url), url, MASK, at);
    else
        buf_append_str(out, url);
}

void settings_write_values(const struct usage *u, const void *target, struct buf *out)
{
    for (const struct setting *s = u->table; s < u->table + u->count; s++) {
        buf_printf(out, "%s = ", s->name);
        if (s->type == SETTING_CHOICE)
            settings_write_choice(out, s->choices, *settings_number(s, target));
        else if (!settings_is_text(s))
            settings_write_number(out, s, *settings_number(s, target));
        else if (s->type == SETTING_URL)
            settings_write_url(out, *settings_text(s, target));
        else if (s->type == SETTING_SECRET && **settings_text(s, target) != '\0')
            buf_append_str(out, MASK);
        else
            buf_append_str(out, *settings_text(s, target));
        buf_append_char(out, '\n');
    }
}

/* --- printing help --- */

static void usage_write_setting(struct buf *out, const struct setting *s)
{
    char variable[NAME_SIZE];
    (void)settings_spell(s, false, false, variable);
    buf_printf(out, "  --%s %s\n      %s", s->name,
               s->type == SETTING_CHOICE ? s->choices : KINDS[s->type].name, variable);
    if (s->from_file)
        buf_printf(out, ", or from a file by %s_FILE", variable);
    buf_printf(out, "\n      %s [%s", s->help, s->fallback[0] != '\0' ? s->fallback : "none");
    if (s->max > 0) {
        buf_append_str(out, "; ");
        settings_write_number(out, s, s->min);
        buf_append_str(out, " to ");
        settings_write_number(out, s, s->max);
    }
    buf_append_str(out, "]\n");
}

/* Writes these flags, each between `before` and `after`, and with its help in a line of its own. */
static void usage_write_flags(struct buf *out, const struct usage *u, unsigned flags, const char *before,
                              const char *after, bool help)
{
    for (const struct settings_flag *f = u->flags; f < u->flags + u->flag_count; f++) {
        if ((flags >> (f - u->flags) & 1U) == 0)
            continue;
        buf_printf(out, "%s%s%s%s%s", before, f->name, f->value != NULL ? " " : "",
                   f->value != NULL ? f->value : "", after);
        if (help)
            buf_printf(out, "\n      %s\n", f->help);
    }
}

void usage_write_call(const struct usage *u, const struct usage_command *c, struct buf *out)
{
    buf_append_str(out, c->name);
    usage_write_flags(out, u, c->needs, " ", "", false);
    if (c->argument != NULL)
        buf_printf(out, " %s", c->argument);
    usage_write_flags(out, u, c->takes, " [", "]", false);
}

void usage_write_help(const struct usage *u, unsigned commands, struct buf *out)
{
    unsigned flags = 0;
    if (commands == USAGE_ALL)
        buf_printf(out, "%s: %s\n\n", u->program, u->summary);
    buf_printf(out, "usage: %s %s\n\n", u->program, u->synopsis);
    for (size_t i = 0; i < u->command_count; i++) {
        const struct usage_command *c = &u->commands[i];
        if ((commands >> i & 1U) == 0)
            continue;
        buf_append_str(out, "  ");
        usage_write_call(u, c, out);
        buf_printf(out, "\n      %s\n", c->help);
        flags |= c->needs | c->takes;
    }
    if (flags != 0)
        buf_append_str(out, "\nFlags of these commands:\n");
    usage_write_flags(out, u, flags, "  ", "", true);
    if (u->command_count > 0)
        buf_append_char(out, '\n');
    if (commands != USAGE_ALL) {
        buf_printf(out, "%s --help has the settings, the exit codes and the other commands.\n", u->program);
        return;
    }
    usage_write_flags(out, u, ~flags, "  ", "", true);
    buf_printf(out, "\nExit codes: %s.\n\n", u->exits);
    buf_append_str(out, "Each setting is a flag or an environment variable; the flag wins. Defaults are in "
                        "brackets.\n\n");
    for (const struct setting *s = u->table; s < u->table + u->count; s++)
        usage_write_setting(out, s);
}
