/* The settings of channeld. */
#ifndef APP_CONFIG_H
#define APP_CONFIG_H

#include "api/api.h"
#include "api/rate_limit.h"
#include "base/log.h"
#include "base/net.h"
#include "base/settings.h"
#include "base/usage.h"
#include "http/server.h"
#include "model/keyspace.h"
#include "model/link.h"
#include "redis/endpoint.h"

struct config_log {
    int64_t level; /* from 0; see config_log_level */
    char *access;  /* see access_log_parse */
};

/* The settings as given: owned strings, numbers, bytes, milliseconds, places among the words of a choice. The
 * rows that describe them are in config.c, or with the struct of a layer. */
struct config_values {
    char *listen, *admin_listen;
    struct api_settings api;
    struct redis_options redis;
    char *redis_prefix, *channel_host, *web_host;
    int64_t workers;
    int64_t request_timeout;
    int64_t cache_size, cache_ttl;
    int64_t tracking;
    int64_t stale_limit;
    char *stale_keys_limit;
    struct http_limits http;
    int64_t max_connections;
    int64_t drain_delay, drain_timeout;
    struct config_log log;
    int64_t key_metrics;
    int64_t core_dumps;
    char *key_rate, *trusted_proxies;
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
 * config_fini_values for `values` in every case. `c` is zeroed by the caller. For CONFIG_PROBE only
 * `admin_listen` is set, because the probed server may use other values than those that its files hold now.
 */
int config_read(struct config *c, int argc, char **argv, struct buf *error)
    __attribute__((warn_unused_result));

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

/* The settings and flags that channeld can be called with. */
extern const struct usage config_usage;

#endif
