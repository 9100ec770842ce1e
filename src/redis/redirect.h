/*
 * Commands that another node of a cluster has to execute, while the slot migrates.
 *
 * Each is preceded by ASKING, without which the target of a migration refers back to the source. The
 * connections carry no invalidations: what comes by way of them must not be remembered. They are made when
 * they are needed and closed when they have been idle for a while; a node that refers to yet another one is
 * followed.
 *
 * Everything happens on the loop's thread.
 */
#ifndef REDIS_REDIRECT_H
#define REDIS_REDIRECT_H

#include "redis/connection.h"

struct redirects;

struct redirects_options {
    struct redis_config *config; /* for a cluster; a reference is taken */
    const char *client_name;     /* borrowed, as all that follow */
    struct redis_metrics *metrics;
    struct loop_lag *loop_lag;
};

/* Owned by the caller (redirects_close). Returns 0 or -ENOMEM. */
int redirects_new(uv_loop_t *loop, const struct redirects_options *options, struct redirects **out)
    __attribute__((warn_unused_result));

/* Pending commands fail at once. `closed` is called from the loop when the memory has been freed. */
void redirects_close(struct redirects *r, void (*closed)(void *arg), void *arg);

/*
 * Sends a command (copied) to the node. `fn` gets the reply once, from the loop and never from here; NULL
 * when there is none: the node is not reachable, or cannot execute the command now. It should then be sent
 * again to where it was sent first. Returns 0 or -ENOMEM.
 */
int redirects_send(struct redirects *r, const struct redis_address *node, struct span command,
                   redis_reply_fn fn, void *arg) __attribute__((warn_unused_result));

/* The commands that were sent so far fail at once, and their replies are dropped. */
void redirects_cancel(struct redirects *r);

#endif
