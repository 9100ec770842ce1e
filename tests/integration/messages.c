/* HTTP messages: HEAD, how long a connection lives, and HTTP/1.0. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

FIXTURE(10, NULL)

static void open_connection(struct fixture *fixture, struct http_conn *conn)
{
    assert_int_equal(http_open(conn, fixture->server.port), 0);
}

/* Sends the text and reads one answer with that status. */
static void converse(struct http_conn *conn, const char *text, int status, struct http_response *response)
{
    assert_int_equal(http_send_text(conn, text), 0);
    int error = http_read(conn, false, response);
    if (error != 0)
        fail_msg("no answer: %s", strerror(-error));
    assert_int_equal(response->status, status);
}

static void assert_head_like_get(struct fixture *fixture, const char *target, const char *headers)
{
    struct http_conn conn;
    struct http_response get;
    struct http_response head;
    http_get(fixture->server.port, target, headers, &get);
    open_connection(fixture, &conn);
    assert_int_equal(http_exchange(&conn, "HEAD", target, headers, &head), 0);
    assert_int_equal(head.status, get.status);
    assert_string_equal(http_header(&head, "Content-Length"), http_header(&get, "Content-Length"));
    assert_string_equal(http_header(&head, "Content-Type"), http_header(&get, "Content-Type"));
    if (get.status == 200)
        assert_string_equal(http_header(&head, "ETag"), http_header(&get, "ETag"));
    http_response_free(&head);
    /* What follows has to be the next answer: a body after HEAD would be taken for it. */
    assert_int_equal(http_exchange(&conn, "GET", target, headers, &head), 0);
    assert_int_equal(head.status, get.status);
    assert_string_equal(head.body, get.body);
    http_response_free(&head);
    http_response_free(&get);
    http_close(&conn);
}

TEST_CASE(head_answers_like_get_without_a_body)
{
    assert_head_like_get(*state, "/api/channels/", FIXTURE_AUTH);
    assert_head_like_get(*state, "/api/channel/by-id/0/", FIXTURE_AUTH);
    assert_head_like_get(*state, "/api/channel/by-link/?link=https://max.ru/sample_3", FIXTURE_AUTH);
    assert_head_like_get(*state, "/api/channels/?page=0", FIXTURE_AUTH);
    assert_head_like_get(*state, "/api/channels/", NULL);
    assert_head_like_get(*state, "/nothing", NULL);
}

TEST_CASE(connection_is_kept_for_many_requests)
{
    struct http_conn conn;
    open_connection(*state, &conn);
    for (int i = 0; i < 200; i++) {
        struct http_response response;
        assert_int_equal(http_exchange(&conn, "GET", "/api/channel/by-id/0/", FIXTURE_AUTH, &response), 0);
        assert_int_equal(response.status, 200);
        assert_null(http_header(&response, "Connection"));
        http_response_free(&response);
    }
    http_close(&conn);
}

TEST_CASE(errors_keep_the_connection)
{
    static const char *const targets[] = {"/nothing", "/api/channels/?page=0", "/api/channel/by-id/4242/"};
    struct http_conn conn;
    open_connection(*state, &conn);
    for (size_t i = 0; i < TEST_COUNT(targets); i++) {
        struct http_response response;
        assert_int_equal(http_exchange(&conn, "GET", targets[i], FIXTURE_AUTH, &response), 0);
        assert_in_range(response.status, 400, 404);
        http_response_free(&response);
        assert_int_equal(http_exchange(&conn, "GET", targets[i], NULL, &response), 0);
        http_response_free(&response);
    }
    http_close(&conn);
}

TEST_CASE(connection_closes_when_asked)
{
    static const char *const headers[] = {
        "Connection: close\r\n",
        "Connection: Close\r\n",
        "Connection: x-other, close\r\n",
    };
    for (size_t i = 0; i < TEST_COUNT(headers); i++) {
        struct http_conn conn;
        struct http_response response;
        char *both = text_printf("%s%s", FIXTURE_AUTH, headers[i]);
        open_connection(*state, &conn);
        assert_int_equal(http_exchange(&conn, "GET", "/api/channels/", both, &response), 0);
        assert_int_equal(response.status, 200);
        assert_string_equal(http_header(&response, "Connection"), "close");
        assert_int_equal(http_read_eof(&conn), 0);
        http_response_free(&response);
        http_close(&conn);
        free(both);
    }
}

TEST_CASE(nothing_is_answered_after_close)
{
    struct http_conn conn;
    struct http_response response;
    open_connection(*state, &conn);
    converse(&conn,
             "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" FIXTURE_AUTH "\r\n"
             "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n",
             200, &response);
    assert_int_equal(http_read_eof(&conn), 0);
    http_response_free(&response);
    http_close(&conn);
}

TEST_CASE(http_1_0_closes_by_default_and_needs_no_host)
{
    struct http_conn conn;
    struct http_response response;
    open_connection(*state, &conn);
    converse(&conn, "GET /api/channels/ HTTP/1.0\r\n" FIXTURE_AUTH "\r\n", 200, &response);
    assert_int_equal(http_read_eof(&conn), 0);
    http_response_free(&response);
    http_close(&conn);
}

TEST_CASE(http_1_0_is_kept_when_asked)
{
    struct http_conn conn;
    struct http_response response;
    open_connection(*state, &conn);
    for (int i = 0; i < 3; i++) {
        converse(&conn, "GET /api/channels/ HTTP/1.0\r\nConnection: keep-alive\r\n" FIXTURE_AUTH "\r\n", 200,
                 &response);
        assert_non_null(http_header(&response, "Connection"));
        assert_string_equal(http_header(&response, "Connection"), "keep-alive");
        http_response_free(&response);
    }
    http_close(&conn);
}

TEST_CASE(half_closed_client_gets_its_answer)
{
    struct http_conn conn;
    struct http_response response;
    open_connection(*state, &conn);
    assert_int_equal(http_send_text(&conn, "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n"),
                     0);
    assert_int_equal(http_finish(&conn), 0);
    assert_int_equal(http_read(&conn, false, &response), 0);
    assert_int_equal(response.status, 200);
    assert_int_equal(http_read_eof(&conn), 0);
    http_response_free(&response);
    http_close(&conn);
}

TEST_CASE(empty_lines_before_a_request_are_skipped)
{
    struct http_conn conn;
    struct http_response response;
    open_connection(*state, &conn);
    converse(&conn, "\r\nGET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 200, &response);
    http_response_free(&response);
    http_close(&conn);
}
