/* Histories of changes, and the catalogue that results from them; see model.h. */

#include "coherence/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/catalogue.h"

enum { ID_STEP = 1000003 };

/* ---- histories ---- */

static void history_init(struct history *history, int64_t value)
{
    memset(history, 0, sizeof *history);
    (void)pthread_mutex_init(&history->lock, NULL);
    history->change[0] = (struct change){.issued = 0, .acknowledged = 1, .value = value};
}

static void history_fini(struct history *history)
{
    (void)pthread_mutex_destroy(&history->lock);
}

static struct change *history_at(struct history *history, int64_t number)
{
    return &history->change[number % HISTORY_DEPTH];
}

/* The oldest change that is still held. */
static int64_t history_oldest(const struct history *history)
{
    return history->newest < HISTORY_DEPTH ? 0 : history->newest - HISTORY_DEPTH + 1;
}

int64_t history_issue(struct history *history, int64_t value, int64_t now)
{
    (void)pthread_mutex_lock(&history->lock);
    int64_t number = ++history->newest;
    *history_at(history, number) = (struct change){.issued = now, .value = value};
    (void)pthread_mutex_unlock(&history->lock);
    return number;
}

void history_acknowledge(struct history *history, int64_t number, int64_t now)
{
    (void)pthread_mutex_lock(&history->lock);
    if (number >= history_oldest(history))
        history_at(history, number)->acknowledged = now;
    (void)pthread_mutex_unlock(&history->lock);
}

static bool history_is_required(const struct change *change, struct window window)
{
    return change->acknowledged != 0 && change->acknowledged <= window.since;
}

/* The number of the oldest legal change, or -1 when it is no longer held. */
static int64_t history_oldest_legal(struct history *history, struct window window)
{
    for (int64_t n = history->newest; n >= history_oldest(history); n--) {
        if (history_is_required(history_at(history, n), window))
            return n;
    }
    return -1;
}

/* Compares the change `number` (-1: none fits) with the oldest legal one. */
static struct finding history_compare(struct history *history, int64_t number, int64_t oldest_legal)
{
    struct finding finding = {.number = number, .expected = oldest_legal};
    if (oldest_legal >= 0) {
        finding.acknowledged = history_at(history, oldest_legal)->acknowledged;
        finding.value = history_at(history, oldest_legal)->value;
    }
    if (number >= 0 && number < history->newest)
        finding.superseded = history_at(history, number + 1)->acknowledged;
    if (oldest_legal < 0)
        finding.legality = number >= 0 ? LEGAL : UNDECIDED;
    else if (number < 0)
        finding.legality = IMPOSSIBLE;
    else
        finding.legality = number >= oldest_legal ? LEGAL : STALE;
    return finding;
}

struct finding history_check_value(struct history *history, struct window window, int64_t low, int64_t high)
{
    int64_t number = -1;
    (void)pthread_mutex_lock(&history->lock);
    for (int64_t n = history->newest; n >= history_oldest(history) && number < 0; n--) {
        const struct change *change = history_at(history, n);
        if (change->issued <= window.until && change->value >= low && change->value <= high)
            number = n;
    }
    struct finding finding = history_compare(history, number, history_oldest_legal(history, window));
    (void)pthread_mutex_unlock(&history->lock);
    return finding;
}

struct finding history_check_version(struct history *history, struct window window, int64_t number,
                                     int64_t *value)
{
    struct finding finding;
    (void)pthread_mutex_lock(&history->lock);
    int64_t oldest_legal = history_oldest_legal(history, window);
    if (number >= history_oldest(history)) {
        bool seen = number <= history->newest && history_at(history, number)->issued <= window.until;
        finding = history_compare(history, seen ? number : -1, oldest_legal);
        *value = seen ? history_at(history, number)->value : -1;
    } else {
        finding = history_compare(history, -1, oldest_legal);
        finding.legality = oldest_legal < 0 ? UNDECIDED : STALE;
        *value = -1;
    }
    (void)pthread_mutex_unlock(&history->lock);
    return finding;
}

bool history_is_certain(struct history *history, struct window window, int64_t *value)
{
    int64_t legal = 0;
    (void)pthread_mutex_lock(&history->lock);
    for (int64_t n = history->newest; n >= history_oldest(history); n--) {
        const struct change *change = history_at(history, n);
        if (change->issued <= window.until) {
            legal++;
            *value = change->value;
        }
        if (history_is_required(change, window))
            break;
    }
    bool certain = legal == 1 && history_oldest_legal(history, window) >= 0;
    (void)pthread_mutex_unlock(&history->lock);
    return certain;
}

struct possible history_possible(struct history *history, struct window window, int64_t low, int64_t high)
{
    struct possible possible = {false, false};
    bool complete = false;
    (void)pthread_mutex_lock(&history->lock);
    for (int64_t n = history->newest; n >= history_oldest(history) && !complete; n--) {
        const struct change *change = history_at(history, n);
        if (change->issued <= window.until) {
            bool inside = change->value >= low && change->value <= high;
            possible.inside = possible.inside || inside;
            possible.outside = possible.outside || !inside;
        }
        complete = history_is_required(change, window);
    }
    (void)pthread_mutex_unlock(&history->lock);
    if (!complete) /* what is no longer held may have been anything */
        possible = (struct possible){true, true};
    return possible;
}

/* ---- the catalogue ---- */

static struct history *new_histories(int count, int64_t value)
{
    struct history *histories = calloc((size_t)count, sizeof *histories);
    if (histories == NULL)
        abort();
    for (int i = 0; i < count; i++)
        history_init(&histories[i], value);
    return histories;
}

static void free_histories(struct history *histories, int count)
{
    for (int i = 0; i < count; i++)
        history_fini(&histories[i]);
    free(histories);
}

/* The writing side goes first: otherwise a loss would wait for a gap between batches that never comes. */
static void init_reload_lock(pthread_rwlock_t *reload_lock)
{
    pthread_rwlockattr_t attributes;
    (void)pthread_rwlockattr_init(&attributes);
    (void)pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    (void)pthread_rwlock_init(reload_lock, &attributes);
    (void)pthread_rwlockattr_destroy(&attributes);
}

struct model *model_new(int channels, int writers)
{
    struct model *model = calloc(1, sizeof *model);
    if (model == NULL)
        abort();
    model->channels = channels;
    model->writers = writers;
    model->card = new_histories(channels, CARD_ABSENT);
    model->member = new_histories(channels, MEMBER_ABSENT);
    model->link = new_histories(channels, LINK_FREE);
    model->key = new_histories(MODEL_KEYS, KEY_REVOKED);
    model->channel = calloc((size_t)channels, sizeof *model->channel);
    model->link_owner = calloc((size_t)channels, sizeof *model->link_owner);
    if (model->channel == NULL || model->link_owner == NULL)
        abort();
    for (int k = 0; k < MODEL_KEYS; k++) {
        (void)snprintf(model->key_text[k], MODEL_KEY_SIZE, "key-of-the-coherence-test-%d", k);
        catalogue_digest(model->key_text[k], model->key_digest[k]);
    }
    init_reload_lock(&model->reload_lock);
    atomic_init(&model->generation, 1);
    atomic_init(&model->reloaded, 0);
    atomic_init(&model->redis_up, true);
    atomic_init(&model->durable, false);
    atomic_init(&model->finished, false);
    return model;
}

void model_free(struct model *model)
{
    (void)pthread_rwlock_destroy(&model->reload_lock);
    free_histories(model->card, model->channels);
    free_histories(model->member, model->channels);
    free_histories(model->link, model->channels);
    free_histories(model->key, MODEL_KEYS);
    free(model->channel);
    free(model->link_owner);
    free(model);
}

enum section model_section(int channel)
{
    if (channel < MODEL_FROZEN)
        return SECTION_FROZEN;
    if (channel < MODEL_FROZEN + MODEL_ACTIVE)
        return SECTION_ACTIVE;
    return channel < MODEL_LISTED ? SECTION_TAIL : SECTION_UNLISTED;
}

int64_t model_id(int channel)
{
    int64_t id = (int64_t)(channel + 1) * ID_STEP;
    return channel % 2 == 0 ? id : -id;
}

int model_channel_of(const struct model *model, int64_t id)
{
    int64_t channel = (id < 0 ? -id : id) / ID_STEP - 1;
    if (channel < 0 || channel >= model->channels || model_id((int)channel) != id)
        return -1;
    return (int)channel;
}

int model_hot_channel(const struct model *model, int n, int writer)
{
    int step = model->channels / MODEL_HOT / model->writers * model->writers;
    return n * step + writer;
}

int model_fixed_score(int channel)
{
    return model_section(channel) == SECTION_FROZEN ? channel : 10000 + channel;
}

/* Every history of the model, one after the other; NULL behind the last. */
static struct history *model_history(struct model *model, int n)
{
    struct history *const of_channels[] = {model->card, model->member, model->link};
    if (n < 3 * model->channels)
        return &of_channels[n % 3][n / 3];
    return n < 3 * model->channels + MODEL_KEYS ? &model->key[n - 3 * model->channels] : NULL;
}

/* All histories, but those of keys, have the same value for what is not there. */
_Static_assert(CARD_ABSENT == MEMBER_ABSENT && CARD_ABSENT == LINK_FREE, "one value");

void model_issue_loss(struct model *model, int64_t now)
{
    struct history *history = NULL;
    for (int n = 0; (history = model_history(model, n)) != NULL; n++)
        (void)history_issue(history, n < 3 * model->channels ? CARD_ABSENT : KEY_REVOKED, now);
}

void model_acknowledge_loss(struct model *model, int64_t now)
{
    struct history *history = NULL;
    for (int n = 0; (history = model_history(model, n)) != NULL; n++)
        history_acknowledge(history, history->newest, now);
}
