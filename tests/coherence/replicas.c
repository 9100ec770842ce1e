/* A chain of replicas, and positions in the stream of changes; see replicas.h. */

#include "coherence/replicas.h"

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

/* ---- the chain ---- */

struct redis *replicas_source(struct replicas *replicas)
{
    return replicas->count == 0 ? replicas->master : &replicas->node[replicas->count - 1];
}

static bool is_linked(void *arg)
{
    AUTOFREE char *info = redis_text(arg, "INFO replication");
    const char *status = info_value(info, "master_link_status:");
    return status != NULL && strncmp(status, "up", 2) == 0;
}

static void start_node(struct replicas *replicas, int n, const char *program, const char *const *args)
{
    const char *own[ARGS_MAX + 4] = {NULL};
    char port[16];
    size_t count = 0;
    for (; count < ARGS_MAX && args[count] != NULL; count++)
        own[count] = args[count];
    replicas->link[n] = proxy_new(n == 0 ? replicas->master->port : replicas->node[n - 1].port);
    (void)snprintf(port, sizeof port, "%d", proxy_port(replicas->link[n]));
    own[count++] = "--replicaof";
    own[count++] = "127.0.0.1";
    own[count] = port;
    redis_start_program(&replicas->node[n], program, own);
}

void replicas_start(struct replicas *replicas, struct redis *master, int count, const char *program,
                    const char *const *args)
{
    *replicas = (struct replicas){.count = count, .master = master};
    for (int i = 0; i < count; i++)
        start_node(replicas, i, program, args);
    replicas_await(replicas);
}

void replicas_stop(struct replicas *replicas)
{
    for (int i = replicas->count - 1; i >= 0; i--) {
        redis_stop(&replicas->node[i]);
        proxy_free(replicas->link[i]);
    }
}

void replicas_cut(struct replicas *replicas, int node)
{
    proxy_set_refusing(replicas->link[node], true);
    proxy_inject(replicas->link[node], PROXY_RESET);
}

struct goal {
    struct replicas *replicas;
    struct position position;
};

/* Links are looked at last: an offset is also stated without one. A master takes a new ID when the first
 * replica comes. */
static bool is_reached(void *arg)
{
    struct goal *goal = arg;
    struct position source = position_of(replicas_source(goal->replicas));
    if (strcmp(source.stream, goal->position.stream) != 0)
        goal->position = position_of(goal->replicas->master);
    if (!position_includes(&source, &goal->position))
        return false;
    for (int i = 0; i < goal->replicas->count; i++) {
        if (!is_linked(&goal->replicas->node[i]))
            return false;
    }
    return true;
}

void replicas_await(struct replicas *replicas)
{
    struct goal goal = {.replicas = replicas, .position = position_of(replicas->master)};
    if (!wait_until(is_reached, &goal, WAIT_DEADLINE_MS))
        fail_msg("the replicas do not follow");
}
