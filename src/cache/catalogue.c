/*
 * Whether Redis holds a catalogue at all. See cache_internal.h and docs/architecture.md.
 *
 * A Redis with neither an index nor a set of keys was emptied, or started without its data: it knows nothing
 * of any channel or key, and "there is none" is no answer. It is as good as one that is still loading: the
 * connection is not taken into use, or no longer, and memory goes on for the stale limits.
 *
 * The check is SCARD of the keys, and ZCARD of the index where that is 0. It is made in the handshake, with
 * each heartbeat, before a change of everything, of the index or of the keys is believed, and before an
 * answer leaves that lacks something. Replies come in the order of the commands, so a check whose reply is
 * still to come was sent behind whatever has been answered so far: one check serves all who need one
 * meanwhile.
 *
 * Between a reply that lacks something and the check all of it may have come back. So where a change of the
 * keys was told meanwhile, or changes are not told at all, what lacks something is read once more behind a
 * check, and another check follows (fetch_confirmed).
 */
#include "cache/fetch.h"

#include "base/clock.h"
#include "base/log.h"
#include "redis/resp.h"

/* What changes all the time is not doubted all the time: checks would cost Redis more than the changes do. */
enum { DOUBT_INTERVAL_MS = 100 };

static const char MISSING[] = "no catalogue: neither the index nor the set of API keys exists";

static bool is_error(const redisReply *reply, const char *code)
{
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, code, strlen(code)) == 0;
}

static enum catalogue_key state_of(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_INTEGER)
        return reply->integer == 0 ? CATALOGUE_KEY_ABSENT : CATALOGUE_KEY_PRESENT;
    if (is_error(reply, "WRONGTYPE "))
        return CATALOGUE_KEY_PRESENT;
    return is_error(reply, "NOPERM ") ? CATALOGUE_KEY_FORBIDDEN : CATALOGUE_KEY_UNKNOWN;
}

/* --- who waits for the check --- */

enum outcome { FOUND, FAILED, LOST };

static void release_fetches(struct cache *s, enum outcome outcome)
{
    struct list waiting;
    list_init(&waiting);
    list_splice(&waiting, &s->catalogue.waiting);
    while (!list_empty(&waiting)) {
        struct fetch *f = LIST_ENTRY(waiting.next, struct fetch, link);
        list_remove(&f->link);
        f->lost = outcome == LOST;
        f->failed = outcome == FAILED;
        if (outcome == FOUND)
            fetch_confirmed(f);
        else
            fetch_conclude(f);
    }
}

/* What was told is applied before anybody is answered: an answer may bring the next question. */
static void on_present(struct cache *s)
{
    struct catalogue *c = &s->catalogue;
    c->passed = c->begun;
    if (!redis_connection_is_ready(s->redis_connection)) {
        redis_connection_accept(s->redis_connection);
        return;
    }
    invalidation_apply(s);
    api_keys_fetch_commit(s);
    release_fetches(s, FOUND);
}

/* Those who wait are told that the connection is lost, by which they ask memory. */
static void on_missing(struct cache *s)
{
    s->catalogue.missing = true;
    metric_set(&s->options.metrics->catalogue_missing, 1);
    redis_connection_fail(s->redis_connection, MISSING);
    release_fetches(s, LOST);
}

/* Where it cannot be seen, what Redis says of single keys is believed. */
static void on_forbidden(struct cache *s)
{
    if (!s->catalogue.forbidden)
        log_text(LOG_WARN, "redis does not permit SCARD or ZCARD: a missing catalogue cannot be noticed",
                 NULL, NULL);
    s->catalogue.forbidden = true;
    on_present(s);
}

/* Neither there nor not there. A new connection is taken into use: what it is asked will fail or not. */
static void on_unknown(struct cache *s)
{
    if (!redis_connection_is_ready(s->redis_connection))
        redis_connection_accept(s->redis_connection);
    else
        release_fetches(s, FAILED);
}

/* --- the check --- */

static void on_index(void *arg, const redisReply *reply);

static int ask(struct cache *s, struct span name, void (*append)(const struct keyspace *k, struct buf *out),
               redis_connection_reply_fn fn)
{
    buf_clear(&s->key);
    append(s->options.keyspace, &s->key);
    buf_clear(&s->command);
    command_begin(&s->command, 2);
    command_add(&s->command, name);
    command_add_buf(&s->command, &s->key);
    int err = buf_error(&s->command);
    if (err == 0)
        err = redis_connection_send_command(s->redis_connection, buf_span(&s->command), fn, s);
    s->catalogue.checking = err == 0;
    return err;
}

static void conclude(struct cache *s, enum catalogue_key keys, enum catalogue_key index)
{
    if (keys == CATALOGUE_KEY_PRESENT || index == CATALOGUE_KEY_PRESENT)
        on_present(s);
    else if (keys == CATALOGUE_KEY_ABSENT && index == CATALOGUE_KEY_ABSENT)
        on_missing(s);
    else if (keys == CATALOGUE_KEY_FORBIDDEN || index == CATALOGUE_KEY_FORBIDDEN)
        on_forbidden(s);
    else
        on_unknown(s);
}

/* True when there is a reply; otherwise the connection is lost. */
static bool receive(struct cache *s, const redisReply *reply)
{
    s->catalogue.checking = false;
    if (reply == NULL)
        release_fetches(s, LOST);
    return reply != NULL;
}

static void on_keys(void *arg, const redisReply *reply)
{
    struct cache *s = arg;
    if (!receive(s, reply))
        return;
    s->catalogue.keys = state_of(reply);
    if (reply->type == REDIS_REPLY_INTEGER)
        audit_count_keys(s, reply->integer);
    if (s->catalogue.keys == CATALOGUE_KEY_PRESENT)
        conclude(s, CATALOGUE_KEY_PRESENT, CATALOGUE_KEY_UNKNOWN);
    else if (ask(s, SPAN("ZCARD"), keyspace_index, on_index) != 0)
        on_unknown(s);
}

static void on_index(void *arg, const redisReply *reply)
{
    struct cache *s = arg;
    if (receive(s, reply))
        conclude(s, s->catalogue.keys, state_of(reply));
}

void catalogue_check(struct cache *s)
{
    struct catalogue *c = &s->catalogue;
    if (c->checking)
        return;
    c->begun++;
    if (ask(s, SPAN("SCARD"), keyspace_api_keys, on_keys) != 0)
        on_unknown(s);
}

uint64_t catalogue_next_check(const struct cache *s)
{
    return s->catalogue.checking ? s->catalogue.begun : s->catalogue.begun + 1;
}

void catalogue_await(struct fetch *f)
{
    struct cache *s = f->cache;
    list_append(&s->catalogue.waiting, &f->link);
    catalogue_check(s);
}

bool catalogue_defer(struct cache *s, enum catalogue_change change)
{
    struct catalogue *c = &s->catalogue;
    uint64_t now = clock_boot_ms();
    uint64_t *last_ms = change == CHANGE_INDEX ? &c->index_doubted_ms : &c->keys_doubted_ms;
    c->doubts += change != CHANGE_INDEX;
    if (change != CHANGE_ALL && !c->checking && now - *last_ms < DOUBT_INTERVAL_MS)
        return false;
    *last_ms = now;
    if (c->changes == 0)
        c->doubted_ms = now;
    c->changes |= change;
    catalogue_check(s);
    return true;
}
