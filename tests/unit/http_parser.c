/* Which input is a request and which is rejected, however it is split. */
#include "unit/fixtures/http_feed.h"

enum { NEEDS_MORE = 0, COMPLETE = 1 }; /* or the status of the rejection */

struct shape {
    struct span input;
    int outcome;
};

#define SHAPE(text, outcome)                  \
    {                                         \
        {(text), sizeof(text) - 1}, (outcome) \
    }
#define HOST "Host: a\r\n"

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

static void check_shapes(const struct shape *shapes, size_t count)
{
    SCOPED_FEED(f);
    int wrong = 0;
    for (size_t i = 0; i < count; i++) {
        feed_whole(&f, &FEED_LIMITS, shapes[i].input);
        if (outcome_of(&f) != shapes[i].outcome) {
            print_input(shapes[i].input);
            print_error("outcome: %d, not %d\n", outcome_of(&f), shapes[i].outcome);
            wrong++;
            continue;
        }
        feed_every_way(&f, &FEED_LIMITS, shapes[i].input);
    }
    assert_int_equal(wrong, 0);
}

#define CHECK_SHAPES(shapes) check_shapes((shapes), TEST_COUNT(shapes))

TEST_CASE(known_methods_are_read)
{
    static const struct shape shapes[] = {
        SHAPE("GET / HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("HEAD / HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("OPTIONS * HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("POST / HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("PUT / HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("DELETE / HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("PATCH / HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("TRACE / HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("M-SEARCH / HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("PROPFIND / HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("CONNECT a:443 HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
    };
    CHECK_SHAPES(shapes);
}

TEST_CASE(unknown_methods_are_501_and_other_bytes_400)
{
    static const struct shape shapes[] = {
        SHAPE("BREW / HTTP/1.1\r\n" HOST "\r\n", 501),
        SHAPE("get / HTTP/1.1\r\n" HOST "\r\n", 501),
        SHAPE("GETX / HTTP/1.1\r\n" HOST "\r\n", 501),
        SHAPE("GE / HTTP/1.1\r\n" HOST "\r\n", 501),
        SHAPE("P / HTTP/1.1\r\n" HOST "\r\n", 501),
        SHAPE("XX", 501),
        SHAPE("|~!#$%&'*+-.^_` / HTTP/1.1\r\n", 501),
        SHAPE("Get / HTTP/1.1\r\n" HOST "\r\n", 501),
        SHAPE("DESCRIBE / HTTP/1.1\r\n" HOST "\r\n", 501),
        SHAPE("PRI / HTTP/1.1\r\n" HOST "\r\n", 501), /* of HTTP/2 alone */
        SHAPE("PRI * HTTP/1.0\r\n" HOST "\r\n", 501),
        SHAPE("PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n", 501),
        SHAPE("(GET) / HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("G(T / HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE(" GET / HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("\r\n / HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET\t/ HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET\r\n\r\n", 400),
        SHAPE("\0GET / HTTP/1.1\r\n", 400),
        SHAPE("G\0ET / HTTP/1.1\r\n", 400),
        SHAPE("\xC3\x84 / HTTP/1.1\r\n", 400),
        SHAPE("GET\xFF / HTTP/1.1\r\n", 400),
        SHAPE("{\"page\": 1}", 400),
        SHAPE("\x16\x03\x01\x02\x00\x01", 400), /* TLS */
    };
    CHECK_SHAPES(shapes);
}

TEST_CASE(other_versions_are_505_and_other_bytes_400)
{
    static const struct shape shapes[] = {
        SHAPE("GET / HTTP/1.0\r\n\r\n", COMPLETE),
        SHAPE("GET / HTTP/1.0\r\n" HOST "\r\n", COMPLETE),
        SHAPE("GET / HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("GET / HTTP/0.9\r\n" HOST "\r\n", 505),
        SHAPE("GET / HTTP/2.0\r\n" HOST "\r\n", 505),
        SHAPE("GET / HTTP/3.0\r\n" HOST "\r\n", 505),
        SHAPE("GET / HTTP/1.2\r\n" HOST "\r\n", 505),
        SHAPE("GET / HTTP/0.0\r\n" HOST "\r\n", 505),
        SHAPE("GET / HTTP/9.9\r\n" HOST "\r\n", 505),
        SHAPE("GET /\r\n\r\n", 505),
        SHAPE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        SHAPE("GET / HTTP/x\r\n" HOST "\r\n", 400),
        SHAPE("GET / HTTP/1.x\r\n" HOST "\r\n", 400),
        SHAPE("GET / HTTP/1\r\n" HOST "\r\n", 400),
        SHAPE("GET / HTTP/11.1\r\n" HOST "\r\n", 400),
        SHAPE("GET / HTTP/1.10\r\n" HOST "\r\n", 400),
        SHAPE("GET / HTTP/1,1\r\n" HOST "\r\n", 400),
        SHAPE("GET / http/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET / HTTPS/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET / ICE/1.0\r\n" HOST "\r\n", 400),
        SHAPE("GET / RTSP/1.0\r\n" HOST "\r\n", 400),
        SHAPE("OPTIONS * RTSP/1.0\r\n\r\n", 400),
        SHAPE("SOURCE / ICE/1.0\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1 \r\n" HOST "\r\n", 400),
        SHAPE("GET / HTTP/1.1x\r\n" HOST "\r\n", 400),
        SHAPE("GET / HTTP/1.1 x\r\n" HOST "\r\n", 400),
        SHAPE("GET  /  HTTP/1.1\r\n" HOST "\r\n",
              COMPLETE), /* more spaces than one: RFC 9112 section 3 allows it */
        SHAPE("GET  HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET / x HTTP/1.1\r\n" HOST "\r\n", 400),
    };
    CHECK_SHAPES(shapes);
}

TEST_CASE(http_1_1_requires_exactly_one_valid_host)
{
    static const struct shape shapes[] = {
        SHAPE("GET / HTTP/1.1\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: \t \r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: \xC3\xA4\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\nHOST: b\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.0\r\nHost: a b\r\n\r\n", 400),
        SHAPE("GET http://a/ HTTP/1.1\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nhOsT:[::1]:80\r\n\r\n", COMPLETE),
    };
    CHECK_SHAPES(shapes);
}

TEST_CASE(the_length_of_content_is_unambiguous)
{
    static const struct shape shapes[] = {
        SHAPE("POST / HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nab", COMPLETE),
        SHAPE("GET / HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nab", COMPLETE),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", COMPLETE),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\na", NEEDS_MORE),
        SHAPE("POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab", COMPLETE),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Content-Length: 2\r\nContent-Length: 3\r\n\r\nab", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Content-Length: 2, 2\r\n\r\nab", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\na", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Content-Length: 0x1\r\n\r\na", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Content-Length: 1 1\r\n\r\na", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551616\r\n\r\n", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551615\r\n\r\n", 413),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab", 400),
        SHAPE("POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, gzip\r\n\r\n", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunkedx\r\n\r\n", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n\r\n", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: ,\r\n\r\n", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\nContent-Length: 1\r\n\r\na", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding:\r\n\r\na", 400),
        SHAPE("POST / HTTP/1.0\r\nTransfer-Encoding:\r\n\r\n", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n",
              400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n",
              400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", COMPLETE),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, Chunked\r\n\r\n0\r\n\r\n", 501),
        SHAPE("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: , chunked\r\n\r\n0\r\n\r\n", 501),
        SHAPE("POST / HTTP/1.1\r\n" HOST
              "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
              400),
        SHAPE("GET / HTTP/1.1\r\n" HOST "Transfer-Encoding : chunked\r\n\r\n", 400),
    };
    CHECK_SHAPES(shapes);
}

TEST_CASE(chunked_content_is_read_to_its_end)
{
#define CHUNKED "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
    static const struct shape shapes[] = {
        SHAPE(CHUNKED "0\r\n\r\n", COMPLETE),
        SHAPE(CHUNKED "3\r\nabc\r\n0\r\n\r\n", COMPLETE),
        SHAPE(CHUNKED "A\r\n0123456789\r\n000a\r\n0123456789\r\n0\r\n\r\n", COMPLETE),
        SHAPE(CHUNKED "1;name=value\r\na\r\n0;x=\"quoted text\"\r\n\r\n", COMPLETE),
        SHAPE(CHUNKED "0\r\nTrailer: yes\r\nHost: b\r\n\r\n", COMPLETE),
        SHAPE(CHUNKED "0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        SHAPE(CHUNKED "3\r\nabc\r\n", NEEDS_MORE),
        SHAPE(CHUNKED "0\r\n", NEEDS_MORE),
        SHAPE(CHUNKED "3\r\nabcd\r\n0\r\n\r\n", 400),
        SHAPE(CHUNKED "3\nabc\r\n0\r\n\r\n", 400),
        SHAPE(CHUNKED "3\r\nabc0\r\n\r\n", 400),
        SHAPE(CHUNKED "3 \r\nabc\r\n0\r\n\r\n", 400),
        SHAPE(CHUNKED "\r\n", 400),
        SHAPE(CHUNKED "-1\r\n\r\n", 400),
        SHAPE(CHUNKED "0x1\r\na\r\n0\r\n\r\n", 400),
        SHAPE(CHUNKED "g\r\n", 400),
        SHAPE(CHUNKED "10000000000000000\r\n", 400),
        SHAPE(CHUNKED "FFFFFFFFFFFFFFFFF\r\n", 400),
        SHAPE(CHUNKED "1;a\nb\r\na\r\n0\r\n\r\n", 400),
        SHAPE(CHUNKED "1;a\0b\r\na\r\n0\r\n\r\n", 400),
    };
    CHECK_SHAPES(shapes);
}

TEST_CASE(lines_end_in_crlf_and_fields_are_not_folded)
{
    static const struct shape shapes[] = {
        SHAPE("GET / HTTP/1.1\n" HOST "\r\n", 400),
        SHAPE("GET / HTTP/1.1\r" HOST "\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a\r\n\rX", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\n\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tz\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\n: a\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHo st: a\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a\r\nX\xE9: y\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a\r\nX\0: y\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a\r\nX: y\0z\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a\r\nX: y\x01z\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a\r\nX: y\x7Fz\r\n\r\n", 400),
        SHAPE("GET / HTTP/1.1\r\nHost: a\r\nX: caf\xC3\xA9 \xFF\r\n\r\n", COMPLETE),
        SHAPE("GET / HTTP/1.1\r\nHost: a\r\nX: \ty\t\r\n\r\n", COMPLETE),
        SHAPE("GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n", COMPLETE),
        SHAPE("\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("\rGET / HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("\nGET / HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("\r\n\rGET / HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("\r\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 400),
    };
    CHECK_SHAPES(shapes);
}

TEST_CASE(targets_of_every_form_are_read_and_broken_ones_rejected)
{
    static const struct shape shapes[] = {
        SHAPE("GET /a?b=c&d HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("GET http://b:80/c?d HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("GET HTTPS://b HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("GET http:///c HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET http://?c HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET http://u@b/c HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET http://b:x/c HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET /a?%zz HTTP/1.1\r\n" HOST "\r\n", COMPLETE),
        SHAPE("GET /a#b HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET /a?b#c HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET # HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET /%zz HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET /% HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET /%00 HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET /a\0b HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET /a\x01"
              "b HTTP/1.1\r\n" HOST "\r\n",
              400),
        SHAPE("GET /a\x7F HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET /a\tb HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET /a\fb HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET /\xC3\xA9 HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET /?\xFF HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("HEAD /\xFF HTTP/1.1\r\n" HOST "\r\n", 400),
        SHAPE("GET a HTTP/1.1\r\n" HOST "\r\n", 400),
    };
    CHECK_SHAPES(shapes);
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
