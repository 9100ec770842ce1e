/* The faults one by one; see faults.h. */

#include "coherence/faults.h"

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "coherence/clock.h"
#include "support/text.h"

enum {
    PAUSE_MS = 200,
    STOP_MS = 500,
    STOP_LONG_MS = 4000,
    RESTART_MS = 50,
    DOWN_MS = 3000,
    FREEZE_MS = 1000,
    FREEZE_LONG_MS = 4000,
    GATHER_MS = 40,
    SLOW_MS = 200,
    SCRIPT_LOOPS = 60000000, /* some 400 ms; no clock that a script may read goes on in all versions */
    SCRIPT_BUSY_MS = 50,
    POLL_MS = 5,
    STEADY_MS = 60,
    RECOVERY_S = 10,
};

static void fault_sleep(int ms)
{
    clock_sleep((int64_t)ms * CLOCK_MS);
}

/* ---- the server ---- */

/* What INFO server says of it, owned; NULL when it does not name that. */
static char *fault_redis_info(struct stage *stage, const char *name)
{
    char *info = redis_text(&stage->redis, "INFO server");
    const char *at = info != NULL ? strstr(info, name) : NULL;
    char *value = NULL;
    if (at != NULL) {
        at += strlen(name);
        value = text_printf("%.*s", (int)strcspn(at, "\r\n"), at);
    }
    free(info);
    return value;
}

/* From version 8 on, of Redis and of Valkey, I/O threads write replies while the turn goes on; see turns.c.
 */
static void fault_know_redis(struct stage *stage)
{
    char *redis = fault_redis_info(stage, "redis_version:");
    char *valkey = fault_redis_info(stage, "valkey_version:");
    char *threads = redis_words(&stage->redis, "CONFIG GET io-threads");
    const char *version = valkey != NULL ? valkey : redis;
    stage->splits_turns = strtol(version, NULL, 10) >= 8 && strcmp(threads, "io-threads 1") != 0;
    printf("server: %s %s, %s\n", valkey != NULL ? "Valkey" : "Redis", version, threads);
    free(threads);
    free(valkey);
    free(redis);
}

void fault_start_redis(struct stage *stage)
{
    enum { ARGS_MAX = 16 };
    char *text = text_printf("--enable-debug-command yes --busy-reply-threshold %d %s", (int)SCRIPT_BUSY_MS,
                             stage->options->redis_args != NULL ? stage->options->redis_args : "");
    const char *args[ARGS_MAX + 1] = {NULL};
    char *rest = NULL;
    size_t count = 0;
    for (char *arg = strtok_r(text, " ", &rest); arg != NULL && count < ARGS_MAX;
         arg = strtok_r(NULL, " ", &rest))
        args[count++] = arg;
    redis_start_program(&stage->redis, stage->options->redis_server, args);
    free(text);
    fault_know_redis(stage);
}

/* ---- recovery ---- */

static bool fault_all_connected(struct stage *stage)
{
    return server_metric(&stage->server, "channeld_redis_connected") >= stage->options->workers;
}

/*
 * Waits until every worker is connected, and so for a while without a further connection being made (a worker
 * that has not noticed its loss yet looks connected), and at least `connects` were made in all.
 */
static void fault_await_connected(struct stage *stage, double connects)
{
    int64_t deadline = clock_now() + (int64_t)RECOVERY_S * CLOCK_S;
    while (clock_now() < deadline) {
        double before = server_metric(&stage->server, "channeld_redis_connects_total");
        if (before >= connects && fault_all_connected(stage)) {
            weather_connected(stage->weather);
            fault_sleep(STEADY_MS);
            if (fault_all_connected(stage) &&
                server_metric(&stage->server, "channeld_redis_connects_total") <= before)
                return;
        }
        fault_sleep(POLL_MS);
    }
    report_violation(stage->report, VIOLATION_RECOVERY, "not connected to Redis again %d s after %s",
                     RECOVERY_S, weather_now(stage->weather));
}

void fault_await_reload(struct stage *stage)
{
    while (atomic_load(&stage->world->reloaded) < stage->options->writers)
        fault_sleep(1);
}

/* ---- faults ---- */

/* CLIENT KILL of every client whose name begins with channeld; returns how many there were. */
static int fault_kill_clients(struct stage *stage)
{
    int killed = 0;
    char *rest = NULL;
    char *list = redis_text(&stage->redis, "CLIENT LIST");
    for (char *line = strtok_r(list, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "id=", 3) != 0 || strstr(line, " name=channeld") == NULL)
            continue;
        char id[24] = "";
        memcpy(id, line + 3, strspn(line + 3, "0123456789") % sizeof id);
        killed += (int)redis_integer(&stage->redis, "CLIENT KILL ID %s", id);
    }
    free(list);
    return killed;
}

static void fault_kill(struct stage *stage)
{
    double connects = server_metric(&stage->server, "channeld_redis_connects_total");
    weather_begin(stage->weather, FAULT_KILL, RULE_CUT_OFF);
    int killed = fault_kill_clients(stage);
    weather_lift(stage->weather);
    if (killed < stage->options->workers)
        report_violation(stage->report, VIOLATION_RECOVERY, "%d of %d workers had a connection to kill",
                         killed, stage->options->workers);
    fault_await_connected(stage, connects + killed);
    weather_end(stage->weather);
}

static void fault_pause(struct stage *stage, enum fault_kind kind)
{
    weather_begin(stage->weather, kind, RULE_COHERENT);
    redis_do(&stage->redis, "CLIENT PAUSE %d %s", (int)PAUSE_MS, kind == FAULT_PAUSE ? "ALL" : "WRITE");
    fault_sleep(PAUSE_MS);
    weather_lift(stage->weather);
    redis_do(&stage->redis, "PING");
    weather_end(stage->weather);
}

/* Stopped between its acknowledgement of a change and the invalidation, Redis keeps the latter to itself. */
static void fault_stop(struct stage *stage, enum fault_kind kind, int ms)
{
    weather_begin(stage->weather, kind, RULE_CUT_OFF);
    redis_pause(&stage->redis);
    weather_go_dark(stage->weather);
    fault_sleep(ms);
    weather_brighten(stage->weather);
    redis_resume(&stage->redis);
    weather_lift(stage->weather);
    redis_do(&stage->redis, "PING");
    fault_await_connected(stage, 0);
    weather_end(stage->weather);
}

/* The writers write everything again, as another catalogue. */
static void fault_begin_reload(struct stage *stage)
{
    atomic_store(&stage->world->reloaded, 0);
    atomic_fetch_add(&stage->world->generation, 1);
}

/* A Redis without any key or index would count as lost until the first of the writers has written. */
static void fault_plant(struct stage *stage)
{
    redis_do(&stage->redis, "SADD channels:api_keys %064d", 0);
}

/* Changes under way when Redis is killed have happened or not; nobody will ever know. */
static void fault_restart(struct stage *stage, enum fault_kind kind, int ms)
{
    struct world *world = stage->world;
    double connects = server_metric(&stage->server, "channeld_redis_connects_total");
    weather_begin(stage->weather, kind, RULE_CUT_OFF);
    weather_wipe(stage->weather);
    atomic_store(&world->redis_up, false);
    redis_kill(&stage->redis);
    weather_go_dark(stage->weather);
    fault_sleep(ms);
    (void)pthread_rwlock_wrlock(&world->gate);
    world_issue_loss(world, clock_now());
    weather_brighten(stage->weather);
    redis_restart(&stage->redis);
    fault_plant(stage);
    world_acknowledge_loss(world, clock_now());
    fault_begin_reload(stage);
    atomic_store(&world->redis_up, true);
    (void)pthread_rwlock_unlock(&world->gate);
    weather_lift(stage->weather);
    fault_await_connected(stage, connects + stage->options->workers);
    fault_await_reload(stage);
    weather_reloaded(stage->weather);
    weather_end(stage->weather);
}

/* The catalogue is lost, and written again. */
static void fault_wipe(struct stage *stage)
{
    struct world *world = stage->world;
    weather_wipe(stage->weather);
    (void)pthread_rwlock_wrlock(&world->gate);
    world_issue_loss(world, clock_now());
    redis_do(&stage->redis, "MULTI");
    redis_do(&stage->redis, "FLUSHALL");
    fault_plant(stage);
    redis_do(&stage->redis, "EXEC");
    world_acknowledge_loss(world, clock_now());
    fault_begin_reload(stage);
    (void)pthread_rwlock_unlock(&world->gate);
    weather_lift(stage->weather);
    fault_await_reload(stage);
    weather_reloaded(stage->weather);
}

static void fault_flush(struct stage *stage)
{
    weather_begin(stage->weather, FAULT_FLUSH, RULE_COHERENT);
    fault_wipe(stage);
    weather_end(stage->weather);
}

/*
 * A turn of Redis' loop that lasts, with others' changes in it: a shorter one before it lets them come
 * together.
 */
static void fault_slow(struct stage *stage)
{
    struct redisContext *gather = redisConnect("127.0.0.1", stage->redis.port);
    if (gather == NULL || gather->err != 0)
        abort();
    weather_begin(stage->weather, FAULT_SLOW, stage->splits_turns ? RULE_LEASE : RULE_COHERENT);
    if (redisAppendCommand(gather, "DEBUG SLEEP 0.%03d", (int)GATHER_MS) != REDIS_OK ||
        redisBufferWrite(gather, NULL) != REDIS_OK)
        abort();
    fault_sleep(GATHER_MS / 4);
    redis_do(&stage->redis, "DEBUG SLEEP 0.%03d", (int)SLOW_MS);
    redisFree(gather);
    weather_lift(stage->weather);
    redis_do(&stage->redis, "PING");
    weather_end(stage->weather);
}

/*
 * After SCRIPT_BUSY_MS Redis sends what it owes from the same turn, without the turn's invalidations, and
 * refuses all commands until the script ends. Changes that it refused are unknown, so all is written again.
 */
static void fault_script(struct stage *stage)
{
    weather_begin(stage->weather, FAULT_SCRIPT, RULE_CUT_OFF);
    redis_do(&stage->redis, "EVAL %s 0 %d", "for i = 1, tonumber(ARGV[1]) do end", (int)SCRIPT_LOOPS);
    fault_wipe(stage);
    fault_await_connected(stage, 0);
    weather_end(stage->weather);
}

/* The requests of the readers wait for channeld meanwhile, so it is asked the moment it continues. */
static void fault_freeze(struct stage *stage, enum fault_kind kind, int ms)
{
    weather_begin(stage->weather, kind, RULE_LEASE);
    process_signal(&stage->server.process, SIGSTOP);
    (void)waitid(P_PID, (id_t)stage->server.process.pid, &(siginfo_t){0}, WSTOPPED);
    fault_sleep(ms);
    process_signal(&stage->server.process, SIGCONT);
    weather_lift(stage->weather);
    fault_await_connected(stage, 0);
    weather_end(stage->weather);
}

void fault_run(struct stage *stage, enum fault_kind kind)
{
    switch (kind) {
    case FAULT_KILL:
        fault_kill(stage);
        break;
    case FAULT_PAUSE:
    case FAULT_PAUSE_WRITE:
        fault_pause(stage, kind);
        break;
    case FAULT_STOP:
        fault_stop(stage, kind, STOP_MS);
        break;
    case FAULT_STOP_LONG:
        fault_stop(stage, kind, STOP_LONG_MS);
        break;
    case FAULT_RESTART:
        fault_restart(stage, kind, RESTART_MS);
        break;
    case FAULT_DOWN:
        fault_restart(stage, kind, DOWN_MS);
        break;
    case FAULT_FLUSH:
        fault_flush(stage);
        break;
    case FAULT_FREEZE:
        fault_freeze(stage, kind, FREEZE_MS);
        break;
    case FAULT_FREEZE_LONG:
        fault_freeze(stage, kind, FREEZE_LONG_MS);
        break;
    case FAULT_SLOW:
        fault_slow(stage);
        break;
    case FAULT_SCRIPT:
        fault_script(stage);
        break;
    case FAULT_KINDS:
        break;
    }
}
