/* Output, errors and signals; see terminal.h. */
#include "ctl/terminal.h"

#include "base/text.h"
#include "ctl/command.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

/* --- Printing --- */

static bool terminal_is_control(unsigned code)
{
    return code <= 0x1F || (code >= 0x7F && code <= 0x9F) || (code >= 0x202A && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069);
}

static unsigned terminal_code_point(struct span character)
{
    static const unsigned char first[] = {0, 0x7F, 0x1F, 0x0F, 0x07}; /* its bits, by the number of bytes */
    unsigned code = (unsigned char)character.data[0] & first[character.len];
    for (size_t i = 1; i < character.len; i++)
        code = code << 6 | ((unsigned char)character.data[i] & 0x3F);
    return code;
}

/* Copies characters from the front of *text as they are printed, as many as fit. Returns the bytes. */
static size_t terminal_take(struct span *text, char *out, size_t size)
{
    size_t used = 0;
    while (text->len > 0) {
        char escape[sizeof "\\u0000"];
        int step = utf8_step(*text);
        struct span piece = {text->data, (size_t)abs(step)};
        size_t taken = piece.len;
        unsigned code = step > 0 ? terminal_code_point(piece) : 0;
        if (step < 0)
            piece = SPAN("?");
        else if (terminal_is_control(code))
            piece = (struct span){escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", code)};
        if (piece.len > size - used)
            break;
        (void)span_put(piece, out + used);
        used += piece.len;
        *text = span_skip(*text, taken);
    }
    return used;
}

void print_text(FILE *to, struct span text)
{
    char piece[1024];
    while (text.len > 0) {
        size_t n = terminal_take(&text, piece, sizeof piece);
        (void)fwrite(piece, 1, n, to);
    }
}

const char *excerpt(struct span text, char out[EXCERPT_MAX])
{
    size_t used = terminal_take(&text, out, EXCERPT_MAX - sizeof "...");
    *span_put(text.len > 0 ? SPAN("...") : SPAN(""), out + used) = '\0';
    return out;
}

__attribute__((format(printf, 2, 0))) static void terminal_print(FILE *to, const char *format, va_list args)
{
    char line[PRINT_LINE_MAX];
    (void)vsnprintf(line, sizeof line, format, args);
    print_text(to, span_of(line));
}

void print_line(FILE *to, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    terminal_print(to, format, args);
    (void)fputc('\n', to);
    va_end(args);
}

int output_finish(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO};
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return EXIT_OK;
    if (poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0) /* nobody reads a pipe any more */
        return 128 + SIGPIPE;
    return FAIL("cannot write to standard output: %s", strerror(errno));
}

/* --- Errors --- */

void show_message(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fputs("channelctl: ", stderr);
    terminal_print(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
}

int usage_error(const char *format, ...)
{
    char line[PRINT_LINE_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    show_message("%s (see channelctl --help)", line);
    return EXIT_USAGE;
}

int settings_error(int err, struct buf *error)
{
    const char *text = err == -EINVAL ? buf_c_str(error) : NULL;
    int code = text != NULL ? usage_error("%s", text) : FAIL("out of memory");
    buf_fini(error);
    return code;
}

int setting_error(const struct options *o, const char *name, const char *what)
{
    struct buf error = BUF_INIT;
    int err = settings_reject(&o->args, name, &error, what);
    return settings_error(err, &error);
}

/* --- Problems --- */

void report_begin(struct report *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(r->subject, sizeof r->subject, format, args);
    va_end(args);
}

void report_problem(struct report *r, const char *format, ...)
{
    va_list args;
    if ((r->stopped != NULL && *r->stopped) || ++r->problems > REPORT_PRINTED_MAX)
        return;
    print_text(r->to, span_of(r->subject));
    (void)fputs(": ", r->to);
    va_start(args, format);
    terminal_print(r->to, format, args);
    va_end(args);
    (void)fputc('\n', r->to);
}

void report_finish(const struct report *r)
{
    if (r->problems > REPORT_PRINTED_MAX)
        print_line(r->to, "and %lld more", (long long)(r->problems - REPORT_PRINTED_MAX));
}

/* --- Signals --- */

/* A signal handler can reach nothing but globals. */
static volatile sig_atomic_t watched, caught;

static void terminal_on_signal(int number)
{
    if (!watched || caught != 0)
        _exit(128 + number);
    caught = number;
}

void interrupt_init(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    /* without SA_RESTART: it ends a wait for input */
    const struct sigaction action = {.sa_handler = terminal_on_signal};
    struct sigaction before;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            (void)sigaction(numbers[i], &action, NULL);
}

void interrupt_watch(void)
{
    watched = 1;
}

int interrupt_signal(void)
{
    return caught;
}

int interrupt_code(int code)
{
    return caught != 0 ? 128 + caught : code;
}
