#ifndef TEST_SUPPORT_FIXTURE_H
#define TEST_SUPPORT_FIXTURE_H

#include <stddef.h>

#include "support/catalogue.h"
#include "support/http.h"
#include "support/json.h"
#include "support/redis.h"
#include "support/server.h"
#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

/*
 * What most tests stand on: a Redis with sample channels and one issued key, and a channeld that answers from
 * it. Paths are relative to the base path: "channels/".
 */

#define FIXTURE_KEY  "0123456789abcdef-the-key-of-the-tests"
#define FIXTURE_AUTH "X-Api-Key: " FIXTURE_KEY "\r\n"

struct fixture {
    struct redis redis;
    struct server server;
};

/* Owned. `env` are further settings of channeld, NULL-terminated, or NULL. */
struct fixture *fixture_new(size_t channels, const char *const *env);

/* The same with a Redis that has arguments of its own. */
struct fixture *fixture_new_with_redis(size_t channels, const char *const *env,
                                       const char *const *redis_args);

/* And with another server than the system's; see redis_start_program(). */
struct fixture *fixture_new_with_server(size_t channels, const char *const *env, const char *program,
                                        const char *const *redis_args);

/* Ends both programs, asserting that channeld exits with 0 when it still runs, and frees it. */
void fixture_free(struct fixture *fixture);

/* The same as cmocka's teardown, for a fixture in *state. */
int fixture_teardown(void **state);

/* GET {base}{path} with the key in the header. The response has to be freed. */
void fixture_get(struct fixture *fixture, const char *path, struct http_response *response);

/* The status of the same; asserts that a body says success or is an error accordingly. */
int fixture_status(struct fixture *fixture, const char *path);

/* The body of the same, owned; asserts that the status is 200. */
char *fixture_body(struct fixture *fixture, const char *path);

/* Asserts that it answers with this card as its data. */
void fixture_expect_card(struct fixture *fixture, const char *path, const char *card);

#endif
