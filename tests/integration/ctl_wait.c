/*
 * channelctl --wait: what passes is waited for (no server, no name, data that is being loaded, no master),
 * and said; what does not pass is an error at once.
 */

#include "support/certs.h"
#include "support/cluster.h"
#include "support/ctl.h"
#include "support/fixture.h"
#include "support/net.h"
#include "support/proxy.h"
#include "support/secret.h"
#include "support/sentinel.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define LONG "--wait=10m"

static const char *const VERIFY[] = {LONG, "verify", NULL};
static const char *const LOAD[] = {"load", "--sample", "3", LONG, NULL};

/* ---- A command that waits ---- */

struct expectation {
    struct process *process;
    const char *text;
};

static bool is_said(void *arg)
{
    const struct expectation *e = arg;
    AUTOFREE char *said = process_stderr(e->process);
    return strstr(said, e->text) != NULL || !process_is_running(e->process);
}

static void await_text(struct process *process, const char *part)
{
    if (!wait_until(is_said, &(struct expectation){process, part}, WAIT_DEADLINE_MS))
        fail_msg("not said: %s", part);
    AUTOFREE char *said = process_stderr(process);
    ctl_expect_text(said, part);
}

/* The first line names Redis, and why. */
static void begin(struct process *process, struct redis *at, const char *const *args, const char *reason)
{
    ctl_start_at(process, at, args);
    await_text(process, text_temp("channelctl: waiting for Redis at "));
    await_text(process, reason);
    assert_true(process_is_running(process));
}

static void expect_done(struct process *process)
{
    ctl_expect(ctl_finish(process), 0, NULL, "channelctl: waiting for Redis at ");
}

/* What verify accepts. */
static void fill(struct redis *at)
{
    catalogue_issue_key(at, "some-key");
    catalogue_put_samples(at, 1000);
}

/* Asserts that it fails by itself, without having waited. */
static void expect_error_at_once(struct redis *at, const char *const *args, const char *reason)
{
    struct ctl_run run = ctl_run_at(at, args);
    assert_null(strstr(run.err, "waiting"));
    ctl_expect(run, 1, NULL, reason);
}

/* ---- What passes ---- */

TEST_CASE(server_that_starts_late)
{
    AUTO(redis_stop) struct redis late;
    struct process load;
    redis_prepare(&late, NULL);
    begin(&load, &late, LOAD, "Connection refused\n");
    redis_launch(&late);
    redis_await(&late);
    expect_done(&load);
    assert_int_equal(redis_integer(&late, "ZCARD channels:index"), 3);
}

/* The reason is said again when it changes: refused, then loading. Each command waits for the end of that. */
TEST_CASE(server_that_loads_its_data)
{
    static const char *const list[] = {"keys", "list", LONG, NULL};
    static const char *const *const commands[] = {LOAD, VERIFY, list};
    static const char *const slowly[] = {"--key-load-delay", "100000",
                                         "--loading-process-events-interval-bytes", "1024", NULL};
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        AUTO(redis_stop) struct redis loading;
        struct process process;
        redis_start(&loading, slowly);
        fill(&loading);
        redis_do(&loading, "SAVE");
        redis_kill(&loading);
        begin(&process, &loading, commands[i], "Connection refused\n");
        redis_launch(&loading);
        await_text(&process, ": Redis refused: LOADING ");
        redis_do(&loading, "CONFIG SET key-load-delay 0");
        redis_await(&loading);
        expect_done(&process);
    }
}

/*
 * A path is there, but the connection is reset, before or after channelctl learns that it is open; then it is
 * as it should be.
 */
TEST_CASE(server_behind_a_proxy_that_waits_for_it_as_well)
{
    AUTO(redis_stop) struct redis behind;
    struct process process;
    redis_start(&behind, NULL);
    fill(&behind);
    struct proxy *proxy = proxy_new(behind.port);
    (void)snprintf(behind.url, sizeof behind.url, "redis://127.0.0.1:%d", proxy_port(proxy));
    proxy_set_refusing(proxy, true);
    begin(&process, &behind, VERIFY, "Connection reset by peer\n");
    proxy_restore(proxy);
    expect_done(&process);
    proxy_free(proxy);
}

TEST_CASE(local_socket_that_is_not_there_yet)
{
    AUTO(redis_stop) struct redis local;
    struct process process;
    redis_prepare(&local, (const char *const[]){"--unixsocket", "redis.sock", NULL});
    (void)snprintf(local.url, sizeof local.url, "unix://%.40s/redis.sock", local.dir.path);
    begin(&process, &local, LOAD, "No such file or directory\n");
    redis_launch(&local);
    expect_done(&process);
}

/* One that is not there; then one that knows no master; then its master is not there; then it is. */
TEST_CASE(sentinel_and_master_that_come_one_after_the_other)
{
    AUTO(redis_stop) struct redis master;
    AUTO(redis_stop) struct redis sentinel;
    struct process process;
    redis_prepare(&master, NULL);
    sentinel_start(&sentinel, &(struct sentinel_spec){.master = "other", .port = master.port, .quorum = 1});
    redis_kill(&sentinel);
    (void)snprintf(sentinel.url, sizeof sentinel.url, "redis+sentinel://127.0.0.1:%d/mymaster",
                   sentinel.port);
    begin(&process, &sentinel, LOAD, "Connection refused\n");
    redis_restart(&sentinel);
    await_text(&process, ": it knows no master of that name\n");
    redis_do(&sentinel, "SENTINEL MONITOR mymaster 127.0.0.1 %d 1", master.port);
    await_text(&process, text_temp("127.0.0.1:%d/0: Connection refused\n", master.port));
    redis_launch(&master);
    redis_await(&master);
    expect_done(&process);
    assert_int_equal(redis_integer(&master, "ZCARD channels:index"), 3);
}

TEST_CASE(cluster_without_slots)
{
    AUTO(redis_stop) struct redis node;
    struct process process;
    static const char *const load[] = {"load", "--sample", "3", "--redis-prefix={c}:", LONG, NULL};
    const char *bus = text_temp("%d", net_reserve_port());
    redis_start(&node, (const char *const[]){"--cluster-enabled", "yes", "--cluster-port", bus, NULL});
    (void)snprintf(node.url, sizeof node.url, "redis+cluster://127.0.0.1:%d", node.port);
    begin(&process, &node, load, ": it knows no node that has the slot\n");
    redis_do(&node, "CLUSTER ADDSLOTSRANGE 0 16383");
    expect_done(&process);
}

/* A file is read again before each attempt. */
TEST_CASE(password_that_changes_while_redis_is_not_there)
{
    AUTO(redis_stop) struct redis locked;
    AUTO(secret_fini) struct secret secret;
    struct process process;
    redis_prepare(&locked, (const char *const[]){"--requirepass", "new", NULL});
    secret_init(&secret);
    SECRET(&secret, {"password", "old\n"});
    const char *const args[] = {
        "load", "--sample", "3", "--redis-password-file", secret_path(&secret, "password"), LONG, NULL};
    begin(&process, &locked, args, "Connection refused\n");
    SECRET(&secret, {"password", "new\n"});
    redis_launch(&locked);
    expect_done(&process);
}

/* ---- What does not pass ---- */

TEST_CASE(node_of_a_cluster_is_an_error_at_once)
{
    AUTO(redis_stop) struct redis node;
    const char *bus = text_temp("%d", net_reserve_port());
    redis_start(&node, (const char *const[]){"--cluster-enabled", "yes", "--cluster-port", bus, NULL});
    expect_error_at_once(&node, VERIFY, "this server is a node of a Redis Cluster");
}

TEST_CASE(server_of_another_protocol_is_an_error_at_once)
{
    AUTO(redis_stop) struct redis other;
    struct fixture fixture;
    redis_start(&other, NULL);
    fixture_serve(&fixture, other.url, NULL, SERVER_WAIT_LISTENING);
    (void)snprintf(other.url, sizeof other.url, "redis://127.0.0.1:%d", fixture.server.port);
    expect_error_at_once(&other, VERIFY, "this is not a Redis server: ");
    server_stop(&fixture.server);
}

TEST_CASE(wrong_password_for_a_sentinel_is_an_error_at_once)
{
    AUTO(redis_stop) struct redis sentinel;
    sentinel_start(&sentinel,
                   &(struct sentinel_spec){SENTINEL_MASTER, net_reserve_port(), 1, "secret", NULL});
    /* The second one is not there: that would pass. */
    (void)snprintf(sentinel.url, sizeof sentinel.url, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/mymaster",
                   sentinel.port, net_reserve_port());
    expect_error_at_once(&sentinel, VERIFY, "Redis refused: NOAUTH ");
}

/* The server's certificate, and the client's that is missing. */
TEST_CASE(rejected_certificates_are_errors_at_once)
{
    AUTO(tempdir_fini) struct tempdir dir;
    AUTO(redis_stop) struct redis guarded;
    struct certs_pair authority;
    struct certs_pair cert;
    struct process process;
    tempdir_init(&dir);
    certs_make_authority(&dir, "ca", &authority);
    certs_make(&dir, "redis", &authority, "IP:127.0.0.1", 1, &cert);
    int tls_port = net_reserve_port();
    redis_prepare(&guarded, certs_redis_args(tls_port, &cert, &authority, "yes"));
    (void)snprintf(guarded.url, sizeof guarded.url, "rediss://127.0.0.1:%d", tls_port);
    const char *const trusting[] = {"verify", LONG, "--redis-ca-file", authority.cert, NULL};
    const char *const complete[] = {
        "verify", LONG, "--redis-ca-file", authority.cert, "--redis-cert-file", cert.cert, "--redis-key-file",
        cert.key, NULL};
    redis_restart(&guarded);
    fill(&guarded);
    redis_do(&guarded, "SAVE");
    redis_kill(&guarded);
    begin(&process, &guarded, complete, "Connection refused\n");
    redis_restart(&guarded);
    expect_done(&process);
    expect_error_at_once(&guarded, VERIFY, "certificate verification failed");
    expect_error_at_once(&guarded, trusting, "certificate required");
}

/* ---- Signals ---- */

/* Also while a server accepts the connection and does not answer. */
TEST_CASE(signals_end_a_wait_at_once)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < TEST_COUNT(signals); i++) {
        AUTO(redis_stop) struct redis never;
        struct process process;
        redis_prepare(&never, NULL);
        begin(&process, &never, LOAD, "Connection refused\n");
        process_signal(&process, signals[i]);
        struct ctl_run run = ctl_finish(&process);
        assert_string_equal(run.out, "");
        ctl_expect(run, 128 + signals[i], NULL, NULL);
    }
}

static bool has_connected(void *arg)
{
    return proxy_connections(arg) >= 1;
}

/* With --wait and without. As the first process of a container nothing else would end it. */
static void expect_signal_ends(const char *const *args)
{
    AUTO(redis_stop) struct redis behind;
    struct process process;
    redis_start(&behind, NULL);
    struct proxy *proxy = proxy_new(behind.port);
    (void)snprintf(behind.url, sizeof behind.url, "redis://127.0.0.1:%d", proxy_port(proxy));
    proxy_set_blackhole(proxy, true);
    ctl_start_at(&process, &behind, args);
    assert_true(wait_until(has_connected, proxy, WAIT_DEADLINE_MS));
    process_signal(&process, SIGTERM);
    ctl_expect(ctl_finish(&process), 128 + SIGTERM, NULL, NULL);
    proxy_free(proxy);
}

TEST_CASE(signal_ends_a_wait_for_an_answer)
{
    expect_signal_ends(VERIFY);
    expect_signal_ends((const char *const[]){"verify", NULL});
}
