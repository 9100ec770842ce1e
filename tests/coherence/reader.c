/* Pipelined clients, the requests that they send, and the loop of a reader; see reader.h. */

#include "coherence/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coherence/clock.h"
#include "support/http.h"

enum {
    BATCH_MAX = 8,
    ETAG_SIZE = 80,
    UNKNOWN_NAMES = 1000,
    EVENTS = 64,
    POLL_MS = 20,
    TEXT_SIZE = 4096,
    REOPEN_AFTER = 5000,
    DRAIN_S = 10,
    LAG_MS = 100
};

/* A keep-alive connection to channeld with at most one batch of pipelined requests under way. */
struct client {
    struct http_conn conn;
    int sent;     /* requests of the batch */
    int answered; /* of these */
    int since_opened;
    struct request request[BATCH_MAX];

    /* An earlier response about one channel, to be requested again with its entity tag. */
    bool has_validator;
    struct request validated;
    char etag[ETAG_SIZE];
};

/* ---- requests ---- */

static int reader_permanent_key(struct reader *reader)
{
    return random_below(&reader->random, MODEL_KEYS_PERMANENT);
}

static int reader_changing_key(struct reader *reader)
{
    return MODEL_KEYS_PERMANENT + random_below(&reader->random, MODEL_KEYS - MODEL_KEYS_PERMANENT);
}

static int reader_any_channel(struct reader *reader)
{
    const struct model *model = reader->checker.model;
    if (random_below(&reader->random, 3) == 0)
        return model_hot_channel(model, random_below(&reader->random, MODEL_HOT),
                                 random_below(&reader->random, model->writers));
    return random_below(&reader->random, model->channels);
}

/* Something that does not exist: a channel, a link, or a key. */
static void reader_choose_unknown(struct reader *reader, struct request *request)
{
    request->kind = REQUEST_UNKNOWN;
    switch (random_below(&reader->random, 3)) {
    case 0:
        request->object = -1;
        break;
    case 1:
        request->object = -1;
        request->target = TARGET_LINK;
        break;
    default:
        request->key = -1;
        break;
    }
}

static void reader_choose(struct reader *reader, const struct client *client, struct request *request)
{
    *request = (struct request){.kind = REQUEST_CARD, .target = TARGET_CARD};
    request->object = reader_any_channel(reader);
    request->key = reader_permanent_key(reader);
    if (random_below(&reader->random, 1000) < reader->options->page_permille) {
        request->kind = REQUEST_PAGE;
        request->target = TARGET_PAGE;
        request->object = 1 + random_below(&reader->random, MODEL_PAGES);
        return;
    }
    int percent = random_below(&reader->random, 100);
    if (percent < 3) {
        reader_choose_unknown(reader, request);
    } else if (percent < 15) {
        request->kind = REQUEST_KEY;
        request->object =
            model_hot_channel(reader->checker.model, random_below(&reader->random, MODEL_HOT), 0);
        request->key = reader_changing_key(reader);
    } else if (percent < 25 && client->has_validator) {
        *request = client->validated;
        request->kind = REQUEST_CONDITIONAL;
        request->conditional = true;
    } else if (percent < 45) {
        request->kind = REQUEST_LINK;
        request->target = TARGET_LINK;
        request->object = reader_any_channel(reader);
    }
}

static int reader_requested_link(struct reader *reader, const struct request *request)
{
    enum { MISDIRECTED_ONE_IN = 20 };
    bool misdirected = reader->options->misdirect_links && !request->conditional &&
                       random_below(&reader->random, MISDIRECTED_ONE_IN) == 0;
    return (request->object + (misdirected ? 1 : 0)) % reader->checker.model->channels;
}

static int reader_write_target(struct reader *reader, const struct request *request, char *text, size_t size)
{
    const char *host = random_below(&reader->random, 4) == 0 ? "web.max.ru" : "max.ru";
    if (request->target == TARGET_PAGE)
        return snprintf(text, size, "GET /api/channels/?page=%d", request->object);
    if (request->target == TARGET_LINK && request->object >= 0)
        return snprintf(text, size, "GET /api/channel/by-link/?link=https://%s/l%d", host,
                        reader_requested_link(reader, request));
    if (request->target == TARGET_LINK)
        return snprintf(text, size, "GET /api/channel/by-link/?link=https://%s/nobody%d", host,
                        random_below(&reader->random, UNKNOWN_NAMES));
    int64_t id =
        request->object >= 0 ? model_id(request->object) : 1 + random_below(&reader->random, UNKNOWN_NAMES);
    return snprintf(text, size, "GET /api/channel/by-id/%" PRId64 "/", id);
}

static int reader_write_request(struct reader *reader, const struct client *client,
                                const struct request *request, char *text, size_t size)
{
    const struct model *model = reader->checker.model;
    const char *key = request->key >= 0 ? model->key_text[request->key] : "a-key-that-was-never-valid";
    int used = reader_write_target(reader, request, text, size);
    used += snprintf(text + used, size - (size_t)used, " HTTP/1.1\r\nHost: test\r\nX-Api-Key: %s\r\n", key);
    if (request->conditional)
        used += snprintf(text + used, size - (size_t)used, "If-None-Match: %s\r\n", client->etag);
    used += snprintf(text + used, size - (size_t)used, "\r\n");
    return used;
}

/* Chooses and sends the next batch. */
static int reader_send(struct reader *reader, struct client *client)
{
    char text[TEXT_SIZE];
    size_t length = 0;
    int count = random_below(&reader->random, 2) == 0 ? 1 : 1 + random_below(&reader->random, BATCH_MAX);
    for (int i = 0; i < count; i++) {
        reader_choose(reader, client, &client->request[i]);
        length += (size_t)reader_write_request(reader, client, &client->request[i], text + length,
                                               sizeof text - length);
    }
    int64_t now = clock_now();
    for (int i = 0; i < count; i++)
        client->request[i].sent = now;
    client->sent = count;
    client->answered = 0;
    client->since_opened += count;
    if (reader->options->reads != 0)
        reader->due += (int64_t)count * CLOCK_S * reader->options->readers / reader->options->reads;
    return http_send(&client->conn, text, length);
}

/* ---- connections ---- */

static void reader_fail(struct reader *reader, const char *what, int error)
{
    report_violation(reader->checker.report, VIOLATION_CONNECTION, "%s: %s", what, strerror(-error));
}

static void reader_open(struct reader *reader, struct client *client)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = client}};
    int error = http_open(&client->conn, reader->port);
    client->sent = client->answered = client->since_opened = 0;
    if (error == 0 && epoll_ctl(reader->poller, EPOLL_CTL_ADD, client->conn.fd, &event) != 0)
        abort();
    if (error != 0)
        reader_fail(reader, "connect", error);
}

static void reader_reopen(struct reader *reader, struct client *client)
{
    http_close(&client->conn);
    client->has_validator = false;
    reader_open(reader, client);
}

/* ---- responses ---- */

static void latency_add(struct latency *latency, int64_t ns)
{
    uint64_t us = ns < 4 * (int64_t)CLOCK_US ? 4 : (uint64_t)ns / CLOCK_US;
    int power = 63 - __builtin_clzll(us); /* 2 or more */
    int bucket = 4 * power + (int)(us >> (power - 2) & 3);
    bucket = bucket < LATENCY_BUCKETS ? bucket : LATENCY_BUCKETS - 1;
    atomic_fetch_add_explicit(&latency->count[bucket], 1, memory_order_relaxed);
}

/* Keeps the entity tag of some responses about a channel, for a conditional request later. */
static void reader_keep_validator(struct reader *reader, struct client *client, const struct request *request,
                                  const struct http_reply *reply, const struct observed *seen)
{
    size_t length = 0;
    const char *etag = http_reply_header(reply, "ETag", &length);
    if (request->conditional || etag == NULL || length >= ETAG_SIZE ||
        (client->has_validator && random_below(&reader->random, 8) != 0))
        return;
    for (int i = client->answered; i < client->sent; i++) {
        if (client->request[i].conditional)
            return; /* the tag that it was sent with must stay */
    }
    client->has_validator = true;
    client->validated = *request;
    client->validated.known = *seen;
    memcpy(client->etag, etag, length);
    client->etag[length] = '\0';
}

/* Checks all responses that are complete; a negative errno when they make no sense. */
static int reader_check_responses(struct reader *reader, struct client *client, int64_t now)
{
    struct http_reply reply;
    struct observed seen;
    while (client->answered < client->sent) {
        int taken = http_take(&client->conn, false, &reply);
        if (taken <= 0)
            return taken;
        const struct request *request = &client->request[client->answered++];
        const struct response response = {
            .received = now, .status = reply.status, .body = reply.body, .length = reply.body_length};
        latency_add(&reader->latency, now - request->sent);
        if (checker_check(&reader->checker, request, &response, &seen) && reply.status == 200)
            reader_keep_validator(reader, client, request, &reply, &seen);
    }
    return 0;
}

static void reader_on_readable(struct reader *reader, struct client *client)
{
    int got = http_receive(&client->conn);
    int64_t now = clock_now();
    if (got > 0)
        got = reader_check_responses(reader, client, now);
    if (got < 0) {
        reader_fail(reader, "connection", got);
        reader_reopen(reader, client);
    } else if (client->answered == client->sent && client->since_opened > REOPEN_AFTER) {
        reader_reopen(reader, client);
    }
}

/* ---- the thread ---- */

/* Sends on each idle client, unless the rate forbids; returns how many wait for responses. */
static int reader_send_all(struct reader *reader, bool finished)
{
    int busy = 0;
    int64_t now = clock_now();
    bool limited = reader->options->reads != 0;
    if (reader->due < now - (int64_t)LAG_MS * CLOCK_MS)
        reader->due = now;
    for (int i = 0; i < reader->options->connections; i++) {
        struct client *client = &reader->clients[(reader->first + i) % reader->options->connections];
        bool idle = client->answered == client->sent;
        if (idle && !finished && client->conn.fd < 0)
            reader_open(reader, client);
        if (idle && !finished && client->conn.fd >= 0 && (!limited || reader->due <= now)) {
            int error = reader_send(reader, client);
            if (error != 0)
                reader_fail(reader, "send", error);
        }
        busy += client->answered != client->sent;
    }
    /* With a limited rate the last client would starve otherwise. */
    reader->first = (reader->first + 1) % reader->options->connections;
    return busy;
}

static void reader_poll(struct reader *reader)
{
    struct epoll_event events[EVENTS];
    int64_t ahead = reader->options->reads != 0 ? reader->due - clock_now() : 0;
    clock_sleep(ahead < (int64_t)POLL_MS * CLOCK_MS ? ahead : (int64_t)POLL_MS * CLOCK_MS);
    int count = epoll_wait(reader->poller, events, EVENTS, ahead > 0 ? 0 : POLL_MS);
    for (int i = 0; i < count; i++)
        reader_on_readable(reader, events[i].data.ptr);
}

static void *reader_main(void *arg)
{
    struct reader *reader = arg;
    int64_t deadline = 0;
    reader->due = clock_now();
    for (;;) {
        bool finished = atomic_load(reader->finished);
        int busy = reader_send_all(reader, finished);
        if (finished && deadline == 0)
            deadline = clock_now() + (int64_t)DRAIN_S * CLOCK_S;
        if (finished && (busy == 0 || clock_now() > deadline)) {
            if (busy > 0)
                reader_fail(reader, "last responses", -ETIMEDOUT);
            return NULL;
        }
        reader_poll(reader);
    }
}

void reader_start(struct reader *reader, const struct options *options, const struct checker *checker,
                  int number, int port, atomic_bool *finished)
{
    *reader = (struct reader){.options = options, .checker = *checker, .port = port, .finished = finished};
    reader->checker.counters = &reader->counters;
    reader->random = options->seed * 1000 + 500 + (uint64_t)number;
    reader->poller = epoll_create1(EPOLL_CLOEXEC);
    reader->clients = calloc((size_t)options->connections, sizeof *reader->clients);
    if (reader->poller < 0 || reader->clients == NULL)
        abort();
    for (int i = 0; i < options->connections; i++)
        reader->clients[i].conn.fd = -1;
    if (pthread_create(&reader->thread, NULL, reader_main, reader) != 0)
        abort();
}

void reader_join(struct reader *reader)
{
    (void)pthread_join(reader->thread, NULL);
    for (int i = 0; i < reader->options->connections; i++)
        http_close(&reader->clients[i].conn);
    free(reader->clients);
    (void)close(reader->poller);
}
