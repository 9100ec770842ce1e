/*
 * Detects changes of the content of files by reading them repeatedly.
 *
 * A look reads each file, through all symbolic links, and compares the digest of its content. A file that was
 * touched, or replaced by an equal one, has not changed. The times of stat() would not show a second change
 * within one tick of the file system's clock.
 *
 * inotify would not replace the looks. It watches an inode, and a path to a secret has several: Kubernetes
 * replaces the link ..data, others a link further up, an editor the file. It reports nothing on network file
 * systems and some container mounts. Its events may overflow, and its instances are limited for all processes
 * of a user on the node together. A look at six files, one of them a CA bundle of 220 KB, takes 0.3 ms.
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
 * look found; before the first look all contents are unknown. A pipe, socket or terminal never
 * changes. The call may block for as long as the file system does.
 */
bool file_watch_look(struct file_watch *w);

/* The state of all files as the last look has found them: equal states mean equal contents. */
void file_watch_state(const struct file_watch *w, struct digest *out);

#endif
