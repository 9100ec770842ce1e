/* An HTTP/1.1 server on one loop: a listener, and the connections that it has accepted or another server has
 * handed over. It does not depend on what is served. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "base/metrics.h"
#include "base/net.h"
#include "base/settings.h"
#include "http/balancer.h"
#include "http/exchange.h"
#include "http/metrics.h"

#include <uv.h>

struct http_server;

/* The most connections that are accepted in an iteration of the loop, and that are taken from the inbox. */
enum { HTTP_ACCEPTS = 32 };

/* clang-format off */
/* NOLINTBEGIN(bugprone-macro-parentheses): a member designator takes none */
/* The limits as rows of a table of settings, for a struct http_limits that is this member of `type`. */
#define HTTP_SETTINGS(type, member) \
    SETTING_ROW(type, member.head_timeout_ms, DURATION, "header-timeout", "10s", 100, SETTINGS_DAY_MS, \
      "Longest time from the first byte of a request to the last, and from opening a connection to its first"), \
    SETTING_ROW(type, member.idle_timeout_ms, DURATION, "idle-timeout", "75s", 100, SETTINGS_DAY_MS, \
      "How long a connection may stay open between two requests"), \
    SETTING_ROW(type, member.write_timeout_ms, DURATION, "write-timeout", "30s", 100, SETTINGS_DAY_MS, \
      "Longest time to write a response to a client"), \
    SETTING_ROW(type, member.unsent_max, SIZE, "max-unsent", "16MiB", (int64_t)64 * 1024, (int64_t)1 << 40, \
      "Per worker: unread bytes of responses over 64 KiB; beyond it further ones are 503"), \
    SETTING_ROW(type, member.max_connection_age_ms, DURATION, "max-connection-age", "5m", 0, SETTINGS_DAY_MS, \
      "Age, plus or minus a tenth, at which the next response closes a connection; 0: never"), \
    SETTING_ROW(type, member.head_max, SIZE, "max-header-size", "16KiB", 1024, 1 << 20, \
      "Largest request line and header section"), \
    SETTING_ROW(type, member.body_max, SIZE, "max-body-size", "64KiB", 0, 1 << 30, \
      "Largest request content, which is read and discarded")
/* NOLINTEND(bugprone-macro-parentheses) */
/* clang-format on */

/* Durations in milliseconds, sizes in bytes. They are settings, so each has the size of an int64_t. */
struct http_limits {
    uint64_t head_max, body_max;
    uint64_t head_timeout_ms;       /* from the first byte of a request (or the opening) to its last */
    uint64_t idle_timeout_ms;       /* between requests */
    uint64_t write_timeout_ms;      /* until the kernel has accepted a whole response */
    uint64_t unsent_max;            /* bytes of large responses (http/response.h) that are not read yet */
    uint64_t max_connection_age_ms; /* give or take a tenth: the next response is the last; 0: never */
};

struct http_server_options {
    struct http_handler handler;
    struct http_metrics *metrics; /* borrowed, as are all pointers here */
    struct loop_lag *loop_lag;
    struct http_limits limits;
    struct http_balancer *balancer;
    int number; /* the number of this server in the balancer; from 0 */

    /* Connections over the limit that may stay open at a time until their client has read its 503. Further
     * ones get the 503 if their request has arrived, and are closed at once. */
    int max_rejections;
    const struct ip_networks *trusted_proxies; /* their reports of client addresses are used; NULL: none */

    /* Every response contains "Connection: close", a Host may be empty, and at the limit a connection may be
     * closed although it is being read or answered. */
    bool for_checks;
};

/* Owned by the caller (http_server_close, http_server_free). Returns 0 or a negative errno. */
int http_server_new(uv_loop_t *loop, const struct http_server_options *options, struct http_server **out)
    __attribute__((warn_unused_result));

/*
 * Listens, and accepts connections from now on; number 0 before the others of its balancer. No other process
 * may listen on the address. Or takes part in listening on the TCP socket `passed` (a duplicate of it) with
 * others, also of other processes, and accepts from http_server_accept on; -1: there is none. Returns 0 or a
 * negative errno (-EADDRINUSE, -EACCES ...). Once per server.
 */
int http_server_listen(struct http_server *s, const struct addr *address, int passed)
    __attribute__((warn_unused_result));
void http_server_accept(struct http_server *s);

/* From now on every response contains "Connection: close". */
void http_server_announce_close(struct http_server *s);

/*
 * Closes the listener, after all connections that the kernel has queued were accepted; those in the queue of
 * a shared socket stay there for the others. Then closes connections between two requests, and a second later
 * those that have not begun one. connections_open of the metrics becomes 0, but servers that still listen may
 * hand further ones over.
 */
void http_server_finish(struct http_server *s);

/* Closes the listener and all connections at once, and with them all handles. */
void http_server_close(struct http_server *s);

/* When the loop has closed them. NULL is allowed. */
void http_server_free(struct http_server *s);

#endif
