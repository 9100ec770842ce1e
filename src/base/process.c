/* Standard descriptors, core dumps, small system files; see process.h. */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

int process_open_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        int flags = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        int opened =
            open("/dev/null", flags); /* NOLINT(android-cloexec-open): the lowest number, which is fd */
        if (opened < 0)
            return -errno;
    }
    return 0;
}

bool file_first_line(const char *path, char *out, int size)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    bool read = fgets(out, size, f) != NULL;
    (void)fclose(f);
    return read;
}

static void set_dumpable(int dumpable)
{
#ifdef __SANITIZE_ADDRESS__
    (void)dumpable;
#else
    (void)prctl(PR_SET_DUMPABLE, dumpable, 0, 0, 0); /* fails only for values other than 0 and 1 */
#endif
}

void process_forbid_dumps(void)
{
    set_dumpable(0);
}

void process_allow_dumps(void)
{
    set_dumpable(1);
}
