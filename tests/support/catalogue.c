/* Sample channels, and a small external loader. Its schema is that of the manual, not of the source. */

#include "support/catalogue.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "support/test.h"
#include "support/text.h"

enum { HISTORY_DAYS = 10, CARD_FIELDS_MAX = 16 };

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

/* Every few samples the field is null. */
static void catalogue_add_text(yyjson_mut_doc *document, const char *name, const char *value, bool null)
{
    yyjson_mut_val *root = yyjson_mut_doc_get_root(document);
    if (null)
        yyjson_mut_obj_add_null(document, root, name);
    else
        yyjson_mut_obj_add_strcpy(document, root, name, value);
}

static void catalogue_add_number(yyjson_mut_doc *document, const char *name, int64_t value, bool null)
{
    yyjson_mut_val *root = yyjson_mut_doc_get_root(document);
    if (null)
        yyjson_mut_obj_add_null(document, root, name);
    else
        yyjson_mut_obj_add_sint(document, root, name, value);
}

char *catalogue_card(size_t n)
{
    int64_t number = (int64_t)n;
    AUTOFREE char *link = catalogue_link(n);
    AUTOFREE char *text =
        text_printf("Sample %zu: %s", n, catalogue_titles[(n + 1) % TEST_COUNT(catalogue_titles)]);
    yyjson_mut_doc *document = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(document);
    yyjson_mut_doc_set_root(document, root);
    catalogue_add_number(document, "max_channel_id", catalogue_id(n), false);
    catalogue_add_text(document, "title", catalogue_titles[n % TEST_COUNT(catalogue_titles)], false);
    catalogue_add_text(document, "description", text, n % 7 == 6);
    catalogue_add_text(document, "avatar", "https://cdn.example/a/b.jpg?x=1&y=2", n % 3 == 0);
    catalogue_add_text(document, "link", link, false);
    catalogue_add_text(document, "category", "technology", n % 13 == 12);
    catalogue_add_text(document, "category2", "blog", n % 2 == 0);
    catalogue_add_number(document, "followers_cnt_today", n == 0 ? INT64_MAX : number * 100, n % 17 == 16);
    yyjson_mut_obj_add_val(document, root, "followers_history", catalogue_history(document, n));
    catalogue_add_number(document, "is_a_plus_flag", number % 2, false);
    catalogue_add_number(document, "views_24h", number * 3, n % 5 == 4);
    catalogue_add_number(document, "views_48h", number * 5, false);
    catalogue_add_number(document, "er_24h", number % 101, false);
    catalogue_add_number(document, "er_48h", n == 1 ? INT64_MIN : number % 97, false);
    catalogue_add_text(document, "updated_at", "2026-11-20T10:06:06", n % 19 == 18);
    char *card = yyjson_mut_write(document, YYJSON_WRITE_NOFLAG, NULL);
    yyjson_mut_doc_free(document);
    if (card == NULL)
        abort();
    return card;
}

char *catalogue_summary(const char *card)
{
    static const char *const names[] = {"max_channel_id", "title", "description",
                                        "avatar",         "link",  "updated_at"};
    yyjson_doc *parsed = yyjson_read(card, strlen(card), YYJSON_READ_NOFLAG);
    yyjson_mut_doc *document = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(document);
    yyjson_mut_doc_set_root(document, root);
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        yyjson_val *value = yyjson_obj_get(yyjson_doc_get_root(parsed), names[i]);
        yyjson_mut_val *copy =
            value != NULL ? yyjson_val_mut_copy(document, value) : yyjson_mut_null(document);
        yyjson_mut_obj_add_val(document, root, names[i], copy);
    }
    char *summary = yyjson_mut_write(document, YYJSON_WRITE_NOFLAG, NULL);
    yyjson_doc_free(parsed);
    yyjson_mut_doc_free(document);
    return summary;
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
        *length = yyjson_get_len(value);
        text = malloc(*length + 1);
        if (text == NULL)
            abort();
        memcpy(text, yyjson_get_str(value), *length + 1);
    } else if (value != NULL && !yyjson_is_null(value)) {
        text = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, length);
    }
    return text;
}

static void catalogue_put_hash(struct redis *redis, int64_t id, yyjson_val *card)
{
    const char *args[2 + 2 * CARD_FIELDS_MAX] = {"HSET"};
    size_t lengths[2 + 2 * CARD_FIELDS_MAX] = {4};
    char *values[CARD_FIELDS_MAX] = {NULL};
    size_t fields = 0;
    size_t used = 2;
    AUTOFREE char *key = text_printf("%scard:%" PRId64, redis->prefix, id);
    yyjson_obj_iter iterator = yyjson_obj_iter_with(card);
    args[1] = key;
    lengths[1] = strlen(key);
    redis_do(redis, "DEL %s", key);
    for (yyjson_val *name = yyjson_obj_iter_next(&iterator); name != NULL && fields < CARD_FIELDS_MAX;
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

/* ---- versioned channels ---- */

/* ARGV: version, listed, first spare, spares, digest of the key, prefix. */
static const char write_script[] =
    "local function put(id) "
    "  redis.call('HSET', ARGV[6] .. 'card:' .. id, 'max_channel_id', id, 'title', 'v' .. ARGV[1] .. ' of ' "
    ".. "
    "id, "
    "    'description', string.rep('x', 200), 'link', 'https://max.ru/c' .. id, 'followers_cnt_today', id) "
    "end "
    "for i = 1, tonumber(ARGV[2]) do local id = string.format('%d', i) put(id) "
    "  redis.call('ZADD', ARGV[6] .. 'index', i, id) "
    "  redis.call('SET', ARGV[6] .. 'link:https://max.ru/c' .. id, id) "
    "end "
    "for i = 0, tonumber(ARGV[4]) - 1 do put(string.format('%d', tonumber(ARGV[3]) + i)) end "
    "redis.call('SADD', ARGV[6] .. 'api_keys', ARGV[5]) return 1";

void catalogue_put_version(struct redis *redis, int version, const char *key)
{
    char digest[65];
    catalogue_digest(key, digest);
    redis_do(redis, "EVAL %s 0 %d %d %d %d %s %s", write_script, version, CATALOGUE_LISTED, CATALOGUE_SPARE,
             CATALOGUE_SPARES, digest, redis->prefix);
}

char *catalogue_version_card(long long id, int version)
{
    AUTOFREE char *description = text_repeat('x', 200);
    char *body = text_printf(
        "{\"success\":true,\"data\":{\"max_channel_id\":%lld,\"title\":\"v%d of "
        "%lld\",\"description\":\"%s\","
        "\"avatar\":null,\"link\":\"https://max.ru/c%lld\",\"category\":null,\"category2\":null,"
        "\"followers_cnt_today\":%lld,\"followers_history\":{},\"is_a_plus_flag\":null,\"views_24h\":null,"
        "\"views_48h\":null,\"er_24h\":null,\"er_48h\":null,\"updated_at\":null}}",
        id, version, id, description, id, id);
    return body;
}

char *catalogue_version_page(int number, int version)
{
    int first = (number - 1) * 100 + 1;
    int last = number * 100 < CATALOGUE_LISTED ? number * 100 : CATALOGUE_LISTED;
    AUTOFREE char *description = text_repeat('x', 200);
    char *body = text_printf("{\"success\":true,\"data\":[");
    for (int id = first; id <= last; id++) {
        AUTOFREE char *item =
            text_printf("%s{\"max_channel_id\":%d,\"title\":\"v%d of %d\",\"description\":\"%s\","
                        "\"avatar\":null,\"link\":\"https://max.ru/c%d\",\"updated_at\":null}",
                        id > first ? "," : "", id, version, id, description, id);
        body = text_append(body, item);
    }
    AUTOFREE char *end =
        text_printf("],\"pagination\":{\"page\":%d,\"per_page\":100,\"count\":%d,\"has_next\":%s}}", number,
                    last >= first ? last - first + 1 : 0, last < CATALOGUE_LISTED ? "true" : "false");
    body = text_append(body, end);
    return body;
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
