/* Loopback sockets and ports that parallel tests cannot take from each other. */

#include "support/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/test.h"

enum { BACKLOG = 128 };

static struct sockaddr_in net_address(int port)
{
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)port);
    return address;
}

/* A bound socket or a negative errno. */
static int net_bind(int port)
{
    int one = 1;
    struct sockaddr_in address = net_address(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        int error = errno;
        (void)close(fd);
        return -error;
    }
    return fd;
}

int net_reserve_port(void)
{
    struct sockaddr_in address = net_address(0);
    socklen_t size = sizeof address;
    /* Kept open on purpose until the program ends. */
    int fd = net_bind(0);
    if (fd < 0 || getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        fail_msg("no free port: %s", strerror(errno));
    return ntohs(address.sin_port);
}

int net_connect_buffered(int port, int receive_buffer)
{
    int one = 1;
    struct sockaddr_in address = net_address(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (receive_buffer > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        int error = errno;
        (void)close(fd);
        return -error;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

int net_connect(int port)
{
    return net_connect_buffered(port, 0);
}

int net_listen(int port)
{
    int fd = net_bind(port);
    if (fd >= 0 && listen(fd, BACKLOG) != 0) {
        int error = errno;
        (void)close(fd);
        return -error;
    }
    return fd;
}

bool net_is_listening(int port)
{
    int fd = net_connect(port);
    if (fd < 0)
        return false;
    (void)close(fd);
    return true;
}
