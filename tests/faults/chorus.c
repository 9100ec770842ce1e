/* Many connections asking the same; see chorus.h. */

#include "faults/chorus.h"

#include <stdlib.h>
#include <string.h>

void chorus_open(struct chorus *chorus, struct stage *stage)
{
    for (int i = 0; i < CHORUS_SIZE; i++)
        assert_int_equal(http_open(&chorus->conns[i], stage->fixture.server.port), 0);
}

void chorus_close(struct chorus *chorus)
{
    for (int i = 0; i < CHORUS_SIZE; i++)
        http_close(&chorus->conns[i]);
}

void chorus_send(struct chorus *chorus, const char *path)
{
    char *target = text_printf("/api/%s", path);
    char *request = http_format("GET", target, FIXTURE_AUTH);
    for (int i = 0; i < CHORUS_SIZE; i++)
        assert_int_equal(http_send_text(&chorus->conns[i], request), 0);
    free(request);
    free(target);
}

void chorus_expect(struct chorus *chorus, int status, char *body)
{
    for (int i = 0; i < CHORUS_SIZE; i++) {
        struct http_response response;
        assert_int_equal(http_read(&chorus->conns[i], false, &response), 0);
        if (response.status != status || (body != NULL && strcmp(response.body, body) != 0))
            fail_msg("connection %d: %d %.90s instead of %d %.90s", i, response.status, response.body, status,
                     body != NULL ? body : "");
        http_response_free(&response);
    }
    free(body);
}

int chorus_count(struct chorus *chorus, const char *body, const char *instead)
{
    int count = 0;
    for (int i = 0; i < CHORUS_SIZE; i++) {
        struct http_response response;
        assert_int_equal(http_read(&chorus->conns[i], false, &response), 0);
        assert_int_equal(response.status, 200);
        bool same = strcmp(response.body, body) == 0;
        if (!same)
            assert_string_equal(response.body, instead);
        count += same;
        http_response_free(&response);
    }
    return count;
}

void chorus_ask(struct chorus *chorus, const char *path, int status, char *body)
{
    chorus_send(chorus, path);
    chorus_expect(chorus, status, body);
}

struct expectation {
    struct chorus *chorus;
    const char *path;
    int status;
    const char *body;
};

static bool is_answered_so(void *arg)
{
    const struct expectation *expected = arg;
    int same = 0;
    chorus_send(expected->chorus, expected->path);
    for (int i = 0; i < CHORUS_SIZE; i++) {
        struct http_response response;
        assert_int_equal(http_read(&expected->chorus->conns[i], false, &response), 0);
        same += response.status == expected->status &&
                (expected->body == NULL || strcmp(response.body, expected->body) == 0);
        http_response_free(&response);
    }
    return same == CHORUS_SIZE;
}

void chorus_await(struct chorus *chorus, const char *path, int status, char *body)
{
    struct expectation expected = {chorus, path, status, body};
    if (!wait_until(is_answered_so, &expected, wait_slack_ms()))
        fail_msg("%s does not become %d %.90s", path, status, body != NULL ? body : "");
    free(body);
}

bool chorus_is_from_memory(struct stage *stage)
{
    struct chorus chorus;
    double before = server_metric(&stage->fixture.server, "channeld_redis_commands_total");
    chorus_open(&chorus, stage);
    chorus_ask(&chorus, "channel/by-id/1/", 200, stage_card(1, 1));
    chorus_close(&chorus);
    return server_metric(&stage->fixture.server, "channeld_redis_commands_total") <= before;
}

static bool is_from_memory(void *arg)
{
    return chorus_is_from_memory(arg);
}

void chorus_await_memory(struct stage *stage)
{
    assert_true(wait_until(is_from_memory, stage, WAIT_DEADLINE_MS));
}
