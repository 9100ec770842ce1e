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
#include "http/response.h"

#include <stddef.h>
#include <stdint.h>

/* The methods that handlers distinguish; every other one that HTTP knows is METHOD_OTHER. */
enum http_method { METHOD_GET, METHOD_HEAD, METHOD_OPTIONS, METHOD_OTHER };

/* How a field that occurs more than once is treated. */
enum http_repeat {
    HTTP_REPEAT_FIRST,  /* the first value counts */
    HTTP_REPEAT_SAME,   /* all values must be the same; otherwise the request is rejected with 400 */
    HTTP_REPEAT_REJECT, /* the request is rejected with 400 */
    HTTP_REPEAT_LIST    /* the values are one list, joined with ", " (RFC 9110 section 5.3) */
};

/* A header field whose value is kept. */
struct http_field_rule {
    const char *name; /* in lower case, shorter than HTTP_NAME_MAX */
    enum http_repeat repeat;
};

enum { HTTP_NAME_MAX = 32, HTTP_FIELDS_MAX = 12 };

/* The fields that this layer reads itself. Those of the handler's table follow from HTTP_FIELD_COUNT on. */
enum http_request_field {
    HTTP_FIELD_HOST,
    HTTP_FIELD_TRANSFER_ENCODING,
    HTTP_FIELD_EXPECT,
    HTTP_FIELD_IF_MATCH,
    HTTP_FIELD_IF_NONE_MATCH,
    HTTP_FIELD_FORWARDED_FOR, /* absent unless proxies are trusted */
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

    /* By the fields' numbers. Without the white space around a value; absent when the field was not sent. */
    struct span field[HTTP_FIELDS_MAX];
};

struct http_exchange;

struct http_handler {
    void *arg;
    size_t state_size; /* bytes for the handler in each exchange; not cleared between requests */

    /* The header fields whose values the handler reads, at request->field[HTTP_FIELD_COUNT] and following.
     * Borrowed. */
    const struct http_field_rule *fields;
    unsigned field_count;

    /* A complete request. Must be answered, now or later. */
    void (*handle)(void *arg, struct http_exchange *x);

    /* A request that cannot be served, with the status that says why. Of its fields those are set that are
     * complete. Must be answered at once; the connection then closes. */
    void (*reject)(void *arg, struct http_exchange *x, int status);

    /* There may be room for a response that http_exchange_admit has refused; or none in time. Must be
     * answered, now or later. */
    void (*resume)(void *arg, struct http_exchange *x, bool in_time);

    /* The client disconnected before the response. The exchange is invalid when this returns. */
    void (*cancel)(void *arg, struct http_exchange *x);
};

const struct http_request *http_exchange_request(const struct http_exchange *x);

/* The bytes for the handler, aligned for any type. */
void *http_exchange_state(struct http_exchange *x);

/* When the request had been read, in nanoseconds of the monotonic clock. */
uint64_t http_exchange_began_ns(const struct http_exchange *x);

/* The client's address: the peer of the connection, or the client that trusted proxies report. */
struct ip http_exchange_client(const struct http_exchange *x);

/* The part of http_exchange_admit for large bodies. */
bool http_exchange_admit_large(struct http_exchange *x, const struct http_response *r);

/*
 * To be called before a 200 is sent. False if the response has to wait, since clients are slow to read so
 * many others (unsent_max in server.h): the handler must drop the body, since the bodies of responses that
 * wait are not bounded. `resume` is called then, unless the client disconnects.
 */
static inline bool http_exchange_admit(struct http_exchange *x, const struct http_response *r)
{
    return r->body->len <= HTTP_RESPONSE_LARGE || http_exchange_admit_large(x, r);
}

/* Sends the response; `r` is borrowed during the call. The exchange and the spans of its request are invalid
 * afterwards. */
void http_exchange_respond(struct http_exchange *x, const struct http_response *r);

#endif
