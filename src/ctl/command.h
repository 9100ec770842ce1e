/* The commands, and their arguments: settings, flags and words of the command line. */
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

/*
 * X(run, name, argument, needs, takes, help): the ways to call each command, as in struct usage_command. The
 * function gets the words after the first one of the name.
 */
#define CTL_COMMANDS(X) \
    X(command_load, "load", "FILE|-", 0, CTL_LOAD_FLAGS, \
      "load channels from NDJSON: each line is a card as the API returns it, or a response with one. Only one " \
      "load runs at a time: a second one fails within 5 s, and waits up to 15 s for the lock of one that was killed") \
    X(command_load, "load", NULL, CTL_FLAG(SAMPLE), CTL_LOAD_FLAGS, \
      "load sample channels") \
    X(command_show, "show", "ID|LINK", 0, 0, \
      "print a channel as Redis holds it: the card as JSON, its place in the index, where its link leads") \
    X(command_remove, "remove", "ID", 0, 0, \
      "remove a channel: its place in the index, its card and its link key, in one transaction. It fails " \
      "while a load runs, as a second load does") \
    X(command_keys_issue, "keys issue", NULL, 0, CTL_FLAG(COUNT) | CTL_FLAG(NAME) | CTL_FLAG(EXPIRES), \
      "create API keys and print them; they cannot be printed again") \
    X(command_keys_revoke, "keys revoke", "KEY|DIGEST", 0, 0, \
      "revoke an API key, given as the key or its SHA-256") \
    X(command_keys_revoke, "keys revoke", NULL, CTL_FLAG(NAME), CTL_FLAG(ALL), \
      "revoke the API key of that name") \
    X(command_keys_list, "keys list", NULL, 0, CTL_FLAG(JSON), \
      "print the SHA-256 digest, name, time of issue and expiry of each key") \
    X(command_verify, "verify", NULL, 0, 0, \
      "check the whole catalogue: types, values, TTLs, sizes, links, API keys") \
    X(command_sample, "sample", "N", 0, 0, \
      "print N sample channels as NDJSON")
/* clang-format on */

enum ctl_flag {
#define CTL_FLAG_ENUM(name, flag, value, help) FLAG_##name,
    CTL_FLAGS(CTL_FLAG_ENUM)
#undef CTL_FLAG_ENUM
        FLAGS_END
};

#define CTL_FLAG(name) (1U << FLAG_##name)
#define CTL_LOAD_FLAGS (CTL_FLAG(REPLACE) | CTL_FLAG(MAX_REMOVED) | CTL_FLAG(EXPECT) | CTL_FLAG(DRY_RUN))

struct options {
    struct redis_options redis;
    char *redis_prefix;
    char *channel_host;
    char *web_host;
    int64_t wait; /* milliseconds */

    struct settings_args args; /* where the values come from, the flags, and the words of the command line */
    int word_count;

    struct keyspace keys;
    struct link_hosts hosts; /* borrows the two hosts above */
};

/* The settings, commands and flags that channelctl can be called with. */
extern const struct usage ctl_usage;

/* Each gets the argument of the way in which it is called, NULL where that has none. Returns the exit code.
 */
int command_load(const struct options *o, const char *argument);
int command_show(const struct options *o, const char *argument);
int command_remove(const struct options *o, const char *argument);
int command_keys_issue(const struct options *o, const char *argument);
int command_keys_revoke(const struct options *o, const char *argument);
int command_keys_list(const struct options *o, const char *argument);
int command_verify(const struct options *o, const char *argument);
int command_sample(const struct options *o, const char *argument);

/* --- Sample channels, which sample prints and load loads --- */

/* Reads the number of channels as the user wrote it. Returns EXIT_OK, or EXIT_USAGE after printing what is
 * wrong. */
int sample_parse_count(const char *text, int64_t *out);

/* Appends the n-th channel as JSON, from 0, without a newline; its link has this host. */
void sample_write(struct buf *out, struct span host, int64_t n);

#endif
