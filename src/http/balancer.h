/*
 * How the connections of a process are divided among its servers, each of which runs in a thread of its own.
 * Any thread may call these functions.
 *
 * A connection is reserved before it is served, so the limit of all servers is never exceeded. It counts for
 * one server, from http_balancer_place to http_balancer_release. The server that has accepted it keeps it
 * unless it has more than the mean of all; otherwise the server with the fewest gets it.
 */
#ifndef HTTP_BALANCER_H
#define HTTP_BALANCER_H

#include "base/net.h"

#include <stdbool.h>

struct http_balancer;

/* For `servers` servers, which have at most `max` connections together. Owned (http_balancer_free). Returns 0
 * or a negative errno. */
int http_balancer_new(int servers, int max, struct http_balancer **out) __attribute__((warn_unused_result));

/* After all servers have ended; closes the sockets that are still in an inbox. NULL: nothing to free. */
void http_balancer_free(struct http_balancer *b);

/* The connections of one server (from 0), and of all. */
int http_balancer_count(const struct http_balancer *b, int server);
int http_balancer_total(const struct http_balancer *b);

/* A server accepts no further connections. */
void http_balancer_finish(struct http_balancer *b);

/* No server does, and all connections have ended. */
bool http_balancer_is_drained(const struct http_balancer *b);

/* --- connections --- */

/* A socket that was accepted, and its other end. */
struct http_accepted {
    int fd;
    unsigned passes; /* how many servers had no connection to close for it; 0: it is placed */
    struct ip peer;
};

enum http_placement { HTTP_PLACED_HERE, HTTP_PLACED_ELSEWHERE, HTTP_AT_LIMIT };

/*
 * Within the limit, reserves a connection that `self` has accepted, chooses the server for it, and counts it
 * there. If that is another server, it owns the socket then and finds it in its inbox.
 */
enum http_placement http_balancer_place(struct http_balancer *b, int self,
                                        const struct http_accepted *accepted);

/* A connection of the server has ended. */
void http_balancer_release(struct http_balancer *b, int server);

/*
 * `self` has no connection to close for this one, which is beyond the limit. Returns true if the next server
 * owns the socket then and finds it in its inbox; false if all servers have had it, or that inbox is full.
 */
bool http_balancer_pass(struct http_balancer *b, int self, const struct http_accepted *accepted);

/* --- inboxes --- */

/* A descriptor that is readable while the inbox is not empty. Borrowed. */
int http_balancer_inbox(const struct http_balancer *b, int server);

/* Reads up to `most` sockets, which the caller then owns; returns how many. */
int http_balancer_receive(struct http_balancer *b, int server, struct http_accepted *out, int most);

#endif
