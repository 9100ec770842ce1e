#ifndef FAULTS_TESTBED_H
#define FAULTS_TESTBED_H

#include "faults/clients.h"
#include "support/fixture.h"

/*
 * The testbed of the fault tests: Redis with the versioned catalogue (support/catalogue.h), channeld, a
 * proxy between them that breaks connections, and background clients whose responses are all checked.
 *
 * testbed_start() -> [fault] -> testbed_await_lost() -> clients_watch() -> [its end] ->
 * clients_await_recovery(); outage_run() does all of that.
 */

enum {
    TESTBED_TIMEOUT_MS = 2000,  /* channeld's request timeout, the default */
    TESTBED_NOTICE_MS = 3000,   /* a silent Redis is noticed within this */
    TESTBED_LEASE_MS = 3000,    /* nothing older is served from the cache while Redis is connected */
    TESTBED_RECOVERY_MS = 1000, /* the longest back-off: from the end of the fault to a connection */
};

struct testbed {
    struct fixture fixture;
    struct clients *clients; /* NULL, or running */
};

struct testbed_spec {
    const char *const *env;        /* settings of channeld, NULL-terminated, or NULL */
    const char *const *redis_args; /* arguments of Redis, NULL-terminated, or NULL */
    bool proxied;                  /* a proxy between the two */
};

/* Owned. `spec` may be NULL. Version 1 of the catalogue is in Redis, and channeld is ready. */
struct testbed *testbed_new(const struct testbed_spec *spec);

/* The same with background clients, as cmocka's state: for a test that ends with testbed_teardown(). */
struct testbed *testbed_start(void **state, const struct testbed_spec *spec);

/*
 * The same where the test has started and filled Redis: channeld at `url`. Returns when `metric` says that
 * its two workers have found their way to Redis.
 */
void testbed_start_at(void **state, const char *url, const char *const *env, const char *metric);

/* cmocka's setup: without a spec, without and with background clients. */
int testbed_setup(void **state);
int testbed_setup_clients(void **state);

/* Ends everything; channeld must exit with 0. As cmocka's teardown for *state. */
int testbed_teardown(void **state);

/* Writes the catalogue in that version, with the key. */
void testbed_write(struct redis *redis, int version);

/* Asserts that the path is answered with 200 and this body, which it frees. */
void testbed_expect(struct testbed *bed, const char *path, char *body);

/* Asserts a 500 as the contract wants it, within the request timeout. */
void testbed_expect_unavailable(struct testbed *bed, const char *path);

/* The path of a channel that was not requested before, owned. */
char *testbed_spare_path(long long *id);

/*
 * Sends the same request over so many connections at once that each worker has some. Returns how many
 * responses are this status with this body (NULL: any); the others must be 200 with the body `instead`,
 * unless that is NULL.
 */
enum { TESTBED_FAN_OUT = 12 };
int testbed_fan_out(struct testbed *bed, const char *path, int status, const char *body, const char *instead);

/* Whether all workers serve the second version of card 1, and none another but the first. */
bool testbed_serves_version_2(void *bed);

/* Whether card 1 costs no worker a Redis command; it is right in any case. */
bool testbed_has_cached(struct testbed *bed);

/* Waits until no worker is connected to Redis, or all are, and returns when, in ms after `since`. */
int testbed_await_lost(struct testbed *bed, int64_t since);
int testbed_await_connected(struct testbed *bed, int64_t since);

/* Waits until this gauge of workers counts all of them. */
void testbed_await_workers(struct testbed *bed, const char *gauge);

/* ---- outages ---- */

/* A fault that separates channeld from Redis for a while. */
struct outage {
    const char *name;
    void (*begin)(struct testbed *bed);
    void (*end)(struct testbed *bed); /* returns when Redis can be queried again */
    const char *begin_command;        /* Redis commands instead, or NULL */
    const char *end_command;
    bool kill; /* existing connections are closed after begin_command */
    int lasts_ms;
    int recovery_ms; /* after its end an uncached request succeeds within this; 0: TESTBED_RECOVERY_MS */
    bool unnoticed;  /* connections survive it */
    bool harmless;   /* no request fails at all */
    bool passable;   /* uncached requests succeed, too: it lasts until one has */
};

/*
 * Runs it in a testbed with background clients. Cached responses are right throughout; the others are right
 * or a 500 within the request timeout; the loss is noticed within TESTBED_NOTICE_MS; afterwards all is right
 * within the bound. Fails otherwise, and prints what was measured.
 */
void outage_run(struct testbed *bed, const struct outage *outage);

/* Ends it as outage_run() does: for faults of another course. `noticed_ms` is printed, -1: not measured. */
void outage_finish(struct testbed *bed, const char *name, int noticed_ms, int recovery_ms);

/* Prints what clients saw until clients_mark_end(), and the times (-1: not measured). */
void outage_report(struct testbed *bed, const char *fault, int noticed_ms, int recovered_ms);

#endif
