/* The description of the API that the service serves itself: docs/openapi.json, which is part of the program.
 */
#ifndef API_OPENAPI_H
#define API_OPENAPI_H

#include "base/blob.h"

/*
 * The document with the server at `base_path` (begins and ends with a slash). Owned by the caller, with an
 * entity tag; NULL when out of memory.
 */
struct blob *openapi_document_new(struct span base_path);

#endif
