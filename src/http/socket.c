/* Socket calls on the descriptors of libuv's handles; see socket.h. */
#include "http/socket.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static int fd_of(const uv_tcp_t *tcp)
{
    uv_os_fd_t fd = -1;
    return uv_fileno((const uv_handle_t *)tcp, &fd) == 0 ? fd : -1;
}

int http_socket_shut(const uv_tcp_t *tcp)
{
    return shutdown(fd_of(tcp), SHUT_WR) == 0 ? 0 : -errno;
}

bool http_socket_has_unsent(const uv_tcp_t *tcp)
{
    int bytes = 0;
    return ioctl(fd_of(tcp), SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

void http_socket_drop_unsent(const uv_tcp_t *tcp)
{
    const struct linger at_once = {.l_onoff = 1};
    (void)setsockopt(fd_of(tcp), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}
