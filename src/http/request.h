/* A request as the handler sees it: what was parsed, without the bytes it came in. */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include "base/span.h"

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

enum { HTTP_NAME_MAX = 32, HTTP_FIELDS_MAX = 12, HTTP_LISTS_MAX = 3 };

/* The fields that this layer reads itself. Those of the handler's table follow from HTTP_FIELD_COUNT on. */
enum http_request_field {
    HTTP_FIELD_HOST,
    HTTP_FIELD_TRANSFER_ENCODING,
    HTTP_FIELD_EXPECT,
    HTTP_FIELD_IF_NONE_MATCH,
    HTTP_FIELD_FORWARDED_FOR, /* absent unless proxies are trusted */
    HTTP_FIELD_COUNT
};

/* All spans are borrowed until the request is answered. */
struct http_request {
    enum http_method method;
    int minor_version; /* of HTTP/1 */
    bool keep_alive;   /* the client wants the connection to persist */

    /* Percent-decoded. Begins with a slash, or is a whole target of another form ("*", "host:port"). */
    struct span path;
    struct span query; /* as sent, without the question mark; absent when there is none */

    /* By the fields' numbers. Without the white space around a value; absent when the field was not sent. */
    struct span field[HTTP_FIELDS_MAX];
};

#endif
