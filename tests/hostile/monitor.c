/* Well-behaved clients; see monitor.h. */

#include "hostile/monitor.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/fixture.h"
#include "support/footprint.h"

enum { CLIENTS = 4, PAUSE_US = 2000, SAMPLES_MAX = 1 << 20, ENOUGH = 800, ENOUGH_MAX = 100000 };

struct monitor {
    int port;
    int enough;
    atomic_bool ends;
    pthread_t thread[CLIENTS];
    pthread_mutex_t lock; /* of what follows */
    int *sample_us;
    int samples;
    int failures;
};

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void note(struct monitor *monitor, bool good, int64_t took_us)
{
    (void)pthread_mutex_lock(&monitor->lock);
    if (!good)
        monitor->failures++;
    else if (monitor->samples < SAMPLES_MAX)
        monitor->sample_us[monitor->samples++] = (int)took_us;
    (void)pthread_mutex_unlock(&monitor->lock);
}

static bool ask(struct http_conn *conn)
{
    struct http_response response;
    if (http_exchange(conn, "GET", "/api/channel/by-id/0/", FIXTURE_AUTH, &response) != 0)
        return false;
    bool good = response.status == 200;
    http_response_free(&response);
    return good;
}

static void *work(void *arg)
{
    struct monitor *monitor = arg;
    const struct timespec pause = {.tv_nsec = PAUSE_US * 1000L};
    struct http_conn conn = {.fd = -1};
    while (!atomic_load(&monitor->ends)) {
        int64_t began = now_us();
        bool good = (conn.fd >= 0 || http_open(&conn, monitor->port) == 0) && ask(&conn);
        note(monitor, good, now_us() - began);
        if (!good)
            http_close(&conn);
        nanosleep(&pause, NULL);
    }
    http_close(&conn);
    return NULL;
}

/*
 * The work of the abuser must not keep the clients from a processor: they measure the server. They run on the
 * processors of the server, with precedence where that is permitted.
 */
static void give_precedence(pthread_t thread, pid_t server)
{
    const struct sched_param first = {.sched_priority = 1};
    cpu_set_t cpus;
    if (sched_getaffinity(server, sizeof cpus, &cpus) == 0)
        (void)pthread_setaffinity_np(thread, sizeof cpus, &cpus);
    (void)pthread_setschedparam(thread, SCHED_FIFO, &first);
}

/* A benchmark sets more: the p99 of 800 depends on eight of them. */
static int enough_requests(void)
{
    const char *text = getenv("TEST_MONITOR_REQUESTS");
    long wanted = text != NULL ? strtol(text, NULL, 10) : ENOUGH;
    assert_in_range(wanted, 1, ENOUGH_MAX);
    return (int)wanted;
}

struct monitor *monitor_new(int port, pid_t pid)
{
    struct monitor *monitor = calloc(1, sizeof *monitor);
    if (monitor == NULL || (monitor->sample_us = calloc(SAMPLES_MAX, sizeof *monitor->sample_us)) == NULL)
        abort();
    monitor->port = port;
    monitor->enough = enough_requests();
    (void)pthread_mutex_init(&monitor->lock, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_create(&monitor->thread[i], NULL, work, monitor), 0);
        give_precedence(monitor->thread[i], pid);
    }
    return monitor;
}

static int compare(const void *a, const void *b)
{
    const int *left = a;
    const int *right = b;
    return (*left > *right) - (*left < *right);
}

struct monitor_view monitor_read(struct monitor *monitor)
{
    (void)pthread_mutex_lock(&monitor->lock);
    struct monitor_view view = {.requests = monitor->samples, .failures = monitor->failures};
    qsort(monitor->sample_us, (size_t)monitor->samples, sizeof *monitor->sample_us, compare);
    if (monitor->samples > 0) {
        view.p50_us = monitor->sample_us[monitor->samples / 2];
        view.p99_us = monitor->sample_us[(int64_t)monitor->samples * 99 / 100];
        view.max_us = monitor->sample_us[monitor->samples - 1];
    }
    monitor->samples = 0;
    monitor->failures = 0;
    (void)pthread_mutex_unlock(&monitor->lock);
    return view;
}

static bool has_enough(void *arg)
{
    struct monitor *monitor = arg;
    (void)pthread_mutex_lock(&monitor->lock);
    bool enough = monitor->samples + monitor->failures >= monitor->enough;
    (void)pthread_mutex_unlock(&monitor->lock);
    return enough;
}

struct monitor_view monitor_measure(struct monitor *monitor)
{
    (void)monitor_read(monitor);
    if (!wait_until(has_enough, monitor, WAIT_DEADLINE_MS))
        fail_msg("well-behaved clients get no responses");
    return monitor_read(monitor);
}

void monitor_free(struct monitor *monitor)
{
    atomic_store(&monitor->ends, true);
    for (int i = 0; i < CLIENTS; i++)
        (void)pthread_join(monitor->thread[i], NULL);
    (void)pthread_mutex_destroy(&monitor->lock);
    free(monitor->sample_us);
    free(monitor);
}

static void monitor_print(const char *when, const struct monitor_view *view)
{
    print_message("others %s: %d requests, %d failed, p50 %d us, p99 %d us, max %d us\n", when,
                  view->requests, view->failures, view->p50_us, view->p99_us, view->max_us);
}

struct monitored monitor_begin(struct fixture *fixture)
{
    struct monitored m = {.pid = fixture->server.process.pid};
    m.monitor = monitor_new(fixture->server.port, m.pid);
    m.calm = monitor_measure(m.monitor);
    m.before = footprint_of(m.pid);
    return m;
}

static bool has_one(void *arg)
{
    struct monitor *monitor = arg;
    (void)pthread_mutex_lock(&monitor->lock);
    bool one = monitor->samples + monitor->failures > 0;
    (void)pthread_mutex_unlock(&monitor->lock);
    return one;
}

struct footprint monitor_end(struct monitored *m)
{
    bool served = wait_until(has_one, m->monitor, WAIT_DEADLINE_MS);
    struct monitor_view abused = monitor_read(m->monitor);
    struct footprint after = footprint_of(m->pid);
    monitor_free(m->monitor);
    footprint_print("before", &m->before);
    footprint_print("after", &after);
    monitor_print("before", &m->calm);
    monitor_print("meanwhile", &abused);
    assert_int_equal(abused.failures, 0);
    assert_true(served);
    /* Sanitizers make all work expensive, the abuser's too. */
    int slack_ms = (footprint_is_meaningful() ? 1 : 4) * wait_slack_ms();
    if (wait_judges_latency())
        assert_in_range(abused.p99_us, 0, 2 * m->calm.p99_us + slack_ms * 1000);
    return after;
}
