/*
 * Reading the settings again that come from files; see reload.h. `newest` could be used; no worker is given
 * anything else.
 *
 * Timer: every RELOAD_MS, one look at the files, and one more worker with a connection gets new settings.
 */
#include "app/reload.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/param.h>
#include <time.h>

enum { RELOAD_MS = 250 };

/* What the files hold: digests of their contents, or of the reasons why they cannot be read. */
struct contents {
    struct digest redis, log;
};

/* clang-format off */
#define RELOAD_METRICS(X) \
    X(redis_config_last_reload_successful, gauge, \
      "1 if the last read of the settings in files succeeded; 0: the old ones are in use.") \
    X(redis_config_last_reload_success_timestamp_seconds, gauge, \
      "When the newest settings of Redis were read: at the last change, or at the start.") \
    X(redis_config_pending, gauge, \
      "Workers that do not use the newest settings of Redis yet.") \
    X(redis_config_reloads_total, counter, \
      "Times that settings were read again from files, by result.", "result", "ok", "error")

struct reload_metrics {
    RELOAD_METRICS(METRIC_MEMBER)
};

#define ROW(name, ...) METRIC_ROW(struct reload_metrics, name, name, __VA_ARGS__)
static const struct metric TABLE[] = {RELOAD_METRICS(ROW)};
/* clang-format on */

struct reload {
    struct worker_shared *shared;
    uv_timer_t timer;
    struct contents found;   /* by the last look */
    struct contents read;    /* when the settings were last read */
    struct digest newest_in; /* those of Redis when the newest were read */
    struct buf names;        /* the settings whose files are watched, for the log */
    int failure;             /* of the last read: a negative errno; 0: it succeeded */
    bool moving;             /* a worker may not use the newest settings */
    struct redis_config *newest;
    struct reload_metrics metrics;
};

/* --- files that may change --- */

/* Adds the content of a file, or the reason why it cannot be read. A pipe or terminal never changes. */
static void reload_add_file(struct digest *digest, const char *path)
{
    enum { PART_MAX = 4096 };
    struct {
        struct digest before;
        ssize_t result; /* bytes, or a negative errno */
        char content[PART_MAX];
    } part;
    if (file_is_stream(path))
        return;
    /* O_NONBLOCK: a pipe may have taken the place of the file */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    do {
        part.before = *digest;
        part.result = fd >= 0 ? read(fd, part.content, sizeof part.content) : -1;
        size_t n = part.result > 0 ? (size_t)part.result : 0;
        if (part.result < 0)
            part.result = -errno;
        digest_sha256((struct span){(char *)&part, offsetof(__typeof__(part), content) + n}, digest);
    } while (part.result > 0);
    if (fd >= 0)
        (void)close(fd);
    explicit_bzero(&part, sizeof part);
}

/* Reads all files. True when one has changed since the last look. The times of stat() would not show a second
 * change within one tick of the file system's clock. */
static bool reload_look(struct reload *r)
{
    const struct usage *all = &config_usage;
    const struct contents last = r->found;
    r->found = (struct contents){0};
    for (const struct setting *s = all->table; s < all->table + all->count; s++) {
        const char *path = config_watched_file(r->shared->config, s);
        if (path != NULL)
            reload_add_file(config_is_of_redis(s) ? &r->found.redis : &r->found.log, path);
    }
    return memcmp(&last, &r->found, sizeof last) != 0;
}

/* --- the settings --- */

/* What was read is used from now on, by workers for their next connections. */
static void reload_use(struct reload *r, struct redis_config *redis, int access_log)
{
    log_set_level(config_log_level(&r->shared->config->values));
    atomic_store(&r->shared->access_log, access_log);
    if (r->newest != NULL && memcmp(&r->read.redis, &r->newest_in, sizeof r->newest_in) == 0) {
        redis_config_unref(redis);
        return;
    }
    r->moving = r->newest != NULL;
    redis_config_unref(r->newest);
    r->newest = redis;
    r->newest_in = r->read.redis;
    metric_set(&r->metrics.redis_config_last_reload_success_timestamp_seconds, (uint64_t)time(NULL));
}

/* A file that changes meanwhile has changed at the next look, and is read again. */
static int reload_read(struct reload *r, struct buf *error)
{
    struct redis_config *redis = NULL;
    int access_log = 0;
    r->read = r->found;
    r->failure = config_read_files(r->shared->config, r->newest == NULL ? 1 : r->newest->number + 1, &redis,
                                   &access_log, error);
    if (r->failure == 0)
        reload_use(r, redis, access_log);
    return r->failure;
}

/* If the old level shows it, or the new one. */
static void reload_log_success(const struct reload *r, enum log_level old)
{
    const struct config_values *v = &r->shared->config->values;
    struct log_line line;
    log_set_level(MAX(old, config_log_level(v)));
    if (log_begin(&line, LOG_INFO, "settings reloaded")) {
        log_str(&line, "read", buf_span(&r->names));
        log_str(&line, "access_log", span_of(v->access_log));
        log_end(&line);
    }
    log_set_level(config_log_level(v));
}

static void reload_load(struct reload *r)
{
    enum log_level old = config_log_level(&r->shared->config->values);
    struct buf error = BUF_INIT;
    int err = reload_read(r, &error);
    metric_add(&r->metrics.redis_config_reloads_total[err != 0], 1);
    if (err == 0)
        reload_log_success(r, old);
    else
        log_text(LOG_ERROR, "settings not reloaded: the old ones stay in use", "reason",
                 error.len > 0 ? buf_message(&error) : "out of memory");
    buf_fini(&error);
}

/* --- the workers --- */

static int reload_count_unmoved(const struct reload *r)
{
    int count = 0;
    for (int i = 0; i < r->shared->worker_count; i++)
        count += worker_status(r->shared->workers[i])->redis_number != r->newest->number;
    return count;
}

/* All without a connection, and the first one with a connection, which it keeps until it has connected with
 * them: its cache is empty at first. */
static void reload_move_workers(struct reload *r)
{
    bool next = true;
    if (!r->moving)
        return;
    for (int i = 0; i < r->shared->worker_count; i++) {
        const struct worker_status *w = worker_status(r->shared->workers[i]);
        bool ready = w->redis_lost_ms == WORKER_REDIS_READY;
        if (w->redis_number == r->newest->number || (ready && !next))
            continue;
        next = next && !ready;
        worker_use_redis(r->shared->workers[i], r->newest);
    }
    r->moving = reload_count_unmoved(r) > 0;
    if (!r->moving)
        log_text(LOG_INFO, "all workers use the reloaded redis settings", NULL, NULL);
}

/* --- events --- */

/* SETTLED: not while the files change. AT_ONCE: they already have the change that may have closed a
 * connection. ALWAYS: even if they have not changed. */
enum reload_when { SETTLED, AT_ONCE, ALWAYS };

/* Without memory the settings are read again. */
static void reload_run(struct reload *r, enum reload_when when)
{
    bool changing = reload_look(r);
    bool changed = memcmp(&r->found, &r->read, sizeof r->found) != 0 || r->failure == -ENOMEM;
    if (when == ALWAYS || (changed && (when == AT_ONCE || !changing)))
        reload_load(r);
    reload_move_workers(r);
}

static void reload_on_timer(uv_timer_t *timer)
{
    reload_run(timer->data, SETTLED);
}

void reload_worker_changed(struct reload *r)
{
    reload_run(r, AT_ONCE);
}

void reload_now(struct reload *r)
{
    log_text(LOG_INFO, "SIGHUP received", "reloaded", r->names.len > 0 ? buf_message(&r->names) : "nothing");
    if (r->names.len > 0)
        reload_run(r, ALWAYS);
}

bool reload_has_failed(const struct reload *r)
{
    return r->failure != 0;
}

void reload_write_metrics(struct reload *r, struct buf *out)
{
    metric_set(&r->metrics.redis_config_last_reload_successful, r->failure == 0);
    metric_set(&r->metrics.redis_config_pending, (uint64_t)reload_count_unmoved(r));
    metrics_write(out, TABLE, sizeof TABLE / sizeof TABLE[0], &r->metrics);
}

/* --- beginning and end --- */

int reload_new(uv_loop_t *loop, struct worker_shared *shared, struct reload **out,
               struct redis_config **newest, struct buf *error)
{
    const struct usage *all = &config_usage;
    struct reload *r = calloc(1, sizeof *r);
    if (r == NULL)
        return -ENOMEM;
    r->shared = shared;
    for (const struct setting *s = all->table; s < all->table + all->count; s++)
        if (config_watched_file(shared->config, s) != NULL)
            buf_printf(&r->names, "%s%s", r->names.len > 0 ? " " : "", s->name);
    (void)reload_look(r);
    int err = buf_error(&r->names);
    if (err == 0)
        err = reload_read(r, error);
    if (err != 0) {
        reload_free(r);
        return err;
    }
    *newest = r->newest;
    (void)uv_timer_init(loop, &r->timer); /* cannot fail; nor can starting it */
    r->timer.data = r;
    if (r->names.len > 0)
        (void)uv_timer_start(&r->timer, reload_on_timer, RELOAD_MS, RELOAD_MS);
    *out = r;
    return 0;
}

void reload_free(struct reload *r)
{
    if (r == NULL)
        return;
    redis_config_unref(r->newest);
    buf_fini(&r->names);
    free(r);
}
