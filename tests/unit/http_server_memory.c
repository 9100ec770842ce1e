/*
 * A server that runs out of memory: each of its allocations fails in turn while three clients are served, and
 * every time each of them gets nothing but the start of its own answers, and the server goes on.
 */
#include "unit/http_world.h"

static struct world w;
static struct blob *body_of[128]; /* by the letter that is asked for; 0: of a refusal */

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

#include "support/failing_malloc.h"

/* Like those of the world, but with bodies that are there already. */
static void respond(struct http_exchange *x, int status, char letter)
{
    http_exchange_respond(x, &(struct http_response){.status = status, .body = body_of[(int)letter]});
}

static void handle(void *arg, struct http_exchange *x)
{
    (void)arg;
    const struct http_request *r = http_exchange_request(x);
    struct world_state *state = http_exchange_state(x);
    state->mine = x;
    w.handled++;
    if (span_equal(r->path, SPAN("/later")))
        w.later[w.later_count++] = x;
    else if (span_equal(r->path, SPAN("/big")))
        http_exchange_respond(x, &(struct http_response){.status = 200, .body = w.big});
    else
        respond(x, 200, r->query.data[0]);
}

static void refuse(void *arg, struct http_exchange *x, int status)
{
    (void)arg;
    respond(x, status, 0);
}

/* As world_turn, with failures in what the server does. */
static void turn(void)
{
    armed = true;
    (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    armed = false;
    for (int i = 0; i < CLIENTS_MAX; i++)
        client_receive(&w.client[i]);
}

#define TURN_UNTIL(condition)                                               \
    do {                                                                    \
        int64_t until_ = wait_deadline(WAIT_DEADLINE_MS);                   \
        while (!(condition)) {                                              \
            if (wait_left_ms(until_) == 0)                                  \
                fail_msg("line %d: not in time: %s", __LINE__, #condition); \
            turn();                                                         \
        }                                                                   \
    } while (0)

/* The bodies of the complete answers to a client, a refusal as "!", a big one as "B". */
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
        out[n++] = size == BIG_SIZE ? 'B' : *body.data;
        rest = span_skip(body, size);
    }
    out[n] = '\0';
}

/* What the client got is the start of `expected`, and after it at most a refusal; less only when it was
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

/* Until the client has all its answers, or was closed. */
static void turn_until_served(struct client *c, size_t answers)
{
    TURN_UNTIL(c->ended || has_bodies(c, answers));
}

/* Three clients: answers that are late and together, one that is not taken at once, and one in between. */
static void serve(void)
{
    struct client *a = client_open(&w);
    client_send(a, GET("/now?a") GET("/later?b") GET("/now?c"));
    TURN_UNTIL(w.later_count == 1 || a->ended);
    struct client *b = client_open(&w);
    b->reads = false;
    client_send(b, GET("/now?d") GET("/big") GET("/now?e"));
    for (int i = 0; i < 10; i++)
        turn();
    struct client *c = client_open(&w);
    client_send(c, GET("/now?f"));
    TURN_UNTIL(c->in.len > 0 || c->ended);
    if (w.later_count == 1) {
        armed = true;
        respond(world_take_later(&w, 0), 200, 'b');
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
    struct client *c = client_open(&w);
    client_send(c, GET("/now?z"));
    WORLD_UNTIL(&w, c->in.len > 0);
    check_client(c, "z");
    assert_false(c->ended);
}

TEST(nobody_gets_the_answer_of_another_whichever_allocation_fails)
{
    enum { ENOUGH = 200 };
    int n = 1;
    for (failed = true; failed; n++) {
        assert_true(n < ENOUGH);
        world_init(&w);
        w.options.handler.handle = handle;
        w.options.handler.refuse = refuse;
        world_open(&w);
        failed = false;
        countdown = n;
        serve();
        countdown = 0;
        serve_afterwards();
        world_fini(&w);
    }
    assert_true(n > 10); /* there were some to fail */
}

TEST(without_memory_there_is_no_server)
{
    struct http_server *s = NULL;
    world_init(&w);
    assert_int_equal(uv_loop_init(&w.loop), 0);
    countdown = 1;
    armed = true;
    assert_int_equal(http_server_new(&w.loop, &w.options, &s), -ENOMEM);
    armed = false;
    assert_int_equal(uv_loop_close(&w.loop), 0);
}

static int make_bodies(void **state)
{
    (void)state;
    for (int c = 'a'; c <= 'z'; c++)
        body_of[c] = blob_new((struct span){&(char){(char)c}, 1});
    body_of[0] = blob_new(SPAN("!"));
    return 0;
}

static int free_bodies(void **state)
{
    (void)state;
    for (int i = 0; i < 128; i++)
        blob_unref(body_of[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_gets_the_answer_of_another_whichever_allocation_fails),
        cmocka_unit_test(without_memory_there_is_no_server),
    };
    return cmocka_run_group_tests(tests, make_bodies, free_bodies);
}
