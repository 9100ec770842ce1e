/* Parses Redis addresses, and combines them with the other settings; see endpoint.h. */
#include "redis/endpoint.h"

#include "base/text.h"
#include "redis/tls.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/param.h>
#include <sys/un.h>

enum {
    REDIS_PORT = 6379,
    SENTINEL_PORT = 26379,
    PORT_MAX = 65535,
    DB_MAX = 1 << 20,
    CLUSTER_SLOTS = 16384,
    QUOTED = 16 /* the bytes of a password that must not be in a text */
};

/* Texts are decoded where the configuration has them, with a NUL in place of what separates them. */
struct endpoint_reader {
    struct redis_endpoint *t;
    struct buf *why; /* the first reason */
    int err;
};

static void redis_endpoint_refuse(struct endpoint_reader *r, const char *why)
{
    if (r->err == 0)
        buf_append_str(r->why, why);
    r->err = -EINVAL;
}

/* --- parts of URLs --- */

/* Decodes `text` once. A NUL byte in it (%00) would cut it short. */
static char *redis_endpoint_decode(struct endpoint_reader *r, char *text)
{
    size_t n = uri_decode(span_of(text), text);
    text[n] = '\0';
    if (strlen(text) < n)
        redis_endpoint_refuse(r, "must not hold a NUL byte");
    return text;
}

/* Reads `user:password@` at the front of the authority. Returns what follows. */
static char *redis_endpoint_read_userinfo(struct endpoint_reader *r, char *authority)
{
    char *at = strrchr(authority, '@');
    if (at == NULL)
        return authority;
    *at = '\0';
    char *password = authority;
    char *user = strsep(&password, ":");
    if (password != NULL)
        r->t->password = redis_endpoint_decode(r, password);
    if (*user != '\0')
        r->t->user = redis_endpoint_decode(r, user);
    return at + 1;
}

static int redis_endpoint_read_number(struct endpoint_reader *r, struct span text, int least, int most,
                                      const char *why)
{
    int64_t number = 0;
    if (parse_int64(text, &number) != 0 || number < least || number > most)
        redis_endpoint_refuse(r, why);
    return (int)number;
}

static void redis_endpoint_read_db(struct endpoint_reader *r, const char *text)
{
    if (text != NULL && *text != '\0')
        r->t->db = redis_endpoint_read_number(r, span_of(text), 0, DB_MAX,
                                              "the database must be a number, 0 or more");
}

/* The address of a link has its interface behind "%" (RFC 9844). */
static bool redis_endpoint_is_host_char(char c)
{
    return ascii_is_alnum(c) || memchr(".:_-%", c, 5) != NULL;
}

/* Parses host[:port]. *port is the default. */
static void redis_endpoint_read_host(struct endpoint_reader *r, char *text, char **host, int *port)
{
    struct authority a = {0};
    if (!authority_split(span_of(text), &a) || !span_all(a.host, redis_endpoint_is_host_char))
        redis_endpoint_refuse(r, "is not a Redis address");
    if (a.host.len == 0)
        redis_endpoint_refuse(r, "the host is missing");
    if (r->err != 0)
        return;
    if (a.port.data != NULL)
        *port =
            redis_endpoint_read_number(r, a.port, 1, PORT_MAX, "the port must be a number from 1 to 65535");
    *host = text + (a.host.data - text);
    (*host)[a.host.len] = '\0';
}

static void redis_endpoint_read_servers(struct endpoint_reader *r, char *list, int port)
{
    struct redis_discovery *s = &r->t->discovery;
    for (char *one; r->err == 0 && (one = strsep(&list, ",")) != NULL; s->count++) {
        if (s->count == REDIS_SERVERS_MAX) {
            redis_endpoint_refuse(r, "more than 16 hosts");
            return;
        }
        s->at[s->count].port = port;
        redis_endpoint_read_host(r, one, &s->at[s->count].host, &s->at[s->count].port);
    }
}

static void redis_endpoint_read_master(struct endpoint_reader *r, char *name)
{
    r->t->discovery.master = redis_endpoint_decode(r, name);
    bool good = *name != '\0';
    for (const char *p = name; *p != '\0'; p++)
        good = good && *p > ' ' && *p <= '~';
    if (strchr(name, '@') != NULL)
        redis_endpoint_refuse(r, "the name of the master contains @: write / in a password as %2F");
    if (!good)
        redis_endpoint_refuse(r, "the name of the master is missing: redis+sentinel://host,host/NAME");
}

/*
 * Returns the value of the only option, which must be `known` (NULL: no option is), or NULL. Another one is
 * not named: it may be the rest of a password that was not percent-encoded.
 */
static const char *redis_endpoint_read_option(struct endpoint_reader *r, char *query, const char *known)
{
    if (query == NULL || *query == '\0')
        return NULL;
    const char *name = strsep(&query, "=");
    if (known == NULL || strcmp(name, known) != 0)
        redis_endpoint_refuse(r, "has an unknown option behind its question mark");
    return query != NULL ? query : "";
}

/* --- the schemes --- */

static const struct scheme {
    const char *start;
    enum redis_transport transport;
    enum redis_discovery_kind kind;
    int port;           /* the default of its hosts */
    const char *option; /* the only one that the query may have; NULL: none */
} SCHEMES[] = {{"redis://", REDIS_TRANSPORT_TCP, REDIS_DISCOVERY_NONE, REDIS_PORT, NULL},
               {"rediss://", REDIS_TRANSPORT_TLS, REDIS_DISCOVERY_NONE, REDIS_PORT, NULL},
               {"unix://", REDIS_TRANSPORT_UNIX, REDIS_DISCOVERY_NONE, 0, "db"},
               {"redis+sentinel://", REDIS_TRANSPORT_TCP, REDIS_DISCOVERY_SENTINEL, SENTINEL_PORT, "role"},
               {"rediss+sentinel://", REDIS_TRANSPORT_TLS, REDIS_DISCOVERY_SENTINEL, SENTINEL_PORT, "role"},
               {"redis+cluster://", REDIS_TRANSPORT_TCP, REDIS_DISCOVERY_CLUSTER, REDIS_PORT, "role"},
               {"rediss+cluster://", REDIS_TRANSPORT_TLS, REDIS_DISCOVERY_CLUSTER, REDIS_PORT, "role"}};

static const struct scheme *redis_endpoint_read_scheme(struct endpoint_reader *r, const char *url)
{
    const struct scheme *scheme = SCHEMES;
    const struct scheme *end = SCHEMES + sizeof SCHEMES / sizeof SCHEMES[0];
    while (scheme < end && strncmp(url, scheme->start, strlen(scheme->start)) != 0)
        scheme++;
    if (*url != '\0' && (unsigned char)url[strlen(url) - 1] <= ' ')
        redis_endpoint_refuse(r, "ends with a blank or a line end");
    if (scheme == end)
        redis_endpoint_refuse(
            r, "must begin with redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, "
               "redis+cluster:// or rediss+cluster://");
    return scheme;
}

static void redis_endpoint_read_unix(struct endpoint_reader *r, const char *authority, char *path)
{
    if (*authority != '\0' || path == NULL) {
        redis_endpoint_refuse(r, "a socket is written unix:///path");
        return;
    }
    path[-1] = '/';
    r->t->path = redis_endpoint_decode(r, path - 1);
    if (strlen(r->t->path) >= sizeof((struct sockaddr_un *)0)->sun_path)
        redis_endpoint_refuse(r, "the path of the socket is too long");
}

/* What only some of the schemes may have. `role` is NULL if it is not given. */
static void redis_endpoint_check(struct endpoint_reader *r, const char *role)
{
    struct redis_endpoint *t = r->t;
    struct redis_discovery *s = &t->discovery;
    s->replica = role != NULL && strcmp(role, "replica") == 0;
    if (s->kind == REDIS_DISCOVERY_SENTINEL && role != NULL && !s->replica && strcmp(role, "master") != 0)
        redis_endpoint_refuse(r, "the role is master or replica");
    if (s->kind == REDIS_DISCOVERY_CLUSTER && t->db != 0)
        redis_endpoint_refuse(r, "a Redis Cluster has database 0 only");
    if (s->kind == REDIS_DISCOVERY_CLUSTER && role != NULL)
        redis_endpoint_refuse(r, "replicas of a Redis Cluster are not read: leave ?role out");
    if (s->kind != REDIS_DISCOVERY_NONE)
        return;
    if (s->count > 1)
        redis_endpoint_refuse(r, "several hosts need redis+sentinel:// or redis+cluster://");
    t->host = s->at[0].host;
    t->port = s->at[0].port;
    s->count = 0;
}

/* User and password stay NULL if the URL has none. */
static void redis_endpoint_read_url(struct endpoint_reader *r, char *text)
{
    const struct scheme *scheme = redis_endpoint_read_scheme(r, text);
    if (r->err != 0)
        return;
    char *path = text + strlen(scheme->start); /* behind its slash, then; NULL: there is none */
    char *authority = redis_endpoint_read_userinfo(r, strsep(&path, "/"));
    char *query = path != NULL ? path : authority;
    (void)strsep(&query, "?");
    r->t->transport = scheme->transport;
    r->t->discovery.kind = scheme->kind;
    const char *option = redis_endpoint_read_option(r, query, scheme->option);
    if (scheme->transport == REDIS_TRANSPORT_UNIX) {
        redis_endpoint_read_unix(r, authority, path);
        redis_endpoint_read_db(r, option);
        return;
    }
    redis_endpoint_read_servers(r, authority, scheme->port);
    if (scheme->kind == REDIS_DISCOVERY_SENTINEL)
        redis_endpoint_read_master(r, path != NULL ? strsep(&path, "/") : strchr(authority, '\0'));
    redis_endpoint_read_db(r, path);
    redis_endpoint_check(r, option);
}

/* --- the slot of a cluster --- */

/* CRC-16/XMODEM. */
static unsigned redis_endpoint_crc16(struct span text)
{
    enum { POLYNOMIAL = 0x1021, TOP = 0x8000, MASK = 0xffff };
    unsigned crc = 0;
    for (size_t i = 0; i < text.len; i++) {
        crc ^= (unsigned)(unsigned char)text.data[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = ((crc << 1) ^ ((crc & TOP) != 0 ? POLYNOMIAL : 0)) & MASK;
    }
    return crc;
}

/* The hash tag is between the first brace and the first closing one after it, and is not empty. */
static void redis_endpoint_read_prefix(struct endpoint_reader *r, struct span prefix)
{
    struct span tag = span_skip(prefix, MIN(span_find(prefix, '{') + 1, prefix.len));
    tag.len = span_find(tag, '}') < tag.len ? span_find(tag, '}') : 0;
    r->t->discovery.slot = (int)(redis_endpoint_crc16(tag) % CLUSTER_SLOTS);
    if (tag.len == 0)
        redis_endpoint_refuse(r,
                              "a Redis Cluster needs a hash tag in the prefix, such as {channels}:, so that "
                              "all keys are in one slot");
}

/* --- configurations --- */

/* A user needs a password, which may be the default one. Without a user it is the default user. */
static void redis_endpoint_complete(struct endpoint_reader *r, char **user, char **password,
                                    char *default_password, const char *why)
{
    static char default_user[] = "default";
    if (*password == NULL && *default_password != '\0')
        *password = default_password;
    if (*user != NULL && *password == NULL)
        redis_endpoint_refuse(r, why);
    if (*user == NULL)
        *user = default_user;
}

int redis_config_new(const struct redis_options *options, struct span prefix, uint64_t number,
                     struct redis_config **out, struct buf *why, const char **setting)
{
    const size_t size = strlen(options->url) + strlen(options->password) + strlen(options->sentinel_user) +
                        strlen(options->sentinel_password) + 4;
    struct redis_config *c = calloc(1, sizeof *c + size);
    if (c == NULL)
        return -ENOMEM;
    atomic_init(&c->references, 1);
    c->number = number;
    c->size = size;
    struct redis_endpoint *t = &c->endpoint;
    struct redis_discovery *s = &t->discovery;
    struct endpoint_reader r = {.t = t, .why = why};
    char *password = stpcpy(c->texts, options->url) + 1;
    char *sentinel_user = stpcpy(password, options->password) + 1;
    char *sentinel_password = stpcpy(sentinel_user, options->sentinel_user) + 1;
    (void)stpcpy(sentinel_password, options->sentinel_password);
    *setting = "redis-url";
    redis_endpoint_read_url(&r, c->texts);
    redis_endpoint_complete(&r, &t->user, &t->password, password,
                            "a user needs a password (an empty one is written user:@host)");
    s->user = *sentinel_user != '\0' ? sentinel_user : NULL;
    if (s->kind == REDIS_DISCOVERY_SENTINEL)
        redis_endpoint_complete(
            &r, &s->user, &s->password, sentinel_password,
            "a user for the Sentinels (redis-sentinel-user) needs a password (redis-sentinel-password)");
    if (r.err == 0 && s->kind == REDIS_DISCOVERY_CLUSTER) {
        *setting = "redis-prefix";
        redis_endpoint_read_prefix(&r, prefix);
    }
    if (r.err == 0 && t->transport == REDIS_TRANSPORT_TLS)
        r.err = redis_tls_new(options, &t->tls, why, setting);
    if (r.err == 0)
        *out = c;
    else
        redis_config_unref(c);
    return r.err;
}

void redis_config_unref(struct redis_config *c)
{
    if (c == NULL || atomic_fetch_sub_explicit(&c->references, 1, memory_order_acq_rel) > 1)
        return;
    SSL_CTX_free(c->endpoint.tls);
    explicit_bzero(c->texts, c->size);
    free(c);
}

/* --- endpoints --- */

struct redis_endpoint redis_endpoint_at(const struct redis_endpoint *t, char *host, int port)
{
    struct redis_endpoint there = *t;
    there.host = host;
    there.port = port;
    return there;
}

struct redis_endpoint redis_endpoint_server(const struct redis_endpoint *t, int n)
{
    const struct redis_discovery *s = &t->discovery;
    if (s->kind == REDIS_DISCOVERY_CLUSTER)
        return redis_endpoint_at(t, s->at[n].host, s->at[n].port);
    return (struct redis_endpoint){.transport = t->transport,
                                   .host = s->at[n].host,
                                   .port = s->at[n].port,
                                   .user = s->user,
                                   .password = s->password,
                                   .tls = t->tls};
}

void redis_endpoint_describe(const struct redis_endpoint *t, struct buf *out)
{
    if (t->transport == REDIS_TRANSPORT_UNIX)
        buf_printf(out, "%s", t->path);
    else if (t->host == NULL && redis_endpoint_is_cluster(t))
        buf_printf(out, "slot %d of the cluster", t->discovery.slot);
    else if (t->host == NULL)
        buf_printf(out, "%s/%d by Sentinel", t->discovery.master, t->db);
    else
        buf_printf(out, strchr(t->host, ':') != NULL ? "[%s]:%d/%d" : "%s:%d/%d", t->host, t->port, t->db);
}

/* Redis quotes only the beginning of a long argument, so only the beginning of the secret is compared. */
static bool redis_endpoint_quotes(struct span text, const char *secret)
{
    size_t len = secret != NULL ? strnlen(secret, QUOTED) : 0;
    return len > 0 && memmem(text.data, text.len, secret, len) != NULL;
}

/*
 * Only an ERR can quote: it refers to our command, of which Redis before 6 repeats the arguments with spaces
 * in place of line ends. Every other code (NOAUTH, LOADING) has a constant text, as our own reasons have, and
 * a password such as "user" may be a word of it.
 */
const char *redis_endpoint_redact(const struct redis_endpoint *t, const char *reason)
{
    struct span text = span_of(reason);
    if (!span_starts_with(text, SPAN("ERR ")))
        return reason;
    if (span_starts_with(text, SPAN("ERR unknown command")) && strstr(reason, "HELLO") != NULL)
        return "ERR unknown command HELLO: Redis older than 6";
    bool quotes =
        redis_endpoint_quotes(text, t->password) || redis_endpoint_quotes(text, t->discovery.password);
    return quotes ? "ERR with a text that repeats the password, and is withheld" : reason;
}

void redis_endpoint_log(const struct redis_endpoint *t, enum log_level level, const char *message,
                        const char *kind, const char *client, const char *why)
{
    struct log_line line;
    if (!log_begin(&line, level, message))
        return;
    struct buf where = BUF_INIT;
    redis_endpoint_describe(t, &where);
    log_str(&line, kind, buf_span(&where));
    log_str(&line, "client", span_of(client));
    if (why != NULL)
        log_str(&line, "reason", span_of(redis_endpoint_redact(t, why)));
    log_end(&line);
    buf_fini(&where);
}

/* --- addresses that servers announce --- */

bool redis_address_set(struct redis_address *out, struct span host, int64_t port)
{
    if (host.len == 0 || host.len >= REDIS_HOST_SIZE || !span_all(host, redis_endpoint_is_host_char) ||
        span_find(host, '%') < host.len || port < 1 || port > PORT_MAX)
        return false;
    *span_put(host, out->host) = '\0';
    out->port = (int)port;
    out->id[0] = '\0';
    return true;
}
