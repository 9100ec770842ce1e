/* The latest faults, held as intervals; see fault_schedule.h. */

#include "coherence/fault_schedule.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "coherence/clock.h"

enum { FAULTS_MAX = 16 };

/* The end of what has not ended yet. */
static const int64_t never = INT64_MAX / 2;

struct fault {
    enum fault_kind kind;
    enum fault_rule rule;
    int64_t begin;
    int64_t switched;   /* the connection is worthless since then at the latest */
    int64_t down_begin; /* 0: Redis was never down */
    int64_t down_end;
    int64_t undone;
    int64_t end;
    int64_t data_lost; /* 0: it was not */
    int64_t data_restored;
};

struct fault_schedule {
    struct schedule_limits limits;
    pthread_mutex_t lock;
    int count;
    struct fault fault[FAULTS_MAX]; /* a ring */
    struct schedule_stats record[FAULT_KINDS];
    _Atomic int64_t awaited_since; /* the first success of a request sent later is of interest; 0: no */
};

static const struct {
    const char *name;
    bool quick;
    bool harmless; /* no request fails */
    bool silences; /* while Redis is down, none answers channeld */
    bool replica;  /* it needs one */
    enum { OUTSIDE, ANYWHERE, INSIDE } cluster;
} kinds[FAULT_KINDS] = {
    [FAULT_KILL] = {"kill", true, .cluster = ANYWHERE},
    [FAULT_PAUSE] = {"pause", true, .cluster = ANYWHERE},
    [FAULT_PAUSE_WRITE] = {"pause-write", true, .cluster = ANYWHERE},
    [FAULT_STOP] = {"stop", true, .silences = true, .cluster = ANYWHERE},
    [FAULT_STOP_LONG] = {"stop-long", false, .silences = true},
    [FAULT_RESTART] = {"restart", true, .silences = true},
    [FAULT_DOWN] = {"down", false, .silences = true},
    [FAULT_FLUSH] = {"flush", true, .cluster = ANYWHERE},
    [FAULT_FREEZE] = {"freeze", true, .cluster = ANYWHERE},
    [FAULT_FREEZE_LONG] = {"freeze-long", false, .cluster = ANYWHERE},
    [FAULT_THROTTLE] = {"throttle", true, .cluster = ANYWHERE},
    [FAULT_SLOW] = {"slow", true, .harmless = true, .cluster = ANYWHERE},
    [FAULT_SCRIPT] = {"script", true, .cluster = ANYWHERE},
    [FAULT_ROTATE] = {"rotate", true, .harmless = true},
    [FAULT_MASTER_STOP] = {"master-stop", true, .harmless = true, .replica = true},
    [FAULT_LINK_CUT] = {"link-cut", true, .replica = true},
    [FAULT_LINK_LOST] = {"link-lost", false, .replica = true},
    [FAULT_PROMOTION] = {"promotion", true, .replica = true},
    [FAULT_RESYNC] = {"resync", true, .replica = true},
    [FAULT_REPLICA_RESTART] = {"replica-restart", false, .silences = true, .replica = true},
    [FAULT_MASTER_SILENT] = {"master-silent", false, .replica = true},
    [FAULT_SLOT_MOVE] = {"slot-move", true, .harmless = true, .cluster = INSIDE},
    [FAULT_SLOT_FAILOVER] = {"slot-failover", true, .cluster = INSIDE},
    [FAULT_OWNER_KILL] = {"owner-kill", false, .silences = true, .cluster = INSIDE},
    [FAULT_OWNER_RETURN] = {"owner-return", false, .harmless = true, .cluster = INSIDE},
    [FAULT_OWNER_STALL] = {"owner-stall", false, .silences = true, .cluster = INSIDE},
};

const char *fault_name(enum fault_kind kind)
{
    return kinds[kind].name;
}

bool fault_is_quick(enum fault_kind kind)
{
    return kinds[kind].quick;
}

bool fault_applies(enum fault_kind kind, bool replica, bool cluster)
{
    return (replica || !kinds[kind].replica) && kinds[kind].cluster != (cluster ? OUTSIDE : INSIDE);
}

struct fault_schedule *schedule_new(const struct schedule_limits *limits)
{
    struct fault_schedule *schedule = calloc(1, sizeof *schedule);
    if (schedule == NULL)
        abort();
    schedule->limits = *limits;
    (void)pthread_mutex_init(&schedule->lock, NULL);
    return schedule;
}

void schedule_free(struct fault_schedule *schedule)
{
    (void)pthread_mutex_destroy(&schedule->lock);
    free(schedule);
}

/* The current fault, if it has not ended. Called with the lock held. */
static struct fault *schedule_latest(struct fault_schedule *schedule)
{
    return &schedule->fault[(schedule->count - 1) % FAULTS_MAX];
}

void schedule_begin(struct fault_schedule *schedule, enum fault_kind kind, enum fault_rule rule)
{
    atomic_store(&schedule->awaited_since, 0);
    (void)pthread_mutex_lock(&schedule->lock);
    schedule->count++;
    struct fault fault = {.kind = kind, .rule = rule, .begin = clock_now(), .undone = never, .end = never};
    fault.switched = fault.begin;
    *schedule_latest(schedule) = fault;
    schedule->record[kind].count++;
    (void)pthread_mutex_unlock(&schedule->lock);
}

void schedule_redis_down(struct fault_schedule *schedule)
{
    (void)pthread_mutex_lock(&schedule->lock);
    schedule_latest(schedule)->down_begin = clock_now();
    schedule_latest(schedule)->down_end = never;
    (void)pthread_mutex_unlock(&schedule->lock);
}

void schedule_redis_up(struct fault_schedule *schedule)
{
    (void)pthread_mutex_lock(&schedule->lock);
    schedule_latest(schedule)->down_end = clock_now();
    (void)pthread_mutex_unlock(&schedule->lock);
}

void schedule_switching(struct fault_schedule *schedule)
{
    (void)pthread_mutex_lock(&schedule->lock);
    schedule_latest(schedule)->switched = never;
    (void)pthread_mutex_unlock(&schedule->lock);
}

void schedule_switched(struct fault_schedule *schedule)
{
    (void)pthread_mutex_lock(&schedule->lock);
    schedule_latest(schedule)->switched = clock_now();
    (void)pthread_mutex_unlock(&schedule->lock);
}

void schedule_undone(struct fault_schedule *schedule)
{
    int64_t now = clock_now();
    (void)pthread_mutex_lock(&schedule->lock);
    schedule_latest(schedule)->undone = now;
    (void)pthread_mutex_unlock(&schedule->lock);
    atomic_store(&schedule->awaited_since, now);
}

void schedule_connected(struct fault_schedule *schedule)
{
    (void)pthread_mutex_lock(&schedule->lock);
    const struct fault *fault = schedule_latest(schedule);
    struct schedule_stats *record = &schedule->record[fault->kind];
    int64_t took = clock_now() - fault->undone;
    if (took > record->max_reconnect)
        record->max_reconnect = took;
    (void)pthread_mutex_unlock(&schedule->lock);
}

void schedule_end(struct fault_schedule *schedule)
{
    (void)pthread_mutex_lock(&schedule->lock);
    schedule_latest(schedule)->end = clock_now();
    (void)pthread_mutex_unlock(&schedule->lock);
}

void schedule_data_lost(struct fault_schedule *schedule)
{
    (void)pthread_mutex_lock(&schedule->lock);
    schedule_latest(schedule)->data_lost = clock_now();
    schedule_latest(schedule)->data_restored = never;
    (void)pthread_mutex_unlock(&schedule->lock);
}

void schedule_data_restored(struct fault_schedule *schedule)
{
    (void)pthread_mutex_lock(&schedule->lock);
    schedule_latest(schedule)->data_restored = clock_now();
    (void)pthread_mutex_unlock(&schedule->lock);
}

struct schedule_stats schedule_stats(struct fault_schedule *schedule, enum fault_kind kind)
{
    (void)pthread_mutex_lock(&schedule->lock);
    struct schedule_stats record = schedule->record[kind];
    (void)pthread_mutex_unlock(&schedule->lock);
    return record;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* For how long a server is read that should not be, whatever the stale limit is; 0: none is. */
static int schedule_unnoticed_ms(const struct fault_schedule *schedule, enum fault_kind kind)
{
    if (kind == FAULT_SLOT_FAILOVER)
        return SLOT_LOST_MS;
    if (kind == FAULT_MASTER_SILENT)
        return MASTER_SILENT_MS;
    return schedule->limits.replica ? LINK_LOST_MS : 0;
}

/* How long after the beginning of a fault channeld may still answer from its cache. */
static int64_t schedule_cache_lifetime(const struct fault_schedule *schedule, const struct fault *fault)
{
    int64_t limit = schedule->limits.stale_limit;
    int64_t unnoticed = (int64_t)schedule_unnoticed_ms(schedule, fault->kind) * CLOCK_MS;
    if (fault->kind == FAULT_STOP || fault->kind == FAULT_STOP_LONG || fault->kind == FAULT_OWNER_STALL)
        limit += (int64_t)LEASE_MS * CLOCK_MS;
    return (limit > unnoticed ? limit : unnoticed) + schedule->limits.bound;
}

/* The time by which changes must have been acknowledged to be required, as far as this fault is concerned. */
static int64_t schedule_required_since(const struct fault_schedule *schedule, const struct fault *fault,
                                       int64_t sent)
{
    int64_t bound = schedule->limits.bound;
    int64_t strict = sent - bound;
    if (fault->rule == RULE_COHERENT || sent < fault->begin || sent > fault->end + bound)
        return strict;
    if (fault->rule == RULE_DISCONNECTED)
        return sent > fault->switched + schedule_cache_lifetime(schedule, fault)
                   ? strict
                   : earlier(strict, fault->begin - bound);
    int64_t leased = sent - (int64_t)LEASE_MS * CLOCK_MS - bound;
    int64_t before = fault->begin - bound;
    return earlier(strict, leased > before ? leased : before);
}

/* A replica answers without its master. */
static bool schedule_silences(const struct fault_schedule *schedule, enum fault_kind kind)
{
    bool of_master = kind == FAULT_RESTART || kind == FAULT_DOWN;
    return kinds[kind].silences && (!of_master || !schedule->limits.replica);
}

static void schedule_apply(const struct fault_schedule *schedule, const struct fault *fault, int64_t sent,
                           int64_t received, struct expectation *expectation)
{
    int64_t bound = schedule->limits.bound;
    int64_t since = schedule_required_since(schedule, fault, sent);
    int64_t aftermath = fault->end + (int64_t)REQUEST_TIMEOUT_MS * CLOCK_MS + 4 * bound;
    if (since < expectation->since) {
        expectation->since = since;
        expectation->strict = false;
        expectation->fault = fault->kind;
    }
    if (!kinds[fault->kind].harmless && received >= fault->begin && sent <= aftermath) {
        expectation->errors_allowed = true;
        expectation->fault = fault->kind;
    }
    if (fault->down_begin != 0 && sent > fault->down_begin + schedule_cache_lifetime(schedule, fault) &&
        received < fault->down_end)
        expectation->expired = true;
    if (schedule_silences(schedule, fault->kind) && fault->down_begin != 0 && sent > fault->down_begin &&
        received < fault->down_end)
        expectation->silent = true;
}

struct expectation schedule_expect(struct fault_schedule *schedule, int64_t sent, int64_t received)
{
    struct expectation expectation = {
        .since = sent - schedule->limits.bound, .strict = true, .complete = true};
    (void)pthread_mutex_lock(&schedule->lock);
    int first = schedule->count > FAULTS_MAX ? schedule->count - FAULTS_MAX : 0;
    for (int i = first; i < schedule->count; i++)
        schedule_apply(schedule, &schedule->fault[i % FAULTS_MAX], sent, received, &expectation);
    for (int i = first; i < schedule->count; i++) {
        const struct fault *fault = &schedule->fault[i % FAULTS_MAX];
        if (fault->data_lost != 0 && received >= fault->data_lost &&
            expectation.since <= fault->data_restored)
            expectation.complete = false;
    }
    (void)pthread_mutex_unlock(&schedule->lock);
    return expectation;
}

void schedule_note_success(struct fault_schedule *schedule, int64_t sent, int64_t received)
{
    int64_t awaited_since = atomic_load_explicit(&schedule->awaited_since, memory_order_relaxed);
    if (awaited_since == 0 || sent < awaited_since ||
        !atomic_compare_exchange_strong(&schedule->awaited_since, &awaited_since, 0))
        return;
    (void)pthread_mutex_lock(&schedule->lock);
    struct schedule_stats *record = &schedule->record[schedule_latest(schedule)->kind];
    if (received - awaited_since > record->max_wait)
        record->max_wait = received - awaited_since;
    (void)pthread_mutex_unlock(&schedule->lock);
}

const char *schedule_current(struct fault_schedule *schedule)
{
    const char *name = NULL;
    (void)pthread_mutex_lock(&schedule->lock);
    if (schedule->count > 0 && schedule_latest(schedule)->end == never)
        name = fault_name(schedule_latest(schedule)->kind);
    (void)pthread_mutex_unlock(&schedule->lock);
    return name;
}
