/*
 * From request targets to cache queries: a target is split and decoded, its parameters are parsed a second
 * time in a simple way, and the query is always for something that can be stored.
 *
 * An input is the target, and behind a newline the value of X-Api-Key. Both are read as Accept-Encoding, too.
 */
#include "api/params.h"
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "http/codings.h"
#include "http/parser.h"

#include <errno.h>

static const struct link_hosts HOSTS = {{"max.ru", 6}, {"web.max.ru", 10}};
static struct digest_cache digests;

static bool within(struct span part, struct span all)
{
    return part.data >= all.data && part.data + part.len <= all.data + all.len;
}

/* Hexadecimal digits by the C library, decoding into a new buffer. */
static void decode_plainly(struct span in, struct buf *out)
{
    buf_clear(out);
    for (size_t i = 0; i < in.len; i++) {
        const char digits[] = {i + 1 < in.len ? in.data[i + 1] : '\0', i + 2 < in.len ? in.data[i + 2] : '\0',
                               '\0'};
        bool escape = in.data[i] == '%' && strspn(digits, "0123456789abcdefABCDEF") == 2;
        buf_append_char(out, escape ? (char)strtoul(digits, NULL, 16) : in.data[i]);
        i += escape ? 2 : 0;
    }
}

static struct span find_plainly(struct span query, struct span wanted)
{
    struct buf name = BUF_INIT;
    struct span found = SPAN_ABSENT;
    while (query.len > 0 && found.data == NULL) {
        struct span value = fuzz_take(&query, '&');
        struct span encoded = fuzz_take(&value, '=');
        decode_plainly(encoded, &name);
        if (span_equal(buf_span(&name), wanted))
            found = value;
    }
    buf_fini(&name);
    return found;
}

static void check_decoding(struct span text)
{
    struct buf plain = BUF_INIT;
    char *in_place = fuzz_copy(text);
    decode_plainly(text, &plain);
    size_t n = uri_decode((struct span){in_place, text.len}, in_place);
    FUZZ_CHECK(span_equal((struct span){in_place, n}, buf_span(&plain)));
    free(in_place);
    buf_fini(&plain);
}

static void check_parameters(struct span query)
{
    static const struct span names[] = {{"api_key", 7}, {"page", 4}, {"link", 4}, {"", 0}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct span found = uri_query_find(query, names[i]);
        struct span pending = find_plainly(query, names[i]);
        FUZZ_CHECK((found.data == NULL) == (pending.data == NULL));
        FUZZ_CHECK(found.data == NULL || (within(found, query) && span_equal(found, pending)));
    }
}

static void check_question(const struct params *q, enum route route, const struct route_id *id)
{
    if (q->error != API_ERROR_NONE || route == ROUTE_OPENAPI) {
        FUZZ_CHECK(q->cache.type == QUERY_AUTH_ONLY);
    } else if (route == ROUTE_LIST) {
        FUZZ_CHECK(q->cache.type == QUERY_PAGE && q->cache.number >= 1);
    } else if (route == ROUTE_CARD_BY_ID) {
        FUZZ_CHECK(id->error == 0 && q->cache.type == QUERY_CARD && q->cache.number == id->number);
    } else {
        FUZZ_CHECK(q->cache.type == QUERY_CARD_BY_LINK);
        FUZZ_CHECK(link_is_stored_shape(&HOSTS, q->cache.link));
    }
}

static void ask(struct span path, struct span query, struct span key)
{
    struct http_request request = {.path = path, .query = query};
    struct buf scratch = BUF_INIT;
    struct route_id id = {0};
    struct params q;
    request.field[API_FIELD_KEY] = key;
    enum route route = route_match(SPAN("/api/"), path, &id);
    const struct params_context context = {&HOSTS, &digests, &scratch};
    int err = route == ROUTE_NONE ? -ENOENT : params_parse(&q, &request, route, &id, &context);
    FUZZ_CHECK(err == 0 || err == -ENOENT);
    if (err == 0)
        check_question(&q, route, &id);
    buf_fini(&scratch);
}

/* What is preferred is acceptable, unless nothing is; and to name one coding with the least weight changes no
 * other. */
static void check_codings(struct span field)
{
    struct http_codings c = http_accept_encoding(field);
    FUZZ_CHECK(c.acceptable < 1U << CODINGS);
    FUZZ_CHECK(http_coding_acceptable(&c, c.preferred) || c.preferred == CODING_IDENTITY);
    struct buf more = BUF_INIT;
    buf_append_span(&more, field);
    buf_append_str(&more, ", fuzz;q=0.001");
    struct http_codings same = http_accept_encoding(buf_span(&more));
    FUZZ_CHECK(same.acceptable == c.acceptable && same.preferred == c.preferred);
    buf_fini(&more);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span key = fuzz_input(data, size);
    struct span sent = fuzz_take(&key, '\n');
    struct span path = SPAN_ABSENT;
    struct span query = SPAN_ABSENT;
    char *target = fuzz_copy(sent);
    check_decoding(sent);
    check_codings(sent);
    check_codings(key);
    check_parameters(sent);
    if (http_target_split(target, sent.len, &path, &query) == 0) {
        struct span all = {target, sent.len};
        FUZZ_CHECK(path.len > 0 && (within(path, all) || span_equal(path, SPAN("/"))));
        FUZZ_CHECK(query.data == NULL || within(query, all));
        ask(path, query, key.len > 0 ? key : SPAN_ABSENT);
    }
    free(target);
    return 0;
}
