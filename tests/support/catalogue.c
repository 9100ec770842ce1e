/* Sample channels, and a small external loader. Its schema is that of the manual, not of the source. */

#include "support/catalogue.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "support/fields.h"
#include "support/test.h"
#include "support/text.h"

enum { HISTORY_DAYS = 10 };

static const char *const catalogue_titles[] = {
    "Плохие новости \xF0\x9F\x98\x80",
    "\"Quoted\" \\ back/slash",
    "tab\there, line\nbreak, return\r, bell\x07, delete\x7F, escape\x1B",
    "",
    "Akinlakiapu",
    "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9 \xE4\xB8\xAD\xE6\x96\x87 \xE2\x80\xA8 </script>"};

int64_t catalogue_id(size_t n)
{
    static const int64_t special[] = {INT64_MAX, INT64_MIN, 0, -1, 1};
    if (n < TEST_COUNT(special))
        return special[n];
    int64_t number = (int64_t)n;
    return n % 2 == 0 ? 1000 + number : -(68000000000000 + number * 7919);
}

char *catalogue_link(size_t n)
{
    return text_printf("https://max.ru/sample_%zu", n);
}

static yyjson_mut_val *catalogue_history(yyjson_mut_doc *document, size_t n)
{
    yyjson_mut_val *history = yyjson_mut_obj(document);
    for (size_t day = 0; day < HISTORY_DAYS && n % 11 != 5; day++) {
        char date[16];
        (void)snprintf(date, sizeof date, "2026-11-%02zu", day + 11);
        yyjson_mut_obj_add(history, yyjson_mut_strcpy(document, date),
                           yyjson_mut_sint(document, (int64_t)(n * 100 + day)));
    }
    return history;
}

static yyjson_mut_val *catalogue_text(yyjson_mut_doc *document, enum channel_field field, size_t n)
{
    const char *title = catalogue_titles[(n + field) % TEST_COUNT(catalogue_titles)];
    AUTOFREE char *text = field == CHANNEL_FIELD_link ? catalogue_link(n)
                          : field == CHANNEL_FIELD_title
                              ? text_printf("%s", title)
                              : text_printf("%s %zu: %s", field_table[field].name, n, title);
    return yyjson_mut_strcpy(document, text);
}

static yyjson_mut_val *catalogue_value(yyjson_mut_doc *document, enum channel_field field, size_t n)
{
    bool always = field == CHANNEL_FIELD_max_channel_id || field == CHANNEL_FIELD_title ||
                  field == CHANNEL_FIELD_link || field_table[field].type == CHANNEL_HISTORY;
    if (!always && n % (field + 3) == field + 2) /* every few samples */
        return yyjson_mut_null(document);
    switch (field_table[field].type) {
    case CHANNEL_INTEGER:
        if (field == CHANNEL_FIELD_max_channel_id)
            return yyjson_mut_sint(document, catalogue_id(n));
        return yyjson_mut_sint(document, n == 0 ? INT64_MAX : (int64_t)(n * field));
    case CHANNEL_FLAG:
        return yyjson_mut_sint(document, (int64_t)(n % 2));
    case CHANNEL_DATETIME:
        return yyjson_mut_str(document, "2026-11-20T10:06:06");
    case CHANNEL_HISTORY:
        return catalogue_history(document, n);
    default:
        return catalogue_text(document, field, n);
    }
}

char *catalogue_card(size_t n)
{
    yyjson_mut_doc *document = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(document);
    yyjson_mut_doc_set_root(document, root);
    for (enum channel_field f = 0; f < CHANNEL_FIELD_COUNT; f++)
        yyjson_mut_obj_add_val(document, root, field_table[f].name, catalogue_value(document, f, n));
    char *card = yyjson_mut_write(document, YYJSON_WRITE_NOFLAG, NULL);
    yyjson_mut_doc_free(document);
    if (card == NULL)
        abort();
    return card;
}

char *catalogue_shown(const char *card, bool as_summary)
{
    yyjson_doc *parsed = yyjson_read(card, strlen(card), YYJSON_READ_NOFLAG);
    yyjson_mut_doc *document = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(document);
    yyjson_mut_doc_set_root(document, root);
    for (enum channel_field f = 0; f < CHANNEL_FIELD_COUNT; f++) {
        yyjson_val *value = yyjson_obj_get(yyjson_doc_get_root(parsed), field_table[f].name);
        yyjson_mut_val *copy = value != NULL                            ? yyjson_val_mut_copy(document, value)
                               : field_table[f].type == CHANNEL_HISTORY ? yyjson_mut_obj(document)
                                                                        : yyjson_mut_null(document);
        if (!as_summary || field_table[f].in_summary)
            yyjson_mut_obj_add_val(document, root, field_table[f].name, copy);
    }
    char *shown = yyjson_mut_write(document, YYJSON_WRITE_NOFLAG, NULL);
    yyjson_doc_free(parsed);
    yyjson_mut_doc_free(document);
    return shown;
}

void catalogue_write_file(const char *path, size_t count)
{
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        fail_msg("cannot write %s", path);
        return;
    }
    for (size_t n = 0; n < count; n++) {
        AUTOFREE char *card = catalogue_card(n);
        (void)fprintf(file, "%s\n", card);
    }
    assert_int_equal(fclose(file), 0);
}

/* The value of a hash field as a loader stores it, owned; NULL: not stored. */
static char *catalogue_stored(yyjson_val *value, size_t *length)
{
    char *text = NULL;
    if (yyjson_is_str(value)) {
        const char *string = yyjson_get_str(value);
        *length = yyjson_get_len(value);
        text = malloc(*length + 1);
        if (text == NULL || string == NULL)
            abort();
        memcpy(text, string, *length + 1);
    } else if (value != NULL && !yyjson_is_null(value)) {
        text = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, length);
    }
    return text;
}

static void catalogue_put_hash(struct redis *redis, int64_t id, yyjson_val *card)
{
    const char *args[2 + 2 * CHANNEL_FIELD_COUNT] = {"HSET"};
    size_t lengths[2 + 2 * CHANNEL_FIELD_COUNT] = {4};
    char *values[CHANNEL_FIELD_COUNT] = {NULL};
    size_t fields = 0;
    size_t used = 2;
    AUTOFREE char *key = text_printf("%scard:%" PRId64, redis->prefix, id);
    yyjson_obj_iter iterator = yyjson_obj_iter_with(card);
    args[1] = key;
    lengths[1] = strlen(key);
    redis_do(redis, "DEL %s", key);
    for (yyjson_val *name = yyjson_obj_iter_next(&iterator); name != NULL && fields < CHANNEL_FIELD_COUNT;
         name = yyjson_obj_iter_next(&iterator)) {
        size_t length = 0;
        values[fields] = catalogue_stored(yyjson_obj_iter_get_val(name), &length);
        if (values[fields] == NULL)
            continue;
        args[used] = yyjson_get_str(name);
        lengths[used++] = yyjson_get_len(name);
        args[used] = values[fields++];
        lengths[used++] = length;
    }
    redis_do_argv(redis, used, args, lengths);
    for (size_t i = 0; i < fields; i++)
        free(values[i]);
}

void catalogue_put(struct redis *redis, const char *card, double score)
{
    yyjson_doc *parsed = yyjson_read(card, strlen(card), YYJSON_READ_NOFLAG);
    if (parsed == NULL)
        fail_msg("not a card: %s", card);
    yyjson_val *root = yyjson_doc_get_root(parsed);
    int64_t id = yyjson_get_sint(yyjson_obj_get(root, "max_channel_id"));
    const char *link = yyjson_get_str(yyjson_obj_get(root, "link"));
    catalogue_put_hash(redis, id, root);
    redis_do(redis, "ZADD %sindex %f %lld", redis->prefix, score, (long long)id);
    if (link != NULL)
        redis_do(redis, "SET %slink:%s %lld", redis->prefix, link, (long long)id);
    yyjson_doc_free(parsed);
}

void catalogue_put_samples(struct redis *redis, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        AUTOFREE char *card = catalogue_card(n);
        catalogue_put(redis, card, (double)n);
    }
}

/* ---- API keys ---- */

void catalogue_digest(const char *text, char digest[65])
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    assert_int_equal(EVP_Digest(text, strlen(text), bytes, &length, EVP_sha256(), NULL), 1);
    for (unsigned int i = 0; i < length; i++)
        (void)snprintf(digest + (size_t)i * 2, 3, "%02x", bytes[i]);
}

void catalogue_issue_key(struct redis *redis, const char *key)
{
    char digest[65];
    catalogue_digest(key, digest);
    redis_do(redis, "SADD %sapi_keys %s", redis->prefix, digest);
}

void catalogue_issue_keys(struct redis *redis, int count)
{
    static const char script[] =
        "for i = 1, tonumber(ARGV[1]) do redis.call('SADD', ARGV[2] .. 'api_keys', redis.sha1hex(i) .. "
        "string.sub(redis.sha1hex(-i), 1, 24)) end return 1";
    redis_do(redis, "EVAL %s 0 %d %s", script, count, redis->prefix);
}
