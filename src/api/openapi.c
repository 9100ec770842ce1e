/*
 * The OpenAPI document; see openapi.h. The build splits docs/openapi.json at the URL of its server
 * (CMakeLists.txt). Paths of the document begin with a slash, so the server's URL ends without one.
 */
#include "api/openapi.h"

#include "base/compress.h"
#include "base/json.h"
#include "openapi_document.h"

#include <errno.h>
#include <stdlib.h>

static struct span openapi_head(void)
{
    return (struct span){(const char *)OPENAPI_HEAD, sizeof OPENAPI_HEAD};
}

static struct span openapi_tail(void)
{
    return (struct span){(const char *)OPENAPI_TAIL, sizeof OPENAPI_TAIL};
}

/* A server at the root is "/": an empty URL would be that of the document itself (RFC 3986 section 4.4). */
static struct span openapi_server_url(struct span base_path)
{
    if (base_path.len > 1)
        base_path.len--;
    return base_path;
}

static struct blob *openapi_make_plain(struct span base_path)
{
    struct buf out = {0};
    blob_begin(&out, openapi_head().len + openapi_tail().len + base_path.len + 2);
    buf_append_span(&out, openapi_head());
    json_write_string(&out, openapi_server_url(base_path));
    buf_append_span(&out, openapi_tail());
    return blob_finish(&out);
}

static struct blob *openapi_make_coded(struct compressor *c, const struct blob *plain, enum coding coding)
{
    char *out = malloc(plain->len);
    size_t len = 0;
    if (out != NULL)
        len = compressor_run(c, coding, (struct span){plain->data, plain->len}, out, plain->len);
    struct blob *coded = len > 0 ? blob_new_coded((struct span){out, len}, coding, plain) : NULL;
    free(out);
    return coded;
}

int openapi_init(struct openapi *o, struct span base_path)
{
    struct blob *plain = openapi_make_plain(base_path);
    struct compressor *c = compressor_new();
    bool made = plain != NULL && c != NULL;
    *o = (struct openapi){.body = {[CODING_IDENTITY] = plain}};
    for (int i = CODING_IDENTITY + 1; i < CODINGS && made; i++) {
        o->body[i] = openapi_make_coded(c, plain, (enum coding)i);
        made = o->body[i] != NULL;
    }
    compressor_free(c);
    return made ? 0 : -ENOMEM;
}

void openapi_fini(struct openapi *o)
{
    for (int i = 0; i < CODINGS; i++)
        blob_unref(o->body[i]);
}
