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

/* A failure is sticky, as a buffer's is: the first one gives the reason. */
struct endpoint_reader {
    struct redis_endpoint *t;
    struct buf *why;
    int err;
};

static void redis_endpoint_refuse(struct endpoint_reader *r, const char *why)
{
    if (r->err == 0)
        buf_append_str(r->why, why);
    r->err = r->err == 0 ? -EINVAL : r->err;
}

/* --- parts of URLs --- */

/* *out becomes `text`, decoded once, and is owned. A NUL byte in it (%00) would cut it short. */
static void redis_endpoint_copy_decoded(struct endpoint_reader *r, struct span text, char **out)
{
    char *decoded = malloc(text.len + 1);
    if (decoded == NULL) {
        r->err = -ENOMEM;
        return;
    }
    size_t n = uri_decode(text, decoded);
    decoded[n] = '\0';
    if (strlen(decoded) < n)
        redis_endpoint_refuse(r, "must not hold a NUL byte");
    *out = decoded; /* redis_endpoint_fini frees it in any case */
}

/* Takes `user:password@` from the front of the authority. */
static void redis_endpoint_take_userinfo(struct endpoint_reader *r, struct span *authority)
{
    size_t at = authority->len;
    while (at > 0 && authority->data[at - 1] != '@')
        at--;
    if (at == 0)
        return;
    struct span password = {authority->data, at - 1};
    struct span user = span_cut(&password, ':');
    *authority = span_skip(*authority, at);
    if (password.data != NULL)
        redis_endpoint_copy_decoded(r, password, &r->t->password);
    if (r->err == 0 && user.len > 0)
        redis_endpoint_copy_decoded(r, user, &r->t->user);
}

static int redis_endpoint_read_number(struct endpoint_reader *r, struct span text, int least, int most,
                                      const char *why)
{
    int64_t number = 0;
    if (parse_int64(text, &number) != 0 || number < least || number > most)
        redis_endpoint_refuse(r, why);
    return (int)number;
}

/* Returns why the text cannot be a host with a port, or NULL. */
static const char *redis_endpoint_check_authority(struct span text, struct authority *out)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.data[i] <= ' ' || text.data[i] == 0x7F)
            return "a host must not contain blanks or line ends";
        if (text.data[i] == ',')
            return "several hosts need redis+sentinel:// or redis+cluster://";
        if (text.data[i] == '?' || text.data[i] == '#')
            return "a query or fragment does not belong here";
    }
    if (!authority_split(text, out))
        return "is not a Redis address";
    return out->host.len == 0 ? "the host is missing" : NULL;
}

/* The zone of an IPv6 address follows "%25" in a URL (RFC 6874), and "%" everywhere else. */
static void redis_endpoint_decode_zone(char *address)
{
    char *zone = strstr(address, "%25");
    if (zone != NULL && zone[3] != '\0')
        memmove(zone + 1, zone + 3, strlen(zone + 3) + 1);
}

/* Parses host[:port]. *port is the default, and *out is owned. */
static void redis_endpoint_read_host(struct endpoint_reader *r, struct span text, char **out, int *port)
{
    struct authority a;
    const char *problem = redis_endpoint_check_authority(text, &a);
    if (problem != NULL) {
        redis_endpoint_refuse(r, problem);
        return;
    }
    if (a.port.data != NULL)
        *port =
            redis_endpoint_read_number(r, a.port, 1, PORT_MAX, "the port must be a number from 1 to 65535");
    *out = strndup(a.host.data, a.host.len);
    if (*out == NULL)
        r->err = -ENOMEM;
    else if (a.bracketed)
        redis_endpoint_decode_zone(*out);
}

static void redis_endpoint_read_db(struct endpoint_reader *r, struct span text)
{
    if (text.len > 0)
        r->t->db = redis_endpoint_read_number(r, text, 0, DB_MAX, "the database must be a number, 0 or more");
}

/* Parses host[:port],host[:port],... */
static void redis_endpoint_read_servers(struct endpoint_reader *r, struct span list, int port)
{
    struct redis_discovery *s = &r->t->discovery;
    while (r->err == 0 && list.data != NULL) {
        struct span one = span_cut(&list, ',');
        if (s->count == REDIS_SERVERS_MAX) {
            redis_endpoint_refuse(r, "more than 16 hosts");
            return;
        }
        s->at[s->count].port = port;
        redis_endpoint_read_host(r, one, &s->at[s->count].host, &s->at[s->count].port);
        s->count++;
    }
}

static void redis_endpoint_read_master(struct endpoint_reader *r, struct span name)
{
    struct redis_discovery *s = &r->t->discovery;
    redis_endpoint_copy_decoded(r, name, &s->master);
    if (r->err != 0)
        return;
    bool good = s->master[0] != '\0';
    for (const char *p = s->master; *p != '\0'; p++)
        good = good && *p > ' ' && *p <= '~';
    if (strchr(s->master, '@') != NULL)
        redis_endpoint_refuse(r, "the name of the master contains @: write / in a password as %2F");
    if (!good)
        redis_endpoint_refuse(r, "the name of the master is missing: redis+sentinel://host,host/NAME");
}

/* --- the schemes --- */

/* The parts of a URL behind its scheme and its user. */
struct url {
    struct span authority;
    struct span path;  /* without the slash before it */
    struct span query; /* without its question mark */
};

static void redis_endpoint_read_network(struct endpoint_reader *r, const struct url *url)
{
    r->t->port = REDIS_PORT;
    redis_endpoint_read_host(r, url->authority, &r->t->host, &r->t->port);
    redis_endpoint_read_db(r, url->path);
}

static void redis_endpoint_read_by_sentinel(struct endpoint_reader *r, const struct url *url)
{
    struct span db = url->path;
    struct span name = span_cut(&db, '/');
    struct span role = uri_query_find(url->query, SPAN("role"));
    r->t->discovery.kind = REDIS_DISCOVERY_SENTINEL;
    r->t->discovery.replica = span_equal(role, SPAN("replica"));
    redis_endpoint_read_servers(r, url->authority, SENTINEL_PORT);
    redis_endpoint_read_master(r, name);
    redis_endpoint_read_db(r, db);
    if (role.data != NULL && !r->t->discovery.replica && !span_equal(role, SPAN("master")))
        redis_endpoint_refuse(r, "the role is master or replica");
}

static void redis_endpoint_read_by_cluster(struct endpoint_reader *r, const struct url *url)
{
    r->t->discovery.kind = REDIS_DISCOVERY_CLUSTER;
    redis_endpoint_read_servers(r, url->authority, REDIS_PORT);
    redis_endpoint_read_db(r, url->path);
    if (r->t->db != 0)
        redis_endpoint_refuse(r, "a Redis Cluster has database 0 only");
    if (uri_query_find(url->query, SPAN("role")).data != NULL)
        redis_endpoint_refuse(r, "replicas of a Redis Cluster are not read: leave ?role out");
}

static void redis_endpoint_read_unix(struct endpoint_reader *r, const struct url *url)
{
    if (url->authority.len > 0 || url->path.data == NULL) {
        redis_endpoint_refuse(r, "a socket is written unix:///path");
        return;
    }
    redis_endpoint_read_db(r, uri_query_find(url->query, SPAN("db")));
    redis_endpoint_copy_decoded(r, (struct span){url->path.data - 1, url->path.len + 1}, &r->t->path);
    if (r->t->path != NULL && strlen(r->t->path) >= sizeof((struct sockaddr_un *)0)->sun_path)
        redis_endpoint_refuse(r, "the path of the socket is too long");
}

struct scheme {
    struct span start;
    enum redis_transport transport;
    void (*read)(struct endpoint_reader *r, const struct url *url);
    struct span option; /* the only option that the query may contain */
};

/*
 * The query may have the option `known` and no other. The text before an at-sign may be the rest of a
 * password that was not percent-encoded, so it is not named.
 */
static void redis_endpoint_check_options(struct endpoint_reader *r, struct span query, struct span known)
{
    for (struct span rest = query; r->err == 0 && rest.len > 0;) {
        struct span one = span_cut(&rest, '&');
        struct span name = {one.data, span_find(one, '=')};
        if (one.len == 0 || span_equal(name, known))
            continue;
        if (!name_valid(name, OPTION_NAME_MAX) || span_find(query, '@') < query.len) {
            redis_endpoint_refuse(r, "has an unknown option behind its question mark");
        } else {
            redis_endpoint_refuse(r, "unknown option ");
            buf_append_span(r->why, name);
        }
    }
}

/* `rest` is the URL without `start`. */
static void redis_endpoint_read_by(struct endpoint_reader *r, const struct scheme *scheme, struct span rest)
{
    struct url url = {.path = rest};
    url.authority = span_cut(&url.path, '/');
    redis_endpoint_take_userinfo(r, &url.authority);
    struct span *behind = url.path.data != NULL ? &url.path : &url.authority;
    url.query = *behind;
    *behind = span_cut(&url.query, '?');
    r->t->transport = scheme->transport;
    redis_endpoint_check_options(r, url.query, scheme->option);
    if (r->err == 0)
        scheme->read(r, &url);
}

/* User and password stay NULL if the URL has none. */
static void redis_endpoint_read_url(struct endpoint_reader *r, struct span url)
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
        redis_endpoint_refuse(r, "ends with a blank or a line end");
    for (size_t i = 0; r->err == 0 && i < sizeof schemes / sizeof schemes[0]; i++)
        if (span_starts_with(url, schemes[i].start)) {
            redis_endpoint_read_by(r, &schemes[i], span_skip(url, schemes[i].start.len));
            return;
        }
    redis_endpoint_refuse(
        r, "must begin with redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, "
           "redis+cluster:// or rediss+cluster://");
}

/* --- endpoints --- */

/* *out becomes a copy of `text`, unless it is set or `text` is empty. */
static void redis_endpoint_fill_in(struct endpoint_reader *r, char **out, const char *text)
{
    if (r->err != 0 || *out != NULL || text[0] == '\0')
        return;
    *out = strdup(text);
    if (*out == NULL)
        r->err = -ENOMEM;
}

/* A user needs a password, which may be the default one. Without a user it is the default user. */
static void redis_endpoint_complete(struct endpoint_reader *r, char **user, char **password,
                                    const char *default_password, const char *why)
{
    redis_endpoint_fill_in(r, password, default_password);
    if (*user != NULL && *password == NULL)
        redis_endpoint_refuse(r, why);
    redis_endpoint_fill_in(r, user, "default");
}

int redis_endpoint_init(struct redis_endpoint *out, const struct redis_options *options, struct buf *why)
{
    struct redis_discovery *s = &out->discovery;
    struct endpoint_reader r = {.t = out, .why = why};
    *out = (struct redis_endpoint){0};
    redis_endpoint_read_url(&r, span_of(options->url));
    redis_endpoint_complete(&r, &out->user, &out->password, options->password,
                            "a user needs a password (an empty one is written user:@host)");
    if (s->kind == REDIS_DISCOVERY_SENTINEL) {
        redis_endpoint_fill_in(&r, &s->user, options->sentinel_user);
        redis_endpoint_complete(
            &r, &s->user, &s->password, options->sentinel_password,
            "a user for the Sentinels (redis-sentinel-user) needs a password (redis-sentinel-password)");
    }
    return r.err;
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
    redis_tls_free(t->tls);
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

void redis_endpoint_select(const struct redis_endpoint *t, struct buf *out)
{
    if (t->db == 0)
        return;
    command_begin(out, 2);
    command_add(out, SPAN("SELECT"));
    command_add_int(out, t->db);
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

/* --- what connections are made with --- */

void redis_config_unref(struct redis_config *c)
{
    if (c == NULL || atomic_fetch_sub_explicit(&c->references, 1, memory_order_acq_rel) > 1)
        return;
    redis_endpoint_fini(&c->endpoint);
    free(c);
}

int redis_config_new(const struct redis_options *options, struct span prefix, uint64_t number,
                     struct redis_config **out, struct buf *why, const char **setting)
{
    struct redis_config *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -ENOMEM;
    atomic_init(&c->references, 1);
    c->number = number;
    *setting = "redis-url";
    int err = redis_endpoint_init(&c->endpoint, options, why);
    if (err == 0 && redis_endpoint_set_prefix(&c->endpoint, prefix) != 0) {
        *setting = "redis-prefix";
        buf_append_str(
            why, "a Redis Cluster needs a hash tag in the prefix, such as {channels}:, so that all keys "
                 "are in one slot");
        err = -EINVAL;
    }
    if (err == 0 && c->endpoint.transport == REDIS_TRANSPORT_TLS)
        err = redis_tls_new(options, &c->endpoint.tls, why, setting);
    if (err != 0) {
        redis_config_unref(c);
        return err;
    }
    *out = c;
    return 0;
}

/* --- addresses that servers announce --- */

static bool redis_endpoint_is_host_char(char c)
{
    return ascii_is_alnum(c) || memchr(".:_-", c, 4) != NULL;
}

bool redis_address_set(struct redis_address *out, struct span host, int64_t port)
{
    if (host.len == 0 || host.len >= REDIS_HOST_SIZE || !span_all(host, redis_endpoint_is_host_char) ||
        port < 1 || port > PORT_MAX)
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
