/* Redis over TLS: which certificates are accepted. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/certs.h"
#include "support/fixture.h"
#include "support/net.h"
#include "support/sentinel.h"

enum { VALID = 30, EXPIRED = -2 };

static struct tempdir dir;
static struct certs_pair authority, other_authority; /* the trusted one, and another */
static struct certs_pair client;

static int make_authorities(void **state)
{
    (void)state;
    tempdir_init(&dir);
    certs_make_authority(&dir, "authority", &authority);
    certs_make_authority(&dir, "other-authority", &other_authority);
    certs_make(&dir, "client", &authority, "DNS:channeld.example", VALID, &client);
    return 0;
}

TEST_GROUP(make_authorities, NULL)

/* A Redis with a TLS port beside its plain one, which the test uses. */
struct guarded {
    struct redis redis;
    int port;
};

static void guarded_start(struct guarded *g, const struct certs_pair *cert, const char *auth_clients)
{
    g->port = net_reserve_port();
    redis_start(&g->redis, certs_redis_args(g->port, cert, &authority, auth_clients));
    catalogue_issue_key(&g->redis, FIXTURE_KEY);
    catalogue_put(&g->redis, "{\"max_channel_id\":1,\"title\":\"t\"}", 1);
}

/* A URL for that host, and the settings. Owned, all of it. */
struct settings {
    char *url;
    char *text[4];
    const char *env[5];
};

static void settings_make(struct settings *s, const char *url, const char *ca, const struct certs_pair *own)
{
    memset(s, 0, sizeof *s);
    s->text[0] = text_printf("CHANNELD_REDIS_URL=%s", url);
    s->text[1] = text_printf("CHANNELD_REDIS_CA_FILE=%s", ca);
    s->text[2] = text_printf("CHANNELD_REDIS_CERT_FILE=%s", own != NULL ? own->cert : "");
    s->text[3] = text_printf("CHANNELD_REDIS_KEY_FILE=%s", own != NULL ? own->key : "");
    for (size_t i = 0; i < TEST_COUNT(s->text); i++)
        s->env[i] = s->text[i];
    s->url = text_printf("%s", url);
}

static void settings_free(struct settings *s)
{
    for (size_t i = 0; i < TEST_COUNT(s->text); i++)
        free(s->text[i]);
    free(s->url);
}

static int list_keys(const struct settings *s, char **errors)
{
    static const char *const args[] = {"keys", "list", NULL};
    struct process tool;
    int status = server_run_tool(&tool, &dir, "CHANNELCTL_BIN", args, s->env);
    *errors = process_stderr(&tool);
    return status;
}

/* Both programs work with it, the one with its cache. */
static void expect_served_by(const char *url, const struct certs_pair *own)
{
    struct settings s;
    struct fixture fixture;
    char *errors = NULL;
    settings_make(&s, url, authority.cert, own);
    fixture_serve(&fixture, url, s.env, SERVER_WAIT_READY);
    for (int i = 0; i < 20; i++)
        assert_int_equal(fixture_status(&fixture, "channel/by-id/1/"), 200);
    assert_true(server_metric(&fixture.server, "channeld_cache_hits_total") > 0);
    server_stop(&fixture.server);
    if (list_keys(&s, &errors) != 0)
        fail_msg("channelctl: %s", errors);
    free(errors);
    settings_free(&s);
}

static void expect_served(struct guarded *g, const char *host, const struct certs_pair *own)
{
    expect_served_by(text_temp("rediss://%s:%d", host, g->port), own);
}

static void expect_reason(char *text, const char *reason)
{
    if (strstr(text, reason) == NULL)
        fail_msg("no '%s' in: %s", reason, text);
    free(text);
}

/* Neither program connects to it, and both report the reason. */
static void expect_refused(const char *url, const char *ca, const struct certs_pair *own, const char *reason)
{
    struct settings s;
    struct server server;
    char *errors = NULL;
    settings_make(&s, url, ca, own);
    server_start(&server, &(struct server_spec){url, s.env, SERVER_WAIT_LISTENING});
    server_await_metric(&server, "channeld_redis_disconnects_total", 4);
    assert_int_equal(server_admin_status(&server, "/readyz"), 503);
    server_await_log(&server, reason);
    server_stop(&server);
    assert_int_equal(list_keys(&s, &errors), 1);
    expect_reason(errors, reason);
    settings_free(&s);
}

static void expect_refused_at(struct guarded *g, const char *host, const char *ca,
                              const struct certs_pair *own, const char *reason)
{
    expect_refused(text_temp("rediss://%s:%d", host, g->port), ca, own, reason);
}

TEST_CASE(certificates_are_verified)
{
    static const char unverified[] = "certificate verification failed";
    const struct {
        const char *names; /* what Redis' certificate is valid for */
        int days;
        const char *served;  /* by this host name, or NULL */
        const char *refused; /* and not by this one */
        const char *ca, *reason;
    } rows[] = {
        {"DNS:localhost", VALID, "localhost", "127.0.0.1", authority.cert, "IP address mismatch"},
        {"IP:127.0.0.1", VALID, "127.0.0.1", "localhost", authority.cert, "hostname mismatch"},
        {"DNS:other.example", VALID, NULL, "localhost", authority.cert, "hostname mismatch"},
        {"DNS:localhost", VALID, NULL, "localhost", other_authority.cert, unverified},
        {"DNS:localhost", VALID, NULL, "localhost", "", unverified}, /* the authorities of the system */
        {"DNS:localhost", EXPIRED, NULL, "localhost", authority.cert, "certificate has expired"}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct certs_pair cert;
        struct guarded g;
        certs_make(&dir, "redis", &authority, rows[i].names, rows[i].days, &cert);
        guarded_start(&g, &cert, "no");
        if (rows[i].served != NULL)
            expect_served(&g, rows[i].served, NULL);
        expect_refused_at(&g, rows[i].refused, rows[i].ca, NULL, rows[i].reason);
        redis_stop(&g.redis);
    }
}

TEST_CASE(client_certificate_is_sent)
{
    struct certs_pair cert;
    struct guarded g;
    certs_make(&dir, "demanding", &authority, "DNS:localhost", VALID, &cert);
    guarded_start(&g, &cert, "yes");
    expect_served(&g, "localhost", &client);
    expect_refused_at(&g, "localhost", authority.cert, NULL, "certificate required");
    redis_stop(&g.redis);
}

/* A Sentinel with TLS; returns its port. */
static int guarded_sentinel_start(struct redis *sentinel, const struct guarded *g,
                                  const struct certs_pair *cert)
{
    int port = net_reserve_port();
    AUTOFREE char *extra = text_printf("tls-port %d\ntls-replication yes\ntls-cert-file %s\ntls-key-file %s\n"
                                       "tls-ca-cert-file %s\ntls-auth-clients no\n",
                                       port, cert->cert, cert->key, authority.cert);
    sentinel_start(sentinel, &(struct sentinel_spec){SENTINEL_MASTER, g->port, 2, NULL, extra});
    return port;
}

/* Sentinels and Redis both: the address that Sentinel names must be in Redis' certificate. */
TEST_CASE(sentinels_with_tls)
{
    struct certs_pair cert;
    struct guarded g;
    struct redis sentinel;
    certs_make(&dir, "both", &authority, "DNS:localhost,IP:127.0.0.1", VALID, &cert);
    guarded_start(&g, &cert, "no");
    int port = guarded_sentinel_start(&sentinel, &g, &cert);
    AUTOFREE char *url = text_printf("rediss+sentinel://localhost:%d/" SENTINEL_MASTER, port);
    expect_served_by(url, NULL);
    expect_refused(url, other_authority.cert, NULL, "certificate verification failed");
    redis_stop(&sentinel);
    redis_stop(&g.redis);
}

static bool has_lost_no_connection(void *arg)
{
    return !server_has_lost_redis(arg);
}

/* Both are in one thread, and OpenSSL keeps its errors by thread. */
TEST_CASE(refused_certificate_does_not_affect_another_connection)
{
    enum { SEVERAL_ATTEMPTS_MS = 2000 };
    struct certs_pair cert;
    struct certs_pair foreign;
    struct guarded g;
    struct redis good;
    struct redis bad;
    struct settings s;
    struct server server;
    certs_make(&dir, "good", &authority, "IP:127.0.0.1", VALID, &cert);
    certs_make(&dir, "bad", &other_authority, "IP:127.0.0.1", VALID, &foreign);
    guarded_start(&g, &cert, "no");
    int good_port = guarded_sentinel_start(&good, &g, &cert);
    int bad_port = guarded_sentinel_start(&bad, &g, &foreign);
    AUTOFREE char *url =
        text_printf("rediss+sentinel://127.0.0.1:%d,127.0.0.1:%d/" SENTINEL_MASTER, good_port, bad_port);
    settings_make(&s, url, authority.cert, NULL);
    server_start(&server, &(struct server_spec){url, s.env, SERVER_WAIT_READY});
    redis_kill(&good);
    server_await_metric_below(&server, "channeld_sentinels_connected", 0);
    assert_true(wait_holds(has_lost_no_connection, &server, SEVERAL_ATTEMPTS_MS));
    server_await_metric(&server, "channeld_redis_connected", 2);
    server_await_log(&server, "no sentinel has the address of redis");
    server_stop(&server);
    settings_free(&s);
    redis_stop(&bad);
    redis_stop(&good);
    redis_stop(&g.redis);
}
