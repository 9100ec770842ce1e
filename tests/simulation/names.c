/* Names of the simulated network, and the thread that looks a name up; see net.h. */
#include "simulation/events.h"
#include "simulation/net.h"
#include "simulation/random.h"
#include "simulation/trace.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 16, HOSTS = 4 };

static struct {
    const char *name;
    size_t count;
    uint8_t host[HOSTS];
    size_t subset, turns; /* an answer has so many of them, in turn; 0: all */
    unsigned failures;    /* look-ups that find nothing, from now on */
} names[NAMES];

static uint64_t delay_ns; /* of each look-up */
static uint64_t most_ns;  /* that it takes besides; 0: as names do */
static void (*on_look_up)(bool begins);

void net_watch_look_ups(void (*looks_up)(bool begins))
{
    on_look_up = looks_up;
}

void net_hasten_names(uint64_t ns)
{
    most_ns = ns;
}

void net_delay_names(uint64_t ns)
{
    delay_ns = ns;
    most_ns = 0;
}

static size_t find_name(const char *name)
{
    size_t at = 0;
    while (names[at].name != NULL && strcmp(names[at].name, name) != 0)
        at++;
    return at;
}

void net_set_name(const char *name, const uint8_t *hosts, size_t count)
{
    size_t at = find_name(name);
    assert(at < NAMES - 1 && count <= HOSTS);
    names[at].name = name;
    names[at].count = count;
    names[at].subset = 0;
    memcpy(names[at].host, hosts, count);
}

void net_rotate_name(const char *name, size_t subset)
{
    names[find_name(name)].subset = subset;
}

void net_fail_name(const char *name, unsigned times)
{
    names[find_name(name)].failures = times;
}

struct found {
    struct addrinfo info[HOSTS];
    struct sockaddr_in address[HOSTS];
};

static void add(struct found *f, size_t at, in_addr_t address, in_port_t port)
{
    assert(at < HOSTS);
    f->address[at] =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = address};
    f->info[at] = (struct addrinfo){.ai_family = AF_INET,
                                    .ai_socktype = SOCK_STREAM,
                                    .ai_addrlen = sizeof f->address[at],
                                    .ai_addr = (struct sockaddr *)&f->address[at]};
}

/* Returns how many the answer has. */
static size_t add_hosts(struct found *f, size_t at, in_port_t port)
{
    size_t count = names[at].subset > 0 ? names[at].subset : names[at].count;
    size_t first = names[at].subset > 0 ? names[at].turns++ : 0;
    for (size_t i = 0; i < count; i++)
        add(f, i, htonl(0x0a000000U | names[at].host[(first + i) % names[at].count]), port);
    return count;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *req, struct addrinfo **pai)
{
    struct in_addr address;
    size_t count = 0;
    in_port_t port = service == NULL ? 0 : (in_port_t)strtol(service, NULL, 10);
    struct found *f = calloc(1, sizeof *f);
    if (f == NULL)
        return EAI_MEMORY;
    size_t at = find_name(name);
    if (inet_pton(AF_INET, name, &address) == 1)
        add(f, count++, address.s_addr, port);
    else if ((req->ai_flags & AI_NUMERICHOST) != 0)
        count = 0;
    else if (names[at].failures > 0)
        names[at].failures--;
    else
        count = add_hosts(f, at, port);
    if (count == 0) {
        free(f);
        return EAI_NONAME;
    }
    for (size_t i = 1; i < count; i++)
        f->info[i - 1].ai_next = &f->info[i];
    *pai = f->info;
    return 0; /* ANALYZER(malloc-leak): freeaddrinfo() has it */
}

void freeaddrinfo(struct addrinfo *ai)
{
    free(ai);
}

/* A thread runs all at once, when its time has come. */
struct thread {
    void *(*fn)(void *arg);
    void *arg;
};

static void on_thread_due(void *arg, uint64_t number)
{
    struct thread t = *(struct thread *)arg;
    (void)number;
    free(arg);
    if (on_look_up != NULL)
        on_look_up(false);
    (void)t.fn(t.arg);
}

int pthread_detach(pthread_t th)
{
    (void)th;
    return 0;
}

int pthread_create(pthread_t *newthread, const pthread_attr_t *attr, void *(*start_routine)(void *arg),
                   void *arg)
{
    struct thread *t = malloc(sizeof *t);
    (void)attr;
    if (t == NULL)
        return EAGAIN;
    *newthread = 0;
    *t = (struct thread){start_routine, arg};
    if (on_look_up != NULL)
        on_look_up(true);
    uint64_t limit_ns = most_ns > 0                     ? most_ns
                        : random_once_in(STREAM_NET, 4) ? 4 * SECOND
                                                        : 100 * (uint64_t)MS;
    events_add_in(delay_ns + random_duration(STREAM_NET, limit_ns), on_thread_due, t, 0);
    return 0;
}
