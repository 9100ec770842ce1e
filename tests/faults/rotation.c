/*
 * Passwords and certificates of Redis that are rotated while the clients of the testbed send requests: not
 * one fails, and none is answered from a cache that Redis does not keep coherent.
 */

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "faults/testbed.h"
#include "support/certs.h"
#include "support/net.h"
#include "support/secret.h"

enum {
    QUICK = 10,
    MANY = 100,
    VALID_DAYS = 30,
    ARGS_MAX = 16,
};

static const char RELOADS[] = "channeld_redis_config_reloads_total{result=\"ok\"}";

/* Redis, its secret, and how often channeld has reloaded it. */
static struct redis redis;
static struct secret secret;
static int reloads;

static void begin(const char *const *redis_args)
{
    reloads = 0;
    redis_start(&redis, redis_args);
    testbed_write(&redis, 1);
    secret_init(&secret);
}

/* Channeld with the files of the secret, and clients. */
static void serve(void **state, const char *url, const char *const *files)
{
    const char *env[ARGS_MAX] = {"CHANNELD_MAX_CONNECTION_AGE=0"};
    for (int i = 0; files[i] != NULL; i += 2)
        env[1 + i / 2] = text_temp("CHANNELD_REDIS_%s=%s", files[i], secret_path(&secret, files[i + 1]));
    testbed_start_at(state, url, env, "channeld_redis_connected");
}

static int teardown(void **state)
{
    (void)testbed_teardown(state);
    secret_fini(&secret);
    redis_stop(&redis);
    return 0;
}

static bool has_moved(void *arg)
{
    struct testbed *bed = arg;
    AUTOFREE char *metrics = server_metrics(&bed->fixture.server);
    const char *done = strstr(metrics, text_temp("\n%s ", RELOADS));
    assert_non_null(done);
    return strtod(done + sizeof RELOADS + 1, NULL) >= reloads &&
           server_metric_in(metrics, "channeld_redis_config_pending") <= 0;
}

/* The new version of the secret is in use by all workers; every other one is announced by SIGHUP. */
static void await_moved(struct testbed *bed)
{
    reloads++;
    if (reloads % 2 == 0)
        process_signal(&bed->fixture.server.process, SIGHUP);
    if (!wait_until(has_moved, bed, WAIT_DEADLINE_MS))
        fail_msg("the workers do not use version %d of the secret", secret.version);
}

/* All connections that were lost in that time were replaced, so that nothing was served stale. */
static void expect_undisturbed(struct testbed *bed)
{
    AUTOFREE char *log = server_log(&bed->fixture.server);
    assert_null(strstr(log, "redis connection lost"));
    assert_int_equal((int)server_metric(&bed->fixture.server, "channeld_cache_stale_hits_total"), 0);
    assert_int_equal((int)server_metric(&bed->fixture.server, "channeld_redis_connected"), 2);
}

static void expect_no_failure(struct testbed *bed, const char *what, int rotations)
{
    for (int kind = 0; kind < CLIENTS_KINDS; kind++) {
        struct client_tally t = clients_tally(bed->clients, (enum client_kind)kind);
        print_message("%d rotations of %s: %d right, %d failed, the slowest took %d ms\n", rotations, what,
                      t.right, t.failed, t.slowest_ms);
        if (t.right == 0 || t.failed > 0 || t.wrong > 0)
            fail_msg("%d requests failed, %d responses are wrong: %s", t.failed, t.wrong, t.first_wrong);
    }
}

/* ---- passwords ---- */

static int setup_password(void **state)
{
    static const char *const files[] = {"PASSWORD_FILE", "password", NULL};
    begin(NULL);
    redis_do(&redis, "ACL SETUSER channeld on >hush0 ~* +@all");
    SECRET(&secret, {"password", "hush0\n"});
    serve(state, text_temp("redis://channeld@127.0.0.1:%d", redis.port), files);
    return 0;
}

/* As docs/running.md says: Redis learns the new one, channeld uses it, Redis forgets the old one. */
static void rotate_password(struct testbed *bed, int n)
{
    redis_do(&redis, "ACL SETUSER channeld >hush%d", n);
    SECRET(&secret, {"password", text_temp("hush%d\n", n)});
    await_moved(bed);
    redis_do(&redis, "ACL SETUSER channeld <hush%d", n - 1);
}

static void rotate_passwords(struct testbed *bed, int rotations)
{
    for (int n = 1; n <= rotations; n++)
        rotate_password(bed, n);
    expect_undisturbed(bed);
    redis_do(&redis, "CLIENT KILL USER channeld"); /* the newest password alone lets them in */
    server_await_metric(&bed->fixture.server, "channeld_redis_connects_total", 2.0 * rotations + 4);
    expect_no_failure(bed, "the password", rotations);
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

static void replace_secret(const char *authorities, const struct trust *own)
{
    AUTOFREE char *cert = text_read_file(own->client.cert);
    AUTOFREE char *key = text_read_file(own->client.key);
    SECRET(&secret, {"ca.crt", authorities}, {"tls.crt", cert}, {"tls.key", key});
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
    begin(args);
    AUTOFREE char *authorities = bundle(&trust, &trust);
    replace_secret(authorities, &trust);
    serve(state, text_temp("rediss://127.0.0.1:%d", port), files);
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
static void rotate_certificates(struct testbed *bed, int n)
{
    struct trust next = make_trust(n);
    AUTOFREE char *both = bundle(&trust, &next);
    AUTOFREE char *alone = bundle(&next, &next);
    redis_do(&redis, "CONFIG SET tls-ca-cert-file %s", bundle_file(both));
    replace_secret(both, &trust);
    await_moved(bed);
    redis_do(&redis, "CONFIG SET tls-cert-file %s tls-key-file %s", next.server.cert, next.server.key);
    replace_secret(both, &next);
    await_moved(bed);
    redis_do(&redis, "CONFIG SET tls-ca-cert-file %s", next.authority.cert);
    replace_secret(alone, &next);
    await_moved(bed);
    trust = next;
}

static void rotate_all_certificates(struct testbed *bed, int versions)
{
    int rotations = (versions + 2) / 3;
    for (int n = 1; n <= rotations; n++)
        rotate_certificates(bed, n);
    expect_undisturbed(bed);
    expect_no_failure(bed, "the certificates", 3 * rotations);
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
