/* CORS header fields; see cors.h. */
#include "api/cors.h"

/* Takes the next origin off the list, without the white space around it. */
static struct span take_origin(struct span *list)
{
    struct span one = {list->data, span_find(*list, ',')};
    *list = span_skip(*list, one.len < list->len ? one.len + 1 : one.len);
    return span_trim(one);
}

static bool origin_valid(struct span origin)
{
    static const struct span schemes[] = {{"https://", 8}, {"http://", 7}};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (!span_starts_with(origin, schemes[i]))
            continue;
        struct span host = span_skip(origin, schemes[i].len);
        return host.len > 0 && span_find(host, '/') == host.len && span_find(host, ' ') == host.len;
    }
    return false;
}

bool cors_origins_valid(struct span origins)
{
    if (span_equal(span_trim(origins), SPAN("*")))
        return true;
    while (origins.len > 0)
        if (!origin_valid(take_origin(&origins)))
            return false;
    return true;
}

static bool any_origin(const struct cors *c)
{
    return span_equal(span_trim(c->origins), SPAN("*"));
}

static bool allowed(const struct cors *c, struct span origin)
{
    struct span list = c->origins;
    if (origin.len == 0)
        return false;
    while (list.len > 0)
        if (span_equal(take_origin(&list), origin))
            return true;
    return any_origin(c);
}

void cors_add_fields(const struct cors *c, const struct http_request *request, struct http_response *r)
{
    if (!cors_enabled(c))
        return;
    if (!any_origin(c))
        http_response_add(r, SPAN("Vary"), SPAN("Origin"));
    struct span origin = request->field[HTTP_FIELD_ORIGIN];
    if (!allowed(c, origin))
        return;
    http_response_add(r, SPAN("Access-Control-Allow-Origin"), any_origin(c) ? SPAN("*") : origin);
    http_response_add(r, SPAN("Access-Control-Expose-Headers"),
                      SPAN("ETag, Link, Retry-After, X-Request-Id"));
}

void cors_add_preflight_fields(const struct cors *c, const struct http_request *request,
                               struct http_response *r)
{
    if (!allowed(c, request->field[HTTP_FIELD_ORIGIN]) ||
        request->field[HTTP_FIELD_REQUEST_METHOD].data == NULL)
        return;
    http_response_add(r, SPAN("Access-Control-Allow-Methods"), SPAN("GET, HEAD"));
    http_response_add(r, SPAN("Access-Control-Allow-Headers"),
                      SPAN("If-None-Match, Traceparent, X-Api-Key, X-Request-Id"));
    http_response_add(r, SPAN("Access-Control-Max-Age"), SPAN("86400"));
}
