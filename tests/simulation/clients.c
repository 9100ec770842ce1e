/* Requests at random times; see clients.h. */
#include "simulation/clients.h"

#include "simulation/costs.h"
#include "simulation/events.h"
#include "simulation/loop.h"
#include "simulation/oracle.h"
#include "simulation/random.h"
#include "simulation/scenario.h"
#include "simulation/trace.h"

#include <stdio.h>
#include <string.h>

/* At most so many wait, and those of bursts. Of the keys of others so many come often. */
enum { REQUESTS = 64, BURST = CLIENTS_PLACES, FEW = 16 };

static struct asked asked[REQUESTS + BURST];
static struct cache *cache;
static bool ended;

static unsigned pick(unsigned count)
{
    return random_below(STREAM_CLIENTS, count);
}

unsigned clients_waiting(void)
{
    unsigned waiting = 0;
    for (size_t i = 0; i < REQUESTS + BURST; i++)
        waiting += asked[i].waits;
    return waiting;
}

static void answered(struct asked *a, const struct cache_result *result)
{
    a->status = result->status;
    a->source = result->source;
    a->answered_ns = now_ns();
    costs_ended(a, result);
    oracle_answered(a, result);
    blob_unref(result->body);
}

static void on_done(void *arg, const struct cache_result *result)
{
    struct asked *a = arg;
    a->waits = false;
    answered(a, result);
}

static void ask(struct asked *a, enum cache_query_type type, int64_t number, int key)
{
    struct cache_result result;
    *a = (struct asked){.query = {.type = type, .number = number}, .key = key, .waits = true};
    a->request.done = on_done;
    a->request.arg = a;
    catalogue_digest(key, a->query.key.bytes);
    if (type == QUERY_CARD_BY_LINK) {
        int len = snprintf(a->link, sizeof a->link, "l%d", (int)number);
        a->query.number = 0;
        a->query.link = (struct span){a->link, (size_t)len};
    }
    oracle_asked(a);
    costs_asked(a);
    TRACE("client", "asks for type %d number %d key %d", type, (int)number, key);
    if (!cache_get(cache, &a->request, &a->query, &result))
        return;
    a->waits = false;
    answered(a, &result);
}

/* Mostly the same one; of the many the first few more often, and some that do not exist. */
static int any_key(void)
{
    int others = scenario.server[0].other_keys;
    if (pick(3) == 0)
        return (int)pick(KEYS + 1);
    if (others > 0 && pick(4) == 0)
        return OTHER_KEYS + (int)pick(pick(2) == 0 ? FEW : (unsigned)others + 8);
    return scenario_has(FAULT_keys) && pick(2) == 0 ? 1 : 0;
}

/* Mostly the first; seldom one that is far behind the end. */
static int64_t any_page(void)
{
    unsigned pages = 1 + (unsigned)(CARDS + scenario.server[0].catalogue.fixed) / PAGE;
    if (pick(32) == 0)
        return INT64_MAX >> pick(32);
    return 1 + pick(pick(4) == 0 ? pages + 2 : pages);
}

static void ask_any(struct asked *a)
{
    int key = any_key();
    switch (pick(8)) {
    case 0:
    case 1:
    case 2:
        ask(a, QUERY_CARD, 1 + pick(CARDS + 1), key);
        break;
    case 3:
    case 4:
        ask(a, QUERY_CARD_BY_LINK, pick(LINKS), key);
        break;
    case 5:
        ask(a, QUERY_AUTH_ONLY, 0, key);
        break;
    default:
        ask(a, QUERY_PAGE, any_page(), key);
        break;
    }
}

static void cancel(struct asked *a)
{
    TRACE("client", "cancels a request");
    cache_cancel(&a->request);
    costs_ended(a, NULL);
    a->waits = false;
}

static void request(void *arg)
{
    struct asked *a = &asked[pick(REQUESTS)];
    (void)arg;
    if (ended)
        return;
    if (a->waits && scenario_has(FAULT_cancel) && pick(2) == 0)
        cancel(a);
    if (!a->waits)
        ask_any(a);
}

/* All in one turn of the loop: for cards that do not exist, or with keys of nobody. They may be too many. */
static void request_burst(void *arg)
{
    bool with_keys = pick(2) == 0;
    int nobody = OTHER_KEYS + scenario.server[0].other_keys;
    (void)arg;
    scenario_delay_answers(scenario.settings.request_timeout_ms * MS);
    TRACE("client", "a burst comes");
    for (int i = 0; i < BURST && !ended; i++)
        if (!asked[REQUESTS + i].waits)
            ask(&asked[REQUESTS + i], QUERY_CARD, 1000 + i, with_keys ? nobody + i : 0);
}

static void on_arrival(void *arg, uint64_t number)
{
    (void)arg;
    (void)number;
    if (ended)
        return;
    for (unsigned n = 1 + (pick(8) == 0 ? pick(8) : 0); n > 0 && loop_posted() < REQUESTS; n--)
        loop_post(request, NULL);
    if (scenario_has(FAULT_burst) && pick(64) == 0 && loop_posted() < REQUESTS)
        loop_post(request_burst, NULL);
    events_add_in(random_duration(STREAM_CLIENTS, scenario.settings.requests_every_ms * (uint64_t)MS) +
                      MS / 10,
                  on_arrival, NULL, 0);
}

void clients_begin(struct cache *c)
{
    cache = c;
    ended = false;
    for (size_t i = 0; i < REQUESTS + BURST; i++)
        asked[i].waits = false;
    events_add(0, on_arrival, NULL, 0);
}

void clients_end(void)
{
    ended = true;
}

void clients_cancel_all(void)
{
    for (size_t i = 0; i < REQUESTS + BURST; i++)
        if (asked[i].waits)
            cancel(&asked[i]);
}

static void ask_next(enum cache_query_type type, int64_t number, int key)
{
    size_t at = 0;
    while (at < REQUESTS && asked[at].waits)
        at++;
    if (at == REQUESTS)
        trace_fail("requests wait that nobody answers");
    ask(&asked[at], type, number, key);
}

const struct asked *clients_ask(unsigned place, enum cache_query_type type, int64_t number, int key)
{
    struct asked *a = &asked[REQUESTS + place];
    if (a->waits)
        trace_fail("a request waits that nobody answers");
    ask(a, type, number, key);
    return a;
}

void clients_ask_all(void)
{
    for (int id = 1; id <= CARDS; id++)
        ask_next(QUERY_CARD, id, 0);
    for (int link = 0; link < LINKS; link++)
        ask_next(QUERY_CARD_BY_LINK, link, 0);
    for (int key = 0; key <= KEYS; key++)
        ask_next(QUERY_AUTH_ONLY, 0, key);
    for (int page = 1; page <= 3; page++)
        ask_next(QUERY_PAGE, page, 0);
}
