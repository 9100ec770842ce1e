/*
 * systemd, or another service manager with its protocols: notifications by sd_notify(3), the watchdog
 * (sd_watchdog_enabled(3)), and listening sockets that were opened for this process (sd_listen_fds(3)).
 *
 * All of them are configured by the environment; without it no socket is passed and no notification is sent.
 * A notification that cannot be sent is logged and changes nothing else.
 */
#ifndef APP_SERVICE_MANAGER_H
#define APP_SERVICE_MANAGER_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct service_manager;

/* The sockets that may be passed, by their names: FileDescriptorName= of a socket unit. */
enum service_socket { SERVICE_SOCKET_API, SERVICE_SOCKET_ADMIN, SERVICE_SOCKETS };

/*
 * Reads NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID, LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES, and removes
 * them from the environment: before any thread that uses it. Takes over the sockets. Owned by the caller
 * (service_manager_free). Returns 0, -ENOMEM, or -EINVAL with a message in `error` if a socket is not one
 * that channeld can listen on.
 */
int service_manager_new(struct service_manager **out, struct buf *error) __attribute__((warn_unused_result));
void service_manager_free(struct service_manager *m); /* NULL: nothing to free */

/* A listening TCP socket, close-on-exec and non-blocking, that the manager shares with later processes;
 * borrowed. -1: none was passed. */
int service_manager_socket(const struct service_manager *m, enum service_socket which);

/* How often SERVICE_ALIVE is expected, in milliseconds: half the time of the watchdog. 0: never. */
uint64_t service_manager_watchdog_ms(const struct service_manager *m);

enum service_event {
    SERVICE_READY,     /* READY=1: the start, or a reload, is complete */
    SERVICE_RELOADING, /* RELOADING=1: SERVICE_READY must follow */
    SERVICE_ALIVE      /* WATCHDOG=1: everything works */
};

void service_manager_notify(struct service_manager *m, enum service_event event);

/* STATUS=: one line for the operator, which is sent when it has changed. A READY=1 that could not be sent is
 * sent again before it. Returns false if there is no service manager. */
bool service_manager_set_status(struct service_manager *m, const char *status);

/* STOPPING=1: the process will end, in `longest_ms` at the latest. */
void service_manager_stopping(struct service_manager *m, uint64_t longest_ms);

#endif
