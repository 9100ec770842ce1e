/* Many sockets, polled together; see crowd.h. */

#include "hostile/crowd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/net.h"
#include "support/test.h"
#include "support/wait.h"

enum { HEAD_SIZE = sizeof "HTTP/1.1 408" };

struct crowd_member {
    int fd; /* -1: ended */
    char head[HEAD_SIZE];
    size_t length; /* of what came, as far as it is kept in `head` */
    size_t pumped; /* of the bytes of crowd_pump() */
};

static int crowd_connect(int port, int receive_buffer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (receive_buffer > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    int error = errno;
    (void)close(fd);
    return -error;
}

void crowd_open(struct crowd *crowd, int port, size_t size, int receive_buffer)
{
    *crowd = (struct crowd){.port = port, .size = size};
    crowd->member = calloc(size, sizeof *crowd->member);
    if (crowd->member == NULL)
        abort();
    for (size_t i = 0; i < size; i++) {
        crowd->member[i].fd = crowd_connect(port, receive_buffer);
        if (crowd->member[i].fd < 0)
            fail_msg("connection %zu: %s", i, strerror(-crowd->member[i].fd));
    }
    crowd->began_ms = wait_now_ms();
}

static void crowd_send_one(struct crowd_member *member, const char *bytes, size_t length)
{
    if (member->fd >= 0)
        (void)send(member->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void crowd_send(struct crowd *crowd, const char *bytes, size_t length)
{
    for (size_t i = 0; i < crowd->size; i++)
        crowd_send_one(&crowd->member[i], bytes, length);
}

void crowd_send_in_turn(struct crowd *crowd, const char *const *text, size_t count)
{
    for (size_t i = 0; i < crowd->size; i++)
        crowd_send_one(&crowd->member[i], text[i % count], strlen(text[i % count]));
}

static void crowd_end_one(struct crowd *crowd, struct crowd_member *member, struct crowd_end *end, int error)
{
    end->last_ms = wait_now_ms() - crowd->began_ms;
    if (end->first_ms < 0)
        end->first_ms = end->last_ms;
    end->reset += error != 0;
    (void)close(member->fd);
    member->fd = -1;
}

/* True while it may have more. */
static bool crowd_read(struct crowd *crowd, struct crowd_member *member, int status, struct crowd_end *end)
{
    char bytes[4096];
    ssize_t got = recv(member->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return false;
    if (got <= 0) {
        crowd_end_one(crowd, member, end, got < 0 ? errno : 0);
        return false;
    }
    size_t room = HEAD_SIZE - 1 - member->length;
    size_t kept = (size_t)got < room ? (size_t)got : room;
    memcpy(member->head + member->length, bytes, kept);
    member->length += kept;
    if (kept > 0 && member->length == HEAD_SIZE - 1)
        end->answered += strtol(member->head + strlen("HTTP/1.1 "), NULL, 10) == status;
    return true;
}

static size_t crowd_list(const struct crowd *crowd, struct pollfd *list)
{
    size_t living = 0;
    for (size_t i = 0; i < crowd->size; i++) {
        list[i] = (struct pollfd){.fd = crowd->member[i].fd, .events = POLLIN};
        living += list[i].fd >= 0;
    }
    return living;
}

struct crowd_end crowd_watch(struct crowd *crowd, int status, const char *drip, int interval_ms, int ms)
{
    struct crowd_end end = {.first_ms = -1};
    struct pollfd *list = calloc(crowd->size, sizeof *list);
    int64_t deadline = wait_deadline(ms);
    int64_t next_drip = wait_now_ms();
    if (list == NULL)
        abort();
    while (crowd_list(crowd, list) > 0 && wait_left_ms(deadline) > 0) {
        if (drip != NULL && wait_now_ms() >= next_drip) {
            crowd_send(crowd, drip, 1);
            next_drip += interval_ms;
        }
        if (poll(list, crowd->size, 20) <= 0)
            continue;
        for (size_t i = 0; i < crowd->size; i++) {
            while (list[i].revents != 0 && crowd_read(crowd, &crowd->member[i], status, &end))
                continue;
        }
    }
    end.left = (int)crowd_list(crowd, list);
    free(list);
    return end;
}

void crowd_pump(struct crowd *crowd, const char *bytes, size_t length)
{
    char answers[64 * 1024];
    for (size_t i = 0; i < crowd->size; i++) {
        struct crowd_member *member = &crowd->member[i];
        ssize_t sent =
            send(member->fd, bytes + member->pumped, length - member->pumped, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0)
            member->pumped = (member->pumped + (size_t)sent) % length;
        while (recv(member->fd, answers, sizeof answers, MSG_DONTWAIT) == sizeof answers)
            continue;
    }
}

void crowd_keep_sending(struct crowd *crowd, void (*send)(struct crowd *, const char *, size_t),
                        const char *bytes, size_t length, int ms)
{
    for (int64_t until = wait_now_ms() + ms; wait_now_ms() < until;)
        send(crowd, bytes, length);
}

void crowd_close(struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->size; i++) {
        if (crowd->member[i].fd >= 0)
            (void)close(crowd->member[i].fd);
    }
    free(crowd->member);
    crowd->member = NULL;
    crowd->size = 0;
}
