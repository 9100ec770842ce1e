/* The settings of channeld: one table defines the struct, the parser, --help and --check. */
#ifndef APP_CONFIG_H
#define APP_CONFIG_H

#include "api/access_log.h"
#include "api/rate_limit.h"
#include "api/response.h"
#include "base/log.h"
#include "base/net.h"
#include "base/settings.h"
#include "base/usage.h"
#include "http/server.h"
#include "model/keyspace.h"
#include "model/link.h"
#include "redis/endpoint.h"

/* clang-format off */
#define CONFIG_MINUTES(n) ((int64_t)(n) * 60 * 1000)
#define CONFIG_DAY        CONFIG_MINUTES(24 * 60)

/*
 * X(kind, member, name, default, min, max, help): every setting of channeld, in the order of --help. The row
 * is the member of config_values, the flag --name, the variable CHANNELD_NAME, its bounds (numbers; sizes in
 * bytes, durations in milliseconds), its lines in --help and --check, and its places in the manual and
 * the environment file. The table of docs/configuration.md must agree (tests/check-docs).
 * CHOICE(member, name, default, words, help): the same for one of some words; the member is its place among them.
 * REDIS(member): the settings that channelctl has as well, from redis/endpoint.h.
 * HTTP(member): those of http/server.h.
 * LOG(member): CONFIG_LOG_ROWS, which may come from files, and change with them.
 */
#define CONFIG_SETTINGS(X, CHOICE, REDIS, HTTP, LOG) \
    X(TEXT, listen, "listen", ":8080", 0, 0, \
      "Address of the public API; without a host, every IPv6 and IPv4 address") \
    X(TEXT, admin_listen, "admin-listen", ":8081", 0, 0, \
      "Address of /livez, /readyz, /startupz, /metrics and /version; keep it private") \
    X(TEXT, base_path, "base-path", "/api/", 0, 0, \
      "Path prefix of the API") \
    REDIS(redis) \
    X(TEXT, redis_prefix, "redis-prefix", "channels:", 0, 0, \
      "Prefix of every Redis key") \
    X(TEXT, channel_host, "channel-host", "max.ru", 0, 0, \
      "Host of stored channel links") \
    X(TEXT, web_host, "web-host", "web.max.ru", 0, 0, \
      "Host of the web client; its links find the same channels") \
    X(COUNT, workers, "workers", "0", 0, 1024, \
      "Worker threads; 0: one per processor granted") \
    X(DURATION, request_timeout, "request-timeout", "2s", 10, CONFIG_MINUTES(10), \
      "Longest wait for Redis before a request is answered with 500") \
    X(SIZE, cache_size, "cache-size", "64MiB", 0, (int64_t)1 << 40, \
      "Memory for cached data, split among the workers; 0: every request reads Redis") \
    X(DURATION, cache_ttl, "cache-ttl", "0s", 0, CONFIG_DAY, \
      "How long cached data and API keys are used while Redis refuses CLIENT TRACKING; 0: not at all") \
    CHOICE(tracking, "tracking", "keys", "keys|broadcast", \
      "keys (Redis tracks what each worker reads) or broadcast (each worker gets every change)") \
    CHOICE(compression, "compression", "on", "off|on", \
      "on or off: gzip and zstd for clients that accept them") \
    CHOICE(openapi_auth, "openapi-auth", "off", "off|on", \
      "on or off: openapi.json requires an API key too") \
    X(DURATION, stale_limit, "stale-limit", "30s", 0, CONFIG_DAY, \
      "How long cached data is served, and the process stays ready, after Redis is lost") \
    X(TEXT, stale_keys_limit, "stale-keys-limit", "same", 0, 0, \
      "The same for cached API keys: a duration, or same (as stale-limit)") \
    HTTP(http) \
    X(COUNT, max_connections, "max-connections", "10000", 1, 1000000, \
      "Limit of client connections; beyond it a new one replaces the one that has waited longest for a request, or " \
      "gets 503 if none waits") \
    X(DURATION, drain_delay, "drain-delay", "5s", 0, CONFIG_DAY, \
      "After SIGTERM: how long to serve, not ready, before the listeners close") \
    X(DURATION, drain_timeout, "drain-timeout", "20s", 0, CONFIG_DAY, \
      "After that: how long requests in flight may take") \
    LOG(log) \
    CHOICE(log_clients, "log-clients", "on", "off|on", \
      "on or off: the client's address in the access log") \
    CHOICE(key_metrics, "key-metrics", "off", "off|on", \
      "on or off: requests by the name of their API key in /metrics") \
    CHOICE(core_dumps, "core-dumps", "off", "off|on", \
      "on or off: core dumps and debuggers may read the memory, API keys included") \
    X(TEXT, cors_origins, "cors-origins", "", 0, 0, \
      "Origins whose pages may call the API, separated by commas, or *") \
    X(TEXT, key_rate, "key-rate", "", 0, 0, \
      "Rate of each API key in this process, such as 100/s, 6000/m or 100/s,burst=200; beyond it 429; empty: no " \
      "limit") \
    X(TEXT, trusted_proxies, "trusted-proxies", "", 0, 0, \
      "Networks of proxies whose forwarded client addresses are trusted, separated by commas")

/* NOLINTBEGIN(bugprone-macro-parentheses): a member designator takes none */
#define CONFIG_LOG_ROWS(member) \
    {"log-level", SETTING_CHOICE, offsetof(struct config_values, member.level), "info", 0, 0, true, \
     "error, warn, info or debug", "error|warn|info|debug"}, \
    {"access-log", SETTING_TEXT, offsetof(struct config_values, member.access), "errors", 0, 0, true, \
     "off, errors (status 400 and above), all, or errors and a share of the other requests, such as 1%", NULL}
/* NOLINTEND(bugprone-macro-parentheses) */
/* clang-format on */

#define CONFIG_TYPE_TEXT     char *
#define CONFIG_TYPE_COUNT    int64_t
#define CONFIG_TYPE_SIZE     int64_t
#define CONFIG_TYPE_DURATION int64_t

struct config_log {
    int64_t level; /* from 0; see config_log_level */
    char *access;  /* see access_log_parse */
};

/* The settings as given: owned strings, numbers, bytes, milliseconds, places among the words of a choice. */
struct config_values {
#define CONFIG_MEMBER(kind, member, name, fallback, min, max, help) CONFIG_TYPE_##kind member;
#define CONFIG_CHOICE(member, name, fallback, choices, help)        int64_t member;
#define CONFIG_REDIS_MEMBER(member)                                 struct redis_options member;
#define CONFIG_HTTP_MEMBER(member)                                  struct http_limits member;
#define CONFIG_LOG_MEMBER(member)                                   struct config_log member;
    CONFIG_SETTINGS(CONFIG_MEMBER, CONFIG_CHOICE, CONFIG_REDIS_MEMBER, CONFIG_HTTP_MEMBER, CONFIG_LOG_MEMBER)
#undef CONFIG_MEMBER
#undef CONFIG_CHOICE
#undef CONFIG_REDIS_MEMBER
#undef CONFIG_HTTP_MEMBER
#undef CONFIG_LOG_MEMBER
};

static inline enum log_level config_log_level(const struct config_values *v)
{
    return (enum log_level)(LOG_ERROR + v->log.level);
}

/* The settings that are read again when their files change. */
#define CONFIG_REDIS SETTINGS_PART(struct config_values, redis)
#define CONFIG_LOG   SETTINGS_PART(struct config_values, log)

/* The words of tracking; those of log-level are in the order of its enum. */
enum { CONFIG_TRACKING_KEYS, CONFIG_TRACKING_BROADCAST };

/* The settings checked and ready for use. */
struct config {
    struct config_values values;
    struct settings_args args; /* where they come from */
    struct addr listen, admin_listen;
    struct keyspace keyspace;
    struct link_hosts hosts;
    struct rate_policy key_rate;
    struct ip_networks trusted_proxies;
    int64_t stale_keys_limit; /* milliseconds */
    int workers;              /* at least 1 */
};

enum config_outcome { CONFIG_RUN, CONFIG_CHECK, CONFIG_PROBE, CONFIG_HELP, CONFIG_VERSION };

/*
 * Reads the command line and the environment, and checks all values. Returns the config_outcome that the
 * command line asks for, or -EINVAL or -ENOMEM with a message in `error` that names the setting. Call
 * config_fini in every case. `c` is zeroed by the caller. For CONFIG_PROBE only `admin_listen` is set,
 * because the probed server may use other values than those that its files hold now.
 */
int config_read(struct config *c, int argc, char **argv, struct buf *error)
    __attribute__((warn_unused_result));
void config_fini(struct config *c);

/*
 * The settings of Redis, those from files as these are now, checked: settings_read_again, and
 * redis_config_new with this number. `last` are their values as last read, zeroed before the first read
 * (number 1), which goes back to those of config_read; success replaces them. Returns 0, -ENOMEM, or -EINVAL
 * with a message in `error`. Call config_fini_values for `last` in every case.
 */
int config_read_redis(const struct config *c, struct config_values *last, uint64_t number,
                      struct redis_config **out, struct buf *error) __attribute__((warn_unused_result));

/*
 * The settings of the log as they are now, by settings_read_again, into `now`, which is zeroed by the caller
 * and gets no others. `last` are those last read, or of config_read. Returns 0 and the share of the access
 * log, or -ENOMEM, or -EINVAL with a message in `error`. Call config_fini_values for `now` in every case.
 */
int config_read_log(const struct config *c, const struct config_values *last, struct config_values *now,
                    int *access_log, struct buf *error) __attribute__((warn_unused_result));
void config_fini_values(struct config_values *v);

/* The file from which a setting is read, or its certificate or key, if it is read again when that changes;
 * otherwise NULL. Borrowed from `c`. */
const char *config_watched_file(const struct config *c, const struct setting *s);

/* Writes the source of the value of setting `name`: --listen or CHANNELD_LISTEN. */
void config_write_source(const struct config *c, const char *name, struct buf *out);

/* Finds the next CHANNELD_ variable in the environment that is not a setting, as settings_next_unknown, and
 * writes its `warning`. Returns false after the last. */
bool config_next_unknown(size_t *at, struct buf *warning);

/* The settings and flags that channeld can be called with. */
extern const struct usage config_usage;

#endif
