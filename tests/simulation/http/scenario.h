/*
 * The shared state of a simulation of src/http: the settings of a run, the clients, and the events of the
 * server.
 */
#ifndef SIMULATION_HTTP_SCENARIO_H
#define SIMULATION_HTTP_SCENARIO_H

#include "http/server.h"
#include "simulation/http/model.h"
#include "simulation/http/streams.h"
#include "simulation/process.h"

enum fault {
    FAULT_MUTATIONS, /* requests that are not valid */
    FAULT_ENDS,      /* clients that end, half-close or reset at any moment */
    FAULT_SLOW,      /* clients that read slowly, or not at all */
    FAULT_LIMIT,     /* more connections than the limit */
    FAULT_PROXIES,   /* trusted ones, with PROXY protocol headers */
    FAULT_STOPS,     /* the process does not run for a while */
    FAULT_CLOCK,     /* the wall clock is set */
    FAULT_AGE,       /* connections have a maximum age */
    FAULT_DRAIN,     /* SIGTERM */
    FAULT_SERVERS,   /* two of them, which share a balancer */
    FAULT_BURSTS,    /* clients that pipeline many requests at the same moment */
    FAULT_KINDS
};

enum { CLIENT_ITEMS_MAX = MODEL_ITEMS_MAX };

struct client {
    struct tcp *stream;
    struct model model;  /* of what was sent behind a PROXY protocol header */
    struct buf script;   /* what it is to send */
    size_t sent, header; /* bytes of the script; of the PROXY protocol header */
    bool bad_header, from_proxy;
    struct buf in; /* responses that are not complete */
    unsigned responses;
    bool last_seen; /* a response with "Connection: close" */
    bool done;      /* it has seen the end, or ended itself */
    bool quits;     /* it ended itself: it did not read all */
    bool reads;
    bool bursts; /* it sends all at once, with others */
    bool over_limit, timed_out, head_rejected;
    bool continued;

    /* The application: one request at a time. */
    struct http_exchange *exchange;
    bool answers_now;
    unsigned handled; /* requests and rejections that the application was given */
    int rejected;     /* the status; 0: none */
    bool must_close[CLIENT_ITEMS_MAX + 1];
    bool no_room[CLIENT_ITEMS_MAX + 1]; /* answered with 503 */

    /* Its turns in the run queue, by their order among those of all clients; see check_turn. */
    uint64_t last_turn;
    uint64_t queued_turn; /* the first one since it has had a request in the queue; 0: it has none */
    unsigned flushes;     /* of its stream, at its last turn */

    /* By the monotonic clock. */
    uint64_t begun_ns;        /* the first byte of a request that is not complete has arrived */
    uint64_t former_begun_ns; /* likewise, of the one before */
    size_t begun_at;
    uint64_t sent_ns; /* the last bytes have arrived */
    uint64_t answered_ns;
};

struct scenario {
    unsigned faults;
    struct http_server_options options;
    struct http_balancer *balancer;
    struct http_server *server[2];
    int servers, max_connections;
    struct http_metrics metrics;
    struct ip_networks proxies;
    struct client client[STREAMS_MAX]; /* by number of the stream */
    uint64_t announced_ns, finishing_ns;
    bool closing;
    uint64_t requests, rejections, turns;
};

extern struct scenario scenario;

static inline bool has_fault(enum fault kind)
{
    return (scenario.faults >> kind & 1) != 0;
}

static inline unsigned client_number(const struct client *c)
{
    return (unsigned)(c - scenario.client);
}

/* Of the address of a client. */
struct client *client_find(const struct ip *ip);

/* --- application.c: what is served --- */

struct plan {
    int status;
    size_t size;
    uint64_t delay_ms; /* UINT64_MAX: never */
};

struct plan application_plan(const char *text, size_t len);
struct http_handler application_handler(void);

/* --- clients.c --- */

void clients_begin(uint64_t length_ns);
void clients_load_corpus(void);
void clients_fini(void);

/* --- check.c: what must hold --- */

void check_begin(void);
void check_response(struct client *c); /* bytes have arrived in c->in */
void check_end(struct client *c);      /* the client sees the end */
void check_turn(struct client *c);     /* its next request is handled */
void check_rejection(struct client *c, int status);
void check_no_room(struct client *c); /* too much is unsent for a response */
void check_cancel(struct client *c);
void check_all(void); /* nothing is overdue */

#endif
