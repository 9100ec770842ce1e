/*
 * Settings from flags and environment, driven by a table.
 *
 * A setting `redis-url` is the flag `--redis-url VALUE` (or `--redis-url=VALUE`) and the environment variable
 * CHANNELD_REDIS_URL; flags win: a variable that a flag overrides is not even looked at. Where the table
 * allows it the value can come from a file instead, named by
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
    const char *env_prefix; /* of the variables, such as "NAME_" */
};

/* Where the value of a setting comes from. */
enum setting_source {
    SETTING_DEFAULT,
    SETTING_VARIABLE,
    SETTING_VARIABLE_FILE,
    SETTING_FLAG,
    SETTING_FLAG_FILE
};

/* A command line, and what is found in it. */
struct settings_args {
    int argc;
    char **argv;
    const char *const *switches; /* flags without value, NULL-terminated; or NULL */
    unsigned switched;           /* out: the bits of those that were given, by their places */
    char **rest;                 /* out: words that are no flags; room for argc */
    unsigned char *sources;      /* out: an enum setting_source for each setting; room for all */
};

/*
 * Reads argv[1..] and the environment into `target` (zeroed by the caller). What is no setting is left for
 * the caller, in `args`. "--" ends the flags. Returns the number of words in `rest`, or -EINVAL with a
 * message in `error` that names the flag or the variable, or -ENOMEM. settings_fini is due in every case.
 */
int settings_read(const struct settings *s, void *target, struct settings_args *args, struct buf *error)
    __attribute__((warn_unused_result));

void settings_fini(const struct settings *s, void *target);

/* What gave the setting `name` its value, as the user wrote it: --redis-url, CHANNELD_REDIS_URL_FILE. The
 * variable where it is the default. */
void settings_write_source(struct buf *out, const struct settings *s, const unsigned char *sources,
                           const char *name);

/*
 * The next variable of the environment that begins with `prefix` (CHANNELD_ or longer) and is none of a
 * setting, a mistyped one perhaps; *at is 0 at first. The data is NULL after the last. The variables that
 * Kubernetes makes of the names of Services are passed over.
 */
struct span settings_next_unknown(const struct settings *s, struct span prefix, size_t *at);

/* "CHANNELD_CASH_SIZE: no such setting; CHANNELD_CACHE_SIZE?" */
void settings_write_unknown(struct buf *out, const struct settings *s, struct span variable);

/* One paragraph a setting: flag, variable, default, help. */
void settings_write_help(const struct settings *s, struct buf *out);

/* "name = value" lines of what is in force, secrets masked. */
void settings_write_values(const struct settings *s, const void *target, struct buf *out);

#endif
