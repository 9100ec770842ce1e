#include "base/wait_group.h"

#include <string.h>

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

/* An owner that embeds the group, and is gone when `closed` is called. */
struct owner {
    struct wait_group group;
    int *live;
};

static void release(void *arg)
{
    struct owner *owner = arg;
    --*owner->live;
    memset(owner, 0xFF, sizeof *owner); /* as memory that was freed may be */
}

static void expect_none_live(void *arg)
{
    assert_int_equal(*(int *)arg, 0);
    *(int *)arg = -1;
}

TEST_CASE(owner_is_freed_before_the_waiter_is_called)
{
    for (unsigned parts = 0; parts < 3; parts++) {
        int live = 1;
        struct owner owner = {.live = &live};
        wait_group_add(&owner.group, parts);
        wait_group_close(&owner.group, release, &owner, expect_none_live, &live);
        for (unsigned i = 0; i < parts; i++) {
            assert_int_equal(live, 1);
            wait_group_done(&owner.group);
        }
        assert_int_equal(live, -1);
    }
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
