/* A line on which questions are lost while all else works, and one on which no connection can be made. Other
 * holes: line_holes_long.c. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "faults/outage.h"

enum { LASTS_MS = 3300, RESETS_MS = 1500 };

static int begin(void **state)
{
    struct stage *stage = stage_new(&(struct stage_plan){.line = true});
    *state = stage;
    (void)load_start(stage);
    return 0;
}

static void hole_up(struct stage *stage)
{
    proxy_set_blackhole(stage->proxy, PROXY_UP);
}

static void heal(struct stage *stage)
{
    proxy_restore(stage->proxy);
}

static void reset_all(struct stage *stage)
{
    proxy_set_refusing(stage->proxy, true);
    proxy_inject(stage->proxy, PROXY_RESET);
}

TEST_CASE_WITH(connections_are_reset, begin, stage_teardown)
{
    outage_run(*state, &(struct outage){.name = "line: connections reset, old and new",
                                        .begin = reset_all,
                                        .end = heal,
                                        .lasts_ms = RESETS_MS});
}

/* Writes as fast as it can to a key that nobody asks for: channeld hears of each. */
static struct {
    struct redis redis;
    pthread_t thread;
    bool running;
    atomic_bool stopping;
} chatter;

static void *run_chatter(void *arg)
{
    (void)arg;
    while (!atomic_load(&chatter.stopping))
        redis_do(&chatter.redis, "HSET channels:card:777 title chatter");
    redis_disconnect(&chatter.redis);
    return NULL;
}

static int begin_with_chatter(void **state)
{
    (void)begin(state);
    struct stage *stage = *state;
    chatter.redis = stage->fixture.redis;
    chatter.redis.connection = NULL;
    chatter.running = pthread_create(&chatter.thread, NULL, run_chatter, NULL) == 0;
    return chatter.running ? 0 : -1;
}

static int end_with_chatter(void **state)
{
    atomic_store(&chatter.stopping, true);
    if (chatter.running)
        (void)pthread_join(chatter.thread, NULL);
    return stage_teardown(state);
}

/* Redis goes on telling what has changed, so the line is anything but silent; but no question is answered. */
TEST_CASE_WITH(no_question_arrives_while_changes_are_told, begin_with_chatter, end_with_chatter)
{
    outage_run(*state, &(struct outage){.name = "line: hole for questions, changes told",
                                        .begin = hole_up,
                                        .end = heal,
                                        .lasts_ms = LASTS_MS});
}
