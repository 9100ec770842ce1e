#ifndef COHERENCE_REPORT_H
#define COHERENCE_REPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "coherence/fault_schedule.h"

/* Counters of each reader, violations, and the summary. */

/* What a response tells, each of which is checked by itself. */
enum aspect {
    ASPECT_CARD,    /* a card by id */
    ASPECT_BY_LINK, /* a card by link: the card */
    ASPECT_LINK,    /* a card by link: which channel the link leads to */
    ASPECT_SUMMARY, /* an item of a page */
    ASPECT_INDEX,   /* that the item is on the page */
    ASPECT_KEY,     /* whether a key is valid */
    ASPECTS,
};

enum request_kind {
    REQUEST_CARD,
    REQUEST_LINK,
    REQUEST_PAGE,
    REQUEST_KEY,
    REQUEST_CONDITIONAL,
    REQUEST_UNKNOWN, /* for what does not exist */
    REQUEST_KINDS
};

enum violation {
    VIOLATION_STALE,
    VIOLATION_IMPOSSIBLE, /* something that was never true, or only later */
    VIOLATION_TORN,       /* parts of two versions */
    VIOLATION_MALFORMED,
    VIOLATION_DUPLICATE,  /* a channel twice on a page */
    VIOLATION_ORDER,      /* a page not in the order of the index, or with gaps */
    VIOLATION_MISSING,    /* a page without a channel that belongs there */
    VIOLATION_KEY,        /* a revoked key works, or a valid one does not */
    VIOLATION_ERROR,      /* 500 without a fault */
    VIOLATION_EXPIRED,    /* a cached response after the stale limit */
    VIOLATION_LINK,       /* by link a card that has another one */
    VIOLATION_ABSENCE,    /* a 404 while Redis answers nobody */
    VIOLATION_STATUS,     /* another status than any that fits */
    VIOLATION_CONNECTION, /* no response, or a closed connection */
    VIOLATION_RECOVERY,   /* not connected to Redis again in time */
    VIOLATIONS,
};

enum { AGE_BUCKETS = 13 };

/* Counters of one reader. Its own thread writes; the atomics are read by others meanwhile. */
struct counters {
    _Atomic uint64_t reads;
    _Atomic uint64_t failed;
    uint64_t requests[REQUEST_KINDS];
    uint64_t statuses[6]; /* 200, 304, 401, 404, 500, others */
    uint64_t failed_by_fault[FAULT_KINDS];
    uint64_t checked[ASPECTS];
    uint64_t undecided[ASPECTS];
    uint64_t ages[ASPECTS][AGE_BUCKETS];
    int64_t max_age[ASPECTS]; /* under the plain bound */
    int64_t max_age_in_fault[ASPECTS];
    int64_t max_wait; /* for a response, between faults */
};

struct report;

/* Owned. */
struct report *report_new(void);
void report_free(struct report *report);

/* The moment from which times are counted. */
int64_t report_start(const struct report *report);

/* Any thread. The first few are kept in full. */
__attribute__((format(printf, 3, 4))) void report_violation(struct report *report, enum violation kind,
                                                            const char *format, ...);
uint64_t report_violations(struct report *report);

/* True when there was one of each of these kinds (their names, separated by commas). */
bool report_has_all(struct report *report, const char *kinds);

/*
 * Counts the age of what was seen when the request was sent: how long ago it had been superseded, 0: not at
 * all.
 */
void counters_add_age(struct counters *counters, enum aspect aspect, int64_t age, bool strict);

/* Adds up; `from` is at rest. */
void counters_merge(struct counters *to, const struct counters *from);

/* The end of the summary: requests, ages, faults and violations. */
void report_summary(struct report *report, const struct counters *counters, struct fault_schedule *schedule);

#endif
