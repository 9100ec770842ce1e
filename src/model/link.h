/*
 * Public channel links: `https://{channel_host}/<slug>` is the stored shape; the web client's host and small
 * differences of writing lead to it.
 */
#ifndef MODEL_LINK_H
#define MODEL_LINK_H

#include "base/buf.h"

/* The two hosts, lower case, borrowed for as long as the struct is used. */
struct link_hosts {
    struct span channel_host;
    struct span web_host;
};

/*
 * Appends the stored shape of `link` (already percent-decoded) to `out`. Accepted: scheme http or https and
 * host in any case, a port that is the scheme's own (or empty), no user-info; fragment, query and trailing
 * slashes are dropped; the slug is taken byte by byte. Returns 0, or -ENOENT when it is no link of these
 * hosts, so that nothing can be found by it.
 */
int link_normalise(const struct link_hosts *hosts, struct span link, struct buf *out)
    __attribute__((warn_unused_result));

/* True when `link` is exactly the stored shape. */
bool link_is_stored_shape(const struct link_hosts *hosts, struct span link);

#endif
