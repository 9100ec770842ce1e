/* Memory: bounds of what the server allocates, and what happens when any of its allocations fails. */
#include "unit/fixtures/http_server.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "support/text.h"

/* More than the kernel holds of the connections of these tests, and little for sanitizers. */
enum { LARGE_SIZE = 512 * 1024 };

static struct blob *body_of[128]; /* by the letter that is asked for; 0: of a rejection */
static struct blob *large;

static bool armed;    /* the server is at work, not the test */
static int countdown; /* the allocation that fails, counted from 1 */
static bool failed;

static bool fails_now(void)
{
    if (!armed || countdown == 0 || --countdown > 0)
        return false;
    failed = true;
    errno = ENOMEM;
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *p);

static size_t allocated; /* bytes, as the allocator counts */

static void *counted(void *p)
{
    allocated += malloc_usable_size(p);
    return p;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    if (fails_now())
        return NULL;
    allocated -= malloc_usable_size(old);
    return counted(__real_realloc(old, size));
}

void __wrap_free(void *p)
{
    allocated -= malloc_usable_size(p);
    __real_free(p);
}

/* As the handler of the fixture, but with bodies that exist already. */
static void respond(struct http_exchange *x, int status, char letter)
{
    http_exchange_respond(x, &(struct http_response){.status = status, .body = body_of[(int)letter]});
}

static void handle(void *arg, struct http_exchange *x)
{
    (void)arg;
    const struct http_request *r = http_exchange_request(x);
    t.handled++;
    if (span_equal(r->path, SPAN("/later")))
        test_server_defer(x);
    else if (span_equal(r->path, SPAN("/big")))
        http_exchange_respond(x, &(struct http_response){.status = 200, .body = large});
    else
        respond(x, 200, r->query.data[0]);
}

static void reject(void *arg, struct http_exchange *x, int status)
{
    (void)arg;
    respond(x, status, 0);
}

/* As test_server_turn, with failures in what the server does. */
static void turn_armed(void)
{
    armed = true;
    (void)uv_run(&t.loop, UV_RUN_NOWAIT);
    armed = false;
    for (int i = 0; i < CLIENTS_MAX; i++)
        client_receive(&t.client[i]);
}

#define TURN_ARMED_UNTIL(condition)                                         \
    do {                                                                    \
        int64_t until_ = wait_deadline(WAIT_DEADLINE_MS);                   \
        while (!(condition)) {                                              \
            if (wait_left_ms(until_) == 0)                                  \
                fail_msg("line %d: not in time: %s", __LINE__, #condition); \
            turn_armed();                                                   \
        }                                                                   \
    } while (0)

/* The bodies of the complete answers to a client, a rejection as "!", the large one as "B". */
static void read_bodies(struct client *c, char *out, size_t room)
{
    (void)buf_c_str(&c->in); /* numbers are read as text that ends */
    struct span rest = buf_span(&c->in);
    size_t n = 0;
    while (rest.len > 0 && n + 1 < room) {
        const char *end = memmem(rest.data, rest.len, "\r\n\r\n", 4);
        const char *length = memmem(rest.data, rest.len, "Content-Length: ", 16);
        assert_true(span_starts_with(rest, SPAN("HTTP/1.1 ")));
        if (end == NULL || length == NULL)
            break;
        size_t size = strtoul(length + 16, NULL, 10);
        struct span body = span_skip(rest, (size_t)(end - rest.data) + 4);
        if (body.len < size)
            break;
        out[n++] = *body.data;
        rest = span_skip(body, size);
    }
    out[n] = '\0';
}

/* What the client got is the start of `expected`, and after it at most a rejection; less only when it was
 * closed. */
static void check_client(struct client *c, const char *pending)
{
    char bodies[16];
    read_bodies(c, bodies, sizeof bodies);
    size_t n = strlen(bodies);
    if (n > 0 && bodies[n - 1] == '!')
        bodies[--n] = '\0';
    if (strncmp(bodies, pending, n) != 0)
        fail_msg("a client of \"%s\" got \"%s\"", pending, bodies);
    if (n < strlen(pending))
        assert_true(c->ended);
}

static bool has_bodies(struct client *c, size_t count)
{
    char bodies[16];
    read_bodies(c, bodies, sizeof bodies);
    return strlen(bodies) == count;
}

/* Until the client has all its responses, or was closed. */
static void turn_until_served(struct client *c, size_t answers)
{
    TURN_ARMED_UNTIL(c->ended || has_bodies(c, answers));
}

/* Three clients: answers that are late and together, one that is not taken at once, and one in between. */
static void serve(void)
{
    struct client *a = client_sending(GET("/now?a") GET("/later?b") GET("/now?c"));
    TURN_ARMED_UNTIL(t.later_count == 1 || a->ended);
    struct client *b = client_open();
    b->reads = false;
    client_send(b, GET("/now?d") GET("/big") GET("/now?e"));
    for (int i = 0; i < 10; i++)
        turn_armed();
    struct client *c = client_sending(GET("/now?f"));
    TURN_ARMED_UNTIL(c->in.len > 0 || c->ended);
    if (t.later_count == 1) {
        armed = true;
        respond(test_server_take_later(0), 200, 'b');
        armed = false;
    }
    b->reads = true;
    turn_until_served(b, 3);
    turn_until_served(a, 3);
    turn_until_served(c, 1);
    check_client(a, "abc");
    check_client(b, "dBe");
    check_client(c, "f");
}

static void serve_afterwards(void)
{
    struct client *c = client_sending(GET("/now?z"));
    TURN_UNTIL(c->in.len > 0);
    check_client(c, "z");
    assert_false(c->ended);
}

TEST_CASE(no_failing_allocation_mixes_up_responses)
{
    enum { ENOUGH = 200 };
    int n = 1;
    for (failed = true; failed; n++) {
        assert_true(n < ENOUGH);
        test_server_init();
        t.tight = true;
        t.options.handler.handle = handle;
        t.options.handler.reject = reject;
        test_server_open();
        failed = false;
        countdown = n;
        serve();
        countdown = 0;
        serve_afterwards();
        test_server_close();
    }
    assert_true(n > 10); /* there were some to fail */
}

TEST_CASE(without_memory_there_is_no_server)
{
    struct http_server *s = NULL;
    test_server_init();
    assert_int_equal(uv_loop_init(&t.loop), 0);
    for (int n = 1; n <= 2; n++) {
        countdown = n;
        armed = true;
        assert_int_equal(http_server_new(&t.loop, &t.options, &s), -ENOMEM);
        armed = false;
    }
    assert_int_equal(uv_loop_close(&t.loop), 0);
}

/* The order of fields that would cost most if lists were copied to where they can grow. */
static void write_long_head(struct buf *out, size_t size)
{
    buf_append_str(out, "GET /now HTTP/1.1\r\nHost: a\r\nIf-None-Match: ");
    while (out->len < size - 300)
        buf_append_str(out, "\"\",");
    EACH_TEXT (text, "Origin: o", "X-Api-Key: k", "X-Api-Key: k", "Expect: e", "Traceparent: t",
               "X-Request-Id: i")
        buf_printf(out, "\r\n%s\r\nIf-None-Match: \"\"", text);
}

/* Turns the server alone; returns how many bytes more it owns afterwards. */
static size_t allocated_by_turns(void)
{
    size_t before = allocated;
    test_server_drain();
    return allocated - before;
}

enum { HEAD_MAX = 16 * 1024, PARSER = 2048 };

static const struct http_field_rule rules[] = {{"origin", HTTP_REPEAT_FIRST},
                                               {"x-api-key", HTTP_REPEAT_SAME},
                                               {"traceparent", HTTP_REPEAT_FIRST},
                                               {"x-request-id", HTTP_REPEAT_FIRST}};

SERVER_TEST_WITH(an_unfinished_head_takes_little_more_memory_than_its_bytes, t.options.head_max = HEAD_MAX,
                 t.options.handler.fields = rules, t.options.handler.field_count = TEST_COUNT(rules))
{
    SCOPED_BUF(head);
    struct client *c = client_sending(GET("/now?a"));
    TURN_UNTIL(client_count(c, "\r\n\r\na") == 1);
    write_long_head(&head, HEAD_MAX);
    size_t idle = allocated;
    client_send_bytes(c, buf_span(&head));
    size_t held = allocated_by_turns();
    assert_in_range(held, HEAD_MAX / 2, HEAD_MAX + HEAD_MAX / 2 + PARSER);
    client_send(c, "\r\n\r\n");
    test_server_drain();
    assert_true(allocated <= idle); /* memory is kept for reuse by a request of usual size only */
    TURN_UNTIL(client_count(c, "\r\n\r\n-") == 1);
}

static struct ip_networks trusted;

static void trust_all(void)
{
    struct span which;
    assert_null(ip_networks_parse(SPAN("127.0.0.1"), &trusted, &which));
    t.options.trusted_proxies = &trusted;
}

SERVER_TEST_WITH(a_proxy_header_leaves_no_memory_behind, trust_all())
{
    struct client *c = client_open();
    test_server_turn_for(20);
    size_t idle = allocated;
    client_send_bytes(
        c, SPAN("\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0C\xC0\x00\x02\x07\x0A\x00\x00\x01\x30\x39\x1F\x90"));
    test_server_drain();
    assert_int_equal(allocated, idle);
    client_send(c, GET("/now?a"));
    TURN_UNTIL(client_count(c, "\r\n\r\na") == 1);
}

static int make_bodies(void **state)
{
    (void)state;
    for (int c = 'a'; c <= 'z'; c++)
        body_of[c] = blob_new((struct span){&(char){(char)c}, 1});
    body_of[0] = blob_new(SPAN("!"));
    char *text = text_repeat('B', LARGE_SIZE);
    large = blob_new((struct span){text, LARGE_SIZE});
    free(text);
    return 0;
}

static int free_bodies(void **state)
{
    (void)state;
    for (int i = 0; i < 128; i++)
        blob_unref(body_of[i]);
    blob_unref(large);
    return 0;
}

TEST_GROUP(make_bodies, free_bodies)
