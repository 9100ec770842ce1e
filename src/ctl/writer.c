/* Writing batches of channels; see writer.h. */
#include "ctl/writer.h"

#include "base/parse.h"
#include "ctl/index.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

static struct span id_text(const struct batch_entry *e)
{
    return e->card.row.value[CHANNEL_FIELD_max_channel_id];
}

/* The index in use keeps its TTL when members are added: it goes first. */
static int persist_index(struct writer *w)
{
    int64_t removed = 0;
    CLIENT_SEND(w->client, SPAN("PERSIST"), buf_span(&w->client->index));
    int err = client_receive_integer(w->client, &removed);
    w->index_expired = removed > 0;
    return err;
}

int writer_begin(struct writer *w, const struct writer_setup *setup)
{
    *w = (struct writer){
        .setup = *setup, .client = setup->client, .filling = batch_new(), .sent = batch_new()};
    if (w->filling == NULL || w->sent == NULL)
        return client_fail(w->client, "out of memory");
    int err = client_probe_field_ttls(w->client, &w->field_ttls);
    if (err == 0)
        err = persist_index(w);
    if (err != 0)
        return err;
    return setup->replace ? index_begin_next(w->client) : index_next_score(w->client, &w->score);
}

/* --- The channels of the file that have a link --- */

static size_t id_hash(int64_t id)
{
    uint64_t h = (uint64_t)id; /* the finalizer of splitmix64 */
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9U;
    h = (h ^ h >> 27) * 0x94D049BB133111EBU;
    return (size_t)(h ^ h >> 31);
}

/* The slot that holds `id`, or the free one where it belongs. */
static int64_t *id_slot(const struct id_set *s, int64_t id)
{
    size_t at = id_hash(id) & (s->capacity - 1);
    while (s->slot[at] != 0 && s->slot[at] != id)
        at = (at + 1) & (s->capacity - 1);
    return &s->slot[at];
}

static bool id_set_has(const struct id_set *s, int64_t id)
{
    if (id == 0)
        return s->has_zero;
    return s->capacity > 0 && *id_slot(s, id) == id;
}

static int id_set_grow(struct id_set *s)
{
    struct id_set larger = {.capacity = s->capacity == 0 ? 1024 : s->capacity * 2, .count = s->count};
    larger.slot = calloc(larger.capacity, sizeof *larger.slot);
    if (larger.slot == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < s->capacity; i++)
        if (s->slot[i] != 0)
            *id_slot(&larger, s->slot[i]) = s->slot[i];
    larger.has_zero = s->has_zero;
    free(s->slot);
    *s = larger;
    return 0;
}

static int id_set_add(struct id_set *s, int64_t id)
{
    if (id == 0) {
        s->has_zero = true;
        return 0;
    }
    if (s->count >= s->capacity / 4 * 3) {
        int err = id_set_grow(s);
        if (err != 0)
            return err;
    }
    int64_t *slot = id_slot(s, id);
    s->count += *slot == 0;
    *slot = id;
    return 0;
}

/* --- Lines that cannot be written --- */

static void refuse(struct writer *w, struct batch_entry *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void refuse(struct writer *w, struct batch_entry *e, const char *format, ...)
{
    char why[3 * REPORT_EXCERPT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args);
    va_end(args);
    report_problem(w->setup.report, "%s:%lld: %s", w->setup.file, (long long)e->line, why);
    e->refused = true;
    w->refused++;
}

/* The key in the way may be somebody else's: it is not overwritten. */
static void refuse_type(struct writer *w, struct batch_entry *e, struct span key, const char *pending)
{
    char name[REPORT_EXCERPT_MAX];
    if (!e->refused)
        refuse(w, e, "%s in Redis is not %s: delete it and load the line again", report_excerpt(key, name),
               pending);
}

/* --- What Redis holds --- */

static void send_questions(struct writer *w, const struct batch_entry *e)
{
    struct client *c = w->client;
    struct span words[2 + CHANNEL_FIELD_COUNT] = {SPAN("HMGET"), client_card_key(c, e->card.id)};
    for (int f = 0; f < CHANNEL_FIELD_COUNT; f++)
        words[2 + f] = channel_field_name((enum channel_field)f);
    client_send(c, 2 + CHANNEL_FIELD_COUNT, words);
    CLIENT_SEND(c, SPAN("PTTL"), words[1]);
    if (w->field_ttls == FIELD_TTLS_KNOWN)
        client_send_field_ttls(c, e->card.id);
    if (card_link(&e->card).data != NULL) {
        struct span key = client_link_key(c, card_link(&e->card));
        CLIENT_SEND(c, SPAN("GET"), key);
        CLIENT_SEND(c, SPAN("PTTL"), key);
    }
    if (!w->setup.replace)
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

static int receive_card(struct writer *w, struct batch_entry *e)
{
    e->stored = client_receive_or_wrongtype(w->client);
    if (e->stored == NULL)
        return -EIO;
    if (reply_is_wrongtype(e->stored))
        refuse_type(w, e, client_card_key(w->client, e->card.id), "a hash");
    else if (e->stored->elements != CHANNEL_FIELD_COUNT)
        return client_fail(w->client, "Redis answered with something unexpected");
    else
        e->changed = differs(e);
    return 0;
}

/* What has a TTL is written anew, which removes it. */
static int receive_ttl(struct writer *w, struct batch_entry *e)
{
    redisReply *ttl = client_receive_or_wrongtype(w->client);
    if (ttl == NULL)
        return -EIO;
    bool expires = reply_has_ttl(ttl);
    e->expires = e->expires || expires;
    e->changed = e->changed || expires;
    freeReplyObject(ttl);
    return 0;
}

static int receive_link_owner(struct writer *w, struct batch_entry *e)
{
    redisReply *owner = client_receive_or_wrongtype(w->client);
    if (owner == NULL)
        return -EIO;
    if (reply_is_wrongtype(owner))
        refuse_type(w, e, client_link_key(w->client, card_link(&e->card)), "a string");
    bool ours = reply_is_id(owner, e->card.id);
    e->changed = e->changed || !ours;
    e->taken = !ours && owner->type == REDIS_REPLY_STRING;
    e->contested =
        e->taken && parse_int64(reply_text(owner), &e->owner) == 0 && id_set_has(&w->linked, e->owner);
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
    int err = receive_card(w, e);
    if (err == 0)
        err = receive_ttl(w, e);
    if (err == 0 && w->field_ttls == FIELD_TTLS_KNOWN)
        err = receive_ttl(w, e);
    if (err == 0 && card_link(&e->card).data != NULL) {
        err = receive_link_owner(w, e);
        if (err == 0)
            err = receive_ttl(w, e);
    }
    return err == 0 && !w->setup.replace ? receive_listed(w, e) : err;
}

/* --- Links that an earlier line has given to another channel --- */

/* The owner of a contested link may have got another one since, and its link key may be a stale one. */
static int check_owners(struct writer *w, struct batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->entry[i].contested)
            CLIENT_SEND(w->client, SPAN("HGET"), client_card_key(w->client, b->entry[i].owner),
                        channel_field_name(CHANNEL_FIELD_link));
    for (size_t i = 0; i < b->count; i++) {
        struct batch_entry *e = &b->entry[i];
        if (!e->contested)
            continue;
        redisReply *link = client_receive_or_wrongtype(w->client);
        if (link == NULL)
            return -EIO;
        e->contested = link->type == REDIS_REPLY_STRING && span_equal(reply_text(link), card_link(&e->card));
        freeReplyObject(link);
    }
    return 0;
}

/*
 * Refuses the lines whose link is another channel's. An owner that has another link in this batch gives the
 * contested one up; when its own line is refused it does not, hence the rounds.
 */
static int refuse_contested(struct writer *w, struct batch *b)
{
    char link[REPORT_EXCERPT_MAX];
    int err = check_owners(w, b);
    bool settled = err != 0;
    while (!settled) {
        settled = true;
        for (size_t i = 0; i < b->count; i++) {
            struct batch_entry *e = &b->entry[i];
            if (e->refused || !e->contested || batch_has_id(b, e->owner))
                continue;
            refuse(w, e, "link: channel %lld has this link in an earlier line: %s", (long long)e->owner,
                   report_excerpt(card_link(&e->card), link));
            settled = false;
        }
    }
    return err;
}

static int note_links(struct writer *w, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        const struct batch_entry *e = &b->entry[i];
        if (!e->refused && card_link(&e->card).data != NULL && id_set_add(&w->linked, e->card.id) != 0)
            return client_fail(w->client, "out of memory");
    }
    return 0;
}

/* --- Links that a channel had before --- */

/* Absent when it has none, or keeps it. */
static struct span former_link(const struct batch_entry *e)
{
    if (e->refused)
        return SPAN_ABSENT;
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
        redisReply *owner = client_receive_or_wrongtype(c);
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
    if (!w->setup.replace && !e->listed) {
        index_send_add(c, false, w->score++, e->card.id);
        e->commands++;
    }
    CLIENT_SEND(c, SPAN("EXEC"));
}

static void send_changes(struct writer *w, struct batch_entry *e)
{
    if (e->refused)
        return;
    if (e->changed)
        send_transaction(w, e);
    if (w->setup.replace)
        index_send_add(w->client, true, w->score++, e->card.id);
}

static int receive_changes(struct writer *w, const struct batch_entry *e)
{
    int err = 0;
    if (e->refused)
        return 0;
    int replies = e->changed ? 1 + e->commands + 1 : 0;
    for (int i = 0; i < replies && err == 0; i++)
        err = client_receive_done(w->client);
    int64_t added = 0;
    if (w->setup.replace && err == 0)
        err = client_receive_integer(w->client, &added);
    if (err != 0)
        return err;
    w->members += added;
    *(e->changed ? &w->written : &w->unchanged) += 1;
    w->taken += e->taken;
    w->expired += e->expires;
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
    lock_send_renewal(w->setup.lock);
    for (size_t i = 0; i < b->count; i++)
        send_questions(w, &b->entry[i]);
    int err = receive_sent(w);
    if (err == 0)
        err = lock_receive_renewal(w->setup.lock);
    for (size_t i = 0; i < b->count && err == 0; i++)
        err = receive_answers(w, &b->entry[i]);
    if (err == 0)
        err = refuse_contested(w, b);
    if (err == 0)
        err = note_links(w, b);
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
    free(w->linked.slot);
}
