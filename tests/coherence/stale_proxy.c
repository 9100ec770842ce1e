/* One thread per connection, and one table of cached responses for all connections; see stale_proxy.h. */

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

enum { SLOTS = 8192, POLL_MS = 100, CONNECTIONS_MAX = 4096 };

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
    struct http_conn client;
    struct http_conn origin;
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

/* A copy of the cached response, owned; NULL when there is none or it is too old. */
static char *proxy_lookup(struct stale_proxy *proxy, const char *request, size_t length,
                          size_t *response_length)
{
    char *response = NULL;
    (void)pthread_mutex_lock(&proxy->lock);
    const struct entry *entry = proxy_entry(proxy, request, length);
    if (entry->request != NULL && entry->request_length == length &&
        memcmp(entry->request, request, length) == 0 && clock_now() - entry->forwarded < proxy->max_age_ns) {
        *response_length = entry->response_length;
        response = proxy_copy(entry->response, entry->response_length);
    }
    (void)pthread_mutex_unlock(&proxy->lock);
    return response;
}

/* Takes the request and the response over. */
static void proxy_store(struct stale_proxy *proxy, const struct entry *new)
{
    (void)pthread_mutex_lock(&proxy->lock);
    struct entry *entry = proxy_entry(proxy, new->request, new->request_length);
    free(entry->request);
    free(entry->response);
    *entry = *new;
    (void)pthread_mutex_unlock(&proxy->lock);
}

/* Waits until something has been received; false at the end of the connection. */
static bool session_receive(struct http_conn *conn)
{
    int got;
    while ((got = http_receive(conn)) == 0)
        (void)http_is_readable(conn, POLL_MS);
    return got > 0;
}

/* Forwards a request to channeld and passes the response on; there is one at a time. */
static bool session_forward(struct session *session, const char *request, size_t length)
{
    struct entry new = {.request_length = length, .forwarded = clock_now()};
    struct http_reply reply;
    int taken;
    if (http_send(&session->origin, request, length) != 0)
        return false;
    while ((taken = http_take(&session->origin, false, &reply)) == 0) {
        if (!session_receive(&session->origin))
            return false;
    }
    if (taken < 0)
        return false;
    new.response_length = reply.head_length + reply.body_length;
    bool sent = http_send(&session->client, reply.head, new.response_length) == 0;
    new.request = proxy_copy(request, length);
    new.response = proxy_copy(reply.head, new.response_length);
    proxy_store(session->proxy, &new);
    return sent;
}

static bool session_respond(struct session *session, const char *request, size_t length)
{
    size_t response_length = 0;
    char *response = proxy_lookup(session->proxy, request, length, &response_length);
    if (response == NULL)
        return session_forward(session, request, length);
    bool sent = http_send(&session->client, response, response_length) == 0;
    free(response);
    return sent;
}

static void *session_main(void *arg)
{
    struct session *session = arg;
    struct http_conn *client = &session->client;
    bool open = session->origin.fd >= 0;
    while (open && session_receive(client)) {
        const char *end;
        while (open && (end = memmem(client->data + client->start, client->length, "\r\n\r\n", 4)) != NULL) {
            const char *request = client->data + client->start;
            size_t length = (size_t)(end - request) + 4;
            open = session_respond(session, request, length);
            client->start += length;
            client->length -= length;
        }
    }
    http_close(client);
    http_close(&session->origin);
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
        session->client.fd = fd;
        (void)http_open(&session->origin, proxy->origin_port);
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
