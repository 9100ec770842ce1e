/* Pipelined changes, the commands that each consists of, and the loop of a writer; see writer.h. */

#include "coherence/writer.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coherence/clock.h"
#include "support/fields.h"

/* ---- batches ---- */

enum { CONNECT_TIMEOUT_S = 2, SOURCE_POLL_US = 100, SOURCE_RETRY_MS = 5 };

static void batch_fini(struct batch *batch)
{
    if (batch->redis != NULL)
        redisFree(batch->redis);
    if (batch->source != NULL)
        redisFree(batch->source);
    batch->redis = batch->source = NULL;
    slot_client_fini(&batch->slot);
}

/* NULL when the server does not take connections. */
static redisContext *connect_to(int port)
{
    struct timeval timeout = {.tv_sec = CONNECT_TIMEOUT_S};
    redisContext *redis = redisConnectWithTimeout("127.0.0.1", port, timeout);
    if (redis == NULL || redis->err == 0)
        return redis;
    redisFree(redis);
    return NULL;
}

static bool batch_is_connected(const struct batch *batch)
{
    return batch->in_cluster || batch->redis != NULL;
}

static bool batch_connect(struct batch *batch)
{
    if (batch_is_connected(batch))
        return true;
    batch->redis = connect_to(batch->port);
    batch->lost = false;
    return batch->redis != NULL;
}

static bool batch_has_room(const struct batch *batch)
{
    return batch->changes < BATCH_CHANGES;
}

/* Keeps a command of the open change. */
static void batch_keep(struct batch *batch, const char *text)
{
    struct slot_change *change = &batch->slot_change[batch->changes];
    if (change->commands >= SLOT_COMMANDS_MAX || strlen(text) >= SLOT_COMMAND_SIZE)
        abort();
    memcpy(change->command[change->commands++], text, strlen(text) + 1);
}

/* Adds a command to the open change; no argument has a space or a percent sign. */
static void batch_command(struct batch *batch, const char *text)
{
    if (batch->dropping || batch->lost)
        return;
    if (batch->in_cluster) {
        batch_keep(batch, text);
        return;
    }
    batch->replies[batch->changes]++;
    if (redisAppendCommand(batch->redis, text) != REDIS_OK)
        batch->lost = true;
}

static void batch_open(struct batch *batch, bool transaction, bool lost)
{
    batch->replies[batch->changes] = 0;
    batch->transaction = transaction;
    batch->dropping = lost;
    if (transaction)
        batch_command(batch, "MULTI");
}

static void batch_close(struct batch *batch)
{
    if (batch->transaction)
        batch_command(batch, "EXEC");
    if (batch->dropping) {
        batch->dropping = false;
        batch_command(batch, "PING");
    }
    batch->effects_end[batch->changes++] = batch->effects;
}

static void batch_add_effect(struct batch *batch, struct history *history, int64_t number)
{
    batch->effect[batch->effects].history = history;
    batch->effect[batch->effects++].number = number;
}

static int64_t batch_effect(struct batch *batch, struct history *history, int64_t value)
{
    int64_t number = history_issue(history, value, clock_now());
    batch_add_effect(batch, history, number);
    return number;
}

/*
 * True when there is a reply, even an error. BUSY counts as a lost connection: the commands of one change may
 * have been refused in part.
 */
static bool batch_take_reply(struct batch *batch)
{
    redisReply *reply = NULL;
    if (redisGetReply(batch->redis, (void **)&reply) != REDIS_OK || reply == NULL)
        return false;
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "BUSY ", 5) == 0) {
        freeReplyObject(reply);
        return false;
    }
    if (reply->type == REDIS_REPLY_ERROR || reply->type == REDIS_REPLY_NIL)
        (void)snprintf(batch->error, sizeof batch->error, "redis refuses: %s",
                       reply->type == REDIS_REPLY_NIL ? "nil" : reply->str);
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        if (reply->element[i]->type == REDIS_REPLY_ERROR)
            (void)snprintf(batch->error, sizeof batch->error, "redis refuses: %s", reply->element[i]->str);
    }
    freeReplyObject(reply);
    return true;
}

static void batch_acknowledge(struct batch *batch, int first, int end)
{
    int64_t now = clock_now();
    for (int i = first; i < end; i++)
        history_acknowledge(batch->effect[i].history, batch->effect[i].number, now);
}

static bool batch_finish_change(struct batch *batch, int change)
{
    for (int i = 0; i < batch->replies[change]; i++) {
        if (!batch_take_reply(batch))
            return false;
    }
    if (batch->source_port == 0)
        batch_acknowledge(batch, change == 0 ? 0 : batch->effects_end[change - 1],
                          batch->effects_end[change]);
    return true;
}

/* Where a server stands; false when it does not say, or is lost. */
static bool read_position(redisContext *redis, struct position *out)
{
    redisReply *reply = redisCommand(redis, "INFO replication");
    bool read = reply != NULL && reply->str != NULL && position_read(reply->str, out);
    freeReplyObject(reply);
    return read;
}

/* Whether the replica has applied everything up to there; *goal becomes the master's position on another
 * stream. */
static bool batch_is_applied(struct batch *batch, struct position *goal)
{
    struct position position;
    if (batch->source == NULL)
        batch->source = connect_to(batch->source_port);
    if (batch->source == NULL)
        return false;
    if (!read_position(batch->source, &position)) {
        redisFree(batch->source);
        batch->source = NULL;
        return false;
    }
    if (strcmp(position.stream, goal->stream) != 0)
        (void)read_position(batch->redis, goal);
    return position_includes(&position, goal);
}

/* Waits until the replica has applied the changes; false when the master is lost. */
static bool batch_await_source(struct batch *batch)
{
    struct position goal;
    if (!read_position(batch->redis, &goal))
        return false;
    while (!batch_is_applied(batch, &goal)) {
        if (batch->redis->err != 0 || !atomic_load(batch->redis_up))
            return false;
        clock_sleep(batch->source == NULL ? (int64_t)SOURCE_RETRY_MS * CLOCK_MS
                                          : (int64_t)SOURCE_POLL_US * CLOCK_US);
    }
    return true;
}

static void batch_run_in_cluster(struct batch *batch)
{
    slot_client_run(&batch->slot, batch->slot_change, batch->changes, batch->durable);
    batch_acknowledge(batch, 0, batch->effects);
    for (int i = 0; i < batch->changes; i++)
        batch->slot_change[i].commands = 0;
}

static bool batch_run(struct batch *batch)
{
    if (batch->in_cluster)
        batch_run_in_cluster(batch);
    for (int i = 0; i < batch->changes && !batch->lost && !batch->in_cluster; i++)
        batch->lost = !batch_finish_change(batch, i);
    if (batch->source_port != 0 && !batch->lost) {
        batch->lost = !batch_await_source(batch);
        batch_acknowledge(batch, 0, batch->lost ? 0 : batch->effects);
    }
    batch->changes = 0;
    batch->effects = 0;
    if (!batch->lost)
        return true;
    batch_fini(batch);
    return false;
}

/*
 * ---- commands ----
 *
 * The four kinds of keys of docs/schema.md. A card has its version, which is the number of the change in the
 * card's history, in almost every field. Each function adds a command with its effect to the open change and
 * updates the owner's state. A command is written as text: hiredis separates the arguments at the spaces.
 */

enum { COMMAND_SIZE = 1024 };

struct command {
    size_t length;
    char text[COMMAND_SIZE];
};

__attribute__((format(printf, 2, 3))) static void command_add(struct command *command, const char *format,
                                                              ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(command->text + command->length, COMMAND_SIZE - command->length, format, args);
    va_end(args);
    command->length += (size_t)n;
    if (n < 0 || command->length >= COMMAND_SIZE)
        abort();
}

static void writer_put_link(struct writer *writer, int link, int channel)
{
    struct command command = {.length = 0};
    command_add(&command, "%s %slink:https://max.ru/l%d", channel >= 0 ? "SET" : "DEL", writer->prefix, link);
    if (channel >= 0)
        command_add(&command, " %" PRId64, model_id(channel));
    batch_command(&writer->batch, command.text);
    (void)batch_effect(&writer->batch, &writer->model->link[link], channel >= 0 ? channel : LINK_FREE);
    writer->model->link_owner[link] = channel;
}

static void writer_put_member(struct writer *writer, int channel, int score)
{
    struct command command = {.length = 0};
    if (score >= 0)
        command_add(&command, "ZADD %sindex %d %" PRId64, writer->prefix, score, model_id(channel));
    else
        command_add(&command, "ZREM %sindex %" PRId64, writer->prefix, model_id(channel));
    batch_command(&writer->batch, command.text);
    (void)batch_effect(&writer->batch, &writer->model->member[channel], score >= 0 ? score : MEMBER_ABSENT);
    writer->model->channel[channel].score = score;
}

static void writer_put_key(struct writer *writer, int key, bool valid)
{
    struct command command = {.length = 0};
    command_add(&command, "%s %sapi_keys %s", valid ? "SADD" : "SREM", writer->prefix,
                writer->model->key_digest[key]);
    batch_command(&writer->batch, command.text);
    (void)batch_effect(&writer->batch, &writer->model->key[key], valid ? KEY_VALID : KEY_REVOKED);
    writer->model->key_valid[key] = valid;
}

/* The halves in which torn writes store a card, its texts and the rest; HSET of one or both. */
enum { HALF_FIRST = 1, HALF_SECOND = 2, HALVES = HALF_FIRST | HALF_SECOND };

static void command_add_value(struct command *command, enum channel_type type, int64_t version)
{
    int second = (int)(version % 86400);
    switch (type) {
    case CHANNEL_TEXT:
        command_add(command, "v:%" PRId64, version);
        break;
    case CHANNEL_INTEGER:
        command_add(command, "%" PRId64, version);
        break;
    case CHANNEL_FLAG:
        command_add(command, "%d", (int)(version % 2));
        break;
    case CHANNEL_DATETIME:
        command_add(command, "2026-11-20T%02d:%02d:%02d", second / 3600, second / 60 % 60, second % 60);
        break;
    case CHANNEL_HISTORY:
        command_add(command, "{\"2026-11-20\":%" PRId64 "}", version);
        break;
    }
}

static void writer_store_card(struct writer *writer, int channel, int64_t version, int halves)
{
    struct command command = {.length = 0};
    int link = writer->model->channel[channel].link;
    command_add(&command, "HSET %scard:%" PRId64, writer->prefix, model_id(channel));
    for (enum channel_field f = 0; f < CHANNEL_FIELD_COUNT; f++) {
        int half = f == CHANNEL_FIELD_max_channel_id || field_table[f].type == CHANNEL_TEXT ? HALF_FIRST
                                                                                            : HALF_SECOND;
        if ((halves & half) == 0 || (f == CHANNEL_FIELD_link && link < 0))
            continue;
        command_add(&command, " %s ", field_table[f].name);
        if (f == CHANNEL_FIELD_max_channel_id)
            command_add(&command, "%" PRId64, model_id(channel));
        else if (f == CHANNEL_FIELD_link)
            command_add(&command, "https://max.ru/l%d", link);
        else
            command_add_value(&command, field_table[f].type, version);
    }
    batch_command(&writer->batch, command.text);
}

static int64_t writer_issue_card(struct writer *writer, int channel)
{
    int link = writer->model->channel[channel].link;
    return batch_effect(&writer->batch, &writer->model->card[channel], link >= 0 ? link : CARD_WITHOUT_LINK);
}

static void writer_delete_card(struct writer *writer, int channel, bool whole)
{
    struct command command = {.length = 0};
    command_add(&command, "%s %scard:%" PRId64 "%s", whole ? "DEL" : "HDEL", writer->prefix,
                model_id(channel), whole ? "" : " link");
    batch_command(&writer->batch, command.text);
    if (whole)
        (void)batch_effect(&writer->batch, &writer->model->card[channel], CARD_ABSENT);
}

/*
 * In a cluster the changes before it may not have been executed yet, so it does not rely on what they
 * removed. To be added to a transaction then.
 */
static void writer_put_card(struct writer *writer, int channel)
{
    if (writer->batch.in_cluster && writer->model->channel[channel].link < 0)
        writer_delete_card(writer, channel, false);
    writer_store_card(writer, channel, writer_issue_card(writer, channel), HALVES);
}

static void writer_put_card_torn(struct writer *writer, int channel)
{
    (void)batch_run(&writer->batch);
    if (!batch_is_connected(&writer->batch))
        return;
    batch_open(&writer->batch, false, false);
    int64_t version = writer_issue_card(writer, channel);
    writer->batch.effects = 0;
    writer_store_card(writer, channel, version, HALF_FIRST);
    batch_close(&writer->batch);
    if (!batch_run(&writer->batch))
        return;
    batch_open(&writer->batch, false, false);
    writer_store_card(writer, channel, version, HALF_SECOND);
    batch_add_effect(&writer->batch, &writer->model->card[channel], version);
    batch_close(&writer->batch);
}

/* ---- choices ---- */

enum { TRIES = 8, ACTIVE_SCORES = 9000 };

static int writer_owned(const struct writer *writer, int count)
{
    return (count - writer->number + writer->model->writers - 1) / writer->model->writers;
}

static int writer_nth(const struct writer *writer, int n)
{
    return n * writer->model->writers + writer->number;
}

static int writer_any_channel(struct writer *writer)
{
    return writer_nth(writer, random_below(&writer->random, writer_owned(writer, writer->model->channels)));
}

static int writer_active_channel(struct writer *writer)
{
    int channel = MODEL_FROZEN + random_below(&writer->random, MODEL_ACTIVE);
    channel += writer->number - channel % writer->model->writers;
    if (channel < MODEL_FROZEN)
        channel += writer->model->writers;
    return model_section(channel) == SECTION_ACTIVE ? channel : channel - writer->model->writers;
}

static int writer_active_score(struct writer *writer)
{
    return 1000 + random_below(&writer->random, ACTIVE_SCORES);
}

static bool writer_drops(struct writer *writer)
{
    return writer->options->drop != 0 && random_below(&writer->random, writer->options->drop) == 0;
}

/* A link without owner, the channel's own first; -1 when none was found. */
static int writer_free_link(struct writer *writer, int channel)
{
    int link = channel;
    for (int i = 0; i < TRIES && writer->model->link_owner[link] >= 0; i++)
        link = writer_any_channel(writer);
    return writer->model->link_owner[link] < 0 ? link : -1;
}

/* ---- changes ---- */

static void writer_change_card(struct writer *writer)
{
    bool hot = random_below(&writer->random, 5) == 0;
    int channel =
        hot ? model_hot_channel(writer->model, random_below(&writer->random, MODEL_HOT), writer->number)
            : writer_any_channel(writer);
    if (!writer->model->channel[channel].present)
        return;
    if (writer->options->torn_writes) {
        writer_put_card_torn(writer, channel);
        return;
    }
    batch_open(&writer->batch, writer->batch.in_cluster, writer_drops(writer));
    writer_put_card(writer, channel);
    batch_close(&writer->batch);
}

/* Two channels exchange their links. */
static void writer_swap_links(struct writer *writer, int a, int b)
{
    struct channel_state *channel = writer->model->channel;
    int link = channel[a].link;
    batch_open(&writer->batch, true, writer_drops(writer));
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
    struct channel_state *state = &writer->model->channel[channel];
    int link = state->link >= 0 ? state->link : writer_free_link(writer, channel);
    if (link < 0)
        return;
    batch_open(&writer->batch, true, writer_drops(writer));
    writer_put_link(writer, link, state->link >= 0 ? -1 : channel);
    if (state->link >= 0)
        writer_delete_card(writer, channel, false);
    state->link = state->link >= 0 ? -1 : link;
    writer_put_card(writer, channel);
    batch_close(&writer->batch);
}

/* Half of the time one that has a link which is read much. */
static int writer_linked_channel(struct writer *writer)
{
    const struct model *model = writer->model;
    int link = model_hot_channel(model, random_below(&writer->random, MODEL_HOT), writer->number);
    bool hot = model->link_owner[link] >= 0 && random_below(&writer->random, 2) == 0;
    return hot ? model->link_owner[link] : writer_any_channel(writer);
}

static void writer_change_link(struct writer *writer)
{
    const struct channel_state *channel = writer->model->channel;
    int a = writer_linked_channel(writer);
    int b = writer_linked_channel(writer);
    if (!channel[a].present)
        return;
    if (a != b && channel[a].link >= 0 && channel[b].link >= 0 && channel[b].present &&
        random_below(&writer->random, 2) == 0)
        writer_swap_links(writer, a, b);
    else
        writer_toggle_link(writer, a);
}

static void writer_change_index(struct writer *writer)
{
    int channel = writer_active_channel(writer);
    const struct channel_state *state = &writer->model->channel[channel];
    if (!state->present)
        return;
    bool leaves = state->score >= 0 && random_below(&writer->random, 4) == 0;
    batch_open(&writer->batch, false, writer_drops(writer));
    writer_put_member(writer, channel, leaves ? -1 : writer_active_score(writer));
    batch_close(&writer->batch);
}

static void writer_remove_channel(struct writer *writer, int channel)
{
    struct channel_state *state = &writer->model->channel[channel];
    batch_open(&writer->batch, true, writer_drops(writer));
    writer_delete_card(writer, channel, true);
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
    struct channel_state *state = &writer->model->channel[channel];
    batch_open(&writer->batch, true, writer_drops(writer));
    state->present = true;
    state->link = writer_free_link(writer, channel);
    writer_put_card(writer, channel);
    if (state->link >= 0)
        writer_put_link(writer, state->link, channel);
    if (model_section(channel) == SECTION_ACTIVE)
        writer_put_member(writer, channel, writer_active_score(writer));
    batch_close(&writer->batch);
}

static void writer_change_channel(struct writer *writer)
{
    int channel =
        random_below(&writer->random, 2) == 0 ? writer_active_channel(writer) : writer_any_channel(writer);
    enum section section = model_section(channel);
    if (section == SECTION_FROZEN || section == SECTION_TAIL)
        return;
    if (!writer->model->channel[channel].present)
        writer_restore_channel(writer, channel);
    else if (random_below(&writer->random, 3) == 0)
        writer_remove_channel(writer, channel);
}

static void writer_change_key(struct writer *writer)
{
    int key = MODEL_KEYS_PERMANENT + random_below(&writer->random, MODEL_KEYS - MODEL_KEYS_PERMANENT);
    if (key % writer->model->writers != writer->number)
        return;
    batch_open(&writer->batch, false, writer_drops(writer));
    writer_put_key(writer, key, !writer->model->key_valid[key]);
    batch_close(&writer->batch);
}

static void writer_change(struct writer *writer, enum change_kind kind)
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

/* ---- the whole catalogue ---- */

/* The first state of a channel: each generation assigns the links in another order. */
static void writer_begin_channel(struct writer *writer, int n, int generation)
{
    int owned = writer_owned(writer, writer->model->channels);
    int channel = writer_nth(writer, n);
    struct channel_state *state = &writer->model->channel[channel];
    enum section section = model_section(channel);
    *state = (struct channel_state){
        .present = true, .link = writer_nth(writer, (n + generation) % owned), .score = -1};
    batch_open(&writer->batch, true, false);
    writer_put_card(writer, channel);
    writer_put_link(writer, state->link, channel);
    if (section == SECTION_FROZEN || section == SECTION_TAIL)
        writer_put_member(writer, channel, model_fixed_score(channel));
    else if (section == SECTION_ACTIVE && random_below(&writer->random, 4) != 0)
        writer_put_member(writer, channel, writer_active_score(writer));
    batch_close(&writer->batch);
}

static bool writer_reload(struct writer *writer)
{
    int generation = atomic_load(&writer->model->generation);
    for (int key = writer->number; key < MODEL_KEYS; key += writer->model->writers) {
        batch_open(&writer->batch, false, false);
        writer_put_key(writer, key, key < MODEL_KEYS_PERMANENT || random_below(&writer->random, 2) == 0);
        batch_close(&writer->batch);
        if (!batch_has_room(&writer->batch) && !batch_run(&writer->batch))
            return false;
    }
    for (int n = 0; n < writer_owned(writer, writer->model->channels); n++) {
        if (!batch_has_room(&writer->batch) && !batch_run(&writer->batch))
            return false;
        writer_begin_channel(writer, n, generation);
    }
    return batch_run(&writer->batch);
}

/* ---- the thread ---- */

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
    int roll = random_below(&writer->random, 100);
    if (roll < 66)
        return CHANGE_CARD;
    if (roll < 78)
        return CHANGE_LINK;
    if (roll < 88)
        return CHANGE_INDEX;
    return roll < 94 ? CHANGE_CHANNEL : CHANGE_KEY;
}

/* A few changes with one round trip; returns how many. The reload lock is held for reading. */
static int writer_run_batch(struct writer *writer)
{
    int most = 1 + random_below(&writer->random, BATCH_MOST);
    int count = 0;
    for (int i = 0; i < most; i++) {
        int before = writer->batch.changes;
        writer_change(writer, writer_choose(writer));
        count += writer->batch.changes - before;
    }
    (void)batch_run(&writer->batch);
    return count;
}

/* Writes the whole catalogue if it is a new one, else a batch. Returns the number of changes, 0 without
 * Redis. */
static int writer_step(struct writer *writer)
{
    struct model *model = writer->model;
    int count = 0;
    (void)pthread_rwlock_rdlock(&model->reload_lock);
    if (atomic_load(&model->redis_up) && batch_connect(&writer->batch)) {
        int generation = atomic_load(&model->generation);
        if (generation == writer->generation) {
            count = writer_run_batch(writer);
        } else if (writer_reload(writer)) {
            writer->generation = generation;
            atomic_fetch_add(&model->reloaded, 1);
        }
    }
    (void)pthread_rwlock_unlock(&model->reload_lock);
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
    while (!atomic_load(&writer->model->finished)) {
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

void writer_start(struct writer *writer, const struct options *options, struct model *model, int number,
                  const struct writer_place *place)
{
    *writer = (struct writer){.options = options, .model = model, .number = number, .prefix = place->prefix};
    writer->random = options->seed * 1000 + (uint64_t)number;
    writer->batch.port = place->port;
    writer->batch.source_port = place->source_port;
    writer->batch.in_cluster = place->nodes > 0;
    writer->batch.slot.nodes = place->nodes;
    memcpy(writer->batch.slot.port, place->node_port, sizeof place->node_port);
    writer->batch.redis_up = &model->redis_up;
    writer->batch.durable = &model->durable;
    if (pthread_create(&writer->thread, NULL, writer_main, writer) != 0)
        abort();
}

void writer_join(struct writer *writer)
{
    (void)pthread_join(writer->thread, NULL);
    batch_fini(&writer->batch);
}
