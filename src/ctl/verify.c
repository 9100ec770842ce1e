/*
 * channelctl verify: checks the whole catalogue. Only one batch of a scan is in memory at a time, and no card
 * is read before its size is known; link keys and infos are read whole.
 *
 * A change that is made meanwhile may be reported as a problem: verify when nothing is being loaded.
 */
#include "base/clock.h"
#include "base/digest.h"
#include "base/text.h"
#include "ctl/card.h"
#include "ctl/client.h"
#include "ctl/terminal.h"
#include "model/api_key.h"
#include "model/channel.h"
#include "redis/server.h"

#include <stdlib.h>
#include <sys/param.h>

/* channeld accepts replies of up to 64 MiB. This is the memory of a card, which is a little more than that of
 * its values. */
static const int64_t CARD_BYTES_MAX = 64 << 20;

enum { GROUP_BYTES_MAX = 4 << 20 }; /* cards are read in groups */

struct verify {
    struct client *client;
    struct report report;
    bool has_index;   /* it exists and has its type */
    int64_t channels; /* members of the index */
    int64_t keys;     /* API keys */
    bool key_works;   /* one of them has not expired */
    bool key_refused; /* the expiry of one of them cannot be read */
    int64_t now;      /* seconds since 1970 */
};

/* What to do about most problems. */
#define LOAD_AGAIN     "load it again"
#define LOAD_CORRECTED "correct it, and load it again"
#define LOAD_OR_REMOVE "load it, or channelctl remove it"
#define DELETE_KEY     "redis-cli DEL its key"

static void verify_scan(struct verify *v, struct client_scan s,
                        void (*visit)(struct verify *v, const struct redis_reply *names, size_t count))
{
    while (client_scan_next(v->client, &s))
        visit(v, s.names, s.count);
}

/* --- Single keys --- */

/* Receives the reply to TYPE, borrowed until another one is received; absent where there is no key. */
static struct span verify_receive_type(struct client *c)
{
    const struct redis_reply *reply = client_receive(c);
    if (reply->type != REPLY_STATUS)
        (void)client_fail_unexpected(c);
    return span_equal(reply_text(reply), SPAN("none")) ? SPAN_ABSENT : reply_text(reply);
}

static void verify_receive_ttl(struct verify *v)
{
    int64_t ttl_ms = client_receive_integer(v->client);
    if (ttl_ms >= 0)
        report_problem(&v->report,
                       "has a TTL: it expires in %lld s (find out what sets it; redis-cli PERSIST)",
                       (long long)(ttl_ms / 1000));
}

/* Checks the type and TTL of a key. True if its type is `wanted`. `missing`: the problem if it does not
 * exist; NULL: none. `remedy`: of that, and of another type when the key is deleted. */
static bool verify_check_key(struct verify *v, struct span key, const char *wanted, const char *missing,
                             const char *remedy)
{
    CLIENT_SEND(v->client, SPAN("PTTL"), key);
    CLIENT_SEND(v->client, SPAN("TYPE"), key);
    verify_receive_ttl(v);
    struct span type = verify_receive_type(v->client);
    if (span_equal(type, span_of(wanted)))
        return true;
    if (type.data != NULL)
        report_problem(&v->report, "%s is a %s, not a %s: delete it (%s)", EXCERPT(key), EXCERPT(type),
                       wanted, remedy);
    else if (missing != NULL)
        report_problem(&v->report, "%s (%s)", missing, remedy);
    return false;
}

/* A running load may explain the problems, and the next index belongs to it. A lock without TTL is not a
 * load. */
static void verify_check_load(struct verify *v)
{
    struct client *c = v->client;
    CLIENT_SEND(c, SPAN("GET"), c->loader);
    CLIENT_SEND(c, SPAN("PTTL"), c->loader);
    CLIENT_SEND(c, SPAN("TYPE"), c->index_next);
    const char *holder = EXCERPT(reply_text(client_receive_or_wrongtype(c)));
    int64_t ttl = client_receive_integer(c);
    bool is_left_over = verify_receive_type(c).data != NULL;
    report_begin(&v->report, "loader");
    if (ttl == -1)
        report_problem(&v->report,
                       "has no TTL: no load is possible until it is deleted (%s) (" DELETE_KEY
                       ", unless it was set on purpose)",
                       holder);
    report_begin(&v->report, "index.next");
    if (ttl >= 0 && client_status(c) == 0)
        show_message("a load is running: its changes may appear as problems (%s)", holder);
    else if (is_left_over)
        report_problem(&v->report,
                       "is left over from a load that did not end (the next load with --replace removes it)");
}

/* Not a problem of the catalogue, but one to come. No warning where this user may not run INFO. */
static void verify_warn_of_eviction(struct client *c)
{
    CLIENT_SEND(c, SPAN("INFO"), SPAN("memory"));
    struct span policy = redis_server_eviction_policy(client_receive_any(c));
    if (policy.data != NULL)
        show_message("warning: maxmemory-policy is %s: Redis may evict channels and API keys (set it to "
                     "noeviction)",
                     EXCERPT(policy));
}

/* --- API keys --- */

/* Of a digest its start. What is not a digest may be a key, so less of it is printed. */
static void verify_begin_info(struct verify *v, struct span digest)
{
    size_t most = digest_is_hex(digest) ? 8 : 4;
    report_begin(&v->report, "api_key_info: %s...",
                 EXCERPT((struct span){digest.data, MIN(digest.len, most)}));
}

static void verify_receive_info(struct verify *v, struct span digest)
{
    static const struct {
        unsigned fault;
        const char *what;
    } rows[] = {
        {API_KEY_FAULT_FORM, "is not a JSON object of at most 512 bytes: the key is refused"},
        {API_KEY_FAULT_EXPIRES, "expires is not a time (YYYY-MM-DDTHH:MM:SSZ): the key is refused"},
        {API_KEY_FAULT_ISSUED, "issued is not a time (YYYY-MM-DDTHH:MM:SSZ)"},
        {API_KEY_FAULT_NAME, "name is not 1 to 64 of A-Z a-z 0-9 _ . -"},
    };
    struct api_key_info info = API_KEY_INFO_NONE;
    struct span text = reply_text(client_receive_or_wrongtype(v->client));
    unsigned faults = text.data != NULL ? api_key_info_parse(text, &info) : 0;
    v->key_works = v->key_works || !api_key_is_expired(info.expires, v->now);
    v->key_refused = v->key_refused || info.expires == API_KEY_REFUSED;
    verify_begin_info(v, digest);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((faults & rows[i].fault) != 0)
            report_problem(&v->report, "%s (redis-cli HSET a valid info, or revoke the key)", rows[i].what);
}

static void verify_visit_api_keys(struct verify *v, const struct redis_reply *members, size_t count)
{
    struct client *c = v->client;
    for (size_t i = 0; i < count; i++) {
        struct span member = reply_text(&members[i]);
        v->keys += digest_is_hex(member);
        if (!digest_is_hex(member))
            report_problem(&v->report,
                           "a member of %zu byte%s is not a SHA-256 in lower-case hex: %s... (redis-cli SREM "
                           "it, and issue another key)",
                           member.len, plural((int64_t)member.len),
                           EXCERPT((struct span){member.data, MIN(member.len, 4)}));
    }
    CLIENT_PIPELINE(i, count, digest_is_hex(reply_text(&members[i])),
                    CLIENT_SEND(c, SPAN("HGET"), c->api_key_info, reply_text(&members[i])),
                    verify_receive_info(v, reply_text(&members[i])));
    report_begin(&v->report, "api_keys");
}

/* Keys that the documents show, so that they are public. tests/check-published-keys compares. */
static const char *const PUBLISHED_KEYS[] = {"demo-key", "KEY"};

static void verify_check_members(struct verify *v)
{
    struct client *c = v->client;
    for (size_t i = 0; i < sizeof PUBLISHED_KEYS / sizeof *PUBLISHED_KEYS; i++) {
        CLIENT_SEND(c, SPAN("SISMEMBER"), c->api_keys, DIGEST_HEX(span_of(PUBLISHED_KEYS[i])));
        if (client_receive_integer(c) != 0)
            report_problem(&v->report,
                           "\"%s\" is an example in the documents, and valid, so it is public (run "
                           "channelctl keys revoke)",
                           PUBLISHED_KEYS[i]);
    }
    verify_scan(v, (struct client_scan){.command = SPAN("SSCAN"), .key = c->api_keys}, verify_visit_api_keys);
    if (v->keys > 0 && !v->key_works)
        report_problem(&v->report, "every key %s: every request gets 401 (run channelctl keys issue)",
                       v->key_refused ? "has expired, or has an info that is not valid" : "has expired");
}

static void verify_send_info_reads(struct client *c, struct span field)
{
    CLIENT_SEND(c, SPAN("SISMEMBER"), c->api_keys, field);
    CLIENT_SEND(c, SPAN("HPEXPIRETIME"), c->api_key_info, SPAN("FIELDS"), SPAN("1"), field);
}

static void verify_receive_info_reads(struct verify *v, struct span field)
{
    verify_begin_info(v, field);
    if (client_receive_integer(v->client) == 0)
        report_problem(&v->report, "its key is not in api_keys (redis-cli HDEL it)");
    /* Redis before 7.4 does not know the command. */
    const struct redis_reply *ttl = client_receive_any(v->client);
    if (reply_is_error(ttl, SPAN("NOPERM ")))
        report_problem(&v->report, "it is not known whether it has a TTL (permit +hpexpiretime)");
    else if (ttl->elements == 1 && reply_has_ttl(reply_first(ttl)))
        report_problem(&v->report,
                       "has a TTL: after it the key has neither name nor expiry (redis-cli HPERSIST)");
}

static void verify_visit_infos(struct verify *v, const struct redis_reply *infos, size_t count)
{
    CLIENT_PIPELINE(i, count / 2, true, verify_send_info_reads(v->client, reply_text(&infos[2 * i])),
                    verify_receive_info_reads(v, reply_text(&infos[2 * i])));
}

/* Without a set of API keys there is nothing to compare the infos with. */
static void verify_check_api_keys(struct verify *v)
{
    struct client *c = v->client;
    report_begin(&v->report, "api_keys");
    bool has_keys = verify_check_key(v, c->api_keys, "set", "there are no API keys: every request gets 401",
                                     "restore them from a backup; without one: channelctl keys issue");
    if (has_keys)
        verify_check_members(v);
    report_begin(&v->report, "api_key_info");
    if (verify_check_key(v, c->api_key_info, "hash", NULL, "restore it from a backup") && has_keys)
        verify_scan(v, (struct client_scan){.command = SPAN("HSCAN"), .key = c->api_key_info},
                    verify_visit_infos);
}

/* --- The index --- */

static void verify_receive_member(struct verify *v, int64_t id, const struct redis_reply *score_text)
{
    double score = score_text->type == REPLY_STRING ? strtod(score_text->str, NULL) : 0;
    /* At the limit or beyond it no other channel can be appended after this one. */
    if (!(score > -INDEX_SCORE_LIMIT && score < INDEX_SCORE_LIMIT))
        report_problem(
            &v->report,
            "channel %lld has the score %.17g: scores from 2^53 on are not distinct (load with --replace)",
            (long long)id, score);
    if (verify_receive_type(v->client).data == NULL)
        report_problem(&v->report, "channel %lld has no card (" LOAD_OR_REMOVE ")", (long long)id);
}

static void verify_visit_index(struct verify *v, const struct redis_reply *members, size_t count)
{
    struct client *c = v->client;
    int64_t id = 0;
    for (size_t i = 0; i < count; i += 2)
        if (parse_int64(reply_text(&members[i]), &id) != 0)
            report_problem(&v->report, "%s is not a 64-bit integer (redis-cli ZREM it)",
                           EXCERPT(reply_text(&members[i])));
    CLIENT_PIPELINE(i, count / 2, parse_int64(reply_text(&members[2 * i]), &id) == 0,
                    CLIENT_SEND(c, SPAN("TYPE"), client_card_key(c, id)),
                    verify_receive_member(v, id, &members[2 * i + 1]));
}

static void verify_check_index(struct verify *v)
{
    report_begin(&v->report, "index");
    v->has_index =
        verify_check_key(v, v->client->index, "zset", "there is no index: the list of channels is empty",
                         "run channelctl load --replace FILE");
    if (!v->has_index)
        return;
    CLIENT_SEND(v->client, SPAN("ZCARD"), v->client->index);
    v->channels = client_receive_integer(v->client);
    verify_scan(v, (struct client_scan){.command = SPAN("ZSCAN"), .key = v->client->index},
                verify_visit_index);
}

/* --- Cards --- */

/* A card of a batch. */
struct examined {
    bool due; /* it has to be read */
    int64_t id;
    int64_t bytes;   /* its memory: that of all fields, also unknown ones */
    struct buf link; /* its own */
};

/* TTL, size and place in the index, before it is read. */
static void verify_send_measures(struct verify *v, const struct examined *e)
{
    struct client *c = v->client;
    struct span key = client_card_key(c, e->id);
    CLIENT_SEND(c, SPAN("PTTL"), key);
    CLIENT_SEND(c, SPAN("MEMORY"), SPAN("USAGE"), key, SPAN("SAMPLES"), SPAN("0"));
    if (v->has_index)
        CLIENT_SEND(c, SPAN("ZSCORE"), c->index, DIGITS(e->id));
}

static void verify_receive_measures(struct verify *v, struct examined *e)
{
    report_begin(&v->report, "card %lld", (long long)e->id);
    verify_receive_ttl(v);
    e->bytes = client_receive(v->client)->integer; /* nil, which is 0, if the card was removed meanwhile */
    if (v->has_index && client_receive(v->client)->type == REPLY_NIL)
        report_problem(&v->report, "is not in the index (" LOAD_OR_REMOVE ")");
    if (e->bytes <= CARD_BYTES_MAX)
        return;
    report_problem(&v->report,
                   "takes %lld bytes of memory, channeld reads at most 64 MiB (" LOAD_CORRECTED ")",
                   (long long)e->bytes);
    *e = (struct examined){.due = false};
}

static void verify_check_values(struct verify *v, const struct channel_row *row)
{
    for (enum channel_field f = 0; f < CHANNEL_FIELD_COUNT; f++) {
        struct span value = row->value[f];
        if (value.data == NULL)
            continue;
        const char *problem = card_check_value(&v->client->options->hosts, f, value);
        if (problem == NULL)
            problem = channel_find_fault(row, f);
        if (problem != NULL)
            report_problem(&v->report, "%s: %s %s (" LOAD_CORRECTED ")", channel_field_name(f).data,
                           EXCERPT(value), problem);
    }
}

static void verify_receive_card(struct verify *v, struct examined *e)
{
    struct channel_row row;
    int64_t id = e->id;
    bool is_hash = client_receive_card(v->client, &row);
    struct span own_id = row.value[CHANNEL_FIELD_max_channel_id];
    buf_append_span(&e->link, row.value[CHANNEL_FIELD_link]);
    report_begin(&v->report, "card %lld", (long long)e->id);
    if (!is_hash) {
        report_problem(&v->report, "is not a hash (" DELETE_KEY ", and " LOAD_AGAIN ")");
    } else if (channel_row_is_empty(&row)) {
        report_problem(&v->report, "has no summary field, so the channel is never found (" LOAD_AGAIN ")");
    } else {
        verify_check_values(v, &row);
        if (own_id.data == NULL)
            report_problem(&v->report, "max_channel_id is missing (" LOAD_AGAIN ")");
        else if (parse_int64(own_id, &id) == 0 && id != e->id)
            report_problem(&v->report, "max_channel_id: %lld is not the id in the key (" LOAD_AGAIN ")",
                           (long long)id);
    }
}

static void verify_receive_owner(struct verify *v, const struct examined *e)
{
    int64_t owner = 0;
    struct span link = buf_span(&e->link);
    bool found = parse_int64(reply_text(client_receive_or_wrongtype(v->client)), &owner) == 0;
    report_begin(&v->report, "card %lld: link", (long long)e->id);
    if (!found)
        report_problem(&v->report, "its link key is missing or holds no id: %s (" LOAD_AGAIN ")",
                       EXCERPT(link));
    else if (owner != e->id)
        report_problem(&v->report,
                       "its link key points to channel %lld: %s (" LOAD_AGAIN
                       ", or if both channels have this link, correct one of them)",
                       (long long)owner, EXCERPT(link));
}

static void verify_examine_group(struct verify *v, struct examined *e, size_t count)
{
    struct client *c = v->client;
    CLIENT_PIPELINE(i, count, e[i].due, client_send_card_read(c, e[i].id), verify_receive_card(v, &e[i]));
    CLIENT_PIPELINE(i, count, e[i].link.len > 0,
                    CLIENT_SEND(c, SPAN("GET"), client_link_key(c, buf_span(&e[i].link))),
                    verify_receive_owner(v, &e[i]));
    for (size_t i = 0; i < count; i++) {
        if (buf_error(&e[i].link) != 0)
            (void)client_fail_memory(c);
        buf_fini(&e[i].link);
    }
}

/* Examines the cards in groups, so that memory is bounded however large they are. */
static void verify_visit_cards(struct verify *v, const struct redis_reply *keys, size_t count)
{
    struct examined *e = calloc(count + 1, sizeof *e);
    if (e == NULL) {
        (void)client_fail_memory(v->client);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct span id = keyspace_rest(v->client->keys, reply_text(&keys[i]), KEYSPACE_CARD);
        e[i].due = parse_int64(id, &e[i].id) == 0;
        if (e[i].due)
            continue;
        report_begin(&v->report, "card %s", EXCERPT(id));
        report_problem(&v->report,
                       "its key does not end with a 64-bit integer, so it is never found (" DELETE_KEY ")");
    }
    CLIENT_PIPELINE(i, count, e[i].due, verify_send_measures(v, &e[i]), verify_receive_measures(v, &e[i]));
    for (size_t from = 0, to = 0; from < count; from = to) {
        int64_t bytes = 0;
        do
            bytes += e[to].bytes;
        while (++to < count && bytes < GROUP_BYTES_MAX);
        verify_examine_group(v, e + from, to - from);
    }
    free(e);
}

/* --- Link keys --- */

static void verify_receive_link(struct verify *v, const struct redis_reply *key, const struct link_owner *o)
{
    report_begin(&v->report, "link %s", EXCERPT(o->link));
    verify_receive_ttl(v);
    if (reply_is_text(key, v->client->samples))
        return;
    if (!link_is_stored_shape(&v->client->options->hosts, o->link))
        report_problem(&v->report, "%s, so it is never found (" DELETE_KEY ")", CARD_INVALID_LINK);
    if (!o->found)
        report_problem(&v->report, "does not hold a channel id (" DELETE_KEY ", or load with --replace)");
    else if (!o->agrees)
        report_problem(&v->report,
                       "points to channel %lld, which has no card or a different link (" DELETE_KEY
                       ", or load with --replace)",
                       (long long)o->id);
}

static void verify_visit_links(struct verify *v, const struct redis_reply *keys, size_t count)
{
    struct client *c = v->client;
    struct link_owner *owner = client_find_owners(c, keys, count);
    CLIENT_PIPELINE(i, owner == NULL ? 0 : count, true, CLIENT_SEND(c, SPAN("PTTL"), reply_text(&keys[i])),
                    verify_receive_link(v, &keys[i], &owner[i]));
    free(owner);
}

/* --- The command --- */

static void verify_catalogue(struct client *c, void *arg)
{
    struct verify *v = arg;
    v->client = c;
    v->report.stopped = &c->failed;
    verify_warn_of_eviction(c);
    verify_check_load(v);
    verify_check_api_keys(v);
    verify_check_index(v);
    verify_scan(v, (struct client_scan){.kind = KEYSPACE_CARD}, verify_visit_cards);
    verify_scan(v, (struct client_scan){.kind = KEYSPACE_LINK}, verify_visit_links);
    if (client_status(c) != 0)
        return;
    report_finish(&v->report);
    (void)printf("%lld channel%s, %lld API key%s, ", (long long)v->channels, plural(v->channels),
                 (long long)v->keys, plural(v->keys));
    if (v->report.problems == 0)
        print_line(stdout, "no problems found");
    else
        print_line(stdout, "%lld problem%s", (long long)v->report.problems, plural(v->report.problems));
}

int command_verify(const struct options *o)
{
    struct verify v = {.report.to = stdout, .now = clock_wall_s()};
    int code = client_run(o, CLIENT_CATALOGUE, verify_catalogue, &v);
    return code == EXIT_OK && v.report.problems > 0 ? EXIT_FAILED : code;
}
