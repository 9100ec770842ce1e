/*
 * Accept-Encoding (RFC 9110 section 12.5.3): which content codings a client accepts, and the best of them.
 *
 * A weight of 0, or what is none, refuses a coding; other weights do not matter. Without the field any coding
 * would be acceptable, but many clients that do not send it cannot decode any. The response is then plain. A
 * client that also refuses identity gets identity if there is nothing else, as section 12.5.3 permits.
 */
#ifndef HTTP_CODINGS_H
#define HTTP_CODINGS_H

#include "base/coding.h"

struct http_codings {
    unsigned acceptable;   /* a bit for each coding */
    enum coding preferred; /* the last of these in the enum */
};

/* `field`: the values of all fields of that name as one list; absent when there is none. */
struct http_codings http_accept_encoding(struct span field);

#endif
