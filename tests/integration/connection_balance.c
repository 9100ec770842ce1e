/*
 * Connections are divided evenly among the workers, from 1 to 64 of them: with listening sockets of
 * channeld's own, and with one that was passed. Redis is not needed for it.
 */

#include <string.h>

#include "support/http.h"
#include "support/sockets.h"
#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

enum { WORKERS = 4, CONNECTIONS = 64, STEPS = 300 };

#define TARGET "/api/openapi.json"

static struct sockets sockets;
static struct server server[2]; /* of each kind */

static int start(void **state)
{
    static const char *const env[] = {"CHANNELD_WORKERS=4", "CHANNELD_REQUEST_TIMEOUT=100ms", NULL};
    (void)state;
    server_start(&server[0], &(struct server_spec){"redis://127.0.0.1:1", env, SERVER_WAIT_LISTENING});
    sockets_open(&sockets, "api", 1);
    sockets_start_server(&server[1], &sockets, "redis://127.0.0.1:1", env);
    server_await_admin(&server[1], "/startupz", 200);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(server); i++)
        server_stop(&server[i]);
    sockets_close(&sockets);
    return 0;
}

TEST_GROUP(start, stop)

struct counts {
    int worker[WORKERS];
    int total, least, most;
};

static struct counts count(struct server *s)
{
    AUTOFREE char *metrics = server_metrics(s);
    struct counts c = {.least = CONNECTIONS};
    for (int i = 0; i < WORKERS; i++) {
        int n = (int)server_metric_in(metrics, text_temp("channeld_worker_connections{worker=\"%d\"}", i));
        c.worker[i] = n;
        c.total += n;
        c.least = n < c.least ? n : c.least;
        c.most = n > c.most ? n : c.most;
    }
    return c;
}

/* A connection counts before its first response. */
static struct http_conn open_one(struct server *s)
{
    struct http_conn conn = http_connect(s->port);
    http_ask(&conn, "GET", TARGET, NULL, 200);
    return conn;
}

/* Closes it, and waits until the server has. */
static void close_one(struct server *s, struct http_conn *conn, int left)
{
    http_close(conn);
    server_await_metric_below(s, "channeld_worker_connections", left);
}

static void expect_even(struct server *s, int total)
{
    const struct counts c = count(s);
    assert_int_equal(c.total, total);
    assert_in_range(c.most - c.least, 0, 1);
}

TEST_CASE(connections_that_come_together_are_even)
{
    AUTOFREE char *request = http_format("GET", TARGET, NULL);
    for (size_t kind = 0; kind < TEST_COUNT(server); kind++) {
        struct http_pool pool;
        struct http_conn first = open_one(&server[kind]); /* takes the place of one that has ended */
        http_pool_open(&pool, server[kind].port, CONNECTIONS - 1, 0);
        http_pool_send(&pool, request, strlen(request));
        server_await_metric(&server[kind], "channeld_worker_connections", CONNECTIONS);
        expect_even(&server[kind], CONNECTIONS);
        http_pool_close(&pool);
        http_close(&first);
        server_await_metric_below(&server[kind], "channeld_worker_connections", 0);
    }
}

/* The worker that gets it has at most one more than its share. */
static struct http_conn open_and_compare(struct server *s)
{
    const struct counts before = count(s);
    struct http_conn conn = open_one(s);
    const struct counts after = count(s);
    assert_int_equal(after.total, before.total + 1);
    for (int i = 0; i < WORKERS; i++)
        if (after.worker[i] > before.worker[i])
            assert_true((after.worker[i] - 1) * WORKERS <= after.total);
    return conn;
}

TEST_CASE(no_worker_gets_a_connection_beyond_its_share_and_one)
{
    unsigned random = 1;
    for (size_t kind = 0; kind < TEST_COUNT(server); kind++) {
        struct http_conn conn[CONNECTIONS];
        int open = 0;
        for (int step = 0; step < STEPS; step++) {
            random = random * 1103515245 + 12345;
            unsigned dice = random >> 16;
            if (open == 0 || (open < CONNECTIONS && dice % 5 < 3)) {
                conn[open++] = open_and_compare(&server[kind]);
                continue;
            }
            int i = (int)(dice % (unsigned)open);
            close_one(&server[kind], &conn[i], open - 1);
            conn[i] = conn[--open];
        }
        while (open > 0) {
            open--;
            close_one(&server[kind], &conn[open], open);
        }
    }
}

/* All but those of one worker end, and as many come again. */
TEST_CASE(new_connections_go_where_others_have_ended)
{
    enum { EACH = CONNECTIONS / WORKERS };
    for (size_t kind = 0; kind < TEST_COUNT(server); kind++) {
        struct http_conn conn[CONNECTIONS];
        int open = 0;
        for (int i = 0; i < CONNECTIONS; i++) {
            struct http_conn next = open_one(&server[kind]);
            const struct counts c = count(&server[kind]);
            bool of_first = c.worker[0] > open;
            if (of_first)
                conn[open++] = next;
            else
                conn[CONNECTIONS - 1 - (i - open)] = next;
        }
        assert_int_equal(open, EACH);
        for (int i = EACH; i < CONNECTIONS; i++)
            close_one(&server[kind], &conn[i], EACH + CONNECTIONS - i - 1);
        assert_int_equal(count(&server[kind]).worker[0], EACH);
        for (int i = EACH; i < CONNECTIONS; i++)
            conn[i] = open_one(&server[kind]);
        const struct counts c = count(&server[kind]);
        assert_true(c.least == EACH && c.most == EACH);
        for (int i = 0; i < CONNECTIONS; i++)
            close_one(&server[kind], &conn[i], CONNECTIONS - i - 1);
    }
}

int main(int argc, char **argv)
{
    return sockets_main(argc, argv);
}
