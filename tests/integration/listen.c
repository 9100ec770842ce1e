/* Addresses to listen on: both families by default, IPv4 alone where there is no IPv6, and never one that
 * another process listens on. */

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/http.h"
#include "support/net.h"
#include "support/server.h"
#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

#define WITHOUT_V6 "--without-ipv6"

static const char *own_path;

/* In the place of the program: what sandboxes (systemd's RestrictAddressFamilies=) and kernels without IPv6
 * do. */
static int run_without_v6(char **argv)
{
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
                                   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog program = {TEST_COUNT(filter), filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 1;
    (void)execv(argv[0], argv);
    return 1;
}

/* Starts channeld with `host` before both ports. */
static void start_at(struct server *server, const char *host, int port)
{
    int admin_port = net_reserve_port();
    AUTOFREE char *listen = text_printf("CHANNELD_LISTEN=%s:%d", host, port);
    const char *const env[] = {listen, text_temp("CHANNELD_ADMIN_LISTEN=%s:%d", host, admin_port), NULL};
    const struct server_spec spec = {
        .redis_url = "redis://127.0.0.1:1", .env = env, .wait = SERVER_WAIT_NOTHING};
    server_start(server, &spec);
    server->port = port;
    server->admin_port = admin_port;
}

/* The same with a port of its own. Where it is to run, its admin listener is awaited on 127.0.0.1. */
static void start(struct server *server, const char *host, bool runs)
{
    start_at(server, host, net_reserve_port());
    if (runs)
        server_await_admin(server, "/livez", 200);
}

/* 0 or a negative errno. */
static int connect_by_v6(int port)
{
    const struct sockaddr_in6 to = {
        .sin6_family = AF_INET6, .sin6_port = htons((in_port_t)port), .sin6_addr = in6addr_loopback};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int err = connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 ? 0 : -errno;
    (void)close(fd);
    return err;
}

static bool has_v6(void)
{
    int err = connect_by_v6(net_reserve_port());
    return err == -ECONNREFUSED;
}

static void expect_v4(struct server *server)
{
    assert_true(net_is_listening(server->port));
    assert_int_equal(server_admin_status(server, "/livez"), 200);
}

static void probe(struct server *server, const char *host)
{
    static const char *const args[] = {"--probe", NULL};
    struct process process;
    const char *const env[] = {text_temp("CHANNELD_ADMIN_LISTEN=%s:%d", host, server->admin_port), NULL};
    assert_int_equal(server_run_tool(&process, &server->dir, "CHANNELD_BIN", args, env), 1);
    AUTOFREE char *errors = process_stderr(&process);
    assert_non_null(strstr(errors, "/readyz answers 503")); /* it has no Redis, but it was reached */
}

TEST_CASE(without_a_host_both_families_are_taken)
{
    static const char *const hosts[] = {"", "[::]"};
    if (!has_v6())
        test_skip("no IPv6");
    for (size_t i = 0; i < TEST_COUNT(hosts); i++) {
        struct server server;
        start(&server, hosts[i], true);
        expect_v4(&server);
        assert_int_equal(connect_by_v6(server.port), 0);
        assert_int_equal(connect_by_v6(server.admin_port), 0);
        probe(&server, hosts[i]);
        server_stop(&server);
    }
}

TEST_CASE(every_address_of_version_4_is_not_one_of_version_6)
{
    struct server server;
    start(&server, "0.0.0.0", true);
    expect_v4(&server);
    assert_true(connect_by_v6(server.port) != 0);
    probe(&server, "0.0.0.0");
    server_stop(&server);
}

TEST_CASE(without_version_6_the_default_is_version_4)
{
    struct server server;
    if (getenv("TEST_WRAPPER") != NULL)
        test_skip("TEST_WRAPPER is in use");
    assert_int_equal(setenv("TEST_WRAPPER", text_temp("%s " WITHOUT_V6, own_path), 1), 0);
    start(&server, "", true);
    expect_v4(&server);
    assert_true(connect_by_v6(server.port) != 0);
    probe(&server, "");
    server_stop(&server);
    start(&server, "[::]", false); /* asked for by name */
    server_expect_exit(&server, 1);
    AUTOFREE char *errors = process_stderr(&server.process);
    assert_non_null(strstr(errors, "LISTEN"));
    server_kill(&server);
    assert_int_equal(unsetenv("TEST_WRAPPER"), 0);
}

static bool raise_loopback(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool raised = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    if (fd >= 0)
        (void)close(fd);
    return raised;
}

/* Sockets of IPv6 can be made, but there is no address for them. */
TEST_CASE(with_version_6_disabled_the_default_is_version_4)
{
    struct server server;
    int before = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (before < 0 || unshare(CLONE_NEWNET) != 0)
        test_skip("no network namespaces: they need root");
    assert_true(raise_loopback());
    if (!text_write_file("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1\n")) {
        assert_int_equal(setns(before, CLONE_NEWNET), 0);
        test_skip("IPv6 cannot be disabled in a network namespace");
    }
    assert_false(has_v6());
    start(&server, "", true);
    expect_v4(&server);
    probe(&server, "");
    server_stop(&server);
    assert_int_equal(setns(before, CLONE_NEWNET), 0);
    (void)close(before);
}

static void expect_in_use(struct server *server)
{
    server_expect_exit(server, 1);
    AUTOFREE char *errors = process_stderr(&server->process);
    assert_non_null(strstr(errors, "CHANNELD_LISTEN"));
    assert_non_null(strstr(errors, "Address already in use"));
    server_kill(server);
}

TEST_CASE(an_address_in_use_is_an_error)
{
    static const char *const hosts[][2] = {
        {"127.0.0.1", "127.0.0.1"}, {"0.0.0.0", "0.0.0.0"}, {"127.0.0.1", "0.0.0.0"}, {"", "127.0.0.1"}};
    for (size_t i = 0; i < TEST_COUNT(hosts); i++) {
        struct server first;
        struct server second;
        start(&first, hosts[i][0], true);
        start_at(&second, hosts[i][1], first.port);
        expect_in_use(&second);
        expect_v4(&first);
        server_stop(&first);
    }
}

struct pair {
    struct server server[2];
};

static bool one_has_ended(void *arg)
{
    struct pair *pair = arg;
    return !process_is_running(&pair->server[0].process) || !process_is_running(&pair->server[1].process);
}

TEST_CASE(of_two_that_start_together_one_serves)
{
    for (int round = 0; round < 10; round++) {
        struct pair pair;
        int port = net_reserve_port();
        for (int i = 0; i < 2; i++)
            start_at(&pair.server[i], "127.0.0.1", port);
        assert_true(wait_until(one_has_ended, &pair, WAIT_DEADLINE_MS));
        int ended = process_is_running(&pair.server[0].process) ? 1 : 0;
        expect_in_use(&pair.server[ended]);
        server_await_admin(&pair.server[1 - ended], "/livez", 200);
        server_stop(&pair.server[1 - ended]);
    }
}

/* The server closes first, so it is its side that waits. */
TEST_CASE(connections_in_time_wait_do_not_keep_a_process_from_starting)
{
    int port = net_reserve_port();
    for (int i = 0; i < 3; i++) {
        struct server server;
        start_at(&server, "127.0.0.1", port);
        server_await_admin(&server, "/livez", 200);
        assert_int_equal(http_get_status(port, "/api/openapi.json", "Connection: close\r\n"), 200);
        server_stop(&server);
    }
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], WITHOUT_V6) == 0)
        return run_without_v6(argv + 2);
    own_path = argv[0];
    return test_run(argc, argv);
}
