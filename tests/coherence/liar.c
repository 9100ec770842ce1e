/* A thread for each connection, and one table of remembered answers for all; see liar.h. */

#include "coherence/liar.h"

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
#include "coherence/lane.h"
#include "support/net.h"

enum { SLOTS = 8192, BUFFER_SIZE = 64 * 1024, CONNECTIONS_MAX = 4096 };

/* One remembered answer; a newer one to another request may take its place. */
struct lie {
    char *request; /* NULL: none */
    size_t request_length;
    char *answer;
    size_t answer_length;
    int64_t asked;
};

struct liar {
    int port;
    int target_port;
    int64_t lie_ns;
    int listener;
    pthread_t acceptor;
    pthread_mutex_t lock;
    struct lie lie[SLOTS];
    int connections;
    pthread_t connection[CONNECTIONS_MAX];
};

struct dialogue {
    struct liar *liar;
    int client;
    int target;
    size_t used;
    char request[BUFFER_SIZE];
    size_t answer_used;
    char answer[BUFFER_SIZE];
};

static struct lie *liar_slot(struct liar *liar, const char *request, size_t length)
{
    uint64_t hash = 14695981039346656037U;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)request[i]) * 1099511628211U;
    return &liar->lie[hash % SLOTS];
}

static char *liar_copy(const char *data, size_t length)
{
    char *copy = malloc(length);
    if (copy == NULL)
        abort();
    return memcpy(copy, data, length);
}

/* Takes what is remembered into dialogue->answer. */
static bool liar_recall(struct dialogue *dialogue, size_t length)
{
    struct liar *liar = dialogue->liar;
    (void)pthread_mutex_lock(&liar->lock);
    const struct lie *lie = liar_slot(liar, dialogue->request, length);
    bool good = lie->request != NULL && lie->request_length == length &&
                memcmp(lie->request, dialogue->request, length) == 0 &&
                clock_now() - lie->asked < liar->lie_ns;
    if (good) {
        memcpy(dialogue->answer, lie->answer, lie->answer_length);
        dialogue->answer_used = lie->answer_length;
    }
    (void)pthread_mutex_unlock(&liar->lock);
    return good;
}

static void liar_remember(struct dialogue *dialogue, size_t length, int64_t asked)
{
    struct liar *liar = dialogue->liar;
    (void)pthread_mutex_lock(&liar->lock);
    struct lie *lie = liar_slot(liar, dialogue->request, length);
    free(lie->request);
    free(lie->answer);
    lie->request = liar_copy(dialogue->request, length);
    lie->request_length = length; /* ANALYZER(malloc-leak): the slot is the liar's */
    lie->answer = liar_copy(dialogue->answer, dialogue->answer_used);
    lie->answer_length = dialogue->answer_used; /* ANALYZER(malloc-leak): as above */
    lie->asked = asked;
    (void)pthread_mutex_unlock(&liar->lock);
}

static bool liar_send(int fd, const char *data, size_t length)
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

/* Asks channeld; one request is under way at a time, so what comes is its answer. */
static bool liar_ask(struct dialogue *dialogue, size_t length)
{
    int status = 0;
    size_t head = 0;
    size_t body = 0;
    dialogue->answer_used = 0;
    if (!liar_send(dialogue->target, dialogue->request, length))
        return false;
    while (lane_measure(dialogue->answer, dialogue->answer_used, &status, &head, &body) == 0) {
        ssize_t n = recv(dialogue->target, dialogue->answer + dialogue->answer_used,
                         sizeof dialogue->answer - dialogue->answer_used, 0);
        if (n <= 0)
            return false;
        dialogue->answer_used += (size_t)n;
    }
    return true;
}

static bool liar_answer(struct dialogue *dialogue, size_t length)
{
    int64_t asked = clock_now();
    if (!liar_recall(dialogue, length)) {
        if (!liar_ask(dialogue, length))
            return false;
        liar_remember(dialogue, length, asked);
    }
    return liar_send(dialogue->client, dialogue->answer, dialogue->answer_used);
}

/* Answers every request that is complete; false at the end. */
static bool liar_answer_all(struct dialogue *dialogue)
{
    const char *end;
    while ((end = memmem(dialogue->request, dialogue->used, "\r\n\r\n", 4)) != NULL) {
        size_t length = (size_t)(end - dialogue->request) + 4;
        if (!liar_answer(dialogue, length))
            return false;
        dialogue->used -= length;
        memmove(dialogue->request, dialogue->request + length, dialogue->used);
    }
    return true;
}

static void *liar_talk(void *arg)
{
    struct dialogue *dialogue = arg;
    bool open = dialogue->target >= 0;
    while (open) {
        ssize_t n = recv(dialogue->client, dialogue->request + dialogue->used,
                         sizeof dialogue->request - dialogue->used, 0);
        if (n > 0)
            dialogue->used += (size_t)n;
        open = n > 0 && liar_answer_all(dialogue);
    }
    (void)close(dialogue->client);
    if (dialogue->target >= 0)
        (void)close(dialogue->target);
    free(dialogue);
    return NULL;
}

static void *liar_accept(void *arg)
{
    struct liar *liar = arg;
    for (int fd; liar->connections < CONNECTIONS_MAX && (fd = accept(liar->listener, NULL, NULL)) >= 0;) {
        struct dialogue *dialogue = calloc(1, sizeof *dialogue);
        if (dialogue == NULL)
            abort();
        int one = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        dialogue->liar = liar;
        dialogue->client = fd;
        dialogue->target = net_connect(liar->target_port);
        if (pthread_create(&liar->connection[liar->connections++], NULL, liar_talk, dialogue) != 0)
            abort();
    }
    return NULL;
}

struct liar *liar_new(int target_port, int lie_ms)
{
    struct liar *liar = calloc(1, sizeof *liar);
    if (liar == NULL)
        abort();
    liar->target_port = target_port;
    liar->lie_ns = (int64_t)lie_ms * CLOCK_MS;
    liar->port = net_reserve_port();
    liar->listener = net_listen(liar->port);
    (void)pthread_mutex_init(&liar->lock, NULL);
    if (liar->listener < 0 || pthread_create(&liar->acceptor, NULL, liar_accept, liar) != 0)
        abort();
    return liar;
}

int liar_port(const struct liar *liar)
{
    return liar->port;
}

void liar_free(struct liar *liar)
{
    (void)shutdown(liar->listener, SHUT_RDWR); /* ends accept() */
    (void)pthread_join(liar->acceptor, NULL);
    for (int i = 0; i < liar->connections; i++)
        (void)pthread_join(liar->connection[i], NULL);
    (void)close(liar->listener);
    for (int i = 0; i < SLOTS; i++) {
        free(liar->lie[i].request);
        free(liar->lie[i].answer);
    }
    (void)pthread_mutex_destroy(&liar->lock);
    free(liar);
}
