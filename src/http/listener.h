/*
 * The listening socket of a process, and how the connections are divided among its servers, each of which
 * runs in a thread of its own.
 *
 * One thread accepts, and gives each connection to the server with the fewest, through a pipe that is its
 * inbox. A connection counts before it is served, so the limit of all servers is never exceeded. At the limit
 * the servers, one after the other, get the chance to close a connection for it.
 */
#ifndef HTTP_LISTENER_H
#define HTTP_LISTENER_H

#include "base/net.h"

#include <stdbool.h>
#include <uv.h>

struct http_listener;

/* For `servers` servers, which have at most `max` connections together. Owned (http_listener_free). Returns 0
 * or a negative errno. */
int http_listener_new(int servers, int max, struct http_listener **out) __attribute__((warn_unused_result));

/* After all servers have ended and the loop has closed the handles; closes the sockets that are left. NULL is
 * allowed. */
void http_listener_free(struct http_listener *l);

/* --- in the thread that accepts --- */

/*
 * Listens on the address, on which no other process may listen. Or uses the TCP socket `passed`, which stays
 * the caller's and which other processes may have, too; -1: there is none. Connections to it wait until
 * http_listener_accept. Returns 0 or a negative errno (-EADDRINUSE, -EACCES ...). Once per listener.
 */
int http_listener_open(struct http_listener *l, uv_loop_t *loop, const struct addr *address, int passed)
    __attribute__((warn_unused_result));
void http_listener_accept(struct http_listener *l);

/* Stops listening and closes the handles, after all connections that the kernel has queued were accepted;
 * those in the queue of a passed socket stay there for other processes. */
void http_listener_finish(struct http_listener *l);

/* --- in any thread --- */

/* A socket that was accepted, and its other end. */
struct http_accepted {
    int fd;
    unsigned tries; /* how many servers have got it at the limit; 0: it counts already */
    struct ip peer;
};

/* The connections of one server (from 0), and of all. */
int http_listener_count(const struct http_listener *l, int server);
int http_listener_total(const struct http_listener *l);

/* Counts a connection for the server; false: the limit is reached. */
bool http_listener_reserve(struct http_listener *l, int server);

/* A connection that counted for the server has ended. */
void http_listener_release(struct http_listener *l, int server);

/* `self` has no connection to close for this one, which is beyond the limit. Returns true if the next server
 * owns it then; false if all servers have had it, or that inbox is full. */
bool http_listener_pass(struct http_listener *l, int self, const struct http_accepted *accepted);

/* A descriptor that is readable while the inbox of the server is not empty. Borrowed. */
int http_listener_inbox(const struct http_listener *l, int server);

/* Reads up to `most` sockets, which the caller then owns; returns how many. */
int http_listener_receive(struct http_listener *l, int server, struct http_accepted *out, int most);

#endif
