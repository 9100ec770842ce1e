/* See fleet_catalogue.h. */
#include "fleet_catalogue.h"

#include "common.h"
#include "model/channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 128, API_KEYS = 10, LOAD_BATCH = 500 };

#define CARD_PREFIX "channels:card:-"
#define LINK_PREFIX "channels:link:https://example.org/channel_"
#define INDEX       "channels:index"
#define API_KEYS_AT "channels:api_keys"

/* Ids are far apart and long, as those of real channels. */
#define ID_BASE  68000000000000LL
#define ID_RANGE 1000003LL

static long long id_of(long channel)
{
    return -(ID_BASE + channel * ID_RANGE);
}

static void add_card_key(struct text *t, long channel)
{
    char key[KEY_MAX];
    int len = snprintf(key, sizeof key, CARD_PREFIX "%lld", -id_of(channel));
    command_add(t, key, (size_t)len);
}

static void add_link_key(struct text *t, long channel)
{
    char key[KEY_MAX];
    int len = snprintf(key, sizeof key, LINK_PREFIX "%ld", channel);
    command_add(t, key, (size_t)len);
}

/* --- Loading -------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum channel_type type;
} FIELDS[CHANNEL_FIELD_COUNT] = {
#define FIELD(name, type, in_summary) {#name, type},
    CHANNEL_FIELDS(FIELD)
#undef FIELD
};

static const char *const VALUES[] = {
    [CHANNEL_TEXT] = "Northern Kitchen",
    [CHANNEL_INTEGER] = "123456",
    [CHANNEL_FLAG] = "1",
    [CHANNEL_DATETIME] = "2026-01-10T12:00:00",
    [CHANNEL_HISTORY] =
        "{\"2026-01-01\":123410,\"2026-01-02\":123420,\"2026-01-03\":123430,\"2026-01-04\":123440,"
        "\"2026-01-05\":123450,\"2026-01-06\":123451,\"2026-01-07\":123452,\"2026-01-08\":123453,"
        "\"2026-01-09\":123454,\"2026-01-10\":123456}",
};

static void compose_channel(struct text *t, long channel, const struct text *description)
{
    char link[KEY_MAX];
    int link_len = snprintf(link, sizeof link, "https://example.org/channel_%ld", channel);
    command_begin(t, 2 + 2 * CHANNEL_FIELD_COUNT);
    command_add_text(t, "HSET");
    add_card_key(t, channel);
    for (int i = 0; i < CHANNEL_FIELD_COUNT; i++) {
        command_add_text(t, FIELDS[i].name);
        if (i == CHANNEL_FIELD_max_channel_id)
            command_add_number(t, id_of(channel));
        else if (i == CHANNEL_FIELD_description)
            command_add(t, description->data, description->len);
        else if (i == CHANNEL_FIELD_link)
            command_add(t, link, (size_t)link_len);
        else
            command_add_text(t, VALUES[FIELDS[i].type]);
    }
    command_begin(t, 3);
    command_add_text(t, "SET");
    add_link_key(t, channel);
    command_add_number(t, id_of(channel));
    compose_write(t, WRITE_INDEX, channel, channel);
}

void catalogue_load(int port, long channels, long value_bytes)
{
    struct resp r;
    struct text t = {0};
    struct text description = {0};
    for (long i = 0; i < value_bytes; i++)
        text_append(&description, "News before breakfast, and nothing after it. " + i % 45, 1);
    resp_open(&r, port);
    for (long first = 0; first < channels; first += LOAD_BATCH) {
        long end = first + LOAD_BATCH < channels ? first + LOAD_BATCH : channels;
        t.len = 0;
        for (long channel = first; channel < end; channel++)
            compose_channel(&t, channel, &description);
        resp_call(&r, &t, 3 * (uint64_t)(end - first));
    }
    t.len = 0;
    for (long i = 0; i < API_KEYS; i++)
        compose_write(&t, WRITE_API_KEYS, 0, i);
    resp_call(&r, &t, API_KEYS);
    resp_close(&r);
    text_free(&t);
    text_free(&description);
}

/* --- Reading and writing -------------------------------------------------------------------------------- */

void compose_read_card(struct text *t, long channel)
{
    command_begin(t, 2 + CHANNEL_FIELD_COUNT);
    command_add_text(t, "HMGET");
    add_card_key(t, channel);
    for (int i = 0; i < CHANNEL_FIELD_COUNT; i++)
        command_add_text(t, FIELDS[i].name);
}

void compose_read_link(struct text *t, long channel)
{
    command_begin(t, 2);
    command_add_text(t, "GET");
    add_link_key(t, channel);
}

void compose_read_page(struct text *t)
{
    command_begin(t, 4);
    command_add_text(t, "ZRANGE");
    command_add_text(t, INDEX);
    command_add_number(t, 0);
    command_add_number(t, PAGE_SIZE);
}

void compose_read_api_keys(struct text *t)
{
    char digest[65];
    command_begin(t, 2 + API_KEYS);
    command_add_text(t, "SMISMEMBER");
    command_add_text(t, API_KEYS_AT);
    for (long i = 0; i < API_KEYS; i++) {
        (void)snprintf(digest, sizeof digest, "%064lx", (unsigned long)i);
        command_add_text(t, digest);
    }
}

void compose_touch_cards(struct text *t, const long *channels, size_t count)
{
    command_begin(t, 1 + count);
    command_add_text(t, "EXISTS");
    for (size_t i = 0; i < count; i++)
        add_card_key(t, channels[i]);
}

static void compose_write_card(struct text *t, long channel, long number)
{
    command_begin(t, 6);
    command_add_text(t, "HSET");
    add_card_key(t, channel);
    command_add_text(t, "views_24h");
    command_add_number(t, number);
    command_add_text(t, "updated_at");
    command_add_text(t, "2026-01-10T12:00:01");
}

void compose_write(struct text *t, enum write_kind kind, long channel, long number)
{
    char member[KEY_MAX];
    switch (kind) {
    case WRITE_CARD:
        compose_write_card(t, channel, number);
        break;
    case WRITE_INDEX:
        command_begin(t, 4);
        command_add_text(t, "ZADD");
        command_add_text(t, INDEX);
        command_add_number(t, number);
        command_add_number(t, id_of(channel));
        break;
    case WRITE_API_KEYS:
        (void)snprintf(member, sizeof member, "%064lx", (unsigned long)number);
        command_begin(t, 3);
        command_add_text(t, "SADD");
        command_add_text(t, API_KEYS_AT);
        command_add_text(t, member);
        break;
    }
}

static bool has_prefix(const char *key, size_t len, const char *prefix)
{
    return len > strlen(prefix) && memcmp(key, prefix, strlen(prefix)) == 0;
}

/* A key is followed by CRLF, where strtoll ends. */
long channel_of_key(const char *key, size_t len)
{
    if (has_prefix(key, len, CARD_PREFIX))
        return (long)((strtoll(key + strlen(CARD_PREFIX), NULL, 10) - ID_BASE) / ID_RANGE);
    if (len == strlen(INDEX) && memcmp(key, INDEX, len) == 0)
        return INDEX_KEY;
    if (len == strlen(API_KEYS_AT) && memcmp(key, API_KEYS_AT, len) == 0)
        return API_KEYS_KEY;
    return OTHER_KEY;
}
