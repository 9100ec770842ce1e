/* Redis, channeld, a key and channels in one call. */

#include "support/fixture.h"

#include <stdlib.h>
#include <string.h>

struct fixture *fixture_new_with_server(size_t channels, const char *const *env, const char *program,
                                        const char *const *redis_args)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    if (fixture == NULL)
        abort();
    redis_start_program(&fixture->redis, program, redis_args);
    catalogue_issue_key(&fixture->redis, FIXTURE_KEY);
    catalogue_put_samples(&fixture->redis, channels);
    struct server_spec spec = {.redis_url = fixture->redis.url, .env = env, .wait = SERVER_WAIT_READY};
    server_start(&fixture->server, &spec);
    return fixture;
}

struct fixture *fixture_new_with_redis(size_t channels, const char *const *env, const char *const *redis_args)
{
    return fixture_new_with_server(channels, env, NULL, redis_args);
}

struct fixture *fixture_new(size_t channels, const char *const *env)
{
    return fixture_new_with_redis(channels, env, NULL);
}

void fixture_free(struct fixture *fixture)
{
    if (fixture->server.process.pid != 0)
        server_stop(&fixture->server);
    server_kill(&fixture->server);
    redis_stop(&fixture->redis);
    free(fixture);
}

int fixture_teardown(void **state)
{
    if (*state != NULL)
        fixture_free(*state);
    *state = NULL;
    return 0;
}

void fixture_get(struct fixture *fixture, const char *path, struct http_response *response)
{
    char *target = text_printf("/api/%s", path);
    http_get(fixture->server.port, target, FIXTURE_AUTH, response);
    free(target);
}

int fixture_status(struct fixture *fixture, const char *path)
{
    struct http_response response;
    fixture_get(fixture, path, &response);
    int status = response.status;
    if (status == 200)
        json_assert_at(response.body, "success", "true");
    else
        json_assert_error(response.body);
    http_response_free(&response);
    return status;
}

char *fixture_body(struct fixture *fixture, const char *path)
{
    struct http_response response;
    fixture_get(fixture, path, &response);
    if (response.status != 200)
        fail_msg("%s: %d %s", path, response.status, response.body);
    char *body = text_printf("%s", response.body);
    http_response_free(&response);
    return body;
}

void fixture_expect_card(struct fixture *fixture, const char *path, const char *card)
{
    char *body = fixture_body(fixture, path);
    char *expected = text_printf("{\"success\":true,\"data\":%s}", card);
    json_assert_same(body, expected);
    free(expected);
    free(body);
}
