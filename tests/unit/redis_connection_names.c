/*
 * Names: with look-ups that outlive the attempt, or the connection itself; and with two addresses, of which
 * the second is tried, before any pause, whatever is wrong with the first. For Redis and for a Sentinel.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "redis/locator.h"
#include "unit/fixtures/redis_fake.h"

/* --- slow names --- */

static const char NAME[] = "localhost";

enum { SECOND_LIMIT_MS = 2 * REDIS_SESSION_LIMIT_MS };

static struct fake_redis redis;
static struct fake_redis sentinel;
static char named[128]; /* the Sentinel's reply that names it */
static atomic_int look_ups;
static atomic_bool held;   /* the next look-ups wait at the gate */
static atomic_int waiting; /* look-ups at the gate */
static sem_t gate;
static atomic_int unknown; /* so many look-ups find nothing */

/* In libc's place: NAME when the gate opens; names in .example have the addresses 127.0.0.2 and 127.0.0.1. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *req, struct addrinfo **pai)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    bool is_pair = strstr(name, ".example") != NULL;
    bool is_name = strcmp(name, NAME) == 0;
    look_ups += is_name || is_pair;
    if (is_pair) {
        int err = real("127.0.0.2", service, req, pai);
        return err != 0 ? err : real("127.0.0.1", service, req, &(*pai)->ai_next);
    }
    waiting += is_name;
    if (is_name && held)
        (void)sem_wait(&gate);
    waiting -= is_name;
    if (is_name && look_ups <= unknown)
        return EAI_NONAME;
    return real(name, service, req, pai);
}

static void shut_gate(bool hold)
{
    look_ups = 0;
    unknown = 0;
    held = hold;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
}

static void begin(bool hold)
{
    shut_gate(hold);
    fake_open(&redis);
    session_begin(&redis, NAME);
}

static void begin_by_sentinel(bool hold)
{
    shut_gate(hold);
    fake_open(&redis);
    fake_open(&sentinel);
    session_begin_by_sentinel(&redis, &sentinel, NAME, named);
}

static void end_by_sentinel(void)
{
    session_end();
    session.other = NULL;
    fake_fini(&sentinel);
}

/* Connects, and returns when the look-up is at the gate. */
static void connect_held(void)
{
    session.look_ups_hang = true;
    session_connect();
    while (waiting == 0) {
        session_turn_loop();
        sched_yield();
    }
}

static void open_gate(int times)
{
    held = false;
    session.look_ups_hang = false;
    for (int i = 0; i < times; i++)
        (void)sem_post(&gate);
    while (waiting > 0) /* the next test makes the gate anew */
        sched_yield();
}

TEST_CASE(look_up_that_outlives_its_attempt_is_awaited)
{
    begin(true);
    connect_held();
    SESSION_UNTIL(session.metrics.redis_disconnects_total == 1);
    session_turn_for(2 * REDIS_SESSION_BACKOFF_MIN_MS); /* the next attempt finds it under way */
    assert_int_equal(look_ups, 1);
    open_gate(1);
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(look_ups, 1);
    session_end();
}

/* However many names are tried in turn, each look-up has time to end at last. */
TEST_CASE(look_up_has_twice_as_much_time_after_one_that_took_too_long)
{
    begin(true);
    connect_held();
    assert_in_range(session_await_failure(2), SECOND_LIMIT_MS + REDIS_SESSION_BACKOFF_MIN_MS / 2,
                    SECOND_LIMIT_MS + REDIS_SESSION_BACKOFF_MIN_MS);
    open_gate(1);
    session_end();
}

/* The session's end asserts that it is closed then, and that nothing is left on the loop. */
static void close_during_look_up(void)
{
    connect_held();
    session_close();
    SESSION_UNTIL(session.closed == 1);
}

TEST_CASE(close_does_not_wait_for_a_look_up)
{
    begin(true);
    close_during_look_up();
    session_end();
    open_gate(1);
}

TEST_CASE(unknown_name_is_looked_up_again)
{
    begin(false);
    unknown = 2;
    session_start();
    assert_int_equal(look_ups, 3);
    assert_true(session.metrics.redis_disconnects_total >= 2);
    session_end();
}

/* The next attempt waits for it, and takes what it finds, so that a slow name is found in the end. */
TEST_CASE(slow_name_of_a_sentinel_is_found)
{
    begin_by_sentinel(true);
    connect_held();
    SESSION_UNTIL(session.metrics.redis_disconnects_total == 2);
    assert_int_equal(look_ups, 1);
    assert_int_equal(sentinel.accepted, 0);
    open_gate(1);
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(look_ups, 1);
    end_by_sentinel();
}

TEST_CASE(close_does_not_wait_for_the_look_up_of_a_sentinel)
{
    begin_by_sentinel(true);
    close_during_look_up();
    end_by_sentinel();
    open_gate(1);
}

/* --- two addresses --- */

static struct fake_redis good; /* at the second address */
static struct fake_redis bad;  /* at the first */

static void begin_pair(void)
{
    look_ups = 0;
    fake_open(&good);
    fake_init(&bad);
    session_begin(&good, "redis.example");
    session.other = &bad;
}

/* Something listens at the first one, too. */
static void begin_bad_pair(void)
{
    begin_pair();
    fake_listen(&bad, "127.0.0.2", good.port);
}

static void end_pair(void)
{
    session.other = NULL;
    fake_fini(&bad);
    session_end();
}

/* Ready by the second address after that time, one failure and without a second look-up. */
static void check_second(int ms)
{
    int64_t began = wait_now_ms();
    session_start();
    assert_int_equal(wait_now_ms() - began, ms);
    assert_int_equal(good.accepted, 1);
    assert_int_equal(session.metrics.redis_disconnects_total, 1);
    assert_int_equal(session.lost, 0);
    assert_int_equal(look_ups, 1);
    end_pair();
}

TEST_CASE(first_address_refuses_the_connection)
{
    begin_pair();
    check_second(0);
}

TEST_CASE(first_address_closes_the_connection_or_refuses_the_handshake)
{
    begin_bad_pair();
    bad.close_after = 0;
    check_second(0);
    begin_bad_pair();
    bad.ping = "-LOADING Redis is loading the dataset in memory\r\n";
    check_second(0);
}

/* It is not taken for the replica at the first address, which has to catch up when it has its master again.
 */
TEST_CASE(first_address_is_a_replica_without_its_master)
{
    static const char role[] = "*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n%s\r\n:7\r\n";
    char cut_off[64];
    char linked[64];
    begin_bad_pair();
    (void)snprintf(cut_off, sizeof cut_off, role, "$7\r\nconnect");
    (void)snprintf(linked, sizeof linked, role, "$9\r\nconnected");
    bad.role = cut_off;
    good.role = linked;
    good.info = "$53\r\nmaster_link_status:up\r\nmaster_last_io_seconds_ago:0\r\n\r\n";
    check_second(0);
}

TEST_CASE(first_address_is_silent)
{
    begin_bad_pair();
    bad.mute = true;
    check_second(REDIS_SESSION_LIMIT_MS);
}

TEST_CASE(first_address_is_preferred)
{
    begin_bad_pair(); /* which is not bad this time */
    session_start();
    assert_int_equal(good.accepted, 0);
    assert_int_equal(session.metrics.redis_disconnects_total, 0);
    end_pair();
}

/* The first one names no master, so the second one is asked, at once. */
TEST_CASE(second_address_of_a_sentinel_is_asked)
{
    look_ups = 0;
    fake_open(&redis);
    fake_open(&good);
    fake_init(&bad);
    fake_listen(&bad, "127.0.0.2", good.port);
    session_begin_by_sentinel(&redis, &good, "sentinel.example", named);
    session.third = &bad;
    session_start();
    assert_int_equal(bad.accepted, 1);
    assert_int_equal(good.accepted, 1);
    assert_int_equal(look_ups, 1);
    assert_int_equal(session.metrics.redis_disconnects_total, 0);
    session_end();
    fake_fini(&good);
    fake_fini(&bad);
}

TEST_CASE(name_without_a_good_address_is_looked_up_again)
{
    begin_pair();
    fake_stop_listening(&good);
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 6);
    assert_true(look_ups >= 3);
    fake_listen(&good, "127.0.0.1", good.port);
    SESSION_UNTIL(session.ready == 1);
    end_pair();
}

/* The first address accepts, and closes each connection as soon as it is used. */
TEST_CASE(first_address_that_is_lost_as_soon_as_it_is_used_gives_way)
{
    begin_bad_pair();
    session_connect();
    for (int losses = 0; good.accepted == 0; losses++) {
        SESSION_UNTIL(session.ready > losses || good.accepted > 0);
        fake_drop_all(&bad, true);
        assert_in_range(losses, 0, 2);
    }
    SESSION_UNTIL(session.ready > session.lost);
    end_pair();
}

/* Until it is ready, `slow` leaves each connection without a reply for that time. */
static void connect_slowly(struct fake_redis *slow, int ms)
{
    enum { TIME_MS = 60000 };
    int64_t began_ms = wait_now_ms();
    int64_t since_ms = 0;
    int seen = 0;
    slow->deaf = true;
    session_connect();
    while (session.ready == 0 && wait_now_ms() - began_ms < TIME_MS) {
        session_turn();
        if (slow->accepted != seen)
            since_ms = wait_now_ms();
        seen = slow->accepted;
        slow->deaf = seen == 0 || wait_now_ms() - since_ms < ms;
    }
    assert_int_equal(session.ready, 1);
}

/* It needs longer for the handshake than the first time limit, as where all connect at once by TLS. */
TEST_CASE(slow_first_address_is_reached_although_the_second_refuses)
{
    look_ups = 0;
    fake_init(&bad);
    fake_listen(&bad, "127.0.0.2", 0); /* nothing listens at 127.0.0.1 */
    session_begin(&bad, "redis.example");
    connect_slowly(&bad, REDIS_SESSION_LIMIT_MS * 3 / 2);
    session_end();
}

TEST_CASE(slow_first_address_of_a_sentinel_is_reached_although_the_second_refuses)
{
    look_ups = 0;
    fake_open(&redis);
    fake_init(&bad);
    fake_listen(&bad, "127.0.0.2", 0);
    session_begin_by_sentinel(&redis, &bad, "sentinel.example", named);
    connect_slowly(&bad, LOCATOR_LIMIT_MS * 3 / 2);
    session_end();
    fake_fini(&bad);
}
