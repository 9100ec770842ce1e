/*
 * The shapes of the API's bodies, written from the contract and not from the code, to validate every body
 * that the code produces.
 */
#ifndef TEST_FUZZ_CONTRACT_H
#define TEST_FUZZ_CONTRACT_H

#include "base/span.h"

#include <yyjson.h>

enum contract_kind { CONTRACT_TEXT, CONTRACT_INTEGER, CONTRACT_FLAG, CONTRACT_HISTORY, CONTRACT_DATETIME };

struct contract_member {
    const char *name;
    enum contract_kind kind;
    bool in_summary;
};

enum { CONTRACT_MEMBERS = 15 };
extern const struct contract_member CONTRACT_CARD[CONTRACT_MEMBERS];

/* Aborts unless `channel` has exactly the members of its shape, in their order and with their types. */
void contract_check_channel(yyjson_val *channel, bool summary);

/* Aborts unless `body` is JSON in UTF-8 of the shape that belongs to the status. */
void contract_check_body(struct span body, int status);

#endif
