/* A replica, and positions in the stream of changes; see replica.h. */

#include "coherence/replica.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

enum { ARGS_MAX = 24 };

/* ---- positions ---- */

/* What follows the name, which begins a line; NULL when it does not. */
static const char *info_value(const char *info, const char *name)
{
    const char *at = strstr(info, name);
    return at != NULL && (at == info || at[-1] == '\n') ? at + strlen(name) : NULL;
}

bool position_read(const char *info, struct position *out)
{
    const char *stream = info_value(info, "master_replid:");
    const char *offset = info_value(info, "slave_repl_offset:"); /* applied, not merely read */
    if (offset == NULL)
        offset = info_value(info, "master_repl_offset:");
    if (stream == NULL || offset == NULL)
        return false;
    size_t length = strcspn(stream, "\r\n");
    if (length >= sizeof out->stream)
        return false;
    memcpy(out->stream, stream, length);
    out->stream[length] = '\0';
    out->offset = strtoll(offset, NULL, 10);
    return true;
}

bool position_includes(const struct position *position, const struct position *other)
{
    return strcmp(position->stream, other->stream) == 0 && position->offset >= other->offset;
}

static struct position position_of(struct redis *redis)
{
    struct position position = {.offset = -1};
    AUTOFREE char *info = redis_text(redis, "INFO replication");
    if (!position_read(info, &position))
        fail_msg("INFO does not state the position of port %d", redis->port);
    return position;
}

/* ---- the replica ---- */

struct redis *replica_source(struct replica *replica)
{
    return replica->link == NULL ? replica->master : &replica->node;
}

static bool is_linked(struct redis *redis)
{
    AUTOFREE char *info = redis_text(redis, "INFO replication");
    const char *status = info_value(info, "master_link_status:");
    return status != NULL && strncmp(status, "up", 2) == 0;
}

void replica_start(struct replica *replica, struct redis *master, bool wanted, const char *program,
                   const char *const *args)
{
    const char *own[ARGS_MAX + 4] = {NULL};
    char port[16];
    size_t count = 0;
    *replica = (struct replica){.master = master};
    if (!wanted)
        return;
    for (; count < ARGS_MAX && args[count] != NULL; count++)
        own[count] = args[count];
    replica->link = proxy_new(master->port);
    (void)snprintf(port, sizeof port, "%d", proxy_port(replica->link));
    own[count++] = "--replicaof";
    own[count++] = "127.0.0.1";
    own[count] = port;
    redis_start_program(&replica->node, program, own);
    replica_await(replica);
}

void replica_stop(struct replica *replica)
{
    if (replica->link == NULL)
        return;
    redis_stop(&replica->node);
    proxy_free(replica->link);
}

void replica_cut(struct replica *replica)
{
    proxy_set_refusing(replica->link, true);
    proxy_inject(replica->link, PROXY_RESET);
}

struct goal {
    struct replica *replica;
    struct position position;
};

/* The link is looked at last: an offset is also stated without one. A master takes a new ID when the first
 * replica comes. */
static bool is_reached(void *arg)
{
    struct goal *goal = arg;
    struct position source = position_of(replica_source(goal->replica));
    if (strcmp(source.stream, goal->position.stream) != 0)
        goal->position = position_of(goal->replica->master);
    return position_includes(&source, &goal->position) &&
           (goal->replica->link == NULL || is_linked(&goal->replica->node));
}

void replica_await(struct replica *replica)
{
    struct goal goal = {.replica = replica, .position = position_of(replica->master)};
    if (!wait_until(is_reached, &goal, WAIT_DEADLINE_MS))
        fail_msg("the replica does not follow");
}
