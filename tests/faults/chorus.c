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
