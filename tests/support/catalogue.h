#ifndef TEST_SUPPORT_CATALOGUE_H
#define TEST_SUPPORT_CATALOGUE_H

#include <stddef.h>
#include <stdint.h>

#include "support/redis.h"

/*
 * The generator of channels for tests. A card is one line of JSON in the shape that the API returns. Storing
 * it writes what any external loader writes: the hash, the index entry and the link key.
 */

/* The id of sample n: the ends of int64 come first, then zero, then negative and positive ones. */
int64_t catalogue_id(size_t n);

/* The link of sample n, owned. */
char *catalogue_link(size_t n);

/* The card of sample n, owned: deterministic, with text that is hard to write down and fields that are null.
 */
char *catalogue_card(size_t n);

/* What the API shows of a card, owned: fields that it lacks are null, its history is empty. */
char *catalogue_shown(const char *card, bool as_summary);

/* Writes the samples 0..count-1 as NDJSON; fails the test when it cannot. */
void catalogue_write_file(const char *path, size_t count);

/* Puts a card (JSON) into Redis, at that score of the index. A field that is null or missing is not stored.
 */
void catalogue_put(struct redis *redis, const char *card, double score);

/* Puts the samples 0..count-1, in that order. */
void catalogue_put_samples(struct redis *redis, size_t count);

/* ---- API keys ---- */

/* Makes the key valid: its SHA-256 goes into the set of keys. */
void catalogue_issue_key(struct redis *redis, const char *key);

/* Issues so many further keys, which no client has. */
void catalogue_issue_keys(struct redis *redis, int count);

/* The lower-case hex SHA-256 of the text. */
void catalogue_digest(const char *text, char digest[65]);

#endif
