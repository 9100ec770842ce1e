/* A queue of bytes with the times at which they may go on; see proxy_pipe.h. */

#include "support/proxy_pipe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "support/wait.h"

enum { CHUNK_SIZE = 16384 };

struct proxy_chunk {
    struct proxy_chunk *next;
    int64_t due;
    size_t length, sent;
    char data[];
};

static void proxy_pipe_append(struct proxy_pipe *pipe, const char *data, size_t length, int64_t due)
{
    struct proxy_chunk *chunk = malloc(sizeof *chunk + length);
    if (chunk == NULL)
        abort();
    *chunk = (struct proxy_chunk){.due = due, .length = length};
    memcpy(chunk->data, data, length);
    if (pipe->last != NULL)
        pipe->last->next = chunk;
    else
        pipe->first = chunk;
    pipe->last = chunk;
}

bool proxy_pipe_fill(struct proxy_pipe *pipe, int delay_ms, size_t rate)
{
    char buffer[CHUNK_SIZE];
    ssize_t got = recv(pipe->from, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    if (got == 0) {
        pipe->ended = true;
        return true;
    }
    int64_t due = wait_now_ms() + delay_ms;
    if (due < pipe->last_due)
        due = pipe->last_due;
    if (rate > 0)
        due += (int64_t)((size_t)got * 1000 / rate);
    pipe->last_due = due;
    proxy_pipe_append(pipe, buffer, (size_t)got, due);
    return true;
}

size_t proxy_pipe_due(const struct proxy_pipe *pipe)
{
    const struct proxy_chunk *chunk = pipe->first;
    return chunk != NULL && chunk->due <= wait_now_ms() ? chunk->length - chunk->sent : 0;
}

bool proxy_pipe_send(struct proxy_pipe *pipe, size_t length, size_t *sent)
{
    struct proxy_chunk *chunk = pipe->first;
    ssize_t n = send(pipe->to, chunk->data + chunk->sent, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    *sent = n > 0 ? (size_t)n : 0;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    chunk->sent += *sent;
    if (chunk->sent == chunk->length) {
        pipe->first = chunk->next;
        if (pipe->first == NULL)
            pipe->last = NULL;
        free(chunk);
    }
    return true;
}

void proxy_pipe_finish(struct proxy_pipe *pipe)
{
    if (!pipe->ended || pipe->finished || pipe->first != NULL)
        return;
    (void)shutdown(pipe->to, SHUT_WR);
    pipe->finished = true;
}

int proxy_pipe_wait(const struct proxy_pipe *pipe, int ms)
{
    int64_t left = pipe->first != NULL ? pipe->first->due - wait_now_ms() : ms;
    if (left > ms)
        return ms;
    return left > 0 ? (int)left : 0;
}

void proxy_pipe_fini(struct proxy_pipe *pipe)
{
    while (pipe->first != NULL) {
        struct proxy_chunk *chunk = pipe->first;
        pipe->first = chunk->next;
        free(chunk);
    }
}
