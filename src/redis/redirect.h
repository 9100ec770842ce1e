/*
 * Commands that another node of a cluster must execute, while the slot migrates.
 *
 * Each command is preceded by ASKING, without which the target of a migration refers back to the source. The
 * connections carry no invalidations, so their replies must not be cached. Connections are made when they are
 * needed, and closed when they have been idle for a while. If a node refers to yet another node, the command
 * is sent there.
 *
 * Everything happens on the loop's thread.
 */
#ifndef REDIS_REDIRECT_H
#define REDIS_REDIRECT_H

#include "redis/connection.h"

struct redirects;

struct redirects_options {
    struct redis_config *config; /* for a cluster; a reference is taken */
    const char *client_name;     /* borrowed, as all members that follow */
    struct redis_metrics *metrics;
    struct loop_lag *loop_lag;
};

/* Owned by the caller (redirects_close). Returns 0 or -ENOMEM. */
int redirects_new(uv_loop_t *loop, const struct redirects_options *options, struct redirects **out)
    __attribute__((warn_unused_result));

/* Pending commands fail before this returns. `closed` is called from the loop when the memory has been freed.
 */
void redirects_close(struct redirects *r, void (*closed)(void *arg), void *arg);

/*
 * Sends a command (copied) to the node. `fn` gets the reply once, from the loop and never from this function.
 * NULL means that there is none: the node is not reachable, or cannot execute the command now. The command
 * should then be sent again to its first destination. Returns 0 or -ENOMEM.
 */
int redirects_send(struct redirects *r, const struct redis_address *node, struct span command,
                   redis_reply_fn fn, void *arg) __attribute__((warn_unused_result));

/* The number of commands whose replies are pending. */
unsigned redirects_pending(const struct redirects *r);

#endif
