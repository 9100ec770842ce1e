/*
 * Whether Redis will announce on this connection when the value in a reply changes. Nothing else may be
 * cached, so every function that caches takes the origin of what it is given. invalidation_origin()
 * determines it for each reply.
 */
#ifndef CACHE_ORIGIN_H
#define CACHE_ORIGIN_H

enum origin {
    ORIGIN_UNTRACKED, /* another node of the cluster, an absence in a cluster, a connection without tracking
                       */
    ORIGIN_TRACKED
};

/* Of what was made of both. */
static inline enum origin origin_of_both(enum origin a, enum origin b)
{
    return a < b ? a : b;
}

#endif
