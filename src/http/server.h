/* An HTTP/1.1 server on one loop: its listening socket, its connections, and the exchanges on them (see
 * exchange.h). It does not depend on what is served. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "base/hash.h"
#include "base/metrics.h"
#include "base/net.h"
#include "base/settings.h"
#include "http/balancer.h"
#include "http/exchange.h"
#include "http/metrics.h"

#include <uv.h>

struct http_server;

/* How long input is read and dropped after the last response. */
enum { HTTP_LINGER_MS = 2000 };

/* How long a new connection may take to begin its first request while the server drains. A client does not
 * retry that request as it would on a persistent connection. */
enum { HTTP_GRACE_MS = 1000 };

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
    struct http_limits limits;
    struct http_balancer *balancer;
    int number;                                /* of this server there; from 0 */
    const struct ip_networks *trusted_proxies; /* their reports of client addresses are used; NULL: none */

    /* Every response contains "Connection: close", a Host may be empty, and at the limit a connection may be
     * closed although it is being read or answered. */
    bool for_checks;
};

/* Opens the connections that other servers hand over from now on. Owned by the caller (http_server_close,
 * http_server_free). Returns 0 or a negative errno. */
int http_server_new(uv_loop_t *loop, const struct http_server_options *options, struct http_server **out)
    __attribute__((warn_unused_result));

/*
 * Listens on the address, on which no other process may listen; servers that share a balancer share it. Or
 * uses the TCP socket `passed`, which stays the caller's and which other processes may have, too; -1: there
 * is none. Then connections wait until http_server_accept. Returns 0 or a negative errno (-EADDRINUSE,
 * -EACCES ...). Once per server, and for the one with number 0 first.
 */
int http_server_listen(struct http_server *s, const struct addr *address, int passed)
    __attribute__((warn_unused_result));
void http_server_accept(struct http_server *s);

/* From now on every response contains "Connection: close". */
void http_server_announce_close(struct http_server *s);

/*
 * Stops listening after all connections that the kernel has queued were accepted; those in the queue of a
 * passed socket stay there for other processes. Closes connections between two requests at once, the others
 * after their next response, and a second later those that have not begun one.
 * http_balancer_is_drained tells when all servers have finished.
 */
void http_server_finish(struct http_server *s);

/* Closes all connections and handles at once. */
void http_server_close(struct http_server *s);

/* When the loop has closed them. NULL is allowed. */
void http_server_free(struct http_server *s);

/*
 * The age that a connection may reach: a fifth of `max_ms` is random, so that connections that were opened
 * together, as after a restart, do not end together. *random is a state of random_next.
 */
static inline uint64_t http_connection_age_ms(uint64_t max_ms, uint64_t *random)
{
    return max_ms - max_ms / 10 + random_next(random) % (max_ms / 5 + 1);
}

#endif
