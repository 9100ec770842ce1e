/*
 * The commands that read the parts of response bodies, the values in their replies, and the texts that are
 * made from them. This module also counts and logs stored values that cannot be served.
 *
 * It does not depend on connections: commands are text, replies are struct redis_reply.
 */
#ifndef CACHE_BODY_H
#define CACHE_BODY_H

#include "base/buf.h"
#include "base/digest.h"
#include "cache/metrics.h"
#include "model/channel.h"
#include "model/keyspace.h"
#include "redis/resp.h"

/* --- commands --- */

/* One command at a time. Embedded; private to body.c. */
struct commands {
    const struct keyspace *keyspace;
    struct buf key; /* scratch */
    struct buf command;
    struct {
        struct buf text; /* the HMGET of a shape without its key */
        size_t head;     /* bytes before the key */
    } hmget[2];
};

/* Returns 0 or -ENOMEM; call commands_fini in both cases. */
int commands_init(struct commands *c, const struct keyspace *keyspace) __attribute__((warn_unused_result));

static inline void commands_fini(struct commands *c)
{
    buf_fini(&c->key);
    buf_fini(&c->command);
    buf_fini(&c->hmget[CHANNEL_CARD].text);
    buf_fini(&c->hmget[CHANNEL_SUMMARY].text);
}

/* The following results are borrowed until the next call; without memory the buffer is in error. */

/* HMGET of all fields of a shape. */
const struct buf *commands_channel(struct commands *c, int64_t id, enum channel_shape shape);

/* ZRANGE of a page and one member more, which shows whether a further page exists. */
const struct buf *commands_page(struct commands *c, int64_t page);

/* GET of the id of a link, in stored shape. */
const struct buf *commands_link(struct commands *c, struct span link);

/* ZCARD of the index. */
const struct buf *commands_index_size(struct commands *c);

/* SCARD of the set of API keys. */
const struct buf *commands_key_count(struct commands *c);

/* Begin HMGET of the infos of `count` API keys, and SMISMEMBER; commands_add_key completes them. */
const struct buf *commands_begin_infos(struct commands *c, size_t count);
const struct buf *commands_begin_members(struct commands *c, size_t count);
void commands_add_key(struct commands *c, const char digits[DIGEST_HEX_LEN]);

/* SSCAN of the set of keys. */
const struct buf *commands_scan(struct commands *c, const char *cursor, int64_t count);

/* --- channels and links --- */

/* The memory that a buffer for bodies may keep between two bodies. */
enum { BODY_TEXT_KEPT = 256 * 1024 };

/* VALUE_INVALID: the reply has another type than the command's. */
enum value_state { VALUE_INVALID, VALUE_ABSENT, VALUE_PRESENT };

/* Parses the HMGET of a shape; *row borrows from the reply. A channel has a field of the summary. */
enum value_state body_parse_row(const struct redis_reply *reply, enum channel_shape shape,
                                struct channel_row *row);

/* Parses the GET of a link. A value that is not an id counts as absent, and *malformed is set. */
enum value_state body_parse_link(const struct redis_reply *reply, int64_t *id, bool *malformed);

/* Replaces `text` with a card's body or a summary. Returns the fields that did not parse (channel_write). */
unsigned body_write(struct buf *text, const struct channel_row *row, enum channel_shape shape);

/* --- reports of values that are served as absent --- */

enum { VALUE_REPORTS = 1024 };

enum value_report {
    VALUE_REPORT_NONE,
    VALUE_REPORT_INVALID,
    VALUE_REPORT_LEFT_OUT,
    VALUE_REPORT_OVERSIZE,
    VALUE_REPORT_KEY_INFO
};

/* Embedded, zeros but for `metrics`; private to body.c. */
struct value_reports {
    struct cache_metrics *metrics; /* borrowed */
    /* What was logged last, by the hash of the channel's id or of the key: nothing is logged twice. */
    struct {
        enum value_report kind;
        int64_t id;
    } logged[VALUE_REPORTS];
    char newest_update[DATETIME_LEN]; /* the latest updated_at read from Redis; zeros before the first */
    uint64_t error_logged_ms;         /* when an error reply was last logged */
};

/* Counts an error reply, and logs it if none was logged within a second. */
void value_reports_error(struct value_reports *r, const struct redis_reply *reply);

/* Sets the metric of the newest updated_at that was read, which shows when the loader last wrote. */
void value_reports_note_update(struct value_reports *r, const struct channel_row *row);

/* Counts, and logs, the fields of a channel whose value did not parse, as body_write returns them. */
void value_reports_invalid(struct value_reports *r, int64_t id, unsigned fields);

/* Counts, and logs, an API key whose info is malformed. */
void value_reports_key_info(struct value_reports *r, const struct digest *key);

/* Logs that the reply about a key was too large to be read. */
void value_reports_oversize(struct value_reports *r, struct buf *key);

/* Logs why a channel is left out of its page. */
void value_reports_left_out(struct value_reports *r, int64_t id, const char *reason);

#endif
