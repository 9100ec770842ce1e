/*
 * Everything outside the process: its Redis, the writer that changes the catalogue, and the faults. The seed
 * chooses the kinds of faults in a run, and all settings of the process.
 *
 * In the end all faults stop. Every request must then be answered, from the cache the second time, and no
 * handles, sockets or memory may be left.
 *
 * Not covered: API keys of another type; TLS except its records, ACL, most new settings, compressed bodies,
 * several threads; how far a replica is behind its master; outside of cases (cases.h) names that move and
 * Sentinels that announce names; in a cluster reads from replicas, writes that a takeover loses, TRYAGAIN;
 * differences between the simulation and a real kernel, libuv or Redis.
 */
#ifndef SIMULATION_SCENARIO_H
#define SIMULATION_SCENARIO_H

#include "simulation/redis.h"

/* X(name, what happens) */
#define FAULTS(X)                                                     \
    X(reset, "connections are reset or closed")                       \
    X(cut, "nothing arrives on a connection any more")                \
    X(refuse, "connections are refused, ignored, or met by silence")  \
    X(delay, "the network is slow")                                   \
    X(hang, "Redis executes nothing")                                 \
    X(error, "Redis replies with errors")                             \
    X(lose, "the catalogue is lost, and comes back")                  \
    X(evict, "the tracking table is full")                            \
    X(maxmemory, "Redis evicts keys of the catalogue")                \
    X(broken, "keys of another type, and cards that are too large")   \
    X(flood, "many changes at once")                                  \
    X(stop, "the process is stopped")                                 \
    X(suspend, "the machine of the process is suspended")             \
    X(throttle, "the process gets little processor time")             \
    X(cancel, "requests are cancelled")                               \
    X(expire, "API keys expire")                                      \
    X(wall, "the wall clock of the process is set")                   \
    X(move, "what the topology has of its own: roles, links, owners") \
    X(hot, "two cards exchange a link again and again")               \
    X(keys, "an API key changes again and again")                     \
    X(untracked, "Redis does not track, or not in order")             \
    X(deaf, "Redis sends no invalidations")                           \
    X(memory, "allocations fail")                                     \
    X(names, "the first name server does not answer")                 \
    X(renew, "the settings of Redis are read again")                  \
    X(burst, "many requests at once, for different things")

#define FAULT_ENUM(name, text) FAULT_##name,
enum fault { FAULTS(FAULT_ENUM) FAULT_KINDS };
#undef FAULT_ENUM

struct scenario_settings {
    bool broadcast;
    size_t cache_size;
    uint64_t request_timeout_ms, ttl_ms, stale_limit_ms, stale_keys_limit_ms;
    unsigned writes_every_ms, requests_every_ms, faults_every_ms; /* at most; mostly much more often */
};

enum { SERVERS = 8 };

enum { LENGTH_S = 100 }; /* of a run, before it is quiet; one that was shrunk is shorter */

/* Which servers there are, and who is whose. Each is in a file of its own; scenario.c lists them. */
struct topology {
    const char *name;
    const char *url;     /* the setting of the process */
    void (*begin)(void); /* the servers behind the first one, which are empty, and names; NULL: one server */
    void (*move)(void);  /* a fault that only this topology has; NULL: there is none */
    void (*quieten)(void); /* everything is whole again; NULL: always */
    unsigned recovery_s;   /* how much longer recovery takes than from one server */

    /* Where each key is at one of several masters; NULL where there is one. */
    const struct catalogue *truth;         /* what all of them hold */
    void (*write)(const struct change *c); /* in place of redis_submit() */
    bool (*is_busy)(void);                 /* changes wait */
    bool (*may_lose)(void);                /* the master holds everything */
    uint64_t (*bound)(uint64_t since_ns);  /* how old an answer may be that should be no older */
    /* Since when this server has the slot; 0: it has not, or others do not hear of it in time. */
    uint64_t (*owned_since_ns)(const struct redis *r);

    /* Since when no server has named this one, or whom it follows; 0: one does. NULL: nobody names any. */
    uint64_t (*superseded_ns)(const struct redis *r);
};

extern const struct topology topology_plain, topology_replica, topology_sentinel, topology_sentinel_replica,
    topology_cluster;

struct scenario {
    struct scenario_settings settings;
    unsigned faults; /* kinds, as bits */
    const struct topology *topology;
    const char *url; /* the setting of the process: that of the topology, unless a case has another one */
    struct redis server[SERVERS]; /* the first `servers` */
    size_t servers;
    struct redis *master;        /* the writer's */
    bool quiet;                  /* the writer and the faults have ended */
    uint64_t slow_until_ns;      /* until then the network is, or was, slow */
    uint64_t disturbed_until_ns; /* until then there was a fault that may cost answers */
    uint64_t severed_until_ns;   /* until then there was one that may cost the connection */
    uint64_t lost_ns;            /* when a replica that cannot be used has last lost a connection; 0: never */
};

extern struct scenario scenario;

/* The names of all topologies, for the command line; the last one is NULL. */
extern const char *const scenario_topologies[];

/* Chooses settings, faults and the topology by the seed, leaves out all faults but these, and begins. With a
 * topology it is that one. */
void scenario_begin(unsigned faults, const struct topology *topology);

/* By its number in scenario_topologies; NULL below 0. */
const struct topology *scenario_topology(int number);

/* For topologies: a server, at 10.0.0.`host`, without data; and random numbers, durations, and what a fault
 * costs, as those of scenario.c. */
struct redis *scenario_add_server(const char *name, uint8_t host);
unsigned scenario_choose(unsigned count);
uint64_t scenario_a_while(uint64_t max_ms);
void scenario_delay_answers(uint64_t duration_ns);
void scenario_disturb(uint64_t duration_ns);

/* The network is slow for a while, on the way to this server; NULL: to all. */
void scenario_slow(struct redis *of);

/* The writer goes on there, with what it finds. */
void scenario_set_master(struct redis *r);

/* What getaddrinfo waits for the first name server, by default (resolv.conf(5)). */
enum { NAME_SERVER_TIMEOUT_S = 5 };

/* How much longer recovery takes than from one server whose name is found at once. */
unsigned scenario_recovery_s(void);

/* No more changes and faults; what lasts ends soon. */
void scenario_quieten(void);

static inline bool scenario_has(enum fault f)
{
    return (scenario.faults & 1U << f) != 0;
}

#endif
