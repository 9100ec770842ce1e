/*
 * The protocols of a service manager, over a real socket: what is sent, to whom, what is taken from the
 * environment and what is left in it.
 */
#include "app/service_manager.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "support/tempdir.h"
#include "support/text.h"
#include "unit/check.h"

static struct tempdir dir;
static int manager; /* the socket that notifications arrive at */

static int receive_at(const struct sockaddr_un *address, size_t path_len)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path_len);
    assert_int_equal(bind(fd, (const struct sockaddr *)address, len), 0);
    return fd;
}

/* Binds `manager` to a path, or an abstract name; `name` becomes the value of NOTIFY_SOCKET. */
static const char *bind_manager(bool abstract)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = text_temp(abstract ? "@%s/abstract" : "%s/notify", dir.path);
    size_t len = strlen(name);
    memcpy(address.sun_path, name, len + 1);
    if (abstract)
        address.sun_path[0] = '\0';
    (void)unlink(name); /* of the test before */
    manager = receive_at(&address, abstract ? len : len + 1);
    return name;
}

static void expect_message(const char *expected)
{
    char text[512];
    ssize_t n = recv(manager, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    assert_string_equal(text, expected);
}

static void expect_nothing(void)
{
    char byte = 0;
    assert_int_equal(recv(manager, &byte, 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
}

static struct service_manager *open_manager(void)
{
    struct service_manager *m = NULL;
    SCOPED_BUF(error);
    assert_int_equal(service_manager_new(&m, &error), 0);
    assert_buf(&error, "");
    return m;
}

TEST_CASE(without_a_manager_nothing_happens)
{
    struct service_manager *m = open_manager();
    assert_int_equal(service_manager_watchdog_ms(m), 0);
    for (int i = 0; i < SERVICE_SOCKETS; i++)
        assert_int_equal(service_manager_socket(m, (enum service_socket)i), -1);
    assert_false(service_manager_set_status(m, "Ready"));
    service_manager_notify(m, SERVICE_READY);
    service_manager_notify(m, SERVICE_ALIVE);
    service_manager_notify(m, SERVICE_RELOADING);
    service_manager_stopping(m, 1000);
    service_manager_free(m);
}

static void expect_notifications(bool abstract)
{
    (void)setenv("NOTIFY_SOCKET", bind_manager(abstract), 1);
    struct service_manager *m = open_manager();
    assert_null(getenv("NOTIFY_SOCKET"));
    assert_true(service_manager_set_status(m, "Not ready"));
    expect_message("STATUS=Not ready");
    assert_true(service_manager_set_status(m, "Not ready")); /* no news */
    expect_nothing();
    service_manager_notify(m, SERVICE_READY);
    expect_message("READY=1");
    assert_true(service_manager_set_status(m, "Ready"));
    expect_message("STATUS=Ready");
    service_manager_notify(m, SERVICE_ALIVE);
    expect_message("WATCHDOG=1");
    service_manager_stopping(m, 25000);
    expect_message("STOPPING=1\nEXTEND_TIMEOUT_USEC=25000000");
    expect_nothing();
    service_manager_free(m);
    close(manager);
}

TEST_CASE(notifications_go_to_a_path)
{
    expect_notifications(false);
}

TEST_CASE(notifications_go_to_an_abstract_socket)
{
    expect_notifications(true);
}

TEST_CASE(a_reload_says_when_it_began)
{
    (void)setenv("NOTIFY_SOCKET", bind_manager(false), 1);
    struct service_manager *m = open_manager();
    uint64_t before_us = clock_now_ns() / 1000;
    service_manager_notify(m, SERVICE_RELOADING);
    char text[512];
    ssize_t n = recv(manager, text, sizeof text - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    static const char expected[] = "RELOADING=1\nMONOTONIC_USEC=";
    assert_int_equal(strncmp(text, expected, strlen(expected)), 0);
    uint64_t us = strtoull(text + strlen(expected), NULL, 10);
    assert_true(us >= before_us && us <= clock_now_ns() / 1000);
    service_manager_free(m);
    close(manager);
}

/* A manager that does not read, that is not there, or that is reached by other means. */
TEST_CASE(failures_to_notify_are_harmless)
{
    const char *name = bind_manager(false);
    (void)setenv("NOTIFY_SOCKET", name, 1);
    struct service_manager *m = open_manager();
    int sent = 0;
    uint64_t began = clock_now_ms();
    while (clock_now_ms() - began < 50) { /* until a call has waited for room */
        began = clock_now_ms();
        service_manager_notify(m, SERVICE_ALIVE);
        sent++;
    }
    service_manager_notify(m, SERVICE_READY); /* lost as well: it is sent again */
    for (int i = 1; i < sent; i++)
        expect_message("WATCHDOG=1");
    expect_nothing();
    assert_true(service_manager_set_status(m, "Ready"));
    expect_message("READY=1");
    expect_message("STATUS=Ready");
    close(manager);
    service_manager_notify(m, SERVICE_ALIVE);
    assert_int_equal(unlink(name), 0);
    service_manager_notify(m, SERVICE_ALIVE);
    service_manager_free(m);
    EACH_TEXT (other, "vsock:2:1234", "notify", "/", "@", text_temp("/%0200d", 1)) {
        (void)setenv("NOTIFY_SOCKET", other, 1);
        m = open_manager();
        assert_false(service_manager_set_status(m, "Ready"));
        assert_null(getenv("NOTIFY_SOCKET"));
        service_manager_notify(m, SERVICE_READY);
        service_manager_free(m);
    }
}

static uint64_t watchdog_ms(const char *us, const char *pid)
{
    (void)setenv("WATCHDOG_USEC", us, 1);
    if (pid != NULL)
        (void)setenv("WATCHDOG_PID", pid, 1);
    struct service_manager *m = open_manager();
    uint64_t ms = service_manager_watchdog_ms(m);
    service_manager_free(m);
    assert_null(getenv("WATCHDOG_USEC"));
    assert_null(getenv("WATCHDOG_PID"));
    return ms;
}

TEST_CASE(watchdog_is_this_process_own_and_wants_half_its_time)
{
    const char *name = bind_manager(false);
    const char *own = text_temp("%d", (int)getpid());
    assert_int_equal(watchdog_ms("30000000", own), 0); /* it could not be told */
    (void)setenv("NOTIFY_SOCKET", name, 1);
    assert_int_equal(watchdog_ms("30000000", own), 15000);
    (void)setenv("NOTIFY_SOCKET", name, 1);
    assert_int_equal(watchdog_ms("30000000", NULL), 15000);
    (void)setenv("NOTIFY_SOCKET", name, 1);
    assert_int_equal(watchdog_ms("1", own), 1);
    EACH_TEXT (us, "", "0", "-5", "soon", "99999999999999999999") {
        (void)setenv("NOTIFY_SOCKET", name, 1);
        assert_int_equal(watchdog_ms(us, own), 0);
    }
    (void)setenv("NOTIFY_SOCKET", name, 1);
    assert_int_equal(watchdog_ms("30000000", "1"), 0);
    close(manager);
}

/* --- passed sockets: in a child, whose descriptors from 3 on can be chosen --- */

enum { MATCHES = 0, NO_MATCH = 1, PASSED_FIRST = 3 };

enum passed_kind { TCP4, TCP6, TCP_NOT_LISTENING, UDP, UNIX, A_FILE, CLOSED };

static int make_descriptor(enum passed_kind kind)
{
    static const int families[] = {[TCP4] = AF_INET,
                                   [TCP6] = AF_INET6,
                                   [TCP_NOT_LISTENING] = AF_INET,
                                   [UDP] = AF_INET,
                                   [UNIX] = AF_UNIX};
    if (kind == A_FILE)
        return open("/dev/null", O_RDONLY);
    if (kind == CLOSED)
        return -1;
    int fd = socket(families[kind], kind == UDP ? SOCK_DGRAM : SOCK_STREAM, 0);
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    if (kind == UNIX) /* autobind */
        (void)bind(fd, (struct sockaddr *)&local, sizeof(sa_family_t));
    if (kind == TCP4 || kind == TCP6 || kind == UNIX)
        (void)listen(fd, 1);
    return fd;
}

struct passed {
    enum passed_kind kind[3];
    int count;
    const char *names; /* LISTEN_FDNAMES, or NULL */
    const char *pid;   /* LISTEN_PID, or NULL: the child's own */
    const char *error; /* the expected end of the message, or NULL: success */
    int api, admin;    /* the expected sockets */
};

static void pass(const struct passed *p)
{
    int made[3];
    for (int i = 0; i < p->count; i++) { /* above all that will be used */
        int fd = make_descriptor(p->kind[i]);
        made[i] = fd < 0 ? -1 : fcntl(fd, F_DUPFD, 100);
    }
    for (int i = 0; i < p->count; i++)
        if (made[i] >= 0)
            (void)dup2(made[i], PASSED_FIRST + i);
        else
            (void)close(PASSED_FIRST + i);
    (void)setenv("LISTEN_FDS", text_temp("%d", p->count), 1);
    (void)setenv("LISTEN_PID", p->pid != NULL ? p->pid : text_temp("%d", (int)getpid()), 1);
    if (p->names != NULL)
        (void)setenv("LISTEN_FDNAMES", p->names, 1);
}

static bool is_prepared(int fd)
{
    return fd < 0 || ((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
}

static bool matches(const struct passed *p)
{
    struct service_manager *m = NULL;
    SCOPED_BUF(error);
    int err = service_manager_new(&m, &error);
    const char *text = buf_c_str(&error);
    if (getenv("LISTEN_FDS") != NULL || getenv("LISTEN_PID") != NULL || getenv("LISTEN_FDNAMES") != NULL)
        return false;
    if (p->error != NULL)
        return err == -EINVAL && strstr(text, p->error) != NULL && strstr(text, "LISTEN_FDS") != NULL;
    if (err != 0)
        return false;
    int api = service_manager_socket(m, SERVICE_SOCKET_API);
    int admin = service_manager_socket(m, SERVICE_SOCKET_ADMIN);
    bool match = api == p->api && admin == p->admin && is_prepared(api) && is_prepared(admin);
    service_manager_free(m);
    return match;
}

static void expect_passed(const struct passed *p)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        pass(p);
        _exit(matches(p) ? MATCHES : NO_MATCH);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != MATCHES)
        fail_msg("%d sockets named %s: not as expected", p->count, p->names != NULL ? p->names : "nothing");
}

TEST_CASE(sockets_are_taken_by_name)
{
    static const struct passed cases[] = {
        {.kind = {TCP4}, .count = 1, .names = "api", .api = 3, .admin = -1},
        {.kind = {TCP6}, .count = 1, .names = "api", .api = 3, .admin = -1},
        {.kind = {TCP4}, .count = 1, .names = "admin", .api = -1, .admin = 3},
        {.kind = {TCP4, TCP6}, .count = 2, .names = "admin:api", .api = 4, .admin = 3},
        {.kind = {TCP4}, .count = 1, .api = 3, .admin = -1}, /* no names: the API's alone */
        {.kind = {TCP4}, .count = 1, .names = "api", .pid = "1", .api = -1, .admin = -1},
        {.kind = {TCP4}, .count = 1, .names = "api", .pid = "", .api = -1, .admin = -1},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        expect_passed(&cases[i]);
}

TEST_CASE(sockets_that_cannot_be_used_are_named)
{
    static const struct passed cases[] = {
        {.kind = {TCP4},
         .count = 1,
         .names = "channeld.socket",
         .error = "(\"channeld.socket\") has an unknown name"},
        {.kind = {TCP4, TCP4},
         .count = 2,
         .names = "api:api",
         .error = "descriptor 4 (\"api\") is the second"},
        {.kind = {TCP4, TCP4}, .count = 2, .error = "descriptor 4 (\"\") has an unknown name"},
        {.kind = {TCP_NOT_LISTENING}, .count = 1, .names = "api", .error = "not a listening TCP socket"},
        {.kind = {UDP}, .count = 1, .names = "api", .error = "not a listening TCP socket"},
        {.kind = {UNIX}, .count = 1, .names = "api", .error = "not a listening TCP socket"},
        {.kind = {A_FILE}, .count = 1, .names = "api", .error = "not a listening TCP socket"},
        {.kind = {TCP4, CLOSED},
         .count = 2,
         .names = "api:admin",
         .error = "descriptor 4 (\"admin\") is not a"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        expect_passed(&cases[i]);
}

static int set_up(void **state)
{
    (void)state;
    tempdir_init(&dir);
    return clearenv();
}

TEST_GROUP(set_up, NULL)
