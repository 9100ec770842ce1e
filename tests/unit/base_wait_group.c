#include "base/wait_group.h"
#include "unit/check.h"

static void count(void *arg)
{
    ++*(int *)arg;
}

TEST_CASE(last_done_calls_the_waiter)
{
    struct wait_group group = WAIT_GROUP_INIT;
    int calls = 0;
    wait_group_add(&group, 2);
    wait_group_wait(&group, count, &calls);
    wait_group_done(&group);
    assert_int_equal(calls, 0);
    wait_group_done(&group);
    assert_int_equal(calls, 1);
}

TEST_CASE(empty_group_calls_at_once)
{
    struct wait_group group = WAIT_GROUP_INIT;
    int calls = 0;
    wait_group_wait(&group, count, &calls);
    assert_int_equal(calls, 1);
}

TEST_CASE(parts_done_before_the_wait_are_not_awaited)
{
    struct wait_group group = WAIT_GROUP_INIT;
    int calls = 0;
    wait_group_add(&group, 1);
    wait_group_done(&group);
    wait_group_wait(&group, count, &calls);
    assert_int_equal(calls, 1);
}
