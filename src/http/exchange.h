/*
 * One request and its answer, between a connection and the handler.
 *
 * A handler is called with a complete request and answers it with http_exchange_respond, at once or later.
 * Until then no further request begins. A handler that answers later may learn that nobody waits any
 * more (abandon).
 */
#ifndef HTTP_EXCHANGE_H
#define HTTP_EXCHANGE_H

#include "base/net.h"
#include "http/request.h"
#include "http/response.h"

#include <stddef.h>
#include <stdint.h>

struct http_exchange;

struct http_handler {
    void *arg;
    size_t state_size; /* bytes of the handler's own in each exchange; not cleared between requests */

    /* A complete request. Must answer it, now or later. */
    void (*handle)(void *arg, struct http_exchange *x);

    /* A request that cannot be served with `status` as the reason. Must answer at once; the connection then
     * closes. */
    void (*refuse)(void *arg, struct http_exchange *x, int status);

    /* The client has gone before the answer: the exchange ends when this returns. */
    void (*abandon)(void *arg, struct http_exchange *x);
};

const struct http_request *http_exchange_request(const struct http_exchange *x);

/* The handler's own bytes, aligned for anything. */
void *http_exchange_state(struct http_exchange *x);

/* When the request was complete, in nanoseconds of the monotonic clock. */
uint64_t http_exchange_began_ns(const struct http_exchange *x);

/* The client's address: the other end of the connection, or the client that trusted proxies tell of. */
struct ip http_exchange_client(const struct http_exchange *x);

/*
 * The status with which a response will leave: a 200 whose body has an entity tag that the client has already
 * (If-None-Match) becomes 304.
 */
int http_exchange_status(const struct http_exchange *x, const struct http_response *response);

/*
 * Answers; the response's status becomes the one with which it leaves. The exchange and the spans of its
 * request are gone afterwards.
 */
void http_exchange_respond(struct http_exchange *x, struct http_response *response);

#endif
