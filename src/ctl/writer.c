/* Writing batches of channels; see writer.h. */
#include "ctl/writer.h"

#include "ctl/index.h"

#include <errno.h>

static struct span id_text(const struct batch_entry *e)
{
    return e->card.row.value[CHANNEL_FIELD_max_channel_id];
}

int writer_begin(struct writer *w, struct client *c, bool replace)
{
    *w = (struct writer){.client = c, .replace = replace, .filling = batch_new(), .sent = batch_new()};
    if (w->filling == NULL || w->sent == NULL)
        return client_fail(c, "out of memory");
    return replace ? index_begin_next(c) : index_next_score(c, &w->score);
}

/* --- What Redis holds --- */

static void send_questions(struct writer *w, const struct batch_entry *e)
{
    struct client *c = w->client;
    struct span words[2 + CHANNEL_FIELD_COUNT] = {SPAN("HMGET"), client_card_key(c, e->card.id)};
    for (int f = 0; f < CHANNEL_FIELD_COUNT; f++)
        words[2 + f] = channel_field_name((enum channel_field)f);
    client_send(c, 2 + CHANNEL_FIELD_COUNT, words);
    if (card_link(&e->card).data != NULL)
        CLIENT_SEND(c, SPAN("GET"), client_link_key(c, card_link(&e->card)));
    if (!w->replace)
        CLIENT_SEND(c, SPAN("ZSCORE"), buf_span(&c->index), id_text(e));
}

static bool same_text(struct span a, struct span b)
{
    return (a.data == NULL) == (b.data == NULL) && span_equal(a, b);
}

static bool differs(const struct batch_entry *e)
{
    for (size_t f = 0; f < CHANNEL_FIELD_COUNT; f++)
        if (!same_text(e->card.row.value[f], reply_text(e->stored->element[f])))
            return true;
    return false;
}

static int receive_link_owner(struct writer *w, struct batch_entry *e)
{
    redisReply *owner = client_receive(w->client);
    if (owner == NULL)
        return -EIO;
    bool ours = reply_is_id(owner, e->card.id);
    e->changed = e->changed || !ours;
    if (!ours && owner->type == REDIS_REPLY_STRING)
        w->taken++;
    freeReplyObject(owner);
    return 0;
}

static int receive_listed(struct writer *w, struct batch_entry *e)
{
    redisReply *score = client_receive(w->client);
    if (score == NULL)
        return -EIO;
    e->listed = score->type != REDIS_REPLY_NIL;
    e->changed = e->changed || !e->listed;
    freeReplyObject(score);
    return 0;
}

static int receive_answers(struct writer *w, struct batch_entry *e)
{
    e->stored = client_receive(w->client);
    if (e->stored == NULL)
        return -EIO;
    if (e->stored->elements != CHANNEL_FIELD_COUNT)
        return client_fail(w->client, "Redis answered with something unexpected");
    e->changed = differs(e);
    int err = 0;
    if (card_link(&e->card).data != NULL)
        err = receive_link_owner(w, e);
    if (err == 0 && !w->replace)
        err = receive_listed(w, e);
    return err;
}

/* --- Links that a channel had before --- */

static struct span former_link(const struct batch_entry *e)
{
    struct span link = reply_text(e->stored->element[CHANNEL_FIELD_link]);
    return same_text(link, card_link(&e->card)) ? SPAN_ABSENT : link;
}

/* A former link's key goes if it still names the channel and none of this batch is about to take it. */
static int find_former_links(struct writer *w, struct batch *b)
{
    struct client *c = w->client;
    for (size_t i = 0; i < b->count; i++)
        if (former_link(&b->entry[i]).data != NULL)
            CLIENT_SEND(c, SPAN("GET"), client_link_key(c, former_link(&b->entry[i])));
    for (size_t i = 0; i < b->count; i++) {
        struct batch_entry *e = &b->entry[i];
        if (former_link(e).data == NULL)
            continue;
        redisReply *owner = client_receive(c);
        if (owner == NULL)
            return -EIO;
        e->drop_link = reply_is_id(owner, e->card.id) && !batch_has_link(b, former_link(e));
        freeReplyObject(owner);
    }
    return 0;
}

/* --- Writing --- */

static void send_card(struct client *c, const struct batch_entry *e)
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

/* The index comes last: whoever finds a channel in it finds its card. */
static void send_transaction(struct writer *w, struct batch_entry *e)
{
    struct client *c = w->client;
    CLIENT_SEND(c, SPAN("MULTI"));
    send_card(c, e);
    e->commands = 2;
    if (card_link(&e->card).data != NULL) {
        CLIENT_SEND(c, SPAN("SET"), client_link_key(c, card_link(&e->card)), id_text(e));
        e->commands++;
    }
    if (e->drop_link) {
        CLIENT_SEND(c, SPAN("DEL"), client_link_key(c, former_link(e)));
        e->commands++;
    }
    if (!w->replace && !e->listed) {
        index_send_add(c, false, w->score++, e->card.id);
        e->commands++;
    }
    CLIENT_SEND(c, SPAN("EXEC"));
}

static void send_changes(struct writer *w, struct batch_entry *e)
{
    if (e->changed)
        send_transaction(w, e);
    if (w->replace)
        index_send_add(w->client, true, w->score++, e->card.id);
}

static int receive_changes(struct writer *w, const struct batch_entry *e)
{
    int err = 0;
    int replies = e->changed ? 1 + e->commands + 1 : 0;
    for (int i = 0; i < replies && err == 0; i++)
        err = client_receive_done(w->client);
    int64_t added = 0;
    if (w->replace && err == 0)
        err = client_receive_integer(w->client, &added);
    if (err != 0)
        return err;
    w->members += added;
    *(e->changed ? &w->written : &w->unchanged) += 1;
    return 0;
}

/* Waits for the writes that are on their way. */
static int receive_sent(struct writer *w)
{
    struct batch *b = w->sent;
    int err = 0;
    for (size_t i = 0; i < b->count && err == 0; i++)
        err = receive_changes(w, &b->entry[i]);
    if (err == 0 && b->count > 0)
        w->last_line = b->last_line;
    batch_clear(b);
    return err;
}

/*
 * The questions about a batch stand behind the writes of the one before, so that their answers know of these,
 * and one wait is enough for both.
 */
int writer_flush(struct writer *w)
{
    struct batch *b = w->filling;
    for (size_t i = 0; i < b->count; i++)
        send_questions(w, &b->entry[i]);
    int err = receive_sent(w);
    for (size_t i = 0; i < b->count && err == 0; i++)
        err = receive_answers(w, &b->entry[i]);
    if (err == 0)
        err = find_former_links(w, b);
    for (size_t i = 0; i < b->count && err == 0; i++)
        send_changes(w, &b->entry[i]);
    w->filling = w->sent;
    w->sent = b;
    return err == 0 ? client_push(w->client) : err;
}

int writer_finish(struct writer *w)
{
    int err = writer_flush(w);
    return err == 0 ? receive_sent(w) : err;
}

void writer_fini(struct writer *w)
{
    batch_free(w->filling);
    batch_free(w->sent);
}
