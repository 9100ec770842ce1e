/* Parsing and encoding of text. A whole text must be the value. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/span.h"

/* --- Characters of ASCII, in any locale --- */

static inline bool ascii_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool ascii_is_alnum(char c)
{
    return ascii_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* True for a character of a token (RFC 9110 section 5.6.2). */
static inline bool ascii_is_tchar(char c)
{
    return ascii_is_alnum(c) || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/* --- Numbers --- */

/* A decimal integer in its one canonical spelling: `-?(0|[1-9][0-9]*)`, never "-0". Returns 0, -EINVAL or
 * -ERANGE; *out is untouched on error. */
int parse_int64(struct span text, int64_t *out) __attribute__((warn_unused_result));

struct units {
    bool (*is_same)(struct span name, struct span other);
    struct unit {
        struct span name;
        int64_t factor; /* 0: there are no more */
    } unit[6];          /* the largest first; the last is 1 */
};

/* None, but numbers of things; bytes: none or one of B, KiB, MiB, GiB, without case; milliseconds: one of ms,
 * s, m, h. */
extern const struct units text_counts, text_sizes, text_durations;

/* Digits and a unit; 0 needs none. Returns 0, -EINVAL or -ERANGE; *out is untouched on error. */
int parse_amount(struct span text, const struct units *units, int64_t *out)
    __attribute__((warn_unused_result));

/* The unit in which *value is written: the largest that leaves a whole number, which *value becomes. */
struct span unit_of(const struct units *units, int64_t *value);

/* --- Times --- */

/* Writes "2026-11-21T10:06:06" and a NUL; the year is 0 to 9999. */
enum { UTC_LEN = 19 };
void utc_write(int64_t seconds, char out[UTC_LEN + 1]);

/* --- Schemes; hosts with ports (RFC 3986 sections 3.1 and 3.2) --- */

struct web_scheme {
    struct span start; /* "https://" */
    struct span port;  /* the default one */
};

/* The scheme of a URL, http or https in any case; NULL for others. Static. */
const struct web_scheme *web_scheme_of(struct span url);

struct authority {
    struct span host;
    struct span port; /* absent without a colon */
    bool bracketed;   /* `host` is without its brackets */
};

/* Splits "host", "host:port" or "[host]:port" at the first colon behind the host. False for broken brackets.
 */
bool authority_split(struct span text, struct authority *out);

/* --- Hexadecimal digits --- */

/* The value of a digit, in either case, or -1. */
int hex_digit(char c);

/* Writes the 2 * n digits of `bytes`, without a NUL. */
void hex_write(const unsigned char *bytes, size_t n, char *out);

/* In lower case. */
bool hex_valid(struct span text);

/* --- Names --- */

/* True for 1 to `max` characters of A-Z a-z 0-9 _ . - */
bool name_valid(struct span text, size_t max);

/* --- Percent-encoding --- */

/* Decodes each %XX once into `out`, which has room for `in.len` bytes and may be the memory of `in`. All else
 * is copied. Returns the decoded length. */
size_t uri_decode(struct span in, char *out);

/* The start of the first encoded slash in `s`, or its length if there is none. */
size_t uri_find_encoded_slash(struct span s);

/* True when every percent sign of `s` is followed by two hexadecimal digits. */
bool uri_escapes_valid(struct span s);

/*
 * The value of the first parameter called `name`, in which there is no percent sign, in a query string: still
 * encoded and borrowed from `query`; names are compared after decoding. A parameter without `=` has an empty
 * value; the span is absent when no parameter has that name.
 */
struct span uri_query_find(struct span query, struct span name);

/* --- UTF-8 --- */

/*
 * The length of the valid character (the Unicode standard, table 3-7) at the start of `s`, or minus the
 * length of the ill-formed sequence there: the longest prefix of a character, at least one byte. Browsers and
 * Python replace the same sequences by one U+FFFD each.
 */
int utf8_step(struct span s);

bool utf8_valid(struct span s);

#endif
