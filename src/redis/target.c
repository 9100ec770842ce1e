/* Reading Redis addresses; see target.h. */
#include "redis/target.h"

#include "base/parse.h"
#include "base/uri.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

enum { QUOTED = 16 }; /* so many bytes of a password are the password */

enum { DEFAULT_PORT = 6379, PORT_MAX = 65535, DB_MAX = 1 << 20 };

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

static int read_port(struct redis_target *t, struct span text, const char **why)
{
    int64_t port = 0;
    if (parse_int64(text, &port) != 0 || port < 1 || port > PORT_MAX) {
        *why = "the port must be a number from 1 to 65535";
        return -EINVAL;
    }
    t->port = (int)port;
    return 0;
}

static int read_host(struct redis_target *t, struct span authority, const char **why)
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
    t->port = DEFAULT_PORT;
    if (rest.len > 0) {
        int err = rest.data[0] == ':' ? read_port(t, span_skip(rest, 1), why) : -EINVAL;
        if (err != 0)
            return err;
    }
    t->host = copy(host);
    return t->host == NULL ? -ENOMEM : 0;
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
    if (err == 0)
        err = read_host(t, authority, why);
    if (err == 0 && path.len > 0)
        err = read_db(t, span_skip(path, 1), why);
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

static int read_url(struct redis_target *t, struct span url, const char **why)
{
    static const struct {
        struct span start;
        enum redis_transport transport;
    } schemes[] = {{{"redis://", 8}, REDIS_TRANSPORT_TCP},
                   {{"rediss://", 9}, REDIS_TRANSPORT_TLS},
                   {{"unix://", 7}, REDIS_TRANSPORT_UNIX}};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (!span_starts_with(url, schemes[i].start))
            continue;
        t->transport = schemes[i].transport;
        struct span rest = span_skip(url, schemes[i].start.len);
        return t->transport == REDIS_TRANSPORT_UNIX ? read_unix(t, rest, why) : read_network(t, rest, why);
    }
    *why = "must begin with redis://, rediss:// or unix://";
    return -EINVAL;
}

int redis_target_init(struct redis_target *out, const struct redis_options *options, const char **why)
{
    *out = (struct redis_target){0};
    *why = "is not a Redis address";
    int err = read_url(out, span_of(options->url), why);
    if (err != 0)
        return err;
    if (out->password == NULL && options->password[0] != '\0') {
        out->password = strdup(options->password);
        if (out->password == NULL)
            return -ENOMEM;
    }
    if (out->user != NULL && out->password == NULL) {
        *why = "a user needs a password (an empty one is written user:@host)";
        return -EINVAL;
    }
    if (out->user == NULL)
        out->user = strdup("default");
    return out->user == NULL ? -ENOMEM : 0;
}

void redis_target_fini(struct redis_target *t)
{
    free(t->host);
    free(t->path);
    free(t->user);
    if (t->password != NULL)
        explicit_bzero(t->password, strlen(t->password));
    free(t->password);
    *t = (struct redis_target){0};
}

void redis_target_describe(const struct redis_target *t, struct buf *out)
{
    if (t->transport == REDIS_TRANSPORT_UNIX)
        buf_printf(out, "%s", t->path);
    else
        buf_printf(out, strchr(t->host, ':') != NULL ? "[%s]:%d/%d" : "%s:%d/%d", t->host, t->port, t->db);
}

/* Redis quotes but the beginning of a long argument, so its beginning is enough. */
static bool quotes(const char *said, const char *secret)
{
    char start[QUOTED + 1];
    if (secret == NULL || secret[0] == '\0')
        return false;
    (void)snprintf(start, sizeof start, "%s", secret);
    return strstr(said, start) != NULL;
}

const char *redis_target_discreet(const struct redis_target *t, const char *said)
{
    return quotes(said, t->password) ? "an error that quotes the password; is it older than Redis 6?" : said;
}

int redis_target_hello(const struct redis_target *t, const char *client_name,
                       const char *argv[REDIS_HELLO_ARGS_MAX])
{
    int n = 0;
    argv[n++] = "HELLO";
    argv[n++] = "3";
    if (t->password != NULL) {
        argv[n++] = "AUTH";
        argv[n++] = t->user;
        argv[n++] = t->password;
    }
    argv[n++] = "SETNAME";
    argv[n++] = client_name;
    return n;
}
