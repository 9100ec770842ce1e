/* The same request over many connections; see fanout.h. */

#include "faults/fanout.h"

#include <stdlib.h>
#include <string.h>

void fanout_open(struct fanout *fanout, struct testbed *bed)
{
    fanout->headers = FIXTURE_AUTH;
    for (int i = 0; i < FANOUT_SIZE; i++)
        assert_int_equal(http_open(&fanout->conns[i], bed->fixture.server.port), 0);
}

void fanout_close(struct fanout *fanout)
{
    for (int i = 0; i < FANOUT_SIZE; i++)
        http_close(&fanout->conns[i]);
}

void fanout_send(struct fanout *fanout, const char *path)
{
    AUTOFREE char *target = text_printf("/api/%s", path);
    AUTOFREE char *request = http_format("GET", target, fanout->headers);
    for (int i = 0; i < FANOUT_SIZE; i++)
        assert_int_equal(http_send_text(&fanout->conns[i], request), 0);
}

void fanout_expect(struct fanout *fanout, int status, char *body)
{
    for (int i = 0; i < FANOUT_SIZE; i++) {
        AUTO(http_response_free) struct http_response response;
        assert_int_equal(http_read(&fanout->conns[i], false, &response), 0);
        if (response.status != status || (body != NULL && strcmp(response.body, body) != 0))
            fail_msg("connection %d: %d %.90s instead of %d %.90s", i, response.status, response.body, status,
                     body != NULL ? body : "");
    }
    free(body);
}

int fanout_count(struct fanout *fanout, const char *body, const char *instead)
{
    int count = 0;
    for (int i = 0; i < FANOUT_SIZE; i++) {
        AUTO(http_response_free) struct http_response response;
        assert_int_equal(http_read(&fanout->conns[i], false, &response), 0);
        assert_int_equal(response.status, 200);
        bool same = strcmp(response.body, body) == 0;
        if (!same)
            assert_string_equal(response.body, instead);
        count += same;
    }
    return count;
}

void fanout_ask(struct fanout *fanout, const char *path, int status, char *body)
{
    fanout_send(fanout, path);
    fanout_expect(fanout, status, body);
}

struct expectation {
    struct fanout *fanout;
    const char *path;
    int status;
    const char *body;
};

static bool is_as_expected(void *arg)
{
    const struct expectation *expected = arg;
    int same = 0;
    fanout_send(expected->fanout, expected->path);
    for (int i = 0; i < FANOUT_SIZE; i++) {
        AUTO(http_response_free) struct http_response response;
        assert_int_equal(http_read(&expected->fanout->conns[i], false, &response), 0);
        same += response.status == expected->status &&
                (expected->body == NULL || strcmp(response.body, expected->body) == 0);
    }
    return same == FANOUT_SIZE;
}

void fanout_await(struct fanout *fanout, const char *path, int status, char *body)
{
    struct expectation expected = {fanout, path, status, body};
    if (!wait_until(is_as_expected, &expected, WAIT_DEADLINE_MS))
        fail_msg("%s does not become %d %.90s", path, status, body != NULL ? body : "");
    free(body);
}

bool fanout_serves_version_2(void *bed)
{
    struct fanout fanout;
    AUTOFREE char *now = catalogue_version_card(1, 2);
    AUTOFREE char *before = catalogue_version_card(1, 1);
    fanout_open(&fanout, bed);
    fanout_send(&fanout, "channel/by-id/1/");
    int current = fanout_count(&fanout, now, before);
    fanout_close(&fanout);
    return current == FANOUT_SIZE;
}

bool fanout_is_cached(struct testbed *bed)
{
    struct fanout fanout;
    double before = server_metric(&bed->fixture.server, "channeld_redis_commands_total");
    fanout_open(&fanout, bed);
    fanout_ask(&fanout, "channel/by-id/1/", 200, catalogue_version_card(1, 1));
    fanout_close(&fanout);
    return server_metric(&bed->fixture.server, "channeld_redis_commands_total") <= before;
}
