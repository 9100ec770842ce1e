/* Reading whole files. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* Reads a file to its end, `room` bytes at most. Returns the number of bytes or a negative errno. */
static inline ssize_t file_read(const char *path, char *out, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t used = 0;
    ssize_t n = 0;
    while (used < room && (n = read(fd, out + used, room - used)) > 0)
        used += (size_t)n;
    int err = n < 0 ? -errno : 0;
    (void)close(fd);
    return err != 0 ? err : (ssize_t)used;
}

/* True for a pipe, a socket or a terminal: its content can be read once, and reading it may block. */
static inline bool file_is_stream(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 &&
           (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || S_ISCHR(status.st_mode));
}

#endif
