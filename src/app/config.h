/* The settings of channeld. */
#ifndef APP_CONFIG_H
#define APP_CONFIG_H

#include "api/api.h"
#include "api/rate_limit.h"
#include "base/log.h"
#include "base/net.h"
#include "base/settings.h"
#include "cache/cache.h"
#include "http/server.h"
#include "model/keyspace.h"
#include "model/link.h"
#include "redis/endpoint.h"

/* The settings as given: owned strings, numbers, bytes, milliseconds, places among the words of a choice. The
 * rows that describe them are in config.c, or with the struct of a layer. */
struct config_values {
    char *listen, *admin_listen;
    struct api_settings api;
    struct redis_options redis;
    char *redis_prefix, *channel_host, *web_host;
    int64_t workers;
    struct cache_settings cache;
    struct http_limits http;
    int64_t max_connections;
    int64_t drain_delay, drain_timeout;
    int64_t log_level; /* from 0; see config_log_level */
    char *access_log;  /* see access_log_parse */
    int64_t key_metrics;
    int64_t core_dumps;
    char *key_rate, *trusted_proxies;
};

static inline enum log_level config_log_level(const struct config_values *v)
{
    return (enum log_level)(LOG_ERROR + v->log_level);
}

/* The settings checked and ready for use. */
struct config {
    struct config_values values;
    struct settings_args args; /* where they come from, and go to */
    struct addr listen, admin_listen;
    struct keyspace keyspace;
    struct link_hosts hosts;
    struct rate_policy key_rate;
    struct ip_networks trusted_proxies;
    int64_t stale_keys_limit; /* milliseconds */
    int workers;              /* at least 1 */
};

/* The flags that are not settings, by their places in `args`. */
enum config_flag { CONFIG_CHECK, CONFIG_PROBE, CONFIG_VERSION, CONFIG_HELP, CONFIG_FLAGS };

/*
 * Reads the command line and the environment, and checks all values of `c`, which is zeroed. Returns 0, or
 * -EINVAL or -ENOMEM with a message in `error`; the flags are known in any case. Call settings_fini for
 * `values` in every case. With CONFIG_PROBE only `admin_listen` is set: the files may hold other values now.
 */
int config_read(struct config *c, int argc, char **argv, struct buf *error)
    __attribute__((warn_unused_result));

/*
 * Those of the values that come from files, Redis' and the log's, as the files are now, checked:
 * settings_read_files. Returns the configuration of Redis with this `number`, which is 1 at the start, and
 * the share of the access log; or -ENOMEM, or -EINVAL with a message in `error`.
 */
int config_read_files(const struct config *c, uint64_t number, struct redis_config **out, int *access_log,
                      struct buf *error) __attribute__((warn_unused_result));

/* The file from which a setting is read, or its certificate or key; otherwise NULL. Borrowed from `c`. */
const char *config_watched_file(const struct config *c, const struct setting *s);

bool config_is_of_redis(const struct setting *s);

extern const struct usage config_usage;

#endif
