/* Deadlines: they pass at their time and not before, whichever kind they are and however often they are
 * replaced. */
#include "http/deadlines.h"

#include "unit/check.h"

static void begin(struct http_deadlines *all)
{
    http_deadlines_init(all);
    for (int i = 0; i < DEADLINE_KINDS; i++)
        all->timeout_ms[i] = 100 * ((uint64_t)i + 1);
}

TEST(with_none_set_none_passes)
{
    struct http_deadlines all;
    struct http_deadline d;
    begin(&all);
    http_deadline_init(&d);
    assert_null(http_deadlines_passed(&all, UINT64_MAX));
    assert_int_equal(d.kind, DEADLINE_NONE);
    http_deadline_clear(&d); /* harmless */
    assert_null(http_deadlines_passed(&all, UINT64_MAX));
}

TEST(each_kind_passes_after_its_own_timeout)
{
    struct http_deadlines all;
    begin(&all);
    for (int kind = 0; kind < DEADLINE_KINDS; kind++) {
        struct http_deadline d;
        http_deadline_init(&d);
        http_deadline_set(&all, &d, (enum http_deadline_kind)kind, 1000);
        uint64_t at = 1000 + all.timeout_ms[kind];
        assert_null(http_deadlines_passed(&all, at - 1));
        assert_ptr_equal(http_deadlines_passed(&all, at), &d);
        assert_ptr_equal(http_deadlines_passed(&all, at + 1), &d); /* it stays until it is cleared */
        http_deadline_clear(&d);
        assert_null(http_deadlines_passed(&all, UINT64_MAX));
    }
}

TEST(replacing_moves_it_to_the_end_of_its_new_queue)
{
    struct http_deadlines all;
    struct http_deadline a;
    struct http_deadline b;
    begin(&all);
    http_deadline_init(&a);
    http_deadline_init(&b);
    http_deadline_set(&all, &a, DEADLINE_HEAD, 0);
    http_deadline_set(&all, &b, DEADLINE_HEAD, 10);
    http_deadline_set(&all, &a, DEADLINE_HEAD, 20);
    assert_null(http_deadlines_passed(&all, 109));
    assert_ptr_equal(http_deadlines_passed(&all, 119), &b);
    http_deadline_set(&all, &b, DEADLINE_IDLE, 119);
    assert_ptr_equal(http_deadlines_passed(&all, 120), &a);
    http_deadline_clear(&a);
    assert_null(http_deadlines_passed(&all, 318));
    assert_ptr_equal(http_deadlines_passed(&all, 319), &b);
    http_deadline_clear(&b);
}

TEST(a_thousand_pass_in_order_of_arrival_and_none_is_forgotten)
{
    enum { COUNT = 1000 };
    static struct http_deadline many[COUNT];
    struct http_deadlines all;
    begin(&all);
    for (int i = 0; i < COUNT; i++) {
        http_deadline_init(&many[i]);
        http_deadline_set(&all, &many[i], DEADLINE_WRITE, (uint64_t)i);
    }
    for (int i = 0; i < COUNT; i += 2) /* every other one is served in time */
        http_deadline_clear(&many[i]);
    for (int i = 1; i < COUNT; i += 2) {
        assert_ptr_equal(http_deadlines_passed(&all, 300 + (uint64_t)i), &many[i]);
        http_deadline_clear(&many[i]);
    }
    assert_null(http_deadlines_passed(&all, UINT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_none_set_none_passes),
        cmocka_unit_test(each_kind_passes_after_its_own_timeout),
        cmocka_unit_test(replacing_moves_it_to_the_end_of_its_new_queue),
        cmocka_unit_test(a_thousand_pass_in_order_of_arrival_and_none_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
