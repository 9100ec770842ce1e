/* Parses responses, and compares their content with the model; see checker.h. */

#include "coherence/checker.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "coherence/clock.h"
#include "support/fields.h"

enum parse_status {
    PARSED,
    TORN,      /* parts of two versions in one channel */
    MALFORMED, /* not what a writer has ever written */
};

struct observed_page {
    int64_t page;
    bool has_next;
    int count;
    struct observed item[MODEL_PAGE];
};

/* One response being checked. */
struct check {
    struct checker *checker;
    const struct request *request;
    const struct response *response;
    struct expectation expectation;
    struct window window;
};

/* ---- parsing: bodies are known to the byte but for the versions, ids and links in them ---- */

enum { DIGITS_MAX = 18, DAY = 86400 };

struct scan {
    const struct model *model;
    const char *at;
    const char *end;
    enum parse_status parse_status;
    struct observed observed; /* of the channel that is being read */
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
    if (scan->parse_status != MALFORMED && !scan_next(scan, text))
        scan->parse_status = MALFORMED;
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
        scan->parse_status = MALFORMED;
    return negative ? -number : number;
}

/* Expects the text and this number behind it. */
static void scan_same(struct scan *scan, const char *text, int64_t expected)
{
    scan_expect(scan, text);
    if (scan->parse_status == MALFORMED)
        return;
    if (scan_number(scan) != expected && scan->parse_status == PARSED)
        scan->parse_status = TORN;
}

static void scan_link(struct scan *scan)
{
    scan->observed.link = CARD_WITHOUT_LINK;
    if (scan_next(scan, "null"))
        return;
    scan_expect(scan, "\"https://max.ru/l");
    int64_t link = scan_number(scan);
    scan_expect(scan, "\"");
    if (link < 0 || link >= scan->model->channels)
        scan->parse_status = MALFORMED;
    else
        scan->observed.link = (int)link;
}

/* The value of a field that is the same in all channels of a version. */
static void scan_value(struct scan *scan, enum channel_type type)
{
    int64_t version = scan->observed.version;
    int64_t second = version % DAY;
    switch (type) {
    case CHANNEL_TEXT:
        scan_same(scan, "\"v:", version);
        scan_expect(scan, "\"");
        break;
    case CHANNEL_INTEGER:
        scan_same(scan, "", version);
        break;
    case CHANNEL_FLAG:
        scan_same(scan, "", version % 2);
        break;
    case CHANNEL_DATETIME:
        scan_same(scan, "\"2026-11-20T", second / 3600);
        scan_same(scan, ":", second / 60 % 60);
        scan_same(scan, ":", second % 60);
        scan_expect(scan, "\"");
        break;
    case CHANNEL_HISTORY:
        scan_same(scan, "{\"2026-11-20\":", version);
        scan_expect(scan, "}");
        break;
    }
}

static void scan_field(struct scan *scan, enum channel_field field)
{
    scan_expect(scan, field == 0 ? "{\"" : ",\"");
    scan_expect(scan, field_table[field].name);
    scan_expect(scan, "\":");
    if (field == CHANNEL_FIELD_max_channel_id) {
        scan->observed.channel = model_channel_of(scan->model, scan_number(scan));
    } else if (field == CHANNEL_FIELD_title) {
        scan_expect(scan, "\"v:");
        scan->observed.version = scan_number(scan);
        scan_expect(scan, "\"");
    } else if (field == CHANNEL_FIELD_link) {
        scan_link(scan);
    } else {
        scan_value(scan, field_table[field].type);
    }
}

static void scan_channel(struct scan *scan, enum channel_shape shape)
{
    for (enum channel_field f = 0; f < CHANNEL_FIELD_COUNT; f++)
        if (shape == CHANNEL_CARD || field_table[f].in_summary)
            scan_field(scan, f);
    scan_expect(scan, "}");
    if (scan->observed.channel < 0)
        scan->parse_status = MALFORMED;
}

static enum parse_status parse_card(const struct model *model, const char *body, size_t length,
                                    struct observed *observed)
{
    struct scan scan = {.model = model, .at = body, .end = body + length, .parse_status = PARSED};
    scan_expect(&scan, "{\"success\":true,\"data\":");
    scan_channel(&scan, CHANNEL_CARD);
    scan_expect(&scan, "}");
    *observed = scan.observed;
    return scan.at == scan.end ? scan.parse_status : MALFORMED;
}

static enum parse_status parse_page(const struct model *model, const char *body, size_t length,
                                    struct observed_page *page)
{
    struct scan scan = {.model = model, .at = body, .end = body + length, .parse_status = PARSED};
    page->count = 0;
    scan_expect(&scan, "{\"success\":true,\"data\":[");
    while (scan.parse_status != MALFORMED && page->count < MODEL_PAGE && scan.at < scan.end &&
           *scan.at == '{') {
        scan_channel(&scan, CHANNEL_SUMMARY);
        page->item[page->count++] = scan.observed;
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
        return MALFORMED;
    return scan.parse_status;
}

/* ---- violations, and checks of one object ---- */

enum { TEXT_SIZE = 600, BODY_SHOWN = 400 };

/* Seconds since the start of the run. */
static double check_time(const struct check *check, int64_t time)
{
    return (double)(time - report_start(check->checker->report)) / CLOCK_S;
}

static int check_describe(const struct check *check, char *text, size_t size)
{
    static const char *const targets[] = {
        [TARGET_CARD] = "channel", [TARGET_LINK] = "link", [TARGET_PAGE] = "page"};
    const struct request *request = check->request;
    const char *fault = check->expectation.strict && !check->expectation.errors_allowed
                            ? "none"
                            : fault_name(check->expectation.fault);
    return snprintf(text, size,
                    "%s %d with key %d%s, sent at %.6f s, %d after %.3f ms, must reflect what was "
                    "acknowledged by %.6f s, "
                    "fault %s: ",
                    targets[request->target], request->object, request->key,
                    request->conditional ? " and an entity tag" : "", check_time(check, request->sent),
                    check->response->status, (double)(check->response->received - request->sent) / CLOCK_MS,
                    check_time(check, check->window.since), fault);
}

__attribute__((format(printf, 3, 4))) static void
check_violation(const struct check *check, enum violation kind, const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list args;
    va_start(args, format);
    int used = check_describe(check, text, sizeof text);
    (void)vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    va_end(args);
    report_violation(check->checker->report, kind, "%s", text);
}

static void check_unparsable(const struct check *check, enum parse_status parse_status)
{
    enum violation kind = parse_status == TORN ? VIOLATION_TORN : VIOLATION_MALFORMED;
    int shown = check->response->length < BODY_SHOWN ? (int)check->response->length : BODY_SHOWN;
    check_violation(check, kind, "%.*s", shown, check->response->body);
}

/* How long the change that was seen had been superseded when the request was sent. */
static int64_t check_age(const struct check *check, const struct finding *finding)
{
    if (finding->superseded == 0 || finding->superseded >= check->request->sent)
        return 0;
    return check->request->sent - finding->superseded;
}

static void check_record(const struct check *check, enum aspect aspect, struct finding finding,
                         const char *what, int64_t n)
{
    struct counters *counters = check->checker->counters;
    counters->checked[aspect]++;
    if (finding.legality == UNDECIDED) {
        counters->undecided[aspect]++;
        return;
    }
    if (finding.number >= 0)
        counters_add_age(counters, aspect, check_age(check, &finding), check->expectation.strict);
    if (finding.legality == LEGAL)
        return;
    enum violation kind = finding.legality == STALE ? VIOLATION_STALE : VIOLATION_IMPOSSIBLE;
    if (aspect == ASPECT_KEY)
        kind = VIOLATION_KEY;
    char past[80] = "never true until the response came";
    if (finding.number >= 0)
        (void)snprintf(past, sizeof past, "that is change %" PRId64 ", superseded at %.6f s", finding.number,
                       check_time(check, finding.superseded));
    check_violation(check, kind,
                    "saw %s %" PRId64 " (%s), expected change %" PRId64 " (value %" PRId64
                    ", acknowledged at %.6f s) or a later one",
                    what, n, past, finding.expected, finding.value, check_time(check, finding.acknowledged));
}

/*
 * While a script runs Redis may refuse some changes of a pipeline and apply later ones that depend on them.
 * Its data is torn then, until all is written again.
 */
static bool check_may_be_torn(const struct check *check)
{
    return check->expectation.errors_allowed && check->expectation.fault == FAULT_SCRIPT;
}

static void check_channel_seen(const struct check *check, enum aspect aspect, const struct observed *observed)
{
    int64_t link = CARD_ABSENT;
    struct history *history = &check->checker->model->card[observed->channel];
    struct finding finding = history_check_version(history, check->window, observed->version, &link);
    char what[48];
    (void)snprintf(what, sizeof what, "channel %d in version", observed->channel);
    check_record(check, aspect, finding, what, observed->version);
    if (finding.legality == LEGAL && link != observed->link && !check_may_be_torn(check))
        check_violation(check, VIOLATION_TORN,
                        "saw channel %d in version %" PRId64 " with link %d, which has link %" PRId64,
                        observed->channel, observed->version, observed->link, link);
}

/*
 * ---- pages ----
 *
 * While the catalogue is complete, pages 1 to 3 are the frozen section of the index, channel by channel. Page
 * 4 begins with all active channels, and the tail follows them without a gap, also from page to page. So its
 * place shows how many active channels the index had. That number is known only between two limits when some
 * of them came or went meanwhile.
 */

struct active {
    int least; /* members of the index for certain */
    int most;  /* and perhaps */
};

static bool check_page_shows(const struct observed_page *page, int channel)
{
    for (int i = 0; i < page->count; i++) {
        if (page->item[i].channel == channel)
            return true;
    }
    return false;
}

static void check_items(const struct check *check, const struct observed_page *page)
{
    for (int i = 0; i < page->count; i++) {
        const struct observed *item = &page->item[i];
        struct history *member = &check->checker->model->member[item->channel];
        check_channel_seen(check, ASPECT_SUMMARY, item);
        check_record(check, ASPECT_INDEX, history_check_value(member, check->window, 0, INT64_MAX), "member",
                     item->channel);
        for (int k = 0; k < i; k++) {
            if (page->item[k].channel == item->channel)
                check_violation(check, VIOLATION_DUPLICATE, "saw channel %d in places %d and %d",
                                item->channel, k, i);
        }
    }
}

/* Scores that are certain must not fall from one item to the next. */
static void check_order(const struct check *check, const struct observed_page *page)
{
    int64_t before = -1;
    for (int i = 0; i < page->count; i++) {
        int64_t score = -1;
        int channel = page->item[i].channel;
        if (!history_is_certain(&check->checker->model->member[channel], check->window, &score) || score < 0)
            continue;
        if (score < before)
            check_violation(check, VIOLATION_ORDER,
                            "saw channel %d with score %lld in place %d, after one with %lld", channel,
                            (long long)score, i, (long long)before);
        before = score;
    }
}

/* The items from `place` on must be `count` channels from `first` on, one after the other. */
static void check_run(const struct check *check, const struct observed_page *page, int place, int first,
                      int count)
{
    if (page->count - place != count)
        check_violation(check, VIOLATION_MISSING, "saw %d channels from place %d on, expected %d",
                        page->count - place, place, count);
    for (int i = place; i < page->count; i++) {
        if (page->item[i].channel == first + i - place)
            continue;
        check_violation(check, VIOLATION_ORDER, "saw channel %d in place %d, expected %d",
                        page->item[i].channel, i, first + i - place);
        return;
    }
}

static struct active check_count_active(const struct check *check)
{
    struct active active = {0, 0};
    for (int i = 0; i < MODEL_ACTIVE; i++) {
        struct history *member = &check->checker->model->member[MODEL_FROZEN + i];
        struct possible possible = history_possible(member, check->window, 0, INT64_MAX);
        active.most += possible.inside;
        active.least += possible.inside && !possible.outside;
    }
    return active;
}

/* An active channel that was a member and had a card all the time must be shown. */
static void check_active_shown(const struct check *check, const struct observed_page *page)
{
    const struct model *model = check->checker->model;
    for (int i = MODEL_FROZEN; i < MODEL_FROZEN + MODEL_ACTIVE; i++) {
        struct possible member = history_possible(&model->member[i], check->window, 0, INT64_MAX);
        struct possible card = history_possible(&model->card[i], check->window, 0, INT64_MAX);
        if (!member.outside && !card.outside && !check_page_shows(page, i))
            check_violation(check, VIOLATION_MISSING, "lacks channel %d, which was a member all the time", i);
    }
}

/* The tail must begin where the number of active channels puts it, and go on to its end or the page's. */
static void check_tail(const struct check *check, const struct observed_page *page, struct active active)
{
    const int tail = MODEL_FROZEN + MODEL_ACTIVE;
    int before = (check->request->object - MODEL_FROZEN_PAGES - 1) * MODEL_PAGE; /* ranks on earlier pages */
    int place = 0;
    while (before == 0 && place < page->count && model_section(page->item[place].channel) == SECTION_ACTIVE)
        place++;
    if (place == page->count) {
        if (MODEL_TAIL + active.least > before)
            check_violation(check, VIOLATION_MISSING, "saw nothing of the tail");
        return;
    }
    int first = page->item[place].channel - tail;
    int left = MODEL_TAIL - first;
    int members = before - first; /* active ones in the index, according to this page */
    if (before == 0) {
        left = page->count - place;
        members = first == 0 ? MODEL_PAGE - left : -1;
    }
    check_run(check, page, place, tail + first, left < MODEL_PAGE ? left : MODEL_PAGE);
    if (members < active.least || members > active.most)
        check_violation(check, VIOLATION_MISSING,
                        "its tail begins with number %d, as if %d active channels were members; %d to %d are",
                        first, members, active.least, active.most);
}

/* has_next must tell whether the index goes on beyond this page. */
static void check_has_next(const struct check *check, const struct observed_page *page, struct active active)
{
    int end = check->request->object * MODEL_PAGE;
    int least = MODEL_FROZEN + active.least + MODEL_TAIL;
    int most = MODEL_FROZEN + active.most + MODEL_TAIL;
    if ((page->has_next && most <= end) || (!page->has_next && least > end))
        check_violation(check, VIOLATION_MISSING, "has_next is %s, the index has %d to %d members",
                        page->has_next ? "true" : "false", least, most);
}

static void check_structure(const struct check *check, const struct observed_page *page)
{
    int number = check->request->object;
    struct active active = check_count_active(check);
    check_has_next(check, page, active);
    if (number <= MODEL_FROZEN_PAGES) {
        check_run(check, page, 0, (number - 1) * MODEL_PAGE, MODEL_PAGE);
        return;
    }
    if (number == MODEL_FROZEN_PAGES + 1)
        check_active_shown(check, page);
    check_tail(check, page, active);
}

static void check_page(const struct check *check)
{
    struct observed_page page;
    enum parse_status parse_status =
        parse_page(check->checker->model, check->response->body, check->response->length, &page);
    if (parse_status != PARSED) {
        check_unparsable(check, parse_status);
        return;
    }
    if (page.page != check->request->object)
        check_violation(check, VIOLATION_IMPOSSIBLE, "saw page %d", (int)page.page);
    check_items(check, &page);
    check_order(check, &page);
    if (check->expectation.complete)
        check_structure(check, &page);
}

/* ---- whole responses ---- */

static int check_status_slot(int status)
{
    static const int slots[] = {200, 304, 401, 404, 500};
    int slot = 0;
    while (slot < 5 && slots[slot] != status)
        slot++;
    return slot;
}

static void check_count(const struct check *check)
{
    struct counters *counters = check->checker->counters;
    int64_t wait = check->response->received - check->request->sent;
    uint64_t reads = atomic_load_explicit(&counters->reads, memory_order_relaxed);
    atomic_store_explicit(&counters->reads, reads + 1, memory_order_relaxed);
    counters->requests[check->request->kind]++;
    counters->statuses[check_status_slot(check->response->status)]++;
    if (!check->expectation.errors_allowed && wait > counters->max_wait)
        counters->max_wait = wait;
}

static void check_failure(const struct check *check)
{
    struct counters *counters = check->checker->counters;
    uint64_t failed = atomic_load_explicit(&counters->failed, memory_order_relaxed);
    atomic_store_explicit(&counters->failed, failed + 1, memory_order_relaxed);
    if (check->expectation.errors_allowed)
        counters->failed_by_fault[check->expectation.fault]++;
    else
        check_violation(check, VIOLATION_ERROR, "no fault was on");
}

/* 401 means that the key is not valid, everything else that it is. */
static void check_key(const struct check *check)
{
    int64_t said = check->response->status == 401 ? KEY_REVOKED : KEY_VALID;
    int key = check->request->key;
    if (key < 0) {
        if (said == KEY_VALID)
            check_violation(check, VIOLATION_KEY, "a key that was never valid works");
        return;
    }
    check_record(check, ASPECT_KEY,
                 history_check_value(&check->checker->model->key[key], check->window, said, said), "validity",
                 said);
}

static bool check_read_card(const struct check *check, struct observed *seen)
{
    if (check->response->status == 304) {
        *seen = check->request->known;
        if (!check->request->conditional)
            check_violation(check, VIOLATION_STATUS, "without a condition");
        return check->request->conditional;
    }
    enum parse_status parse_status =
        parse_card(check->checker->model, check->response->body, check->response->length, seen);
    if (parse_status != PARSED)
        check_unparsable(check, parse_status);
    return parse_status == PARSED;
}

static void check_missing_card(const struct check *check)
{
    struct history *history = &check->checker->model->card[check->request->object];
    check_record(check, ASPECT_CARD, history_check_value(history, check->window, CARD_ABSENT, CARD_ABSENT),
                 "no channel", CARD_ABSENT);
}

/*
 * A link without a channel: one that was free for a moment. If link and card may be read at two moments, or
 * disagree, this is only decided for a link that was free or had one owner all the time.
 */
static void check_missing_link(const struct check *check)
{
    struct history *history = &check->checker->model->link[check->request->object];
    struct finding finding = history_check_value(history, check->window, LINK_FREE, LINK_FREE);
    int64_t owner = LINK_FREE;
    if (finding.legality != LEGAL && (check->checker->in_cluster || check_may_be_torn(check)) &&
        !history_is_certain(history, check->window, &owner))
        finding.legality = UNDECIDED;
    check_record(check, ASPECT_LINK, finding, "no channel", LINK_FREE);
}

static bool check_found(const struct check *check, struct observed *seen)
{
    const struct request *request = check->request;
    if (request->object < 0) {
        check_violation(check, VIOLATION_IMPOSSIBLE, "no such channel exists");
        return false;
    }
    if (!check_read_card(check, seen))
        return false;
    if (request->target == TARGET_LINK) {
        if (seen->link != request->object)
            check_violation(check, VIOLATION_LINK, "saw channel %d with link %d", seen->channel, seen->link);
        struct history *link = &check->checker->model->link[request->object];
        check_record(check, ASPECT_LINK,
                     history_check_value(link, check->window, seen->channel, seen->channel), "channel",
                     seen->channel);
        check_channel_seen(check, ASPECT_BY_LINK, seen);
    } else if (seen->channel != request->object) {
        check_violation(check, VIOLATION_IMPOSSIBLE, "saw channel %d", seen->channel);
    } else {
        check_channel_seen(check, ASPECT_CARD, seen);
    }
    return true;
}

static bool check_content(const struct check *check, struct observed *seen)
{
    const struct request *request = check->request;
    int status = check->response->status;
    if (request->target == TARGET_PAGE && status == 200)
        check_page(check);
    else if (request->target != TARGET_PAGE && (status == 200 || status == 304))
        return check_found(check, seen);
    else if (request->target == TARGET_PAGE || status != 404)
        check_violation(check, VIOLATION_STATUS, "unexpected");
    else if (check->expectation.silent)
        check_violation(check, VIOLATION_ABSENCE, "no Redis answered");
    else if (request->object >= 0 && request->target == TARGET_CARD)
        check_missing_card(check);
    else if (request->object >= 0)
        check_missing_link(check);
    return false;
}

bool checker_check(struct checker *checker, const struct request *request, const struct response *response,
                   struct observed *seen)
{
    struct check check = {.checker = checker, .request = request, .response = response};
    check.expectation = schedule_expect(checker->schedule, request->sent, response->received);
    check.window = (struct window){.since = check.expectation.since, .until = response->received};
    check_count(&check);
    if (response->status == 500) {
        check_failure(&check);
        return false;
    }
    schedule_note_success(checker->schedule, request->sent, response->received);
    if (check.expectation.expired)
        check_violation(&check, VIOLATION_EXPIRED, "Redis was unreachable for longer than the stale limit");
    check_key(&check);
    return response->status != 401 && check_content(&check, seen);
}
