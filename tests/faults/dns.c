/*
 * Names of Redis in DNS: a name server that never answers or answers late. The files of the resolver are
 * replaced in a mount namespace of this program and its children. Names that move: tests/simulation/cases.c.
 */

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/fixture.h"

enum { DNS_PORT = 53 };

#define NAME_SERVER "127.0.0.9"

static struct tempdir dir;
static int name_server = -1;
static bool permitted;

static bool mount_over(const char *path, const char *text)
{
    AUTOFREE char *file = text_printf("%s%s", dir.path, strrchr(path, '/'));
    return text_write_file(file, text) && mount(file, path, NULL, MS_BIND, NULL) == 0;
}

static bool set_resolver_timeout(int seconds)
{
    return mount_over("/etc/resolv.conf",
                      text_temp("nameserver " NAME_SERVER "\noptions timeout:%d attempts:5\n", seconds));
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
    permitted = name_server >= 0 && unshare(CLONE_NEWNS) == 0 &&
                mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && set_resolver_timeout(30) &&
                mount_over("/etc/nsswitch.conf", "hosts: files dns\n") &&
                mount_over("/etc/hosts", "127.0.0.1 localhost\n");
    if (!permitted)
        print_message("no private resolver files: %s\n", strerror(errno));
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

/* As where the first name server of two is down: the first query of each look-up has no answer. */
TEST_CASE(late_answer_of_a_name_server_is_used)
{
    static const char *const env[] = {"CHANNELD_WORKERS=1", NULL};
    AUTO(redis_stop) struct redis redis;
    AUTO(fixture_fini) struct fixture f;
    if (!permitted)
        test_skip("no name server of its own: that needs root");
    redis_start(&redis, NULL);
    catalogue_issue_key(&redis, FIXTURE_KEY);
    catalogue_put(&redis, "{\"max_channel_id\":1,\"title\":\"found\"}", 1);
    assert_true(set_resolver_timeout(5));
    drop_queries();
    fixture_serve(&f, text_temp("redis://redis.slow.test:%d", redis.port), env, SERVER_WAIT_LISTENING);
    assert_true(wait_until(is_queried, NULL, WAIT_DEADLINE_MS));
    drop_queries();
    assert_true(wait_until(is_queried, NULL, WAIT_DEADLINE_MS));
    answer_queries();
    fixture_await_text(&f, "channel/by-id/1/", "\"found\"", true);
}
