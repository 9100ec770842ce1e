/* Commands, replies, bodies, and the reports of invalid values; see body.h. */
#include "cache/body.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- commands --- */

/* Composes all of an HMGET but the key. */
static int body_init_hmget(struct commands *c, enum channel_shape shape)
{
    size_t count = 0;
    const enum channel_field *fields = channel_shape_fields(shape, &count);
    struct buf *text = &c->hmget[shape].text;
    command_begin(text, 2 + count);
    command_add(text, SPAN("HMGET"));
    c->hmget[shape].head = text->len;
    for (size_t i = 0; i < count; i++)
        command_add(text, channel_field_name(fields[i]));
    return buf_error(text);
}

/*
 * Composes a command about an API key with a digest of zeros, which is cut off again: all digests have the
 * same length. `c->key` is the key in Redis.
 */
static int body_init_key_command(struct commands *c, struct span name, struct buf *command)
{
    static const char digest[DIGEST_HEX_LEN];
    command_begin(command, 3);
    command_add(command, name);
    command_add_buf(command, &c->key);
    command_add(command, (struct span){digest, sizeof digest});
    if (buf_error(command) == 0)
        command->len -= sizeof digest + 2;
    return buf_error(command);
}

static int body_init_key_commands(struct commands *c)
{
    keyspace_api_keys(c->keyspace, &c->key);
    int sismember = body_init_key_command(c, SPAN("SISMEMBER"), &c->sismember);
    buf_clear(&c->key);
    keyspace_api_key_info(c->keyspace, &c->key);
    int hget = body_init_key_command(c, SPAN("HGET"), &c->hget);
    return sismember != 0 ? sismember : hget;
}

static void body_compose_hmget(struct commands *c, int64_t id, enum channel_shape shape)
{
    struct span text = buf_span(&c->hmget[shape].text);
    size_t head = c->hmget[shape].head;
    buf_clear(&c->key);
    keyspace_card(c->keyspace, &c->key, id);
    buf_clear(&c->command);
    buf_append(&c->command, text.data, head);
    command_add_buf(&c->command, &c->key);
    buf_append_span(&c->command, span_skip(text, head));
}

void commands_set_key(struct commands *c, const struct digest *key)
{
    digest_hex(key, c->digest);
    c->digest[DIGEST_HEX_LEN] = '\r';
    c->digest[DIGEST_HEX_LEN + 1] = '\n';
}

static const struct buf *body_compose_key_command(struct commands *c, const struct buf *begin)
{
    buf_clear(&c->command);
    buf_append_span(&c->command, buf_span(begin));
    buf_append(&c->command, c->digest, sizeof c->digest);
    return &c->command;
}

const struct buf *commands_key_info(struct commands *c)
{
    return body_compose_key_command(c, &c->hget);
}

const struct buf *commands_auth(struct commands *c)
{
    return body_compose_key_command(c, &c->sismember);
}

const struct buf *commands_link(struct commands *c, struct span link)
{
    buf_clear(&c->key);
    keyspace_link(c->keyspace, &c->key, link);
    buf_clear(&c->command);
    command_begin(&c->command, 2);
    command_add(&c->command, SPAN("GET"));
    command_add_buf(&c->command, &c->key);
    return &c->command;
}

/* Begins a command on the index, with `words` words after its name and key. */
static void body_begin_index_command(struct commands *c, struct span name, size_t words)
{
    buf_clear(&c->key);
    keyspace_index(c->keyspace, &c->key);
    buf_clear(&c->command);
    command_begin(&c->command, 2 + words);
    command_add(&c->command, name);
    command_add_buf(&c->command, &c->key);
}

/* One member more than a page holds is read: it shows whether a further page exists. */
static void body_compose_zrange(struct commands *c, int64_t page)
{
    int64_t rank = page_first_rank(page);
    body_begin_index_command(c, SPAN("ZRANGE"), 2);
    command_add_int(&c->command, rank);
    command_add_int(&c->command, rank + PAGE_SIZE);
}

const struct buf *commands_index_size(struct commands *c)
{
    body_begin_index_command(c, SPAN("ZCARD"), 0);
    return &c->command;
}

const struct buf *commands_read(struct commands *c, const struct entry_source *source)
{
    if (source->kind == ENTRY_PAGE)
        body_compose_zrange(c, source->number);
    else
        body_compose_hmget(c, source->number, source->kind == ENTRY_CARD ? CHANNEL_CARD : CHANNEL_SUMMARY);
    return &c->command;
}

int commands_init(struct commands *c, const struct keyspace *keyspace)
{
    *c = (struct commands){.keyspace = keyspace};
    int card = body_init_hmget(c, CHANNEL_CARD);
    int summary = body_init_hmget(c, CHANNEL_SUMMARY);
    int keys = body_init_key_commands(c);
    return card != 0 || summary != 0 || keys != 0 ? -ENOMEM : 0;
}

/* --- channels and links --- */

enum value_state body_parse_row(const struct redis_reply *reply, enum channel_shape shape,
                                struct channel_row *row)
{
    size_t count = 0;
    const enum channel_field *fields = channel_shape_fields(shape, &count);
    *row = (struct channel_row){0};
    if (reply->type != REPLY_ARRAY || reply->elements != count)
        return VALUE_INVALID;
    const struct redis_reply *value = reply_first(reply);
    for (size_t i = 0; i < count; i++, value++) { /* an array ends it */
        if (value->type == REPLY_STRING)
            row->value[fields[i]] = reply_text(value);
        else if (value->type != REPLY_NIL)
            return VALUE_INVALID;
    }
    return channel_row_is_empty(row, CHANNEL_SUMMARY) ? VALUE_ABSENT : VALUE_PRESENT;
}

enum value_state body_parse_link(const struct redis_reply *reply, int64_t *id, bool *malformed)
{
    *malformed = false;
    if (reply->type == REPLY_NIL)
        return VALUE_ABSENT;
    if (reply->type != REPLY_STRING)
        return VALUE_INVALID;
    *malformed = parse_int64(reply_text(reply), id) != 0;
    return *malformed ? VALUE_ABSENT : VALUE_PRESENT;
}

unsigned body_write(struct buf *text, const struct channel_row *row, enum channel_shape shape)
{
    buf_recycle(text, BODY_TEXT_KEPT);
    if (shape == CHANNEL_CARD)
        document_begin_card(text);
    unsigned invalid = channel_write(text, row, shape);
    if (shape == CHANNEL_CARD)
        document_end_card(text);
    return invalid;
}

/* --- reports --- */

/*
 * A later date than any time zone explains is an error of the loader, and would hide that the loader has
 * stopped.
 */
enum { ZONE_MAX_S = 14 * 3600 };

static bool body_is_due(struct value_reports *r, int64_t id, enum value_report kind)
{
    size_t slot = ((uint64_t)id * 0x9E3779B97F4A7C15U) >> 54; /* the top ten bits of a Fibonacci hash */
    _Static_assert(VALUE_REPORTS == 1 << 10, "as many as ten bits");
    if (r->logged[slot].kind == kind && r->logged[slot].id == id)
        return false;
    r->logged[slot].kind = kind;
    r->logged[slot].id = id;
    return true;
}

/* Valid date-times compare as text. */
void value_reports_note_update(struct value_reports *r, const struct channel_row *row)
{
    struct span updated_at = row->value[CHANNEL_FIELD_updated_at];
    if (updated_at.len != DATETIME_LEN || memcmp(updated_at.data, r->newest_update, DATETIME_LEN) <= 0 ||
        !datetime_valid(updated_at))
        return;
    int64_t updated_s = datetime_to_unix(updated_at);
    if (updated_s < 0 || updated_s > (int64_t)time(NULL) + ZONE_MAX_S)
        return;
    memcpy(r->newest_update, updated_at.data, DATETIME_LEN);
    metric_set(&r->metrics->catalogue_updated_timestamp_seconds, (uint64_t)updated_s);
}

void value_reports_invalid(struct value_reports *r, int64_t id, unsigned fields)
{
    if (fields == 0)
        return;
    struct log_line line; /* declared here, since it is large and the compiler fills it with zeros */
    metric_add(&r->metrics->invalid_values_total, (uint64_t)__builtin_popcount(fields));
    if (!body_is_due(r, id, VALUE_REPORT_INVALID) ||
        !log_begin(&line, LOG_WARN, "invalid value in redis, served as absent"))
        return;
    log_int(&line, "channel", id);
    log_str(&line, "field", channel_field_name((enum channel_field)__builtin_ctz(fields)));
    log_int(&line, "fields", __builtin_popcount(fields));
    log_end(&line);
}

void value_reports_oversize(struct value_reports *r, struct span key)
{
    struct log_line line;
    if (!body_is_due(r, (int64_t)hash_bytes(key, 0), VALUE_REPORT_OVERSIZE) ||
        !log_begin(&line, LOG_ERROR, resp_oversize.str))
        return;
    log_str(&line, "key", key);
    log_end(&line);
}

void value_reports_error(struct value_reports *r, const struct redis_reply *reply)
{
    enum { INTERVAL_MS = 1000 };
    metric_add(&r->metrics->redis_error_replies_total, 1);
    uint64_t now = clock_now_ms();
    if (now - r->error_logged_ms < INTERVAL_MS)
        return;
    r->error_logged_ms = now;
    log_text(LOG_ERROR, "redis answered with an error", "reply", reply->str);
}

static void body_report_left_out(struct value_reports *r, int64_t id, const char *reason)
{
    struct log_line line;
    if (!body_is_due(r, id, VALUE_REPORT_LEFT_OUT) ||
        !log_begin(&line, LOG_WARN, "index member left out of its page"))
        return;
    log_int(&line, "channel", id);
    log_str(&line, "reason", span_of(reason));
    log_end(&line);
}

/* --- gaps --- */

static const char *body_describe_gap(enum page_gap gap)
{
    switch (gap) {
    case PAGE_GAP_WRONG_TYPE:
        return "its card is not a hash";
    case PAGE_GAP_OVERSIZE:
        return "its card is too large";
    default:
        return "no card";
    }
}

/* --- the members of a page --- */

bool page_members_parse(struct page_members *m, const struct redis_reply *reply)
{
    if (reply->type != REPLY_ARRAY)
        return false;
    m->has_next = reply->elements > PAGE_SIZE;
    m->count = m->invalid = 0;
    const struct redis_reply *member = reply_first(reply);
    for (size_t i = 0; i < reply->elements && i < PAGE_SIZE; i++, member++) {
        if (member->type != REPLY_STRING)
            return false;
        if (parse_int64(reply_text(member), &m->id[m->count]) == 0)
            m->count++;
        else
            m->invalid++;
    }
    return true;
}

/* --- a page --- */

/* The parts of a page before and behind the summaries are no longer than this. */
enum { FRAME_LENGTH = 192 };

struct page_builder *page_builder_new(int64_t number)
{
    struct page_builder *p = calloc(1, sizeof *p);
    if (p != NULL)
        p->number = number;
    return p;
}

static void body_drop_cached(struct page_builder *p)
{
    for (int i = p->written; i < p->members.count; i++) {
        blob_unref(p->cached[i]);
        p->cached[i] = NULL;
    }
}

void page_builder_free(struct page_builder *p)
{
    if (p == NULL)
        return;
    body_drop_cached(p);
    buf_fini(&p->body);
    free(p);
}

void page_builder_reset(struct page_builder *p)
{
    body_drop_cached(p);
    buf_fini(&p->body);
    p->members.count = p->members.invalid = 0;
    p->written = p->count = 0;
    memset(p->gap, 0, sizeof p->gap); /* PAGE_GAP_NONE */
}

void page_builder_set_known(struct page_builder *p, const struct entry_page *page)
{
    assert(p->members.count == 0 && page->member_count <= PAGE_SIZE);
    p->members.has_next = page->info.has_next;
    p->members.count = page->member_count;
    for (int i = 0; i < page->member_count; i++)
        p->members.id[i] = page->member[i];
}

int page_builder_gather(struct page_builder *p, struct entries *entries)
{
    int missing = 0;
    size_t length = FRAME_LENGTH;
    assert(p->written == 0);
    for (int i = 0; i < p->members.count; i++) {
        const struct entry *e = entries_find(entries, ENTRY_SUMMARY, p->members.id[i]);
        if (e != NULL && p->cached[i] == NULL)
            p->cached[i] = blob_ref(e->body);
        missing += p->cached[i] == NULL;
        length += p->cached[i] == NULL ? 0 : p->cached[i]->len + 1;
    }
    p->expected = p->expected > length ? p->expected : length;
    return missing;
}

void page_builder_report_gaps(const struct page_builder *p, struct value_reports *r)
{
    int left_out = p->members.invalid;
    for (int i = 0; i < p->members.count; i++) {
        if (p->gap[i] == PAGE_GAP_NONE)
            continue;
        left_out++;
        body_report_left_out(r, p->members.id[i], body_describe_gap(p->gap[i]));
    }
    metric_add(&r->metrics->dangling_index_entries_total, (uint64_t)left_out);
}

uint64_t page_builder_lack(const struct page_builder *p)
{
    uint64_t lack = (uint64_t)p->members.invalid;
    if (p->members.count == 0)
        return p->index_size == 0 || p->number <= page_last(p->index_size);
    for (int i = 0; i < p->members.count; i++)
        if (p->gap[i] == PAGE_GAP_ABSENT)
            lack = mix_bits(lack + (uint64_t)p->members.id[i]) | 1;
    return lack;
}

/*
 * The size of the index and its members were read by two commands. This makes `last` consistent with
 * has_next.
 */
static int64_t body_last_page(const struct page_builder *p)
{
    int64_t last = page_last(p->index_size);
    if (p->members.has_next && last <= p->number)
        return p->number + 1;
    if (!p->members.has_next && last > p->number)
        return p->number;
    return last;
}

/* Writes the beginning of the page, or the comma, before the next summary. */
static void body_begin_summary(struct page_builder *p)
{
    if (p->count++ > 0) {
        buf_append_char(&p->body, ',');
        return;
    }
    blob_begin(&p->body, p->expected);
    document_begin_page(&p->body);
}

static void body_write_cached_before(struct page_builder *p, int end)
{
    for (; p->written < end; p->written++) {
        struct blob *summary = p->cached[p->written];
        if (summary == NULL)
            continue;
        body_begin_summary(p);
        buf_append(&p->body, summary->data, summary->len);
        blob_unref(summary);
        p->cached[p->written] = NULL;
    }
}

unsigned page_builder_write_summary(struct page_builder *p, int at, const struct channel_row *row,
                                    struct span *summary)
{
    assert(at >= p->written && at < p->members.count && p->cached[at] == NULL);
    body_write_cached_before(p, at);
    body_begin_summary(p);
    size_t start = p->body.len;
    unsigned invalid = channel_write(&p->body, row, CHANNEL_SUMMARY);
    p->written = at + 1;
    *summary = buf_error(&p->body) == 0 ? span_skip(buf_span(&p->body), start) : SPAN_ABSENT;
    return invalid;
}

struct blob *page_builder_compose(struct page_builder *p, struct page_info *info)
{
    body_write_cached_before(p, p->members.count);
    *info = (struct page_info){
        .page = p->number, .last = body_last_page(p), .count = p->count, .has_next = p->members.has_next};
    if (p->count == 0) {
        blob_begin(&p->body, 0);
        document_begin_page(&p->body);
    }
    document_end_page(&p->body, info);
    return blob_finish(&p->body);
}
