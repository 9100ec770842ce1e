/*
 * Settings from flags and environment, driven by a table.
 *
 * A setting `redis-url` is the flag `--redis-url VALUE` (or `--redis-url=VALUE`) and the environment variable
 * CHANNELD_REDIS_URL; flags win. Where the table allows it the value can come from a file instead, named by
 * `--redis-url-file` or CHANNELD_REDIS_URL_FILE (one trailing newline is not part of it); giving both at the
 * same level is an error. The same table makes `--help` and `--check`, so that they cannot disagree with what
 * is read.
 */
#ifndef BASE_SETTINGS_H
#define BASE_SETTINGS_H

#include "base/buf.h"

enum setting_type {
    SETTING_TEXT,     /* char *, owned */
    SETTING_URL,      /* char *, owned; the password in it is masked when printed */
    SETTING_SECRET,   /* char *, owned; masked when printed */
    SETTING_COUNT,    /* int64_t */
    SETTING_SIZE,     /* int64_t, bytes */
    SETTING_DURATION, /* int64_t, milliseconds */
};

struct setting {
    const char *name; /* lower case with hyphens */
    enum setting_type type;
    size_t offset;        /* of the value in the target struct */
    const char *fallback; /* the default, in the setting's own notation */
    int64_t min, max;     /* bounds of a number; max 0: no upper bound */
    bool from_file;       /* the _FILE forms are accepted */
    const char *help;     /* one line */
};

struct settings {
    const struct setting *table;
    size_t count;
};

/*
 * Reads argv[1..] and the environment into `target` (zeroed by the caller). What is no setting is left for
 * the caller: words go to `rest` (room for argc) and flags without value that are in `switches`
 * (NULL-terminated) set the bit of their place in *switched. "--" ends the flags. Returns the number of words
 * in `rest`, or -EINVAL with a message in `error` that names the setting, or -ENOMEM. settings_fini is due in
 * every case.
 */
int settings_read(const struct settings *s, void *target, int argc, char **argv, const char *const *switches,
                  unsigned *switched, char **rest, struct buf *error) __attribute__((warn_unused_result));

void settings_fini(const struct settings *s, void *target);

/* The environment variable of a setting: "redis-url" gives CHANNELD_REDIS_URL. */
void settings_write_variable(struct buf *out, const char *name);

/* One paragraph a setting: flag, variable, default, help. */
void settings_write_help(const struct settings *s, struct buf *out);

/* "name = value" lines of what is in force, secrets masked. */
void settings_write_values(const struct settings *s, const void *target, struct buf *out);

#endif
