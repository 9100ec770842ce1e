/* Routes and the parameter of a page. */
#include "api/params.c"

#include "proof.h"

/* An id is one segment behind its route, and nothing else has one. */
void route(void)
{
    char bytes[18];
    struct span path = ANY_TEXT(bytes);
    struct params p;
    if (params_match(&p, SPAN("/"), path) != ROUTE_CARD_BY_ID)
        return;
    assert(span_starts_with(path, SPAN("/channel/by-id/")));
    struct span segment = params_without_last_slash(span_skip(path, sizeof "/channel/by-id/" - 1));
    assert(segment.len > 0 && span_find(segment, '/') == segment.len);
    assert(segment.len != 3 || !span_equal_nocase(segment, SPAN("%2F")));
    int64_t number = 0;
    assert((p.error == API_ERROR_NONE) == (parse_int64(segment, &number) == 0) && p.cache.number == number);
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
