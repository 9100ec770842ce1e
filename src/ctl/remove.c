/*
 * channelctl remove. The lock of a load is held meanwhile: a load with --replace that found the card
 * unchanged before its removal would list the channel again without a card. The transaction also watches its
 * sources: the card, which names the link key to remove, and the link key, which must still lead to this
 * channel.
 */
#include "base/text.h"
#include "ctl/lock.h"

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

enum { PLACE, CARD, LINK, PARTS };

/* The index comes first: a reader that finds a channel there finds its card. */
static void remove_channel(struct lock *l, int64_t id, int64_t removed[PARTS])
{
    struct client *c = l->client;
    struct buf link = BUF_INIT;
    remove_read(c, id, &link);
    lock_begin(l);
    CLIENT_SEND(c, SPAN("ZREM"), c->index, DIGITS(id));
    CLIENT_SEND(c, SPAN("UNLINK"), client_card_key(c, id));
    if (link.len > 0)
        CLIENT_SEND(c, SPAN("UNLINK"), client_link_key(c, buf_span(&link)));
    (void)lock_commit(l, removed, link.len > 0 ? PARTS : LINK);
    buf_fini(&link);
}

int command_remove(const struct options *o)
{
    struct client c;
    struct lock lock;
    int64_t removed[PARTS] = {0};
    int64_t id = 0;
    if (parse_int64(span_of(o->argument), &id) != 0)
        return usage_error("remove: expected the id of a channel, a 64-bit integer");
    int code = client_open(&c, o, CLIENT_CATALOGUE);
    if (code == EXIT_OK) {
        if (lock_acquire(&lock, &c) == 0)
            remove_channel(&lock, id, removed);
        code = lock_release(&lock) == 0 ? EXIT_OK : interrupt_code(EXIT_FAILED);
    }
    if (code == EXIT_OK && removed[PLACE] + removed[CARD] == 0)
        code = FAIL("channel %lld does not exist: nothing was removed", (long long)id);
    else if (code == EXIT_OK) {
        print_line(stdout, "removed channel %lld (index: %s, card: %s, link key: %s)", (long long)id,
                   removed[PLACE] > 0 ? "yes" : "no", removed[CARD] > 0 ? "yes" : "no",
                   removed[LINK] > 0 ? "yes" : "no");
        code = output_finish();
    }
    client_close(&c);
    return code;
}
