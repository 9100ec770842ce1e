/*
 * Reading the settings of Redis and of the log again; see reload.h.
 *
 * `newest` was read from one state of the files, and could be used; no worker is given anything else. The
 * reload, each worker that was offered settings, and each connection that uses them hold a reference to them.
 *
 * Timer: one look at the files after look_ms, after a quarter of it while a worker has no connection or old
 * settings, after a tenth while the files change.
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
    LOOK_SOON = 4,   /* looks in the time of one while a worker has no connection or old settings */
    SETTLE = 10,     /* looks while files change: after one without a change the files are complete */
    SETTLE_MAX = 20, /* looks in a row that find a change: then the files are read in any case */
    READS_MAX = 3    /* times that files are read, where they change meanwhile */
};

enum { FILES_MAX = 8 };

/* What a look has found in a file. */
struct file_state {
    int error;             /* an errno: why it could not be read */
    struct digest content; /* zero where it could not */
};

struct reload {
    struct reload_options options;
    uv_timer_t timer;
    int file_count;                         /* files of the settings of Redis */
    const char *path[FILES_MAX];            /* borrowed from the configuration */
    struct file_state found[FILES_MAX];     /* by the last look */
    struct file_state newest_in[FILES_MAX]; /* from which the newest settings were read */
    struct buf names;                       /* the settings whose files are watched, for the log */
    struct buf all_names;                   /* and those of the log whose files are read */
    struct config_values log;               /* the settings of the log in use, and no others */
    struct config_values redis;             /* those of Redis as last read, and no others */
    struct log_reasons log_failures;
    int changes; /* looks in a row that found one; 0: all is read */
    bool moving; /* a worker may not use the newest settings */
    struct redis_config *newest;
    uint64_t reloads, failures;
    bool last_failed;
    struct buf reason; /* why the last read failed */
    time_t taken;      /* when the newest were read */
};

/* --- files that may change --- */

enum { CONTENT_MAX = 4 * 1024 * 1024 }; /* more is an error: every CA bundle is smaller */

/* Returns 0 or an errno. */
static int reload_digest_of(const char *path, size_t size, struct digest *out)
{
    if (size > CONTENT_MAX)
        return EFBIG;
    size_t room = size + 1; /* one more shows that it has grown meanwhile: the next look differs again */
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

/* Looks at one file; true when it has changed. */
static bool reload_look_at(const char *path, struct file_state *known)
{
    struct stat status;
    struct file_state found = {.error = stat(path, &status) == 0 ? 0 : errno};
    if (found.error == 0 && file_mode_is_stream(status.st_mode))
        return false;
    if (found.error == 0)
        found.error = reload_digest_of(path, (size_t)status.st_size, &found.content);
    bool changed = memcmp(&found, known, sizeof found) != 0;
    *known = found;
    return changed;
}

/*
 * Reads all files, through all symbolic links. True when the content of one, or the reason why it cannot be
 * read, is not what the last look found. A file that was touched, or replaced by an equal one, has not
 * changed; the times of stat() would not show a second change within one tick of the file system's clock. A
 * pipe, socket or terminal never changes.
 */
static bool reload_look(struct reload *r)
{
    bool changed = false;
    for (int i = 0; i < r->file_count; i++)
        changed = reload_look_at(r->path[i], &r->found[i]) || changed;
    return changed;
}

/* --- reading --- */

struct reading {
    struct redis_config *config;
    struct file_state from[FILES_MAX];
};

/*
 * Certificate and key, or password and URL, must be of one state of the files, without a change in between. A
 * change that the last look has found is still to be read.
 */
static int reload_read_files(struct reload *r, struct reading *n, struct buf *error)
{
    uint64_t number = r->newest == NULL ? 1 : r->newest->number + 1;
    int err = 0;
    r->changes = 1;
    for (int i = 0; i < READS_MAX && r->changes > 0; i++) {
        redis_config_unref(n->config);
        n->config = NULL;
        buf_clear(error);
        memcpy(n->from, r->found, sizeof n->from);
        err = config_read_redis(r->options.config, &r->redis, number, &n->config, error);
        r->changes = reload_look(r);
    }
    return err;
}

static void reload_own(struct reload *r, const struct reading *n)
{
    redis_config_unref(r->newest);
    r->newest = n->config;
    memcpy(r->newest_in, n->from, sizeof n->from);
    r->taken = time(NULL);
}

/* Why values could not be read; borrowed until the next change of `error`. */
static const char *reload_reason(struct buf *error)
{
    return error->len > 0 ? buf_message(error) : "out of memory";
}

/* `again`: nothing has changed since a failure. It is reported again only for another reason. */
static void reload_report_failure(struct reload *r, struct buf *error, bool again)
{
    const char *text = reload_reason(error);
    bool known = again && r->last_failed && strcmp(text, buf_message(&r->reason)) == 0;
    r->last_failed = true;
    if (known)
        return;
    r->failures++;
    log_text(LOG_ERROR, "redis settings not reloaded: the old ones stay in use", "reason", text);
    buf_clear(&r->reason);
    buf_append_str(&r->reason, text);
}

static void reload_report_success(struct reload *r, bool changed)
{
    r->reloads++;
    r->last_failed = false;
    log_text(LOG_INFO, changed ? "redis settings reloaded" : "redis settings reloaded: no change", "read",
             buf_message(&r->names));
}

static void reload_load(struct reload *r, bool again)
{
    struct reading n = {0};
    struct buf error = BUF_INIT;
    int err = reload_read_files(r, &n, &error);
    bool changed = err == 0 && memcmp(n.from, r->newest_in, sizeof n.from) != 0;
    if (err != 0)
        reload_report_failure(r, &error, again);
    else
        reload_report_success(r, changed);
    r->moving = r->moving || changed;
    if (changed)
        reload_own(r, &n);
    else
        redis_config_unref(n.config);
    buf_fini(&error);
}

/* --- the log --- */

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
    atomic_store(r->options.access_log, access_log);
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
    if (config_read_log(r->options.config, &r->log, &now, &access_log, &error) == 0)
        reload_use_log(r, &now, access_log);
    else if (log_reason_is_due(&r->log_failures, reload_reason(&error), clock_now_ms()) || hangup)
        log_text(LOG_ERROR, "log settings not reloaded: the old ones stay in use", "reason",
                 reload_reason(&error));
    config_fini_values(&now);
    buf_fini(&error);
}

/* --- the workers --- */

static bool reload_is_moved(const struct reload *r, const struct worker_status *w)
{
    return w->redis_number == r->newest->number;
}

static int reload_count_unmoved(const struct reload *r)
{
    int count = 0;
    for (int i = 0; i < r->options.worker_count; i++) {
        struct worker_status w = worker_status(r->options.workers[i]);
        count += !reload_is_moved(r, &w);
    }
    return count;
}

static bool reload_one_is_lost(const struct reload *r)
{
    for (int i = 0; i < r->options.worker_count; i++)
        if (worker_status(r->options.workers[i]).redis != WORKER_REDIS_READY)
            return true;
    return false;
}

/* Moves the workers without a connection, and with `next` also the first one with a connection. */
static void reload_move_workers(struct reload *r, bool next)
{
    for (int i = 0; i < r->options.worker_count && r->moving; i++) {
        struct worker_status w = worker_status(r->options.workers[i]);
        bool ready = w.redis == WORKER_REDIS_READY;
        if (reload_is_moved(r, &w) || (ready && !next))
            continue;
        next = next && !ready;
        worker_use_redis(r->options.workers[i], r->newest);
    }
    if (!r->moving || reload_count_unmoved(r) > 0)
        return;
    r->moving = false;
    log_text(LOG_INFO, "all workers use the reloaded redis settings", NULL, NULL);
}

/* --- looking --- */

static void reload_on_timer(uv_timer_t *timer);

/* Does not postpone an earlier look: connections that are lost all the time would put it off indefinitely. */
static void reload_start_timer(struct reload *r)
{
    unsigned often = r->moving || reload_one_is_lost(r) ? LOOK_SOON : 1;
    if (r->changes > 0)
        often = SETTLE;
    uint64_t ms = r->options.look_ms / often;
    if (uv_is_active((uv_handle_t *)&r->timer) && uv_timer_get_due_in(&r->timer) <= ms)
        return;
    (void)uv_timer_start(&r->timer, reload_on_timer, ms, 0); /* fails only on a closing handle */
}

/* The pause between two workers, whose caches are empty at first, is that of the timer. */
static void reload_on_timer(uv_timer_t *timer)
{
    struct reload *r = timer->data;
    reload_read_log(r, false);
    bool changing = reload_look(r);
    r->changes += changing;
    if (r->changes > 0 && (!changing || r->changes >= SETTLE_MAX))
        reload_load(r, false);
    else if (r->last_failed && r->changes == 0)
        reload_load(r, true);
    reload_move_workers(r, true);
    reload_start_timer(r);
}

/* The files already have the change that may have closed the connection, so there is no wait for them. */
void reload_worker_changed(struct reload *r)
{
    if (r->file_count == 0 || !reload_one_is_lost(r))
        return;
    if (reload_look(r) || r->changes > 0)
        reload_load(r, false);
    reload_move_workers(r, false);
    reload_start_timer(r);
}

void reload_now(struct reload *r)
{
    log_text(LOG_INFO, "SIGHUP received", "reloaded",
             r->all_names.len > 0 ? buf_message(&r->all_names) : "nothing");
    reload_read_log(r, true);
    if (r->file_count == 0)
        return;
    (void)reload_look(r);
    reload_load(r, false);
    reload_move_workers(r, true);
    reload_start_timer(r);
}

bool reload_has_failed(const struct reload *r)
{
    return r->last_failed;
}

/* --- metrics --- */

void reload_write_metrics(const struct reload *r, struct buf *out)
{
    metrics_write_head(out, "channeld_redis_config_reloads_total", "counter",
                       "Times that the settings of Redis were read again from files, by result.");
    buf_printf(out, "channeld_redis_config_reloads_total{result=\"ok\"} %llu\n",
               (unsigned long long)r->reloads);
    buf_printf(out, "channeld_redis_config_reloads_total{result=\"error\"} %llu\n",
               (unsigned long long)r->failures);
    metrics_write_one(out, "channeld_redis_config_last_reload_successful", "gauge",
                      "1 if the last read of the Redis settings succeeded; 0: the old ones are in use.",
                      !r->last_failed);
    metrics_write_one(out, "channeld_redis_config_last_reload_success_timestamp_seconds", "gauge",
                      "When the newest settings of Redis were read: at the last change, or at the start.",
                      (uint64_t)r->taken);
    metrics_write_one(out, "channeld_redis_config_pending", "gauge",
                      "Workers that do not use the newest settings of Redis yet.",
                      (uint64_t)reload_count_unmoved(r));
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
        const char *path = config_watched_file(r->options.config, s);
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

static void reload_release(struct reload *r)
{
    redis_config_unref(r->newest);
    config_fini_values(&r->log);
    config_fini_values(&r->redis);
    buf_fini(&r->names);
    buf_fini(&r->all_names);
    buf_fini(&r->reason);
    free(r);
}

int reload_new(uv_loop_t *loop, const struct reload_options *options, struct reload **out,
               struct redis_config **newest, struct buf *error)
{
    struct reading first = {0};
    int access_log = 0;
    struct reload *r = calloc(1, sizeof *r);
    if (r == NULL)
        return -ENOMEM;
    r->options = *options;
    reload_watch_files(r);
    int err = buf_error(&r->all_names);
    if (err == 0)
        err = config_read_log(options->config, &options->config->values, &r->log, &access_log, error);
    if (err == 0)
        err = reload_read_files(r, &first, error);
    if (err != 0) {
        reload_release(r);
        return err;
    }
    reload_own(r, &first);
    log_set_level(config_log_level(&r->log));
    atomic_store(options->access_log, access_log);
    (void)uv_timer_init(loop, &r->timer); /* cannot fail; nor can starting it */
    r->timer.data = r;
    if (r->all_names.len > 0)
        (void)uv_timer_start(&r->timer, reload_on_timer, options->look_ms, 0);
    *out = r;
    *newest = r->newest;
    return 0;
}

static void reload_on_closed(uv_handle_t *timer)
{
    reload_release(timer->data);
}

void reload_close(struct reload *r)
{
    uv_close((uv_handle_t *)&r->timer, reload_on_closed);
}
