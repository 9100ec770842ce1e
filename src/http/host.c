/* Validation of Host; see host.h. */
#include "http/host.h"

#include "base/encoding.h"

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* RFC 3986 section 3.2.2: unreserved, sub-delims and percent-encoded octets. */
static bool is_name(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_alnum(s.data[i]) && s.data[i] != '.' &&
            (s.data[i] == '\0' || strchr("-._~!$&'()*+,;=%", s.data[i]) == NULL))
            return false;
    return s.len > 0 && uri_escapes_valid(s);
}

static bool is_bracketed(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_alnum(s.data[i]) && s.data[i] != ':' && s.data[i] != '.')
            return false;
    return s.len > 0;
}

static bool is_port(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.data[i] < '0' || s.data[i] > '9')
            return false;
    return s.len <= 5;
}

bool http_host_valid(struct span host)
{
    if (host.len > 0 && host.data[0] == '[') {
        size_t close = span_find(host, ']');
        if (close == host.len || !is_bracketed((struct span){host.data + 1, close - 1}))
            return false;
        struct span rest = span_skip(host, close + 1);
        return rest.len == 0 || (rest.data[0] == ':' && is_port(span_skip(rest, 1)));
    }
    size_t colon = span_find(host, ':');
    if (!is_name((struct span){host.data, colon}))
        return false;
    return colon == host.len || is_port(span_skip(host, colon + 1));
}
