/* The process: its standard descriptors, core dumps, and small text files of the system. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>

/*
 * To be called before anything else is opened: opens /dev/null as descriptor 0, 1 or 2 where it is closed, so
 * that no socket gets that number and is used as standard input, output or error. It is opened in the
 * opposite direction: reading standard input and writing standard output or error still fail. Returns 0 or a
 * negative errno.
 */
int process_open_standard_descriptors(void) __attribute__((warn_unused_result));

/* Reads the first line of a file such as /proc/stat, with its newline, cut to `size` - 1 bytes, and adds a
 * NUL. False when it cannot be read. */
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
