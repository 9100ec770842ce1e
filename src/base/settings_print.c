/* `--help` and `--check` from the settings table; see settings.h. */
#include "base/settings.h"

#include <ctype.h>

static const char MASK[] = "********";

static void write_variable(struct buf *out, const char *name)
{
    buf_append_str(out, "CHANNELD_");
    for (; *name != '\0'; name++)
        buf_append_char(out, *name == '-' ? '_' : (char)toupper((unsigned char)*name));
}

void settings_write_help(const struct settings *s, struct buf *out)
{
    static const char *const kinds[] = {
        [SETTING_TEXT] = "TEXT",    [SETTING_URL] = "URL",   [SETTING_SECRET] = "TEXT",
        [SETTING_COUNT] = "NUMBER", [SETTING_SIZE] = "SIZE", [SETTING_DURATION] = "DURATION"};
    for (size_t i = 0; i < s->count; i++) {
        const struct setting *one = &s->table[i];
        buf_printf(out, "  --%s %s\n      ", one->name, kinds[one->type]);
        write_variable(out, one->name);
        if (one->from_file) {
            buf_append_str(out, ", or from a file by ");
            write_variable(out, one->name);
            buf_append_str(out, "_FILE");
        }
        buf_printf(out, "\n      %s [%s]\n", one->help, one->fallback[0] != '\0' ? one->fallback : "none");
    }
}

/*
 * `scheme://user:password@host`: the password is what stands between the first colon and the last at-sign,
 * wherever that is: a password with a slash that should have been encoded must not show either.
 */
static void write_url(struct buf *out, const char *url)
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

static void write_duration(struct buf *out, int64_t ms)
{
    if (ms % 1000 == 0)
        buf_printf(out, "%llds", (long long)(ms / 1000));
    else
        buf_printf(out, "%lldms", (long long)ms);
}

static void write_size(struct buf *out, int64_t bytes)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB"};
    unsigned unit = 0;
    while (unit < 3 && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    buf_printf(out, "%lld%s", (long long)bytes, units[unit]);
}

static void write_value(struct buf *out, const struct setting *s, const char *slot)
{
    int64_t number = 0;
    const char *text = NULL;
    if (s->type == SETTING_COUNT || s->type == SETTING_SIZE || s->type == SETTING_DURATION)
        memcpy(&number, slot, sizeof number);
    else
        memcpy(&text, slot, sizeof text);
    switch (s->type) {
    case SETTING_TEXT:
        buf_append_str(out, text);
        break;
    case SETTING_URL:
        write_url(out, text);
        break;
    case SETTING_SECRET:
        buf_append_str(out, text[0] == '\0' ? "" : MASK);
        break;
    case SETTING_COUNT:
        buf_append_int(out, number);
        break;
    case SETTING_SIZE:
        write_size(out, number);
        break;
    case SETTING_DURATION:
        write_duration(out, number);
        break;
    }
}

void settings_write_values(const struct settings *s, const void *target, struct buf *out)
{
    for (size_t i = 0; i < s->count; i++) {
        buf_printf(out, "%s = ", s->table[i].name);
        write_value(out, &s->table[i], (const char *)target + s->table[i].offset);
        buf_append_char(out, '\n');
    }
}
