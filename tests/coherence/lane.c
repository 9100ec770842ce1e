/* The client's side of pipelining; see lane.h. */

#include "coherence/lane.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/net.h"

enum { READ_SIZE = 256 * 1024, STATUS_AT = 9, STATUS_LINE_MIN = 13 };

int lane_open(struct lane *lane, int port)
{
    int fd = net_connect(port);
    if (fd < 0)
        return fd;
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    lane->fd = fd;
    lane->in_from = lane->in_to = 0;
    lane->asked = lane->answered = lane->since_opened = 0;
    return 0;
}

void lane_close(struct lane *lane)
{
    if (lane->fd >= 0)
        (void)close(lane->fd);
    free(lane->in);
    lane->fd = -1;
    lane->in = NULL;
    lane->capacity = lane->in_from = lane->in_to = 0;
    lane->asked = lane->answered = 0;
}

bool lane_send(struct lane *lane, const char *text, size_t length, int count)
{
    lane->asked = count;
    lane->answered = 0;
    lane->since_opened += count;
    /* Nothing else is under way, so the kernel takes a few hundred bytes at once. */
    return send(lane->fd, text, length, MSG_NOSIGNAL) == (ssize_t)length;
}

static void lane_reserve(struct lane *lane)
{
    if (lane->in_from > 0) {
        memmove(lane->in, lane->in + lane->in_from, lane->in_to - lane->in_from);
        lane->in_to -= lane->in_from;
        lane->in_from = 0;
    }
    if (lane->capacity - lane->in_to >= READ_SIZE)
        return;
    lane->capacity = lane->in_to + 2 * (size_t)READ_SIZE;
    lane->in = realloc(lane->in, lane->capacity);
    if (lane->in == NULL)
        abort();
}

int lane_fill(struct lane *lane)
{
    lane_reserve(lane);
    ssize_t n = recv(lane->fd, lane->in + lane->in_to, READ_SIZE, 0);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    lane->in_to += (size_t)n;
    return n > 0 ? 1 : -EPIPE;
}

/* The value of a header field as channeld writes its name, or NULL. */
static const char *lane_field(const char *head, size_t length, const char *name)
{
    const char *at = memmem(head, length, name, strlen(name));
    return at != NULL ? at + strlen(name) : NULL;
}

int lane_measure(const char *data, size_t length, int *status, size_t *head, size_t *body)
{
    const char *end = memmem(data, length, "\r\n\r\n", 4);
    if (end == NULL)
        return 0;
    *head = (size_t)(end - data) + 4;
    *body = 0;
    if (*head < STATUS_LINE_MIN || memcmp(data, "HTTP/1.1 ", STATUS_AT) != 0)
        return -EPROTO;
    *status = (int)strtol(data + STATUS_AT, NULL, 10);
    const char *size = lane_field(data, *head, "\r\nContent-Length: ");
    if (size != NULL)
        *body = strtoul(size, NULL, 10);
    else if (*status != 304)
        return -EPROTO;
    return *head + *body <= length;
}

int lane_take(struct lane *lane, struct lane_reply *out)
{
    const char *data = lane->in + lane->in_from;
    size_t head = 0;
    size_t body = 0;
    int taken = lane_measure(data, lane->in_to - lane->in_from, &out->reply.status, &head, &body);
    if (taken <= 0)
        return taken;
    const char *etag = lane_field(data, head, "\r\nETag: ");
    size_t length = etag != NULL ? strcspn(etag, "\r") : 0;
    if (length >= LANE_ETAG_SIZE)
        length = 0;
    if (length > 0)
        memcpy(out->etag, etag, length);
    out->etag[length] = '\0';
    out->reply.body = data + head;
    out->reply.length = body;
    lane->in_from += head + body;
    lane->answered++;
    return 1;
}
