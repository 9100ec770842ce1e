/*
 * How long others wait while channeld is attacked, and while this machine's nginx is attacked in the same
 * way. No test: bench/attacked --beside-nginx runs it and reads what it prints.
 */

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "hostile/attacks.h"
#include "hostile/nginx.h"
#include "hostile/witness.h"
#include "support/fixture.h"

enum { TIMEOUT_MS = 4000, FOR_MS = 2000, THIRD_OF_PAGE = 4000 };

static void connect_and_leave(int port)
{
    enum { VISITORS = 15000 };
    attack_come_and_go(port, VISITORS);
}

static void pipeline(struct http_pool *pool, const char *path,
                     void (*send)(struct http_pool *, const char *, size_t))
{
    char *request = http_format("GET", path, FIXTURE_AUTH);
    char *all = attack_megabyte_of(request);
    http_pool_keep_sending(pool, send, all, strlen(all), FOR_MS);
    http_pool_close(pool);
    free(all);
    free(request);
}

static void pipeline_without_end(int port)
{
    enum { PIPELINERS = 64 };
    struct http_pool pool;
    http_pool_open(&pool, port, PIPELINERS, 0);
    pipeline(&pool, "/api/channel/by-id/0/", http_pool_pump);
}

static void pipeline_pages_and_never_read(int port)
{
    enum { GREEDY = 100, RECEIVE_BUFFER = 4096 };
    struct http_pool pool;
    http_pool_open(&pool, port, GREEDY, RECEIVE_BUFFER);
    pipeline(&pool, "/api/channels/", http_pool_send);
}

static void connect_and_say_nothing(int port)
{
    enum { SILENT = 10000 };
    struct http_pool pool;
    http_pool_open(&pool, port, SILENT, 0);
    (void)http_pool_await_end(&pool, 0, NULL, 0, 2 * TIMEOUT_MS);
    http_pool_close(&pool);
}

static void drip_heads(int port)
{
    enum { DRIPPING = 600, INTERVAL_MS = 100 };
    static const char head[] = "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nX: ";
    struct http_pool pool;
    http_pool_open(&pool, port, DRIPPING, 0);
    http_pool_send(&pool, head, sizeof head - 1);
    (void)http_pool_await_end(&pool, 408, "x", INTERVAL_MS, TIMEOUT_MS + FOR_MS);
    http_pool_close(&pool);
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

TEST_CASE(attack_both)
{
    struct fixture *fixture = *state;
    struct nginx nginx;
    (void)attack_take_descriptors();
    start_nginx_beside(&nginx, fixture->server.process.pid);
    for (size_t i = 0; i < TEST_COUNT(attacks); i++) {
        attack_one(&attacks[i], "channeld", fixture->server.port, fixture->server.process.pid);
        attack_one(&attacks[i], "nginx", nginx.port, nginx.process.pid);
    }
    nginx_stop(&nginx);
}

FIXTURE(300, "CHANNELD_HEADER_TIMEOUT=4s", "CHANNELD_WRITE_TIMEOUT=2s", "CHANNELD_ACCESS_LOG=off", NULL)
