/* Pipelined changes over hiredis' blocking API; see batch.h. */

#include "coherence/batch.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "coherence/clock.h"

enum { CONNECT_TIMEOUT_S = 2 };

void batch_init(struct batch *batch, int port)
{
    memset(batch, 0, sizeof *batch);
    batch->port = port;
}

void batch_fini(struct batch *batch)
{
    if (batch->redis != NULL)
        redisFree(batch->redis);
    batch->redis = NULL;
}

bool batch_connect(struct batch *batch)
{
    struct timeval timeout = {.tv_sec = CONNECT_TIMEOUT_S};
    if (batch->redis != NULL)
        return true;
    batch->redis = redisConnectWithTimeout("127.0.0.1", batch->port, timeout);
    if (batch->redis != NULL && batch->redis->err != 0)
        batch_fini(batch);
    batch->lost = false;
    return batch->redis != NULL;
}

bool batch_has_room(const struct batch *batch)
{
    return batch->changes < BATCH_CHANGES;
}

void batch_command(struct batch *batch, int argc, const char **argv)
{
    if (batch->losing || batch->lost)
        return;
    batch->replies[batch->changes]++;
    if (redisAppendCommandArgv(batch->redis, argc, argv, NULL) != REDIS_OK)
        batch->lost = true;
}

void batch_open(struct batch *batch, bool transaction, bool lost)
{
    batch->replies[batch->changes] = 0;
    batch->transaction = transaction;
    batch->losing = lost;
    if (transaction)
        batch_command(batch, 1, (const char *[]){"MULTI"});
}

void batch_close(struct batch *batch)
{
    if (batch->transaction)
        batch_command(batch, 1, (const char *[]){"EXEC"});
    if (batch->losing) {
        batch->losing = false;
        batch_command(batch, 1, (const char *[]){"PING"});
    }
    batch->effects_end[batch->changes++] = batch->effects;
}

void batch_adopt(struct batch *batch, struct history *history, int64_t number)
{
    batch->effect[batch->effects].history = history;
    batch->effect[batch->effects++].number = number;
}

int64_t batch_effect(struct batch *batch, struct history *history, int64_t value)
{
    int64_t number = history_issue(history, value, clock_now());
    batch_adopt(batch, history, number);
    return number;
}

/*
 * True when it is an answer, whatever it says. What a busy script keeps Redis from doing is lost with the
 * connection: the commands of one change may have been refused in part.
 */
static bool batch_take_reply(struct batch *batch)
{
    redisReply *reply = NULL;
    if (redisGetReply(batch->redis, (void **)&reply) != REDIS_OK || reply == NULL)
        return false;
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "BUSY ", 5) == 0) {
        freeReplyObject(reply);
        return false;
    }
    if (reply->type == REDIS_REPLY_ERROR || reply->type == REDIS_REPLY_NIL)
        (void)snprintf(batch->error, sizeof batch->error, "redis refuses: %s",
                       reply->type == REDIS_REPLY_NIL ? "nil" : reply->str);
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        if (reply->element[i]->type == REDIS_REPLY_ERROR)
            (void)snprintf(batch->error, sizeof batch->error, "redis refuses: %s", reply->element[i]->str);
    }
    freeReplyObject(reply);
    return true;
}

static bool batch_finish_change(struct batch *batch, int change)
{
    for (int i = 0; i < batch->replies[change]; i++) {
        if (!batch_take_reply(batch))
            return false;
    }
    int64_t now = clock_now();
    for (int i = change == 0 ? 0 : batch->effects_end[change - 1]; i < batch->effects_end[change]; i++)
        history_acknowledge(batch->effect[i].history, batch->effect[i].number, now);
    return true;
}

bool batch_run(struct batch *batch)
{
    for (int i = 0; i < batch->changes && !batch->lost; i++)
        batch->lost = !batch_finish_change(batch, i);
    batch->changes = 0;
    batch->effects = 0;
    if (!batch->lost)
        return true;
    batch_fini(batch);
    return false;
}
