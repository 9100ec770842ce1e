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

/* One reading. */
struct reader {
    const struct settings *settings;
    const struct settings_args *args;
    char *target;
    struct buf *error;
};

static bool settings_is_text(const struct setting *s)
{
    return s->type <= SETTING_SECRET;
}

static bool settings_is_secret(const struct setting *s)
{
    return s->type == SETTING_URL || s->type == SETTING_SECRET;
}

/* The name of a kind of value, and how errors describe it. */
static const struct {
    const char *name, *expected;
} KINDS[] = {[SETTING_TEXT] = {"TEXT", NULL},
             [SETTING_PATH] = {"FILE", NULL},
             [SETTING_URL] = {"URL", NULL},
             [SETTING_SECRET] = {"TEXT", NULL},
             [SETTING_COUNT] = {"NUMBER", "a whole number"},
             [SETTING_SIZE] = {"SIZE", "a size, such as 65536 or 64MiB,"},
             [SETTING_DURATION] = {"DURATION", "a duration, such as 500ms or 30s,"}};

const char *settings_kind(const struct setting *s)
{
    return s->type == SETTING_CHOICE ? s->choices : KINDS[s->type].name;
}

/* A value and its name in errors. */
struct source {
    const char *called;
    const char *value;
};

static int settings_fail(const struct reader *r, const char *called, const char *what)
{
    buf_printf(r->error, "%s: %s", called, what);
    return -EINVAL;
}

static int settings_set_text(const struct reader *r, const struct setting *s, const char *value)
{
    char *copy = strdup(value);
    if (copy == NULL)
        return -ENOMEM;
    char **slot = (char **)(void *)(r->target + s->offset);
    free(*slot);
    *slot = copy;
    return 0; /* ANALYZER(malloc-leak): the slot is a member of the target, reached by its offset */
}

/* *out: which of the words it is. */
static int settings_parse_choice(const char *choices, struct span text, int64_t *out)
{
    struct span rest = span_of(choices);
    for (*out = 0; rest.len > 0; ++*out)
        if (span_equal(span_cut(&rest, '|'), text))
            return 0;
    return -EINVAL;
}

static int settings_parse_number(const struct setting *s, struct span text, int64_t *out)
{
    if (s->type == SETTING_CHOICE)
        return settings_parse_choice(s->choices, text, out);
    if (s->type == SETTING_DURATION)
        return parse_duration_ms(text, out);
    if (s->type == SETTING_SIZE)
        return parse_size(text, out);
    return parse_int64(text, out);
}

static int settings_set_number(const struct reader *r, const struct setting *s, struct source from)
{
    int64_t value = 0;
    if (settings_parse_number(s, span_of(from.value), &value) != 0) {
        buf_printf(r->error, "%s: %s is expected", from.called,
                   s->type == SETTING_CHOICE ? s->choices : KINDS[s->type].expected);
        return -EINVAL;
    }
    if (value < s->min || (s->max != 0 && value > s->max)) {
        buf_printf(r->error, "%s: must be at least ", from.called);
        settings_write_number(r->error, s, s->min);
        if (s->max != 0) {
            buf_append_str(r->error, " and at most ");
            settings_write_number(r->error, s, s->max);
        }
        return -EINVAL;
    }
    memcpy(r->target + s->offset, &value, sizeof value);
    return 0;
}

static int settings_set_value(const struct reader *r, const struct setting *s, struct source from)
{
    /* As a file of several lines gives it, or a tool that adds a newline. Redis would refuse such a password.
     */
    if (settings_is_secret(s) && strpbrk(from.value, "\r\n") != NULL)
        return settings_fail(r, from.called, "contains a line end");
    if (settings_is_text(s))
        return settings_set_text(r, s, from.value);
    return settings_set_number(r, s, from);
}

/* The length of `text` without its newline, which is LF or CR LF. */
static size_t settings_length_without_newline(const char *text, size_t n)
{
    if (n == 0 || text[n - 1] != '\n')
        return n;
    n--;
    return n > 0 && text[n - 1] == '\r' ? n - 1 : n;
}

static int settings_set_from_file(const struct reader *r, const struct setting *s, struct source path)
{
    char *text = calloc(FILE_VALUE_MAX + 1, 1);
    if (text == NULL)
        return -ENOMEM;
    ssize_t n = file_read(path.value, 0, text, FILE_VALUE_MAX + 1);
    if (n > FILE_VALUE_MAX)
        n = -EFBIG;
    if (n < 0) {
        /* The value itself may have been given instead of its file. */
        buf_printf(r->error, "%s: cannot read %s: %s", path.called,
                   settings_is_secret(s) ? "the file" : path.value, strerror((int)-n));
        free(text);
        return -EINVAL;
    }
    n = (ssize_t)settings_length_without_newline(text, (size_t)n);
    text[n] = '\0';
    int err = strlen(text) == (size_t)n ? settings_set_value(r, s, (struct source){path.called, text})
                                        : settings_fail(r, path.called, "the file holds a NUL byte");
    explicit_bzero(text, FILE_VALUE_MAX + 1);
    free(text);
    return err;
}

/* Reads the file of the i-th setting, which has one. */
static int settings_read_file(const struct reader *r, size_t i)
{
    const struct setting *s = &r->settings->table[i];
    struct buf called = BUF_INIT;
    settings_write_source(&called, r->settings, r->args, s->name);
    const char *name = buf_c_str(&called);
    int err = name != NULL ? settings_set_from_file(r, s, (struct source){name, r->args->file[i]}) : -ENOMEM;
    buf_fini(&called);
    return err;
}

static int settings_read_variable_or_default(const struct reader *r, struct settings_args *args, size_t i)
{
    const struct setting *s = &r->settings->table[i];
    char name[ENV_NAME_MAX];
    char file_name[ENV_NAME_MAX];
    settings_env_name(r->settings, s, "", name);
    settings_env_name(r->settings, s, "_FILE", file_name);
    const char *value = getenv(name);
    const char *path = s->from_file ? getenv(file_name) : NULL;
    if (value != NULL && path != NULL) {
        buf_printf(r->error, "%s and %s: set one of them, not both", name, file_name);
        return -EINVAL;
    }
    if (path != NULL) {
        args->source[i] = SETTING_VARIABLE_FILE;
        args->file[i] = path;
        return 0;
    }
    if (value != NULL) {
        args->source[i] = SETTING_VARIABLE;
        return settings_set_value(r, s, (struct source){name, value});
    }
    return settings_set_value(r, s, (struct source){s->name, s->fallback});
}

/* Finds the setting by the name of its flag, without hyphens; *is_file: it is the -file form. */
static const struct setting *settings_find_flag(const struct settings *all, struct span name, bool *is_file)
{
    static const struct span suffix = {"-file", 5};
    for (size_t i = 0; i < all->count; i++) {
        const struct setting *s = &all->table[i];
        struct span own = span_of(s->name);
        *is_file = false;
        if (span_equal(name, own))
            return s;
        *is_file = s->from_file && name.len == own.len + suffix.len && span_starts_with(name, own) &&
                   span_equal(span_skip(name, own.len), suffix);
        if (*is_file)
            return s;
    }
    return NULL;
}

/* Returns 1 if argv[*at] is a flag that is not a setting, 0, or -EINVAL; *at moves to its last word. */
static int settings_read_plain_flag(const struct reader *r, struct settings_args *args, int *at)
{
    const char *word = strcmp(args->argv[*at], "-h") == 0 ? "--help" : args->argv[*at];
    for (size_t i = 0; i < args->flag_count; i++) {
        const struct settings_flag *f = &args->flags[i];
        size_t length = strlen(f->name);
        const char *rest = strncmp(word, f->name, length) == 0 ? word + length : NULL;
        if (rest == NULL || (*rest != '\0' && (*rest != '=' || f->value == NULL)))
            continue;
        bool is_separate = f->value != NULL && *rest == '\0';
        if (is_separate && (*at + 1 >= args->argc || strncmp(args->argv[*at + 1], "--", 2) == 0))
            return settings_fail(r, f->name, "needs a value");
        args->flag[i] = is_separate ? args->argv[++*at] : *rest == '=' ? rest + 1 : "";
        return 1;
    }
    return 0;
}

/* Parses the flag argv[*at]; *at moves to its last word. */
static int settings_read_flag(const struct reader *r, struct settings_args *args, int *at)
{
    int plain = settings_read_plain_flag(r, args, at);
    if (plain != 0)
        return plain > 0 ? 0 : plain;
    struct span name = span_of(args->argv[*at] + 2);
    name.len = span_find(name, '=');
    bool is_file = false;
    const struct setting *s = settings_find_flag(r->settings, name, &is_file);
    if (s == NULL) {
        buf_printf(r->error, "--%.*s: unknown option", (int)name.len, name.data);
        return -EINVAL;
    }
    char called[ENV_NAME_MAX];
    (void)snprintf(called, sizeof called, "--%.*s", (int)name.len, name.data);
    const char *value = name.data[name.len] == '=' ? name.data + name.len + 1 : NULL;
    if (value == NULL && *at + 1 < args->argc)
        value = args->argv[++*at];
    if (value == NULL)
        return settings_fail(r, called, "needs a value");
    unsigned char *source = &args->source[s - r->settings->table];
    if (*source == (is_file ? SETTING_FLAG : SETTING_FLAG_FILE))
        return settings_fail(r, called, "give the value or its file, not both");
    *source = is_file ? SETTING_FLAG_FILE : SETTING_FLAG;
    args->file[s - r->settings->table] = is_file ? value : NULL;
    return is_file ? 0 : settings_set_value(r, s, (struct source){called, value});
}

/* Returns the number of words that are not flags, or a negative errno. */
static int settings_read_words(const struct reader *r, struct settings_args *args)
{
    int words = 0;
    bool flags = true;
    for (int i = 1; i < args->argc; i++) {
        char *word = args->argv[i];
        int err = 0;
        if (flags && strcmp(word, "--") == 0)
            flags = false;
        else if (flags && (strncmp(word, "--", 2) == 0 || strcmp(word, "-h") == 0))
            err = settings_read_flag(r, args, &i);
        else {
            args->argv[i] = args->argv[words];
            args->argv[words++] = word;
        }
        if (err != 0)
            return err;
    }
    return words;
}

int settings_read(const struct settings *s, void *target, struct settings_args *args, struct buf *error)
{
    const struct reader r = {s, args, target, error};
    assert(s->count <= SETTINGS_ROWS_MAX && args->flag_count <= SETTINGS_FLAGS_MAX);
    int words = settings_read_words(&r, args);
    for (size_t i = 0; i < s->count && words >= 0; i++) {
        int err = args->source[i] == SETTING_DEFAULT ? settings_read_variable_or_default(&r, args, i) : 0;
        words = err != 0 ? err : words;
    }
    return words;
}

int settings_read_files(const struct settings *s, void *target, const struct settings_args *args,
                        struct buf *error)
{
    const struct reader r = {s, args, target, error};
    int err = 0;
    for (size_t i = 0; i < s->count && err == 0; i++)
        if (args->file[i] != NULL)
            err = settings_read_file(&r, i);
    return err;
}

/* --- reading again --- */

static int settings_copy_value(const struct reader *r, const struct setting *s, const char *slot)
{
    const char *text = NULL;
    if (settings_is_text(s)) {
        memcpy(&text, slot, sizeof text);
        return settings_set_text(r, s, text);
    }
    memcpy(r->target + s->offset, slot, sizeof(int64_t));
    return 0;
}

/* A file that is being written is empty first. */
static int settings_check_emptied(const struct reader *r, const struct setting *s, const char *slot)
{
    const char *last = NULL;
    const char *now = NULL;
    if (!settings_is_text(s))
        return 0;
    memcpy(&last, slot, sizeof last);
    memcpy(&now, r->target + s->offset, sizeof now);
    if (*now != '\0' || *last == '\0')
        return 0;
    settings_write_source(r->error, r->settings, r->args, s->name);
    buf_append_str(r->error, ": the file is empty");
    return -EINVAL;
}

int settings_read_again(const struct settings *s, struct settings_part part, const void *last,
                        const struct settings_args *args, void *target, struct buf *error)
{
    const struct reader r = {s, args, target, error};
    int err = 0;
    for (size_t i = 0; i < s->count && err == 0; i++) {
        const struct setting *one = &s->table[i];
        const char *slot = (const char *)last + one->offset;
        if (!settings_is_in(part, one))
            continue;
        bool is_read = args->file[i] != NULL && !file_is_stream(args->file[i]);
        err = is_read ? settings_read_file(&r, i) : settings_copy_value(&r, one, slot);
        if (err == 0 && is_read)
            err = settings_check_emptied(&r, one, slot);
    }
    return err;
}

/* --- unknown variables --- */

static bool settings_ends_with(struct span text, struct span end)
{
    return text.len >= end.len && span_equal(span_skip(text, text.len - end.len), end);
}

/*
 * For a Service called NAME Kubernetes sets NAME_SERVICE_HOST, NAME_SERVICE_PORT, ..._PORT_HTTP,
 * NAME_PORT=tcp://10.0.0.1:8080, NAME_PORT_8080_TCP, ..._TCP_ADDR and so on.
 */
static bool settings_is_service_link(struct span name, struct span value)
{
    if (settings_ends_with(name, SPAN("_SERVICE_HOST")) ||
        memmem(name.data, name.len, "_SERVICE_PORT", 13) != NULL)
        return true;
    if (settings_ends_with(name, SPAN("_PORT")) && memmem(value.data, value.len, "://", 3) != NULL)
        return true;
    const char *port = memmem(name.data, name.len, "_PORT_", 6);
    return port != NULL && ascii_is_digit(port[6]);
}

static bool settings_is_variable(const struct settings *s, struct span name)
{
    for (size_t i = 0; i < s->count; i++) {
        char known[ENV_NAME_MAX];
        settings_env_name(s, &s->table[i], "", known);
        if (span_equal(name, span_of(known)))
            return true;
        settings_env_name(s, &s->table[i], "_FILE", known);
        if (s->table[i].from_file && span_equal(name, span_of(known)))
            return true;
    }
    return false;
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

void settings_write_source(struct buf *out, const struct settings *s, const struct settings_args *args,
                           const char *name)
{
    size_t i = 0;
    while (i < s->count && strcmp(s->table[i].name, name) != 0)
        i++;
    assert(i < s->count);
    enum setting_source source = (enum setting_source)args->source[i];
    bool is_file = source == SETTING_FLAG_FILE || source == SETTING_VARIABLE_FILE;
    char variable[ENV_NAME_MAX];
    settings_env_name(s, &s->table[i], is_file ? "_FILE" : "", variable);
    if (source == SETTING_FLAG || source == SETTING_FLAG_FILE)
        buf_printf(out, "--%s%s", name, is_file ? "-file" : "");
    else
        buf_append_str(out, variable);
}

void settings_fini(const struct settings *s, void *target)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct setting *one = &s->table[i];
        if (!settings_is_text(one))
            continue;
        char **slot = (char **)(void *)((char *)target + one->offset);
        if (*slot != NULL)
            explicit_bzero(*slot, strlen(*slot));
        free(*slot);
        *slot = NULL;
    }
}

/* --- printing --- */

static const char MASK[] = "********";

void settings_write_help(const struct settings *s, struct buf *out)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct setting *one = &s->table[i];
        char variable[ENV_NAME_MAX];
        settings_env_name(s, one, "", variable);
        buf_printf(out, "  --%s %s\n      %s", one->name, settings_kind(one), variable);
        if (one->from_file)
            buf_printf(out, ", or from a file by %s_FILE", variable);
        buf_printf(out, "\n      %s [%s]\n", one->help, one->fallback[0] != '\0' ? one->fallback : "none");
    }
}

/*
 * `scheme://user:password@host`: everything between the first colon and the last at-sign is masked, so that a
 * password with a slash that should have been encoded is not shown either.
 */
static void settings_write_url(struct buf *out, const char *url)
{
    const char *authority = strstr(url, "://");
    authority = authority == NULL ? url : authority + 3;
    const char *at = authority + strlen(authority);
    while (at > authority && at[-1] != '@')
        at--;
    if (at == authority) {
        buf_append_str(out, url);
        return;
    }
    const char *colon = memchr(authority, ':', (size_t)(at - authority));
    const char *secret = colon == NULL ? at - 1 : colon + 1;
    buf_append(out, url, (size_t)(secret - url));
    if (colon != NULL)
        buf_append_str(out, MASK);
    buf_append_str(out, at - 1);
}

static void settings_write_choice(struct buf *out, const char *choices, int64_t which)
{
    while (which-- > 0)
        choices += strcspn(choices, "|") + 1;
    buf_append(out, choices, strcspn(choices, "|"));
}

void settings_write_number(struct buf *out, const struct setting *s, int64_t value)
{
    struct span unit = SPAN("");
    if (s->type == SETTING_CHOICE) {
        settings_write_choice(out, s->choices, value);
        return;
    }
    if (s->type == SETTING_SIZE)
        unit = size_unit(&value);
    else if (s->type == SETTING_DURATION)
        unit = duration_unit(&value);
    buf_append_int(out, value);
    buf_append_span(out, unit);
}

void settings_write_value(struct buf *out, const struct setting *s, const void *target)
{
    const char *slot = (const char *)target + s->offset;
    int64_t number = 0;
    const char *text = NULL;
    if (!settings_is_text(s)) {
        memcpy(&number, slot, sizeof number);
        settings_write_number(out, s, number);
        return;
    }
    memcpy(&text, slot, sizeof text);
    if (s->type == SETTING_URL)
        settings_write_url(out, text);
    else
        buf_append_str(out, s->type == SETTING_SECRET && text[0] != '\0' ? MASK : text);
}

void settings_write_values(const struct settings *s, const void *target, struct buf *out)
{
    for (size_t i = 0; i < s->count; i++) {
        buf_printf(out, "%s = ", s->table[i].name);
        settings_write_value(out, &s->table[i], target);
        buf_append_char(out, '\n');
    }
}
