/* The header fields of requests that the API reads. */
#ifndef API_REQUEST_FIELDS_H
#define API_REQUEST_FIELDS_H

#include "http/exchange.h"

/* X(NAME, "name", what repetition means). A key that is sent twice is one key; two keys are an error. */
#define API_REQUEST_FIELDS(X)                                 \
    X(KEY, "x-api-key", SAME)                                 \
    X(ORIGIN, "origin", FIRST)                                \
    X(REQUEST_METHOD, "access-control-request-method", FIRST) \
    X(TRACEPARENT, "traceparent", FIRST)                      \
    X(REQUEST_ID, "x-request-id", FIRST)

enum api_request_field {
    API_FIELD_BEFORE_FIRST = HTTP_FIELD_COUNT - 1, /* the handler's fields follow those of http/ */
#define API_FIELD_ENUM(name, text, repeat) API_FIELD_##name,
    API_REQUEST_FIELDS(API_FIELD_ENUM)
#undef API_FIELD_ENUM
};

#endif
