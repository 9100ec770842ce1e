/*
 * channelctl show: prints the data of one channel in Redis. The card goes to stdout in the form that the API
 * returns and load reads, so that it can be kept and loaded again. Its place in the index, where its link
 * leads, and which stored values clients get as absent go to stderr.
 */
#include "ctl/client.h"
#include "ctl/terminal.h"

static bool show_read_owner(struct client *c, struct span link, int64_t *id)
{
    CLIENT_SEND(c, SPAN("GET"), client_link_key(c, link));
    return parse_int64(reply_text(client_receive_or_wrongtype(c)), id) == 0;
}

static void show_print_card(struct client *c, const struct channel_row *row)
{
    struct buf json = BUF_INIT;
    unsigned invalid = channel_write(&json, row, CHANNEL_CARD);
    if (buf_error(&json) == 0) {
        print_text(stdout, buf_span(&json));
        (void)fputc('\n', stdout);
    } else {
        (void)client_fail_memory(c);
    }
    buf_fini(&json);
    for (int f = 0; f < CHANNEL_FIELD_COUNT; f++)
        if ((invalid & 1U << f) != 0)
            show_message("%s: %s is not valid, clients get it as absent",
                         channel_field_name((enum channel_field)f).data, EXCERPT(row->value[f]));
}

/* `own`, the link of the card, is borrowed from its reply. `given`: by which it was found; may be empty. */
static void show_print_links(struct client *c, int64_t id, struct span own, struct span given)
{
    int64_t owner = 0;
    const char *shown = EXCERPT(own);
    bool is_other = given.len > 0 && !span_equal(given, own);
    bool found = own.data != NULL && show_read_owner(c, own, &owner);
    if (client_status(c) != 0)
        return;
    if (found && owner == id)
        show_message("%s leads to it", shown);
    else if (found)
        show_message("%s, its link, leads to channel %lld", shown, (long long)owner);
    else if (own.data != NULL)
        show_message("%s, its link, leads to no channel", shown);
    if (is_other)
        show_message("%s leads to it, but is not its link", EXCERPT(given));
}

/* The channel with the id of the command line, or with this link, which is empty where an id was given. */
static void show_channel(struct client *c, void *arg)
{
    struct channel_row row;
    int64_t id = 0;
    struct span link = buf_span(arg);
    if (buf_error(arg) != 0)
        (void)client_fail_memory(c);
    if (parse_int64(span_of(c->options->argument), &id) != 0 && !show_read_owner(c, link, &id))
        (void)client_fail(c, "no channel has the link %s", EXCERPT(link));
    CLIENT_SEND(c, SPAN("ZRANK"), c->index, DIGITS(id));
    CLIENT_SEND(c, SPAN("ZSCORE"), c->index, DIGITS(id));
    CLIENT_SEND(c, SPAN("ZCARD"), c->index);
    client_send_card_read(c, id);
    const struct redis_reply *rank = client_receive(c);
    int64_t place = rank->type == REPLY_INTEGER ? rank->integer + 1 : 0;
    double score = client_receive(c)->number;
    int64_t members = client_receive_integer(c);
    if (!client_receive_card(c, &row))
        (void)client_fail_type(c, client_card_key(c, id), "hash");
    bool exists = !channel_row_is_empty(&row);
    if (exists)
        show_print_card(c, &row);
    if (client_status(c) != 0)
        return;
    if (place > 0)
        show_message("channel %lld has place %lld of %lld and score %.17g: page %lld", (long long)id,
                     (long long)place, (long long)members, score, (long long)page_last(place));
    else if (exists)
        show_message("channel %lld is not in the index, so it is on no page", (long long)id);
    if (exists)
        show_print_links(c, id, row.value[CHANNEL_FIELD_link], link);
    else
        (void)client_fail(c, "channel %lld does not exist: it has no card", (long long)id);
}

int command_show(const struct options *o)
{
    struct buf link = BUF_INIT;
    int64_t id = 0;
    int code = EXIT_OK;
    if (parse_int64(span_of(o->argument), &id) != 0 &&
        link_normalise(&o->hosts, span_of(o->argument), &link) != 0)
        code = usage_error("show: expected the id of a channel, or a link https://%s/<slug> (--channel-host)",
                           o->channel_host);
    else
        code = client_run(o, CLIENT_CATALOGUE, show_channel, &link);
    buf_fini(&link);
    return code;
}
