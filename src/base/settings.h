/*
 * The settings, flags and commands of a program, as tables: from them its command line and environment are
 * read, --help and --check printed, and its manual and environment file generated (src/manual).
 *
 * A setting `log-level` is the flag `--log-level VALUE` (or `--log-level=VALUE`) and the variable
 * CHANNELD_LOG_LEVEL. The flag wins. Where the table allows it, the value can come from a file named by
 * `--log-level-file` or CHANNELD_LOG_LEVEL_FILE (one trailing newline is not part of it).
 */
#ifndef BASE_SETTINGS_H
#define BASE_SETTINGS_H

#include "base/buf.h"

#include <limits.h>

enum setting_type {
    SETTING_TEXT,     /* char *, owned */
    SETTING_PATH,     /* the same: the path of a file */
    SETTING_URL,      /* char *, owned; the password in it is masked when printed */
    SETTING_SECRET,   /* char *, owned; masked when printed */
    SETTING_CHOICE,   /* int64_t: which of some words, from 0 */
    SETTING_COUNT,    /* int64_t */
    SETTING_SIZE,     /* int64_t, bytes */
    SETTING_DURATION, /* int64_t, milliseconds */
};

struct setting {
    const char *name; /* lower case with hyphens */
    enum setting_type type;
    size_t offset;        /* in the target struct */
    const char *fallback; /* the default, in the setting's own notation */
    int64_t min, max;     /* bounds of a number */
    bool from_file;       /* the _FILE forms are accepted */
    const char *help;     /* one line */
    const char *choices;  /* the words of a SETTING_CHOICE, as "off|on"; else NULL */
};

/* Rows of a table, whose values are a member of a struct of this type. SETTING_WORDS: a choice. */
/* clang-format off */
#define SETTING_ROW(type, member, kind, name, fallback, min, max, help) \
    {(name), SETTING_##kind, offsetof(type, member), (fallback), (min), (max), false, (help), NULL}
#define SETTING_WORDS(type, member, name, fallback, words, help) \
    {(name), SETTING_CHOICE, offsetof(type, member), (fallback), 0, 0, false, (help), (words)}
/* clang-format on */

/* The upper bound of most durations, in milliseconds. */
enum { SETTINGS_DAY_MS = 24 * 60 * 60 * 1000 };

/* A flag that is not a setting, and has no variable. */
struct settings_flag {
    const char *name;  /* "--count"; "-h" stands for "--help" */
    const char *value; /* a word that follows it, such as "N"; NULL: none */
    const char *help;
};

struct options;

/* One way to call a command; there may be several of the same name. */
struct usage_command {
    int (*run)(const struct options *o); /* the program's options; returns the exit code */
    const char *name;                    /* one or more words: "keys issue" */
    const char *argument; /* follows the name; NULL: none. It is a path if it begins with FILE */
    unsigned needs;       /* flags that it is called with, as bits: 1 << index in usage.flags */
    unsigned takes;       /* flags that may be given */
    const char *help;
};

struct usage {
    const char *program;
    const char *summary;  /* one line */
    const char *synopsis; /* follows the program's name */
    const struct usage_command *commands;
    size_t command_count;              /* 0: it has none */
    const struct settings_flag *flags; /* of commands, and of the program */
    size_t flag_count;
    const char *exits; /* the codes, each with what it means */
    const struct setting *table;
    size_t count;
    const char *others; /* variables of other programs, with spaces between */
};

enum { SETTINGS_ROWS_MAX = 64, SETTINGS_FLAGS_MAX = 16 };

/* Where a value comes from: a text or a file, of argv or the environment; neither: the default. */
struct settings_source {
    const char *text, *file;
    bool is_flag; /* not a variable */
};

/* A command line, the values, and where they come from. */
struct settings_args {
    const struct usage *usage;
    void *target; /* the struct of the values, zeroed by the caller */
    int argc;
    char **argv; /* permuted: it begins with the words that are not flags afterwards */
    const char *flag[SETTINGS_FLAGS_MAX]; /* out: the value of each that was given, "" where it has none */
    struct settings_source source[SETTINGS_ROWS_MAX]; /* out: that of each setting */
};

/*
 * Parses argv[1..], to "--", and the environment. A setting that comes from a file has no value yet: see
 * settings_read_files. Returns the number of words that are not flags, -ENOMEM, or -EINVAL with a message in
 * `error`. Call settings_fini in every case.
 */
int settings_read(struct settings_args *args, struct buf *error) __attribute__((warn_unused_result));

/*
 * Reads the values that come from files. `again`: regular files only, since a pipe can be read only once, and
 * a text that has become empty is an error. Returns 0, -ENOMEM, or -EINVAL with a message in `error`; a value
 * that could not be read stays as it was.
 */
int settings_read_files(const struct settings_args *args, bool again, struct buf *error)
    __attribute__((warn_unused_result));

void settings_fini(const struct usage *u, void *target);

static inline char **settings_text(const struct setting *s, const void *target)
{
    return (char **)(void *)((char *)(uintptr_t)target + s->offset);
}

/* Appends that the value of setting `name` is wrong: its source and `what`. Returns -EINVAL. */
int settings_reject(const struct settings_args *args, const char *name, struct buf *error, const char *what);

/* Writes where the value is from, as the user wrote it; the variable for a default. */
void settings_write_source(struct buf *out, const struct settings_args *args, const char *name);

/*
 * Finds the next environment variable that begins with `prefix` (CHANNELD_ or longer) and belongs to no
 * setting: a mistyped one perhaps. *at is 0 at first. `warning` becomes "NAME_CASH_SIZE: no such setting".
 * The variables that Kubernetes sets for Services are skipped. False after the last.
 */
bool settings_next_unknown(const struct usage *u, struct span prefix, size_t *at, struct buf *warning);

/* "name = value" per line, secrets masked. */
void settings_write_values(const struct usage *u, const void *target, struct buf *out);

/* The text of --help. `commands`: those that it describes, as bits; USAGE_ALL: the whole program. */
#define USAGE_ALL UINT_MAX
void usage_write_help(const struct usage *u, unsigned commands, struct buf *out);

/* How the command is called, without its settings: "keys issue [--count N]". */
void usage_write_call(const struct usage *u, const struct usage_command *c, struct buf *out);

#endif
