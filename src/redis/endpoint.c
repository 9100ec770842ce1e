/* Parses Redis addresses, and combines them with the other settings; see endpoint.h. */
#include "redis/endpoint.h"

#include "base/text.h"
#include "redis/resp.h"
#include "redis/tls.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

enum {
    REDIS_PORT = 6379,
    SENTINEL_PORT = 26379,
    PORT_MAX = 65535,
    DB_MAX = 1 << 20,
    OPTION_NAME_MAX = 32,
    QUOTED = 16 /* the bytes of a password that must not be in a text */
};

static int redis_endpoint_invalid(struct buf *why, const char *text)
{
    buf_append_str(why, text);
    return -EINVAL;
}

/* --- addresses --- */

static bool redis_endpoint_is_option_name(struct span name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!ascii_is_alnum(name.data[i]) && name.data[i] != '_' && name.data[i] != '-')
            return false;
    return name.len > 0 && name.len <= OPTION_NAME_MAX;
}

/*
 * The text before an at-sign may be the rest of a password that was not percent-encoded, so it is not named.
 */
static int redis_endpoint_unknown_option(struct span name, struct span query, struct buf *why)
{
    if (!redis_endpoint_is_option_name(name) || span_find(query, '@') < query.len)
        return redis_endpoint_invalid(why, "has an unknown option behind its question mark");
    buf_printf(why, "unknown option %.*s", (int)name.len, name.data);
    return -EINVAL;
}

/* `query` may hold the option `known` and no other. */
static int redis_endpoint_check_options(struct span query, struct span known, struct buf *why)
{
    for (struct span rest = query; rest.len > 0;) {
        struct span one = span_cut(&rest, '&');
        struct span name = {one.data, span_find(one, '=')};
        if (one.len > 0 && !span_equal(name, known))
            return redis_endpoint_unknown_option(name, query, why);
    }
    return 0;
}

/* *out becomes `s`, decoded once, and is owned. A NUL byte in it (%00) would cut it short. */
static int redis_endpoint_copy_decoded(struct span s, char **out, struct buf *why)
{
    char *text = malloc(s.len + 1);
    if (text == NULL)
        return -ENOMEM;
    size_t n = uri_decode(s, text);
    text[n] = '\0';
    *out = text; /* redis_endpoint_fini frees it in any case */
    if (strlen(text) == n)
        return 0;
    return redis_endpoint_invalid(why, "must not hold a NUL byte");
}

static int redis_endpoint_read_userinfo(struct redis_endpoint *t, struct span info, struct buf *why)
{
    struct span user = {info.data, span_find(info, ':')};
    int err = 0;
    if (user.len < info.len)
        err = redis_endpoint_copy_decoded(span_skip(info, user.len + 1), &t->password, why);
    if (err == 0 && user.len > 0)
        err = redis_endpoint_copy_decoded(user, &t->user, why);
    return err;
}

/* Takes `user:password@` from the front of the authority. */
static int redis_endpoint_take_userinfo(struct redis_endpoint *t, struct span *authority, struct buf *why)
{
    size_t at = authority->len;
    while (at > 0 && authority->data[at - 1] != '@')
        at--;
    if (at == 0)
        return 0;
    struct span info = {authority->data, at - 1};
    *authority = span_skip(*authority, at);
    return redis_endpoint_read_userinfo(t, info, why);
}

static int redis_endpoint_read_port(struct span text, int *out, struct buf *why)
{
    int64_t port = 0;
    if (parse_int64(text, &port) != 0 || port < 1 || port > PORT_MAX)
        return redis_endpoint_invalid(why, "the port must be a number from 1 to 65535");
    *out = (int)port;
    return 0;
}

/* Returns why the host cannot be one, or NULL. */
static const char *redis_endpoint_check_host(struct span host)
{
    for (size_t i = 0; i < host.len; i++) {
        if ((unsigned char)host.data[i] <= ' ' || host.data[i] == 0x7F)
            return "a host must not contain blanks or line ends";
        if (host.data[i] == ',')
            return "several hosts need redis+sentinel:// or redis+cluster://";
        if (host.data[i] == '?' || host.data[i] == '#')
            return "a query or fragment does not belong here";
    }
    return NULL;
}

/* The zone of an IPv6 address follows "%25" in a URL (RFC 6874), and "%" everywhere else. */
static void redis_endpoint_decode_zone(char *address)
{
    char *zone = strstr(address, "%25");
    if (zone != NULL && zone[3] != '\0')
        memmove(zone + 1, zone + 3, strlen(zone + 3) + 1);
}

/* Parses host[:port]. *port is the default, and *out is owned. */
static int redis_endpoint_read_host(struct span authority, char **out, int *port, struct buf *why)
{
    struct span host = authority;
    struct span rest;
    if (authority.len > 0 && authority.data[0] == '[') {
        size_t close = span_find(authority, ']');
        if (close == authority.len)
            return redis_endpoint_invalid(why, "an IPv6 address must end with ]");
        host = (struct span){authority.data + 1, close - 1};
        rest = span_skip(authority, close + 1);
    } else {
        host.len = span_find(authority, ':');
        rest = span_skip(authority, host.len);
    }
    if (host.len == 0)
        return redis_endpoint_invalid(why, "the host is missing");
    const char *problem = redis_endpoint_check_host(host);
    if (problem != NULL)
        return redis_endpoint_invalid(why, problem);
    if (rest.len > 0) {
        int err = rest.data[0] == ':' ? redis_endpoint_read_port(span_skip(rest, 1), port, why) : -EINVAL;
        if (err != 0)
            return err;
    }
    *out = strndup(host.data, host.len);
    if (*out != NULL && host.data != authority.data)
        redis_endpoint_decode_zone(*out);
    return *out == NULL ? -ENOMEM : 0;
}

static int redis_endpoint_read_db(struct redis_endpoint *t, struct span text, struct buf *why)
{
    if (text.len == 0)
        return 0;
    int64_t db = 0;
    if (parse_int64(text, &db) != 0 || db < 0 || db > DB_MAX)
        return redis_endpoint_invalid(why, "the database must be a number, 0 or more");
    t->db = (int)db;
    return 0;
}

/* Parses host[:port],host[:port],... */
static int redis_endpoint_read_servers(struct redis_discovery *s, struct span list, int port, struct buf *why)
{
    int err = 0;
    while (err == 0 && list.data != NULL) {
        struct span one = span_cut(&list, ',');
        if (s->count == REDIS_SERVERS_MAX)
            return redis_endpoint_invalid(why, "more than 16 hosts");
        int n = s->count++;
        s->at[n].port = port;
        err = redis_endpoint_read_host(one, &s->at[n].host, &s->at[n].port, why);
    }
    return err;
}

static int redis_endpoint_read_master(struct redis_discovery *s, struct span name, struct buf *why)
{
    int err = redis_endpoint_copy_decoded(name, &s->master, why);
    if (err != 0)
        return err;
    bool good = s->master[0] != '\0';
    for (const char *p = s->master; *p != '\0'; p++)
        good = good && *p > ' ' && *p <= '~';
    if (strchr(s->master, '@') != NULL)
        return redis_endpoint_invalid(why, "the name of the master contains @: write / in a password as %2F");
    if (good)
        return 0;
    return redis_endpoint_invalid(why, "the name of the master is missing: redis+sentinel://host,host/NAME");
}

static int redis_endpoint_read_role(struct redis_discovery *s, struct span query, struct buf *why)
{
    struct span role = uri_query_find(query, SPAN("role"));
    s->replica = span_equal(role, SPAN("replica"));
    if (s->replica || role.data == NULL || span_equal(role, SPAN("master")))
        return 0;
    return redis_endpoint_invalid(why, "the role is master or replica");
}

/* --- the schemes --- */

/* The parts of a URL behind its scheme and its user. */
struct url {
    struct span authority;
    struct span path;  /* without the slash before it */
    struct span query; /* without its question mark */
};

static int redis_endpoint_read_network(struct redis_endpoint *t, const struct url *url, struct buf *why)
{
    t->port = REDIS_PORT;
    int err = redis_endpoint_read_host(url->authority, &t->host, &t->port, why);
    return err != 0 ? err : redis_endpoint_read_db(t, url->path, why);
}

static int redis_endpoint_read_by_sentinel(struct redis_endpoint *t, const struct url *url, struct buf *why)
{
    struct span db = url->path;
    struct span name = span_cut(&db, '/');
    t->discovery.kind = REDIS_DISCOVERY_SENTINEL;
    int err = redis_endpoint_read_servers(&t->discovery, url->authority, SENTINEL_PORT, why);
    if (err == 0)
        err = redis_endpoint_read_master(&t->discovery, name, why);
    if (err == 0)
        err = redis_endpoint_read_db(t, db, why);
    return err != 0 ? err : redis_endpoint_read_role(&t->discovery, url->query, why);
}

static int redis_endpoint_read_by_cluster(struct redis_endpoint *t, const struct url *url, struct buf *why)
{
    t->discovery.kind = REDIS_DISCOVERY_CLUSTER;
    int err = redis_endpoint_read_servers(&t->discovery, url->authority, REDIS_PORT, why);
    if (err == 0)
        err = redis_endpoint_read_db(t, url->path, why);
    if (err == 0 && t->db != 0)
        return redis_endpoint_invalid(why, "a Redis Cluster has database 0 only");
    if (err == 0 && uri_query_find(url->query, SPAN("role")).data != NULL)
        return redis_endpoint_invalid(why, "replicas of a Redis Cluster are not read: leave ?role out");
    return err;
}

static int redis_endpoint_read_unix(struct redis_endpoint *t, const struct url *url, struct buf *why)
{
    if (url->authority.len > 0 || url->path.data == NULL)
        return redis_endpoint_invalid(why, "a socket is written unix:///path");
    const struct span path = {url->path.data - 1, url->path.len + 1}; /* the path with its slash */
    int err = redis_endpoint_read_db(t, uri_query_find(url->query, SPAN("db")), why);
    if (err == 0)
        err = redis_endpoint_copy_decoded(path, &t->path, why);
    if (err == 0 && strlen(t->path) >= sizeof((struct sockaddr_un *)0)->sun_path)
        return redis_endpoint_invalid(why, "the path of the socket is too long");
    return err;
}

struct scheme {
    struct span start;
    enum redis_transport transport;
    int (*read)(struct redis_endpoint *t, const struct url *url, struct buf *why);
    struct span option; /* the only option that the query may contain */
};

/* `rest` is the URL without `start`. */
static int redis_endpoint_read_by(struct redis_endpoint *t, const struct scheme *scheme, struct span rest,
                                  struct buf *why)
{
    size_t slash = span_find(rest, '/');
    struct url url = {.authority = {rest.data, slash},
                      .path = slash < rest.len ? span_skip(rest, slash + 1) : SPAN_ABSENT};
    int err = redis_endpoint_take_userinfo(t, &url.authority, why);
    if (err != 0)
        return err;
    struct span *behind = url.path.data != NULL ? &url.path : &url.authority;
    url.query = *behind;
    *behind = span_cut(&url.query, '?');
    t->transport = scheme->transport;
    err = redis_endpoint_check_options(url.query, scheme->option, why);
    return err != 0 ? err : scheme->read(t, &url, why);
}

/* Fills the zeroed `t` from `url`. User and password stay NULL if it has none. */
static int redis_endpoint_read_url(struct redis_endpoint *t, struct span url, struct buf *why)
{
    static const struct scheme schemes[] = {
        {{"redis://", 8}, REDIS_TRANSPORT_TCP, redis_endpoint_read_network, {NULL, 0}},
        {{"rediss://", 9}, REDIS_TRANSPORT_TLS, redis_endpoint_read_network, {NULL, 0}},
        {{"unix://", 7}, REDIS_TRANSPORT_UNIX, redis_endpoint_read_unix, {"db", 2}},
        {{"redis+sentinel://", 17}, REDIS_TRANSPORT_TCP, redis_endpoint_read_by_sentinel, {"role", 4}},
        {{"rediss+sentinel://", 18}, REDIS_TRANSPORT_TLS, redis_endpoint_read_by_sentinel, {"role", 4}},
        {{"redis+cluster://", 16}, REDIS_TRANSPORT_TCP, redis_endpoint_read_by_cluster, {"role", 4}},
        {{"rediss+cluster://", 17}, REDIS_TRANSPORT_TLS, redis_endpoint_read_by_cluster, {"role", 4}}};
    if (url.len > 0 && (unsigned char)url.data[url.len - 1] <= ' ')
        return redis_endpoint_invalid(why, "ends with a blank or a line end");
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (span_starts_with(url, schemes[i].start))
            return redis_endpoint_read_by(t, &schemes[i], span_skip(url, schemes[i].start.len), why);
    return redis_endpoint_invalid(
        why, "must begin with redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, "
             "redis+cluster:// or rediss+cluster://");
}

/* --- endpoints --- */

/* *out becomes a copy of `text`, unless it is set or `text` is empty. */
static int redis_endpoint_fill_in(char **out, const char *text)
{
    if (*out != NULL || text[0] == '\0')
        return 0;
    *out = strdup(text);
    return *out == NULL ? -ENOMEM : 0;
}

/* A user needs a password, which may be the default one. Without a user it is the default user. */
static int redis_endpoint_complete(char **user, char **password, const char *default_password)
{
    int err = redis_endpoint_fill_in(password, default_password);
    if (err == 0 && *user != NULL && *password == NULL)
        return -EINVAL;
    return err != 0 ? err : redis_endpoint_fill_in(user, "default");
}

static int redis_endpoint_complete_sentinels(struct redis_discovery *s, const struct redis_options *options)
{
    if (s->kind != REDIS_DISCOVERY_SENTINEL)
        return 0;
    int err = redis_endpoint_fill_in(&s->user, options->sentinel_user);
    return err != 0 ? err : redis_endpoint_complete(&s->user, &s->password, options->sentinel_password);
}

int redis_endpoint_init(struct redis_endpoint *out, const struct redis_options *options, struct buf *why)
{
    *out = (struct redis_endpoint){0};
    int err = redis_endpoint_read_url(out, span_of(options->url), why);
    if (err == -EINVAL && why->len == 0)
        return redis_endpoint_invalid(why, "is not a Redis address");
    if (err != 0)
        return err;
    err = redis_endpoint_complete(&out->user, &out->password, options->password);
    if (err == -EINVAL)
        return redis_endpoint_invalid(why, "a user needs a password (an empty one is written user:@host)");
    if (err == 0)
        err = redis_endpoint_complete_sentinels(&out->discovery, options);
    if (err == -EINVAL)
        return redis_endpoint_invalid(why, "a user for the Sentinels (redis-sentinel-user) needs a password "
                                           "(redis-sentinel-password)");
    return err;
}

static void redis_endpoint_free_secret(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

void redis_endpoint_fini(struct redis_endpoint *t)
{
    free(t->host);
    free(t->path);
    free(t->user);
    redis_endpoint_free_secret(t->password);
    for (int i = 0; i < t->discovery.count; i++)
        free(t->discovery.at[i].host);
    free(t->discovery.master);
    free(t->discovery.user);
    redis_endpoint_free_secret(t->discovery.password);
    *t = (struct redis_endpoint){0};
}

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
                                   .password = s->password};
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
static bool redis_endpoint_quotes(const char *text, const char *secret)
{
    char start[QUOTED + 1];
    if (secret == NULL || secret[0] == '\0')
        return false;
    (void)snprintf(start, sizeof start, "%s", secret);
    return strstr(text, start) != NULL;
}

/*
 * Only an ERR can quote: it refers to our command. Redis before 6 does not know HELLO and repeats its
 * arguments, the last of them cut off, and with spaces in place of line ends. Every other code stands for a
 * condition and has a constant text (WRONGPASS, NOAUTH, LOADING). A password such as "password" or "user" may
 * be a word of that text. The same is true for our own reasons.
 */
const char *redis_endpoint_redact(const struct redis_endpoint *t, const char *reason)
{
    struct span text = span_of(reason);
    bool constant = !span_starts_with(text, SPAN("ERR ")) ||
                    span_starts_with(text, SPAN("ERR max number of clients reached"));
    if (span_starts_with(text, SPAN("ERR unknown command")) && strstr(reason, "HELLO") != NULL)
        return "ERR unknown command HELLO: Redis older than 6";
    if (constant || (!redis_endpoint_quotes(reason, t->password) &&
                     !redis_endpoint_quotes(reason, t->discovery.password)))
        return reason;
    return "ERR with a text that repeats the password, and is withheld";
}

void redis_endpoint_hello(const struct redis_endpoint *t, const char *client_name, struct buf *out)
{
    bool authenticates = t->password != NULL;
    command_begin(out, authenticates ? 7 : 4);
    command_add(out, SPAN("HELLO"));
    command_add(out, SPAN("3"));
    if (authenticates) {
        command_add(out, SPAN("AUTH"));
        command_add(out, span_of(t->user));
        command_add(out, span_of(t->password));
    }
    command_add(out, SPAN("SETNAME"));
    command_add(out, span_of(client_name));
}

bool redis_endpoint_select(const struct redis_endpoint *t, struct buf *out)
{
    if (t->db == 0)
        return false;
    command_begin(out, 2);
    command_add(out, SPAN("SELECT"));
    command_add_int(out, t->db);
    return true;
}

/* --- what connections are made with --- */

int redis_config_new(struct redis_endpoint *endpoint, const struct redis_options *options, uint64_t number,
                     struct redis_config **out, struct buf *why, const char **setting)
{
    struct redis_config *c = calloc(1, sizeof *c);
    if (c == NULL) {
        redis_endpoint_fini(endpoint);
        return -ENOMEM;
    }
    atomic_init(&c->references, 1);
    c->number = number;
    c->endpoint = *endpoint;
    *endpoint = (struct redis_endpoint){0};
    int err =
        c->endpoint.transport == REDIS_TRANSPORT_TLS ? redis_tls_new(options, &c->tls, why, setting) : 0;
    if (err != 0) {
        redis_config_unref(c);
        return err;
    }
    *out = c;
    return 0;
}

void redis_config_unref(struct redis_config *c)
{
    if (c == NULL || atomic_fetch_sub_explicit(&c->references, 1, memory_order_acq_rel) > 1)
        return;
    redis_tls_free(c->tls);
    redis_endpoint_fini(&c->endpoint);
    free(c);
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
int redis_endpoint_set_prefix(struct redis_endpoint *t, struct span prefix)
{
    struct span tag = span_skip(prefix, span_find(prefix, '{'));
    if (!redis_endpoint_is_cluster(t))
        return 0;
    tag = span_skip(tag, tag.len > 0 ? 1 : 0);
    size_t len = span_find(tag, '}');
    if (len == 0 || len == tag.len)
        return -EINVAL;
    t->discovery.slot = (int)(redis_endpoint_crc16((struct span){tag.data, len}) % REDIS_CLUSTER_SLOTS);
    return 0;
}

/* --- addresses that servers announce --- */

static bool redis_endpoint_is_host(struct span host)
{
    if (host.len == 0 || host.len >= REDIS_HOST_SIZE)
        return false;
    for (size_t i = 0; i < host.len; i++)
        if (!ascii_is_alnum(host.data[i]) && memchr(".:_-", host.data[i], 4) == NULL)
            return false;
    return true;
}

bool redis_address_set(struct redis_address *out, struct span host, int64_t port)
{
    if (!redis_endpoint_is_host(host) || port < 1 || port > PORT_MAX)
        return false;
    *span_put(host, out->host) = '\0';
    out->port = (int)port;
    out->id[0] = '\0';
    return true;
}

void redis_address_set_id(struct redis_address *a, struct span id)
{
    bool fits = id.data != NULL && id.len < sizeof a->id;
    *(fits ? span_put(id, a->id) : a->id) = '\0';
}
