/*
 * One request and its response, between a connection and the handler.
 *
 * The handler is called with a complete request and answers it with http_exchange_respond, at once or later.
 * No further request of the connection begins before that. While a handler has not answered, `cancel` reports
 * that the client has disconnected.
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

    /* The header fields whose values the handler reads, at request->field[HTTP_FIELD_COUNT] and following.
     * Borrowed. */
    const struct http_field_rule *fields;
    unsigned field_count;

    /* A complete request. Must be answered, now or later. */
    void (*handle)(void *arg, struct http_exchange *x);

    /* A request that cannot be served, with the status that says why. Must be answered at once; the
     * connection then closes. */
    void (*reject)(void *arg, struct http_exchange *x, int status);

    /* The client disconnected before the response. The exchange is invalid when this returns. */
    void (*cancel)(void *arg, struct http_exchange *x);
};

const struct http_request *http_exchange_request(const struct http_exchange *x);

/* The handler's own bytes, aligned for any type. */
void *http_exchange_state(struct http_exchange *x);

/* When the request had been read, in nanoseconds of the monotonic clock. */
uint64_t http_exchange_began_ns(const struct http_exchange *x);

/* The client's address: the other end of the connection, or the client that trusted proxies report. */
struct ip http_exchange_client(const struct http_exchange *x);

/*
 * Evaluates If-None-Match (RFC 9110 section 13.1.2): a 200 whose body has an entity tag that the client has
 * already becomes 304. For a handler that serves conditional requests, to be called before it responds.
 */
void http_exchange_evaluate_preconditions(const struct http_exchange *x, struct http_response *r);

/* Sends the response; `r` is borrowed during the call. The exchange and the spans of its request are invalid
 * afterwards. */
void http_exchange_respond(struct http_exchange *x, const struct http_response *r);

#endif
