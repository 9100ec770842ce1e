/* The blocking client: the master that Sentinels name, and memory that runs out. See ctl_client.c for the
 * rest. */
#include "redis/client.h"

#include "redis/sentinel.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/alloc.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/text.h"
#include "unit/fixtures/redis_fake.h"

#define OK     "+OK\r\n|"
#define MASTER "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"

enum { CONNECTIONS_MAX = 4 };

/* Every Sentinel and every master, on one port. */
static struct fake_redis server;
static pthread_t thread;
static const char
    *replies[CONNECTIONS_MAX + 1]; /* of each connection: to a command, |, to the next; NULL: no more */
static char named[128];            /* the reply that names it */

static void *serve(void *unused)
{
    (void)unused;
    for (int i = 0; replies[i] != NULL; i++) {
        const char *rest = replies[i];
        char chunk[1024];
        ssize_t n = 0;
        int fd = accept(server.listener, NULL, NULL);
        while (fd >= 0 && (n = read(fd, chunk, sizeof chunk)) > 0) {
            size_t len = strcspn(rest, "|");
            buf_append(&server.log, chunk, (size_t)n);
            (void)send(fd, rest, len, MSG_NOSIGNAL);
            rest += len + (rest[len] == '|');
        }
        if (fd >= 0)
            (void)close(fd);
    }
    return NULL;
}

/* In libc's place: names in .example have the addresses 127.0.0.2, 127.0.0.3 and 127.0.0.1. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *req, struct addrinfo **pai)
{
    static const char *const addresses[] = {"127.0.0.2", "127.0.0.3", "127.0.0.1"};
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (strstr(name, ".example") == NULL)
        return real(name, service, req, pai);
    for (size_t i = 0; i < TEST_COUNT(addresses); i++, pai = &(*pai)->ai_next)
        assert_int_equal(real(addresses[i], service, req, pai), 0);
    return 0;
}

static bool was_rejected;

static const char *connect_to(const struct redis_endpoint *endpoint)
{
    static char text[256];
    const struct redis_client_limits limits = {WAIT_DEADLINE_MS, WAIT_DEADLINE_MS};
    struct redis_client *client = NULL;
    (void)fcntl(server.listener, F_SETFL, 0);
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
    assert_int_equal(redis_client_new(endpoint, NULL, "test", &client), 0);
    int err = redis_client_connect(client, &limits);
    (void)snprintf(text, sizeof text, "%s", err == 0 ? "" : redis_client_error(client));
    was_rejected = redis_client_is_rejected(client);
    redis_client_free(client);
    (void)shutdown(server.listener, SHUT_RD); /* ends an accept */
    assert_int_equal(pthread_join(thread, NULL), 0);
    return text;
}

/* Connects to database 1 by so many Sentinels; returns why it could not, or "". */
static const char *connect_by_sentinels(int count)
{
    static char host[] = "127.0.0.1";
    static char name[] = "mymaster";
    static char user[] = "default";
    struct redis_endpoint endpoint = {
        .user = user,
        .db = 1,
        .discovery = {.kind = REDIS_DISCOVERY_SENTINEL, .count = count, .master = name, .user = user}};
    for (int i = 0; i < count; i++) {
        endpoint.discovery.at[i].host = host;
        endpoint.discovery.at[i].port = server.port;
    }
    return connect_to(&endpoint);
}

static const char *connect_by_name(void)
{
    static char host[] = "redis.example";
    static char user[] = "default";
    return connect_to(&(struct redis_endpoint){.host = host, .port = server.port, .user = user});
}

static void begin(const char *first, const char *second, const char *third)
{
    fake_open(&server);
    sentinel_name(named, "127.0.0.1", server.port);
    memcpy(replies, (const char *[]){first, second, third, NULL}, 4 * sizeof *replies);
}

TEST_CASE(sentinels_are_queried_in_turn_for_the_master)
{
    static char good[160];
    begin(OK "*-1\r\n", good, OK OK MASTER);
    (void)snprintf(good, sizeof good, OK "%s", named);
    assert_string_equal(connect_by_sentinels(3), "");
    assert_int_equal(text_count(buf_c_str(&server.log),
                                "*3\r\n$8\r\nSENTINEL\r\n$23\r\nGET-MASTER-ADDR-BY-NAME\r\n"
                                "$8\r\nmymaster\r\n"),
                     2);
    assert_int_equal(text_count(buf_c_str(&server.log), "*1\r\n$4\r\nROLE\r\n"), 1);
    fake_fini(&server);
}

/* The second Sentinel fails so. */
static void check_failure(const char *reply, const char *of_master, const char *reason)
{
    begin(OK "-LOADING first\r\n", reply, of_master);
    char *at_named = reply == NULL ? text_printf(OK "%s", named) : NULL;
    if (at_named != NULL)
        replies[1] = at_named;
    const char *why = connect_by_sentinels(2);
    if (strncmp(why, "127.0.0.1:", 10) != 0 || strstr(why, reason) == NULL)
        fail_msg("%s, not %s", why, reason);
    free(at_named);
    fake_fini(&server);
}

TEST_CASE(failures_of_sentinels_and_masters_have_a_reason)
{
    struct buf many = BUF_INIT;
    buf_printf(&many, OK "*%d\r\n", SENTINEL_ELEMENTS_MAX + 1);
    for (int i = 0; i <= SENTINEL_ELEMENTS_MAX; i++)
        buf_append_str(&many, "_\r\n");
    check_failure(OK "*-1\r\n", NULL, "it knows no master of that name");
    check_failure(OK "-ERR no\r\n", NULL, "Redis refused: ERR no");
    check_failure("-WRONGPASS no\r\n", NULL, "Redis refused: WRONGPASS no");
    check_failure(buf_c_str(&many), NULL, "Redis refused: a reply that is too large");
    check_failure(OK "?\r\n", NULL, "the connection to Redis was lost: a reply of an unknown type");
    check_failure(NULL, "-LOADING x\r\n|" OK MASTER, "Redis refused: LOADING x");
    check_failure(NULL, OK "-ERR no\r\n|" MASTER, "Redis refused: ERR no");
    check_failure(NULL, OK OK "-ERR no\r\n", "Redis refused: ERR no");
    check_failure(NULL, OK OK "*5\r\n$5\r\nslave\r\n$1\r\na\r\n:1\r\n$9\r\nconnected\r\n:7\r\n",
                  "it is not a master");
    buf_fini(&many);
}

/* A reason that does not pass is worth more than that of the last one. */
TEST_CASE(rejection_by_one_of_several_sentinels_is_the_reason)
{
    begin("-WRONGPASS no\r\n", OK "*-1\r\n", NULL);
    assert_non_null(strstr(connect_by_sentinels(2), "Redis refused: WRONGPASS no"));
    assert_true(was_rejected);
    fake_fini(&server);
    begin("-LOADING x\r\n", OK "*-1\r\n", NULL);
    assert_non_null(strstr(connect_by_sentinels(2), "it knows no master of that name"));
    assert_false(was_rejected);
    fake_fini(&server);
}

/* Only the last one accepts connections. */
TEST_CASE(addresses_of_a_name_are_tried_in_turn)
{
    begin(OK, NULL, NULL);
    assert_string_equal(connect_by_name(), "");
    fake_fini(&server);
}

TEST_CASE(each_address_of_a_name_may_give_the_reason)
{
    begin("-LOADING x\r\n", NULL, NULL);
    const char *why = connect_by_name();
    assert_string_equal(why, text_temp("127.0.0.1:%d/0: Redis refused: LOADING x", server.port));
    assert_false(was_rejected);
    fake_fini(&server);
    begin("-WRONGPASS x\r\n", NULL, NULL);
    assert_non_null(strstr(connect_by_name(), ": Redis refused: WRONGPASS x"));
    assert_true(was_rejected);
    fake_fini(&server);
}

TEST_CASE(server_of_another_protocol_is_named)
{
    static const char *const replies_of_others[] = {"HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-x\r\n"};
    for (size_t i = 0; i < TEST_COUNT(replies_of_others); i++) {
        begin(replies_of_others[i], NULL, NULL);
        const char *why = connect_by_name();
        if (strstr(why, "this is not a Redis server: ") == NULL || !was_rejected)
            fail_msg("%s: %s", replies_of_others[i], why);
        fake_fini(&server);
    }
}

static void *fail_calloc(size_t count, size_t size)
{
    (void)count;
    (void)size;
    return NULL;
}

TEST_CASE(socket_is_closed_when_memory_runs_out)
{
    const struct redis_endpoint endpoint = {.port = 0};
    const struct redis_client_limits limits = {.reply_ms = WAIT_DEADLINE_MS};
    struct redis_client *client = NULL;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(redis_client_new(&endpoint, NULL, "test", &client), 0);
    hiredisAllocFuncs failing = hiredisAllocFns;
    failing.callocFn = fail_calloc;
    (void)hiredisSetAllocators(&failing);
    int err = redis_client_connect_fd(client, ends[0], &limits);
    hiredisResetAllocators();
    assert_int_equal(err, -EIO);
    assert_string_equal(redis_client_error(client), "out of memory");
    assert_int_equal(read(ends[1], &(char){0}, 1), 0); /* the other end sees it closed */
    (void)close(ends[1]);
    redis_client_free(client);
}
