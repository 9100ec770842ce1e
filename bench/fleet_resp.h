/*
 * RESP3 connections of bench/fleet: commands composed into a text, replies counted, invalidations reported.
 * The contents of replies are skipped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that grow; {0} is empty. */
struct text {
    char *data;
    size_t len, room;
};

void text_append(struct text *t, const void *data, size_t len);
void text_free(struct text *t);

/* A command is its number of words, then the words. */
void command_begin(struct text *t, size_t words);
void command_add(struct text *t, const char *word, size_t len);
void command_add_text(struct text *t, const char *word);
void command_add_number(struct text *t, long long number);

/* All words at once, separated by single blanks. */
void command_compose(struct text *t, const char *words);

/* `key` is borrowed until the function returns; NULL: everything is invalid. */
typedef void key_fn(void *arg, const char *key, size_t len);

struct resp {
    int fd;
    struct text in;    /* received, and not yet a whole value */
    uint64_t replies;  /* so far; pushes are not counted */
    uint64_t pushes;   /* messages of invalidation so far */
    uint64_t received; /* bytes so far */
    uint64_t
        stamp_ns; /* by the real-time clock, when the kernel had received the latest bytes; see resp_stamp */
    key_fn *on_invalid; /* for each key of a push; may be NULL */
    void *arg;
};

/* Connects to the port of 127.0.0.1. The connection is not blocking. */
void resp_open(struct resp *r, int port);

void resp_close(struct resp *r);

/* Has the kernel note when bytes are received, which does not depend on when they are read. */
void resp_stamp(struct resp *r);

/* Sends everything, and waits while the socket takes no more. */
void resp_send(struct resp *r, const struct text *commands);

/* Reads and parses what has been received. An error reply ends the program. Returns whether there was
 * anything. */
bool resp_receive(struct resp *r);

/* Drops unread what has been received. It must end with whole values before resp_receive is used again. */
void resp_discard(struct resp *r);

/* Sends the commands and waits until `replies` of them have been replied to. */
void resp_call(struct resp *r, const struct text *commands, uint64_t replies);

/* Sends one command, as command_compose, and returns the reply, a verbatim or bulk string; the caller owns
 * it. */
char *resp_ask(struct resp *r, const char *words);
