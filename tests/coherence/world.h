#ifndef COHERENCE_WORLD_H
#define COHERENCE_WORLD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "coherence/history.h"

/*
 * The catalogue of the test: which channels, links and API keys there are, where they stand in the index, and
 * the history of each. Channels are called by their index here, 0..channels-1; number i's own link is link i.
 *
 * The index consists of three parts. The frozen one fills the first pages and never changes. The lively one
 * stands on the next page; its members come, go and change places. The tail stays as it is, but moves up and
 * down with the number of lively members before it. The other channels are not in the index.
 *
 * A writer owns the channels, links and keys whose index modulo the number of writers is its own.
 */

enum {
    WRITERS_MAX = 16,
    READERS_MAX = 16,
    WORLD_PAGE = 100,
    WORLD_FROZEN_PAGES = 3,
    WORLD_FROZEN = WORLD_FROZEN_PAGES * WORLD_PAGE,
    WORLD_LIVELY = 60,
    WORLD_TAIL = 150,
    WORLD_LISTED = WORLD_FROZEN + WORLD_LIVELY + WORLD_TAIL,
    WORLD_PAGES = WORLD_FROZEN_PAGES + 3,
    WORLD_CHANNELS_MIN = WORLD_LISTED + 90,
    WORLD_HOT = 16, /* of each writer: changed and asked for much more often than others */
    WORLD_KEYS = 40,
    WORLD_KEYS_STEADY = 8, /* the first of them are never revoked */
    WORLD_KEY_SIZE = 48,
};

enum part { PART_FROZEN, PART_LIVELY, PART_TAIL, PART_UNLISTED };

/* The values in histories. */
enum {
    CARD_ABSENT = -1, /* else the link of the card, or: */
    CARD_WITHOUT_LINK = 1 << 30,
    LINK_FREE = -1,     /* else the channel that has it */
    MEMBER_ABSENT = -1, /* else its score */
    KEY_REVOKED = 0,
    KEY_VALID = 1,
};

/* What the owner of a channel has made of it lately; nobody else looks. */
struct channel_state {
    bool present;
    int link;  /* -1: none */
    int score; /* -1: not in the index */
};

struct world {
    int channels;
    int writers;
    struct history *card;   /* of each channel; the number of a change is the version that the card shows */
    struct history *member; /* of each channel */
    struct history *link;   /* of each link: which channel has it */
    struct history *key;    /* of each key: whether it is valid */
    struct channel_state *channel;
    int *link_owner; /* the channel that has the link, -1: none; for the owner only */
    bool key_valid[WORLD_KEYS];
    char key_text[WORLD_KEYS][WORLD_KEY_SIZE];
    char key_digest[WORLD_KEYS][65];

    /* Changes happen with the gate held for reading, a loss of the whole catalogue with it held for writing.
     */
    pthread_rwlock_t gate;
    atomic_int
        generation;      /* of the catalogue, from 1: a writer that sees a new one writes all it owns again */
    atomic_int reloaded; /* how many writers have done so */
    atomic_bool redis_up;
    atomic_bool finished; /* writers end */
};

/* Owned. Fails the test when it cannot. */
struct world *world_new(int channels, int writers);
void world_free(struct world *world);

enum part world_part(int channel);

/* The id of a channel; negative ones among them. The other way: -1 for an id that no channel has. */
int64_t world_id(int channel);
int world_channel_of(const struct world *world, int64_t id);

/* The n-th hot channel of a writer. */
int world_hot_channel(const struct world *world, int n, int writer);

/* The score of members that keep theirs. */
int world_steady_score(int channel);

/*
 * The catalogue is lost, as a change of everything. Issued before it happens and acknowledged after, both
 * with the gate held for writing.
 */
void world_issue_loss(struct world *world, int64_t now);
void world_acknowledge_loss(struct world *world, int64_t now);

#endif
