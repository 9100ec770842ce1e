/* What connection.c (the states of a connection), connection_handshake.c (what it says for itself) and
 * connection_discovery.c (which Redis it goes to) share. */
#ifndef REDIS_CONNECTION_INTERNAL_H
#define REDIS_CONNECTION_INTERNAL_H

#include "base/log.h"
#include "redis/connection.h"
#include "redis/pending.h"
#include "redis/resolve.h"
#include "redis/role.h"
#include "redis/sentinel_watch.h"
#include "redis/socket.h"

enum redis_connection_state {
    REDIS_CONNECTION_WAITING,
    REDIS_CONNECTION_DISCOVERING,
    REDIS_CONNECTION_RESOLVING,
    REDIS_CONNECTION_CONNECTING,
    REDIS_CONNECTION_HANDSHAKE,
    REDIS_CONNECTION_READY,
    REDIS_CONNECTION_CLOSED
};

/* Whether two addresses lead to the same place, where they have to be looked up. */
struct comparison {
    struct resolver side[2];
    struct redis_address of[2];
    int owed; /* look-ups under way */
    bool equal;
    uint64_t made_ms; /* by the boot clock; 0: never */
};

struct redis_connection {
    uv_loop_t *loop;
    struct redis_connection_options options;
    enum redis_connection_state state;
    uv_timer_t timer;
    uv_prepare_t flusher;         /* runs once before the loop polls: writes what the turn has queued */
    int open_handles;             /* of the two above, and the watch */
    struct redis_endpoint where;  /* this attempt's, or this connection's; borrows */
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
    struct pending pending;
    int step; /* of the handshake */
    int handshake_owed;
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
    uint64_t last_pong_ms; /* when the last answered PING was sent */
    bool unsent;           /* commands were queued since the last flush */
    uint64_t unsent_since_ns;
    bool timeout_pending;       /* the silence was too long at the last look */
    int reply_heartbeats;       /* that have passed since the last reply ended, while the next was arriving */
    unsigned failures;          /* in a row, for the back-off */
    struct log_reasons reasons; /* since the connection was last ready */
    unsigned seed;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* --- connection.c --- */

/* The reply that is arriving takes too long: its command fails, and all others are told that the connection
 * is lost. */
void redis_connection_fail_reply(struct redis_connection *c);

/* Sentinel wants another: goes there, without a pause. */
void redis_connection_switch(struct redis_connection *c, const char *why);

/* It is known where: goes there. */
void redis_connection_connect(struct redis_connection *c);

/* The greeting is over. */
void redis_connection_handshake_done(struct redis_connection *c);

void redis_connection_start_timer(struct redis_connection *c, uint64_t ms);

/* A line about this connection; `why` may be NULL. */
void redis_connection_log(const struct redis_connection *c, enum log_level level, const char *message,
                          const char *why);

/* As redis_connection_send, in any state that has a socket. */
int redis_connection_send_now(struct redis_connection *c, int argc, const char **argv, const size_t *lengths,
                              redis_connection_reply_fn fn, void *arg) __attribute__((warn_unused_result));

/* --- connection_discovery.c --- */

/* Prepares to follow Sentinels, where the target has them. Returns 0 or -ENOMEM. */
int redis_connection_discovery_init(struct redis_connection *c) __attribute__((warn_unused_result));

/* Finds out where to connect; redis_connection_connect or redis_connection_fail comes of it, perhaps before
 * this returns. */
void redis_connection_discover(struct redis_connection *c);

/* A new connection: nothing is known of it. */
void redis_connection_discovery_reset(struct redis_connection *c);

/* Why Sentinel's word speaks against the replica, whose role has just been read; NULL where nothing does. */
const char *redis_connection_discovery_check(struct redis_connection *c);

/* An attempt led nowhere. */
void redis_connection_report_failure(struct redis_connection *c);

/* --- connection_handshake.c --- */

/* Says HELLO and what follows it; redis_connection_handshake_done or redis_connection_fail comes of it. */
void redis_connection_handshake(struct redis_connection *c);

/* Counts the connection's Redis by its role, or no more. */
void redis_connection_count_role(struct redis_connection *c, bool ready);

/* To be called when the timer runs out on a ready connection: looks for a silence, sends a PING, sets the
 * timer. */
void redis_connection_heartbeat(struct redis_connection *c);

#endif
