/*
 * From links to their stored form. An accepted link has the stored form, does not change when normalised
 * again, and is equivalent to the same link with the web client's host.
 */
#include "model/link.h"
#include "fuzz/fuzz.h"

#include <errno.h>

static const struct link_hosts HOSTS = {{"max.ru", 6}, {"web.max.ru", 10}};
static const struct span START = {"https://max.ru/", 15};

/* `start` with the slug of `stored` is normalised to `stored`. */
static void check_leads_to(const char *start, struct span stored)
{
    struct buf link = BUF_INIT;
    struct buf shape = BUF_INIT;
    buf_append_str(&link, start);
    buf_append_span(&link, span_skip(stored, START.len));
    FUZZ_CHECK(link_normalise(&HOSTS, buf_span(&link), &shape) == 0);
    FUZZ_CHECK(span_equal(buf_span(&shape), stored));
    buf_fini(&shape);
    buf_fini(&link);
}

static void check_stored(struct span stored)
{
    FUZZ_CHECK(span_starts_with(stored, START));
    struct span slug = span_skip(stored, START.len);
    FUZZ_CHECK(slug.len > 0 && slug.data[slug.len - 1] != '/');
    FUZZ_CHECK(span_find(slug, '?') == slug.len && span_find(slug, '#') == slug.len);
    FUZZ_CHECK(link_is_stored_shape(&HOSTS, stored));
    check_leads_to("https://max.ru/", stored);
    check_leads_to("HTTPS://Web.Max.RU/", stored);
    check_leads_to("http://web.max.ru:80/", stored);
    check_leads_to("https://max.ru:443/", stored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span link = fuzz_input(data, size);
    struct buf stored = BUF_INIT;
    int err = link_normalise(&HOSTS, link, &stored);
    FUZZ_CHECK(err == 0 || err == -ENOENT);
    if (err == 0)
        check_stored(buf_span(&stored));
    else
        FUZZ_CHECK(stored.len == 0);
    FUZZ_CHECK(link_is_stored_shape(&HOSTS, link) == (err == 0 && span_equal(buf_span(&stored), link)));
    buf_fini(&stored);
    return 0;
}
