/* A scanner for bodies of the one shape that this test writes; see answer.h. */

#include "coherence/answer.h"

#include <string.h>

enum { DIGITS_MAX = 18, DAY = 86400 };

struct scan {
    const struct world *world;
    const char *at;
    const char *end;
    enum reading reading;
    struct sighting sighting; /* of the channel that is being read */
};

static bool scan_next(struct scan *scan, const char *text)
{
    size_t length = strlen(text);
    if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, text, length) != 0)
        return false;
    scan->at += length;
    return true;
}

static void scan_expect(struct scan *scan, const char *text)
{
    if (scan->reading != READING_BROKEN && !scan_next(scan, text))
        scan->reading = READING_BROKEN;
}

static int64_t scan_number(struct scan *scan)
{
    bool negative = scan_next(scan, "-");
    const char *first = scan->at;
    int64_t number = 0;
    for (; scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9' && scan->at - first < DIGITS_MAX;
         scan->at++)
        number = number * 10 + (*scan->at - '0');
    if (scan->at == first)
        scan->reading = READING_BROKEN;
    return negative ? -number : number;
}

/* The number that follows the text must be this one. */
static void scan_same(struct scan *scan, const char *text, int64_t expected)
{
    scan_expect(scan, text);
    if (scan->reading == READING_BROKEN)
        return;
    if (scan_number(scan) != expected && scan->reading == READING_GOOD)
        scan->reading = READING_MIXED;
}

static void scan_link(struct scan *scan)
{
    scan->sighting.link = CARD_WITHOUT_LINK;
    scan_expect(scan, ",\"link\":");
    if (scan_next(scan, "null"))
        return;
    scan_expect(scan, "\"https://max.ru/l");
    int64_t link = scan_number(scan);
    scan_expect(scan, "\"");
    if (link < 0 || link >= scan->world->channels)
        scan->reading = READING_BROKEN;
    else
        scan->sighting.link = (int)link;
}

static void scan_begin_channel(struct scan *scan)
{
    scan_expect(scan, "{\"max_channel_id\":");
    scan->sighting.channel = world_channel_of(scan->world, scan_number(scan));
    scan_expect(scan, ",\"title\":\"v:");
    int64_t version = scan->sighting.version = scan_number(scan);
    scan_same(scan, "\",\"description\":\"v:", version);
    scan_same(scan, "\",\"avatar\":\"v:", version);
    scan_expect(scan, "\"");
    scan_link(scan);
    if (scan->sighting.channel < 0)
        scan->reading = READING_BROKEN;
}

static void scan_end_channel(struct scan *scan)
{
    int64_t second = scan->sighting.version % DAY;
    scan_same(scan, ",\"updated_at\":\"2026-11-20T", second / 3600);
    scan_same(scan, ":", second / 60 % 60);
    scan_same(scan, ":", second % 60);
    scan_expect(scan, "\"}");
}

enum reading answer_read_card(const struct world *world, const char *body, size_t length,
                              struct sighting *sighting)
{
    struct scan scan = {.world = world, .at = body, .end = body + length, .reading = READING_GOOD};
    scan_expect(&scan, "{\"success\":true,\"data\":");
    scan_begin_channel(&scan);
    int64_t version = scan.sighting.version;
    scan_same(&scan, ",\"category\":\"v:", version);
    scan_same(&scan, "\",\"category2\":null,\"followers_cnt_today\":", version);
    scan_same(&scan, ",\"followers_history\":{\"2026-11-20\":", version);
    scan_same(&scan, "},\"is_a_plus_flag\":", version % 2);
    scan_same(&scan, ",\"views_24h\":", version);
    scan_same(&scan, ",\"views_48h\":", version);
    scan_same(&scan, ",\"er_24h\":", version);
    scan_same(&scan, ",\"er_48h\":", version);
    scan_end_channel(&scan);
    scan_expect(&scan, "}");
    *sighting = scan.sighting;
    return scan.at == scan.end ? scan.reading : READING_BROKEN;
}

enum reading answer_read_page(const struct world *world, const char *body, size_t length,
                              struct page_sighting *page)
{
    struct scan scan = {.world = world, .at = body, .end = body + length, .reading = READING_GOOD};
    page->count = 0;
    scan_expect(&scan, "{\"success\":true,\"data\":[");
    while (scan.reading != READING_BROKEN && page->count < WORLD_PAGE && scan.at < scan.end &&
           *scan.at == '{') {
        scan_begin_channel(&scan);
        scan_end_channel(&scan);
        page->item[page->count++] = scan.sighting;
        (void)scan_next(&scan, ",");
    }
    scan_expect(&scan, "],\"pagination\":{\"page\":");
    page->page = scan_number(&scan);
    scan_expect(&scan, ",\"per_page\":100,\"count\":");
    int64_t stated = scan_number(&scan);
    scan_expect(&scan, ",\"has_next\":");
    page->has_next = scan_next(&scan, "true");
    scan_expect(&scan, page->has_next ? "}}" : "false}}");
    if (scan.at != scan.end || stated != page->count)
        return READING_BROKEN;
    return scan.reading;
}
