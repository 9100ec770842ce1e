/*
 * A blocking connection; see client.h. hiredis opens, reads and writes the socket, with or without TLS.
 * resp.h parses the replies, as it does for channeld.
 */
#include "redis/client.h"

#include "redis/cluster.h"
#include "redis/resp.h"
#include "redis/server.h"
#include "redis/tls.h"

#include <assert.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

enum { READ_MAX = 64 * 1024 };

struct redis_client {
    const struct redis_endpoint *endpoint;
    struct ssl_ctx_st *tls;
    const char *client_name;
    redisContext *context; /* NULL: not connected */
    bool broken;           /* nothing more can be read: invalid input, or the slot is at another node now */
    bool rejected;         /* see redis_client_is_rejected */
    size_t pending;        /* replies still to come */
    struct buf out;        /* commands that were not given to hiredis yet */
    struct buf error;
    struct resp_parser parser;
    struct span input; /* bytes that were read and not parsed yet, in `bytes` */
    char bytes[READ_MAX];
};

static const struct redis_client_limits LOCATOR_LIMITS = {LOCATOR_LIMIT_MS, LOCATOR_LIMIT_MS};

/* --- failures --- */

/* `rejected`: the reason is permanent (redis_client_is_rejected). */
__attribute__((format(printf, 3, 4))) static int redis_client_fail(struct redis_client *c, bool rejected,
                                                                   const char *format, ...)
{
    va_list args;
    va_start(args, format);
    buf_set_message(&c->error, format, args);
    va_end(args);
    c->rejected = rejected;
    return -EIO;
}

/* Reading or writing has failed. */
static int redis_client_fail_io(struct redis_client *c)
{
    if (errno == EAGAIN)
        return redis_client_fail(c, false, "no reply in time");
    bool rejected = c->tls != NULL && redis_tls_explain(c->context);
    return redis_client_fail(c, rejected, "the connection to Redis was lost: %s", c->context->errstr);
}

const char *redis_client_error(struct redis_client *c)
{
    return buf_message(&c->error);
}

bool redis_client_is_rejected(const struct redis_client *c)
{
    return c->rejected;
}

bool redis_client_is_lost(const struct redis_client *c)
{
    return c->context == NULL || c->context->err != 0 || c->broken;
}

/* --- commands and replies --- */

void redis_client_send(struct redis_client *c, size_t count, const struct span *words)
{
    command_begin(&c->out, count);
    for (size_t i = 0; i < count; i++)
        command_add(&c->out, words[i]);
    c->pending++;
}

int redis_client_flush(struct redis_client *c)
{
    if (buf_error(&c->out) != 0)
        return redis_client_fail(c, false, "out of memory");
    if (c->out.len == 0)
        return 0;
    if (redisAppendFormattedCommand(c->context, c->out.data, c->out.len) != REDIS_OK)
        return redis_client_fail(c, false, "%s", c->context->errstr);
    buf_clear(&c->out);
    errno = 0;
    for (int done = 0; done == 0;)
        if (redisBufferWrite(c->context, &done) != REDIS_OK)
            return redis_client_fail_io(c);
    return 0;
}

/*
 * Fails for an error of a node that no longer has the slot, or not all of its keys. Later replies on this
 * connection would be no better.
 */
static int redis_client_fail_elsewhere(struct redis_client *c, const struct redis_reply *reply)
{
    if (cluster_is_migrating(reply))
        return redis_client_fail(
            c, false, "the keys are migrating to another node of the cluster: try again when that has ended");
    if (!cluster_is_left(reply))
        return 0;
    c->broken = true;
    return redis_client_fail(c, false, "the connection to Redis was lost: %s", reply->str);
}

/* Reads the next bytes. All earlier input has been parsed. */
static int redis_client_read(struct redis_client *c)
{
    ssize_t n = 0; /* repeated if a signal interrupts the call */
    if (redis_client_flush(c) != 0)
        return -EIO;
    while (n == 0)
        n = c->context->funcs->read(c->context, c->bytes, sizeof c->bytes);
    if (n < 0)
        return redis_client_fail_io(c);
    c->input = (struct span){c->bytes, (size_t)n};
    return 0;
}

/* Waits for the next reply; pushes are ignored. */
static const struct redis_reply *redis_client_parse(struct redis_client *c)
{
    const struct redis_reply *reply = NULL;
    enum resp_result result = resp_parse(&c->parser, &c->input, &reply);
    while (result == RESP_INCOMPLETE || result == RESP_PUSH_ELEMENT) {
        if (result == RESP_INCOMPLETE && redis_client_read(c) != 0)
            return NULL;
        result = resp_parse(&c->parser, &c->input, &reply);
    }
    if (result == RESP_REPLY)
        return reply;
    c->broken = true;
    (void)redis_client_fail(c, false, "the connection to Redis was lost: %s", c->parser.error);
    return NULL;
}

const struct redis_reply *redis_client_receive(struct redis_client *c)
{
    if (buf_error(&c->out) != 0) {
        (void)redis_client_fail(c, false, "out of memory");
        return NULL;
    }
    assert(c->pending > 0);
    c->pending--;
    const struct redis_reply *reply = redis_client_parse(c);
    if (reply != NULL && redis_endpoint_is_cluster(c->endpoint) && redis_client_fail_elsewhere(c, reply) != 0)
        return NULL;
    return reply;
}

size_t redis_client_pending(const struct redis_client *c)
{
    return c->pending;
}

/* The next reply, borrowed, or NULL after a failure. An error reply is a failure here. */
static const struct redis_reply *redis_client_receive_success(struct redis_client *c)
{
    const struct redis_reply *reply = redis_client_receive(c);
    if (reply == NULL || reply->type != REPLY_ERROR)
        return reply;
    (void)redis_client_fail(c, !redis_server_is_unavailable(reply), "Redis refused: %s",
                            redis_endpoint_redact(c->endpoint, reply->str));
    return NULL;
}

static int redis_client_receive_done(struct redis_client *c)
{
    return redis_client_receive_success(c) != NULL ? 0 : -EIO;
}

/* --- connecting --- */

static struct timeval redis_client_time_of(int ms)
{
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000L};
}

static int redis_client_start_tls(struct redis_client *c, const char *host)
{
    errno = 0;
    int err = redis_tls_start(c->context, c->tls, host);
    if (err == 0)
        return 0;
    if (errno == EAGAIN)
        return redis_client_fail_io(c);
    bool interrupted = errno == EINTR;
    err = redis_client_fail(c, err == -EACCES, "%s", c->context->errstr);
    return interrupted ? -EINTR : err;
}

int redis_client_limit_replies(struct redis_client *c, int reply_ms)
{
    return redisSetTimeout(c->context, redis_client_time_of(reply_ms)) == REDIS_OK
               ? 0
               : redis_client_fail(c, false, "%s", c->context->errstr);
}

/* Takes ownership of `context`, which is connected or has failed to connect. */
static int redis_client_use_context(struct redis_client *c, redisContext *context, int reply_ms)
{
    bool denied = errno == EACCES; /* a local socket */
    c->context = context;
    if (context == NULL)
        return redis_client_fail(c, false, "out of memory");
    if (context->err == 0)
        return redis_client_limit_replies(c, reply_ms);
    return redis_client_fail(c, denied, "%s", context->errstr);
}

static void redis_client_disconnect(struct redis_client *c)
{
    if (c->context != NULL)
        redisFree(c->context);
    c->context = NULL;
    c->broken = false;
    c->pending = 0;
    c->input = SPAN_ABSENT;
    resp_fini(&c->parser);
    c->parser.bytes_max = SIZE_MAX / 4;
    c->parser.elements_max = UINT32_MAX;
    buf_clear(&c->out);
}

static int redis_client_check_hello(struct redis_client *c)
{
    const struct redis_reply *reply = redis_client_receive_success(c);
    if (reply == NULL && c->broken)
        return redis_client_fail(c, true, "this is not a Redis server: it has sent %s", c->parser.error);
    if (reply == NULL)
        return -EIO;
    const char *problem = redis_server_check_mode(reply, redis_endpoint_is_cluster(c->endpoint));
    return problem == NULL ? 0 : redis_client_fail(c, true, "%s", problem);
}

static int redis_client_handshake(struct redis_client *c, const struct redis_endpoint *endpoint)
{
    redis_endpoint_hello(endpoint, c->client_name, &c->out);
    c->pending++;
    int err = redis_client_check_hello(c);
    if (c->out.data != NULL)
        explicit_bzero(c->out.data, c->out.cap); /* the buffer held the password */
    if (err != 0 || !redis_endpoint_select(endpoint, &c->out))
        return err;
    c->pending++;
    return redis_client_receive_done(c);
}

/* `address` is that of the endpoint's host, or NULL for a local socket. */
static int redis_client_connect_once(struct redis_client *c, const struct redis_endpoint *endpoint,
                                     const char *address, const struct redis_client_limits *limits)
{
    struct timeval connect = redis_client_time_of(limits->connect_ms);
    redis_client_disconnect(c);
    errno = 0;
    redisContext *context = address == NULL ? redisConnectUnixWithTimeout(endpoint->path, connect)
                                            : redisConnectWithTimeout(address, endpoint->port, connect);
    int err = redis_client_use_context(c, context, limits->reply_ms);
    if (err == 0 && c->tls != NULL)
        err = redis_client_start_tls(c, endpoint->host);
    return err != 0 ? err : redis_client_handshake(c, endpoint);
}

/* Stopping and continuing the process interrupts the handshake of TLS (signal(7)), which cannot go on then.
 */
static int redis_client_connect_at(struct redis_client *c, const struct redis_endpoint *endpoint,
                                   const char *address, const struct redis_client_limits *limits)
{
    int err = -EINTR;
    while (err == -EINTR)
        err = redis_client_connect_once(c, endpoint, address, limits);
    return err;
}

/* The first permanent reason of several attempts becomes *rejection. */
static void redis_client_keep_rejection(const struct redis_client *c, struct buf *rejection)
{
    if (c->rejected && rejection->len == 0)
        buf_append_span(rejection, buf_span(&c->error));
}

/* All attempts have failed. The reason is the first permanent one, or else that of the last attempt. */
static void redis_client_fail_all(struct redis_client *c, struct buf *rejection)
{
    if (rejection->len > 0)
        (void)redis_client_fail(c, true, "%s", buf_message(rejection));
}

/* Puts the address of the server that failed before the reason. */
static void redis_client_name_failed_server(struct redis_client *c, const struct redis_endpoint *server)
{
    struct buf text = BUF_INIT;
    redis_endpoint_describe(server, &text);
    buf_printf(&text, ": %s", redis_client_error(c));
    (void)redis_client_fail(c, c->rejected, "%s", buf_message(&text));
    buf_fini(&text);
}

static int redis_client_try_addresses(struct redis_client *c, const struct redis_endpoint *endpoint,
                                      const struct addrinfo *found, const struct redis_client_limits *limits)
{
    struct buf rejection = BUF_INIT;
    int err = -EIO;
    for (const struct addrinfo *info = found; info != NULL && err != 0; info = info->ai_next) {
        char address[REDIS_HOST_SIZE] = "";
        (void)getnameinfo(info->ai_addr, info->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST);
        const struct redis_endpoint server = redis_endpoint_at(endpoint, address, endpoint->port);
        err = redis_client_connect_at(c, endpoint, address, limits);
        if (err != 0 && found->ai_next != NULL)
            redis_client_name_failed_server(c, &server);
        redis_client_keep_rejection(c, &rejection);
    }
    if (err != 0)
        redis_client_fail_all(c, &rejection);
    buf_fini(&rejection);
    return err;
}

/* Tries all addresses of the host in turn. */
static int redis_client_connect_to(struct redis_client *c, const struct redis_endpoint *endpoint,
                                   const struct redis_client_limits *limits)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (endpoint->transport == REDIS_TRANSPORT_UNIX)
        return redis_client_connect_at(c, endpoint, NULL, limits);
    redis_client_disconnect(c);
    int error = getaddrinfo(endpoint->host, NULL, &hints, &found);
    if (error != 0)
        return redis_client_fail(c, false, "%s", error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
    int err = redis_client_try_addresses(c, endpoint, found, limits);
    freeaddrinfo(found);
    return err;
}

int redis_client_connect_fd(struct redis_client *c, int fd, const struct redis_client_limits *limits)
{
    redis_client_disconnect(c);
    errno = 0;
    redisContext *context = redisConnectFd(fd);
    if (context == NULL)
        (void)close(fd);
    return redis_client_use_context(c, context, limits->reply_ms);
}

/* --- the master that Sentinels or the nodes of a cluster name --- */

static int redis_client_query_server(struct redis_client *c, const struct redis_endpoint *server,
                                     struct redis_address *out)
{
    const struct locator_protocol *protocol = locator_protocol_of(c->endpoint);
    struct redis_endpoint of_master = *c->endpoint;
    struct locator_answer answer;
    of_master.discovery.replica = false;
    int err = redis_client_connect_to(c, server, &LOCATOR_LIMITS);
    if (err != 0)
        return err;
    c->parser.elements_max = protocol->elements_max;
    protocol->compose(&of_master, 0, &c->out);
    c->pending++;
    const struct redis_reply *reply = redis_client_receive_success(c);
    if (reply == NULL)
        return -EIO;
    const char *problem = protocol->read(&of_master, server, 0, reply, &answer);
    if (problem != NULL)
        return redis_client_fail(c, false, "%s", problem);
    *out = answer.master;
    return 0;
}

static int redis_client_check_role(struct redis_client *c)
{
    struct redis_role role;
    redis_client_send(c, 1, (struct span[]){SPAN("ROLE")});
    const struct redis_reply *reply = redis_client_receive_success(c);
    if (reply == NULL)
        return -EIO;
    const char *problem = redis_server_read_role(reply, &role);
    if (problem == NULL && role.kind != REDIS_ROLE_MASTER)
        problem = "it is not a master";
    return problem == NULL ? 0 : redis_client_fail(c, false, "%s", problem);
}

/* *server becomes the server that failed; it borrows *master. */
static int redis_client_connect_by(struct redis_client *c, struct redis_endpoint *server,
                                   struct redis_address *master, const struct redis_client_limits *limits)
{
    int err = redis_client_query_server(c, server, master);
    if (err != 0)
        return err;
    *server = redis_endpoint_at(c->endpoint, master->host, master->port);
    err = redis_client_connect_to(c, server, limits);
    return err != 0 ? err : redis_client_check_role(c);
}

static int redis_client_connect_to_master(struct redis_client *c, const struct redis_client_limits *limits)
{
    struct buf rejection = BUF_INIT;
    int err = -EIO;
    for (int i = 0; i < c->endpoint->discovery.count && err != 0; i++) {
        struct redis_address master = {.port = 0};
        struct redis_endpoint server = redis_endpoint_server(c->endpoint, i);
        err = redis_client_connect_by(c, &server, &master, limits);
        if (err != 0)
            redis_client_name_failed_server(c, &server);
        redis_client_keep_rejection(c, &rejection);
    }
    if (err != 0)
        redis_client_fail_all(c, &rejection);
    buf_fini(&rejection);
    return err;
}

int redis_client_connect(struct redis_client *c, const struct redis_client_limits *limits)
{
    return redis_endpoint_is_discovered(c->endpoint) ? redis_client_connect_to_master(c, limits)
                                                     : redis_client_connect_to(c, c->endpoint, limits);
}

/* --- beginning and end --- */

int redis_client_new(const struct redis_endpoint *endpoint, struct ssl_ctx_st *tls, const char *client_name,
                     struct redis_client **out)
{
    struct redis_client *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -ENOMEM;
    c->endpoint = endpoint;
    c->tls = tls;
    c->client_name = client_name;
    resp_init(&c->parser);
    *out = c;
    return 0;
}

void redis_client_free(struct redis_client *c)
{
    if (c == NULL)
        return;
    redis_client_disconnect(c);
    buf_fini(&c->out);
    buf_fini(&c->error);
    free(c);
}
