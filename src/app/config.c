/* Reading and checking the settings; see config.h. */
#include "app/config.h"

#include "api/cors.h"
#include "base/file.h"
#include "base/process.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* In the order of --help. */
/* clang-format off */
#define ROW(member, ...)   SETTING_ROW(struct config_values, member, __VA_ARGS__)
#define WORDS(member, ...) SETTING_WORDS(struct config_values, member, __VA_ARGS__)
static const struct setting TABLE[] = {
    ROW(listen, TEXT, "listen", ":8080", 0, 0,
      "Address of the public API; without a host, every IPv6 and IPv4 address"),
    ROW(admin_listen, TEXT, "admin-listen", ":8081", 0, 0,
      "Address of /livez, /readyz, /startupz, /metrics and /version; keep it private"),
    API_SETTINGS(struct config_values, api),
    REDIS_SETTINGS(struct config_values, redis),
    ROW(redis_prefix, TEXT, "redis-prefix", "channels:", 0, 0,
      "Prefix of every Redis key"),
    ROW(channel_host, TEXT, "channel-host", "max.ru", 0, 0,
      "Host of stored channel links"),
    ROW(web_host, TEXT, "web-host", "web.max.ru", 0, 0,
      "Host of the web client; its links find the same channels"),
    ROW(workers, COUNT, "workers", "0", 0, 1024,
      "Worker threads; 0: one per processor granted"),
    CACHE_SETTINGS(struct config_values, cache),
    HTTP_SETTINGS(struct config_values, http),
    ROW(max_connections, COUNT, "max-connections", "10000", 1, 1000000,
      "Limit of client connections; beyond it a new one replaces the one that has waited longest for a request, or "
      "gets 503 if none waits"),
    ROW(drain_delay, DURATION, "drain-delay", "5s", 0, SETTINGS_DAY_MS,
      "After SIGTERM: how long to serve, not ready, before the listeners close"),
    ROW(drain_timeout, DURATION, "drain-timeout", "20s", 0, SETTINGS_DAY_MS,
      "After that: how long requests in flight may take"),
    {"log-level", SETTING_CHOICE, offsetof(struct config_values, log_level), "info", 0, 0, true,
      "error, warn, info or debug", "error|warn|info|debug"},
    {"access-log", SETTING_TEXT, offsetof(struct config_values, access_log), "errors", 0, 0, true,
      "off, errors (status 400 and above), all, or errors and a share of the other requests, such as 1%", NULL},
    WORDS(key_metrics, "key-metrics", "off", "off|on",
      "on or off: requests by the name of their API key in /metrics"),
    WORDS(core_dumps, "core-dumps", "off", "off|on",
      "on or off: core dumps and debuggers may read the memory, API keys included"),
    ROW(key_rate, TEXT, "key-rate", "", 0, 0,
      "Rate of each API key in this process, such as 100/s, 6000/m or 100/s,burst=200; beyond it 429; empty: no "
      "limit"),
    ROW(trusted_proxies, TEXT, "trusted-proxies", "", 0, 0,
      "Networks of proxies whose forwarded client addresses are trusted, separated by commas"),
};
/* clang-format on */

/* --- Checks: each returns what is wrong, or NULL --- */

static const char *config_check_address(const char *text, struct addr *out)
{
    return addr_parse(span_of(text), out) == 0 && out->port != 0
               ? NULL
               : "an address with a port is expected, such as 127.0.0.1:8080 or [::]:8080";
}

static bool config_is_path_char(char c)
{
    return ascii_is_alnum(c) || strchr("/-._~", c) != NULL;
}

/* The slash at either end is optional; from now on the path has both. */
static const char *config_check_base_path(struct config *c)
{
    const char *text = c->values.api.base_path;
    size_t len = strlen(text);
    if (!span_all(span_of(text), config_is_path_char) || strstr(text, "//") != NULL)
        return "a path of letters, digits and -._~/ is expected, such as /api/";
    const char *last = len > 0 && text[len - 1] != '/' ? "/" : "";
    char *effective = NULL;
    int n = asprintf(&effective, "%s%s%s", text[0] != '/' ? "/" : "", text, last);
    if (n < 0)
        return "out of memory";
    free(c->values.api.base_path);
    c->values.api.base_path = effective;
    return n <= API_BASE_PATH_MAX ? NULL : "is too long";
}

/* Hosts are compared without case; they are kept in lower case, as in stored links. */
static const char *config_check_host(char *text, struct span *out)
{
    *out = span_of(text);
    for (char *p = text; *p != '\0'; p++) {
        *p = (char)tolower((unsigned char)*p);
        if (!ascii_is_alnum(*p) && *p != '-' && *p != '.')
            return "a host name is expected";
    }
    return out->len > 0 && out->len <= LINK_HOST_MAX ? NULL : "a host name is expected";
}

static const char *config_check_stale_keys_limit(struct config *c)
{
    struct span text = span_of(c->values.cache.stale_keys_limit);
    c->stale_keys_limit = (int64_t)c->values.cache.stale_limit_ms;
    return span_equal(text, SPAN("same")) || parse_amount(text, &text_durations, &c->stale_keys_limit) == 0
               ? NULL
               : "a duration such as 30s is expected, or same";
}

/* Certificate and key are given together. */
static const char *config_check_pair(const char *one, const char *other)
{
    return one[0] == '\0' || other[0] != '\0'
               ? NULL
               : "a client certificate needs its key, and a key its certificate";
}

/* Reports the first setting that is wrong. */
static int config_check(struct config *c, struct buf *error)
{
    const struct config_values *v = &c->values;
    const struct redis_options *redis = &v->redis;
    struct span origin = SPAN_ABSENT;
    struct span network = SPAN_ABSENT;
    const struct {
        const char *setting, *why;
        const struct span *element; /* of a list: the one that is wrong */
    } checks[] = {
        {"listen", config_check_address(v->listen, &c->listen), NULL},
        {"base-path", config_check_base_path(c), NULL},
        {"redis-cert-file", config_check_pair(redis->cert_file, redis->key_file), NULL},
        {"redis-key-file", config_check_pair(redis->key_file, redis->cert_file), NULL},
        {"redis-prefix",
         keyspace_init(&c->keyspace, span_of(v->redis_prefix)) == 0
             ? NULL
             : "1 to 64 visible ASCII characters are expected",
         NULL},
        {"channel-host", config_check_host(v->channel_host, &c->hosts.channel_host), NULL},
        {"web-host", config_check_host(v->web_host, &c->hosts.web_host), NULL},
        {"stale-keys-limit", config_check_stale_keys_limit(c), NULL},
        {"cors-origins", cors_origins_error(span_of(v->api.cors_origins), &origin), &origin},
        {"trusted-proxies", ip_networks_parse(span_of(v->trusted_proxies), &c->trusted_proxies, &network),
         &network},
        {"key-rate", rate_policy_parse(span_of(v->key_rate), &c->key_rate), NULL},
    };
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        if (checks[i].why == NULL)
            continue;
        (void)settings_reject(&c->args, checks[i].setting, error, checks[i].why);
        if (checks[i].element != NULL)
            buf_printf(error, ": \"%.*s\"", (int)checks[i].element->len, checks[i].element->data);
        return -EINVAL;
    }
    return 0;
}

/* --- Redis and the log, whose settings are read again --- */

bool config_is_of_redis(const struct setting *s)
{
    return span_starts_with(span_of(s->name), SPAN("redis-"));
}

/* The paths are those of certificates. */
const char *config_watched_file(const struct config *c, const struct setting *s)
{
    const char *path = s->type == SETTING_PATH ? *settings_text(s, &c->values) : "";
    return *path != '\0' ? path : c->args.source[s - TABLE].file;
}

/* OpenSSL would wait for a writer of the pipe. */
static int config_check_again(const struct config *c, struct buf *error)
{
    for (const struct setting *s = TABLE; s < TABLE + config_usage.count; s++)
        if (s->type == SETTING_PATH && file_is_stream(*settings_text(s, &c->values)))
            return settings_reject(&c->args, s->name, error, "a pipe can be read only at the start");
    return 0;
}

static int config_make_redis(const struct config *c, uint64_t number, struct redis_config **out,
                             struct buf *error)
{
    struct buf why = BUF_INIT;
    const char *setting = NULL;
    int err = redis_config_new(&c->values.redis, keyspace_prefix(&c->keyspace), number, out, &why, &setting);
    if (err == -EINVAL)
        err = settings_reject(&c->args, setting, error, buf_message(&why));
    buf_fini(&why);
    return err;
}

int config_read_files(const struct config *c, uint64_t number, struct redis_config **out, int *access_log,
                      struct buf *error)
{
    int err = settings_read_files(&c->args, true, error);
    if (err == 0 && number > 1)
        err = config_check_again(c, error);
    if (err == 0 && access_log_parse(span_of(c->values.access_log), access_log) != 0)
        err = settings_reject(&c->args, "access-log", error,
                              "off, errors, all or a share from 0.01% to 100% is expected");
    return err == 0 ? config_make_redis(c, number, out, error) : err;
}

/* --- The program's table, and reading all of it --- */

static const struct settings_flag FLAGS[CONFIG_FLAGS] = {
    {"--check", NULL, "run all checks of a start, print the settings in force, and exit"},
    {"--probe", NULL, "check that the channeld running with these settings is ready: exit code 0 or 1"},
    {"--version", NULL, "print the version and exit"},
    {"--help", NULL, "print this and exit; also -h"}};

const struct usage config_usage = {
    .program = "channeld",
    .summary = "a read-only JSON API over public channels kept in Redis",
    .synopsis = "[--SETTING VALUE]...",
    .flags = FLAGS,
    .flag_count = CONFIG_FLAGS,
    .exits = "0 drained, or done; 1 could not run, or (--probe) not ready; 2 wrong settings; 128 plus its "
             "number after a second signal",
    .table = TABLE,
    .count = sizeof TABLE / sizeof TABLE[0],
    /* of channelctl, scripts/setup and the compose file */
    .others = "CHANNELD_DEPS_DIR CHANNELD_IMAGE CHANNELD_PUBLISH CHANNELD_WAIT",
};

int config_read(struct config *c, int argc, char **argv, struct buf *error)
{
    c->args =
        (struct settings_args){.usage = &config_usage, .target = &c->values, .argc = argc, .argv = argv};
    int err = settings_read(&c->args, error);
    if (err > 0) {
        buf_append_str(error, "unexpected argument (see --help)"); /* it may be a URL with a password */
        err = -EINVAL;
    }
    if (err != 0)
        return err;
    const char *why = config_check_address(c->values.admin_listen, &c->admin_listen);
    if (why != NULL)
        return settings_reject(&c->args, "admin-listen", error, why);
    if (c->args.flag[CONFIG_PROBE] != NULL && c->args.flag[CONFIG_CHECK] == NULL)
        return 0;
    c->workers = c->values.workers > 0 ? (int)c->values.workers : process_cpus_available();
    err = settings_read_files(&c->args, false, error);
    return err == 0 ? config_check(c, error) : err;
}
