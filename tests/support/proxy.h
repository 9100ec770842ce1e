#ifndef TEST_SUPPORT_PROXY_H
#define TEST_SUPPORT_PROXY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A TCP proxy inside the test, between channeld and its Redis, that injects network faults. Each connection
 * has its own thread, so responses of different connections overlap. Within a connection order and content
 * are kept, as by TCP. Everything may be changed while connections are open, from any thread.
 */

struct proxy;

/* A fault of one connection: a reset, or the end of the responses (FIN). PROXY_HOLD is
 * proxy_set_blackhole(proxy, true). */
enum proxy_fault { PROXY_NO_FAULT, PROXY_RESET, PROXY_FINISH, PROXY_HOLD };

/* Starts it on a port of its own; owned. */
struct proxy *proxy_new(int target_port);

/* Closes all connections and ends its threads. */
void proxy_free(struct proxy *proxy);

/* The port to connect to. */
int proxy_port(const struct proxy *proxy);

/* Every byte is delayed by exactly `ms`, each way. */
void proxy_set_latency(struct proxy *proxy, int ms);

/* Limits the rate of responses, in bytes per second; 0: no limit. */
void proxy_set_rate(struct proxy *proxy, size_t bytes_per_second);

/* Nothing passes, while connections stay open and new ones are accepted. Bytes that were
 * held back are passed on afterwards. */
void proxy_set_blackhole(struct proxy *proxy, bool blackhole);

/* New connections are reset at once. */
void proxy_set_refusing(struct proxy *proxy, bool refusing);

/* Injects the fault into all open connections now. */
void proxy_inject(struct proxy *proxy, enum proxy_fault fault);

/* Injects it, once, into the connection that carries the last of the next `bytes` bytes of responses. */
void proxy_inject_after(struct proxy *proxy, size_t bytes, enum proxy_fault fault);

/* True once that has happened. */
bool proxy_has_injected(struct proxy *proxy);

/* Ends all faults, for old and new connections. */
void proxy_restore(struct proxy *proxy);

/* How many bytes of responses have been passed on so far, or are just being. */
size_t proxy_bytes_down(const struct proxy *proxy);

/* How many connections were accepted so far. */
int proxy_connections(const struct proxy *proxy);

#endif
