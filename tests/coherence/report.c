/* Counters, violations and the summary; see report.h. */

#include "coherence/report.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coherence/clock.h"

enum { VIOLATIONS_KEPT = 10, TEXT_SIZE = 1024, MS_PER_S = 1000 };

struct report {
    int64_t start;
    pthread_mutex_t lock;
    uint64_t total;
    uint64_t count[VIOLATIONS];
    int kept;
    char text[VIOLATIONS_KEPT][TEXT_SIZE];
};

static const char *const violation_names[VIOLATIONS] = {
    [VIOLATION_STALE] = "stale",         [VIOLATION_IMPOSSIBLE] = "impossible",
    [VIOLATION_TORN] = "torn",           [VIOLATION_MALFORMED] = "malformed",
    [VIOLATION_DUPLICATE] = "duplicate", [VIOLATION_ORDER] = "order",
    [VIOLATION_MISSING] = "missing",     [VIOLATION_KEY] = "key",
    [VIOLATION_ERROR] = "error",         [VIOLATION_EXPIRED] = "expired",
    [VIOLATION_STATUS] = "status",       [VIOLATION_CONNECTION] = "connection",
    [VIOLATION_RECOVERY] = "recovery",   [VIOLATION_LINK] = "link",
    [VIOLATION_ABSENCE] = "absence",
};

static const char *const aspect_names[ASPECTS] = {
    [ASPECT_CARD] = "card by id", [ASPECT_BY_LINK] = "card by link", [ASPECT_LINK] = "link",
    [ASPECT_SUMMARY] = "summary", [ASPECT_INDEX] = "index",          [ASPECT_KEY] = "key",
};

static const char *const request_names[REQUEST_KINDS] = {
    [REQUEST_CARD] = "by id",
    [REQUEST_LINK] = "by link",
    [REQUEST_PAGE] = "page",
    [REQUEST_KEY] = "changing key",
    [REQUEST_CONDITIONAL] = "conditional",
    [REQUEST_UNKNOWN] = "unknown",
};

/* Upper ends of the buckets of ages, in milliseconds; the first is for what was not superseded. */
static const int64_t age_ends_ms[AGE_BUCKETS] = {
    0, 1, 2, 5, 10, 20, 50, 100, 250, 500, 1000, 5000, INT64_MAX / CLOCK_MS};

struct report *report_new(void)
{
    struct report *report = calloc(1, sizeof *report);
    if (report == NULL)
        abort();
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
    if (report->kept < VIOLATIONS_KEPT) {
        char *text = report->text[report->kept++];
        int used = snprintf(text, TEXT_SIZE, "%s: ", violation_names[kind]);
        (void)vsnprintf(text + used, TEXT_SIZE - (size_t)used, format, args);
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

/* How often that kind was seen; `name` ends at a comma or the end. 0 for an unknown name. */
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

void counters_add_age(struct counters *counters, enum aspect aspect, int64_t age, bool strict)
{
    int64_t *oldest = strict ? &counters->max_age[aspect] : &counters->max_age_in_fault[aspect];
    int bucket = 0;
    while (age > age_ends_ms[bucket] * CLOCK_MS)
        bucket++;
    counters->ages[aspect][bucket]++;
    if (age > *oldest)
        *oldest = age;
}

static void add_all(uint64_t *to, const uint64_t *from, int count)
{
    for (int i = 0; i < count; i++)
        to[i] += from[i];
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void counters_merge(struct counters *to, const struct counters *from)
{
    to->reads += from->reads;
    to->failed += from->failed;
    add_all(to->requests, from->requests, REQUEST_KINDS);
    add_all(to->statuses, from->statuses, 6);
    add_all(to->failed_by_fault, from->failed_by_fault, FAULT_KINDS);
    add_all(to->checked, from->checked, ASPECTS);
    add_all(to->undecided, from->undecided, ASPECTS);
    for (int i = 0; i < ASPECTS; i++) {
        add_all(to->ages[i], from->ages[i], AGE_BUCKETS);
        to->max_age[i] = larger(to->max_age[i], from->max_age[i]);
        to->max_age_in_fault[i] = larger(to->max_age_in_fault[i], from->max_age_in_fault[i]);
    }
    to->max_wait = larger(to->max_wait, from->max_wait);
}

static double report_ms(int64_t ns)
{
    return (double)ns / CLOCK_MS;
}

static void report_requests(const struct counters *counters)
{
    printf("requests:");
    for (int i = 0; i < REQUEST_KINDS; i++)
        printf(" %s %" PRIu64 "%s", request_names[i], counters->requests[i],
               i + 1 < REQUEST_KINDS ? "," : "\n");
    printf("responses: 200 %" PRIu64 ", 304 %" PRIu64 ", 401 %" PRIu64 ", 404 %" PRIu64 ", 500 %" PRIu64
           ", others %" PRIu64 "; longest wait between faults %.1f ms\n",
           counters->statuses[0], counters->statuses[1], counters->statuses[2], counters->statuses[3],
           counters->statuses[4], counters->statuses[5], report_ms(counters->max_wait));
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

/* How long what was seen had been superseded when the request was sent. */
static void report_ages(const struct counters *counters)
{
    printf("%-13s %9s %9s", "age", "checked", "undecided");
    for (int i = 0; i < AGE_BUCKETS; i++)
        report_age_end(i);
    printf("  no fault  in fault\n");
    for (int i = 0; i < ASPECTS; i++) {
        printf("%-13s %9" PRIu64 " %9" PRIu64, aspect_names[i], counters->checked[i], counters->undecided[i]);
        for (int k = 0; k < AGE_BUCKETS; k++)
            printf(" %7" PRIu64, counters->ages[i][k]);
        printf(" %6.1f ms %6.1f ms\n", report_ms(counters->max_age[i]),
               report_ms(counters->max_age_in_fault[i]));
    }
}

static void report_faults(const struct counters *counters, struct fault_schedule *schedule)
{
    printf("%-13s %5s %19s %19s %8s\n", "longest", "count", "to first success", "to all connected", "500s");
    for (int i = 0; i < FAULT_KINDS; i++) {
        struct schedule_stats record = schedule_stats(schedule, (enum fault_kind)i);
        if (record.count == 0)
            continue;
        printf("%-13s %5d %16.1f ms %16.1f ms %8" PRIu64 "\n", fault_name((enum fault_kind)i), record.count,
               report_ms(record.max_wait), report_ms(record.max_reconnect), counters->failed_by_fault[i]);
    }
}

void report_summary(struct report *report, const struct counters *counters, struct fault_schedule *schedule)
{
    report_requests(counters);
    report_ages(counters);
    report_faults(counters, schedule);
    printf("violations: %" PRIu64, report->total);
    for (int i = 0; i < VIOLATIONS; i++) {
        if (report->count[i] > 0)
            printf(", %s %" PRIu64, violation_names[i], report->count[i]);
    }
    printf("\n");
    for (int i = 0; i < report->kept; i++)
        printf("  %d. %s\n", i + 1, report->text[i]);
}
