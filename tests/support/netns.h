#ifndef TEST_SUPPORT_NETNS_H
#define TEST_SUPPORT_NETNS_H

#include <stdbool.h>

#include "support/tempdir.h"

/*
 * A network of a test's own: a namespace at the other end of a veth pair, with packets dropped or refused on
 * order. It needs root, ip and iptables. What a test that was killed has left behind is removed by the next.
 */

struct netns {
    struct tempdir dir;
    char name[16];    /* of the namespace, and of this end of the pair */
    char near[16];    /* the address of this end */
    char address[16]; /* and of the other */
};

/* False, with a message, where that is not permitted: then the test is to be skipped. */
bool netns_open(struct netns *netns);

/* Removes it; what runs within must have ended. Harmless when done twice. */
void netns_close(struct netns *netns);

/* Drops every packet that comes into the namespace, leaves it, or both, without a word. */
void netns_drop_in(struct netns *netns);
void netns_drop_out(struct netns *netns);

/* Loses packets by chance: so many of a hundred, each way. */
void netns_lose(struct netns *netns, int percent);

/* Answers every TCP packet that comes in with a reset. */
void netns_refuse(struct netns *netns);

/* A good network again. */
void netns_restore(struct netns *netns);

#endif
