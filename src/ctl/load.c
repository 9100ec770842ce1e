/*
 * channelctl load: from a file of channels, line by line, into Redis.
 *
 * A replacing load lists its channels in the next index and swaps it in at the end, but only when every line
 * was good: a damaged file must never take channels away. Otherwise what was loaded is merged into the index
 * that is there, as without --replace.
 */
#include "ctl/card.h"
#include "ctl/client.h"
#include "ctl/command.h"
#include "ctl/index.h"
#include "ctl/interrupt.h"
#include "ctl/lines.h"
#include "ctl/lock.h"
#include "ctl/progress.h"
#include "ctl/prune.h"
#include "ctl/sample.h"
#include "ctl/writer.h"

#include <errno.h>

struct load {
    const struct options *options;
    const char *file;
    struct lines lines;
    struct samples *samples; /* owned; instead of a file, or NULL */
    struct client client;
    struct lock lock;
    struct writer writer;
    struct report report;
    struct progress progress;
    struct prune removed;
    int64_t refused; /* lines, without those that the writer has refused */
    int stopped;     /* by this signal, or 0 */
    int unread;      /* why the file could not be read to its end: a negative errno, or 0 */
};

static int64_t accepted(const struct load *l)
{
    return l->writer.written + l->writer.unchanged;
}

static int64_t refused(const struct load *l)
{
    return l->refused + l->writer.refused;
}

static bool is_blank(struct span line)
{
    if (line.len > 0 && line.data[line.len - 1] == '\r')
        line.len--;
    return span_trim(line).len == 0;
}

/* Puts the card of a line into the batch. Returns 0, -EINVAL when the line was refused, -EIO or -ENOMEM. */
static int add_line(struct load *l, struct span line)
{
    struct card_source from = {l->file, l->lines.number, &l->report};
    struct writer *w = &l->writer;
    struct card card;
    int err = batch_has_room(w->filling, line.len) ? 0 : writer_flush(w);
    if (err == 0)
        err = card_read(&from, &l->options->hosts, line, &w->filling->texts, &card);
    if (err == 0 && batch_conflicts(w->filling, &card)) {
        err = writer_flush(w);
        if (err == 0) /* once more, for its texts are in the batch that is gone */
            err = card_read(&from, &l->options->hosts, line, &w->filling->texts, &card);
    }
    if (err == 0)
        batch_add(w->filling, &card, from.line);
    return err;
}

static int load_line(struct load *l, struct span line)
{
    int err = is_blank(line) ? 0 : add_line(l, line);
    if (err == -ENOMEM)
        return client_fail(&l->client, "out of memory");
    if (err == -EINVAL)
        l->refused++;
    return err == -EINVAL ? 0 : err;
}

static void refuse_long_line(struct load *l)
{
    report_problem(&l->report, "%s:%lld: a line of at most %d bytes is expected", l->file,
                   (long long)l->lines.number, LINE_BYTES_MAX);
    l->refused++;
}

/* Loads until the end of the file, a signal or a failure. Returns 0, or -EIO when Redis failed. */
static int load_lines(struct load *l)
{
    int err = 0;
    while (interrupt_signal() == 0 && err == 0) {
        struct span line;
        int got = lines_next(&l->lines, &line);
        if (got == 1)
            err = load_line(l, line);
        else if (got == -EMSGSIZE)
            refuse_long_line(l);
        else if (got != -EINTR && got != -EAGAIN) {
            l->unread = got;
            break;
        }
        if (err == 0 && (got == -EAGAIN || lock_is_due(&l->lock)))
            err = writer_flush(&l->writer); /* renews the lock; who feeds us slowly need not wait either */
        progress_show(&l->progress, accepted(l), l->lines.bytes);
    }
    l->stopped = interrupt_signal();
    return err == 0 ? writer_finish(&l->writer) : err;
}

/* --- The end of a replacing load --- */

static const char *why_not_replaced(const struct load *l)
{
    if (l->stopped != 0)
        return "the load was interrupted";
    if (l->unread != 0)
        return "the file could not be read to its end";
    if (refused(l) > 0)
        return "lines were refused";
    return accepted(l) == 0 ? "the file has no channel" : NULL;
}

static int replace(struct load *l)
{
    int err = index_swap(&l->client, &l->lock, l->writer.members);
    if (err != 0)
        return err;
    err = prune_run(&l->client, &l->lock, &l->removed);
    if (err != 0)
        (void)fprintf(stderr, "channelctl: the catalogue was replaced, but not all that is gone was removed; "
                              "the next load --replace does it\n");
    return err;
}

static int finish_replace(struct load *l)
{
    const char *why = why_not_replaced(l);
    if (why == NULL)
        return replace(l);
    int err = index_merge_next(&l->client, &l->lock);
    (void)fprintf(stderr, "channelctl: nothing was replaced or removed, because %s%s\n", why,
                  err == 0 && accepted(l) > 0 ? "; what was loaded was added to the catalogue" : "");
    return err;
}

/* --- The whole --- */

static void print_warnings(const struct load *l)
{
    const struct writer *w = &l->writer;
    int64_t repeated = w->setup.replace ? accepted(l) - w->members : 0;
    if (l->unread != 0)
        (void)fprintf(stderr, "channelctl: cannot read %s: %s\n", l->file, strerror(-l->unread));
    if (repeated > 0)
        (void)fprintf(stderr, "channelctl: %lld line%s repeated a channel; the last line of each counts\n",
                      (long long)repeated, report_plural(repeated));
    if (w->taken > 0)
        (void)fprintf(stderr, "channelctl: %lld link%s belonged to another channel before\n",
                      (long long)w->taken, report_plural(w->taken));
    if (w->expired > 0)
        (void)fprintf(stderr, "channelctl: %lld channel%s had a TTL, which was removed\n",
                      (long long)w->expired, report_plural(w->expired));
    if (w->index_expired)
        (void)fprintf(stderr, "channelctl: the index had a TTL, which was removed\n");
    if (w->field_ttls == FIELD_TTLS_DENIED)
        (void)fprintf(stderr, "channelctl: TTLs of hash fields were not looked for: Redis does not permit "
                              "HPEXPIRETIME to this user\n");
}

static void print_summary(const struct load *l)
{
    double seconds = progress_seconds(&l->progress);
    (void)printf("loaded %lld channel%s (%lld unchanged, %lld refused", (long long)l->writer.written,
                 report_plural(l->writer.written), (long long)l->writer.unchanged, (long long)refused(l));
    if (l->writer.setup.replace)
        (void)printf(", %lld removed", (long long)l->removed.cards);
    (void)printf(") in %.1f s, %.0f/s\n", seconds, (double)accepted(l) / seconds);
    (void)fflush(stdout);
}

static int exit_code(const struct load *l)
{
    if (l->stopped != 0)
        return 128 + l->stopped;
    bool whole = refused(l) == 0 && l->unread == 0 && !(l->writer.setup.replace && accepted(l) == 0);
    return whole ? EXIT_FINE : EXIT_FAILED;
}

static void print_stop(const struct load *l)
{
    const struct writer *w = &l->writer;
    if (w->last_line == 0)
        (void)fprintf(stderr, "channelctl: stopped before any channel of %s was known to be loaded\n",
                      l->file);
    else
        (void)fprintf(stderr,
                      "channelctl: stopped after line %lld of %s: %lld channel%s loaded, %lld unchanged\n",
                      (long long)w->last_line, l->file, (long long)w->written, report_plural(w->written),
                      (long long)w->unchanged);
}

/* Returns 0, or -EIO with the reason in client_error(). */
static int load_file(struct load *l)
{
    const struct writer_setup setup = {&l->client, &l->lock, l->file, &l->report,
                                       (l->options->switched & SWITCH_REPLACE) != 0};
    report_init(&l->report, stderr);
    progress_start(&l->progress, lines_total(&l->lines));
    int err = writer_begin(&l->writer, &setup);
    if (err == 0)
        err = load_lines(l);
    progress_end(&l->progress);
    report_finish(&l->report);
    if (err == 0)
        print_warnings(l);
    return err == 0 && setup.replace ? finish_replace(l) : err;
}

static int run(struct load *l)
{
    interrupt_watch();
    int err = lock_acquire(&l->lock, &l->client);
    if (err == 0)
        err = load_file(l);
    if (err == -EINTR)
        l->stopped = interrupt_signal();
    else if (err != 0)
        (void)client_complain(&l->client);
    lock_release(&l->lock, err == -EIO);
    if (err != 0 || l->stopped != 0)
        print_stop(l);
    if (err == -EINTR)
        return exit_code(l);
    if (err != 0)
        return EXIT_FAILED;
    print_summary(l);
    return exit_code(l);
}

static int make_piece(void *arg, struct buf *out)
{
    return samples_next(arg, out);
}

static int open_samples(struct load *l, const char *count)
{
    int code = EXIT_FINE;
    l->file = "sample";
    l->samples = samples_new(l->options, count, &code);
    lines_open_source(&l->lines, make_piece, l->samples);
    return code;
}

static int open_file(struct load *l, const char *path)
{
    l->file = path;
    int err = lines_open(&l->lines, path);
    if (err == 0)
        return EXIT_FINE;
    (void)fprintf(stderr, "channelctl: cannot read %s: %s\n", path, strerror(-err));
    return EXIT_FAILED;
}

int command_load(const struct options *o, int words, char **word)
{
    if (words != (o->sample == NULL ? 1 : 0))
        return usage_error("load: one file is expected, or - for standard input, or --sample N");
    if (o->seed != NULL && o->sample == NULL)
        return usage_error("load: --seed belongs to --sample");
    struct load l = {.options = o};
    int code = o->sample != NULL ? open_samples(&l, o->sample) : open_file(&l, word[0]);
    if (code == EXIT_FINE)
        code = client_open(&l.client, o);
    if (code == EXIT_FINE)
        code = run(&l);
    writer_fini(&l.writer);
    client_close(&l.client);
    lines_close(&l.lines);
    samples_free(l.samples);
    return code;
}
