/* Small text files of the system: /proc, control groups. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>

/* The first line, with its newline, cut to `size` - 1 bytes and ended with NUL. False when it cannot be read.
 */
bool file_first_line(const char *path, char *out, int size);

#endif
