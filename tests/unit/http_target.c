/* Request targets. Their forms are in tests/integration/requests/malformed.http and tests/simulation/http. */
#include <errno.h>
#include <stdlib.h>

#include "http/parser.h"
#include "unit/check.h"

struct split {
    char *copy; /* of exactly the target's size */
    struct span path, query;
    int err;
};

static struct split split(struct span target)
{
    struct split s = {.copy = malloc(target.len + (target.len == 0))};
    assert_non_null(s.copy);
    memcpy(s.copy, target.data, target.len);
    s.err = http_target_split(s.copy, target.len, &s.path, &s.query);
    return s;
}

/* Targets are scanned in words, and their rest in bytes. */
TEST_CASE(a_forbidden_byte_is_found_at_every_position)
{
    for (int c = 0; c < 256; c++) {
        bool forbidden = c <= 0x20 || c == '#' || c >= 0x7F;
        for (size_t at = 2; at < 20; at++) {
            char target[] = "/?a&b~c=defghijklmno";
            target[at] = (char)c;
            struct split s = split(SPAN(target));
            if (s.err != (forbidden ? -EINVAL : 0))
                fail_msg("byte %d at %zu: %d", c, at, s.err);
            free(s.copy);
        }
    }
}
