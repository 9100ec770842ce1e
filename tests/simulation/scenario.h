/*
 * All that is outside the process: its Redis, the writer that changes the catalogue, and the faults. What
 * kinds of faults there are in a run, and all settings of the process, are chosen by the seed.
 */
#ifndef SIMULATION_SCENARIO_H
#define SIMULATION_SCENARIO_H

#include "simulation/redis.h"

/* X(name, what happens) */
#define FAULTS(X)                                                    \
    X(reset, "connections are reset or closed")                      \
    X(cut, "nothing arrives on a connection any more")               \
    X(refuse, "connections are refused, ignored, or met by silence") \
    X(delay, "the network is slow")                                  \
    X(hang, "Redis executes nothing")                                \
    X(error, "Redis replies with errors")                            \
    X(lose, "the catalogue is lost, and comes back")                 \
    X(evict, "the tracking table is full")                           \
    X(flood, "many changes at once")                                 \
    X(stop, "the process is stopped")                                \
    X(suspend, "the machine of the process is suspended")            \
    X(throttle, "the process gets little processor time")            \
    X(cancel, "requests are cancelled")                              \
    X(expire, "API keys expire")                                     \
    X(wall, "the wall clock of the process is set")

#define FAULT_ENUM(name, text) FAULT_##name,
enum fault { FAULTS(FAULT_ENUM) FAULT_KINDS };
#undef FAULT_ENUM

struct scenario_settings {
    bool broadcast;
    size_t cache_size;
    uint64_t request_timeout_ms, stale_limit_ms, stale_keys_limit_ms;
    unsigned writes_every_ms, requests_every_ms, faults_every_ms; /* at most; mostly much more often */
};

struct scenario {
    struct scenario_settings settings;
    unsigned faults; /* kinds, as bits */
    struct redis redis;
    bool quiet;                  /* the writer and the faults have ended */
    uint64_t lost_until_ns;      /* when the catalogue comes back, or did */
    uint64_t disturbed_until_ns; /* until then there was a fault that may cost answers */
};

extern struct scenario scenario;

/* Chooses settings and faults by the seed, leaves out all faults but these, and begins. */
void scenario_begin(unsigned faults);

/* No more changes and faults; what lasts ends soon. */
void scenario_quieten(void);

static inline bool scenario_has(enum fault f)
{
    return (scenario.faults & 1U << f) != 0;
}

#endif
