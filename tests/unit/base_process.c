/* A process that keeps secrets cannot be dumped, its standard descriptors are taken, its metrics are its own.
 */
#include "base/process.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/check.h"

TEST_CASE(dumps_are_forbidden_and_allowed_again)
{
#ifdef __SANITIZE_ADDRESS__
    test_skip("AddressSanitizer traces the process to search for leaks");
#endif
    assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
    process_set_dumpable(false);
    assert_int_equal(prctl(PR_GET_DUMPABLE), 0);
    process_set_dumpable(true);
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

static double sample(const char *text, const char *name)
{
    char start[64];
    (void)snprintf(start, sizeof start, "\n%s ", name);
    const char *at = strstr(text, start);
    assert_non_null(at);
    return at == NULL ? 0 : strtod(at + strlen(start), NULL);
}

TEST_CASE(process_metrics_tell_of_this_process)
{
    SCOPED_BUF(out);
    process_metrics_write(&out, 1234567890);
    const char *text = buf_c_str(&out);
    assert_true(sample(text, "process_resident_memory_bytes") > 1e5);
    assert_true(sample(text, "process_threads") == 1);
    assert_true(sample(text, "process_open_fds") >= 3);
    assert_true(sample(text, "process_start_time_seconds") == 1234567890);
    assert_true(sample(text, "process_cpu_seconds_total") >= 0);
}
