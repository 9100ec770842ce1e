#ifndef COHERENCE_CHECKER_H
#define COHERENCE_CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coherence/fault_schedule.h"
#include "coherence/model.h"
#include "coherence/report.h"

/* Checks responses against the model and the fault schedule. */

enum target { TARGET_CARD, TARGET_LINK, TARGET_PAGE };

/* What a response shows of one channel. */
struct observed {
    int channel;
    int64_t version;
    int link; /* or CARD_WITHOUT_LINK */
};

struct request {
    enum request_kind kind;
    enum target target;
    int object; /* channel, link or page (from 1); -1: one that does not exist */
    int key;    /* -1: one that was never valid */
    int64_t sent;
    bool conditional;      /* with the entity tag of what was known */
    struct observed known; /* of an earlier response to the same request */
};

struct response {
    int64_t received;
    int status;
    const char *body;
    size_t length;
};

struct checker {
    struct model *model;
    struct fault_schedule *schedule;
    struct report *report;
    struct counters *counters;
    bool in_cluster; /* what one transaction has written may be read in two moments, while the slot moves */
};

/* Checks a response; true when `seen` holds what a card showed (status 200 or 304). */
bool checker_check(struct checker *checker, const struct request *request, const struct response *response,
                   struct observed *seen);

#endif
