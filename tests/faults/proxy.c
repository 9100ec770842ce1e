/*
 * Connections to Redis that a proxy cuts after each number of bytes of a reply: the request is answered all
 * the same, and rightly. All else that a network may do is in tests/simulation.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { CHANNELS = 400 };

static int setup(void **state)
{
    static const char *const env[] = {"CHANNELD_WORKERS=1", NULL};
    *state = fixture_new_with(&(struct fixture_spec){.channels = CHANNELS, .env = env, .proxied = true});
    return 0;
}

/* Invalidates the first page with all its channels; no value changes. */
static const char touch_script[] =
    "local ids = redis.call('ZRANGE', 'channels:index', 0, 99) "
    "for _, id in ipairs(ids) do redis.call('HSET', 'channels:card:' .. id, 'max_channel_id', id) end "
    "redis.call('ZREM', 'channels:index', ids[1]) redis.call('ZADD', 'channels:index', 0, ids[1])";

/* A card that was invalidated. The connection is there then, and all invalidations have been read. */
static void expect_uncached_card(struct fixture *f)
{
    static size_t next;
    size_t n = next++ % CHANNELS;
    redis_do(&f->redis, "HSET channels:card:%lld max_channel_id %lld", (long long)catalogue_id(n),
             (long long)catalogue_id(n));
    fixture_expect_sample(f, n);
}

/* A series of cuts: one after each `step` bytes of the replies to a request. */
static const struct cuts {
    const char *path; /* NULL: a card by its id */
    enum proxy_fault fault;
    size_t step;
} CUTS[] = {{NULL, PROXY_RESET, 53},
            {NULL, PROXY_FINISH, 59},
            {"channel/by-link/?link=https://max.ru/sample_7", PROXY_RESET, 61},
            {"channels/", PROXY_RESET, 4001},
            {"channels/", PROXY_FINISH, 4003}};

/* Requests what is not cached; the body is the same each time. */
static void expect_right(struct fixture *f, const struct cuts *cuts, const char *body)
{
    if (cuts->path == NULL) {
        expect_uncached_card(f);
        return;
    }
    AUTOFREE char *again = fixture_body(f, cuts->path);
    assert_string_equal(again, body);
}

/* Returns how many bytes were replied. */
static size_t cut(struct fixture *f, const struct cuts *cuts, const char *body, size_t at)
{
    redis_do(&f->redis, "EVAL %s 0", touch_script);
    expect_uncached_card(f);
    size_t before = proxy_bytes_down(f->proxy);
    if (at > 0)
        proxy_inject_after(f->proxy, at, cuts->fault);
    expect_right(f, cuts, body);
    size_t bytes = proxy_bytes_down(f->proxy) - before;
    bool injected = proxy_has_injected(f->proxy);
    proxy_restore(f->proxy);
    return at == 0 || injected ? bytes : 0;
}

/* Without the replies to heartbeats, which come now and then. */
static size_t measure(struct fixture *f, const struct cuts *cuts, const char *body)
{
    size_t least = SIZE_MAX;
    for (int i = 0; i < 4; i++) {
        size_t size = cut(f, cuts, body, 0);
        least = size < least ? size : least;
    }
    return least;
}

TEST_CASE_WITH(redis_connection_cut_within_a_reply, setup, fixture_teardown)
{
    struct fixture *f = *state;
    for (const struct cuts *cuts = CUTS; cuts < CUTS + TEST_COUNT(CUTS); cuts++) {
        AUTOFREE char *body = fixture_body(f, cuts->path != NULL ? cuts->path : "channels/");
        size_t size = measure(f, cuts, body);
        int made = 0;
        int missed = 0; /* the last one may come after the response */
        for (size_t at = 1; at <= size; at += cuts->step, made++)
            missed += cut(f, cuts, body, at) == 0;
        print_message("%s: %d cuts in %zu bytes\n", cuts->path != NULL ? cuts->path : "card", made, size);
        assert_true(size > 200 && missed <= 1);
    }
}
