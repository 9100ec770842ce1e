/*
 * How long others wait while channeld is attacked, and while this machine's nginx is attacked in the same
 * way. No test: bench/attacked --beside-nginx runs it and reads what it prints.
 */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "hostile/crowd.h"
#include "hostile/nginx.h"
#include "hostile/witness.h"
#include "support/fixture.h"
#include "support/net.h"

enum { TIMEOUT_MS = 4000, FOR_MS = 2000, MEGABYTE = 1000000, THIRD_OF_PAGE = 4000 };

static void connect_and_leave(int port)
{
    enum { VISITORS = 15000 };
    const struct linger now = {.l_onoff = 1};
    for (int i = 0; i < VISITORS; i++) {
        struct http_conn conn;
        assert_int_equal(http_open(&conn, port), 0);
        if (i % 2 == 0)
            (void)setsockopt(conn.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        http_close(&conn);
    }
}

/* The request again and again, as often as it fits into a megabyte; owned. */
static char *megabyte_of_requests(const char *path, size_t *length)
{
    char *request = http_format("GET", path, FIXTURE_AUTH);
    size_t each = strlen(request);
    *length = MEGABYTE / each * each;
    char *all = text_repeat(' ', *length);
    for (size_t at = 0; at < *length; at += each)
        memcpy(all + at, request, each);
    free(request);
    return all;
}

static void pipeline_without_end(int port)
{
    enum { PIPELINERS = 64 };
    struct crowd crowd;
    size_t length = 0;
    char *all = megabyte_of_requests("/api/channel/by-id/0/", &length);
    crowd_open(&crowd, port, PIPELINERS, 0);
    for (int64_t until = wait_now_ms() + FOR_MS; wait_now_ms() < until;)
        crowd_pump(&crowd, all, length);
    crowd_close(&crowd);
    free(all);
}

static void pipeline_pages_and_never_read(int port)
{
    enum { GREEDY = 100 };
    struct crowd crowd;
    size_t length = 0;
    char *all = megabyte_of_requests("/api/channels/", &length);
    crowd_open(&crowd, port, GREEDY, 4096);
    for (int64_t until = wait_now_ms() + FOR_MS; wait_now_ms() < until;) {
        crowd_send(&crowd, all, length);
        (void)crowd_watch(&crowd, 0, NULL, 0, 0);
    }
    crowd_close(&crowd);
    free(all);
}

static void connect_and_say_nothing(int port)
{
    enum { SILENT = 10000 };
    struct crowd crowd;
    crowd_open(&crowd, port, SILENT, 0);
    (void)crowd_watch(&crowd, 0, NULL, 0, 2 * TIMEOUT_MS);
    crowd_close(&crowd);
}

static void drip_heads(int port)
{
    enum { DRIPPING = 600, INTERVAL_MS = 100 };
    static const char head[] = "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nX: ";
    struct crowd crowd;
    crowd_open(&crowd, port, DRIPPING, 0);
    crowd_send(&crowd, head, sizeof head - 1);
    (void)crowd_watch(&crowd, 408, "x", INTERVAL_MS, TIMEOUT_MS + FOR_MS);
    crowd_close(&crowd);
}

static const struct attack {
    const char *name;
    void (*run)(int port);
} attacks[] = {
    {"connect_and_leave", connect_and_leave},
    {"pipeline_without_end", pipeline_without_end},
    {"pipeline_pages_and_never_read", pipeline_pages_and_never_read},
    {"connect_and_say_nothing", connect_and_say_nothing},
    {"drip_heads", drip_heads},
};

static void attack_one(const struct attack *attack, const char *server, int port, pid_t pid)
{
    struct witness *witness = witness_new(port, pid);
    struct witness_view calm = witness_look_long(witness);
    attack->run(port);
    struct witness_view attacked = witness_look(witness);
    witness_free(witness);
    print_message("attacked %s %s %d %d %d %d %d\n", attack->name, server, calm.p50_us, attacked.p50_us,
                  calm.p99_us, attacked.p99_us, attacked.failures);
}

static void take_descriptors(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* With the timeouts of start() and pages as long as channeld's. A connection may ask for ever. */
static void start_nginx_beside(struct nginx *nginx, pid_t channeld)
{
    cpu_set_t cpus;
    char *third = text_repeat('x', THIRD_OF_PAGE); /* nginx takes no longer text */
    char *settings = text_printf("client_header_timeout 4s; client_body_timeout 4s; send_timeout 2s;"
                                 "keepalive_requests 1000000000;"
                                 "location /api/channels/ { set $t \"%s\"; return 200 \"$t$t$t\"; }",
                                 third);
    nginx_start(nginx, settings);
    assert_int_equal(sched_getaffinity(channeld, sizeof cpus, &cpus), 0);
    assert_int_equal(sched_setaffinity(nginx->process.pid, sizeof cpus, &cpus), 0);
    free(settings);
    free(third);
}

static void attack_both(void **state)
{
    struct fixture *fixture = *state;
    struct nginx nginx;
    take_descriptors();
    start_nginx_beside(&nginx, fixture->server.process.pid);
    for (size_t i = 0; i < TEST_COUNT(attacks); i++) {
        attack_one(&attacks[i], "channeld", fixture->server.port, fixture->server.process.pid);
        attack_one(&attacks[i], "nginx", nginx.port, nginx.process.pid);
    }
    nginx_stop(&nginx);
}

static int start(void **state)
{
    static const char *const env[] = {"CHANNELD_HEADER_TIMEOUT=4s", "CHANNELD_WRITE_TIMEOUT=2s",
                                      "CHANNELD_ACCESS_LOG=off", NULL};
    *state = fixture_new(300, env);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(attack_both)};
    return cmocka_run_group_tests(tests, start, fixture_teardown);
}
