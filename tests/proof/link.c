/* Links, with a lower limit of the slug, so that texts beyond it are among the inputs. */
#include "model/link.h"
#define LINK_SLUG_MAX 2
#include "model/link.c"

#include "proof.h"

static const struct link_hosts HOSTS = {{"c", 1}, {"ww", 2}};

/* Whatever is accepted becomes the stored shape, which is one link of one channel, and stays as it is. */
void normalise(void)
{
    char bytes[14];
    char room[32];
    char again[sizeof room];
    struct span text = ANY_TEXT(bytes);
    struct buf out = BUF_IN(room);
    if (link_normalise(&HOSTS, text, &out) != 0) {
        assert(out.len == 0 && !link_is_stored_shape(&HOSTS, text));
        return;
    }
    struct span stored = buf_span(&out);
    struct span slug = span_skip(stored, sizeof "https://c/" - 1);
    assert(span_starts_with(stored, SPAN("https://c/")));
    assert(slug.len >= 1 && slug.len <= LINK_SLUG_MAX && slug.data[slug.len - 1] != '/');
    assert(span_find(slug, '?') == slug.len && span_find(slug, '#') == slug.len);
    struct buf second = BUF_IN(again);
    assert(link_normalise(&HOSTS, stored, &second) == 0 && span_equal(buf_span(&second), stored));
}

/* The two spellings of hosts and the default port are the same link; another port or host is none. */
void spelling(void)
{
    char bytes[2];
    char room[32];
    char expected[32];
    struct span slug = ANY_TEXT(bytes);
    __CPROVER_assume(slug.len > 0 && slug.data[slug.len - 1] != '/');
    __CPROVER_assume(span_find(slug, '?') == slug.len && span_find(slug, '#') == slug.len);
    char text_bytes[32];
    struct buf text = BUF_IN(text_bytes);
    bool secure = nondet_bool();
    buf_append_span(&text, secure ? SPAN("HTTPS://") : SPAN("http://"));
    buf_append_span(&text, nondet_bool() ? SPAN("C") : SPAN("Ww"));
    if (nondet_bool())
        buf_append_span(&text, secure ? SPAN(":443") : SPAN(":80"));
    buf_append_char(&text, '/');
    buf_append_span(&text, slug);
    if (nondet_bool())
        buf_append_char(&text, '/');
    if (nondet_bool())
        buf_append_span(&text, SPAN("?#"));
    struct buf out = BUF_IN(room);
    struct buf stored = BUF_IN(expected);
    buf_append_span(&stored, SPAN("https://c/"));
    buf_append_span(&stored, slug);
    assert(link_normalise(&HOSTS, buf_span(&text), &out) == 0);
    assert(span_equal(buf_span(&out), buf_span(&stored)));
}
