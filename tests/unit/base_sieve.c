/* SIEVE evicts the oldest that was not hit since the hand last passed it. */
#include "base/sieve.h"

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

/* They are evicted in this order. */
static void expect_evicted(const char *numbers)
{
    for (; *numbers != '\0'; numbers++)
        assert_int_equal(evict(), *numbers - '0');
}

TEST_CASE_WITH(without_hits_it_is_first_in_first_out, set_up, NULL)
{
    expect_evicted("01234");
    assert_null(sieve_victim(&sieve));
}

TEST_CASE_WITH(what_was_hit_is_passed_over_once, set_up, NULL)
{
    sieve_hit(&node[0]);
    sieve_hit(&node[2]);
    expect_evicted("13402");
}

TEST_CASE_WITH(the_hand_goes_on_from_where_it_stopped, set_up, NULL)
{
    sieve_hit(&node[0]);
    expect_evicted("1");
    sieve_hit(&node[0]); /* behind the hand: safe until it comes round again */
    expect_evicted("2");
    sieve_add(&sieve, &node[1]);
    expect_evicted("341");
}

TEST_CASE_WITH(when_all_were_hit_the_oldest_goes, set_up, NULL)
{
    for (int i = 0; i < NODES; i++)
        sieve_hit(&node[i]);
    expect_evicted("0");
}

TEST_CASE_WITH(the_node_under_the_hand_may_be_removed, set_up, NULL)
{
    sieve_hit(&node[0]);
    assert_ptr_equal(sieve_victim(&sieve), &node[1]);
    sieve_remove(&sieve, &node[1]);
    expect_evicted("2");
    sieve_remove(&sieve, &node[4]);
    expect_evicted("30");
}

static int unmarked(const struct sieve_node *nodes, int count)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        n += !nodes[i].visited;
    return n;
}

TEST_CASE(the_hand_takes_a_bounded_number_of_steps)
{
    enum { MARKED = 3 * SIEVE_STEPS_MAX, SPENT = 100 };
    static struct sieve_node many[MARKED];
    sieve_init(&sieve);
    for (int i = 0; i < MARKED; i++) {
        sieve_add(&sieve, &many[i]);
        sieve_hit(&many[i]);
    }
    struct sieve_node *first = sieve_victim(&sieve);
    assert_ptr_equal(first, &many[SIEVE_STEPS_MAX]);
    assert_int_equal(unmarked(many, MARKED), SIEVE_STEPS_MAX);
    sieve_remove(&sieve, first);
    /* What was saved is spent: each pays for itself. */
    for (int i = 1; i <= SPENT; i++) {
        struct sieve_node *victim = sieve_victim(&sieve);
        assert_int_equal(unmarked(many, MARKED), SIEVE_STEPS_MAX + i * SIEVE_STEPS);
        sieve_remove(&sieve, victim);
    }
}

TEST_CASE(steps_are_saved_while_few_are_needed)
{
    enum { MARKED = 10 * SIEVE_STEPS, UNMARKED = 2 * MARKED / SIEVE_STEPS };
    static struct sieve_node nodes[UNMARKED + MARKED];
    sieve_init(&sieve);
    sieve.steps = 0;
    for (int i = 0; i < UNMARKED + MARKED; i++) {
        sieve_add(&sieve, &nodes[i]);
        if (i >= UNMARKED && i < UNMARKED + MARKED - 1)
            sieve_hit(&nodes[i]);
    }
    for (int i = 0; i < UNMARKED; i++)
        sieve_remove(&sieve, sieve_victim(&sieve));
    assert_ptr_equal(sieve_victim(&sieve), &nodes[UNMARKED + MARKED - 1]);
}

TEST_CASE_WITH(all_can_be_taken_at_once, set_up, NULL)
{
    struct list taken;
    list_init(&taken);
    (void)sieve_victim(&sieve);
    sieve_drain(&sieve, &taken);
    assert_null(sieve_victim(&sieve));
    for (int i = 0; i < NODES; i++) {
        assert_ptr_equal(taken.next, &node[i].link);
        list_remove(taken.next);
    }
    assert_true(list_empty(&taken));
    sieve_add(&sieve, &node[3]);
    assert_ptr_equal(sieve_victim(&sieve), &node[3]);
}
