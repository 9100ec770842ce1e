/* The queue of owed replies: first in, first out, through every growth and turn of the ring. */
#include "redis/pending.h"

#include "unit/check.h"

static void nobody(void *arg, const redisReply *reply)
{
    (void)arg;
    (void)reply;
}

static void push(struct pending *q, uint64_t number)
{
    assert_int_equal(pending_reserve(q), 0);
    pending_push(q, (struct pending_command){nobody, NULL, number});
}

TEST_CASE(pending_queue_may_be_empty)
{
    struct pending q = {0};
    assert_null(pending_oldest(&q));
    assert_int_equal(pending_reserve(&q), 0);
    assert_null(pending_oldest(&q));
    pending_fini(&q);
    assert_null(pending_oldest(&q));
    pending_fini(&q); /* harmless */
}

TEST_CASE(pending_queue_is_first_in_first_out_growing_at_every_position_of_its_head)
{
    for (uint64_t skip = 0; skip < 130; skip++) {
        struct pending q = {0};
        for (uint64_t i = 0; i < skip; i++) {
            push(&q, 0);
            (void)pending_pop(&q);
        }
        for (uint64_t i = 0; i < 300; i++)
            push(&q, i);
        for (uint64_t i = 0; i < 300; i++) {
            assert_int_equal(pending_oldest(&q)->sent_ns, i);
            assert_int_equal(pending_pop(&q).sent_ns, i);
        }
        assert_null(pending_oldest(&q));
        pending_fini(&q);
    }
}

TEST_CASE(pending_queue_keeps_its_memory)
{
    struct pending q = {0};
    uint64_t in = 0;
    uint64_t out = 0;
    uint64_t seed = 7;
    for (int i = 0; i < 100000; i++) {
        if (in - out < 60 && check_random(&seed) % 2 == 0)
            push(&q, in++);
        else if (in > out)
            assert_int_equal(pending_pop(&q).sent_ns, out++);
    }
    assert_true(q.capacity <= 64);
    pending_fini(&q);
}
