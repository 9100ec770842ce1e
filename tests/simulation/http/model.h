/*
 * The required behaviour of a server for the bytes of a connection, by RFC 9110 and 9112 and the decisions of
 * docs/design.md. It determines the requests in the bytes, those that the server may refuse and with which
 * statuses, and the end of the connection. It was written from these documents, and not from the parser.
 */
#ifndef SIMULATION_HTTP_MODEL_H
#define SIMULATION_HTTP_MODEL_H

#include "base/buf.h"

#include <stdbool.h>

enum { MODEL_ITEMS_MAX = 64, MODEL_TEXT_MAX = 256 };

/* Sets of statuses. */
enum { S400 = 1, S413 = 2, S414 = 4, S431 = 8, S501 = 16, S505 = 32 };
unsigned model_status_bit(int status);

struct model_item {
    size_t start, end; /* in the bytes of the connection */
    unsigned statuses; /* 0: a request to be served; otherwise one of these is the response */
    unsigned may;      /* a request to be served may get one of these all the same */
    bool is_head, keep_alive, expects;
    int minor;
    char text[MODEL_TEXT_MAX]; /* the request as the application sees it */
    size_t text_len;
};

struct model {
    size_t head_max, body_max;
    struct buf bytes;
    size_t at;     /* all before is in items */
    bool rejected; /* the last item is */
    unsigned may;  /* the statuses with which what follows may be rejected already, though it is incomplete */
    bool begun;    /* a byte of a further request is there */
    size_t begun_at; /* the first such byte */
    bool expects;    /* it waits for 100 */
    struct model_item item[MODEL_ITEMS_MAX];
    unsigned items;
};

/* A byte of a token (RFC 9110 section 5.6.2). */
bool model_is_tchar(char c);

void model_feed(struct model *m, const char *data, size_t n);
void model_fini(struct model *m);

#endif
