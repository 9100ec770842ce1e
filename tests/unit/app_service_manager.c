/*
 * The protocols of a service manager, over a real socket: what is sent, to whom, what is taken from the
 * environment and what is left in it.
 */
#include "app/service_manager.h"

#include <errno.h>
#include <fcntl.h>
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

TEST_CASE(notifications_go_to_an_abstract_socket)
{
    expect_notifications(true);
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

static int set_up(void **state)
{
    (void)state;
    tempdir_init(&dir);
    return clearenv();
}

TEST_GROUP(set_up, NULL)
