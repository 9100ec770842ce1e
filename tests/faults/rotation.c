/*
 * Passwords and certificates of Redis that are rotated while thousands of requests per second are served: not
 * one fails, and none is answered from a cache that Redis does not keep coherent.
 */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "faults/testbed.h"
#include "support/certs.h"
#include "support/net.h"
#include "support/secret.h"

enum {
    CLIENTS = 8,
    RATE = 5000, /* requests per second of all clients, where the machine is fast enough */
    NS_PER_S = 1000000000,
    PERIOD_NS = NS_PER_S / RATE * CLIENTS,
    SPARE_EACH = 4, /* of the requests, that one is not cached */
    PAGE_EACH = 50,
    QUICK = 10,
    MANY = 100,
    VALID_DAYS = 30,
    ARGS_MAX = 16,
};

static const char RELOADS[] = "channeld_redis_config_reloads_total{result=\"ok\"}";

/* ---- load ---- */

struct load {
    struct fixture *fixture;
    pthread_t thread[CLIENTS];
    int threads;
    atomic_bool stopping;
    atomic_llong sent, failed, slowest_ms;
    int64_t began_ms;
    pthread_mutex_t lock; /* of the next */
    char first_failed[CLIENTS_TEXT_SIZE];
};

static void note_failure(struct load *load, const char *target, int error,
                         const struct http_response *response)
{
    (void)pthread_mutex_lock(&load->lock);
    if (atomic_fetch_add(&load->failed, 1) == 0)
        (void)snprintf(load->first_failed, sizeof load->first_failed, "%s: error %d, status %d, %.120s",
                       target, error, error == 0 ? response->status : 0, error == 0 ? response->body : "");
    (void)pthread_mutex_unlock(&load->lock);
}

/* The target of the n-th request of a client and, in *body, its response. Both owned. */
static char *next_target(unsigned n, char **body)
{
    long long id = n % CATALOGUE_LISTED + 1;
    if (n % PAGE_EACH == 0) {
        *body = catalogue_version_page(1, 1);
        return text_printf("/api/channels/?page=1");
    }
    if (n % SPARE_EACH == 0) {
        AUTOFREE char *path = testbed_spare_path(&id);
        *body = catalogue_version_card(id, 1);
        return text_printf("/api/%s", path);
    }
    *body = catalogue_version_card(id, 1);
    if (n % 2 == 0)
        return text_printf("/api/channel/by-link/?link=https://web.max.ru/c%lld", id);
    return text_printf("/api/channel/by-id/%lld/", id);
}

/* Returns the error of the exchange. */
static int send_next(struct load *load, struct http_conn *conn, unsigned n)
{
    struct http_response response = {.status = 0};
    char *body = NULL;
    AUTOFREE char *target = next_target(n, &body);
    int64_t sent_ms = wait_now_ms();
    int error = http_exchange(conn, "GET", target, FIXTURE_AUTH, &response);
    long long took_ms = wait_now_ms() - sent_ms;
    if (error != 0 || response.status != 200 || strcmp(response.body, body) != 0)
        note_failure(load, target, error, &response);
    atomic_fetch_add(&load->sent, 1);
    for (long long slowest = atomic_load(&load->slowest_ms);
         took_ms > slowest && !atomic_compare_exchange_weak(&load->slowest_ms, &slowest, took_ms);) {
    }
    http_response_free(&response);
    free(body);
    return error;
}

static void sleep_until_next(struct timespec *due)
{
    due->tv_nsec += PERIOD_NS;
    if (due->tv_nsec >= NS_PER_S) {
        due->tv_nsec -= NS_PER_S;
        due->tv_sec++;
    }
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, due, NULL);
}

static void *run_client(void *arg)
{
    struct load *load = arg;
    struct timespec due;
    (void)clock_gettime(CLOCK_MONOTONIC, &due);
    for (unsigned n = 0; !atomic_load(&load->stopping);) {
        AUTO(http_close) struct http_conn conn;
        int error = http_open(&conn, load->fixture->server.port);
        while (error == 0 && !atomic_load(&load->stopping)) {
            sleep_until_next(&due);
            error = send_next(load, &conn, n++);
        }
    }
    return NULL;
}

static void load_start(struct load *load, struct fixture *fixture)
{
    load->fixture = fixture;
    load->began_ms = wait_now_ms();
    assert_int_equal(pthread_mutex_init(&load->lock, NULL), 0);
    for (; load->threads < CLIENTS; load->threads++)
        assert_int_equal(pthread_create(&load->thread[load->threads], NULL, run_client, load), 0);
}

static void load_stop(struct load *load)
{
    atomic_store(&load->stopping, true);
    while (load->threads > 0)
        (void)pthread_join(load->thread[--load->threads], NULL);
}

static void expect_no_failure(struct load *load, const char *what, int rotations)
{
    long long sent = atomic_load(&load->sent);
    long long took_ms = wait_now_ms() - load->began_ms;
    print_message(
        "%d rotations of %s: %lld requests, %lld per second, %lld failed, the slowest took %lld ms\n",
        rotations, what, sent, sent * 1000 / (took_ms + 1), atomic_load(&load->failed),
        atomic_load(&load->slowest_ms));
    if (atomic_load(&load->failed) > 0)
        fail_msg("%lld requests failed, the first: %s", atomic_load(&load->failed), load->first_failed);
}

/* ---- Redis, its secret and channeld ---- */

struct bed {
    struct redis redis;
    int tls_port;
    struct secret secret;
    struct fixture fixture;
    struct load load;
    int reloads; /* so far */
};

static struct bed *bed_new(const char *const *redis_args)
{
    struct bed *bed = calloc(1, sizeof *bed);
    if (bed == NULL)
        abort();
    redis_start(&bed->redis, redis_args);
    testbed_write(&bed->redis, 1);
    secret_init(&bed->secret);
    return bed;
}

static void serve(struct bed *bed, const char *url, const char *const *files)
{
    const char *env[ARGS_MAX] = {"CHANNELD_MAX_CONNECTION_AGE=0"};
    for (int i = 0; files[i] != NULL; i += 2)
        env[1 + i / 2] = text_temp("CHANNELD_REDIS_%s=%s", files[i], secret_path(&bed->secret, files[i + 1]));
    fixture_serve(&bed->fixture, url, env, SERVER_WAIT_READY);
    server_await_metric_below(&bed->fixture.server, "channeld_redis_config_pending", 0);
    load_start(&bed->load, &bed->fixture);
}

static int teardown(void **state)
{
    struct bed *bed = *state;
    if (bed == NULL)
        return 0;
    load_stop(&bed->load);
    fixture_fini(&bed->fixture);
    secret_fini(&bed->secret);
    redis_stop(&bed->redis);
    free(bed);
    return 0;
}

static bool has_moved(void *arg)
{
    struct bed *bed = arg;
    AUTOFREE char *metrics = server_metrics(&bed->fixture.server);
    const char *reloads = strstr(metrics, text_temp("\n%s ", RELOADS));
    assert_non_null(reloads);
    return strtod(reloads + sizeof RELOADS + 1, NULL) >= bed->reloads &&
           server_metric_in(metrics, "channeld_redis_config_pending") <= 0;
}

/* The new version of the secret is in use by all workers; every other one is announced by SIGHUP. */
static void await_moved(struct bed *bed)
{
    bed->reloads++;
    if (bed->reloads % 2 == 0)
        process_signal(&bed->fixture.server.process, SIGHUP);
    if (!wait_until(has_moved, bed, WAIT_DEADLINE_MS))
        fail_msg("the workers do not use version %d of the secret", bed->secret.version);
}

/* All connections that were lost in that time were replaced, so that nothing was served stale. */
static void expect_undisturbed(struct bed *bed)
{
    AUTOFREE char *log = server_log(&bed->fixture.server);
    assert_null(strstr(log, "redis connection lost"));
    assert_int_equal((int)server_metric(&bed->fixture.server, "channeld_cache_stale_hits_total"), 0);
    assert_int_equal((int)server_metric(&bed->fixture.server, "channeld_redis_connected"), 2);
}

/* ---- passwords ---- */

static int setup_password(void **state)
{
    static const char *const files[] = {"PASSWORD_FILE", "password", NULL};
    struct bed *bed = bed_new(NULL);
    *state = bed;
    redis_do(&bed->redis, "ACL SETUSER channeld on >hush0 ~* +@all");
    SECRET(&bed->secret, {"password", "hush0\n"});
    serve(bed, text_temp("redis://channeld@127.0.0.1:%d", bed->redis.port), files);
    return 0;
}

/* As docs/running.md says: Redis learns the new one, channeld uses it, Redis forgets the old one. */
static void rotate_password(struct bed *bed, int n)
{
    redis_do(&bed->redis, "ACL SETUSER channeld >hush%d", n);
    SECRET(&bed->secret, {"password", text_temp("hush%d\n", n)});
    await_moved(bed);
    redis_do(&bed->redis, "ACL SETUSER channeld <hush%d", n - 1);
}

static void rotate_passwords(struct bed *bed, int rotations)
{
    for (int n = 1; n <= rotations; n++)
        rotate_password(bed, n);
    expect_undisturbed(bed);
    redis_do(&bed->redis, "CLIENT KILL USER channeld"); /* the newest password alone lets them in */
    server_await_metric(&bed->fixture.server, "channeld_redis_connects_total", 2.0 * rotations + 4);
    load_stop(&bed->load);
    expect_no_failure(&bed->load, "the password", rotations);
}

TEST_CASE_WITH(no_request_fails_when_passwords_are_rotated, setup_password, teardown)
{
    rotate_passwords(*state, QUICK);
}

SLOW_TEST_WITH(no_request_fails_when_a_hundred_passwords_are_rotated, setup_password, teardown)
{
    rotate_passwords(*state, MANY);
}

/* ---- certificates ---- */

static struct tempdir certs;

/* An authority, and what it has signed for Redis and for channeld. */
struct trust {
    struct certs_pair authority, server, client;
};

static struct trust make_trust(int n)
{
    struct trust t;
    certs_make_authority(&certs, text_temp("ca%d", n), &t.authority);
    certs_make(&certs, text_temp("redis%d", n), &t.authority, "IP:127.0.0.1", VALID_DAYS, &t.server);
    certs_make(&certs, text_temp("channeld%d", n), &t.authority, "DNS:channeld", VALID_DAYS, &t.client);
    return t;
}

/* The authority of the one, and that of the other unless it is the same. */
static char *bundle(const struct trust *one, const struct trust *other)
{
    char *text = text_read_file(one->authority.cert);
    AUTOFREE char *more = text_read_file(other->authority.cert);
    return one != other ? text_append(text, more) : text;
}

static const char *bundle_file(const char *text)
{
    const char *path = text_temp("%s/bundle", certs.path);
    assert_true(text_write_file(path, text));
    return path;
}

static void replace_secret(struct bed *bed, const char *authorities, const struct trust *own)
{
    AUTOFREE char *cert = text_read_file(own->client.cert);
    AUTOFREE char *key = text_read_file(own->client.key);
    SECRET(&bed->secret, {"ca.crt", authorities}, {"tls.crt", cert}, {"tls.key", key});
}

static struct trust trust; /* of the last rotation */

static int setup_certificates(void **state)
{
    static const char *const files[] = {"CA_FILE",  "ca.crt",  "CERT_FILE", "tls.crt",
                                        "KEY_FILE", "tls.key", NULL};
    tempdir_init(&certs);
    trust = make_trust(0);
    int port = net_reserve_port();
    const char *args[] = {"--tls-port",
                          text_temp("%d", port),
                          "--tls-cert-file",
                          trust.server.cert,
                          "--tls-key-file",
                          trust.server.key,
                          "--tls-ca-cert-file",
                          trust.authority.cert,
                          "--tls-auth-clients",
                          "yes",
                          NULL};
    struct bed *bed = bed_new(args);
    *state = bed;
    AUTOFREE char *authorities = bundle(&trust, &trust);
    replace_secret(bed, authorities, &trust);
    serve(bed, text_temp("rediss://127.0.0.1:%d", port), files);
    return 0;
}

static int teardown_certificates(void **state)
{
    tempdir_fini(&certs);
    return teardown(state);
}

/*
 * Everything is replaced, the authority too: both sides trust the new one beside the old one; then both have
 * certificates of the new one; then they trust it alone. Three versions of the secret.
 */
static void rotate_certificates(struct bed *bed, int n)
{
    struct trust next = make_trust(n);
    AUTOFREE char *both = bundle(&trust, &next);
    AUTOFREE char *alone = bundle(&next, &next);
    redis_do(&bed->redis, "CONFIG SET tls-ca-cert-file %s", bundle_file(both));
    replace_secret(bed, both, &trust);
    await_moved(bed);
    redis_do(&bed->redis, "CONFIG SET tls-cert-file %s tls-key-file %s", next.server.cert, next.server.key);
    replace_secret(bed, both, &next);
    await_moved(bed);
    redis_do(&bed->redis, "CONFIG SET tls-ca-cert-file %s", next.authority.cert);
    replace_secret(bed, alone, &next);
    await_moved(bed);
    trust = next;
}

static void rotate_all_certificates(struct bed *bed, int versions)
{
    int rotations = (versions + 2) / 3;
    for (int n = 1; n <= rotations; n++)
        rotate_certificates(bed, n);
    expect_undisturbed(bed);
    load_stop(&bed->load);
    expect_no_failure(&bed->load, "the certificates", 3 * rotations);
}

TEST_CASE_WITH(no_request_fails_when_certificates_are_rotated, setup_certificates, teardown_certificates)
{
    rotate_all_certificates(*state, QUICK);
}

SLOW_TEST_WITH(no_request_fails_when_a_hundred_certificates_are_rotated, setup_certificates,
               teardown_certificates)
{
    rotate_all_certificates(*state, MANY);
}
