/* The growing buffer: what is appended is there, and one failure is remembered until the buffer is cleared.
 */
#include "base/buf.h"

#include <errno.h>
#include <wchar.h>

#include "unit/check.h"

/* Asked by the sanitizers: a size that cannot be had gives NULL, as it does without them. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

TEST_CASE(bytes_survive_every_growth)
{
    SCOPED_BUF(b);
    for (int i = 0; i < 100000; i++)
        buf_append_char(&b, (char)('a' + i % 26));
    assert_int_equal(buf_error(&b), 0);
    assert_int_equal(b.len, 100000);
    assert_true(b.cap >= b.len);
    for (int i = 0; i < 100000; i++)
        if (b.data[i] != (char)('a' + i % 26))
            fail_msg("byte %d changed", i);
}

TEST_CASE(printf_fits_exactly_at_the_capacity_and_one_beyond)
{
    for (int fill = 250; fill <= 260; fill++) {
        SCOPED_BUF(b);
        buf_printf(&b, "%*s", fill, "");
        buf_printf(&b, "%s", "end");
        assert_int_equal(buf_error(&b), 0);
        assert_int_equal(b.len, fill + 3);
        assert_memory_equal(b.data + fill, "end", 3);
    }
}

TEST_CASE(reserve_makes_room_without_changing_the_length)
{
    SCOPED_BUF(b);
    assert_int_equal(buf_reserve(&b, 1000), 0);
    assert_int_equal(b.len, 0);
    assert_true(b.cap >= 1000);
    char *before = b.data;
    for (int i = 0; i < 1000; i++)
        buf_append_char(&b, 'x');
    assert_ptr_equal(b.data, before);
}

TEST_CASE(failed_reserve_is_sticky_and_keeps_the_bytes)
{
    struct buf b = BUF_INIT;
    buf_append_str(&b, "kept");
    assert_int_equal(buf_reserve(&b, SIZE_MAX), -ENOMEM); /* the length itself would overflow */
    assert_int_equal(buf_error(&b), -ENOMEM);
    buf_append_str(&b, "lost");
    buf_append_char(&b, '!');
    buf_append_int(&b, 1);
    buf_printf(&b, "%d", 1);
    assert_int_equal(buf_reserve(&b, 1), -ENOMEM);
    assert_null(buf_c_str(&b));
    assert_span(buf_span(&b), "kept");
    buf_fini(&b);
    assert_int_equal(buf_error(&b), 0);
}

TEST_CASE(unavailable_sizes_fail_alike)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 + 2, SIZE_MAX / 2, SIZE_MAX / 4};
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        SCOPED_BUF(b);
        assert_int_equal(buf_reserve(&b, sizes[i]), -ENOMEM);
        assert_null(b.data);
    }
}

TEST_CASE(unwritable_format_marks_the_buffer)
{
    SCOPED_BUF(b);
    buf_append_str(&b, "kept");
    buf_printf(&b, "%lc", (wint_t)0x416); /* not in the character set of the C locale */
    assert_int_equal(buf_error(&b), -ENOMEM);
    assert_span(buf_span(&b), "kept");
}

TEST_CASE(clear_resets_the_error_and_keeps_the_memory)
{
    SCOPED_BUF(b);
    buf_append_str(&b, "old");
    char *before = b.data;
    assert_int_equal(buf_reserve(&b, SIZE_MAX), -ENOMEM);
    buf_clear(&b);
    buf_append_str(&b, "new");
    assert_buf(&b, "new");
    assert_ptr_equal(b.data, before);
}

TEST_CASE(consume_moves_the_rest_to_the_start)
{
    SCOPED_BUF(b);
    buf_append_str(&b, "abcdef");
    buf_consume(&b, 0);
    assert_buf(&b, "abcdef");
    buf_consume(&b, 2);
    assert_buf(&b, "cdef");
    buf_append_str(&b, "gh");
    assert_buf(&b, "cdefgh");
    buf_consume(&b, 6);
    assert_buf(&b, "");
}

TEST_CASE(integers_are_written_over_the_full_range)
{
    static const struct {
        int64_t value;
        const char *text;
    } cases[] = {{0, "0"},
                 {-1, "-1"},
                 {9, "9"},
                 {10, "10"},
                 {-10, "-10"},
                 {1000000, "1000000"},
                 {INT64_MAX, "9223372036854775807"},
                 {INT64_MIN + 1, "-9223372036854775807"},
                 {INT64_MIN, "-9223372036854775808"}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char digits[INT64_DIGITS_MAX];
        size_t n = format_int64(cases[i].value, digits);
        assert_span(((struct span){digits, n}), cases[i].text);
        SCOPED_BUF(b);
        buf_append_int(&b, cases[i].value);
        assert_buf(&b, cases[i].text);
    }
}
