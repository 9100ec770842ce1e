/* Output, errors and signals; see terminal.h. */
#include "ctl/terminal.h"

#include "base/text.h"
#include "ctl/command.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

/* --- Printing --- */

enum { ESCAPE_SIZE = 8 };

static bool terminal_is_control(unsigned code)
{
    static const unsigned ranges[][2] = {{0x00, 0x1F}, {0x7F, 0x9F}, {0x202A, 0x202E}, {0x2066, 0x2069}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return true;
    return false;
}

static unsigned terminal_code_point(struct span character)
{
    static const unsigned char first[] = {0, 0x7F, 0x1F, 0x0F, 0x07}; /* its bits, by the number of bytes */
    unsigned code = (unsigned char)character.data[0] & first[character.len];
    for (size_t i = 1; i < character.len; i++)
        code = code << 6 | ((unsigned char)character.data[i] & 0x3F);
    return code;
}

/* Takes a character from the front of *text, and returns it as it is printed. */
static struct span terminal_take(struct span *text, char escape[ESCAPE_SIZE])
{
    int step = utf8_step(*text);
    struct span character = {text->data, (size_t)(step > 0 ? step : -step)};
    *text = span_skip(*text, character.len);
    if (step < 0)
        return SPAN("?");
    unsigned code = terminal_code_point(character);
    if (!terminal_is_control(code))
        return character;
    return (struct span){escape, (size_t)snprintf(escape, ESCAPE_SIZE, "\\u%04x", code)};
}

void print_text(FILE *to, struct span text)
{
    char escape[ESCAPE_SIZE];
    while (text.len > 0) {
        struct span piece = terminal_take(&text, escape);
        (void)fwrite(piece.data, 1, piece.len, to);
    }
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

/* True when nobody reads the other end of a pipe any more. */
static bool terminal_is_pipe_broken(int fd)
{
    struct pollfd output = {.fd = fd};
    return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

int output_finish(void)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return EXIT_OK;
    if (terminal_is_pipe_broken(STDOUT_FILENO))
        return 128 + SIGPIPE;
    return FAIL("cannot write to standard output: %s", strerror(errno));
}

/* --- Errors --- */

__attribute__((format(printf, 1, 0))) static void terminal_show(const char *format, va_list args,
                                                                const char *end)
{
    (void)fputs("channelctl: ", stderr);
    terminal_print(stderr, format, args);
    (void)fputs(end, stderr);
}

void show_message(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    terminal_show(format, args, "\n");
    va_end(args);
}

int usage_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    terminal_show(format, args, " (see channelctl --help)\n");
    va_end(args);
    return EXIT_USAGE;
}

int memory_error(void)
{
    return FAIL("out of memory");
}

int setting_error(const struct options *o, const char *name, const char *what)
{
    struct buf source = BUF_INIT;
    settings_write_source(&source, &o->args, name);
    const char *text = buf_c_str(&source);
    int code = text != NULL ? usage_error("%s: %s", text, what) : memory_error();
    buf_fini(&source);
    return code;
}

const char *excerpt(struct span text, char out[EXCERPT_MAX])
{
    static const char cut[] = "...";
    size_t used = 0;
    while (text.len > 0) {
        char escape[ESCAPE_SIZE];
        struct span piece = terminal_take(&text, escape);
        if (used + piece.len + sizeof cut > EXCERPT_MAX) {
            memcpy(out + used, cut, sizeof cut);
            return out;
        }
        memcpy(out + used, piece.data, piece.len);
        used += piece.len;
    }
    out[used] = '\0';
    return out;
}

/* --- Problems --- */

void report_problem(struct report *r, const char *format, ...)
{
    va_list args;
    if (++r->problems > REPORT_PRINTED_MAX)
        return;
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

static void terminal_handle_all(void (*handler)(int))
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = handler}; /* without SA_RESTART: it ends a wait for input */
    struct sigaction before;
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            (void)sigaction(numbers[i], &action, NULL);
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

int interrupt_code(int code)
{
    return caught != 0 ? 128 + caught : code;
}
