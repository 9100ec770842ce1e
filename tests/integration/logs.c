/* Logs: one JSON object per line, never a key, and floods. What the line of a request says:
 * tests/integration/requests/access-log.http. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/fixture.h"

#define WRONG_KEY "wrong-key-that-must-not-show"

static struct fixture *begin_with(const char *access_log, const char *setting)
{
    AUTOFREE char *text = text_printf("CHANNELD_ACCESS_LOG=%s", access_log);
    const char *env[] = {text, "CHANNELD_LOG_LEVEL=debug", setting, NULL};
    struct fixture *fixture = fixture_new(2, env);
    return fixture;
}

static struct fixture *begin(const char *access_log)
{
    return begin_with(access_log, NULL);
}

/* Stops channeld, so that everything is written, and returns its log; frees the fixture. Owned. */
static char *finish(struct fixture *fixture)
{
    char *log = fixture_stop_server(fixture);
    AUTOFREE char *errors = process_stderr(&fixture->server.process);
    log = text_append(log, errors);
    fixture_free(fixture);
    return log;
}

/* Every way in which a key can reach the server, right and wrong. */
static void send_keys_in_every_way(struct fixture *fixture)
{
    static const char *const targets[] = {
        "/api/channels/?api_key=" FIXTURE_KEY,
        "/api/channels/?api_key=" WRONG_KEY "&page=0",
        "/api/channels/?page=0&api_key=" FIXTURE_KEY,
        "/api/channel/by-id/x/?api_key=" FIXTURE_KEY "&api_key=" WRONG_KEY,
        "/nothing?api_key=" FIXTURE_KEY,
        "/api/channel/by-id/4242/?a=b&api_key=%30123456789abcdef-the-key-of-the-tests"};
    static const char refused[] =
        "GET /api/channels/?api_key=" FIXTURE_KEY " HTTP/1.1\r\nX-Api-Key: " FIXTURE_KEY "\r\n\r\n";
    for (size_t i = 0; i < TEST_COUNT(targets); i++) {
        (void)http_get_status(fixture->server.port, targets[i], NULL);
        (void)http_get_status(fixture->server.port, targets[i], "X-Api-Key: " WRONG_KEY "\r\n");
        (void)http_get_status(fixture->server.port, targets[i], FIXTURE_AUTH);
    }
    http_expect_refusal(fixture->server.port, refused, strlen(refused), 400);
}

TEST_CASE(keys_never_show)
{
    struct fixture *fixture = begin_with("all", "CHANNELD_REQUEST_TIMEOUT=100ms");
    char digest[65];
    send_keys_in_every_way(fixture);
    redis_pause(&fixture->redis);
    send_keys_in_every_way(fixture);
    redis_resume(&fixture->redis);
    AUTOFREE char *log = finish(fixture);
    catalogue_digest(FIXTURE_KEY, digest);
    assert_true(strlen(log) > 0);
    assert_null(strstr(log, FIXTURE_KEY));
    assert_null(strstr(log, "the-key-of-the-tests"));
    assert_null(strstr(log, WRONG_KEY));
    assert_null(strstr(log, digest));
}

TEST_CASE(every_line_is_a_json_object)
{
    struct fixture *fixture = begin("all");
    char *rest = NULL;
    send_keys_in_every_way(fixture);
    (void)fixture_status(fixture, "nothing/%22%5C%0a\"\\");
    AUTOFREE char *log = finish(fixture);
    for (char *line = strtok_r(log, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        assert_int_equal(line[0], '{');
        free(json_at(line, ""));
    }
}

/* ---- floods ---- */

/* Sends the request so often in one piece and reads all responses. */
static void send_pipelined(struct http_conn *conn, const char *headers, int count, int status)
{
    AUTOFREE char *request = http_format("GET", "/api/channels/", headers);
    AUTOFREE char *all = text_printf("%s", "");
    for (int i = 0; i < count; i++)
        all = text_append(all, request);
    assert_int_equal(http_send_text(conn, all), 0);
    for (int i = 0; i < count; i++)
        http_expect(conn, status);
}

/* The sum of the member `suppressed` of all lines. */
static int64_t sum_suppressed(const char *log)
{
    static const char name[] = "\"suppressed\":";
    int64_t sum = 0;
    for (const char *at = log; (at = strstr(at, name)) != NULL;) {
        at += sizeof name - 1;
        sum += strtoll(at, NULL, 10);
    }
    return sum;
}

/* Sends a further refused request; true when all of them are accounted for, as its line says what was left
 * out. */
static bool tells_suppressed(void *arg)
{
    struct fixture *fixture = arg;
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", NULL), 401);
    double answered = server_metric(&fixture->server, "channeld_auth_total{outcome=\"missing\"}") +
                      server_metric(&fixture->server, "channeld_auth_total{outcome=\"invalid\"}");
    AUTOFREE char *log = server_log(&fixture->server);
    return (int64_t)text_count(log, "\"status\":401") + sum_suppressed(log) == (int64_t)answered;
}

TEST_CASE(requests_without_a_valid_key_have_few_lines)
{
    enum { BATCHES = 20, BATCH = 50 };
    struct fixture *fixture = fixture_new(2, ENV("CHANNELD_ACCESS_LOG=all", "CHANNELD_WORKERS=1"));
    struct http_conn conn = http_connect(fixture->server.port);
    int64_t began = wait_now_ms();
    for (int i = 0; i < BATCHES; i++)
        send_pipelined(&conn, i % 2 == 0 ? NULL : FIXTURE_WRONG, BATCH, 401);
    int64_t seconds = (wait_now_ms() - began) / 1000 + 2;
    for (int i = 0; i < BATCHES; i++)
        send_pipelined(&conn, FIXTURE_AUTH, BATCH, 200);
    http_close(&conn);
    AUTOFREE char *early = server_log(&fixture->server);
    assert_in_range(text_count(early, "\"status\":401"), 1, 100 * seconds);
    assert_true(wait_until(tells_suppressed, fixture, WAIT_DEADLINE_MS));
    AUTOFREE char *log = finish(fixture);
    assert_int_equal(text_count(log, "\"status\":200"), BATCHES * BATCH);
}

/* A channeld whose log is a pipe that nobody reads yet. */
struct piped {
    struct tempdir dir;
    struct fixture *fixture;
    struct http_conn conn;
    int fd;     /* the end of the pipe for reading */
    char *text; /* what was read from it so far */
};

static void piped_start(struct piped *p)
{
    AUTOFREE char *pipe = text_printf("%s/log", p->dir.path);
    AUTOFREE char *script = text_printf("%s/with-pipe", p->dir.path);
    AUTOFREE char *wrapper = text_printf("sh %s", script);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    p->fd = open(pipe, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(p->fd >= 0);
    assert_true(text_write_file(script, text_temp("exec \"$@\" >%s\n", pipe)));
    assert_int_equal(setenv("TEST_WRAPPER", wrapper, 1), 0);
    p->fixture = fixture_new(2, ENV("CHANNELD_ACCESS_LOG=all"));
    assert_int_equal(unsetenv("TEST_WRAPPER"), 0);
}

/* Sends requests over one connection until the queue of their lines is full. */
static void piped_fill_queue(struct piped *p)
{
    p->conn = http_connect(p->fixture->server.port);
    while (server_metric(&p->fixture->server, "channeld_log_lines_dropped_total") == 0)
        send_pipelined(&p->conn, FIXTURE_AUTH, 500, 200);
}

static int piped_begin(void **state)
{
    struct piped *p = calloc(1, sizeof *p);
    assert_non_null(p);
    *state = p;
    if (getenv("TEST_WRAPPER") != NULL)
        return 0; /* the test is skipped */
    p->text = text_printf("%s", "");
    tempdir_init(&p->dir);
    piped_start(p);
    return 0;
}

static int piped_end(void **state)
{
    struct piped *p = *state;
    if (p->fixture != NULL) {
        http_close(&p->conn);
        free(p->text);
        assert_int_equal(close(p->fd), 0);
        fixture_free(p->fixture);
        tempdir_fini(&p->dir);
    }
    free(p);
    return 0;
}

static bool all_connected(void *arg)
{
    struct fixture *fixture = arg;
    return server_metric(&fixture->server, "channeld_redis_connected") == 2;
}

/* The wrapper is in use where the tests run under another program. */
static struct piped *piped_of(void **state)
{
    if (getenv("TEST_WRAPPER") != NULL)
        test_skip("TEST_WRAPPER is in use");
    return *state;
}

/* Reads what there is, and counts the text in all that was read so far. */
static size_t piped_count(struct piped *p, const char *text)
{
    static char chunk[65537];
    ssize_t n = read(p->fd, chunk, sizeof chunk - 1);
    if (n > 0) {
        chunk[n] = '\0';
        p->text = text_append(p->text, chunk);
    }
    return text_count(p->text, text);
}

static bool has_both_losses(void *arg)
{
    return piped_count(arg, "redis connection lost") == 2 && piped_count(arg, "redis connected") == 4;
}

/* The queue of lines is full of requests when Redis is lost and comes back. */
TEST_CASE_WITH(requests_displace_no_warning, piped_begin, piped_end)
{
    struct piped *p = piped_of(state);
    struct fixture *fixture = p->fixture;
    piped_fill_queue(p);
    redis_kill(&fixture->redis);
    server_await_metric_below(&fixture->server, "channeld_redis_connected", 0);
    send_pipelined(&p->conn, FIXTURE_AUTH, 500, 200);
    redis_restart(&fixture->redis);
    catalogue_issue_key(&fixture->redis, FIXTURE_KEY);
    catalogue_put_samples(&fixture->redis, 2);
    assert_true(wait_until(all_connected, fixture, WAIT_DEADLINE_MS));
    assert_true(wait_until(has_both_losses, p, WAIT_DEADLINE_MS));
}

enum { BROKEN = 5000 }; /* channels with an invalid value, whose warnings take more than half of a queue */

static bool has_last_warning(void *arg)
{
    return piped_count(arg, text_temp("\"channel\":%d,", BROKEN)) == 1;
}

/* However many they are, as long as they have room without any request. */
TEST_CASE_WITH(requests_displace_no_flood_of_warnings, piped_begin, piped_end)
{
    static const char script[] = "for i = 1, ARGV[1] do redis.call('HSET', 'channels:card:' .. i, "
                                 "'max_channel_id', i, 'views_24h', 'many') end";
    struct piped *p = piped_of(state);
    struct fixture *fixture = p->fixture;
    redis_do(&fixture->redis, "EVAL %s 0 %d", script, BROKEN);
    piped_fill_queue(p);
    for (int i = 1; i <= BROKEN; i++) {
        AUTOFREE char *target = text_printf("/api/channel/by-id/%d/", i);
        AUTOFREE char *request = http_format("GET", target, FIXTURE_AUTH);
        assert_int_equal(http_send_text(&p->conn, request), 0);
        http_expect(&p->conn, 200);
    }
    assert_true(wait_until(has_last_warning, p, WAIT_DEADLINE_MS));
    assert_int_equal(text_count(p->text, "\"level\":\"warn\""), BROKEN);
}

/* A log file at its limit, as on a full disk. */
TEST_CASE(lines_that_cannot_be_written_are_dropped_and_counted)
{
    if (getenv("TEST_WRAPPER") != NULL)
        test_skip("TEST_WRAPPER is in use");
    assert_int_equal(setenv("TEST_WRAPPER", "prlimit --fsize=4096", 1), 0);
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(2, ENV("CHANNELD_ACCESS_LOG=all"));
    assert_int_equal(unsetenv("TEST_WRAPPER"), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(fixture_status(fixture, "channels/"), 200);
    server_await_metric(&fixture->server, "channeld_log_lines_dropped_total", 50);
}
