/*
 * The rate limit under every kind of interleaving: threads that take turns, and may lose theirs before each
 * atomic operation of api/rate_limit.c. A seed decides, so that every run is the same on any number of
 * processors, and thousands of races happen that parallel threads meet once in a while.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* --- turns --- */

static void may_lose_turn(void);

#undef atomic_load
#undef atomic_store
#undef atomic_fetch_or
#undef atomic_fetch_add
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_strong
#define atomic_load(p)         (may_lose_turn(), atomic_load_explicit(p, memory_order_seq_cst))
#define atomic_store(p, v)     (may_lose_turn(), atomic_store_explicit(p, v, memory_order_seq_cst))
#define atomic_fetch_or(p, v)  (may_lose_turn(), atomic_fetch_or_explicit(p, v, memory_order_seq_cst))
#define atomic_fetch_add(p, v) (may_lose_turn(), atomic_fetch_add_explicit(p, v, memory_order_seq_cst))
#define atomic_compare_exchange_strong(p, e, v) \
    (may_lose_turn(),                           \
     atomic_compare_exchange_strong_explicit(p, e, v, memory_order_seq_cst, memory_order_seq_cst))
#define atomic_compare_exchange_weak atomic_compare_exchange_strong

#include "api/rate_limit.c" /* NOLINT(bugprone-suspicious-include): in place of the library's */

#include "unit/check.h"

enum { THREADS = 3, NOBODY = -1 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved[THREADS];
    int turn;           /* whose it is; the rest belongs to that thread */
    bool done[THREADS]; /* with this round */
    uint64_t seed;
} schedule;

static _Thread_local int self = NOBODY;

static uint32_t pick(uint32_t n)
{
    return check_random(&schedule.seed) % n;
}

/* Gives the turn to a thread, unless that is NOBODY, and waits until it is back, if it has to be. */
static void pass_turn(int to, bool wait)
{
    (void)pthread_mutex_lock(&schedule.lock);
    if (to != NOBODY) {
        schedule.turn = to;
        (void)pthread_cond_signal(&schedule.moved[to]);
    }
    while (wait && schedule.turn != self)
        (void)pthread_cond_wait(&schedule.moved[self], &schedule.lock);
    (void)pthread_mutex_unlock(&schedule.lock);
}

/* A thread that is not done; NOBODY when all are. */
static int pick_thread(void)
{
    int first = (int)pick(THREADS);
    for (int i = 0; i < THREADS; i++)
        if (!schedule.done[(first + i) % THREADS])
            return (first + i) % THREADS;
    return NOBODY;
}

static void may_lose_turn(void)
{
    if (self == NOBODY || pick(4) != 0)
        return;
    int to = pick_thread();
    if (to != self)
        pass_turn(to, true);
}

/* --- rounds --- */

enum { ROUNDS = 1500, CALLS = 6, KEYS_MAX = 2 * ROUNDS, BURST = 4 };

static const uint64_t INTERVAL = 250000000;

static struct {
    struct rate_limit *limit;
    bool keys_are_new; /* in each round; otherwise they are more than there are buckets */
    uint32_t skew;     /* a call's time is up to this much earlier than the round's */
    uint32_t round;
    uint32_t granted[KEYS_MAX];
    uint32_t wrong; /* keys that were granted something else than the policy says */
    uint32_t uncounted;
} races;

static uint64_t time_of(uint32_t round)
{
    return (round + 1) * INTERVAL * BURST;
}

static void call_once(void)
{
    struct digest key = {0};
    uint32_t number = races.keys_are_new ? races.round * 2 + pick(2) : pick(RATE_LIMIT_WAYS + 2);
    uint64_t now = time_of(races.round) - (races.skew > 0 ? pick(races.skew) : 0);
    memcpy(key.bytes, &number, sizeof number);
    enum rate_outcome outcome = rate_limit_count(races.limit, &key, true, now).outcome;
    races.granted[number] += outcome == RATE_GRANTED;
    races.uncounted += outcome == RATE_UNCOUNTED;
}

static void end_round(void)
{
    uint64_t most = BURST + (races.keys_are_new ? 0 : time_of(races.round) / INTERVAL);
    for (uint32_t key = 0; key < KEYS_MAX; key++)
        races.wrong += races.granted[key] > most;
    memset(schedule.done, 0, sizeof schedule.done);
    races.round++;
}

/* The last thread of a round begins the next one. */
static void *run_rounds(void *arg)
{
    self = *(int *)arg;
    pass_turn(NOBODY, true);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CALLS; i++)
            call_once();
        schedule.done[self] = true;
        int next = pick_thread();
        if (next == NOBODY)
            end_round();
        else
            pass_turn(next, true);
    }
    schedule.done[self] = true;
    pass_turn(pick_thread(), false);
    return NULL;
}

static void run(const char *policy, bool keys_are_new, uint32_t skew)
{
    pthread_t thread[THREADS];
    int number[THREADS];
    struct rate_policy p = {0};
    assert_null(rate_policy_parse(span_of(policy), &p));
    memset(&races, 0, sizeof races);
    races.limit = rate_limit_new(&p, 1, 0);
    races.keys_are_new = keys_are_new;
    races.skew = skew;
    assert_non_null(races.limit);
    memset(schedule.done, 0, sizeof schedule.done);
    schedule.turn = 0;
    schedule.seed = 42;
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        assert_int_equal(pthread_create(&thread[i], NULL, run_rounds, &number[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    rate_limit_free(races.limit);
    assert_int_equal(races.round, ROUNDS);
    assert_int_equal(races.wrong, 0);
}

static int setup(void **state)
{
    (void)state;
    (void)pthread_mutex_init(&schedule.lock, NULL);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_cond_init(&schedule.moved[i], NULL);
    return 0;
}

TEST_GROUP(setup, NULL)

/* Two keys in each round, whose first requests race for buckets that others leave. */
TEST_CASE(new_key_never_gets_two_buckets)
{
    run("4/s", true, 0);
    assert_int_equal(races.uncounted, 0);
    uint32_t granted = 0;
    for (uint32_t key = 0; key < KEYS_MAX; key++)
        granted += races.granted[key];
    assert_true(granted > BURST * ROUNDS); /* mostly the burst of both */
}

/* More keys than buckets, by clocks that are up to a second apart. */
TEST_CASE(keys_never_exceed_the_policy_while_buckets_change_hands)
{
    run("4/s", false, 1000000000);
    assert_true(races.uncounted > 0);
}
