#ifndef TEST_SUPPORT_FIXTURE_H
#define TEST_SUPPORT_FIXTURE_H

#include <stddef.h>

#include "support/catalogue.h"
#include "support/http.h"
#include "support/json.h"
#include "support/proxy.h"
#include "support/redis.h"
#include "support/server.h"
#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

/*
 * The fixture of most tests: a Redis with sample channels and one issued key, and a channeld that serves
 * them. Paths are relative to the base path: "channels/".
 */

#define FIXTURE_KEY   "0123456789abcdef-the-key-of-the-tests"
#define FIXTURE_AUTH  "X-Api-Key: " FIXTURE_KEY "\r\n"
#define FIXTURE_WRONG "X-Api-Key: wrong\r\n"

struct fixture {
    struct redis redis;
    struct server server;
    struct proxy *proxy; /* between the two, or NULL */
};

struct fixture_spec {
    size_t channels;                   /* samples in Redis, with the key */
    const char *const *env;            /* settings of channeld, NULL-terminated, or NULL */
    const char *program;               /* the Redis server; NULL: the system's, see redis_start_program() */
    const char *const *redis_args;     /* arguments of it, NULL-terminated, or NULL */
    void (*fill)(struct redis *redis); /* fills Redis instead of samples and key, or NULL */
    const char *host;                  /* of the Redis URL, NULL: the address */
    const char *userinfo;              /* of the Redis URL: "user:password@", or NULL */
    bool proxied;                      /* channeld reaches Redis through a proxy */
    enum server_wait wait;
};

/* Settings within a call: fixture_new(3, ENV("CHANNELD_WORKERS=1")). */
#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Owned. */
struct fixture *fixture_new(size_t channels, const char *const *env);
struct fixture *fixture_new_with(const struct fixture_spec *spec);

/* The same in memory of the caller's. */
void fixture_init(struct fixture *fixture, const struct fixture_spec *spec);
void fixture_fini(struct fixture *fixture);

/* Only a channeld, for a Redis that is not the fixture's. */
void fixture_serve(struct fixture *fixture, const char *redis_url, const char *const *env,
                   enum server_wait wait);

/* Ends both programs, asserting that channeld exits with 0 when it still runs, and frees it. */
void fixture_free(struct fixture *fixture);

/* The same for AUTO(). */
void fixture_drop(struct fixture **fixture);

/* Ends channeld alone: SIGTERM, and asserts that it exits with 0. Returns its log, owned. */
char *fixture_stop_server(struct fixture *fixture);

/* The same as cmocka's teardown, for a fixture in *state. */
int fixture_teardown(void **state);

/* One fixture for all tests of a program. The settings end with NULL: FIXTURE(3, "CHANNELD_WORKERS=1", NULL)
 */
#define FIXTURE(channels, ...)                          \
    static int fixture_setup(void **state)              \
    {                                                   \
        static const char *const env[] = {__VA_ARGS__}; \
        *state = fixture_new(channels, env);            \
        return 0;                                       \
    }                                                   \
    TEST_GROUP(fixture_setup, fixture_teardown)

/* GET {base}{path} with the key in the header. The response has to be freed. */
void fixture_get(struct fixture *fixture, const char *path, struct http_response *response);

/* The status of the same; asserts that the body is a success or an error accordingly. */
int fixture_status(struct fixture *fixture, const char *path);

/* The body of the same, owned; asserts that the status is 200. */
char *fixture_body(struct fixture *fixture, const char *path);

/* Asserts that the body of the same contains the text. */
void fixture_expect_text(struct fixture *fixture, const char *path, const char *text);

/* Asserts that the path is answered with this card as its data, or with sample n by its id. */
void fixture_expect_card(struct fixture *fixture, const char *path, const char *card);
void fixture_expect_sample(struct fixture *fixture, size_t n);

/* Asserts that the path is answered with this status. */
void fixture_expect(struct fixture *fixture, const char *path, int status);

/* The same for a server whose request timeout is short: a 500 is repeated until WAIT_DEADLINE_MS, as the
 * machine may have stood still for longer than that. */
void fixture_expect_in_the_end(struct fixture *fixture, const char *path, int status);

/* Asserts a 500 as the contract wants it, with Retry-After. */
void fixture_expect_unavailable(struct fixture *fixture, const char *path);
void fixture_judge_unavailable(const struct http_response *response);

/* Opens a connection and sends a GET with the key; the response is left to be read. */
void fixture_start_get(struct fixture *fixture, struct http_conn *conn, const char *path);

/* Waits until the path is answered with that status; fails the test after WAIT_DEADLINE_MS. */
void fixture_await(struct fixture *fixture, const char *path, int status);

/* Waits until the body of the path's response contains the text, or does not; fails the test otherwise. */
void fixture_await_text(struct fixture *fixture, const char *path, const char *text, bool contained);

/* Makes Redis close all connections but the test's own. */
void fixture_kill_connections(struct fixture *fixture);

/* Commands that channeld has sent to Redis for requests, so far. */
double fixture_commands(struct fixture *fixture);

/* Asserts that the metric has exactly this value. */
void fixture_expect_metric(struct fixture *fixture, const char *name, double value);

#endif
