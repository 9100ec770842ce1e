/* The arguments of the commands: settings, flags and words of the command line. */
#ifndef CTL_COMMAND_H
#define CTL_COMMAND_H

#include "base/settings.h"
#include "model/keyspace.h"
#include "model/link.h"
#include "redis/endpoint.h"

/* clang-format off */
/* X(name, flag, value, help): the flags of single commands, and two of the program. */
#define CTL_FLAGS(X) \
    X(REPLACE, "--replace", NULL, \
      "make the input the whole catalogue: all other channels are removed after the load") \
    X(MAX_REMOVED, "--max-removed", "N|N%", \
      "how many channels --replace may remove, as a number or a share; with more it fails before it writes " \
      "anything. A share permits 20 channels in any case. 20% by default; 100% permits any number") \
    X(EXPECT, "--expect", "N", \
      "fail before anything is written unless the input has N channels") \
    X(DRY_RUN, "--dry-run", NULL, \
      "write nothing: print how many channels would be added and removed. Without a reachable Redis only the input " \
      "is checked") \
    X(SAMPLE, "--sample", "N", \
      "load N sample channels, as printed by sample, instead of a file") \
    X(COUNT, "--count", "N", \
      "number of keys, 1 to 100000; 1 by default") \
    X(NAME, "--name", "NAME", \
      "name of the keys in logs and metrics: 1 to 64 of A-Z a-z 0-9 _ . -") \
    X(ALL, "--all", NULL, \
      "revoke all keys of that name, if there are several") \
    X(JSON, "--json", NULL, \
      "print each key as a JSON object: digest, name, issued, expires, valid") \
    X(EXPIRES, "--expires", "WHEN", \
      "when the keys expire: after 90d, 12h, 30m or 45s, or at a time in UTC (2027-02-20, " \
      "2027-02-20T10:00:00Z); by default never") \
    X(HELP, "--help", NULL, \
      "print this help, or with a command that of the command, and exit; also -h, help COMMAND") \
    X(VERSION, "--version", NULL, \
      "print the version and exit")
/* clang-format on */

enum ctl_flag {
#define CTL_FLAG_ENUM(name, flag, value, help) FLAG_##name,
    CTL_FLAGS(CTL_FLAG_ENUM)
#undef CTL_FLAG_ENUM
        FLAGS_END
};

struct options {
    struct redis_options redis;
    char *redis_prefix;
    char *channel_host;
    char *web_host;
    int64_t wait; /* milliseconds */

    struct settings_args args; /* where the values come from, the flags, and the words of the command line */
    int word_count;
    const char *argument; /* of the command, which is called in this way; NULL: it has none */

    struct keyspace keys;
    struct link_hosts hosts; /* borrows the two hosts above */
};

/* Each returns the exit code. */
int command_load(const struct options *o);
int command_show(const struct options *o);
int command_remove(const struct options *o);
int command_keys_issue(const struct options *o);
int command_keys_revoke(const struct options *o);
int command_keys_list(const struct options *o);
int command_verify(const struct options *o);
int command_sample(const struct options *o);

/* --- Sample channels, which sample prints and load loads --- */

/* Reads the number of channels as the user wrote it. Returns an exit code. */
int sample_parse_count(const char *text, int64_t *out);

/* Appends the n-th channel as JSON, from 0, without a newline; its link has this host. */
void sample_write(struct buf *out, struct span host, int64_t n);

#endif
