/* Files that may change; see file_watch.h. */
#include "base/file_watch.h"

#include "base/file.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { CONTENT_MAX = 4 * 1024 * 1024 }; /* more is an error: every CA bundle is smaller */

void file_watch_add(struct file_watch *w, const char *path)
{
    assert(w->count < FILE_WATCH_MAX);
    w->file[w->count++].path = path;
}

/* Returns 0 or an errno. */
static int file_watch_digest_of(const char *path, size_t size, struct digest *out)
{
    if (size > CONTENT_MAX)
        return EFBIG;
    size_t room = size + 1; /* one more shows that it has grown meanwhile: the next look differs again */
    char *content = malloc(room);
    if (content == NULL)
        return ENOMEM;
    /* O_NONBLOCK: a pipe may have taken the place of the file */
    ssize_t n = file_read(path, O_NONBLOCK | O_NOCTTY, content, room);
    if (n >= 0)
        digest_sha256((struct span){content, (size_t)n}, out);
    explicit_bzero(content, room);
    free(content);
    return n >= 0 ? 0 : (int)-n;
}

/* Looks at one file; true when it has changed. */
static bool file_watch_look_at(struct watched_file *f)
{
    struct stat status;
    struct digest content = {{0}};
    int error = stat(f->path, &status) == 0 ? 0 : errno;
    if (error == 0 && file_mode_is_stream(status.st_mode))
        return false;
    if (error == 0)
        error = file_watch_digest_of(f->path, (size_t)status.st_size, &content);
    bool changed = error != f->error || memcmp(&content, &f->content, sizeof content) != 0;
    f->error = error;
    f->content = content;
    return changed;
}

bool file_watch_look(struct file_watch *w)
{
    bool changed = false;
    for (int i = 0; i < w->count; i++)
        changed = file_watch_look_at(&w->file[i]) || changed;
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
