/*
 * Commands that another node of a cluster must execute, while the slot migrates.
 *
 * The node in use answers such a command with an ASK error, which names the target of the migration. The
 * command is sent there behind ASKING, without which the target refers back to the source. The connection to
 * the target carries no invalidations, so its replies must not be cached. It is made when it is needed, and
 * closed when it has been idle for a while. There is one at a time: if another target is named, it is closed.
 *
 * Everything happens on the loop's thread.
 */
#ifndef REDIS_REDIRECT_H
#define REDIS_REDIRECT_H

#include "base/list.h"
#include "base/log.h"
#include "base/wait_group.h"
#include "redis/connection.h"
#include "redis/server.h"

struct redirected;

/* All pointers are borrowed while it lives. */
struct redirects_options {
    struct redis_config *config;        /* for a cluster */
    const struct redis_address *source; /* the node in use */
    const char *client_name;
    struct redis_metrics *metrics;
    struct loop_lag *loop_lag;
    struct wait_group *open_parts;  /* of the owner: has the timer and the connections */
    void (*on_redirect)(void *arg); /* a command is sent to the target */
    void *arg;
};

/* Embedded in the session; private to redirect.c, but for `pending`. */
struct redirects {
    struct redirects_options options;
    uv_loop_t *loop;
    struct redis_metrics unexposed;      /* not exposed: only the workers' own connections are counted */
    struct redis_address target;         /* named by the last ASK */
    struct redis_endpoint endpoint;      /* borrows `target` */
    struct redis_connection *connection; /* NULL: none, before the first command and after a loss */
    struct resolver resolver;
    struct redis_replication replication;
    struct log_reasons denials;
    struct list waiting, failed; /* commands, oldest first */
    unsigned pending;            /* commands that were redirected, in any state */
    bool pausing;                /* after a loss, before another connection */
    uv_timer_t timer;            /* see redirect.c */
};

/* `options` is copied. */
void redirects_init(struct redirects *r, uv_loop_t *loop, const struct redirects_options *options);

/* As redirects_fail. It is in use until nothing of it is in `open_parts`. */
void redirects_close(struct redirects *r);

/*
 * A copy of a command that is to be sent to the node in use, with redirects_on_reply as its reply function
 * and the copy as the argument. Owned by the caller (free) until it is sent. NULL: no memory.
 *
 * `fn` gets the reply once. NULL means that there is none: a node is not reachable, or cannot execute the
 * command now. The command should then be sent again. With `stays` an ASK error is the reply, with the origin
 * REDIS_ORIGIN_OUTSIDE.
 */
struct redirected *redirects_copy(struct redirects *r, struct span command, bool stays, redis_reply_fn fn,
                                  void *arg) __attribute__((warn_unused_result));
void redirects_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin);

/* The commands that were sent to the target fail. */
void redirects_fail(struct redirects *r);

#endif
