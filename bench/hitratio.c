/*
 * Hit ratios of channeld's eviction policy, SIEVE, compared with other policies and the optimum.
 *
 *   hitratio [--objects N] [--requests N] [--skew S] [--seed N]
 *
 * Two traces of requests for N objects of equal size (default: 100,000) that follow Zipf's law (default:
 * 0.9). The first has readers only: --requests (default: 5,000,000) are counted. The second also has a
 * crawler that requests each object once; counted are the requests during that time. Each begins with a
 * warm-up from an empty cache, of 20 requests per object, which is not counted.
 *
 * Fails when a policy beats the optimum, or when the most popular objects are not requested as often as
 * Zipf's law says.
 */
#include "common.h"
#include "policies.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIEVE, LRU, FIFO, POPULAR, OPTIMUM, POLICIES };
enum { WARM_UP_ROUNDS = 20, SIZES = 5 };

/* How far a share of the requests may be from Zipf's law. */
#define TOLERANCE 0.005

static const struct policy *const policies[POLICIES] = {[SIEVE] = &policy_sieve,
                                                        [LRU] = &policy_lru,
                                                        [FIFO] = &policy_fifo,
                                                        [POPULAR] = &policy_popular,
                                                        [OPTIMUM] = &policy_optimum};

static const uint32_t percents[SIZES] = {1, 5, 10, 25, 50};

/* Which requests are counted: all of the trace, all after the warm-up, or of those the readers' only. */
enum requests { ALL, COUNTED, READERS, REQUEST_SETS };

struct tally {
    uint32_t hits[REQUEST_SETS];
};

struct results {
    const struct trace *trace;
    struct tally tally[SIZES][POLICIES];
};

/* --- Simulating ----------------------------------------------------------------------------------------- */

static uint32_t capacity_of(const struct trace *s, int size)
{
    return (uint32_t)((uint64_t)s->options.objects * percents[size] / 100);
}

static struct tally simulate(const struct trace *trace, uint32_t capacity, const struct policy *policy)
{
    struct tally t = {0};
    struct simulation s;
    simulation_init(&s, trace, capacity);
    for (uint32_t at = 0; at < trace->length; at++) {
        if (!policy->access(&s, at))
            continue;
        bool counted = at >= trace->options.warm_up;
        t.hits[ALL]++;
        t.hits[COUNTED] += counted;
        t.hits[READERS] += counted && !trace_is_crawler(trace, at);
    }
    simulation_fini(&s);
    return t;
}

static void simulate_all(struct results *r, const struct trace *trace)
{
    r->trace = trace;
    for (int size = 0; size < SIZES; size++)
        for (int p = 0; p < POLICIES; p++)
            r->tally[size][p] = simulate(trace, capacity_of(trace, size), policies[p]);
}

/* --- Checking ------------------------------------------------------------------------------------------- */

/*
 * For the whole trace this is a theorem. For the counted part it is not, as another policy might trade hits
 * during the warm-up for later ones; but a result that says otherwise must not be shown.
 */
static void check_optimum(const struct results *r)
{
    for (int size = 0; size < SIZES; size++) {
        const struct tally *best = &r->tally[size][OPTIMUM];
        for (int p = 0; p < POLICIES; p++) {
            const struct tally *other = &r->tally[size][p];
            if (other->hits[ALL] > best->hits[ALL] || other->hits[COUNTED] > best->hits[COUNTED])
                die("%s beats the optimum in a cache of %u%%", policies[p]->name, percents[size]);
        }
    }
}

/* The share of hits of the most popular objects is known: it proves the distribution of the trace. */
static void check_law(const struct results *r)
{
    const struct trace *s = r->trace;
    for (int size = 0; size < SIZES; size++) {
        double share = (double)r->tally[size][POPULAR].hits[COUNTED] / s->options.counted;
        double law = s->cumulative[capacity_of(s, size) - 1];
        if (fabs(share - law) > TOLERANCE)
            die("the most popular %u%% receive %.4f of the requests, not %.4f", percents[size], share, law);
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

static void show_line(const struct trace *s, int size, const double *hits, uint32_t requests)
{
    printf("%5u%% %8u", percents[size], capacity_of(s, size));
    for (int p = 0; p < POLICIES; p++)
        printf(" %7.2f%%", 100 * hits[p] / requests);
    printf(" %+13.2f %10.1f%% %10.1f%%\n", 100 * (hits[SIEVE] - hits[LRU]) / requests,
           100 * hits[SIEVE] / hits[POPULAR], 100 * hits[SIEVE] / hits[OPTIMUM]);
}

/* `requests`: the size of the set. */
static void show(const struct results *r, enum requests set, uint32_t requests)
{
    show_heading();
    for (int size = 0; size < SIZES; size++) {
        double hits[POLICIES];
        for (int p = 0; p < POLICIES; p++)
            hits[p] = r->tally[size][p].hits[set];
        show_line(r->trace, size, hits, requests);
    }
}

/* --- The two traces ------------------------------------------------------------------------------------ */

static void without_crawler(struct trace_options options)
{
    struct trace trace;
    struct results results;
    trace_init(&trace, &options);
    simulate_all(&results, &trace);
    check_optimum(&results);
    check_law(&results);
    printf("Zipf(%g) over %u objects: hits of %u requests, after %u of warm-up\n\n", options.skew,
           options.objects, options.counted, options.warm_up);
    show(&results, COUNTED, trace.options.counted);
    trace_fini(&trace);
}

static void with_crawler(struct trace_options options)
{
    struct trace trace;
    struct results results;
    options.crawler = true;
    trace_init(&trace, &options);
    simulate_all(&results, &trace);
    check_optimum(&results);
    printf("\nThe same readers while a crawler requests each object once, every %dth request of %u: hits of "
           "all\n\n",
           CRAWLER_INTERVAL, trace.options.counted);
    show(&results, COUNTED, trace.options.counted);
    printf("\nHits of the readers' requests only\n\n");
    show(&results, READERS, trace.options.counted - trace.options.objects);
    trace_fini(&trace);
}

static double parse_skew(const char *text)
{
    char *end;
    double skew = strtod(text, &end);
    if (end == text || *end != '\0' || !(skew >= 0 && skew <= 5))
        die("%s: a number from 0 to 5 is expected", text);
    return skew;
}

static struct trace_options read_options(int argc, char **argv)
{
    static const struct option known[] = {{"objects", 1, NULL, 'o'},
                                          {"requests", 1, NULL, 'r'},
                                          {"skew", 1, NULL, 'k'},
                                          {"seed", 1, NULL, 's'},
                                          {NULL, 0, NULL, 0}};
    struct trace_options o = {.objects = 100000, .counted = 5000000, .skew = 0.9, .seed = 1};
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
        die("unexpected argument");
    o.warm_up = o.objects * WARM_UP_ROUNDS;
    return o;
}

int main(int argc, char **argv)
{
    struct trace_options options = read_options(argc, argv);
    without_crawler(options);
    with_crawler(options);
    return 0;
}
