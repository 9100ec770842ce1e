#ifndef TEST_SUPPORT_PROXY_H
#define TEST_SUPPORT_PROXY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A TCP proxy inside the test: a bad line between channeld and its Redis. Each connection goes at its own
 * pace, so that answers of different connections overlap; within one, order and content are kept, as TCP
 * does. Everything may be changed while connections are open, from any thread.
 */

struct proxy;

/* The ways of the bytes: up to the server, down from it. */
enum proxy_way { PROXY_NONE = 0, PROXY_UP = 1, PROXY_DOWN = 2, PROXY_BOTH = 3 };

/* What can befall one connection: a reset, the end of the answers (FIN), or nothing coming any more. */
enum proxy_fault { PROXY_RESET, PROXY_FINISH, PROXY_SWALLOW };

/* Starts it on a port of its own; owned. Answers wait up to `delay_ms` and come in up to `slice` bytes. */
struct proxy *proxy_new(int target_port, int delay_ms, size_t slice);

/* The port to connect to. */
int proxy_port(const struct proxy *proxy);

/* Answers wait up to so long, by chance. */
void proxy_set_delay(struct proxy *proxy, int delay_ms);

/* Answers come in pieces of up to so many bytes; 0 means whole. */
void proxy_set_slice(struct proxy *proxy, size_t slice);

/* Every byte travels exactly so long, each way. */
void proxy_set_latency(struct proxy *proxy, int ms);

/* Answers come no faster than so many bytes a second; 0: as fast as can be. */
void proxy_set_rate(struct proxy *proxy, size_t bytes_per_second);

/* Nothing goes these ways, while connections stay open and new ones are taken. What was held back comes when
 * the hole closes. */
void proxy_set_hole(struct proxy *proxy, enum proxy_way ways);

/* New connections are reset at once. */
void proxy_set_refusing(struct proxy *proxy, bool refusing);

/* Lets it befall all open connections now. */
void proxy_strike(struct proxy *proxy, enum proxy_fault fault);

/* Lets it befall, once, the connection that carries the last of the next `bytes` bytes of answers. */
void proxy_strike_after(struct proxy *proxy, size_t bytes, enum proxy_fault fault);

/* False until that has happened. */
bool proxy_has_struck(struct proxy *proxy);

/* A good line again, for old and new connections. */
void proxy_heal(struct proxy *proxy);

/* How many bytes of answers have gone on so far, or are just going. */
size_t proxy_answered(const struct proxy *proxy);

/* How many connections were made so far. */
int proxy_connections(const struct proxy *proxy);

/* Closes all connections and ends its threads. */
void proxy_free(struct proxy *proxy);

#endif
