/* Bounds of the memory that the server allocates for a connection. */
#include "unit/fixtures/http_server.h"

#include <malloc.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *p);

static size_t allocated; /* bytes, as the allocator counts */

static void *counted(void *p)
{
    allocated += malloc_usable_size(p);
    return p;
}

void *__wrap_malloc(size_t size)
{
    return counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    allocated -= malloc_usable_size(old);
    return counted(__real_realloc(old, size));
}

void __wrap_free(void *p)
{
    allocated -= malloc_usable_size(p);
    __real_free(p);
}

/* The order of fields that would cost most if lists were copied to where they can grow. */
static void write_long_head(struct buf *out, size_t size)
{
    buf_append_str(out, "GET /now HTTP/1.1\r\nHost: a\r\nIf-None-Match: ");
    while (out->len < size - 300)
        buf_append_str(out, "\"\",");
    EACH_TEXT (text, "Origin: o", "X-Api-Key: k", "X-Api-Key: k", "Expect: e", "Traceparent: t",
               "X-Request-Id: i")
        buf_printf(out, "\r\n%s\r\nIf-None-Match: \"\"", text);
}

/* Turns the server alone; returns how many bytes more it owns afterwards. */
static size_t allocated_by_turns(void)
{
    size_t before = allocated;
    test_server_drain();
    return allocated - before;
}

enum { HEAD_MAX = 16 * 1024, PARSER = 2048 };

static const struct http_field_rule rules[] = {{"origin", HTTP_REPEAT_FIRST},
                                               {"x-api-key", HTTP_REPEAT_SAME},
                                               {"traceparent", HTTP_REPEAT_FIRST},
                                               {"x-request-id", HTTP_REPEAT_FIRST}};

SERVER_TEST_WITH(an_unfinished_head_takes_little_more_memory_than_its_bytes, t.options.head_max = HEAD_MAX,
                 t.options.handler.fields = rules, t.options.handler.field_count = TEST_COUNT(rules))
{
    SCOPED_BUF(head);
    struct client *c = client_sending(GET("/now?a"));
    TURN_UNTIL(client_count(c, "\r\n\r\na") == 1);
    write_long_head(&head, HEAD_MAX);
    size_t idle = allocated;
    client_send_bytes(c, buf_span(&head));
    size_t held = allocated_by_turns();
    assert_in_range(held, HEAD_MAX / 2, HEAD_MAX + HEAD_MAX / 2 + PARSER);
    client_send(c, "\r\n\r\n");
    test_server_drain();
    assert_true(allocated <= idle); /* memory is kept for reuse by a request of usual size only */
    TURN_UNTIL(client_count(c, "\r\n\r\n-") == 1);
}

static struct ip_networks trusted;

static void trust_all(void)
{
    struct span which;
    assert_null(ip_networks_parse(SPAN("127.0.0.1"), &trusted, &which));
    t.options.trusted_proxies = &trusted;
}

SERVER_TEST_WITH(a_proxy_header_leaves_no_memory_behind, trust_all())
{
    struct client *c = client_open();
    test_server_turn_for(20);
    size_t idle = allocated;
    client_send_bytes(
        c, SPAN("\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0C\xC0\x00\x02\x07\x0A\x00\x00\x01\x30\x39\x1F\x90"));
    test_server_drain();
    assert_int_equal(allocated, idle);
    client_send(c, GET("/now?a"));
    TURN_UNTIL(client_count(c, "\r\n\r\na") == 1);
}
