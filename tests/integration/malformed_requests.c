/*
 * Malformed requests, each sent whole and byte by byte: the response is the one of RFC 9112, and what follows
 * is never taken for a request where it is none. A good request, the tail, follows each of them on the same
 * connection. In two cases the tail must not be answered: the shape is refused, or by RFC 9112 the tail can
 * only be content.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

FIXTURE(3, NULL)

struct shape {
    const char *name;
    const char *expected; /* as shape_send() describes it */
    const char *bytes;
    size_t length;
};

#define SHAPE_TAIL_ID "tail"
#define SHAPE_TAIL                                                                                           \
    "GET /api/channel/by-id/0/ HTTP/1.1\r\nHost: a\r\nX-Request-Id: " SHAPE_TAIL_ID "\r\n" FIXTURE_AUTH "\r" \
    "\n"

/* The texts may contain NUL. */

#define HOST           "Host: a\r\n"
#define LINE           "GET /api/channels/ HTTP/1.1\r\n"
#define GET            LINE HOST FIXTURE_AUTH
#define TARGET(target) "GET " target " HTTP/1.1\r\n" HOST FIXTURE_AUTH "\r\n"

#define SHAPE(name, expected, bytes)                   \
    {                                                  \
        (name), (expected), (bytes), sizeof(bytes) - 1 \
    }
#define SHAPES_END          \
    {                       \
        NULL, NULL, NULL, 0 \
    }

/* Outcomes. */
#define REFUSED "400 close"
#define SERVED  "200, tail 200"
#define PART    "nothing" /* no complete request: the tail is part of it */

/* ---- Content-Length and Transfer-Encoding: RFC 9112 sections 6.1 to 6.3, RFC 9110 section 8.6 ---- */

#define LENGTH(value) GET "Content-Length: " value "\r\n\r\n"
#define CODING(value) GET "Transfer-Encoding: " value "\r\n\r\n"
#define NO_CHUNKS     "0\r\n\r\n"

static const struct shape shapes_of_length[] = {
    SHAPE("length and coding", REFUSED,
          GET "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG"),
    SHAPE("coding and length", REFUSED,
          GET "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\nG"),
    SHAPE("length 0 and coding", REFUSED,
          GET "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n" NO_CHUNKS),
    SHAPE("length and identity", REFUSED, GET "Content-Length: 0\r\nTransfer-Encoding: identity\r\n\r\n"),
    SHAPE("length and a coding without a value", REFUSED,
          GET "Content-Length: 0\r\nTransfer-Encoding:\r\n\r\n"),
    SHAPE("two lengths, the same", REFUSED, GET "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    SHAPE("two lengths, another", REFUSED, GET "Content-Length: 0\r\nContent-Length: 44\r\n\r\n"),
    SHAPE("two lengths in a list", REFUSED, LENGTH("5, 5") "hello"),
    SHAPE("two lengths in a list, another", REFUSED, LENGTH("0, 44")),
    SHAPE("length with a plus", REFUSED, LENGTH("+5") "hello"),
    SHAPE("length with a minus", REFUSED, LENGTH("-5") "hello"),
    SHAPE("length minus zero", REFUSED, LENGTH("-0")),
    SHAPE("length with a space in it", REFUSED, LENGTH("4 4")),
    SHAPE("length with spaces around it", SERVED, LENGTH("  5  ") "hello"),
    SHAPE("length with a tab behind it", SERVED, LENGTH("5\t") "hello"),
    SHAPE("length with tabs and spaces around it", SERVED, LENGTH("\t 5 \t\t ") "hello"),
    SHAPE("length with a tab in it", REFUSED, LENGTH("4\t4")),
    SHAPE("length 0 with a tab behind it", SERVED, LENGTH("0\t")),
    SHAPE("length with a tab behind it, and content of tabs", SERVED, LENGTH("5\t") "\t\t\t\t\t"),
    SHAPE("length in hexadecimal", REFUSED, LENGTH("0x5") "hello"),
    SHAPE("length in hexadecimal digits", REFUSED, LENGTH("a") "0123456789"),
    SHAPE("length with leading zeros", SERVED, LENGTH("000000000000000000000000000005") "hello"),
    SHAPE("length with a fraction", REFUSED, LENGTH("5.0") "hello"),
    SHAPE("length with an exponent", REFUSED, LENGTH("5e0") "hello"),
    SHAPE("length with an underscore", REFUSED, LENGTH("0_5") "hello"),
    SHAPE("length in quotes", REFUSED, LENGTH("\"5\"") "hello"),
    SHAPE("length with a semicolon", REFUSED, LENGTH("5;") "hello"),
    SHAPE("length behind a vertical tab", REFUSED,
          LENGTH("\x0b"
                 "5") "hello"),
    SHAPE("length before a form feed", REFUSED, LENGTH("5\x0c") "hello"),
    SHAPE("length before NUL", REFUSED, LENGTH("5\0") "hello"),
    SHAPE("length before a no-break space", REFUSED, LENGTH("5\xa0") "hello"),
    SHAPE("length in Arabic digits", REFUSED, LENGTH("\xd9\xa5") "hello"),
    SHAPE("length without a value", REFUSED, GET "Content-Length:\r\n\r\n"),
    SHAPE("length of 2^63", "413 close", LENGTH("9223372036854775808")),
    SHAPE("length of 2^64 - 1", "413 close", LENGTH("18446744073709551615")),
    SHAPE("length of 2^64", REFUSED, LENGTH("18446744073709551616")),
    SHAPE("length of 2^64 + 5", REFUSED, LENGTH("18446744073709551621") "hello"),
    SHAPE("length of 100 digits", REFUSED,
          LENGTH("1000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
                 "000000000")),
    SHAPE("length with a space before the colon", REFUSED, GET "Content-Length : 5\r\n\r\nhello"),
    SHAPE("length with a tab before the colon", REFUSED, GET "Content-Length\t: 5\r\n\r\nhello"),
    SHAPE("length with an underscore in its name is another field", SERVED, GET "Content_Length: 5\r\n\r\n"),
    SHAPE("length longer than what follows", PART, LENGTH("5000") "hello"),
    SHAPE("length in 1.0", "200 close",
          "GET /api/channels/ HTTP/1.0\r\n" FIXTURE_AUTH "Content-Length: 5\r\n\r\nhello"),
    SHAPE("length 0 and content all the same", "200, 501 close", LENGTH("0") "XX"),

    SHAPE("coding alone", SERVED, CODING("chunked") NO_CHUNKS),
    SHAPE("coding in capitals", SERVED, CODING("CHUNKED") NO_CHUNKS),
    SHAPE("coding behind a tab", SERVED, GET "Transfer-Encoding:\tchunked\r\n\r\n" NO_CHUNKS),
    SHAPE("coding with a tab behind it", SERVED, CODING("chunked\t") NO_CHUNKS),
    SHAPE("coding with spaces and tabs behind it", SERVED, CODING("chunked \t \t") NO_CHUNKS),
    SHAPE("coding with a tab in it", REFUSED, CODING("chun\tked") NO_CHUNKS),
    SHAPE("coding with a tab behind it and length", REFUSED,
          GET "Transfer-Encoding: chunked\t\r\nContent-Length: 5\t\r\n\r\n" NO_CHUNKS),
    SHAPE("coding, then identity", REFUSED, CODING("chunked, identity") NO_CHUNKS),
    SHAPE("identity, then coding", "501 close", CODING("identity, chunked") NO_CHUNKS),
    SHAPE("gzip, then coding", "501 close", CODING("gzip, chunked") NO_CHUNKS),
    SHAPE("coding, then gzip", REFUSED, CODING("chunked, gzip") NO_CHUNKS),
    SHAPE("coding twice in a list", REFUSED, CODING("chunked, chunked") NO_CHUNKS),
    SHAPE("coding twice", REFUSED,
          GET "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" NO_CHUNKS),
    SHAPE("coding and identity", REFUSED,
          GET "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" NO_CHUNKS),
    SHAPE("coding and nothing", REFUSED,
          GET "Transfer-Encoding: chunked\r\nTransfer-Encoding:\r\n\r\n" NO_CHUNKS),
    SHAPE("gzip and coding", "501 close",
          GET "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" NO_CHUNKS),
    SHAPE("gzip and coding, apart", "501 close",
          GET "Transfer-Encoding: gzip\r\nX: y\r\ntransfer-encoding:\tchunked\t\r\n\r\n" NO_CHUNKS),
    SHAPE("gzip alone", REFUSED, CODING("gzip")),
    SHAPE("gzip and length", REFUSED, GET "Transfer-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab"),
    SHAPE("comma alone", REFUSED, CODING(",")),
    SHAPE("coding xchunked", REFUSED, CODING("xchunked") NO_CHUNKS),
    SHAPE("coding chunkedx", REFUSED, CODING("chunkedx") NO_CHUNKS),
    SHAPE("coding x chunked", REFUSED, CODING("x chunked") NO_CHUNKS),
    SHAPE("coding chunked x", REFUSED, CODING("chunked x") NO_CHUNKS),
    SHAPE("coding with a parameter", REFUSED, CODING("chunked;q=1") NO_CHUNKS),
    SHAPE("coding in quotes", REFUSED, CODING("\"chunked\"") NO_CHUNKS),
    SHAPE("coding before a vertical tab", REFUSED, CODING("chunked\x0b") NO_CHUNKS),
    SHAPE("coding behind a vertical tab", REFUSED,
          CODING("\x0b"
                 "chunked") NO_CHUNKS),
    SHAPE("coding before NUL", REFUSED, CODING("chunked\0") NO_CHUNKS),
    SHAPE("coding before a comma", REFUSED, CODING("chunked,") NO_CHUNKS),
    SHAPE("coding behind a comma", "501 close", CODING(", chunked") NO_CHUNKS),
    SHAPE("coding unknown", REFUSED, CODING("cow") NO_CHUNKS),
    SHAPE("coding without a value", REFUSED, GET "Transfer-Encoding:\r\n\r\n" NO_CHUNKS),
    SHAPE("coding folded", REFUSED, GET "Transfer-Encoding:\r\n chunked\r\n\r\n" NO_CHUNKS),
    SHAPE("coding with a space before the colon", REFUSED,
          GET "Transfer-Encoding : chunked\r\n\r\n" NO_CHUNKS),
    SHAPE("coding behind a bare line feed", REFUSED,
          GET "X: y\nTransfer-Encoding: chunked\r\n\r\n" NO_CHUNKS),
    SHAPE("coding behind a bare carriage return", REFUSED,
          GET "X: y\rTransfer-Encoding: chunked\r\n\r\n" NO_CHUNKS),
    SHAPE("coding in 1.0", REFUSED,
          "GET /api/channels/ HTTP/1.0\r\n" FIXTURE_AUTH "Transfer-Encoding: chunked\r\n\r\n" NO_CHUNKS),
    SHAPE("coding in 1.0 that is kept", REFUSED,
          "GET /api/channels/ HTTP/1.0\r\nConnection: keep-alive\r\n" FIXTURE_AUTH
          "Transfer-Encoding: chunked\r\n\r\n" NO_CHUNKS),
    SHAPES_END,
};

/* ---- Chunked content: RFC 9112 section 7.1 ---- */

#define CHUNKED GET "Transfer-Encoding: chunked\r\n\r\n"
#define LAST    "0\r\n\r\n"

static const struct shape shapes_of_chunks[] = {
    SHAPE("a chunk", SERVED, CHUNKED "5\r\nhello\r\n" LAST),
    SHAPE("chunk size with leading zeros", SERVED, CHUNKED "0000000000000005\r\nhello\r\n00000\r\n\r\n"),
    SHAPE("chunk size in capitals", SERVED, CHUNKED "A\r\n0123456789\r\n" LAST),
    SHAPE("chunk with extensions", SERVED, CHUNKED "5;a=b;c=\"d\\\"e\";f\r\nhello\r\n0;g\r\n\r\n"),
    SHAPE("chunk extension with a bare line feed", REFUSED, CHUNKED "5;a\nhello\r\n" LAST),
    SHAPE("chunk extension with a bare carriage return", REFUSED, CHUNKED "5;a\rb\r\nhello\r\n" LAST),
    SHAPE("chunk extension with NUL", REFUSED, CHUNKED "5;a\0\r\nhello\r\n" LAST),
    SHAPE("chunk extension with a line break in quotes", REFUSED, CHUNKED "5;a=\"b\r\nhello\"\r\n" LAST),
    SHAPE("chunk extension without a name", REFUSED, CHUNKED "5;\r\nhello\r\n" LAST),
    SHAPE("chunk size with a plus", REFUSED, CHUNKED "+5\r\nhello\r\n" LAST),
    SHAPE("chunk size with a minus", REFUSED, CHUNKED "-5\r\nhello\r\n" LAST),
    SHAPE("chunk size with 0x", REFUSED, CHUNKED "0x5\r\nhello\r\n" LAST),
    SHAPE("chunk size with an underscore", REFUSED, CHUNKED "0_5\r\nhello\r\n" LAST),
    SHAPE("chunk size behind a space", REFUSED, CHUNKED " 5\r\nhello\r\n" LAST),
    SHAPE("chunk size before a space", REFUSED, CHUNKED "5 \r\nhello\r\n" LAST),
    SHAPE("chunk size before a tab", REFUSED, CHUNKED "5\t\r\nhello\r\n" LAST),
    SHAPE("chunk size missing", REFUSED, CHUNKED "\r\nhello\r\n" LAST),
    SHAPE("chunk size of two numbers", REFUSED, CHUNKED "0 5\r\nhello\r\n" LAST),
    SHAPE("chunk size no number", REFUSED, CHUNKED "five\r\nhello\r\n" LAST),
    SHAPE("chunk size over the limit", PART, CHUNKED "10001\r\n"),
    SHAPE("chunk size of 2^32 + 5", PART, CHUNKED "100000005\r\nhello\r\n" LAST),
    SHAPE("chunk size of 2^64 - 1", PART, CHUNKED "FFFFFFFFFFFFFFFF\r\nhello\r\n" LAST),
    SHAPE("chunk size of 2^64", REFUSED, CHUNKED "10000000000000000\r\nhello\r\n" LAST),
    SHAPE("chunk size of 2^64 + 5", REFUSED, CHUNKED "10000000000000005\r\nhello\r\n" LAST),
    SHAPE("chunk size of 2^68", REFUSED, CHUNKED "100000000000000000\r\n" LAST),
    SHAPE("chunk size line with a bare line feed", REFUSED, CHUNKED "5\nhello\r\n" LAST),
    SHAPE("chunk size line with a bare carriage return", REFUSED, CHUNKED "5\rhello\r\n" LAST),
    SHAPE("chunk without a line end", REFUSED, CHUNKED "5\r\nhello" LAST),
    SHAPE("chunk with a bare line feed at its end", REFUSED, CHUNKED "5\r\nhello\n" LAST),
    SHAPE("chunk with a bare carriage return at its end", REFUSED, CHUNKED "5\r\nhello\r" LAST),
    SHAPE("chunk longer than its size", REFUSED, CHUNKED "5\r\nhello!\r\n" LAST),
    SHAPE("chunk shorter than its size", REFUSED, CHUNKED "7\r\nhell\r\n" LAST),
    SHAPE("last chunk without the empty line", REFUSED, CHUNKED "5\r\nhello\r\n0\r\n"),
    SHAPE("last chunk with bare line feeds", REFUSED, CHUNKED "0\n\n"),
    SHAPE("last chunk, then a bare line feed", REFUSED, CHUNKED "0\r\n\n"),
    SHAPE("last chunk, then a bare carriage return", REFUSED, CHUNKED "0\r\n\rX"),
    SHAPE("last chunk, then data", REFUSED, CHUNKED "0\r\nhello\r\n\r\n"),
    SHAPE("trailers", SERVED, CHUNKED "0\r\nX: y\r\nZ: w\r\n\r\n"),
    SHAPE("trailer Content-Length", REFUSED, CHUNKED "0\r\nContent-Length: 44\r\n\r\n"),
    SHAPE("trailer Transfer-Encoding", REFUSED, CHUNKED "0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    SHAPE("trailer Host", SERVED, CHUNKED "0\r\nHost: b\r\n\r\n"),
    SHAPE("trailer X-Api-Key", SERVED, CHUNKED "0\r\nX-Api-Key: no\r\n\r\n"),
    SHAPE("trailer folded", REFUSED, CHUNKED "0\r\nX: y\r\n z\r\n\r\n"),
    SHAPE("trailer with NUL", REFUSED, CHUNKED "0\r\nX: \0\r\n\r\n"),
    SHAPE("trailer with a space before the colon", REFUSED, CHUNKED "0\r\nX : y\r\n\r\n"),
    SHAPES_END,
};

/* ---- Line ends, fields, versions, methods: RFC 9112 sections 2, 3 and 5 ---- */

#define VERSION(text) "GET /api/channels/ " text "\r\n" HOST FIXTURE_AUTH "\r\n"
#define METHOD(text)  text "/api/channels/ HTTP/1.1\r\n" HOST FIXTURE_AUTH "\r\n"
#define FIELD(text)   GET text "\r\n\r\n"
#define HOSTED(text)  LINE "Host: " text "\r\n" FIXTURE_AUTH "\r\n"

static const struct shape shapes_of_lines[] = {
    SHAPE("bare line feeds throughout", REFUSED, "GET /api/channels/ HTTP/1.1\nHost: a\n\n"),
    SHAPE("bare line feed behind the request line", REFUSED,
          "GET /api/channels/ HTTP/1.1\n" HOST FIXTURE_AUTH "\r\n"),
    SHAPE("bare line feed behind a field", REFUSED, LINE "Host: a\n" FIXTURE_AUTH "\r\n"),
    SHAPE("bare line feed as the empty line", REFUSED, GET "\n"),
    SHAPE("bare carriage return behind the request line", REFUSED,
          "GET /api/channels/ HTTP/1.1\r" HOST "\r\n"),
    SHAPE("bare carriage return behind a field", REFUSED, LINE "Host: a\r" FIXTURE_AUTH "\r\n"),
    SHAPE("bare carriage return as the empty line", REFUSED, GET "\rX"),
    SHAPE("two carriage returns at a line's end", REFUSED, FIELD("X: y\r")),
    SHAPE("carriage return in a value", REFUSED, FIELD("X: y\rz")),
    SHAPE("carriage return in a name", REFUSED, FIELD("X\ry: z")),
    SHAPE("carriage return before a name", REFUSED, FIELD("\rX: y")),
    SHAPE("carriage return in the target", REFUSED, TARGET("/api/\rchannels/")),
    SHAPE("carriage return in the method", REFUSED, METHOD("G\rET ")),
    SHAPE("empty lines before the request", SERVED, "\r\n\r\n" GET "\r\n"),
    SHAPE("bare carriage return before the request", REFUSED, "\r" GET "\r\n"),
    SHAPE("bare line feed before the request", REFUSED, "\n" GET "\r\n"),
    SHAPE("space before the request", REFUSED, " " GET "\r\n"),
    SHAPE("folded value, space", REFUSED, FIELD("X: y\r\n z")),
    SHAPE("folded value, tab", REFUSED, FIELD("X: y\r\n\tz")),
    SHAPE("folded empty value", REFUSED, FIELD("X:\r\n y")),
    SHAPE("first field behind a space", REFUSED, LINE " " HOST FIXTURE_AUTH "\r\n"),
    SHAPE("field that is a space", REFUSED, FIELD(" ")),
    SHAPE("space before the colon", REFUSED, FIELD("X : y")),
    SHAPE("tab before the colon", REFUSED, FIELD("X\t: y")),
    SHAPE("space in a name", REFUSED, FIELD("X Y: z")),
    SHAPE("no colon", REFUSED, FIELD("nothing")),
    SHAPE("no name", REFUSED, FIELD(": y")),
    SHAPE("NUL in a name", REFUSED, FIELD("X\0: y")),
    SHAPE("NUL in a value", REFUSED, FIELD("X: y\0z")),
    SHAPE("control byte in a value", REFUSED, FIELD("X: y\x01z")),
    SHAPE("DEL in a value", REFUSED, FIELD("X: y\x7fz")),
    SHAPE("byte above ASCII in a name", REFUSED, FIELD("X\xe9: y")),
    SHAPE("bytes above ASCII in a value", SERVED, FIELD("X: \xff\xc3\xa9")),
    SHAPE("name in brackets", REFUSED, FIELD("(X): y")),
    SHAPE("empty value", SERVED, FIELD("X:")),
    SHAPE("value among tabs and spaces", SERVED, FIELD("X: \ty\t")),
    SHAPE("Connection: close", "200 close", FIELD("Connection: close")),
    SHAPE("Connection: close and a tab", "200 close", FIELD("Connection: close\t")),
    SHAPE("Connection: close among tabs", "200 close", FIELD("Connection:\tclose\t \t")),
    SHAPE("Connection: close behind a tab and a comma", "200 close", FIELD("Connection: x\t,\tclose\t")),
    SHAPE("Connection: close before a tab and a comma", "200 close", FIELD("Connection: close\t, x")),
    SHAPE("Connection with a tab in the option", SERVED, FIELD("Connection: clo\tse")),
    SHAPE("Connection: close and a tab, folded", REFUSED, FIELD("Connection: close\r\n\t")),
    SHAPE("Connection: close in capitals", "200 close", FIELD("Connection: CLOSE")),
    SHAPE("Connection: keep-alive, close", "200 close", FIELD("Connection: keep-alive, close")),
    SHAPE("Connection: keep-alive and Connection: close", "200 close",
          FIELD("Connection: keep-alive\r\nConnection: close")),
    SHAPE("Connection: x-close", SERVED, FIELD("Connection: x-close")),
    SHAPE("close in other fields than Connection", SERVED,
          FIELD("X: close\t\r\nConnection: x\t\r\nY: close\t")),
    SHAPE("two Hosts, the same", REFUSED, LINE HOST HOST FIXTURE_AUTH "\r\n"),
    SHAPE("two Hosts, another", REFUSED, LINE HOST "Host: b\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("two Hosts, apart", REFUSED, LINE HOST FIXTURE_AUTH "host: b\r\n\r\n"),
    SHAPE("Host with a space in it", REFUSED, HOSTED("a b")),
    SHAPE("Host with two ports", REFUSED, HOSTED("a:80:80")),
    SHAPE("Host with a query", REFUSED, HOSTED("a?b")),
    SHAPE("Host with a fragment", REFUSED, HOSTED("a#b")),
    SHAPE("Host with a backslash", REFUSED, HOSTED("a\\b")),
    SHAPE("Host with a broken escape", REFUSED, HOSTED("a%zz")),
    SHAPE("Host in quotes", REFUSED, HOSTED("\"a\"")),
    SHAPE("Host in small letters without a space", SERVED, LINE "host:api.example\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("Host with a port", SERVED, HOSTED("api.example:8080")),
    SHAPE("Host that is an address", SERVED, HOSTED("127.0.0.1:80")),
    SHAPE("Host in IPv6 without a port", SERVED, HOSTED("[::1]")),
    SHAPE("Host with other characters", SERVED, HOSTED("a_b-c.d")),
    SHAPE("Host with spaces around it", SERVED, HOSTED("  padded  ")),
    SHAPE("no Host", REFUSED, LINE FIXTURE_AUTH "\r\n"),
    SHAPE("Host without a value", REFUSED, LINE "Host:\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("Host with a user", REFUSED, LINE "Host: u@a\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("Host with a path", REFUSED, LINE "Host: a/b\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("Host that is a list", REFUSED, LINE "Host: a, b\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("Host beyond ASCII", REFUSED, LINE "Host: \xd0\xb0.example\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("Host in IPv6", SERVED, LINE "Host: [2001:db8::1]:8080\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("Host in IPv6 without brackets", REFUSED, LINE "Host: 2001:db8::1\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("Host in IPv6, open", REFUSED, LINE "Host: [::1\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("Host with a dot at its end", SERVED, LINE "Host: a.example.\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("Host with a port that is none", REFUSED, LINE "Host: a:8o\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("Host with a port of 65536", SERVED, LINE "Host: a:65536\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("Host with a port of six digits", REFUSED, HOSTED("a:123456")),
    SHAPE("Host with a port without digits", SERVED, HOSTED("a:")),
    SHAPE("Host with a port below 0", REFUSED, HOSTED("a:-1")),
    SHAPE("Host with a plus in the port", REFUSED, HOSTED("a:+1")),
    SHAPE("Host with a space before the port", REFUSED, HOSTED("a: 80")),
    SHAPE("Host that is a port", REFUSED, HOSTED(":80")),
    SHAPE("Host that is a colon", REFUSED, HOSTED(":")),
    SHAPE("Host that is a URL", REFUSED, HOSTED("http://a")),
    SHAPE("Host with characters of names", SERVED, HOSTED("!$&'()*+,;=")),
    SHAPE("Host with an escape", SERVED, HOSTED("%D0%B6")),
    SHAPE("Host with an escape that ends", REFUSED, HOSTED("a%4")),
    SHAPE("Host with less and greater", REFUSED, HOSTED("<a>")),
    SHAPE("Host with a circumflex", REFUSED, HOSTED("a^")),
    SHAPE("Host with a bar", REFUSED, HOSTED("a|b")),
    SHAPE("Host with a bracket", REFUSED, HOSTED("a]")),
    SHAPE("Host with a tab", REFUSED, HOSTED("a\tb")),
    SHAPE("Host with NUL", REFUSED, HOSTED("a\0b")),
    SHAPE("Host with NUL in the port", REFUSED, HOSTED("a:8\0")),
    SHAPE("Host of spaces", REFUSED, HOSTED(" \t ")),
    SHAPE("Host of an empty IPv6", REFUSED, HOSTED("[]")),
    SHAPE("Host in IPv6, bracket alone", REFUSED, HOSTED("[")),
    SHAPE("Host in IPv6 with a port without digits", SERVED, HOSTED("[::]:")),
    SHAPE("Host in IPv6 with IPv4 in it", SERVED, HOSTED("[::ffff:1.2.3.4]:1")),
    SHAPE("Host in a later version of IP", SERVED, HOSTED("[v1.fe80]")),
    SHAPE("Host in IPv6 with a zone", REFUSED, HOSTED("[::1%eth0]")),
    SHAPE("Host in IPv6 with a space", REFUSED, HOSTED("[a b]")),
    SHAPE("Host in IPv6 with NUL", REFUSED, HOSTED("[::1\0]")),
    SHAPE("Host in IPv6 with a letter behind", REFUSED, HOSTED("[::1]x")),
    SHAPE("Host in IPv6 with digits behind", REFUSED, HOSTED("[::1]80")),
    SHAPE("Host in IPv6 with a port that is none", REFUSED, HOSTED("[::1]:x")),
    SHAPE("Host in IPv6 with a port of six digits", REFUSED, HOSTED("[::1]:123456")),
    SHAPE("two Hosts in 1.0", REFUSED, "GET /api/channels/ HTTP/1.0\r\n" HOST HOST FIXTURE_AUTH "\r\n"),
    SHAPE("Host with a space in it in 1.0", REFUSED,
          "GET /api/channels/ HTTP/1.0\r\nHost: a b\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("no Host beside the absolute form", REFUSED,
          "GET http://a/api/channels/ HTTP/1.1\r\n" FIXTURE_AUTH "\r\n"),

    SHAPE("version 0.9, without a word", REFUSED, "GET /api/channels/\r\n"),
    SHAPE("version 0.9", "505 close", VERSION("HTTP/0.9")),
    SHAPE("version 0.9, without a word, and an empty line", "505 close", "GET /api/channels/\r\n\r\n"),
    SHAPE("version 1.0", "200 close", VERSION("HTTP/1.0")),
    SHAPE("version 1.0, kept", SERVED,
          "GET /api/channels/ HTTP/1.0\r\nConnection: Keep-Alive\t\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("version 1.0, kept and closed", "200 close",
          "GET /api/channels/ HTTP/1.0\r\nConnection: keep-alive, close\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("version 1.2", SERVED, VERSION("HTTP/1.2")),
    SHAPE("version 1.9", SERVED, VERSION("HTTP/1.9")),
    SHAPE("version 1.2 without Host", REFUSED, "GET /api/channels/ HTTP/1.2\r\n" FIXTURE_AUTH "\r\n"),
    SHAPE("version 1.2 with chunks", SERVED,
          "GET /api/channels/ HTTP/1.2\r\n" HOST FIXTURE_AUTH "Transfer-Encoding: chunked\r\n\r\n" NO_CHUNKS),
    SHAPE("version 0.0", "505 close", VERSION("HTTP/0.0")),
    SHAPE("version 2.0", "505 close", VERSION("HTTP/2.0")),
    SHAPE("version 3.0", "505 close", VERSION("HTTP/3.0")),
    SHAPE("version 1", REFUSED, VERSION("HTTP/1")),
    SHAPE("version 1.10", REFUSED, VERSION("HTTP/1.10")),
    SHAPE("version 1.x", REFUSED, VERSION("HTTP/1.x")),
    SHAPE("version 1.1x", REFUSED, VERSION("HTTP/1.1x")),
    SHAPE("version 1,1", REFUSED, VERSION("HTTP/1,1")),
    SHAPE("version 11.1", REFUSED, VERSION("HTTP/11.1")),
    SHAPE("version of HTTPS", REFUSED, VERSION("HTTPS/1.1")),
    SHAPE("version before two spaces", SERVED, VERSION(" HTTP/1.1")),
    SHAPE("version 01.1", REFUSED, VERSION("HTTP/01.1")),
    SHAPE("version -1.1", REFUSED, VERSION("HTTP/-1.1")),
    SHAPE("version in small letters", REFUSED, VERSION("http/1.1")),
    SHAPE("version with a space in it", REFUSED, VERSION("HTTP/1. 1")),
    SHAPE("version behind a space", REFUSED, VERSION("HTTP /1.1")),
    SHAPE("version before a space", REFUSED, VERSION("HTTP/1.1 ")),
    SHAPE("version before a tab", REFUSED, VERSION("HTTP/1.1\t")),
    SHAPE("version behind a tab", REFUSED, "GET /api/channels/\tHTTP/1.1\r\n" HOST FIXTURE_AUTH "\r\n"),
    SHAPE("version twice", REFUSED, VERSION("HTTP/1.1 HTTP/1.1")),
    SHAPE("version of another protocol", REFUSED, VERSION("ICE/1.0")),
    SHAPE("version of RTSP, which llhttp accepts", REFUSED, VERSION("RTSP/1.0")),
    SHAPE("version of RTSP behind two spaces", REFUSED, VERSION(" RTSP/1.1")),
    SHAPE("version of RTSP with OPTIONS", REFUSED, "OPTIONS * RTSP/1.0\r\n" HOST "\r\n"),
    SHAPE("method of RTSP, which llhttp knows", "501 close", METHOD("DESCRIBE ")),
    SHAPE("method of Icecast, which llhttp knows", "501 close", "SOURCE / ICE/1.0\r\n" HOST "\r\n"),
    SHAPE("method of HTTP/2", "501 close", METHOD("PRI ")),
    SHAPE("preface of HTTP/2", "505 close", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    SHAPE("preface of HTTP/2 and frames", "505 close",
          "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x05\0\0\0\x01"),
    SHAPE("upgrade to h2c", SERVED,
          FIELD("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: "
                "AAMAAABkAARAAAAAAAIAAAAA")),
    SHAPE("upgrade to a websocket", SERVED,
          FIELD("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x")),
    SHAPE("handshake of TLS", REFUSED, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),

    SHAPE("method in small letters", "501 close", METHOD("get ")),
    SHAPE("method in both", "501 close", METHOD("Get ")),
    SHAPE("method unknown", "501 close", METHOD("BREW ")),
    SHAPE("method longer than a known one", "501 close", METHOD("GETS ")),
    SHAPE("method shorter than a known one", "501 close", METHOD("GE ")),
    SHAPE("method of every character", "501 close", METHOD("|~!#$%&'*+-.^_` ")),
    SHAPE("method without its end", "501 close", "XX"),
    SHAPE("method in brackets", REFUSED, METHOD("(GET) ")),
    SHAPE("method that is an object", REFUSED, "{\"page\": 1}"),
    SHAPE("method with NUL", REFUSED, METHOD("GET\0 ")),
    SHAPE("method beyond ASCII", REFUSED, METHOD("G\xc3\x8aT ")),
    SHAPE("method before a tab", REFUSED, METHOD("GET\t")),
    SHAPE("method before two spaces", SERVED, METHOD("GET  ")),
    SHAPE("method alone", REFUSED, "GET\r\n\r\n"),
    SHAPE("method POST with content that is a request", "405, tail 200",
          "POST /api/channels/ HTTP/1.1\r\n" HOST FIXTURE_AUTH
          "Content-Length: 38\r\n\r\nGET /api/ HTTP/1.1\r\nHost: smuggled\r\n\r\n"),
    SHAPE("method GET with content that is a request", SERVED,
          GET "Content-Length: 38\r\n\r\nGET /api/ HTTP/1.1\r\nHost: smuggled\r\n\r\n"),
    SHAPE("method CONNECT", "404 close", "CONNECT a:443 HTTP/1.1\r\n" HOST "\r\n"),
    SHAPE("method TRACE", "405, tail 200", METHOD("TRACE ")),
    SHAPES_END,
};

/* ---- Targets: RFC 9112 section 3.2, RFC 3986. What a path decodes to is compared without normalisation ----
 */

#define UNKNOWN "404, tail 200"

static const struct shape shapes_of_targets[] = {
    SHAPE("absolute form, another host", SERVED, TARGET("http://other.example/api/channels/")),
    SHAPE("absolute form with a user", REFUSED, TARGET("http://user:secret@other/api/channels/")),
    SHAPE("absolute form in IPv6", SERVED, TARGET("http://[::1]:80/api/channels/")),
    SHAPE("absolute form without a host", REFUSED, TARGET("http:///api/channels/")),
    SHAPE("absolute form without a host before a query", REFUSED, TARGET("http://?q")),
    SHAPE("absolute form in capitals", SERVED, TARGET("HTTPS://a/api/channels/")),
    SHAPE("absolute form with a port that is none", REFUSED, TARGET("http://a:x/api/channels/")),
    SHAPE("absolute form in IPv6, open", REFUSED, TARGET("http://[/api/channels/")),
    SHAPE("absolute form with a backslash in the host", REFUSED, TARGET("http://a\\x/api/channels/")),
    SHAPE("absolute form, another scheme", UNKNOWN, TARGET("ftp://a/api/channels/")),
    SHAPE("absolute form, a file", UNKNOWN, TARGET("file:///etc/passwd")),
    SHAPE("absolute form without a path", UNKNOWN, TARGET("http://a")),
    SHAPE("authority form", REFUSED, TARGET("a:80")),
    SHAPE("asterisk", UNKNOWN, TARGET("*")),
    SHAPE("asterisk with OPTIONS", "204, tail 200", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n"),
    SHAPE("asterisk with OPTIONS in 1.0", "204 close", "OPTIONS * HTTP/1.0\r\n\r\n"),
    SHAPE("no slash", REFUSED, TARGET("api/channels/")),
    SHAPE("no target", REFUSED, "GET  HTTP/1.1\r\n" HOST FIXTURE_AUTH "\r\n"),
    SHAPE("fragment alone", REFUSED, TARGET("#")),
    SHAPE("form feed", REFUSED, TARGET("/api/\f")),
    SHAPE("two slashes", UNKNOWN, TARGET("//api/channels/")),
    SHAPE("two slashes inside", UNKNOWN, TARGET("/api//channels/")),
    SHAPE("dot segment", UNKNOWN, TARGET("/api/./channels/")),
    SHAPE("dot segments", UNKNOWN, TARGET("/api/x/../channels/")),
    SHAPE("dot segments out of the root", UNKNOWN, TARGET("/../../../../etc/passwd")),
    SHAPE("encoded dot segments", UNKNOWN, TARGET("/%2e%2e/%2e%2e/etc/passwd")),
    SHAPE("encoded slash", UNKNOWN, TARGET("/api%2fchannels%2F")),
    SHAPE("encoded slash behind the prefix", UNKNOWN, TARGET("/api%2Fchannels/")),
    SHAPE("encoded slash at the end", UNKNOWN, TARGET("/api/channels%2F")),
    SHAPE("encoded slash as the first", REFUSED, TARGET("%2Fapi/channels/")),
    SHAPE("encoded slash before an identifier", UNKNOWN, TARGET("/api/channel/by-id%2F0/")),
    SHAPE("encoded slash in an identifier", UNKNOWN, TARGET("/api/channel/by-id/0%2f0/")),
    SHAPE("encoded slash behind an identifier", UNKNOWN, TARGET("/api/channel/by-id/0%2F")),
    SHAPE("encoded slash before a query", UNKNOWN,
          TARGET("/api/channel/by-link%2F?link=https://max.ru/sample_0")),
    SHAPE("encoded slash in a query", SERVED,
          TARGET("/api/channel/by-link/?link=https:%2F%2Fmax.ru%2Fsample_0")),
    SHAPE("encoded slash in absolute form", UNKNOWN, TARGET("http://a/api%2fchannels/")),
    SHAPE("encoded letters", SERVED, TARGET("/%61pi/%63hannels/")),
    SHAPE("encoded twice", UNKNOWN, TARGET("/api/%2563hannels/")),
    SHAPE("encoded NUL", REFUSED, TARGET("/api/channels/%00")),
    SHAPE("encoded line break", REFUSED, TARGET("/api/channels/%0d%0aX: y")),
    SHAPE("encoded line break without a space", REFUSED, TARGET("/api/channels/%0d%0aX:y")),
    SHAPE("encoded question mark", UNKNOWN, TARGET("/api/channels/%3fpage=1")),
    SHAPE("encoded, overlong", UNKNOWN, TARGET("/api%c0%afchannels/")),
    SHAPE("encoded, no UTF-8", UNKNOWN, TARGET("/api/%ff%fe/")),
    SHAPE("percent alone", REFUSED, TARGET("/api/channels/%")),
    SHAPE("percent and one digit", REFUSED, TARGET("/api/channels/%4")),
    SHAPE("percent and no digits", REFUSED, TARGET("/api/channels/%zz")),
    SHAPE("percent and u", REFUSED, TARGET("/api/%u0063hannels/")),
    SHAPE("parameters of a segment", UNKNOWN, TARGET("/api/channels;a=b/")),
    SHAPE("backslash", UNKNOWN, TARGET("/api\\channels/")),
    SHAPE("capitals", UNKNOWN, TARGET("/API/channels/")),
    SHAPE("fragment", REFUSED, TARGET("/api/channels/#x")),
    SHAPE("fragment behind two good requests", "200, 200, 400 close",
          GET "\r\n" GET "\r\n" TARGET("/api/channels/#x")),
    SHAPE("control byte 1 in the query", REFUSED, TARGET("/api/channels/?x=\x01&page=1")),
    SHAPE("backspace in the query", REFUSED, TARGET("/api/channels/?x=\x08&page=1")),
    SHAPE("vertical tab in the query", REFUSED, TARGET("/api/channels/?x=\x0b&page=1")),
    SHAPE("escape in the query", REFUSED, TARGET("/api/channels/?x=\x1b&page=1")),
    SHAPE("control byte 31 in the query", REFUSED, TARGET("/api/channels/?x=\x1f&page=1")),
    SHAPE("DEL in the query", REFUSED, TARGET("/api/channels/?x=\x7f&page=1")),
    SHAPE("space", REFUSED, TARGET("/api/chan nels/")),
    SHAPE("NUL", REFUSED, TARGET("/api/channels/\0")),
    SHAPE("tab", REFUSED, TARGET("/api/chan\tnels/")),
    SHAPE("byte above ASCII", REFUSED, TARGET("/api/\xc3\xa4/")),
    SHAPE("byte above ASCII in the query", REFUSED, TARGET("/api/channels/?x=\xff")),
    SHAPE("NUL in the query", REFUSED, TARGET("/api/channels/?x=\0")),
    SHAPE("encoded NUL in a parameter", "400, tail 200", TARGET("/api/channels/?page=1%00")),
    SHAPE("percent alone in an unknown parameter", SERVED, TARGET("/api/channels/?x=%")),
    SHAPE("quotes and brackets", UNKNOWN, TARGET("/api/<script>\"'{}|^`")),
    SHAPES_END,
};

/* ---- sending them ---- */

/* The server may refuse and close before it has read everything: its responses count. */
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
    AUTOFREE char *one = text_printf("%s%s%d%s", told[0] != '\0' ? ", " : "", is_tail ? "tail " : "",
                                     response->status, closes ? " close" : "");
    told = text_append(told, one);
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

/*
 * Sends the shape and the tail over a connection of its own, in pieces of that many bytes, closes the sending
 * side and describes what came until the end: the status of each response, "tail" before those of the tail,
 * "close" behind one that announced it: "400 close", "200, tail 200", "nothing". Another end than an orderly
 * one is described too: "reset", "silence", "garbage". Owned.
 */
static char *shape_send(int port, const struct shape *shape, size_t piece)
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

static int count_wrong(struct fixture *fixture, const struct shape *list, size_t piece)
{
    int wrong = 0;
    for (const struct shape *shape = list; shape->name != NULL; shape++) {
        AUTOFREE char *told = shape_send(fixture->server.port, shape, piece);
        if (strcmp(told, shape->expected) != 0) {
            print_error("%s: %s, expected %s\n", shape->name, told, shape->expected);
            wrong++;
        }
    }
    return wrong;
}

static void check(struct fixture *fixture, const struct shape *list)
{
    int wrong = count_wrong(fixture, list, SIZE_MAX) + count_wrong(fixture, list, 1);
    assert_int_equal(wrong, 0);
    assert_int_equal(fixture_status(fixture, "channels/"), 200);
}

TEST_CASE(lengths_and_transfer_codings)
{
    check(*state, shapes_of_length);
}

TEST_CASE(chunks)
{
    check(*state, shapes_of_chunks);
}

TEST_CASE(lines_fields_versions_and_methods)
{
    check(*state, shapes_of_lines);
}

TEST_CASE(targets)
{
    check(*state, shapes_of_targets);
}

TEST_CASE(refusals_are_counted)
{
    struct fixture *fixture = *state;
    double before = server_metric(&fixture->server, "channeld_requests_rejected_total");
    check(fixture, shapes_of_chunks);
    assert_true(server_metric(&fixture->server, "channeld_requests_rejected_total") >= before + 10);
}
