#ifndef TEST_SUPPORT_MALFORMED_H
#define TEST_SUPPORT_MALFORMED_H

#include <stddef.h>

#include "support/fixture.h"

/*
 * Malformed requests, and the expected responses. A good request, the tail, follows each of them on the same
 * connection. In two cases the tail must not be answered: the shape is refused, or by RFC 9112 the tail can
 * only be content.
 */

struct shape {
    const char *name;
    const char *expected; /* as shape_send() describes it */
    const char *bytes;
    size_t length;
};

/* By the malformed part. Each list ends with a shape whose name is NULL. */
extern const struct shape shapes_of_length[];
extern const struct shape shapes_of_chunks[];
extern const struct shape shapes_of_lines[];
extern const struct shape shapes_of_targets[];

/* All of these lists; NULL at the end. */
extern const struct shape *const shape_lists[];

#define SHAPE_TAIL_ID "tail"
#define SHAPE_TAIL                                                                                           \
    "GET /api/channel/by-id/0/ HTTP/1.1\r\nHost: a\r\nX-Request-Id: " SHAPE_TAIL_ID "\r\n" FIXTURE_AUTH "\r" \
    "\n"

/*
 * Sends the shape and the tail over a connection of its own, in pieces of that many bytes, closes the sending
 * side and describes what came until the end: the status of each response, "tail" before those of the tail,
 * "close" behind one that announced it: "400 close", "200, tail 200", "nothing". Another end than an orderly
 * one is described too: "reset", "silence", "garbage". Owned.
 */
char *shape_send(int port, const struct shape *shape, size_t piece);

#endif
