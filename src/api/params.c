/* Routes, API keys and parameters; see params.h. */
#include "api/params.h"

#include "base/text.h"

#include <errno.h>

/* --- routes --- */

/* Not empty, and without a slash; an encoded one stays encoded in a path (http/exchange.h). */
static bool params_is_segment(struct span s)
{
    return s.len > 0 && span_find(s, '/') == s.len && uri_find_encoded_slash(s) == s.len;
}

enum route params_match(struct params *p, struct span base_path, struct span path)
{
    static const struct span by_id = {"channel/by-id/", 14};
    *p = (struct params){.error = API_ERROR_NONE};
    if (!span_starts_with(path, base_path))
        return ROUTE_NONE;
    struct span whole = span_skip(path, base_path.len);
    struct span rest = whole;
    if (rest.len > 0 && rest.data[rest.len - 1] == '/')
        rest.len--;
    if (span_equal(rest, SPAN("channels")))
        return ROUTE_LIST;
    if (span_equal(rest, SPAN("channel/by-link")))
        return ROUTE_CARD_BY_LINK;
    if (!span_starts_with(rest, by_id))
        return span_equal(whole, SPAN("openapi.json")) ? ROUTE_OPENAPI : ROUTE_NONE;
    struct span last = span_skip(rest, by_id.len);
    int err = parse_int64(last, &p->cache.number);
    if (err != 0)
        p->error = err == -ERANGE ? API_ERROR_CHANNEL_NOT_FOUND : API_ERROR_BAD_CHANNEL_ID;
    else
        p->cache.type = QUERY_CARD;
    return err == 0 || params_is_segment(last) ? ROUTE_CARD_BY_ID : ROUTE_NONE;
}

/* --- keys --- */

/* A collision costs one SHA-256. The last bytes of a key are as random as the others. */
static unsigned params_slot_of(struct span key)
{
    uint64_t tail = 0;
    size_t n = key.len < sizeof tail ? key.len : sizeof tail;
    memcpy(&tail, key.data + key.len - n, n);
    return (unsigned)((tail * 0x9E3779B97F4A7C15U) >> 56);
}

_Static_assert(DIGEST_CACHE_SLOTS == 1 << (64 - 56), "the slot is the top bits of the product");

static int params_digest_of_key(struct params_parser *parser, struct params *p, struct span key)
{
    if (key.len == 0)
        return -ENOENT;
    struct digest_cache_entry *e = p->slot = &parser->digests[params_slot_of(key)];
    if (secret_equal((struct span){e->key, e->len}, key)) {
        p->cache.key = e->digest;
        return 0;
    }
    digest_sha256(key, &p->cache.key);
    if (key.len > DIGEST_CACHE_KEY_MAX)
        return 0;
    explicit_bzero(e->key, e->len);
    e->len = (unsigned char)key.len;
    memcpy(e->key, key.data, key.len);
    e->digest = p->cache.key;
    return 0;
}

void params_erase_key(const struct params *p)
{
    if (memcmp(&p->slot->digest, &p->cache.key, sizeof p->cache.key) == 0)
        explicit_bzero(p->slot, sizeof *p->slot);
}

void params_parser_fini(struct params_parser *parser)
{
    explicit_bzero(parser->digests, sizeof parser->digests);
    buf_fini(&parser->scratch);
}

/* The value of a parameter, decoded at the end of `scratch` if it has escapes; absent when the parameter is,
 * or out of memory. */
static struct span params_decode_parameter(struct span query, struct span name, struct buf *scratch)
{
    struct span encoded = uri_query_find(query, name);
    if (span_find(encoded, '%') == encoded.len)
        return encoded;
    if (buf_reserve(scratch, encoded.len) != 0)
        return SPAN_ABSENT;
    char *out = scratch->data + scratch->len;
    size_t n = uri_decode(encoded, out);
    scratch->len += n;
    return (struct span){out, n};
}

/* The header field takes precedence, even if it is empty. The decoded key is erased. */
static int params_parse_key(struct params_parser *parser, struct params *p,
                            const struct http_request *request)
{
    struct buf *scratch = &parser->scratch;
    struct span key = request->field[HTTP_FIELD_API_KEY];
    buf_clear(scratch);
    if (key.data == NULL)
        key = params_decode_parameter(request->query, SPAN("api_key"), scratch);
    int err = buf_error(scratch) != 0 ? buf_error(scratch) : params_digest_of_key(parser, p, key);
    if (scratch->len > 0)
        explicit_bzero(scratch->data, scratch->len);
    buf_clear(scratch);
    return err;
}

static void params_parse_page(struct params *p, const struct http_request *request, struct buf *scratch)
{
    p->cache.number = 1;
    struct span page = params_decode_parameter(request->query, SPAN("page"), scratch);
    if (page.data != NULL && (parse_int64(page, &p->cache.number) != 0 || p->cache.number < 1))
        p->error = API_ERROR_BAD_PAGE;
    else
        p->cache.type = QUERY_PAGE;
}

static void params_parse_link(struct params *p, const struct http_request *request,
                              const struct link_hosts *hosts, struct buf *scratch)
{
    /* Room for both first, so that appending the stored shape does not move the link that it is made from. */
    if (buf_reserve(scratch, request->query.len + LINK_MAX) != 0)
        return;
    struct span link = params_decode_parameter(request->query, SPAN("link"), scratch);
    size_t start = scratch->len;
    if (link.len == 0)
        p->error = API_ERROR_LINK_MISSING;
    else if (link_normalise(hosts, link, scratch) != 0)
        p->error = API_ERROR_CHANNEL_NOT_FOUND;
    else {
        p->cache.type = QUERY_CARD_BY_LINK;
        p->cache.link = (struct span){scratch->data + start, scratch->len - start};
    }
}

int params_parse(struct params_parser *parser, struct params *p, const struct http_request *request,
                 enum route route)
{
    struct buf *scratch = &parser->scratch;
    int err = params_parse_key(parser, p, request);
    if (err != 0)
        return err;
    if (route == ROUTE_LIST)
        params_parse_page(p, request, scratch);
    else if (route == ROUTE_CARD_BY_LINK)
        params_parse_link(p, request, &parser->hosts, scratch);
    return buf_error(scratch);
}
