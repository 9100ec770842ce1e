/* Files that may change; see file_watch.h. */
#include "base/file_watch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CONTENT_MAX = 4 * 1024 * 1024, /* more is an error: every CA bundle is smaller */
    COARSEST_TIMES_S = 2           /* of a file system: a file older than that has settled */
};

void file_watch_add(struct file_watch *w, const char *path)
{
    assert(w->count < FILE_WATCH_MAX);
    w->file[w->count++].path = path;
}

static struct file_stamp file_watch_stamp_of(int error, const struct stat *s)
{
    struct file_stamp stamp;
    memset(&stamp, 0, sizeof stamp);
    stamp.error = error;
    if (error != 0)
        return stamp;
    stamp.device = s->st_dev;
    stamp.inode = s->st_ino;
    stamp.size = s->st_size;
    stamp.modified = s->st_mtim;
    stamp.changed = s->st_ctim;
    return stamp;
}

static bool file_watch_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool file_watch_same_stamp(const struct file_stamp *a, const struct file_stamp *b)
{
    return a->error == b->error && a->device == b->device && a->inode == b->inode && a->size == b->size &&
           file_watch_same_time(&a->modified, &b->modified) && file_watch_same_time(&a->changed, &b->changed);
}

/* A time in the future, by another machine's clock, never settles: the file is read at every look. */
static bool file_watch_has_settled(const struct file_stamp *stamp)
{
    time_t now = time(NULL);
    return stamp->error != 0 || (now - stamp->modified.tv_sec > COARSEST_TIMES_S &&
                                 now - stamp->changed.tv_sec > COARSEST_TIMES_S);
}

/* Up to `room` bytes. Returns how many there were, or a negative errno. */
static ssize_t file_watch_read_all(int fd, char *out, size_t room)
{
    size_t used = 0;
    while (used < room) {
        ssize_t n = read(fd, out + used, room - used);
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    return (ssize_t)used;
}

static int file_watch_digest_of(int fd, size_t size, struct digest *out)
{
    size_t room = size + 1; /* one more shows that it has grown meanwhile: the next look reads it again */
    char *content = size <= CONTENT_MAX ? malloc(room) : NULL;
    if (content == NULL)
        return size <= CONTENT_MAX ? ENOMEM : EFBIG;
    ssize_t n = file_watch_read_all(fd, content, room);
    if (n >= 0)
        digest_sha256((struct span){content, (size_t)n}, out);
    explicit_bzero(content, room);
    free(content);
    return n >= 0 ? 0 : (int)-n;
}

/* Returns 0 or an errno. A pipe that has taken the place of the file does not block. */
static int file_watch_read_content(const char *path, struct digest *out)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno;
    int err = fstat(fd, &status) == 0 ? 0 : errno;
    if (err == 0 && !S_ISREG(status.st_mode))
        err = EINVAL;
    if (err == 0)
        err = file_watch_digest_of(fd, (size_t)status.st_size, out);
    (void)close(fd);
    return err;
}

/* Looks at one file; true when it has changed. */
static bool file_watch_look_at(struct file_watch *w, int i)
{
    struct stat status;
    int error = stat(w->file[i].path, &status) == 0 ? 0 : errno;
    if (error == 0 && !S_ISREG(status.st_mode))
        return false;
    struct file_stamp stamp = file_watch_stamp_of(error, &status);
    bool known = w->file[i].settled && file_watch_same_stamp(&stamp, &w->file[i].stamp);
    if (known)
        return false;
    struct digest content;
    memset(&content, 0, sizeof content);
    if (error == 0)
        error = file_watch_read_content(w->file[i].path, &content);
    bool changed = error != w->file[i].error || memcmp(&content, &w->file[i].content, sizeof content) != 0;
    w->file[i].stamp = stamp;
    w->file[i].settled =
        file_watch_has_settled(&stamp) && error == stamp.error; /* else it may be readable now */
    w->file[i].error = error;
    w->file[i].content = content;
    return changed;
}

bool file_watch_look(struct file_watch *w)
{
    bool changed = false;
    for (int i = 0; i < w->count; i++)
        changed = file_watch_look_at(w, i) || changed;
    return changed;
}

void file_watch_state(const struct file_watch *w, struct digest *out)
{
    char all[FILE_WATCH_MAX * (sizeof(int) + sizeof(struct digest))];
    size_t len = 0;
    for (int i = 0; i < w->count; i++) {
        memcpy(all + len, &w->file[i].error, sizeof w->file[i].error);
        len += sizeof w->file[i].error;
        memcpy(all + len, &w->file[i].content, sizeof w->file[i].content);
        len += sizeof w->file[i].content;
    }
    digest_sha256((struct span){all, len}, out);
}
