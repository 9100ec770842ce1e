/*
 * Which Redis to talk to and as whom: the settings that channeld and channelctl share, and what they mean.
 *
 *     redis://[user[:password]@]host[:port][/db]     plain TCP
 *     rediss://...                                   TLS; the certificate must be valid for the host
 *     unix:///path/to/socket[?db=N]                  local socket; unix://user:password@/path likewise
 *     redis+sentinel://[user[:password]@]host[:port],host2[:port],.../master[/db][?role=replica]
 *         whom those Sentinels call the master of that name, or one of its replicas
 *
 *     rediss+sentinel://...                          the same where Sentinels and Redis speak TLS
 *
 * A password without user (`redis://:secret@host`) is the default user's; a user without password is an
 * error. Both are percent-decoded once. They are for Redis: Sentinels have settings of their own.
 */
#ifndef REDIS_ENDPOINT_H
#define REDIS_ENDPOINT_H

#include "base/settings.h"

/* Filled from settings; the strings are owned by them. */
struct redis_options {
    char *url;
    char *password;                          /* used when the URL has none */
    char *ca_file;                           /* certificate authorities in PEM; empty: the system's */
    char *cert_file, *key_file;              /* client certificate and its key in PEM; empty: none */
    char *sentinel_user, *sentinel_password; /* towards Sentinels; empty: none */
};

/* Rows of a settings table for a struct redis_options that stands at `member` of `type`. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a member designator takes none */
#define REDIS_SETTINGS(type, member)                                                                         \
    {"redis-url",                                                                                            \
     SETTING_URL,                                                                                            \
     offsetof(type, member.url),                                                                             \
     "redis://127.0.0.1:6379/0",                                                                             \
     0,                                                                                                      \
     0,                                                                                                      \
     true,                                                                                                   \
     "The Redis that holds the channels: redis://, rediss:// (TLS), unix:// or "                             \
     "redis+sentinel://host,host/master"},                                                                   \
        {"redis-password",                                                                                   \
         SETTING_SECRET,                                                                                     \
         offsetof(type, member.password),                                                                    \
         "",                                                                                                 \
         0,                                                                                                  \
         0,                                                                                                  \
         true,                                                                                               \
         "Password, when the URL has none"},                                                                 \
        {"redis-ca-file",                                                                                    \
         SETTING_TEXT,                                                                                       \
         offsetof(type, member.ca_file),                                                                     \
         "",                                                                                                 \
         0,                                                                                                  \
         0,                                                                                                  \
         false,                                                                                              \
         "Certificate authorities (PEM) that rediss:// trusts instead of the system's"},                     \
        {"redis-cert-file",                                                                                  \
         SETTING_TEXT,                                                                                       \
         offsetof(type, member.cert_file),                                                                   \
         "",                                                                                                 \
         0,                                                                                                  \
         0,                                                                                                  \
         false,                                                                                              \
         "Client certificate (PEM) for rediss://"},                                                          \
        {"redis-key-file",                                                                                   \
         SETTING_TEXT,                                                                                       \
         offsetof(type, member.key_file),                                                                    \
         "",                                                                                                 \
         0,                                                                                                  \
         0,                                                                                                  \
         false,                                                                                              \
         "Key (PEM) of the client certificate"},                                                             \
        {"redis-sentinel-user",                                                                              \
         SETTING_TEXT,                                                                                       \
         offsetof(type, member.sentinel_user),                                                               \
         "",                                                                                                 \
         0,                                                                                                  \
         0,                                                                                                  \
         false,                                                                                              \
         "User towards the Sentinels, when they have users"},                                                \
    {                                                                                                        \
        "redis-sentinel-password", SETTING_SECRET, offsetof(type, member.sentinel_password), "", 0, 0, true, \
            "Password towards the Sentinels; the URL's is for Redis"                                         \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

enum redis_transport { REDIS_TRANSPORT_TCP, REDIS_TRANSPORT_TLS, REDIS_TRANSPORT_UNIX };

enum { REDIS_SENTINELS_MAX = 16 };

struct redis_sentinels {
    int count; /* 0: Redis is where the URL says */
    struct {
        char *host;
        int port;
    } at[REDIS_SENTINELS_MAX];
    char *master; /* the name under which they know it */
    bool replica; /* one of its replicas is wanted, if there is one */
    char *user;   /* never NULL when there are Sentinels */
    char *password;
};

struct redis_endpoint {
    enum redis_transport transport;
    char
        *host; /* name or address (no brackets); NULL for a local socket, and where Sentinels must be asked */
    int port;
    char *path; /* of the local socket; NULL otherwise */
    int db;
    char *user;     /* never NULL: "default" when none was given */
    char *password; /* NULL: no authentication */
    struct redis_sentinels sentinels;
};

/*
 * Fills `out` from `options`. Returns 0, -ENOMEM, or -EINVAL with a reason in `why`, which never holds a
 * secret. redis_endpoint_fini is due in every case.
 */
int redis_endpoint_init(struct redis_endpoint *out, const struct redis_options *options, struct buf *why)
    __attribute__((warn_unused_result));

void redis_endpoint_fini(struct redis_endpoint *t);

/* The target at that address. Borrows everything, and is not to be given to redis_endpoint_fini. */
struct redis_endpoint redis_endpoint_at(const struct redis_endpoint *t, char *host, int port);

/* The n-th of the target's Sentinels, spoken to as they want it. Borrowed likewise. */
struct redis_endpoint redis_endpoint_sentinel(const struct redis_endpoint *t, int n);

/* "host:port/db", the socket's path, or the name that Sentinels know, for logs: no secret in it. */
void redis_endpoint_describe(const struct redis_endpoint *t, struct buf *out);

/*
 * What a peer said, or a reason of our own, for logs: a constant text in its stead where it quotes a password
 * (a Redis that does not know HELLO repeats its arguments).
 */
const char *redis_endpoint_redact(const struct redis_endpoint *t, const char *said);

/*
 * The arguments of the first command on a connection: HELLO 3 with authentication and client name.
 * `argv` takes REDIS_HELLO_ARGS_MAX borrowed pointers; returns how many were set.
 */
enum { REDIS_HELLO_ARGS_MAX = 7 };
int redis_endpoint_hello(const struct redis_endpoint *t, const char *client_name,
                         const char *argv[REDIS_HELLO_ARGS_MAX]);

#endif
