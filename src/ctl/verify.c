/*
 * channelctl verify: do index, cards and links agree, and can every value be read?
 *
 * Three walks: over the index (each member and its card), over the cards (is each listed) and over the links.
 * What others change meanwhile may show as a problem: verify when nothing is being loaded.
 */
#include "base/parse.h"
#include "ctl/client.h"
#include "ctl/command.h"
#include "ctl/links.h"
#include "ctl/report.h"
#include "ctl/scan.h"
#include "model/channel.h"

#include <errno.h>
#include <stdlib.h>

struct verify {
    struct client client;
    const struct link_hosts *hosts;
    struct report report;
    int64_t channels; /* members of the index */
    struct buf json;  /* what channel_write makes; only its verdict counts */
};

static void send_card_questions(struct client *c, redisReply *const *members, size_t count)
{
    struct span words[2 + CHANNEL_FIELD_COUNT] = {SPAN("HMGET")};
    for (int f = 0; f < CHANNEL_FIELD_COUNT; f++)
        words[2 + f] = channel_field_name((enum channel_field)f);
    for (size_t i = 0; i < count; i++) {
        int64_t id = 0;
        if (parse_int64(reply_text(members[i]), &id) != 0)
            continue;
        words[1] = client_card_key(c, id);
        client_send(c, 2 + CHANNEL_FIELD_COUNT, words);
    }
}

static void check_fields(struct verify *v, int64_t id, const struct channel_row *row)
{
    char shown[REPORT_EXCERPT_MAX];
    buf_clear(&v->json);
    unsigned unreadable = channel_write(&v->json, row, CHANNEL_CARD);
    for (int f = 0; f < CHANNEL_FIELD_COUNT; f++)
        if ((unreadable & 1U << f) != 0)
            report_problem(&v->report, "card %lld: %s: cannot be read: %s", (long long)id,
                           channel_field_name((enum channel_field)f).data,
                           report_excerpt(row->value[f], shown));
    struct span own = row->value[CHANNEL_FIELD_max_channel_id];
    int64_t number = 0;
    if (own.data == NULL || (parse_int64(own, &number) == 0 && number != id))
        report_problem(&v->report, "card %lld: max_channel_id: is not the card's id", (long long)id);
    struct span link = row->value[CHANNEL_FIELD_link];
    if (link.data != NULL && !link_is_stored_shape(v->hosts, link))
        report_problem(&v->report, "card %lld: link: not https://%s/<slug>, so nobody finds it: %s",
                       (long long)id, v->hosts->channel_host.data, report_excerpt(link, shown));
}

/* Checks a card. *out becomes its fields, owned, or NULL when it has none. Returns 0 or -EIO. */
static int receive_card(struct verify *v, int64_t id, redisReply **out)
{
    struct channel_row row = {0};
    redisReply *reply = client_receive_or_wrongtype(&v->client);
    if (reply == NULL)
        return -EIO;
    bool is_hash = reply->elements == CHANNEL_FIELD_COUNT;
    for (size_t f = 0; is_hash && f < CHANNEL_FIELD_COUNT; f++)
        row.value[f] = reply_text(reply->element[f]);
    *out = NULL;
    if (!is_hash)
        report_problem(&v->report, "card %lld: is not a hash", (long long)id);
    else if (channel_row_is_empty(&row, CHANNEL_CARD))
        report_problem(&v->report, "index: %lld has no card", (long long)id);
    else {
        check_fields(v, id, &row);
        *out = reply;
        return 0;
    }
    freeReplyObject(reply);
    return 0;
}

static struct span stored_link(const redisReply *card)
{
    return card == NULL ? SPAN_ABSENT : reply_text(card->element[CHANNEL_FIELD_link]);
}

static int check_links_of(struct verify *v, const int64_t *ids, redisReply *const *cards, size_t count)
{
    char shown[REPORT_EXCERPT_MAX];
    for (size_t i = 0; i < count; i++)
        if (stored_link(cards[i]).data != NULL)
            CLIENT_SEND(&v->client, SPAN("GET"), client_link_key(&v->client, stored_link(cards[i])));
    for (size_t i = 0; i < count; i++) {
        if (stored_link(cards[i]).data == NULL)
            continue;
        redisReply *owner = client_receive_or_wrongtype(&v->client);
        if (owner == NULL)
            return -EIO;
        if (!reply_is_id(owner, ids[i]))
            report_problem(&v->report, "card %lld: link: its key does not name the card: %s",
                           (long long)ids[i], report_excerpt(stored_link(cards[i]), shown));
        freeReplyObject(owner);
    }
    return 0;
}

/* Receives the cards of a piece of the index, in order; ids and cards of those that are sound go to the
 * arrays. */
static int receive_cards(struct verify *v, redisReply *const *members, size_t count, int64_t *ids,
                         redisReply **cards)
{
    char shown[REPORT_EXCERPT_MAX];
    int err = 0;
    for (size_t i = 0; i < count && err == 0; i++) {
        if (parse_int64(reply_text(members[i]), &ids[i]) == 0)
            err = receive_card(v, ids[i], &cards[i]);
        else
            report_problem(&v->report, "index: is no 64-bit integer: %s",
                           report_excerpt(reply_text(members[i]), shown));
    }
    return err;
}

static int visit_index(void *arg, redisReply *const *members, size_t count)
{
    struct verify *v = arg;
    int64_t *ids = calloc(count + 1, sizeof(int64_t));
    redisReply **cards = calloc(count + 1, sizeof(redisReply *));
    int err = -ENOMEM;
    if (ids != NULL && cards != NULL) {
        send_card_questions(&v->client, members, count);
        err = receive_cards(v, members, count, ids, cards);
        if (err == 0)
            err = check_links_of(v, ids, cards, count);
        for (size_t i = 0; i < count; i++)
            freeReplyObject(cards[i]);
    }
    free(cards);
    free(ids);
    return err == -ENOMEM ? client_fail(&v->client, "out of memory") : err;
}

static int visit_cards(void *arg, redisReply *const *keys, size_t count)
{
    struct verify *v = arg;
    struct client *c = &v->client;
    char shown[REPORT_EXCERPT_MAX];
    for (size_t i = 0; i < count; i++)
        CLIENT_SEND(c, SPAN("ZSCORE"), buf_span(&c->index), keyspace_card_id(c->keys, reply_text(keys[i])));
    for (size_t i = 0; i < count; i++) {
        redisReply *score = client_receive(c);
        if (score == NULL)
            return -EIO;
        if (score->type == REDIS_REPLY_NIL)
            report_problem(&v->report, "card %s: is not in the index",
                           report_excerpt(keyspace_card_id(c->keys, reply_text(keys[i])), shown));
        freeReplyObject(score);
    }
    return 0;
}

static void check_owner(struct verify *v, struct span link, const struct link_owner *owner)
{
    char shown[REPORT_EXCERPT_MAX];
    if (!owner->named)
        report_problem(&v->report, "link %s: does not hold an id", report_excerpt(link, shown));
    else if (!owner->agrees)
        report_problem(&v->report, "link %s: names %lld, whose card is gone or has another link",
                       report_excerpt(link, shown), (long long)owner->id);
}

static int visit_links(void *arg, redisReply *const *keys, size_t count)
{
    struct verify *v = arg;
    struct link_owner *owner = calloc(count + 1, sizeof *owner);
    if (owner == NULL)
        return client_fail(&v->client, "out of memory");
    int err = links_check(&v->client, keys, count, owner);
    for (size_t i = 0; i < count && err == 0; i++)
        check_owner(v, keyspace_link_of(v->client.keys, reply_text(keys[i])), &owner[i]);
    free(owner);
    return err;
}

static int check_all(struct verify *v)
{
    CLIENT_SEND(&v->client, SPAN("ZCARD"), buf_span(&v->client.index));
    int err = client_receive_integer(&v->client, &v->channels);
    if (err == 0)
        err = scan_walk(&v->client, SCAN_INDEX, visit_index, v);
    if (err == 0)
        err = scan_walk(&v->client, SCAN_CARDS, visit_cards, v);
    return err == 0 ? scan_walk(&v->client, SCAN_LINKS, visit_links, v) : err;
}

static int conclude(const struct verify *v)
{
    report_finish(&v->report);
    if (v->report.problems == 0)
        (void)printf("%lld channels, no problem\n", (long long)v->channels);
    else
        (void)printf("%lld channels, %lld problems\n", (long long)v->channels, (long long)v->report.problems);
    int code = output_end();
    return v->report.problems == 0 ? code : EXIT_FAILED;
}

int command_verify(const struct options *o, int words, char **word)
{
    if (words != 0)
        return usage_error("verify: no argument is expected, but there is %s", word[0]);
    struct verify v = {.hosts = &o->hosts};
    report_init(&v.report, stdout);
    int code = client_open(&v.client, o);
    if (code == EXIT_FINE)
        code = check_all(&v) == 0 ? conclude(&v) : client_complain(&v.client);
    buf_fini(&v.json);
    client_close(&v.client);
    return code;
}
