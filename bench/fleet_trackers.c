/* See fleet_trackers.h. */
#include "fleet_trackers.h"

#include "common.h"
#include "fleet_catalogue.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    SAMPLED_MAX = 8,
    SAMPLES_MAX = 4 * 1000 * 1000,
    EVENTS = 512,
    TOUCHED_AT_ONCE = 256,
    PROBES_MAX = 1000000,
    PROBE_PAUSE_NS = 5000000,
    SETTLED_MS = 20,
    STACK_SIZE = 64 * 1024,
    DISCARDED_SIZE = 64 * 1024
};

struct tracker {
    struct resp resp;
    struct trackers *all;
    uint64_t random; /* seeds its share */
    long next;       /* the channel to be read next; -1 before the first */
    uint64_t due;    /* replies, when the batch under way is complete */
    bool reading;
    bool sampled;
    bool has_thread;
    pthread_t thread;
    struct text rereads; /* commands to be sent */
};

struct trackers {
    struct tracker_options options;
    int epoll;
    struct tracker *tracker;
    struct tracker *sampled[SAMPLED_MAX];
    size_t sampled_count;
    struct sample *samples;
    size_t sample_count;
    long unfinished; /* trackers that are reading */
    uint64_t commands, rereads;
    uint64_t random;
    struct text batch;
};

/* --- Shares --------------------------------------------------------------------------------------------- */

/* A hash (splitmix64's finaliser) as a number from 0 to below 100. */
static double percentile_of(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53 * 100;
}

static bool holds(const struct tracker *t, long channel)
{
    return percentile_of(t->random + (uint64_t)channel * UINT64_C(0x9E3779B97F4A7C15)) < t->all->options.held;
}

static bool reads_by_link(const struct tracker *t, long channel)
{
    return percentile_of(~t->random + (uint64_t)channel * UINT64_C(0x9E3779B97F4A7C15)) <
           (double)t->all->options.links;
}

/* --- Reading -------------------------------------------------------------------------------------------- */

/* The next channels of the share as one EXISTS. Returns whether there were any. */
static bool compose_touch(struct tracker *t, struct text *batch)
{
    long channels[TOUCHED_AT_ONCE];
    size_t count = 0;
    for (; t->next < t->all->options.channels && count < TOUCHED_AT_ONCE; t->next++)
        if (holds(t, t->next))
            channels[count++] = t->next;
    if (count > 0)
        compose_touch_cards(batch, channels, count);
    return count > 0;
}

/* By key Redis is not to track it: nothing is cached of a link. Returns the number of commands. */
static uint64_t compose_lookup(const struct trackers *ts, struct text *batch, long channel)
{
    bool by_key = ts->options.tracking == TRACKING_KEYS;
    if (by_key)
        command_compose(batch, "CLIENT CACHING NO");
    compose_read_link(batch, channel);
    return by_key ? 2 : 1;
}

/* The channels behind those of the catalogue do not exist. Returns the number of commands. */
static uint64_t compose_missing(const struct trackers *ts, struct text *batch, long channel)
{
    const struct tracker_options *o = &ts->options;
    bool by_id = channel < o->channels + o->missing_ids;
    if (by_id)
        compose_read_card(batch, channel);
    return (channel < o->channels + o->missing_links ? compose_lookup(ts, batch, channel) : 0) + by_id;
}

static uint64_t compose_reads(struct tracker *t, struct text *batch)
{
    const struct tracker_options *o = &t->all->options;
    uint64_t commands = 0;
    if (t->next < 0) {
        compose_read_api_keys(batch);
        compose_read_page(batch);
        commands = 2;
        t->next = 0;
    }
    if (o->touch)
        return commands + compose_touch(t, batch);
    for (; t->next < o->channels && commands < (uint64_t)o->depth; t->next++) {
        if (!holds(t, t->next))
            continue;
        if (reads_by_link(t, t->next))
            commands += compose_lookup(t->all, batch, t->next);
        compose_read_card(batch, t->next);
        commands++;
    }
    long missing = o->missing_ids > o->missing_links ? o->missing_ids : o->missing_links;
    for (; t->next < o->channels + missing && commands < (uint64_t)o->depth; t->next++)
        commands += compose_missing(t->all, batch, t->next);
    return commands;
}

static void send_next_batch(struct tracker *t)
{
    struct trackers *ts = t->all;
    ts->batch.len = 0;
    uint64_t commands = compose_reads(t, &ts->batch);
    ts->commands += commands;
    t->due = t->resp.replies + commands;
    t->reading = commands > 0;
    if (t->reading)
        resp_send(&t->resp, &ts->batch);
    else
        ts->unfinished--;
}

static void go_on(struct tracker *t)
{
    if (!resp_receive(&t->resp))
        return;
    while (t->reading && t->resp.replies >= t->due)
        send_next_batch(t);
}

static uint64_t real_time_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

struct prober {
    struct resp resp;
    struct text ping;
    uint64_t sent_ns; /* 0: no PING is under way */
    uint64_t next_ns;
    struct probe *result;
};

static void probe_open(struct prober *p, int port, struct probe *result)
{
    *p = (struct prober){.result = result};
    *result = (struct probe){.took = malloc(PROBES_MAX * sizeof *result->took)};
    if (result->took == NULL)
        die("out of memory");
    resp_open(&p->resp, port);
    resp_stamp(&p->resp);
    command_compose(&p->ping, "PING");
}

static void probe(struct prober *p)
{
    uint64_t now = now_ns();
    if (p->sent_ns != 0 && resp_receive(&p->resp)) {
        if (p->result->count < PROBES_MAX)
            p->result->took[p->result->count++] = p->resp.stamp_ns - p->sent_ns;
        p->sent_ns = 0;
        p->next_ns = now + PROBE_PAUSE_NS;
    }
    if (p->sent_ns != 0 || now < p->next_ns)
        return;
    p->sent_ns = real_time_ns();
    resp_send(&p->resp, &p->ping);
}

static void probe_close(struct prober *p)
{
    while (p->sent_ns != 0)
        probe(p);
    resp_close(&p->resp);
    text_free(&p->ping);
}

uint64_t trackers_read(struct trackers *ts, struct probe *result)
{
    struct prober prober;
    uint64_t before = ts->commands;
    probe_open(&prober, ts->options.port, result);
    ts->unfinished = ts->options.trackers;
    for (long i = 0; i < ts->options.trackers; i++) {
        ts->tracker[i].next = -1;
        send_next_batch(&ts->tracker[i]);
    }
    while (ts->unfinished > 0) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(ts->epoll, events, EVENTS, 1);
        for (int i = 0; i < count; i++) {
            go_on(events[i].data.ptr);
            if (i % 16 == 0)
                probe(&prober);
        }
        probe(&prober);
    }
    probe_close(&prober);
    return ts->commands - before;
}

/* --- Invalidations -------------------------------------------------------------------------------------- */

static void read_again(struct tracker *t, long channel)
{
    if (channel == OTHER_KEY)
        return;
    if (channel == INDEX_KEY)
        compose_read_page(&t->rereads);
    else if (channel == API_KEYS_KEY)
        compose_read_api_keys(&t->rereads);
    else
        compose_read_card(&t->rereads, channel);
    t->all->rereads++;
}

static void on_invalid(void *arg, const char *key, size_t len)
{
    struct tracker *t = arg;
    struct trackers *ts = t->all;
    if (key == NULL)
        return;
    long channel = channel_of_key(key, len);
    if (t->sampled && ts->sample_count < SAMPLES_MAX)
        ts->samples[ts->sample_count++] = (struct sample){t->resp.stamp_ns, channel};
    if (ts->options.reread > 0 && (long)prng_below(&ts->random, 100) < ts->options.reread)
        read_again(t, channel);
}

static void receive(struct tracker *t)
{
    if (!t->sampled && t->all->options.reread == 0) {
        resp_discard(&t->resp);
        return;
    }
    (void)resp_receive(&t->resp);
    if (t->rereads.len == 0)
        return;
    /* Further invalidations may arrive while the commands are sent. */
    struct text sending = t->rereads;
    t->rereads = t->all->batch;
    t->rereads.len = 0;
    resp_send(&t->resp, &sending);
    t->all->batch = sending;
}

void trackers_sample(struct trackers *ts)
{
    for (size_t i = 0; i < ts->sampled_count; i++)
        receive(ts->sampled[i]);
}

static int drain_ready(struct trackers *ts, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    int total = 0;
    for (int count = EVENTS; count == EVENTS; total += count) {
        count = epoll_wait(ts->epoll, events, EVENTS, timeout_ms);
        for (int i = 0; i < count; i++)
            receive(events[i].data.ptr);
    }
    return total;
}

void trackers_drain(struct trackers *ts)
{
    (void)drain_ready(ts, 0);
}

void trackers_settle(struct trackers *ts)
{
    while (drain_ready(ts, SETTLED_MS) > 0)
        continue;
}

const struct sample *trackers_samples(const struct trackers *ts, size_t *count)
{
    *count = ts->sample_count;
    return ts->samples;
}

void trackers_reset_samples(struct trackers *ts)
{
    ts->sample_count = 0;
}

uint64_t trackers_rereads(const struct trackers *ts)
{
    return ts->rereads;
}

uint64_t trackers_pushes(const struct trackers *ts)
{
    return ts->sampled_count > 0 ? ts->sampled[0]->resp.pushes : 0;
}

/* --- Sleeping trackers ---------------------------------------------------------------------------------- */

static void *sleep_and_discard(void *arg)
{
    struct tracker *t = arg;
    struct pollfd p = {.fd = t->resp.fd, .events = POLLIN};
    while (poll(&p, 1, -1) == 1 && recv(p.fd, NULL, DISCARDED_SIZE, MSG_TRUNC) > 0)
        continue;
    return NULL;
}

void trackers_sleep(struct trackers *ts)
{
    pthread_attr_t attributes;
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_SIZE);
    for (long i = 0; i < ts->options.trackers; i++) {
        struct tracker *t = &ts->tracker[i];
        if (t->sampled)
            continue;
        (void)epoll_ctl(ts->epoll, EPOLL_CTL_DEL, t->resp.fd, NULL);
        if (pthread_create(&t->thread, &attributes, sleep_and_discard, t) != 0)
            die("no thread for tracker %ld", i);
        t->has_thread = true;
    }
    (void)pthread_attr_destroy(&attributes);
}

static void end_thread(struct tracker *t)
{
    if (!t->has_thread)
        return;
    (void)shutdown(t->resp.fd, SHUT_RDWR);
    (void)pthread_join(t->thread, NULL);
}

/* --- Opening and closing -------------------------------------------------------------------------------- */

/* The commands of channeld's handshake. Returns their number. */
static uint64_t compose_handshake(struct text *t, enum tracking tracking)
{
    command_compose(t, "HELLO 3 SETNAME channeld");
    command_compose(t, "INFO replication");
    command_compose(t, "PING");
    if (tracking == TRACKING_NONE)
        return 3;
    command_compose(t, tracking == TRACKING_KEYS ? "CLIENT TRACKING ON OPTOUT"
                                                 : "CLIENT TRACKING ON BCAST PREFIX channels:card: "
                                                   "PREFIX channels:index PREFIX channels:api_key");
    return 4;
}

static void open_tracker(struct trackers *ts, struct tracker *t)
{
    t->all = ts;
    t->random = prng_next(&ts->random);
    resp_open(&t->resp, ts->options.port);
    t->resp.on_invalid = on_invalid;
    t->resp.arg = t;
    ts->batch.len = 0;
    uint64_t commands = compose_handshake(&ts->batch, ts->options.tracking);
    resp_call(&t->resp, &ts->batch, commands);
    net_watch(ts->epoll, t->resp.fd, EPOLLIN, t);
}

/* Spread over all, as Redis writes to one connection after the other. */
static void choose_sampled(struct trackers *ts)
{
    size_t trackers = (size_t)ts->options.trackers;
    ts->sampled_count = trackers < SAMPLED_MAX ? trackers : SAMPLED_MAX;
    for (size_t i = 0; i < ts->sampled_count; i++) {
        ts->sampled[i] = &ts->tracker[i * trackers / ts->sampled_count];
        ts->sampled[i]->sampled = true;
        resp_stamp(&ts->sampled[i]->resp);
    }
}

struct trackers *trackers_open(const struct tracker_options *o)
{
    struct trackers *ts = calloc(1, sizeof *ts);
    if (ts == NULL)
        die("out of memory");
    ts->options = *o;
    ts->random = 88172645463325252U;
    ts->epoll = epoll_create1(EPOLL_CLOEXEC);
    ts->tracker = calloc((size_t)o->trackers + 1, sizeof *ts->tracker);
    ts->samples = malloc(SAMPLES_MAX * sizeof *ts->samples);
    if (ts->tracker == NULL || ts->samples == NULL)
        die("out of memory");
    for (long i = 0; i < o->trackers; i++)
        open_tracker(ts, &ts->tracker[i]);
    choose_sampled(ts);
    return ts;
}

void trackers_close(struct trackers *ts)
{
    for (long i = 0; i < ts->options.trackers; i++) {
        end_thread(&ts->tracker[i]);
        resp_close(&ts->tracker[i].resp);
        text_free(&ts->tracker[i].rereads);
    }
    (void)close(ts->epoll);
    text_free(&ts->batch);
    free(ts->samples);
    free(ts->tracker);
    free(ts);
}
