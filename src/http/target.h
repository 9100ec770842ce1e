/* The request target (RFC 9112 section 3.2). */
#ifndef HTTP_TARGET_H
#define HTTP_TARGET_H

#include "base/span.h"

/*
 * Splits `target` into decoded path and raw query. The path is decoded in place, so that *path and *query
 * borrow from `target`, which is changed. Absolute form ("http://host/path") is read as its path; what is
 * neither ("*", "host:port") becomes the path as it is. Returns 0, or -EINVAL for a fragment, a control byte
 * (also an encoded one), a broken escape in the path, or an authority that would be no valid Host.
 */
int http_target_split(char *target, size_t len, struct span *path, struct span *query)
    __attribute__((warn_unused_result));

#endif
