/* Parses responses; aborts on any that is not well-formed HTTP/1.1 of the contract's shape. */
#ifndef TEST_FUZZ_ANSWER_H
#define TEST_FUZZ_ANSWER_H

#include "http/request.h"

struct answer {
    int status;
    struct span head; /* the fields, each with its line end */
    struct span body;
};

/* `in` without the "100 Continue"s at its front. */
struct span answer_skip_interim(struct span in);

/* True when `in` begins with a complete response: the connection may have ended in the middle of one. */
bool answer_is_whole(struct span in, enum http_method method);

/* Removes a response from the front of `in`. `method` is that of its request. */
void answer_take(struct span *in, enum http_method method, struct answer *a);

/* The value of a field, absent when there is none; a field may occur only once. */
struct span answer_field(const struct answer *a, const char *name);

#endif
