#ifndef FAULTS_OUTAGE_H
#define FAULTS_OUTAGE_H

#include "faults/stage.h"

/* A fault that cuts channeld off from Redis for a while, and what is the same for all of them. */

struct outage {
    const char *name;
    void (*begin)(struct stage *stage);
    void (*end)(struct stage *stage); /* returns when Redis can be asked again */
    int lasts_ms;
    int recovery_ms; /* after its end an uncached question is answered within this; 0: STAGE_RECOVERY_MS */
    bool unnoticed;  /* connections survive it */
};

/*
 * Lets it happen to a stage whose clients are at work (load_start). Answers from memory are right throughout;
 * the others are right or a 500 within the request timeout; the loss is noticed within STAGE_NOTICE_MS;
 * afterwards all is right within the bound. Fails otherwise, and reports what was measured.
 */
void outage_run(struct stage *stage, const struct outage *outage);

#endif
