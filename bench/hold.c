/*
 * Holds connections open without using them.
 *
 *   hold PORT CONNECTIONS TARGET KEY
 *
 * On each connection one request is sent and its answer read, as a client does that keeps its connection for
 * later. Then it prints `holding N` and waits until its standard input ends.
 */
#include "answers.h"
#include "net.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void ask_once(int fd, const char *request, size_t len)
{
    static char buffer[1 << 16];
    struct answer_reader reader = {0};
    struct answer_totals totals = {0};
    if (write(fd, request, len) != (ssize_t)len)
        die("write: %s", strerror(errno));
    while (totals.whole == 0) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        if (poll(&readable, 1, 10000) != 1)
            die("no answer within ten seconds");
        ssize_t n = read(fd, buffer, sizeof buffer);
        if (n <= 0)
            die("the server closed a connection");
        (void)answers_read(&reader, &totals, buffer, (size_t)n);
    }
    if (totals.errors > 0)
        die("an answer other than 200: %.*s", 200, buffer);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        die("usage: hold PORT CONNECTIONS TARGET KEY");
    int port = (int)parse_number(argv[1], 1, 65535);
    long count = parse_number(argv[2], 1, 1000000);
    char *request;
    int len = asprintf(&request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-Api-Key: %s\r\n\r\n", argv[3],
                       port, argv[4]);
    if (len < 0)
        die("out of memory");
    for (long i = 0; i < count; i++)
        ask_once(net_connect(port), request, (size_t)len);
    printf("holding %ld\n", count);
    (void)fflush(stdout);
    while (getchar() != EOF) {
    }
    free(request);
    return 0;
}
