/*
 * The simulated trackers of bench/fleet: each is one RESP3 connection that tracks, reads its share of the
 * channels as a worker of channeld does, and receives invalidations. What they receive is drained now and
 * then, unread: a tracker on another machine costs Redis no wake-up either. A few are sampled: their
 * invalidations are parsed and logged with the time at which the kernel received them.
 */
#pragma once

#include "fleet_resp.h"

enum tracking { TRACKING_NONE, TRACKING_KEYS, TRACKING_BROADCAST };

struct tracker_options {
    int port;
    enum tracking tracking;
    long trackers;
    double held;   /* percent of the channels that each reads; a random share, another for each tracker */
    long channels; /* of the catalogue */
    long links;    /* percent of the held channels that are looked up by link */
    long missing_ids, missing_links; /* that do not exist, and that each looks up */
    long depth;                      /* commands in one write */
    long reread;                     /* percent of the invalid keys that are read again at once */
    bool touch;                      /* register cards by EXISTS, without reading them */
};

/* An invalidation that a sampled tracker received. */
struct sample {
    uint64_t stamp_ns;
    long channel; /* as channel_of_key */
};

/* What another client of Redis experiences meanwhile: the time of a PING, in nanoseconds. */
struct probe {
    uint64_t *took;
    size_t count;
};

struct trackers;

/* Connects and begins to track; nothing is read yet. */
struct trackers *trackers_open(const struct tracker_options *o);

void trackers_close(struct trackers *ts);

/* All trackers read their share at the same time. Returns the number of commands that it took. */
uint64_t trackers_read(struct trackers *ts, struct probe *probe);

/*
 * From now on each tracker that is not sampled has a thread, which sleeps until something is received, as
 * workers on the machine of Redis do: Redis wakes each of them.
 */
void trackers_sleep(struct trackers *ts);

/* Receives from the sampled trackers. To be called often. */
void trackers_sample(struct trackers *ts);

/* Receives from all; those that read again send their commands. */
void trackers_drain(struct trackers *ts);

/* Drains until nothing more comes. */
void trackers_settle(struct trackers *ts);

/* The invalidations logged since the last call of trackers_reset_samples, in the order of their arrival at
 * each tracker. */
const struct sample *trackers_samples(const struct trackers *ts, size_t *count);
void trackers_reset_samples(struct trackers *ts);

/* The commands sent to read again what was invalid. */
uint64_t trackers_rereads(const struct trackers *ts);

/* The pushes that the first sampled tracker received; 0 when there is none. */
uint64_t trackers_pushes(const struct trackers *ts);
