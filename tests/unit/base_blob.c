/* Shared bodies: the bytes are copies, the tag follows them, and the last owner frees. */
#include "base/blob.h"

#include "unit/check.h"

TEST_CASE(blob_whose_text_has_no_memory_is_none)
{
    struct buf text = BUF_INIT;
    blob_begin(&text, 10);
    assert_int_not_equal(buf_reserve(&text, SIZE_MAX), 0);
    assert_null(blob_finish(&text));
    assert_null(text.data);
    blob_begin(&text, SIZE_MAX - sizeof(struct blob));
    buf_append_str(&text, "abc");
    assert_null(blob_finish(&text));
}

TEST_CASE(length_that_overflows_is_refused)
{
    assert_null(blob_new((struct span){"", SIZE_MAX}));
    assert_null(blob_new((struct span){"", SIZE_MAX - sizeof(struct blob) + 1}));
}

TEST_CASE(tag_is_the_xxh3_of_the_bytes_in_quotes)
{
    struct blob *b = blob_new_headroom(SPAN("abc"), 0);
    assert_non_null(b);
    assert_span(blob_etag(b), "\"06b05ab6733a618578af5f94892f3950\"");
    blob_unref(b);
}

TEST_CASE(headroom_is_before_the_blob_and_taken_once)
{
    struct blob *b = blob_new_headroom(SPAN("abc"), 48);
    assert_non_null(b);
    assert_null(blob_claim_headroom(b, 49));
    char *front = blob_claim_headroom(b, 48);
    assert_ptr_equal(front + 48, b);
    memset(front, 'x', 48);
    assert_null(blob_claim_headroom(b, 1));
    assert_memory_equal(b->data, "abc", 3);
    assert_span(blob_etag(b), "\"06b05ab6733a618578af5f94892f3950\"");
    blob_unref(b);
    struct blob *plain = blob_new(SPAN("abc"));
    assert_null(blob_claim_headroom(plain, 1));
    blob_unref(plain);
}

TEST_CASE(blob_lives_until_its_last_reference_is_dropped)
{
    struct blob *b = blob_new_headroom(SPAN("shared"), 0);
    assert_ptr_equal(blob_ref(b), b);
    assert_int_equal(b->refs, 2);
    blob_unref(b);
    assert_memory_equal(b->data, "shared", 6); /* a sanitizer would object to freed memory */
    assert_int_equal(b->refs, 1);
    blob_unref(b);
    blob_unref(NULL);
}

TEST_CASE(each_coding_has_a_tag_of_its_own_made_from_the_plain_one)
{
    char etag[BLOB_ETAG_MAX];
    struct blob *plain = blob_new_headroom(SPAN("abc"), 0);
    struct blob *gzip = blob_new_coded(SPAN("gz"), CODING_GZIP, plain);
    assert_non_null(gzip);
    assert_int_equal(plain->coding, CODING_IDENTITY);
    assert_int_equal(gzip->coding, CODING_GZIP);
    assert_int_equal(gzip->len, 2);
    assert_memory_equal(gzip->data, "gz", 2);
    assert_span(blob_etag(gzip), "\"06b05ab6733a618578af5f94892f3950-gzip\"");
    const struct blob *const both[] = {plain, gzip};
    for (size_t i = 0; i < TEST_COUNT(both); i++) {
        assert_span(blob_etag_coded(both[i], CODING_IDENTITY, etag), "\"06b05ab6733a618578af5f94892f3950\"");
        assert_span(blob_etag_coded(both[i], CODING_GZIP, etag), "\"06b05ab6733a618578af5f94892f3950-gzip\"");
        assert_span(blob_etag_coded(both[i], CODING_ZSTD, etag), "\"06b05ab6733a618578af5f94892f3950-zstd\"");
    }
    blob_unref(plain);
    blob_unref(gzip);
}
