/* What channelctl was asked to do: its settings, the words of its command and the few flags of single
 * commands. */
#ifndef CTL_OPTIONS_H
#define CTL_OPTIONS_H

#include "model/keyspace.h"
#include "model/link.h"
#include "redis/endpoint.h"

/* The exit codes; an interrupted command exits with 128 and the signal's number. */
enum { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Flags without value, as bits of options.switched. */
enum { SWITCH_REPLACE = 1, SWITCH_HELP = 2, SWITCH_VERSION = 4 };

enum { OPTIONS_SETTINGS_MAX = 32 };

struct options {
    struct redis_options redis;
    char *redis_prefix;
    char *channel_host;
    char *web_host;

    unsigned char sources[OPTIONS_SETTINGS_MAX]; /* of its settings: see settings.h */
    unsigned switched;
    const char *count; /* NULL when not given; so are the next ones. Borrowed from argv */
    const char *sample;
    const char *seed;
    int words;
    char **word; /* the command and its words; owned array of borrowed words */

    struct keyspace keys;
    struct link_hosts hosts; /* borrows from the two hosts above */
};

/*
 * Reads flags and environment and checks them. Returns EXIT_FINE or, after saying on stderr what is wrong,
 * EXIT_USAGE or EXIT_FAILED. options_fini is due in every case.
 */
int options_read(struct options *o, int argc, char **argv) __attribute__((warn_unused_result));

void options_fini(struct options *o);

/* The text of --help, on stdout. Returns the exit code. */
int options_print_help(void);

/* Says on stderr that memory is out. Returns EXIT_FAILED. */
int memory_error(void);

/* Says on stderr that stdout took less than everything, for that negative errno. Returns EXIT_FAILED. */
int output_error(int err);

/* The end of what is printed: returns EXIT_FINE when stdout took everything, or what output_error() returns.
 */
int output_end(void);

/* Says on stderr what is wrong with the setting `name`, by the flag or variable that gave it. Returns
 * EXIT_USAGE. */
int settings_error(const struct options *o, const char *name, const char *what);

/* Says on stderr what is wrong with the command line. Returns EXIT_USAGE. */
int usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
