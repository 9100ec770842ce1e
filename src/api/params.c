/* Reading keys and parameters; see params.h. */
#include "api/params.h"

#include "api/auth.h"
#include "base/encoding.h"
#include "base/parse.h"

#include <errno.h>

static void give_up(struct params *q, enum api_error error)
{
    q->error = error;
    q->cache.target = QUERY_AUTH_ONLY;
}

/* Appends the decoded value of a parameter to `scratch`; absent when the parameter is, or when memory is out.
 */
static struct span read_parameter(struct span query, struct span name, struct buf *scratch)
{
    struct span encoded = uri_query_find(query, name);
    if (encoded.data == NULL || buf_reserve(scratch, encoded.len + 1) != 0)
        return SPAN_ABSENT;
    char *out = scratch->data + scratch->len;
    size_t n = uri_decode(encoded, out);
    scratch->len += n;
    return (struct span){out, n};
}

static void read_page(struct params *q, const struct http_request *request, struct buf *scratch)
{
    q->cache.target = QUERY_PAGE;
    q->cache.number = 1;
    struct span page = read_parameter(request->query, SPAN("page"), scratch);
    if (page.data == NULL)
        return;
    if (parse_int64(page, &q->cache.number) != 0 || q->cache.number < 1)
        give_up(q, API_ERROR_BAD_PAGE);
}

static void read_id(struct params *q, struct span id)
{
    q->cache.target = QUERY_CARD;
    if (parse_int64(id, &q->cache.number) != 0)
        give_up(q, API_ERROR_BAD_CHANNEL_ID);
}

static void read_link(struct params *q, const struct http_request *request, const struct link_hosts *hosts,
                      struct buf *scratch)
{
    struct span link = read_parameter(request->query, SPAN("link"), scratch);
    if (link.len == 0) {
        give_up(q, API_ERROR_LINK_MISSING);
        return;
    }
    size_t start = scratch->len;
    /* Room first, so that appending the stored shape does not move the link it is made from. */
    if (buf_reserve(scratch, link.len + hosts->channel_host.len + sizeof "https:///") != 0)
        return;
    link.data = scratch->data + start - link.len;
    if (link_normalise(hosts, link, scratch) != 0) {
        give_up(q, API_ERROR_CHANNEL_NOT_FOUND);
        return;
    }
    q->cache.target = QUERY_CARD_BY_LINK;
    q->cache.link = (struct span){scratch->data + start, scratch->len - start};
}

int params_parse(struct params *q, const struct http_request *request, enum route route, struct span id,
                 const struct params_context *context)
{
    *q = (struct params){.error = API_ERROR_NONE};
    struct buf *scratch = context->scratch;
    int err = auth_digest(request, context->memo, scratch, &q->cache.key);
    if (err != 0)
        return err;
    buf_clear(scratch);
    if (route == ROUTE_LIST)
        read_page(q, request, scratch);
    else if (route == ROUTE_CARD_BY_ID)
        read_id(q, id);
    else
        read_link(q, request, context->hosts, scratch);
    return buf_error(scratch);
}
