/* A process that keeps secrets cannot be dumped, its standard descriptors are taken, small files are read. */
#include "base/process.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/check.h"

TEST_CASE(dumps_are_forbidden_and_allowed_again)
{
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
    process_forbid_dumps();
    assert_int_equal(prctl(PR_GET_DUMPABLE), 0);
    process_allow_dumps();
    assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
}

/* In a child, whose descriptors are closed; the exit code tells what is wrong. */
static int standard_descriptors(void)
{
    char byte = 0;
    close(STDIN_FILENO);
    close(STDERR_FILENO);
    if (process_open_standard_descriptors() != 0)
        return 1;
    if (fcntl(STDIN_FILENO, F_GETFD) < 0 || fcntl(STDERR_FILENO, F_GETFD) < 0)
        return 2;
    if (read(STDIN_FILENO, &byte, 1) >= 0)
        return 3;
    return write(STDERR_FILENO, &byte, 1) >= 0 ? 4 : 0;
}

TEST_CASE(closed_standard_descriptors_are_opened_and_fail)
{
    pid_t child = fork();
    if (child == 0)
        _exit(standard_descriptors());
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST_CASE(first_line_is_cut_to_its_room)
{
    char line[32];
    assert_true(file_first_line("/proc/self/comm", line, sizeof line));
    assert_non_null(strchr(line, '\n'));
    assert_true(file_first_line("/proc/self/comm", line, 3));
    assert_int_equal(strlen(line), 2);
    assert_false(file_first_line("/nonexistent", line, sizeof line));
}
