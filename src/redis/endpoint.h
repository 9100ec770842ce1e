/*
 * The settings of a Redis client: the Redis to connect to, the user, and the certificates.
 *
 *     redis://[user[:password]@]host[:port][/db]     plain TCP
 *     rediss://...                                   TLS; the certificate must be valid for the host
 *     unix:///path/to/socket[?db=N]                  local socket; unix://user:password@/path likewise
 *     redis+sentinel://[user[:password]@]host[:port],host2[:port],.../master[/db][?role=replica]
 *         the master that the Sentinels know by that name, or one of its replicas
 *     rediss+sentinel://...                          the same; Sentinels and Redis use TLS
 *     redis+cluster://[user[:password]@]host[:port],host2[:port],...[/]
 *         the node of a Redis Cluster that holds the slot of the keys; a few of its nodes are enough
 *     rediss+cluster://...                           the same with TLS
 *
 * A password without user (`redis://:secret@host`) is that of the default user. A user without password is an
 * error. Both are percent-decoded once. They are for Redis; the user and password for Sentinels are settings.
 */
#ifndef REDIS_ENDPOINT_H
#define REDIS_ENDPOINT_H

#include "base/log.h"
#include "base/settings.h"
#include "redis/reply.h"

#include <assert.h>
#include <stdatomic.h>
#include <strings.h>

struct ssl_ctx_st; /* OpenSSL's SSL_CTX */

/* Filled from settings; the strings are owned by them. */
struct redis_options {
    char *url;
    char *password;                          /* used when the URL has none */
    char *ca_file;                           /* certificate authorities in PEM; empty: the system's */
    char *cert_file, *key_file;              /* client certificate and its key in PEM; empty: none */
    char *sentinel_user, *sentinel_password; /* for Sentinels; empty: none */
};

/* Rows of a settings table for the struct redis_options that is `member` of `type`. */
/* clang-format off */
/* NOLINTBEGIN(bugprone-macro-parentheses): a member designator takes none */
#define REDIS_SETTINGS(type, member) \
    {"redis-url", SETTING_URL, offsetof(type, member.url), "redis://127.0.0.1:6379/0", 0, 0, true, \
     "Address of Redis: redis://, rediss:// (TLS), unix://, redis+sentinel://host,host/master or " \
     "redis+cluster://host,host", NULL}, \
    {"redis-password", SETTING_SECRET, offsetof(type, member.password), "", 0, 0, true, \
     "Password, when the URL has none", NULL}, \
    {"redis-ca-file", SETTING_PATH, offsetof(type, member.ca_file), "", 0, 0, false, \
     "Certificate authorities (PEM) that rediss:// trusts instead of the system's", NULL}, \
    {"redis-cert-file", SETTING_PATH, offsetof(type, member.cert_file), "", 0, 0, false, \
     "Client certificate (PEM) for rediss://", NULL}, \
    {"redis-key-file", SETTING_PATH, offsetof(type, member.key_file), "", 0, 0, false, \
     "Key (PEM) of the client certificate", NULL}, \
    {"redis-sentinel-user", SETTING_TEXT, offsetof(type, member.sentinel_user), "", 0, 0, false, \
     "User for the Sentinels, when they have users", NULL}, \
    {"redis-sentinel-password", SETTING_SECRET, offsetof(type, member.sentinel_password), "", 0, 0, true, \
     "Password for the Sentinels; the URL's is for Redis", NULL}
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

enum redis_transport { REDIS_TRANSPORT_TCP, REDIS_TRANSPORT_TLS, REDIS_TRANSPORT_UNIX };

enum { REDIS_SERVERS_MAX = 16 };

/* The servers that know the address of Redis. */
struct redis_discovery {
    enum redis_discovery_kind {
        REDIS_DISCOVERY_NONE, /* Redis is at the URL's own address */
        REDIS_DISCOVERY_SENTINEL,
        REDIS_DISCOVERY_CLUSTER
    } kind;
    int count;
    struct {
        char *host;
        int port;
    } at[REDIS_SERVERS_MAX];
    /* With Sentinels. */
    bool replica; /* a replica is wanted, if there is one */
    char *master; /* the name by which the Sentinels know it */
    char *user;   /* never NULL */
    char *password;
    /* With a cluster. */
    int slot; /* the slot of all keys */
};

/* Borrows all texts from the settings, or from whoever has discovered the address. */
struct redis_endpoint {
    enum redis_transport transport;
    char *host; /* without brackets; NULL for a local socket, and where it has to be discovered */
    int port;
    char *path; /* the path of a local socket; NULL otherwise */
    int db;
    char *user;     /* never NULL: "default" when none was given */
    char *password; /* NULL: no authentication */
    struct redis_discovery discovery;
    struct ssl_ctx_st *tls; /* NULL without TLS */
};

/* The same Redis at another address. */
struct redis_endpoint redis_endpoint_at(const struct redis_endpoint *t, char *host, int port);

/* The n-th server that knows the address of Redis: Sentinels have their own user. */
struct redis_endpoint redis_endpoint_server(const struct redis_endpoint *t, int n);

static inline bool redis_endpoint_is_cluster(const struct redis_endpoint *t)
{
    return t->discovery.kind == REDIS_DISCOVERY_CLUSTER;
}

static inline bool redis_endpoint_is_discovered(const struct redis_endpoint *t)
{
    return t->discovery.kind != REDIS_DISCOVERY_NONE && t->host == NULL;
}

/* Appends "host:port/db", the socket's path, or what must be discovered, for logs and without secrets. */
void redis_endpoint_describe(const struct redis_endpoint *t, struct buf *out);

/* The text for logs of a server's reply, or of a reason of our own: a constant if it quotes a password. */
const char *redis_endpoint_redact(const struct redis_endpoint *t, const char *reason);

/* Logs what has happened to a connection of `client` there, in the field `kind`. `why` may be NULL. */
void redis_endpoint_log(const struct redis_endpoint *t, enum log_level level, const char *message,
                        const char *kind, const char *client, const char *why);

/* Settings, immutable and reference-counted: threads share them. */
struct redis_config {
    atomic_int references; /* private */
    uint64_t number;       /* shows whether a connection uses it */
    struct redis_endpoint endpoint;
    size_t size; /* of `texts`, private: all texts of the endpoint */
    char texts[];
};

/*
 * Reads the URL and the certificates that `options` names. `prefix` is that of all keys; in a cluster it must
 * contain a hash tag, "{...}". One reference, for the caller. Returns 0, -ENOMEM, or -EINVAL. Then `why` has
 * a reason without secrets, and *setting the name of the setting concerned.
 */
int redis_config_new(const struct redis_options *options, struct span prefix, uint64_t number,
                     struct redis_config **out, struct buf *why, const char **setting)
    __attribute__((warn_unused_result));

/* May be called from any thread. Returns `c`. */
static inline struct redis_config *redis_config_ref(struct redis_config *c)
{
    int before = atomic_fetch_add_explicit(&c->references, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
    return c;
}

/* May be called from any thread; NULL is allowed. The last call erases the passwords. */
void redis_config_unref(struct redis_config *c);

/* --- addresses that servers announce --- */

enum { REDIS_HOST_SIZE = 256 };

/* An ID of a node of a cluster has 40 digits. */
enum { REDIS_NODE_ID_SIZE = 41 };

struct redis_address {
    char host[REDIS_HOST_SIZE]; /* a name or a numeric address: only letters, digits and .:_- */
    int port;
    char id[REDIS_NODE_ID_SIZE]; /* of the node of a cluster at this address; empty: not known */
};

static inline bool redis_address_equal(const struct redis_address *a, const struct redis_address *b)
{
    return a->port == b->port && strcasecmp(a->host, b->host) == 0;
}

/* The same server, possibly under two names: by the IDs where both are known, otherwise by the addresses. */
static inline bool redis_address_is_same(const struct redis_address *a, const struct redis_address *b)
{
    bool known = a->id[0] != '\0' && b->id[0] != '\0';
    return known ? strcmp(a->id, b->id) == 0 : redis_address_equal(a, b);
}

/* False, with *out untouched, when it is not an address to which a connection is possible. */
bool redis_address_set(struct redis_address *out, struct span host, int64_t port);

#endif
