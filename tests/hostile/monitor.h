#ifndef TEST_HOSTILE_MONITOR_H
#define TEST_HOSTILE_MONITOR_H

#include <sys/types.h>

#include "support/fixture.h"
#include "support/footprint.h"

/*
 * Well-behaved clients in threads of their own, each with a persistent connection and a request every few
 * milliseconds: they measure what an abuse of the server costs the other clients.
 */

struct monitor;

/* The responses between two calls of monitor_read(). */
struct monitor_view {
    int requests;
    int failures; /* no response, another status than 200, or a closed connection */
    int p50_us, p99_us, max_us;
};

/* Starts the clients of the server at that port, which is that process. Owned. */
struct monitor *monitor_new(int port, pid_t pid);

/* The responses since the last call, or since the start. */
struct monitor_view monitor_read(struct monitor *monitor);

/* The same after some hundred further requests, to compare with. */
struct monitor_view monitor_measure(struct monitor *monitor);

void monitor_free(struct monitor *monitor);

/* ---- around one abuse ---- */

struct monitored {
    pid_t pid;
    struct monitor *monitor;
    struct monitor_view calm;
    struct footprint before;
};

/* Measures the clients without the abuse, and the process. */
struct monitored monitor_begin(struct fixture *fixture);

/*
 * After the abuse: prints both measurements and asserts that no request failed. Where TEST_LATENCY is set,
 * the p99 must have stayed within twice the former one. Returns what the process takes now.
 */
struct footprint monitor_end(struct monitored *monitored);

#endif
