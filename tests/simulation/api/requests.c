/* Composes requests from their meaning. */
#include "simulation/api/scenario.h"
#include "simulation/random.h"

#include <string.h>

#define LETTERS_64  "LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL"
#define LETTERS_192 LETTERS_64 LETTERS_64 LETTERS_64
#define SLUG_256    LETTERS_192 LETTERS_64
#define KEY_193     LETTERS_192 "2"
#define KEY_CODED   LETTERS_192 "%32"
#define ID_193      LETTERS_192 "L"

/* The first is always valid, the last never. */
const char *const key_texts[KEYS] = {"alpha-key", (KEY_193), "old %&+=?", "t", "no"};
static const char *const key_codes[KEYS] = {"%61lpha-key", (KEY_CODED), "old%20%25%26+=%3F", "t", "n%6f"};
const char *const origins = "https://app.example, http://[::1]:8080";
const char *const allowed_origin = "https://app.example";

static unsigned below(unsigned n)
{
    return random_below(STREAM_CLIENTS, n);
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define ANY(array)   (array)[below(COUNT(array))]

struct number_text {
    const char *text;
    bool is_valid;
    int64_t number; /* of an integer out of range: the nearest one */
};

/* --- targets --- */

static void add_id(struct request *r)
{
    static const struct number_text ids[] = {{"1", true, 1},
                                             {"-68000820002460", true, -68000820002460},
                                             {"0", true, 0},
                                             {"9223372036854775807", true, INT64_MAX},
                                             {"-9223372036854775808", true, INT64_MIN},
                                             {"%31", true, 1},
                                             {"%2d5", true, -5},
                                             {"404", true, 404},
                                             {"-0", false, 0},
                                             {"01", false, 0},
                                             {"+1", false, 0},
                                             {"%2B1", false, 0},
                                             {"9223372036854775808", false, INT64_MAX},
                                             {"-9223372036854775809", false, INT64_MIN},
                                             {"abc", false, 0},
                                             {"1.0", false, 0},
                                             {"1e3", false, 0},
                                             {"0x1", false, 0},
                                             {"%201", false, 0},
                                             {"%D0%B3", false, 0},
                                             {"-", false, 0},
                                             {LETTERS_64 LETTERS_64, false, 0}};
    const struct number_text *id = &ANY(ids);
    static const char *const before[] = {"/api/channel/by-id/", "/api/channel/by-id/",
                                         "/api/ch%61nnel/by-id/"};
    buf_printf(&r->bytes, "%s%s%s", ANY(before), id->text, below(3) == 0 ? "" : "/");
    r->target = TARGET_ID;
    r->is_valid = id->is_valid;
    r->number = id->number;
}

static void add_path(struct request *r)
{
    static const char *const none[] = {"/",
                                       "/api",
                                       "/api/",
                                       "/api/channel/",
                                       "/api/channels//",
                                       "/API/channels/",
                                       "/api/channel/by-id/",
                                       "/api/channel/by-id//",
                                       "/api/channel/by-id/1/2",
                                       "/api/channels/x",
                                       "/api/openapi.json/",
                                       "//api/channels/",
                                       "/api/./channels/",
                                       "/api/channel/by-links/",
                                       "/api/channel/by-link/x",
                                       "/api%2Fchannels/",
                                       "/api/channels%2f",
                                       "/api/channel/by-id/1%2F",
                                       "/metrics",
                                       "/api/%E2%82%AC"};
    static const char *const list[] = {"/api/channels/", "/api/channels", "/%61pi/channels/",
                                       "/api/chann%65ls", "http://a/api/channels/"};
    static const char *const link[] = {"/api/channel/by-link/", "/api/channel/by-link",
                                       "/api/channel/by%2Dlink/"};
    unsigned which = below(16);
    if (which < 2) {
        const char *path = ANY(none);
        buf_append_str(&r->bytes, path);
        r->target = strncmp(path, "/api/", 5) == 0 ? TARGET_NONE : TARGET_ELSEWHERE;
    } else if (which < 3) {
        buf_append_str(&r->bytes, "/api/openapi.json");
        r->target = TARGET_DOCUMENT;
    } else if (which < 7) {
        buf_append_str(&r->bytes, ANY(list));
        r->target = TARGET_LIST;
    } else if (which < 11) {
        buf_append_str(&r->bytes, ANY(link));
        r->target = TARGET_LINK;
    } else {
        add_id(r);
    }
}

/* --- the query: of a name that is repeated the first value counts --- */

static void add_parameter(struct request *r, bool *begun, const char *text)
{
    buf_printf(&r->bytes, "%c%s", *begun ? '&' : '?', text);
    *begun = true;
}

static void add_noise(struct request *r, bool *begun)
{
    static const char *const noise[] = {"x=1",    "",        "=",          "page1=3", "%",
                                        "PAGE=7", "link2=a", "api_keys=x", "%zz=1"};
    while (below(4) == 0)
        add_parameter(r, begun, ANY(noise));
}

static void add_page(struct request *r, bool *begun)
{
    static const struct number_text pages[] = {
        {"page=1", true, 1},           {"page=2", true, 2},
        {"p%61ge=3", true, 3},         {"page=%32", true, 2},
        {"page=999999", true, 999999}, {"page=9223372036854775807", true, INT64_MAX},
        {"page=0", false, 0},          {"page=-1", false, 0},
        {"page=", false, 0},           {"page", false, 0},
        {"page=abc", false, 0},        {"page=01", false, 0},
        {"page=+1", false, 0},         {"page=1%20", false, 0},
        {"page=1,2", false, 0},        {"page=9223372036854775808", false, 0}};
    r->is_valid = true;
    r->number = 1;
    if (below(4) == 0)
        return;
    const struct number_text *page = &ANY(pages);
    add_parameter(r, begun, page->text);
    r->is_valid = page->is_valid;
    r->number = page->number;
}

static void add_link(struct request *r, bool *begun)
{
    static const struct {
        const char *text, *stored;
    } links[] = {{"link=https://max.ru/blog_820", "https://max.ru/blog_820"},
                 {"l%69nk=https%3A%2F%2Fmax.ru%2Fblog_820", "https://max.ru/blog_820"},
                 {"link=https://web.max.ru/blog_820", "https://max.ru/blog_820"},
                 {"link=HTTP://WEB.Max.RU:80/a", "https://max.ru/a"},
                 {"link=https://max.ru:443/a/", "https://max.ru/a"},
                 {"link=http://max.ru:/a", "https://max.ru/a"},
                 {"link=https://max.ru/a?x=1", "https://max.ru/a"},
                 {"link=https://max.ru/a%3Fx=1%23y", "https://max.ru/a"},
                 {"link=https://max.ru/a%23f/?", "https://max.ru/a"},
                 {"link=https://max.ru/a//", "https://max.ru/a"},
                 {"link=https://max.ru/A", "https://max.ru/A"},
                 {"link=https://max.ru/50%2525", "https://max.ru/50%25"},
                 {"link=https://max.ru/a+b", "https://max.ru/a+b"},
                 {"link=https://max.ru/a%26b", "https://max.ru/a&b"},
                 {"link=https://max.ru/a&b", "https://max.ru/a"},
                 {"link=https://max.ru/%D0%B3", "https://max.ru/\xD0\xB3"},
                 {"link=https://max.ru/" SLUG_256, "https://max.ru/" SLUG_256},
                 {"link=https://max.ru/" SLUG_256 "L", ""},
                 {"link=https://other.ru/a", ""},
                 {"link=ftp://max.ru/a", ""},
                 {"link=https://max.ru", ""},
                 {"link=https://max.ru/", ""},
                 {"link=max.ru/a", ""},
                 {"link=https://max.ru:8443/a", ""},
                 {"link=https://max.ru:80/a", ""},
                 {"link=https://u@max.ru/a", ""},
                 {"link=https://max.ru.other/a", ""},
                 {"link=%20https://max.ru/a", ""},
                 {"link=x", ""}};
    r->is_valid = true;
    if (below(8) == 0) {
        static const char *const empty[] = {"link", "link=", "link=&link=https://max.ru/a"};
        r->is_missing = true;
        if (below(2) == 0)
            add_parameter(r, begun, ANY(empty));
        return;
    }
    unsigned n = below(COUNT(links));
    add_parameter(r, begun, links[n].text);
    memcpy(r->link, links[n].stored, strlen(links[n].stored) + 1);
}

static void add_key_parameter(struct request *r, bool *begun, int key)
{
    static const char *const empty[] = {"api_key", "api_key="};
    if (key < 0)
        add_parameter(r, begun, ANY(empty));
    else
        add_parameter(r, begun, "api_key=");
    if (key >= 0)
        buf_append_str(&r->bytes, below(2) == 0 && strpbrk(key_texts[key], " %&+") == NULL ? key_texts[key]
                                                                                           : key_codes[key]);
}

static void add_query(struct request *r, int key)
{
    bool begun = false;
    bool key_first = below(2) == 0;
    add_noise(r, &begun);
    if (key >= -1 && key_first)
        add_key_parameter(r, &begun, key);
    if (r->target == TARGET_LIST)
        add_page(r, &begun);
    else if (r->target == TARGET_LINK)
        add_link(r, &begun);
    add_noise(r, &begun);
    if (key >= -1 && !key_first)
        add_key_parameter(r, &begun, key);
    if (key >= -1 && below(6) == 0)
        add_parameter(r, &begun, "api_key=alpha-key");
    if (r->target == TARGET_LINK && !r->is_missing && below(6) == 0)
        add_parameter(r, &begun, "link=https://max.ru/other");
}

/* --- fields --- */

/* A header field counts even if its key is empty; two fields may hold one key. */
static void add_key_field(struct request *r)
{
    static const char *const names[] = {"X-Api-Key", "x-api-key", "X-API-KEY"};
    bool empty = below(12) == 0;
    r->key = empty ? -1 : (int)below(KEYS);
    const char *text = empty ? "" : key_texts[r->key];
    buf_printf(&r->bytes, "%s:%s%s%s\r\n", ANY(names), below(2) == 0 ? " " : "\t ", text,
               below(4) == 0 ? " \t" : "");
    if (below(12) != 0)
        return;
    r->two_keys = !empty && below(2) == 0;
    buf_printf(&r->bytes, "%s: %s\r\n", ANY(names), r->two_keys ? "another" : text);
}

static void add_codings(struct request *r)
{
    enum { I = 1U << CODING_IDENTITY, G = 1U << CODING_GZIP, Z = 1U << CODING_ZSTD };
    static const struct {
        const char *field;
        unsigned acceptable;
        enum coding preferred;
    } accepted[] = {{"", I, CODING_IDENTITY},
                    {"", I, CODING_IDENTITY},
                    {"Accept-Encoding: gzip\r\n", I | G, CODING_GZIP},
                    {"accept-encoding: GZIP\r\n", I | G, CODING_GZIP},
                    {"Accept-Encoding: gzip, zstd\r\n", I | G | Z, CODING_ZSTD},
                    {"Accept-Encoding: gzip\r\nAccept-Encoding:zstd\r\n", I | G | Z, CODING_ZSTD},
                    {"Accept-Encoding: zstd;q=0.5, gzip;q=1\r\n", I | G | Z, CODING_GZIP},
                    {"Accept-Encoding: zstd ; q=0.5 , br,, gzip;q=0\r\n", I | Z, CODING_ZSTD},
                    {"Accept-Encoding: *\r\n", I | G | Z, CODING_ZSTD},
                    {"Accept-Encoding: identity\r\n", I, CODING_IDENTITY},
                    {"Accept-Encoding: gzip;q=0\r\n", I, CODING_IDENTITY},
                    {"Accept-Encoding: identity;q=0, gzip\r\n", G, CODING_GZIP},
                    {"Accept-Encoding: gzip;q=0.5, identity\r\n", I | G, CODING_IDENTITY},
                    {"Accept-Encoding: x-gzip\r\n", I | G, CODING_GZIP},
                    {"Accept-Encoding: br\r\n", I, CODING_IDENTITY},
                    {"Accept-Encoding:\r\n", I, CODING_IDENTITY}};
    unsigned n = below(COUNT(accepted));
    buf_append_str(&r->bytes, accepted[n].field);
    r->acceptable = I;
    r->preferred = CODING_IDENTITY;
    if (scenario.api_options.compression) {
        r->acceptable = accepted[n].acceptable;
        r->preferred = accepted[n].preferred;
    }
}

static void add_condition(struct request *r, const char *name, struct condition *c)
{
    buf_printf(&r->bytes, "%s:", name);
    c->sent = true;
    if (below(8) == 0) {
        c->any = true;
        buf_append_str(&r->bytes, " *\r\n");
        return;
    }
    if (below(3) == 0)
        buf_append_str(&r->bytes, " \"nothing, of this\" ,");
    while (c->count < LISTED_MAX && below(3) != 0) {
        const struct tag *tag = check_any_tag(below(TAGS_MAX));
        if (tag == NULL)
            break;
        c->weak[c->count] = below(4) == 0;
        buf_printf(&r->bytes, "%s%s%.*s", c->count == 0 ? " " : ",", c->weak[c->count] ? "W/" : "",
                   (int)tag->len, tag->text);
        c->tag[c->count++] = *tag;
        if (below(6) == 0 && c->count < LISTED_MAX) {
            buf_printf(&r->bytes, "\r\n%s: \"x\"", name);
        }
    }
    buf_append_str(&r->bytes, "\r\n");
}

static void add_other_fields(struct request *r)
{
    static const char *const bad_ids[] = {"a b", "a/b", "", "\xC3\xA4", (ID_193)};
    static const char *const ids[] = {"report-2026.0042", "A_z", LETTERS_64 LETTERS_64};
    unsigned id = below(8);
    if (id == 0) {
        r->id = ANY(ids);
        buf_printf(&r->bytes, "X-Request-Id: %s\r\n", r->id);
    } else if (id == 1) {
        buf_printf(&r->bytes, "X-Request-Id: %s\r\n", ANY(bad_ids));
    }
    r->from_origin = below(3) == 0;
    r->from_allowed = r->from_origin && below(2) == 0;
    if (r->from_origin)
        buf_printf(&r->bytes, "Origin: %s\r\n", r->from_allowed ? allowed_origin : "https://app.example.org");
    r->is_preflight = below(4) == 0;
    if (r->is_preflight)
        buf_append_str(&r->bytes, "Access-Control-Request-Method: GET\r\n");
    if (below(6) == 0)
        buf_append_str(&r->bytes, "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n");
    if (below(6) == 0)
        add_condition(r, "If-Match", &r->match);
    if (below(2) == 0)
        add_condition(r, "If-None-Match", &r->none_match);
}

void request_make(struct request *r)
{
    static const char *const others[] = {"POST", "PUT", "DELETE", "TRACE", "PATCH"};
    struct buf bytes = r->bytes;
    buf_clear(&bytes);
    *r = (struct request){.bytes = bytes, .minor = below(8) != 0, .key = -1};
    unsigned method = below(20);
    r->method = method < 13   ? METHOD_GET
                : method < 17 ? METHOD_HEAD
                : method < 19 ? METHOD_OPTIONS
                              : METHOD_OTHER;
    static const char *const names[] = {"GET", "HEAD", "OPTIONS"};
    buf_printf(&r->bytes, "%s ", r->method == METHOD_OTHER ? ANY(others) : names[r->method]);
    add_path(r);
    enum { NOWHERE = 1, FIELD = 4, QUERY = 6, BOTH = 8 };
    unsigned where = below(BOTH); /* the key */
    int key = where < FIELD ? -2 : (int)below(KEYS + 1) - 1;
    add_query(r, key);
    buf_printf(&r->bytes, " HTTP/1.%d\r\nHost: a\r\n", r->minor);
    if (r->minor == 0)
        buf_append_str(&r->bytes, "Connection: keep-alive\r\n");
    r->key = key < 0 ? -1 : key;
    if ((where >= NOWHERE && where < FIELD) || where >= QUERY)
        add_key_field(r);
    add_codings(r);
    add_other_fields(r);
    buf_append_str(&r->bytes, "\r\n");
}
