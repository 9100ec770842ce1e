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
} names[NAMES];

static uint64_t delay_ns; /* of each look-up */

void net_delay_names(uint64_t ns)
{
    delay_ns = ns;
}

void net_set_name(const char *name, const uint8_t *hosts, size_t count)
{
    size_t at = 0;
    while (names[at].name != NULL && strcmp(names[at].name, name) != 0)
        at++;
    assert(at < NAMES - 1 && count <= HOSTS);
    names[at].name = name;
    names[at].count = count;
    memcpy(names[at].host, hosts, count);
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

int getaddrinfo(const char *name, const char *service, const struct addrinfo *req, struct addrinfo **pai)
{
    struct in_addr address;
    size_t count = 0;
    in_port_t port = service == NULL ? 0 : (in_port_t)strtol(service, NULL, 10);
    struct found *f = calloc(1, sizeof *f);
    (void)req;
    if (f == NULL)
        return EAI_MEMORY;
    if (inet_pton(AF_INET, name, &address) == 1)
        add(f, count++, address.s_addr, port);
    for (size_t i = 0; names[i].name != NULL && count == 0; i++)
        for (size_t n = 0; strcmp(names[i].name, name) == 0 && n < names[i].count; n++)
            add(f, count++, htonl(0x0a000000U | names[i].host[n]), port);
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
    (void)t.fn(t.arg);
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
    uint64_t most_ns = random_once_in(STREAM_NET, 4) ? 4 * SECOND : 100 * (uint64_t)MS;
    events_add_in(delay_ns + random_duration(STREAM_NET, most_ns), on_thread_due, t, 0);
    return 0;
}
