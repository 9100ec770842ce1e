/* The Date header field (RFC 9110 section 6.6.1), formatted once a second. */
#ifndef HTTP_DATE_H
#define HTTP_DATE_H

#include "base/span.h"

#include <time.h>

enum { HTTP_DATE_LEN = 29 };

struct http_date {
    time_t second; /* what `text` shows */
    char text[HTTP_DATE_LEN + 1];
};

/* Brings `d` up to the wall clock; to be called a few times a second. */
void http_date_refresh(struct http_date *d);

static inline struct span http_date_span(const struct http_date *d)
{
    return (struct span){d->text, HTTP_DATE_LEN};
}

#endif
