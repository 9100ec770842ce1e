/* The latest faults, kept as intervals; see weather.h. */

#include "coherence/weather.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "coherence/clock.h"

enum { KEPT = 16 };

/* The time that is never reached: of what is still on. */
static const int64_t never = INT64_MAX / 2;

struct fault {
    enum fault_kind kind;
    enum fault_rule rule;
    int64_t begin;
    int64_t dark_begin; /* 0: never dark */
    int64_t dark_end;
    int64_t lifted;
    int64_t end;
    int64_t wiped; /* 0: not */
    int64_t reloaded;
};

struct weather {
    struct weather_limits limits;
    pthread_mutex_t lock;
    int count;
    struct fault fault[KEPT]; /* a ring */
    struct weather_record record[FAULT_KINDS];
    _Atomic int64_t awaited; /* the first good answer to a request sent later is of interest; 0: no */
};

static const struct {
    const char *name;
    bool quick;
} kinds[FAULT_KINDS] = {
    [FAULT_KILL] = {"kill", true},
    [FAULT_PAUSE] = {"pause", true},
    [FAULT_PAUSE_WRITE] = {"pause-write", true},
    [FAULT_STOP] = {"stop", true},
    [FAULT_STOP_LONG] = {"stop-long", false},
    [FAULT_RESTART] = {"restart", true},
    [FAULT_DOWN] = {"down", false},
    [FAULT_FLUSH] = {"flush", true},
    [FAULT_FREEZE] = {"freeze", true},
    [FAULT_FREEZE_LONG] = {"freeze-long", false},
    [FAULT_SLOW] = {"slow", true},
    [FAULT_SCRIPT] = {"script", true},
};

const char *weather_fault_name(enum fault_kind kind)
{
    return kinds[kind].name;
}

bool weather_fault_is_quick(enum fault_kind kind)
{
    return kinds[kind].quick;
}

struct weather *weather_new(const struct weather_limits *limits)
{
    struct weather *weather = calloc(1, sizeof *weather);
    if (weather == NULL)
        abort();
    weather->limits = *limits;
    (void)pthread_mutex_init(&weather->lock, NULL);
    return weather;
}

void weather_free(struct weather *weather)
{
    (void)pthread_mutex_destroy(&weather->lock);
    free(weather);
}

/* The fault that is on; there is one between weather_begin() and weather_end(). Called with the lock. */
static struct fault *weather_latest(struct weather *weather)
{
    return &weather->fault[(weather->count - 1) % KEPT];
}

void weather_begin(struct weather *weather, enum fault_kind kind, enum fault_rule rule)
{
    atomic_store(&weather->awaited, 0);
    (void)pthread_mutex_lock(&weather->lock);
    weather->count++;
    *weather_latest(weather) =
        (struct fault){.kind = kind, .rule = rule, .begin = clock_now(), .lifted = never, .end = never};
    weather->record[kind].count++;
    (void)pthread_mutex_unlock(&weather->lock);
}

void weather_go_dark(struct weather *weather)
{
    (void)pthread_mutex_lock(&weather->lock);
    weather_latest(weather)->dark_begin = clock_now();
    weather_latest(weather)->dark_end = never;
    (void)pthread_mutex_unlock(&weather->lock);
}

void weather_brighten(struct weather *weather)
{
    (void)pthread_mutex_lock(&weather->lock);
    weather_latest(weather)->dark_end = clock_now();
    (void)pthread_mutex_unlock(&weather->lock);
}

void weather_lift(struct weather *weather)
{
    int64_t now = clock_now();
    (void)pthread_mutex_lock(&weather->lock);
    weather_latest(weather)->lifted = now;
    (void)pthread_mutex_unlock(&weather->lock);
    atomic_store(&weather->awaited, now);
}

void weather_connected(struct weather *weather)
{
    (void)pthread_mutex_lock(&weather->lock);
    const struct fault *fault = weather_latest(weather);
    struct weather_record *record = &weather->record[fault->kind];
    int64_t took = clock_now() - fault->lifted;
    if (took > record->longest_return)
        record->longest_return = took;
    (void)pthread_mutex_unlock(&weather->lock);
}

void weather_end(struct weather *weather)
{
    (void)pthread_mutex_lock(&weather->lock);
    weather_latest(weather)->end = clock_now();
    (void)pthread_mutex_unlock(&weather->lock);
}

void weather_wipe(struct weather *weather)
{
    (void)pthread_mutex_lock(&weather->lock);
    weather_latest(weather)->wiped = clock_now();
    weather_latest(weather)->reloaded = never;
    (void)pthread_mutex_unlock(&weather->lock);
}

void weather_reloaded(struct weather *weather)
{
    (void)pthread_mutex_lock(&weather->lock);
    weather_latest(weather)->reloaded = clock_now();
    (void)pthread_mutex_unlock(&weather->lock);
}

struct weather_record weather_record(struct weather *weather, enum fault_kind kind)
{
    (void)pthread_mutex_lock(&weather->lock);
    struct weather_record record = weather->record[kind];
    (void)pthread_mutex_unlock(&weather->lock);
    return record;
}

static int64_t weather_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How long after the beginning of a fault channeld may still answer from memory. */
static int64_t weather_memory(const struct weather *weather, const struct fault *fault)
{
    int64_t notice = fault->kind == FAULT_STOP || fault->kind == FAULT_STOP_LONG
                         ? (int64_t)WEATHER_LEASE_MS * CLOCK_MS
                         : 0;
    return notice + weather->limits.stale_limit + weather->limits.bound;
}

/* When what has to be known by an answer was acknowledged, as far as this fault is concerned. */
static int64_t weather_since(const struct weather *weather, const struct fault *fault, int64_t sent)
{
    int64_t bound = weather->limits.bound;
    int64_t strict = sent - bound;
    if (fault->rule == RULE_COHERENT || sent < fault->begin || sent > fault->end + bound)
        return strict;
    if (fault->rule == RULE_CUT_OFF)
        return sent > fault->begin + weather_memory(weather, fault)
                   ? strict
                   : weather_least(strict, fault->begin - bound);
    int64_t leased = sent - (int64_t)WEATHER_LEASE_MS * CLOCK_MS - bound;
    int64_t before = fault->begin - bound;
    return weather_least(strict, leased > before ? leased : before);
}

static void weather_look_at(const struct weather *weather, const struct fault *fault, int64_t sent,
                            int64_t received, struct outlook *outlook)
{
    int64_t bound = weather->limits.bound;
    int64_t since = weather_since(weather, fault, sent);
    int64_t aftermath = fault->end + (int64_t)WEATHER_REQUEST_TIMEOUT_MS * CLOCK_MS + 4 * bound;
    if (since < outlook->since) {
        outlook->since = since;
        outlook->calm = false;
        outlook->fault = fault->kind;
    }
    if (fault->kind != FAULT_SLOW && received >= fault->begin && sent <= aftermath) {
        outlook->excused = true;
        outlook->fault = fault->kind;
    }
    if (fault->dark_begin != 0 && sent > fault->dark_begin + weather_memory(weather, fault) &&
        received < fault->dark_end)
        outlook->dark = true;
}

struct outlook weather_look(struct weather *weather, int64_t sent, int64_t received)
{
    struct outlook outlook = {.since = sent - weather->limits.bound, .calm = true, .settled = true};
    (void)pthread_mutex_lock(&weather->lock);
    int first = weather->count > KEPT ? weather->count - KEPT : 0;
    for (int i = first; i < weather->count; i++)
        weather_look_at(weather, &weather->fault[i % KEPT], sent, received, &outlook);
    for (int i = first; i < weather->count; i++) {
        const struct fault *fault = &weather->fault[i % KEPT];
        if (fault->wiped != 0 && received >= fault->wiped && outlook.since <= fault->reloaded)
            outlook.settled = false;
    }
    (void)pthread_mutex_unlock(&weather->lock);
    return outlook;
}

void weather_note_good(struct weather *weather, int64_t sent, int64_t received)
{
    int64_t awaited = atomic_load_explicit(&weather->awaited, memory_order_relaxed);
    if (awaited == 0 || sent < awaited || !atomic_compare_exchange_strong(&weather->awaited, &awaited, 0))
        return;
    (void)pthread_mutex_lock(&weather->lock);
    struct weather_record *record = &weather->record[weather_latest(weather)->kind];
    if (received - awaited > record->longest_wait)
        record->longest_wait = received - awaited;
    (void)pthread_mutex_unlock(&weather->lock);
}

const char *weather_now(struct weather *weather)
{
    const char *name = NULL;
    (void)pthread_mutex_lock(&weather->lock);
    if (weather->count > 0 && weather_latest(weather)->end == never)
        name = weather_fault_name(weather_latest(weather)->kind);
    (void)pthread_mutex_unlock(&weather->lock);
    return name;
}
