/* Which server gets a connection, whoever accepts it and whatever ends: the counts alone, without sockets. */
#include "http/balancer.h"

#include <pthread.h>

#include "base/hash.h"
#include "unit/check.h"

enum { SERVERS_MAX = 9, CONNECTIONS = 64, ENOUGH = 100000 };

/* In the place of a socket; nobody takes it. */
static const struct http_accepted none = {.fd = -1};

static struct http_balancer *balancer_new(int servers, int max)
{
    struct http_balancer *b = NULL;
    assert_int_equal(http_balancer_new(servers, max, &b), 0);
    return b;
}

/* Within the limit. */
static bool place(struct http_balancer *b, int self, const struct http_accepted *accepted)
{
    assert_true(http_balancer_reserve(b));
    return http_balancer_place(b, self, accepted);
}

static void empty_inboxes(struct http_balancer *b, int servers)
{
    struct http_accepted taken[CONNECTIONS];
    for (int i = 0; i < servers && servers > 1; i++)
        while (http_balancer_receive(b, i, taken, CONNECTIONS) > 0)
            continue;
}

static int busiest(const struct http_balancer *b, int servers)
{
    int server = 0;
    for (int i = 1; i < servers; i++)
        if (http_balancer_count(b, i) > http_balancer_count(b, server))
            server = i;
    return server;
}

static int idlest_count(const struct http_balancer *b, int servers)
{
    int least = http_balancer_count(b, 0);
    for (int i = 1; i < servers; i++)
        if (http_balancer_count(b, i) < least)
            least = http_balancer_count(b, i);
    return least;
}

static void expect_even(const struct http_balancer *b, int servers)
{
    int most = http_balancer_count(b, busiest(b, servers));
    assert_in_range(most - idlest_count(b, servers), 0, 1);
}

TEST_CASE(connections_that_only_come_are_even)
{
    uint64_t random = 1;
    for (int servers = 1; servers <= SERVERS_MAX; servers++) {
        for (int accepts = 0; accepts <= servers; accepts++) { /* `servers`: any of them */
            struct http_balancer *b = balancer_new(servers, ENOUGH);
            for (int n = 1; n <= CONNECTIONS; n++) {
                int self = accepts < servers ? accepts : (int)(random_next(&random) % (uint64_t)servers);
                (void)place(b, self, &none);
                assert_int_equal(http_balancer_total(b), n);
                expect_even(b, servers);
            }
            http_balancer_free(b);
        }
    }
}

/* Places one, and asserts that the server that gets it has at most one more than its share. */
static void place_one(struct http_balancer *b, int servers, int self)
{
    int before[SERVERS_MAX];
    int grown = -1;
    for (int i = 0; i < servers; i++)
        before[i] = http_balancer_count(b, i);
    bool handed_over = place(b, self, &none);
    for (int i = 0; i < servers; i++) {
        if (http_balancer_count(b, i) == before[i])
            continue;
        assert_int_equal(grown, -1);
        assert_int_equal(http_balancer_count(b, i), before[i] + 1);
        grown = i;
    }
    assert_true(grown >= 0 && handed_over == (grown != self));
    assert_true((http_balancer_count(b, grown) - 1) * servers <= http_balancer_total(b));
}

/* Ends one of any server that has any. */
static void end_one(struct http_balancer *b, int servers, uint64_t *random)
{
    int server = (int)(random_next(random) % (uint64_t)servers);
    while (http_balancer_count(b, server) == 0)
        server = (server + 1) % servers;
    http_balancer_release(b, server);
}

TEST_CASE(no_server_gets_a_connection_beyond_its_share_and_one)
{
    enum { STEPS = 20000 };
    uint64_t random = 1;
    for (int servers = 1; servers <= SERVERS_MAX; servers++) {
        struct http_balancer *b = balancer_new(servers, ENOUGH);
        for (int i = 0; i < STEPS; i++) {
            int total = http_balancer_total(b);
            if (total > 0 && (total == CONNECTIONS || random_next(&random) % 2 == 0))
                end_one(b, servers, &random);
            else
                place_one(b, servers, (int)(random_next(&random) % (uint64_t)servers));
            empty_inboxes(b, servers);
        }
        http_balancer_free(b);
    }
}

/* The first one after an end, which may be the next request of the same client. */
TEST_CASE(a_successor_stays_where_it_was_accepted)
{
    struct http_balancer *b = balancer_new(2, ENOUGH);
    for (int i = 0; i < 4; i++)
        (void)place(b, 0, &none);
    http_balancer_release(b, 1);
    assert_false(place(b, 0, &none));
    assert_true(place(b, 0, &none));
    http_balancer_release(b, 1);
    assert_true(place(b, 0, &none)); /* it would have more than one above its share */
    http_balancer_free(b);
}

/* The server that has accepted it serves it then. */
TEST_CASE(a_full_inbox_takes_no_more)
{
    struct http_balancer *b = balancer_new(2, ENOUGH);
    int handed_over = 0;
    while (http_balancer_count(b, 0) <= http_balancer_count(b, 1) + 1) {
        handed_over += place(b, 0, &none);
        assert_int_equal(http_balancer_count(b, 1), handed_over);
        assert_true(handed_over < ENOUGH);
    }
    empty_inboxes(b, 2);
    assert_true(place(b, 0, &none));
    http_balancer_free(b);
}

TEST_CASE(what_no_server_has_room_for_is_passed_once_to_each)
{
    struct http_balancer *b = balancer_new(3, 0);
    struct http_accepted taken[CONNECTIONS];
    struct http_accepted passed = {.fd = -2, .peer.bytes = {1}};
    for (int self = 1; self < 3; self++) {
        int next = (self + 1) % 3;
        assert_false(http_balancer_reserve(b));
        assert_true(http_balancer_pass(b, self, &passed));
        assert_int_equal(http_balancer_receive(b, next, taken, CONNECTIONS), 1);
        assert_int_equal(taken[0].fd, passed.fd);
        assert_memory_equal(&taken[0].peer, &passed.peer, sizeof passed.peer);
        passed = taken[0];
    }
    assert_false(http_balancer_pass(b, 0, &passed));
    assert_int_equal(http_balancer_total(b), 0);
    http_balancer_free(b);
}

/* ---- threads ---- */

enum { THREADS = 4, OF_EACH = 500 };

struct acceptor {
    struct http_balancer *balancer;
    pthread_barrier_t *start;
    int self;
};

static void accept_at_once(struct http_balancer *b, void *(*accept)(void *arg))
{
    struct acceptor acceptor[THREADS];
    pthread_t thread[THREADS];
    pthread_barrier_t start;
    assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        acceptor[i] = (struct acceptor){b, &start, i};
        assert_int_equal(pthread_create(&thread[i], NULL, accept, &acceptor[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    (void)pthread_barrier_destroy(&start);
}

static void *reserve_many(void *arg)
{
    const struct acceptor *a = arg;
    (void)pthread_barrier_wait(a->start);
    for (int i = 0; i < OF_EACH; i++)
        if (http_balancer_reserve(a->balancer))
            (void)http_balancer_place(a->balancer, a->self, &none);
    return NULL;
}

TEST_CASE(connections_accepted_at_the_same_time_keep_the_limit)
{
    struct http_balancer *b = balancer_new(THREADS, OF_EACH);
    accept_at_once(b, reserve_many);
    assert_int_equal(http_balancer_total(b), OF_EACH);
    http_balancer_free(b);
}
