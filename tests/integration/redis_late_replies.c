/*
 * Answers that come from Redis late, in pieces, and on one connection before the other: every client still
 * gets its own answers, in the order of its requests.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"
#include "support/proxy.h"

enum { CHANNELS = 130, TARGETS = 24, CLIENTS = 16, ROUNDS = 3, PIPELINE = 12 };

struct late {
    struct redis redis;
    struct server server;
    struct proxy *proxy;
    char *targets[TARGETS];
    char *bodies[TARGETS]; /* NULL: 404 */
};

struct client {
    const struct late *late;
    unsigned seed;
    pthread_t thread;
    int error; /* negative errno of the first failed exchange */
    int mismatches;
};

static void learn_targets(struct late *late)
{
    for (size_t i = 0; i < TARGETS; i++) {
        AUTO(http_response_free) struct http_response response;
        long long id = catalogue_id(i);
        switch (i % 4) {
        case 0:
            late->targets[i] = text_printf("/api/channel/by-id/%lld/", id);
            break;
        case 1:
            late->targets[i] = text_printf("/api/channel/by-link/?link=https://web.max.ru/sample_%zu", i);
            break;
        case 2:
            late->targets[i] = text_printf("/api/channels/?page=%zu", i / 4 + 1);
            break;
        default:
            late->targets[i] = text_printf("/api/channel/by-id/8888%zu/", i);
            break;
        }
        http_get(late->server.port, late->targets[i], FIXTURE_AUTH, &response);
        assert_int_equal(response.status, i % 4 == 3 ? 404 : 200);
        late->bodies[i] = response.status == 200 ? text_printf("%s", response.body) : NULL;
    }
}

static int begin(void **state)
{
    static const char *const env[] = {"CHANNELD_REQUEST_TIMEOUT=20s", "CHANNELD_CACHE_SIZE=0", NULL};
    struct late *late = calloc(1, sizeof *late);
    assert_non_null(late);
    *state = late;
    redis_start(&late->redis, NULL);
    catalogue_issue_key(&late->redis, FIXTURE_KEY);
    catalogue_put_samples(&late->redis, CHANNELS);
    late->proxy = proxy_new(late->redis.port);
    AUTOFREE char *url = text_printf("redis://127.0.0.1:%d/0", proxy_port(late->proxy));
    struct server_spec spec = {.redis_url = url, .env = env, .wait = SERVER_WAIT_READY};
    server_start(&late->server, &spec);
    learn_targets(late);
    return 0;
}

static int end(void **state)
{
    struct late *late = *state;
    if (late == NULL)
        return 0;
    server_stop(&late->server);
    proxy_free(late->proxy);
    redis_stop(&late->redis);
    for (size_t i = 0; i < TARGETS; i++) {
        free(late->targets[i]);
        free(late->bodies[i]);
    }
    free(late);
    return 0;
}

TEST_GROUP(begin, end)

static bool is_right(const struct late *late, size_t i, const struct http_response *response)
{
    if (late->bodies[i] == NULL)
        return response->status == 404;
    return response->status == 200 && strcmp(response->body, late->bodies[i]) == 0;
}

/* One pipeline of random targets over a fresh connection. */
static void run_pipeline(struct client *client)
{
    AUTO(http_close) struct http_conn conn;
    size_t chosen[PIPELINE];
    AUTOFREE char *requests = text_repeat(' ', 0);
    for (size_t i = 0; i < PIPELINE; i++) {
        chosen[i] = (size_t)rand_r(&client->seed) % TARGETS;
        AUTOFREE char *request = http_format("GET", client->late->targets[chosen[i]], FIXTURE_AUTH);
        requests = text_append(requests, request);
    }
    client->error = http_open(&conn, client->late->server.port);
    if (client->error == 0)
        client->error = http_send_text(&conn, requests);
    for (size_t i = 0; i < PIPELINE && client->error == 0; i++) {
        AUTO(http_response_free) struct http_response response;
        client->error = http_read(&conn, false, &response);
        if (client->error == 0)
            client->mismatches += !is_right(client->late, chosen[i], &response);
    }
}

static void *run_client(void *arg)
{
    struct client *client = arg;
    for (int round = 0; round < ROUNDS && client->error == 0; round++)
        run_pipeline(client);
    return NULL;
}

static void assert_all_right(struct late *late)
{
    struct client clients[CLIENTS];
    memset(clients, 0, sizeof clients);
    for (unsigned i = 0; i < CLIENTS; i++) {
        clients[i].late = late;
        clients[i].seed = i + 1;
        assert_int_equal(pthread_create(&clients[i].thread, NULL, run_client, &clients[i]), 0);
    }
    for (size_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_join(clients[i].thread, NULL), 0);
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(clients[i].error, 0);
        assert_int_equal(clients[i].mismatches, 0);
    }
}

TEST_CASE(concurrent_pipelines_are_right_with_a_prompt_redis)
{
    assert_all_right(*state);
}

TEST_CASE(concurrent_pipelines_are_right_with_late_answers)
{
    struct late *late = *state;
    proxy_set_delay(late->proxy, 15);
    assert_all_right(late);
    proxy_set_delay(late->proxy, 0);
}

TEST_CASE(concurrent_pipelines_are_right_with_answers_in_pieces)
{
    struct late *late = *state;
    proxy_set_slice(late->proxy, 251); /* values are cut; fewer bytes take a busy machine too long */
    assert_all_right(late);
    proxy_set_delay(late->proxy, 5);
    proxy_set_slice(late->proxy, 1000);
    assert_all_right(late);
    proxy_set_slice(late->proxy, 0);
    proxy_set_delay(late->proxy, 0);
}

TEST_CASE(each_worker_has_one_connection_to_redis)
{
    struct late *late = *state;
    assert_int_equal(proxy_connections(late->proxy), 2);
}
