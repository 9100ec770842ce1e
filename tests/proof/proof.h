/*
 * What the proofs share. An uninitialised variable, and the result of a function that has no body and a name
 * in nondet_, has any value of its type: what a proof shows of it holds for all of them.
 */
#ifndef PROOF_H
#define PROOF_H

#include "base/buf.h"

#include <assert.h>

size_t nondet_size(void);
int64_t nondet_int64(void);
bool nondet_bool(void);

static inline size_t any_up_to(size_t max)
{
    size_t n = nondet_size();
    __CPROVER_assume(n <= max);
    return n;
}

static inline struct span any_text_in(char *bytes, size_t size)
{
    size_t n = any_up_to(size);
    return (struct span){bytes + (size - n), n};
}

/* Any text of up to the length of an array, at its end: the byte behind it is beyond the object. */
#define ANY_TEXT(array) any_text_in((array), sizeof(array))

/* A buffer that is not to grow: its memory is no allocation, so that realloc of it is an error. */
#define BUF_IN(array) ((struct buf){.data = (array), .cap = sizeof(array)})

static inline bool is_within(struct span part, struct span whole)
{
    return part.data >= whole.data && part.data + part.len <= whole.data + whole.len;
}

#endif
