/*
 * A simulated Redis: the commands that channeld sends, in iterations of its event loop like those of the real
 * one. All commands of a client that have arrived are executed one after the other, between those of other
 * clients. Output is sent at the end of the iteration.
 *
 * Tracking is like that of Redis. By key a read registers each name for one invalidation, which is queued
 * with the command that changes the key. By broadcast all changes are sent at the end of the iteration,
 * behind its replies. The table is bounded, and evicted keys are invalidated.
 */
#ifndef SIMULATION_REDIS_H
#define SIMULATION_REDIS_H

#include "simulation/bytes.h"
#include "simulation/catalogue.h"
#include "simulation/net.h"
#include "simulation/replica.h"

enum { CLIENTS = 32, PENDING_CHANGES = 512 };

enum { WORDS_MAX = 80 };

struct word {
    const char *text;
    size_t len;
};

struct command {
    struct word word[WORDS_MAX];
    size_t count;
};

bool word_is(const struct word *w, const char *text);

struct redis;
struct sentinel;

struct redis_client {
    struct redis *redis;
    struct net_conn *conn; /* NULL: free */
    struct bytes in, out;
    struct bytes early; /* pushes of a server before 7.0.5: they leave ahead of the replies of their turn */
    unsigned number;    /* of the connection */
    unsigned settings;  /* the password that it gave, as a number */
    bool tracks, broadcast;
    bool caching_no;  /* the next command is not tracked */
    uint64_t tracked; /* names, as bits */
    bool reads;       /* it has been sent a read that no other node referred to this one */
    bool asks;        /* it was sent ASKING: another node refers to this one */
    bool mute;        /* it gets nothing any more: its connection is about to end */
    bool asking;      /* the next command is behind ASKING */
    bool ignored;     /* what it sends is lost */
};

struct redis_faults {
    const char *error; /* replied to every command, or to one in `error_one_in` */
    unsigned error_one_in;
    bool refuses_tracking;
    const char *tracking_error;           /* by which it does; NULL: it does not know the command */
    bool deaf;                            /* accepts tracking, and sends no invalidations */
    bool disordered;                      /* a server before 7.0.5 */
    size_t date_bytes;                    /* that the first card has; 0: none */
    unsigned evicts_one_in;               /* a key of the catalogue, with one command of so many; 0: none */
    void (*behind_ping)(struct redis *r); /* called once, when it has executed PING; NULL: nothing */
    void (*at_first_card)(
        struct redis_client *c); /* called whenever it has read the first card; NULL: nothing */
};

/* What a node of a cluster knows and does besides; see cluster.c. */
struct redis_cluster {
    /* The error by which the node refuses to read this name; NULL: it executes the command. */
    const char *(*refuses)(const struct redis *r, const struct redis_client *c, int name);
    void (*write_slots)(const struct redis *r, struct bytes *out);
    const struct redis *(*master_of)(const struct redis *r); /* by its own word; NULL: it is one */
    bool (*has_work)(const struct redis *r);
    void (*work)(struct redis *r); /* changes, in a turn of the node */
};

struct redis {
    const char *name;
    const struct redis_cluster *cluster; /* NULL: it is not a node of one */
    struct net_listener listener;
    struct catalogue catalogue;
    struct redis_client client[CLIENTS];
    struct bytes records; /* scratch */
    struct change pending[PENDING_CHANGES];
    size_t pending_count;
    struct redis_faults faults;
    struct replication replication;
    struct sentinel *sentinel; /* NULL: it is a Redis */
    unsigned table_max;        /* names in the tracking table */
    bool tls;                  /* what is sent is sent in records */
    int other_keys;            /* members of the API key set that never change (catalogue.h) */
    uint64_t changed;          /* names, in this turn: for broadcast */
    bool flushed;              /* everything, in this turn: for broadcast */
    uint64_t hung_until_ns;
    uint64_t turn_ns; /* when the turn began */
    bool scheduled, in_turn;
    uint64_t changed_ns;           /* when the last transaction was executed */
    uint64_t commands;             /* executed so far */
    uint64_t read_ns[NAMES_COUNT]; /* when each name was last read */
    uint64_t infos_ns;             /* when an info last changed, of any API key, */
    unsigned infos_unread;         /* and the keys whose infos were not read since, as bits */
};

/* At 10.0.0.`host`:6379; its catalogue is empty. */
void redis_begin(struct redis *r, const char *name, uint8_t host);

/* Returns the bytes of the command at the front; 0: it is not complete. */
size_t redis_parse(const struct bytes *in, struct command *m);

/* A writer's transaction: executed in a turn to come. False when too many wait. */
bool redis_submit(struct redis *r, const struct change *c);

/* For clusters: one object changes at that time, in a turn. */
void redis_set(struct redis *r, int object, int64_t value, uint64_t at_ns);

/* What was added to the output of a client is sent with the next turn. */
void redis_wake(struct redis *r);

/* The table evicts one name; everything is lost (FLUSHALL), or comes back. */
void redis_evict(struct redis *r);
void redis_lose(struct redis *r);
void redis_restore(struct redis *r);

/* Invalidations of names that no entry has: of other databases. */
void redis_flood(struct redis *r, unsigned count);

/* One push that names so many keys that no entry has. */
void redis_push_large(struct redis *r, unsigned count);

/* Sends this on all connections, where no reply is due. */
void redis_say(struct redis *r, const char *text);

/* What the present connections send from now on is lost. */
void redis_ignore(struct redis *r);

/* Executes nothing for this time. */
void redis_hang(struct redis *r, uint64_t duration_ns);

/* All connections end, and nothing is left of the tracking table. */
void redis_restart(struct redis *r, bool reset);

#endif
