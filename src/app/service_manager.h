/*
 * systemd, or another service manager with its protocols: notifications by sd_notify(3), the watchdog
 * (sd_watchdog_enabled(3)), and the listening socket that was opened for this process (sd_listen_fds(3)). The
 * environment says which of them there are.
 */
#ifndef APP_SERVICE_MANAGER_H
#define APP_SERVICE_MANAGER_H

#include "base/buf.h"

enum { SERVICE_STATUS_MAX = 256 };

struct service_manager {
    int fd;                          /* -1: no manager to notify */
    bool failing;                    /* the last notification could not be sent, which was logged */
    char status[SERVICE_STATUS_MAX]; /* as it was last sent */
    uint64_t watchdog_ms;            /* how often "WATCHDOG=1" is expected, half of WatchdogSec=; 0: never */
    /* The listening TCP socket of the API, close-on-exec and non-blocking, that the manager shares with later
     * processes. -1: none was passed. */
    int listener;
};

/* Reads the environment, and takes over the socket. Returns 0, or -EINVAL with a message in `error` if
 * channeld cannot listen on it. Call service_manager_fini in both cases. */
int service_manager_init(struct service_manager *m, struct buf *error) __attribute__((warn_unused_result));
void service_manager_fini(struct service_manager *m);

/* Sends the lines of a notification, such as "WATCHDOG=1". Returns false if they were not sent. */
bool service_manager_notify(struct service_manager *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sends the lines of a status if they have changed since they were last sent. */
void service_manager_set_status(struct service_manager *m, bool ready, const char *status);

/* A reload begins. It ends with the next status, which is sent in any case. */
void service_manager_reloading(struct service_manager *m);

#endif
