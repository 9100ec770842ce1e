/* Zipf's law and a crawler; see trace.h. */
#include "trace.h"
#include "common.h"

#include <math.h>
#include <stdlib.h>

static void *make_array(size_t count, size_t size)
{
    void *array = calloc(count, size);
    if (array == NULL)
        die("out of memory");
    return array;
}

static void compute_distribution(struct trace *s)
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

/* Fisher and Yates' shuffle. Returns the objects in the order of popularity; the caller owns the array. */
static uint32_t *shuffle_ranks(struct trace *s, uint64_t *random)
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

/* The inverse of the cumulative distribution at a random point: exact, unlike the usual approximations. */
static uint32_t draw_rank(const struct trace *s, uint64_t *random)
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

bool trace_is_crawler(const struct trace *s, uint32_t at)
{
    return s->options.crawler && at >= s->options.warm_up &&
           (at - s->options.warm_up) % CRAWLER_INTERVAL == 0;
}

static void draw_requests(struct trace *s, const uint32_t *popular, uint64_t *random)
{
    uint32_t crawled = 0;
    for (uint32_t at = 0; at < s->length; at++)
        s->object[at] = trace_is_crawler(s, at) ? crawled++ : popular[draw_rank(s, random)];
}

/* Goes from the end to the beginning: the use met last is the next use. */
static void find_next_uses(struct trace *s)
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

void trace_init(struct trace *s, const struct trace_options *options)
{
    uint64_t random = options->seed;
    *s = (struct trace){.options = *options};
    if (options->crawler)
        s->options.counted = options->objects * CRAWLER_INTERVAL;
    s->length = options->warm_up + s->options.counted;
    s->object = make_array(s->length, sizeof *s->object);
    s->next_use = make_array(s->length, sizeof *s->next_use);
    compute_distribution(s);
    uint32_t *popular = shuffle_ranks(s, &random);
    draw_requests(s, popular, &random);
    find_next_uses(s);
    free(popular);
}

void trace_fini(struct trace *s)
{
    free(s->object);
    free(s->next_use);
    free(s->rank);
    free(s->cumulative);
}
