/*
 * The flags, commands and settings of a program, as tables: its --help is printed from them, and its manual
 * and environment file are generated from them (src/manual).
 */
#ifndef BASE_USAGE_H
#define BASE_USAGE_H

#include "base/settings.h"

#include <limits.h>

/* One way to call a command; there may be several of the same name. */
struct usage_command {
    const char *name;     /* one or more words: "keys issue" */
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
    const struct settings *settings;
};

/* The text of --help. `commands`: those that it describes, as bits; USAGE_ALL: the whole program. */
#define USAGE_ALL UINT_MAX
void usage_write_help(const struct usage *u, unsigned commands, struct buf *out);

/* How the command is called, without its settings: "keys issue [--count N]". */
void usage_write_call(const struct usage *u, const struct usage_command *c, struct buf *out);

#endif
