/*
 * Finding the master: the Sentinels are asked in turn, and the first one that names a Redis which is a master
 * is believed. The tool writes, so the role that the URL asks for is channeld's alone.
 */
#include "redis/sentinel.h"
#include "ctl/client.h"
#include "redis/role.h"

#include <errno.h>

static const struct client_limits SENTINEL_LIMITS = {.connect = {.tv_usec = SENTINEL_TIMEOUT_MS * 1000L},
                                                     .command = {.tv_usec = SENTINEL_TIMEOUT_MS * 1000L}};

static int read_master(struct client *c, struct redis_address *out)
{
    redisReply *reply = client_receive(c);
    if (reply == NULL)
        return -EIO;
    const char *objection = sentinel_read_master(reply, out);
    freeReplyObject(reply);
    return objection == NULL ? 0 : client_fail(c, "%s", objection);
}

static int ask(struct client *c, int n, struct redis_address *out)
{
    struct redis_endpoint sentinel = redis_endpoint_sentinel(&c->target, n);
    int err = client_dial(c, &sentinel, &SENTINEL_LIMITS);
    if (err != 0)
        return err;
    c->redis->reader->maxelements = SENTINEL_ELEMENTS_MAX;
    CLIENT_SEND(c, SPAN("SENTINEL"), SPAN("GET-MASTER-ADDR-BY-NAME"), span_of(c->target.sentinels.master));
    return read_master(c, out);
}

static int check_role(struct client *c)
{
    CLIENT_SEND(c, SPAN("ROLE"));
    redisReply *reply = client_receive(c);
    if (reply == NULL)
        return -EIO;
    const char *objection = redis_role_check(reply, false);
    freeReplyObject(reply);
    return objection == NULL ? 0 : client_fail(c, "%s", objection);
}

/* Puts before the reason whose it is. */
static void name_culprit(struct client *c, const struct redis_endpoint *culprit)
{
    struct buf text = BUF_INIT;
    redis_endpoint_describe(culprit, &text);
    buf_printf(&text, ": %s", client_error(c));
    (void)client_fail(c, "%s", buf_error(&text) == 0 ? buf_c_str(&text) : "out of memory");
    buf_fini(&text);
}

int client_dial_master(struct client *c, const struct client_limits *limits)
{
    int err = -EIO;
    for (int i = 0; i < c->target.sentinels.count && err != 0; i++) {
        struct redis_address master;
        struct redis_endpoint peer = redis_endpoint_sentinel(&c->target, i);
        err = ask(c, i, &master);
        if (err == 0) {
            peer = redis_endpoint_at(&c->target, master.host, master.port);
            err = client_dial(c, &peer, limits);
            if (err == 0)
                err = check_role(c);
        }
        if (err != 0)
            name_culprit(c, &peer);
    }
    return err;
}
