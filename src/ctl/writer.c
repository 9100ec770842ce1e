/* Writing batches of channels; see writer.h. */
#include "ctl/writer.h"

#include "ctl/lines.h"

#include <assert.h>
#include <stdlib.h>

/* --- Batches --- */

/* A test of loads with few channels has smaller batches. */
#ifndef BATCH_CHANNELS_MAX
enum { BATCH_CHANNELS_MAX = 100 };
#endif
enum { BATCH_BYTES_MAX = 2 * LINE_BYTES_MAX }; /* the card of any line is shorter than it */

/* A channel and its data in Redis. */
struct entry {
    struct card card;       /* its texts are in batch.texts */
    struct buf former_link; /* the link in Redis, if the card gets another one or none; may be empty */
    bool listed;            /* is in the index already, with this score */
    double score;
    bool card_changed; /* differs from what Redis holds, or has a TTL there */
    bool link_changed; /* its link key differs or has a TTL */
    bool has_ttl;      /* card or link key have a TTL */
    bool moves_link;   /* the link key names another channel */
    bool drops_link;   /* the key of its former link still names it */
};

struct batch {
    size_t count;
    struct entry entry[BATCH_CHANNELS_MAX];
    struct buf texts; /* BATCH_BYTES_MAX bytes are reserved, so that it never moves */
};

static void writer_batch_clear(struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        buf_fini(&b->entry[i].former_link);
    b->count = 0;
    buf_clear(&b->texts);
}

static struct span writer_card_link(const struct entry *e)
{
    return e->card.row.value[CHANNEL_FIELD_link];
}

static struct span writer_id_text(const struct entry *e)
{
    return e->card.row.value[CHANNEL_FIELD_max_channel_id];
}

static bool writer_has_room(const struct batch *b, const struct card *card)
{
    size_t bytes = 0;
    for (size_t f = 0; f < CHANNEL_FIELD_COUNT; f++)
        bytes += card->row.value[f].len;
    return b->count < BATCH_CHANNELS_MAX && BATCH_BYTES_MAX - b->texts.len >= bytes;
}

/* --- What Redis holds --- */

static void writer_send_reads(struct writer *w, const struct entry *e)
{
    struct client *c = w->client;
    client_send_card_read(c, e->card.id);
    CLIENT_SEND(c, SPAN("PTTL"), client_card_key(c, e->card.id));
    if (writer_card_link(e).data != NULL) {
        struct span key = client_link_key(c, writer_card_link(e));
        CLIENT_SEND(c, SPAN("GET"), key);
        CLIENT_SEND(c, SPAN("PTTL"), key);
    }
    CLIENT_SEND(c, SPAN("ZSCORE"), c->index, writer_id_text(e));
}

static bool writer_same_text(struct span a, struct span b)
{
    return a.data == NULL || b.data == NULL ? a.data == b.data : span_equal(a, b);
}

/* Compares the card with the fields that Redis holds. It keeps only a former link, because fields may be
 * large. A key of another type may belong to another program: it is not overwritten, and the load fails. */
static void writer_receive_card(struct writer *w, struct entry *e)
{
    struct channel_row stored;
    if (!client_receive_card(w->client, &stored))
        (void)client_fail_type(w->client, client_card_key(w->client, e->card.id), "hash");
    for (size_t f = 0; f < CHANNEL_FIELD_COUNT && !e->card_changed; f++)
        e->card_changed = !writer_same_text(e->card.row.value[f], stored.value[f]);
    struct span link = stored.value[CHANNEL_FIELD_link];
    if (!writer_same_text(link, writer_card_link(e)))
        buf_append_span(&e->former_link, link);
    if (buf_error(&e->former_link) != 0)
        (void)client_fail_memory(w->client);
}

/* A key with a TTL is written again, which removes the TTL. */
static void writer_receive_ttl(struct writer *w, struct entry *e, bool *changed)
{
    bool expires = reply_has_ttl(client_receive(w->client));
    e->has_ttl = e->has_ttl || expires;
    *changed = *changed || expires;
}

static void writer_receive_link_owner(struct writer *w, struct entry *e)
{
    struct span key = client_link_key(w->client, writer_card_link(e));
    const struct redis_reply *owner = client_receive_of(w->client, key, "string");
    e->link_changed = !reply_is_id(owner, e->card.id);
    e->moves_link = e->link_changed && owner->type == REPLY_STRING;
}

static void writer_receive_reads(struct writer *w, struct entry *e)
{
    writer_receive_card(w, e);
    writer_receive_ttl(w, e, &e->card_changed);
    if (writer_card_link(e).data != NULL) {
        writer_receive_link_owner(w, e);
        writer_receive_ttl(w, e, &e->link_changed);
    }
    /* A replacing load replaces an index of another type, too. */
    const struct redis_reply *score = client_receive_or_wrongtype(w->client);
    e->listed = score->type == REPLY_DOUBLE;
    e->score = score->number;
}

static void writer_find_former_links(struct writer *w, struct batch *b)
{
    struct client *c = w->client;
    struct entry *e = b->entry;
    CLIENT_PIPELINE(i, b->count, e[i].former_link.len > 0,
                    CLIENT_SEND(c, SPAN("GET"), client_link_key(c, buf_span(&e[i].former_link))),
                    e[i].drops_link = reply_is_id(client_receive_or_wrongtype(c), e[i].card.id));
}

/* --- The index --- */

/* The highest score to which a load adds channels: what it adds stays below INDEX_SCORE_LIMIT. */
#define LAST_SCORE_MAX (INDEX_SCORE_LIMIT / 2)

/* The lowest score that puts a channel after all others of the index. */
static int64_t writer_read_next_score(struct client *c)
{
    CLIENT_SEND(c, SPAN("ZREVRANGE"), c->index, SPAN("0"), SPAN("0"), SPAN("WITHSCORES"));
    const struct redis_reply *reply = client_receive_of(c, c->index, "sorted set");
    /* In RESP3 an array of [member, score] pairs, here of one or none. */
    bool has_pair = reply_next(reply) == reply + 4 && reply[3].type == REPLY_DOUBLE;
    double last = has_pair ? reply[3].number : reply->elements == 0 ? -1 : INDEX_SCORE_LIMIT;
    if (last >= -INDEX_SCORE_LIMIT && last <= LAST_SCORE_MAX)
        return (int64_t)last + 1;
    return client_fail(
        c, "the highest score of the index is above 2^52 or below -2^53, nothing can be added after it: "
           "load with --replace");
}

/* --- Writing --- */

static void writer_send_card(struct client *c, const struct entry *e)
{
    struct span key = client_card_key(c, e->card.id);
    struct span words[2 + 2 * CHANNEL_FIELD_COUNT] = {SPAN("HSET"), key};
    size_t count = 2;
    for (int f = 0; f < CHANNEL_FIELD_COUNT; f++) {
        if (e->card.row.value[f].data == NULL)
            continue;
        words[count++] = channel_field_name((enum channel_field)f);
        words[count++] = e->card.row.value[f];
    }
    CLIENT_SEND(c, SPAN("DEL"), key);
    client_send(c, count, words);
}

/* The index comes last: a reader that finds a channel there finds its card. */
static void writer_send_changes(struct writer *w, const struct entry *e)
{
    struct client *c = w->client;
    if (e->card_changed)
        writer_send_card(c, e);
    if (e->link_changed)
        CLIENT_SEND(c, SPAN("SET"), client_link_key(c, writer_card_link(e)), writer_id_text(e));
    w->index_differs = w->index_differs || !e->listed || e->score != (double)w->next_score;
    if (w->replace || !e->listed) {
        CLIENT_SEND(c, SPAN("ZADD"), w->replace ? c->index_next : c->index, SPAN("NX"), DIGITS(w->next_score),
                    writer_id_text(e));
        w->next_score++;
    }
}

/* A former link goes before the others are written, as another channel of the batch may get it. */
static void writer_send_batch(struct writer *w, struct batch *b)
{
    lock_begin(w->lock);
    for (size_t i = 0; i < b->count; i++)
        if (b->entry[i].drops_link)
            CLIENT_SEND(w->client, SPAN("DEL"),
                        client_link_key(w->client, buf_span(&b->entry[i].former_link)));
    for (size_t i = 0; i < b->count; i++)
        writer_send_changes(w, &b->entry[i]);
    lock_commit(w->lock);
}

static void writer_count_batch(struct writer *w, const struct batch *b)
{
    struct writer_counts *n = &w->sent;
    for (const struct entry *e = b->entry; e < b->entry + b->count; e++) {
        bool changed = e->card_changed || e->link_changed || (!w->replace && !e->listed);
        *(changed ? &n->written : &n->unchanged) += 1;
        n->links_moved += e->moves_link;
        n->ttls_removed += e->has_ttl;
    }
}

void writer_confirm(struct writer *w)
{
    bool is_confirmed = !w->lock->committed || lock_receive(w->lock, 0) != NULL;
    if (is_confirmed && client_status(w->client) == 0)
        w->counts = w->sent;
}

/*
 * The reads for a batch are sent after the transaction of the previous batch. So they see its writes, and one
 * round trip is enough for both.
 */
static void writer_flush(struct writer *w)
{
    struct batch *b = w->batch;
    lock_send_watch(w->lock);
    for (size_t i = 0; i < b->count; i++)
        writer_send_reads(w, &b->entry[i]);
    writer_confirm(w);
    lock_receive_watch(w->lock);
    for (size_t i = 0; i < b->count; i++)
        writer_receive_reads(w, &b->entry[i]);
    writer_find_former_links(w, b);
    if (client_status(w->client) == 0) {
        writer_send_batch(w, b);
        writer_count_batch(w, b);
    }
    writer_batch_clear(b);
    if (client_status(w->client) == 0)
        redis_client_flush(w->client->redis);
}

void writer_add(struct writer *w, const struct card *card)
{
    struct batch *b = w->batch;
    if (!writer_has_room(b, card))
        writer_flush(w);
    assert(writer_has_room(b, card));
    struct entry *e = &b->entry[b->count++];
    *e = (struct entry){.card = *card};
    for (size_t f = 0; f < CHANNEL_FIELD_COUNT; f++) {
        if (card->row.value[f].data != NULL)
            e->card.row.value[f].data = b->texts.data + b->texts.len;
        buf_append_span(&b->texts, card->row.value[f]);
    }
    if (lock_is_due(w->lock))
        writer_flush(w);
}

/* --- The mark of samples --- */

/* In a transaction that leaves channels in the catalogue that are no samples: they need not be all of it. */
static void writer_send_unmark(struct writer *w)
{
    if (w->samples == 0)
        CLIENT_SEND(w->client, SPAN("DEL"), w->client->samples);
}

static void writer_mark_samples(struct writer *w)
{
    lock_watch(w->lock);
    lock_begin(w->lock);
    CLIENT_SEND(w->client, SPAN("SET"), w->client->samples, DIGITS(w->samples));
    (void)lock_execute(w->lock);
}

/* --- Replacing the index --- */

/*
 * An index that is equal stays, since caches drop all pages when it is replaced. The former index is
 * unlinked: Redis frees it in the background, while RENAME would block until it is freed, however large it
 * is. The next index is watched and counted, so that an incomplete one of another loader never becomes the
 * index.
 */
static void writer_index_swap(struct writer *w)
{
    struct client *c = w->client;
    lock_send_watch(w->lock);
    CLIENT_SEND(c, SPAN("WATCH"), c->index_next);
    CLIENT_SEND(c, SPAN("ZCARD"), c->index_next);
    CLIENT_SEND(c, SPAN("ZCARD"), c->index);
    lock_receive_watch(w->lock);
    (void)client_receive(c);
    if (client_receive_integer(c) != writer_accepted(&w->counts))
        (void)client_fail(c, "another load has changed the next index");
    bool has_others = client_receive_or_wrongtype(c)->integer != writer_accepted(&w->counts);
    bool equal = !w->index_differs && !has_others;
    lock_begin(w->lock);
    CLIENT_SEND(c, SPAN("UNLINK"), equal ? c->index_next : c->index);
    if (!equal)
        CLIENT_SEND(c, SPAN("RENAME"), c->index_next, c->index);
    writer_send_unmark(w);
    w->counts.replaced = lock_execute(w->lock) == 0;
}

/* --- Removing what the index lacks --- */

/* Takes cards of channels that are in the index out of the batch. */
static void writer_keep_cards(struct client *c, struct client_scan *s)
{
    CLIENT_PIPELINE(i, s->count, true,
                    CLIENT_SEND(c, SPAN("ZSCORE"), c->index,
                                keyspace_rest(c->keys, reply_text(&s->names[i]), KEYSPACE_CARD)),
                    s->names[i].type = client_receive(c)->type == REPLY_NIL ? REPLY_STRING : REPLY_NIL);
}

/* Takes links that the card of their channel has out of the batch. */
static void writer_keep_links(struct client *c, struct client_scan *s)
{
    struct link_owner *owner = client_find_owners(c, s->names, s->count);
    for (size_t i = 0; i < s->count && owner != NULL; i++)
        if (owner[i].agrees)
            s->names[i].type = REPLY_NIL;
    free(owner);
}

/*
 * Returns how many keys were removed. Keys of other types are left: they may belong to another program. The
 * lock is watched since before the keys are looked at.
 */
static int64_t writer_sweep(struct writer *w, enum client_scanned what)
{
    struct client *c = w->client;
    struct client_scan s = {.what = what};
    int64_t removed = 0;
    while (client_scan_next(c, &s)) {
        int64_t found = 0;
        lock_watch(w->lock);
        (what == SCAN_CARD_HASHES ? writer_keep_cards : writer_keep_links)(c, &s);
        lock_begin(w->lock);
        for (size_t i = 0; i < s.count; i++)
            if (s.names[i].type != REPLY_NIL) {
                CLIENT_SEND(c, SPAN("UNLINK"), reply_text(&s.names[i]));
                found++;
            }
        removed += lock_execute(w->lock) == 0 ? found : 0;
    }
    return removed;
}

/* Cards are removed first: until its key is removed, a link without a card is not found. */
static void writer_replace(struct writer *w)
{
    writer_index_swap(w);
    if (!w->counts.replaced)
        return;
    w->counts.cards_removed = writer_sweep(w, SCAN_CARD_HASHES);
    (void)writer_sweep(w, SCAN_LINK_STRINGS);
}

/* --- Beginning and end --- */

/* Adding members to the index would keep its TTL; a load that was killed may have left a next index. */
static void writer_prepare_indexes(struct writer *w)
{
    struct client *c = w->client;
    lock_watch(w->lock);
    lock_begin(w->lock);
    CLIENT_SEND(c, SPAN("PERSIST"), c->index);
    CLIENT_SEND(c, SPAN("UNLINK"), c->index_next);
    if (!w->replace)
        writer_send_unmark(w);
    lock_commit(w->lock);
    const struct redis_reply *replies = lock_receive(w->lock, 1);
    w->sent.index_ttl_removed = replies != NULL && reply_first(replies)->integer > 0;
}

void writer_begin(struct writer *w)
{
    w->batch = calloc(1, sizeof *w->batch);
    if (w->batch == NULL || buf_reserve(&w->batch->texts, BATCH_BYTES_MAX) != 0)
        (void)client_fail_memory(w->client);
    writer_prepare_indexes(w);
    if (!w->replace)
        w->next_score = writer_read_next_score(w->client);
}

void writer_finish(struct writer *w)
{
    writer_flush(w);
    writer_confirm(w);
    if (w->replace && client_status(w->client) == 0)
        writer_replace(w);
    if (w->samples > 0)
        writer_mark_samples(w);
}

void writer_fini(struct writer *w)
{
    if (w->batch == NULL)
        return;
    writer_batch_clear(w->batch);
    buf_fini(&w->batch->texts);
    free(w->batch);
}
