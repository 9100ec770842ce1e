/*
 * Names of Redis in DNS: a name server that never answers or answers late, and a name that moves to another
 * address. The files of the resolver are replaced in a mount namespace of this program and its children.
 */

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/fixture.h"

enum { DNS_PORT = 53 };

#define NAME_SERVER "127.0.0.9"
#define NAME        "redis.moving.test"

static struct tempdir dir;
static int name_server = -1;
static bool permitted;

/* In place: the file is mounted, not its name. */
static void point_name_at(const char *address)
{
    AUTOFREE char *hosts = text_printf("%s/hosts", dir.path);
    assert_true(text_write_file(hosts, text_temp("127.0.0.1 localhost\n%s " NAME "\n", address)));
}

static bool mount_over(const char *path, const char *text)
{
    AUTOFREE char *file = text_printf("%s%s", dir.path, strrchr(path, '/'));
    return text_write_file(file, text) && mount(file, path, NULL, MS_BIND, NULL) == 0;
}

/* Receives queries and leaves them unanswered. */
static int open_name_server(void)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(DNS_PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 8)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

static int setup(void **state)
{
    (void)state;
    tempdir_init(&dir);
    name_server = open_name_server();
    permitted =
        name_server >= 0 && unshare(CLONE_NEWNS) == 0 &&
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount_over("/etc/resolv.conf", "nameserver " NAME_SERVER "\noptions timeout:30 attempts:5\n") &&
        mount_over("/etc/nsswitch.conf", "hosts: files dns\n") && mount_over("/etc/hosts", "");
    if (!permitted)
        print_message("no private resolver files: %s\n", strerror(errno));
    point_name_at("127.0.0.2");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)umount2("/etc/hosts", MNT_DETACH);
    (void)umount2("/etc/resolv.conf", MNT_DETACH);
    (void)umount2("/etc/nsswitch.conf", MNT_DETACH);
    if (name_server >= 0)
        (void)close(name_server);
    tempdir_fini(&dir);
    return 0;
}

TEST_GROUP(setup, teardown)

static bool is_queried(void *arg)
{
    struct pollfd polled = {.fd = name_server, .events = POLLIN};
    (void)arg;
    return poll(&polled, 1, 0) == 1;
}

static void drop_queries(void)
{
    char query[512];
    while (recv(name_server, query, sizeof query, MSG_DONTWAIT) >= 0)
        continue;
}

static void expect_drain_during_a_lookup(const char *url)
{
    static const char *const env[] = {"CHANNELD_DRAIN_TIMEOUT=1s", NULL};
    AUTO(fixture_fini) struct fixture f;
    drop_queries();
    fixture_serve(&f, url, env, SERVER_WAIT_LISTENING);
    assert_true(wait_until(is_queried, NULL, WAIT_DEADLINE_MS));
    AUTOFREE char *log = fixture_stop_server(&f);
    assert_non_null(strstr(log, "channeld stopped"));
}

/* A look-up takes minutes then. */
TEST_CASE(drain_does_not_wait_for_dns)
{
    if (!permitted)
        test_skip("no name server of its own: that needs root");
    expect_drain_during_a_lookup("redis://redis.silent.test:6379");
    expect_drain_during_a_lookup("redis+sentinel://one.silent.test,two.silent.test/main");
}

static void fill(struct redis *redis, const char *title)
{
    catalogue_issue_key(redis, FIXTURE_KEY);
    catalogue_put(redis, text_temp("{\"max_channel_id\":1,\"title\":\"%s\"}", title), 1);
}

/* Answers all queries that have come: 127.0.0.1, and no IPv6 address (RFC 1035 section 4). */
static void answer_queries(void)
{
    static const unsigned char record[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1};
    unsigned char message[512 + sizeof record];
    struct sockaddr_in from;
    socklen_t from_len = sizeof from;
    ssize_t n = 0;
    while ((n = recvfrom(name_server, message, 512, MSG_DONTWAIT, (struct sockaddr *)&from, &from_len)) > 0) {
        size_t name_len = strlen((const char *)message + 12) + 1;
        bool is_ipv4 = message[12 + name_len + 1] == 1;
        size_t len = 12 + name_len + 4;
        assert_true(len <= (size_t)n);
        message[2] = 0x81; /* a response */
        message[3] = 0x80;
        memset(message + 6, 0, 6);
        message[7] = is_ipv4;
        memcpy(message + len, record, sizeof record);
        len += is_ipv4 ? sizeof record : 0;
        assert_int_equal(sendto(name_server, message, len, 0, (struct sockaddr *)&from, from_len), len);
    }
}

/* As where the first name server of two is down: each look-up takes longer than an attempt to connect. */
TEST_CASE(late_answer_of_a_name_server_is_used)
{
    static const char *const env[] = {"CHANNELD_WORKERS=1", NULL};
    AUTO(redis_stop) struct redis redis;
    AUTO(fixture_fini) struct fixture f;
    if (!permitted)
        test_skip("no name server of its own: that needs root");
    redis_start(&redis, NULL);
    fill(&redis, "found");
    drop_queries();
    fixture_serve(&f, text_temp("redis://redis.slow.test:%d", redis.port), env, SERVER_WAIT_LISTENING);
    server_await_log(&f.server, "the name was not resolved in time");
    answer_queries();
    fixture_await_text(&f, "channel/by-id/1/", "\"found\"", true);
}

/* The address that it listens on from its next start, besides 127.0.0.1, which the test uses. */
static void move_to(struct redis *redis, const char *from, const char *to)
{
    for (size_t i = 0; i < REDIS_ARGS_MAX; i++)
        if (strcmp(redis->args_text[i], from) == 0)
            (void)snprintf(redis->args_text[i], sizeof redis->args_text[i], "%s", to);
}

/* The name is looked up for every attempt. */
TEST_CASE(name_of_redis_that_moves_is_followed)
{
    static const char *const env[] = {"CHANNELD_REQUEST_TIMEOUT=200ms", "CHANNELD_STALE_LIMIT=0s", NULL};
    static const char *const args[] = {"--bind", "127.0.0.1", "127.0.0.2", NULL};
    AUTO(redis_stop) struct redis redis;
    AUTO(fixture_fini) struct fixture f;
    if (!permitted)
        test_skip("no name server of its own: that needs root");
    redis_start(&redis, args);
    fill(&redis, "first");
    fixture_serve(&f, text_temp("redis://" NAME ":%d", redis.port), env, SERVER_WAIT_READY);
    fixture_await_text(&f, "channel/by-id/1/", "\"first\"", true);
    redis_kill(&redis);
    move_to(&redis, "127.0.0.2", "127.0.0.3");
    redis_restart(&redis);
    fill(&redis, "second");
    /* The name still has the old address: several attempts fail. */
    server_await_metric(&f.server, "channeld_redis_disconnects_total", 8);
    fixture_expect(&f, "channel/by-id/1/", 500);
    point_name_at("127.0.0.3");
    fixture_await_text(&f, "channel/by-id/1/", "\"second\"", true);
}

/* --- a name that moves while the old server goes on --- */

static struct two {
    struct redis from, to; /* with other data, at the same port */
    struct fixture f;
} two;

static int begin_two(void **state)
{
    static const char *const env[] = {"CHANNELD_WORKERS=2", NULL};
    static const char *const from_args[] = {"--bind", "127.0.0.1", "127.0.0.2", NULL};
    char port[16];
    (void)state;
    if (!permitted)
        return 0;
    redis_start(&two.from, from_args);
    fill(&two.from, "first");
    (void)snprintf(port, sizeof port, "%d", two.from.port);
    redis_prepare(&two.to, (const char *const[]){"--bind", "127.0.0.4", "--port", port, NULL});
    (void)snprintf(two.to.host, sizeof two.to.host, "127.0.0.4");
    two.to.port = two.from.port;
    redis_launch(&two.to);
    redis_await(&two.to);
    fill(&two.to, "second");
    point_name_at("127.0.0.2");
    fixture_serve(&two.f, text_temp("redis://" NAME ":%d", two.from.port), env, SERVER_WAIT_READY);
    fixture_await_text(&two.f, "channel/by-id/1/", "\"first\"", true);
    server_await_metric(&two.f.server, "channeld_redis_connected", 2);
    return 0;
}

static int end_two(void **state)
{
    (void)state;
    if (!permitted)
        return 0;
    fixture_fini(&two.f);
    redis_stop(&two.to);
    redis_stop(&two.from);
    return 0;
}

/* Each worker connects to the new server before it leaves the old one. */
static void expect_second(void)
{
    AUTOFREE char *log = NULL;
    server_await_metric(&two.f.server, "channeld_redis_connects_total", 4);
    fixture_await_text(&two.f, "channel/by-id/1/", "\"second\"", true);
    assert_int_equal((int)server_metric(&two.f.server, "channeld_redis_connected"), 2);
    assert_int_equal((int)server_metric(&two.f.server, "channeld_redis_disconnects_total"), 0);
    assert_int_equal((int)server_metric(&two.f.server, "channeld_redis_failovers_total"), 0);
    log = fixture_stop_server(&two.f);
    assert_int_equal(
        text_count(log,
                   "\"msg\":\"the name of a server in use leads to another address\",\"name\":\"" NAME "\""),
        2);
    assert_int_equal(text_count(log, "\"from\":\"127.0.0.2\",\"to\":\"127.0.0.4\""), 2);
}

TEST_CASE_WITH(name_that_moves_is_followed_at_sighup, begin_two, end_two)
{
    if (!permitted)
        test_skip("no name server of its own: that needs root");
    point_name_at("127.0.0.4");
    process_signal(&two.f.server.process, SIGHUP);
    expect_second();
}

static bool has_log(void *arg)
{
    AUTOFREE char *log = server_log(&two.f.server);
    return strstr(log, arg) != NULL;
}

SLOW_TEST_WITH(name_that_moves_is_followed_after_three_look_ups, begin_two, end_two)
{
    enum { TWO_PAUSES_MS = 15000, THREE_LOOK_UPS_MS = 60000 };
    static char message[] = "the name of a server in use leads to another address";
    if (!permitted)
        test_skip("no name server of its own: that needs root");
    int64_t began = wait_now_ms();
    point_name_at("127.0.0.4");
    assert_true(wait_until(has_log, message, THREE_LOOK_UPS_MS));
    assert_true(wait_now_ms() - began > TWO_PAUSES_MS);
    expect_second();
}
