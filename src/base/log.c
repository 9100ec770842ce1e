/*
 * The log: composing lines, two bounded rings under a mutex, and the thread that writes them out; see log.h.
 *
 * A ring holds whole lines: one those of the access log, the other all others, which are written first. The
 * lock is held for one memcpy. The thread copies lines to its chunk and writes them without the lock, so that
 * a blocked descriptor blocks that thread alone. Rings and chunk are static, since a thread that is blocked
 * in write() outlives log_stop().
 */
#include "base/log.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { RING_SIZE = 1 << 20, CHUNK_SIZE = 1 << 16 };

/* The thread collects lines for this long: a wake-up per line would cost more than the line. */
enum { GATHER_NS = 2 * 1000 * 1000 };

enum { STOP_S = 1 }; /* how long log_stop waits for a blocked descriptor */

enum { PLAIN_MAX = 128 }; /* longest value that is written without allocating */

static struct sink {
    pthread_mutex_t lock;
    pthread_cond_t filled; /* the ring has lines, or log_stop was called */
    pthread_t thread;
    atomic_int level; /* -1 without a thread */
    int fd;
    bool running;  /* the thread takes lines */
    bool stopping; /* log_stop was called */
    size_t queued; /* bytes in both rings */
    atomic_uint_least64_t dropped;
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER, .level = -1};

static struct ring {
    size_t head, used; /* place and number of the bytes in it */
    char bytes[RING_SIZE];
} access_ring, ring;

static char chunk[CHUNK_SIZE]; /* the thread's */

/* Returns how many bytes were written: fewer than n after an error. */
static size_t log_write_all(int fd, const char *data, size_t n)
{
    size_t written = 0;
    while (written < n) {
        ssize_t done = write(fd, data + written, n - written);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0 && errno == EAGAIN) { /* another process made the shared descriptor non-blocking */
            (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
            continue;
        }
        if (done <= 0)
            break;
        written += (size_t)done;
    }
    return written;
}

static uint64_t log_count_lines(const char *data, size_t n)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += data[i] == '\n';
    return lines;
}

/*
 * Writes whole lines. Lines that cannot be written (a full disk, a pipe without reader) are counted. *torn:
 * the last write ended within a line, which gets its newline before the next line begins.
 */
static void log_write_lines(const char *data, size_t n, bool *torn)
{
    if (*torn)
        *torn = log_write_all(sink.fd, "\n", 1) == 0;
    size_t written = *torn ? 0 : log_write_all(sink.fd, data, n);
    if (written > 0)
        *torn = data[written - 1] != '\n';
    if (written < n)
        atomic_fetch_add(&sink.dropped, log_count_lines(data + written, n - written));
}

/* Moves whole lines from the start of a ring to the chunk. Called with the lock held. */
static size_t log_fill_chunk(struct ring *r)
{
    size_t n = r->used < CHUNK_SIZE ? r->used : CHUNK_SIZE;
    size_t first = n < RING_SIZE - r->head ? n : RING_SIZE - r->head;
    memcpy(chunk, r->bytes + r->head, first);
    memcpy(chunk + first, r->bytes, n - first);
    while (chunk[n - 1] != '\n') /* a line is shorter than a chunk */
        n--;
    r->head = (r->head + n) % RING_SIZE;
    r->used -= n;
    sink.queued -= n;
    return n;
}

/* Waits for lines, and a little longer for more; false when log_stop was called and none are left. Called
 * with the lock held. */
static bool log_await_lines(void)
{
    if (sink.queued > 0)
        return true;
    while (sink.queued == 0 && !sink.stopping)
        pthread_cond_wait(&sink.filled, &sink.lock);
    if (!sink.stopping) {
        pthread_mutex_unlock(&sink.lock);
        (void)nanosleep(&(struct timespec){.tv_nsec = GATHER_NS}, NULL);
        pthread_mutex_lock(&sink.lock);
    }
    return sink.queued > 0;
}

static void *log_drain(void *arg)
{
    bool torn = false;
    pthread_mutex_lock(&sink.lock);
    while (log_await_lines()) {
        size_t n = log_fill_chunk(ring.used > 0 ? &ring : &access_ring);
        pthread_mutex_unlock(&sink.lock);
        log_write_lines(chunk, n, &torn);
        pthread_mutex_lock(&sink.lock);
    }
    sink.running = false;
    pthread_mutex_unlock(&sink.lock);
    return arg;
}

/* Signals are handled by the main thread; the writer blocks all of them. */
static int log_start_thread(void)
{
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&sink.thread, NULL, log_drain, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -err;
}

int log_start(int fd, enum log_level level)
{
    if (atomic_load(&sink.level) >= 0)
        return -EALREADY;
    pthread_mutex_lock(&sink.lock);
    int err = sink.running ? -EBUSY : 0; /* the last thread is blocked in write() */
    if (err == 0) {
        sink.fd = fd;
        sink.queued = ring.used = access_ring.used = 0;
        sink.stopping = false;
        err = log_start_thread();
        sink.running = err == 0;
    }
    pthread_mutex_unlock(&sink.lock);
    if (err == 0)
        atomic_store(&sink.level, (int)level);
    return err;
}

void log_set_level(enum log_level level)
{
    if (atomic_load(&sink.level) >= 0)
        atomic_store(&sink.level, (int)level);
}

/* A thread that is blocked in write() must not delay the exit. */
void log_stop(void)
{
    struct timespec until;
    if (atomic_exchange(&sink.level, -1) < 0)
        return;
    pthread_mutex_lock(&sink.lock);
    sink.stopping = true;
    pthread_cond_signal(&sink.filled);
    pthread_mutex_unlock(&sink.lock);
    (void)clock_gettime(CLOCK_MONOTONIC, &until); /* the wall clock may jump */
    until.tv_sec += STOP_S;
    if (pthread_clockjoin_np(sink.thread, NULL, CLOCK_MONOTONIC, &until) != 0)
        pthread_detach(sink.thread);
}

uint64_t log_dropped(void)
{
    return atomic_load(&sink.dropped);
}

static void log_enqueue(enum log_level level, const char *line, size_t n)
{
    struct ring *r = level == LOG_ACCESS ? &access_ring : &ring;
    pthread_mutex_lock(&sink.lock);
    if (!sink.running || sink.stopping || r->used + n > RING_SIZE) {
        atomic_fetch_add(&sink.dropped, 1);
        pthread_mutex_unlock(&sink.lock);
        return;
    }
    size_t tail = (r->head + r->used) % RING_SIZE;
    size_t first = n < RING_SIZE - tail ? n : RING_SIZE - tail;
    memcpy(r->bytes + tail, line, first);
    memcpy(r->bytes, line + first, n - first);
    r->used += n;
    sink.queued += n;
    if (sink.queued == n)
        pthread_cond_signal(&sink.filled);
    pthread_mutex_unlock(&sink.lock);
}

/* Appends `name` and a value in JSON, if they fit together with the closing "}\n". */
static void log_add_field(struct log_line *line, const char *name, struct span json)
{
    size_t name_len = strlen(name);
    size_t need = name_len + json.len + 4;
    if (need > sizeof line->text - 2 - line->len)
        return;
    char *p = line->text + line->len;
    *p++ = line->len == 0 ? '{' : ',';
    *p++ = '"';
    memcpy(p, name, name_len);
    p += name_len;
    *p++ = '"';
    *p++ = ':';
    memcpy(p, json.data, json.len);
    line->len += need;
}

enum { STAMP_LEN = UTC_LEN + 5 };

/* "2026-11-21T10:00:00.123Z": RFC 3339, without a NUL. */
static void log_write_stamp(char out[STAMP_LEN])
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    int ms = (int)(ts.tv_nsec / 1000000);
    utc_write(ts.tv_sec, out);
    memcpy(out + UTC_LEN,
           (char[]){'.', (char)('0' + ms / 100), (char)('0' + ms / 10 % 10), (char)('0' + ms % 10), 'Z'}, 5);
}

bool log_begin(struct log_line *line, enum log_level level, const char *message)
{
    static const char *const names[] = {[LOG_ACCESS] = "info",
                                        [LOG_ERROR] = "error",
                                        [LOG_WARN] = "warn",
                                        [LOG_INFO] = "info",
                                        [LOG_DEBUG] = "debug"};
    if ((int)level > atomic_load_explicit(&sink.level, memory_order_relaxed))
        return false;
    line->level = level;
    line->len = 0;
    char stamp[STAMP_LEN];
    log_write_stamp(stamp);
    log_str(line, "ts", (struct span){stamp, sizeof stamp});
    log_str(line, "level", span_of(names[level]));
    log_str(line, "msg", span_of(message));
    return true;
}

void log_str(struct log_line *line, const char *name, struct span value)
{
    char quoted[PLAIN_MAX + 2 + JSON_COPY_ROOM];
    if (value.len <= PLAIN_MAX && json_copy_plain(value, quoted + 1) == value.len) { /* most values */
        quoted[0] = quoted[value.len + 1] = '"';
        log_add_field(line, name, (struct span){quoted, value.len + 2});
        return;
    }
    struct buf json = BUF_INIT;
    json_write_string(&json, value);
    if (buf_error(&json) == 0)
        log_add_field(line, name, buf_span(&json));
    buf_fini(&json);
}

void log_int(struct log_line *line, const char *name, int64_t value)
{
    char digits[INT64_DIGITS_MAX];
    size_t n = format_int64(value, digits);
    log_add_field(line, name, (struct span){digits, n});
}

void log_end(struct log_line *line)
{
    memcpy(line->text + line->len, "}\n", 2);
    log_enqueue(line->level, line->text, line->len + 2);
}

void log_text(enum log_level level, const char *message, const char *name, const char *detail)
{
    struct log_line line;
    if (!log_begin(&line, level, message))
        return;
    if (detail != NULL)
        log_str(&line, name, span_of(detail));
    log_end(&line);
}

bool log_reason_is_due(struct log_reasons *reasons, const char *reason, uint64_t now_ms)
{
    uint64_t hash = hash_bytes(span_of(reason), 0);
    size_t at = 0; /* the slot of the reason, or of the oldest */
    for (size_t i = 0; i < LOG_REASONS_MAX; i++) {
        bool known = reasons->recent[i].logged_ms != 0 && reasons->recent[i].hash == hash;
        if (known && now_ms - reasons->recent[i].logged_ms < LOG_REPEAT_MS)
            return false;
        if (known || reasons->recent[i].logged_ms < reasons->recent[at].logged_ms)
            at = i;
        if (known)
            break;
    }
    reasons->recent[at].hash = hash;
    reasons->recent[at].logged_ms = now_ms;
    return true;
}
