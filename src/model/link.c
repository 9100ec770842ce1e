/* Link normalisation; see link.h. */
#include "model/link.h"

#include "base/text.h"

#include <errno.h>

/* A port other than the default one of the scheme means another server. */
static bool link_host_matches(const struct link_hosts *hosts, const struct web_scheme *scheme,
                              struct span authority)
{
    struct span port = authority;
    struct span host = span_cut(&port, ':');
    if (port.len > 0 && !span_equal(port, scheme->port))
        return false;
    return span_equal_nocase(host, hosts->channel_host) || span_equal_nocase(host, hosts->web_host);
}

bool link_is_stored_shape(const struct link_hosts *hosts, struct span link)
{
    static const struct span start = {"https://", 8};
    if (!span_starts_with(link, start) || !span_starts_with(span_skip(link, start.len), hosts->channel_host))
        return false;
    struct span path = span_skip(link, start.len + hosts->channel_host.len);
    return path.len > 1 && path.len <= 1 + LINK_SLUG_MAX && path.data[0] == '/' &&
           path.data[path.len - 1] != '/' && span_find(path, '?') == path.len &&
           span_find(path, '#') == path.len;
}

int link_normalise(const struct link_hosts *hosts, struct span link, struct buf *out)
{
    if (link_is_stored_shape(hosts, link)) {
        buf_append_span(out, link);
        return 0;
    }
    link.len = span_find(link, '#');
    link.len = span_find(link, '?');
    const struct web_scheme *scheme = web_scheme_of(link);
    if (scheme == NULL)
        return -ENOENT;
    struct span rest = span_skip(link, scheme->start.len);
    struct span authority = {rest.data, span_find(rest, '/')};
    if (authority.len == rest.len || !link_host_matches(hosts, scheme, authority))
        return -ENOENT;
    struct span slug = span_skip(rest, authority.len + 1);
    while (slug.len > 0 && slug.data[slug.len - 1] == '/')
        slug.len--;
    if (slug.len == 0 || slug.len > LINK_SLUG_MAX)
        return -ENOENT;
    buf_append_str(out, "https://");
    buf_append_span(out, hosts->channel_host);
    buf_append_char(out, '/');
    buf_append_span(out, slug);
    return 0;
}
