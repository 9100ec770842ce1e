/* Looking names up: those that exist, those that do not, addresses that are none, and one that hangs. */
#include <dlfcn.h>
#include <netdb.h>
#include <semaphore.h>

#include "redis/resolver.h"
#include "support/text.h"
#include "unit/check.h"
#include "unit/fixtures/cache_clock.h"

#define MANY    "many.example"
#define HANGING "hanging.example"

enum { MANY_SIZE = RESOLVE_ADDRESSES_MAX + 3 };

static uv_loop_t loop;
static struct resolver resolver;
static int calls;
static const char *result;
static sem_t begun, release; /* of the look-ups that hang: each posts and waits once, even after its test */

/* One of many addresses; borrowed until the next call. */
static const char *member(int n)
{
    static char text[32];
    (void)snprintf(text, sizeof text, "127.0.0.%d", n);
    return text;
}

typedef int look_up(const char *name, const char *service, const struct addrinfo *req, struct addrinfo **pai);

static int look_up_many(look_up *real, const struct addrinfo *req, struct addrinfo **pai)
{
    int err = 0;
    struct addrinfo **last = pai;
    for (int i = 1; i <= MANY_SIZE && err == 0; i++) {
        err = real(member(i), NULL, req, last);
        if (err == 0)
            last = &(*last)->ai_next;
    }
    return err;
}

/* In libc's place: knows two names more. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *req, struct addrinfo **pai)
{
    look_up *real = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (strcmp(name, HANGING) == 0) {
        (void)sem_post(&begun);
        while (sem_wait(&release) != 0)
            continue;
        return real("127.0.0.1", NULL, req, pai);
    }
    return strcmp(name, MANY) == 0 ? look_up_many(real, req, pai) : real(name, service, req, pai);
}

static void on_done(void *arg, const char *error)
{
    assert_ptr_equal(arg, &calls);
    assert_null(resolver.query);
    calls++;
    result = error;
}

static int make_semaphores(void **state)
{
    (void)state;
    return sem_init(&begun, 0, 0) == 0 && sem_init(&release, 0, 0) == 0 ? 0 : -1;
}

TEST_GROUP(make_semaphores, NULL)

static void begin(void)
{
    clock_ms = 1;
    calls = 0;
    result = "not called";
    resolver = (struct resolver){.query = NULL};
    assert_int_equal(uv_loop_init(&loop), 0);
}

static void end(void)
{
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void start(const char *host)
{
    resolver_start(&resolver, &loop, host, on_done, &calls);
}

static bool has_address(const char *text)
{
    for (int i = 0; i < resolver.count; i++)
        if (strcmp(resolver.address[i], text) == 0)
            return true;
    return false;
}

TEST_CASE(look_up_of_localhost)
{
    begin();
    start("localhost");
    assert_non_null(resolver.query);
    assert_int_equal(calls, 0);
    end();
    assert_int_equal(calls, 1);
    assert_null(result);
    assert_true(resolver.count >= 1);
    assert_true(has_address("127.0.0.1") || has_address("::1"));
}

TEST_CASE(look_up_replaces_earlier_addresses)
{
    begin();
    start(MANY);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(resolver.count, RESOLVE_ADDRESSES_MAX);
    start("::1");
    end();
    assert_int_equal(calls, 2);
    assert_int_equal(resolver.count, 1);
    assert_string_equal(resolver.address[0], "::1");
}

TEST_CASE(look_up_keeps_the_first_addresses)
{
    begin();
    start(MANY);
    end();
    assert_null(result);
    assert_int_equal(resolver.count, RESOLVE_ADDRESSES_MAX);
    assert_string_equal(resolver.address[0], "127.0.0.1");
    for (int i = 1; i <= MANY_SIZE; i++)
        assert_int_equal(has_address(member(i)), i <= RESOLVE_ADDRESSES_MAX);
}

/* Without its interface, the address of a link cannot be connected to. */
TEST_CASE(zone_of_an_address_is_kept)
{
    begin();
    start("fe80::1%lo");
    end();
    assert_null(result);
    assert_int_equal(resolver.count, 1);
    assert_string_equal(resolver.address[0], "fe80::1%lo");
}

TEST_CASE(unknown_name_is_an_error)
{
    begin();
    start("no-such-name.invalid");
    end();
    assert_int_equal(calls, 1);
    assert_non_null(result);
    assert_int_equal(resolver.count, 0);
}

TEST_CASE(invalid_name_is_an_error)
{
    char name[2000];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    begin();
    start(name);
    end();
    assert_true(calls == 1 && result != NULL);
    assert_null(resolver.query);
}

/* The loop is closed while the look-up still hangs; that one finds its resolver gone when it returns. */
TEST_CASE(cancel_does_not_wait_for_a_look_up)
{
    begin();
    resolver_cancel(&resolver); /* nothing is under way: harmless */
    start(HANGING);
    assert_int_equal(sem_wait(&begun), 0);
    resolver_cancel(&resolver);
    assert_null(resolver.query);
    end();
    assert_int_equal(calls, 0);
    (void)sem_post(&release);
    begin();
    start("localhost");
    end();
    assert_int_equal(calls, 1);
}

static void start_and_leave(const char *host)
{
    start(host);
    resolver_leave(&resolver);
}

/* The look-up of HANGING, which was left, ends now. Nobody has begun another one. */
static void expect_joined(void)
{
    (void)sem_post(&release);
    start(HANGING);
    while (calls == 0)
        assert_int_equal(uv_run(&loop, UV_RUN_ONCE), 1);
    assert_true(has_address("127.0.0.1"));
    assert_int_equal(sem_trywait(&begun), -1);
    resolver_cancel(&resolver);
    end();
    assert_int_equal(calls, 1);
}

TEST_CASE(look_up_that_was_left_is_joined)
{
    begin();
    start_and_leave(HANGING);
    assert_int_equal(sem_wait(&begun), 0);
    start(HANGING);
    (void)sem_post(&release);
    end();
    assert_int_equal(calls, 1);
    assert_true(has_address("127.0.0.1"));
    assert_int_equal(sem_trywait(&begun), -1); /* no other one has begun */
}

/* It has ended, and nobody waited for it. */
static void begin_with_kept_result(void)
{
    begin();
    start_and_leave(HANGING);
    assert_int_equal(sem_wait(&begun), 0);
    (void)sem_post(&release);
    assert_int_equal(uv_run(&loop, UV_RUN_ONCE), 1); /* the handle of the result is open */
    assert_int_equal(calls, 0);
}

TEST_CASE(result_that_nobody_waited_for_is_kept)
{
    begin_with_kept_result();
    clock_ms += RESOLVER_KEPT_MS - 1;
    start(HANGING);
    assert_int_equal(calls, 1);
    assert_true(has_address("127.0.0.1"));
    end();
    assert_int_equal(sem_trywait(&begun), -1);
}

TEST_CASE(old_result_is_not_used)
{
    begin_with_kept_result();
    clock_ms += RESOLVER_KEPT_MS;
    start_and_leave(HANGING);
    assert_int_equal(sem_wait(&begun), 0); /* another look-up */
    (void)sem_post(&release);
    resolver_cancel(&resolver);
    end();
    assert_int_equal(calls, 0);
}

TEST_CASE(result_for_another_name_is_not_used)
{
    begin_with_kept_result();
    start("127.0.0.2");
    assert_true(calls == 1 && has_address("127.0.0.2") && resolver.count == 1);
    start(HANGING); /* it is kept all the same */
    assert_true(calls == 2 && has_address("127.0.0.1") && resolver.count == 1);
    end();
}

/* Two names are tried in turn, each for less time than its look-up takes. */
TEST_CASE(look_ups_of_several_names_are_left_and_joined)
{
    begin();
    for (int i = 0; i < 3; i++) {
        start_and_leave(HANGING);
        start_and_leave("localhost");
    }
    assert_int_equal(sem_wait(&begun), 0);
    expect_joined();
}

TEST_CASE(only_the_latest_look_ups_are_left)
{
    begin();
    start_and_leave(HANGING);
    assert_int_equal(sem_wait(&begun), 0);
    for (int i = 0; i < RESOLVER_LEFT_MAX; i++)
        start_and_leave(text_temp("name%d.invalid", i));
    (void)sem_post(&release);
    start_and_leave(HANGING);
    assert_int_equal(sem_wait(&begun), 0); /* begun anew */
    (void)sem_post(&release);
    resolver_cancel(&resolver);
    end();
    assert_int_equal(calls, 0);
}

/* A look-up that is joined leaves a free place, which it takes again. */
TEST_CASE(look_up_that_is_left_again_costs_no_other)
{
    begin();
    start_and_leave(HANGING);
    assert_int_equal(sem_wait(&begun), 0);
    for (int i = 1; i < RESOLVER_LEFT_MAX; i++)
        start_and_leave(text_temp("name%d.invalid", i));
    for (int i = 0; i < RESOLVER_LEFT_MAX; i++)
        start_and_leave("name1.invalid");
    expect_joined();
}

TEST_CASE(failure_that_nobody_waited_for_is_not_kept)
{
    begin();
    start_and_leave("no-such-name.invalid");
    assert_int_equal(uv_run(&loop, UV_RUN_ONCE), 1);
    start("no-such-name.invalid");
    assert_int_equal(calls, 0); /* looked up again */
    end();
    assert_true(calls == 1 && result != NULL);
}

/* One that has ended already, but has not been told of. */
TEST_CASE(cancel_at_any_moment)
{
    enum { ROUNDS = 50 };
    for (int i = 0; i < ROUNDS; i++) {
        begin();
        start("localhost");
        uv_sleep((unsigned)i % 3);
        resolver_cancel(&resolver);
        end();
        assert_int_equal(calls, 0);
    }
}

TEST_CASE(numeric_addresses_need_no_look_up)
{
    static const char *const numeric[] = {"127.0.0.1",
                                          "0.0.0.0",
                                          "::1",
                                          "::",
                                          "fe80::1",
                                          "::ffff:1.2.3.4",
                                          "1111:2222:3333:4444:5555:6666:7777:8888"};
    static const char *const names[] = {"",           "localhost",   "127.1", "1",
                                        "127.0.0.1.", "127.0.0.256", "[::1]", "::g",
                                        "fe80::1%lo", "0x7f.0.0.1"};
    begin();
    for (size_t i = 0; i < TEST_COUNT(numeric); i++) {
        start(numeric[i]);
        assert_int_equal(calls, i + 1);
        assert_null(result);
        assert_int_equal(resolver.count, 1);
        assert_string_equal(resolver.address[0], numeric[i]);
    }
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        start(names[i]);
        assert_non_null(resolver.query);
        resolver_cancel(&resolver);
    }
    end();
}
