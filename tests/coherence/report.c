/* Counting and telling; see report.h. */

#include "coherence/report.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coherence/clock.h"

enum { KEPT = 10, TEXT_SIZE = 1024, MS_PER_S = 1000 };

struct report {
    bool verbose;
    int64_t start;
    pthread_mutex_t lock;
    uint64_t total;
    uint64_t count[VIOLATIONS];
    int kept;
    char text[KEPT][TEXT_SIZE];
};

static const char *const violation_names[VIOLATIONS] = {
    [VIOLATION_STALE] = "stale",       [VIOLATION_INVENTED] = "invented", [VIOLATION_MIXED] = "mixed",
    [VIOLATION_BROKEN] = "broken",     [VIOLATION_TWICE] = "twice",       [VIOLATION_ORDER] = "order",
    [VIOLATION_LACKING] = "lacking",   [VIOLATION_KEY] = "key",           [VIOLATION_FAILED] = "failed",
    [VIOLATION_MEMORY] = "memory",     [VIOLATION_STATUS] = "status",     [VIOLATION_CLIENT] = "client",
    [VIOLATION_RECOVERY] = "recovery",
};

static const char *const view_names[VIEWS] = {
    [VIEW_CARD] = "card by id", [VIEW_BY_LINK] = "card by link", [VIEW_LINK] = "link",
    [VIEW_SUMMARY] = "summary", [VIEW_INDEX] = "index",          [VIEW_KEY] = "key",
};

static const char *const request_names[REQUEST_KINDS] = {
    [REQUEST_CARD] = "by id",       [REQUEST_LINK] = "by link",      [REQUEST_PAGE] = "page",
    [REQUEST_KEY] = "changing key", [REQUEST_AGAIN] = "conditional", [REQUEST_GHOST] = "unknown",
};

/* Upper ends of the buckets of ages, in milliseconds; the first is for what was not superseded. */
static const int64_t age_ends_ms[AGE_BUCKETS] = {
    0, 1, 2, 5, 10, 20, 50, 100, 250, 500, 1000, 5000, INT64_MAX / CLOCK_MS};

struct report *report_new(bool verbose)
{
    struct report *report = calloc(1, sizeof *report);
    if (report == NULL)
        abort();
    report->verbose = verbose;
    report->start = clock_now();
    (void)pthread_mutex_init(&report->lock, NULL);
    return report;
}

void report_free(struct report *report)
{
    (void)pthread_mutex_destroy(&report->lock);
    free(report);
}

int64_t report_start(const struct report *report)
{
    return report->start;
}

void report_violation(struct report *report, enum violation kind, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)pthread_mutex_lock(&report->lock);
    report->total++;
    report->count[kind]++;
    if (report->kept < KEPT) {
        char *text = report->text[report->kept++];
        int used = snprintf(text, TEXT_SIZE, "%s: ", violation_names[kind]);
        (void)vsnprintf(text + used, TEXT_SIZE - (size_t)used, format, args);
        if (report->verbose)
            (void)fprintf(stderr, "violation: %s\n", text);
    }
    (void)pthread_mutex_unlock(&report->lock);
    va_end(args);
}

uint64_t report_violations(struct report *report)
{
    (void)pthread_mutex_lock(&report->lock);
    uint64_t total = report->total;
    (void)pthread_mutex_unlock(&report->lock);
    return total;
}

/* How often that kind was seen; `name` ends at a comma or the end. 0 for a name that no kind has. */
static uint64_t report_count(const struct report *report, const char *name)
{
    size_t length = strcspn(name, ",");
    for (int i = 0; i < VIOLATIONS; i++) {
        if (strlen(violation_names[i]) == length && strncmp(violation_names[i], name, length) == 0)
            return report->count[i];
    }
    return 0;
}

bool report_has_all(struct report *report, const char *kinds)
{
    bool all = true;
    (void)pthread_mutex_lock(&report->lock);
    for (const char *at = kinds; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        all = all && report_count(report, at) > 0;
    }
    (void)pthread_mutex_unlock(&report->lock);
    return all;
}

void tally_add_age(struct tally *tally, enum view view, int64_t age, bool calm)
{
    int64_t *oldest = calm ? &tally->oldest_calm[view] : &tally->oldest_cut_off[view];
    int bucket = 0;
    while (age > age_ends_ms[bucket] * CLOCK_MS)
        bucket++;
    tally->ages[view][bucket]++;
    if (age > *oldest)
        *oldest = age;
}

static void tally_sum(uint64_t *to, const uint64_t *from, int count)
{
    for (int i = 0; i < count; i++)
        to[i] += from[i];
}

static int64_t tally_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void tally_merge(struct tally *to, const struct tally *from)
{
    to->reads += from->reads;
    to->failed += from->failed;
    tally_sum(to->requests, from->requests, REQUEST_KINDS);
    tally_sum(to->statuses, from->statuses, 6);
    tally_sum(to->failed_by_fault, from->failed_by_fault, FAULT_KINDS);
    tally_sum(to->judged, from->judged, VIEWS);
    tally_sum(to->forgotten, from->forgotten, VIEWS);
    for (int i = 0; i < VIEWS; i++) {
        tally_sum(to->ages[i], from->ages[i], AGE_BUCKETS);
        to->oldest_calm[i] = tally_larger(to->oldest_calm[i], from->oldest_calm[i]);
        to->oldest_cut_off[i] = tally_larger(to->oldest_cut_off[i], from->oldest_cut_off[i]);
    }
    to->longest_wait = tally_larger(to->longest_wait, from->longest_wait);
}

static double report_ms(int64_t ns)
{
    return (double)ns / CLOCK_MS;
}

static void report_requests(const struct tally *tally)
{
    printf("requests:");
    for (int i = 0; i < REQUEST_KINDS; i++)
        printf(" %s %" PRIu64 "%s", request_names[i], tally->requests[i], i + 1 < REQUEST_KINDS ? "," : "\n");
    printf("answers: 200 %" PRIu64 ", 304 %" PRIu64 ", 401 %" PRIu64 ", 404 %" PRIu64 ", 500 %" PRIu64
           ", others %" PRIu64 "; longest wait in calm weather %.1f ms\n",
           tally->statuses[0], tally->statuses[1], tally->statuses[2], tally->statuses[3], tally->statuses[4],
           tally->statuses[5], report_ms(tally->longest_wait));
}

static void report_age_end(int bucket)
{
    if (bucket == 0)
        printf(" %7s", "current");
    else if (bucket == AGE_BUCKETS - 1)
        printf(" %7s", "more");
    else if (age_ends_ms[bucket] < MS_PER_S)
        printf(" %5" PRId64 "ms", age_ends_ms[bucket]);
    else
        printf(" %6" PRId64 "s", age_ends_ms[bucket] / MS_PER_S);
}

/* How long before the request what was seen had been superseded. */
static void report_ages(const struct tally *tally)
{
    printf("%-13s %9s %6s", "age behind", "judged", "forgot");
    for (int i = 0; i < AGE_BUCKETS; i++)
        report_age_end(i);
    printf("  max calm  max cut off\n");
    for (int i = 0; i < VIEWS; i++) {
        printf("%-13s %9" PRIu64 " %6" PRIu64, view_names[i], tally->judged[i], tally->forgotten[i]);
        for (int k = 0; k < AGE_BUCKETS; k++)
            printf(" %7" PRIu64, tally->ages[i][k]);
        printf(" %6.1f ms %9.1f ms\n", report_ms(tally->oldest_calm[i]), report_ms(tally->oldest_cut_off[i]));
    }
}

static void report_faults(const struct tally *tally, struct weather *weather)
{
    printf("%-13s %5s %19s %19s %8s\n", "at most after", "count", "first good answer", "all connected",
           "500s");
    for (int i = 0; i < FAULT_KINDS; i++) {
        struct weather_record record = weather_record(weather, (enum fault_kind)i);
        if (record.count == 0)
            continue;
        printf("%-13s %5d %16.1f ms %16.1f ms %8" PRIu64 "\n", weather_fault_name((enum fault_kind)i),
               record.count, report_ms(record.longest_wait), report_ms(record.longest_return),
               tally->failed_by_fault[i]);
    }
}

void report_summary(struct report *report, const struct tally *tally, struct weather *weather)
{
    report_requests(tally);
    report_ages(tally);
    report_faults(tally, weather);
    printf("violations: %" PRIu64, report->total);
    for (int i = 0; i < VIOLATIONS; i++) {
        if (report->count[i] > 0)
            printf(", %s %" PRIu64, violation_names[i], report->count[i]);
    }
    printf("\n");
    for (int i = 0; i < report->kept; i++)
        printf("  %d. %s\n", i + 1, report->text[i]);
}
