/* The log: each line is one JSON object, and a reader who does not read costs lines, never time. */
#include "base/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <yyjson.h>

#include "base/clock.h"
#include "support/wait.h"
#include "unit/check.h"

/* The pipe that is logged to, and all that has come through it. */
static struct {
    int read, write;
    struct buf out;
    pthread_t reader;
    bool reading;
} p;

static yyjson_doc *line; /* the last one taken */

static int begin(void **state)
{
    int fds[2];
    (void)state;
    memset(&p, 0, sizeof p);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    p.read = fds[0];
    p.write = fds[1];
    return 0;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int end(void **state)
{
    (void)state;
    log_stop();
    close_end(&p.write);
    close_end(&p.read);
    buf_fini(&p.out);
    yyjson_doc_free(line);
    line = NULL;
    return 0;
}

#define LOG_TEST(name) TEST_CASE_WITH(name, begin, end)

static void start(enum log_level level)
{
    assert_int_equal(log_start(p.write, level), 0);
}

/* Reads until the other end is closed. */
static void *read_all(void *arg)
{
    char chunk[65536];
    ssize_t n = 0;
    while ((n = read(p.read, chunk, sizeof chunk)) > 0)
        buf_append(&p.out, chunk, (size_t)n);
    return arg;
}

static void *read_late(void *arg)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    return read_all(arg);
}

/* Reads in a thread, after a while. */
static void start_reading(void)
{
    assert_int_equal(pthread_create(&p.reader, NULL, read_late, NULL), 0);
    p.reading = true;
}

/* Stops the log and returns all it wrote. */
static struct span collect(void)
{
    log_stop();
    close_end(&p.write);
    if (p.reading)
        pthread_join(p.reader, NULL);
    else
        (void)read_all(NULL);
    close_end(&p.read);
    assert_int_equal(buf_error(&p.out), 0);
    return buf_span(&p.out);
}

/* Takes one line off the front of `text`; it must be a JSON object with the three members that all have. It
 * is the line that text_of and int_of read. */
static void take_line(struct span *text)
{
    yyjson_doc_free(line);
    size_t n = span_find(*text, '\n');
    assert_true(n < text->len);
    assert_true(n < LOG_LINE_MAX);
    line = yyjson_read(text->data, n, YYJSON_READ_NOFLAG);
    if (line == NULL)
        fail_msg("not JSON: %.*s", (int)n, text->data);
    yyjson_val *root = yyjson_doc_get_root(line);
    assert_int_equal(yyjson_get_len(yyjson_obj_get(root, "ts")), strlen("2026-11-21T10:00:00.123Z"));
    assert_true(yyjson_is_str(yyjson_obj_get(root, "level")));
    assert_true(yyjson_is_str(yyjson_obj_get(root, "msg")));
    *text = span_skip(*text, n + 1);
}

static const char *text_of(const char *name)
{
    return yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(line), name));
}

static int64_t int_of(const char *name)
{
    return yyjson_get_sint(yyjson_obj_get(yyjson_doc_get_root(line), name));
}

/* Not time(), which may lag behind by a tick of the kernel. */
static time_t present_second(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    return now.tv_sec;
}

LOG_TEST(time_stamp_is_rfc_3339_of_the_current_second)
{
    start(LOG_INFO);
    time_t before = present_second();
    log_text(LOG_INFO, "now", NULL, NULL);
    time_t after = present_second();
    struct span text = collect();
    take_line(&text);
    const char *stamp = text_of("ts");
    struct tm tm = {0};
    const char *rest = strptime(stamp, "%Y-%m-%dT%H:%M:%S", &tm);
    assert_non_null(rest);
    time_t told = timegm(&tm);
    assert_true(told >= before && told <= after);
    assert_int_equal(rest[0], '.');
    assert_int_equal(strspn(rest + 1, "0123456789"), 3);
    assert_string_equal(rest + 4, "Z");
}

LOG_TEST(lines_are_json_objects_in_order)
{
    struct log_line l;
    start(LOG_INFO);
    assert_true(log_begin(&l, LOG_INFO, "redis connected"));
    log_int(&l, "worker", -1);
    log_str(&l, "target", SPAN("host\"\n\xFF"));
    log_end(&l);
    log_text(LOG_ERROR, "second", "why", "timeout");
    log_text(LOG_WARN, "third", "why", NULL);
    struct span rest = collect();
    take_line(&rest);
    assert_int_equal(yyjson_obj_size(yyjson_doc_get_root(line)), 5);
    assert_string_equal(text_of("level"), "info");
    assert_string_equal(text_of("msg"), "redis connected");
    assert_string_equal(text_of("target"), "host\"\n\xEF\xBF\xBD");
    assert_int_equal(int_of("worker"), -1);
    take_line(&rest);
    assert_string_equal(text_of("level"), "error");
    assert_string_equal(text_of("why"), "timeout");
    take_line(&rest);
    assert_string_equal(text_of("level"), "warn");
    assert_int_equal(yyjson_obj_size(yyjson_doc_get_root(line)), 3);
    assert_int_equal(rest.len, 0);
}

LOG_TEST(fields_that_do_not_fit_are_left_out)
{
    static char big[LOG_LINE_MAX * 2];
    memset(big, 'x', sizeof big);
    for (size_t n = LOG_LINE_MAX - 150; n < LOG_LINE_MAX + 10; n++) {
        struct log_line l;
        (void)end(NULL);
        (void)begin(NULL);
        start(LOG_INFO);
        assert_true(log_begin(&l, LOG_INFO, "long"));
        log_str(&l, "big", (struct span){big, n});
        log_int(&l, "after", 7);
        log_str(&l, "huge", (struct span){big, sizeof big});
        log_end(&l);
        struct span rest = collect();
        assert_true(rest.len <= LOG_LINE_MAX);
        take_line(&rest);
        const char *written = text_of("big");
        assert_true(written == NULL || strlen(written) == n);
        assert_true(written != NULL || n > LOG_LINE_MAX - 120);
        assert_true(written == NULL || n < LOG_LINE_MAX);
        assert_null(text_of("huge"));
    }
}

/* Writes lines of about 1 KB until `count` are through; returns the milliseconds of the slowest. */
static uint64_t flood_with(enum log_level level, int count)
{
    static char filler[1000];
    uint64_t slowest = 0;
    memset(filler, 'f', sizeof filler);
    for (int i = 0; i < count; i++) {
        struct log_line l;
        uint64_t start = clock_now_ms();
        assert_true(log_begin(&l, level, "flood"));
        log_int(&l, "n", i);
        log_str(&l, "filler", (struct span){filler, sizeof filler});
        log_end(&l);
        uint64_t took = clock_now_ms() - start;
        slowest = took > slowest ? took : slowest;
    }
    return slowest;
}

static uint64_t flood(int count)
{
    return flood_with(LOG_INFO, count);
}

/* Whichever of them come first. */
LOG_TEST(access_log_displaces_no_other_line)
{
    enum { LINES = 5000, WARNINGS = 500 };
    uint64_t before = log_dropped();
    start(LOG_INFO);
    for (int i = 0; i < WARNINGS; i++) {
        (void)flood_with(LOG_ACCESS, LINES / WARNINGS);
        log_text(LOG_WARN, "redis connection lost", NULL, NULL);
    }
    assert_true(log_dropped() > before);
    start_reading();
    struct span rest = collect();
    int warnings = 0;
    while (rest.len > 0) {
        take_line(&rest);
        warnings += strcmp(text_of("level"), "warn") == 0;
    }
    assert_int_equal(warnings, WARNINGS);
}

LOG_TEST(slow_reader_gets_whole_lines_and_drops_are_counted)
{
    enum { LINES = 5000 }; /* several times what pipe and queue hold */
    uint64_t before = log_dropped();
    start(LOG_INFO);
    assert_true(flood(LINES) < WAIT_DEADLINE_MS);
    uint64_t dropped = log_dropped() - before;
    assert_true(dropped > 0);
    assert_true(dropped < LINES);
    start_reading();
    struct span rest = collect();
    int64_t last = -1;
    uint64_t lines = 0;
    for (; rest.len > 0; lines++) {
        take_line(&rest);
        int64_t n = int_of("n");
        assert_true(n > last);
        last = n;
    }
    assert_int_equal(lines + dropped, LINES);
}

static uint64_t lost_of(int fd, int lines)
{
    uint64_t before = log_dropped();
    assert_int_equal(log_start(fd, LOG_INFO), 0);
    for (int i = 0; i < lines; i++)
        log_text(LOG_INFO, "one of many", NULL, NULL);
    log_stop();
    return log_dropped() - before;
}

LOG_TEST(unwritable_lines_are_counted)
{
    enum { LINES = 2000 }; /* several chunks */
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0);
    assert_ptr_not_equal(signal(SIGPIPE, SIG_IGN), SIG_ERR);
    close_end(&p.read);
    assert_int_equal(lost_of(full, LINES), LINES);
    assert_int_equal(lost_of(p.write, LINES), LINES);
    close(full);
}

static void limit_file_size(rlim_t size)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = size;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static bool has_lost(void *count)
{
    return log_dropped() == *(uint64_t *)count;
}

static bool await_lost(uint64_t count)
{
    return wait_until(has_lost, &count, WAIT_DEADLINE_MS);
}

/* What is written ends within a line; the first line after the disk has room again begins on a line of its
 * own. */
LOG_TEST(half_written_line_does_not_break_the_next)
{
    enum { ROOM = 20 };
    char name[] = "/tmp/channeld-log-XXXXXX";
    char text[1024];
    int fd = mkstemp(name);
    uint64_t before = log_dropped();
    assert_true(fd >= 0);
    unlink(name);
    assert_ptr_not_equal(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
    limit_file_size(ROOM);
    assert_int_equal(log_start(fd, LOG_INFO), 0);
    log_text(LOG_INFO, "cut short", NULL, NULL);
    assert_true(await_lost(before + 1));
    log_text(LOG_INFO, "not begun", NULL, NULL);
    assert_true(await_lost(before + 2));
    limit_file_size(RLIM_INFINITY);
    log_text(LOG_INFO, "whole", NULL, NULL);
    log_stop();
    assert_int_equal(log_dropped(), before + 2);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    close(fd);
    assert_true(n > ROOM);
    assert_int_equal(text[ROOM], '\n');
    struct span rest = {text + ROOM + 1, (size_t)n - ROOM - 1};
    take_line(&rest);
    assert_string_equal(text_of("msg"), "whole");
    assert_int_equal(rest.len, 0);
}

static void *log_many(void *arg)
{
    const int *worker = arg;
    for (int i = 0; i < 500; i++) {
        struct log_line l;
        if (!log_begin(&l, LOG_INFO, "concurrent"))
            continue;
        log_int(&l, "worker", *worker);
        log_end(&l);
    }
    return NULL;
}

LOG_TEST(lines_of_several_threads_do_not_mix)
{
    enum { THREADS = 4 };
    int numbers[THREADS];
    pthread_t threads[THREADS];
    start(LOG_INFO);
    start_reading();
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    struct span rest = collect();
    int seen[THREADS] = {0};
    while (rest.len > 0) {
        take_line(&rest);
        seen[int_of("worker")]++;
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(seen[i], 500);
}

LOG_TEST(non_blocking_descriptor_loses_no_lines)
{
    assert_int_equal(fcntl(p.write, F_SETFL, O_NONBLOCK), 0);
    uint64_t before = log_dropped();
    start(LOG_INFO);
    flood(300); /* more than the pipe, less than the queue */
    start_reading();
    struct span rest = collect();
    assert_int_equal(log_dropped(), before);
    int lines = 0;
    for (; rest.len > 0; lines++)
        take_line(&rest);
    assert_int_equal(lines, 300);
}

/* The last test that starts the log: the thread still hangs in its write. */
LOG_TEST(stop_waits_a_second_for_a_blocked_pipe)
{
    uint64_t before = log_dropped();
    start(LOG_INFO);
    assert_true(flood(3000) < WAIT_DEADLINE_MS);
    assert_true(log_dropped() > before);
    uint64_t start = clock_now_ms();
    log_stop();
    uint64_t took = clock_now_ms() - start;
    assert_in_range(took, 900, WAIT_DEADLINE_MS);
    struct log_line l;
    assert_false(log_begin(&l, LOG_ERROR, "after"));
    log_stop();   /* a second time does nothing */
    p.write = -1; /* the thread writes to it */
}

LOG_TEST(reason_is_due_when_new_and_once_per_minute)
{
    struct log_reasons reasons = {0};
    uint64_t now = 5000;
    assert_true(log_reason_is_due(&reasons, "Connection refused", now));
    for (int i = 1; i < 60; i++)
        assert_false(log_reason_is_due(&reasons, "Connection refused", now + (uint64_t)i * 1000));
    assert_true(log_reason_is_due(&reasons, "WRONGPASS", now + 30000));
    assert_true(log_reason_is_due(&reasons, "Connection refused", now + LOG_REPEAT_MS));
    assert_false(log_reason_is_due(&reasons, "Connection refused", now + LOG_REPEAT_MS + 1));
    assert_false(log_reason_is_due(&reasons, "WRONGPASS", now + LOG_REPEAT_MS + 1));
    assert_true(log_reason_is_due(&reasons, "", now));
    assert_false(log_reason_is_due(&reasons, "", now));
}

/* As where the addresses of a name fail each in its own way. */
LOG_TEST(alternating_reasons_are_due_once_each)
{
    static const char *const texts[LOG_REASONS_MAX] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    struct log_reasons reasons = {0};
    for (size_t round = 0; round < 10; round++)
        for (size_t i = 0; i < LOG_REASONS_MAX; i++)
            assert_int_equal(log_reason_is_due(&reasons, texts[i], 1 + round * 100 + i), round == 0);
    assert_true(log_reason_is_due(&reasons, "one too many", 2000)); /* in the oldest's place */
    assert_true(log_reason_is_due(&reasons, "a", 2001));
    assert_false(log_reason_is_due(&reasons, "h", 2002));
}
