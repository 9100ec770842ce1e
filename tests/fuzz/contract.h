/*
 * The shapes of the API's bodies, written from docs/contract.md and not from the code, to validate every body
 * that the code produces. The fields of a channel are those of its table (support/fields.h).
 */
#ifndef TEST_FUZZ_CONTRACT_H
#define TEST_FUZZ_CONTRACT_H

#include "base/span.h"
#include "http/exchange.h"

#include <yyjson.h>

/* Aborts unless `channel` has exactly the members of its shape, in their order and with their types. */
void contract_check_channel(yyjson_val *channel, bool summary);

/* Aborts unless `body` is JSON in UTF-8 of the shape that belongs to the status. */
void contract_check_body(struct span body, int status);

/* A response; parsing aborts on any that is not well-formed HTTP/1.1 of the contract's shape. */
struct answer {
    int status;
    struct span head; /* the fields, each with its line end */
    struct span body;
};

/* `in` without the "100 Continue"s at its front. */
struct span answer_skip_interim(struct span in);

/* Removes a response from the front of `in`. `method` is that of its request. */
void answer_take(struct span *in, enum http_method method, struct answer *a);

/* The value of a field, absent when there is none; a field may occur only once. */
struct span answer_field(const struct answer *a, const char *name);

#endif
