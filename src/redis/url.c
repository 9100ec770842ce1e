/* Reading Redis addresses; see target.h for their forms. */
#include "redis/url.h"

#include "base/parse.h"
#include "base/uri.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/un.h>

enum { REDIS_PORT = 6379, SENTINEL_PORT = 26379, PORT_MAX = 65535, DB_MAX = 1 << 20 };

static char *copy(struct span s)
{
    return strndup(s.data, s.len);
}

/* *out becomes `s` decoded once, owned. A NUL byte in it (%00) would cut it short. */
static int copy_decoded(struct span s, char **out, const char **why)
{
    char *text = malloc(s.len + 1);
    if (text == NULL)
        return -ENOMEM;
    size_t n = uri_decode(s, text);
    text[n] = '\0';
    *out = text; /* freed by redis_target_fini in any case */
    if (strlen(text) == n)
        return 0;
    *why = "must not hold a NUL byte";
    return -EINVAL;
}

static int read_userinfo(struct redis_target *t, struct span info, const char **why)
{
    struct span user = {info.data, span_find(info, ':')};
    int err = 0;
    if (user.len < info.len)
        err = copy_decoded(span_skip(info, user.len + 1), &t->password, why);
    if (err == 0 && user.len > 0)
        err = copy_decoded(user, &t->user, why);
    return err;
}

/* Takes `user:password@` off the front of the authority. */
static int take_userinfo(struct redis_target *t, struct span *authority, const char **why)
{
    size_t at = authority->len;
    while (at > 0 && authority->data[at - 1] != '@')
        at--;
    if (at == 0)
        return 0;
    struct span info = {authority->data, at - 1};
    *authority = span_skip(*authority, at);
    return read_userinfo(t, info, why);
}

static int read_port(struct span text, int *out, const char **why)
{
    int64_t port = 0;
    if (parse_int64(text, &port) != 0 || port < 1 || port > PORT_MAX) {
        *why = "the port must be a number from 1 to 65535";
        return -EINVAL;
    }
    *out = (int)port;
    return 0;
}

/* host[:port], where *port is the default; *out is owned. */
static int read_host(struct span authority, char **out, int *port, const char **why)
{
    struct span host = authority;
    struct span rest;
    if (authority.len > 0 && authority.data[0] == '[') {
        size_t close = span_find(authority, ']');
        if (close == authority.len) {
            *why = "an IPv6 address must end with ]";
            return -EINVAL;
        }
        host = (struct span){authority.data + 1, close - 1};
        rest = span_skip(authority, close + 1);
    } else {
        host.len = span_find(authority, ':');
        rest = span_skip(authority, host.len);
    }
    if (host.len == 0) {
        *why = "the host is missing";
        return -EINVAL;
    }
    if (span_find(host, '?') < host.len || span_find(host, '#') < host.len) {
        *why = "a query or fragment does not belong here; the database is written /N";
        return -EINVAL;
    }
    if (rest.len > 0) {
        int err = rest.data[0] == ':' ? read_port(span_skip(rest, 1), port, why) : -EINVAL;
        if (err != 0)
            return err;
    }
    *out = copy(host);
    return *out == NULL ? -ENOMEM : 0;
}

static int read_db(struct redis_target *t, struct span text, const char **why)
{
    if (text.len == 0)
        return 0;
    int64_t db = 0;
    if (parse_int64(text, &db) != 0 || db < 0 || db > DB_MAX) {
        *why = "the database must be a number, 0 or more";
        return -EINVAL;
    }
    t->db = (int)db;
    return 0;
}

static int read_network(struct redis_target *t, struct span rest, const char **why)
{
    struct span authority = {rest.data, span_find(rest, '/')};
    struct span path = span_skip(rest, authority.len);
    int err = take_userinfo(t, &authority, why);
    t->port = REDIS_PORT;
    if (err == 0)
        err = read_host(authority, &t->host, &t->port, why);
    if (err == 0 && path.len > 0)
        err = read_db(t, span_skip(path, 1), why);
    return err;
}

/* host[:port],host[:port],... */
static int read_sentinels(struct redis_sentinels *s, struct span list, const char **why)
{
    for (;;) {
        struct span one = {list.data, span_find(list, ',')};
        if (s->count == REDIS_SENTINELS_MAX) {
            *why = "more than 16 Sentinels";
            return -EINVAL;
        }
        int n = s->count++;
        s->at[n].port = SENTINEL_PORT;
        int err = read_host(one, &s->at[n].host, &s->at[n].port, why);
        if (err != 0 || one.len == list.len)
            return err;
        list = span_skip(list, one.len + 1);
    }
}

static int read_master(struct redis_sentinels *s, struct span name, const char **why)
{
    int err = copy_decoded(name, &s->master, why);
    if (err != 0)
        return err;
    bool good = s->master[0] != '\0';
    for (const char *p = s->master; *p != '\0'; p++)
        good = good && *p > ' ' && *p <= '~';
    if (good)
        return 0;
    *why = "the name of the master is missing: redis+sentinel://host,host/NAME";
    return -EINVAL;
}

static int read_role(struct redis_sentinels *s, struct span query, const char **why)
{
    struct span role = uri_query_find(query, SPAN("role"));
    s->replica = span_equal(role, SPAN("replica"));
    if (s->replica || role.data == NULL || span_equal(role, SPAN("master")))
        return 0;
    *why = "the role is master or replica";
    return -EINVAL;
}

static int read_by_sentinel(struct redis_target *t, struct span rest, const char **why)
{
    struct span authority = {rest.data, span_find(rest, '/')};
    struct span path = span_skip(rest, authority.len);
    struct span query = span_skip(path, span_find(path, '?'));
    path.len -= query.len;
    int err = take_userinfo(t, &authority, why);
    if (err == 0)
        err = read_sentinels(&t->sentinels, authority, why);
    if (err != 0)
        return err;
    struct span name = path.len > 0 ? span_skip(path, 1) : path;
    name.len = span_find(name, '/');
    err = read_master(&t->sentinels, name, why);
    size_t used = name.len + 2; /* with the slash on either side */
    if (err == 0 && path.len > used)
        err = read_db(t, span_skip(path, used), why);
    if (err == 0 && query.len > 0)
        err = read_role(&t->sentinels, span_skip(query, 1), why);
    return err;
}

static int read_unix(struct redis_target *t, struct span rest, const char **why)
{
    struct span authority = {rest.data, span_find(rest, '/')};
    struct span path = span_skip(rest, authority.len);
    int err = take_userinfo(t, &authority, why);
    if (err != 0)
        return err;
    if (authority.len > 0 || path.len == 0) {
        *why = "a socket is written unix:///path";
        return -EINVAL;
    }
    struct span name = {path.data, span_find(path, '?')};
    struct span query = span_skip(path, name.len);
    if (query.len > 0) {
        struct span db = uri_query_find(span_skip(query, 1), SPAN("db"));
        err = read_db(t, db, why);
    }
    if (err != 0)
        return err;
    err = copy_decoded(name, &t->path, why);
    if (err == 0 && strlen(t->path) >= sizeof((struct sockaddr_un *)0)->sun_path) {
        *why = "the path of the socket is too long";
        return -EINVAL;
    }
    return err;
}

int redis_url_read(struct redis_target *t, struct span url, const char **why)
{
    static const struct {
        struct span start;
        enum redis_transport transport;
        int (*read)(struct redis_target *t, struct span rest, const char **why);
    } schemes[] = {{{"redis://", 8}, REDIS_TRANSPORT_TCP, read_network},
                   {{"rediss://", 9}, REDIS_TRANSPORT_TLS, read_network},
                   {{"unix://", 7}, REDIS_TRANSPORT_UNIX, read_unix},
                   {{"redis+sentinel://", 17}, REDIS_TRANSPORT_TCP, read_by_sentinel},
                   {{"rediss+sentinel://", 18}, REDIS_TRANSPORT_TLS, read_by_sentinel}};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (!span_starts_with(url, schemes[i].start))
            continue;
        t->transport = schemes[i].transport;
        return schemes[i].read(t, span_skip(url, schemes[i].start.len), why);
    }
    *why = "must begin with redis://, rediss://, unix://, redis+sentinel:// or rediss+sentinel://";
    return -EINVAL;
}
