/*
 * Notices that the content of files has changed, by looking at them again and again.
 *
 * A look reads each file, through all symbolic links, and compares the digest of its content: a file that was
 * touched, or replaced by an equal one, has not changed. The times that stat() tells would not show a second
 * change within one tick of the file system's clock.
 *
 * Looking, and not inotify: inotify watches an inode, and a path to a secret has several (Kubernetes replaces
 * the link ..data, others a link further up, an editor the file); it says nothing on network file systems and
 * for some container mounts; its events may overflow; and its instances are limited for all processes of a
 * user on the node together, so a look would be needed all the same. Six files once a second, one of them
 * a CA bundle of 220 KB, cost 0.3 ms.
 */
#ifndef BASE_FILE_WATCH_H
#define BASE_FILE_WATCH_H

#include "base/digest.h"

enum { FILE_WATCH_MAX = 8 };

struct watched_file {
    const char *path;
    int error;             /* an errno: why it could not be read */
    struct digest content; /* zero where it could not */
};

/* Embedded by its owner; private to file_watch.c. Zero-initialised: no files. */
struct file_watch {
    int count;
    struct watched_file file[FILE_WATCH_MAX];
};

/* Adds a file, which need not exist; `path` is borrowed while the watch is used. At most FILE_WATCH_MAX. */
void file_watch_add(struct file_watch *w, const char *path);

/*
 * Looks at all files. True when the content of one, or the reason why it cannot be read, is not what the last
 * look found; before the first look all contents are unknown. What is not a regular file never changes. It
 * takes as long as the file system does.
 */
bool file_watch_look(struct file_watch *w);

/* The state of all files as the last look has found them: equal states mean equal contents. */
void file_watch_state(const struct file_watch *w, struct digest *out);

#endif
