/* Counting processors: quotas of control groups on the way up, affinity, and that there is always one. */
#include "base/process.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/tempdir.h"
#include "support/text.h"
#include "unit/check.h"

/* A file of the tree, with the folders it needs. */
static void put(const struct tempdir *root, const char *name, const char *text)
{
    char *path = text_printf("%s%s", root->path, name);
    for (char *slash = strchr(path + strlen(root->path) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    assert_true(text_write_file(path, text));
    free(path);
}

struct file {
    const char *name;
    const char *text;
};

/* What is granted where these are the files of the system; a list ends with NULL. */
static int granted(const struct file *files)
{
    struct tempdir root;
    tempdir_init(&root);
    for (; files->name != NULL; files++)
        put(&root, files->name, files->text);
    int count = process_cpus_granted(root.path);
    tempdir_fini(&root);
    return count;
}

#define GRANTED(...) granted((const struct file[]){__VA_ARGS__, {NULL, NULL}})

/* What a `cpu.max` of the only group grants. */
static int granted_by(const char *cpu_max)
{
    return GRANTED({"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", cpu_max});
}

TEST_CASE(quota_is_rounded_up_to_processors)
{
    assert_int_equal(granted_by("100000 100000\n"), 1);
    assert_int_equal(granted_by("100001 100000\n"), 2);
    assert_int_equal(granted_by("150000 100000"), 2);
    assert_int_equal(granted_by("200000 100000\n"), 2);
    assert_int_equal(granted_by("1000 100000\n"), 1);
    assert_int_equal(granted_by("1 1000000\n"), 1);
    assert_int_equal(granted_by("6400000 100000\n"), 64);
    assert_int_equal(granted_by("50000 25000\n"), 2);
}

TEST_CASE(missing_and_invalid_quotas_are_none)
{
    EACH_TEXT (text, "max 100000\n", "max", "", "\n", "100000", "100000 ", "100000 0\n", "0 100000\n",
               "-1 100000\n", "100000 -1\n", "x 100000\n", "100000 x\n")
        assert_int_equal(granted_by(text), INT_MAX);
}

TEST_CASE(huge_quotas_do_not_overflow)
{
    assert_int_equal(granted_by("9223372036854775807 1\n"), INT_MAX);
    assert_int_equal(granted_by("9223372036854775807 9223372036854775807\n"), 1);
    assert_int_equal(granted_by("99999999999999999999999 100000\n"), INT_MAX);
}

TEST_CASE(smallest_quota_of_all_groups_counts)
{
    static const struct file own = {"/proc/self/cgroup", "0::/system.slice/channeld.service\n"};
    static const struct file service = {"/sys/fs/cgroup/system.slice/channeld.service/cpu.max",
                                        "400000 100000\n"};
    static const struct file slice = {"/sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n"};
    static const struct file top = {"/sys/fs/cgroup/cpu.max", "300000 100000\n"};
    static const struct file none = {"/sys/fs/cgroup/system.slice/cpu.max", "max 100000\n"};
    static const struct file beside = {"/sys/fs/cgroup/other.slice/cpu.max", "100000 100000\n"};
    assert_int_equal(GRANTED(own, service, slice, top), 2);
    assert_int_equal(GRANTED(own, service, top), 3);
    assert_int_equal(GRANTED(own, service, none), 4);
    assert_int_equal(GRANTED(own, slice, beside), 2);
    assert_int_equal(GRANTED(own, none, beside), INT_MAX);
    assert_int_equal(GRANTED(own), INT_MAX);
    assert_int_equal(GRANTED(top), INT_MAX);
    assert_int_equal(GRANTED(own, top), 3);
}

/* Without a namespace of control groups a container sees its path on the host, and its own group at the
 * mount. */
TEST_CASE(quota_at_the_mount_counts_where_the_path_is_not_below)
{
    static const struct file top = {"/sys/fs/cgroup/cpu.max", "200000 100000\n"};
    EACH_TEXT (text, "0::/docker/abc\n", "0::/docker/abc", "0::/../../inner\n", "0::/\n", "0::\n")
        assert_int_equal(GRANTED(top, {"/proc/self/cgroup", text}), 2);
}

/* Both versions can be mounted: the groups of version 1, whose lines come first, have no cpu.max. */
TEST_CASE(lines_of_version_1_are_skipped)
{
    static const struct file top = {"/sys/fs/cgroup/a/cpu.max", "200000 100000\n"};
    static const struct file other = {"/sys/fs/cgroup/b/cpu.max", "100000 100000\n"};
    assert_int_equal(
        GRANTED(top, other, {"/proc/self/cgroup", "3:cpu,cpuacct:/b\n1:name=systemd:/b\n0::/a\n"}), 2);
}

TEST_CASE(malformed_files_are_ignored)
{
    static const struct file top = {"/sys/fs/cgroup/cpu.max", "200000 100000\n"};
    EACH_TEXT (text, "", "\n", "0", "0:\n", "::", "x:cpu\n")
        assert_int_equal(GRANTED(top, {"/proc/self/cgroup", text}), INT_MAX);
}

static bool write_below(const char *directory, const char *name, const char *text)
{
    char *path = text_printf("%s/%s", directory, name);
    bool written = text_write_file(path, text);
    free(path);
    return written;
}

/* In a process of its own, which enters the group: what it is granted, or 0 where it may not. */
static int granted_inside(const char *group)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int count = write_below(group, "cgroup.procs", "0") ? process_cpus_granted("") : INT_MAX;
        _exit(count == INT_MAX ? 0 : count);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* With groups of the real system, where they can be made: the quota stands one above the process. */
TEST_CASE(quota_of_a_real_group_above_counts)
{
    int count = 0;
    char *outer = text_printf("/sys/fs/cgroup/channeld-test-%d", (int)getpid());
    char *inner = text_printf("%s/inner", outer);
    bool has_groups = access("/sys/fs/cgroup/cgroup.procs", F_OK) == 0;
    if (has_groups && mkdir(outer, 0700) == 0 && mkdir(inner, 0700) == 0 &&
        write_below(outer, "cpu.max", "250000 100000"))
        count = granted_inside(inner);
    (void)rmdir(inner);
    (void)rmdir(outer);
    free(inner);
    free(outer);
    if (count == 0)
        test_skip("no groups of processors: they need root and version 2 of cgroups");
    assert_int_equal(count, 3);
}

TEST_CASE(affinity_is_a_limit)
{
    cpu_set_t all;
    cpu_set_t one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    int count = process_cpus_available();
    assert_true(count >= 1 && count <= CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(process_cpus_available(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}
