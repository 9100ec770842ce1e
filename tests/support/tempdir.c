/*
 * Temporary directories. A failed assertion leaves a test by longjmp. So each directory is also in a list
 * that an exit handler processes.
 */

#include "support/tempdir.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"

enum { TEMPDIR_MAX = 64, OPEN_DIRECTORIES = 8 };

static char tempdir_live[TEMPDIR_MAX][TEMPDIR_PATH_SIZE];
static pid_t tempdir_owner;

static int tempdir_remove_entry(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)info;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void tempdir_remove(char *path)
{
    (void)nftw(path, tempdir_remove_entry, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS);
    path[0] = '\0';
}

static void tempdir_remove_all(void)
{
    if (tempdir_owner != getpid())
        return;
    for (size_t i = 0; i < TEMPDIR_MAX; i++) {
        if (tempdir_live[i][0] != '\0')
            tempdir_remove(tempdir_live[i]);
    }
}

static void tempdir_note(const char *path)
{
    if (tempdir_owner == 0) {
        tempdir_owner = getpid();
        (void)atexit(tempdir_remove_all);
    }
    for (size_t i = 0; i < TEMPDIR_MAX; i++) {
        if (tempdir_live[i][0] == '\0') {
            memcpy(tempdir_live[i], path, TEMPDIR_PATH_SIZE);
            return;
        }
    }
}

void tempdir_init(struct tempdir *dir)
{
    static const char name[] = "channeld-test-XXXXXX";
    const char *base = getenv("TMPDIR");
    /* Unix socket paths have to fit into 108 bytes: a very long $TMPDIR is not used. */
    if (base == NULL || strlen(base) + sizeof name + 1 > TEMPDIR_PATH_SIZE)
        base = "/tmp";
    memset(dir, 0, sizeof *dir);
    (void)snprintf(dir->path, sizeof dir->path, "%s/%s", base, name);
    if (mkdtemp(dir->path) == NULL)
        fail_msg("cannot make a directory in %s", base);
    tempdir_note(dir->path);
}

void tempdir_fini(struct tempdir *dir)
{
    if (dir->path[0] == '\0')
        return;
    for (size_t i = 0; i < TEMPDIR_MAX; i++) {
        if (strcmp(tempdir_live[i], dir->path) == 0)
            tempdir_live[i][0] = '\0';
    }
    tempdir_remove(dir->path);
}
