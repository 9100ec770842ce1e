/*
 * Odd bytes at every place of a request, and thousands of requests changed at random from a fixed seed:
 * whatever comes is answered by well-formed responses in an orderly way, or by the end of the connection.
 */

#include <stdlib.h>
#include <string.h>

#include "support/footprint.h"
#include "support/malformed.h"

enum { ROUNDS = 4000, ROOM = 1024, GROWTH_KIB = 1024 };

#define FIELDS "Host: a\r\n" FIXTURE_AUTH

static const char plain[] = "GET /api/channels/?page=1 HTTP/1.1\r\n" FIELDS "X: y\r\n\r\n";
static const char with_length[] =
    "POST /api/channel/by-id/1/ HTTP/1.1\r\n" FIELDS "Content-Length: 5\r\n\r\nhello";
static const char with_chunks[] =
    "GET /api/channel/by-link/?link=https%3A%2F%2Fmax.ru%2Fsample_1 HTTP/1.1\r\n" FIELDS
    "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n";

FIXTURE(3, NULL)

static void print_bytes(const struct shape *shape)
{
    for (size_t i = 0; i < shape->length; i++) {
        unsigned char c = (unsigned char)shape->bytes[i];
        print_error(c >= 0x20 && c < 0x7f ? "%c" : "\\x%02x", c);
    }
    print_error("\n");
}

/* Sends it; returns the result, owned, and fails the test when that was nothing orderly. */
static char *expect_order(struct fixture *fixture, const struct shape *shape)
{
    char *told = shape_send(fixture->server.port, shape, SIZE_MAX);
    bool orderly =
        strstr(told, "reset") == NULL && strstr(told, "silence") == NULL && strstr(told, "garbage") == NULL;
    if (!orderly || strstr(told, "500") != NULL) {
        print_bytes(shape);
        fail_msg("%s", told);
    }
    return told;
}

/* NUL and bytes above ASCII are never part of a head, but in the value of a field the latter. */
static bool must_be_refused(const char *request, size_t at, unsigned char byte)
{
    const char *head_end = strstr(request, "\r\n\r\n");
    if (request + at >= head_end)
        return false;
    if (byte == 0)
        return true;
    size_t line = at;
    while (line > 0 && request[line - 1] != '\n')
        line--;
    const char *colon = line > 0 ? memchr(request + line, ':', at - line) : NULL;
    return byte >= 0x80 && colon == NULL;
}

static void put_everywhere(struct fixture *fixture, const char *request, unsigned char byte)
{
    size_t length = strlen(request);
    char bytes[ROOM];
    struct shape shape = {.bytes = bytes, .length = length};
    for (size_t at = 0; at < length; at++) {
        memcpy(bytes, request, length);
        bytes[at] = (char)byte;
        AUTOFREE char *told = expect_order(fixture, &shape);
        if (must_be_refused(request, at, byte) && strcmp(told, "400 close") != 0) {
            print_bytes(&shape);
            fail_msg("%s", told);
        }
    }
}

TEST_CASE(odd_bytes_are_borne_at_every_place)
{
    static const unsigned char odd[] = {0, 1, '\t', '\n', '\r', ' ', '#', '%', ':', 0x7f, 0x80, 0xc3, 0xff};
    for (size_t i = 0; i < sizeof odd; i++) {
        put_everywhere(*state, plain, odd[i]);
        put_everywhere(*state, with_chunks, odd[i]);
    }
}

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void remove_some(char *bytes, size_t *length, size_t at, size_t count)
{
    if (count > *length - at)
        count = *length - at;
    memmove(bytes + at, bytes + at + count, *length - at - count);
    *length -= count;
}

/* A piece of the bytes once more, at another place. */
static void repeat_some(char *bytes, size_t *length, size_t at, size_t from, size_t count)
{
    char piece[ROOM];
    if (count > *length - from)
        count = *length - from;
    if (*length + count > ROOM)
        return;
    memcpy(piece, bytes + from, count);
    memmove(bytes + at + count, bytes + at, *length - at);
    memcpy(bytes + at, piece, count);
    *length += count;
}

static void change(char *bytes, size_t *length, uint64_t *seed)
{
    static const char odd[] = "\r\n\t :;,#%?/=\0\x7f\xff"
                              "0aGT";
    if (*length == 0)
        return;
    size_t at = next(seed) % *length;
    switch (next(seed) % 5) {
    case 0:
        bytes[at] = (char)next(seed);
        break;
    case 1:
        bytes[at] = odd[next(seed) % (sizeof odd - 1)];
        break;
    case 2:
        remove_some(bytes, length, at, 1 + next(seed) % 8);
        break;
    case 3:
        repeat_some(bytes, length, at, next(seed) % *length, 1 + next(seed) % 64);
        break;
    default:
        bytes[at] = (char)(bytes[at] ^ (1 << next(seed) % 8));
    }
}

TEST_CASE(requests_changed_at_random_are_borne)
{
    static const char *const requests[] = {plain, with_length, with_chunks};
    struct fixture *fixture = *state;
    pid_t pid = fixture->server.process.pid;
    struct footprint before = footprint_of(pid);
    uint64_t seed = 20260101;
    for (int i = 0; i < ROUNDS; i++) {
        char bytes[ROOM];
        const char *request = requests[next(&seed) % TEST_COUNT(requests)];
        struct shape shape = {.bytes = bytes, .length = strlen(request)};
        memcpy(bytes, request, shape.length);
        for (uint64_t changes = 1 + next(&seed) % 4; changes > 0; changes--)
            change(bytes, &shape.length, &seed);
        free(expect_order(fixture, &shape));
    }
    struct footprint after = footprint_of(pid);
    footprint_print("before", &before);
    footprint_print("after", &after);
    footprint_await_descriptors(pid, before.descriptors);
    if (footprint_is_meaningful())
        assert_in_range(after.resident_kib, 0, before.resident_kib + GROWTH_KIB);
}
