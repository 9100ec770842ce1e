/* Telling violations in full, and judging what was seen of one object; see checks.h. */

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "coherence/checks.h"
#include "coherence/clock.h"

enum { TEXT_SIZE = 600, BODY_SHOWN = 400 };

/* Seconds since the start of the run. */
static double trial_time(const struct trial *trial, int64_t time)
{
    return (double)(time - report_start(trial->checker->report)) / CLOCK_S;
}

static int trial_describe(const struct trial *trial, char *text, size_t size)
{
    static const char *const targets[] = {
        [TARGET_CARD] = "channel", [TARGET_LINK] = "link", [TARGET_PAGE] = "page"};
    const struct question *question = trial->question;
    const char *fault =
        trial->outlook.calm && !trial->outlook.excused ? "none" : weather_fault_name(trial->outlook.fault);
    return snprintf(
        text, size,
        "%s %d with key %d%s, sent %.6f s, answered %.3f ms later with %d, must know what was acknowledged "
        "by %.6f s, fault %s: ",
        targets[question->target], question->object, question->key,
        question->conditional ? " and an entity tag" : "", trial_time(trial, question->sent),
        (double)(trial->reply->received - question->sent) / CLOCK_MS, trial->reply->status,
        trial_time(trial, trial->window.since), fault);
}

void trial_violation(const struct trial *trial, enum violation kind, const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list args;
    va_start(args, format);
    int used = trial_describe(trial, text, sizeof text);
    (void)vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    va_end(args);
    report_violation(trial->checker->report, kind, "%s", text);
}

void trial_unreadable(const struct trial *trial, enum reading reading)
{
    enum violation kind = reading == READING_MIXED ? VIOLATION_MIXED : VIOLATION_BROKEN;
    int shown = trial->reply->length < BODY_SHOWN ? (int)trial->reply->length : BODY_SHOWN;
    trial_violation(trial, kind, "%.*s", shown, trial->reply->body);
}

/* How long the change that was seen had been superseded when the request was sent. */
static int64_t trial_age(const struct trial *trial, const struct judgement *judgement)
{
    if (judgement->superseded == 0 || judgement->superseded >= trial->question->sent)
        return 0;
    return trial->question->sent - judgement->superseded;
}

void trial_judge(const struct trial *trial, enum view view, struct judgement judgement, const char *what,
                 int64_t n)
{
    struct tally *tally = trial->checker->tally;
    tally->judged[view]++;
    if (judgement.verdict == VERDICT_UNKNOWN) {
        tally->forgotten[view]++;
        return;
    }
    if (judgement.number >= 0)
        tally_add_age(tally, view, trial_age(trial, &judgement), trial->outlook.calm);
    if (judgement.verdict == VERDICT_LEGAL)
        return;
    enum violation kind = judgement.verdict == VERDICT_STALE ? VIOLATION_STALE : VIOLATION_INVENTED;
    if (view == VIEW_KEY)
        kind = VIOLATION_KEY;
    char past[80] = "never so until the answer came";
    if (judgement.number >= 0)
        (void)snprintf(past, sizeof past, "that is change %" PRId64 ", superseded at %.6f s",
                       judgement.number, trial_time(trial, judgement.superseded));
    trial_violation(trial, kind,
                    "saw %s %" PRId64 " (%s), expected change %" PRId64 " (value %" PRId64
                    ", acknowledged at %.6f s) or a later one",
                    what, n, past, judgement.expected, judgement.value,
                    trial_time(trial, judgement.acknowledged));
}

/*
 * A busy script refuses some changes of a pipeline and not those behind them, which rely on them: Redis
 * itself holds mixtures then, until all is written again.
 */
static bool trial_may_be_mixed(const struct trial *trial)
{
    return trial->outlook.excused && trial->outlook.fault == FAULT_SCRIPT;
}

void trial_see(const struct trial *trial, enum view view, const struct sighting *sighting)
{
    int64_t link = CARD_ABSENT;
    struct history *history = &trial->checker->world->card[sighting->channel];
    struct judgement judgement = history_judge_number(history, trial->window, sighting->version, &link);
    char what[48];
    (void)snprintf(what, sizeof what, "channel %d in version", sighting->channel);
    trial_judge(trial, view, judgement, what, sighting->version);
    if (judgement.verdict == VERDICT_LEGAL && link != sighting->link && !trial_may_be_mixed(trial))
        trial_violation(trial, VIOLATION_MIXED,
                        "saw channel %d in version %" PRId64 " with link %d, which has link %" PRId64,
                        sighting->channel, sighting->version, sighting->link, link);
}
