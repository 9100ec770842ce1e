#ifndef FAULTS_CUTS_H
#define FAULTS_CUTS_H

#include "faults/stage.h"

/*
 * Faults that befall the line after each so many bytes of Redis' answers: whatever has come by then, the
 * client's answer is the right one, whole, or a 500; and the next questions are answered right.
 */

enum cuts_question { CUTS_CARD, CUTS_LINK, CUTS_PAGE };

struct cuts {
    const char *name;
    enum cuts_question question;
    enum proxy_fault fault;
    size_t step; /* bytes from one cut to the next */
};

/* Goes through all of them, from the first byte to the last, and reports. */
void cuts_run(struct stage *stage, const struct cuts *cuts);

/* A stage for them, with a line and one worker: as cmocka's setup. */
int cuts_begin(void **state);

#endif
