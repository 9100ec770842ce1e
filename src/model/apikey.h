/*
 * API keys. Redis holds only the lower-case hex SHA-256 of each key, so a leaked copy of Redis grants no
 * access.
 *
 * A key is 256 random bits and cannot be guessed, so a plain digest is enough where passwords would need a
 * slow one. The timing of a look-up by digest is of no use: a client that chooses a key cannot choose its
 * digest.
 */
#ifndef MODEL_APIKEY_H
#define MODEL_APIKEY_H

#include "base/digest.h"

/* "ck_" and 43 characters of base64url (RFC 4648 section 5, no padding): 256 bits. Differs from
 * every digest. */
enum { APIKEY_LEN = 46 };

/* A new key from the kernel's generator, without a NUL. Returns 0 or a negative errno. */
int apikey_generate(char out[APIKEY_LEN]) __attribute__((warn_unused_result));

#endif
