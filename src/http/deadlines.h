/*
 * Deadlines of connections. Each kind has one timeout for all, so a queue in order of arrival is in order of
 * expiry: setting and clearing are constant time, and one coarse timer looks at the fronts alone.
 */
#ifndef HTTP_DEADLINES_H
#define HTTP_DEADLINES_H

#include "base/list.h"

#include <stdint.h>

enum http_deadline_kind {
    DEADLINE_HEAD,
    DEADLINE_IDLE,
    DEADLINE_WRITE,
    DEADLINE_LINGER,
    DEADLINE_LAST_CALL, /* while the server finishes: for the first byte of a connection */
    DEADLINE_KINDS,
    DEADLINE_NONE
};

/* To be embedded in what has a deadline. */
struct http_deadline {
    struct list link;
    uint64_t at_ms;
    enum http_deadline_kind kind;
};

struct http_deadlines {
    struct list queue[DEADLINE_KINDS];
    uint64_t timeout_ms[DEADLINE_KINDS];
};

void http_deadlines_init(struct http_deadlines *all);
void http_deadline_init(struct http_deadline *d);

/* Sets or replaces it, counting from `now_ms`. */
void http_deadline_set(struct http_deadlines *all, struct http_deadline *d, enum http_deadline_kind kind,
                       uint64_t now_ms);
void http_deadline_clear(struct http_deadline *d);

/* One that has passed, or NULL. It stays set: the caller clears or replaces it. */
struct http_deadline *http_deadlines_passed(struct http_deadlines *all, uint64_t now_ms);

#endif
