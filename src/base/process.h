/* Small text files of the system (/proc, control groups) and the standard descriptors. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>

/*
 * To be called before anything else is opened: where descriptor 0, 1 or 2 is closed, opens /dev/null there,
 * so that no socket takes its place and is read, written or closed for it. It is opened the other way round:
 * reading standard input and writing standard output or error go on failing. Returns 0 or a negative errno.
 */
int process_open_standard_descriptors(void) __attribute__((warn_unused_result));

/* The first line, with its newline, cut to `size` - 1 bytes and ended with NUL. False when it cannot be read.
 */
bool file_first_line(const char *path, char *out, int size);

/*
 * Forbids core dumps of this process, debuggers of the same user and reading its memory through /proc
 * (PR_SET_DUMPABLE, prctl(2)): its memory holds clients' keys and the password of Redis. A process that may
 * trace any other (CAP_SYS_PTRACE) still can. Does nothing under AddressSanitizer, whose search for leaks
 * traces the process.
 */
void process_forbid_dumps(void);

/* Undoes that. */
void process_allow_dumps(void);

#endif
