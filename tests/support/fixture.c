/* Redis, channeld, a key and channels in one call. */

#include "support/fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

void fixture_serve(struct fixture *fixture, const char *redis_url, const char *const *env,
                   enum server_wait wait)
{
    memset(fixture, 0, sizeof *fixture);
    server_start(&fixture->server, &(struct server_spec){redis_url, env, wait});
}

static void fixture_fill(struct fixture *fixture, const struct fixture_spec *spec)
{
    if (spec->fill != NULL) {
        spec->fill(&fixture->redis);
        return;
    }
    catalogue_issue_key(&fixture->redis, FIXTURE_KEY);
    catalogue_put_samples(&fixture->redis, spec->channels);
}

void fixture_init(struct fixture *fixture, const struct fixture_spec *spec)
{
    memset(fixture, 0, sizeof *fixture);
    redis_start_program(&fixture->redis, spec->program, spec->redis_args);
    fixture_fill(fixture, spec);
    if (spec->proxied)
        fixture->proxy = proxy_new(fixture->redis.port);
    const char *address = spec->proxied ? "127.0.0.1" : fixture->redis.host;
    AUTOFREE char *url = text_printf("redis://%s%s:%d/0", spec->userinfo != NULL ? spec->userinfo : "",
                                     spec->host != NULL ? spec->host : address,
                                     spec->proxied ? proxy_port(fixture->proxy) : fixture->redis.port);
    server_start(&fixture->server, &(struct server_spec){url, spec->env, spec->wait});
}

void fixture_fini(struct fixture *fixture)
{
    if (fixture->server.process.pid != 0)
        server_stop(&fixture->server);
    server_kill(&fixture->server);
    if (fixture->proxy != NULL)
        proxy_free(fixture->proxy);
    fixture->proxy = NULL;
    redis_stop(&fixture->redis);
}

struct fixture *fixture_new_with(const struct fixture_spec *spec)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    if (fixture == NULL)
        abort();
    fixture_init(fixture, spec);
    return fixture;
}

struct fixture *fixture_new(size_t channels, const char *const *env)
{
    return fixture_new_with(&(struct fixture_spec){.channels = channels, .env = env});
}

void fixture_free(struct fixture *fixture)
{
    fixture_fini(fixture);
    free(fixture);
}

void fixture_drop(struct fixture **fixture)
{
    fixture_free(*fixture);
}

char *fixture_stop_server(struct fixture *fixture)
{
    process_signal(&fixture->server.process, SIGTERM);
    server_expect_exit(&fixture->server, 0);
    return server_log(&fixture->server);
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
    AUTOFREE char *target = text_printf("/api/%s", path);
    http_get(fixture->server.port, target, FIXTURE_AUTH, response);
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

void fixture_expect_text(struct fixture *fixture, const char *path, const char *text)
{
    AUTOFREE char *body = fixture_body(fixture, path);
    if (strstr(body, text) == NULL)
        fail_msg("%s: no %s in %s", path, text, body);
}

void fixture_expect_card(struct fixture *fixture, const char *path, const char *card)
{
    AUTOFREE char *body = fixture_body(fixture, path);
    AUTOFREE char *expected = text_printf("{\"success\":true,\"data\":%s}", card);
    json_assert_same(body, expected);
}

void fixture_expect_sample(struct fixture *fixture, size_t n)
{
    AUTOFREE char *path = text_printf("channel/by-id/%lld/", (long long)catalogue_id(n));
    AUTOFREE char *card = catalogue_card(n);
    fixture_expect_card(fixture, path, card);
}

void fixture_expect(struct fixture *fixture, const char *path, int status)
{
    int actual = fixture_status(fixture, path);
    if (actual != status)
        fail_msg("%s: %d, expected %d", path, actual, status);
}

void fixture_expect_in_the_end(struct fixture *fixture, const char *path, int status)
{
    int64_t deadline = wait_deadline(WAIT_DEADLINE_MS);
    int actual = 500;
    while ((actual = fixture_status(fixture, path)) == 500 && wait_left_ms(deadline) > 0)
        ;
    if (actual != status)
        fail_msg("%s: %d, expected %d", path, actual, status);
}

void fixture_judge_unavailable(const struct http_response *response)
{
    if (response->status != 500)
        fail_msg("%d %s", response->status, response->body);
    assert_string_equal(response->body, "{\"success\":false,\"error\":\"Internal server error\"}");
    assert_string_equal(http_header(response, "Retry-After"), "1");
    assert_null(http_header(response, "ETag"));
}

void fixture_expect_unavailable(struct fixture *fixture, const char *path)
{
    AUTO(http_response_free) struct http_response response;
    fixture_get(fixture, path, &response);
    fixture_judge_unavailable(&response);
}

void fixture_start_get(struct fixture *fixture, struct http_conn *conn, const char *path)
{
    AUTOFREE char *target = text_printf("/api/%s", path);
    http_start_get(conn, fixture->server.port, target, FIXTURE_AUTH);
}

struct expectation {
    struct fixture *fixture;
    const char *path;
    int status;
    const char *text; /* NULL: only the status counts */
    bool contained;
};

static bool fixture_is_as_expected(void *arg)
{
    const struct expectation *e = arg;
    struct http_response response;
    fixture_get(e->fixture, e->path, &response);
    bool as_expected = e->text == NULL ? response.status == e->status
                                       : (strstr(response.body, e->text) != NULL) == e->contained;
    http_response_free(&response);
    return as_expected;
}

void fixture_await(struct fixture *fixture, const char *path, int status)
{
    struct expectation e = {.fixture = fixture, .path = path, .status = status};
    if (!wait_until(fixture_is_as_expected, &e, WAIT_DEADLINE_MS))
        fail_msg("%s does not become %d", path, status);
}

void fixture_await_text(struct fixture *fixture, const char *path, const char *text, bool contained)
{
    struct expectation e = {.fixture = fixture, .path = path, .text = text, .contained = contained};
    if (!wait_until(fixture_is_as_expected, &e, WAIT_DEADLINE_MS))
        fail_msg("%s: %s \"%s\"", path, contained ? "never shows" : "still shows", text);
}

void fixture_kill_connections(struct fixture *fixture)
{
    redis_do(&fixture->redis, "CLIENT KILL TYPE normal SKIPME yes");
}

double fixture_commands(struct fixture *fixture)
{
    return server_metric(&fixture->server, "channeld_redis_commands_total");
}

void fixture_expect_metric(struct fixture *fixture, const char *name, double value)
{
    double actual = server_metric(&fixture->server, name);
    if (actual < value - 0.5 || actual > value + 0.5)
        fail_msg("%s is %g, not %g", name, actual, value);
}
