/*
 * The machine is suspended and resumed: timers stand still, the boot clock does not. What is in memory is as
 * old as that one says.
 */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/fixture.h"

enum { STALE_LIMIT_S = 30 };

#define CARD "channel/by-id/1/"

static struct tempdir dir;
static char *clock_file;
static struct fixture f;

static void suspend_for(int64_t total_s)
{
    int64_t ms = total_s * 1000;
    int fd = open(clock_file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &ms, sizeof ms, 0), sizeof ms);
    close(fd);
}

static int set_up(void **state)
{
    (void)state;
    memset(&f, 0, sizeof f);
    tempdir_init(&dir);
    clock_file = text_printf("%s/clock", dir.path);
    suspend_for(0);
    redis_start(&f.redis, NULL);
    catalogue_issue_key(&f.redis, FIXTURE_KEY);
    catalogue_put(&f.redis, "{\"max_channel_id\":1,\"title\":\"t\"}", 1);
    AUTOFREE char *preload = text_printf("LD_PRELOAD=%s", process_require_env("SUSPENDED_CLOCK_LIBRARY"));
    AUTOFREE char *file = text_printf("SUSPENDED_CLOCK=%s", clock_file);
    const char *inherited = getenv("ASAN_OPTIONS");
    AUTOFREE char *asan =
        text_printf("ASAN_OPTIONS=%s:verify_asan_link_order=0", inherited != NULL ? inherited : "");
    const char *const env[] = {"CHANNELD_WORKERS=1", preload, file, asan, NULL};
    struct server_spec spec = {.redis_url = f.redis.url, .env = env, .wait = SERVER_WAIT_READY};
    server_start(&f.server, &spec);
    assert_int_equal(fixture_status(&f, CARD), 200);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (f.server.process.pid != 0)
        server_stop(&f.server);
    server_kill(&f.server);
    redis_stop(&f.redis);
    free(clock_file);
    tempdir_fini(&dir);
    return 0;
}

TEST_CASE_WITH(stale_limit_counts_it, set_up, tear_down)
{
    redis_kill(&f.redis);
    server_await_metric_below(&f.server, "channeld_redis_connected", 0);
    assert_int_equal(fixture_status(&f, CARD), 200);
    assert_int_equal(server_admin_status(&f.server, "/readyz"), 200);
    suspend_for(STALE_LIMIT_S + 1);
    assert_int_equal(fixture_status(&f, CARD), 500);
    assert_int_equal(server_admin_status(&f.server, "/readyz"), 503);
    assert_int_equal(server_admin_status(&f.server, "/livez"), 200);
}
