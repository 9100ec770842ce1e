/*
 * What a fleet of trackers costs Redis; see the comment of bench/fleet, which builds and starts this program.
 *
 * One Redis (or a master and its replica) per combination of trackers, tracking and share. It is filled, the
 * trackers connect and read their share, then a loader writes for some time: once per round and depth of
 * pipeline. This process is one thread on a core of its own. It never sleeps while it measures, so that Redis
 * need not wake it, and it takes the times of acknowledgements and invalidations from the kernel, so that its
 * own slowness does not show in them.
 */
#include "common.h"
#include "fleet_catalogue.h"
#include "fleet_resp.h"
#include "fleet_server.h"
#include "fleet_trackers.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    LIST_MAX = 16,
    ROUNDS_MAX = 99,
    WRITES_MAX = 4 * 1000 * 1000,
    PIPELINE_MAX = 1024,
    PRIORITY = -20,
    DRAIN_NS = 2000000,
    IDLE_NS = 500000000,
    SETTLE_US = 10000,
    SHRINK_US = 3000000 /* Redis shrinks the buffers of connections that were idle for two seconds */
};

struct list {
    double value[LIST_MAX];
    int count;
};

static struct options {
    struct list trackers, held, pipeline;
    const char *tracking, *server, *server_args, *write;
    long channels, value_bytes, links, missing_ids, missing_links, constant, days, depth, reread, rate,
        rounds;
    double seconds;
    bool replica, touch, asleep, reconnect, csv;
    int server_core, other_core;
} options = {
    .trackers = {{0, 100}, 2},
    .held = {{2}, 1},
    .pipeline = {{1, 32}, 2},
    .tracking = "both",
    .server = "redis-server",
    .server_args = "",
    .write = "card",
    .channels = 100000,
    .value_bytes = 500,
    .depth = 16,
    .rounds = 3,
    .seconds = 2,
    .server_core = 0,
    .other_core = 1,
};

static const char *const TRACKING_NAMES[] = {"none", "keys", "broadcast"};
static const char *const WRITE_NAMES[] = {"card", "index", "api-keys"};

/* What is measured for one combination, once. */
struct setting {
    enum tracking tracking;
    long trackers;
    double held;
    double connect_us;      /* Redis' processor time per tracker, as all below */
    double connect_seconds; /* until all were connected, one after the other */
    double connect_bytes;   /* Redis' memory per tracker */
    uint64_t reads;
    double read_us;                               /* per command */
    double read_seconds;                          /* until all trackers had read their share */
    double ping_p50_us, ping_p99_us, ping_max_us; /* of another client meanwhile */
    long long tracking_bytes;                     /* of Redis' memory, by what was read */
    long long keys, items, prefixes;
    double idle_us; /* per second, without any write */
    double reconnect_seconds, reconnect_ms, reconnect_ping_us;
    long long reconnect_items, reconnect_bytes;
};

/* What is measured per round and depth of pipeline. */
struct figures {
    double writes, rate, write_us, master_us, notified, rereads, writes_per_turn;
    double samples, p50_us, p99_us, p999_us;
    double drain_share; /* of a core, for the trackers that are not sampled */
};

static struct servers {
    struct server measured, master;
    bool has_master;
    char version[64];
} servers;

/* --- Clocks and percentiles ----------------------------------------------------------------------------- */

static uint64_t thread_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of sorted values; 0 when there are none. */
static double quantile(const double *sorted, size_t count, double part)
{
    size_t rank = (size_t)(part * (double)count);
    return count == 0 ? 0 : sorted[rank < count ? rank : count - 1];
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* --- The loader ----------------------------------------------------------------------------------------- */

/*
 * Writes every channel once before it writes one again, in random order: with tracking by key, a key that was
 * not read since its last invalidation has no trackers.
 */
static struct loader {
    struct resp resp;
    enum write_kind kind;
    long *channel;  /* in the order of writing */
    long *position; /* of each channel in that order */
    uint64_t next;  /* write, over all measurements of a setting */
    uint64_t first; /* of this measurement */
    uint64_t *acknowledged_ns;
    struct text batch;
} loader;

static void loader_init(void)
{
    uint64_t random = 2463534242U;
    size_t count = (size_t)options.channels;
    while (strcmp(WRITE_NAMES[loader.kind], options.write) != 0)
        if (++loader.kind > WRITE_API_KEYS)
            die("--write: card, index or api-keys is expected");
    loader.channel = malloc(count * sizeof *loader.channel);
    loader.position = malloc(count * sizeof *loader.position);
    loader.acknowledged_ns = malloc(WRITES_MAX * sizeof *loader.acknowledged_ns);
    if (loader.channel == NULL || loader.position == NULL || loader.acknowledged_ns == NULL)
        die("out of memory");
    for (size_t i = 0; i < count; i++) {
        size_t other = prng_below(&random, i + 1);
        loader.channel[i] = loader.channel[other];
        loader.channel[other] = (long)i;
    }
    for (size_t i = 0; i < count; i++)
        loader.position[loader.channel[i]] = (long)i;
}

static void loader_send(long count)
{
    loader.batch.len = 0;
    for (long i = 0; i < count; i++, loader.next++) {
        long channel = loader.channel[loader.next % (uint64_t)options.channels];
        compose_write(&loader.batch, loader.kind, channel, (long)loader.next + 1000000);
    }
    resp_send(&loader.resp, &loader.batch);
}

/* Whether each channel may be written once only, so that all rounds together are limited. */
static bool writes_once(const struct setting *s)
{
    return s->tracking == TRACKING_KEYS && options.reread == 0 && loader.kind == WRITE_CARD;
}

static uint64_t most_writes(const struct setting *s)
{
    if (!writes_once(s))
        return WRITES_MAX - PIPELINE_MAX;
    return (uint64_t)(options.channels / (options.rounds * options.pipeline.count));
}

struct run {
    uint64_t acknowledged;
    uint64_t drain_ns; /* processor time */
    uint64_t began_ns, ended_ns;
};

static void note_acknowledged(struct run *r, uint64_t replies)
{
    for (; r->acknowledged < replies; r->acknowledged++)
        loader.acknowledged_ns[r->acknowledged] = loader.resp.stamp_ns;
}

static void drain(struct trackers *ts, struct run *r)
{
    uint64_t before = thread_ns();
    trackers_drain(ts);
    r->drain_ns += thread_ns() - before;
}

/* Writes for the given time, and at most so often. One batch is under way at a time. */
static struct run write_for(struct trackers *ts, long pipeline, uint64_t most)
{
    uint64_t before = loader.resp.replies;
    struct run r = {.began_ns = now_ns()};
    uint64_t until = r.began_ns + (uint64_t)(options.seconds * 1e9);
    uint64_t drained = r.began_ns;
    uint64_t sent = 0;
    loader.first = loader.next;
    for (uint64_t now = r.began_ns; sent > r.acknowledged || (now < until && sent < most); now = now_ns()) {
        uint64_t due =
            options.rate > 0 ? r.began_ns + sent * UINT64_C(1000000000) / (uint64_t)options.rate : 0;
        if (sent == r.acknowledged && now >= due) {
            loader_send(pipeline);
            sent += (uint64_t)pipeline;
        }
        if (resp_receive(&loader.resp))
            note_acknowledged(&r, loader.resp.replies - before);
        trackers_sample(ts);
        if (now - drained > DRAIN_NS || sent == r.acknowledged) {
            drain(ts, &r);
            drained = now;
        }
    }
    r.ended_ns = now_ns();
    return r;
}

/* --- Delays --------------------------------------------------------------------------------------------- */

/* The write whose acknowledgement is nearest in time: of the same channel if it is known, otherwise of all.
 */
static uint64_t nearest_acknowledgement(const struct sample *s, uint64_t writes)
{
    uint64_t step = s->channel >= 0 ? (uint64_t)options.channels : 1;
    uint64_t phase = s->channel >= 0 ? (uint64_t)loader.position[s->channel] : 0;
    uint64_t i = (phase + step - loader.first % step) % step;
    uint64_t best = 0;
    for (uint64_t distance = UINT64_MAX; i < writes; i += step) {
        uint64_t at = loader.acknowledged_ns[i];
        uint64_t d = at > s->stamp_ns ? at - s->stamp_ns : s->stamp_ns - at;
        if (d < distance) {
            distance = d;
            best = at;
        }
    }
    return best;
}

static void compute_delays(const struct trackers *ts, uint64_t writes, struct figures *f)
{
    size_t count;
    size_t known = 0;
    const struct sample *sample = trackers_samples(ts, &count);
    double *delay = malloc((count + 1) * sizeof *delay);
    if (delay == NULL)
        die("out of memory");
    for (size_t i = 0; i < count; i++) {
        uint64_t at = nearest_acknowledgement(&sample[i], writes);
        if (at != 0)
            delay[known++] = ((double)sample[i].stamp_ns - (double)at) / 1000;
    }
    qsort(delay, known, sizeof *delay, compare);
    f->samples = (double)known;
    f->p50_us = quantile(delay, known, 0.5);
    f->p99_us = quantile(delay, known, 0.99);
    f->p999_us = quantile(delay, known, 0.999);
    free(delay);
}

/* --- Measuring ------------------------------------------------------------------------------------------ */

/* Processor time without any write, in microseconds per second. */
static double measure_idle(const struct server *s)
{
    uint64_t began = now_ns();
    uint64_t used = server_cpu_ns(s);
    (void)usleep(IDLE_NS / 1000);
    used = server_cpu_ns(s) - used;
    return (double)used / 1e3 / ((double)(now_ns() - began) / 1e9);
}

static struct figures measure(struct trackers *ts, const struct setting *s, long pipeline)
{
    struct server *measured = &servers.measured;
    struct server *master = servers.has_master ? &servers.master : measured;
    struct figures f = {0};
    trackers_reset_samples(ts);
    long long items = server_info(measured, "tracking_total_items");
    uint64_t rereads = trackers_rereads(ts);
    uint64_t pushes = trackers_pushes(ts);
    uint64_t master_used = server_cpu_ns(master);
    uint64_t used = server_cpu_ns(measured);
    struct run r = write_for(ts, pipeline, most_writes(s));
    if (servers.has_master)
        server_catch_up(measured, master);
    trackers_settle(ts);
    double seconds = (double)(now_ns() - r.began_ns) / 1e9;
    f.writes = (double)r.acknowledged;
    f.write_us = ((double)(server_cpu_ns(measured) - used) / 1e3 - s->idle_us * seconds) / f.writes;
    f.master_us = servers.has_master ? (double)(server_cpu_ns(master) - master_used) / 1e3 / f.writes : 0;
    f.rate = f.writes / ((double)(r.ended_ns - r.began_ns) / 1e9);
    f.drain_share = (double)r.drain_ns / (double)(r.ended_ns - r.began_ns);
    f.rereads = (double)(trackers_rereads(ts) - rereads) / f.writes;
    items -= server_info(measured, "tracking_total_items");
    if (s->tracking == TRACKING_KEYS)
        f.notified = (double)items / f.writes + f.rereads;
    else if (s->tracking == TRACKING_BROADCAST)
        f.notified = (double)s->trackers;
    if (s->tracking == TRACKING_BROADCAST && trackers_pushes(ts) > pushes)
        f.writes_per_turn = f.writes / (double)(trackers_pushes(ts) - pushes);
    compute_delays(ts, r.acknowledged, &f);
    return f;
}

static double probe_quantile(const struct probe *p, double part)
{
    double *us = malloc((p->count + 1) * sizeof *us);
    if (us == NULL)
        die("out of memory");
    for (size_t i = 0; i < p->count; i++)
        us[i] = (double)p->took[i] / 1e3;
    qsort(us, p->count, sizeof *us, compare);
    double value = quantile(us, p->count, part);
    free(us);
    return value;
}

/* The memory in use, after the buffers of idle connections have shrunk. */
static long long memory_of_idle(const struct setting *s)
{
    if (s->trackers > 0)
        (void)usleep(SHRINK_US);
    return server_info(&servers.measured, "used_memory");
}

static struct trackers *open_trackers(const struct setting *s)
{
    const struct tracker_options o = {
        .port = servers.measured.port,
        .tracking = s->tracking,
        .trackers = s->trackers,
        .held = s->held,
        .channels = options.channels,
        .links = options.links,
        .missing_ids = options.missing_ids,
        .missing_links = options.missing_links,
        .depth = options.depth,
        .reread = options.reread,
        .touch = options.touch,
    };
    return trackers_open(&o);
}

static struct trackers *connect_trackers(struct setting *s)
{
    struct server *measured = &servers.measured;
    long long memory = server_info(measured, "used_memory");
    uint64_t used = server_cpu_ns(measured);
    uint64_t began = now_ns();
    struct trackers *ts = open_trackers(s);
    s->connect_seconds = (double)(now_ns() - began) / 1e9;
    double trackers = s->trackers > 0 ? (double)s->trackers : 1;
    s->connect_us = (double)(server_cpu_ns(measured) - used) / 1e3 / trackers;
    s->connect_bytes = (double)(memory_of_idle(s) - memory) / trackers;
    return ts;
}

static void read_shares(struct trackers *ts, struct setting *s)
{
    struct server *measured = &servers.measured;
    struct probe p;
    long long memory = server_info(measured, "used_memory");
    uint64_t used = server_cpu_ns(measured);
    uint64_t began = now_ns();
    s->reads = trackers_read(ts, &p);
    s->read_seconds = (double)(now_ns() - began) / 1e9;
    s->read_us = s->reads > 0 ? (double)(server_cpu_ns(measured) - used) / 1e3 / (double)s->reads : 0;
    s->ping_p50_us = probe_quantile(&p, 0.5);
    s->ping_p99_us = probe_quantile(&p, 0.99);
    s->ping_max_us = probe_quantile(&p, 1);
    s->tracking_bytes = memory_of_idle(s) - memory;
    s->keys = server_info(measured, "tracking_total_keys");
    s->items = server_info(measured, "tracking_total_items");
    s->prefixes = server_info(measured, "tracking_total_prefixes");
    free(p.took);
}

/* All connections end at once, and the trackers read their share again over new ones. */
static struct trackers *reconnect(struct trackers *ts, struct setting *s)
{
    struct server *measured = &servers.measured;
    struct setting again = *s;
    long long memory = server_info(measured, "used_memory");
    double idle_us = measure_idle(measured);
    uint64_t began = now_ns();
    uint64_t used = server_cpu_ns(measured);
    trackers_close(ts);
    ts = connect_trackers(&again);
    read_shares(ts, &again);
    double seconds = (double)(now_ns() - began) / 1e9;
    s->reconnect_ms = ((double)(server_cpu_ns(measured) - used) / 1e3 - seconds * idle_us) / 1e3;
    s->reconnect_seconds = again.connect_seconds + again.read_seconds;
    s->reconnect_ping_us = again.ping_max_us;
    s->reconnect_items = again.items;
    s->reconnect_bytes = server_info(measured, "used_memory") - memory;
    return ts;
}

/* --- Days of rollouts ----------------------------------------------------------------------------------- */

/* What is left when no tracker is connected. */
static long long memory_without_trackers(void)
{
    while (server_info(&servers.measured, "tracking_clients") > 0)
        (void)usleep(SETTLE_US);
    return server_info(&servers.measured, "used_memory");
}

/* Writes all channels but the share that never changes. */
static void load_changes(struct trackers *ts, long day)
{
    enum { BATCH = 32 };
    long end = options.channels * (100 - options.constant) / 100;
    for (long channel = 0; channel < end;) {
        uint64_t count = 0;
        loader.batch.len = 0;
        for (; channel < end && count < BATCH; channel++, count++)
            compose_write(&loader.batch, WRITE_CARD, channel, 1000000 + day);
        resp_call(&loader.resp, &loader.batch, count);
        if (ts != NULL)
            trackers_drain(ts);
    }
    if (ts != NULL)
        trackers_settle(ts);
}

static void read_once(struct trackers *ts)
{
    struct probe p;
    (void)trackers_read(ts, &p);
    free(p.took);
}

/*
 * Each day begins with a rollout: all trackers are new, and read their shares. Then the loader writes, and
 * they read again. The table is largest before that: it has what the trackers of the day before and those of
 * the day have read since the last load.
 */
static void simulate_days(enum tracking tracking, long trackers, double held)
{
    struct server *measured = &servers.measured;
    load_changes(NULL, 0);
    long long before = memory_without_trackers();
    printf("%s, %ld channels, of which %ld%% never change; %ld trackers, tracking: %s, of which each reads "
           "%g%%, of "
           "these %ld%% by link, and looks up %ld ids and %ld links that do not exist\n\n",
           servers.version, options.channels, options.constant, trackers, TRACKING_NAMES[tracking], held,
           options.links, options.missing_ids, options.missing_links);
    printf("%5s %14s %20s %21s %9s\n", "day", "most that day", "tracking_total_items", "tracking_total_keys",
           "table MB");
    for (long day = 1; day <= options.days; day++) {
        struct setting s = {.tracking = tracking, .trackers = trackers, .held = held};
        struct trackers *ts = open_trackers(&s);
        read_once(ts);
        long long most = server_info(measured, "tracking_total_items");
        load_changes(ts, day);
        read_once(ts);
        trackers_close(ts);
        long long memory = memory_without_trackers() - before;
        printf("%5ld %14lld %20lld %21lld %9.2f\n", day, most, server_info(measured, "tracking_total_items"),
               server_info(measured, "tracking_total_keys"), (double)memory / 1e6);
        (void)fflush(stdout);
    }
}

/* --- Output --------------------------------------------------------------------------------------------- */

static void print_csv_header(void)
{
    puts(
        "server,args,role,tracking,trackers,held,channels,links,write,reread,rate,asleep,pipeline,round,"
        "writes,"
        "writes_per_second,write_us,master_us,notified,rereads,writes_per_turn,samples,p50_us,p99_us,p999_us,"
        "drain_share,idle_us,connect_us,connect_bytes,reads,read_us,read_seconds,ping_p50_us,ping_p99_us,"
        "ping_max_us,tracking_bytes,keys,items,prefixes,reconnect_ms,reconnect_seconds,reconnect_ping_us,"
        "reconnect_items,reconnect_bytes");
}

static void print_csv(const struct setting *s, long pipeline, long round, const struct figures *f)
{
    printf("%s,%s,%s,%s,%ld,%g,%ld,%ld,%s,%ld,%ld,%d,%ld,%ld,", servers.version, options.server_args,
           servers.has_master ? "replica" : "master", TRACKING_NAMES[s->tracking], s->trackers, s->held,
           options.channels, options.links, options.write, options.reread, options.rate, options.asleep,
           pipeline, round);
    printf("%.0f,%.1f,%.3f,%.3f,%.3f,%.3f,%.2f,%.0f,%.1f,%.1f,%.1f,%.3f,", f->writes, f->rate, f->write_us,
           f->master_us, f->notified, f->rereads, f->writes_per_turn, f->samples, f->p50_us, f->p99_us,
           f->p999_us, f->drain_share);
    printf("%.1f,%.1f,%.0f,%llu,%.3f,%.3f,%.0f,%.0f,%.0f,%lld,%lld,%lld,%lld,%.1f,%.3f,%.0f,%lld,%lld\n",
           s->idle_us, s->connect_us, s->connect_bytes, (unsigned long long)s->reads, s->read_us,
           s->read_seconds, s->ping_p50_us, s->ping_p99_us, s->ping_max_us, s->tracking_bytes, s->keys,
           s->items, s->prefixes, s->reconnect_ms, s->reconnect_seconds, s->reconnect_ping_us,
           s->reconnect_items, s->reconnect_bytes);
}

static void print_table_header(void)
{
    printf("%s%s%s, %s; %ld channels, writes: %s, %g s, medians of %ld rounds\n\n", servers.version,
           options.server_args[0] != '\0' ? " " : "", options.server_args,
           servers.has_master ? "trackers at a replica" : "master", options.channels, options.write,
           options.seconds, options.rounds);
    printf("%-9s %8s %6s %8s %9s %9s %9s %9s %9s %9s %9s %9s %7s\n", "tracking", "trackers", "held",
           "pipeline", "us/write", "writes/s", "notified", "re-reads", "p50 us", "p99 us", "p99.9 us",
           "tables MB", "drain");
}

static void print_row(const struct setting *s, long pipeline, const struct figures *f)
{
    printf("%-9s %8ld %5g%% %8ld %9.1f %9.0f %9.1f %9.1f %9.0f %9.0f %9.0f %9.1f %6.0f%%\n",
           TRACKING_NAMES[s->tracking], s->trackers, s->held, pipeline, f->write_us, f->rate, f->notified,
           f->rereads, f->p50_us, f->p99_us, f->p999_us, (double)s->tracking_bytes / 1e6,
           100 * f->drain_share);
}

static void print_setting(const struct setting *s)
{
    printf("  connecting: %.0f us and %.0f bytes per tracker; reading: %llu commands, %.2f us each, %.1f s, "
           "another "
           "client's PING p50 %.0f, p99 %.0f, longest %.0f us; %lld keys, %lld registrations; idle: %.2f%% "
           "of a core\n",
           s->connect_us, s->connect_bytes, (unsigned long long)s->reads, s->read_us, s->read_seconds,
           s->ping_p50_us, s->ping_p99_us, s->ping_max_us, s->keys, s->items, s->idle_us / 1e4);
    if (options.reconnect)
        printf(
            "  all reconnect and read again: %.1f s, %.0f ms of processor time, longest PING %.0f us; %lld "
            "registrations, %+.1f MB\n",
            s->reconnect_seconds, s->reconnect_ms, s->reconnect_ping_us, s->reconnect_items,
            (double)s->reconnect_bytes / 1e6);
}

/* The median of each figure by itself. */
static struct figures median_figures(const struct figures *rounds, size_t count)
{
    struct figures m;
    double values[ROUNDS_MAX];
    for (size_t at = 0; at < sizeof m / sizeof(double); at++) {
        for (size_t i = 0; i < count; i++)
            values[i] = ((const double *)&rounds[i])[at];
        ((double *)&m)[at] = median(values, count);
    }
    return m;
}

/* --- Main ----------------------------------------------------------------------------------------------- */

static void start_servers(void)
{
    struct server_options o = {options.server, options.server_args, options.server_core, 0};
    servers.has_master = options.replica;
    if (options.replica) {
        o.core = options.other_core;
        server_start(&servers.master, &o);
        catalogue_load(servers.master.port, options.channels, options.value_bytes);
        o.core = options.server_core;
        o.master_port = servers.master.port;
    }
    server_start(&servers.measured, &o);
    if (!options.replica)
        catalogue_load(servers.measured.port, options.channels, options.value_bytes);
    (void)snprintf(servers.version, sizeof servers.version, "%s", server_version(&servers.measured));
    loader.next = 0;
    resp_open(&loader.resp, options.replica ? servers.master.port : servers.measured.port);
    resp_stamp(&loader.resp);
}

static void stop_servers(void)
{
    resp_close(&loader.resp);
    server_stop(&servers.measured);
    if (servers.has_master)
        server_stop(&servers.master);
}

static void measure_rounds(struct trackers *ts, const struct setting *s)
{
    static struct figures rounds[LIST_MAX][ROUNDS_MAX];
    for (long round = 0; round < options.rounds; round++)
        for (int i = 0; i < options.pipeline.count; i++)
            rounds[i][round] = measure(ts, s, (long)options.pipeline.value[i]);
    for (int i = 0; i < options.pipeline.count; i++) {
        long pipeline = (long)options.pipeline.value[i];
        if (options.csv)
            for (long round = 0; round < options.rounds; round++)
                print_csv(s, pipeline, round + 1, &rounds[i][round]);
        else {
            struct figures m = median_figures(rounds[i], (size_t)options.rounds);
            print_row(s, pipeline, &m);
        }
    }
}

static void measure_setting(enum tracking tracking, long trackers, double held)
{
    static bool begun;
    struct setting s = {.tracking = tracking, .trackers = trackers, .held = held};
    start_servers();
    if (options.days > 0) {
        simulate_days(tracking, trackers, held);
        stop_servers();
        return;
    }
    if (!begun && options.csv)
        print_csv_header();
    else if (!begun)
        print_table_header();
    begun = true;
    struct trackers *ts = connect_trackers(&s);
    read_shares(ts, &s);
    if (options.reconnect)
        ts = reconnect(ts, &s);
    if (options.asleep)
        trackers_sleep(ts);
    trackers_settle(ts);
    s.idle_us = measure_idle(&servers.measured);
    measure_rounds(ts, &s);
    if (!options.csv)
        print_setting(&s);
    (void)fflush(stdout);
    trackers_close(ts);
    stop_servers();
}

/* With broadcast tracking the share does not matter to Redis: the first one is measured. */
static void measure_tracking(enum tracking tracking)
{
    const struct options *o = &options;
    for (int i = 0; i < o->trackers.count; i++)
        for (int k = 0; k < o->held.count; k++)
            if (k == 0 || (tracking != TRACKING_BROADCAST && o->trackers.value[i] > 0))
                measure_setting(tracking, (long)o->trackers.value[i], o->held.value[k]);
}

static struct list parse_list(const char *text, double most)
{
    struct list l = {0};
    char *end;
    do {
        l.value[l.count] = strtod(text, &end);
        if (end == text || l.value[l.count] < 0 || l.value[l.count] > most || l.count == LIST_MAX - 1)
            die("%s: numbers from 0 to %g, separated by commas, are expected", text, most);
        l.count++;
        text = end + 1;
    } while (*end == ',');
    if (*end != '\0')
        die("%s: not a number", end);
    return l;
}

static double parse_seconds(const char *text)
{
    return parse_list(text, 3600).value[0];
}

static void set_option(int option)
{
    struct options *o = &options;
    switch (option) {
    case 't':
        o->trackers = parse_list(optarg, 15000);
        break;
    case 'h':
        o->held = parse_list(optarg, 100);
        break;
    case 'p':
        o->pipeline = parse_list(optarg, PIPELINE_MAX);
        break;
    case 'T':
        o->tracking = optarg;
        break;
    case 'k':
        o->channels = parse_number(optarg, 1, 100000000);
        break;
    case 'b':
        o->value_bytes = parse_number(optarg, 0, 1000000);
        break;
    case 'l':
        o->links = parse_number(optarg, 0, 100);
        break;
    case 'm':
        o->missing_ids = parse_number(optarg, 0, 1000000);
        break;
    case 'M':
        o->missing_links = parse_number(optarg, 0, 1000000);
        break;
    case 'K':
        o->constant = parse_number(optarg, 0, 100);
        break;
    case 'D':
        o->days = parse_number(optarg, 1, 1000);
        break;
    case 'd':
        o->depth = parse_number(optarg, 1, 1000);
        break;
    case 'r':
        o->reread = parse_number(optarg, 0, 100);
        break;
    case 'R':
        o->rate = parse_number(optarg, 1, 10000000);
        break;
    case 'n':
        o->rounds = parse_number(optarg, 1, ROUNDS_MAX);
        break;
    case 's':
        o->seconds = parse_seconds(optarg);
        break;
    case 'S':
        o->server = optarg;
        break;
    case 'a':
        o->server_args = optarg;
        break;
    case 'w':
        o->write = optarg;
        break;
    case 'c':
        o->server_core = (int)parse_number(optarg, 0, 1023);
        break;
    case 'C':
        o->other_core = (int)parse_number(optarg, 0, 1023);
        break;
    default:
        exit(2);
    }
}

static void read_options(int argc, char **argv)
{
    static int replica, touch, asleep, reconnects, csv;
    static const struct option known[] = {
        {"trackers", 1, NULL, 't'},       {"held", 1, NULL, 'h'},        {"pipeline", 1, NULL, 'p'},
        {"tracking", 1, NULL, 'T'},       {"keys", 1, NULL, 'k'},        {"value-bytes", 1, NULL, 'b'},
        {"links", 1, NULL, 'l'},          {"missing-ids", 1, NULL, 'm'}, {"missing-links", 1, NULL, 'M'},
        {"constant", 1, NULL, 'K'},       {"days", 1, NULL, 'D'},        {"depth", 1, NULL, 'd'},
        {"reread", 1, NULL, 'r'},         {"rate", 1, NULL, 'R'},        {"rounds", 1, NULL, 'n'},
        {"seconds", 1, NULL, 's'},        {"server", 1, NULL, 'S'},      {"server-args", 1, NULL, 'a'},
        {"write", 1, NULL, 'w'},          {"server-core", 1, NULL, 'c'}, {"other-core", 1, NULL, 'C'},
        {"replica", 0, &replica, 1},      {"touch", 0, &touch, 1},       {"asleep", 0, &asleep, 1},
        {"reconnect", 0, &reconnects, 1}, {"csv", 0, &csv, 1},           {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;)
        if (option != 0)
            set_option(option);
    if (optind != argc)
        die("%s: an option is expected", argv[optind]);
    options.replica = replica;
    options.touch = touch;
    options.asleep = asleep;
    if (asleep && options.reread > 0)
        die("trackers that are --asleep cannot --reread");
    options.reconnect = reconnects;
    if (options.days > 0 && !reconnects)
        die("--days needs --reconnect");
    options.csv = csv;
    for (int i = 0; i < options.pipeline.count; i++)
        if (options.pipeline.value[i] < 1)
            die("--pipeline: at least 1");
}

static void allow_connections(void)
{
    struct rlimit limit;
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static void pin_to(int core)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET((size_t)core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0)
        (void)fprintf(stderr, "fleet: not pinned to core %d\n", core);
}

/* Before other processes, which would leave a cold cache behind. Only root may; the servers inherit it. */
static void take_priority(void)
{
    (void)setpriority(PRIO_PROCESS, 0, PRIORITY);
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    take_priority();
    loader_init();
    allow_connections();
    pin_to(options.other_core);
    bool both = strcmp(options.tracking, "both") == 0;
    int measured = 0;
    for (enum tracking t = TRACKING_NONE; t <= TRACKING_BROADCAST; t++)
        if (strcmp(options.tracking, TRACKING_NAMES[t]) == 0 || (both && t != TRACKING_NONE)) {
            measure_tracking(t);
            measured++;
        }
    if (measured == 0)
        die("--tracking: none, keys, broadcast or both is expected");
    return 0;
}
