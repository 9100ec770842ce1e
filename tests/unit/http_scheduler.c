/* Deadlines and the run queue: nothing expires early, nothing is forgotten, and the loop rests afterwards. */
#include "http/scheduler.h"

#include "unit/check.h"

enum { TASKS = 1000 };

static struct {
    uv_loop_t loop;
    struct http_scheduler scheduler;
    struct http_task task[TASKS];
    struct wait_group handles;
    struct http_task *seen[TASKS]; /* expired or run, in this order */
    int expired, run;
    int again; /* so many times a task that is run enqueues itself again */
} t;

static void on_ticked(void *arg)
{
    (void)arg;
}

static void on_expired(struct http_task *task)
{
    t.seen[t.expired + t.run] = task;
    t.expired++;
    http_task_clear_deadline(task);
}

static void on_run(struct http_task *task)
{
    assert_false(http_task_queued(task));
    t.seen[(t.expired + t.run) % TASKS] = task;
    t.run++;
    if (t.again > 0) {
        t.again--;
        http_task_enqueue(&t.scheduler, task);
    }
}

static void stop_timer(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (handle->type == UV_TIMER)
        (void)uv_timer_stop((uv_timer_t *)handle);
}

/* Each kind has 100 ms more than the one before. Time stands still but for http_scheduler_tick. */
static int begin(void **state)
{
    (void)state;
    uint64_t timeout_ms[HTTP_DEADLINES];
    const struct http_scheduler_callbacks callbacks = {on_ticked, on_expired, on_run, NULL};
    memset(&t, 0, sizeof t);
    for (int i = 0; i < HTTP_DEADLINES; i++)
        timeout_ms[i] = 100 * ((uint64_t)i + 1);
    assert_int_equal(uv_loop_init(&t.loop), 0);
    http_scheduler_init(&t.scheduler, &t.loop, timeout_ms, &callbacks);
    uv_walk(&t.loop, stop_timer, NULL);
    for (int i = 0; i < TASKS; i++)
        http_task_init(&t.task[i]);
    return 0;
}

static void on_handles_closed(void *arg)
{
    *(bool *)arg = true;
}

static int end(void **state)
{
    (void)state;
    bool closed = false;
    http_scheduler_close(&t.scheduler, &t.handles);
    wait_group_wait(&t.handles, on_handles_closed, &closed);
    assert_int_equal(uv_run(&t.loop, UV_RUN_DEFAULT), 0);
    assert_true(closed);
    assert_int_equal(uv_loop_close(&t.loop), 0);
    return 0;
}

/* The loop's time when the scheduler began. */
static uint64_t start_ms(void)
{
    return uv_now(&t.loop);
}

/* Turns the loop until the scheduler rests; then it must not keep the loop busy. */
static void drain(void)
{
    for (int i = 0; i < 10 * TASKS && uv_backend_timeout(&t.loop) == 0 && uv_loop_alive(&t.loop); i++)
        (void)uv_run(&t.loop, UV_RUN_NOWAIT);
    assert_false(uv_loop_alive(&t.loop)); /* its only handle that may be active is the idle one */
}

/* Two ticks, since a deadline counts only if it had passed at the previous one. */
static int expired_at(uint64_t now_ms)
{
    int before = t.expired;
    http_scheduler_tick(&t.scheduler, now_ms);
    http_scheduler_tick(&t.scheduler, now_ms);
    drain();
    return t.expired - before;
}

TEST_CASE_WITH(without_deadlines_nothing_expires, begin, end)
{
    assert_int_equal(t.task[0].deadline, HTTP_DEADLINE_NONE);
    http_task_clear_deadline(&t.task[0]); /* harmless */
    assert_int_equal(expired_at(UINT64_MAX), 0);
}

TEST_CASE_WITH(each_kind_of_deadline_has_its_timeout, begin, end)
{
    uint64_t now_ms = start_ms();
    for (int kind = 0; kind < HTTP_DEADLINES; kind++) {
        http_task_set_deadline(&t.scheduler, &t.task[kind], (enum http_deadline)kind, now_ms);
        uint64_t at_ms = now_ms + 100 * ((uint64_t)kind + 1);
        assert_int_equal(expired_at(at_ms - 1), 0);
        assert_int_equal(expired_at(at_ms), 1);
        assert_ptr_equal(t.seen[t.expired - 1], &t.task[kind]);
        now_ms = at_ms;
    }
}

TEST_CASE_WITH(a_deadline_expires_only_if_it_had_passed_at_the_previous_tick, begin, end)
{
    uint64_t now_ms = start_ms();
    http_task_set_deadline(&t.scheduler, &t.task[0], HTTP_DEADLINE_OPENING, now_ms);
    http_scheduler_tick(&t.scheduler, now_ms + 100000);
    drain();
    assert_int_equal(t.expired, 0);
    http_scheduler_tick(&t.scheduler, now_ms + 100001);
    drain();
    assert_int_equal(t.expired, 1);
}

TEST_CASE_WITH(a_deadline_of_the_same_kind_stays_and_of_another_replaces, begin, end)
{
    uint64_t now_ms = start_ms();
    http_task_set_deadline(&t.scheduler, &t.task[0], HTTP_DEADLINE_OPENING, now_ms);
    http_task_set_deadline(&t.scheduler, &t.task[1], HTTP_DEADLINE_OPENING, now_ms + 10);
    http_task_set_deadline(&t.scheduler, &t.task[0], HTTP_DEADLINE_OPENING, now_ms + 20); /* stays */
    assert_int_equal(expired_at(now_ms + 99), 0);
    assert_int_equal(expired_at(now_ms + 100), 1);
    assert_ptr_equal(t.seen[0], &t.task[0]);
    http_task_set_deadline(&t.scheduler, &t.task[1], HTTP_DEADLINE_IDLE, now_ms + 105);
    assert_int_equal(expired_at(now_ms + 304), 0);
    assert_int_equal(expired_at(now_ms + 305), 1);
    assert_ptr_equal(t.seen[1], &t.task[1]);
}

/* They may count from an earlier time than the ones before. */
TEST_CASE_WITH(deadlines_expire_in_order_of_time, begin, end)
{
    static const int starts[] = {20, 0, 30, 10, 10};
    static const int order[] = {1, 3, 4, 0, 2};
    uint64_t now_ms = start_ms();
    for (int i = 0; i < 5; i++)
        http_task_set_deadline_since(&t.scheduler, &t.task[i], HTTP_DEADLINE_OPENING,
                                     now_ms + (uint64_t)starts[i]);
    assert_int_equal(expired_at(now_ms + 100), 1);
    assert_int_equal(expired_at(now_ms + 110), 2);
    assert_int_equal(expired_at(now_ms + 130), 2);
    for (int i = 0; i < 5; i++)
        assert_ptr_equal(t.seen[i], &t.task[order[i]]);
}

TEST_CASE_WITH(deadlines_expire_in_order_and_none_is_forgotten, begin, end)
{
    uint64_t now_ms = start_ms();
    for (int i = 0; i < TASKS; i++)
        http_task_set_deadline(&t.scheduler, &t.task[i], HTTP_DEADLINE_PROXY_OPENING, now_ms + (uint64_t)i);
    for (int i = 0; i < TASKS; i += 2) /* every other one is served in time */
        http_task_clear_deadline(&t.task[i]);
    assert_int_equal(expired_at(now_ms + 300 + TASKS / 2), TASKS / 4);
    assert_int_equal(expired_at(now_ms + 300 + TASKS), TASKS / 4);
    for (int i = 0; i < TASKS / 2; i++)
        assert_ptr_equal(t.seen[i], &t.task[2 * i + 1]);
}

TEST_CASE_WITH(the_oldest_has_had_its_deadline_for_longest, begin, end)
{
    uint64_t now_ms = start_ms();
    http_task_set_deadline(&t.scheduler, &t.task[0], HTTP_DEADLINE_OPENING, now_ms + 2);
    http_task_set_deadline(&t.scheduler, &t.task[1], HTTP_DEADLINE_IDLE, now_ms + 1); /* expires later */
    http_task_set_deadline(&t.scheduler, &t.task[2], HTTP_DEADLINE_PROXY_OPENING, now_ms);
    assert_ptr_equal(http_scheduler_oldest(&t.scheduler, HTTP_DEADLINE_OPENING, HTTP_DEADLINE_IDLE),
                     &t.task[1]);
    http_task_clear_deadline(&t.task[1]);
    assert_ptr_equal(http_scheduler_oldest(&t.scheduler, HTTP_DEADLINE_OPENING, HTTP_DEADLINE_IDLE),
                     &t.task[0]);
    assert_null(http_scheduler_oldest(&t.scheduler, HTTP_DEADLINE_HEAD, HTTP_DEADLINE_GRACE));
}

TEST_CASE_WITH(few_deadlines_expire_per_turn, begin, end)
{
    uint64_t now_ms = start_ms();
    for (int i = 0; i < TASKS; i++)
        http_task_set_deadline(&t.scheduler, &t.task[i], HTTP_DEADLINE_OPENING, now_ms);
    http_scheduler_tick(&t.scheduler, now_ms + 100);
    http_scheduler_tick(&t.scheduler, now_ms + 100);
    (void)uv_run(&t.loop, UV_RUN_NOWAIT);
    assert_in_range(t.expired, 1, 4);
    drain();
    assert_int_equal(t.expired, TASKS);
}

TEST_CASE_WITH(tasks_run_in_order_and_an_enqueued_one_goes_to_the_end, begin, end)
{
    t.again = 1;
    assert_false(http_scheduler_busy(&t.scheduler));
    for (int i = 0; i < 3; i++)
        http_task_enqueue(&t.scheduler, &t.task[i]);
    assert_true(http_scheduler_busy(&t.scheduler));
    assert_true(http_task_queued(&t.task[2]));
    http_task_fini(&t.task[1]);
    drain();
    assert_int_equal(t.run, 3);
    assert_ptr_equal(t.seen[0], &t.task[0]);
    assert_ptr_equal(t.seen[1], &t.task[2]);
    assert_ptr_equal(t.seen[2], &t.task[0]);
    assert_false(http_scheduler_busy(&t.scheduler));
}

TEST_CASE_WITH(a_long_queue_is_run_in_turns, begin, end)
{
    t.again = 1000 * 1000; /* more than a turn has time for */
    http_task_enqueue(&t.scheduler, &t.task[0]);
    (void)uv_run(&t.loop, UV_RUN_NOWAIT);
    assert_true(http_task_queued(&t.task[0]));
    assert_in_range(t.run, 1, 1000 * 1000);
    http_task_fini(&t.task[0]);
    drain();
}
