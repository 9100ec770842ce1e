#ifndef TEST_SUPPORT_NETNS_H
#define TEST_SUPPORT_NETNS_H

#include <stdbool.h>

#include "support/tempdir.h"

/*
 * A network namespace at the other end of a veth pair, in which packets can be dropped or refused. It needs
 * root, ip and iptables. The next test removes what a killed test has left.
 */

struct netns {
    struct tempdir dir;
    char name[16];    /* of the namespace, and of this end of the pair */
    char near[16];    /* the address of this end */
    char address[16]; /* and of the other */
};

/* False, with a message, where that is not permitted: the test has to be skipped then. */
bool netns_open(struct netns *netns);

/* Removes it; the processes within must have ended. Harmless when done twice. */
void netns_close(struct netns *netns);

/* Drops every packet into the namespace, or out of it. */
void netns_drop_in(struct netns *netns);
void netns_drop_out(struct netns *netns);

/* Drops that percentage of packets at random, each way. */
void netns_lose(struct netns *netns, int percent);

/* Answers every incoming TCP packet with a reset. */
void netns_refuse(struct netns *netns);

/* Ends all of that. */
void netns_restore(struct netns *netns);

#endif
