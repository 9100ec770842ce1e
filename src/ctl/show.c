/*
 * channelctl show: prints the data of one channel in Redis. The card goes to stdout in the form that the API
 * returns and load reads, so that it can be kept and loaded again. Its place in the index, where its link
 * leads, and which stored values clients get as absent go to stderr.
 */
#include "base/text.h"
#include "ctl/client.h"
#include "ctl/terminal.h"
#include "model/channel.h"

struct show {
    struct client client;
    struct buf link; /* the given one, in its stored form; empty: an id was given */
    int64_t id;
    int64_t place, members; /* in the index, from 1; 0: the channel is not there */
    double score;
};

/* Looks up a link key. True when it holds the id of a channel. */
static bool show_read_owner(struct client *c, struct span link, int64_t *id)
{
    CLIENT_SEND(c, SPAN("GET"), client_link_key(c, link));
    return parse_int64(reply_text(client_receive_or_wrongtype(c)), id) == 0;
}

static void show_read_place(struct show *s)
{
    struct client *c = &s->client;
    struct span id = DIGITS(s->id);
    CLIENT_SEND(c, SPAN("ZRANK"), c->index, id);
    CLIENT_SEND(c, SPAN("ZSCORE"), c->index, id);
    CLIENT_SEND(c, SPAN("ZCARD"), c->index);
    const struct redis_reply *rank = client_receive(c);
    s->place = rank->type == REPLY_INTEGER ? rank->integer + 1 : 0;
    s->score = client_receive(c)->number; /* 0 where the reply is nil */
    s->members = client_receive_integer(c);
}

static void show_print_place(const struct show *s)
{
    if (s->place == 0)
        show_message("channel %lld is not in the index, so it is on no page", (long long)s->id);
    else
        show_message("channel %lld has place %lld of %lld and score %.17g: page %lld", (long long)s->id,
                     (long long)s->place, (long long)s->members, s->score, (long long)page_last(s->place));
}

/* Prints where the card's own link leads, which is borrowed from its reply, and whether the given link
 * differs. */
static void show_print_links(struct show *s, struct span own)
{
    int64_t id = 0;
    const char *shown = EXCERPT(own);
    bool is_other = s->link.len > 0 && !span_equal(buf_span(&s->link), own);
    bool found = own.data != NULL && show_read_owner(&s->client, own, &id);
    if (client_status(&s->client) != 0)
        return;
    if (found && id == s->id)
        show_message("%s leads to it", shown);
    else if (found)
        show_message("%s, its link, leads to channel %lld", shown, (long long)id);
    else if (own.data != NULL)
        show_message("%s, its link, leads to no channel", shown);
    if (is_other)
        show_message("%s leads to it, but is not its link", EXCERPT(buf_span(&s->link)));
}

/* Prints a card, its values that are not valid, its place and its links. */
static void show_print_row(struct show *s, const struct channel_row *row)
{
    struct buf json = BUF_INIT;
    unsigned invalid = channel_write(&json, row, CHANNEL_CARD);
    if (buf_error(&json) == 0) {
        print_text(stdout, buf_span(&json));
        (void)fputc('\n', stdout);
    } else {
        (void)client_fail_memory(&s->client);
    }
    buf_fini(&json);
    for (int f = 0; f < CHANNEL_FIELD_COUNT; f++)
        if ((invalid & 1U << f) != 0)
            show_message("%s: %s is not valid, clients get it as absent",
                         channel_field_name((enum channel_field)f).data, EXCERPT(row->value[f]));
    show_print_place(s);
    show_print_links(s, row->value[CHANNEL_FIELD_link]);
}

/* Prints the card and what belongs to it; of a channel without a card, its place in the index. */
static void show_print_card(struct show *s)
{
    struct client *c = &s->client;
    struct channel_row row;
    client_send_card_read(c, s->id);
    if (!client_receive_card(c, &row))
        (void)client_fail_type(c, client_card_key(c, s->id), "hash");
    else if (!channel_row_is_empty(&row, CHANNEL_SUMMARY))
        show_print_row(s, &row);
    else {
        if (s->place > 0)
            show_print_place(s);
        (void)client_fail(c, "channel %lld does not exist: it has no card", (long long)s->id);
    }
}

/* --- The command --- */

/* Returns 0, or -EIO with the reason in client_error(). */
static int show_channel(struct show *s)
{
    if (s->link.len > 0 && !show_read_owner(&s->client, buf_span(&s->link), &s->id))
        (void)client_fail(&s->client, "no channel has the link %s", EXCERPT(buf_span(&s->link)));
    show_read_place(s);
    show_print_card(s);
    return client_status(&s->client);
}

/* Reads the id or the link of the command line. Returns EXIT_OK, or prints what is wrong. */
static int show_read_word(struct show *s, const struct options *o, const char *word)
{
    if (parse_int64(span_of(word), &s->id) == 0)
        return EXIT_OK;
    if (link_normalise(&o->hosts, span_of(word), &s->link) != 0)
        return usage_error("show: expected the id of a channel, or a link https://%s/<slug> (--channel-host)",
                           o->channel_host);
    return buf_error(&s->link) == 0 ? EXIT_OK : memory_error();
}

int command_show(const struct options *o, const char *argument)
{
    struct show s = {.id = 0};
    int code = show_read_word(&s, o, argument);
    if (code == EXIT_OK)
        code = client_open(&s.client, o, CLIENT_CATALOGUE);
    if (code == EXIT_OK)
        code = show_channel(&s) == 0 ? output_finish() : client_print_error(&s.client);
    buf_fini(&s.link);
    client_close(&s.client);
    return code;
}
