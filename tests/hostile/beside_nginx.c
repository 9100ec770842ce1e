/*
 * channeld beside this machine's nginx: the responses to malformed requests, and the latency of other clients
 * under abuse. Comparisons, not tests: tests/hostile/beside-nginx prints the first, bench/attacked
 * --beside-nginx the second.
 */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostile/monitor.h"
#include "support/malformed.h"
#include "support/net.h"
#include "support/process.h"
#include "support/tempdir.h"

FIXTURE(300, "CHANNELD_HEADER_TIMEOUT=4s", "CHANNELD_WRITE_TIMEOUT=2s", "CHANNELD_ACCESS_LOG=off", NULL)

/* ---- nginx ---- */

/* One process of it; every path is answered with 200. */
struct nginx {
    struct tempdir dir;
    struct process process;
    int port;
};

/* X-Request-Id is echoed as channeld does, so that responses can be distinguished. */
static const char configuration[] = "daemon off;\n"
                                    "master_process off;\n"
                                    "user root;\n"
                                    "pid nginx.pid;\n"
                                    "error_log stderr;\n"
                                    "worker_rlimit_nofile 20000;\n"
                                    "events { worker_connections 16000; }\n"
                                    "http {\n"
                                    "  access_log off;\n"
                                    "  client_body_temp_path body;\n"
                                    "  proxy_temp_path proxy;\n"
                                    "  fastcgi_temp_path fastcgi;\n"
                                    "  uwsgi_temp_path uwsgi;\n"
                                    "  scgi_temp_path scgi;\n"
                                    "  server {\n"
                                    "    listen 127.0.0.1:%d backlog=4096;\n"
                                    "    %s\n"
                                    "    location / {\n"
                                    "      add_header X-Request-Id $http_x_request_id always;\n"
                                    "      return 200 \"{}\";\n"
                                    "    }\n"
                                    "  }\n"
                                    "}\n";

static bool nginx_is_listening(void *arg)
{
    struct nginx *nginx = arg;
    return !process_is_running(&nginx->process) || net_is_listening(nginx->port);
}

static void nginx_stop(struct nginx *nginx)
{
    process_kill(&nginx->process);
    tempdir_fini(&nginx->dir);
}

/* Starts one and waits until it listens. `settings` of its server, or "" for the defaults. */
static void nginx_start(struct nginx *nginx, const char *settings)
{
    memset(nginx, 0, sizeof *nginx);
    tempdir_init(&nginx->dir);
    nginx->port = net_reserve_port();
    AUTOFREE char *path = text_printf("%s/nginx.conf", nginx->dir.path);
    AUTOFREE char *text = text_printf(configuration, nginx->port, settings);
    const char *argv[] = {"nginx", "-e", "stderr", "-p", nginx->dir.path, "-c", path, NULL};
    struct process_spec spec = {.name = "nginx", .dir = nginx->dir.path, .argv = argv};
    assert_true(text_write_file(path, text));
    process_start(&nginx->process, &spec);
    bool listens = wait_until(nginx_is_listening, nginx, WAIT_DEADLINE_MS);
    if (listens && process_is_running(&nginx->process))
        return;
    AUTOFREE char *errors = process_stderr(&nginx->process);
    print_error("%s", errors);
    nginx_stop(nginx);
    fail_msg("nginx does not start");
}

/* ---- malformed requests ---- */

static void print_row(int ours, int theirs, const struct shape *shape)
{
    AUTOFREE char *channeld = shape_send(ours, shape, SIZE_MAX);
    AUTOFREE char *nginx = shape_send(theirs, shape, SIZE_MAX);
    const char *mark = strcmp(channeld, shape->expected) == 0 ? "" : " (!)";
    (void)printf("| %s | %s%s | %s |\n", shape->name, channeld, mark, nginx);
}

TEST_CASE(malformed_requests)
{
    struct fixture *fixture = *state;
    struct nginx nginx;
    nginx_start(&nginx, "");
    (void)printf("| shape | channeld | nginx |\n|---|---|---|\n");
    for (size_t i = 0; shape_lists[i] != NULL; i++) {
        for (const struct shape *shape = shape_lists[i]; shape->name != NULL; shape++)
            print_row(fixture->server.port, nginx.port, shape);
    }
    nginx_stop(&nginx);
}

/* ---- latency under abuse ---- */

enum { MEGABYTE = 1000000, TIMEOUT_MS = 4000, FOR_MS = 2000, THIRD_OF_PAGE = 4000 };

static void connect_and_leave(int port)
{
    enum { VISITORS = 15000 };
    http_connect_and_leave(port, VISITORS);
}

static void pipeline(struct http_pool *pool, const char *path,
                     void (*send)(struct http_pool *, const char *, size_t))
{
    AUTOFREE char *request = http_format("GET", path, FIXTURE_AUTH);
    AUTOFREE char *all = text_fill(request, MEGABYTE);
    http_pool_keep_sending(pool, send, all, strlen(all), FOR_MS);
    http_pool_close(pool);
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
    AUTO(http_pool_close) struct http_pool pool;
    http_pool_open(&pool, port, SILENT, 0);
    (void)http_pool_await_end(&pool, 0, NULL, 0, 2 * TIMEOUT_MS);
}

static void drip_heads(int port)
{
    enum { DRIPPING = 600, INTERVAL_MS = 100 };
    static const char head[] = "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nX: ";
    AUTO(http_pool_close) struct http_pool pool;
    http_pool_open(&pool, port, DRIPPING, 0);
    http_pool_send(&pool, head, sizeof head - 1);
    (void)http_pool_await_end(&pool, 408, "x", INTERVAL_MS, TIMEOUT_MS + FOR_MS);
}

static const struct abuse {
    const char *name;
    void (*run)(int port);
} abuses[] = {{"connect_and_leave", connect_and_leave},
              {"pipeline_without_end", pipeline_without_end},
              {"pipeline_pages_and_never_read", pipeline_pages_and_never_read},
              {"connect_and_say_nothing", connect_and_say_nothing},
              {"drip_heads", drip_heads}};

static void run_abuse(const struct abuse *abuse, const char *server, int port, pid_t pid)
{
    struct monitor *monitor = monitor_new(port, pid);
    struct monitor_view calm = monitor_measure(monitor);
    abuse->run(port);
    struct monitor_view abused = monitor_read(monitor);
    monitor_free(monitor);
    print_message("attacked %s %s %d %d %d %d %d\n", abuse->name, server, calm.p50_us, abused.p50_us,
                  calm.p99_us, abused.p99_us, abused.failures);
}

/* With the same timeouts as channeld, pages of the same size, and no limit of requests per connection. */
static void start_nginx_beside(struct nginx *nginx, pid_t channeld)
{
    cpu_set_t cpus;
    AUTOFREE char *third = text_repeat('x', THIRD_OF_PAGE); /* the longest text that nginx allows */
    AUTOFREE char *settings = text_printf("client_header_timeout 4s; client_body_timeout 4s; send_timeout 2s;"
                                          "keepalive_requests 1000000000;"
                                          "location /api/channels/ { set $t \"%s\"; return 200 \"$t$t$t\"; }",
                                          third);
    nginx_start(nginx, settings);
    assert_int_equal(sched_getaffinity(channeld, sizeof cpus, &cpus), 0);
    assert_int_equal(sched_setaffinity(nginx->process.pid, sizeof cpus, &cpus), 0);
}

TEST_CASE(latency_under_abuse)
{
    struct fixture *fixture = *state;
    struct nginx nginx;
    (void)process_raise_descriptor_limit();
    start_nginx_beside(&nginx, fixture->server.process.pid);
    for (size_t i = 0; i < TEST_COUNT(abuses); i++) {
        run_abuse(&abuses[i], "channeld", fixture->server.port, fixture->server.process.pid);
        run_abuse(&abuses[i], "nginx", nginx.port, nginx.process.pid);
    }
    nginx_stop(&nginx);
}
