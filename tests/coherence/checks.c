/* Judging answers about one channel; see checks.h. */

#include "coherence/checks.h"

#include "coherence/clock.h"

static int check_status_slot(int status)
{
    static const int slots[] = {200, 304, 401, 404, 500};
    int slot = 0;
    while (slot < 5 && slots[slot] != status)
        slot++;
    return slot;
}

static void check_count(const struct trial *trial)
{
    struct tally *tally = trial->checker->tally;
    int64_t wait = trial->reply->received - trial->question->sent;
    uint64_t reads = atomic_load_explicit(&tally->reads, memory_order_relaxed);
    atomic_store_explicit(&tally->reads, reads + 1, memory_order_relaxed);
    tally->requests[trial->question->kind]++;
    tally->statuses[check_status_slot(trial->reply->status)]++;
    if (!trial->outlook.excused && wait > tally->longest_wait)
        tally->longest_wait = wait;
}

static void check_failure(const struct trial *trial)
{
    struct tally *tally = trial->checker->tally;
    uint64_t failed = atomic_load_explicit(&tally->failed, memory_order_relaxed);
    atomic_store_explicit(&tally->failed, failed + 1, memory_order_relaxed);
    if (trial->outlook.excused)
        tally->failed_by_fault[trial->outlook.fault]++;
    else
        trial_violation(trial, VIOLATION_FAILED, "no fault was on");
}

/* 401 says that the key is not valid, everything else that it is. */
static void check_key(const struct trial *trial)
{
    int64_t said = trial->reply->status == 401 ? KEY_REVOKED : KEY_VALID;
    int key = trial->question->key;
    if (key < 0) {
        if (said == KEY_VALID)
            trial_violation(trial, VIOLATION_KEY, "a key that was never valid works");
        return;
    }
    trial_judge(trial, VIEW_KEY, history_judge(&trial->checker->world->key[key], trial->window, said, said),
                "validity", said);
}

static bool check_read_card(const struct trial *trial, struct sighting *seen)
{
    if (trial->reply->status == 304) {
        *seen = trial->question->known;
        if (!trial->question->conditional)
            trial_violation(trial, VIOLATION_STATUS, "without a condition");
        return trial->question->conditional;
    }
    enum reading reading =
        answer_read_card(trial->checker->world, trial->reply->body, trial->reply->length, seen);
    if (reading != READING_GOOD)
        trial_unreadable(trial, reading);
    return reading == READING_GOOD;
}

static void check_missing_card(const struct trial *trial)
{
    struct history *history = &trial->checker->world->card[trial->question->object];
    trial_judge(trial, VIEW_CARD, history_judge(history, trial->window, CARD_ABSENT, CARD_ABSENT),
                "no channel", CARD_ABSENT);
}

/*
 * A link without a channel. While it changes hands, either owner may be removed just when its card is read,
 * so nothing is judged unless the link was free or had one owner all the time.
 */
static void check_missing_link(const struct trial *trial)
{
    struct history *history = &trial->checker->world->link[trial->question->object];
    struct judgement judgement = history_judge(history, trial->window, LINK_FREE, LINK_FREE);
    int64_t owner = LINK_FREE;
    if (judgement.verdict != VERDICT_LEGAL && !history_is_certain(history, trial->window, &owner))
        judgement.verdict = VERDICT_UNKNOWN;
    trial_judge(trial, VIEW_LINK, judgement, "no channel", LINK_FREE);
}

static bool check_found(const struct trial *trial, struct sighting *seen)
{
    const struct question *question = trial->question;
    if (question->object < 0) {
        trial_violation(trial, VIOLATION_INVENTED, "no such channel exists");
        return false;
    }
    if (!check_read_card(trial, seen))
        return false;
    if (question->target == TARGET_LINK) {
        struct history *link = &trial->checker->world->link[question->object];
        trial_judge(trial, VIEW_LINK, history_judge(link, trial->window, seen->channel, seen->channel),
                    "channel", seen->channel);
        trial_see(trial, VIEW_BY_LINK, seen);
    } else if (seen->channel != question->object) {
        trial_violation(trial, VIOLATION_INVENTED, "saw channel %d", seen->channel);
    } else {
        trial_see(trial, VIEW_CARD, seen);
    }
    return true;
}

static bool check_content(const struct trial *trial, struct sighting *seen)
{
    const struct question *question = trial->question;
    int status = trial->reply->status;
    if (question->target == TARGET_PAGE && status == 200)
        check_page(trial);
    else if (question->target != TARGET_PAGE && (status == 200 || status == 304))
        return check_found(trial, seen);
    else if (question->target == TARGET_PAGE || status != 404)
        trial_violation(trial, VIOLATION_STATUS, "unexpected");
    else if (question->object >= 0 && question->target == TARGET_CARD)
        check_missing_card(trial);
    else if (question->object >= 0)
        check_missing_link(trial);
    return false;
}

bool check_reply(struct checker *checker, const struct question *question, const struct reply *reply,
                 struct sighting *seen)
{
    struct trial trial = {.checker = checker, .question = question, .reply = reply};
    trial.outlook = weather_look(checker->weather, question->sent, reply->received);
    trial.window = (struct window){.since = trial.outlook.since, .until = reply->received};
    check_count(&trial);
    if (reply->status == 500) {
        check_failure(&trial);
        return false;
    }
    weather_note_good(checker->weather, question->sent, reply->received);
    if (trial.outlook.dark)
        trial_violation(&trial, VIOLATION_MEMORY, "Redis was away for longer than the stale limit");
    check_key(&trial);
    return reply->status != 401 && check_content(&trial, seen);
}
