/*
 * Certificates of Redis that are rotated under load: not one request fails. Passwords: the fault `rotate` of
 * tests/coherence.
 */

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "support/certs.h"
#include "support/fixture.h"
#include "support/load.h"
#include "support/net.h"
#include "support/secret.h"

enum { QUICK = 4, MANY = 34, VALID_DAYS = 30, CLIENTS = 4 };

static const char RELOADS[] = "channeld_redis_config_reloads_total{result=\"ok\"}";

/* Redis, its secret, and how often channeld has reloaded it. */
static struct redis redis;
static struct secret secret;
static struct fixture fixture;
static int reloads;

static bool has_moved(void *arg)
{
    (void)arg;
    AUTOFREE char *metrics = server_metrics(&fixture.server);
    const char *done = strstr(metrics, text_temp("\n%s ", RELOADS));
    assert_non_null(done);
    return strtod(done + sizeof RELOADS + 1, NULL) >= reloads &&
           server_metric_in(metrics, "channeld_redis_config_pending") <= 0;
}

/* The new version of the secret is in use by all workers; every other one is announced by SIGHUP. */
static void await_moved(void)
{
    reloads++;
    if (reloads % 2 == 0)
        process_signal(&fixture.server.process, SIGHUP);
    if (!wait_until(has_moved, NULL, WAIT_DEADLINE_MS))
        fail_msg("the workers do not use version %d of the secret", secret.version);
}

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

static void replace_secret(const char *authorities, const struct trust *own)
{
    AUTOFREE char *cert = text_read_file(own->client.cert);
    AUTOFREE char *key = text_read_file(own->client.key);
    SECRET(&secret, {"ca.crt", authorities}, {"tls.crt", cert}, {"tls.key", key});
}

static struct trust trust; /* of the last rotation */

/* Nothing is cached: each request needs Redis. */
static int setup(void **state)
{
    (void)state;
    tempdir_init(&certs);
    secret_init(&secret);
    trust = make_trust(0);
    reloads = 0;
    int port = net_reserve_port();
    redis_start(&redis, certs_redis_args(port, &trust.server, &trust.authority, "yes"));
    catalogue_issue_key(&redis, FIXTURE_KEY);
    catalogue_put_samples(&redis, 3);
    AUTOFREE char *authority = text_read_file(trust.authority.cert);
    replace_secret(authority, &trust);
    fixture_serve(&fixture, text_temp("rediss://127.0.0.1:%d", port),
                  ENV("CHANNELD_CACHE_SIZE=0", "CHANNELD_MAX_CONNECTION_AGE=0",
                      text_temp("CHANNELD_REDIS_CA_FILE=%s", secret_path(&secret, "ca.crt")),
                      text_temp("CHANNELD_REDIS_CERT_FILE=%s", secret_path(&secret, "tls.crt")),
                      text_temp("CHANNELD_REDIS_KEY_FILE=%s", secret_path(&secret, "tls.key"))),
                  SERVER_WAIT_READY);
    server_await_metric(&fixture.server, "channeld_redis_connected", 2);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_fini(&fixture);
    secret_fini(&secret);
    redis_stop(&redis);
    tempdir_fini(&certs);
    return 0;
}

/*
 * Everything is replaced, the authority too: both sides trust the new one beside the old one; then both have
 * certificates of the new one; then they trust it alone. Three versions of the secret.
 */
static void rotate(int n)
{
    struct trust next = make_trust(n);
    AUTOFREE char *former = text_read_file(trust.authority.cert);
    AUTOFREE char *alone = text_read_file(next.authority.cert);
    AUTOFREE char *both = text_printf("%s%s", former, alone);
    const char *path = text_temp("%s/bundle", certs.path);
    assert_true(text_write_file(path, both));
    redis_do(&redis, "CONFIG SET tls-ca-cert-file %s", path);
    replace_secret(both, &trust);
    await_moved();
    redis_do(&redis, "CONFIG SET tls-cert-file %s tls-key-file %s", next.server.cert, next.server.key);
    replace_secret(both, &next);
    await_moved();
    redis_do(&redis, "CONFIG SET tls-ca-cert-file %s", next.authority.cert);
    replace_secret(alone, &next);
    await_moved();
    trust = next;
}

/* No connection is lost: it stays until another one has taken its place. */
static void rotate_all(int rotations)
{
    static const char *const targets[] = {"/api/channels/", "/api/channel/by-id/0/"};
    struct load load;
    load_start(&load, fixture.server.port, targets, TEST_COUNT(targets), CLIENTS);
    for (int n = 1; n <= rotations; n++)
        rotate(n);
    load_await(&load, 100, 0, WAIT_DEADLINE_MS);
    load_stop(&load);
    AUTOFREE char *log = server_log(&fixture.server);
    assert_null(strstr(log, "redis connection lost"));
    assert_int_equal((int)server_metric(&fixture.server, "channeld_redis_connected"), 2);
}

TEST_CASE_WITH(no_request_fails_when_certificates_are_rotated, setup, teardown)
{
    rotate_all(QUICK);
}

SLOW_TEST_WITH(no_request_fails_when_certificates_are_rotated_often, setup, teardown)
{
    rotate_all(MANY);
}
