/*
 * The description of the API that the service serves itself: docs/openapi.json, which is part of the program,
 * in each content coding. It is coded at the start: a request for it costs no more than one for a cached
 * page.
 */
#ifndef API_OPENAPI_H
#define API_OPENAPI_H

#include "base/blob.h"

struct openapi {
    struct blob *body[CODINGS]; /* owned, with entity tags */
};

/*
 * The server of the document is at `base_path` (begins and ends with a slash). Returns 0 or -ENOMEM;
 * openapi_fini is due in both cases.
 */
int openapi_init(struct openapi *o, struct span base_path) __attribute__((warn_unused_result));
void openapi_fini(struct openapi *o);

#endif
