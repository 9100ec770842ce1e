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

enum { FILE_VALUE_MAX = 64 * 1024, ENV_NAME_MAX = 128 };

static void settings_env_name(const struct settings *all, const struct setting *s, const char *suffix,
                              char out[ENV_NAME_MAX])
{
    (void)snprintf(out, ENV_NAME_MAX, "%s%s%s", all->env_prefix, s->name, suffix);
    for (char *p = out; *p != '\0'; p++)
        *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
}

static bool settings_ends_with(struct span text, struct span end)
{
    return text.len >= end.len && span_equal(span_skip(text, text.len - end.len), end);
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

/* The name of a kind of value; how errors describe it, and how it is read and written, if it is a number. */
static const struct {
    const char *name, *expected;
    int (*parse)(struct span text, int64_t *out);
    struct span (*unit)(int64_t *value); /* NULL: it has none */
} KINDS[] = {
    [SETTING_TEXT] = {"TEXT", NULL, NULL, NULL},
    [SETTING_PATH] = {"FILE", NULL, NULL, NULL},
    [SETTING_URL] = {"URL", NULL, NULL, NULL},
    [SETTING_SECRET] = {"TEXT", NULL, NULL, NULL},
    [SETTING_COUNT] = {"NUMBER", "a whole number", parse_int64, NULL},
    [SETTING_SIZE] = {"SIZE", "a size, such as 65536 or 64MiB,", parse_size, size_unit},
    [SETTING_DURATION] = {"DURATION", "a duration, such as 500ms or 30s,", parse_duration_ms, duration_unit},
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
    if (s->type == SETTING_CHOICE) {
        settings_write_choice(out, s->choices, value);
        return;
    }
    struct span unit = KINDS[s->type].unit != NULL ? KINDS[s->type].unit(&value) : SPAN("");
    buf_append_int(out, value);
    buf_append_span(out, unit);
}

static int settings_set_number(const struct settings_args *a, const struct setting *s, const char *text,
                               struct buf *error)
{
    int64_t value = 0;
    bool is_choice = s->type == SETTING_CHOICE;
    int err = is_choice ? settings_parse_choice(s->choices, span_of(text), &value)
                        : KINDS[s->type].parse(span_of(text), &value);
    if (err != 0) {
        (void)settings_reject(a, s->name, error, is_choice ? s->choices : KINDS[s->type].expected);
        buf_append_str(error, " is expected");
        return -EINVAL;
    }
    if (value < s->min || (s->max != 0 && value > s->max)) {
        (void)settings_reject(a, s->name, error, "must be at least ");
        settings_write_number(error, s, s->min);
        if (s->max != 0) {
            buf_append_str(error, " and at most ");
            settings_write_number(error, s, s->max);
        }
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
    const char *path = a->source[s - a->settings->table].file;
    char *text = calloc(FILE_VALUE_MAX + 1, 1);
    if (text == NULL)
        return -ENOMEM;
    ssize_t n = file_read(path, 0, text, FILE_VALUE_MAX + 1);
    if (n > FILE_VALUE_MAX)
        n = -EFBIG;
    int err = 0;
    if (n < 0) {
        err = settings_reject(a, s->name, error, "cannot read ");
        /* The value itself may have been given instead of its file. */
        buf_printf(error, "%s: %s", settings_is_secret(s) ? "the file" : path, strerror((int)-n));
    } else if (strlen(text) != (size_t)n) {
        err = settings_reject(a, s->name, error, "the file holds a NUL byte");
    } else {
        if (n > 0 && text[n - 1] == '\n')
            text[n > 1 && text[n - 2] == '\r' ? n - 2 : n - 1] = '\0';
        err = settings_is_emptied(a, s, text) ? settings_reject(a, s->name, error, "the file is empty")
                                              : settings_set_value(a, s, text, error);
    }
    explicit_bzero(text, FILE_VALUE_MAX + 1);
    free(text);
    return err;
}

/* A flag wins over variables, which are not read then. */
static int settings_read_source(const struct settings_args *a, const struct setting *s,
                                struct settings_source *source, struct buf *error)
{
    char name[ENV_NAME_MAX];
    if (!source->is_flag) {
        settings_env_name(a->settings, s, "", name);
        source->text = getenv(name);
        settings_env_name(a->settings, s, "_FILE", name);
        source->file = s->from_file ? getenv(name) : NULL;
    }
    if (source->file != NULL && source->text != NULL)
        return settings_reject(a, s->name, error, "give the value or its file, not both");
    if (source->file != NULL)
        return 0;
    return settings_set_value(a, s, source->text != NULL ? source->text : s->fallback, error);
}

/* The flag of this name that is not a setting, and takes a value if it `has_value`; NULL if there is none. */
static const struct settings_flag *settings_find_plain(const struct settings_args *args, struct span name,
                                                       bool has_value)
{
    for (const struct settings_flag *f = args->flags; f < args->flags + args->flag_count; f++)
        if (span_equal(name, span_of(f->name)) && (f->value != NULL || !has_value))
            return f;
    return NULL;
}

/* By the name of its flag, without hyphens; *is_file: it is the -file form. */
static const struct setting *settings_find(const struct settings *all, struct span name, bool *is_file)
{
    static const struct span suffix = {"-file", 5};
    const struct span base =
        settings_ends_with(name, suffix) ? (struct span){name.data, name.len - suffix.len} : SPAN_ABSENT;
    for (const struct setting *s = all->table; s < all->table + all->count; s++) {
        *is_file = s->from_file && span_equal(base, span_of(s->name));
        if (*is_file || span_equal(name, span_of(s->name)))
            return s;
    }
    return NULL;
}

/* Parses the flag argv[*at]; *at moves to its last word. */
static int settings_read_flag(struct settings_args *a, int *at, struct buf *error)
{
    const char *word = strcmp(a->argv[*at], "-h") == 0 ? "--help" : a->argv[*at];
    const struct span name = {word, strcspn(word, "=")};
    const char *value = word[name.len] == '=' ? word + name.len + 1 : NULL;
    bool is_file = false;
    const struct settings_flag *plain = settings_find_plain(a, name, value != NULL);
    const struct setting *s = plain == NULL ? settings_find(a->settings, span_skip(name, 2), &is_file) : NULL;
    bool takes_value = s != NULL || (plain != NULL && plain->value != NULL);
    if (takes_value && value == NULL && *at + 1 < a->argc &&
        (s != NULL || strncmp(a->argv[*at + 1], "--", 2) != 0))
        value = a->argv[++*at];
    if ((s == NULL && plain == NULL) || (takes_value && value == NULL)) {
        buf_printf(error, "%.*s: %s", (int)name.len, name.data,
                   takes_value ? "needs a value" : "unknown option");
        return -EINVAL;
    }
    if (s == NULL) {
        a->flag[plain - a->flags] = value != NULL ? value : "";
        return 0;
    }
    struct settings_source *source = &a->source[s - a->settings->table];
    source->is_flag = true;
    *(is_file ? &source->file : &source->text) = value;
    return 0;
}

/* Returns the number of words that are not flags, or a negative errno. */
static int settings_read_words(struct settings_args *a, struct buf *error)
{
    int words = 0;
    bool flags = true;
    for (int i = 1; i < a->argc; i++) {
        char *word = a->argv[i];
        int err = 0;
        if (flags && strcmp(word, "--") == 0)
            flags = false;
        else if (flags && (strncmp(word, "--", 2) == 0 || strcmp(word, "-h") == 0))
            err = settings_read_flag(a, &i, error);
        else {
            a->argv[i] = a->argv[words];
            a->argv[words++] = word;
        }
        if (err != 0)
            return err;
    }
    return words;
}

int settings_read(struct settings_args *a, struct buf *error)
{
    assert(a->settings->count <= SETTINGS_ROWS_MAX && a->flag_count <= SETTINGS_FLAGS_MAX);
    int words = settings_read_words(a, error);
    for (size_t i = 0; i < a->settings->count && words >= 0; i++) {
        int err = settings_read_source(a, &a->settings->table[i], &a->source[i], error);
        words = err != 0 ? err : words;
    }
    return words;
}

int settings_read_files(const struct settings_args *a, bool again, struct buf *error)
{
    int err = 0;
    for (size_t i = 0; i < a->settings->count && err == 0; i++)
        if (a->source[i].file != NULL && !(again && file_is_stream(a->source[i].file)))
            err = settings_read_file(a, &a->settings->table[i], error);
    return err;
}

/* --- unknown variables --- */

static bool settings_has(struct span text, struct span part)
{
    return memmem(text.data, text.len, part.data, part.len) != NULL;
}

/*
 * For a Service called NAME Kubernetes sets NAME_SERVICE_HOST, NAME_SERVICE_PORT, ..._PORT_HTTP,
 * NAME_PORT=tcp://10.0.0.1:8080, NAME_PORT_8080_TCP, ..._TCP_ADDR and so on.
 */
static bool settings_is_service_link(struct span name, struct span value)
{
    return settings_has(name, SPAN("_SERVICE_")) || settings_has(name, SPAN("_PORT_")) ||
           (settings_ends_with(name, SPAN("_PORT")) && settings_has(value, SPAN("://")));
}

static bool settings_is_variable(const struct settings *s, struct span name)
{
    char flag[ENV_NAME_MAX];
    bool is_file = false;
    for (struct span rest = span_of(s->others); rest.len > 0;)
        if (span_equal(span_cut(&rest, ' '), name))
            return true;
    name = span_skip(name, strlen(s->env_prefix));
    for (size_t i = 0; i < name.len && i < sizeof flag; i++) {
        char c = name.data[i];
        bool is_of_none = c == '-' || (c >= 'a' && c <= 'z');
        flag[i] = c == '_' ? '-' : is_of_none ? '_' : (char)tolower((unsigned char)c);
    }
    return name.len <= sizeof flag && settings_find(s, (struct span){flag, name.len}, &is_file) != NULL;
}

struct span settings_next_unknown(const struct settings *s, struct span prefix, size_t *at,
                                  struct buf *warning)
{
    while (environ != NULL && environ[*at] != NULL) {
        struct span entry = span_of(environ[(*at)++]);
        struct span name = {entry.data, span_find(entry, '=')};
        struct span value = span_skip(entry, name.len);
        if (!span_starts_with(name, prefix) || settings_is_service_link(name, value) ||
            settings_is_variable(s, name))
            continue;
        buf_clear(warning);
        buf_append_span(warning, name);
        buf_append_str(warning, ": no such setting");
        return name;
    }
    return SPAN_ABSENT;
}

void settings_write_source(struct buf *out, const struct settings_args *args, const char *name)
{
    const struct settings *s = args->settings;
    size_t i = 0;
    while (i < s->count && strcmp(s->table[i].name, name) != 0)
        i++;
    assert(i < s->count);
    bool is_file = args->source[i].file != NULL;
    char variable[ENV_NAME_MAX];
    settings_env_name(s, &s->table[i], is_file ? "_FILE" : "", variable);
    if (args->source[i].is_flag)
        buf_printf(out, "--%s%s", name, is_file ? "-file" : "");
    else
        buf_append_str(out, variable);
}

void settings_fini(const struct settings *s, void *target)
{
    for (const struct setting *one = s->table; one < s->table + s->count; one++) {
        if (!settings_is_text(one))
            continue;
        settings_free_text(*settings_text(one, target));
        *settings_text(one, target) = NULL;
    }
}

/* --- printing --- */

static const char MASK[] = "********";

void settings_write_help(const struct settings *s, struct buf *out)
{
    for (const struct setting *one = s->table; one < s->table + s->count; one++) {
        char variable[ENV_NAME_MAX];
        settings_env_name(s, one, "", variable);
        buf_printf(out, "  --%s %s\n      %s", one->name,
                   one->type == SETTING_CHOICE ? one->choices : KINDS[one->type].name, variable);
        if (one->from_file)
            buf_printf(out, ", or from a file by %s_FILE", variable);
        buf_printf(out, "\n      %s [%s", one->help, one->fallback[0] != '\0' ? one->fallback : "none");
        if (one->max > 0) {
            buf_append_str(out, "; ");
            settings_write_number(out, one, one->min);
            buf_append_str(out, " to ");
            settings_write_number(out, one, one->max);
        }
        buf_append_str(out, "]\n");
    }
}

/* Everything between the first colon and the last at-sign is masked: a password may have a slash that should
 * have been encoded. */
static void settings_write_url(struct buf *out, const char *url)
{
    const char *scheme = strstr(url, "://");
    const char *authority = scheme != NULL ? scheme + 3 : url;
    const char *at = strrchr(authority, '@');
    const char *colon = at != NULL ? memchr(authority, ':', (size_t)(at - authority)) : NULL;
    if (colon == NULL) {
        buf_append_str(out, url);
        return;
    }
    buf_append(out, url, (size_t)(colon + 1 - url));
    buf_append_str(out, MASK);
    buf_append_str(out, at);
}

static void settings_write_value(struct buf *out, const struct setting *s, const void *target)
{
    if (!settings_is_text(s))
        settings_write_number(out, s, *settings_number(s, target));
    else if (s->type == SETTING_URL)
        settings_write_url(out, *settings_text(s, target));
    else
        buf_append_str(out, s->type == SETTING_SECRET && **settings_text(s, target) != '\0'
                                ? MASK
                                : *settings_text(s, target));
}

void settings_write_values(const struct settings *s, const void *target, struct buf *out)
{
    for (size_t i = 0; i < s->count; i++) {
        buf_printf(out, "%s = ", s->table[i].name);
        settings_write_value(out, &s->table[i], target);
        buf_append_char(out, '\n');
    }
}
