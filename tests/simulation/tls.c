/*
 * TLS as redis/connection.c uses it; replaces the TLS of redis/endpoint.c. A read returns the rest of one
 * record, and takes no more than that record out of the kernel. A record of the simulated Redis is its length
 * in two bytes and its content, unencrypted. Nothing is written in records.
 */
#include "redis/tls.h"

#include "simulation/bytes.h"
#include "simulation/net.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdint.h>

enum { HEAD = 2 };

struct tls {
    redisContextFuncs funcs; /* hiredis' own, with another read and write */
    ssize_t (*write)(redisContext *c);
    struct bytes record; /* what has been read of it, with its head */
    bool complete;       /* it is there, and its head has been dropped */
    bool wants_read;
};

int __wrap_redis_tls_start(redisContext *c, struct ssl_ctx_st *tls, const char *host);
bool __wrap_redis_tls_wants_read(const redisContext *c);
bool __wrap_redis_tls_explain(redisContext *c);

static size_t record_size(const struct tls *t)
{
    const unsigned char *head = (const unsigned char *)bytes_front(&t->record);
    return bytes_count(&t->record) < HEAD ? HEAD : HEAD + ((size_t)head[0] << 8 | head[1]);
}

/* Reads on to the end of the record. False when there is no more yet, or *error is set. */
static bool read_record(const redisContext *c, struct tls *t, int *error)
{
    char part[HEAD + UINT16_MAX];
    while (bytes_count(&t->record) < HEAD || bytes_count(&t->record) < record_size(t)) {
        ssize_t n = net_receive(c->fd, part, record_size(t) - bytes_count(&t->record));
        t->wants_read = n < 0 && errno == EAGAIN;
        if (n <= 0) {
            *error = t->wants_read ? 0 : n < 0 ? errno : EPIPE;
            return false;
        }
        bytes_add(&t->record, part, (size_t)n);
    }
    bytes_drop(&t->record, HEAD);
    t->complete = true;
    return true;
}

static ssize_t on_read(redisContext *c, char *out, size_t size)
{
    struct tls *t = c->privctx;
    int error = 0;
    t->wants_read = false;
    if (!t->complete && !read_record(c, t, &error)) {
        if (error == 0)
            return 0;
        c->err = REDIS_ERR_IO;
        (void)snprintf(c->errstr, sizeof c->errstr, "%s", strerror(error));
        return -1;
    }
    size_t n = bytes_count(&t->record) < size ? bytes_count(&t->record) : size;
    memcpy(out, bytes_front(&t->record), n);
    bytes_drop(&t->record, n);
    t->complete = bytes_count(&t->record) > 0;
    return (ssize_t)n;
}

static ssize_t on_write(redisContext *c)
{
    struct tls *t = c->privctx;
    t->wants_read = false;
    return t->write(c);
}

static void on_free(void *privctx)
{
    struct tls *t = privctx;
    BYTES_FREE(t->record.data);
    free(t);
}

int __wrap_redis_tls_start(redisContext *c, struct ssl_ctx_st *tls, const char *host)
{
    struct tls *t = calloc(1, sizeof *t);
    (void)tls;
    (void)host;
    if (t == NULL)
        return -EPROTO;
    t->funcs = *c->funcs;
    t->write = t->funcs.write;
    t->funcs.write = on_write;
    t->funcs.read = on_read;
    t->funcs.free_privctx = on_free;
    c->funcs = &t->funcs;
    c->privctx = t;
    return 0;
}

bool __wrap_redis_tls_wants_read(const redisContext *c)
{
    return ((const struct tls *)c->privctx)->wants_read;
}

bool __wrap_redis_tls_explain(redisContext *c)
{
    (void)c;
    return false;
}
