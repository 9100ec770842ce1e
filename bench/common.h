/*
 * Shared by the programs of the benchmarks: sockets on 127.0.0.1, epoll, files, clocks, random numbers.
 * Every function ends the program with a message when it fails: a benchmark that goes on measures nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A whole number from `least` to `most`. */
long parse_number(const char *text, long least, long most);

/* A listening socket, non-blocking. */
int net_listen(int port);

/* The next connection, non-blocking and with TCP_NODELAY; -1 when there is none. */
int net_accept(int listener);

/* A connected, non-blocking socket; the connect itself blocks. */
int net_connect(int port);

/* Adds the socket to the epoll set, level-triggered. */
void net_watch(int epoll, int fd, uint32_t events, void *data);

/* Changes the events that the socket is watched for. */
void net_rewatch(int epoll, int fd, uint32_t events, void *data);

/* The whole file, NUL-terminated; the caller owns it. */
char *read_file(const char *path, size_t *len);

/* Monotonic time. */
uint64_t now_ns(void);

/* User and system time of this process so far. */
uint64_t cpu_ns(void);

/* A small, fast generator of pseudo-random numbers (xorshift64*); the state must not be 0. */
static inline uint64_t prng_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* A number below `limit`, which is at most 2^32. */
static inline uint64_t prng_below(uint64_t *state, uint64_t limit)
{
    return ((prng_next(state) >> 32) * limit) >> 32;
}
