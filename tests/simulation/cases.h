/*
 * Single cases: one fault at a time, chosen by name in place of a seed, and what it may cost. The file of
 * expected failures (expected-failures) names the cases that the code does not pass yet.
 */
#ifndef SIMULATION_CASES_H
#define SIMULATION_CASES_H

#include "cache/metrics.h"
#include "redis/metrics.h"
#include "simulation/scenario.h"

#include <stdbool.h>
#include <uv.h>

enum { CASE_WORKERS_MAX = 8 };

struct simulated_case {
    const char *name;
    const struct topology *topology;
    unsigned workers; /* with connections of their own, on one loop */
    bool asks;        /* clients send requests to the first worker */
    void (*begin)(void);
    void (*run)(void);
};

/* The name and the topology of a case, from 0 on; there is no name behind the last one: NULL. */
const char *cases_name(unsigned number);
const struct topology *cases_topology(unsigned number);

/* The case of this number; its settings are those of every case. */
const struct simulated_case *cases_begin(unsigned number);

/* Its faults and checks, once the workers are open. */
void cases_run(const struct simulated_case *k, uv_loop_t *loop, const struct redis_metrics redis[],
               const struct cache_metrics *cache);

#endif
