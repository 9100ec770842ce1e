/* Output, errors and signals; see terminal.h. */
#include "ctl/terminal.h"

#include "base/clock.h"
#include "base/text.h"
#include "ctl/command.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

/* Returns the cursor to the start of the line and erases the line. */
#define ERASE_LINE "\r\033[K"

/* --- Errors --- */

void show_message(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fputs("channelctl: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
}

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
    show_message("out of memory");
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

int output_finish(void)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return EXIT_OK;
    show_message("cannot write to standard output: %s", strerror(errno));
    return EXIT_FAILED;
}

/* C0, DEL and C1; the last are two bytes in UTF-8, 0xC2 0x80 to 0xC2 0x9F. */
static bool terminal_is_control(struct span text, int step)
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
        if (step < 0 || terminal_is_control(text, step)) {
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

void report_problem_args(struct report *r, const char *format, va_list args)
{
    if (++r->problems > REPORT_PRINTED_MAX)
        return;
    if (r->is_terminal)
        (void)fputs(ERASE_LINE, r->to);
    (void)vfprintf(r->to, format, args);
    (void)fputc('\n', r->to);
}

void report_problem(struct report *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report_problem_args(r, format, args);
    va_end(args);
}

void report_line(struct report *r, const char *file, int64_t line, const char *format, va_list args)
{
    char what[3 * EXCERPT_MAX];
    (void)vsnprintf(what, sizeof what, format, args);
    report_problem(r, "%s:%lld: %s", file, (long long)line, what);
}

void report_finish(const struct report *r)
{
    if (r->problems > REPORT_PRINTED_MAX)
        (void)fprintf(r->to, "and %lld more\n", (long long)(r->problems - REPORT_PRINTED_MAX));
}

/* --- Progress --- */

enum { REDRAW_NS = 100 * 1000 * 1000 };

void progress_start(struct progress *p, const char *what, int64_t total)
{
    *p = (struct progress){.is_terminal = isatty(STDERR_FILENO) == 1,
                           .what = what,
                           .total = total,
                           .started_ns = clock_now_ns()};
}

double progress_seconds(const struct progress *p)
{
    uint64_t ns = clock_now_ns() - p->started_ns;
    return (double)(ns == 0 ? 1 : ns) / 1e9;
}

void progress_show(struct progress *p, int64_t count, int64_t done)
{
    uint64_t now = clock_now_ns();
    if (!p->is_terminal || now - p->drawn_ns < REDRAW_NS)
        return;
    p->drawn_ns = now;
    (void)fprintf(stderr, ERASE_LINE "%lld %s%s", (long long)count, p->what, plural(count));
    if (p->total > 0) /* which may have grown since the start */
        (void)fprintf(stderr, ", %lld%%", done < p->total ? (long long)(done * 100 / p->total) : 100);
    (void)fflush(stderr);
}

void progress_end(const struct progress *p)
{
    if (p->is_terminal)
        (void)fputs(ERASE_LINE, stderr);
}

/* --- Signals --- */

/* A signal handler can reach nothing but a global. */
static volatile sig_atomic_t caught;

static void terminal_end_process(int number)
{
    _exit(128 + number);
}

static void terminal_note(int number)
{
    if (caught != 0)
        terminal_end_process(number);
    caught = number;
}

static void terminal_handle(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler}; /* without SA_RESTART: it ends a wait for input */
    struct sigaction before;
    (void)sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        (void)sigaction(number, &action, NULL);
}

static void terminal_handle_all(void (*handler)(int))
{
    terminal_handle(SIGINT, handler);
    terminal_handle(SIGTERM, handler);
    terminal_handle(SIGHUP, handler);
}

void interrupt_watch(void)
{
    terminal_handle_all(terminal_note);
}

void interrupt_exit(void)
{
    terminal_handle_all(terminal_end_process);
}

int interrupt_signal(void)
{
    return caught;
}
