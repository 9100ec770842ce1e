#ifndef FAULTS_CLIENTS_H
#define FAULTS_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Background clients that send requests during a fault. Some repeat requests that channeld can answer from
 * its cache, some request a channel that was not requested before. Every response is checked: it is right, a
 * 500 as the contract wants it, or wrong.
 */

enum client_kind { CLIENTS_CACHED, CLIENTS_UNCACHED, CLIENTS_KINDS };

enum { CLIENTS_PER_KIND = 4, CLIENTS_TEXT_SIZE = 256 };

/* Counts since a mark; of the uncached requests those that were sent after it. */
struct client_tally {
    int right;
    int failed; /* 500s */
    int wrong;  /* everything else: another status or body, no response, an outdated version */
    int slowest_ms;
    char slowest[CLIENTS_TEXT_SIZE];
    int first_right_ms; /* after the mark, of a request sent after it; -1: none yet */
    int last_failed_ms; /* after the mark; -1: none */
    char first_wrong[CLIENTS_TEXT_SIZE];
};

struct clients;
struct testbed;

/* Starts the clients; returns when the repeated requests are cached. Owned by the testbed. */
struct clients *clients_start(struct testbed *bed);

/* Ends the clients. Harmless for NULL. */
void clients_free(struct clients *clients);

/* Resets the tallies. */
void clients_mark(struct clients *clients);
struct client_tally clients_tally(struct clients *clients, enum client_kind kind);

/* The same at the end of a fault: the tallies until now are kept, for the report. */
void clients_mark_end(struct clients *clients);
struct client_tally clients_tally_of_fault(struct clients *clients, enum client_kind kind);

/* The bound of a time that a test measures, as wait_bound_ms(); tests of latency also allow what the
 * scheduler of this machine has delayed a thread since the clients were started. */
int clients_bound_ms(struct clients *clients, int ms);

/* Lets them run for `ms`; fails at once for a wrong response, and in tests of latency for one later
 * than the request timeout. */
void clients_watch(struct clients *clients, int ms);

/* Asserts that every cached response since the mark was right. */
void clients_expect_cached_right(struct clients *clients);

/* Waits until there was a right response of that kind since the mark. */
void clients_await_right(struct clients *clients, enum client_kind kind);

/* Waits for the first right response to an uncached request; returns its time after the mark. Fails when that
 * is later than `bound_ms` and the slack, or for any wrong response. */
int clients_await_recovery(struct clients *clients, int bound_ms);

/* Lets them run for a while: no request fails any more, and the repeated ones are cached again. */
void clients_expect_all_right(struct clients *clients);

#endif
