/* Namespaces, veth pairs and packet filters, made with ip and iptables; see netns.h. */

#include "support/netns.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/process.h"
#include "support/test.h"
#include "support/text.h"

enum { NETNS_WORDS_MAX = 24, NETNS_SUBNETS = 1 << 15, NETNS_PER_TEST = 8 };

static const char netns_prefix[] = "chd";
static const char netns_folder[] = "/run/netns";

/* Runs one command; words are parted by blanks. Returns its status; what it printed is in its files. */
static int netns_try(struct netns *netns, struct process *process, const char *command)
{
    const char *argv[NETNS_WORDS_MAX + 1] = {NULL};
    size_t used = 0;
    char *rest = NULL;
    AUTOFREE char *words = text_printf("%s", command);
    for (char *word = strtok_r(words, " ", &rest); word != NULL && used < NETNS_WORDS_MAX;
         word = strtok_r(NULL, " ", &rest))
        argv[used++] = word;
    struct process_spec spec = {.name = "netns", .dir = netns->dir.path, .argv = argv};
    memset(process, 0, sizeof *process);
    return process_run(process, &spec);
}

static bool netns_can(struct netns *netns, char *command)
{
    struct process process;
    int status = netns_try(netns, &process, command);
    if (status != 0) {
        AUTOFREE char *errors = process_stderr(&process);
        print_message("no network namespace (%s: %d): %s\n", command, status, errors);
    }
    free(command);
    return status == 0;
}

static void netns_filter(struct netns *netns, const char *rule)
{
    struct process process;
    AUTOFREE char *command = text_printf("ip netns exec %s iptables -w %s", netns->name, rule);
    int status = netns_try(netns, &process, command);
    if (status != 0) {
        AUTOFREE char *errors = process_stderr(&process);
        print_error("%s: %s\n", command, errors);
        fail_msg("iptables ended with %d", status);
    }
}

/* Removes the namespaces of tests that have ended. */
static void netns_remove_leftovers(struct netns *netns)
{
    const struct dirent *entry = NULL;
    DIR *folder = opendir(netns_folder);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, netns_prefix, strlen(netns_prefix)) != 0)
            continue;
        long pid = strtol(entry->d_name + strlen(netns_prefix), NULL, 10);
        if (pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
            continue;
        struct process process;
        AUTOFREE char *command = text_printf("ip netns del %s", entry->d_name);
        (void)netns_try(netns, &process, command);
    }
    if (folder != NULL)
        (void)closedir(folder);
}

/* Addresses of 198.18.0.0/15, which is set aside for tests of networks (RFC 2544): four for each test. */
static void netns_choose(struct netns *netns)
{
    unsigned pid = (unsigned)getpid();
    static unsigned opened; /* none is used twice by one program: the kernel may keep state of the last one */
    unsigned number = opened++ % NETNS_PER_TEST;
    unsigned subnet = (pid * NETNS_PER_TEST + number) % NETNS_SUBNETS;
    (void)snprintf(netns->name, sizeof netns->name, "%s%ux%u", netns_prefix, pid, number);
    (void)snprintf(netns->near, sizeof netns->near, "198.%u.%u.%u", 18 + (subnet >> 14), (subnet >> 6) & 255,
                   (subnet & 63) * 4 + 1);
    (void)snprintf(netns->address, sizeof netns->address, "198.%u.%u.%u", 18 + (subnet >> 14),
                   (subnet >> 6) & 255, (subnet & 63) * 4 + 2);
}

bool netns_open(struct netns *netns)
{
    memset(netns, 0, sizeof *netns);
    tempdir_init(&netns->dir);
    netns_remove_leftovers(netns);
    netns_choose(netns);
    const char *name = netns->name;
    bool open =
        netns_can(netns, text_printf("ip netns add %s", name)) &&
        netns_can(netns, text_printf("ip link add %s type veth peer name eth0 netns %s", name, name)) &&
        netns_can(netns, text_printf("ip addr add %s/30 dev %s", netns->near, name)) &&
        netns_can(netns, text_printf("ip link set %s up", name)) &&
        netns_can(netns, text_printf("ip -n %s addr add %s/30 dev eth0", name, netns->address)) &&
        netns_can(netns, text_printf("ip -n %s link set eth0 up", name)) &&
        netns_can(netns, text_printf("ip -n %s link set lo up", name)) &&
        netns_can(netns, text_printf("ip netns exec %s iptables -w -A INPUT -m statistic --mode random "
                                     "--probability 0.5 -j ACCEPT",
                                     name)) &&
        netns_can(netns, text_printf("ip netns exec %s iptables -w -F", name));
    if (!open)
        netns_close(netns);
    return open;
}

void netns_close(struct netns *netns)
{
    if (netns->name[0] == '\0')
        return;
    struct process process;
    AUTOFREE char *pair = text_printf("ip link del %s", netns->name);
    AUTOFREE char *space = text_printf("ip netns del %s", netns->name);
    (void)netns_try(netns, &process, pair); /* at once; with the namespace it would go some time later */
    (void)netns_try(netns, &process, space);
    tempdir_fini(&netns->dir);
    netns->name[0] = '\0';
}

void netns_drop_in(struct netns *netns)
{
    netns_filter(netns, "-I INPUT -j DROP");
}

void netns_drop_out(struct netns *netns)
{
    netns_filter(netns, "-I OUTPUT -j DROP");
}

void netns_lose(struct netns *netns, int percent)
{
    AUTOFREE char *in =
        text_printf("-I INPUT -m statistic --mode random --probability 0.%02d -j DROP", percent);
    AUTOFREE char *out =
        text_printf("-I OUTPUT -m statistic --mode random --probability 0.%02d -j DROP", percent);
    netns_filter(netns, in);
    netns_filter(netns, out);
}

void netns_refuse(struct netns *netns)
{
    netns_filter(netns, "-I INPUT -p tcp -j REJECT --reject-with tcp-reset");
}

void netns_restore(struct netns *netns)
{
    netns_filter(netns, "-F");
}
