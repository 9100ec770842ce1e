#ifndef COHERENCE_STALE_PROXY_H
#define COHERENCE_STALE_PROXY_H

/*
 * A caching proxy in front of channeld, to show that the checks notice old responses. Its responses are at
 * most a given number of milliseconds old.
 */

struct stale_proxy;

/* Starts it on a port of its own; owned. */
struct stale_proxy *stale_proxy_new(int origin_port, int max_age_ms);
int stale_proxy_port(const struct stale_proxy *proxy);

/* Its clients must have closed their connections. */
void stale_proxy_free(struct stale_proxy *proxy);

#endif
