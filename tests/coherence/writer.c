/* The pace of a writer, and its ways through losses of Redis; see writer.h. */

#include "coherence/writer.h"

#include <stdio.h>
#include <stdlib.h>

#include "coherence/clock.h"

enum { BATCH_MOST = 16, RETRY_MS = 5, LAG_MS = 100 };

const char *writer_change_name(enum change_kind kind)
{
    static const char *const names[CHANGE_KINDS] = {
        [CHANGE_CARD] = "card",       [CHANGE_LINK] = "link", [CHANGE_INDEX] = "index",
        [CHANGE_CHANNEL] = "channel", [CHANGE_KEY] = "key",
    };
    return names[kind];
}

static enum change_kind writer_choose(struct writer *writer)
{
    int dice = chance_below(&writer->chance, 100);
    if (dice < 66)
        return CHANGE_CARD;
    if (dice < 78)
        return CHANGE_LINK;
    if (dice < 88)
        return CHANGE_INDEX;
    return dice < 94 ? CHANGE_CHANNEL : CHANGE_KEY;
}

/* A few changes with one round trip; returns how many. The gate is held. */
static int writer_run_batch(struct writer *writer)
{
    int most = 1 + chance_below(&writer->chance, BATCH_MOST);
    int count = 0;
    for (int i = 0; i < most; i++) {
        int before = writer->batch.changes;
        writer_change(writer, writer_choose(writer));
        count += writer->batch.changes - before;
    }
    if (!batch_run(&writer->batch))
        writer->lost_batches++;
    return count;
}

/* One step: the whole catalogue if it is new, else a batch. Returns the number of changes, 0 when Redis is
 * away. */
static int writer_step(struct writer *writer)
{
    struct world *world = writer->world;
    int count = 0;
    (void)pthread_rwlock_rdlock(&world->gate);
    if (atomic_load(&world->redis_up) && batch_connect(&writer->batch)) {
        int generation = atomic_load(&world->generation);
        if (generation == writer->generation) {
            count = writer_run_batch(writer);
        } else if (writer_reload(writer)) {
            writer->generation = generation;
            atomic_fetch_add(&world->reloaded, 1);
        }
    }
    (void)pthread_rwlock_unlock(&world->gate);
    if (writer->batch.error[0] != '\0') {
        (void)fprintf(stderr, "coherence: %s\n", writer->batch.error);
        abort();
    }
    return count;
}

static void *writer_main(void *arg)
{
    struct writer *writer = arg;
    int64_t due = clock_now();
    int64_t rate = writer->options->changes;
    while (!atomic_load(&writer->world->finished)) {
        int count = writer_step(writer);
        int64_t now = clock_now();
        if (count == 0)
            clock_sleep((int64_t)RETRY_MS * CLOCK_MS);
        if (rate == 0)
            continue;
        due += (int64_t)count * CLOCK_S * writer->options->writers / rate;
        if (due < now - (int64_t)LAG_MS * CLOCK_MS)
            due = now;
        clock_sleep(due - now);
    }
    return NULL;
}

void writer_start(struct writer *writer, const struct options *options, struct world *world, int number,
                  int redis_port)
{
    *writer = (struct writer){.options = options, .world = world, .number = number};
    writer->chance = options->seed * 1000 + (uint64_t)number;
    batch_init(&writer->batch, redis_port);
    if (pthread_create(&writer->thread, NULL, writer_main, writer) != 0)
        abort();
}

void writer_join(struct writer *writer)
{
    (void)pthread_join(writer->thread, NULL);
    batch_fini(&writer->batch);
}
