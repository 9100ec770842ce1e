/* SHA-256 against the vectors of FIPS 180-4 and NIST's examples, and its hexadecimal form. */
#include "base/digest.h"

#include "unit/check.h"

static void assert_digest(struct span bytes, const char *expected)
{
    struct digest d;
    char hex[DIGEST_HEX_LEN];
    digest_sha256(bytes, &d);
    digest_hex(&d, hex);
    assert_span(((struct span){hex, sizeof hex}), expected);
    assert_true(digest_is_hex((struct span){hex, sizeof hex}));
}

TEST_CASE(sha256_of_the_published_vectors)
{
    assert_digest(SPAN(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest(SPAN("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_digest(SPAN("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_digest(
        SPAN(
            "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
            "mnopqrstnopqrstu"),
        "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

TEST_CASE(hex_has_two_digits_per_byte)
{
    struct digest d;
    char hex[DIGEST_HEX_LEN];
    for (int i = 0; i < DIGEST_LEN; i++)
        d.bytes[i] = (unsigned char)(i * 0x11);
    digest_hex(&d, hex);
    assert_memory_equal(hex, "00112233445566778899aabbccddeeff", 32);
}

TEST_CASE(only_64_lower_case_digits_are_a_digest)
{
    char text[66] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0";
    assert_true(digest_is_hex((struct span){text, 64}));
    assert_false(digest_is_hex((struct span){text, 63}));
    assert_false(digest_is_hex((struct span){text, 65}));
    assert_false(digest_is_hex(SPAN_ABSENT));
    static const char wrong[] = {'A', 'F', 'g', '/', ':', '`', ' ', '\0', '-'};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        for (size_t at = 0; at < 64; at += 63) {
            char kept = text[at];
            text[at] = wrong[i];
            assert_false(digest_is_hex((struct span){text, 64}));
            text[at] = kept;
        }
    }
}

enum { LENGTHS = 40 };

TEST_CASE(secrets_with_one_different_bit_differ)
{
    char a[LENGTHS] = {0};
    char b[LENGTHS] = {0};
    for (size_t n = 1; n <= LENGTHS; n++) {
        for (size_t bit = 0; bit < 8 * n; bit++) {
            b[bit / 8] ^= (char)(1 << bit % 8);
            assert_false(secret_equal((struct span){a, n}, (struct span){b, n}));
            b[bit / 8] = 0;
        }
    }
}
