/*
 * Public channel links. `https://{channel_host}/<slug>` is the stored shape; links of the web client's host
 * and other spellings are normalised to it.
 */
#ifndef MODEL_LINK_H
#define MODEL_LINK_H

#include "base/buf.h"

/* The two hosts, in lower case, borrowed while the struct is used. */
struct link_hosts {
    struct span channel_host;
    struct span web_host;
};

/*
 * The longest slug, in bytes and percent-decoded; no channel has a longer one. Redis registers every
 * requested key for tracking, present or not, under its whole name.
 */
enum { LINK_SLUG_MAX = 256 };

/* The longest stored shape; a host has at most 253 bytes (RFC 1035 section 2.3.4). */
enum { LINK_HOST_MAX = 253, LINK_MAX = sizeof "https:///" - 1 + LINK_HOST_MAX + LINK_SLUG_MAX };

/*
 * Appends the stored shape of `link` (already percent-decoded) to `out`. Accepted: scheme http or https and
 * host in any case, the default port of the scheme (or an empty one), no user-info. Fragment, query and
 * trailing slashes are dropped; the slug is kept as it is. Returns 0, or -ENOENT when it is not a link of
 * these hosts, or has no slug of 1 to LINK_SLUG_MAX bytes.
 */
int link_normalise(const struct link_hosts *hosts, struct span link, struct buf *out)
    __attribute__((warn_unused_result));

/* True when `link` is exactly the stored shape. */
bool link_is_stored_shape(const struct link_hosts *hosts, struct span link);

#endif
