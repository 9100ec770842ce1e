/* Sending hostile shapes and telling what came of them; the shapes themselves are in shapes_*.c. */

#include "hostile/shapes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct shape *const shape_lists[] = {shapes_of_length, shapes_of_chunks, shapes_of_lines,
                                           shapes_of_targets, NULL};

/* The server may refuse and close before it has all of it: what counts is what it answers. */
static void send_pieces(struct http_conn *conn, const char *bytes, size_t length, size_t piece)
{
    for (size_t at = 0; at < length; at += piece) {
        if (http_send(conn, bytes + at, length - at < piece ? length - at : piece) != 0)
            return;
    }
}

static char *append_answer(char *told, const struct http_response *response)
{
    const char *id = http_header(response, "X-Request-Id");
    const char *connection = http_header(response, "Connection");
    bool is_tail = id != NULL && strcmp(id, SHAPE_TAIL_ID) == 0;
    bool closes = connection != NULL && strcmp(connection, "close") == 0;
    char *one = text_printf("%s%s%d%s", told[0] != '\0' ? ", " : "", is_tail ? "tail " : "", response->status,
                            closes ? " close" : "");
    told = text_append(told, one);
    free(one);
    return told;
}

static const char *name_of_end(int error)
{
    if (error == -EPIPE)
        return "";
    if (error == -ECONNRESET)
        return "reset";
    return error == -ETIMEDOUT ? "silence" : "garbage";
}

static char *append_end(char *told, int error)
{
    const char *end = name_of_end(error);
    if (end[0] != '\0' && told[0] != '\0')
        told = text_append(told, ", ");
    told = text_append(told, end);
    return told[0] != '\0' ? told : text_append(told, "nothing");
}

char *shape_send(int port, const struct shape *shape, size_t piece)
{
    struct http_conn conn;
    struct http_response response;
    char *told = text_printf("%s", "");
    int error = http_open(&conn, port);
    if (error != 0)
        return append_end(told, error);
    send_pieces(&conn, shape->bytes, shape->length, piece);
    send_pieces(&conn, SHAPE_TAIL, strlen(SHAPE_TAIL), piece);
    (void)http_finish(&conn);
    while ((error = http_read(&conn, false, &response)) == 0) {
        told = append_answer(told, &response);
        http_response_free(&response);
    }
    http_close(&conn);
    return append_end(told, error);
}
