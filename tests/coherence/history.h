#ifndef COHERENCE_HISTORY_H
#define COHERENCE_HISTORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * What one object of Redis went through: its latest changes, numbered from 0 in the order in which Redis
 * takes them. A change is issued before its command is sent and acknowledged after the reply is read; one
 * that was never acknowledged may have happened or not.
 *
 * An answer was made at some moment between the sending of the request and its reception. It may show the
 * newest change that was acknowledged when it had to be known (`since`), or any later one that was issued by
 * the time the answer came (`until`), and nothing else.
 *
 * One thread at a time changes a history; any thread judges by it.
 */

enum { HISTORY_DEPTH = 128 };

struct change {
    int64_t issued;
    int64_t acknowledged; /* 0: not yet, perhaps never */
    int64_t value;
};

struct history {
    pthread_mutex_t lock;
    int64_t newest; /* number of the newest change */
    struct change change[HISTORY_DEPTH];
};

struct window {
    int64_t since;
    int64_t until;
};

enum verdict {
    VERDICT_LEGAL,
    VERDICT_STALE,    /* was true once, but not any more */
    VERDICT_INVENTED, /* was never true, or only later */
    VERDICT_UNKNOWN,  /* the changes that matter have been forgotten */
};

struct judgement {
    enum verdict verdict;
    int64_t number;       /* of the change that was seen, -1: none fits */
    int64_t superseded;   /* when its successor was acknowledged, 0: not yet */
    int64_t expected;     /* the oldest change that would have been legal, -1: forgotten */
    int64_t acknowledged; /* and when that was acknowledged */
    int64_t value;        /* and what it says */
};

/* Begins with a change 0 that was always there. */
void history_init(struct history *history, int64_t value);
void history_fini(struct history *history);

/* Adds a change; returns its number. */
int64_t history_issue(struct history *history, int64_t value, int64_t now);
void history_acknowledge(struct history *history, int64_t number, int64_t now);

/* Judges an answer that shows a value from low to high. */
struct judgement history_judge(struct history *history, struct window window, int64_t low, int64_t high);

/* Judges an answer that shows the change of that number; `value` becomes what that change says. */
struct judgement history_judge_number(struct history *history, struct window window, int64_t number,
                                      int64_t *value);

/* True when only one change is legal; `value` becomes what it says. */
bool history_is_certain(struct history *history, struct window window, int64_t *value);

/* Whether there are legal changes with values from low to high, and others. */
struct possible {
    bool inside;
    bool outside;
};
struct possible history_possible(struct history *history, struct window window, int64_t low, int64_t high);

#endif
