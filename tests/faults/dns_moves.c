/* A Redis that comes back under another address: its name is looked up for every attempt. */

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "support/fixture.h"

enum { RECOVERY_MS = 3000 };

#define NAME "redis.moving.test"

static struct tempdir dir;
static char *hosts; /* the file that is /etc/hosts for this program and its children */
static bool permitted;

static void point_name_at(const char *address)
{
    char *text = text_printf("127.0.0.1 localhost\n%s " NAME "\n", address);
    assert_true(text_write_file(hosts, text)); /* in place: what is mounted is the file, not its name */
    free(text);
}

static int take_private_hosts(void **state)
{
    (void)state;
    tempdir_init(&dir);
    hosts = text_printf("%s/hosts", dir.path);
    point_name_at("127.0.0.2");
    permitted = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                mount(hosts, "/etc/hosts", NULL, MS_BIND, NULL) == 0;
    if (!permitted)
        print_message("no namespace of our own: %s\n", strerror(errno));
    return 0;
}

static int give_hosts_back(void **state)
{
    (void)state;
    if (permitted)
        (void)umount2("/etc/hosts", MNT_DETACH);
    tempdir_fini(&dir);
    free(hosts);
    return 0;
}

TEST_GROUP(take_private_hosts, give_hosts_back)

/* Where it will listen from its next start on, besides 127.0.0.1, by which the test speaks to it. */
static void move_to(struct redis *redis, const char *from, const char *to)
{
    for (size_t i = 0; i < REDIS_ARGS_MAX; i++)
        if (strcmp(redis->args_text[i], from) == 0)
            (void)snprintf(redis->args_text[i], sizeof redis->args_text[i], "%s", to);
}

static void fill(struct redis *redis, const char *title)
{
    catalogue_issue_key(redis, FIXTURE_KEY);
    char *card = text_printf("{\"max_channel_id\":1,\"title\":\"%s\"}", title);
    catalogue_put(redis, card, 1);
    free(card);
}

static bool shows(struct fixture *f, const char *title)
{
    struct http_response response;
    fixture_get(f, "channel/by-id/1/", &response);
    bool shown = response.status == 200 && strstr(response.body, title) != NULL;
    http_response_free(&response);
    return shown;
}

static bool shows_second(void *arg)
{
    return shows(arg, "\"second\"");
}

TEST_CASE(name_that_moves_is_followed)
{
    static const char *const env[] = {"CHANNELD_REQUEST_TIMEOUT=200ms", "CHANNELD_STALE_LIMIT=0s", NULL};
    static const char *const args[] = {"--bind", "127.0.0.1", "127.0.0.2", NULL};
    struct fixture f;
    if (!permitted)
        skip();
    memset(&f, 0, sizeof f);
    redis_start(&f.redis, args);
    fill(&f.redis, "first");
    char *url = text_printf("redis://" NAME ":%d", f.redis.port);
    struct server_spec spec = {.redis_url = url, .env = env, .wait = SERVER_WAIT_READY};
    server_start(&f.server, &spec);
    assert_true(shows(&f, "\"first\""));
    redis_kill(&f.redis);
    move_to(&f.redis, "127.0.0.2", "127.0.0.3");
    redis_restart(&f.redis);
    fill(&f.redis, "second");
    /* The name still says where it was: several attempts lead nowhere. */
    server_await_metric(&f.server, "channeld_redis_disconnects_total", 8);
    assert_int_equal(fixture_status(&f, "channel/by-id/1/"), 500);
    point_name_at("127.0.0.3");
    int64_t began = wait_now_ms();
    assert_true(wait_until(shows_second, &f, RECOVERY_MS));
    assert_in_range(wait_now_ms() - began, 0, RECOVERY_MS / 2 + wait_slack_ms());
    server_stop(&f.server);
    redis_stop(&f.redis);
    free(url);
}
