/* The latest changes of an object, and what an answer may show of them; see history.h. */

#include "coherence/history.h"

#include <string.h>

void history_init(struct history *history, int64_t value)
{
    memset(history, 0, sizeof *history);
    (void)pthread_mutex_init(&history->lock, NULL);
    history->change[0] = (struct change){.issued = 0, .acknowledged = 1, .value = value};
}

void history_fini(struct history *history)
{
    (void)pthread_mutex_destroy(&history->lock);
}

static struct change *history_at(struct history *history, int64_t number)
{
    return &history->change[number % HISTORY_DEPTH];
}

/* The oldest change that has not been forgotten. */
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

static bool history_known(const struct change *change, struct window window)
{
    return change->acknowledged != 0 && change->acknowledged <= window.since;
}

/* The number of the oldest legal change, or -1 when it has been forgotten. */
static int64_t history_floor(struct history *history, struct window window)
{
    for (int64_t n = history->newest; n >= history_oldest(history); n--) {
        if (history_known(history_at(history, n), window))
            return n;
    }
    return -1;
}

/* The verdict on the change `number` (-1: none fits) against the oldest legal one. */
static struct judgement history_verdict(struct history *history, int64_t number, int64_t floor)
{
    struct judgement judgement = {.number = number, .expected = floor};
    if (floor >= 0) {
        judgement.acknowledged = history_at(history, floor)->acknowledged;
        judgement.value = history_at(history, floor)->value;
    }
    if (number >= 0 && number < history->newest)
        judgement.superseded = history_at(history, number + 1)->acknowledged;
    if (floor < 0)
        judgement.verdict = number >= 0 ? VERDICT_LEGAL : VERDICT_UNKNOWN;
    else if (number < 0)
        judgement.verdict = VERDICT_INVENTED;
    else
        judgement.verdict = number >= floor ? VERDICT_LEGAL : VERDICT_STALE;
    return judgement;
}

struct judgement history_judge(struct history *history, struct window window, int64_t low, int64_t high)
{
    int64_t number = -1;
    (void)pthread_mutex_lock(&history->lock);
    for (int64_t n = history->newest; n >= history_oldest(history) && number < 0; n--) {
        const struct change *change = history_at(history, n);
        if (change->issued <= window.until && change->value >= low && change->value <= high)
            number = n;
    }
    struct judgement judgement = history_verdict(history, number, history_floor(history, window));
    (void)pthread_mutex_unlock(&history->lock);
    return judgement;
}

struct judgement history_judge_number(struct history *history, struct window window, int64_t number,
                                      int64_t *value)
{
    struct judgement judgement;
    (void)pthread_mutex_lock(&history->lock);
    int64_t floor = history_floor(history, window);
    if (number >= history_oldest(history)) {
        bool seen = number <= history->newest && history_at(history, number)->issued <= window.until;
        judgement = history_verdict(history, seen ? number : -1, floor);
        *value = seen ? history_at(history, number)->value : -1;
    } else {
        judgement = history_verdict(history, -1, floor);
        judgement.verdict = floor < 0 ? VERDICT_UNKNOWN : VERDICT_STALE;
        *value = -1;
    }
    (void)pthread_mutex_unlock(&history->lock);
    return judgement;
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
        if (history_known(change, window))
            break;
    }
    bool certain = legal == 1 && history_floor(history, window) >= 0;
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
        complete = history_known(change, window);
    }
    (void)pthread_mutex_unlock(&history->lock);
    if (!complete) /* what has been forgotten may have been anything */
        possible = (struct possible){true, true};
    return possible;
}
