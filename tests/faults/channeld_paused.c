/*
 * channeld gets no processor time for a while, less than the lease: it is stopped (SIGSTOP), or throttled by
 * its container. Meanwhile cards change one by one, and a key is revoked. Their invalidations wait in the
 * socket: one TLS record each, and more of them than one turn of the loop reads. When it goes on, nothing is
 * served that was replaced before.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults/fanout.h"
#include "support/certs.h"
#include "support/net.h"

enum {
    CHANGES = 2000, /* with such a prefix, 240 KiB of invalidations: more than a turn reads */
    PREFIX_SIZE = 64,
    PATH_SIZE = 64,
    PAUSE_MS = 120, /* more than input may wait for */
};

static const char OTHER_KEY[] = "another-key";

struct pause_case {
    const char *server; /* of CHANNELD_SERVERS; NULL: the system's Redis */
    const char *tracking;
    bool tls;
};

struct pause {
    struct testbed bed; /* without clients */
    struct tempdir dir;
    struct certs_pair authority, certificate;
    int tls_port;
    char prefix[PREFIX_SIZE + 1];
    struct fanout before, after, revoked;
};

static void start_redis(struct pause *p, const char *program)
{
    char port[16];
    tempdir_init(&p->dir);
    certs_make_authority(&p->dir, "authority", &p->authority);
    certs_make(&p->dir, "server", &p->authority, "IP:127.0.0.1", 1, &p->certificate);
    p->tls_port = net_reserve_port();
    (void)snprintf(port, sizeof port, "%d", p->tls_port);
    const char *const args[] = {"--tls-port",
                                port,
                                "--tls-cert-file",
                                p->certificate.cert,
                                "--tls-key-file",
                                p->certificate.key,
                                "--tls-ca-cert-file",
                                p->authority.cert,
                                "--tls-auth-clients",
                                "no",
                                NULL};
    struct redis *redis = &p->bed.fixture.redis;
    redis_start_program(redis, program, args);
    memset(p->prefix, 'p', PREFIX_SIZE - 1);
    p->prefix[PREFIX_SIZE - 1] = ':';
    redis->prefix = p->prefix;
    testbed_write(redis, 1);
    catalogue_issue_key(redis, OTHER_KEY);
}

static void start_server(struct pause *p, const struct pause_case *c)
{
    AUTOFREE char *url = text_printf("%s://127.0.0.1:%d/0", c->tls ? "rediss" : "redis",
                                     c->tls ? p->tls_port : p->bed.fixture.redis.port);
    AUTOFREE char *prefix = text_printf("CHANNELD_REDIS_PREFIX=%s", p->prefix);
    AUTOFREE char *tracking = text_printf("CHANNELD_TRACKING=%s", c->tracking);
    AUTOFREE char *authority = text_printf("CHANNELD_REDIS_CA_FILE=%s", p->authority.cert);
    server_start(&p->bed.fixture.server,
                 &(struct server_spec){.redis_url = url,
                                       .env = ENV("CHANNELD_WORKERS=1", prefix, tracking, authority)});
}

static const char *card_path(char path[PATH_SIZE], int n)
{
    (void)snprintf(path, PATH_SIZE, "channel/by-id/%d/", CATALOGUE_SPARE + n);
    return path;
}

/* From now on every change of one of the cards, and of the keys, is announced. */
static void read_all(struct pause *p)
{
    char path[PATH_SIZE];
    for (int i = 0; i < CHANGES; i += FANOUT_SIZE) {
        for (int k = 0; k < FANOUT_SIZE; k++) {
            AUTOFREE char *target = text_printf("/api/%s", card_path(path, i + k));
            AUTOFREE char *request = http_format("GET", target, FIXTURE_AUTH);
            assert_int_equal(http_send_text(&p->before.conns[k], request), 0);
        }
        fanout_expect(&p->before, 200, NULL);
    }
    fanout_ask(&p->before, card_path(path, CHANGES - 1), 200,
               catalogue_version_card(CATALOGUE_SPARE + CHANGES - 1, 1));
    fanout_ask(&p->revoked, path, 200, NULL);
}

static void change_all(struct pause *p, int changes)
{
    char digest[65];
    struct redis *redis = &p->bed.fixture.redis;
    for (int i = CHANGES - changes; i < CHANGES; i++) {
        int id = CATALOGUE_SPARE + i;
        AUTOFREE char *title = text_printf("v2 of %d", id);
        redis_do(redis, "HSET %scard:%d title %s", p->prefix, id, title);
    }
    catalogue_digest(OTHER_KEY, digest);
    redis_do(redis, "SREM %sapi_keys %s", p->prefix, digest);
}

/* Half of the requests are in the sockets when channeld goes on, the others are sent then. */
static void check_pause(struct pause *p, int changes)
{
    char path[PATH_SIZE];
    const int id = CATALOGUE_SPARE + CHANGES - 1;
    (void)card_path(path, CHANGES - 1);
    testbed_freeze(&p->bed);
    change_all(p, changes);
    testbed_sleep(PAUSE_MS);
    fanout_send(&p->before, path);
    fanout_send(&p->revoked, path);
    testbed_thaw(&p->bed);
    fanout_ask(&p->after, path, 200, catalogue_version_card(id, 2));
    fanout_expect(&p->before, 200, catalogue_version_card(id, 2));
    fanout_expect(&p->revoked, 401, NULL);
    fanout_ask(&p->revoked, path, 401, NULL);
}

/*
 * More changes than the buffers of both kernels can hold, so that Redis has the last ones in its own. It is
 * stopped when channeld goes on: the socket is empty then, and yet not all has come.
 */
static void check_held_back(struct pause *p, int changes)
{
    static const char script[] = "for i = 1, tonumber(ARGV[1]) do "
                                 "redis.call('SET', ARGV[2] .. 'card:' .. (9000000 + i), '') end";
    char path[PATH_SIZE];
    struct redis *redis = &p->bed.fixture.redis;
    const int id = CATALOGUE_SPARE + CHANGES - 1;
    (void)card_path(path, CHANGES - 1);
    testbed_freeze(&p->bed);
    redis_do(redis, "EVAL %s 0 %d %s", script, changes, p->prefix);
    change_all(p, 1);
    testbed_sleep(PAUSE_MS);
    redis_pause(redis);
    testbed_thaw(&p->bed);
    fanout_send(&p->before, path);
    fanout_send(&p->revoked, path);
    testbed_sleep(PAUSE_MS);
    redis_resume(redis);
    fanout_expect(&p->before, 200, catalogue_version_card(id, 2));
    fanout_expect(&p->revoked, 401, NULL);
}

static void pause_run(const struct pause_case *c, void (*check)(struct pause *p, int changes), int changes)
{
    AUTOFREE char *program = c->server != NULL ? redis_other_program(c->server) : NULL;
    struct pause *p = calloc(1, sizeof *p);
    assert_non_null(p);
    start_redis(p, program);
    start_server(p, c);
    fanout_open(&p->before, &p->bed);
    fanout_open(&p->after, &p->bed);
    fanout_open(&p->revoked, &p->bed);
    p->revoked.headers = "X-Api-Key: another-key\r\n";
    read_all(p);
    check(p, changes);
    fanout_close(&p->before);
    fanout_close(&p->after);
    fanout_close(&p->revoked);
    fixture_fini(&p->bed.fixture);
    tempdir_fini(&p->dir);
    free(p);
}

/* Few changes, then many: a TLS record each, and more than a turn reads. */
static void pauses_run(const char *server, const char *tracking, bool tls)
{
    const struct pause_case c = {server, tracking, tls};
    pause_run(&c, check_pause, 20);
    pause_run(&c, check_pause, CHANGES);
}

TEST_CASE(an_invalidation_that_redis_holds_back_is_waited_for)
{
    enum { HELD_BACK = 100000 }; /* invalidations of 85 bytes */
    pause_run(&(struct pause_case){.tracking = "broadcast"}, check_held_back, HELD_BACK);
    pause_run(&(struct pause_case){.tracking = "broadcast", .tls = true}, check_held_back, HELD_BACK);
}

#define PAUSE_CASES(name, server)                              \
    TEST_CASE(nothing_replaced_is_served_after_a_pause_##name) \
    {                                                          \
        pauses_run(server, "keys", false);                     \
        pauses_run(server, "broadcast", false);                \
    }                                                          \
    TEST_CASE(nor_where_tls_is_used_with_##name)               \
    {                                                          \
        pauses_run(server, "keys", true);                      \
        pauses_run(server, "broadcast", true);                 \
    }

PAUSE_CASES(redis, NULL)
PAUSE_CASES(redis_8, "redis8-server")
PAUSE_CASES(valkey, "valkey-server")
