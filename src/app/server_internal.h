/* What server.c and its view for operators, admin.c, share. */
#ifndef APP_SERVER_INTERNAL_H
#define APP_SERVER_INTERNAL_H

#include "api/ops.h"
#include "app/worker.h"
#include "base/metrics.h"
#include "http/server.h"

enum server_state { SERVER_SERVING, SERVER_ANNOUNCING, SERVER_FINISHING, SERVER_EXITING };

struct server {
    const struct config *config;
    struct ssl_ctx_st *tls;
    uv_loop_t loop;
    uv_async_t changed;
    uv_timer_t timer;
    uv_signal_t sigterm, sigint, sighup;
    enum server_state state;
    int descriptors; /* that all of the process may have open */
    int max_connections;
    int max_refusals; /* of each worker: connections beyond those that are told so */
    int max_admin_connections;
    atomic_int open_connections;
    int worker_count; /* of those below that exist */
    struct worker **workers;
    struct ops *ops;
    struct http_server *admin;
    atomic_int admin_connections;
    /* Of the admin listener itself; not part of what it shows. */
    struct http_metrics admin_metrics;
    struct loop_lag loop_lag;
};

/* How the process looks to its operator. */
struct ops_source admin_source(struct server *s);

/* Makes the admin listener. Returns 0 or a negative errno. */
int admin_open(struct server *s) __attribute__((warn_unused_result));

#endif
