/* The HTTP client of the tests: sockets and buffers, responses, whole exchanges, pools; see http.h. */

#include "support/http.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/net.h"
#include "support/recording.h"
#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

enum { READ_SIZE = 64 * 1024, POOL_HEAD_SIZE = sizeof "HTTP/1.1 408", POOL_POLL_MS = 20 };

/* ---- sockets and buffers ---- */

int http_open(struct http_conn *conn, int port)
{
    memset(conn, 0, sizeof *conn);
    conn->fd = net_connect(port);
    conn->recording = conn->fd >= 0 ? recording_begin(port) : NULL;
    return conn->fd < 0 ? conn->fd : 0;
}

struct http_conn http_connect(int port)
{
    struct http_conn conn;
    assert_int_equal(http_open(&conn, port), 0);
    return conn;
}

void http_close(struct http_conn *conn)
{
    if (conn->fd >= 0)
        (void)close(conn->fd);
    recording_end(conn->recording);
    free(conn->data);
    memset(conn, 0, sizeof *conn);
    conn->fd = -1;
}

void http_reset(struct http_conn *conn)
{
    const struct linger at_once = {.l_onoff = 1};
    (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    http_close(conn);
}

static int http_poll(struct http_conn *conn, short events, int64_t deadline)
{
    struct pollfd pollfd = {.fd = conn->fd, .events = events};
    int ready = poll(&pollfd, 1, wait_left_ms(deadline));
    if (ready < 0)
        return errno == EINTR ? 0 : -errno;
    return ready == 0 ? -ETIMEDOUT : 0;
}

int http_send(struct http_conn *conn, const char *data, size_t length)
{
    int64_t deadline = wait_deadline(WAIT_DEADLINE_MS);
    recording_sent(conn->recording, data, length);
    while (length > 0) {
        ssize_t sent = send(conn->fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            data += sent;
            length -= (size_t)sent;
        } else if (errno == EAGAIN) {
            int error = http_poll(conn, POLLOUT, deadline);
            if (error != 0)
                return error;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

int http_send_text(struct http_conn *conn, const char *text)
{
    return http_send(conn, text, strlen(text));
}

int http_finish(struct http_conn *conn)
{
    return shutdown(conn->fd, SHUT_WR) == 0 ? 0 : -errno;
}

bool http_is_readable(struct http_conn *conn, int ms)
{
    struct pollfd pollfd = {.fd = conn->fd, .events = POLLIN};
    return conn->length > 0 || poll(&pollfd, 1, ms) > 0;
}

static void http_reserve(struct http_conn *conn)
{
    if (conn->start > 0) {
        memmove(conn->data, conn->data + conn->start, conn->length);
        conn->start = 0;
    }
    if (conn->capacity - conn->length >= READ_SIZE)
        return;
    conn->capacity = conn->capacity * 2 + READ_SIZE;
    conn->data = realloc(conn->data, conn->capacity);
    if (conn->data == NULL)
        abort();
}

int http_receive(struct http_conn *conn)
{
    http_reserve(conn);
    ssize_t got = recv(conn->fd, conn->data + conn->length, READ_SIZE, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    conn->length += (size_t)got;
    return got > 0 ? 1 : -EPIPE;
}

/* Waits for at least one byte. -EPIPE at the end of the stream, -ETIMEDOUT. */
static int http_fill(struct http_conn *conn, int64_t deadline)
{
    int got = 0;
    while (got == 0) {
        int error = http_poll(conn, POLLIN, deadline);
        if (error != 0)
            return error;
        got = http_receive(conn);
    }
    return got > 0 ? 0 : got;
}

int http_read_eof(struct http_conn *conn)
{
    if (conn->length > 0)
        return -EBADMSG;
    int result = http_fill(conn, wait_deadline(WAIT_DEADLINE_MS));
    if (result == 0)
        return -EBADMSG;
    return result == -EPIPE ? 0 : result;
}

/* ---- responses in a buffer ---- */

/* The value of the next field of that name from `*at` on, which is moved behind it, or NULL. */
static const char *http_next_field(const char **at, const char *end, const char *name, size_t *length)
{
    size_t name_length = strlen(name);
    while (*at < end) {
        const char *line = *at;
        const char *line_end = memmem(line, (size_t)(end - line), "\r\n", 2);
        if (line_end == NULL)
            return NULL;
        *at = line_end + 2;
        if ((size_t)(line_end - line) <= name_length || line[name_length] != ':' ||
            strncasecmp(line, name, name_length) != 0)
            continue;
        const char *value = line + name_length + 1;
        while (*value == ' ' || *value == '\t')
            value++;
        *length = (size_t)(line_end - value);
        return value;
    }
    return NULL;
}

/* Behind the status line. */
static const char *http_reply_fields(const struct http_reply *reply)
{
    return (const char *)memmem(reply->head, reply->head_length, "\r\n", 2) + 2;
}

const char *http_reply_header(const struct http_reply *reply, const char *name, size_t *length)
{
    const char *at = http_reply_fields(reply);
    return http_next_field(&at, reply->head + reply->head_length, name, length);
}

/* The digits at the beginning, which need not end in NUL; *length says how many there are. */
static size_t http_number(const char *digits, size_t *length)
{
    size_t number = 0;
    *length = 0;
    for (; digits[*length] >= '0' && digits[*length] <= '9' && *length < 18; (*length)++)
        number = number * 10 + (size_t)(digits[*length] - '0');
    return number;
}

/* "HTTP/1.x NNN reason" */
static int http_parse_status(struct http_reply *reply)
{
    static const size_t status_line_min = sizeof "HTTP/1.1 200 \r\n" - 1;
    const char *line = reply->head;
    size_t digits = 0;
    if (reply->head_length < status_line_min || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ')
        return -EPROTO;
    reply->minor = line[7] - '0';
    reply->status = (int)http_number(line + 9, &digits);
    bool valid = (reply->minor == 0 || reply->minor == 1) && digits == 3 && line[12] == ' ' &&
                 reply->status >= 100 && reply->status <= 599;
    return valid ? 0 : -EPROTO;
}

static int http_parse_body_length(struct http_reply *reply, bool to_head)
{
    const char *at = http_reply_fields(reply);
    const char *end = reply->head + reply->head_length;
    size_t length = 0;
    size_t digits = 0;
    reply->body_length = 0;
    if (to_head || reply->status < 200 || reply->status == 204 || reply->status == 304)
        return 0;
    const char *value = http_next_field(&at, end, "Content-Length", &length);
    if (value == NULL)
        return -EPROTO;
    reply->body_length = http_number(value, &digits);
    if (digits == 0 || digits != length || http_next_field(&at, end, "Content-Length", &length) != NULL)
        return -EPROTO;
    return 0;
}

/* The response at the beginning of the data: 1; 0 when it is not complete; -EPROTO. */
static int http_measure(const char *data, size_t length, bool to_head, struct http_reply *reply)
{
    const char *end = length > 0 ? memmem(data, length, "\r\n\r\n", 4) : NULL;
    if (end == NULL)
        return 0;
    *reply = (struct http_reply){.head = data, .head_length = (size_t)(end - data) + 4};
    reply->body = data + reply->head_length;
    if (http_parse_status(reply) != 0 || http_parse_body_length(reply, to_head) != 0)
        return -EPROTO;
    return reply->head_length + reply->body_length <= length;
}

int http_take(struct http_conn *conn, bool to_head, struct http_reply *reply)
{
    int taken = http_measure(conn->data + conn->start, conn->length, to_head, reply);
    if (taken > 0) {
        recording_received(conn->recording, reply);
        conn->start += reply->head_length + reply->body_length;
        conn->length -= reply->head_length + reply->body_length;
    }
    return taken;
}

/* ---- responses ---- */

static char *http_copy(const char *data, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy == NULL)
        abort();
    if (length > 0)
        memcpy(copy, data, length);
    copy[length] = '\0';
    return copy;
}

static int http_parse_header(struct http_response *response, char *line)
{
    char *colon = strchr(line, ':');
    if (colon == NULL || colon == line || response->header_count == HTTP_HEADERS_MAX)
        return -EPROTO;
    *colon = '\0';
    char *value = colon + 1;
    value += strspn(value, " \t");
    response->headers[response->header_count++] = (struct http_header){.name = line, .value = value};
    return 0;
}

/* Splits the head into its lines; the first is the status line. */
static int http_parse_headers(struct http_response *response)
{
    int error = 0;
    char *line = strstr(response->head, "\r\n") + 2;
    while (error == 0) {
        char *end = strstr(line, "\r\n");
        if (end == NULL)
            return -EPROTO;
        *end = '\0';
        if (end == line)
            return 0;
        error = http_parse_header(response, line);
        line = end + 2;
    }
    return error;
}

static int http_copy_reply(struct http_response *response, const struct http_reply *reply)
{
    response->status = reply->status;
    response->minor = reply->minor;
    response->head = http_copy(reply->head, reply->head_length);
    response->body = http_copy(reply->body, reply->body_length);
    response->body_length = reply->body_length;
    return http_parse_headers(response);
}

int http_read(struct http_conn *conn, bool to_head, struct http_response *response)
{
    int64_t deadline = wait_deadline(WAIT_DEADLINE_MS);
    struct http_reply reply;
    int taken = 0;
    memset(response, 0, sizeof *response);
    while ((taken = http_take(conn, to_head, &reply)) == 0) {
        int error = http_fill(conn, deadline);
        if (error != 0)
            return error == -EPIPE && conn->length > 0 ? -EPROTO : error;
    }
    int error = taken < 0 ? taken : http_copy_reply(response, &reply);
    if (error != 0)
        http_response_free(response);
    return error;
}

void http_response_free(struct http_response *response)
{
    free(response->head);
    free(response->body);
    memset(response, 0, sizeof *response);
}

const char *http_header(const struct http_response *response, const char *name)
{
    for (size_t i = 0; i < response->header_count; i++) {
        if (strcasecmp(response->headers[i].name, name) == 0)
            return response->headers[i].value;
    }
    return NULL;
}

size_t http_header_count(const struct http_response *response, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < response->header_count; i++)
        count += strcasecmp(response->headers[i].name, name) == 0;
    return count;
}

/* ---- whole exchanges ---- */

char *http_format(const char *method, const char *target, const char *headers)
{
    return text_printf("%s %s HTTP/1.1\r\nHost: api.example\r\n%s\r\n", method, target,
                       headers != NULL ? headers : "");
}

int http_exchange(struct http_conn *conn, const char *method, const char *target, const char *headers,
                  struct http_response *response)
{
    AUTOFREE char *request = http_format(method, target, headers);
    int error = http_send_text(conn, request);
    return error != 0 ? error : http_read(conn, strcmp(method, "HEAD") == 0, response);
}

int http_try(int port, const char *method, const char *target, const char *headers,
             struct http_response *response)
{
    struct http_conn conn;
    memset(response, 0, sizeof *response);
    int error = http_open(&conn, port);
    if (error != 0)
        return error;
    error = http_exchange(&conn, method, target, headers, response);
    http_close(&conn);
    return error;
}

void http_call(int port, const char *method, const char *target, const char *headers,
               struct http_response *response)
{
    int error = http_try(port, method, target, headers, response);
    if (error != 0)
        fail_msg("%s %s: %s", method, target, strerror(-error));
}

void http_get(int port, const char *target, const char *headers, struct http_response *response)
{
    http_call(port, "GET", target, headers, response);
}

int http_get_status(int port, const char *target, const char *headers)
{
    struct http_response response;
    http_get(port, target, headers, &response);
    int status = response.status;
    http_response_free(&response);
    return status;
}

void http_expect(struct http_conn *conn, int status)
{
    struct http_response response = {0};
    int error = http_read(conn, false, &response);
    if (error != 0)
        fail_msg("no response, %d expected: %s", status, strerror(-error));
    if (response.status != status)
        fail_msg("%d, expected %d: %.200s", response.status, status, response.body);
    http_response_free(&response);
}

void http_ask(struct http_conn *conn, const char *method, const char *target, const char *headers, int status)
{
    struct http_response response = {0};
    int error = http_exchange(conn, method, target, headers, &response);
    if (error != 0)
        fail_msg("%s %s: %s", method, target, strerror(-error));
    if (response.status != status)
        fail_msg("%s %s: %d, expected %d: %.200s", method, target, response.status, status, response.body);
    http_response_free(&response);
}

void http_start_get(struct http_conn *conn, int port, const char *target, const char *headers)
{
    AUTOFREE char *request = http_format("GET", target, headers);
    assert_int_equal(http_open(conn, port), 0);
    assert_int_equal(http_send_text(conn, request), 0);
}

void http_expect_refusal(int port, const char *data, size_t length, int status)
{
    struct http_conn conn;
    struct http_response response = {0};
    assert_int_equal(http_open(&conn, port), 0);
    /* The server may refuse and close before it has read everything: only the answer counts. */
    (void)http_send(&conn, data, length);
    int error = http_read(&conn, false, &response);
    if (error != 0)
        fail_msg("no answer, %d expected: %s", status, strerror(-error));
    if (response.status != status)
        fail_msg("%d, expected %d, for: %.200s", response.status, status, data);
    assert_string_equal(http_header(&response, "Connection"), "close");
    error = http_read_eof(&conn);
    if (error != 0)
        fail_msg("after the %d: %s", status, strerror(-error));
    http_response_free(&response);
    http_close(&conn);
}

void http_connect_and_leave(int port, int count)
{
    for (int i = 0; i < count; i++) {
        struct http_conn conn;
        assert_int_equal(http_open(&conn, port), 0);
        if (i % 2 == 0)
            http_reset(&conn);
        else
            http_close(&conn);
    }
}

/* ---- a pool of connections ---- */

struct http_pool_member {
    int fd;                    /* -1: ended */
    char head[POOL_HEAD_SIZE]; /* the first `length` bytes of the answer */
    size_t length;
    size_t pumped; /* position in the bytes of http_pool_pump() */
};

void http_pool_open(struct http_pool *pool, int port, size_t size, int receive_buffer)
{
    *pool = (struct http_pool){.size = size};
    pool->member = calloc(size, sizeof *pool->member);
    if (pool->member == NULL)
        abort();
    for (size_t i = 0; i < size; i++) {
        pool->member[i].fd = net_connect_buffered(port, receive_buffer);
        if (pool->member[i].fd < 0)
            fail_msg("connection %zu: %s", i, strerror(-pool->member[i].fd));
    }
    pool->began_ms = wait_now_ms();
}

void http_pool_close(struct http_pool *pool)
{
    for (size_t i = 0; i < pool->size; i++) {
        if (pool->member[i].fd >= 0)
            (void)close(pool->member[i].fd);
    }
    free(pool->member);
    *pool = (struct http_pool){0};
}

static void pool_send_one(struct http_pool_member *member, const char *bytes, size_t length)
{
    if (member->fd >= 0)
        (void)send(member->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void http_pool_send(struct http_pool *pool, const char *bytes, size_t length)
{
    for (size_t i = 0; i < pool->size; i++)
        pool_send_one(&pool->member[i], bytes, length);
}

void http_pool_send_each(struct http_pool *pool, const char *const *text, size_t count)
{
    for (size_t i = 0; i < pool->size; i++)
        pool_send_one(&pool->member[i], text[i % count], strlen(text[i % count]));
}

void http_pool_pump(struct http_pool *pool, const char *bytes, size_t length)
{
    char answers[READ_SIZE];
    for (size_t i = 0; i < pool->size; i++) {
        struct http_pool_member *member = &pool->member[i];
        ssize_t sent =
            send(member->fd, bytes + member->pumped, length - member->pumped, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0)
            member->pumped = (member->pumped + (size_t)sent) % length;
        while (recv(member->fd, answers, sizeof answers, MSG_DONTWAIT) == sizeof answers)
            continue;
    }
}

void http_pool_keep_sending(struct http_pool *pool, void (*send)(struct http_pool *, const char *, size_t),
                            const char *bytes, size_t length, int ms)
{
    for (int64_t until = wait_now_ms() + ms; wait_now_ms() < until;)
        send(pool, bytes, length);
}

static void pool_end_one(struct http_pool *pool, struct http_pool_member *member, struct http_pool_end *end,
                         int error)
{
    end->last_ms = wait_now_ms() - pool->began_ms;
    if (end->first_ms < 0)
        end->first_ms = end->last_ms;
    end->reset += error != 0;
    (void)close(member->fd);
    member->fd = -1;
}

/* True while there may be more to read. */
static bool pool_read(struct http_pool *pool, struct http_pool_member *member, int status,
                      struct http_pool_end *end)
{
    char bytes[4096];
    ssize_t got = recv(member->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return false;
    if (got <= 0) {
        pool_end_one(pool, member, end, got < 0 ? errno : 0);
        return false;
    }
    size_t room = POOL_HEAD_SIZE - 1 - member->length;
    size_t kept = (size_t)got < room ? (size_t)got : room;
    memcpy(member->head + member->length, bytes, kept);
    member->length += kept;
    if (kept > 0 && member->length == POOL_HEAD_SIZE - 1)
        end->answered += strtol(member->head + strlen("HTTP/1.1 "), NULL, 10) == status;
    return true;
}

/* Fills the poll list; returns how many connections are open. */
static size_t pool_list(const struct http_pool *pool, struct pollfd *list)
{
    size_t open = 0;
    for (size_t i = 0; i < pool->size; i++) {
        list[i] = (struct pollfd){.fd = pool->member[i].fd, .events = POLLIN};
        open += list[i].fd >= 0;
    }
    return open;
}

struct http_pool_end http_pool_await_end(struct http_pool *pool, int status, const char *drip,
                                         int interval_ms, int ms)
{
    struct http_pool_end end = {.first_ms = -1};
    struct pollfd *list = calloc(pool->size, sizeof *list);
    int64_t deadline = wait_deadline(ms);
    int64_t next_drip = wait_now_ms();
    if (list == NULL)
        abort();
    while (pool_list(pool, list) > 0 && wait_left_ms(deadline) > 0) {
        if (drip != NULL && wait_now_ms() >= next_drip) {
            http_pool_send(pool, drip, 1);
            next_drip += interval_ms;
        }
        if (poll(list, pool->size, POOL_POLL_MS) <= 0)
            continue;
        for (size_t i = 0; i < pool->size; i++) {
            while (list[i].revents != 0 && pool_read(pool, &pool->member[i], status, &end))
                continue;
        }
    }
    end.left = (int)pool_list(pool, list);
    free(list);
    return end;
}
