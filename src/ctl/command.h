/* The commands, and what each is called with: settings, flags and words of the command line. */
#ifndef CTL_COMMAND_H
#define CTL_COMMAND_H

#include "base/settings.h"
#include "model/keyspace.h"
#include "model/link.h"
#include "redis/endpoint.h"

/* Flags without a value, as bits of options.flags. */
enum { FLAG_REPLACE = 1, FLAG_HELP = 2, FLAG_VERSION = 4 };

enum { OPTIONS_SETTINGS_MAX = 32 };

struct options {
    struct redis_options redis;
    char *redis_prefix;
    char *channel_host;
    char *web_host;
    int64_t wait; /* milliseconds */

    const struct settings *settings;             /* the table of the values above */
    unsigned char sources[OPTIONS_SETTINGS_MAX]; /* where each value came from: see settings.h */
    const char *files[OPTIONS_SETTINGS_MAX];     /* the same */
    unsigned flags;
    const char *count; /* borrowed from argv, as the next four; NULL: not given */
    const char *name;
    const char *expires;
    const char *sample;
    const char *seed;
    int word_count;
    char **words; /* the command and its arguments; an owned array of borrowed strings */

    struct keyspace keys;
    struct link_hosts hosts; /* borrows the two hosts above */
};

/* Each gets the words after its name, and returns the exit code. */
int command_load(const struct options *o, int count, char **words);
int command_keys(const struct options *o, int count, char **words);
int command_verify(const struct options *o, int count, char **words);
int command_sample(const struct options *o, int count, char **words);

#endif
