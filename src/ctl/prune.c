/* Removing what is gone; see prune.h. Cards go first: a link whose card is gone finds nothing. */
#include "ctl/prune.h"

#include "ctl/links.h"
#include "ctl/scan.h"

#include <errno.h>
#include <stdlib.h>

struct pruner {
    struct client *client;
    struct lock *lock;
    struct prune *counts;
};

/* Queues the removal of a key that `gone` marks; receives them all. */
static int remove_marked(struct client *c, redisReply *const *names, const bool *gone, size_t count,
                         int64_t *removed)
{
    for (size_t i = 0; i < count; i++)
        if (gone[i])
            CLIENT_SEND(c, SPAN("UNLINK"), reply_text(names[i]));
    int err = 0;
    for (size_t i = 0; i < count && err == 0; i++) {
        int64_t one = 0;
        if (gone[i])
            err = client_receive_integer(c, &one);
        *removed += one;
    }
    return err;
}

static int mark_unlisted(struct client *c, redisReply *const *names, bool *gone, size_t count)
{
    for (size_t i = 0; i < count; i++)
        CLIENT_SEND(c, SPAN("ZSCORE"), buf_span(&c->index), keyspace_card_id(c->keys, reply_text(names[i])));
    for (size_t i = 0; i < count; i++) {
        redisReply *score = client_receive(c);
        if (score == NULL)
            return -EIO;
        gone[i] = score->type == REDIS_REPLY_NIL;
        freeReplyObject(score);
    }
    return 0;
}

static int visit_cards(void *arg, redisReply *const *names, size_t count)
{
    struct pruner *p = arg;
    bool *gone = calloc(count + 1, sizeof *gone);
    if (gone == NULL)
        return client_fail(p->client, "out of memory");
    int err = lock_renew(p->lock);
    if (err == 0)
        err = mark_unlisted(p->client, names, gone, count);
    if (err == 0)
        err = remove_marked(p->client, names, gone, count, &p->counts->cards);
    free(gone);
    return err;
}

static int visit_links(void *arg, redisReply *const *names, size_t count)
{
    struct pruner *p = arg;
    struct link_owner *owner = calloc(count + 1, sizeof *owner);
    bool *gone = calloc(count + 1, sizeof *gone);
    int err = -ENOMEM;
    if (owner != NULL && gone != NULL) {
        err = lock_renew(p->lock);
        if (err == 0)
            err = links_check(p->client, names, count, owner);
        for (size_t i = 0; i < count && err == 0; i++)
            gone[i] = !owner[i].agrees;
        if (err == 0)
            err = remove_marked(p->client, names, gone, count, &p->counts->links);
    }
    free(owner);
    free(gone);
    return err == -ENOMEM ? client_fail(p->client, "out of memory") : err;
}

int prune_run(struct client *c, struct lock *lock, struct prune *out)
{
    *out = (struct prune){0};
    struct pruner pruner = {c, lock, out};
    int err = scan_walk(c, SCAN_CARDS, visit_cards, &pruner);
    return err == 0 ? scan_walk(c, SCAN_LINKS, visit_links, &pruner) : err;
}
