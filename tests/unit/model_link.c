/* Links: which spellings lead to the stored shape, and which find nothing. */
#include "model/link.h"

#include <errno.h>

#include "unit/check.h"

static const struct link_hosts HOSTS = {{"max.ru", 6}, {"web.max.ru", 10}};

static void assert_found(const char *link, const char *stored)
{
    SCOPED_BUF(out);
    if (link_normalise(&HOSTS, span_of(link), &out) != 0)
        fail_msg("%s finds nothing", link);
    assert_buf(&out, stored);
}

static void assert_nothing(const char *link)
{
    SCOPED_BUF(out);
    if (link_normalise(&HOSTS, span_of(link), &out) != -ENOENT)
        fail_msg("%s finds %.*s", link, (int)out.len, out.data);
    assert_int_equal(out.len, 0);
}

TEST_CASE(both_hosts_normalise_to_the_stored_shape)
{
    assert_found("https://max.ru/news", "https://max.ru/news");
    assert_found("https://web.max.ru/news", "https://max.ru/news");
}

TEST_CASE(other_hosts_are_rejected)
{
    EACH_TEXT (text, "https://example.org/news", "https://www.max.ru/news", "https://max.ru.evil.org/news",
               "https://evilmax.ru/news", "https://web.web.max.ru/news", "https://max.ru./news",
               "https:///news", "https://max.r/news", "https://max.ru\\@evil.org/news",
               "https://evil.org\\@max.ru/news", "https:\\\\max.ru\\news", "https:/\\max.ru/news",
               "https:///max.ru/news", "https://[::1]/news", "https://[max.ru]/news",
               "https://xn--max-5cd.ru/news", "https://\uFF4Dax.ru/news", "https://max\u3002ru/news",
               "https://m\u0430x.ru/news", "https://max.ru\u200B/news")
        assert_nothing(text);
}

TEST_CASE(scheme_is_http_or_https_in_any_case)
{
    assert_found("http://max.ru/news", "https://max.ru/news");
    assert_found("HTTPS://max.ru/news", "https://max.ru/news");
    assert_found("HtTp://max.ru/news", "https://max.ru/news");
    EACH_TEXT (text, "ftp://max.ru/news", "//max.ru/news", "max.ru/news", "/news", "news",
               "httpss://max.ru/news", "javascript://max.ru/news", "https\u2236//max.ru/news",
               "https:/max.ru/news", "https:max.ru/news", " https://max.ru/news")
        assert_nothing(text);
}

TEST_CASE(host_is_compared_without_case)
{
    assert_found("https://MAX.ru/news", "https://max.ru/news");
    assert_found("https://Web.Max.RU/news", "https://max.ru/news");
}

TEST_CASE(only_the_default_port_is_accepted)
{
    EACH_TEXT (text, "https://max.ru:443/news", "https://web.max.ru:443/news", "http://max.ru:80/news",
               "https://max.ru:/news")
        assert_found(text, "https://max.ru/news");
    EACH_TEXT (text, "https://max.ru:80/news", "http://max.ru:443/news", "https://max.ru:4430/news",
               "https://max.ru:44/news", "https://max.ru:0443/news", "https://max.ru:443:443/news",
               "https://max.ru:x/news", "https://max.ru:443x/news", "https://max.ru:-443/news",
               "https://max.ru: 443/news", "https://max.ru:4294967739/news")
        assert_nothing(text);
}

TEST_CASE(user_information_is_rejected)
{
    EACH_TEXT (text, "https://user@max.ru/news", "https://user:password@max.ru/news", "https://@max.ru/news",
               "https://max.ru@evil.org/news", "https://max.ru:443@evil.org/news")
        assert_nothing(text);
}

TEST_CASE(query_and_fragment_are_dropped)
{
    EACH_TEXT (text, "https://max.ru/news?utm=1", "https://max.ru/news?", "https://max.ru/news#top",
               "https://max.ru/news#", "https://max.ru/news?a=b#c", "https://max.ru/news#c?a=b",
               "https://max.ru/news/?a=/x/")
        assert_found(text, "https://max.ru/news");
}

TEST_CASE(trailing_slashes_are_dropped)
{
    assert_found("https://max.ru/news/", "https://max.ru/news");
    assert_found("https://max.ru/news///", "https://max.ru/news");
    assert_found("https://max.ru/news/#top", "https://max.ru/news");
}

TEST_CASE(missing_slug_is_rejected)
{
    EACH_TEXT (text, "", "https://", "https://max.ru", "https://max.ru/", "https://max.ru///",
               "https://max.ru?news", "https://max.ru#/news", "https://max.ru/?news", "https://max.ru/#news")
        assert_nothing(text);
    struct buf out = BUF_INIT;
    assert_int_equal(link_normalise(&HOSTS, SPAN_ABSENT, &out), -ENOENT);
}

/* As it is stored: what is dropped does not count. */
TEST_CASE(slug_has_at_most_256_bytes)
{
    char longest[16 + LINK_SLUG_MAX] = "https://max.ru/";
    char longer[sizeof longest + 1];
    char link[sizeof longest + 16];
    memset(longest + strlen(longest), 's', LINK_SLUG_MAX);
    (void)snprintf(longer, sizeof longer, "%ss", longest);
    assert_int_equal(LINK_SLUG_MAX, 256);
    assert_found(longest, longest);
    (void)snprintf(link, sizeof link, "%s///?query#top", longest);
    assert_found(link, longest);
    assert_nothing(longer);
    assert_true(link_is_stored_shape(&HOSTS, span_of(longest)));
    assert_false(link_is_stored_shape(&HOSTS, span_of(longer)));
}

TEST_CASE(slug_is_kept_unchanged)
{
    EACH_TEXT (text, "https://max.ru/News", "https://max.ru/новости", "https://max.ru/a%2Fb",
               "https://max.ru/a+b c", "https://max.ru/a/b", "https://max.ru//news",
               "https://max.ru/join/@x:y", "https://max.ru/../x", "https://max.ru/./x", "https://max.ru/x/.",
               "https://max.ru/x;a=b", "https://max.ru/x\\", "https://max.ru/*", "https://max.ru/[1]",
               "https://max.ru/\xFF")
        assert_found(text, text);
}

TEST_CASE(stored_shape_is_recognised_exactly)
{
    assert_true(link_is_stored_shape(&HOSTS, SPAN("https://max.ru/news")));
    assert_true(link_is_stored_shape(&HOSTS, SPAN("https://max.ru/News")));
    EACH_TEXT (text, "https://web.max.ru/news", "http://max.ru/news", "https://MAX.ru/news",
               "https://max.ru/news/", "https://max.ru/news?", "https://max.ru/news#",
               "https://max.ru:443/news", "HTTPS://max.ru/news", "https://max.ru/", "https://other.ru/news",
               "https://max.ru:/news", "news", "")
        if (link_is_stored_shape(&HOSTS, span_of(text)))
            fail_msg("%s", text);
}
