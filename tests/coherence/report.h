#ifndef COHERENCE_REPORT_H
#define COHERENCE_REPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "coherence/weather.h"

/* What was seen: counted by each reader on its own, told once a second and at the end. */

enum view {
    VIEW_CARD,    /* a card asked for by id */
    VIEW_BY_LINK, /* a card asked for by link: the card */
    VIEW_LINK,    /* and which channel the link leads to */
    VIEW_SUMMARY, /* an item of a page */
    VIEW_INDEX,   /* its being there */
    VIEW_KEY,     /* whether a key is valid */
    VIEWS,
};

enum request_kind {
    REQUEST_CARD,
    REQUEST_LINK,
    REQUEST_PAGE,
    REQUEST_KEY,
    REQUEST_AGAIN,
    REQUEST_GHOST,
    REQUEST_KINDS
};

enum violation {
    VIOLATION_STALE,
    VIOLATION_INVENTED,
    VIOLATION_MIXED,
    VIOLATION_BROKEN,
    VIOLATION_TWICE,    /* a channel twice on a page */
    VIOLATION_ORDER,    /* a page not in the order of the index, or with gaps */
    VIOLATION_LACKING,  /* a page without a channel that belongs there */
    VIOLATION_KEY,      /* a revoked key works, or a valid one does not */
    VIOLATION_FAILED,   /* 500 in calm weather */
    VIOLATION_MEMORY,   /* an answer from memory after its time */
    VIOLATION_STATUS,   /* another status than any that fits */
    VIOLATION_CLIENT,   /* no answer, or a closed connection */
    VIOLATION_RECOVERY, /* not connected again in time */
    VIOLATIONS,
};

enum { AGE_BUCKETS = 13 };

/* One reader's counts. Its own thread writes; the atomics are read by others meanwhile. */
struct tally {
    _Atomic uint64_t reads;
    _Atomic uint64_t failed;
    uint64_t requests[REQUEST_KINDS];
    uint64_t statuses[6]; /* 200, 304, 401, 404, 500, others */
    uint64_t failed_by_fault[FAULT_KINDS];
    uint64_t judged[VIEWS];
    uint64_t forgotten[VIEWS]; /* could not be judged */
    uint64_t ages[VIEWS][AGE_BUCKETS];
    int64_t oldest_calm[VIEWS];
    int64_t oldest_cut_off[VIEWS];
    int64_t longest_wait; /* for an answer, no fault being on */
};

struct report;

/* Owned. */
struct report *report_new(bool verbose);
void report_free(struct report *report);

/* The start of the times that are told. */
int64_t report_start(const struct report *report);

/* Any thread. The first few are kept in full. */
__attribute__((format(printf, 3, 4))) void report_violation(struct report *report, enum violation kind,
                                                            const char *format, ...);
uint64_t report_violations(struct report *report);

/* True when there was one of each of these kinds (their names, separated by commas). */
bool report_has_all(struct report *report, const char *kinds);

/* The age of what was seen when the request was sent: how long ago it had been superseded, 0: not at all. */
void tally_add_age(struct tally *tally, enum view view, int64_t age, bool calm);

/* Adds up; `from` is at rest. */
void tally_merge(struct tally *to, const struct tally *from);

/* The end of the summary: requests, ages, faults and violations. */
void report_summary(struct report *report, const struct tally *tally, struct weather *weather);

#endif
