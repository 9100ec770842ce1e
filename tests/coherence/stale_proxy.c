/* One thread per connection, and one table of cached responses for all; see stale_proxy.h. */

#include "coherence/stale_proxy.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coherence/clock.h"
#include "support/http.h"
#include "support/net.h"

enum { SLOTS = 8192, BUFFER_SIZE = 64 * 1024, CONNECTIONS_MAX = 4096 };

/* A cached response; one to another request with the same hash may replace it. */
struct entry {
    char *request; /* NULL: none */
    size_t request_length;
    char *response;
    size_t response_length;
    int64_t forwarded; /* when the request was */
};

struct stale_proxy {
    int port;
    int origin_port;
    int64_t max_age_ns;
    int listener;
    pthread_t acceptor;
    pthread_mutex_t lock;
    struct entry entry[SLOTS];
    int connections;
    pthread_t connection[CONNECTIONS_MAX];
};

/* A client's connection and the one to channeld that belongs to it. */
struct session {
    struct stale_proxy *proxy;
    int client;
    int origin;
    size_t request_length;
    char request[BUFFER_SIZE];
    size_t response_length;
    char response[BUFFER_SIZE];
};

static struct entry *proxy_entry(struct stale_proxy *proxy, const char *request, size_t length)
{
    uint64_t hash = 14695981039346656037U;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)request[i]) * 1099511628211U;
    return &proxy->entry[hash % SLOTS];
}

static char *proxy_copy(const char *data, size_t length)
{
    char *copy = malloc(length);
    if (copy == NULL)
        abort();
    return memcpy(copy, data, length);
}

/* Copies a cached response into session->response, unless it is too old. */
static bool session_lookup(struct session *session, size_t length)
{
    struct stale_proxy *proxy = session->proxy;
    (void)pthread_mutex_lock(&proxy->lock);
    const struct entry *entry = proxy_entry(proxy, session->request, length);
    bool hit = entry->request != NULL && entry->request_length == length &&
               memcmp(entry->request, session->request, length) == 0 &&
               clock_now() - entry->forwarded < proxy->max_age_ns;
    if (hit) {
        memcpy(session->response, entry->response, entry->response_length);
        session->response_length = entry->response_length;
    }
    (void)pthread_mutex_unlock(&proxy->lock);
    return hit;
}

static void session_store(struct session *session, size_t length, int64_t forwarded)
{
    struct stale_proxy *proxy = session->proxy;
    (void)pthread_mutex_lock(&proxy->lock);
    struct entry *entry = proxy_entry(proxy, session->request, length);
    free(entry->request);
    free(entry->response);
    entry->request = proxy_copy(session->request, length);
    entry->request_length = length; /* ANALYZER(malloc-leak): the proxy owns its entries */
    entry->response = proxy_copy(session->response, session->response_length);
    entry->response_length = session->response_length; /* ANALYZER(malloc-leak): as above */
    entry->forwarded = forwarded;
    (void)pthread_mutex_unlock(&proxy->lock);
}

static bool send_all(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t n = send(fd, data, length, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        data += n;
        length -= (size_t)n;
    }
    return true;
}

/* Forwards a request to channeld and reads the response; there is one at a time. */
static bool session_forward(struct session *session, size_t length)
{
    struct http_reply reply;
    session->response_length = 0;
    if (!send_all(session->origin, session->request, length))
        return false;
    while (http_measure(session->response, session->response_length, false, &reply) == 0) {
        ssize_t n = recv(session->origin, session->response + session->response_length,
                         sizeof session->response - session->response_length, 0);
        if (n <= 0)
            return false;
        session->response_length += (size_t)n;
    }
    return true;
}

static bool session_respond(struct session *session, size_t length)
{
    int64_t now = clock_now();
    if (!session_lookup(session, length)) {
        if (!session_forward(session, length))
            return false;
        session_store(session, length, now);
    }
    return send_all(session->client, session->response, session->response_length);
}

/* Responds to every request that is complete; false at the end. */
static bool session_respond_all(struct session *session)
{
    const char *end;
    while ((end = memmem(session->request, session->request_length, "\r\n\r\n", 4)) != NULL) {
        size_t length = (size_t)(end - session->request) + 4;
        if (!session_respond(session, length))
            return false;
        session->request_length -= length;
        memmove(session->request, session->request + length, session->request_length);
    }
    return true;
}

static void *session_main(void *arg)
{
    struct session *session = arg;
    bool open = session->origin >= 0;
    while (open) {
        ssize_t n = recv(session->client, session->request + session->request_length,
                         sizeof session->request - session->request_length, 0);
        if (n > 0)
            session->request_length += (size_t)n;
        open = n > 0 && session_respond_all(session);
    }
    (void)close(session->client);
    if (session->origin >= 0)
        (void)close(session->origin);
    free(session);
    return NULL;
}

static void *proxy_accept(void *arg)
{
    struct stale_proxy *proxy = arg;
    for (int fd; proxy->connections < CONNECTIONS_MAX && (fd = accept(proxy->listener, NULL, NULL)) >= 0;) {
        struct session *session = calloc(1, sizeof *session);
        if (session == NULL)
            abort();
        int one = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        session->proxy = proxy;
        session->client = fd;
        session->origin = net_connect(proxy->origin_port);
        if (pthread_create(&proxy->connection[proxy->connections++], NULL, session_main, session) != 0)
            abort();
    }
    return NULL;
}

struct stale_proxy *stale_proxy_new(int origin_port, int max_age_ms)
{
    struct stale_proxy *proxy = calloc(1, sizeof *proxy);
    if (proxy == NULL)
        abort();
    proxy->origin_port = origin_port;
    proxy->max_age_ns = (int64_t)max_age_ms * CLOCK_MS;
    proxy->port = net_reserve_port();
    proxy->listener = net_listen(proxy->port);
    (void)pthread_mutex_init(&proxy->lock, NULL);
    if (proxy->listener < 0 || pthread_create(&proxy->acceptor, NULL, proxy_accept, proxy) != 0)
        abort();
    return proxy;
}

int stale_proxy_port(const struct stale_proxy *proxy)
{
    return proxy->port;
}

void stale_proxy_free(struct stale_proxy *proxy)
{
    (void)shutdown(proxy->listener, SHUT_RDWR); /* ends accept() */
    (void)pthread_join(proxy->acceptor, NULL);
    for (int i = 0; i < proxy->connections; i++)
        (void)pthread_join(proxy->connection[i], NULL);
    (void)close(proxy->listener);
    for (int i = 0; i < SLOTS; i++) {
        free(proxy->entry[i].request);
        free(proxy->entry[i].response);
    }
    (void)pthread_mutex_destroy(&proxy->lock);
    free(proxy);
}
