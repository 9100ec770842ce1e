/* Sockets of tests; see sockets.h. */
#include "support/sockets.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/net.h"
#include "support/test.h"
#include "support/text.h"

#define PASS_SOCKETS "--pass-sockets"

enum { PASSED_FIRST = 3 };

static const char *own_path;

/* In the place of the program: PASS_SOCKETS NAMES COUNT DESCRIPTOR... PROGRAM */
static int run_with_sockets(char **argv)
{
    char text[32];
    int copy[SOCKETS_MAX];
    int count = (int)strtol(argv[1], NULL, 10);
    for (int i = 0; i < count; i++)
        copy[i] = fcntl((int)strtol(argv[2 + i], NULL, 10), F_DUPFD_CLOEXEC, 100);
    for (int i = 0; i < count; i++)
        if (dup2(copy[i], PASSED_FIRST + i) < 0)
            return 1;
    (void)snprintf(text, sizeof text, "%d", (int)getpid());
    (void)setenv("LISTEN_PID", text, 1);
    (void)setenv("LISTEN_FDS", argv[1], 1);
    (void)setenv("LISTEN_FDNAMES", argv[0], 1);
    (void)execvp(argv[2 + count], argv + 2 + count);
    return 1;
}

void sockets_open(struct sockets *s, const char *names, int count)
{
    *s = (struct sockets){.count = count, .names = names};
    for (int i = 0; i < count; i++) {
        s->port[i] = net_reserve_port();
        s->fd[i] = net_listen(s->port[i]);
        assert_true(s->fd[i] >= 0);
        assert_int_equal(fcntl(s->fd[i], F_SETFD, 0), 0); /* handed on */
    }
}

void sockets_close(struct sockets *s)
{
    for (int i = 0; i < s->count; i++)
        (void)close(s->fd[i]);
}

void sockets_start_server(struct server *server, const struct sockets *s, const char *redis_url,
                          const char *const *env)
{
    const char *outer = getenv("TEST_WRAPPER");
    AUTOFREE char *before = outer != NULL ? text_printf("%s", outer) : NULL;
    AUTOFREE char *numbers =
        s->count > 1 ? text_printf("%d %d", s->fd[0], s->fd[1]) : text_printf("%d", s->fd[0]);
    AUTOFREE char *wrapper = text_printf("%s " PASS_SOCKETS " %s %d %s %s", own_path, s->names, s->count,
                                         numbers, before != NULL ? before : "");
    assert_int_equal(setenv("TEST_WRAPPER", wrapper, 1), 0);
    server_start(server, &(struct server_spec){redis_url, env, SERVER_WAIT_NOTHING});
    assert_int_equal(before != NULL ? setenv("TEST_WRAPPER", before, 1) : unsetenv("TEST_WRAPPER"), 0);
    server->port = s->port[0];
    if (s->count > 1)
        server->admin_port = s->port[1];
}

int sockets_main(int argc, char **argv)
{
    if (argc > 5 && strcmp(argv[1], PASS_SOCKETS) == 0)
        return run_with_sockets(argv + 2);
    own_path = argv[0];
    return test_run(argc, argv);
}
