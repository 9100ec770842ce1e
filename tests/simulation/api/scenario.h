/*
 * The shared state of a simulation of src/api: the settings of a run, requests with their meaning, the
 * answers of the cache, and the clients.
 */
#ifndef SIMULATION_API_SCENARIO_H
#define SIMULATION_API_SCENARIO_H

#include "api/api.h"
#include "http/server.h"
#include "simulation/http/streams.h"

enum { TAGS_MAX = 64, LISTED_MAX = 3, KEYS = 5 };

enum fault {
    FAULT_CACHE,   /* it fails, is stale, or answers late */
    FAULT_KEYS,    /* keys are revoked and issued */
    FAULT_CHANGES, /* of cards and pages */
    FAULT_RATE,    /* of keys is limited */
    FAULT_CANCELS, /* clients that do not wait for their response */
    FAULT_KINDS
};

enum target { TARGET_ELSEWHERE, TARGET_NONE, TARGET_DOCUMENT, TARGET_LIST, TARGET_ID, TARGET_LINK };

/* An entity tag that a client has seen, and of what. */
struct tag {
    char text[64];
    size_t len;
    uint64_t body; /* hash of the plain content */
    enum coding coding;
};

/* If-Match or If-None-Match. */
struct condition {
    bool sent, any;
    unsigned count;
    struct tag tag[LISTED_MAX];
    bool weak[LISTED_MAX];
};

/* A request as it is sent, and its meaning by docs/contract.md and docs/openapi.json. It is made from its
 * meaning, and never parsed. */
struct request {
    struct buf bytes;
    enum http_method method;
    int minor;
    enum target target;
    int key; /* -1: none */
    bool two_keys;
    bool is_valid;     /* the parameter of the path or the query */
    bool is_missing;   /* the link */
    int64_t number;    /* of the channel or the page; of an integer out of range, the nearest one */
    char link[320];    /* as it is stored; "": no channel has it */
    bool from_origin;  /* an origin is sent */
    bool from_allowed; /* and is allowed, if not all are */
    bool is_preflight;
    const char *id; /* valid, or NULL */
    unsigned acceptable;
    enum coding preferred;
    struct condition match, none_match;
};

/* What the cache has answered. */
struct answer {
    bool asked, given;
    enum cache_status status;
    enum cache_source source;
    uint64_t body; /* hash of the plain content */
    enum coding coding;
    size_t len;
    int64_t age_s, ttl_s, last_page;
};

struct client {
    struct tcp *stream;
    struct request request;
    size_t sent;
    struct answer answer;
    struct rate_result rate;
    bool refused;
    bool
        was_full; /* the bucket, which another key may take: the request is counted then or after its query */
    uint64_t began_ns;
    struct buf in;
    bool waits, done;
    unsigned left; /* requests yet to be made */
};

struct scenario {
    unsigned faults;
    struct http_server_options options;
    struct http_server *server;
    struct http_metrics http_metrics;
    struct api *api;
    struct api_options api_options;
    struct request_metrics metrics;
    struct key_metrics *key_metrics;
    struct rate_policy policy;
    struct client client[STREAMS_MAX];
    struct client *current; /* whose request is being handled */
    uint64_t responses, cancelled;
    uint64_t named[KEYS]; /* responses to requests of known keys */
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

/* --- requests.c --- */

extern const char *const key_texts[KEYS];
extern const char *const origins; /* those that are allowed */
extern const char *const allowed_origin;

/* Makes the next request of a client. */
void request_make(struct request *r);

/* --- answers.c: in place of the cache --- */

void answers_begin(void);

/* A request is about to be handled, which came then. */
void answers_handle(struct client *c, uint64_t at_ns);
void answers_change(void); /* something changes in the catalogue, or a key */
const char *answers_key_name(int key);

/* The content of an object in its current version. */
void answers_write(struct buf *out, const struct cache_query *q);

/* --- check.c --- */

void check_begin(void);
void check_query(const struct client *c, const struct cache_query *q);

/* All of a response is in c->in: its length; 0: not yet. */
size_t check_response(struct client *c);
void check_totals(void);
struct tag *check_any_tag(unsigned choice); /* NULL: none was seen */

#endif
