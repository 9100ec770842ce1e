/*
 * Reading the settings of Redis and of the log again; see reload.h.
 *
 * `newest` was read from one state of the files, and could be used; no worker is given anything else. The
 * reload, each worker that was offered settings, and each connection that uses them hold a reference to them.
 *
 * Timer: every RELOAD_MS, one look at the files, and one more worker with a connection gets new settings.
 */
#include "app/reload.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/param.h>
#include <time.h>

enum {
    RELOAD_MS = 250,
    READS_MAX = 3, /* times that files are read, where they change meanwhile */
    FILES_MAX = 8
};

/* What the files hold. */
struct contents {
    struct {
        int error;            /* an errno: why it could not be read */
        struct digest digest; /* zero where it could not */
    } of[FILES_MAX];
};

/* clang-format off */
#define RELOAD_METRICS(X) \
    X(redis_config_last_reload_successful, gauge, \
      "1 if the last read of the Redis settings succeeded; 0: the old ones are in use.") \
    X(redis_config_last_reload_success_timestamp_seconds, gauge, \
      "When the newest settings of Redis were read: at the last change, or at the start.") \
    X(redis_config_pending, gauge, \
      "Workers that do not use the newest settings of Redis yet.")
#define RELOAD_LABELLED_METRICS(X) \
    X(redis_config_reloads_total, counter, \
      "Times that the settings of Redis were read again from files, by result.", "result", "ok", "error")

struct reload_metrics {
    RELOAD_METRICS(METRIC_MEMBER)
    RELOAD_LABELLED_METRICS(METRIC_ARRAY)
};

#define ROW(name, kind, help)           METRIC_ROW(struct reload_metrics, name, name, kind, help, METRIC_NO_LABEL)
#define LABELLED(name, kind, help, ...) METRIC_ROW(struct reload_metrics, name, name, kind, help, METRIC_LABEL(__VA_ARGS__))
static const struct metric TABLE[] = {RELOAD_METRICS(ROW) RELOAD_LABELLED_METRICS(LABELLED)};
/* clang-format on */

struct reload {
    struct worker_shared *shared;
    struct worker *const *workers;
    int worker_count;
    uv_timer_t timer;
    int file_count;              /* files of the settings of Redis */
    const char *path[FILES_MAX]; /* borrowed from the configuration */
    struct contents found;       /* by the last look */
    struct contents read;        /* when the settings were last read */
    struct contents newest_in;   /* when the newest settings were read */
    struct buf names;            /* the settings whose files are watched, for the log */
    struct buf all_names;        /* and those of the log whose files are read */
    struct config_values log;    /* the settings of the log in use, and no others */
    struct config_values redis;  /* those of Redis as last read, and no others */
    struct log_reasons log_failures;
    int failure; /* of the last read: a negative errno; 0: it succeeded */
    bool moving; /* a worker may not use the newest settings */
    struct redis_config *newest;
    struct reload_metrics metrics;
};

/* --- files that may change --- */

enum { CONTENT_MAX = 4 * 1024 * 1024 }; /* more is an error: every CA bundle is smaller */

/* Returns 0 or an errno. A pipe, socket or terminal never changes. */
static int reload_digest_of(const char *path, struct digest *out)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return errno;
    if (file_mode_is_stream(status.st_mode))
        return 0;
    if (status.st_size > CONTENT_MAX)
        return EFBIG;
    size_t room = (size_t)status.st_size + 1; /* one more shows that it has grown: the next look differs */
    char *content = malloc(room);
    if (content == NULL)
        return ENOMEM;
    /* O_NONBLOCK: a pipe may have taken the place of the file */
    ssize_t n = file_read(path, O_NONBLOCK | O_NOCTTY, content, room);
    if (n >= 0)
        digest_sha256((struct span){content, (size_t)n}, out);
    explicit_bzero(content, room);
    free(content);
    return n >= 0 ? 0 : (int)-n;
}

/*
 * Reads all files, through all symbolic links. True when the content of one, or the reason why it cannot be
 * read, is not what the last look found. A file that was touched, or replaced by an equal one, has not
 * changed; the times of stat() would not show a second change within one tick of the file system's clock.
 */
static bool reload_look(struct reload *r)
{
    const struct contents last = r->found;
    r->found = (struct contents){0};
    for (int i = 0; i < r->file_count; i++)
        r->found.of[i].error = reload_digest_of(r->path[i], &r->found.of[i].digest);
    return memcmp(&last, &r->found, sizeof last) != 0;
}

/* --- the settings of Redis --- */

/* Why values could not be read; borrowed until the next change of `error`. */
static const char *reload_reason(struct buf *error)
{
    return error->len > 0 ? buf_message(error) : "out of memory";
}

/*
 * Certificate and key, or password and URL, must be of one state of the files, without a change in between. A
 * change that the last look has found is still to be read.
 */
static int reload_read(struct reload *r, struct redis_config **out, struct buf *error)
{
    uint64_t number = r->newest == NULL ? 1 : r->newest->number + 1;
    bool changes = true;
    for (int i = 0; i < READS_MAX && changes; i++) {
        redis_config_unref(*out);
        *out = NULL;
        buf_clear(error);
        r->read = r->found;
        r->failure = config_read_redis(r->shared->config, &r->redis, number, out, error);
        changes = reload_look(r);
    }
    return r->failure;
}

static void reload_own(struct reload *r, struct redis_config *config)
{
    redis_config_unref(r->newest);
    r->newest = config;
    r->newest_in = r->read;
    metric_set(&r->metrics.redis_config_last_reload_success_timestamp_seconds, (uint64_t)time(NULL));
}

static void reload_load(struct reload *r)
{
    struct redis_config *config = NULL;
    struct buf error = BUF_INIT;
    int err = reload_read(r, &config, &error);
    bool changed = err == 0 && memcmp(&r->read, &r->newest_in, sizeof r->read) != 0;
    metric_add(&r->metrics.redis_config_reloads_total[err != 0], 1);
    if (err != 0)
        log_text(LOG_ERROR, "redis settings not reloaded: the old ones stay in use", "reason",
                 reload_reason(&error));
    else
        log_text(LOG_INFO, changed ? "redis settings reloaded" : "redis settings reloaded: no change", "read",
                 buf_message(&r->names));
    r->moving = r->moving || changed;
    if (changed)
        reload_own(r, config);
    else
        redis_config_unref(config);
    buf_fini(&error);
}

/* Also again where memory ran out. */
static void reload_load_changed(struct reload *r)
{
    if (memcmp(&r->found, &r->read, sizeof r->found) != 0 || r->failure == -ENOMEM)
        reload_load(r);
}

/* --- the settings of the log --- */

static void reload_report_change(const struct setting *s, const struct config_values *old,
                                 const struct config_values *now)
{
    struct buf from = BUF_INIT;
    struct buf to = BUF_INIT;
    struct log_line line;
    settings_write_value(&from, s, old);
    settings_write_value(&to, s, now);
    if (!span_equal(buf_span(&from), buf_span(&to)) && log_begin(&line, LOG_INFO, "setting changed")) {
        log_str(&line, "setting", span_of(s->name));
        log_str(&line, "from", buf_span(&from));
        log_str(&line, "to", buf_span(&to));
        log_end(&line);
    }
    buf_fini(&from);
    buf_fini(&to);
}

/* What changes is logged if either of the two levels shows it. */
static void reload_use_log(struct reload *r, struct config_values *now, int access_log)
{
    const struct settings *all = config_usage.settings;
    struct config_values old = r->log;
    log_set_level(MAX(config_log_level(&old), config_log_level(now)));
    for (const struct setting *s = all->table; s < all->table + all->count; s++)
        if (settings_is_in(CONFIG_LOG, s))
            reload_report_change(s, &old, now);
    log_set_level(config_log_level(now));
    atomic_store(&r->shared->access_log, access_log);
    r->log_failures = (struct log_reasons){0};
    r->log = *now;
    *now = old;
}

/* A failure that lasts is logged once a minute, and at each SIGHUP. */
static void reload_read_log(struct reload *r, bool hangup)
{
    struct config_values now = {0};
    struct buf error = BUF_INIT;
    int access_log = 0;
    if (config_read_log(r->shared->config, &r->log, &now, &access_log, &error) == 0)
        reload_use_log(r, &now, access_log);
    else if (log_reason_is_due(&r->log_failures, reload_reason(&error), clock_now_ms()) || hangup)
        log_text(LOG_ERROR, "log settings not reloaded: the old ones stay in use", "reason",
                 reload_reason(&error));
    config_fini_values(&now);
    buf_fini(&error);
}

/* --- the workers --- */

static int reload_count_unmoved(const struct reload *r)
{
    int count = 0;
    for (int i = 0; i < r->worker_count; i++)
        count += worker_status(r->workers[i])->redis_number != r->newest->number;
    return count;
}

static bool reload_one_is_lost(const struct reload *r)
{
    for (int i = 0; i < r->worker_count; i++)
        if (worker_status(r->workers[i])->redis != WORKER_REDIS_READY)
            return true;
    return false;
}

/* Moves the workers without a connection, and the first one with a connection: the pause before the next,
 * since caches are empty at first, is that of the timer. */
static void reload_move_workers(struct reload *r)
{
    bool next = true;
    if (!r->moving)
        return;
    for (int i = 0; i < r->worker_count; i++) {
        const struct worker_status *w = worker_status(r->workers[i]);
        bool ready = w->redis == WORKER_REDIS_READY;
        if (w->redis_number == r->newest->number || (ready && !next))
            continue;
        next = next && !ready;
        worker_use_redis(r->workers[i], r->newest);
    }
    r->moving = reload_count_unmoved(r) > 0;
    if (!r->moving)
        log_text(LOG_INFO, "all workers use the reloaded redis settings", NULL, NULL);
}

/* --- events --- */

static void reload_on_timer(uv_timer_t *timer)
{
    struct reload *r = timer->data;
    reload_read_log(r, false);
    if (!reload_look(r))
        reload_load_changed(r);
    reload_move_workers(r);
}

/* The files already have the change that may have closed the connection, so there is no wait for them. */
void reload_worker_changed(struct reload *r)
{
    if (!reload_one_is_lost(r))
        return;
    (void)reload_look(r);
    reload_load_changed(r);
    reload_move_workers(r);
}

void reload_now(struct reload *r)
{
    log_text(LOG_INFO, "SIGHUP received", "reloaded",
             r->all_names.len > 0 ? buf_message(&r->all_names) : "nothing");
    reload_read_log(r, true);
    if (r->file_count == 0)
        return;
    (void)reload_look(r);
    reload_load(r);
    reload_move_workers(r);
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

static void reload_add_name(struct buf *names, const char *name)
{
    buf_printf(names, "%s%s", names->len > 0 ? " " : "", name);
}

static void reload_watch_files(struct reload *r)
{
    const struct settings *all = config_usage.settings;
    for (const struct setting *s = all->table; s < all->table + all->count; s++) {
        const char *path = config_watched_file(r->shared->config, s);
        if (path == NULL)
            continue;
        reload_add_name(&r->all_names, s->name);
        if (!settings_is_in(CONFIG_REDIS, s))
            continue;
        reload_add_name(&r->names, s->name);
        assert(r->file_count < FILES_MAX);
        r->path[r->file_count++] = path;
    }
    (void)reload_look(r);
}

int reload_new(uv_loop_t *loop, struct worker_shared *shared, struct worker *const *workers, int count,
               struct reload **out, struct redis_config **newest, struct buf *error)
{
    const struct config *config = shared->config;
    int access_log = 0;
    struct reload *r = calloc(1, sizeof *r);
    if (r == NULL)
        return -ENOMEM;
    r->shared = shared;
    r->workers = workers;
    r->worker_count = count;
    reload_watch_files(r);
    int err = buf_error(&r->all_names);
    if (err == 0)
        err = config_read_log(config, &config->values, &r->log, &access_log, error);
    if (err == 0)
        err = reload_read(r, newest, error);
    if (err != 0) {
        reload_free(r);
        return err;
    }
    reload_own(r, *newest);
    log_set_level(config_log_level(&r->log));
    atomic_store(&shared->access_log, access_log);
    (void)uv_timer_init(loop, &r->timer); /* cannot fail; nor can starting it */
    r->timer.data = r;
    if (r->all_names.len > 0)
        (void)uv_timer_start(&r->timer, reload_on_timer, RELOAD_MS, RELOAD_MS);
    *out = r;
    return 0;
}

void reload_close(struct reload *r)
{
    uv_close((uv_handle_t *)&r->timer, NULL);
}

void reload_free(struct reload *r)
{
    if (r == NULL)
        return;
    redis_config_unref(r->newest);
    config_fini_values(&r->log);
    config_fini_values(&r->redis);
    buf_fini(&r->names);
    buf_fini(&r->all_names);
    free(r);
}
