/* What rconn.c (the states of a connection), rconn_talk.c (what it says for itself) and rconn_follow.c (which
 * Redis it goes to) share. */
#ifndef REDIS_CONNECTION_INTERNAL_H
#define REDIS_CONNECTION_INTERNAL_H

#include "base/log.h"
#include "redis/role.h"
#include "redis/pending.h"
#include "redis/connection.h"
#include "redis/resolve.h"
#include "redis/sentinel_watch.h"
#include "redis/socket.h"

enum rconn_state {
    RCONN_WAITING,
    RCONN_LOCATING,
    RCONN_RESOLVING,
    RCONN_CONNECTING,
    RCONN_GREETING,
    RCONN_READY,
    RCONN_CLOSED
};

/* Whether two addresses lead to the same place, where they have to be looked up. */
struct comparison {
    struct resolver side[2];
    struct redis_address of[2];
    int owed; /* look-ups under way */
    bool equal;
    uint64_t made_ms; /* by the boot clock; 0: never */
};

struct rconn {
    uv_loop_t *loop;
    struct rconn_options options;
    enum rconn_state state;
    uv_timer_t timer;
    uv_prepare_t flusher;         /* runs once before the loop polls: writes what the turn has queued */
    int open_handles;             /* of the two above, and the watch */
    struct redis_target where;    /* this attempt's, or this connection's; borrows */
    struct sentinel_watch *watch; /* NULL without Sentinels; what follows is of use with them only */
    struct redis_address place;   /* what `where` borrows */
    struct redis_address master;  /* whom Sentinel calls the master */
    bool at_master;               /* the place is the master's, be it for want of a replica */
    struct comparison masters;    /* that one, and whom the replica follows */
    unsigned turn;                /* with which replica the choice begins */
    unsigned refused;             /* attempts in a row that led nowhere */
    uint64_t ready_ms;            /* when this connection became ready */
    struct resolver resolver;
    int next_address;            /* to try, of the resolver's */
    struct redis_socket *socket; /* NULL unless CONNECTING or later */
    struct expected expected;
    int step; /* of the handshake */
    int greetings_owed;
    const char *untrackable; /* why this Redis is not asked to tell what changes; NULL when it is */
    bool tracking;           /* this connection is told what changes */
    struct redis_role role;  /* what this connection's Redis says it is; unknown where asking is denied */
    bool role_denied, link_denied;               /* ROLE, INFO: on this connection */
    bool role_denial_logged, link_denial_logged; /* once in a life */
    /* By the boot clock, all of this connection; 0: not so. */
    uint64_t agreed_ms;  /* when Sentinel last named this master, or the replica was last seen to follow it */
    uint64_t doubted_ms; /* since when the replica follows another, or it is not known whom */
    uint64_t down_ms;    /* since when Sentinel calls the replica down */
    uint64_t good_ms;    /* until when this Redis was known to be good: a master, or a replica that heard its
                            master; UINT64_MAX for as long as the connection lasts */
    bool ping_owed;      /* a heartbeat is under way */
    uint64_t asked_ms;   /* when the heartbeat, or the last step of the handshake, was sent; as all of the
                            following by the boot clock */
    uint64_t proven_ms;  /* when the last answered PING was sent */
    bool unsent;         /* commands were queued since the last flush */
    uint64_t unsent_since_ns;
    bool suspect;               /* the silence was too long at the last look */
    int reply_heartbeats;       /* that have passed since the last reply ended, while the next was arriving */
    unsigned failures;          /* in a row, for the back-off */
    struct log_reasons reasons; /* since the connection was last ready */
    unsigned seed;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* --- rconn.c --- */

/* The reply that is arriving takes too long: its command fails, and all others are told that the connection
 * is lost. */
void rconn_fail_reply(struct rconn *c);

/* Sentinel wants another: goes there, without a pause. */
void rconn_move(struct rconn *c, const char *why);

/* It is known where: goes there. */
void rconn_go(struct rconn *c);

/* The greeting is over. */
void rconn_greeted(struct rconn *c);

void rconn_start_timer(struct rconn *c, uint64_t ms);

/* A line about this connection; `why` may be NULL. */
void rconn_log(const struct rconn *c, enum log_level level, const char *message, const char *why);

/* As rconn_send, in any state that has a socket. */
int rconn_send_now(struct rconn *c, int argc, const char **argv, const size_t *lengths, rconn_reply_fn fn,
                   void *arg) __attribute__((warn_unused_result));

/* --- rconn_follow.c --- */

/* Prepares to follow Sentinels, where the target has them. Returns 0 or -ENOMEM. */
int rconn_follow(struct rconn *c) __attribute__((warn_unused_result));

/* Finds out where to connect; rconn_go or rconn_fail comes of it, perhaps before this returns. */
void rconn_locate(struct rconn *c);

/* A new connection: nothing is known of it. */
void rconn_follow_begin(struct rconn *c);

/* Why Sentinel's word speaks against the replica, whose role has just been read; NULL where nothing does. */
const char *rconn_follow_objection(struct rconn *c);

/* An attempt led nowhere. */
void rconn_doubt(struct rconn *c);

/* --- rconn_talk.c --- */

/* Says HELLO and what follows it; rconn_greeted or rconn_fail comes of it. */
void rconn_greet(struct rconn *c);

/* Counts the connection's Redis by its role, or no more. */
void rconn_count_role(struct rconn *c, bool ready);

/* To be called when the timer runs out on a ready connection: looks for a silence, sends a PING, sets the
 * timer. */
void rconn_heartbeat(struct rconn *c);

#endif
