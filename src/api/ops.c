/* Health, metrics and version; see ops.h. */
#include "api/ops.h"

#include "base/text.h"
#include "version.h"

static const char TEXT[] = "text/plain; charset=utf-8";
static const char PROMETHEUS[] = "text/plain; version=0.0.4; charset=utf-8";

/*
 * OPTIONS gets 204 where GET would get 200, and otherwise the same status: HAProxy checks the health of a
 * server by this method unless it is told another one.
 */
static void ops_respond(struct ops *o, struct http_exchange *x, int status, const char *type)
{
    bool is_options = status == 200 && x->request->method == METHOD_OPTIONS;
    struct http_response r = {.status = is_options ? 204 : status, .content_type = type};
    if (!is_options) {
        r.body = buf_error(&o->body) == 0 ? blob_new(buf_span(&o->body)) : NULL;
        if (r.body == NULL)
            r.status = 500;
    }
    http_response_add(&r, SPAN("Cache-Control"), SPAN("no-store"));
    if (is_options || status == 405)
        http_response_add(&r, SPAN("Allow"), SPAN("GET, HEAD, OPTIONS"));
    http_exchange_respond(x, &r);
    blob_unref(r.body);
    buf_fini(&r.fields);
}

/* `?verbose` lists the checks; without it the response is one word. */
static void ops_respond_check(struct ops *o, struct http_exchange *x, enum ops_check kind)
{
    struct span query = x->request->query;
    bool verbose = uri_query_find(query, SPAN("verbose")).data != NULL;
    bool good = o->check(o->arg, kind, verbose ? &o->body : NULL);
    buf_append_str(&o->body, good ? "ok\n" : "not ok\n");
    ops_respond(o, x, good ? 200 : 503, TEXT);
}

static void ops_respond_text(struct ops *o, struct http_exchange *x, int status, const char *text)
{
    buf_append_str(&o->body, text);
    ops_respond(o, x, status, TEXT);
}

static void ops_handle(void *arg, struct http_exchange *x, int status)
{
    struct ops *o = arg;
    const struct http_request *request = x->request;
    buf_clear(&o->body);
    if (status != 0) {
        ops_respond_text(o, x, status, "request refused\n");
    } else if (request->method == METHOD_OTHER) {
        ops_respond_text(o, x, 405, "method not allowed\n");
    } else if (request->method == METHOD_OPTIONS &&
               (span_equal(request->path, SPAN("*")) || span_equal(request->path, SPAN("/")))) {
        /* about the server: RFC 9110 section 9.3.7, or as HAProxy sends it */
        ops_respond(o, x, 200, NULL);
    } else if (span_equal(request->path, SPAN("/livez"))) {
        ops_respond_check(o, x, OPS_LIVE);
    } else if (span_equal(request->path, SPAN("/readyz"))) {
        /* `?exclude=shutdown` is for Kubernetes, which removes a terminating pod from its Services without
         * this check. */
        struct span excluded = uri_query_find(request->query, SPAN("exclude"));
        ops_respond_check(o, x, span_equal(excluded, SPAN("shutdown")) ? OPS_SERVING : OPS_READY);
    } else if (span_equal(request->path, SPAN("/startupz"))) {
        ops_respond_check(o, x, OPS_STARTED);
    } else if (span_equal(request->path, SPAN("/version"))) {
        buf_append_str(&o->body, "{\"name\":\"channeld\",\"version\":\"" CHANNELD_VERSION "\"}\n");
        ops_respond(o, x, 200, NULL);
    } else if (span_equal(request->path, SPAN("/metrics"))) {
        o->write_metrics(o->arg, &o->body);
        ops_respond(o, x, 200, PROMETHEUS);
    } else {
        ops_respond_text(o, x, 404, "not found\n");
    }
}

struct http_handler ops_handler(struct ops *o)
{
    return (struct http_handler){.arg = o, .handle = ops_handle};
}
