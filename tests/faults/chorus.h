#ifndef FAULTS_CHORUS_H
#define FAULTS_CHORUS_H

#include "faults/stage.h"

/*
 * Connections that ask the same at the same time: so many that each worker has some. What the chorus was
 * answered, both workers remember.
 */

enum { CHORUS_SIZE = 12 };

struct chorus {
    struct http_conn conns[CHORUS_SIZE];
};

void chorus_open(struct chorus *chorus, struct stage *stage);
void chorus_close(struct chorus *chorus);

/* Sends the question over every connection; the answers are read by one of those below. */
void chorus_send(struct chorus *chorus, const char *path);

/* Fails unless every answer has that status and, where it is not NULL, that body, which it frees. */
void chorus_expect(struct chorus *chorus, int status, char *body);

/* How many of the answers are 200 with that body; fails unless the others are 200 with `instead`. */
int chorus_count(struct chorus *chorus, const char *body, const char *instead);

/* All of it: asks, and expects. */
void chorus_ask(struct chorus *chorus, const char *path, int status, char *body);

/* Asks until every answer is that, which has to be soon: for what Redis has just acknowledged. */
void chorus_await(struct chorus *chorus, const char *path, int status, char *body);

/* True when a chorus of its own was answered by memory alone; and waits until that is so. */
bool chorus_is_from_memory(struct stage *stage);
void chorus_await_memory(struct stage *stage);

#endif
