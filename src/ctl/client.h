/*
 * The connection to Redis: blocking, pipelined, with a time limit on everything.
 *
 * Commands are queued with client_send() and go out together when the next reply is asked for; replies come
 * in the order of the commands. The first failure (a lost connection, silence, an error reply, no memory)
 * leaves its reason in client_error(), and then the connection is of no more use.
 */
#ifndef CTL_CLIENT_H
#define CTL_CLIENT_H

#include "ctl/options.h"

#include <hiredis/hiredis.h>
#include <sys/time.h>

struct client {
    redisContext *redis;
    struct ssl_ctx_st *tls;
    struct redis_endpoint target;
    const struct keyspace *keys;
    struct buf index, index_next, api_keys, loader; /* names of keys */
    struct buf key;                                 /* the card or link key of the command being made */
    struct buf out;                                 /* commands that hiredis has not got yet */
    struct buf error;
};

/*
 * Connects, authenticates and selects the database. Returns EXIT_FINE or, after saying on stderr what is
 * wrong, EXIT_USAGE or EXIT_FAILED. `o` must outlive the client; client_close is due in every case.
 */
int client_open(struct client *c, const struct options *o) __attribute__((warn_unused_result));

void client_close(struct client *c);

/* Connects anew after a failure, within a few seconds. Returns 0 or -EIO. */
int client_reopen(struct client *c) __attribute__((warn_unused_result));

/* Borrowed until the next of the two. */
struct span client_card_key(struct client *c, int64_t id);
struct span client_link_key(struct client *c, struct span link);

/* Queues a command. When memory is short, the next reply fails. */
void client_send(struct client *c, size_t count, const struct span *words);
#define CLIENT_SEND(c, ...) \
    client_send((c), sizeof((struct span[]){__VA_ARGS__}) / sizeof(struct span), (struct span[]){__VA_ARGS__})

/* Puts the queued commands on their way, so that Redis works on them meanwhile. Returns 0 or -EIO. */
int client_push(struct client *c) __attribute__((warn_unused_result));

/* How long a connection, and then each reply, may take. */
struct client_limits {
    struct timeval connect, command;
};

/* Connects to `t`, greets and selects the database; what was connected before is left. Returns 0 or -EIO. */
int client_dial(struct client *c, const struct redis_endpoint *t, const struct client_limits *limits)
    __attribute__((warn_unused_result));

/* The same with whom the target's Sentinels call the master (sentinel.c). */
int client_dial_master(struct client *c, const struct client_limits *limits)
    __attribute__((warn_unused_result));

void client_hang_up(struct client *c);

/*
 * The next reply, owned (freeReplyObject). NULL after a failure; an error reply, or one inside the reply of
 * EXEC, is a failure too.
 */
redisReply *client_receive(struct client *c) __attribute__((warn_unused_result));

/* The same, but the error reply that the key holds another kind of value is handed out. */
redisReply *client_receive_or_wrongtype(struct client *c) __attribute__((warn_unused_result));

/* The same, but any error reply is handed out. */
redisReply *client_receive_any(struct client *c) __attribute__((warn_unused_result));

/* Receives a reply of which only the success matters. Returns 0 or -EIO. */
int client_receive_done(struct client *c) __attribute__((warn_unused_result));

/* Receives an integer. Returns 0 or -EIO. */
int client_receive_integer(struct client *c, int64_t *out) __attribute__((warn_unused_result));

/* The integer of a reply that was received already: frees the reply; NULL, which has been told of, is -EIO.
 */
int client_take_integer(struct client *c, redisReply *reply, int64_t *out)
    __attribute__((warn_unused_result));

/*
 * Whether hash fields can have a TTL of their own: not before Redis 7.4 and Valkey 9; or the user may not
 * ask.
 */
enum field_ttls { FIELD_TTLS_NONE, FIELD_TTLS_KNOWN, FIELD_TTLS_DENIED };

/* Returns 0 or -EIO. */
int client_probe_field_ttls(struct client *c, enum field_ttls *out) __attribute__((warn_unused_result));

/* Queues the question for the TTLs of the fields of a card: for reply_has_ttl(), or an error of WRONGTYPE. */
void client_send_field_ttls(struct client *c, int64_t id);

/* True when the connection itself failed: what was sent last may have been done or not. */
bool client_is_lost(const struct client *c);

/* Makes `format` the reason of a failure. Returns -EIO. */
int client_fail(struct client *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Why the last call failed, in words. */
const char *client_error(struct client *c);

/* Says client_error() on stderr. Returns EXIT_FAILED. */
int client_complain(struct client *c);

/* The text of a string reply, borrowed; absent when it is nil or something else. */
struct span reply_text(const redisReply *reply);

/* True when PTTL, or HPEXPIRETIME for one of its fields, replied that there is a TTL. */
bool reply_has_ttl(const redisReply *reply);

/* True for the error reply that the key holds another kind of value. */
bool reply_is_wrongtype(const redisReply *reply);

/* True when the reply is the text of that number. */
bool reply_is_id(const redisReply *reply, int64_t id);

#endif
