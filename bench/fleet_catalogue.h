/*
 * The catalogue that bench/fleet writes and its trackers read: channels 0 to N - 1 in the schema of channeld,
 * and the commands that channeld sends to read them (src/cache/fetch.c).
 */
#pragma once

#include "fleet_resp.h"

enum { INDEX_KEY = -1, API_KEYS_KEY = -2, OTHER_KEY = -3 };

/* What a loader writes, of what workers hold. */
enum write_kind { WRITE_CARD, WRITE_INDEX, WRITE_API_KEYS };

/* Fills the Redis at the port. Cards have a description of `value_bytes`. */
void catalogue_load(int port, long channels, long value_bytes);

/* The card of a channel: HMGET of all fields. */
void compose_read_card(struct text *t, long channel);

/* The id of a link: GET, which is followed by the HMGET of the card. */
void compose_read_link(struct text *t, long channel);

/* A page: ZRANGE. */
void compose_read_page(struct text *t);

/* The API keys in use: SMISMEMBER. */
void compose_read_api_keys(struct text *t);

/* EXISTS of many cards, which registers their keys at less cost than reading them. */
void compose_touch_cards(struct text *t, const long *channels, size_t count);

/* The number makes each write different from others. */
void compose_write(struct text *t, enum write_kind kind, long channel, long number);

/* The channel of a card's key, or one of the enum. */
long channel_of_key(const char *key, size_t len);
