#ifndef TEST_SUPPORT_TEMPDIR_H
#define TEST_SUPPORT_TEMPDIR_H

/* A private directory for the files of a test. Directories that remain are removed when the program exits. */

enum { TEMPDIR_PATH_SIZE = 64 };

struct tempdir {
    char path[TEMPDIR_PATH_SIZE];
};

/* Makes a fresh directory below $TMPDIR or /tmp; fails the test when it cannot. */
void tempdir_init(struct tempdir *dir);

/* Removes it with its content. Harmless when done twice. */
void tempdir_fini(struct tempdir *dir);

#endif
