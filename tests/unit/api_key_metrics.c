/* Requests by the name of their key: classes, sums over workers, and the bound of the names. */
#include "api/key_metrics.h"

#include <stdlib.h>

#include "unit/check.h"

static struct key_metrics *worker[2], *sum;
static struct buf text;

static int set_up(void **state)
{
    (void)state;
    worker[0] = key_metrics_new();
    worker[1] = key_metrics_new();
    sum = key_metrics_new();
    text = BUF_INIT;
    return worker[0] == NULL || worker[1] == NULL || sum == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    free(worker[0]);
    free(worker[1]);
    free(sum);
    buf_fini(&text);
    return 0;
}

static void count(int number, const char *named, int status)
{
    struct api_key_name name;
    api_key_name_set(&name, span_of(named));
    key_metrics_count(worker[number], &name, status);
}

static void count_number(int number, int n)
{
    char name[16];
    (void)snprintf(name, sizeof name, "key-%d", n);
    count(number, name, 200);
}

static const char *scrape(void)
{
    key_metrics_accumulate(sum, worker[0]);
    key_metrics_accumulate(sum, worker[1]);
    buf_clear(&text);
    key_metrics_write(&text, sum);
    return buf_c_str(&text);
}

static void expect(const char *name, const char *status_class, int value)
{
    char line[160];
    (void)snprintf(line, sizeof line, "\nchanneld_key_requests_total{name=\"%s\",status_class=\"%s\"} %d\n",
                   name, status_class, value);
    if (strstr(scrape(), line) == NULL)
        fail_msg("not in the metrics: %s", line);
}

static int count_lines(void)
{
    int lines = 0;
    for (const char *at = scrape(); (at = strstr(at, "\nchanneld_key_requests_total{")) != NULL; at++)
        lines++;
    return lines;
}

/* A key of that name has no series of its own. */
TEST_CASE_WITH(a_key_named_other_is_among_the_others, set_up, tear_down)
{
    count(0, "other", 200);
    expect("other", "2xx", 1);
    assert_int_equal(count_lines(), 2);
}

/* Whichever workers know them. */
TEST_CASE_WITH(a_name_that_was_shown_stays_when_the_sum_is_full, set_up, tear_down)
{
    count(1, "late", 200);
    expect("late", "2xx", 1);
    for (int i = 0; i < KEY_METRICS_NAMES; i++)
        count_number(0, i);
    expect("late", "2xx", 1);
    expect("other", "2xx", 1);
    count(1, "late", 200);
    expect("late", "2xx", 2);
}
