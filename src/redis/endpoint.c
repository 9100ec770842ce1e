/* Which Redis; see target.h. How addresses are read is in url.c. */
#include "redis/endpoint.h"

#include "redis/url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { QUOTED = 16 }; /* so many bytes of a password are the password */

/* *out becomes a copy of `text` where it has none yet. An empty text is none. */
static int fill_in(char **out, const char *text)
{
    if (*out != NULL || text[0] == '\0')
        return 0;
    *out = strdup(text);
    return *out == NULL ? -ENOMEM : 0;
}

/* A user that was named needs a password, if need be the default one; nobody is the default user. */
static int complete(char **user, char **password, const char *default_password)
{
    int err = fill_in(password, default_password);
    if (err == 0 && *user != NULL && *password == NULL)
        return -EINVAL;
    return err != 0 ? err : fill_in(user, "default");
}

static int complete_sentinels(struct redis_sentinels *s, const struct redis_options *options)
{
    int err = s->count > 0 ? fill_in(&s->user, options->sentinel_user) : 0;
    return err != 0 || s->count == 0 ? err : complete(&s->user, &s->password, options->sentinel_password);
}

static int invalid(struct buf *why, const char *text)
{
    buf_append_str(why, text);
    return -EINVAL;
}

int redis_endpoint_init(struct redis_endpoint *out, const struct redis_options *options, struct buf *why)
{
    *out = (struct redis_endpoint){0};
    int err = redis_url_read(out, span_of(options->url), why);
    if (err == -EINVAL && why->len == 0)
        return invalid(why, "is not a Redis address");
    if (err != 0)
        return err;
    err = complete(&out->user, &out->password, options->password);
    if (err == -EINVAL)
        return invalid(why, "a user needs a password (an empty one is written user:@host)");
    if (err == 0)
        err = complete_sentinels(&out->sentinels, options);
    if (err == -EINVAL)
        return invalid(why, "a user towards the Sentinels (redis-sentinel-user) needs a password "
                            "(redis-sentinel-password)");
    return err;
}

static void free_secret(char *secret)
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
    free_secret(t->password);
    for (int i = 0; i < t->sentinels.count; i++)
        free(t->sentinels.at[i].host);
    free(t->sentinels.master);
    free(t->sentinels.user);
    free_secret(t->sentinels.password);
    *t = (struct redis_endpoint){0};
}

struct redis_endpoint redis_endpoint_at(const struct redis_endpoint *t, char *host, int port)
{
    struct redis_endpoint there = *t;
    there.host = host;
    there.port = port;
    return there;
}

struct redis_endpoint redis_endpoint_sentinel(const struct redis_endpoint *t, int n)
{
    const struct redis_sentinels *s = &t->sentinels;
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
    else if (t->host == NULL)
        buf_printf(out, "%s/%d by Sentinel", t->sentinels.master, t->db);
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

/*
 * Only an ERR can quote: what it objects to is our command, and Redis before 6, which does not know HELLO,
 * repeats its arguments. Every other code stands for a condition and has a constant text (WRONGPASS, NOAUTH,
 * LOADING), in which a password such as "password" or "user" is a word like any other; so have our own
 * reasons.
 */
const char *redis_endpoint_redact(const struct redis_endpoint *t, const char *said)
{
    struct span text = span_of(said);
    bool constant = !span_starts_with(text, SPAN("ERR ")) ||
                    span_starts_with(text, SPAN("ERR max number of clients reached"));
    if (constant || (!quotes(said, t->password) && !quotes(said, t->sentinels.password)))
        return said;
    if (span_starts_with(text, SPAN("ERR unknown command")))
        return "ERR unknown command HELLO: Redis older than 6";
    return "ERR with a text that repeats the password, and is withheld";
}

int redis_endpoint_hello(const struct redis_endpoint *t, const char *client_name,
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
