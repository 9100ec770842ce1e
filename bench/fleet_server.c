/* See fleet_server.h. */
#include "fleet_server.h"

#include "common.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ARGS_MAX = 64, NAP_US = 5000, START_TRIES = 12000 };

static void nap(void)
{
    (void)usleep(NAP_US);
}

static int unused_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        die("no unused port: %s", strerror(errno));
    (void)close(fd);
    return ntohs(address.sin_port);
}

/* --- Starting and stopping ------------------------------------------------------------------------------ */

static _Noreturn void run_server(const struct server *s, const struct server_options *o)
{
    char port[16];
    char master[16];
    char *args = o->args != NULL ? strdup(o->args) : NULL;
    char *rest = NULL;
    const char *argv[ARGS_MAX] = {o->path,     "--port",
                                  port,        "--bind",
                                  "127.0.0.1", "--save",
                                  "",          "--appendonly",
                                  "no",        "--dir",
                                  s->dir,      "--maxclients",
                                  "20000",     "--hash-max-listpack-value",
                                  "1024",      "--repl-diskless-sync",
                                  "yes",       "--repl-diskless-sync-delay",
                                  "0",         "--daemonize",
                                  "no"};
    int argc = 0;
    while (argv[argc] != NULL)
        argc++;
    (void)snprintf(port, sizeof port, "%d", s->port);
    (void)snprintf(master, sizeof master, "%d", o->master_port);
    if (o->master_port != 0) {
        argv[argc++] = "--replicaof";
        argv[argc++] = "127.0.0.1";
        argv[argc++] = master;
    }
    for (char *arg = args != NULL ? strtok_r(args, " ", &rest) : NULL; arg != NULL && argc < ARGS_MAX - 1;
         arg = strtok_r(NULL, " ", &rest))
        argv[argc++] = arg;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET((size_t)o->core, &cores);
    (void)sched_setaffinity(0, sizeof cores, &cores);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    char log_path[sizeof s->dir + 4];
    (void)snprintf(log_path, sizeof log_path, "%s/log", s->dir);
    int log = open(log_path, O_WRONLY | O_CREAT, 0600);
    (void)dup2(log, STDOUT_FILENO);
    (void)execvp(o->path, (char **)argv);
    die("%s: %s", o->path, strerror(errno));
}

static bool accepts(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool connected = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    (void)close(fd);
    return connected;
}

/* A server that loads data or synchronises refuses commands; a replica's link is up only afterwards. */
static bool is_ready(struct server *s, bool replica)
{
    if (server_info(s, "loading") != 0)
        return false;
    char *info = resp_ask(&s->control, "INFO replication");
    bool linked = strstr(info, "master_link_status:up") != NULL;
    free(info);
    return !replica || linked;
}

void server_start(struct server *s, const struct server_options *o)
{
    *s = (struct server){.port = unused_port()};
    const char *folder = getenv("TMPDIR");
    (void)snprintf(s->dir, sizeof s->dir, "%s/server-XXXXXX", folder != NULL ? folder : "/tmp");
    if (mkdtemp(s->dir) == NULL)
        die("%s: %s", s->dir, strerror(errno));
    s->pid = fork();
    if (s->pid < 0)
        die("fork: %s", strerror(errno));
    if (s->pid == 0)
        run_server(s, o);
    for (int tries = 0; !accepts(s->port); tries++) {
        if (tries == START_TRIES || waitpid(s->pid, NULL, WNOHANG) != 0)
            die("%s did not start; see %s/log", o->path, s->dir);
        nap();
    }
    resp_open(&s->control, s->port);
    while (!is_ready(s, o->master_port != 0))
        nap();
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st;
    (void)type;
    (void)walk;
    return remove(path);
}

void server_stop(struct server *s)
{
    resp_close(&s->control);
    (void)kill(s->pid, SIGKILL);
    (void)waitpid(s->pid, NULL, 0);
    (void)nftw(s->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* --- Questions ------------------------------------------------------------------------------------------ */

uint64_t server_cpu_ns(const struct server *s)
{
    clockid_t clock;
    struct timespec t;
    int err = clock_getcpuclockid(s->pid, &clock);
    if (err != 0 || clock_gettime(clock, &t) != 0)
        die("no clock of process %d", (int)s->pid);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* The value of "\nFIELD:", or NULL. */
static const char *find_field(const char *info, const char *field)
{
    size_t len = strlen(field);
    for (const char *at = strstr(info, field); at != NULL; at = strstr(at + 1, field))
        if (at > info && at[-1] == '\n' && at[len] == ':')
            return at + len + 1;
    return NULL;
}

long long server_info(struct server *s, const char *field)
{
    char *info = resp_ask(&s->control, "INFO everything");
    const char *value = find_field(info, field);
    long long number = value != NULL ? strtoll(value, NULL, 10) : 0;
    free(info);
    return number;
}

const char *server_version(struct server *s)
{
    static char version[64];
    char *info = resp_ask(&s->control, "INFO server");
    const char *value = find_field(info, "valkey_version");
    const char *name = value != NULL ? "valkey" : "redis";
    if (value == NULL)
        value = find_field(info, "redis_version");
    (void)snprintf(version, sizeof version, "%s %.*s", name, (int)strcspn(value, "\r\n"), value);
    free(info);
    return version;
}

void server_catch_up(struct server *replica, struct server *master)
{
    long long offset = server_info(master, "master_repl_offset");
    while (server_info(replica, "slave_repl_offset") < offset)
        nap();
}
