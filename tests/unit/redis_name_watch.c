/* The name of a server in use, which is looked up again: it moves, it rotates, it is not found. */
#include "redis/name_watch.h"

#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>

#include "support/text.h"
#include "unit/fixtures/redis_fake.h"

enum { ROTATING_MS = 60000, AWAITED_MS = 300000 };

/*
 * The answers in turn, and then all but the first again and again: last bytes of 127.0.0.x, each address a
 * digit;
 * "" is a name that is not found.
 */
static const char *const *answers;
static atomic_int look_ups;

static struct fake_redis redis;
static struct fake_redis other;
static char reply[SLOTS_SIZE];
static atomic_int moved;

static const char *next_answer(void)
{
    int at = atomic_fetch_add(&look_ups, 1);
    int count = 0;
    while (answers[count] != NULL)
        count++;
    return answers[at < count ? at : 1 + (at - count) % (count - 1)];
}

/* In libc's place: names in .test. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *req, struct addrinfo **pai)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;
    char address[] = "127.0.0.x";
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (strstr(name, ".test") == NULL)
        return real(name, service, req, pai);
    int err = EAI_AGAIN;
    for (const char *digit = next_answer(); *digit != '\0'; digit++) {
        address[strlen(address) - 1] = *digit;
        err = real(address, service, req, pai);
        if (err != 0)
            return err;
        pai = &(*pai)->ai_next;
    }
    return err;
}

static void on_moved(void *arg)
{
    (void)arg;
    moved++;
}

/* The first answer leads to 127.0.0.1, which is then in use. */
static void begin(const char *const *turns)
{
    answers = turns;
    look_ups = moved = 0;
    fake_open(&redis);
    session_begin(&redis, "redis.moving.test");
    session.on_moved = on_moved;
    session_start();
    assert_int_equal(look_ups, 1);
}

/* Lets time pass, of which the clocks of the program are made to skip most. */
static void await_count(atomic_int *counted, int count)
{
    int64_t began = session_now_ms();
    while (*counted < count && session_now_ms() - began < AWAITED_MS)
        session_turn();
    assert_int_equal(*counted, count);
}

static void end(void)
{
    session_end();
    session.other = NULL;
}

TEST_CASE(name_that_moves_is_reported_after_three_answers)
{
    begin((const char *const[]){"1", "1", "1", "23", "32", "23", NULL});
    session_log(LOG_INFO);
    int64_t began = session_now_ms();
    await_count(&look_ups, 5);
    session_turn_for(NAME_WATCH_INTERVAL_MS / 2);
    assert_int_equal(moved, 0);
    await_count(&moved, 1);
    assert_int_equal(look_ups, 6);
    assert_true(session_now_ms() - began >= 5 * NAME_WATCH_INTERVAL_MS * 3 / 4);
    const char *log = session_logged();
    assert_non_null(strstr(log, "\"msg\":\"the name of a server in use leads to another address\","
                                "\"name\":\"redis.moving.test\",\"client\":\"test\",\"from\":\"127.0.0.1\","
                                "\"to\":\"127.0.0.2 127.0.0.3\""));
    assert_int_equal(session.lost, 0);
    end();
}

/* Until its owner has replaced the connection; the log has it once. */
TEST_CASE(name_that_stays_elsewhere_is_reported_again)
{
    begin((const char *const[]){"1", "2", NULL});
    session_log(LOG_INFO);
    await_count(&moved, 3);
    const char *log = session_logged();
    assert_int_equal(text_count(log, "leads to another address"), 1);
    end();
}

/* Each answer is some of the addresses, and mostly not the one in use. */
TEST_CASE(name_that_rotates_is_not_reported)
{
    begin((const char *const[]){"1", "23", "34", "42", "23", "23", "1", "34", "34", "42", "34", NULL});
    session_turn_for(ROTATING_MS);
    assert_true(look_ups >= ROTATING_MS / (NAME_WATCH_INTERVAL_MS * 3 / 2));
    assert_int_equal(moved, 0);
    end();
}

TEST_CASE(name_that_comes_back_is_not_reported)
{
    begin((const char *const[]){"1", "2", "2", "12", "2", "2", "1", NULL});
    await_count(&look_ups, 8);
    assert_int_equal(moved, 0);
    end();
}

TEST_CASE(look_up_that_fails_changes_nothing)
{
    begin((const char *const[]){"1", "", NULL});
    await_count(&look_ups, 1 + 2 * NAME_WATCH_ANSWERS);
    assert_int_equal(moved, 0);
    assert_int_equal(session.lost, 0);
    end();
    begin((const char *const[]){"1", "2", "", "2", "", "", "2", NULL});
    await_count(&look_ups, 6);
    assert_int_equal(moved, 0);
    await_count(&moved, 1);
    assert_int_equal(look_ups, 7);
    end();
}

TEST_CASE(one_answer_is_enough_by_order)
{
    begin((const char *const[]){"1", "2", NULL});
    redis_connection_look_up(session.connection);
    await_count(&moved, 1);
    assert_int_equal(look_ups, 2);
    end();
    begin((const char *const[]){"1", "1", "2", "2", "2", NULL}); /* and it decides for that answer only */
    redis_connection_look_up(session.connection);
    await_count(&look_ups, 3);
    session_turn_for(NAME_WATCH_INTERVAL_MS / 2);
    assert_int_equal(moved, 0);
    await_count(&moved, 1);
    assert_int_equal(look_ups, 5);
    end();
}

TEST_CASE(numeric_address_is_not_looked_up)
{
    look_ups = moved = 0;
    session_open(&redis);
    session.on_moved = on_moved;
    session_start();
    redis_connection_look_up(session.connection);
    session_turn_for(3 * NAME_WATCH_INTERVAL_MS);
    assert_int_equal(look_ups, 0);
    session_end();
}

TEST_CASE(name_is_not_watched_where_nobody_follows_it)
{
    answers = (const char *const[]){"1", "2", NULL};
    look_ups = 0;
    fake_open(&redis);
    session_begin(&redis, "redis.moving.test");
    session_start();
    session_turn_for(3 * NAME_WATCH_INTERVAL_MS);
    assert_int_equal(look_ups, 1);
    session_end();
}

/* The next connection looks it up anyway. */
TEST_CASE(name_is_not_watched_without_a_connection)
{
    begin((const char *const[]){"1", "2", NULL});
    fake_stop_listening(&redis);
    fake_drop_all(&redis, true);
    SESSION_UNTIL(session.lost == 1);
    session_turn_for(5 * NAME_WATCH_INTERVAL_MS);
    assert_int_equal(moved, 0);
    end();
}

static void finish_discovered(void)
{
    SESSION_UNTIL(session.ready == 1);
    await_count(&moved, 1);
    assert_int_equal(session.lost, 0);
    assert_int_equal(look_ups, 1 + NAME_WATCH_ANSWERS);
    const char *log = session_logged();
    assert_non_null(strstr(log, "\"from\":\"127.0.0.1\",\"to\":\"127.0.0.2\""));
    end();
    fake_fini(&other);
}

TEST_CASE(name_of_a_sentinel_is_watched)
{
    static char named[128];
    answers = (const char *const[]){"1", "2", NULL};
    look_ups = moved = 0;
    fake_open(&redis);
    fake_open(&other);
    session_begin_by_sentinel(&redis, &other, "sentinel.moving.test", named);
    session.on_moved = on_moved;
    session_log(LOG_INFO);
    session_connect();
    finish_discovered();
}

/* The nodes of its answers are queried afterwards. */
TEST_CASE(name_of_the_first_node_of_a_cluster_is_watched)
{
    static char first[] = "node.moving.test";
    answers = (const char *const[]){"1", "2", NULL};
    look_ups = moved = 0;
    fake_open(&redis);
    fake_open(&other);
    slots_name(reply, "127.0.0.1", redis.port, 0);
    other.slots = reply;
    session_begin_by_cluster(&redis, &other);
    session.endpoint.discovery.at[0].host = first;
    session.on_moved = on_moved;
    session_log(LOG_INFO);
    session_connect();
    finish_discovered();
}
