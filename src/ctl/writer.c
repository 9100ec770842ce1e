/* Writing batches of channels; see writer.h. */
#include "ctl/writer.h"

#include <stdlib.h>

enum { BATCH_BYTES_MAX = 1024 * 1024 };

static struct span writer_card_link(const struct entry *e)
{
    return e->card.row.value[CHANNEL_FIELD_link];
}

static struct span writer_id_text(const struct entry *e)
{
    return e->card.row.value[CHANNEL_FIELD_max_channel_id];
}

/* --- What Redis holds --- */

static void writer_send_reads(struct client *c, const struct entry *e)
{
    client_send_card_read(c, e->card.id);
    CLIENT_SEND(c, SPAN("PTTL"), client_card_key(c, e->card.id));
    if (writer_card_link(e).data != NULL) {
        struct span key = client_link_key(c, writer_card_link(e));
        CLIENT_SEND(c, SPAN("GET"), key);
        CLIENT_SEND(c, SPAN("PTTL"), key);
    }
    CLIENT_SEND(c, SPAN("ZSCORE"), c->index, writer_id_text(e));
}

/* Compares the card with the fields that Redis holds. It keeps only a former link, because fields may be
 * large. A key of another type may belong to another program: it is not overwritten, and the load fails. */
static void writer_receive_card(struct client *c, struct entry *e)
{
    struct channel_row stored;
    if (!client_receive_card(c, &stored))
        (void)client_fail_type(c, client_card_key(c, e->card.id), "hash");
    for (size_t f = 0; f < CHANNEL_FIELD_COUNT; f++) {
        struct span now = e->card.row.value[f];
        struct span before = stored.value[f];
        if (span_equal(now, before) && (now.data == NULL) == (before.data == NULL))
            continue;
        e->card_changed = true;
        if (f == CHANNEL_FIELD_link)
            buf_append_span(&e->former_link, before);
    }
    if (buf_error(&e->former_link) != 0)
        (void)client_fail_memory(c);
}

/* A key with a TTL is written again, which removes the TTL. */
static void writer_receive_ttl(struct client *c, struct entry *e, bool *changed)
{
    if (!reply_has_ttl(client_receive(c)))
        return;
    e->has_ttl = *changed = true;
}

static void writer_receive_reads(struct client *c, struct entry *e)
{
    writer_receive_card(c, e);
    writer_receive_ttl(c, e, &e->card_changed);
    if (writer_card_link(e).data != NULL) {
        const struct redis_reply *owner =
            client_receive_of(c, client_link_key(c, writer_card_link(e)), "string");
        e->link_changed = !reply_is_id(owner, e->card.id);
        e->moves_link = e->link_changed && owner->type == REPLY_STRING;
        writer_receive_ttl(c, e, &e->link_changed);
    }
    /* A replacing load replaces an index of another type, too. */
    const struct redis_reply *score = client_receive_or_wrongtype(c);
    e->listed = score->type == REPLY_DOUBLE;
    e->score = score->number;
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
    struct client *c = w->lock->client;
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

static void writer_count(struct writer *w, const struct entry *e)
{
    w->channels++;
    w->written += e->card_changed || e->link_changed || (!w->replace && !e->listed);
    w->links_moved += e->moves_link;
    w->ttls_removed += e->has_ttl;
}

/* A former link goes before the others are written, as another channel of the batch may get it. */
static void writer_execute(struct writer *w)
{
    struct client *c = w->lock->client;
    lock_begin(w->lock);
    for (struct entry *e = w->entry; e < w->entry + w->count; e++)
        if (e->drops_link)
            CLIENT_SEND(c, SPAN("DEL"), client_link_key(c, buf_span(&e->former_link)));
    for (size_t i = 0; i < w->count; i++)
        writer_send_changes(w, &w->entry[i]);
    w->is_sent = true;
    if (lock_commit(w->lock, NULL, 0) == 0)
        for (size_t i = 0; i < w->count; i++)
            writer_count(w, &w->entry[i]);
}

void writer_clear(struct writer *w)
{
    for (size_t i = 0; i < w->count; i++) {
        card_fini(&w->entry[i].card);
        buf_fini(&w->entry[i].former_link);
    }
    w->count = w->bytes = 0;
}

static void writer_flush(struct writer *w)
{
    struct client *c = w->lock->client;
    struct entry *e = w->entry;
    CLIENT_PIPELINE(i, w->count, true, writer_send_reads(c, &e[i]), writer_receive_reads(c, &e[i]));
    CLIENT_PIPELINE(i, w->count, e[i].former_link.len > 0,
                    CLIENT_SEND(c, SPAN("GET"), client_link_key(c, buf_span(&e[i].former_link))),
                    e[i].drops_link = reply_is_id(client_receive_or_wrongtype(c), e[i].card.id));
    if (client_status(c) == 0)
        writer_execute(w);
    writer_clear(w);
}

void writer_add(struct writer *w, const struct card *card, size_t bytes)
{
    w->entry[w->count++] = (struct entry){.card = *card};
    w->bytes += bytes;
    lock_keep(w->lock);
    if (w->count == BATCH_CHANNELS_MAX || w->bytes >= BATCH_BYTES_MAX)
        writer_flush(w);
}

/* --- Replacing the index --- */

/* In a transaction that leaves channels in the catalogue that are no samples: they need not be all of it. */
static void writer_send_unmark(struct writer *w)
{
    if (w->samples == 0)
        CLIENT_SEND(w->lock->client, SPAN("DEL"), w->lock->client->samples);
}

/*
 * An index that is equal stays, since caches drop all pages when it is replaced. The former index is
 * unlinked: Redis frees it in the background, while RENAME would block until it is freed, however large it
 * is. The next index is watched and counted, so that an incomplete one of another loader never becomes the
 * index.
 */
static void writer_swap_indexes(struct writer *w)
{
    struct client *c = w->lock->client;
    CLIENT_SEND(c, SPAN("WATCH"), c->index_next);
    CLIENT_SEND(c, SPAN("ZCARD"), c->index_next);
    CLIENT_SEND(c, SPAN("ZCARD"), c->index);
    (void)client_receive(c);
    if (client_receive_integer(c) != w->channels)
        (void)client_fail(c, "another load has changed the next index");
    bool equal = client_receive_or_wrongtype(c)->integer == w->channels && !w->index_differs;
    lock_begin(w->lock);
    CLIENT_SEND(c, SPAN("UNLINK"), equal ? c->index_next : c->index);
    if (!equal)
        CLIENT_SEND(c, SPAN("RENAME"), c->index_next, c->index);
    writer_send_unmark(w);
    w->replaced = lock_commit(w->lock, NULL, 0) == 0;
}

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

/* Returns how many keys were removed. Keys of other types are left: they may belong to another program. */
static int64_t writer_sweep(struct writer *w, enum client_scanned what)
{
    struct client *c = w->lock->client;
    struct client_scan s = {.what = what};
    int64_t removed = 0;
    while (client_scan_next(c, &s)) {
        int64_t found = 0;
        (what == SCAN_CARD_HASHES ? writer_keep_cards : writer_keep_links)(c, &s);
        lock_begin(w->lock);
        for (size_t i = 0; i < s.count; i++)
            if (s.names[i].type != REPLY_NIL) {
                CLIENT_SEND(c, SPAN("UNLINK"), reply_text(&s.names[i]));
                found++;
            }
        removed += lock_commit(w->lock, NULL, 0) == 0 ? found : 0;
    }
    return removed;
}

/* --- Beginning and end --- */

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

/* Adding members to the index would keep its TTL; a load that was killed may have left a next index. */
void writer_begin(struct writer *w)
{
    struct client *c = w->lock->client;
    int64_t persisted = 0;
    lock_begin(w->lock);
    CLIENT_SEND(c, SPAN("PERSIST"), c->index);
    CLIENT_SEND(c, SPAN("UNLINK"), c->index_next);
    if (!w->replace)
        writer_send_unmark(w);
    (void)lock_commit(w->lock, &persisted, 1);
    w->index_ttl_removed = persisted > 0;
    if (!w->replace)
        w->next_score = writer_read_next_score(c);
}

/* Cards are removed first: until its key is removed, a link without a card is not found. */
void writer_finish(struct writer *w)
{
    struct client *c = w->lock->client;
    writer_flush(w);
    if (w->replace && client_status(c) == 0)
        writer_swap_indexes(w);
    if (w->replaced) {
        w->cards_removed = writer_sweep(w, SCAN_CARD_HASHES);
        (void)writer_sweep(w, SCAN_LINK_STRINGS);
    }
    if (w->samples > 0) {
        lock_begin(w->lock);
        CLIENT_SEND(c, SPAN("SET"), c->samples, DIGITS(w->samples));
        (void)lock_commit(w->lock, NULL, 0);
    }
}
