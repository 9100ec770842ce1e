/* What sentinel_watch.c (whom to ask, and when) and sentinel_talk.c (what is said) share. */
#ifndef REDIS_SENTINEL_WATCH_INTERNAL_H
#define REDIS_SENTINEL_WATCH_INTERNAL_H

#include "base/log.h"
#include "redis/resolve.h"
#include "redis/sentinel_watch.h"
#include "redis/socket.h"

enum watch_state { WATCH_PAUSING, WATCH_RESOLVING, WATCH_ASKING, WATCH_LISTENING, WATCH_CLOSED };

/* One look-up a Sentinel: one that takes long must not hold up those of the others. */
struct lookup {
    struct sentinel_watch *watch;
    struct resolver resolver;
    int next;  /* of its addresses, to be tried */
    bool late; /* they came when nobody waited for them any more */
};

struct sentinel_watch {
    uv_loop_t *loop;
    const struct redis_endpoint *target;
    struct ssl_ctx_st *tls;
    const char *client_name;
    struct redis_metrics *metrics;
    struct sentinel_events events;
    enum watch_state state;
    int current;                /* the Sentinel that is, or will be, spoken to */
    int refused;                /* how many had no answer, in a row */
    bool silent;                /* none had an answer the last time that all were asked */
    struct log_reasons reasons; /* since one had an answer */
    uv_timer_t timer;
    struct redis_socket *socket;                      /* NULL but in ASKING and LISTENING */
    bool greeted, subscribing, master_known, counted; /* of this conversation; the last: in the metric */
    struct sentinel_answer answer;
    void (*closed)(void *arg);
    void *closed_arg;
    struct lookup lookup[REDIS_SENTINELS_MAX];
};

/* --- sentinel_watch.c --- */

/* Every change of state passes here. */
void sentinel_enter(struct sentinel_watch *w, enum watch_state next);

/* This Sentinel has no answer; `why` may be what it said. Goes on with the next one. */
void sentinel_fail(struct sentinel_watch *w, const char *why);

void sentinel_start_timer(struct sentinel_watch *w, uint64_t ms);

/* --- sentinel_talk.c --- */

/* Events of the connection to a Sentinel: begins the conversation; takes a reply; takes a push. */
void sentinel_greet(void *arg);
void sentinel_take(void *arg, const redisReply *reply);
void sentinel_take_push(void *arg, struct span kind, const redisReply *element);

/* Asks again, on a connection that listens. */
void sentinel_ask(struct sentinel_watch *w);

#endif
