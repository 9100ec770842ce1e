/* Abuse of channeld; see abuser.h. */

#include "soak/abuser.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coherence/clock.h"
#include "support/net.h"
#include "support/text.h"

enum {
    ACT_US = 2000,
    FLOOD_REQUESTS = 40,
    GREED_REQUESTS = 400,
    LARGE_BYTES = 20000,
    DRAIN_BYTES = 16384,
};

static const char HEAD[] = "GET /api/channel/by-id/1000003/ HTTP/1.1\r\nHost: a\r\nX-Api-Key: none\r\n\r\n";
static const char BODY[] =
    "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\nand then a byte "
    "now and again, until it has had enough of it";
static const char GARBAGE[] =
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 HELO \x00\x00 *1\r\n$4\r\nPING\r\n";
static const char SMUGGLED[] =
    "POST /api/channels/ HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    "5c\r\nGET /api/channels/ HTTP/1.1\r\n\r\n0\r\n\r\n";

/* ---- texts ---- */

/* Requests for pages, with the key or, without one, each with another wrong key. */
static char *write_pages(int count, const char *key)
{
    char *text = text_printf("%s", "");
    for (int i = 0; i < count; i++) {
        char *guess = text_printf("guess-%d", i * 7919);
        char *request = text_printf("GET /api/channels/?page=%d HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n",
                                    1 + i % 3, key != NULL ? key : guess);
        text = text_append(text, request);
        free(request);
        free(guess);
    }
    return text;
}

/* ---- one connection ---- */

static void choose_abuse(struct abuser *abuser, struct abuser_connection *c)
{
    const struct abuser_connection abuses[] = {
        {c->fd, "", 0, 0, 0, false},                 /* silent */
        {c->fd, HEAD, sizeof HEAD - 1, 0, 1, false}, /* a slow head */
        {c->fd, BODY, sizeof BODY - 1, 0, 7, false}, /* a slow body */
        {c->fd, GARBAGE, sizeof GARBAGE - 1, 0, 64, false},
        {c->fd, SMUGGLED, sizeof SMUGGLED - 1, 0, sizeof SMUGGLED, false},
        {c->fd, abuser->large, strlen(abuser->large), 0, 4096, false},
        {c->fd, abuser->flood, strlen(abuser->flood), 0, 4096, false},
        {c->fd, abuser->greed, strlen(abuser->greed), 0, 65536, true},
        {c->fd, HEAD, sizeof HEAD / 2, 0, sizeof HEAD, false}, /* half a head */
    };
    *c = abuses[random_below(&abuser->chance, sizeof abuses / sizeof abuses[0])];
}

static void abandon(struct abuser_connection *c, bool with_reset)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    if (with_reset)
        (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    (void)close(c->fd);
    *c = (struct abuser_connection){.fd = -1};
}

/* Sends and reads a little more; false when the server has closed the connection. */
static bool proceed(struct abuser_connection *c)
{
    char received[DRAIN_BYTES];
    size_t left = c->length - c->sent;
    ssize_t sent = left == 0 ? 0
                             : send(c->fd, c->text + c->sent, left < c->step ? left : c->step,
                                    MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0)
        c->sent += (size_t)sent;
    return c->never_reads || recv(c->fd, received, sizeof received, MSG_DONTWAIT) != 0;
}

static void act(struct abuser *abuser)
{
    struct abuser_connection *c = &abuser->connection[random_below(&abuser->chance, ABUSER_CONNECTIONS)];
    int dice = random_below(&abuser->chance, 32);
    if (c->fd < 0) {
        int fd = net_connect(abuser->port);
        if (fd < 0)
            return;
        c->fd = fd;
        choose_abuse(abuser, c);
    } else if (dice == 0) {
        abandon(c, true);
    } else if (dice == 1) {
        (void)shutdown(c->fd, SHUT_WR);
    } else if (dice == 2 || !proceed(c)) {
        abandon(c, false);
    }
    (void)atomic_fetch_add_explicit(&abuser->acts, 1, memory_order_relaxed);
}

/* ---- the thread ---- */

static void *run(void *arg)
{
    struct abuser *abuser = arg;
    while (!atomic_load(&abuser->finished)) {
        act(abuser);
        clock_sleep((int64_t)ACT_US * CLOCK_US);
    }
    return NULL;
}

void abuser_start(struct abuser *abuser, int port, const char *key, uint64_t seed)
{
    abuser->port = port;
    abuser->key = key;
    abuser->chance = seed;
    abuser->flood = write_pages(FLOOD_REQUESTS, NULL);
    abuser->greed = write_pages(GREED_REQUESTS, key);
    abuser->large =
        text_printf("GET /api/channels/ HTTP/1.1\r\nHost: a\r\nX-Large: %*s\r\n\r\n", (int)LARGE_BYTES, "x");
    atomic_init(&abuser->acts, 0);
    atomic_init(&abuser->finished, false);
    for (int i = 0; i < ABUSER_CONNECTIONS; i++)
        abuser->connection[i] = (struct abuser_connection){.fd = -1};
    if (pthread_create(&abuser->thread, NULL, run, abuser) != 0)
        abort();
}

void abuser_stop(struct abuser *abuser)
{
    atomic_store(&abuser->finished, true);
    (void)pthread_join(abuser->thread, NULL);
    for (int i = 0; i < ABUSER_CONNECTIONS; i++) {
        if (abuser->connection[i].fd >= 0)
            abandon(&abuser->connection[i], false);
    }
    free(abuser->flood);
    free(abuser->greed);
    free(abuser->large);
}
