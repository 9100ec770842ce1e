/*
 * One request and its response, between a connection and the handler, which answers it with
 * http_exchange_respond, at once or later. No further request of the connection begins before that.
 */
#ifndef HTTP_EXCHANGE_H
#define HTTP_EXCHANGE_H

#include "base/net.h"
#include "http/response.h"

#include <stddef.h>
#include <stdint.h>

/* The methods that handlers distinguish; every other one that HTTP knows is METHOD_OTHER. */
enum http_method { METHOD_GET, METHOD_HEAD, METHOD_OPTIONS, METHOD_OTHER };

/*
 * X(NAME, "name", treatment of repetition): the header fields whose values are kept. FIRST: the first value
 * counts. SAME: all values must be the same, otherwise the request is rejected with 400. REJECT: it is
 * rejected. LIST: the values are one list, joined with ", " (RFC 9110 section 5.3).
 */
#define HTTP_FIELDS(X)                                        \
    X(HOST, "host", REJECT)                                   \
    X(API_KEY, "x-api-key", SAME)                             \
    X(REQUEST_ID, "x-request-id", FIRST)                      \
    X(TRACEPARENT, "traceparent", FIRST)                      \
    X(ACCEPT_ENCODING, "accept-encoding", LIST)               \
    X(FORWARDED_FOR, "x-forwarded-for", LIST)                 \
    X(IF_NONE_MATCH, "if-none-match", LIST)                   \
    X(IF_MATCH, "if-match", LIST)                             \
    X(ORIGIN, "origin", FIRST)                                \
    X(REQUEST_METHOD, "access-control-request-method", FIRST) \
    X(EXPECT, "expect", FIRST)                                \
    X(TRANSFER_ENCODING, "transfer-encoding", LIST)

enum http_request_field {
#define HTTP_FIELD_ENUM(name, text, repeat) HTTP_FIELD_##name,
    HTTP_FIELDS(HTTP_FIELD_ENUM)
#undef HTTP_FIELD_ENUM
        HTTP_FIELD_COUNT
};

/* A request as the handler sees it. All spans are borrowed until it is answered. */
struct http_request {
    enum http_method method;
    int minor_version; /* 1 for HTTP/1.1 */
    bool keep_alive;   /* the client wants the connection to persist */

    /* Percent-decoded, except encoded slashes. Begins with a slash, or is a whole target of another form
     * ("*", "host:port"). */
    struct span path;
    struct span query; /* as sent, without the question mark; absent when there is none */

    /* Without the white space around a value; absent when the field was not sent. */
    struct span field[HTTP_FIELD_COUNT];
};

/* Borrowed from the connection until the request is answered. */
struct http_exchange {
    const struct http_request *request;
    void *state;       /* the bytes for the handler, aligned for any type */
    uint64_t began_ns; /* when the request had been read; the monotonic clock */
};

struct http_handler {
    void *arg;
    size_t state_size; /* bytes for the handler in each exchange; not cleared between requests */

    /*
     * A complete request, if `status` is 0: it must be answered, now or later. Otherwise one that cannot be
     * served, with the status that says why. Of its fields those are set that are complete. It must be
     * answered at once; the connection then closes.
     */
    void (*handle)(void *arg, struct http_exchange *x, int status);

    /* The client disconnected before the response. The exchange is invalid when this returns. Not called
     * where `handle` always answers at once. */
    void (*cancel)(void *arg, struct http_exchange *x);
};

/* The client's address: the peer of the connection, or the client that trusted proxies report. */
struct ip http_exchange_client(struct http_exchange *x);

/* False if a 200 with this body may not be sent, since clients read so many other large ones too slowly
 * (unsent_max in server.h). */
bool http_exchange_has_room(struct http_exchange *x, const struct http_response *r);

/* Sends the response; `r` is borrowed during the call. The exchange and the spans of its request are invalid
 * afterwards. */
void http_exchange_respond(struct http_exchange *x, const struct http_response *r);

#endif
