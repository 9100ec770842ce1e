/* Exchanges: taken for each request, kept for reuse. See exchange.h and connection.h. */
#include "http/connection.h"
#include "http/forwarded.h"

#include <stdlib.h>

enum { SPARES_MAX = 256, SPARE_TEXT_MAX = 4096 };

struct http_exchange *http_exchange_take(struct http_connection *c)
{
    struct http_server *s = c->server;
    struct http_exchange *x = s->spare;
    if (x != NULL) {
        s->spare = x->next_spare;
        s->spares--;
    } else {
        x = calloc(1, sizeof *x + s->options.handler.state_size);
        if (x == NULL)
            return NULL;
    }
    http_parser_init(&x->parser, &s->limits);
    x->conn = c;
    x->close = false;
    x->continued = false;
    return x;
}

static void free_exchange(struct http_exchange *x)
{
    http_parser_fini(&x->parser);
    free(x);
}

void http_exchange_give_back(struct http_connection *c)
{
    struct http_server *s = c->server;
    struct http_exchange *x = c->exchange;
    c->exchange = NULL;
    if (http_parser_kept(&x->parser) > SPARE_TEXT_MAX || s->spares == SPARES_MAX) {
        free_exchange(x);
        return;
    }
    x->next_spare = s->spare;
    s->spare = x;
    s->spares++;
}

void http_exchange_free_spares(struct http_server *s)
{
    while (s->spare != NULL) {
        struct http_exchange *x = s->spare;
        s->spare = x->next_spare;
        free_exchange(x);
    }
}

const struct http_request *http_exchange_request(const struct http_exchange *x)
{
    return &x->parser.request;
}

struct ip http_exchange_client(const struct http_exchange *x)
{
    const struct http_connection *c = x->conn;
    const struct ip_networks *trusted = c->server->options.trusted_proxies;
    if (trusted == NULL)
        return c->client;
    return http_forwarded_client(x->parser.request.field[HTTP_FIELD_FORWARDED_FOR], &c->client, trusted);
}

void *http_exchange_state(struct http_exchange *x)
{
    return x->state;
}

uint64_t http_exchange_began_ns(const struct http_exchange *x)
{
    return x->began_ns;
}
