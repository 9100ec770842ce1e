/* Folders and links; see secret.h. */

#include "support/secret.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test.h"
#include "support/text.h"

void secret_init(struct secret *secret)
{
    tempdir_init(&secret->dir);
    secret->version = 0;
}

void secret_fini(struct secret *secret)
{
    tempdir_fini(&secret->dir);
}

const char *secret_path(const struct secret *secret, const char *name)
{
    return text_temp("%s/%s", secret->dir.path, name);
}

static void write_version(const struct secret *secret, const struct secret_file *files)
{
    const char *folder = text_temp("%s/..%d", secret->dir.path, secret->version);
    assert_int_equal(mkdir(folder, 0700), 0);
    for (; files->name != NULL; files++)
        assert_true(text_write_file(text_temp("%s/%s", folder, files->name), files->content));
}

static void publish(const struct secret *secret, const struct secret_file *files)
{
    const char *temporary = secret_path(secret, "..data_tmp");
    assert_int_equal(symlink(text_temp("..%d", secret->version), temporary), 0);
    assert_int_equal(rename(temporary, secret_path(secret, "..data")), 0);
    for (; files->name != NULL; files++)
        if (symlink(text_temp("..data/%s", files->name), secret_path(secret, files->name)) != 0)
            assert_int_equal(errno, EEXIST);
}

static void remove_version(const struct secret *secret, int version, const struct secret_file *files)
{
    const char *folder = text_temp("%s/..%d", secret->dir.path, version);
    for (; files->name != NULL; files++)
        (void)unlink(text_temp("%s/%s", folder, files->name));
    (void)rmdir(folder);
}

void secret_replace(struct secret *secret, const struct secret_file *files)
{
    secret->version++;
    write_version(secret, files);
    publish(secret, files);
    if (secret->version > 1)
        remove_version(secret, secret->version - 1, files);
}
