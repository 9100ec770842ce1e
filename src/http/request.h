/* A request as the handler sees it: what was understood of it, without the bytes it came in. */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include "base/span.h"

/* Methods that somebody here answers; every other one that HTTP knows is METHOD_OTHER. */
enum http_method { METHOD_GET, METHOD_HEAD, METHOD_OPTIONS, METHOD_OTHER };

/*
 * X(NAME, "name"): the header fields whose values are kept. All others are read and forgotten. They are
 * looked for in this order, so those of every request come first.
 */
#define HTTP_REQUEST_FIELDS(X)                         \
    X(HOST, "host")                                    \
    X(API_KEY, "x-api-key")                            \
    X(TRANSFER_ENCODING, "transfer-encoding")          \
    X(EXPECT, "expect")                                \
    X(ORIGIN, "origin")                                \
    X(REQUEST_METHOD, "access-control-request-method") \
    X(TRACEPARENT, "traceparent")                      \
    X(REQUEST_ID, "x-request-id")                      \
    X(IF_NONE_MATCH, "if-none-match")                  \
    X(FORWARDED_FOR, "x-forwarded-for")

enum http_request_field {
#define HTTP_REQUEST_ENUM(name, text) HTTP_FIELD_##name,
    HTTP_REQUEST_FIELDS(HTTP_REQUEST_ENUM)
#undef HTTP_REQUEST_ENUM
        HTTP_FIELD_COUNT,
    HTTP_FIRST_LIST = HTTP_FIELD_IF_NONE_MATCH, /* this and those behind it are lists: repeated, they go on */
    HTTP_LIST_COUNT = HTTP_FIELD_COUNT - HTTP_FIRST_LIST
};

/* All spans are borrowed until the request is answered. */
struct http_request {
    enum http_method method;
    int minor_version; /* of HTTP/1 */
    bool keep_alive;   /* what the client asks for */
    struct span
        path; /* percent-decoded; begins with a slash, or is what another form of target leaves ("*") */
    struct span query; /* as sent, without the question mark; absent when there is none */
    /*
     * Without the white space around them; absent when not sent. Where a field is repeated the first one
     * counts, but lists are joined.
     */
    struct span field[HTTP_FIELD_COUNT];
};

#endif
