/* Routes and the parameter of a page. */
#include "api/params.c"

#include "proof.h"

/* An id is one segment behind its route, and nothing else has one. */
void route(void)
{
    char bytes[18];
    struct span path = ANY_TEXT(bytes);
    struct span id = SPAN_ABSENT;
    if (route_match(SPAN("/"), path, &id) != ROUTE_CARD_BY_ID)
        return;
    assert(id.len > 0 && is_within(id, path) && span_find(id, '/') == id.len);
    assert(id.len != 3 || !span_equal_nocase(id, SPAN("%2F")));
    assert(id.data == path.data + sizeof "/channel/by-id/" - 1);
    assert(span_starts_with(path, SPAN("/channel/by-id/")));
    struct span rest = span_skip(path, sizeof "/channel/by-id/" - 1 + id.len);
    assert(rest.len == 0 || span_equal(rest, SPAN("/")));
}

/* A page is a positive number, encoded or not, or the error of a bad one. */
void page(void)
{
    char bytes[] = "page=...";
    char room[sizeof bytes];
    struct http_request request = {.query = SPAN("page=...")};
    struct params p = {.error = API_ERROR_NONE};
    struct buf scratch = BUF_IN(room);
    for (size_t i = 5; i < 8; i++)
        bytes[i] = (char)nondet_size();
    request.query.data = bytes;
    params_parse_page(&p, &request, &scratch);
    bool bad = p.error == API_ERROR_BAD_PAGE;
    assert(bad || p.error == API_ERROR_NONE);
    assert(p.cache.type == (bad ? QUERY_AUTH_ONLY : QUERY_PAGE));
    assert(bad || (p.cache.number >= 1 && p.cache.number <= 999));
    bool digits = true;
    for (size_t i = 5; i < 8; i++)
        digits = digits && bytes[i] >= '0' && bytes[i] <= '9';
    int64_t value = (bytes[5] - '0') * 100 + (bytes[6] - '0') * 10 + bytes[7] - '0';
    assert(!digits || bad == (bytes[5] == '0'));
    assert(!digits || bad || p.cache.number == value);
}
