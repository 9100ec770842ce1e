/* Errors and page links; see response.h. */
#include "api/response.h"

#include <errno.h>

/* The texts need no escapes. */
#define ERROR_BODY(text) "{\"success\":false,\"error\":\"" text "\"}"

static const struct {
    int status;
    struct span body;
} ERRORS[API_ERROR_COUNT] = {
#define ROW(name, status, text) {status, {ERROR_BODY(text), sizeof ERROR_BODY(text) - 1}},
    API_ERRORS(ROW)
#undef ROW
};

int api_errors_init(struct api_errors *e)
{
    *e = (struct api_errors){0};
    for (int i = 0; i < API_ERROR_COUNT; i++) {
        e->response[i].status = ERRORS[i].status;
        e->response[i].body = blob_new(ERRORS[i].body);
        if (e->response[i].body == NULL)
            return -ENOMEM;
    }
    return 0;
}

void api_errors_fini(struct api_errors *e)
{
    for (int i = 0; i < API_ERROR_COUNT; i++)
        blob_unref(e->response[i].body);
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

/* Links per field, and room for what each has beside the base path and its number. */
enum { LINKS_MAX = 4, LINK_BASE_MAX = 64 };

static char *api_response_put_link(char *at, struct span target, int64_t page, struct span relation)
{
    at = span_put(target, span_put(SPAN(", "), at));
    at += format_int64(page, at);
    return span_put(relation, at);
}

/* The target is the same in all links, up to the number of the page: it is copied from the first. */
void page_links_write(struct buf *out, struct span base_path, int64_t page, int64_t last)
{
    if (buf_reserve(out, LINKS_MAX * (LINK_BASE_MAX + base_path.len + INT64_DIGITS_MAX)) != 0)
        return;
    char *first = out->data + out->len;
    char *at = span_put(base_path, span_put(SPAN("<"), first));
    at = span_put(SPAN("channels/?page="), at);
    struct span target = {first, (size_t)(at - first)};
    at = span_put(SPAN("1>; rel=\"first\""), at);
    if (page > 1)
        at = api_response_put_link(at, target, page - 1 < last ? page - 1 : last, SPAN(">; rel=\"prev\""));
    if (page < last)
        at = api_response_put_link(at, target, page + 1, SPAN(">; rel=\"next\""));
    at = api_response_put_link(at, target, last, SPAN(">; rel=\"last\""));
    out->len = (size_t)(at - out->data);
}
