/* Output, errors and signals; see terminal.h. */
#include "ctl/terminal.h"

#include "base/clock.h"
#include "base/text.h"
#include "ctl/command.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

/* Returns the cursor to the start of the line and erases the line. */
#define ERASE_LINE "\r\033[K"

/* --- Errors --- */

int usage_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fputs("channelctl: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputs(" (see channelctl --help)\n", stderr);
    va_end(args);
    return EXIT_USAGE;
}

int memory_error(void)
{
    (void)fputs("channelctl: out of memory\n", stderr);
    return EXIT_FAILED;
}

int setting_error(const struct options *o, const char *name, const char *what)
{
    struct buf source = BUF_INIT;
    settings_write_source(&source, o->settings, o->sources, name);
    const char *text = buf_c_str(&source);
    int code = text != NULL ? usage_error("%s: %s", text, what) : memory_error();
    buf_fini(&source);
    return code;
}

int output_error(int err)
{
    (void)fprintf(stderr, "channelctl: cannot write to standard output: %s\n", strerror(-err));
    return EXIT_FAILED;
}

int output_finish(void)
{
    return fflush(stdout) == 0 && ferror(stdout) == 0 ? EXIT_OK : output_error(-errno);
}

/* C0, DEL and C1; the last are two bytes in UTF-8, 0xC2 0x80 to 0xC2 0x9F. */
static bool is_control(struct span text, int step)
{
    unsigned char first = (unsigned char)text.data[0];
    return first < 0x20 || first == 0x7F ||
           (step == 2 && first == 0xC2 && (unsigned char)text.data[1] < 0xA0);
}

const char *excerpt(struct span text, char out[EXCERPT_MAX])
{
    static const char cut[] = "...";
    size_t used = 0;
    while (text.len > 0) {
        int step = utf8_step(text);
        size_t n = step > 0 ? (size_t)step : (size_t)-step;
        if (used + n + sizeof cut > EXCERPT_MAX) {
            memcpy(out + used, cut, sizeof cut);
            return out;
        }
        if (step < 0 || is_control(text, step)) {
            out[used++] = '?';
        } else {
            memcpy(out + used, text.data, n);
            used += n;
        }
        text = span_skip(text, n);
    }
    out[used] = '\0';
    return out;
}

/* --- Problems --- */

void report_init(struct report *r, FILE *to)
{
    *r = (struct report){.to = to, .is_terminal = isatty(fileno(to)) == 1};
}

void report_problem(struct report *r, const char *format, ...)
{
    if (++r->problems > REPORT_PRINTED_MAX)
        return;
    if (r->is_terminal)
        (void)fputs(ERASE_LINE, r->to);
    va_list args;
    va_start(args, format);
    (void)vfprintf(r->to, format, args);
    va_end(args);
    (void)fputc('\n', r->to);
}

void report_finish(const struct report *r)
{
    if (r->problems > REPORT_PRINTED_MAX)
        (void)fprintf(r->to, "and %lld more\n", (long long)(r->problems - REPORT_PRINTED_MAX));
}

/* --- Progress --- */

enum { BAR_WIDTH = 24, REDRAW_NS = 100 * 1000 * 1000 };

void progress_start(struct progress *p, int64_t total_bytes)
{
    *p = (struct progress){
        .is_terminal = isatty(STDERR_FILENO) == 1, .total_bytes = total_bytes, .started_ns = clock_now_ns()};
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

static void write_time_left(struct buf *out, double seconds)
{
    int64_t s = (int64_t)(seconds + 0.5);
    if (s >= 60)
        buf_printf(out, "%lld min ", (long long)(s / 60));
    buf_printf(out, "%lld s left", (long long)(s % 60));
}

/* Appends the text of the line, without control characters. */
static void progress_write(const struct progress *p, struct buf *out, int64_t channels, int64_t bytes)
{
    double seconds = progress_seconds(p);
    double done = p->total_bytes > 0 ? (double)bytes / (double)p->total_bytes : 0;
    if (done > 1)
        done = 1; /* the file has grown since it was opened */
    if (p->total_bytes > 0)
        write_bar(out, done);
    write_grouped(out, channels);
    buf_printf(out, " channel%s  ", plural(channels));
    write_grouped(out, (int64_t)((double)channels / seconds));
    buf_append_str(out, "/s");
    if (done > 0) {
        buf_append_str(out, "  ");
        write_time_left(out, seconds * (1 - done) / done);
    }
}

void progress_show(struct progress *p, int64_t channels, int64_t bytes)
{
    uint64_t now = clock_now_ns();
    if (!p->is_terminal || now - p->drawn_ns < REDRAW_NS)
        return;
    p->drawn_ns = now;
    buf_clear(&p->line);
    buf_append_str(&p->line, ERASE_LINE);
    progress_write(p, &p->line, channels, bytes);
    (void)fwrite(p->line.data, 1, p->line.len, stderr);
    (void)fflush(stderr);
}

void progress_end(struct progress *p)
{
    if (p->is_terminal)
        (void)fputs(ERASE_LINE, stderr);
    buf_fini(&p->line);
}

/* --- Signals --- */

/* A signal handler can reach nothing but a global. */
static volatile sig_atomic_t caught;

static void note(int number)
{
    caught = number;
}

static void end_process(int number)
{
    _exit(128 + number);
}

static void handle(int number, void (*handler)(int))
{
    /* Without SA_RESTART a signal ends a wait for input; with SA_RESETHAND a second signal ends the process.
     */
    struct sigaction action = {.sa_flags = (int)SA_RESETHAND};
    struct sigaction before;
    action.sa_handler = handler;
    (void)sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        (void)sigaction(number, &action, NULL);
}

static void handle_all(void (*handler)(int))
{
    handle(SIGINT, handler);
    handle(SIGTERM, handler);
    handle(SIGHUP, handler);
}

void interrupt_watch(void)
{
    handle_all(note);
}

void interrupt_exit(void)
{
    handle_all(end_process);
}

void interrupt_restore(void)
{
    handle_all(SIG_DFL);
}

int interrupt_signal(void)
{
    return caught;
}
