/* The name of a server in use, which is looked up again: it moves, it rotates, it is not found. */
#include "redis/name_watch.h"

#include <dirent.h>
#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>

#include "support/text.h"
#include "unit/fixtures/clock.h"
#include "unit/fixtures/redis_fake.h"

enum { STEP_MS = 100, ROTATING_MS = 300000, AWAITED_MS = 400000 };

/*
 * The answers in turn, and then all but the first again and again: last bytes of 127.0.0.x, each address a
 * digit;
 * "" is a name that is not found.
 */
static const char *const *answers;
static atomic_int look_ups;

static const char NAME[] = "redis.moving.test";

static struct name_watch watch;
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

static int count_threads(void)
{
    int count = 0;
    DIR *threads = opendir("/proc/self/task");
    assert_non_null(threads);
    for (const struct dirent *entry = NULL; (entry = readdir(threads)) != NULL;)
        count += entry->d_name[0] != '.';
    (void)closedir(threads);
    return count;
}

/* A look-up that was left takes an answer of this test, and not of the next. */
static void await_look_ups(void)
{
    while (count_threads() > 1)
        (void)poll(NULL, 0, 1);
}

static void set_answers(const char *const *turns)
{
    answers = turns;
    look_ups = moved = 0;
}

static void on_moved(void *arg)
{
    (void)arg;
    moved++;
}

/* 127.0.0.1 is in use, by the first answer. */
static void begin(const char *const *turns)
{
    set_answers(turns);
    look_ups = 1;
    fake_open(&redis);
    session_begin(&redis, NAME);
    name_watch_init(&watch, &session.loop, "test", on_moved, NULL);
    name_watch_start(&watch, NAME, "127.0.0.1");
}

static void on_closed(void *arg)
{
    (void)arg;
    session.closed++;
}

static void end(void)
{
    session.closing = true; /* there is no connection */
    name_watch_close(&watch, on_closed, NULL);
    session_end();
    await_look_ups();
}

/* The same by a connection, which looks the name up first. */
static void begin_connected(const char *const *turns)
{
    set_answers(turns);
    fake_open(&redis);
    session_begin(&redis, NAME);
    session.on_moved = on_moved;
    session_start();
    assert_int_equal(look_ups, 1);
}

static void end_connected(void)
{
    session_end();
    await_look_ups();
    session.other = NULL;
}

/* Without a connection, whose heartbeat needs its turns, more time passes in one turn. */
static void pass(void)
{
    clock_advance(session.connection == NULL ? 10 * STEP_MS : STEP_MS);
    session_turn();
}

static void pass_for(int ms)
{
    int64_t began = wait_now_ms();
    while (wait_now_ms() - began < ms)
        pass();
}

static void await_count(atomic_int *counted, int count)
{
    int64_t began = wait_now_ms();
    while (*counted < count && wait_now_ms() - began < AWAITED_MS)
        pass();
    assert_int_equal(*counted, count);
}

TEST_CASE(name_that_moves_is_reported_after_three_answers)
{
    begin((const char *const[]){"1", "1", "1", "23", "32", "23", NULL});
    session_log(LOG_INFO);
    int64_t began = wait_now_ms();
    await_count(&look_ups, 5);
    session_turn_for(NAME_WATCH_INTERVAL_MS / 2);
    assert_int_equal(moved, 0);
    await_count(&moved, 1);
    assert_int_equal(look_ups, 6);
    assert_true(wait_now_ms() - began >= 5 * NAME_WATCH_INTERVAL_MS * 3 / 4);
    const char *log = session_logged();
    assert_non_null(strstr(log, "\"msg\":\"the name of a server in use leads to another address\","
                                "\"name\":\"redis.moving.test\",\"client\":\"test\",\"from\":\"127.0.0.1\","
                                "\"to\":\"127.0.0.2 127.0.0.3\""));
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
    pass_for(ROTATING_MS);
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
    name_watch_look(&watch);
    await_count(&moved, 1);
    assert_int_equal(look_ups, 2);
    end();
    begin((const char *const[]){"1", "1", "2", "2", "2", NULL}); /* and it decides for that answer only */
    name_watch_look(&watch);
    await_count(&look_ups, 3);
    session_turn_for(NAME_WATCH_INTERVAL_MS / 2);
    assert_int_equal(moved, 0);
    await_count(&moved, 1);
    assert_int_equal(look_ups, 5);
    end();
}

TEST_CASE(name_of_redis_in_use_is_watched)
{
    begin_connected((const char *const[]){"1", "2", NULL});
    await_count(&moved, 1);
    assert_int_equal(look_ups, 1 + NAME_WATCH_ANSWERS);
    redis_connection_look_up(session.connection);
    await_count(&moved, 2);
    assert_int_equal(look_ups, 2 + NAME_WATCH_ANSWERS);
    assert_int_equal(session.lost, 0);
    end_connected();
}

TEST_CASE(numeric_address_is_not_looked_up)
{
    look_ups = moved = 0;
    session_open(&redis);
    session.on_moved = on_moved;
    session_start();
    redis_connection_look_up(session.connection);
    pass_for(3 * NAME_WATCH_INTERVAL_MS);
    assert_int_equal(look_ups, 0);
    session_end();
    await_look_ups();
}

TEST_CASE(name_is_not_watched_where_nobody_follows_it)
{
    answers = (const char *const[]){"1", "2", NULL};
    look_ups = 0;
    fake_open(&redis);
    session_begin(&redis, NAME);
    session_start();
    pass_for(3 * NAME_WATCH_INTERVAL_MS);
    assert_int_equal(look_ups, 1);
    session_end();
    await_look_ups();
}

/* The next connection looks it up anyway. */
TEST_CASE(name_is_not_watched_without_a_connection)
{
    begin_connected((const char *const[]){"1", "2", NULL});
    fake_stop_listening(&redis);
    fake_drop_all(&redis, true);
    SESSION_UNTIL(session.lost == 1);
    pass_for(5 * NAME_WATCH_INTERVAL_MS);
    assert_int_equal(moved, 0);
    end_connected();
}

static void finish_discovered(void)
{
    SESSION_UNTIL(session.ready == 1);
    await_count(&moved, 1);
    assert_int_equal(session.lost, 0);
    assert_int_equal(look_ups, 1 + NAME_WATCH_ANSWERS);
    const char *log = session_logged();
    assert_non_null(strstr(log, "\"from\":\"127.0.0.1\",\"to\":\"127.0.0.2\""));
    end_connected();
    fake_fini(&other);
}

TEST_CASE(name_of_a_sentinel_is_watched)
{
    static char named[128];
    set_answers((const char *const[]){"1", "2", NULL});
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
    set_answers((const char *const[]){"1", "2", NULL});
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
