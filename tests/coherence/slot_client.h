#ifndef COHERENCE_SLOT_CLIENT_H
#define COHERENCE_SLOT_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>

/*
 * Changes of a cluster, executed by the node that has the slot of the catalogue. MOVED and ASK are followed.
 * If a node is lost, refuses or does not know the slot, all changes are sent again, to it or to the next
 * node.
 *
 * Changes are executed in their order, and the last ones may be executed more than once. So the value that a
 * change sets must not depend on an earlier one. While the slot migrates, Redis refuses a transaction whose
 * keys are not all on one node (TRYAGAIN). Its commands are then executed one after the other, and those that
 * concern the same key together.
 */

enum { SLOT_COMMANDS_MAX = 8, SLOT_COMMAND_SIZE = 1024, SLOT_NODES_MAX = 8 };

/* One command or one transaction; in a command's text a space separates arguments. */
struct slot_change {
    int commands;
    char command[SLOT_COMMANDS_MAX][SLOT_COMMAND_SIZE];
};

/* Members are private. */
struct slot_client {
    int nodes;
    int port[SLOT_NODES_MAX];            /* of all nodes, on 127.0.0.1 */
    int node;                            /* to be tried */
    struct redisContext *owner, *target; /* NULL: not connected */
    int target_port;                     /* where the slot migrates to */
};

/* Returns when all have been executed; if `durable` is set meanwhile, by a replica too. Aborts when that
 * takes too long, and for errors that are a mistake of the test. */
void slot_client_run(struct slot_client *client, const struct slot_change *changes, int count,
                     const atomic_bool *durable);

void slot_client_fini(struct slot_client *client);

#endif
