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

#include <errno.h>

struct removal {
    struct client client;
    struct lock lock;
    int64_t id;
    struct buf link; /* the card's; empty: it has none, or its key leads to another channel */
    bool place_removed, card_removed, link_removed;
};

/* --- Reading what is to be removed --- */

/* Fails if the reply says that the key has another type: it may belong to another program. */
static void remove_check_type(struct client *c, const struct redis_reply *reply, struct span key,
                              const char *type)
{
    if (reply_is_wrongtype(reply))
        (void)client_fail(c, "%s in Redis is not %s: nothing was removed", EXCERPT(key), type);
}

/* In the transaction the error of ZREM would not undo the rest. */
static void remove_check_index(struct removal *r)
{
    struct client *c = &r->client;
    CLIENT_SEND(c, SPAN("ZSCORE"), c->index, DIGITS(r->id));
    remove_check_type(c, client_receive_or_wrongtype(c), c->index, "a sorted set");
}

/* Watches the card, and reads its link. */
static void remove_watch_card(struct removal *r)
{
    struct client *c = &r->client;
    struct span key = client_card_key(c, r->id);
    CLIENT_SEND(c, SPAN("WATCH"), key);
    CLIENT_SEND(c, SPAN("HGET"), key, channel_field_name(CHANNEL_FIELD_link));
    (void)client_receive(c);
    const struct redis_reply *link = client_receive_or_wrongtype(c);
    remove_check_type(c, link, key, "a hash");
    buf_append_span(&r->link, reply_text(link));
    if (buf_error(&r->link) != 0)
        (void)client_fail_memory(c);
}

/* Watches the link key. One that leads to another channel is kept. */
static void remove_watch_link(struct removal *r)
{
    struct client *c = &r->client;
    if (r->link.len == 0)
        return;
    struct span key = client_link_key(c, buf_span(&r->link));
    CLIENT_SEND(c, SPAN("WATCH"), key);
    CLIENT_SEND(c, SPAN("GET"), key);
    (void)client_receive(c);
    if (!reply_is_id(client_receive_or_wrongtype(c), r->id))
        buf_clear(&r->link);
}

/* --- Removing --- */

/* The index comes first: a reader that finds a channel there finds its card. */
static void remove_send_transaction(struct removal *r)
{
    struct client *c = &r->client;
    lock_begin(&r->lock);
    CLIENT_SEND(c, SPAN("ZREM"), c->index, DIGITS(r->id));
    CLIENT_SEND(c, SPAN("UNLINK"), client_card_key(c, r->id));
    if (r->link.len > 0)
        CLIENT_SEND(c, SPAN("UNLINK"), client_link_key(c, buf_span(&r->link)));
    lock_commit(&r->lock);
}

static int remove_run_transaction(struct removal *r)
{
    bool has_link = r->link.len > 0;
    remove_send_transaction(r);
    const struct redis_reply *replies = lock_receive(&r->lock, has_link ? 3 : 2);
    if (replies == NULL)
        return -EIO;
    r->place_removed = replies[1].integer > 0;
    r->card_removed = replies[2].integer > 0;
    r->link_removed = has_link && replies[3].integer > 0;
    return 0;
}

static int remove_channel(void *arg)
{
    struct removal *r = arg;
    lock_watch(&r->lock);
    remove_check_index(r);
    remove_watch_card(r);
    remove_watch_link(r);
    return client_status(&r->client) == 0 ? remove_run_transaction(r) : -EIO;
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

/* Returns the exit code. */
static int remove_run(struct removal *r)
{
    int err = lock_run(&r->lock, &r->client, remove_channel, r);
    if (err == -EINTR)
        return 128 + interrupt_signal();
    return err == 0 ? remove_print_result(r) : EXIT_FAILED;
}

int command_remove(const struct options *o, const char *argument)
{
    struct removal r = {.id = 0};
    if (parse_int64(span_of(argument), &r.id) != 0)
        return usage_error("remove: expected the id of a channel, a 64-bit integer");
    int code = client_open(&r.client, o, CLIENT_CATALOGUE);
    if (code == EXIT_OK)
        code = remove_run(&r);
    buf_fini(&r.link);
    client_close(&r.client);
    return code;
}
