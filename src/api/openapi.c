/*
 * The OpenAPI document; see openapi.h. The build splits docs/openapi.json at the URL of its server
 * (CMakeLists.txt). Paths of the document begin with a slash, so the server's URL ends without one.
 */
#include "api/openapi.h"

#include "base/json.h"
#include "openapi_document.h"

static struct span head(void)
{
    return (struct span){(const char *)OPENAPI_HEAD, sizeof OPENAPI_HEAD};
}

static struct span tail(void)
{
    return (struct span){(const char *)OPENAPI_TAIL, sizeof OPENAPI_TAIL};
}

/* A server at the root is "/": an empty URL would be that of the document itself (RFC 3986 section 4.4). */
static struct span server_url(struct span base_path)
{
    if (base_path.len > 1)
        base_path.len--;
    return base_path;
}

struct blob *openapi_document_new(struct span base_path)
{
    struct buf out = {0};
    blob_begin(&out, head().len + tail().len + base_path.len + 2);
    buf_append_span(&out, head());
    json_write_string(&out, server_url(base_path));
    buf_append_span(&out, tail());
    return blob_finish(&out);
}
