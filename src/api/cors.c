/* CORS header fields; see cors.h. */
#include "api/cors.h"

#include "base/text.h"

static bool cors_is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

/* An address in the form that browsers send. */
static bool cors_is_ipv6(struct span host)
{
    char text[IP_TEXT_MAX];
    struct ip ip;
    size_t len = span_find(host, ':') < host.len && ip_parse(host, &ip) == 0 ? ip_write(&ip, text) : 0;
    return len > 0 && span_equal((struct span){text, len}, host);
}

/* An origin has one serialization (HTML, "serialization of an origin"); it is compared byte by byte. */
static bool cors_is_origin(struct span origin)
{
    const struct web_scheme *scheme = web_scheme_of(origin);
    struct authority a;
    int64_t port = 0;
    if (scheme == NULL || !span_starts_with(origin, scheme->start) ||
        !authority_split(span_skip(origin, scheme->start.len), &a) || a.host.len == 0 ||
        !(a.bracketed ? cors_is_ipv6(a.host) : span_all(a.host, cors_is_host_char)))
        return false;
    return a.port.data == NULL || (parse_int64(a.port, &port) == 0 && port >= 0 && port <= UINT16_MAX &&
                                   !span_equal(a.port, scheme->port));
}

static bool cors_allows_any(struct span origins)
{
    return span_equal(span_trim(origins), SPAN("*"));
}

const char *cors_origins_error(struct span origins, struct span *which)
{
    if (origins.len == 0 || cors_allows_any(origins))
        return NULL;
    while (origins.data != NULL) {
        *which = span_trim(span_cut(&origins, ','));
        if (!cors_is_origin(*which))
            return "* alone, or origins as browsers send them are expected, such as https://example.org: in "
                   "lower case, without a path or the default port of the scheme";
    }
    return NULL;
}

static bool cors_allows(struct span origins, struct span origin)
{
    bool allowed = cors_allows_any(origins);
    while (!allowed && origins.data != NULL)
        allowed = span_equal(span_trim(span_cut(&origins, ',')), origin);
    return allowed && origin.len > 0;
}

void cors_add_fields(struct span origins, const struct http_request *request, struct http_response *r)
{
    bool any = cors_allows_any(origins);
    struct span origin = request->field[HTTP_FIELD_ORIGIN];
    if (!any)
        r->vary |= HTTP_VARY_ORIGIN;
    if (!any && !cors_allows(origins, origin))
        return;
    http_response_add(r, SPAN("Access-Control-Allow-Origin"), any ? SPAN("*") : origin);
    http_response_add(
        r, SPAN("Access-Control-Expose-Headers"),
        SPAN("Age, Cache-Status, ETag, Link, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id"));
}

void cors_add_preflight_fields(struct span origins, const struct http_request *request,
                               struct http_response *r)
{
    if (!cors_allows(origins, request->field[HTTP_FIELD_ORIGIN]) ||
        request->field[HTTP_FIELD_REQUEST_METHOD].data == NULL)
        return;
    http_response_add(r, SPAN("Access-Control-Allow-Methods"), SPAN("GET, HEAD"));
    http_response_add(
        r, SPAN("Access-Control-Allow-Headers"),
        SPAN("Baggage, If-Match, If-None-Match, Traceparent, Tracestate, X-Api-Key, X-Request-Id"));
    http_response_add(r, SPAN("Access-Control-Max-Age"), SPAN("86400"));
}
