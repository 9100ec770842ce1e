/* Walking over keys and members; see scan.h. */
#include "ctl/scan.h"

#include <errno.h>

/* How many Redis looks at in one go: few enough that nobody waits for it. */
static const struct span PIECE = {"1000", 4};

static void send_scan(struct client *c, enum scan_what what, struct span cursor)
{
    if (what == SCAN_INDEX) {
        CLIENT_SEND(c, SPAN("ZSCAN"), buf_span(&c->index), cursor, SPAN("COUNT"), PIECE);
        return;
    }
    if (what == SCAN_API_KEYS) {
        CLIENT_SEND(c, SPAN("SSCAN"), buf_span(&c->api_keys), cursor, SPAN("COUNT"), PIECE);
        return;
    }
    buf_clear(&c->key);
    if (what == SCAN_CARDS)
        keyspace_card_pattern(c->keys, &c->key);
    else
        keyspace_link_pattern(c->keys, &c->key);
    CLIENT_SEND(c, SPAN("SCAN"), cursor, SPAN("MATCH"), buf_span(&c->key), SPAN("COUNT"), PIECE);
}

/* Drops the scores that ZSCAN puts behind each member; returns how many names are left. */
static size_t keep_names(enum scan_what what, redisReply *list)
{
    if (what != SCAN_INDEX)
        return list->elements;
    for (size_t i = 0; i < list->elements / 2; i++) {
        redisReply *member = list->element[2 * i];
        list->element[2 * i] = list->element[i];
        list->element[i] = member;
    }
    return list->elements / 2;
}

/* Receives a piece and visits it; *cursor becomes the next one. */
static int visit_piece(struct client *c, enum scan_what what, struct buf *cursor, scan_visit visit, void *arg)
{
    redisReply *reply = client_receive(c);
    if (reply == NULL)
        return -EIO;
    int err = 0;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2) {
        redisReply *list = reply->element[1];
        buf_clear(cursor);
        buf_append_span(cursor, reply_text(reply->element[0]));
        err = visit(arg, list->element, keep_names(what, list));
    } else {
        err = client_fail(c, "Redis answered with something unexpected");
    }
    freeReplyObject(reply);
    return err;
}

int scan_walk(struct client *c, enum scan_what what, scan_visit visit, void *arg)
{
    struct buf cursor = BUF_INIT;
    buf_append_char(&cursor, '0');
    int err = 0;
    do {
        send_scan(c, what, buf_span(&cursor));
        err = visit_piece(c, what, &cursor, visit, arg);
        if (err == 0 && buf_error(&cursor) != 0)
            err = client_fail(c, "out of memory");
    } while (err == 0 && !span_equal(buf_span(&cursor), SPAN("0")));
    buf_fini(&cursor);
    return err;
}
