/*
 * The connection to Redis of a command: blocking, pipelined, with a time limit on every wait. It is that of
 * redis/connection.h, on a loop that runs while a call waits. Also the reads of the catalogue that several
 * commands share.
 *
 * client_send() queues a command; the queue is sent when the next reply is received. Replies come in the
 * order of the commands. The first failure (a lost connection, a timeout, an error reply, no memory) is
 * sticky, as a buffer's is: it leaves its reason in client_error(), the connection cannot be used any more,
 * and nil stands for every reply from then on. So several replies can be received in a row, and
 * client_status() is called once, before anything that depends on them.
 */
#ifndef CTL_CLIENT_H
#define CTL_CLIENT_H

#include "base/text.h"
#include "ctl/command.h"
#include "model/channel.h"
#include "redis/connection.h"
#include "redis/endpoint.h"
#include "redis/reply.h"

#include <errno.h>
#include <uv.h>

struct client {
    const struct options *options; /* read-only, as all up to `full` */
    const struct keyspace *keys;
    struct span index, index_next, api_keys, api_key_info, loader, samples; /* names of keys */
    bool failed;
    bool rejected; /* it cannot connect, for a reason that does not pass, such as a wrong password, a
                      certificate that one side rejects, or a server of another kind */
    bool full;     /* it has refused a command because it has no memory left. Even then it executes commands
                      that only remove something, but not in a transaction */

    /* Private from here on. */
    struct buf error;
    char names[6 * (KEYSPACE_PREFIX_MAX + 16)]; /* the texts of the spans above */
    struct buf key;  /* the card or link key of the command that is being composed */
    struct buf text; /* scratch: that command */

    struct redis_config *config; /* one reference; NULL: none yet */
    uv_loop_t *loop;             /* NULL: none */
    uv_timer_t alarm;            /* wakes the loop when the time for a reply has passed */
    uint64_t reply_ms;           /* the time limit of each reply */
    struct redis_shared shared;
    struct wait_group open;              /* connections */
    struct redis_connection *connection; /* NULL: not connected, or lost */
    struct redis_endpoint server;        /* of the connection; borrows the settings or `master` */
    struct redis_address master;         /* the last one that was named */
    bool is_locator;                     /* the server is queried for the master */
    bool ready;                          /* the connection can be used, or has named the master */
    struct buf replies;                  /* copies that are owned and were not received yet, oldest first */
    struct redis_reply *reply;           /* owned: the last one that was received */
};

/* The data that a command uses, and may read. */
enum client_subject { CLIENT_CATALOGUE, CLIENT_API_KEYS };

/*
 * Connects, authenticates and selects the database; with --wait it tries again until Redis executes commands,
 * or fails for a reason that does not pass. If Redis must be discovered, the servers that know it are queried
 * in turn until one leads to a master: the role in the URL does not apply, since commands write. `o`
 * must outlive the client. Call client_close in every case.
 */
int client_open(struct client *c, const struct options *o, enum client_subject subject)
    __attribute__((warn_unused_result));

void client_close(struct client *c);

/* Opens a client, does `work`, and closes it. EXIT_OK: nothing failed, and all of the output was written. */
int client_run(const struct options *o, enum client_subject subject,
               void (*work)(struct client *c, void *arg), void *arg) __attribute__((warn_unused_result));

/* Connects again after a failure, within a few seconds, with the current content of the files of the
 * settings. Returns 0 or -EIO. */
int client_reopen(struct client *c) __attribute__((warn_unused_result));

/* --- Commands --- */

/* The key of a card or link, borrowed until the next call of either. */
struct span client_card_key(struct client *c, int64_t id);
struct span client_link_key(struct client *c, struct span link);

/* Queues a command. When memory runs out, the next reply fails. */
void client_send(struct client *c, size_t count, const struct span *words);
#define CLIENT_SEND(c, ...) \
    client_send((c), sizeof((struct span[]){__VA_ARGS__}) / sizeof(struct span), (struct span[]){__VA_ARGS__})

/* The text of a number, in `out`, or until the end of the block. */
#define DIGITS(number) digits_of((number), (char[INT64_DIGITS_MAX]){""})
static inline struct span digits_of(int64_t number, char out[INT64_DIGITS_MAX])
{
    return (struct span){out, format_int64(number, out)};
}

/* --- Replies --- */

/*
 * One round trip for many items: executes `send` for each i below `count` for which `due` is true, then
 * `receive` for each of the same.
 */
#define CLIENT_PIPELINE(i, count, due, send, receive) \
    do {                                              \
        for (size_t i = 0; (i) < (count); (i)++)      \
            if (due)                                  \
                (send);                               \
        for (size_t i = 0; (i) < (count); (i)++)      \
            if (due)                                  \
                (receive);                            \
    } while (0)

/* 0, or -EIO after a failure. */
static inline int client_status(const struct client *c)
{
    return c->failed ? -EIO : 0;
}

/*
 * The next reply, borrowed until another one is received; nil after a failure. An error reply, or one inside
 * the reply of EXEC, is a failure too.
 */
const struct redis_reply *client_receive(struct client *c);

/* As client_receive, but any error reply is returned. */
const struct redis_reply *client_receive_any(struct client *c);

/* As client_receive, but a WRONGTYPE error reply is returned. */
const struct redis_reply *client_receive_or_wrongtype(struct client *c);

/* As client_receive, for a command on this key. The failure says that its type is not that one. */
const struct redis_reply *client_receive_of(struct client *c, struct span key, const char *type);

/* Receives an integer. Any other reply is a failure; after a failure the result is 0. */
int64_t client_receive_integer(struct client *c);

/* The last reply that was received becomes the caller's (free). NULL after a failure. */
struct redis_reply *client_own_reply(struct client *c) __attribute__((warn_unused_result));

/* True when PTTL replied that there is a TTL: -1 is none, -2 is no key. */
static inline bool reply_has_ttl(const struct redis_reply *reply)
{
    return reply->type == REPLY_INTEGER && reply->integer >= 0;
}

bool reply_is_id(const struct redis_reply *reply, int64_t id);

static inline bool reply_is_text(const struct redis_reply *reply, struct span text)
{
    return reply->type == REPLY_STRING && span_equal(reply_text(reply), text);
}

/* --- Failures --- */

/* True when the connection itself failed: whether the last commands were executed is unknown. */
static inline bool client_is_lost(const struct client *c)
{
    return c->connection == NULL;
}

/* Fails for this reason; after another failure the first one stays. Returns -EIO. */
int client_fail(struct client *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Replaces the reason of a failure; the arguments may contain client_error(). */
void client_explain(struct client *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline int client_fail_memory(struct client *c)
{
    return client_fail(c, "out of memory");
}

static inline int client_fail_unexpected(struct client *c)
{
    return client_fail(c, "unexpected reply from Redis");
}

int client_fail_type(struct client *c, struct span key, const char *type);

static inline const char *client_error(struct client *c)
{
    return buf_message(&c->error);
}

/* --- The catalogue --- */

/* Scores of the index are doubles: from this number on, and below its negative, not every integer has a
 * distinct value. */
#define INDEX_SCORE_LIMIT 9007199254740992.0

/* Reads a card: *out borrows the values until another reply is received. False, and an empty row, if the key
 * has another type, and after a failure. */
void client_send_card_read(struct client *c, int64_t id);
bool client_receive_card(struct client *c, struct channel_row *out);

/* A scan of one key, or of all card or link keys, while others may write. What exists during the whole scan
 * is in a batch at least once. Zeroed, but for the first members. */
struct client_scan {
    struct span command, key;  /* SSCAN, HSCAN or ZSCAN, and of what */
    struct span kind, type;    /* without a key: KEYSPACE_CARD or KEYSPACE_LINK; absent: of any type */
    struct redis_reply *reply; /* owned */

    /* The batch, which may be changed: names of keys, members of the set, or pairs of a member of the index
     * and its score, or of a field and its value. */
    struct redis_reply *names;
    size_t count;
};

/* Reads the next batch; no reply may be pending. False, with all freed, at the end and after a failure, so
 * call it until then. */
bool client_scan_next(struct client *c, struct client_scan *s);

/* The channel that a link key leads to. */
struct link_owner {
    struct span link; /* borrowed from the name of the key */
    bool found;       /* the key holds an id */
    int64_t id;
    bool agrees; /* the card of that channel has this link */
};

/* Looks up the owners of these link keys, which the owned array (free) borrows. NULL when memory runs out,
 * which is a failure. */
struct link_owner *client_find_owners(struct client *c, const struct redis_reply *keys, size_t count)
    __attribute__((warn_unused_result));

#endif
