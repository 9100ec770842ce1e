/*
 * Redis is away, and the reason changes while it is: each reason is in the log when it begins, at the usual
 * level, in Redis' own words.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { ATTEMPTS = 4 };

static int set_up(void **state)
{
    static const char *const env[] = {"CHANNELD_WORKERS=1", NULL};
    *state = fixture_new(1, env);
    return 0;
}

static void await_attempts(struct fixture *f)
{
    double now = server_metric(&f->server, "channeld_redis_disconnects_total");
    server_await_metric(&f->server, "channeld_redis_disconnects_total", now + ATTEMPTS);
}

static void expect_logged_once(struct fixture *f, const char *reason)
{
    server_await_log(&f->server, reason);
    char *log = server_log(&f->server);
    assert_int_equal(text_count(log, reason), 1);
    free(log);
}

TEST_CASE_WITH(each_reason_is_logged_when_it_begins, set_up, fixture_teardown)
{
    struct fixture *f = *state;
    redis_kill(&f->redis);
    server_await_log(&f->server, "redis connection lost");
    await_attempts(f);
    expect_logged_once(f, "Connection refused");
    redis_restart(&f->redis);
    catalogue_issue_key(&f->redis, FIXTURE_KEY);
    server_await_metric(&f->server, "channeld_redis_connected", 1);
    redis_do(&f->redis, "CONFIG SET requirepass changed");
    redis_do(&f->redis, "CLIENT KILL TYPE normal SKIPME yes");
    await_attempts(f);
    expect_logged_once(f, "NOAUTH");
    redis_do(&f->redis, "ACL SETUSER default reset");
    redis_kill(&f->redis);
    await_attempts(f);
    char *log = server_log(&f->server);
    assert_int_equal(text_count(log, "Connection refused"), 2);
    free(log);
}

/* Words of Redis' own text: it quotes nothing, and is told as it is. */
TEST_CASE(wrong_password_is_told_whatever_it_is)
{
    static const char *const passwords[] = {"password", "pass", "user"};
    static const char *const redis_args[] = {"--requirepass", "right", NULL};
    struct redis redis;
    redis_start(&redis, redis_args);
    for (size_t i = 0; i < TEST_COUNT(passwords); i++) {
        char *setting = text_printf("CHANNELD_REDIS_PASSWORD=%s", passwords[i]);
        const char *const env[] = {"CHANNELD_WORKERS=1", setting, NULL};
        struct server_spec spec = {.redis_url = redis.url, .env = env, .wait = SERVER_WAIT_LISTENING};
        struct server server;
        server_start(&server, &spec);
        server_await_log(&server, "WRONGPASS invalid username-password pair or user is disabled");
        server_stop(&server);
        free(setting);
    }
    redis_stop(&redis);
}
