/* Parsing Accept-Encoding; see codings.h. Weights are in thousandths. */
#include "http/codings.h"

#include "base/text.h"

enum { WEIGHT_ABSENT = -1, WEIGHT_INVALID = -2, WEIGHT_MAX = 1000 };

/* An element names a coding, all others, or a coding that is not served. */
enum { NAME_ANY = CODINGS, NAME_OTHER, NAMES };

/* qvalue = ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] ) (RFC 9110 section 12.4.2). */
static int http_codings_parse_qvalue(struct span s)
{
    if (s.len == 0 || s.len > sizeof "0.000" - 1 || (s.len > 1 && s.data[1] != '.'))
        return WEIGHT_INVALID;
    int weight = 0;
    for (size_t i = 0, unit = WEIGHT_MAX; i < sizeof "0.000" - 1; i++) {
        if (i == 1)
            continue;
        if (i < s.len && !ascii_is_digit(s.data[i]))
            return WEIGHT_INVALID;
        weight += i < s.len ? (s.data[i] - '0') * (int)unit : 0;
        unit /= 10;
    }
    return weight <= WEIGHT_MAX ? weight : WEIGHT_INVALID;
}

/* weight = OWS ";" OWS "q=" qvalue; `s` is what follows the semicolon. */
static int http_codings_parse_weight(struct span s)
{
    s = span_trim(s);
    if (s.len < 2 || !span_equal_nocase((struct span){s.data, 2}, SPAN("q=")))
        return WEIGHT_INVALID;
    return http_codings_parse_qvalue(span_skip(s, 2));
}

/* x-gzip is another name of gzip (RFC 9110 section 8.4.1.3). */
static int http_codings_name_of(struct span token)
{
    if (span_equal(token, SPAN("*")))
        return NAME_ANY;
    if (span_equal_nocase(token, SPAN("x-gzip")))
        return CODING_GZIP;
    for (int coding = 0; coding < CODINGS; coding++)
        if (span_equal_nocase(token, coding_name((enum coding)coding)))
            return coding;
    return NAME_OTHER;
}

/* Reads one element of the list; an empty one is skipped (section 5.6.1). False when it is invalid. The first
 * weight of a coding counts. */
static bool http_codings_parse_element(struct span element, int weight[NAMES])
{
    if (element.len == 0)
        return true;
    struct span token = span_trim(span_cut(&element, ';'));
    int w = element.data != NULL ? http_codings_parse_weight(element) : WEIGHT_MAX;
    if (w == WEIGHT_INVALID || token.len == 0 || !span_all(token, ascii_is_tchar))
        return false;
    int name = http_codings_name_of(token);
    if (weight[name] == WEIGHT_ABSENT)
        weight[name] = w;
    return true;
}

/*
 * The weight of "*" holds for the codings that are not named. Identity is acceptable unless it is refused; if
 * it is not named, any other acceptable coding is preferred.
 */
static struct http_codings http_codings_choose(const int weight[NAMES])
{
    struct http_codings chosen = {0, CODING_IDENTITY};
    int best = 0;
    bool identity_refused =
        weight[CODING_IDENTITY] == 0 || (weight[CODING_IDENTITY] == WEIGHT_ABSENT && weight[NAME_ANY] == 0);
    if (!identity_refused)
        chosen.acceptable = 1U << CODING_IDENTITY;
    if (weight[CODING_IDENTITY] > 0)
        best = weight[CODING_IDENTITY];
    for (int coding = CODING_IDENTITY + 1; coding < CODINGS; coding++) {
        int w = weight[coding] == WEIGHT_ABSENT ? weight[NAME_ANY] : weight[coding];
        if (w <= 0)
            continue;
        chosen.acceptable |= 1U << coding;
        if (w >= best) {
            best = w;
            chosen.preferred = (enum coding)coding;
        }
    }
    return chosen;
}

struct http_codings http_accept_encoding(struct span field)
{
    int weight[NAMES];
    for (int i = 0; i < NAMES; i++)
        weight[i] = WEIGHT_ABSENT;
    while (field.data != NULL)
        if (!http_codings_parse_element(span_next_element(&field), weight))
            return (struct http_codings){1U << CODING_IDENTITY, CODING_IDENTITY};
    return http_codings_choose(weight);
}
