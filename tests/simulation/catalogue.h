/*
 * The content of a simulated Redis: a small catalogue, as one number for each object, and the history of each
 * object on this server. The oracle reads the histories, and the commands of redis.c read the numbers.
 */
#ifndef SIMULATION_CATALOGUE_H
#define SIMULATION_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ids are positions + 1. */
enum { CARDS = 12, LINKS = 8, KEYS = 5 };

/* The objects, by the first of their kind. */
enum {
    OBJECT_CARD = 0,                    /* its version and link, 0: there is none */
    OBJECT_LINK = OBJECT_CARD + CARDS,  /* the id of its card; 0: there is none */
    OBJECT_INDEX = OBJECT_LINK + LINKS, /* the set of ids, as bits from 1 on */
    OBJECT_KEY = OBJECT_INDEX + 1, /* of the API keys: whether it is a member, and the number of its info */
    OBJECTS = OBJECT_KEY + KEYS
};

/* What a key of Redis holds that is a value of no type that it may have: another type; or, of a card, more
 * than a reply may have. */
enum { WRONG_TYPE = -1, TOO_LARGE = -2 };

static inline bool value_is_broken(int64_t value)
{
    return value < 0;
}

/* The keys of Redis: objects up to the index, and two for all API keys. */
enum { NAME_API_KEYS = OBJECT_KEY, NAME_API_KEY_INFO, NAMES_COUNT };

/* Of a card. */
static inline int64_t card_value(int64_t version, int link)
{
    return version << 8 | (link + 1);
}

static inline int64_t card_version(int64_t value)
{
    return value >> 8;
}

/* -1: the card has none. */
static inline int card_link(int64_t value)
{
    return (int)(value & 0xff) - 1;
}

/* Of an API key. An info is a number, from 1 on, which is in its name; catalogue_expiry() is its expiry. */
static inline int64_t key_value(bool member, int64_t info)
{
    return info << 1 | member;
}

static inline bool key_is_member(int64_t value)
{
    return (value & 1) != 0;
}

static inline int64_t key_info(int64_t value)
{
    return value >> 1;
}

/*
 * A long index has cards that never change as well, with the ids behind CARDS. They are in the middle of the
 * index if it has bit 0.
 */
enum { PAGE = 100, FIXED_MAX = 200, MEMBERS_MAX = CARDS + FIXED_MAX, FIXED_VERSION = 1 };

/* API keys of others, which have no info and never change, have the numbers from here on; KEYS is nobody's.
 */
enum { OTHER_KEYS = KEYS + 1, DIGEST = 32 };

/* The digest of an API key; and the reverse: KEYS if it is not one of these. `hex` has two digits per byte.
 */
void catalogue_digest(int key, unsigned char out[DIGEST]);
int catalogue_key(const char *hex, size_t len);

enum { INFOS = 1 << 14 }; /* more than a run makes; the last is that of a cluster (cluster.c) */
extern int64_t catalogue_expires[INFOS]; /* by the number of the info, by the wall clock; INT64_MAX: never */

/* Some objects change in one transaction. */
struct change {
    enum { CHANGE_WRITE, CHANGE_LOSE, CHANGE_RESTORE, CHANGE_PING, CHANGE_REPLACE } kind; /* as redis.h */
    size_t count;
    struct {
        int object;
        int64_t value;
    } set[8];
};

static inline void change_add(struct change *c, int object, int64_t value)
{
    c->set[c->count].object = object;
    c->set[c->count++].value = value;
}

enum { HISTORY = 256 };

struct history {
    size_t count; /* so far; the last HISTORY of them are here */
    struct {
        uint64_t at_ns;
        int64_t value;
    } entry[HISTORY];
};

struct catalogue {
    int64_t value[OBJECTS];
    int fixed;           /* cards that never change */
    bool lost;           /* the server has lost everything; the values are what it will get back */
    uint64_t back_ns[2]; /* when it had everything back last, and the time before; 0: never */
    struct history history[OBJECTS];
};

/* What the server has now: nothing while it is lost. */
static inline int64_t catalogue_value(const struct catalogue *c, int object)
{
    return c->lost ? 0 : c->value[object];
}

/* The ids that an index of this value has, in its order; returns how many. */
int catalogue_members(const struct catalogue *c, int64_t index, int ids[MEMBERS_MAX]);

/* Sets a value; `at_ns` grows with each transaction, also within a turn of the server. */
void catalogue_set(struct catalogue *c, int object, int64_t value, uint64_t at_ns);

/* The name of a key of Redis; and the reverse: -1 for others. */
const char *catalogue_name(int number);
int catalogue_number(const char *name, size_t len);

/* The id of a card that never changes, by its name; 0: it is another name. */
int catalogue_fixed(const struct catalogue *c, const char *name, size_t len);

/* For the oracle: a walk over the values that an object had at some moment from `since` to `until`. */
struct walk {
    const struct history *history;
    size_t next;
    uint64_t since_ns, until_ns;
    bool forgotten; /* the history does not go back so far */
};

struct walk walk_begin(const struct catalogue *c, int object, uint64_t since_ns, uint64_t until_ns);
bool walk_next(struct walk *w, int64_t *value);

/* The value at one moment; false where the history does not go back so far. */
bool catalogue_at(const struct catalogue *c, int object, uint64_t at_ns, int64_t *value);

#endif
