/* Clocks and pauses; see process.h. */
#include "simulation/process.h"

#include "base/clock.h"
#include "simulation/events.h"
#include "simulation/random.h"
#include "simulation/trace.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

/* Of the three clocks at the beginning: no two are alike. */
static const uint64_t MONOTONIC_AT_START = UINT64_C(100000) * 1000000000;
static const uint64_t BOOT_AT_START = UINT64_C(200000) * 1000000000;
static const int64_t WALL_AT_START = 1800000000;

static uint64_t stopped_until_ns, suspended_ns, stopped_ns, last_stop_ns, last_stop_began_ns;
static bool is_suspended;
static unsigned calls_left;             /* until it is stopped; 0: it is not to be */
static uint64_t stopped_behind_them_ns; /* for this time */
static uint64_t stop_behind_ends_ns;
static int64_t wall_by_s;

/* The last WALLS times that the wall clock was set, and what it was before. */
enum { WALLS = 16 };

static struct {
    uint64_t at_ns;
    int64_t former_by_s;
} walls[WALLS];

static size_t walls_count;

void process_begin(void)
{
    stopped_until_ns = suspended_ns = stopped_ns = last_stop_ns = last_stop_began_ns = 0;
    is_suspended = false;
    calls_left = 0;
    stop_behind_ends_ns = 0;
    wall_by_s = 0;
    walls_count = 0;
}

void process_stop(uint64_t duration_ns, bool suspended)
{
    uint64_t until_ns = now_ns() + duration_ns;
    if (until_ns <= stopped_until_ns)
        return;
    stopped_until_ns = until_ns;
    is_suspended = suspended;
}

void process_stop_behind(unsigned calls, uint64_t duration_ns)
{
    calls_left = calls;
    stopped_behind_them_ns = duration_ns;
}

void process_set_wall(int64_t by_s)
{
    walls[walls_count % WALLS].at_ns = now_ns();
    walls[walls_count++ % WALLS].former_by_s = wall_by_s;
    wall_by_s += by_s;
    TRACE("process", "has its wall clock set by %lld s", (long long)by_s);
}

void process_resume(void)
{
    while (now_ns() < stopped_until_ns) {
        uint64_t left_ns = stopped_until_ns - now_ns();
        TRACE("process", "%s for %u ms", is_suspended ? "was suspended" : "was stopped",
              (unsigned)(left_ns / MS));
        stopped_ns += left_ns;
        if (now_ns() > last_stop_ns + 3 * SECOND) /* or it is the same one, with a moment in between */
            last_stop_began_ns = now_ns();
        suspended_ns += is_suspended ? left_ns : 0;
        events_run_until(stopped_until_ns);
        last_stop_ns = now_ns();
    }
}

void process_spend(uint64_t ns)
{
    events_run_until(now_ns() + ns);
    if (calls_left > 0 && --calls_left == 0) {
        process_stop(stopped_behind_them_ns, false);
        stop_behind_ends_ns = now_ns() + stopped_behind_them_ns;
    }
    process_resume();
}

uint64_t process_stopped_ns(void)
{
    return stopped_ns;
}

uint64_t process_last_stop_ns(void)
{
    return last_stop_ns;
}

uint64_t process_stop_behind_ends_ns(void)
{
    return stop_behind_ends_ns;
}

uint64_t process_noticed_ns(uint64_t at_ns, uint64_t within_ns)
{
    return at_ns + within_ns >= last_stop_began_ns && at_ns < last_stop_ns ? last_stop_ns : at_ns;
}

uint64_t process_monotonic_ns(void)
{
    return MONOTONIC_AT_START + now_ns() - suspended_ns;
}

static int64_t wall_at(int64_t by_s, uint64_t at_ns)
{
    return WALL_AT_START + by_s + (int64_t)(at_ns / SECOND);
}

int64_t process_wall_s(void)
{
    return wall_at(wall_by_s, now_ns());
}

struct process_walls process_walls_since(uint64_t since_ns)
{
    struct process_walls w = {process_wall_s(), process_wall_s()};
    uint64_t until_ns = now_ns();
    int64_t by_s = wall_by_s;
    for (size_t i = walls_count; until_ns > since_ns && walls_count - i < WALLS; i--) {
        uint64_t set_ns = i > 0 ? walls[(i - 1) % WALLS].at_ns : 0;
        int64_t first_s = wall_at(by_s, set_ns > since_ns ? set_ns : since_ns);
        w.least_s = first_s < w.least_s ? first_s : w.least_s;
        w.most_s = wall_at(by_s, until_ns) > w.most_s ? wall_at(by_s, until_ns) : w.most_s;
        until_ns = set_ns;
        by_s = i > 0 ? walls[(i - 1) % WALLS].former_by_s : 0;
    }
    return w;
}

/* --- base/clock.h: to read a clock takes a moment --- */

uint64_t clock_now_ns(void)
{
    process_spend(100);
    return process_monotonic_ns();
}

uint64_t clock_boot_ms(void)
{
    process_spend(100);
    return (BOOT_AT_START + now_ns()) / 1000000;
}

int64_t clock_wall_s(void)
{
    return process_wall_s();
}

/* --- the C library --- */

time_t time(time_t *timer)
{
    time_t s = (time_t)process_wall_s();
    if (timer != NULL)
        *timer = s;
    return s;
}

ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
    (void)flags;
    for (size_t at = 0; at < length;) {
        uint64_t bits = random_bits(STREAM_SEEDS);
        size_t n = length - at < sizeof bits ? length - at : sizeof bits;
        memcpy((char *)buffer + at, &bits, n);
        at += n;
    }
    return (ssize_t)length;
}
