/*
 * channelctl remove: removes one channel: its place in the index, its card and its link key, in one
 * transaction.
 *
 * The lock of a load is held meanwhile. A load with --replace that found the card unchanged before its
 * removal would list the channel again without a card. The transaction also watches its sources: the card,
 * which names the link key to remove, and the link key, which must still lead to this channel.
 */
#include "base/text.h"
#include "ctl/client.h"
#include "ctl/lock.h"
#include "ctl/terminal.h"
#include "model/channel.h"

struct removal {
    struct client client;
    struct lock lock;
    int64_t id;
    bool place_removed, card_removed, link_removed;
};

/* Watches the card and its link key. *link: that of the card; empty if it has none, or if its key leads to
 * another channel and is kept. In the transaction the error of ZREM would not undo the rest, so the type of
 * the index is checked as well. A card of another type may belong to another program. */
static void remove_read(struct client *c, int64_t id, struct buf *link)
{
    CLIENT_SEND(c, SPAN("ZSCORE"), c->index, DIGITS(id));
    (void)client_receive_of(c, c->index, "sorted set");
    struct span key = client_card_key(c, id);
    CLIENT_SEND(c, SPAN("WATCH"), key);
    CLIENT_SEND(c, SPAN("HGET"), key, channel_field_name(CHANNEL_FIELD_link));
    (void)client_receive(c);
    buf_append_span(link, reply_text(client_receive_of(c, key, "hash")));
    if (buf_error(link) != 0)
        (void)client_fail_memory(c);
    if (link->len == 0)
        return;
    key = client_link_key(c, buf_span(link));
    CLIENT_SEND(c, SPAN("WATCH"), key);
    CLIENT_SEND(c, SPAN("GET"), key);
    (void)client_receive(c);
    if (!reply_is_id(client_receive_or_wrongtype(c), id))
        buf_clear(link);
}

/* The index comes first: a reader that finds a channel there finds its card. */
static void remove_execute(struct removal *r, struct span link)
{
    struct client *c = &r->client;
    lock_begin(&r->lock);
    CLIENT_SEND(c, SPAN("ZREM"), c->index, DIGITS(r->id));
    CLIENT_SEND(c, SPAN("UNLINK"), client_card_key(c, r->id));
    if (link.len > 0)
        CLIENT_SEND(c, SPAN("UNLINK"), client_link_key(c, link));
    lock_commit(&r->lock);
    const struct redis_reply *replies = lock_receive(&r->lock, link.len > 0 ? 3 : 2);
    r->place_removed = replies != NULL && replies[1].integer > 0;
    r->card_removed = replies != NULL && replies[2].integer > 0;
    r->link_removed = replies != NULL && link.len > 0 && replies[3].integer > 0;
}

static void remove_channel(void *arg)
{
    struct removal *r = arg;
    struct buf link = BUF_INIT;
    lock_watch(&r->lock);
    remove_read(&r->client, r->id, &link);
    if (client_status(&r->client) == 0)
        remove_execute(r, buf_span(&link));
    buf_fini(&link);
}

/* --- The command --- */

static int remove_print_result(const struct removal *r)
{
    if (!r->place_removed && !r->card_removed)
        return FAIL("channel %lld does not exist: nothing was removed", (long long)r->id);
    print_line(stdout, "removed channel %lld (index: %s, card: %s, link key: %s)", (long long)r->id,
               r->place_removed ? "yes" : "no", r->card_removed ? "yes" : "no",
               r->link_removed ? "yes" : "no");
    return output_finish();
}

int command_remove(const struct options *o, const char *argument)
{
    struct removal r = {.id = 0};
    if (parse_int64(span_of(argument), &r.id) != 0)
        return usage_error("remove: expected the id of a channel, a 64-bit integer");
    int code = client_open(&r.client, o, CLIENT_CATALOGUE);
    if (code == EXIT_OK)
        code = lock_run(&r.lock, &r.client, remove_channel, &r) == 0 ? remove_print_result(&r)
                                                                     : interrupt_code(EXIT_FAILED);
    client_close(&r.client);
    return code;
}
