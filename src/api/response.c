/* Errors, the OpenAPI description and page links; see response.h. */
#include "api/response.h"

#include "base/json.h"
#include "openapi_document.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/param.h>

static const struct {
    int status;
    struct span text; /* needs no escapes */
} ERRORS[API_ERROR_COUNT] = {
#define ROW(name, status, text) {status, {text, sizeof(text) - 1}},
    API_ERRORS(ROW)
#undef ROW
};

static struct blob *api_response_make_error(enum api_error error, struct span base_path)
{
    struct buf out = BUF_INIT;
    buf_append_str(&out, "{\"success\":false,\"error\":\"");
    buf_append_span(&out, ERRORS[error].text);
    if (error == API_ERROR_OUTSIDE_API)
        buf_append_span(&out, base_path);
    buf_append_str(&out, "\"}");
    struct blob *body = buf_error(&out) == 0 ? blob_new(buf_span(&out)) : NULL;
    buf_fini(&out);
    return body;
}

int api_error_status(enum api_error error)
{
    return ERRORS[error].status;
}

enum api_error api_error_for_status(int status)
{
    if (status == 400)
        return API_ERROR_MALFORMED;
    for (int i = API_ERROR_REQUEST_TIMEOUT; i < API_ERROR_COUNT; i++)
        if (ERRORS[i].status == status)
            return (enum api_error)i;
    return API_ERROR_INTERNAL;
}

/* --- the OpenAPI description --- */

/* Paths of the document begin with a slash, so its server's URL ends without one. A server at the root is
 * "/": an empty URL would be that of the document itself (RFC 3986 section 4.4). */
static struct blob *api_response_make_openapi(struct span base_path)
{
    static const char url[] = "\"servers\":[{\"url\":\"/api\"";
    const char *found = strstr(OPENAPI, url);
    struct buf out = {0};
    assert(found != NULL);
    if (base_path.len > 1)
        base_path.len--;
    blob_begin(&out, sizeof OPENAPI + base_path.len);
    buf_append(&out, OPENAPI, (size_t)(found - OPENAPI) + sizeof url - sizeof "\"/api\"");
    json_write_string(&out, base_path);
    buf_append_str(&out, found + sizeof url - 1);
    return blob_finish(&out);
}

static struct blob *api_response_code(const struct blob *plain, enum coding coding)
{
    char *out = malloc(plain->len);
    size_t len = 0;
    if (out != NULL)
        len = coding_compress(coding, (struct span){plain->data, plain->len}, out, plain->len);
    struct blob *coded = len > 0 ? blob_new_coded((struct span){out, len}, coding, plain) : NULL;
    free(out);
    return coded;
}

int api_bodies_init(struct api_bodies *b, struct span base_path)
{
    struct blob *plain = api_response_make_openapi(base_path);
    bool made = plain != NULL;
    *b = (struct api_bodies){.openapi = {[CODING_IDENTITY] = plain}};
    for (int i = CODING_IDENTITY + 1; i < CODINGS && made; i++) {
        b->openapi[i] = api_response_code(plain, (enum coding)i);
        made = b->openapi[i] != NULL;
    }
    for (int i = 0; i < API_ERROR_COUNT; i++) {
        b->error[i] = api_response_make_error((enum api_error)i, base_path);
        made = made && b->error[i] != NULL;
    }
    return made ? 0 : -ENOMEM;
}

void api_bodies_fini(struct api_bodies *b)
{
    for (int i = 0; i < API_ERROR_COUNT; i++)
        blob_unref(b->error[i]);
    for (int i = 0; i < CODINGS; i++)
        blob_unref(b->openapi[i]);
}

/* --- the Link field --- */

static char *api_response_put_link(char *at, struct span target, int64_t page, struct span relation)
{
    at = span_put(target, span_put(SPAN(", "), at));
    at += format_int64(page, at);
    return span_put(relation, at);
}

/* The target is the same in all links, up to the number of the page: it is copied from the first. Not inline:
 * where the compiler sees the size of `out`, it checks each copy. */
__attribute__((noinline)) struct span page_links_write(char out[PAGE_LINKS_MAX], struct span base_path,
                                                       int64_t page, int64_t last)
{
    char *at = span_put(base_path, span_put(SPAN("<"), out));
    at = span_put(SPAN("channels/?page="), at);
    struct span target = {out, (size_t)(at - out)};
    at = span_put(SPAN("1>; rel=\"first\""), at);
    if (page > 1)
        at = api_response_put_link(at, target, MIN(page - 1, last), SPAN(">; rel=\"prev\""));
    if (page < last)
        at = api_response_put_link(at, target, page + 1, SPAN(">; rel=\"next\""));
    at = api_response_put_link(at, target, last, SPAN(">; rel=\"last\""));
    return (struct span){out, (size_t)(at - out)};
}
