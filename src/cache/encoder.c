/* Coding bodies in the thread pool; see encoder.h. */
#include "cache/encoder.h"

#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>

void encoder_init(struct encoder *e, uv_loop_t *loop, struct entries *entries, struct cache_metrics *metrics)
{
    *e = (struct encoder){.loop = loop, .entries = entries, .metrics = metrics};
}

/* Runs in a thread of the pool. */
static void encoder_work(uv_work_t *request)
{
    struct encoder *e = request->data;
    uint64_t began_ns = clock_now_ns();
    const struct span plain = {e->plain->data, e->plain->len};
    e->len = coding_compress(e->coding, plain, e->out, e->room);
    e->taken_ns = clock_now_ns() - began_ns;
}

static void encoder_add_to_entry(struct encoder *e)
{
    struct blob *coded = blob_new_coded((struct span){e->out, e->len}, e->coding, e->plain);
    /* not covered: out of memory */
    if (coded != NULL && entries_put_coded(e->entries, e->kind, e->number, e->plain, coded))
        metric_add(&e->metrics->cache_coded_total, 1);
    blob_unref(coded);
}

static void encoder_end_job(struct encoder *e)
{
    blob_unref(e->plain);
    free(e->out);
    e->plain = NULL;
    e->out = NULL;
    e->busy = false;
}

/* Runs in the loop. `status` is UV_ECANCELED when no thread has begun the work. */
static void encoder_done(uv_work_t *request, int status)
{
    struct encoder *e = request->data;
    if (status == 0 && e->closing == NULL && e->len > 0)
        encoder_add_to_entry(e);
    e->pause_until_ns = clock_now_ns() + e->taken_ns * (ENCODER_PART - 1);
    encoder_end_job(e);
    if (e->closing != NULL)
        wait_group_done(e->closing); /* the cache may be gone afterwards */
}

/* Without memory the body stays plain. */
static void encoder_begin(struct encoder *e, const struct entry *entry, enum coding coding)
{
    assert(!e->busy && e->closing == NULL);
    e->room = entry->body->len - entry->body->len / ENCODER_GAIN_PART;
    e->out = malloc(e->room);
    if (e->out == NULL)
        return;
    e->kind = (enum entry_kind)entry->kind;
    e->number = entry->number;
    e->coding = coding;
    e->plain = blob_ref(entry->body);
    e->len = 0;
    e->taken_ns = 0;
    e->work.data = e;
    e->busy = true;
    if (uv_queue_work(e->loop, &e->work, encoder_work, encoder_done) != 0)
        encoder_end_job(e);
}

static bool encoder_is_codable(const struct entry *entry)
{
    return entry->body->len >= ENCODER_MIN_BYTES && entry->body->len <= ENCODER_MAX_BYTES &&
           blob_etag(entry->body).data != NULL;
}

struct blob *encoder_body(struct encoder *e, const struct entry *entry, enum coding coding)
{
    struct blob *coded = entry_coded_body(entry, coding);
    if (coded != NULL)
        return blob_ref(coded);
    if (encoder_is_codable(entry)) {
        bool can_make = !e->busy && clock_now_ns() >= e->pause_until_ns;
        if (entries_want_coded(e->entries, (enum entry_kind)entry->kind, entry->number, coding, can_make))
            encoder_begin(e, entry, coding);
    }
    return blob_ref(entry->body);
}

void encoder_close(struct encoder *e, struct wait_group *closing)
{
    e->closing = closing;
    if (!e->busy)
        return;
    wait_group_add(closing, 1);
    (void)uv_cancel((uv_req_t *)&e->work); /* encoder_done() follows in any case */
}
