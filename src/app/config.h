/* The settings of channeld: their table, and what was read, checked and ready to be used. */
#ifndef APP_CONFIG_H
#define APP_CONFIG_H

#include "api/access_log.h"
#include "api/cors.h"
#include "base/log.h"
#include "base/net.h"
#include "base/settings.h"
#include "model/keyspace.h"
#include "model/link.h"
#include "redis/endpoint.h"

enum { CONFIG_BASE_PATH_MAX = 128, CONFIG_SETTINGS_MAX = 64 };

/* As read; see the table in config.c for what each is. Owned strings, bytes, milliseconds. */
struct config_values {
    char *listen, *admin_listen, *base_path;
    struct redis_options redis;
    char *redis_prefix, *channel_host, *web_host;
    int64_t workers;
    int64_t request_timeout, cache_size, stale_limit;
    char *stale_keys_limit;
    int64_t header_timeout, idle_timeout, write_timeout, max_connection_age;
    int64_t max_header_size, max_body_size, max_connections;
    int64_t drain_delay, drain_timeout;
    char *log_level, *access_log, *log_clients, *core_dumps, *cors_origins, *trusted_proxies;
};

struct config {
    struct config_values values;
    unsigned char sources[CONFIG_SETTINGS_MAX]; /* of the values: an enum setting_source for each */
    struct addr listen, admin_listen;
    char base_path[CONFIG_BASE_PATH_MAX + 1]; /* begins and ends with a slash */
    struct redis_endpoint redis;
    struct keyspace keyspace;
    struct link_hosts hosts;
    struct cors cors;
    struct ip_networks trusted_proxies;
    enum log_level log_level;
    enum access_log_mode access_log;
    int64_t stale_keys_limit; /* milliseconds */
    int workers;              /* at least 1 */
    bool log_clients, core_dumps;
};

enum config_outcome { CONFIG_RUN, CONFIG_CHECK, CONFIG_PROBE, CONFIG_HELP, CONFIG_VERSION };

/*
 * Reads and checks everything. Returns what the command line asks for, or -EINVAL or -ENOMEM with a message
 * in `error` that names the setting. config_fini is due in every case. `c` is zeroed by the caller.
 */
int config_read(struct config *c, int argc, char **argv, struct buf *error)
    __attribute__((warn_unused_result));
void config_fini(struct config *c);

/* What gave the setting `name` its value: --listen or CHANNELD_LISTEN. */
void config_write_source(const struct config *c, const char *name, struct buf *out);

/* The next variable in the environment that is no setting, as settings_next_unknown; and what to say of it.
 */
struct span config_next_unknown(size_t *at);
void config_write_unknown(struct span variable, struct buf *out);

/* The text of --help, and of --check. */
void config_write_help(struct buf *out);
void config_write_values(const struct config *c, struct buf *out);

#endif
