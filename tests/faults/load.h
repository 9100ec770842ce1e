#ifndef FAULTS_LOAD_H
#define FAULTS_LOAD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Clients at work while something is broken. Some ask again and again for what channeld has in memory, some
 * each time for a channel that nobody has asked for yet. Every answer is judged: right, a 500 as the contract
 * wants it, too old, or wrong, which nothing excuses.
 */

enum load_kind { LOAD_CACHED, LOAD_UNCACHED, LOAD_KINDS };

enum { LOAD_CLIENTS = 4, LOAD_WRONG_SIZE = 256 }; /* of each kind */

/* What happened since a mark; of the uncached questions those that were asked since. */
struct load_tally {
    int right;
    int failed; /* 500s */
    int wrong;  /* everything else: another status, another body, no answer, one that is too old */
    int slowest_ms;
    char slowest[LOAD_WRONG_SIZE];
    int first_right_ms; /* after the mark, of a question sent after it; -1: none yet */
    int last_failed_ms; /* the same */
    char first_wrong[LOAD_WRONG_SIZE];
};

struct load;
struct stage;

/* Starts the clients; returns when all that is to be in memory is there. Owned by the stage. */
struct load *load_start(struct stage *stage);

/* Ends the clients. Harmless for NULL. */
void load_free(struct load *load);

/* From now on an answer of an older version is wrong. */
void load_require_version(struct load *load, int version);

/* From now on an answer of a newer one is not. */
void load_permit_version(struct load *load, int version);

/* Tallies begin anew. */
void load_mark(struct load *load);
struct load_tally load_tally(struct load *load, enum load_kind kind);

/* The same where a fault ends: what was tallied until now is kept, to be reported. */
void load_mark_end(struct load *load);
struct load_tally load_tally_of_fault(struct load *load, enum load_kind kind);

/* What to allow on top of a bound: wait_slack_ms(), and how long this machine has kept somebody waiting for a
 * processor since the start of the clients. */
int load_slack_ms(struct load *load);

/* Lets them work for so long; fails at once when something is wrong, or an answer later than the timeout. */
void load_watch(struct load *load, int ms);

/* Fails unless, since the mark, every answer from memory was right. */
void load_expect_cached_right(struct load *load);

/* Waits for the first right answer to an uncached question; returns its time after the mark. Fails when that
 * is later than `bound_ms` and the slack, or anything was wrong. */
int load_await_recovery(struct load *load, int bound_ms);

/* Lets them work for a while: nothing fails any more, and all that is to be in memory is there again. */
void load_expect_all_right(struct load *load);

#endif
