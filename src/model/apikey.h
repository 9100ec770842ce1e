/*
 * API keys. Redis holds only the lower-case hex SHA-256 of each, so a leaked copy of Redis lets nobody in.
 *
 * A plain digest is enough where passwords would need a slow one: a key is 256 random bits, nothing to guess.
 * Looking a digest up leaks no useful timing: whoever chooses the key cannot choose its digest.
 */
#ifndef MODEL_APIKEY_H
#define MODEL_APIKEY_H

#include "base/digest.h"

/* "ck_" and 43 characters of base64url (RFC 4648 section 5, no padding): 256 bits. Never mistaken for a
 * digest. */
enum { APIKEY_LEN = 46 };

/* A new key from the kernel's generator, without a NUL. Returns 0 or a negative errno. */
int apikey_generate(char out[APIKEY_LEN]) __attribute__((warn_unused_result));

#endif
