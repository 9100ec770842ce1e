/*
 * A Redis of small capacity: a proxy that passes a bounded number of commands per second, whatever the speed
 * of the machine. It serves its connections as Redis does, each in turn, and within one in order. What it
 * cannot pass yet waits, without a limit, as it does in the buffers of sockets.
 *
 * Commands about the connection (PING, HELLO, ROLE and so on) are free, but wait behind those before them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What the loop watches; the first member of whoever has a socket. */
struct source {
    void (*on_ready)(struct source *source, uint32_t events);
};

struct gate;

/* Open, and without a limit. Ends with the program. */
struct gate *gate_new(int epoll, int port, int redis_port);

/* Commands per second from now on; 0: no limit. */
void gate_limit(struct gate *g, double per_second);

/* Closed, it has reset all connections and refuses new ones, as where Redis has ended. */
void gate_close(struct gate *g);
void gate_open(struct gate *g);

/* Passes what is due; to be called every millisecond. */
void gate_run(struct gate *g);

/* Commands that were passed so far, and that wait; without those that are free. */
uint64_t gate_passed(const struct gate *g);
uint64_t gate_waiting(const struct gate *g);
