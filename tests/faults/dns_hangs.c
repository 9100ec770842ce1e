/* A name server that never answers: the look-up of Redis' name takes minutes, and the end does not wait for
 * it. */

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

static struct tempdir dir;
static int name_server = -1;
static bool permitted;

static bool mount_over(const char *path, const char *text)
{
    char *file = text_printf("%s%s", dir.path, strrchr(path, '/'));
    bool mounted = text_write_file(file, text) && mount(file, path, NULL, MS_BIND, NULL) == 0;
    free(file);
    return mounted;
}

/* Takes queries and leaves them unanswered. */
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

/* For this program and its children alone. */
static int take_private_name_server(void **state)
{
    (void)state;
    tempdir_init(&dir);
    name_server = open_name_server();
    permitted =
        name_server >= 0 && unshare(CLONE_NEWNS) == 0 &&
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        mount_over("/etc/resolv.conf", "nameserver " NAME_SERVER "\noptions timeout:30 attempts:5\n") &&
        mount_over("/etc/nsswitch.conf", "hosts: files dns\n");
    if (!permitted)
        print_message("no name server of our own: %s\n", strerror(errno));
    return 0;
}

static int give_name_server_back(void **state)
{
    (void)state;
    (void)umount2("/etc/resolv.conf", MNT_DETACH);
    (void)umount2("/etc/nsswitch.conf", MNT_DETACH);
    if (name_server >= 0)
        (void)close(name_server);
    tempdir_fini(&dir);
    return 0;
}

TEST_GROUP(take_private_name_server, give_name_server_back)

static bool is_asked(void *arg)
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

static void ends_while_a_look_up_hangs(const char *url)
{
    static const char *const env[] = {"CHANNELD_DRAIN_TIMEOUT=1s", NULL};
    struct server server;
    struct server_spec spec = {.redis_url = url, .env = env, .wait = SERVER_WAIT_LISTENING};
    drop_queries();
    server_start(&server, &spec);
    assert_true(wait_until(is_asked, NULL, WAIT_DEADLINE_MS));
    process_signal(&server.process, SIGTERM);
    server_expect_exit(&server, 0);
    char *log = server_log(&server);
    assert_non_null(strstr(log, "channeld stopped"));
    free(log);
    tempdir_fini(&server.dir);
}

TEST_CASE(the_drain_does_not_wait_for_the_name_of_redis)
{
    if (!permitted)
        skip();
    ends_while_a_look_up_hangs("redis://redis.silent.test:6379");
}

TEST_CASE(the_drain_does_not_wait_for_the_names_of_sentinels)
{
    if (!permitted)
        skip();
    ends_while_a_look_up_hangs("redis+sentinel://one.silent.test,two.silent.test/main");
}
