/* The members, the gaps and the body of a page; see page.h. */
#include "cache/page.h"

#include "base/hash.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* The parts of a page before and behind the summaries are no longer than this, and most summaries. */
enum { FRAME_LENGTH = 192, SUMMARY_LENGTH = 700 };

bool page_members_parse(struct page_members *m, const struct redis_reply *reply)
{
    if (reply->type != REPLY_ARRAY)
        return false;
    m->has_next = reply->elements > PAGE_SIZE;
    m->count = m->invalid = 0;
    const struct redis_reply *member = reply_first(reply);
    for (size_t i = 0; i < reply->elements && i < PAGE_SIZE; i++, member++) {
        struct page_member *next = &m->member[m->count];
        if (member->type != REPLY_STRING)
            return false;
        if (parse_int64(reply_text(member), &next->id) == 0)
            m->count++;
        else
            m->invalid++;
    }
    return true;
}

struct page_builder *page_builder_new(struct entries *entries, int64_t number)
{
    struct page_builder *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->entries = entries;
    p->number = number;
    return p;
}

void page_builder_free(struct page_builder *p)
{
    entries_free_page(p->entries, p->entry);
    buf_fini(&p->text);
    free(p);
}

/* Most members follow each other in both lists, so the search for one begins behind the one before. */
static void page_take(struct entry_page *page, struct buf *out, const struct entry *old, const char *text)
{
    const struct entry_page *from = entry_page(old);
    int next = 0;
    for (int i = 0; i < page->member_count; i++) {
        struct page_member *m = &page->member[i];
        int at = page_member_find(from->member, from->member_count, m->id, next);
        next = at + 1;
        if (at < 0 || m->len > 0 || !page_has_current(from, at))
            continue;
        m->offset = (uint32_t)out->len;
        m->len = from->member[at].len;
        buf_append(out, text + from->member[at].offset, m->len);
    }
}

static int page_set_members(struct page_builder *p, const struct page_member *members, int count,
                            const struct entry *e)
{
    struct buf text = BUF_INIT;
    struct entry *entry = entries_new_page(p->entries, p->number, members, count);
    if (entry == NULL)
        return -ENOMEM;
    (void)buf_reserve(&text, (size_t)count * SUMMARY_LENGTH);
    if (p->entry != NULL && !entries_was_cleared(p->entries, entry_page(p->entry)->index_epoch))
        page_take(entries_page_of(entry), &text, p->entry, p->text.data);
    if (e != NULL)
        page_take(entries_page_of(entry), &text, e, e->body->data);
    entries_free_page(p->entries, p->entry);
    p->entry = entry;
    buf_fini(&p->text);
    p->text = text;
    memset(p->reads, 0, sizeof p->reads); /* PAGE_GAP_NONE */
    return buf_error(&text);
}

int page_builder_read_list(struct page_builder *p, const struct redis_reply *reply, const struct entry *e)
{
    struct page_members m;
    if (!page_members_parse(&m, reply))
        return -EINVAL;
    p->has_next = m.has_next;
    p->invalid = m.invalid;
    return page_set_members(p, m.member, m.count, e);
}

int page_builder_take_list(struct page_builder *p, const struct entry *e)
{
    const struct entry_page *page = entry_page(e);
    p->has_next = page->info.has_next;
    p->index_size = page->index_size;
    return page_set_members(p, page->member, page->member_count, e);
}

static int page_count(const struct page_builder *p)
{
    return p->entry == NULL ? 0 : entry_page(p->entry)->member_count;
}

int page_builder_next_missing(const struct page_builder *p, int from)
{
    for (int at = from; at < page_count(p); at++)
        if (entry_page(p->entry)->member[at].len == 0 && p->reads[at].gap == PAGE_GAP_NONE)
            return at;
    return -1;
}

unsigned page_builder_write(struct page_builder *p, int at, const struct channel_row *row)
{
    struct page_member *m = &entries_page_of(p->entry)->member[at];
    assert(at < page_count(p) && m->len == 0);
    m->offset = (uint32_t)p->text.len;
    unsigned invalid = channel_write(&p->text, row, CHANNEL_SUMMARY);
    m->len = (uint32_t)(p->text.len - m->offset);
    return invalid;
}

static const char *page_describe_gap(enum page_gap gap)
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

void page_builder_report_gaps(const struct page_builder *p, struct value_reports *r)
{
    int left_out = p->invalid;
    for (int i = 0; i < page_count(p); i++) {
        if (p->reads[i].gap == PAGE_GAP_NONE)
            continue;
        left_out++;
        value_reports_left_out(r, page_builder_id(p, i), page_describe_gap(p->reads[i].gap));
    }
    metric_add(&r->metrics->dangling_index_entries_total, (uint64_t)left_out);
}

uint64_t page_builder_lack(const struct page_builder *p)
{
    uint64_t lack = (uint64_t)p->invalid;
    if (page_count(p) == 0)
        return p->index_size == 0 || p->number <= page_last(p->index_size);
    for (int i = 0; i < page_count(p); i++)
        if (entry_page(p->entry)->member[i].len == 0 && p->reads[i].gap <= PAGE_GAP_ABSENT)
            lack = mix_bits(lack + (uint64_t)page_builder_id(p, i)) | 1;
    return lack;
}

/* The index's size and members were read by two commands: `last` becomes consistent with has_next. */
static int64_t page_last_of(const struct page_builder *p)
{
    int64_t last = page_last(p->index_size);
    if (p->has_next && last <= p->number)
        return p->number + 1;
    if (!p->has_next && last > p->number)
        return p->number;
    return last;
}

struct blob *page_builder_compose(struct page_builder *p, struct page_info *info)
{
    struct buf body = BUF_INIT;
    *info = (struct page_info){.page = p->number, .last = page_last_of(p), .has_next = p->has_next};
    if (buf_error(&p->text) != 0)
        return NULL;
    entries_page_of(p->entry)->index_size = p->index_size;
    blob_begin(&body, p->text.len + PAGE_SIZE + FRAME_LENGTH);
    buf_append_str(&body, DOCUMENT_BEGIN_PAGE);
    for (int i = 0; i < page_count(p); i++) {
        struct page_member *m = &entries_page_of(p->entry)->member[i];
        if (m->len == 0)
            continue;
        if (info->count++ > 0)
            buf_append_char(&body, ',');
        struct span summary = {p->text.data + m->offset, m->len};
        m->offset = (uint32_t)(body.len - sizeof(struct blob));
        buf_append_span(&body, summary);
    }
    document_end_page(&body, info);
    return blob_finish(&body);
}
