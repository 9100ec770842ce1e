/*
 * Name look-ups; see resolver.h. The thread and the loop share a query under its lock. The thread sends
 * `finished` unless the query was cancelled before. After a cancellation the handle is closing.
 */
#include "redis/resolver.h"

#include "base/clock.h"

#include <arpa/inet.h>
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
    /* Used by the loop only. */
    struct resolver *resolver;
    uint64_t ended_ms;   /* when the thread had ended; 0: not yet */
    const char *failure; /* the text of an error, once it has ended */

    atomic_int references;
    pthread_mutex_t lock; /* guards the members that follow */
    bool cancelled;       /* `finished` is closing and must not be sent */
    int error;            /* the result of getaddrinfo */
    int system_error;     /* errno, if `error` is EAI_SYSTEM */
    int count;
    char address[RESOLVE_ADDRESSES_MAX][RESOLVE_ADDRESS_SIZE];
    char host[];
};

static void resolver_query_unref(struct resolver_query *q)
{
    if (atomic_fetch_sub(&q->references, 1) > 1)
        return;
    pthread_mutex_destroy(&q->lock);
    free(q);
}

static void resolver_add_address(struct resolver_query *q, const struct addrinfo *info)
{
    if (q->count == RESOLVE_ADDRESSES_MAX)
        return;
    if (getnameinfo(info->ai_addr, info->ai_addrlen, q->address[q->count], RESOLVE_ADDRESS_SIZE, NULL, 0,
                    NI_NUMERICHOST) == 0)
        q->count++;
}

static void *resolver_look_up(void *arg)
{
    struct resolver_query *q = arg;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(q->host, NULL, &hints, &found);
    int system_error = errno;
    pthread_mutex_lock(&q->lock);
    q->error = error;
    q->system_error = system_error;
    for (const struct addrinfo *info = error == 0 ? found : NULL; info != NULL; info = info->ai_next)
        resolver_add_address(q, info);
    if (!q->cancelled)
        (void)uv_async_send(&q->finished); /* it fails only on a handle that is closing */
    pthread_mutex_unlock(&q->lock);
    if (error == 0)
        freeaddrinfo(found);
    resolver_query_unref(q);
    return NULL;
}

static void resolver_on_query_closed(uv_handle_t *finished)
{
    resolver_query_unref(finished->data);
}

static const char *resolver_query_error(const struct resolver_query *q)
{
    if (q->error == EAI_SYSTEM)
        return strerror(q->system_error);
    if (q->error != 0)
        return gai_strerror(q->error);
    return q->count > 0 ? NULL : "the name has no address";
}

/* Also one that has ended. */
static void resolver_cancel_query(struct resolver_query **q)
{
    if (*q == NULL)
        return;
    pthread_mutex_lock(&(*q)->lock);
    (*q)->cancelled = true;
    pthread_mutex_unlock(&(*q)->lock);
    uv_close((uv_handle_t *)&(*q)->finished, resolver_on_query_closed);
    *q = NULL;
}

/* The place of the query for this name; a free one (NULL) if there is none. */
static struct resolver_query **resolver_place_of(struct resolver *r, const char *host)
{
    for (int i = 0; i < RESOLVER_QUERIES_MAX; i++)
        if (r->query[i] != NULL && strcmp(r->query[i]->host, host) == 0)
            return &r->query[i];
    struct resolver_query **place = &r->query[r->started++ % RESOLVER_QUERIES_MAX];
    resolver_cancel_query(place);
    return place;
}

/* Takes the result of a query that has ended, and passes it on. */
static void resolver_finish(struct resolver *r)
{
    const struct resolver_query *q = r->waiting;
    const char *failure = q->failure;
    r->count = q->count;
    memcpy(r->address, q->address, sizeof r->address);
    r->waiting = NULL;
    resolver_cancel_query(resolver_place_of(r, q->host));
    r->done(r->arg, failure);
}

static void resolver_on_finished(uv_async_t *finished)
{
    struct resolver_query *q = finished->data;
    pthread_mutex_lock(&q->lock);
    q->failure = resolver_query_error(q);
    pthread_mutex_unlock(&q->lock);
    q->ended_ms = clock_boot_ms();
    if (q == q->resolver->waiting)
        resolver_finish(q->resolver);
}

/* The family of a numeric address, and its bytes; AF_UNSPEC for a name. */
static int resolver_parse_numeric(const char *host, unsigned char raw[sizeof(struct in6_addr)])
{
    if (inet_pton(AF_INET, host, raw) == 1)
        return AF_INET;
    return inet_pton(AF_INET6, host, raw) == 1 ? AF_INET6 : AF_UNSPEC;
}

bool resolver_is_numeric(const char *host)
{
    unsigned char raw[sizeof(struct in6_addr)];
    return resolver_parse_numeric(host, raw) != AF_UNSPEC;
}

/* Takes a numeric address, which needs no look-up. False when `host` is a name. */
static bool resolver_take_numeric(struct resolver *r, const char *host)
{
    unsigned char raw[sizeof(struct in6_addr)];
    int family = resolver_parse_numeric(host, raw);
    if (family == AF_UNSPEC)
        return false;
    r->count = inet_ntop(family, raw, r->address[0], sizeof r->address[0]) != NULL; /* there is room for it */
    return true;
}

/* Signals are for the main thread. Returns 0 or a negative errno. */
static int resolver_start_thread(struct resolver_query *q)
{
    pthread_t thread;
    pthread_attr_t detached;
    sigset_t all;
    sigset_t old;
    int err = pthread_attr_init(&detached);
    if (err != 0)
        return -err;
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&thread, &detached, resolver_look_up, q);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&detached);
    return -err;
}

static int resolver_start_query(struct resolver *r, uv_loop_t *loop, const char *host,
                                struct resolver_query **out)
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
    err = resolver_start_thread(q);
    if (err != 0) {
        resolver_query_unref(q);
        uv_close((uv_handle_t *)&q->finished, resolver_on_query_closed);
        return err;
    }
    *out = q;
    return 0;
}

/* A query that was left may still find its name, or has found it lately. */
static bool resolver_is_usable(const struct resolver_query *q)
{
    return q->ended_ms == 0 || (q->failure == NULL && clock_boot_ms() < q->ended_ms + RESOLVER_KEPT_MS);
}

void resolver_start(struct resolver *r, uv_loop_t *loop, const char *host,
                    void (*done)(void *arg, const char *error), void *arg)
{
    assert(r->waiting == NULL);
    r->count = 0;
    if (resolver_take_numeric(r, host)) {
        done(arg, NULL);
        return;
    }
    struct resolver_query **query = resolver_place_of(r, host);
    if (*query != NULL && !resolver_is_usable(*query))
        resolver_cancel_query(query);
    int err = *query != NULL ? 0 : resolver_start_query(r, loop, host, query);
    if (err != 0) {
        done(arg, uv_strerror(err));
        return;
    }
    r->waiting = *query;
    r->done = done;
    r->arg = arg;
    if (r->waiting->ended_ms != 0)
        resolver_finish(r);
}

void resolver_cancel(struct resolver *r)
{
    resolver_leave(r);
    for (int i = 0; i < RESOLVER_QUERIES_MAX; i++)
        resolver_cancel_query(&r->query[i]);
}
