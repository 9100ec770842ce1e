/* Files whose content changes, in all the ways in which secrets are replaced. */
#include "base/file_watch.h"

#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/tempdir.h"
#include "support/text.h"
#include "unit/check.h"

static struct tempdir dir;
static struct file_watch watch;

static int set_up(void **state)
{
    (void)state;
    tempdir_init(&dir);
    watch = (struct file_watch){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tempdir_fini(&dir);
    return 0;
}

#define WATCH_TEST(name) TEST_CASE_WITH(name, set_up, tear_down)

static const char *path_of(const char *name)
{
    return text_temp("%s/%s", dir.path, name);
}

static void write_file(const char *name, const char *text)
{
    assert_true(text_write_file(path_of(name), text));
}

static void link_to(const char *target, const char *name)
{
    const char *temporary = path_of("temporary");
    assert_int_equal(symlink(target, temporary), 0);
    assert_int_equal(rename(temporary, path_of(name)), 0);
}

static void age(const char *name)
{
    const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, path_of(name), times, 0), 0);
}

static void expect_changed_once(void)
{
    assert_true(file_watch_look(&watch));
    assert_false(file_watch_look(&watch));
}

static void watch_one(const char *name)
{
    file_watch_add(&watch, path_of(name));
    (void)file_watch_look(&watch);
    assert_false(file_watch_look(&watch));
}

WATCH_TEST(content_counts_and_not_the_times)
{
    write_file("a", "one");
    watch_one("a");
    age("a");
    assert_false(file_watch_look(&watch));
    write_file("a", "one");
    assert_false(file_watch_look(&watch));
    write_file("a", "two"); /* as long as before, perhaps within one tick of the clock */
    expect_changed_once();
}

WATCH_TEST(file_replaced_by_rename)
{
    write_file("a", "one");
    watch_one("a");
    write_file("b", "one");
    assert_int_equal(rename(path_of("b"), path_of("a")), 0);
    assert_false(file_watch_look(&watch));
    write_file("b", "two");
    assert_int_equal(rename(path_of("b"), path_of("a")), 0);
    expect_changed_once();
}

/* As Kubernetes does: password -> ..data/password, ..data -> ..1. */
WATCH_TEST(link_replaced_further_up)
{
    assert_int_equal(mkdir(path_of("..1"), 0700), 0);
    assert_int_equal(mkdir(path_of("..2"), 0700), 0);
    write_file("..1/password", "one");
    write_file("..2/password", "two");
    link_to("..1", "..data");
    assert_int_equal(symlink("..data/password", path_of("password")), 0);
    watch_one("password");
    link_to("..2", "..data");
    expect_changed_once();
    link_to("..1", "..data");
    expect_changed_once();
}

WATCH_TEST(missing_file_is_a_change_and_its_return_another)
{
    struct digest before;
    struct digest after;
    write_file("a", "one");
    watch_one("a");
    file_watch_state(&watch, &before);
    assert_int_equal(unlink(path_of("a")), 0);
    expect_changed_once();
    file_watch_state(&watch, &after);
    assert_memory_not_equal(&before, &after, sizeof before);
    write_file("a", "one");
    expect_changed_once();
    file_watch_state(&watch, &after);
    assert_memory_equal(&before, &after, sizeof before);
}

WATCH_TEST(state_tells_the_files_apart)
{
    struct digest before;
    struct digest after;
    write_file("a", "one");
    write_file("b", "two");
    file_watch_add(&watch, path_of("a"));
    watch_one("b");
    file_watch_state(&watch, &before);
    write_file("a", "two");
    write_file("b", "one");
    expect_changed_once();
    file_watch_state(&watch, &after);
    assert_memory_not_equal(&before, &after, sizeof before);
}

/* What is too large is an error that does not repeat; an empty file is a content. */
WATCH_TEST(sizes)
{
    const off_t too_large = 5L * 1024 * 1024;
    write_file("a", "");
    watch_one("a");
    assert_int_equal(truncate(path_of("a"), too_large), 0);
    expect_changed_once();
    assert_int_equal(truncate(path_of("a"), 0), 0);
    expect_changed_once();
}

WATCH_TEST(pipe_is_left_alone)
{
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    file_watch_add(&watch, path_of("pipe"));
    assert_false(file_watch_look(&watch));
    assert_false(file_watch_look(&watch));
}

WATCH_TEST(folder_in_place_of_a_file)
{
    write_file("a", "one");
    watch_one("a");
    assert_int_equal(unlink(path_of("a")), 0);
    assert_int_equal(mkdir(path_of("a"), 0700), 0);
    expect_changed_once();
    assert_int_equal(rmdir(path_of("a")), 0);
    write_file("a", "one");
    expect_changed_once();
}

WATCH_TEST(file_that_may_not_be_read)
{
    enum { NOBODY = 65534 };
    write_file("a", "one");
    watch_one("a");
    assert_int_equal(chmod(dir.path, 0711), 0);
    assert_int_equal(chmod(path_of("a"), 0), 0);
    if (geteuid() == 0)
        (void)setfsuid(NOBODY); /* root may read anything */
    expect_changed_once();
    (void)setfsuid(geteuid());
    assert_int_equal(chmod(path_of("a"), 0600), 0);
    expect_changed_once();
}
