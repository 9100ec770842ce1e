/* A server that cannot start says why, naming the setting, and leaves nothing behind. */
#include "app/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/check.h"

/* A port of 127.0.0.1 that somebody listens on, or that was free a moment ago. */
static int port_of(int *listener)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    socklen_t len = sizeof in;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(*listener, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(listen(*listener, 1), 0);
    assert_int_equal(getsockname(*listener, (struct sockaddr *)&in, &len), 0);
    return ntohs(in.sin_port);
}

/* Runs with these addresses and two more words; it must fail at once and say `expected` first. */
static void expect_failure(const char *listen_at, const char *admin_at, const char *flag, const char *value,
                           int result, const char *expected)
{
    const char *words[] = {"channeld",
                           "--listen",
                           listen_at,
                           "--admin-listen",
                           admin_at,
                           "--redis-url",
                           "rediss://127.0.0.1:1",
                           "--workers",
                           "3",
                           flag,
                           value};
    char *argv[TEST_COUNT(words)];
    struct config config = {0};
    SCOPED_BUF(error);
    for (size_t i = 0; i < TEST_COUNT(words); i++)
        argv[i] = (char *)(uintptr_t)words[i]; /* not written to */
    assert_int_equal(config_read(&config, TEST_COUNT(words), argv, &error), CONFIG_RUN);
    assert_int_equal(server_run(&config, false, &error), result);
    if (strncmp(buf_c_str(&error), expected, strlen(expected)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", buf_c_str(&error), expected);
    config_fini(&config);
}

TEST_CASE(address_in_use_is_named)
{
    int taken = -1;
    int spare = -1;
    char taken_at[32];
    char free_at[32];
    (void)snprintf(taken_at, sizeof taken_at, "127.0.0.1:%d", port_of(&taken));
    (void)snprintf(free_at, sizeof free_at, "127.0.0.1:%d", port_of(&spare));
    close(spare);
    expect_failure(taken_at, free_at, "--log-level", "info", -EADDRINUSE, "--listen ");
    expect_failure(free_at, taken_at, "--log-level", "info", -EADDRINUSE, "--admin-listen ");
    expect_failure("203.0.113.1:8080", free_at, "--log-level", "info", -EADDRNOTAVAIL, "--listen ");
    close(taken);
}

TEST_CASE(missing_certificates_are_named)
{
    int spare[2];
    char at[2][32];
    for (int i = 0; i < 2; i++)
        (void)snprintf(at[i], sizeof at[i], "127.0.0.1:%d", port_of(&spare[i]));
    for (int i = 0; i < 2; i++)
        close(spare[i]);
    expect_failure(at[0], at[1], "--redis-ca-file", "/nonexistent/ca.pem", -EINVAL, "--redis-ca-file: ");
}

/* No setting of the surrounding environment may be seen. */
static int clear_environment(void **state)
{
    (void)state;
    return clearenv();
}

TEST_GROUP(clear_environment, NULL)
