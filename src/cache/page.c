/* Members of the index, gaps and composition of a page; see page.h. */
#include "cache/page.h"

#include "base/text.h"

#include <stdlib.h>

static const char *describe_gap(enum page_gap gap)
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

bool page_members_parse(struct page_members *m, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY)
        return false;
    m->has_next = reply->elements > PAGE_SIZE;
    m->count = m->invalid = 0;
    for (size_t i = 0; i < reply->elements && i < PAGE_SIZE; i++) {
        const redisReply *member = reply->element[i];
        if (member->type != REDIS_REPLY_STRING)
            return false;
        if (parse_int64((struct span){member->str, member->len}, &m->id[m->count]) == 0)
            m->count++;
        else
            m->invalid++;
    }
    return true;
}

/* --- a page --- */

struct page_builder *page_builder_new(int64_t number)
{
    struct page_builder *p = calloc(1, sizeof *p);
    if (p != NULL)
        p->number = number;
    return p;
}

static void drop_summaries(struct page_builder *p)
{
    for (int i = 0; i < p->members.count; i++) {
        blob_unref(p->summary[i]);
        p->summary[i] = NULL;
    }
}

void page_builder_free(struct page_builder *p)
{
    if (p == NULL)
        return;
    drop_summaries(p);
    free(p);
}

void page_builder_reset(struct page_builder *p)
{
    drop_summaries(p);
    p->members.count = p->members.invalid = 0;
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
    for (int i = 0; i < p->members.count; i++) {
        const struct entry *e = entries_find(entries, ENTRY_SUMMARY, entries_key_of(&p->members.id[i]));
        p->gap[i] = PAGE_GAP_NONE;
        if (e != NULL && e->body != NULL && p->summary[i] == NULL)
            p->summary[i] = blob_ref(e->body);
        missing += p->summary[i] == NULL;
    }
    return missing;
}

void page_builder_report_gaps(const struct page_builder *p, struct value_reports *r)
{
    int left_out = p->members.invalid;
    for (int i = 0; i < p->members.count; i++) {
        if (p->gap[i] == PAGE_GAP_NONE)
            continue;
        left_out++;
        values_report_left_out(r, p->members.id[i], describe_gap(p->gap[i]));
    }
    metric_add(&r->metrics->dangling_index_entries_total, (uint64_t)left_out);
}

bool page_builder_is_incomplete(const struct page_builder *p)
{
    bool incomplete = p->members.invalid > 0;
    for (int i = 0; i < p->members.count; i++)
        incomplete = incomplete || p->gap[i] == PAGE_GAP_ABSENT;
    return incomplete;
}

bool page_builder_lacks_something(const struct page_builder *p)
{
    if (p->members.count == 0)
        return p->index_size == 0 || p->number <= page_last(p->index_size);
    return page_builder_is_incomplete(p);
}

/* The size of the index and its members were read by two commands: makes `last` consistent with has_next. */
static int64_t last_page(const struct page_builder *p)
{
    int64_t last = page_last(p->index_size);
    if (p->members.has_next && last <= p->number)
        return p->number + 1;
    if (!p->members.has_next && last > p->number)
        return p->number;
    return last;
}

static int write_summaries(const struct page_builder *p, struct buf *out)
{
    int written = 0;
    for (int i = 0; i < p->members.count; i++) {
        if (p->summary[i] == NULL)
            continue;
        if (written++ > 0)
            buf_append_char(out, ',');
        buf_append(out, p->summary[i]->data, p->summary[i]->len);
    }
    return written;
}

struct blob *page_builder_compose(const struct page_builder *p, struct buf *text, struct page_info *info)
{
    *info = (struct page_info){.page = p->number, .last = last_page(p), .has_next = p->members.has_next};
    buf_recycle(text, VALUES_TEXT_KEPT);
    document_begin_page(text);
    info->count = write_summaries(p, text);
    document_end_page(text, info);
    return buf_error(text) == 0 ? blob_new_tagged(buf_span(text)) : NULL;
}
