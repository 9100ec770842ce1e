#ifndef TEST_HOSTILE_SHAPES_H
#define TEST_HOSTILE_SHAPES_H

#include <stddef.h>

#include "support/fixture.h"

/*
 * Requests as nobody well-behaved sends them, and what has to come of each. A good request, the tail, follows
 * each of them on the same connection: where the shape is refused, or where the tail is content by the only
 * reading that RFC 9112 allows, nobody may answer the tail.
 */

struct shape {
    const char *name;
    const char *expected; /* as shape_send() tells it */
    const char *bytes;
    size_t length;
};

/* By what is odd about them. Each ends with one whose name is NULL. */
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
 * Sends the shape and the tail over a connection of its own, in pieces of that many bytes, closes its sending
 * side and tells what came until the end: the status of each answer, "tail" before those that are the tail's,
 * "close" behind the one that announced it: "400 close", "200, tail 200", "nothing". An end other than an
 * orderly one is told too: "reset", "silence", "garbage". Owned.
 */
char *shape_send(int port, const struct shape *shape, size_t piece);

#endif
