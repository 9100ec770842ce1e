/* Notifications, the watchdog and the passed socket; see service_manager.h. */
#include "app/service_manager.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_PASSED = 3, MESSAGE_MAX = 512 };

/* A manager that does not read its socket must not delay the process for longer. */
enum { SEND_TIMEOUT_US = 100 * 1000 };

/* The number of at least 1 that the variable is, or 0. */
static int64_t service_manager_number(const char *name)
{
    const char *value = getenv(name);
    int64_t number = 0;
    return value != NULL && parse_int64(span_of(value), &number) == 0 && number > 0 ? number : 0;
}

/* --- notifications --- */

/* Logs the first of failures in a row. Returns `done`. */
static bool service_manager_note(struct service_manager *m, bool done)
{
    if (!done && !m->failing)
        log_text(LOG_WARN, "service manager not notified", "reason", strerror(errno));
    m->failing = !done;
    return done;
}

/* The socket is at a path, or has an abstract name after '@'. */
static void service_manager_connect(struct service_manager *m, const char *name)
{
    const struct timeval timeout = {.tv_usec = SEND_TIMEOUT_US};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = MIN(strlen(name), sizeof address.sun_path - 1);
    memcpy(address.sun_path, name, len);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)service_manager_note(
        m, m->fd >= 0 && setsockopt(m->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0 &&
               connect(m->fd, (const struct sockaddr *)&address,
                       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) == 0);
}

bool service_manager_notify(struct service_manager *m, const char *format, ...)
{
    char text[MESSAGE_MAX];
    va_list args;
    if (m->fd < 0)
        return false;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return service_manager_note(m, send(m->fd, text, strlen(text), MSG_NOSIGNAL) >= 0);
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

static bool service_manager_take_listener(int fd)
{
    int listens = 0;
    socklen_t len = sizeof listens;
    int flags = fcntl(fd, F_GETFL);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens != 0 &&
           fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

/* A socket of another name is for something else. */
static int service_manager_own_socket(struct service_manager *m, struct buf *error)
{
    const char *names = getenv("LISTEN_FDNAMES");
    int64_t count = service_manager_number("LISTEN_FDS");
    if (count == 0 || service_manager_number("LISTEN_PID") != getpid())
        return 0;
    if (count > 1 || (names != NULL && *names != '\0' && strcmp(names, "api") != 0)) {
        buf_append_str(error, "LISTEN_FDS: one socket is expected, with FileDescriptorName=api");
        return -EINVAL;
    }
    if (!service_manager_take_listener(FIRST_PASSED)) {
        buf_append_str(error, "LISTEN_FDS: the socket is not a listening socket");
        return -EINVAL;
    }
    m->listener = FIRST_PASSED;
    return 0;
}

/* --- beginning and end --- */

/* Variables for another process, which started this one and left them in the environment, are ignored. */
int service_manager_init(struct service_manager *m, struct buf *error)
{
    const char *name = getenv("NOTIFY_SOCKET");
    int64_t watched = service_manager_number("WATCHDOG_PID");
    *m = (struct service_manager){.fd = -1, .listener = -1};
    if (name != NULL && *name != '\0')
        service_manager_connect(m, name);
    if (m->fd >= 0 && (watched == 0 || watched == getpid()))
        m->watchdog_ms = (uint64_t)service_manager_number("WATCHDOG_USEC") / 2 / 1000;
    return service_manager_own_socket(m, error);
}

void service_manager_fini(struct service_manager *m)
{
    if (m->listener >= 0)
        (void)close(m->listener);
    if (m->fd >= 0)
        (void)close(m->fd);
}
