/*
 * How many requests channeld's way of eviction, SIEVE, answers from a full cache, beside others and the best
 * that is possible.
 *
 *   hitratio [--objects N] [--requests N] [--skew S] [--seed N]
 *
 * Two streams of requests over N objects of equal size (default: 100,000) that follow Zipf's law (default:
 * 0.9). The first is of readers alone: --requests (default: 5,000,000) are counted. The second has a crawler
 * in it that asks for each object once; counted is the time that it takes. Either begins with a warm-up from
 * an empty cache, of 20 requests an object, which is not counted.
 *
 * Fails when what must hold does not: no policy beats the optimum, and the most popular objects are asked for
 * as often as Zipf's law has it.
 */
#include "net.h"
#include "policies.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIEVE, LRU, FIFO, POPULAR, OPTIMUM, POLICIES };
enum { WARM_UP_ROUNDS = 20, SIZES = 5 };

/* How far, of 1, a share of the stream may be from what the law says. */
#define TOLERANCE 0.005

static const struct policy *const policies[POLICIES] = {[SIEVE] = &policy_sieve,
                                                        [LRU] = &policy_lru,
                                                        [FIFO] = &policy_fifo,
                                                        [POPULAR] = &policy_popular,
                                                        [OPTIMUM] = &policy_optimum};

static const uint32_t percents[SIZES] = {1, 5, 10, 25, 50};

/* Whose requests are counted: all in the whole stream, its warm-up too; all after it; of those the readers'
 * alone. */
enum requests { EVER, COUNTED, READERS, SPANS };

struct tally {
    uint32_t hits[SPANS];
};

struct results {
    const struct stream *stream;
    struct tally tally[SIZES][POLICIES];
};

/* --- Simulating ----------------------------------------------------------------------------------------- */

static uint32_t capacity_of(const struct stream *s, int size)
{
    return (uint32_t)((uint64_t)s->options.objects * percents[size] / 100);
}

static struct tally simulate(const struct stream *stream, uint32_t capacity, const struct policy *policy)
{
    struct tally t = {0};
    struct simulation s;
    simulation_init(&s, stream, capacity);
    for (uint32_t at = 0; at < stream->length; at++) {
        if (!policy->ask(&s, at))
            continue;
        bool counted = at >= stream->options.warm_up;
        t.hits[EVER]++;
        t.hits[COUNTED] += counted;
        t.hits[READERS] += counted && !stream_is_crawled(stream, at);
    }
    simulation_fini(&s);
    return t;
}

static void simulate_all(struct results *r, const struct stream *stream)
{
    r->stream = stream;
    for (int size = 0; size < SIZES; size++)
        for (int p = 0; p < POLICIES; p++)
            r->tally[size][p] = simulate(stream, capacity_of(stream, size), policies[p]);
}

/* --- Checking ------------------------------------------------------------------------------------------- */

/*
 * Of the whole stream this is a theorem. Of the counted part it is not, as another policy might pay for later
 * hits during the warm-up; but a line that says otherwise must not be shown.
 */
static void check_optimum(const struct results *r)
{
    for (int size = 0; size < SIZES; size++) {
        const struct tally *best = &r->tally[size][OPTIMUM];
        for (int p = 0; p < POLICIES; p++) {
            const struct tally *other = &r->tally[size][p];
            if (other->hits[EVER] > best->hits[EVER] || other->hits[COUNTED] > best->hits[COUNTED])
                die("%s beats the optimum in a cache of %u%%", policies[p]->name, percents[size]);
        }
    }
}

/* Hits of the most popular objects have a known share: it tells that the stream is what it claims to be. */
static void check_law(const struct results *r)
{
    const struct stream *s = r->stream;
    for (int size = 0; size < SIZES; size++) {
        double share = (double)r->tally[size][POPULAR].hits[COUNTED] / s->options.counted;
        double law = s->cumulative[capacity_of(s, size) - 1];
        if (fabs(share - law) > TOLERANCE)
            die("the most popular %u%% are asked for by %.4f of requests, not %.4f", percents[size], share,
                law);
    }
}

/* --- Showing -------------------------------------------------------------------------------------------- */

static void show_heading(void)
{
    printf("%-6s %8s", "cache", "objects");
    for (int p = 0; p < POLICIES; p++)
        printf(" %8s", policies[p]->name);
    printf(" %13s %11s %11s\n", "SIEVE - LRU", "of popular", "of optimum");
}

static void show_line(const struct stream *s, int size, const double *hits, uint32_t requests)
{
    printf("%5u%% %8u", percents[size], capacity_of(s, size));
    for (int p = 0; p < POLICIES; p++)
        printf(" %7.2f%%", 100 * hits[p] / requests);
    printf(" %+13.2f %10.1f%% %10.1f%%\n", 100 * (hits[SIEVE] - hits[LRU]) / requests,
           100 * hits[SIEVE] / hits[POPULAR], 100 * hits[SIEVE] / hits[OPTIMUM]);
}

/* `requests`: how many there were of them. */
static void show(const struct results *r, enum requests whose, uint32_t requests)
{
    show_heading();
    for (int size = 0; size < SIZES; size++) {
        double hits[POLICIES];
        for (int p = 0; p < POLICIES; p++)
            hits[p] = r->tally[size][p].hits[whose];
        show_line(r->stream, size, hits, requests);
    }
}

/* --- The two streams ------------------------------------------------------------------------------------ */

static void without_crawler(struct stream_options options)
{
    struct stream stream;
    struct results results;
    stream_init(&stream, &options);
    simulate_all(&results, &stream);
    check_optimum(&results);
    check_law(&results);
    printf("Zipf(%g) over %u objects: hits of %u requests, after %u of warm-up\n\n", options.skew,
           options.objects, options.counted, options.warm_up);
    show(&results, COUNTED, stream.options.counted);
    stream_fini(&stream);
}

static void with_crawler(struct stream_options options)
{
    struct stream stream;
    struct results results;
    options.crawler = true;
    stream_init(&stream, &options);
    simulate_all(&results, &stream);
    check_optimum(&results);
    printf("\nThe same readers while a crawler asks for each object once, every %dth request of %u: hits of "
           "all\n\n",
           CRAWLER_TURN, stream.options.counted);
    show(&results, COUNTED, stream.options.counted);
    printf("\nHits of the readers' requests alone in this time\n\n");
    show(&results, READERS, stream.options.counted - stream.options.objects);
    stream_fini(&stream);
}

static double parse_skew(const char *text)
{
    char *end;
    double skew = strtod(text, &end);
    if (end == text || *end != '\0' || !(skew >= 0 && skew <= 5))
        die("%s: a number from 0 to 5 is expected", text);
    return skew;
}

static struct stream_options read_options(int argc, char **argv)
{
    static const struct option known[] = {{"objects", 1, NULL, 'o'},
                                          {"requests", 1, NULL, 'r'},
                                          {"skew", 1, NULL, 'k'},
                                          {"seed", 1, NULL, 's'},
                                          {NULL, 0, NULL, 0}};
    struct stream_options o = {.objects = 100000, .counted = 5000000, .skew = 0.9, .seed = 1};
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
        case 'o':
            o.objects = (uint32_t)parse_number(optarg, 100, 10000000);
            break;
        case 'r':
            o.counted = (uint32_t)parse_number(optarg, 1000, 1000000000);
            break;
        case 'k':
            o.skew = parse_skew(optarg);
            break;
        case 's':
            o.seed = (uint64_t)parse_number(optarg, 1, INT64_MAX);
            break;
        default:
            exit(2);
        }
    }
    if (optind != argc)
        die("nothing but options is expected");
    o.warm_up = o.objects * WARM_UP_ROUNDS;
    return o;
}

int main(int argc, char **argv)
{
    struct stream_options options = read_options(argc, argv);
    without_crawler(options);
    with_crawler(options);
    return 0;
}
