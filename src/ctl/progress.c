/* The progress line; see progress.h. */
#include "ctl/progress.h"

#include "base/clock.h"

#include <stdio.h>
#include <unistd.h>

enum { BAR_WIDTH = 24, REDRAW_NS = 100 * 1000 * 1000 };

void progress_start(struct progress *p, int64_t total_bytes)
{
    *p = (struct progress){
        .drawn = isatty(STDERR_FILENO) == 1, .total_bytes = total_bytes, .started_ns = clock_now_ns()};
}

double progress_seconds(const struct progress *p)
{
    uint64_t ns = clock_now_ns() - p->started_ns;
    return (double)(ns == 0 ? 1 : ns) / 1e9;
}

/* 46203 as "46,203". */
static void write_grouped(struct buf *out, int64_t value)
{
    char digits[INT64_DIGITS_MAX];
    size_t n = format_int64(value, digits);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            buf_append_char(out, ',');
        buf_append_char(out, digits[i]);
    }
}

static void write_bar(struct buf *out, double done)
{
    int filled = (int)(done * BAR_WIDTH);
    buf_append_char(out, '[');
    for (int i = 0; i < BAR_WIDTH; i++)
        buf_append_char(out, i < filled ? '#' : '.');
    buf_printf(out, "] %3d%%  ", (int)(done * 100));
}

static void write_time(struct buf *out, double seconds)
{
    int64_t s = (int64_t)(seconds + 0.5);
    if (s >= 60)
        buf_printf(out, "%lld min ", (long long)(s / 60));
    buf_printf(out, "%lld s left", (long long)(s % 60));
}

void progress_write(const struct progress *p, struct buf *out, int64_t channels, int64_t bytes)
{
    double seconds = progress_seconds(p);
    double done = p->total_bytes > 0 ? (double)bytes / (double)p->total_bytes : 0;
    if (done > 1)
        done = 1; /* the file has grown meanwhile */
    if (p->total_bytes > 0)
        write_bar(out, done);
    write_grouped(out, channels);
    buf_append_str(out, " channels  ");
    write_grouped(out, (int64_t)((double)channels / seconds));
    buf_append_str(out, "/s");
    if (done > 0) {
        buf_append_str(out, "  ");
        write_time(out, seconds * (1 - done) / done);
    }
}

void progress_show(struct progress *p, int64_t channels, int64_t bytes)
{
    uint64_t now = clock_now_ns();
    if (!p->drawn || now - p->drawn_ns < REDRAW_NS)
        return;
    p->drawn_ns = now;
    buf_clear(&p->line);
    buf_append_str(&p->line, PROGRESS_WIPE);
    progress_write(p, &p->line, channels, bytes);
    (void)fwrite(p->line.data, 1, p->line.len, stderr);
    (void)fflush(stderr);
}

void progress_end(struct progress *p)
{
    if (p->drawn)
        (void)fputs(PROGRESS_WIPE, stderr);
    buf_fini(&p->line);
}
