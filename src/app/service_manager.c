/* Notifications, the watchdog and the passed socket; see service_manager.h. */
#include "app/service_manager.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { FIRST_PASSED = 3, MESSAGE_MAX = 512 };

/* A manager that does not read its socket must not delay the process for longer. */
enum { SEND_TIMEOUT_US = 100 * 1000 };

/* --- the environment --- */

/* The value of the variable, which no child process may use; NULL if it is empty. */
static const char *service_manager_take(const char *name)
{
    const char *value = getenv(name);
    (void)unsetenv(name);
    return value == NULL || *value == '\0' ? NULL : value;
}

/* The number of at least 1 that the variable is, or 0. */
static int64_t service_manager_take_number(const char *name)
{
    const char *value = service_manager_take(name);
    int64_t number = 0;
    return value != NULL && parse_int64(span_of(value), &number) == 0 && number > 0 ? number : 0;
}

/* --- notifications --- */

/* The socket is at a path, or has an abstract name after '@'. There are other kinds, such as vsock:. */
static void service_manager_open_notify_socket(struct service_manager *m)
{
    const struct timeval timeout = {.tv_usec = SEND_TIMEOUT_US};
    const char *name = service_manager_take("NOTIFY_SOCKET");
    if (name == NULL)
        return;
    size_t len = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || len < 2 || len >= sizeof m->address.sun_path) {
        log_text(LOG_WARN, "service manager not notified: unknown kind of socket", "socket", name);
        return;
    }
    m->address.sun_family = AF_UNIX;
    memcpy(m->address.sun_path, name, len);
    m->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (name[0] == '@')
        m->address.sun_path[0] = '\0';
    m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (m->fd >= 0)
        (void)setsockopt(m->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    else
        log_text(LOG_WARN, "service manager not notified", "reason", strerror(errno));
}

/* Logs the first of failures in a row. */
bool service_manager_notify(struct service_manager *m, const char *format, ...)
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

void service_manager_set_status(struct service_manager *m, bool ready, const char *status)
{
    char text[SERVICE_STATUS_MAX];
    (void)snprintf(text, sizeof text, "%sSTATUS=%s", ready ? "READY=1\n" : "", status);
    if (strcmp(m->status, text) != 0 && service_manager_notify(m, "%s", text))
        memcpy(m->status, text, sizeof text);
}

void service_manager_reloading(struct service_manager *m)
{
    m->status[0] = '\0';
    (void)service_manager_notify(m, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_now_ns() / 1000);
}

/* --- the socket --- */

static int service_manager_option_of(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

static bool service_manager_is_tcp_listener(int fd)
{
    return service_manager_option_of(fd, SO_PROTOCOL) == IPPROTO_TCP &&
           service_manager_option_of(fd, SO_ACCEPTCONN) == 1;
}

/* A socket of another name is for something else. */
static int service_manager_own_socket(struct service_manager *m, struct buf *error)
{
    const char *names = service_manager_take("LISTEN_FDNAMES");
    int64_t count = service_manager_take_number("LISTEN_FDS");
    bool ours = service_manager_take_number("LISTEN_PID") == getpid();
    if (count == 0 || !ours)
        return 0;
    if (count > 1 || (names != NULL && strcmp(names, "api") != 0)) {
        buf_append_str(error, "LISTEN_FDS: one socket is expected, with FileDescriptorName=api");
        return -EINVAL;
    }
    int flags = fcntl(FIRST_PASSED, F_GETFL);
    if (!service_manager_is_tcp_listener(FIRST_PASSED) ||
        fcntl(FIRST_PASSED, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(FIRST_PASSED, F_SETFD, FD_CLOEXEC) != 0) {
        buf_append_str(error, "LISTEN_FDS: the socket is not a listening TCP socket");
        return -EINVAL;
    }
    m->listener = FIRST_PASSED;
    return 0;
}

/* --- beginning and end --- */

/* Variables for another process, which started this one and left them in the environment, are ignored. */
int service_manager_init(struct service_manager *m, struct buf *error)
{
    *m = (struct service_manager){.fd = -1, .listener = -1};
    service_manager_open_notify_socket(m);
    int64_t watchdog_us = service_manager_take_number("WATCHDOG_USEC");
    const char *watched = service_manager_take("WATCHDOG_PID");
    bool ours = watched == NULL || strtoll(watched, NULL, 10) == getpid();
    if (m->fd >= 0 && ours && watchdog_us > 0)
        m->watchdog_ms = (uint64_t)MAX(watchdog_us / 2 / 1000, 1);
    return service_manager_own_socket(m, error);
}

void service_manager_fini(struct service_manager *m)
{
    if (m->listener >= 0)
        (void)close(m->listener);
    if (m->fd >= 0)
        (void)close(m->fd);
}
