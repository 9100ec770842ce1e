/* Name look-ups; see resolver.h. */
#include "redis/resolver.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Shared by the loop and the thread; the last user frees it. */
struct resolver_query {
    uv_async_t finished;
    atomic_int references;
    pthread_mutex_t lock;      /* guards the members that follow */
    struct resolver *resolver; /* NULL: cancelled, and `finished` is closing and must not be sent */
    struct resolver_result result;
    char host[];
};

static void resolver_query_unref(struct resolver_query *q)
{
    if (atomic_fetch_sub(&q->references, 1) > 1)
        return;
    pthread_mutex_destroy(&q->lock);
    free(q);
}

/* Blocks, unless `flags` has AI_NUMERICHOST. */
static void resolver_look_up(const char *host, int flags, struct resolver_result *out)
{
    const struct addrinfo hints = {.ai_flags = flags, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int err = getaddrinfo(host, NULL, &hints, &found);
    out->count = 0;
    if (err != 0) {
        out->error = err == EAI_SYSTEM ? uv_strerror(-errno) : gai_strerror(err);
        return;
    }
    for (const struct addrinfo *info = found; info != NULL && out->count < RESOLVE_ADDRESSES_MAX;
         info = info->ai_next)
        out->count += getnameinfo(info->ai_addr, info->ai_addrlen, out->address[out->count],
                                  RESOLVE_ADDRESS_SIZE, NULL, 0, NI_NUMERICHOST) == 0;
    freeaddrinfo(found);
    out->error = out->count > 0 ? NULL : "the name has no address";
}

static void *resolver_run(void *arg)
{
    struct resolver_query *q = arg;
    struct resolver_result result;
    resolver_look_up(q->host, 0, &result);
    pthread_mutex_lock(&q->lock);
    q->result = result;
    if (q->resolver != NULL)
        (void)uv_async_send(&q->finished); /* it fails only on a handle that is closing */
    pthread_mutex_unlock(&q->lock);
    resolver_query_unref(q);
    return NULL;
}

static void resolver_on_query_closed(uv_handle_t *finished)
{
    resolver_query_unref(finished->data);
}

void resolver_cancel(struct resolver *r)
{
    struct resolver_query *q = r->query;
    if (q == NULL)
        return;
    pthread_mutex_lock(&q->lock);
    q->resolver = NULL;
    pthread_mutex_unlock(&q->lock);
    uv_close((uv_handle_t *)&q->finished, resolver_on_query_closed);
    r->query = NULL;
}

static void resolver_on_finished(uv_async_t *finished)
{
    const struct resolver_query *q = finished->data;
    struct resolver *r = q->resolver;
    resolver_cancel(r);
    r->result = q->result;
    r->done(r->arg, r->result.error);
}

/* Signals are for the main thread. Returns 0 or a negative errno. */
static int resolver_start_thread(struct resolver_query *q)
{
    pthread_t thread;
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&thread, NULL, resolver_run, q);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err == 0)
        (void)pthread_detach(thread);
    return -err;
}

static int resolver_start_query(struct resolver *r, uv_loop_t *loop, const char *host)
{
    size_t size = strlen(host) + 1;
    struct resolver_query *q = calloc(1, sizeof *q + size);
    if (q == NULL)
        return -ENOMEM;
    int err = uv_async_init(loop, &q->finished, resolver_on_finished);
    if (err != 0) {
        free(q);
        return err;
    }
    memcpy(q->host, host, size);
    pthread_mutex_init(&q->lock, NULL); /* cannot fail with default attributes */
    q->finished.data = q;
    q->resolver = r;
    atomic_store(&q->references, 2);
    r->query = q;
    err = resolver_start_thread(q);
    if (err != 0) {
        resolver_cancel(r);
        resolver_query_unref(q);
    }
    return err;
}

void resolver_start(struct resolver *r, uv_loop_t *loop, const char *host,
                    void (*done)(void *arg, const char *error), void *arg)
{
    assert(r->query == NULL);
    r->done = done;
    r->arg = arg;
    resolver_look_up(host, AI_NUMERICHOST, &r->result);
    int err = r->result.count > 0 ? 0 : resolver_start_query(r, loop, host);
    if (r->query == NULL)
        done(arg, err != 0 ? uv_strerror(err) : NULL);
}

bool resolver_has_address(const struct resolver_result *r, const char *address)
{
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->address[i], address) == 0)
            return true;
    return false;
}
