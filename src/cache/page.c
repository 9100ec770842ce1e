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
        *next = (struct page_member){0};
        if (parse_int64(reply_text(member), &next->id) == 0)
            m->count++;
        else
            m->invalid++;
    }
    return true;
}

void page_members_copy(struct page_members *m, const struct entry_page *page)
{
    assert(page->member_count <= PAGE_SIZE);
    *m = (struct page_members){.count = page->member_count, .has_next = page->info.has_next};
    for (int i = 0; i < page->member_count; i++)
        m->member[i].id = page->member[i].id;
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
    page_builder_reset(p);
    buf_fini(&p->text);
    free(p);
}

void page_builder_reset(struct page_builder *p)
{
    entries_free_page(p->entries, p->entry);
    p->entry = NULL;
    p->members.count = 0;
    buf_clear(&p->text);
}

static void page_append(struct page_builder *p, int at, struct span summary)
{
    struct page_member *m = &p->members.member[at];
    m->offset = (uint32_t)p->text.len;
    m->len = (uint32_t)summary.len;
    buf_append_span(&p->text, summary);
}

/* Takes the places of summaries of an earlier read. Most members follow each other in both lists, so the
 * search for one begins behind the one before. */
static void page_keep(struct page_builder *p, const struct page_members *old)
{
    int next = 0;
    for (int i = 0; i < p->members.count; i++) {
        int at = page_member_find(old->member, old->count, p->members.member[i].id, next);
        next = at + 1;
        if (at >= 0 && entry_page(p->entry)->member[at].len > 0)
            p->members.member[i] = old->member[at];
    }
}

static void page_gather(struct page_builder *p, const struct entry *e)
{
    const struct entry_page *page = entry_page(e);
    int next = 0;
    (void)buf_reserve(&p->text, e->body->len);
    for (int i = 0; i < p->members.count; i++) {
        int at = page_member_find(page->member, page->member_count, p->members.member[i].id, next);
        const struct page_member *old = at < 0 ? NULL : &page->member[at];
        next = at + 1;
        if (old != NULL && old->len > 0 && p->members.member[i].len == 0)
            page_append(p, i, (struct span){e->body->data + old->offset, old->len});
    }
}

int page_builder_set_members(struct page_builder *p, const struct page_members *members,
                             const struct entry *e)
{
    const struct page_members old = p->members;
    struct entry *entry = entries_new_page(p->entries, p->number, members->member, members->count);
    if (entry == NULL)
        return -ENOMEM;
    p->members = *members;
    (void)buf_reserve(&p->text, (size_t)members->count * SUMMARY_LENGTH);
    page_keep(p, &old);
    if (e != NULL)
        page_gather(p, e);
    entries_free_page(p->entries, p->entry);
    p->entry = entry;
    memset(p->reads, 0, sizeof p->reads); /* PAGE_GAP_NONE */
    return 0;
}

int page_builder_next_missing(const struct page_builder *p, int from)
{
    while (from < p->members.count &&
           (p->members.member[from].len > 0 || p->reads[from].gap != PAGE_GAP_NONE))
        from++;
    return from < p->members.count && buf_error(&p->text) == 0 ? from : -1;
}

unsigned page_builder_write(struct page_builder *p, int at, const struct channel_row *row)
{
    struct page_member *m = &p->members.member[at];
    assert(at < p->members.count && m->len == 0);
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
    int left_out = p->members.invalid;
    for (int i = 0; i < p->members.count; i++) {
        if (p->reads[i].gap == PAGE_GAP_NONE)
            continue;
        left_out++;
        value_reports_left_out(r, p->members.member[i].id, page_describe_gap(p->reads[i].gap));
    }
    metric_add(&r->metrics->dangling_index_entries_total, (uint64_t)left_out);
}

uint64_t page_builder_lack(const struct page_builder *p)
{
    uint64_t lack = (uint64_t)p->members.invalid;
    if (p->members.count == 0)
        return p->index_size == 0 || p->number <= page_last(p->index_size);
    for (int i = 0; i < p->members.count; i++)
        if (p->reads[i].gap == PAGE_GAP_ABSENT)
            lack = mix_bits(lack + (uint64_t)p->members.member[i].id) | 1;
    return lack;
}

/*
 * The size of the index and its members were read by two commands. This makes `last` consistent with
 * has_next.
 */
static int64_t page_last_of(const struct page_builder *p)
{
    int64_t last = page_last(p->index_size);
    if (p->members.has_next && last <= p->number)
        return p->number + 1;
    if (!p->members.has_next && last > p->number)
        return p->number;
    return last;
}

/* Moves the summary into the body. */
static void page_place(struct page_builder *p, int at, struct buf *body)
{
    struct page_member *m = &p->members.member[at];
    struct span summary = {p->text.data + m->offset, m->len};
    m->offset = (uint32_t)(body->len - sizeof(struct blob));
    buf_append_span(body, summary);
}

struct blob *page_builder_compose(struct page_builder *p, struct page_info *info)
{
    struct buf body = BUF_INIT;
    *info = (struct page_info){.page = p->number, .last = page_last_of(p), .has_next = p->members.has_next};
    if (buf_error(&p->text) != 0)
        return NULL;
    blob_begin(&body, p->text.len + PAGE_SIZE + FRAME_LENGTH);
    document_begin_page(&body);
    for (int i = 0; i < p->members.count; i++) {
        if (p->members.member[i].len == 0)
            continue;
        if (info->count++ > 0)
            buf_append_char(&body, ',');
        page_place(p, i, &body);
    }
    document_end_page(&body, info);
    return blob_finish(&body);
}
