/*
 * Looks the name of a server in use up again and again, and reports that it leads elsewhere. The old server
 * may go on for long, so its end does not show that the name has moved.
 *
 * Names rotate, and answers have subsets of the addresses. So a name has moved if NAME_WATCH_ANSWERS answers
 * in a row are the same addresses, and the one in use is not among them. A look-up that fails changes
 * nothing.
 *
 * Timer: one look-up each NAME_WATCH_INTERVAL_MS on average, after the end of the one before.
 */
#ifndef REDIS_NAME_WATCH_H
#define REDIS_NAME_WATCH_H

#include "redis/endpoint.h"
#include "redis/resolver.h"

enum { NAME_WATCH_INTERVAL_MS = 10000, NAME_WATCH_ANSWERS = 3 };

/* Embedded by the owner; private to name_watch.c. */
struct name_watch {
    const char *client_name; /* borrowed */
    void (*on_moved)(void *arg);
    void *arg;
    uv_timer_t timer;
    struct resolver resolver;
    char host[REDIS_HOST_SIZE];     /* the name; empty: none is watched */
    char address[INET6_ADDRSTRLEN]; /* in use */
    struct resolver elsewhere;      /* the last answer without that address; only its addresses are used */
    int answers;                    /* such answers in a row that were the same */
    bool at_once;                   /* the next answer decides alone */
    bool logged;                    /* that the name leads to `elsewhere` */
    unsigned seed;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* `on_moved` is called from the loop, again with each answer while the name is watched. */
void name_watch_init(struct name_watch *w, uv_loop_t *loop, const char *client_name,
                     void (*on_moved)(void *arg), void *arg);

/* The last call. `closed` is called from the loop. */
void name_watch_close(struct name_watch *w, void (*closed)(void *arg), void *arg);

/* The name led to this address, which is in use. A numeric host is not watched. */
void name_watch_start(struct name_watch *w, const char *host, const char *address);

void name_watch_stop(struct name_watch *w);

/* Looks the name up now, if there is one, and the answer decides alone. */
void name_watch_look(struct name_watch *w);

#endif
