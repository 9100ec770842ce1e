/* Zipf's law and a crawler; see stream.h. */
#include "stream.h"
#include "net.h"

#include <math.h>
#include <stdlib.h>

static void *make_array(size_t count, size_t size)
{
    void *array = calloc(count, size);
    if (array == NULL)
        die("out of memory");
    return array;
}

static void weigh_ranks(struct stream *s)
{
    uint32_t count = s->options.objects;
    double total = 0;
    s->cumulative = make_array(count, sizeof *s->cumulative);
    for (uint32_t i = 0; i < count; i++) {
        total += pow((double)i + 1, -s->options.skew);
        s->cumulative[i] = total;
    }
    for (uint32_t i = 0; i < count; i++)
        s->cumulative[i] /= total;
}

/* Fisher and Yates' shuffle. Returns the objects from the most popular on; the caller owns it. */
static uint32_t *deal_ranks(struct stream *s, uint64_t *random)
{
    uint32_t count = s->options.objects;
    uint32_t *popular = make_array(count, sizeof *popular);
    s->rank = make_array(count, sizeof *s->rank);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = (uint32_t)prng_below(random, i + 1);
        popular[i] = popular[other];
        popular[other] = i;
    }
    for (uint32_t i = 0; i < count; i++)
        s->rank[popular[i]] = i;
    return popular;
}

/* The inverse of the cumulative distribution at a random place: exact, unlike the usual approximations. */
static uint32_t draw_rank(const struct stream *s, uint64_t *random)
{
    double place = (double)(prng_next(random) >> 11) * 0x1p-53;
    uint32_t low = 0;
    uint32_t high = s->options.objects - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (s->cumulative[middle] > place)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool stream_is_crawled(const struct stream *s, uint32_t at)
{
    return s->options.crawler && at >= s->options.warm_up && (at - s->options.warm_up) % CRAWLER_TURN == 0;
}

static void draw_requests(struct stream *s, const uint32_t *popular, uint64_t *random)
{
    uint32_t crawled = 0;
    for (uint32_t at = 0; at < s->length; at++)
        s->object[at] = stream_is_crawled(s, at) ? crawled++ : popular[draw_rank(s, random)];
}

/* From the end to the beginning: what was met last is the next use. */
static void find_next_uses(struct stream *s)
{
    uint32_t *met = make_array(s->options.objects, sizeof *met);
    for (uint32_t i = 0; i < s->options.objects; i++)
        met[i] = NEVER;
    for (uint32_t at = s->length; at-- > 0;) {
        s->next_use[at] = met[s->object[at]];
        met[s->object[at]] = at;
    }
    free(met);
}

void stream_init(struct stream *s, const struct stream_options *options)
{
    uint64_t random = options->seed;
    *s = (struct stream){.options = *options};
    if (options->crawler)
        s->options.counted = options->objects * CRAWLER_TURN;
    s->length = options->warm_up + s->options.counted;
    s->object = make_array(s->length, sizeof *s->object);
    s->next_use = make_array(s->length, sizeof *s->next_use);
    weigh_ranks(s);
    uint32_t *popular = deal_ranks(s, &random);
    draw_requests(s, popular, &random);
    find_next_uses(s);
    free(popular);
}

void stream_fini(struct stream *s)
{
    free(s->object);
    free(s->next_use);
    free(s->rank);
    free(s->cumulative);
}
