#ifndef TEST_SUPPORT_NET_H
#define TEST_SUPPORT_NET_H

#include <stdbool.h>

/* TCP on 127.0.0.1. All descriptors are close-on-exec. */

/*
 * A free port that no other program gets while this one runs. It stays bound (not listening) with
 * SO_REUSEADDR and SO_REUSEPORT. So a server can bind it too, repeatedly, and it is not used as an ephemeral
 * port. Fails the test when there is none.
 */
int net_reserve_port(void);

/* A connected, blocking socket with TCP_NODELAY, or a negative errno (-ECONNREFUSED without a listener). */
int net_connect(int port);

/* The same with SO_RCVBUF set to so many bytes; 0 for the system's default. */
int net_connect_buffered(int port, int receive_buffer);

/* A listening socket on the port, or a negative errno. */
int net_listen(int port);

/* True when connections to it are accepted. */
bool net_is_listening(int port);

#endif
