/* Notifications, the watchdog and passed sockets; see service_manager.h. */
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
#include <unistd.h>

enum { FIRST_PASSED = 3, PASSED_MAX = 1024, MESSAGE_MAX = 512 };

/* A manager that does not read its socket must not delay the process for longer. */
enum { SEND_TIMEOUT_US = 100 * 1000 };

/* --- the environment --- */

/* The number of at least 1 that the variable is, or 0. */
static int64_t service_manager_number_of(const char *name)
{
    const char *value = getenv(name);
    int64_t number = 0;
    return value != NULL && parse_int64(span_of(value), &number) == 0 && number > 0 ? number : 0;
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

/* The socket is at a path, or has an abstract name after '@'. There are other kinds, such as vsock:. */
static void service_manager_open_notify_socket(struct service_manager *m)
{
    const struct timeval timeout = {.tv_usec = SEND_TIMEOUT_US};
    const char *name = getenv("NOTIFY_SOCKET");
    if (name == NULL || *name == '\0')
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

/* Returns NULL, or what is wrong with the socket. */
static const char *service_manager_own_socket(struct service_manager *m, int fd, struct span name)
{
    bool is_admin = span_equal(name, SPAN("admin"));
    int *own = &m->sockets[is_admin ? SERVICE_SOCKET_ADMIN : SERVICE_SOCKET_API];
    int flags = fcntl(fd, F_GETFL);
    if (!is_admin && !span_equal(name, SPAN("api")))
        return "has an unknown name: FileDescriptorName= is api or admin";
    if (*own >= 0)
        return "is the second of this name";
    if (!service_manager_is_tcp_listener(fd))
        return "is not a listening TCP socket";
    if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return strerror(errno);
    *own = fd;
    return NULL;
}

/* Without names there can only be the socket of the API: the admin port is never guessed. */
static int service_manager_own_sockets(struct service_manager *m, struct buf *error)
{
    const char *listed = getenv("LISTEN_FDNAMES");
    struct span names = listed != NULL && *listed != '\0' ? span_of(listed) : SPAN("api");
    int64_t end = FIRST_PASSED + MIN(service_manager_number_of("LISTEN_FDS"), PASSED_MAX);
    if (service_manager_number_of("LISTEN_PID") != getpid())
        return 0;
    for (int fd = FIRST_PASSED; fd < end; fd++) {
        struct span name = span_cut(&names, ':');
        const char *wrong = service_manager_own_socket(m, fd, name);
        if (wrong == NULL)
            continue;
        buf_printf(error, "LISTEN_FDS: descriptor %d (\"%.*s\") %s", fd, (int)name.len, name.data, wrong);
        return -EINVAL;
    }
    return 0;
}

/* --- beginning and end --- */

/* Variables for another process, which started this one and left them in the environment, are ignored. */
int service_manager_init(struct service_manager *m, struct buf *error)
{
    *m = (struct service_manager){.fd = -1, .sockets = {-1, -1}};
    service_manager_open_notify_socket(m);
    const char *watched = getenv("WATCHDOG_PID");
    int64_t watchdog_us = service_manager_number_of("WATCHDOG_USEC");
    bool ours = watched == NULL || *watched == '\0' || service_manager_number_of("WATCHDOG_PID") == getpid();
    if (m->fd >= 0 && ours && watchdog_us > 0)
        m->watchdog_ms = (uint64_t)MAX(watchdog_us / 2 / 1000, 1);
    int err = service_manager_own_sockets(m, error);
    service_manager_clear_environment();
    return err;
}

void service_manager_fini(struct service_manager *m)
{
    for (int i = 0; i < SERVICE_SOCKETS; i++)
        if (m->sockets[i] >= 0)
            (void)close(m->sockets[i]);
    if (m->fd >= 0)
        (void)close(m->fd);
}
