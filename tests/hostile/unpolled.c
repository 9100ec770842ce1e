/*
 * The kernel refuses to poll some connections, as it does where it has no memory or its limit for a user is
 * reached. It costs these connections, and nothing else.
 *
 * The refusal is the kernel's own: a filter of system calls (seccomp), which this program installs on itself
 * when it is started as TEST_WRAPPER, before it becomes channeld.
 */

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/fixture.h"

/* Descriptors of connections; those above are what a loop looks at when it is opened. */
enum { REFUSED_FROM = 48, REFUSED_UNTIL = 512, CLIENTS = 80, ROUNDS = 3 };

static const char WRAPPED[] = "--refuse";

/* epoll_ctl(_, EPOLL_CTL_ADD, fd, _) fails with ENOSPC for those descriptors. */
static int refuse_some(void)
{
    enum {
        NR = offsetof(struct seccomp_data, nr),
        OPERATION = offsetof(struct seccomp_data, args[1]),
        DESCRIPTOR = offsetof(struct seccomp_data, args[2])
    };
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NR),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_ctl, 0, 6),
                                   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, OPERATION),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EPOLL_CTL_ADD, 0, 4),
                                   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, DESCRIPTOR),
                                   BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, REFUSED_FROM, 0, 2),
                                   BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, REFUSED_UNTIL, 1, 0),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog program = {.len = TEST_COUNT(filter), .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -errno;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 ? -errno : 0;
}

/* How many of simultaneous requests are served; the other connections must be closed. */
static int count_served(struct fixture *f)
{
    struct http_conn conn[CLIENTS];
    int served = 0;
    AUTOFREE char *request = http_format("GET", "/api/channels/", FIXTURE_AUTH);
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(http_open(&conn[i], f->server.port), 0);
        (void)http_send_text(&conn[i], request);
    }
    for (int i = 0; i < CLIENTS; i++) {
        struct http_response response;
        int err = http_read(&conn[i], false, &response);
        if (err != 0 && err != -EPIPE && err != -ECONNRESET)
            fail_msg("connection %d: %s", i, strerror(-err));
        served += err == 0 && response.status == 200;
        if (err == 0)
            http_response_free(&response);
    }
    for (int i = 0; i < CLIENTS; i++)
        http_close(&conn[i]);
    return served;
}

static bool serves_one(void *arg)
{
    struct fixture *f = arg;
    struct http_response response;
    bool served = http_try(f->server.port, "GET", "/api/channels/", FIXTURE_AUTH, &response) == 0;
    if (served)
        http_response_free(&response);
    return served;
}

TEST_CASE(connections_that_cannot_be_polled_are_lost_alone)
{
    struct fixture *f = fixture_new(3, ENV("CHANNELD_WORKERS=1", "CHANNELD_HEADER_TIMEOUT=500ms"));
    for (int i = 0; i < ROUNDS; i++) {
        int served = count_served(f);
        assert_in_range(served, 1, CLIENTS - 1);
        assert_true(wait_until(serves_one, f, WAIT_DEADLINE_MS)); /* when the lost ones have ended */
    }
    server_expect_log(&f->server, "connections are closed that the kernel cannot poll", 1);
    fixture_free(f); /* which asserts that it exits with 0 */
}

int main(int argc, char **argv)
{
    static char self[4096];
    if (argc > 2 && strcmp(argv[1], WRAPPED) == 0) {
        if (refuse_some() == 0)
            (void)execvp(argv[2], argv + 2);
        return 127;
    }
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - sizeof WRAPPED - 1);
    if (len <= 0)
        return 1;
    (void)snprintf(self + len, sizeof self - (size_t)len, " %s", WRAPPED);
    if (setenv("TEST_WRAPPER", self, 1) != 0)
        return 1;
    return test_run(argc, argv);
}
