/* SIEVE evicts the oldest that was not hit since the hand last passed it. */
#include "store/sieve.h"

#include "unit/check.h"

enum { NODES = 5 };

static struct sieve sieve;
static struct sieve_node node[NODES];

static int set_up(void **state)
{
    (void)state;
    sieve_init(&sieve);
    for (int i = 0; i < NODES; i++)
        sieve_add(&sieve, &node[i]);
    return 0;
}

static int evict(void)
{
    struct sieve_node *victim = sieve_victim(&sieve);
    assert_non_null(victim);
    sieve_remove(&sieve, victim);
    return (int)(victim - node);
}

TEST(without_hits_it_is_first_in_first_out)
{
    for (int i = 0; i < NODES; i++)
        assert_int_equal(evict(), i);
    assert_null(sieve_victim(&sieve));
}

TEST(what_was_hit_is_passed_over_once)
{
    sieve_hit(&node[0]);
    sieve_hit(&node[2]);
    assert_int_equal(evict(), 1);
    assert_int_equal(evict(), 3);
    assert_int_equal(evict(), 4);
    assert_int_equal(evict(), 0);
    assert_int_equal(evict(), 2);
}

TEST(the_hand_goes_on_from_where_it_stopped)
{
    sieve_hit(&node[0]);
    assert_int_equal(evict(), 1);
    sieve_hit(&node[0]); /* behind the hand: safe until it comes round again */
    assert_int_equal(evict(), 2);
    sieve_add(&sieve, &node[1]);
    assert_int_equal(evict(), 3);
    assert_int_equal(evict(), 4);
    assert_int_equal(evict(), 1);
}

TEST(when_all_were_hit_the_oldest_goes)
{
    for (int i = 0; i < NODES; i++)
        sieve_hit(&node[i]);
    assert_int_equal(evict(), 0);
}

TEST(the_node_under_the_hand_may_be_removed)
{
    sieve_hit(&node[0]);
    assert_ptr_equal(sieve_victim(&sieve), &node[1]);
    sieve_remove(&sieve, &node[1]);
    assert_int_equal(evict(), 2);
    sieve_remove(&sieve, &node[4]);
    assert_int_equal(evict(), 3);
    assert_int_equal(evict(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_hits_it_is_first_in_first_out, set_up),
        cmocka_unit_test_setup(what_was_hit_is_passed_over_once, set_up),
        cmocka_unit_test_setup(the_hand_goes_on_from_where_it_stopped, set_up),
        cmocka_unit_test_setup(when_all_were_hit_the_oldest_goes, set_up),
        cmocka_unit_test_setup(the_node_under_the_hand_may_be_removed, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
