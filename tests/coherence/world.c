/* The catalogue of the test; see world.h. */

#include "coherence/world.h"

#include <stdio.h>
#include <stdlib.h>

#include "support/catalogue.h"

enum { ID_STEP = 1000003 };

static struct history *world_histories(int count, int64_t value)
{
    struct history *histories = calloc((size_t)count, sizeof *histories);
    if (histories == NULL)
        abort();
    for (int i = 0; i < count; i++)
        history_init(&histories[i], value);
    return histories;
}

static void world_free_histories(struct history *histories, int count)
{
    for (int i = 0; i < count; i++)
        history_fini(&histories[i]);
    free(histories);
}

/* Writers come before readers: else a loss would wait for a gap between batches that never comes. */
static void world_init_gate(pthread_rwlock_t *gate)
{
    pthread_rwlockattr_t attributes;
    (void)pthread_rwlockattr_init(&attributes);
    (void)pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    (void)pthread_rwlock_init(gate, &attributes);
    (void)pthread_rwlockattr_destroy(&attributes);
}

struct world *world_new(int channels, int writers)
{
    struct world *world = calloc(1, sizeof *world);
    if (world == NULL)
        abort();
    world->channels = channels;
    world->writers = writers;
    world->card = world_histories(channels, CARD_ABSENT);
    world->member = world_histories(channels, MEMBER_ABSENT);
    world->link = world_histories(channels, LINK_FREE);
    world->key = world_histories(WORLD_KEYS, KEY_REVOKED);
    world->channel = calloc((size_t)channels, sizeof *world->channel);
    world->link_owner = calloc((size_t)channels, sizeof *world->link_owner);
    if (world->channel == NULL || world->link_owner == NULL)
        abort();
    for (int k = 0; k < WORLD_KEYS; k++) {
        (void)snprintf(world->key_text[k], WORLD_KEY_SIZE, "key-of-the-coherence-test-%d", k);
        catalogue_digest(world->key_text[k], world->key_digest[k]);
    }
    world_init_gate(&world->gate);
    atomic_init(&world->generation, 1);
    atomic_init(&world->reloaded, 0);
    atomic_init(&world->redis_up, true);
    atomic_init(&world->finished, false);
    return world;
}

void world_free(struct world *world)
{
    (void)pthread_rwlock_destroy(&world->gate);
    world_free_histories(world->card, world->channels);
    world_free_histories(world->member, world->channels);
    world_free_histories(world->link, world->channels);
    world_free_histories(world->key, WORLD_KEYS);
    free(world->channel);
    free(world->link_owner);
    free(world);
}

enum part world_part(int channel)
{
    if (channel < WORLD_FROZEN)
        return PART_FROZEN;
    if (channel < WORLD_FROZEN + WORLD_LIVELY)
        return PART_LIVELY;
    return channel < WORLD_LISTED ? PART_TAIL : PART_UNLISTED;
}

int64_t world_id(int channel)
{
    int64_t id = (int64_t)(channel + 1) * ID_STEP;
    return channel % 2 == 0 ? id : -id;
}

int world_channel_of(const struct world *world, int64_t id)
{
    int64_t channel = (id < 0 ? -id : id) / ID_STEP - 1;
    if (channel < 0 || channel >= world->channels || world_id((int)channel) != id)
        return -1;
    return (int)channel;
}

int world_hot_channel(const struct world *world, int n, int writer)
{
    int step = world->channels / WORLD_HOT / world->writers * world->writers;
    return n * step + writer;
}

int world_steady_score(int channel)
{
    return world_part(channel) == PART_FROZEN ? channel : 10000 + channel;
}

void world_issue_loss(struct world *world, int64_t now)
{
    for (int i = 0; i < world->channels; i++) {
        (void)history_issue(&world->card[i], CARD_ABSENT, now);
        (void)history_issue(&world->member[i], MEMBER_ABSENT, now);
        (void)history_issue(&world->link[i], LINK_FREE, now);
    }
    for (int k = 0; k < WORLD_KEYS; k++)
        (void)history_issue(&world->key[k], KEY_REVOKED, now);
}

void world_acknowledge_loss(struct world *world, int64_t now)
{
    for (int i = 0; i < world->channels; i++) {
        history_acknowledge(&world->card[i], world->card[i].newest, now);
        history_acknowledge(&world->member[i], world->member[i].newest, now);
        history_acknowledge(&world->link[i], world->link[i].newest, now);
    }
    for (int k = 0; k < WORLD_KEYS; k++)
        history_acknowledge(&world->key[k], world->key[k].newest, now);
}
