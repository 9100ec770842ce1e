#ifndef TEST_HOSTILE_SHAPE_LIST_H
#define TEST_HOSTILE_SHAPE_LIST_H

#include "hostile/shapes.h"

/* What the lists of shapes are written with. Their texts may hold NUL. */

#define HOST           "Host: a\r\n"
#define LINE           "GET /api/channels/ HTTP/1.1\r\n"
#define GET            LINE HOST FIXTURE_AUTH
#define TARGET(target) "GET " target " HTTP/1.1\r\n" HOST FIXTURE_AUTH "\r\n"

#define SHAPE(name, expected, bytes)                   \
    {                                                  \
        (name), (expected), (bytes), sizeof(bytes) - 1 \
    }
#define SHAPES_END          \
    {                       \
        NULL, NULL, NULL, 0 \
    }

/* What may come of a shape. */
#define REFUSED "400 close"
#define SERVED  "200, tail 200"
#define PART    "nothing" /* no complete request: the tail is part of it */

#endif
