/* Which input is a request and which is rejected, however it is split. */
#include "unit/fixtures/http_feed.h"

enum { NEEDS_MORE = 0, COMPLETE = 1 }; /* or the status of the rejection */

#define HOST          "Host: a\r\n"
#define LINE(text)    SPAN(text "\r\n" HOST "\r\n") /* a request line, with the rest of a head */
#define GET(fields)   SPAN("GET / HTTP/1.1\r\n" fields)
#define POST(fields)  SPAN("POST / HTTP/1.1\r\n" HOST fields)
#define CHUNKED(text) POST("Transfer-Encoding: chunked\r\n\r\n" text)

static int outcome_of(const struct feed *f)
{
    if (f->progress == HTTP_REJECTED)
        return f->parser.status;
    return f->progress == HTTP_COMPLETE ? COMPLETE : NEEDS_MORE;
}

static void print_input(struct span s)
{
    char text[512];
    size_t n = 0;
    for (size_t i = 0; i < s.len && n + 5 < sizeof text; i++) {
        unsigned char c = (unsigned char)s.data[i];
        bool plain = c >= 0x20 && c < 0x7F;
        n += (size_t)snprintf(text + n, sizeof text - n, plain ? "%c" : "\\x%02x", c);
    }
    text[n] = '\0';
    print_error("input: %s\n", text);
}

static void check_outcome(int outcome, const struct span *inputs, size_t count)
{
    SCOPED_FEED(f);
    int wrong = 0;
    for (size_t i = 0; i < count; i++) {
        feed_every_way(&f, &FEED_LIMITS, inputs[i]);
        if (outcome_of(&f) != outcome) {
            print_input(inputs[i]);
            print_error("outcome: %d, not %d\n", outcome_of(&f), outcome);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* The outcome of each of the inputs, however it is split. */
#define EXPECT(outcome, ...)                                     \
    check_outcome((outcome), (const struct span[]){__VA_ARGS__}, \
                  TEST_COUNT(((const struct span[]){__VA_ARGS__})))

TEST_CASE(known_methods_are_read)
{
    EXPECT(COMPLETE, LINE("GET / HTTP/1.1"), LINE("HEAD / HTTP/1.1"), LINE("OPTIONS * HTTP/1.1"),
           POST("\r\n"), LINE("PUT / HTTP/1.1"), LINE("DELETE / HTTP/1.1"), LINE("PATCH / HTTP/1.1"),
           LINE("TRACE / HTTP/1.1"), LINE("M-SEARCH / HTTP/1.1"), LINE("PROPFIND / HTTP/1.1"),
           LINE("CONNECT a:443 HTTP/1.1"));
}

TEST_CASE(unknown_methods_are_501_and_other_bytes_400)
{
    EXPECT(501, LINE("BREW / HTTP/1.1"), LINE("get / HTTP/1.1"), LINE("GETX / HTTP/1.1"),
           LINE("GE / HTTP/1.1"), LINE("P / HTTP/1.1"), SPAN("XX"), SPAN("|~!#$%&'*+-.^_` / HTTP/1.1\r\n"),
           LINE("Get / HTTP/1.1"), LINE("DESCRIBE / HTTP/1.1"), LINE("PRI / HTTP/1.1"), /* of HTTP/2 alone */
           LINE("PRI * HTTP/1.0"), SPAN("PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n"), LINE("SOURCE / HTTP/1.1"),
           LINE("SOURCE / ICE/1.0") /* of Icecast alone */);
    EXPECT(400, LINE("(GET) / HTTP/1.1"), LINE("G(T / HTTP/1.1"), LINE(" GET / HTTP/1.1"),
           LINE("\r\n / HTTP/1.1"), LINE("GET\t/ HTTP/1.1"), SPAN("GET\r\n\r\n"),
           SPAN("\0GET / HTTP/1.1\r\n"), SPAN("G\0ET / HTTP/1.1\r\n"), SPAN("\xC3\x84 / HTTP/1.1\r\n"),
           SPAN("GET\xFF / HTTP/1.1\r\n"), SPAN("{\"page\": 1}"), SPAN("\x16\x03\x01\x02\x00\x01") /* TLS */);
}

TEST_CASE(other_versions_are_505_and_other_bytes_400)
{
    EXPECT(COMPLETE, SPAN("GET / HTTP/1.0\r\n\r\n"), LINE("GET / HTTP/1.0"), LINE("GET / HTTP/1.1"),
           LINE("GET / HTTP/1.2"), LINE("GET / HTTP/1.9"), /* as 1.1: RFC 9110 section 2.5 */
           LINE("GET  /  HTTP/1.1") /* more spaces than one: RFC 9112 section 3 allows it */);
    EXPECT(505, LINE("GET / HTTP/0.9"), LINE("GET / HTTP/2.0"), LINE("GET / HTTP/3.0"),
           LINE("GET / HTTP/0.0"), LINE("GET / HTTP/9.9"), SPAN("GET /\r\n\r\n"),
           SPAN("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    EXPECT(400, LINE("GET / HTTP/x"), LINE("GET / HTTP/1.x"), LINE("GET / HTTP/1"), LINE("GET / HTTP/11.1"),
           LINE("GET / HTTP/1.10"), LINE("GET / HTTP/1,1"), LINE("GET / http/1.1"), LINE("GET / HTTPS/1.1"),
           LINE("GET / ICE/1.0"), LINE("GET / RTSP/1.0"), LINE("GET /  RTSP/1.1"), LINE("OPTIONS * RTSP/1.0"),
           SPAN("GET / R"), LINE("GET / HTTP/1.1 "), LINE("GET / HTTP/1.1x"), LINE("GET / HTTP/1.1 x"),
           LINE("GET  HTTP/1.1"), LINE("GET / x HTTP/1.1"));
}

TEST_CASE(http_1_1_requires_exactly_one_valid_host)
{
    EXPECT(400, GET("\r\n"), GET("Host:\r\n\r\n"), GET("Host: \t \r\n\r\n"), GET("Host: a b\r\n\r\n"),
           GET("Host: a, b\r\n\r\n"), GET("Host: a/b\r\n\r\n"), GET("Host: u@a\r\n\r\n"),
           GET("Host: \xC3\xA4\r\n\r\n"), GET(HOST "Host: a\r\n\r\n"), GET(HOST "X: y\r\nHOST: b\r\n\r\n"),
           SPAN("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"), SPAN("GET / HTTP/1.0\r\nHost: a b\r\n\r\n"),
           SPAN("GET http://a/ HTTP/1.1\r\n\r\n"));
    EXPECT(COMPLETE, GET("hOsT:[::1]:80\r\n\r\n"));
}

TEST_CASE(the_length_of_content_is_unambiguous)
{
    EXPECT(COMPLETE, POST("Content-Length: 2\r\n\r\nab"),
           SPAN("GET / HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nab"), POST("Content-Length: 0\r\n\r\n"),
           SPAN("POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab"),
           POST("Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n"));
    EXPECT(NEEDS_MORE, POST("Content-Length: 2\r\n\r\na"));
    EXPECT(400, POST("Content-Length: 2\r\nContent-Length: 2\r\n\r\nab"),
           POST("Content-Length: 2\r\nContent-Length: 3\r\n\r\nab"), POST("Content-Length: 2, 2\r\n\r\nab"),
           POST("Content-Length: -1\r\n\r\n"), POST("Content-Length: +1\r\n\r\na"),
           POST("Content-Length: 0x1\r\n\r\na"), POST("Content-Length: 1 1\r\n\r\na"),
           POST("Content-Length:\r\n\r\n"), POST("Content-Length: 18446744073709551616\r\n\r\n"),
           POST("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"),
           POST("Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n"),
           POST("Transfer-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab"),
           SPAN("POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
           POST("Transfer-Encoding: gzip\r\n\r\n"), POST("Transfer-Encoding: chunked, gzip\r\n\r\n"),
           POST("Transfer-Encoding: xchunked\r\n\r\n"), POST("Transfer-Encoding: chunkedx\r\n\r\n"),
           POST("Transfer-Encoding:\r\n\r\n"), POST("Transfer-Encoding: ,\r\n\r\n"),
           POST("Transfer-Encoding:\r\nContent-Length: 1\r\n\r\na"),
           POST("Content-Length: 1\r\nTransfer-Encoding:\r\n\r\na"),
           SPAN("POST / HTTP/1.0\r\nTransfer-Encoding:\r\n\r\n"),
           POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n"),
           POST("Transfer-Encoding: chunked\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n"),
           POST("Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
           SPAN("GET / HTTP/1.1\r\n" HOST "Transfer-Encoding : chunked\r\n\r\n"));
    EXPECT(413, POST("Content-Length: 18446744073709551615\r\n\r\n"));
    EXPECT(501, POST("Transfer-Encoding: gzip, Chunked\r\n\r\n0\r\n\r\n"),
           POST("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
           POST("Transfer-Encoding: gzip\r\nX: y\r\ntransfer-encoding:\tchunked\t\r\n\r\n0\r\n\r\n"),
           POST("Transfer-Encoding: , chunked\r\n\r\n0\r\n\r\n"));
}

TEST_CASE(chunked_content_is_read_to_its_end)
{
    EXPECT(COMPLETE, CHUNKED("0\r\n\r\n"), CHUNKED("3\r\nabc\r\n0\r\n\r\n"),
           CHUNKED("A\r\n0123456789\r\n000a\r\n0123456789\r\n0\r\n\r\n"),
           CHUNKED("1;name=value\r\na\r\n0;x=\"quoted text\"\r\n\r\n"),
           CHUNKED("0\r\nTrailer: yes\r\nHost: b\r\n\r\n"));
    EXPECT(400, CHUNKED("0\r\nTransfer-Encoding: chunked\r\n\r\n"), CHUNKED("3\r\nabcd\r\n0\r\n\r\n"),
           CHUNKED("3\nabc\r\n0\r\n\r\n"), CHUNKED("3\r\nabc0\r\n\r\n"), CHUNKED("3 \r\nabc\r\n0\r\n\r\n"),
           CHUNKED("\r\n"), CHUNKED("-1\r\n\r\n"), CHUNKED("0x1\r\na\r\n0\r\n\r\n"), CHUNKED("g\r\n"),
           CHUNKED("10000000000000000\r\n"), CHUNKED("FFFFFFFFFFFFFFFFF\r\n"),
           CHUNKED("1;a\nb\r\na\r\n0\r\n\r\n"), CHUNKED("1;a\0b\r\na\r\n0\r\n\r\n"));
    EXPECT(NEEDS_MORE, CHUNKED("3\r\nabc\r\n"), CHUNKED("0\r\n"));
}

TEST_CASE(lines_end_in_crlf_and_fields_are_not_folded)
{
    EXPECT(400, SPAN("GET / HTTP/1.1\n" HOST "\r\n"), SPAN("GET / HTTP/1.1\r" HOST "\r\n"),
           GET("Host: a\n\r\n"), GET("Host: a\r\r\n\r\n"), GET(HOST "\n"), GET(HOST "\rX"),
           GET("Host: a\rX: y\r\n\r\n"), SPAN("GET / HTTP/1.1\n\n"), GET(HOST "X: y\r\n z\r\n\r\n"),
           GET(HOST "X: y\r\n\tz\r\n\r\n"), GET(" Host: a\r\n\r\n"), GET("Host : a\r\n\r\n"),
           GET("Host\r\n\r\n"), GET(": a\r\n\r\n"), GET("Ho st: a\r\n\r\n"), GET(HOST "X\xE9: y\r\n\r\n"),
           GET(HOST "X\0: y\r\n\r\n"), GET(HOST "X: y\0z\r\n\r\n"), GET(HOST "X: y\x01z\r\n\r\n"),
           GET(HOST "X: y\x7Fz\r\n\r\n"), LINE("\rGET / HTTP/1.1"), LINE("\nGET / HTTP/1.1"),
           LINE("\r\n\rGET / HTTP/1.1"), LINE("\r\r\nGET / HTTP/1.1"));
    EXPECT(COMPLETE, GET(HOST "X: caf\xC3\xA9 \xFF\r\n\r\n"), GET(HOST "X: \ty\t\r\n\r\n"),
           GET(HOST "X:\r\n\r\n"), LINE("\r\n\r\nGET / HTTP/1.1"));
}

TEST_CASE(targets_of_every_form_are_read_and_broken_ones_rejected)
{
    EXPECT(COMPLETE, LINE("GET /a?b=c&d HTTP/1.1"), LINE("GET http://b:80/c?d HTTP/1.1"),
           LINE("GET HTTPS://b HTTP/1.1"), LINE("GET /a?%zz HTTP/1.1"));
    EXPECT(400, LINE("GET http:///c HTTP/1.1"), LINE("GET http://?c HTTP/1.1"),
           LINE("GET http://u@b/c HTTP/1.1"), LINE("GET http://b:x/c HTTP/1.1"), LINE("GET /a#b HTTP/1.1"),
           LINE("GET /a?b#c HTTP/1.1"), LINE("GET # HTTP/1.1"), LINE("GET /%zz HTTP/1.1"),
           LINE("GET /% HTTP/1.1"), LINE("GET /%00 HTTP/1.1"), LINE("GET /a\0b HTTP/1.1"),
           SPAN("GET /a\x01"
                "b HTTP/1.1\r\n" HOST "\r\n"),
           LINE("GET /a\x7F HTTP/1.1"), LINE("GET /a\tb HTTP/1.1"), LINE("GET /a\fb HTTP/1.1"),
           LINE("GET /\xC3\xA9 HTTP/1.1"), LINE("GET /?\xFF HTTP/1.1"), LINE("HEAD /\xFF HTTP/1.1"),
           LINE("GET a HTTP/1.1"));
}

TEST_CASE(every_prefix_of_a_request_needs_more)
{
    const struct span request = SPAN("GET /api/?a=b HTTP/1.1\r\nHost: a\r\nX-Api-Key: k\r\n\r\n");
    SCOPED_FEED(f);
    for (size_t n = 0; n < request.len; n++) {
        feed_every_way(&f, &FEED_LIMITS, (struct span){request.data, n});
        assert_int_equal(f.progress, HTTP_NEED_MORE);
    }
    feed_whole(&f, &FEED_LIMITS, request);
    assert_int_equal(f.progress, HTTP_COMPLETE);
}

TEST_CASE(random_changes_of_a_request_end_alike_however_split)
{
    static const char request[] =
        "POST /a?b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;x\r\na\r\n0\r\n\r\n";
    static const char odd[] = "\r\n\t :;,#%\0\x7F\xFFG/1";
    uint64_t seed = 1;
    SCOPED_FEED(f);
    for (int i = 0; i < 1000; i++) {
        char text[sizeof request];
        memcpy(text, request, sizeof request);
        for (uint32_t n = 1 + check_random(&seed) % 2; n > 0; n--)
            text[check_random(&seed) % (sizeof request - 1)] = odd[check_random(&seed) % (sizeof odd - 1)];
        feed_every_way(&f, &FEED_LIMITS, (struct span){text, sizeof request - 1});
    }
}
