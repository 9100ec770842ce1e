/* Output: exit codes and errors, lists of problems; and signals. */
#ifndef CTL_TERMINAL_H
#define CTL_TERMINAL_H

#include "base/buf.h"

#include <limits.h>
#include <stdio.h>

/* The exit codes; a command that a signal ended exits with 128 plus the signal's number. A function that
 * returns one has printed the reason. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* --- Printing --- */

/*
 * Prints a text that may come from a file or from Redis. A control character (U+0000 to U+001F, U+007F to
 * U+009F), or one that changes the direction of writing (U+202A to U+202E, U+2066 to U+2069), is printed as
 * \uXXXX, as a string in JSON may have it. A byte that is not UTF-8 is printed as "?". So no text can control
 * the terminal.
 */
void print_text(FILE *to, struct span text);

/* Prints a line in the same way. It is cut after PRINT_LINE_MAX bytes. */
enum { PRINT_LINE_MAX = 8192 };
void print_line(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* EXIT_OK when all of the output was written; the code of SIGPIPE when the reader of a pipe has ended. */
int output_finish(void);

/* --- Messages and errors: each prints a line on stderr, after the program's name --- */

void show_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints an error of the command line. Returns EXIT_USAGE. */
int usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints an error of settings.h: -EINVAL, whose message is in `error`, which is freed, or another one, for
 * lack of memory. */
int settings_error(int err, struct buf *error);

/* Prints an error of the setting `name`, by the name that the user has used: a flag or a variable. */
struct options;
int setting_error(const struct options *o, const char *name, const char *what);

/* The "s" after any number but one. */
static inline const char *plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

enum { EXCERPT_MAX = 200 };

/* Copies `text` as print_text prints it, NUL-terminated; a long text is cut. `out` takes EXCERPT_MAX bytes.
 * Returns `out`. EXCERPT has room for it, until the end of the block. */
const char *excerpt(struct span text, char out[EXCERPT_MAX]);
#define EXCERPT(...) excerpt((__VA_ARGS__), (char[EXCERPT_MAX]){""})

/* Prints the message as show_message. The value is EXIT_FAILED. */
#define FAIL(...) (show_message(__VA_ARGS__), EXIT_FAILED)

/* --- A list of problems: the first REPORT_PRINTED_MAX are printed, one per line; the others are counted ---
 */

enum { REPORT_PRINTED_MAX = 20 };

struct report {
    FILE *to;
    const bool *stopped; /* while it is true nothing is a problem; NULL: it never is */
    int64_t problems;
    char subject[PATH_MAX + 64];
};

/* What the next problems are about, which precedes each. */
void report_begin(struct report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

void report_problem(struct report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints "and N more" when some problems were not printed. */
void report_finish(const struct report *r);

/* --- SIGINT, SIGTERM and SIGHUP; one that is ignored (nohup) stays ignored --- */

/* Call it first. Each of these signals ends the process, with 128 plus its number. The kernel would not do it
 * for the first process of a container. */
void interrupt_init(void);

/*
 * From now on the first of these signals asks to stop: it is recorded, and a system call that it interrupts
 * fails with EINTR. A second one ends the process at once.
 */
void interrupt_watch(void);

/* The signal that came, or 0. */
int interrupt_signal(void);

/* The exit code of a command that has ended with this one: after a signal that of the signal. */
int interrupt_code(int code);

#endif
