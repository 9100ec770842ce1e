/*
 * Reading a stream of HTTP answers as cheaply as that can be done: of the head only the status and
 * Content-Length count, the body is skipped. Answers without Content-Length end the program.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { ANSWER_HEAD_MAX = 4096 };

/* What one connection has read of the answer that is coming; zero is a good beginning. */
struct answer_reader {
    uint64_t body_left; /* of the body that is being skipped */
    size_t head_len;    /* of a head that came in pieces */
    char head[ANSWER_HEAD_MAX];
};

struct answer_totals {
    uint64_t whole;  /* answers read to their end */
    uint64_t errors; /* of these, with a status other than 200 */
    uint64_t body_bytes;
};

/* Reads on; returns how many answers ended in these bytes. */
unsigned answers_read(struct answer_reader *r, struct answer_totals *t, const char *data, size_t len);
