#ifndef COHERENCE_CHECKS_H
#define COHERENCE_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coherence/answer.h"
#include "coherence/report.h"
#include "coherence/weather.h"
#include "coherence/world.h"

/* Judging answers by what was written and by the weather. */

enum target { TARGET_CARD, TARGET_LINK, TARGET_PAGE };

struct question {
    enum request_kind kind;
    enum target target;
    int object; /* channel, link or page (from 1); -1: one that does not exist */
    int key;    /* -1: one that was never valid */
    int64_t sent;
    bool conditional;      /* with the entity tag of what was known */
    struct sighting known; /* of an earlier answer to the same question */
};

struct reply {
    int64_t received;
    int status;
    const char *body;
    size_t length;
};

struct checker {
    struct world *world;
    struct weather *weather;
    struct report *report;
    struct tally *tally;
};

/* Judges; true when `seen` holds what a card said (status 200 or 304). */
bool check_reply(struct checker *checker, const struct question *question, const struct reply *reply,
                 struct sighting *seen);

/* ---- between checks.c, check_page.c and judge.c ---- */

/* One reply under judgement. */
struct trial {
    struct checker *checker;
    const struct question *question;
    const struct reply *reply;
    struct outlook outlook;
    struct window window;
};

/* Reports a violation with all that is known of the request; the format tells what was seen. */
__attribute__((format(printf, 3, 4))) void trial_violation(const struct trial *trial, enum violation kind,
                                                           const char *format, ...);

/* Counts the judgement and reports it when it is bad; `what` and `n` name what was seen, such as "link", 12.
 */
void trial_judge(const struct trial *trial, enum view view, struct judgement judgement, const char *what,
                 int64_t n);

/* What was seen of a channel: its version, and the link of that version. */
void trial_see(const struct trial *trial, enum view view, const struct sighting *sighting);

/* A body that is mixed or broken. */
void trial_unreadable(const struct trial *trial, enum reading reading);

void check_page(const struct trial *trial);

#endif
