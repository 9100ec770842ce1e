#ifndef COHERENCE_MODEL_H
#define COHERENCE_MODEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The model of the catalogue: the channels, links and API keys that exist, their places in the index, and the
 * history of each.
 *
 * A history holds the latest changes of one object of Redis, numbered from 0 in the order in which Redis
 * applies them. A change is issued before its command is sent and acknowledged after the reply is read. A
 * change that was never acknowledged may have happened or not.
 *
 * A response was made at some moment between the sending of its request and its reception. It may show the
 * newest change that was acknowledged by the time `since`, or a later one that was issued by the time
 * `until`. It may show nothing else. One thread at a time changes a history; any thread may check against it.
 */

enum { HISTORY_DEPTH = 128 };

struct change {
    int64_t issued;
    int64_t acknowledged; /* 0: not yet, perhaps never */
    int64_t value;
};

struct history {
    pthread_mutex_t lock;
    int64_t newest; /* number of the newest change */
    struct change change[HISTORY_DEPTH];
};

struct window {
    int64_t since;
    int64_t until;
};

enum legality {
    LEGAL,
    STALE,      /* was true once, but not any more */
    IMPOSSIBLE, /* was never true, or only later */
    UNDECIDED,  /* the changes that matter are no longer in the history */
};

struct finding {
    enum legality legality;
    int64_t number;       /* of the change that was seen, -1: none fits */
    int64_t superseded;   /* when its successor was acknowledged, 0: not yet */
    int64_t expected;     /* the oldest legal change, -1: no longer in the history */
    int64_t acknowledged; /* when the expected change was acknowledged */
    int64_t value;        /* of the expected change */
};

/* Adds a change; returns its number. */
int64_t history_issue(struct history *history, int64_t value, int64_t now);
void history_acknowledge(struct history *history, int64_t number, int64_t now);

/* Checks a response that shows a value from low to high. */
struct finding history_check_value(struct history *history, struct window window, int64_t low, int64_t high);

/* Checks a response that shows the change of that number; `value` becomes that change's value. */
struct finding history_check_version(struct history *history, struct window window, int64_t number,
                                     int64_t *value);

/* True when only one change is legal; `value` becomes its value. */
bool history_is_certain(struct history *history, struct window window, int64_t *value);

/* Whether there are legal changes with values from low to high, and others. */
struct possible {
    bool inside;
    bool outside;
};
struct possible history_possible(struct history *history, struct window window, int64_t low, int64_t high);

/*
 * Channels are called by their position in the model, 0..channels-1; channel i begins with link i.
 *
 * The index has three sections. The frozen one fills the first pages and never changes. The active one stands
 * on the next page; its members come, go and change places. The tail keeps its order but moves up and down
 * with the number of active members before it. The other channels are not in the index.
 *
 * A writer owns the channels, links and keys whose position modulo the number of writers is its own number.
 */
enum {
    WRITERS_MAX = 16,
    READERS_MAX = 16,
    MODEL_PAGE = 100,
    MODEL_FROZEN_PAGES = 3,
    MODEL_FROZEN = MODEL_FROZEN_PAGES * MODEL_PAGE,
    MODEL_ACTIVE = 60,
    MODEL_TAIL = 150,
    MODEL_LISTED = MODEL_FROZEN + MODEL_ACTIVE + MODEL_TAIL,
    MODEL_PAGES = MODEL_FROZEN_PAGES + 3,
    MODEL_CHANNELS_MIN = MODEL_LISTED + 90,
    MODEL_HOT = 16, /* channels of each writer that are changed and read much more often than others */
    MODEL_KEYS = 40,
    MODEL_KEYS_PERMANENT = 8, /* the first ones, which are never revoked */
    MODEL_KEY_SIZE = 48,
};

enum section { SECTION_FROZEN, SECTION_ACTIVE, SECTION_TAIL, SECTION_UNLISTED };

/* The values in histories. */
enum {
    CARD_ABSENT = -1, /* else the link of the card, or: */
    CARD_WITHOUT_LINK = 1 << 30,
    LINK_FREE = -1,     /* else the channel that has it */
    MEMBER_ABSENT = -1, /* else its score */
    KEY_REVOKED = 0,
    KEY_VALID = 1,
};

/* The latest state of a channel, read and written by its owner only. */
struct channel_state {
    bool present;
    int link;  /* -1: none */
    int score; /* -1: not in the index */
};

struct model {
    int channels;
    int writers;
    struct history *card;   /* of each channel; the number of a change is the version that the card shows */
    struct history *member; /* of each channel */
    struct history *link;   /* of each link: which channel has it */
    struct history *key;    /* of each key: whether it is valid */
    struct channel_state *channel;
    int *link_owner; /* the channel that has the link, -1: none; for the owner only */
    bool key_valid[MODEL_KEYS];
    char key_text[MODEL_KEYS][MODEL_KEY_SIZE];
    char key_digest[MODEL_KEYS][65];

    /* Held for reading by changes, for writing by a loss of the whole catalogue. */
    pthread_rwlock_t reload_lock;
    atomic_int generation; /* of the catalogue, from 1; on a new one each writer writes all it owns again */
    atomic_int reloaded;   /* how many writers have done so */
    atomic_bool redis_up;
    atomic_bool
        durable; /* in a cluster: what is acknowledged must be on a replica, too; changes with the lock */
    atomic_bool finished; /* tells the writers to end */
};

/* Owned. Aborts when out of memory. */
struct model *model_new(int channels, int writers);
void model_free(struct model *model);

enum section model_section(int channel);

/* The id of a channel; negative ones among them. The other way: -1 for an id that no channel has. */
int64_t model_id(int channel);
int model_channel_of(const struct model *model, int64_t id);

/* The n-th hot channel of a writer. */
int model_hot_channel(const struct model *model, int n, int writer);

/* The score of frozen and tail members. */
int model_fixed_score(int channel);

/*
 * The loss of the catalogue, recorded as a change of every object. Issued before it happens and acknowledged
 * after, both with the reload lock held for writing.
 */
void model_issue_loss(struct model *model, int64_t now);
void model_acknowledge_loss(struct model *model, int64_t now);

#endif
