/* The message half of the test client: one response read exactly, and whole exchanges. */

#include "support/http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "support/http_conn.h"
#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

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

/* "HTTP/1.x NNN reason" */
static int http_parse_status(struct http_response *response, const char *line)
{
    int version = strncmp(line, "HTTP/1.0 ", 9) == 0 ? 0 : 1;
    if (version == 1 && strncmp(line, "HTTP/1.1 ", 9) != 0)
        return -EPROTO;
    char *end = NULL;
    long status = strtol(line + 9, &end, 10);
    if (end != line + 12 || *end != ' ' || status < 100 || status > 599)
        return -EPROTO;
    response->minor = version;
    response->status = (int)status;
    return 0;
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

/* Cuts the head (which ends in an empty line) into its lines. */
static int http_parse_head(struct http_response *response)
{
    int result = 0;
    char *line = response->head;
    for (bool first = true; result == 0; first = false) {
        char *end = strstr(line, "\r\n");
        if (end == NULL)
            return -EPROTO;
        *end = '\0';
        if (end == line)
            return first ? -EPROTO : 0;
        result = first ? http_parse_status(response, line) : http_parse_header(response, line);
        line = end + 2;
    }
    return result;
}

static int http_body_length(const struct http_response *response, bool to_head, size_t *length)
{
    const char *text = http_header(response, "Content-Length");
    *length = 0;
    if (to_head || response->status < 200 || response->status == 204 || response->status == 304)
        return 0;
    if (text == NULL || http_header_count(response, "Content-Length") != 1 || text[0] < '0' || text[0] > '9')
        return -EPROTO;
    char *end = NULL;
    *length = strtoul(text, &end, 10);
    return *end == '\0' ? 0 : -EPROTO;
}

/* The length of the head in the buffer, with its empty line; 0 when it is not complete. */
static size_t http_head_length(const struct http_conn *conn)
{
    const char *end = conn->length > 0 ? memmem(conn->data, conn->length, "\r\n\r\n", 4) : NULL;
    return end != NULL ? (size_t)(end - conn->data) + 4 : 0;
}

static int http_read_head(struct http_conn *conn, int64_t deadline, struct http_response *response)
{
    while (http_head_length(conn) == 0) {
        int error = http_conn_fill(conn, deadline);
        if (error != 0)
            return error == -EPIPE && conn->length > 0 ? -EPROTO : error;
    }
    size_t length = http_head_length(conn);
    response->head = http_copy(conn->data, length);
    http_conn_drop(conn, length);
    return http_parse_head(response);
}

static int http_read_body(struct http_conn *conn, int64_t deadline, bool to_head,
                          struct http_response *response)
{
    size_t length = 0;
    int error = http_body_length(response, to_head, &length);
    while (error == 0 && conn->length < length)
        error = http_conn_fill(conn, deadline);
    if (error != 0)
        return error == -EPIPE ? -EPROTO : error;
    response->body = http_copy(conn->data, length);
    response->body_length = length;
    http_conn_drop(conn, length);
    return 0;
}

int http_read(struct http_conn *conn, bool to_head, struct http_response *response)
{
    int64_t deadline = wait_deadline(WAIT_DEADLINE_MS);
    memset(response, 0, sizeof *response);
    int error = http_read_head(conn, deadline, response);
    if (error == 0)
        error = http_read_body(conn, deadline, to_head, response);
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

char *http_format(const char *method, const char *target, const char *headers)
{
    return text_printf("%s %s HTTP/1.1\r\nHost: api.example\r\n%s\r\n", method, target,
                       headers != NULL ? headers : "");
}

int http_exchange(struct http_conn *conn, const char *method, const char *target, const char *headers,
                  struct http_response *response)
{
    char *request = http_format(method, target, headers);
    int error = http_send_text(conn, request);
    free(request);
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

void http_expect_refusal(int port, const char *data, size_t length, int status)
{
    struct http_conn conn;
    struct http_response response;
    assert_int_equal(http_open(&conn, port), 0);
    /* The server may refuse and close before it has all of it: only the answer counts. */
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
