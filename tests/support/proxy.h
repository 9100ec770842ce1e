#ifndef TEST_SUPPORT_PROXY_H
#define TEST_SUPPORT_PROXY_H

#include <stddef.h>

/*
 * A TCP proxy inside the test that makes a server's answers late and cuts them to pieces, each connection at
 * its own pace, so that answers of different connections overtake each other.
 */

struct proxy;

/* Starts it on a port of its own; owned. Answers wait up to `delay_ms` and come in up to `slice` bytes. */
struct proxy *proxy_new(int target_port, int delay_ms, size_t slice);

/* The port to connect to. */
int proxy_port(const struct proxy *proxy);

/* Changes delay or slice from now on; a slice of 0 means whole. */
void proxy_set_delay(struct proxy *proxy, int delay_ms);
void proxy_set_slice(struct proxy *proxy, size_t slice);

/* How many connections were made so far. */
int proxy_connections(const struct proxy *proxy);

/* Closes all connections and ends its threads. */
void proxy_free(struct proxy *proxy);

#endif
