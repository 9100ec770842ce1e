/* What connections to Redis count: adding it up, and the text that Prometheus reads. */
#include "redis/metrics.h"

#include "unit/check.h"

TEST(redis_metrics_are_added_up)
{
    struct redis_metrics sum = {0};
    struct redis_metrics worker = {0};
    uint64_t n = 0;
#define FILL(name, type, help) metric_add(&worker.name, ++n);
    REDIS_METRICS(FILL)
#undef FILL
    redis_metrics_accumulate(&sum, &worker);
    redis_metrics_accumulate(&sum, &worker);
    n = 0;
#define CHECK(name, type, help) assert_int_equal(atomic_load(&sum.name), 2 * ++n);
    REDIS_METRICS(CHECK)
#undef CHECK
}

TEST(replica_lag_is_the_largest_and_roles_are_counted)
{
    struct redis_metrics sum = {0};
    struct redis_metrics workers[3] = {
        {.redis_replica_lag_seconds = 4, .redis_role = {[REDIS_ROLE_MASTER] = 1}},
        {.redis_replica_lag_seconds = 9, .redis_role = {[REDIS_ROLE_REPLICA] = 1}},
        {.redis_replica_lag_seconds = 2, .redis_role = {[REDIS_ROLE_REPLICA] = 1}}};
    struct buf out = BUF_INIT;
    for (int i = 0; i < 3; i++)
        redis_metrics_accumulate(&sum, &workers[i]);
    redis_metrics_write(&out, &sum);
    const char *text = buf_c_str(&out);
    assert_non_null(strstr(text, "\nchanneld_redis_replica_lag_seconds 9\n"));
    assert_non_null(strstr(text, "\nchanneld_redis_role{role=\"unknown\"} 0\n"));
    assert_non_null(strstr(text, "\nchanneld_redis_role{role=\"master\"} 1\n"));
    assert_non_null(strstr(text, "\nchanneld_redis_role{role=\"replica\"} 2\n"));
    assert_non_null(strstr(text, "# TYPE channeld_redis_connects_total counter\n"));
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(redis_metrics_are_added_up),
        cmocka_unit_test(replica_lag_is_the_largest_and_roles_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
