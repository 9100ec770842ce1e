/*
 * Requests to responses: the real server, connections and API over a socket pair. The same bytes are sent at
 * once and in pieces, with a cache that returns results at once and one that does so later: the client must
 * receive the same, one well-formed response for each request, in order, and nothing after a rejected
 * request.
 *
 * An input is a line of lengths and then the bytes that the client sends. Each byte of the line is the length
 * of a piece: '@' is 1, 'A' 2, '0' 49. The rest is one piece.
 */
#include "api/api.h"
#include "base/clock.h"
#include "base/text.h"
#include "fuzz/contract.h"
#include "fuzz/fuzz.h"
#include "http/parser.h"
#include "http/server.h"
#include "model/channel.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

/* Small limits, so that small inputs reach them. */
enum { HEAD_MAX = 768, BODY_MAX = 256, INPUT_MAX = 16 * 1024, TURNS_MAX = 20000, REQUESTS_MAX = 1024 };

/* --- a cache that holds three channels, one link, and one key --- */

static struct blob *card_body;
static struct blob *page_body;
static struct digest good_key, lost_key;
static bool answers_later;
static struct list late; /* queries that wait for their results */
static long found;       /* results with a body */

static bool same_key(const struct digest *a, const struct digest *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static bool exists(const struct cache_query *q)
{
    if (q->type == QUERY_CARD)
        return q->number >= 1 && q->number <= 3;
    if (q->type == QUERY_CARD_BY_LINK)
        return span_equal(q->link, SPAN("https://max.ru/news"));
    return true;
}

static struct cache_result answer_to(const struct cache_query *q)
{
    struct cache_result a = {.status = CACHE_FOUND, .source = CACHE_SOURCE_HIT, .last_page = 3};
    if (same_key(&q->key, &lost_key))
        a.status = q->type == QUERY_AUTH_ONLY ? CACHE_UNAVAILABLE : CACHE_OUT_OF_MEMORY;
    else if (!same_key(&q->key, &good_key))
        a.status = CACHE_KEY_INVALID;
    else if (!exists(q))
        a.status = CACHE_NOT_FOUND;
    if (a.status == CACHE_FOUND && q->type != QUERY_AUTH_ONLY) {
        a.body = blob_ref(q->type == QUERY_PAGE ? page_body : card_body);
        found++;
    }
    return a;
}

/* A query whose result comes later: the result is kept in the request itself. */
static struct cache_result promised[1];

bool cache_get(struct cache *s, struct cache_request *request, const struct cache_query *params,
               struct cache_result *answer)
{
    (void)s;
    list_init(&request->waiting);
    api_key_name_clear(&request->key_name);
    if (!answers_later) {
        *answer = answer_to(params);
        answer->key_name = &request->key_name;
        return true;
    }
    FUZZ_CHECK(list_empty(&late)); /* one request at a time per connection */
    promised[0] = answer_to(params);
    promised[0].key_name = &request->key_name;
    list_append(&late, &request->waiting);
    return false;
}

static void keep_promise(void)
{
    if (list_empty(&late))
        return;
    struct cache_request *request = LIST_ENTRY(late.next, struct cache_request, waiting);
    struct cache_result answer = promised[0]; /* the next query may come during the callback */
    list_remove(&request->waiting);
    request->done(request->arg, &answer);
}

bool cache_is_key_invalid(struct cache *c, const struct digest *key, struct api_key_name *name)
{
    (void)c;
    (void)key;
    api_key_name_clear(name);
    return false;
}

void cache_cancel(struct cache_request *request)
{
    FUZZ_CHECK(!list_empty(&request->waiting));
    list_remove(&request->waiting);
    found -= promised[0].body != NULL;
    blob_unref(promised[0].body);
}

/* --- the server --- */

static uv_loop_t loop;
static struct http_metrics metrics;
static struct request_metrics request_metrics;
static struct http_server *server;
static struct http_balancer *balancer;
static struct http_parser_config parser_config = {.head_max = HEAD_MAX, .body_max = BODY_MAX};

static void make_bodies(void)
{
    struct channel_row row = {{{NULL, 0}}};
    struct buf text = BUF_INIT;
    row.value[CHANNEL_FIELD_max_channel_id] = SPAN("1");
    row.value[CHANNEL_FIELD_title] = SPAN("News");
    buf_append_str(&text, DOCUMENT_BEGIN);
    (void)channel_write(&text, &row, CHANNEL_CARD);
    buf_append_str(&text, DOCUMENT_END_CARD);
    card_body = blob_new_headroom(buf_span(&text), 0);
    buf_clear(&text);
    buf_append_str(&text, DOCUMENT_BEGIN_PAGE);
    (void)channel_write(&text, &row, CHANNEL_SUMMARY);
    document_end_page(&text, &(struct page_info){.page = 1, .last = 3, .count = 1, .has_next = true});
    page_body = blob_new_headroom(buf_span(&text), 0);
    buf_fini(&text);
    FUZZ_CHECK(card_body != NULL && page_body != NULL);
    digest_sha256(SPAN("good"), &good_key);
    digest_sha256(SPAN("lost"), &lost_key);
}

static void stop_timer(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (handle->type == UV_TIMER)
        (void)uv_timer_stop((uv_timer_t *)handle);
}

static void start_server(void)
{
    struct api *api = NULL;
    static const atomic_int access_log = ACCESS_LOG_OFF;
    static char base_path[] = "/api/";
    static char origins[] = "https://a.example, https://b.example";
    const struct api_options options = {
        .metrics = &request_metrics,
        .access_log = &access_log,
        .hosts = {{"max.ru", 6}, {"web.max.ru", 10}},
        .settings = {.base_path = base_path, .cors_origins = origins},
    };
    http_parser_config_init(&parser_config);
    FUZZ_CHECK(uv_loop_init(&loop) == 0 && api_new(&options, &api) == 0);
    FUZZ_CHECK(http_balancer_new(2, 1, &balancer) == 0);
    const struct http_server_options http = {
        .balancer = balancer,
        .number = 1, /* 0 does not exist, and passes the connections on */
        .handler = api_handler(api),
        .metrics = &metrics,
        .limits.head_max = HEAD_MAX,
        .limits.body_max = BODY_MAX,
        .limits.head_timeout_ms = 60000,
        .limits.idle_timeout_ms = 60000,
        .limits.write_timeout_ms = 60000,
    };
    FUZZ_CHECK(http_server_new(&loop, &http, &server) == 0);
    uv_walk(&loop, stop_timer, NULL); /* time stands still: deadlines and Date depend on nothing */
    (void)signal(SIGPIPE, SIG_IGN);
    list_init(&late);
    make_bodies();
}

/* --- the client --- */

struct client {
    int fd;
    bool refused_input; /* the server has closed its side of reading */
    bool ended;
    struct buf in;
};

static void turn(struct client *c)
{
    char chunk[16 * 1024];
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    keep_promise();
    ssize_t n = 0;
    while (!c->ended && (n = read(c->fd, chunk, sizeof chunk)) > 0)
        buf_append(&c->in, chunk, (size_t)n);
    c->ended = c->ended || n == 0 || (n < 0 && errno != EAGAIN);
}

static void send_piece(struct client *c, struct span piece)
{
    for (int turns = 0; piece.len > 0 && !c->refused_input; turns++) {
        ssize_t n = send(c->fd, piece.data, piece.len, MSG_NOSIGNAL);
        FUZZ_CHECK(turns < TURNS_MAX);
        c->refused_input = n < 0 && errno != EAGAIN;
        piece = n > 0 ? span_skip(piece, (size_t)n) : piece;
        turn(c);
    }
}

/* Sends everything, half-closes, and reads until the server has closed. */
static void converse(struct span cuts, struct span bytes, struct buf *out)
{
    int pair[2];
    struct client c = {.in = BUF_INIT};
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    c.fd = pair[1];
    const struct http_accepted accepted = {.fd = pair[0]};
    FUZZ_CHECK(http_balancer_pass(balancer, 0, &accepted));
    turn(&c);
    for (size_t i = 0; i < cuts.len && bytes.len > 0; i++) {
        size_t n = (unsigned char)cuts.data[i] % 64 + 1;
        n = n < bytes.len ? n : bytes.len;
        send_piece(&c, (struct span){bytes.data, n});
        bytes = span_skip(bytes, n);
    }
    send_piece(&c, bytes);
    (void)shutdown(c.fd, SHUT_WR);
    for (int turns = 0; !c.ended; turns++) {
        FUZZ_CHECK(turns < TURNS_MAX); /* otherwise it hangs */
        turn(&c);
    }
    close(c.fd);
    for (int turns = 0; metrics.connections_open > 0; turns++) {
        FUZZ_CHECK(turns < TURNS_MAX);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    FUZZ_CHECK(request_metrics.requests_in_flight == 0 && list_empty(&late) && buf_error(&c.in) == 0);
    *out = c.in;
}

/* --- what the client is owed --- */

struct owed {
    int count;
    bool closes; /* the last one ends the connection */
    struct {
        enum http_method method;
        int rejection; /* the status of one, or 0 */
        int status;    /* with which it was answered */
    } request[REQUESTS_MAX];
};

/* By the parser alone, which keeps no header section. */
static void find_requests(struct span bytes, struct owed *owed)
{
    static struct http_parser parser = {.config = &parser_config};
    *owed = (struct owed){.count = 0};
    while (bytes.len > 0 && !owed->closes && owed->count < REQUESTS_MAX) {
        size_t used = 0;
        parser.is_section = false;
        bool ended = http_parser_feed(&parser, bytes, &used);
        FUZZ_CHECK(used <= bytes.len);
        if (parser.status != 0)
            http_parser_end_rejected(&parser);
        owed->request[owed->count].method = parser.request.method;
        owed->request[owed->count].rejection = parser.status;
        owed->count += ended;
        owed->closes = ended && !parser.request.keep_alive;
        http_parser_end(&parser);
        if (!ended)
            break;
        bytes = span_skip(bytes, used);
    }
}

static void check_answer(const struct answer *a, const struct owed *owed, int at)
{
    bool last = at + 1 == owed->count && owed->closes;
    bool says_close = span_equal(answer_field(a, "Connection"), SPAN("close"));
    FUZZ_CHECK(says_close == last);
    FUZZ_CHECK(answer_field(a, "Date").len == 29);
    if (owed->request[at].rejection != 0)
        FUZZ_CHECK(a->status == owed->request[at].rejection);
    if (a->status != 204 && a->status != 304)
        FUZZ_CHECK(span_equal(answer_field(a, "Content-Type"), SPAN("application/json")));
    FUZZ_CHECK((answer_field(a, "ETag").data != NULL) == (a->status == 200 || a->status == 304));
    FUZZ_CHECK((answer_field(a, "WWW-Authenticate").data != NULL) == (a->status == 401));
    FUZZ_CHECK((answer_field(a, "Allow").data != NULL) == (a->status == 405 || a->status == 204));
}

/* Request ids that the server generates differ between conversations; those of the client are compared. */
static void blank_own_id(const struct answer *a)
{
    struct span id = answer_field(a, "X-Request-Id");
    FUZZ_CHECK(id.data != NULL || a->status < 400);
    if (id.len == 32 && hex_valid(id))
        memset((char *)(uintptr_t)id.data, '0', id.len);
}

/* Responses to requests for the OpenAPI document, since the last call. */
static long count_openapi(void)
{
    long count = 0;
    for (int i = 0; i < HTTP_STATUS_COUNT; i++)
        count += (long)atomic_exchange(&request_metrics.requests_total[ROUTE_OPENAPI][i], 0);
    return count;
}

/* Checks all responses, and removes "100 Continue" from `answers`. */
static void check_answers(struct buf *answers, struct owed *owed)
{
    struct buf final = BUF_INIT;
    struct span in = buf_span(answers);
    long bodies = 0;
    for (int i = 0; i < owed->count; i++) {
        struct answer a;
        in = answer_skip_interim(in);
        const char *start = in.data;
        answer_take(&in, owed->request[i].method, &a);
        check_answer(&a, owed, i);
        blank_own_id(&a);
        owed->request[i].status = a.status;
        bodies += a.status == 200 || a.status == 304 || a.status == 412;
        buf_append(&final, start, (size_t)(in.data - start));
    }
    in = answer_skip_interim(in);
    FUZZ_CHECK(in.len == 0);
    /* Each was found with a valid key, but for the OpenAPI document. */
    FUZZ_CHECK(bodies >= found && bodies <= found + count_openapi());
    buf_fini(answers);
    *answers = final;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span bytes = fuzz_input(data, size);
    struct span cuts = fuzz_take(&bytes, '\n');
    struct buf whole = BUF_INIT;
    struct buf pieces = BUF_INIT;
    struct owed owed;
    if (server == NULL)
        start_server();
    if (size > INPUT_MAX)
        return -1;
    find_requests(bytes, &owed);
    answers_later = false;
    found = 0;
    converse(SPAN(""), bytes, &whole);
    check_answers(&whole, &owed);
    answers_later = true;
    found = 0;
    converse(cuts, bytes, &pieces);
    check_answers(&pieces, &owed);
    FUZZ_CHECK(span_equal(buf_span(&whole), buf_span(&pieces)));
    buf_fini(&whole);
    buf_fini(&pieces);
    FUZZ_CHECK(card_body->refs == 1 && page_body->refs == 1);
    return 0;
}
