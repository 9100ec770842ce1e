/* The paths of the API under its base path. A slash at the end may be missing. */
#ifndef API_ROUTES_H
#define API_ROUTES_H

#include "base/span.h"

enum route { ROUTE_NONE, ROUTE_LIST, ROUTE_CARD_BY_ID, ROUTE_CARD_BY_LINK, ROUTE_COUNT };

/*
 * Which route `path` (decoded) is under `base_path` (begins and ends with a slash). For a card by id, *id is
 * the path segment that should be one, not empty and borrowed from `path`.
 */
enum route route_match(struct span base_path, struct span path, struct span *id);

/* A short constant name for logs and metrics. */
const char *route_name(enum route r);

#endif
