/* The handler of the endpoints: checks, cache query, response; see api.h. */
#include "api/api.h"

#include "api/cors.h"
#include "api/params.h"
#include "base/clock.h"
#include "base/log.h"
#include "http/codings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct api {
    struct api_options options;
    struct span base_path, cors_origins; /* of the settings */
    struct api_bodies bodies;
    struct params_parser parser;
    uint64_t random; /* state of the generator for request ids and the share of the access log */
    struct access_log_budget refused;
    struct http_response response; /* the current one; on the stack it would be zeroed as a whole each time */
    char links[PAGE_LINKS_MAX], id[REQUEST_ID_LEN]; /* values of its fields */
};

/* The state of a request until its response: the handler's state in the exchange (http/exchange.h). */
struct call {
    struct api *api;
    struct http_exchange *exchange;
    struct cache_request request;
    enum route route;
    enum cache_source source;
    struct params params; /* if has_key */
    struct rate_result rate;
    bool has_key, refused; /* `refused` until its key was found valid and within its rate */
    struct api_key_name key_name;
    struct http_codings codings;
};

/* Writes the line of a request. It shows only the start of the key's digest, and the key's name. */
static void api_log_call(const struct call *call, struct span request_id, uint64_t duration_ns,
                         uint64_t suppressed)
{
    static const char *const methods[] = {"GET", "HEAD", "OPTIONS", "other"};
    static const char *const caches[CACHE_SOURCES] = {
        [CACHE_SOURCE_NONE] = "none",   [CACHE_SOURCE_HIT] = "hit",   [CACHE_SOURCE_TTL] = "ttl",
        [CACHE_SOURCE_STALE] = "stale", [CACHE_SOURCE_MISS] = "miss", [CACHE_SOURCE_COALESCED] = "coalesced"};
    static const char *const routes[] = {ROUTE_NAMES};
    enum { KEY_DIGITS = 8 };
    const struct http_request *request = call->exchange->request;
    const struct http_response *r = &call->api->response;
    bool bodiless = request->method == METHOD_HEAD || r->status == 304 || r->body == NULL;
    struct span name = api_key_name_span(&call->key_name);
    struct log_line line;
    if (!log_begin(&line, LOG_ACCESS, "request"))
        return;
    log_str(&line, "method", span_of(methods[request->method]));
    log_str(&line, "route", span_of(routes[call->route]));
    log_int(&line, "status", r->status);
    log_int(&line, "bytes", bodiless ? 0 : (int64_t)r->body->len);
    log_int(&line, "duration_us", (int64_t)(duration_ns / 1000));
    log_str(&line, "cache", span_of(caches[call->source]));
    if (call->api->options.settings.log_clients != 0) {
        char client[IP_TEXT_MAX];
        struct ip ip = http_exchange_client(call->exchange);
        log_str(&line, "client", (struct span){client, ip_write(&ip, client)});
    }
    if (call->has_key) {
        char key[DIGEST_HEX_LEN];
        digest_hex(&call->params.cache.key, key);
        log_str(&line, "key", (struct span){key, KEY_DIGITS});
    }
    if (name.len > 0)
        log_str(&line, "key_name", name);
    if (request_id.data != NULL)
        log_str(&line, "request_id", request_id);
    if (suppressed > 0)
        log_int(&line, "suppressed", (int64_t)suppressed);
    struct trace_ids ids = trace_ids_parse(request->field[HTTP_FIELD_TRACEPARENT]);
    if (ids.trace.data != NULL) {
        log_str(&line, "trace_id", ids.trace);
        log_str(&line, "parent_id", ids.parent);
    }
    log_end(&line);
}

/* The client's id, or a generated one for requests that are logged or failed; absent otherwise. */
static struct span api_request_id_of(struct api *a, const struct http_request *request, bool wanted)
{
    struct span id = request->field[HTTP_FIELD_REQUEST_ID];
    if (name_valid(id, REQUEST_ID_MAX))
        return id;
    return wanted ? request_id_make(&a->random, a->id) : SPAN_ABSENT;
}

/* The lines of refused requests have a budget. *suppressed: the number of lines that it suppressed before
 * this one. */
static bool api_is_logged(struct call *call, int status, uint64_t *suppressed)
{
    struct api *a = call->api;
    int share = atomic_load_explicit(a->options.access_log, memory_order_relaxed);
    uint64_t now_ns = call->exchange->began_ns;
    return share != ACCESS_LOG_OFF && access_log_wants(share, status, &a->random) &&
           (!call->refused || access_log_spend(&a->refused, now_ns, suppressed));
}

static bool api_has_cors(const struct api *a)
{
    return a->cors_origins.len > 0;
}

/* Sends a->response, and counts and logs it. Every request ends here or in api_cancel(). */
static void api_respond(struct call *call)
{
    struct api *a = call->api;
    struct http_response *r = &a->response;
    const struct http_request *request = call->exchange->request;
    uint64_t suppressed = 0;
    bool logged = api_is_logged(call, r->status, &suppressed);
    struct span id = api_request_id_of(a, request, logged || r->status >= 400);
    if (id.data != NULL)
        http_response_add(r, SPAN("X-Request-Id"), id);
    if (call->rate.outcome != RATE_NONE)
        rate_limit_add_fields(a->options.rate_limit, &call->rate, r);
    if (api_has_cors(a))
        cors_add_fields(a->cors_origins, request, r);
    uint64_t duration_ns = clock_now_ns() - call->exchange->began_ns;
    request_metrics_count(a->options.metrics, call->route, r->status, duration_ns);
    metric_sub(&a->options.metrics->requests_in_flight, 1);
    if (a->options.key_metrics != NULL && call->key_name.len >= 0)
        key_metrics_count(a->options.key_metrics, &call->key_name, r->status);
    if (logged)
        api_log_call(call, id, duration_ns, suppressed);
    http_exchange_respond(call->exchange, r); /* ends the call */
}

static void api_respond_error(struct call *call, enum api_error error)
{
    struct api *a = call->api;
    struct http_response *r =
        http_response_begin(&a->response, api_error_status(error), a->bodies.error[error]);
    http_response_add(r, SPAN("Cache-Control"), SPAN("no-store"));
    if (r->status == 401)
        http_response_add(r, SPAN("WWW-Authenticate"),
                          SPAN("ApiKey realm=\"channeld\", header=\"X-Api-Key\""));
    if (r->status == 405)
        http_response_add(r, SPAN("Allow"), api_has_cors(a) ? SPAN("GET, HEAD, OPTIONS") : SPAN("GET, HEAD"));
    if (r->status == 500 || r->status == 503)
        http_response_add(r, SPAN("Retry-After"), SPAN("1"));
    api_respond(call);
}

static void api_respond_options(struct call *call)
{
    struct api *a = call->api;
    struct http_response *r = http_response_begin(&a->response, 204, NULL);
    http_response_add(r, SPAN("Allow"), SPAN("GET, HEAD, OPTIONS"));
    cors_add_preflight_fields(a->cors_origins, call->exchange->request, r);
    api_respond(call);
}

/* Sends a->response, whose content is compressed for clients that accept it, unless a precondition decides
 * otherwise, or there is no room for it. Inline, as each hit uses it. */
static inline void api_respond_content(struct call *call)
{
    struct http_response *r = &call->api->response;
    const struct http_request *request = call->exchange->request;
    enum coding coding = (enum coding)r->body->coding;
    if (call->api->options.settings.compression != 0)
        r->vary = HTTP_VARY_ACCEPT_ENCODING;
    http_response_evaluate_preconditions(r, request->field[HTTP_FIELD_IF_MATCH],
                                         request->field[HTTP_FIELD_IF_NONE_MATCH], &call->codings);
    if (r->status == 412) {
        api_respond_error(call, API_ERROR_PRECONDITION_FAILED);
        return;
    }
    if (r->status == 200 && !http_exchange_has_room(call->exchange, r)) {
        api_respond_error(call, API_ERROR_TOO_MUCH_UNSENT);
        return;
    }
    if (coding != CODING_IDENTITY && r->status == 200)
        metric_add(&call->api->options.metrics->coded_responses_total[coding - 1], 1);
    api_respond(call);
}

/* Adds Cache-Status and Age (RFC 9211, RFC 9111 section 5.1) to a response that may have changed in Redis. */
static void api_add_cache_status(struct api *a, const struct cache_result *result)
{
    char text[64];
    (void)snprintf(text, sizeof text, "channeld; hit; ttl=%lld", (long long)result->ttl_s);
    http_response_add(&a->response, SPAN("Cache-Status"), span_of(text));
    http_response_add(&a->response, SPAN("Age"), (struct span){text, format_int64(result->age_s, text)});
}

static void api_respond_found(struct call *call, const struct cache_result *result)
{
    struct api *a = call->api;
    struct http_response *r = http_response_begin(&a->response, 200, result->body);
    http_response_add(r, SPAN("Cache-Control"), SPAN("private, no-cache"));
    if (result->source == CACHE_SOURCE_STALE || result->source == CACHE_SOURCE_TTL)
        api_add_cache_status(a, result);
    if (call->route == ROUTE_LIST)
        http_response_add(
            r, SPAN("Link"),
            page_links_write(a->links, a->base_path, call->params.cache.number, result->last_page));
    api_respond_content(call);
}

static void api_respond_document(struct call *call)
{
    struct api *a = call->api;
    struct http_response *r =
        http_response_begin(&a->response, 200, a->bodies.openapi[call->codings.preferred]);
    http_response_add(r, SPAN("Cache-Control"), call->has_key ? SPAN("private, no-cache") : SPAN("no-cache"));
    api_respond_content(call);
}

/* --- the rate limit --- */

/*
 * Counts the request; false if it is refused, and answered. `outcome`: of the check of its key,
 * AUTH_UNAVAILABLE before it. A request of a key with a bucket is counted before the query; that of another
 * key when the key is found valid.
 */
static bool api_is_within_rate(struct call *call, enum auth_outcome outcome)
{
    struct api *a = call->api;
    struct rate_limit *l = a->options.rate_limit;
    const struct digest *key = &call->params.cache.key;
    bool valid = outcome == AUTH_VALID;
    if (call->rate.outcome == RATE_NONE && outcome != AUTH_INVALID)
        call->rate = rate_limit_count(l, key, valid, call->exchange->began_ns);
    if (call->rate.outcome == RATE_UNCOUNTED)
        metric_add(&a->options.metrics->key_rate_uncounted_total, 1);
    if (call->rate.outcome == RATE_REFUSED && !valid &&
        cache_is_key_invalid(a->options.cache, key, &call->key_name))
        outcome = AUTH_INVALID;
    if (outcome == AUTH_INVALID && call->rate.outcome != RATE_NONE) {
        rate_limit_remove(l, key);
        call->rate.outcome = RATE_NONE;
    }
    if (call->rate.outcome != RATE_REFUSED)
        return true;
    metric_add(&a->options.metrics->key_rate_limited_total, 1);
    api_respond_error(call, API_ERROR_TOO_MANY_REQUESTS);
    return false;
}

/* --- queries --- */

/* After a failure only the name of a valid key is known. */
static enum auth_outcome api_outcome_of(const struct call *call, enum cache_status status)
{
    if (status == CACHE_KEY_INVALID)
        return AUTH_INVALID;
    bool is_valid = status == CACHE_FOUND || status == CACHE_NOT_FOUND || call->key_name.len >= 0;
    return is_valid ? AUTH_VALID : AUTH_UNAVAILABLE;
}

static void api_on_result(void *arg, const struct cache_result *result)
{
    static const enum api_error errors[] = {
        [CACHE_NOT_FOUND] = API_ERROR_CHANNEL_NOT_FOUND,
        [CACHE_KEY_INVALID] = API_ERROR_UNAUTHORIZED,
        [CACHE_UNAVAILABLE] = API_ERROR_INTERNAL,
        [CACHE_OUT_OF_MEMORY] = API_ERROR_INTERNAL,
    };
    struct call *call = arg;
    struct api *a = call->api;
    call->source = result->source;
    call->key_name = *result->key_name;
    enum auth_outcome outcome = api_outcome_of(call, result->status);
    metric_add(&a->options.metrics->auth_total[outcome], 1);
    if (outcome == AUTH_INVALID)
        params_erase_key(&call->params);
    if (a->options.rate_limit != NULL && outcome != AUTH_UNAVAILABLE && !api_is_within_rate(call, outcome)) {
        blob_unref(result->body);
        return;
    }
    call->refused = outcome != AUTH_VALID;
    if (result->status != CACHE_FOUND)
        api_respond_error(call, errors[result->status]);
    else if (call->params.error != API_ERROR_NONE)
        api_respond_error(call, call->params.error);
    else if (call->route == ROUTE_OPENAPI)
        api_respond_document(call);
    else
        api_respond_found(call, result);
    blob_unref(result->body);
}

static void api_query_cache(struct call *call)
{
    struct cache_result result;
    call->params.cache.coding = call->codings.preferred;
    call->has_key = true;
    call->request.done = api_on_result;
    call->request.arg = call;
    if (call->api->options.rate_limit != NULL && !api_is_within_rate(call, AUTH_UNAVAILABLE))
        return;
    if (cache_get(call->api->options.cache, &call->request, &call->params.cache, &result))
        api_on_result(call, &result);
}

static void api_check_key(struct call *call)
{
    struct api *a = call->api;
    int err = params_parse(&a->parser, &call->params, call->exchange->request, call->route);
    if (err == -ENOENT)
        metric_add(&a->options.metrics->auth_total[AUTH_MISSING], 1);
    if (err == 0)
        api_query_cache(call);
    else
        api_respond_error(call, err == -ENOENT ? API_ERROR_UNAUTHORIZED : API_ERROR_INTERNAL);
}

/* OPTIONS * asks about the server as a whole (RFC 9110 section 9.3.7). */
static void api_handle_call(struct call *call)
{
    struct api *a = call->api;
    const struct http_request *request = call->exchange->request;
    bool is_options = request->method == METHOD_OPTIONS;
    bool of_server = is_options && span_equal(request->path, SPAN("*"));
    call->route = params_match(&call->params, a->base_path, request->path);
    /* Without compression every client is taken for one that accepts only identity. */
    call->codings = http_accept_encoding(
        a->options.settings.compression != 0 ? request->field[HTTP_FIELD_ACCEPT_ENCODING] : SPAN_ABSENT);
    if (call->route == ROUTE_NONE && !of_server)
        api_respond_error(call, span_starts_with(request->path, a->base_path) ? API_ERROR_PATH_NOT_FOUND
                                                                              : API_ERROR_OUTSIDE_API);
    else if (of_server || (is_options && api_has_cors(a)))
        api_respond_options(call);
    else if (request->method != METHOD_GET && request->method != METHOD_HEAD)
        api_respond_error(call, API_ERROR_METHOD_NOT_ALLOWED);
    else if (call->route == ROUTE_OPENAPI && a->options.settings.openapi_auth == 0)
        api_respond_document(call);
    else
        api_check_key(call);
}

/* The state of `x` is not zeroed. */
static void api_handle(void *arg, struct http_exchange *x, int status)
{
    struct api *a = arg;
    struct call *call = x->state;
    call->api = a;
    call->exchange = x;
    call->route = ROUTE_NONE;
    call->source = CACHE_SOURCE_NONE;
    call->rate.outcome = RATE_NONE;
    call->has_key = false;
    call->refused = true;
    api_key_name_clear(&call->key_name);
    metric_add(&a->options.metrics->requests_in_flight, 1);
    if (status == 0)
        api_handle_call(call);
    else
        api_respond_error(call, api_error_for_status(status));
}

static void api_cancel(void *arg, struct http_exchange *x)
{
    struct api *a = arg;
    struct call *call = x->state;
    metric_sub(&a->options.metrics->requests_in_flight, 1);
    cache_cancel(&call->request);
}

int api_new(const struct api_options *options, struct api **out)
{
    struct api *a = calloc(1, sizeof *a);
    if (a == NULL)
        return -ENOMEM;
    a->options = *options;
    a->base_path = span_of(options->settings.base_path);
    a->cors_origins = span_of(options->settings.cors_origins);
    a->parser.hosts = options->hosts;
    a->random = random_seed(a);
    if (api_bodies_init(&a->bodies, a->base_path) != 0) {
        api_free(a);
        return -ENOMEM;
    }
    *out = a;
    return 0;
}

void api_free(struct api *a)
{
    if (a == NULL)
        return;
    api_bodies_fini(&a->bodies);
    buf_fini(&a->response.fields);
    params_parser_fini(&a->parser);
    free(a);
}

struct http_handler api_handler(struct api *a)
{
    return (struct http_handler){
        .arg = a,
        .state_size = sizeof(struct call),
        .handle = api_handle,
        .cancel = api_cancel,
    };
}
