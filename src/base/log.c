/*
 * Composing lines, and the thread that writes them out; see log.h. One batch is filled, under a mutex. The
 * thread swaps it for the other one, which it writes without the lock. Batches are static, since a thread
 * that is blocked in write() outlives log_stop().
 */
#include "base/log.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Lines of the access log fill a batch up to ACCESS_SIZE. */
enum { ACCESS_SIZE = 1 << 19, BATCH_SIZE = 3 * ACCESS_SIZE };

/* The thread pauses for this long after each batch: a wake-up per line would cost more than the line. */
enum { GATHER_NS = 2 * 1000 * 1000 };

enum { STOP_MS = 1000 }; /* a blocked descriptor must not delay the exit for longer */

static struct batch {
    size_t used;
    char bytes[1 + BATCH_SIZE]; /* the lines, behind a newline for one that was not written whole */
} batches[2];

static struct sink {
    pthread_mutex_t lock;
    pthread_cond_t filled; /* there is a line, or log_stop was called */
    pthread_t thread;
    atomic_int level; /* -1 without a thread */
    int fd;
    bool stopping; /* log_stop was called */
    struct batch *filling;
    atomic_uint_least64_t dropped;
} sink = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER, .level = -1, .filling = batches};

/* Lines that cannot be written (a full disk, a pipe without reader) are counted. *torn: the last write ended
 * within a line, which gets its newline before the next line begins. */
static void log_write_batch(struct batch *b, bool *torn)
{
    const char *at = b->bytes + (*torn ? 0 : 1);
    const char *const end = b->bytes + 1 + b->used;
    uint64_t lost = 0;
    b->bytes[0] = '\n';
    while (at < end) {
        ssize_t done = write(sink.fd, at, (size_t)(end - at));
        if (done < 0 && errno == EAGAIN) { /* another process made the shared descriptor non-blocking */
            (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
            continue;
        }
        if (done <= 0)
            break;
        at += done;
        *torn = at[-1] != '\n';
    }
    for (; at < end; at++)
        lost += *at == '\n' && at > b->bytes;
    atomic_fetch_add(&sink.dropped, lost);
}

/* Ends when log_stop was called and no lines are left. Signals are for the main thread. */
static void *log_drain(void *arg)
{
    sigset_t all;
    bool torn = false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    for (size_t n = 1; n > 0;) {
        (void)nanosleep(&(struct timespec){.tv_nsec = GATHER_NS}, NULL);
        pthread_mutex_lock(&sink.lock);
        while (sink.filling->used == 0 && !sink.stopping)
            pthread_cond_wait(&sink.filled, &sink.lock);
        struct batch *b = sink.filling;
        sink.filling = b == batches ? &batches[1] : batches;
        pthread_mutex_unlock(&sink.lock);
        n = b->used;
        log_write_batch(b, &torn);
        b->used = 0;
    }
    return arg;
}

int log_start(int fd, enum log_level level)
{
    assert(atomic_load(&sink.level) < 0);
    sink.fd = fd;
    sink.stopping = false;
    int err = pthread_create(&sink.thread, NULL, log_drain, NULL);
    if (err == 0)
        atomic_store(&sink.level, (int)level);
    return -err;
}

void log_set_level(enum log_level level)
{
    if (atomic_load(&sink.level) >= 0)
        atomic_store(&sink.level, (int)level);
}

void log_stop(void)
{
    int left = STOP_MS;
    if (atomic_exchange(&sink.level, -1) < 0)
        return;
    pthread_mutex_lock(&sink.lock);
    sink.stopping = true;
    pthread_cond_signal(&sink.filled);
    pthread_mutex_unlock(&sink.lock);
    while (pthread_tryjoin_np(sink.thread, NULL) != 0 && left-- > 0)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (left < 0)
        pthread_detach(sink.thread);
}

uint64_t log_dropped(void)
{
    return atomic_load(&sink.dropped);
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

bool log_begin(struct log_line *line, enum log_level level, const char *message)
{
    static const char *const names[] = {[LOG_ACCESS] = "info",
                                        [LOG_ERROR] = "error",
                                        [LOG_WARN] = "warn",
                                        [LOG_INFO] = "info",
                                        [LOG_DEBUG] = "debug"};
    if ((int)level > atomic_load_explicit(&sink.level, memory_order_relaxed))
        return false;
    struct timespec now;
    char stamp[UTC_LEN + sizeof ".123Z"];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    utc_write(now.tv_sec, stamp);
    (void)snprintf(stamp + UTC_LEN, sizeof ".123Z", ".%03dZ", (int)(now.tv_nsec / 1000000));
    line->level = level;
    line->len = 0;
    log_str(line, "ts", span_of(stamp));
    log_str(line, "level", span_of(names[level]));
    log_str(line, "msg", span_of(message));
    return true;
}

/* There is room for each byte as an escape: nothing is allocated. */
void log_str(struct log_line *line, const char *name, struct span value)
{
    char room[6 * LOG_LINE_MAX + 64];
    struct buf json = {.data = room, .cap = sizeof room};
    if (value.len > LOG_LINE_MAX)
        return;
    json_write_string(&json, value);
    assert(json.data == room);
    log_add_field(line, name, buf_span(&json));
}

void log_int(struct log_line *line, const char *name, int64_t value)
{
    char digits[INT64_DIGITS_MAX];
    size_t n = format_int64(value, digits);
    log_add_field(line, name, (struct span){digits, n});
}

void log_end(struct log_line *line)
{
    size_t room = line->level == LOG_ACCESS ? ACCESS_SIZE : BATCH_SIZE;
    memcpy(line->text + line->len, "}\n", 2);
    size_t n = line->len + 2;
    pthread_mutex_lock(&sink.lock);
    struct batch *b = sink.filling;
    bool fits = !sink.stopping && b->used + n <= room;
    if (fits) {
        memcpy(b->bytes + 1 + b->used, line->text, n);
        b->used += n;
        pthread_cond_signal(&sink.filled);
    }
    pthread_mutex_unlock(&sink.lock);
    if (!fits)
        atomic_fetch_add(&sink.dropped, 1);
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
    const uint64_t hash = hash_bytes(span_of(reason), 0);
    struct log_reason *oldest = reasons->recent;
    for (struct log_reason *r = oldest; r < reasons->recent + LOG_REASONS_MAX; r++) {
        if (r->hash == hash && now_ms - r->logged_ms < LOG_REPEAT_MS)
            return false;
        if (r->logged_ms < oldest->logged_ms)
            oldest = r;
    }
    *oldest = (struct log_reason){hash, now_ms};
    return true;
}
