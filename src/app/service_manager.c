/*
 * Notifications, the watchdog and passed sockets; see service_manager.h.
 *
 * The environment is read once, in service_manager_new(), and holds none of the variables afterwards.
 */
#include "app/service_manager.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_PASSED = 3, PASSED_MAX = 1024, STATUS_MAX = 256, MESSAGE_MAX = 512, US_PER_MS = 1000 };

/* A manager that does not read its socket must not delay the process for longer. */
enum { SEND_TIMEOUT_US = 100 * 1000 };

struct service_manager {
    int fd; /* -1: no manager to notify */
    struct sockaddr_un address;
    socklen_t address_len;
    bool failing;   /* the last notification could not be sent, which was logged */
    bool ready_due; /* READY=1 could not be sent, and is sent again with the next status */
    char status[STATUS_MAX];
    uint64_t watchdog_us; /* 0: none */
    int sockets[SERVICE_SOCKETS];
};

/* --- the environment --- */

/* NULL if the variable is missing or empty. */
static const char *service_manager_value_of(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

/* False unless the variable is a number of at least 1. */
static bool service_manager_number_of(const char *name, int64_t *out)
{
    const char *value = service_manager_value_of(name);
    return value != NULL && parse_int64(span_of(value), out) == 0 && *out > 0;
}

/* False for the variables of a process that started this one and left them in the environment. */
static bool service_manager_is_for_us(const char *pid_variable)
{
    int64_t pid = 0;
    return service_manager_number_of(pid_variable, &pid) && pid == getpid();
}

/* A child process must not use them. */
static void service_manager_clear_environment(void)
{
    static const char *const names[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
                                        "LISTEN_FDS",    "LISTEN_PID",    "LISTEN_FDNAMES"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unsetenv(names[i]);
}

/* --- notifications --- */

/* `name` is a path, or an abstract name after '@'. Returns false for other kinds, such as vsock:. */
static bool service_manager_set_address(struct service_manager *m, const char *name)
{
    size_t len = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || len < 2 || len >= sizeof m->address.sun_path)
        return false;
    m->address.sun_family = AF_UNIX;
    memcpy(m->address.sun_path, name, len);
    if (name[0] == '@')
        m->address.sun_path[0] = '\0'; /* an abstract name has no NUL at its end */
    else
        len++;
    m->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    return true;
}

static void service_manager_open_notify_socket(struct service_manager *m)
{
    const struct timeval timeout = {.tv_usec = SEND_TIMEOUT_US};
    const char *name = service_manager_value_of("NOTIFY_SOCKET");
    if (name == NULL)
        return;
    if (!service_manager_set_address(m, name)) {
        log_text(LOG_WARN, "service manager not notified: unknown kind of socket", "socket", name);
        return;
    }
    m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (m->fd >= 0)
        (void)setsockopt(m->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    else
        log_text(LOG_WARN, "service manager not notified", "reason", strerror(errno));
}

/* Sends a text of up to MESSAGE_MAX - 1 bytes. Logs the first of failures in a row. */
__attribute__((format(printf, 2, 3))) static bool service_manager_send(struct service_manager *m,
                                                                       const char *format, ...)
{
    char text[MESSAGE_MAX];
    va_list args;
    if (m->fd < 0)
        return false;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t len = strlen(text);
    bool sent = sendto(m->fd, text, len, MSG_NOSIGNAL, (const struct sockaddr *)&m->address,
                       m->address_len) == (ssize_t)len;
    if (!sent && !m->failing)
        log_text(LOG_WARN, "service manager not notified", "reason", strerror(errno));
    m->failing = !sent;
    return sent;
}

void service_manager_notify(struct service_manager *m, enum service_event event)
{
    switch (event) {
    case SERVICE_READY:
        m->ready_due = !service_manager_send(m, "READY=1");
        break;
    case SERVICE_RELOADING:
        (void)service_manager_send(m, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_now_ns() / 1000);
        break;
    case SERVICE_ALIVE:
        (void)service_manager_send(m, "WATCHDOG=1");
        break;
    }
}

bool service_manager_set_status(struct service_manager *m, const char *status)
{
    if (m->ready_due && m->fd >= 0)
        service_manager_notify(m, SERVICE_READY);
    if (strcmp(m->status, status) != 0 && service_manager_send(m, "STATUS=%s", status))
        (void)snprintf(m->status, sizeof m->status, "%s", status);
    return m->fd >= 0;
}

/* The manager waits for the end until its own timeout, or this one if that is later. */
void service_manager_stopping(struct service_manager *m, uint64_t longest_ms)
{
    m->ready_due = false;
    (void)service_manager_send(m, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRIu64, longest_ms * US_PER_MS);
}

/* --- the watchdog --- */

static void service_manager_read_watchdog(struct service_manager *m)
{
    int64_t us = 0;
    bool ours = service_manager_value_of("WATCHDOG_PID") == NULL || service_manager_is_for_us("WATCHDOG_PID");
    if (ours && service_manager_number_of("WATCHDOG_USEC", &us))
        m->watchdog_us = (uint64_t)us;
}

uint64_t service_manager_watchdog_ms(const struct service_manager *m)
{
    uint64_t half = m->watchdog_us / 2 / US_PER_MS;
    if (m->fd < 0 || m->watchdog_us == 0)
        return 0;
    return half > 0 ? half : 1;
}

/* --- sockets --- */

static int service_manager_option_of(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

static bool service_manager_is_tcp_listener(int fd)
{
    int family = service_manager_option_of(fd, SO_DOMAIN);
    return service_manager_option_of(fd, SO_TYPE) == SOCK_STREAM &&
           service_manager_option_of(fd, SO_ACCEPTCONN) == 1 && (family == AF_INET || family == AF_INET6);
}

/* Returns the socket that has this name, or SERVICE_SOCKETS. */
static int service_manager_socket_named(struct span name)
{
    static const char *const names[] = {[SERVICE_SOCKET_API] = "api", [SERVICE_SOCKET_ADMIN] = "admin"};
    int which = 0;
    while (which < SERVICE_SOCKETS && !span_equal(name, span_of(names[which])))
        which++;
    return which;
}

static int service_manager_reject_socket(struct buf *error, int fd, struct span name, const char *what)
{
    buf_printf(error, "LISTEN_FDS: descriptor %d (\"", fd);
    buf_append_span(error, name);
    buf_printf(error, "\") %s", what);
    return -EINVAL;
}

static int service_manager_own_socket(struct service_manager *m, int fd, struct span name, struct buf *error)
{
    int which = service_manager_socket_named(name);
    if (which == SERVICE_SOCKETS)
        return service_manager_reject_socket(error, fd, name,
                                             "has an unknown name: FileDescriptorName= is api or admin");
    if (m->sockets[which] >= 0)
        return service_manager_reject_socket(error, fd, name, "is the second of this name");
    if (!service_manager_is_tcp_listener(fd))
        return service_manager_reject_socket(error, fd, name, "is not a listening TCP socket");
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return service_manager_reject_socket(error, fd, name, strerror(errno));
    m->sockets[which] = fd;
    return 0;
}

/* Without names there can only be the socket of the API: the admin port is never guessed. */
static int service_manager_own_sockets(struct service_manager *m, struct buf *error)
{
    int64_t count = 0;
    int err = 0;
    if (!service_manager_is_for_us("LISTEN_PID") || !service_manager_number_of("LISTEN_FDS", &count))
        return 0;
    const char *listed = service_manager_value_of("LISTEN_FDNAMES");
    struct span names = listed != NULL ? span_of(listed) : SPAN("api");
    for (int fd = FIRST_PASSED; count > 0 && fd < PASSED_MAX && err == 0; fd++, count--) {
        size_t end = span_find(names, ':');
        err = service_manager_own_socket(m, fd, (struct span){names.data, end}, error);
        names = span_skip(names, end < names.len ? end + 1 : end);
    }
    return err;
}

int service_manager_socket(const struct service_manager *m, enum service_socket which)
{
    return m->sockets[which];
}

/* --- beginning and end --- */

int service_manager_new(struct service_manager **out, struct buf *error)
{
    struct service_manager *m = calloc(1, sizeof *m);
    if (m == NULL)
        return -ENOMEM;
    m->fd = -1;
    for (int i = 0; i < SERVICE_SOCKETS; i++)
        m->sockets[i] = -1;
    service_manager_open_notify_socket(m);
    service_manager_read_watchdog(m);
    int err = service_manager_own_sockets(m, error);
    service_manager_clear_environment();
    if (err == 0)
        *out = m;
    else
        service_manager_free(m);
    return err;
}

void service_manager_free(struct service_manager *m)
{
    if (m == NULL)
        return;
    for (int i = 0; i < SERVICE_SOCKETS; i++)
        if (m->sockets[i] >= 0)
            (void)close(m->sockets[i]);
    if (m->fd >= 0)
        (void)close(m->fd);
    free(m);
}
