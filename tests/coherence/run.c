/* The programs of a run, the faults, and the counts; see run.h. */

#include "coherence/run.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "coherence/clock.h"
#include "support/net.h"
#include "support/text.h"

enum {
    SETTINGS_MAX = 20,
    SETTLE_MS = 300,
    GATHER_MS = 40,
    SCRIPT_LOOPS = 60000000, /* some 400 ms; no clock that a script may read goes on in all versions */
    SCRIPT_BUSY_MS = 50,
    POLL_MS = 5,
    STEADY_MS = 60,
    RECOVERY_S = 10,
    UNREPLACED_MS = 4500, /* less than the nodes of a cluster wait before they replace one */
    FAILOVER_S = 60,
    BATCHES_MS = 100,
};

/* A node that is only slow, on a busy machine, is not replaced: what it has acknowledged would be lost. */
#define CLUSTER_ARGS "--cluster-node-timeout 5000"

/* Of channeld, where its password changes; a digit follows. */
#define USER     "reader"
#define PASSWORD "password-"

static void sleep_ms(int ms)
{
    clock_sleep((int64_t)ms * CLOCK_MS);
}

/* ---- the server ---- */

static const char *run_prefix(const struct run *run)
{
    return run->options.cluster ? CLUSTER_PREFIX : "channels:";
}

/* That the writers change. */
static struct redis *master_of(struct run *run)
{
    return run->options.cluster ? &run->cluster.node[run->owner] : &run->redis;
}

/* That channeld reads. */
static struct redis *source_of(struct run *run)
{
    return run->options.cluster ? master_of(run) : replica_source(&run->replica);
}

/* Waits until that one has applied all changes. */
static void await_applied(struct run *run)
{
    if (!run->options.cluster)
        replica_await(&run->replica);
}

/* The value of a field of INFO server, owned; NULL when there is none. */
static char *redis_info(struct run *run, const char *name)
{
    char *info = redis_text(master_of(run), "INFO server");
    const char *at = info != NULL ? strstr(info, name) : NULL;
    char *value = NULL;
    if (at != NULL) {
        at += strlen(name);
        value = text_printf("%.*s", (int)strcspn(at, "\r\n"), at);
    }
    free(info);
    return value;
}

/* From version 8 on, I/O threads of Redis and Valkey write replies during the iteration; see early_replies.c.
 */
static void probe_redis(struct run *run)
{
    char *redis = redis_info(run, "redis_version:");
    char *valkey = redis_info(run, "valkey_version:");
    char *threads = redis_words(master_of(run), "CONFIG GET io-threads");
    const char *version = valkey != NULL ? valkey : redis;
    if (version == NULL || threads == NULL)
        abort();
    run->acknowledges_early = strtol(version, NULL, 10) >= 8 && strcmp(threads, "io-threads 1") != 0;
    printf("server: %s %s, %s%s\n", valkey != NULL ? "Valkey" : "Redis", version, threads,
           run->options.cluster   ? "; a cluster is read"
           : run->options.replica ? "; a replica is read"
                                  : "");
    free(threads);
    free(valkey);
    free(redis);
}

/* channeld's user has two passwords after a restart, else one. */
static bool rotates(const struct run *run)
{
    return run->options.faults[FAULT_ROTATE];
}

static void start_servers(struct run *run, const char *const *args)
{
    const char *program = run->options.redis_server;
    if (run->options.cluster) {
        cluster_start(&run->cluster, program, args);
        run->owner = CLUSTER_OWNER;
        return;
    }
    redis_start_program(&run->redis, program, args);
    replica_start(&run->replica, &run->redis, run->options.replica, program, args);
}

/* The arguments of a server with a TLS port, owned; "" without TLS. */
static char *tls_args(struct run *run)
{
    if (!run->options.tls)
        return text_printf("%s", "");
    tempdir_init(&run->dir);
    certs_make_authority(&run->dir, "authority", &run->authority);
    certs_make(&run->dir, "server", &run->authority, "IP:127.0.0.1", 1, &run->certificate);
    run->tls_port = net_reserve_port();
    return text_printf(
        "--tls-port %d --tls-cert-file %s --tls-key-file %s --tls-ca-cert-file %s --tls-auth-clients no",
        run->tls_port, run->certificate.cert, run->certificate.key, run->authority.cert);
}

static void start_redis(struct run *run)
{
    enum { ARGS_MAX = 32 };
    char *tls = tls_args(run);
    char *text =
        text_printf("--enable-debug-command yes --busy-reply-threshold %d %s %s %s %s", (int)SCRIPT_BUSY_MS,
                    run->options.cluster ? CLUSTER_ARGS : REPLICA_MASTER_ARGS,
                    rotates(run) ? "--user " USER " on +@all ~* &* >" PASSWORD "0 >" PASSWORD "1" : "", tls,
                    run->options.redis_args != NULL ? run->options.redis_args : "");
    const char *args[ARGS_MAX + 1] = {NULL};
    char *rest = NULL;
    size_t count = 0;
    for (char *arg = strtok_r(text, " ", &rest); arg != NULL; arg = strtok_r(NULL, " ", &rest)) {
        if (count >= ARGS_MAX)
            abort();
        args[count++] = arg;
    }
    start_servers(run, args);
    free(text);
    free(tls);
    probe_redis(run);
}

/* ---- recovery ---- */

/* How many of channeld's connections get invalidations from the server that is to be read. */
static int count_tracking(struct run *run)
{
    int count = 0;
    char *list = redis_text(source_of(run), "CLIENT LIST");
    for (char *rest = list, *line; (line = strtok_r(rest, "\n", &rest)) != NULL;) {
        const char *flags = strstr(line, " flags=");
        size_t length = flags != NULL ? strcspn(flags + 1, " ") : 0;
        bool tracking =
            flags != NULL && memchr(flags + strlen(" flags="), 't', length - strlen("flags=")) != NULL;
        count += tracking && strstr(line, " name=channeld") != NULL;
    }
    free(list);
    return count;
}

/* In a cluster to the node that has the slot. */
static bool all_connected(struct run *run)
{
    return server_metric(&run->server, "channeld_redis_connected") >= run->options.workers &&
           (!run->options.cluster || count_tracking(run) >= run->options.workers);
}

/* The latest that channeld logged, without requests. */
static void show_log(struct run *run)
{
    enum { SHOWN = 50000 };
    char *log = server_log(&run->server);
    size_t length = strlen(log);
    (void)fprintf(stderr, "channeld: %.0f connected, %d of them to the server that is to be read\n",
                  server_metric(&run->server, "channeld_redis_connected"), count_tracking(run));
    for (char *rest = log + (length > SHOWN ? length - SHOWN : 0), *line;
         (line = strtok_r(rest, "\n", &rest)) != NULL;) {
        if (strstr(line, "\"msg\":\"request\"") == NULL)
            (void)fprintf(stderr, "%s\n", line);
    }
    free(log);
}

/*
 * Waits until every worker is connected and at least `connects` connections were made in all. No further
 * connection may be made for a while, since a worker that has not noticed its loss yet looks connected.
 */
static void await_connected(struct run *run, double connects)
{
    int64_t deadline = clock_now() + (int64_t)RECOVERY_S * CLOCK_S;
    while (clock_now() < deadline) {
        double before = server_metric(&run->server, "channeld_redis_connects_total");
        if (before >= connects && all_connected(run)) {
            schedule_connected(run->schedule);
            sleep_ms(STEADY_MS);
            if (all_connected(run) && server_metric(&run->server, "channeld_redis_connects_total") <= before)
                return;
        }
        sleep_ms(POLL_MS);
    }
    report_violation(run->report, VIOLATION_RECOVERY, "not connected to Redis again %d s after %s",
                     RECOVERY_S, schedule_current(run->schedule));
    show_log(run);
}

static void await_reload(struct run *run)
{
    while (atomic_load(&run->model->reloaded) < run->options.writers)
        sleep_ms(1);
}

/* ---- faults ---- */

/* CLIENT KILL of every client whose name begins with channeld; returns how many there were. */
static int fault_kill_clients(struct run *run)
{
    int killed = 0;
    char *rest = NULL;
    struct redis *source = source_of(run);
    char *list = redis_text(source, "CLIENT LIST");
    for (char *line = strtok_r(list, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "id=", 3) != 0 || strstr(line, " name=channeld") == NULL)
            continue;
        char id[24] = "";
        memcpy(id, line + 3, strspn(line + 3, "0123456789") % sizeof id);
        killed += (int)redis_integer(source, "CLIENT KILL ID %s", id);
    }
    free(list);
    return killed;
}

static void fault_kill(struct run *run, enum fault_kind kind, int ms)
{
    (void)ms;
    double connects = server_metric(&run->server, "channeld_redis_connects_total");
    schedule_begin(run->schedule, kind, RULE_DISCONNECTED);
    int killed = fault_kill_clients(run);
    schedule_undone(run->schedule);
    if (killed < run->options.workers)
        report_violation(run->report, VIOLATION_RECOVERY, "%d of %d workers had a connection to kill", killed,
                         run->options.workers);
    await_connected(run, connects + (run->options.cluster ? run->options.workers : killed));
    schedule_end(run->schedule);
}

static void fault_pause(struct run *run, enum fault_kind kind, int ms)
{
    schedule_begin(run->schedule, kind, RULE_COHERENT);
    redis_do(master_of(run), "CLIENT PAUSE %d %s", ms, kind == FAULT_PAUSE ? "ALL" : "WRITE");
    sleep_ms(ms);
    schedule_undone(run->schedule);
    redis_do(master_of(run), "PING");
    schedule_end(run->schedule);
}

/* A Redis that is stopped between its acknowledgement of a change and the invalidation does not send the
 * latter. */
static void fault_stop(struct run *run, enum fault_kind kind, int ms)
{
    struct redis *source = source_of(run);
    schedule_begin(run->schedule, kind, RULE_DISCONNECTED);
    redis_pause(source);
    schedule_redis_down(run->schedule);
    sleep_ms(ms);
    schedule_redis_up(run->schedule);
    redis_resume(source);
    schedule_undone(run->schedule);
    redis_do(source, "PING");
    await_applied(run);
    await_connected(run, 0);
    schedule_end(run->schedule);
}

/* Makes the writers write everything again, as another catalogue. */
static void begin_reload(struct run *run)
{
    atomic_store(&run->model->reloaded, 0);
    atomic_fetch_add(&run->model->generation, 1);
}

/*
 * A Redis with neither keys nor index would count as empty until the first writer has written. In a cluster
 * keys are held only if there are infos, too.
 */
static void plant_placeholder_key(struct run *run)
{
    redis_do(master_of(run), "SADD %sapi_keys %064d", run_prefix(run), 0);
    redis_do(master_of(run), "HSET %sapi_key_info %064d {}", run_prefix(run), 0);
}

/* Changes under way when Redis is killed have happened or not; it stays unknown. */
static void fault_restart(struct run *run, enum fault_kind kind, int ms)
{
    struct model *model = run->model;
    double connects = server_metric(&run->server, "channeld_redis_connects_total");
    schedule_begin(run->schedule, kind, RULE_DISCONNECTED);
    schedule_data_lost(run->schedule);
    atomic_store(&model->redis_up, false);
    redis_kill(&run->redis);
    schedule_redis_down(run->schedule);
    sleep_ms(ms);
    (void)pthread_rwlock_wrlock(&model->reload_lock);
    model_issue_loss(model, clock_now());
    schedule_redis_up(run->schedule);
    redis_restart(&run->redis);
    plant_placeholder_key(run);
    await_applied(run);
    model_acknowledge_loss(model, clock_now());
    begin_reload(run);
    atomic_store(&model->redis_up, true);
    (void)pthread_rwlock_unlock(&model->reload_lock);
    schedule_undone(run->schedule);
    await_connected(run, run->options.replica ? 0 : connects + run->options.workers);
    await_reload(run);
    schedule_data_restored(run->schedule);
    schedule_end(run->schedule);
}

/* Loses the catalogue and has it written again. */
static void fault_wipe(struct run *run)
{
    struct model *model = run->model;
    schedule_data_lost(run->schedule);
    (void)pthread_rwlock_wrlock(&model->reload_lock);
    model_issue_loss(model, clock_now());
    redis_do(master_of(run), "MULTI");
    redis_do(master_of(run), "FLUSHALL");
    plant_placeholder_key(run);
    redis_do(master_of(run), "EXEC");
    await_applied(run);
    model_acknowledge_loss(model, clock_now());
    begin_reload(run);
    (void)pthread_rwlock_unlock(&model->reload_lock);
    schedule_undone(run->schedule);
    await_reload(run);
    schedule_data_restored(run->schedule);
}

static void fault_flush(struct run *run, enum fault_kind kind, int ms)
{
    (void)ms;
    schedule_begin(run->schedule, kind, RULE_COHERENT);
    fault_wipe(run);
    schedule_end(run->schedule);
}

/* A long event loop iteration of Redis with changes of the writers in it: a shorter one before gathers them.
 */
static void fault_slow(struct run *run, enum fault_kind kind, int ms)
{
    struct redis *source = source_of(run);
    struct redisContext *gather = redisConnect("127.0.0.1", source->port);
    if (gather == NULL || gather->err != 0)
        abort();
    schedule_begin(run->schedule, kind, run->acknowledges_early ? RULE_LEASE : RULE_COHERENT);
    if (redisAppendCommand(gather, "DEBUG SLEEP 0.%03d", (int)GATHER_MS) != REDIS_OK ||
        redisBufferWrite(gather, NULL) != REDIS_OK)
        abort();
    sleep_ms(GATHER_MS / 4);
    redis_do(source, "DEBUG SLEEP 0.%03d", ms);
    redisFree(gather);
    schedule_undone(run->schedule);
    redis_do(source, "PING");
    schedule_end(run->schedule);
}

/*
 * After SCRIPT_BUSY_MS Redis sends the replies of the same iteration without its invalidations, and answers
 * all commands with BUSY until the script ends. Which changes it refused is unknown, so all is written again.
 */
static void fault_script(struct run *run, enum fault_kind kind, int ms)
{
    (void)ms;
    schedule_begin(run->schedule, kind, RULE_DISCONNECTED);
    redis_do(source_of(run), "EVAL %s 0 %d", "for i = 1, tonumber(ARGV[1]) do end", (int)SCRIPT_LOOPS);
    fault_wipe(run);
    await_connected(run, 0);
    schedule_end(run->schedule);
}

static void publish_password(struct run *run)
{
    char *password = text_printf(PASSWORD "%d", run->password);
    SECRET(&run->secret, {"password", password});
    free(password);
}

/* The new one is valid before channeld is told, the old one until channeld does not use it any more. */
static void fault_rotate(struct run *run, enum fault_kind kind, int ms)
{
    (void)ms;
    double connects = server_metric(&run->server, "channeld_redis_connects_total");
    schedule_begin(run->schedule, kind, RULE_COHERENT);
    redis_do(source_of(run), "ACL SETUSER " USER " >" PASSWORD "%d", 1 - run->password);
    run->password = 1 - run->password;
    publish_password(run);
    await_connected(run, connects + run->options.workers);
    redis_do(source_of(run), "ACL SETUSER " USER " <" PASSWORD "%d", 1 - run->password);
    schedule_undone(run->schedule);
    schedule_end(run->schedule);
}

/* Requests of the readers wait for channeld meanwhile, so it has some the moment it continues. */
static void stop_channeld(struct run *run, int ms)
{
    process_signal(&run->server.process, SIGSTOP);
    (void)waitid(P_PID, (id_t)run->server.process.pid, &(siginfo_t){0}, WSTOPPED);
    sleep_ms(ms);
    process_signal(&run->server.process, SIGCONT);
}

static void fault_freeze(struct run *run, enum fault_kind kind, int ms)
{
    schedule_begin(run->schedule, kind, RULE_COHERENT);
    stop_channeld(run, ms);
    schedule_undone(run->schedule);
    await_connected(run, 0);
    schedule_end(run->schedule);
}

static void fault_throttle(struct run *run, enum fault_kind kind, int ms)
{
    enum { PERIODS = 10, QUOTA_MS = 20 };
    schedule_begin(run->schedule, kind, RULE_COHERENT);
    for (int i = 0; i < PERIODS; i++) {
        stop_channeld(run, ms);
        sleep_ms(QUOTA_MS);
    }
    schedule_undone(run->schedule);
    await_connected(run, 0);
    schedule_end(run->schedule);
}

/* ---- faults between a master and its replica ---- */

static void fault_master_stop(struct run *run, enum fault_kind kind, int ms)
{
    schedule_begin(run->schedule, kind, RULE_COHERENT);
    redis_pause(&run->redis);
    sleep_ms(ms);
    redis_resume(&run->redis);
    schedule_undone(run->schedule);
    await_applied(run);
    schedule_end(run->schedule);
}

/* The replica can reach its master again: the end of a fault that separated them. */
static void await_replica(struct run *run)
{
    schedule_undone(run->schedule);
    await_applied(run);
    await_connected(run, 0);
    schedule_end(run->schedule);
}

/* So much that it takes the replica some time to catch up over a slow link. */
static void write_filler(struct run *run, struct proxy *link)
{
    enum { CHUNK = 16384, CHUNKS = 15, RATE = 800000 };
    char *chunk = calloc(1, CHUNK);
    if (chunk == NULL)
        abort();
    for (int i = 0; i < CHUNKS; i++)
        redis_do(&run->redis, "SET filler %b", chunk, (size_t)CHUNK);
    free(chunk);
    proxy_set_rate(link, RATE);
}

static void fault_link(struct run *run, enum fault_kind kind, int ms)
{
    struct proxy *link = run->replica.link;
    schedule_begin(run->schedule, kind, RULE_DISCONNECTED);
    replica_cut(&run->replica);
    schedule_redis_down(run->schedule);
    if (kind == FAULT_LINK_LOST)
        write_filler(run, link);
    sleep_ms(ms);
    proxy_set_refusing(link, false);
    if (kind == FAULT_LINK_LOST) /* until it has caught up, its data is as old as the fault */
        await_applied(run);
    schedule_redis_up(run->schedule);
    proxy_restore(link);
    await_replica(run);
}

/* As a master it is read without being one of those that the writers change: nothing is acknowledged. */
static void fault_promotion(struct run *run, enum fault_kind kind, int ms)
{
    struct redis *source = source_of(run);
    schedule_begin(run->schedule, kind, RULE_DISCONNECTED);
    redis_do(source, "REPLICAOF NO ONE");
    sleep_ms(ms);
    redis_do(source, "REPLICAOF 127.0.0.1 %d", proxy_port(run->replica.link));
    await_replica(run);
}

/* With another ID of its stream the master cannot continue any link where it was interrupted. */
static void fault_resync(struct run *run, enum fault_kind kind, int ms)
{
    (void)ms;
    schedule_begin(run->schedule, kind, RULE_DISCONNECTED);
    redis_do(&run->redis, "DEBUG CHANGE-REPL-ID");
    proxy_inject(run->replica.link, PROXY_RESET);
    await_replica(run);
}

static void fault_replica_restart(struct run *run, enum fault_kind kind, int ms)
{
    struct redis *redis = source_of(run);
    schedule_begin(run->schedule, kind, RULE_DISCONNECTED);
    redis_kill(redis);
    schedule_redis_down(run->schedule);
    sleep_ms(ms);
    schedule_redis_up(run->schedule);
    redis_restart(redis);
    await_replica(run);
}

/* The link stays up while nothing passes. */
static void fault_master_silent(struct run *run, enum fault_kind kind, int ms)
{
    schedule_begin(run->schedule, kind, RULE_DISCONNECTED);
    proxy_set_blackhole(run->replica.link, true);
    schedule_redis_down(run->schedule);
    sleep_ms(ms);
    schedule_redis_up(run->schedule);
    proxy_restore(run->replica.link);
    await_replica(run);
}

/* ---- faults of a cluster ---- */

static int peer_of(int node)
{
    return (node + CLUSTER_MASTERS) % CLUSTER_NODES;
}

/* Waits until it follows the owner, started again if it was killed. */
static void await_peer(struct run *run)
{
    int peer = peer_of(run->owner);
    if (!process_is_running(&run->cluster.node[peer].process))
        redis_restart(&run->cluster.node[peer]);
    cluster_await_link(&run->cluster, peer);
}

/* The slot has another owner: the end of a fault that moved it. */
static void await_moved(struct run *run, int owner)
{
    run->owner = owner;
    schedule_undone(run->schedule);
    await_connected(run, 0);
    schedule_end(run->schedule);
}

static int other_master(struct run *run)
{
    int node = (run->owner + (run->moved ? CLUSTER_MASTERS - 1 : 1)) % CLUSTER_MASTERS;
    char *info = redis_text(&run->cluster.node[node], "INFO replication");
    bool master = strstr(info, "role:master") != NULL;
    free(info);
    return master ? node : peer_of(node);
}

/* Nothing that has moved is cached, and what has not is tracked. */
static void fault_slot_move(struct run *run, enum fault_kind kind, int ms)
{
    enum { KEYS_AT_ONCE = 50 };
    struct cluster *cluster = &run->cluster;
    int target = other_master(run);
    schedule_begin(run->schedule, kind, RULE_COHERENT);
    cluster_begin_migration(cluster, run->owner, target);
    sleep_ms(ms);
    while (cluster_migrate(cluster, run->owner, target, KEYS_AT_ONCE) > 0)
        sleep_ms(1);
    sleep_ms(ms);
    cluster_end_migration(cluster, run->owner, target);
    run->moved = !run->moved;
    await_moved(run, target);
}

static void fault_slot_failover(struct run *run, enum fault_kind kind, int ms)
{
    int peer = peer_of(run->owner);
    (void)ms;
    await_peer(run);
    schedule_begin(run->schedule, kind, RULE_DISCONNECTED);
    schedule_switching(run->schedule);
    cluster_fail_over(&run->cluster, peer);
    schedule_switched(run->schedule);
    await_moved(run, peer);
}

/* From now on writers count on nothing that a failover could lose; what they did before it does not lose. */
static void begin_durability(struct run *run)
{
    await_peer(run);
    (void)pthread_rwlock_wrlock(&run->model->reload_lock);
    atomic_store(&run->model->durable, true);
    redis_do(master_of(run), "SET %sfiller 0", run_prefix(run));
    if (redis_integer(master_of(run), "WAIT 1 %d", RECOVERY_S * 1000) < 1)
        abort();
    (void)pthread_rwlock_unlock(&run->model->reload_lock);
    sleep_ms(BATCHES_MS);
}

/* Whoever has the slot by the word of the nodes that run. */
static int await_other_owner(struct run *run, int former)
{
    for (int64_t deadline = clock_now() + (int64_t)FAILOVER_S * CLOCK_S; clock_now() < deadline;) {
        int owner = cluster_owner(&run->cluster, peer_of(former));
        if (owner >= 0 && owner != former)
            return owner;
        sleep_ms(POLL_MS);
    }
    abort();
}

static void fault_owner_kill(struct run *run, enum fault_kind kind, int ms)
{
    begin_durability(run);
    schedule_begin(run->schedule, kind, RULE_DISCONNECTED);
    redis_kill(master_of(run));
    atomic_store(&run->model->durable, false);
    schedule_redis_down(run->schedule);
    sleep_ms(ms);
    schedule_redis_up(run->schedule);
    await_moved(run, await_other_owner(run, run->owner));
}

/* What it has been told before is all that it knows. */
static void fault_owner_return(struct run *run, enum fault_kind kind, int ms)
{
    struct redis *peer = &run->cluster.node[peer_of(run->owner)];
    schedule_begin(run->schedule, kind, RULE_COHERENT);
    if (process_is_running(&peer->process))
        redis_kill(peer);
    sleep_ms(ms);
    await_peer(run);
    schedule_undone(run->schedule);
    await_connected(run, 0);
    schedule_end(run->schedule);
}

/* It goes on with its former connections and data, when nobody expects anything from it. */
static void fault_owner_stall(struct run *run, enum fault_kind kind, int ms)
{
    struct redis *former = master_of(run);
    begin_durability(run);
    schedule_begin(run->schedule, kind, RULE_DISCONNECTED);
    redis_pause(former);
    schedule_redis_down(run->schedule);
    sleep_ms(ms);
    schedule_redis_up(run->schedule);
    await_moved(run, await_other_owner(run, run->owner));
    sleep_ms(ms / 2);
    redis_resume(former);
    await_peer(run);
    atomic_store(&run->model->durable, false);
}

void run_fault(struct run *run, enum fault_kind kind)
{
    static const struct {
        void (*cause)(struct run *run, enum fault_kind kind, int ms);
        int ms;
    } faults[FAULT_KINDS] = {
        [FAULT_KILL] = {fault_kill, 0},
        [FAULT_PAUSE] = {fault_pause, 200},
        [FAULT_PAUSE_WRITE] = {fault_pause, 200},
        [FAULT_STOP] = {fault_stop, 500},
        [FAULT_STOP_LONG] = {fault_stop, 4000},
        [FAULT_RESTART] = {fault_restart, 50},
        [FAULT_DOWN] = {fault_restart, 3000},
        [FAULT_FLUSH] = {fault_flush, 0},
        [FAULT_FREEZE] = {fault_freeze, 1000},
        [FAULT_FREEZE_LONG] = {fault_freeze, 4000},
        [FAULT_THROTTLE] = {fault_throttle, 250},
        [FAULT_SLOW] = {fault_slow, 200},
        [FAULT_SCRIPT] = {fault_script, 0},
        [FAULT_MASTER_STOP] = {fault_master_stop, 1000},
        [FAULT_LINK_CUT] = {fault_link, 300},
        [FAULT_LINK_LOST] = {fault_link, 4000},
        [FAULT_PROMOTION] = {fault_promotion, 200},
        [FAULT_RESYNC] = {fault_resync, 0},
        [FAULT_REPLICA_RESTART] = {fault_replica_restart, 50},
        [FAULT_MASTER_SILENT] = {fault_master_silent, 20000},
        [FAULT_ROTATE] = {fault_rotate, 0},
        [FAULT_SLOT_MOVE] = {fault_slot_move, 100},
        [FAULT_SLOT_FAILOVER] = {fault_slot_failover, 0},
        [FAULT_OWNER_KILL] = {fault_owner_kill, UNREPLACED_MS},
        [FAULT_OWNER_RETURN] = {fault_owner_return, 300},
        [FAULT_OWNER_STALL] = {fault_owner_stall, UNREPLACED_MS},
    };
    faults[kind].cause(run, kind, faults[kind].ms);
}

/* ---- the run ---- */

uint64_t run_changes(struct run *run)
{
    uint64_t changes = 0;
    for (int i = 0; i < run->options.writers; i++) {
        for (int k = 0; k < CHANGE_KINDS; k++)
            changes += atomic_load_explicit(&run->writer[i].changes[k], memory_order_relaxed);
    }
    return changes;
}

uint64_t run_reads(struct run *run, uint64_t *failed)
{
    uint64_t reads = 0;
    *failed = 0;
    for (int i = 0; i < run->options.readers; i++) {
        reads += atomic_load_explicit(&run->reader[i].counters.reads, memory_order_relaxed);
        *failed += atomic_load_explicit(&run->reader[i].counters.failed, memory_order_relaxed);
    }
    return reads;
}

/* Of what channeld reads, owned: with a user that may not see its role where that is to be hidden. */
static char *source_url(struct run *run)
{
    struct redis *source = source_of(run);
    const char *user = "";
    if (run->options.cluster)
        return text_printf("%s", run->cluster.url);
    if (rotates(run))
        user = USER "@";
    if (run->options.hide_link) {
        redis_do(source, "ACL SETUSER blind on >blind ~* &* +@all -info");
        user = "blind:blind@";
    }
    return text_printf("%s://%s127.0.0.1:%d/0", run->options.tls ? "rediss" : "redis", user,
                       run->options.tls ? run->tls_port : source->port);
}

static void start_channeld(struct run *run)
{
    const char *env[SETTINGS_MAX] = {NULL};
    secret_init(&run->secret);
    if (rotates(run))
        publish_password(run);
    char *own[] = {
        text_printf("CHANNELD_REDIS_PREFIX=%s", run_prefix(run)),
        !rotates(run) ? NULL
                      : text_printf("CHANNELD_REDIS_PASSWORD_FILE=%s", secret_path(&run->secret, "password")),
        !run->options.tls ? NULL : text_printf("CHANNELD_REDIS_CA_FILE=%s", run->authority.cert),
        text_printf("CHANNELD_WORKERS=%d", run->options.workers),
        text_printf("CHANNELD_STALE_LIMIT=%dms", run->options.stale_limit_ms),
        text_printf("CHANNELD_REQUEST_TIMEOUT=%dms", (int)REQUEST_TIMEOUT_MS),
        text_printf("CHANNELD_ACCESS_LOG=off"),
        text_printf("CHANNELD_MAX_CONNECTION_AGE=0"), /* a client keeps its connection */
        run->options.cache_size == NULL ? NULL
                                        : text_printf("CHANNELD_CACHE_SIZE=%s", run->options.cache_size),
        run->options.cache_ttl == NULL ? NULL : text_printf("CHANNELD_CACHE_TTL=%s", run->options.cache_ttl),
        run->options.tracking == NULL ? NULL : text_printf("CHANNELD_TRACKING=%s", run->options.tracking),
    };
    size_t used = 0;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (own[i] != NULL)
            env[used++] = own[i];
    }
    for (size_t i = 0; run->options.env != NULL && run->options.env[i] != NULL && used < SETTINGS_MAX - 1;
         i++)
        env[used++] = run->options.env[i];
    char *url = source_url(run);
    const struct server_spec spec = {.redis_url = url, .env = env, .wait = SERVER_WAIT_READY};
    server_start(&run->server, &spec);
    free(url);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        free(own[i]);
}

static void start_writers(struct run *run)
{
    struct writer_place place = {.prefix = run_prefix(run), .port = run->redis.port};
    if (run->options.replica)
        place.source_port = source_of(run)->port;
    for (int i = 0; run->options.cluster && i < CLUSTER_NODES; i++)
        place.node_port[place.nodes++] = run->cluster.node[i].port;
    for (int i = 0; i < run->options.writers; i++)
        writer_start(&run->writer[i], &run->options, run->model, i, &place);
}

void run_start(struct run *run)
{
    const struct schedule_limits limits = {.bound = (int64_t)run->options.bound_ms * CLOCK_MS,
                                           .stale_limit = (int64_t)run->options.stale_limit_ms * CLOCK_MS,
                                           .replica = run->options.replica};
    run->schedule = schedule_new(&limits);
    run->model = model_new(run->options.channels, run->options.writers);
    start_redis(run);
    plant_placeholder_key(run);
    start_writers(run);
    await_reload(run);
    start_channeld(run);
}

void run_start_readers(struct run *run)
{
    run->report = report_new();
    int port = run->server.port;
    const struct checker checker = {.model = run->model,
                                    .schedule = run->schedule,
                                    .report = run->report,
                                    .in_cluster = run->options.cluster};
    for (int i = 0; i < run->options.readers; i++)
        reader_start(&run->reader[i], &run->options, &checker, i, port, &run->readers_finished);
}

void run_settle(struct run *run)
{
    atomic_store(&run->model->finished, true);
    for (int i = 0; i < run->options.writers; i++)
        writer_join(&run->writer[i]);
    clock_sleep((int64_t)(run->options.bound_ms + SETTLE_MS) * CLOCK_MS);
    atomic_store(&run->readers_finished, true);
    for (int i = 0; i < run->options.readers; i++)
        reader_join(&run->reader[i]);
}

void run_stop(struct run *run)
{
    if (report_violations(run->report) > 0 && !run->options.expect_violations)
        show_log(run);
    server_stop(&run->server);
    secret_fini(&run->secret);
    if (run->options.cluster) {
        cluster_stop(&run->cluster);
        return;
    }
    replica_stop(&run->replica);
    redis_stop(&run->redis);
    if (run->options.tls)
        tempdir_fini(&run->dir);
}

void run_summary(struct run *run)
{
    struct counters *counters = calloc(1, sizeof *counters);
    double seconds = (double)(clock_now() - report_start(run->report)) / CLOCK_S;
    uint64_t failed = 0;
    if (counters == NULL)
        abort();
    uint64_t reads = run_reads(run, &failed);
    uint64_t changes = run_changes(run);
    for (int i = 0; i < run->options.readers; i++)
        counters_merge(counters, &run->reader[i].counters);
    printf("%.1f s: %" PRIu64 " reads (%.0f/s), %" PRIu64 " changes (%.0f/s):", seconds, reads,
           (double)reads / seconds, changes, (double)changes / seconds);
    for (int k = 0; k < CHANGE_KINDS; k++) {
        uint64_t count = 0;
        for (int i = 0; i < run->options.writers; i++)
            count += run->writer[i].changes[k];
        printf(" %s %" PRIu64, writer_change_name((enum change_kind)k), count);
    }
    printf("\n");
    report_summary(run->report, counters, run->schedule);
    free(counters);
}

void run_fini(struct run *run)
{
    report_free(run->report);
    model_free(run->model);
    schedule_free(run->schedule);
}
