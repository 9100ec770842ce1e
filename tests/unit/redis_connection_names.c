/*
 * Names that take their time: the look-up outlives the attempt, or the connection itself, and harms neither.
 * Redis' own name, and that of a Sentinel.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "unit/redis_fake.h"

static const char NAME[] = "localhost";

static struct fake redis;
static struct fake sentinel;
static char truth[64]; /* where Redis is, as the Sentinel says it */
static atomic_int look_ups;
static atomic_bool held;   /* the next look-ups wait at the gate */
static atomic_int waiting; /* look-ups at the gate */
static sem_t gate;
static atomic_int unknown; /* so many look-ups find nothing */

/* In libc's place: the real one, when the gate opens. (hiredis has it read addresses as well.) */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *req, struct addrinfo **pai)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    bool is_name = strcmp(name, NAME) == 0;
    look_ups += is_name;
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
    session_begin_by_sentinel(&redis, &sentinel, NAME, truth);
}

static void end_by_sentinel(void)
{
    session_end();
    session.other = NULL;
    fake_fini(&sentinel);
}

static void open_gate(int times)
{
    held = false;
    for (int i = 0; i < times; i++)
        (void)sem_post(&gate);
    while (waiting > 0) /* the next test makes the gate anew */
        sched_yield();
}

TEST(a_look_up_that_outlives_its_attempt_is_waited_for)
{
    begin(true);
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total == 1);
    session_turn_for(2 * REDIS_CONNECTION_BACKOFF_MIN_MS); /* the next attempts find it under way */
    assert_int_equal(look_ups, 1);
    open_gate(1);
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(look_ups, 2); /* what came too late was not taken for an answer */
    session_end();
}

/* The session's end asserts that it is closed then, and that nothing is left on the loop. */
static void close_during_look_up(void)
{
    session_connect();
    SESSION_UNTIL(look_ups == 1);
    session_close();
    SESSION_UNTIL(session.closed == 1);
}

TEST(closing_does_not_wait_for_a_look_up)
{
    begin(true);
    close_during_look_up();
    session_end();
    open_gate(1);
}

TEST(a_name_that_is_not_known_is_asked_for_again)
{
    begin(false);
    unknown = 2;
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(look_ups, 3);
    assert_true(session.metrics.redis_disconnects_total >= 2);
    session_end();
}

/* The next attempt waits for it, and takes what it finds, so that a slow name is found in the end. */
TEST(a_sentinels_name_that_takes_longer_than_an_attempt_is_found)
{
    begin_by_sentinel(true);
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total == 2);
    assert_int_equal(look_ups, 1);
    assert_int_equal(sentinel.accepted, 0);
    open_gate(1);
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(look_ups, 1);
    end_by_sentinel();
}

TEST(closing_does_not_wait_for_the_look_up_of_a_sentinel)
{
    begin_by_sentinel(true);
    close_during_look_up();
    end_by_sentinel();
    open_gate(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_look_up_that_outlives_its_attempt_is_waited_for),
        cmocka_unit_test(a_name_that_is_not_known_is_asked_for_again),
        cmocka_unit_test(closing_does_not_wait_for_a_look_up),
        cmocka_unit_test(a_sentinels_name_that_takes_longer_than_an_attempt_is_found),
        cmocka_unit_test(closing_does_not_wait_for_the_look_up_of_a_sentinel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
