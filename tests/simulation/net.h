/*
 * A simulated network: streams between the process under test, whose system calls on sockets are replaced,
 * and simulated servers. Bytes arrive in pieces of any size, in order, after a delay. A stream may be reset,
 * closed, or cut so that nothing arrives any more.
 *
 * The kernel of the process buffers a bounded number of bytes, and the rest waits at the server. Each piece
 * has the time at which it was made, and the time at which it was due to arrive. The oracle uses these times,
 * since a process that does not keep up with reading is not a fault of the network.
 */
#ifndef SIMULATION_NET_H
#define SIMULATION_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct net_conn;

/* What poll reports; the first two as UV_READABLE and UV_WRITABLE. */
enum { NET_READABLE = 1, NET_WRITABLE = 2, NET_ERROR = 256 };

unsigned net_events(int fd);

/* recv(), which a fortified call of a known buffer would pass by. */
ssize_t net_receive(int fd, void *out, size_t n);

/* --- servers --- */

/* An address: the last number of 10.0.0.x, and the port. */
struct net_address {
    uint8_t host;
    int port;
};

struct net_listener {
    struct net_address address;
    enum net_listening {
        NET_LISTENS,
        NET_REFUSES, /* with a reset */
        NET_IGNORES, /* nothing comes back */
        NET_SILENT   /* the kernel accepts, and nobody reads */
    } state;
    void *(*accepted)(void *server, struct net_conn *c); /* returns what the next two are called with */
    void (*received)(void *peer, const char *data, size_t n);
    void (*closed)(void *peer); /* by the process, or reset; the connection is gone */
    void *server;
    uint64_t extra_delay_ns;
    uint64_t distance_ns;    /* that each piece takes longer */
    size_t bytes_per_second; /* to the process, on each connection; 0: any number */
    unsigned attempts;       /* to connect, so far */
};

void net_begin(void);

/* Borrowed. */
void net_listen(struct net_listener *l);

/* `made_ns`: since when what is sent was true. */
void net_send(struct net_conn *c, const char *data, size_t n, uint64_t made_ns);

/* The server closes: behind what was sent, or with a reset. */
void net_close(struct net_conn *c, bool reset);

/* --- faults, of all connections to that server --- */

/* Connections from now on have room for so much more that it cannot be filled by what is made at once. */
void net_widen(void);

/* Nothing arrives any more, either way. */
void net_cut(const struct net_listener *l);
void net_reset(const struct net_listener *l, bool reset);

/* Each piece takes up to so much longer. */
static inline void net_set_delay(struct net_listener *l, uint64_t extra_ns)
{
    l->extra_delay_ns = extra_ns;
}

/* From now on, on each connection. */
static inline void net_set_rate(struct net_listener *l, size_t bytes_per_second)
{
    l->bytes_per_second = bytes_per_second;
}

/* --- names --- */

/* The name leads to these addresses; none: it does not exist. */
void net_set_name(const char *name, const uint8_t *hosts, size_t count);

/* Each answer has so many of its addresses, in turn. */
void net_rotate_name(const char *name, size_t subset);

/* The next look-ups of it fail. */
void net_fail_name(const char *name, unsigned times);

/* Look-ups take so long, instead of up to 4 s. */
void net_hasten_names(uint64_t most_ns);

/* Each look-up takes so much longer. */
void net_delay_names(uint64_t ns);

/* --- for the oracle --- */

/*
 * All that was made before the time returned has been due in the process by `at_ns`, on this connection.
 * Connections have numbers, in the order of their beginning.
 */
uint64_t net_horizon(unsigned number, uint64_t at_ns);
unsigned net_number(const struct net_conn *c);

/* `read` is called when the process has read all that a server made by `made_ns`, but for a part of what was
 * made then if `is_part`; `closed` when it closes the connection, and `wrote` when it writes to one: the `n`
 * bytes that fit, which are all that it has or not. */
struct net_watcher {
    void (*read)(unsigned number, uint64_t made_ns, bool is_part);
    void (*closed)(unsigned number);
    void (*wrote)(unsigned number, const char *data, size_t n, bool whole);
};

void net_watch(const struct net_watcher *watcher);

/* `connects` is called when the process begins to connect; `ends` when it closes the connection: `unanswered`
 * if nothing has come back. */
void net_watch_connects(void (*connects)(unsigned number, const struct net_address *to),
                        void (*ends)(unsigned number, bool unanswered));

/* Called when the process begins to look a name up, and when a look-up ends: it goes on after it was given
 * up. */
void net_watch_look_ups(void (*looks_up)(bool begins));

/* Of the process. */
unsigned net_open_sockets(void);

#endif
