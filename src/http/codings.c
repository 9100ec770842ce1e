/* Parsing Accept-Encoding; see codings.h. */
#include "http/codings.h"

#include "base/text.h"

/* An element names a coding, all others, or a coding that is not served. */
enum { NAME_ANY = CODINGS, NAME_OTHER, NAMES };

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

/* True for "q=" and a number above 0 (RFC 9110 section 12.4.2). */
static bool http_codings_is_weight(struct span s)
{
    bool is_above_0 = false;
    if (s.len < 2 || !span_equal_nocase((struct span){s.data, 2}, SPAN("q=")))
        return false;
    for (size_t i = 2; i < s.len; i++) {
        if (!ascii_is_digit(s.data[i]) && s.data[i] != '.')
            return false;
        is_above_0 = is_above_0 || s.data[i] > '0';
    }
    return is_above_0;
}

/* Of several elements with one name the first counts. */
struct http_codings http_accept_encoding(struct span field)
{
    enum { UNNAMED, REFUSED, ACCEPTED } named[NAMES] = {UNNAMED};
    struct http_codings chosen = {0, CODING_IDENTITY};
    if (field.data == NULL)
        return (struct http_codings){1U << CODING_IDENTITY, CODING_IDENTITY};
    while (field.data != NULL) {
        struct span weight = span_trim(span_cut(&field, ','));
        int name = http_codings_name_of(span_trim(span_cut(&weight, ';')));
        bool accepted = weight.data == NULL || http_codings_is_weight(span_trim(weight));
        if (named[name] == UNNAMED)
            named[name] = accepted ? ACCEPTED : REFUSED;
    }
    for (int coding = 0; coding < CODINGS; coding++) {
        unsigned state = named[coding] != UNNAMED ? named[coding] : named[NAME_ANY];
        if (state == REFUSED || (state == UNNAMED && coding != CODING_IDENTITY))
            continue;
        chosen.acceptable |= 1U << coding;
        chosen.preferred = (enum coding)coding;
    }
    return chosen;
}
