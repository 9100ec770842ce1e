/* Shared bodies: the bytes are copies, the tag follows them, and the last owner frees. */
#include "base/blob.h"

#include "unit/check.h"

TEST_CASE(blob_keeps_a_copy_of_its_bytes)
{
    char source[] = "body";
    struct blob *b = blob_new(span_of(source));
    assert_non_null(b);
    source[0] = 'X';
    assert_int_equal(b->len, 4);
    assert_memory_equal(b->data, "body", 4);
    assert_int_equal(b->refs, 1);
    assert_span(blob_etag(b), NULL);
    blob_unref(b);
}

TEST_CASE(empty_blob_is_valid)
{
    struct blob *empty = blob_new(SPAN(""));
    struct blob *absent = blob_new_headroom(SPAN_ABSENT, 0);
    assert_non_null(empty);
    assert_non_null(absent);
    assert_int_equal(empty->len, 0);
    assert_int_equal(absent->len, 0);
    assert_span(blob_etag(absent), "\"99aa06d3014798d86001c324468d497f\"");
    blob_unref(empty);
    blob_unref(absent);
}

TEST_CASE(blob_is_made_of_the_text_of_a_buffer)
{
    struct buf text = BUF_INIT;
    blob_begin(&text, 100);
    buf_append_str(&text, "ab");
    buf_append_char(&text, 'c');
    struct blob *b = blob_finish(&text);
    assert_non_null(b);
    assert_int_equal(b->refs, 1);
    assert_int_equal(b->len, 3);
    assert_memory_equal(b->data, "abc", 3);
    assert_span(blob_etag(b), "\"06b05ab6733a618578af5f94892f3950\"");
    assert_null(blob_claim_headroom(b, 1));
    assert_null(text.data);
    blob_unref(b);
}

TEST_CASE(blob_may_be_longer_than_expected_and_empty)
{
    struct buf text = BUF_INIT;
    blob_begin(&text, 0);
    for (int i = 0; i < 1000; i++)
        buf_append_str(&text, "abc");
    struct blob *b = blob_finish(&text);
    assert_int_equal(b->len, 3000);
    assert_memory_equal(b->data + 2997, "abc", 3);
    blob_unref(b);
    blob_begin(&text, 10);
    b = blob_finish(&text);
    assert_int_equal(b->len, 0);
    blob_unref(b);
}

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

TEST_CASE(equal_bytes_have_equal_tags)
{
    struct blob *one = blob_new_headroom(SPAN("page 1"), 0);
    struct blob *same = blob_new_headroom(SPAN("page 1"), 0);
    struct blob *other = blob_new_headroom(SPAN("page 2"), 0);
    assert_true(span_equal(blob_etag(one), blob_etag(same)));
    assert_false(span_equal(blob_etag(one), blob_etag(other)));
    blob_unref(one);
    blob_unref(same);
    blob_unref(other);
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
