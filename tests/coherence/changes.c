/* What writers change, and what the catalogue is to begin with. */

#include "coherence/writer.h"

enum { TRIES = 8, LIVELY_SCORES = 9000 };

static int writer_owned(const struct writer *writer, int count)
{
    return (count - writer->number + writer->world->writers - 1) / writer->world->writers;
}

static int writer_nth(const struct writer *writer, int n)
{
    return n * writer->world->writers + writer->number;
}

static int writer_any_channel(struct writer *writer)
{
    return writer_nth(writer, chance_below(&writer->chance, writer_owned(writer, writer->world->channels)));
}

static int writer_lively_channel(struct writer *writer)
{
    int channel = WORLD_FROZEN + chance_below(&writer->chance, WORLD_LIVELY);
    channel += writer->number - channel % writer->world->writers;
    if (channel < WORLD_FROZEN)
        channel += writer->world->writers;
    return world_part(channel) == PART_LIVELY ? channel : channel - writer->world->writers;
}

static int writer_lively_score(struct writer *writer)
{
    return 1000 + chance_below(&writer->chance, LIVELY_SCORES);
}

static bool writer_loses(struct writer *writer)
{
    return writer->options->lose != 0 && chance_below(&writer->chance, writer->options->lose) == 0;
}

/* A link that nobody has, the channel's own first; -1 when none was found. */
static int writer_free_link(struct writer *writer, int channel)
{
    int link = channel;
    for (int i = 0; i < TRIES && writer->world->link_owner[link] >= 0; i++)
        link = writer_any_channel(writer);
    return writer->world->link_owner[link] < 0 ? link : -1;
}

/* ---- changes ---- */

static void writer_change_card(struct writer *writer)
{
    bool hot = chance_below(&writer->chance, 5) == 0;
    int channel =
        hot ? world_hot_channel(writer->world, chance_below(&writer->chance, WORLD_HOT), writer->number)
            : writer_any_channel(writer);
    if (!writer->world->channel[channel].present)
        return;
    if (writer->options->tear) {
        writer_tear_card(writer, channel);
        return;
    }
    batch_open(&writer->batch, false, writer_loses(writer));
    writer_put_card(writer, channel);
    batch_close(&writer->batch);
}

/* Two channels exchange their links. */
static void writer_swap_links(struct writer *writer, int a, int b)
{
    struct channel_state *channel = writer->world->channel;
    int link = channel[a].link;
    batch_open(&writer->batch, true, writer_loses(writer));
    channel[a].link = channel[b].link;
    channel[b].link = link;
    writer_put_link(writer, channel[a].link, a);
    writer_put_link(writer, channel[b].link, b);
    writer_put_card(writer, a);
    writer_put_card(writer, b);
    batch_close(&writer->batch);
}

/* A channel loses its link, or gets one. */
static void writer_toggle_link(struct writer *writer, int channel)
{
    struct channel_state *state = &writer->world->channel[channel];
    int link = state->link >= 0 ? state->link : writer_free_link(writer, channel);
    if (link < 0)
        return;
    batch_open(&writer->batch, true, writer_loses(writer));
    writer_put_link(writer, link, state->link >= 0 ? -1 : channel);
    if (state->link >= 0)
        writer_cut_card(writer, channel, false);
    state->link = state->link >= 0 ? -1 : link;
    writer_put_card(writer, channel);
    batch_close(&writer->batch);
}

static void writer_change_link(struct writer *writer)
{
    const struct channel_state *channel = writer->world->channel;
    int a = writer_any_channel(writer);
    int b = writer_any_channel(writer);
    if (!channel[a].present)
        return;
    if (a != b && channel[a].link >= 0 && channel[b].link >= 0 && channel[b].present &&
        chance_below(&writer->chance, 2) == 0)
        writer_swap_links(writer, a, b);
    else
        writer_toggle_link(writer, a);
}

static void writer_change_index(struct writer *writer)
{
    int channel = writer_lively_channel(writer);
    const struct channel_state *state = &writer->world->channel[channel];
    if (!state->present)
        return;
    bool leaves = state->score >= 0 && chance_below(&writer->chance, 4) == 0;
    batch_open(&writer->batch, false, writer_loses(writer));
    writer_put_member(writer, channel, leaves ? -1 : writer_lively_score(writer));
    batch_close(&writer->batch);
}

static void writer_remove_channel(struct writer *writer, int channel)
{
    struct channel_state *state = &writer->world->channel[channel];
    batch_open(&writer->batch, true, writer_loses(writer));
    writer_cut_card(writer, channel, true);
    if (state->link >= 0)
        writer_put_link(writer, state->link, -1);
    if (state->score >= 0)
        writer_put_member(writer, channel, -1);
    state->present = false;
    state->link = -1;
    batch_close(&writer->batch);
}

static void writer_restore_channel(struct writer *writer, int channel)
{
    struct channel_state *state = &writer->world->channel[channel];
    batch_open(&writer->batch, true, writer_loses(writer));
    state->present = true;
    state->link = writer_free_link(writer, channel);
    writer_put_card(writer, channel);
    if (state->link >= 0)
        writer_put_link(writer, state->link, channel);
    if (world_part(channel) == PART_LIVELY)
        writer_put_member(writer, channel, writer_lively_score(writer));
    batch_close(&writer->batch);
}

static void writer_change_channel(struct writer *writer)
{
    int channel =
        chance_below(&writer->chance, 2) == 0 ? writer_lively_channel(writer) : writer_any_channel(writer);
    enum part part = world_part(channel);
    if (part == PART_FROZEN || part == PART_TAIL)
        return;
    if (!writer->world->channel[channel].present)
        writer_restore_channel(writer, channel);
    else if (chance_below(&writer->chance, 3) == 0)
        writer_remove_channel(writer, channel);
}

static void writer_change_key(struct writer *writer)
{
    int key = WORLD_KEYS_STEADY + chance_below(&writer->chance, WORLD_KEYS - WORLD_KEYS_STEADY);
    if (key % writer->world->writers != writer->number)
        return;
    batch_open(&writer->batch, false, writer_loses(writer));
    writer_put_key(writer, key, !writer->world->key_valid[key]);
    batch_close(&writer->batch);
}

void writer_change(struct writer *writer, enum change_kind kind)
{
    static void (*const change[CHANGE_KINDS])(struct writer * writer) = {
        [CHANGE_CARD] = writer_change_card,   [CHANGE_LINK] = writer_change_link,
        [CHANGE_INDEX] = writer_change_index, [CHANGE_CHANNEL] = writer_change_channel,
        [CHANGE_KEY] = writer_change_key,
    };
    int before = writer->batch.changes;
    if (!batch_has_room(&writer->batch) || writer->batch.lost)
        return;
    change[kind](writer);
    if (writer->batch.changes != before)
        atomic_fetch_add_explicit(&writer->changes[kind], 1, memory_order_relaxed);
}

/* ---- everything ---- */

/* Where a channel begins: each catalogue gives its links in another order. */
static void writer_begin_channel(struct writer *writer, int n, int generation)
{
    int owned = writer_owned(writer, writer->world->channels);
    int channel = writer_nth(writer, n);
    struct channel_state *state = &writer->world->channel[channel];
    enum part part = world_part(channel);
    *state = (struct channel_state){
        .present = true, .link = writer_nth(writer, (n + generation) % owned), .score = -1};
    batch_open(&writer->batch, true, false);
    writer_put_card(writer, channel);
    writer_put_link(writer, state->link, channel);
    if (part == PART_FROZEN || part == PART_TAIL)
        writer_put_member(writer, channel, world_steady_score(channel));
    else if (part == PART_LIVELY && chance_below(&writer->chance, 4) != 0)
        writer_put_member(writer, channel, writer_lively_score(writer));
    batch_close(&writer->batch);
}

bool writer_reload(struct writer *writer)
{
    int generation = atomic_load(&writer->world->generation);
    for (int key = writer->number; key < WORLD_KEYS; key += writer->world->writers) {
        batch_open(&writer->batch, false, false);
        writer_put_key(writer, key, key < WORLD_KEYS_STEADY || chance_below(&writer->chance, 2) == 0);
        batch_close(&writer->batch);
        if (!batch_has_room(&writer->batch) && !batch_run(&writer->batch))
            return false;
    }
    for (int n = 0; n < writer_owned(writer, writer->world->channels); n++) {
        if (!batch_has_room(&writer->batch) && !batch_run(&writer->batch))
            return false;
        writer_begin_channel(writer, n, generation);
    }
    return batch_run(&writer->batch);
}
