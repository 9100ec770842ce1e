#ifndef FAULTS_BAD_NETWORK_H
#define FAULTS_BAD_NETWORK_H

#include "faults/stage.h"

/* A stage whose Redis is behind a network of its own, and ways in which that drops packets: for outages. */

/* The end of a hole is found out by the next attempt to connect: a SYN that was lost is not sent again at
 * once. */
enum { BAD_NETWORK_RECOVERY_MS = 2 * STAGE_RECOVERY_MS };

/* With clients at work; it is in *state for the teardown. */
struct stage *bad_network_begin(void **state);

void bad_network_drop_in(struct stage *stage);
void bad_network_drop_out(struct stage *stage);
void bad_network_drop_all(struct stage *stage);
void bad_network_heal(struct stage *stage);

#endif
