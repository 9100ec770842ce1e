/*
 * A Redis that replies what the test wants, and a connection to it: both in the thread of the test, so that
 * the loop turns only while the test waits for something.
 */
#ifndef TEST_UNIT_FAKE_REDIS_H
#define TEST_UNIT_FAKE_REDIS_H

#include "redis/connection.h"
#include "support/wait.h"
#include "unit/check.h"

struct ssl_st;

/* --- the server --- */

enum { FAKE_CONNECTIONS_MAX = 8, NEVER = -1 };

/* A reply to HELLO of a server whose tracking is relied on. */
extern const char FAKE_HELLO[];

struct fake_connection {
    int fd; /* -1: not open */
    struct ssl_st *tls;
    redisReader *reader;
    struct buf out;
    long sent;
};

struct fake_redis {
    int listener; /* -1: nothing listens */
    int port;
    struct ssl_ctx_st *tls; /* borrowed; NULL: it does not speak TLS */
    struct fake_connection connection[FAKE_CONNECTIONS_MAX];
    int accepted;
    struct buf log; /* commands as they came: words joined by spaces, one per line */
    /* Its replies. A command without one here has that of PING. */
    const char *hello, *select, *ping, *role, *info, *tracking, *subscribe, *sentinel, *replicas;
    bool mute;        /* it does not reply */
    bool deaf;        /* it does not read */
    size_t slice;     /* bytes that leave in one turn; 0: all */
    long close_after; /* bytes sent, then it closes; or NEVER */
};

void fake_init(struct fake_redis *f);
void fake_fini(struct fake_redis *f);

/* Listens on a numeric address, or as a local socket; port 0: any. */
void fake_listen(struct fake_redis *f, const char *host, int port);
void fake_listen_unix(struct fake_redis *f, const char *path);
void fake_stop_listening(struct fake_redis *f);

/* fake_init and fake_listen on 127.0.0.1. */
void fake_open(struct fake_redis *f);

/* Closes what is connected; with a reset in place of a FIN where `reset`. */
void fake_drop_all(struct fake_redis *f, bool reset);

/* The connection that was accepted last and is still open. */
struct fake_connection *fake_current(struct fake_redis *f);

/* Sends bytes that are no reply to a command. */
void fake_send(struct fake_redis *f, const char *bytes);

/* Accepts, reads, replies and writes whatever is possible now. ECHO x gives x, FAIL an error, HANG nothing.
 */
void fake_turn(struct fake_redis *f);

/* --- the connection --- */

enum { SENT_MAX = 2048 };

struct sent_command {
    int calls, replies, errors, losses; /* of its callback */
    size_t order;                       /* callbacks of other commands before it */
    char text[64];                      /* the beginning of the reply */
};

struct session {
    uv_loop_t loop;
    struct fake_redis *fake;
    struct fake_redis *other, *third; /* further ones, or NULL */
    struct redis_endpoint endpoint;
    struct ssl_ctx_st *tls;
    struct redis_metrics metrics;
    struct loop_lag loop_lag;
    struct span tracking_prefix;
    uint64_t stale_limit_ms;
    struct redis_connection *connection;
    int ready, lost, closed;
    bool closing;
    struct sent_command sent[SENT_MAX];
    size_t sent_count, answered;
    void (*during_ready)(struct session *s); /* what the test does in callbacks */
    void (*during_lost)(struct session *s);
    void (*during_reply)(struct session *s, const redisReply *reply);
};

extern struct session session;

/* A session with that server at `host`, which connects when session_connect is called. */
void session_begin(struct fake_redis *f, const char *host);

/* The same by one Sentinel, at another fake; its reply that names the server is written into `reply`. */
void session_begin_by_sentinel(struct fake_redis *f, struct fake_redis *sentinel, const char *host,
                               char reply[64]);

void session_connect(void);

/* Sends a command of one or two words, whose callback is counted; returns what the connection returned. */
int session_send(const char *name, const char *argument);

/* The same without counting: for what is to be refused. */
int session_try_send(const char *name, const char *argument);

/* One turn of the loop and of the servers. */
void session_turn(void);
void session_turn_for(int ms);

#define SESSION_UNTIL(condition)                                                    \
    do {                                                                            \
        int64_t until_ = wait_deadline(WAIT_DEADLINE_MS);                           \
        while (!(condition)) {                                                      \
            if (wait_left_ms(until_) == 0)                                          \
                fail_msg("%s:%d: not in time: %s", __FILE__, __LINE__, #condition); \
            session_turn();                                                         \
        }                                                                           \
    } while (0)

void session_close(void);

/* Closes what is open, and the loop: nothing may be left, and each command has been answered once, in order.
 */
void session_end(void);

#endif
