/* Following a slot; see slot_client.h. */

#include "coherence/slot_client.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coherence/clock.h"

/*
 * No command may be left behind on a connection to a node that goes on: it would be executed after later
 * ones. So the time to wait for a reply is longer than any fault that does not end in a failover.
 */
enum { CONNECT_MS = 500, REPLY_S = 5, RETRY_MS = 5, GIVE_UP_S = 120, WAIT_MS = 200 };

/* What a reply means for its command. */
enum result {
    EXECUTED,
    LATER,     /* the same node may execute it in a moment */
    ELSEWHERE, /* this node does not know which does */
    MOVED,     /* another node does; also from now on */
    ASK,       /* another node does; once */
    LOST,      /* there is no reply */
};

struct outcome {
    enum result result; /* of the first that was not executed */
    int port;           /* of the other node */
};

/* ---- connections ---- */

static void close_connection(redisContext **redis)
{
    if (*redis != NULL)
        redisFree(*redis);
    *redis = NULL;
}

static bool open_connection(redisContext **redis, int port)
{
    const struct timeval connect = {.tv_usec = CONNECT_MS * 1000L};
    const struct timeval reply = {.tv_sec = REPLY_S};
    if (*redis != NULL)
        return true;
    *redis = redisConnectWithTimeout("127.0.0.1", port, connect);
    if (*redis != NULL && (*redis)->err == 0 && redisSetTimeout(*redis, reply) == REDIS_OK)
        return true;
    close_connection(redis);
    return false;
}

static void use_node(struct slot_client *client, int node)
{
    close_connection(&client->owner);
    client->node = node % client->nodes;
}

static void use_port(struct slot_client *client, int port)
{
    for (int i = 0; i < client->nodes; i++) {
        if (client->port[i] == port)
            use_node(client, i);
    }
}

void slot_client_fini(struct slot_client *client)
{
    close_connection(&client->owner);
    close_connection(&client->target);
}

/* ---- replies ---- */

static enum result judge_error(const char *text, int *port)
{
    static const struct {
        const char *code;
        enum result result;
    } codes[] = {
        {"MOVED ", MOVED},           {"ASK ", ASK},
        {"TRYAGAIN ", LATER},        {"BUSY ", LATER},
        {"CLUSTERDOWN ", ELSEWHERE}, {"LOADING ", ELSEWHERE},
        {"MASTERDOWN ", ELSEWHERE},  {"READONLY ", ELSEWHERE},
        {"EXECABORT ", LATER},       {"UNBLOCKED ", LATER},
    };
    const char *colon = strrchr(text, ':');
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (strncmp(text, codes[i].code, strlen(codes[i].code)) != 0)
            continue;
        *port = colon != NULL ? (int)strtol(colon + 1, NULL, 10) : 0;
        return codes[i].result;
    }
    (void)fprintf(stderr, "coherence: redis refuses: %s\n", text);
    abort();
}

static enum result judge(const redisReply *reply, int *port)
{
    if (reply->type == REDIS_REPLY_ERROR)
        return judge_error(reply->str, port);
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        enum result result = judge(reply->element[i], port);
        if (result != EXECUTED)
            return result;
    }
    return EXECUTED;
}

/* Takes that many replies, whatever they say. */
static struct outcome take_replies(redisContext *redis, int count)
{
    struct outcome outcome = {EXECUTED, 0};
    for (int i = 0; i < count; i++) {
        redisReply *reply = NULL;
        if (redisGetReply(redis, (void **)&reply) != REDIS_OK || reply == NULL)
            return (struct outcome){LOST, 0};
        int port = 0;
        enum result result = judge(reply, &port);
        if (outcome.result == EXECUTED && result != EXECUTED)
            outcome = (struct outcome){result, port};
        freeReplyObject(reply);
    }
    return outcome;
}

static void append(redisContext *redis, const char *command)
{
    if (redisAppendCommand(redis, command) != REDIS_OK)
        abort();
}

/* Does what an outcome asks for, and waits where that may take a moment. */
static void follow(struct slot_client *client, struct outcome outcome)
{
    switch (outcome.result) {
    case MOVED:
        use_port(client, outcome.port);
        break;
    case ELSEWHERE:
    case LOST:
        use_node(client, client->node + 1);
        clock_sleep((int64_t)RETRY_MS * CLOCK_MS);
        break;
    case LATER:
        clock_sleep((int64_t)RETRY_MS * CLOCK_MS);
        break;
    case EXECUTED:
    case ASK:
        break;
    }
}

static void give_up_after(int64_t deadline)
{
    if (clock_now() < deadline)
        return;
    (void)fprintf(stderr, "coherence: no node of the cluster executes a change\n");
    abort();
}

static int64_t deadline_of_now(void)
{
    return clock_now() + (int64_t)GIVE_UP_S * CLOCK_S;
}

/* ---- one key at a time ---- */

static bool is_frame(const char *command)
{
    return strcmp(command, "MULTI") == 0 || strcmp(command, "EXEC") == 0;
}

/* Whether both have the same second word. */
static bool same_key(const char *a, const char *b)
{
    a += strcspn(a, " ");
    b += strcspn(b, " ");
    size_t length = *a == '\0' ? 0 : 1 + strcspn(a + 1, " ");
    return length > 1 && strncmp(a, b, length) == 0 && (b[length] == ' ' || b[length] == '\0');
}

/* Executes the commands, all of one key, on that connection. */
static struct outcome execute(redisContext *redis, const char (*command)[SLOT_COMMAND_SIZE], int count,
                              bool asking)
{
    if (asking)
        append(redis, "ASKING");
    if (count > 1)
        append(redis, "MULTI");
    for (int i = 0; i < count; i++)
        append(redis, command[i]);
    if (count > 1)
        append(redis, "EXEC");
    return take_replies(redis, asking + (count > 1 ? count + 2 : count));
}

static struct outcome execute_by_target(struct slot_client *client, const char (*command)[SLOT_COMMAND_SIZE],
                                        int count, int port)
{
    if (port != client->target_port)
        close_connection(&client->target);
    client->target_port = port;
    if (!open_connection(&client->target, port))
        return (struct outcome){LATER, 0};
    struct outcome outcome = execute(client->target, command, count, true);
    if (outcome.result == LOST)
        close_connection(&client->target);
    return outcome.result == EXECUTED ? outcome : (struct outcome){LATER, 0};
}

static void execute_key(struct slot_client *client, const char (*command)[SLOT_COMMAND_SIZE], int count)
{
    int64_t deadline = deadline_of_now();
    struct outcome outcome = {LOST, 0};
    while (outcome.result != EXECUTED) {
        give_up_after(deadline);
        outcome = (struct outcome){LOST, 0};
        if (open_connection(&client->owner, client->port[client->node]))
            outcome = execute(client->owner, command, count, false);
        if (outcome.result == ASK)
            outcome = execute_by_target(client, command, count, outcome.port);
        follow(client, outcome);
    }
}

static void execute_by_key(struct slot_client *client, const struct slot_change *change)
{
    for (int i = 0, count = 1; i < change->commands; i += count) {
        count = 1;
        while (i + count < change->commands && same_key(change->command[i], change->command[i + count]))
            count++;
        if (!is_frame(change->command[i]))
            execute_key(client, &change->command[i], count);
    }
}

/* ---- all at once ---- */

/* Sends the changes in one go; *executed becomes how many of them come before the first that was not. */
static struct outcome send_all(struct slot_client *client, const struct slot_change *changes, int count,
                               bool durable, int *executed)
{
    struct outcome outcome = {EXECUTED, 0};
    *executed = 0;
    if (!open_connection(&client->owner, client->port[client->node]))
        return (struct outcome){LOST, 0};
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < changes[i].commands; k++)
            append(client->owner, changes[i].command[k]);
    }
    for (int i = 0; i < count && outcome.result != LOST; i++) {
        struct outcome one = take_replies(client->owner, changes[i].commands);
        if (outcome.result == EXECUTED || one.result == LOST)
            outcome = one;
        *executed += outcome.result == EXECUTED;
    }
    if (outcome.result != EXECUTED || !durable)
        return outcome;
    redisReply *reply = redisCommand(client->owner, "WAIT 1 %d", (int)WAIT_MS);
    bool waited = reply != NULL && reply->type == REDIS_REPLY_INTEGER && reply->integer > 0;
    *executed = waited ? count : 0;
    outcome.result = waited ? EXECUTED : reply == NULL ? LOST : LATER;
    freeReplyObject(reply);
    return outcome;
}

void slot_client_run(struct slot_client *client, const struct slot_change *changes, int count,
                     const atomic_bool *durable)
{
    int64_t deadline = deadline_of_now();
    for (int done = 0; done < count;) {
        int executed = 0;
        give_up_after(deadline);
        bool wait = atomic_load(durable);
        struct outcome outcome = send_all(client, changes + done, count - done, wait, &executed);
        done += wait ? 0 : executed;
        if (outcome.result == EXECUTED)
            return;
        if (!wait && (outcome.result == ASK || outcome.result == LATER))
            execute_by_key(client, &changes[done++]);
        else
            follow(client, outcome);
    }
}
