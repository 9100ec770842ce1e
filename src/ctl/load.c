/*
 * channelctl load: reads channels from a file, a card per line, and writes them to Redis in batches. It reads
 * what Redis holds, skips channels that have not changed (even an identical write would remove them from
 * every cache), and writes the others in one transaction of lock.h: card, link keys, index. A link that
 * another channel has in Redis moves to the channel of the load.
 *
 * A replacing load lists its channels in the next index, a separate key, which becomes the index in one step
 * at the end. It does so only if every line was valid: a damaged file must never remove channels. Otherwise
 * its channels are added to the catalogue, as without --replace.
 */
#include "base/clock.h"
#include "base/text.h"
#include "ctl/input.h"
#include "ctl/lock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/param.h>

/* Without --max-removed a replacing load may remove this share of the channels, or this number of them. */
enum { REMOVED_SHARE_MAX = 20, REMOVED_CHANNELS_MAX = 20 };

/* A test of loads with few channels has smaller batches. */
#ifndef BATCH_CHANNELS_MAX
enum { BATCH_CHANNELS_MAX = 100 };
#endif
enum { BATCH_BYTES_MAX = 1024 * 1024 };

/* A channel of a batch, and its data in Redis. */
struct entry {
    struct card card;
    struct buf former_link; /* the link in Redis, if the card gets another one or none; may be empty */
    bool listed;            /* is in the index already, with this score */
    double score;
    bool card_changed; /* differs from what Redis holds, or has a TTL there */
    bool link_changed; /* its link key differs or has a TTL */
    bool drops_link;   /* the key of its former link still names it */
};

struct load {
    const char *const *flag; /* those of the command line */
    int64_t max_removed;     /* channels, or percent if `is_share` */
    bool is_share;
    int64_t expected; /* channels; 0: any number */
    struct input input;
    bool replaces;
    struct client client;
    struct lock lock;
    uint64_t started_ns;

    /* The catalogue before the load. */
    int64_t cards;   /* channels */
    int64_t lacking; /* of these, those that the input does not have */
    int64_t samples; /* the value of the mark; 0: there is none */

    /* What Redis has confirmed. */
    int64_t channels;      /* of the input, written or as they were in Redis */
    int64_t written;       /* of these */
    int64_t cards_removed; /* by a replacing load */
    bool replaced;         /* the next index has become the index */

    /* Whether it is confirmed or not. */
    bool is_sent;         /* a batch */
    int64_t links_moved;  /* links that another channel had before */
    int64_t ttls_removed; /* channels that had one */
    int64_t index_ttls_removed;

    struct entry entry[BATCH_CHANNELS_MAX];
    size_t count, bytes; /* of the batch; its lines */
    int64_t next_score;  /* for the next channel that is not in the index yet */
    bool index_differs;  /* a member of the next index is not in the index, or has another score there */
    int64_t mark;        /* the channels of the catalogue after the load if all of them are samples, else 0 */
};

/* --- The catalogue before the load --- */

static void load_take_census(struct load *l)
{
    struct client *c = &l->client;
    struct client_scan s = {.kind = KEYSPACE_CARD, .type = SPAN("hash")};
    while (client_scan_next(c, &s)) {
        for (size_t i = 0; i < s.count; i++)
            l->lacking +=
                !input_has(&l->input, keyspace_rest(c->keys, reply_text(&s.names[i]), KEYSPACE_CARD));
        l->cards += (int64_t)s.count;
        lock_keep(&l->lock);
    }
    CLIENT_SEND(c, SPAN("GET"), c->samples);
    if (parse_int64(reply_text(client_receive_or_wrongtype(c)), &l->samples) != 0)
        l->samples = 0;
    int64_t kept = l->replaces ? 0 : l->lacking;
    if (l->input.file == NULL && (kept == 0 || l->cards <= l->samples))
        l->mark = kept + (int64_t)l->input.channels;
}

/* Samples may be replaced by anything. Channels beyond their number are no samples. */
static void load_check_removal(struct load *l)
{
    int64_t most = l->is_share ? MAX(REMOVED_CHANNELS_MAX, l->cards * l->max_removed / 100) : l->max_removed;
    if (l->replaces && l->lacking > MAX(most, l->samples))
        (void)client_fail(&l->client,
                          "--replace would remove %lld of %lld channels, more than %lld%s; if this is "
                          "meant, add --max-removed 100%%",
                          (long long)l->lacking, (long long)l->cards, (long long)l->max_removed,
                          l->is_share ? "%" : "");
}

/* --- What Redis holds of a batch --- */

static struct span load_card_link(const struct entry *e)
{
    return e->card.row.value[CHANNEL_FIELD_link];
}

static void load_send_reads(struct client *c, const struct entry *e)
{
    client_send_card_read(c, e->card.id);
    CLIENT_SEND(c, SPAN("PTTL"), client_card_key(c, e->card.id));
    if (load_card_link(e).data != NULL) {
        struct span key = client_link_key(c, load_card_link(e));
        CLIENT_SEND(c, SPAN("GET"), key);
        CLIENT_SEND(c, SPAN("PTTL"), key);
    }
    CLIENT_SEND(c, SPAN("ZSCORE"), c->index, DIGITS(e->card.id));
}

/* Compares the card with the fields that Redis holds. It keeps only a former link, because fields may be
 * large. A key of another type may belong to another program: it is not overwritten, and the load fails. */
static void load_receive_card(struct client *c, struct entry *e)
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
static void load_receive_reads(struct load *l, struct entry *e)
{
    struct client *c = &l->client;
    load_receive_card(c, e);
    bool card_expires = reply_has_ttl(client_receive(c));
    bool link_expires = false;
    e->card_changed = e->card_changed || card_expires;
    if (load_card_link(e).data != NULL) {
        const struct redis_reply *owner =
            client_receive_of(c, client_link_key(c, load_card_link(e)), "string");
        e->link_changed = !reply_is_id(owner, e->card.id);
        l->links_moved += e->link_changed && owner->type == REPLY_STRING;
        link_expires = reply_has_ttl(client_receive(c));
        e->link_changed = e->link_changed || link_expires;
    }
    l->ttls_removed += card_expires || link_expires;
    /* A replacing load replaces an index of another type, too. */
    const struct redis_reply *score = client_receive_or_wrongtype(c);
    e->listed = score->type == REPLY_DOUBLE;
    e->score = score->number;
}

/* --- Writing --- */

static void load_send_card(struct client *c, const struct entry *e)
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

/* The index comes last: a reader that finds a channel there finds its card. True when something changes. */
static bool load_send_changes(struct load *l, const struct entry *e)
{
    struct client *c = &l->client;
    if (e->card_changed)
        load_send_card(c, e);
    if (e->link_changed)
        CLIENT_SEND(c, SPAN("SET"), client_link_key(c, load_card_link(e)), DIGITS(e->card.id));
    l->index_differs = l->index_differs || !e->listed || e->score != (double)l->next_score;
    if (l->replaces || !e->listed) {
        CLIENT_SEND(c, SPAN("ZADD"), l->replaces ? c->index_next : c->index, SPAN("NX"),
                    DIGITS(l->next_score), DIGITS(e->card.id));
        l->next_score++;
    }
    return e->card_changed || e->link_changed || (!l->replaces && !e->listed);
}

/* A former link goes before the others are written, as another channel of the batch may get it. */
static void load_execute(struct load *l)
{
    struct client *c = &l->client;
    const struct entry *end = l->entry + l->count;
    int64_t written = 0;
    lock_begin(&l->lock);
    for (struct entry *e = l->entry; e < end; e++)
        if (e->drops_link)
            CLIENT_SEND(c, SPAN("DEL"), client_link_key(c, buf_span(&e->former_link)));
    for (const struct entry *e = l->entry; e < end; e++)
        written += load_send_changes(l, e);
    l->is_sent = true;
    if (lock_commit(&l->lock, NULL, 0) != 0)
        return;
    l->channels += (int64_t)l->count;
    l->written += written;
}

static void load_clear(struct load *l)
{
    for (size_t i = 0; i < l->count; i++) {
        card_fini(&l->entry[i].card);
        buf_fini(&l->entry[i].former_link);
    }
    l->count = l->bytes = 0;
}

static void load_flush(struct load *l)
{
    struct client *c = &l->client;
    struct entry *e = l->entry;
    CLIENT_PIPELINE(i, l->count, true, load_send_reads(c, &e[i]), load_receive_reads(l, &e[i]));
    CLIENT_PIPELINE(i, l->count, e[i].former_link.len > 0,
                    CLIENT_SEND(c, SPAN("GET"), client_link_key(c, buf_span(&e[i].former_link))),
                    e[i].drops_link = reply_is_id(client_receive_or_wrongtype(c), e[i].card.id));
    if (client_status(c) == 0)
        load_execute(l);
    load_clear(l);
}

static void load_add(struct load *l, const struct card *card)
{
    l->entry[l->count++] = (struct entry){.card = *card};
    l->bytes += card->bytes;
    lock_keep(&l->lock);
    if (l->count == BATCH_CHANNELS_MAX || l->bytes >= BATCH_BYTES_MAX)
        load_flush(l);
}

/* --- Replacing the index --- */

/* In a transaction that leaves channels in the catalogue that are no samples: they need not be all of it. */
static void load_send_unmark(struct load *l)
{
    if (l->mark == 0)
        CLIENT_SEND(&l->client, SPAN("DEL"), l->client.samples);
}

/*
 * An index that is equal stays, since caches drop all pages when it is replaced. The former index is
 * unlinked: Redis frees it in the background, while RENAME would block until it is freed, however large it
 * is. The next index is watched and counted, so that an incomplete one of another loader never becomes the
 * index.
 */
static void load_swap_indexes(struct load *l)
{
    struct client *c = &l->client;
    CLIENT_SEND(c, SPAN("WATCH"), c->index_next);
    CLIENT_SEND(c, SPAN("ZCARD"), c->index_next);
    CLIENT_SEND(c, SPAN("ZCARD"), c->index);
    (void)client_receive(c);
    if (client_receive_integer(c) != l->channels)
        (void)client_fail(c, "another load has changed the next index");
    bool equal = client_receive_or_wrongtype(c)->integer == l->channels && !l->index_differs;
    lock_begin(&l->lock);
    CLIENT_SEND(c, SPAN("UNLINK"), equal ? c->index_next : c->index);
    if (!equal)
        CLIENT_SEND(c, SPAN("RENAME"), c->index_next, c->index);
    load_send_unmark(l);
    l->replaced = lock_commit(&l->lock, NULL, 0) == 0;
}

/* Takes cards of channels that are in the index out of the batch. */
static void load_keep_cards(struct client *c, struct client_scan *s)
{
    CLIENT_PIPELINE(i, s->count, true,
                    CLIENT_SEND(c, SPAN("ZSCORE"), c->index,
                                keyspace_rest(c->keys, reply_text(&s->names[i]), KEYSPACE_CARD)),
                    s->names[i].type = client_receive(c)->type == REPLY_NIL ? REPLY_STRING : REPLY_NIL);
}

/* Takes links that the card of their channel has out of the batch. */
static void load_keep_links(struct client *c, struct client_scan *s)
{
    struct link_owner *owner = client_find_owners(c, s->names, s->count);
    for (size_t i = 0; i < s->count && owner != NULL; i++)
        if (owner[i].agrees)
            s->names[i].type = REPLY_NIL;
    free(owner);
}

/* Returns how many keys were removed. Keys of other types are left: they may belong to another program. */
static int64_t load_sweep(struct load *l, struct span kind, struct span type,
                          void (*keep)(struct client *c, struct client_scan *s))
{
    struct client *c = &l->client;
    struct client_scan s = {.kind = kind, .type = type};
    int64_t removed = 0;
    while (client_scan_next(c, &s)) {
        int64_t found = 0;
        keep(c, &s);
        lock_begin(&l->lock);
        for (size_t i = 0; i < s.count; i++)
            if (s.names[i].type != REPLY_NIL) {
                CLIENT_SEND(c, SPAN("UNLINK"), reply_text(&s.names[i]));
                found++;
            }
        removed += lock_commit(&l->lock, NULL, 0) == 0 ? found : 0;
    }
    return removed;
}

/* --- With the lock --- */

/* The highest score to which a load adds channels: what it adds stays below INDEX_SCORE_LIMIT. */
#define LAST_SCORE_MAX (INDEX_SCORE_LIMIT / 2)

static int64_t load_read_next_score(struct client *c)
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
static void load_begin(struct load *l)
{
    struct client *c = &l->client;
    lock_begin(&l->lock);
    CLIENT_SEND(c, SPAN("PERSIST"), c->index);
    CLIENT_SEND(c, SPAN("UNLINK"), c->index_next);
    if (!l->replaces)
        load_send_unmark(l);
    (void)lock_commit(&l->lock, &l->index_ttls_removed, 1);
    if (!l->replaces)
        l->next_score = load_read_next_score(c);
}

static void load_write_batches(struct load *l)
{
    struct client *c = &l->client;
    struct card card;
    int got = 1;
    while (got == 1 && client_status(c) == 0 && interrupt_signal() == 0) {
        got = input_next(&l->input, &card);
        if (got == 1)
            load_add(l, &card);
    }
    if (got < 0)
        (void)client_fail(c, "cannot read %s: %s", l->input.name,
                          got == -ESTALE ? "it was changed while it was read" : strerror(-got));
    else if (interrupt_signal() != 0)
        (void)client_fail(c, "interrupted");
    else if (client_status(c) == 0)
        load_flush(l);
}

/* Cards are removed first: until its key is removed, a link without a card is not found. */
static void load_write_all(struct load *l)
{
    struct client *c = &l->client;
    if (l->replaces || l->input.file == NULL)
        load_take_census(l);
    load_check_removal(l);
    load_begin(l);
    load_write_batches(l);
    if (l->replaces)
        load_swap_indexes(l);
    if (l->replaced) {
        l->cards_removed = load_sweep(l, KEYSPACE_CARD, SPAN("hash"), load_keep_cards);
        (void)load_sweep(l, KEYSPACE_LINK, SPAN("string"), load_keep_links);
    }
    if (l->mark > 0) {
        lock_begin(&l->lock);
        CLIENT_SEND(c, SPAN("SET"), c->samples, DIGITS(l->mark));
        (void)lock_commit(&l->lock, NULL, 0);
    }
}

/* --- Messages --- */

static void load_print_warnings(const struct load *l)
{
    if (l->input.repeated > 0)
        show_message("%lld line%s repeated a channel; the last line of each channel was used",
                     (long long)l->input.repeated, plural(l->input.repeated));
    if (l->links_moved > 0)
        show_message("%lld link%s belonged to another channel before", (long long)l->links_moved,
                     plural(l->links_moved));
    if (l->ttls_removed > 0)
        show_message("%lld channel%s had a TTL, which was removed", (long long)l->ttls_removed,
                     plural(l->ttls_removed));
    if (l->index_ttls_removed > 0)
        show_message("the index had a TTL, which was removed");
    if (l->flag[FLAG_REPLACE] != NULL && !l->replaces)
        show_message("nothing was replaced or removed, because lines were refused; the others were added "
                     "to the catalogue");
}

static void load_print_summary(const struct load *l)
{
    double seconds = (double)(clock_now_ns() - l->started_ns) / 1e9;
    char removed[INT64_DIGITS_MAX + 16] = "";
    if (l->flag[FLAG_REPLACE] != NULL)
        (void)snprintf(removed, sizeof removed, ", %lld removed", (long long)l->cards_removed);
    print_line(stdout, "%lld channel%s: %lld changed, %lld refused%s in %.1f s, %.0f/s",
               (long long)l->channels, plural(l->channels), (long long)l->written,
               (long long)l->input.refused, removed, seconds, (double)l->channels / seconds);
}

/* What a load that has failed has written; is_lost: with the connection, so that more may have been. */
static void load_print_stop(const struct load *l, bool is_lost)
{
    if (l->channels > 0)
        show_message("stopped after %lld of %zu channels of %s: %lld loaded, %lld unchanged",
                     (long long)l->channels, l->input.channels, l->input.name, (long long)l->written,
                     (long long)(l->channels - l->written));
    else
        show_message("stopped before %s",
                     l->is_sent ? "Redis confirmed that anything was loaded" : "anything was loaded");
    if (l->replaced)
        show_message("the catalogue was replaced, but keys of removed channels may be left; "
                     "the next load --replace removes them");
    else if (l->replaces && l->is_sent)
        show_message(is_lost && l->channels == (int64_t)l->input.channels
                         ? "the catalogue may have been replaced: Redis has not confirmed it"
                         : "the index was not changed: a new channel is on no page until a load succeeds");
}

static int load_finish_output(const struct load *l)
{
    int code = output_finish();
    return l->input.refused == 0 ? code : EXIT_FAILED;
}

static int load_run(struct load *l)
{
    if (lock_acquire(&l->lock, &l->client) == 0)
        load_write_all(l);
    bool is_lost = client_is_lost(&l->client);
    if (lock_release(&l->lock) != 0) {
        load_print_stop(l, is_lost);
        return interrupt_code(EXIT_FAILED);
    }
    load_print_warnings(l);
    load_print_summary(l);
    return load_finish_output(l);
}

/* --- Without writing --- */

static int load_preview(struct load *l)
{
    load_take_census(l);
    int64_t added = MAX((int64_t)l->input.channels - (l->cards - l->lacking), 0);
    if (client_status(&l->client) == 0)
        print_line(stdout, "would add %lld channel%s, and remove %lld of %lld; %lld refused",
                   (long long)added, plural(added), (long long)(l->replaces ? l->lacking : 0),
                   (long long)l->cards, (long long)l->input.refused);
    load_check_removal(l);
    if (client_status(&l->client) != 0)
        return FAIL("%s", client_error(&l->client));
    return load_finish_output(l);
}

/* --- The command --- */

/* N, or N% of at most 100%. */
static bool load_read_max_removed(struct load *l, struct span text)
{
    l->is_share = text.len > 0 && text.data[text.len - 1] == '%';
    text.len -= l->is_share;
    return parse_int64(text, &l->max_removed) == 0 && l->max_removed >= 0 &&
           (!l->is_share || l->max_removed <= 100);
}

static int load_read_flags(struct load *l)
{
    const char *most = l->flag[FLAG_MAX_REMOVED];
    const char *expected = l->flag[FLAG_EXPECT];
    if (most != NULL && l->flag[FLAG_REPLACE] == NULL)
        return usage_error("load: --max-removed needs --replace");
    if (most != NULL && !load_read_max_removed(l, span_of(most)))
        return usage_error(
            "load: --max-removed: expected a number of channels, or a share from 0%% to 100%%");
    if (expected != NULL && (parse_int64(span_of(expected), &l->expected) != 0 || l->expected < 1))
        return usage_error("load: --expect: expected a number of channels, 1 or more");
    return EXIT_OK;
}

/* Reads and checks the whole input, before Redis is asked for anything. */
static int load_examine(struct load *l)
{
    int code = input_examine(&l->input);
    int64_t count = (int64_t)l->input.channels;
    l->replaces = l->flag[FLAG_REPLACE] != NULL && l->input.refused == 0;
    if (code == EXIT_OK && l->expected > 0 && count != l->expected)
        code = FAIL("the file has %lld channel%s, and not %lld as --expect says", (long long)count,
                    plural(count), (long long)l->expected);
    else if (code == EXIT_OK && count == 0 && l->input.refused == 0)
        code = FAIL("the file has no channels");
    if (code != EXIT_OK)
        show_message(l->flag[FLAG_DRY_RUN] != NULL ? "the load would be refused"
                                                   : "stopped before anything was loaded");
    return code;
}

static int load_connect(struct load *l, const struct options *o)
{
    bool is_dry = l->flag[FLAG_DRY_RUN] != NULL;
    int code = client_open(&l->client, o, CLIENT_CATALOGUE);
    if (code == EXIT_OK)
        return is_dry ? load_preview(l) : load_run(l);
    bool is_unreachable = client_status(&l->client) != 0 && !l->client.rejected;
    if (!is_dry || !is_unreachable)
        return code;
    print_line(stdout, "%zu channel%s, %lld refused; not compared with Redis", l->input.channels,
               plural((int64_t)l->input.channels), (long long)l->input.refused);
    return load_finish_output(l);
}

int command_load(const struct options *o)
{
    struct load l = {.flag = o->args.flag,
                     .max_removed = REMOVED_SHARE_MAX,
                     .is_share = true,
                     .started_ns = clock_now_ns()};
    int code = load_read_flags(&l);
    if (code == EXIT_OK)
        code = input_open(&l.input, o, o->argument);
    if (code == EXIT_OK)
        code = load_examine(&l);
    if (code == EXIT_OK)
        code = load_connect(&l, o);
    load_clear(&l);
    client_close(&l.client);
    input_close(&l.input);
    return code;
}
