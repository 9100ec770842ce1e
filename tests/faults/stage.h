#ifndef FAULTS_STAGE_H
#define FAULTS_STAGE_H

#include "faults/load.h"
#include "support/fixture.h"
#include "support/proxy.h"

/*
 * What the tests of faults stand on: Redis with a catalogue that tells its version in each title, channeld, a
 * line between them that can be made bad, and clients at work whose every answer is judged.
 *
 *     stage_new -> load_start -> [fault] -> stage_await_lost -> load_watch -> [its end] ->
 * load_await_recovery
 */

enum {
    STAGE_LISTED = 110,      /* channels 1..110 are in the list and have links: a full page and a short one */
    STAGE_SPARE = 1000000,   /* from here on: channels in no list that nobody has asked for yet */
    STAGE_SPARES = 20000,    /* so many of them */
    STAGE_TIMEOUT_MS = 2000, /* channeld's own request timeout, not changed here */
    STAGE_NOTICE_MS = 3000,  /* a Redis that is silent is noticed within this */
    STAGE_LEASE_MS = 3000,   /* nothing older is answered from memory while Redis is there */
    STAGE_RECOVERY_MS = 1000, /* back-off at its longest: Redis is back, and soon so is channeld */
};

struct stage {
    struct fixture fixture;
    struct proxy *proxy; /* NULL without a line */
    struct netns netns;  /* with a name where Redis is in one */
    struct load *load;   /* NULL, or at work: ended with the stage */
};

struct stage_plan {
    const char *const *env;        /* settings of channeld, NULL-terminated, or NULL */
    const char *const *redis_args; /* the same of Redis */
    bool line;                     /* a proxy stands between the two */
    bool network; /* Redis is in a network of its own; the test is skipped where that cannot be */
};

/* Owned. `plan` may be NULL. Version 1 of the catalogue is in Redis, and channeld is ready. */
struct stage *stage_new(const struct stage_plan *plan);

/* Ends everything; channeld must exit with 0. As cmocka's teardown for *state. */
int stage_teardown(void **state);
void stage_free(struct stage *stage);

/* Writes the catalogue in that version, with the key, all of it in one turn of Redis. */
void stage_write(struct redis *redis, int version);

/* What has to be answered in that version, owned. */
char *stage_card(long long id, int version);
char *stage_page(int number, int version);

/* Fails unless the path gets 200 with this body, which it frees. */
void stage_expect(struct stage *stage, const char *path, char *body);

/* The same for 500 as the contract wants it, within the request timeout. */
void stage_expect_unavailable(struct stage *stage, const char *path);

/* SIGSTOP and SIGCONT to channeld; it has stopped when the first returns. */
void stage_freeze(struct stage *stage);
void stage_thaw(struct stage *stage);

/* Lets a fault last. */
void stage_let_pass(int ms);

/* Waits until no worker is connected to Redis, or all are; returns how long after `since` that was, in ms. */
int stage_await_lost(struct stage *stage, int64_t since);
int stage_await_connected(struct stage *stage, int64_t since);

/* The path of a channel that nobody has asked for, owned. */
char *stage_spare_path(long long *id);

/* One line of the report: what clients saw until load_mark_end, and the times (-1: not measured). */
void stage_report(struct stage *stage, const char *fault, int noticed_ms, int recovered_ms);

#endif
