/* Reading and checking the settings; see config.h. */
#include "app/config.h"

#include "app/cpus.h"
#include "base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define AT(member) offsetof(struct config_values, member)
enum { TEN_MINUTES_MS = 10 * 60 * 1000, DAY_MS = 24 * 60 * 60 * 1000 };

static const struct setting TABLE[] = {
    {"listen", SETTING_TEXT, AT(listen), ":8080", 0, 0, false,
     "Address of the public API, such as 127.0.0.1:8080; without a host every address of IPv6 and IPv4"},
    {"admin-listen", SETTING_TEXT, AT(admin_listen), ":8081", 0, 0, false,
     "Address of /livez, /readyz, /startupz, /metrics and /version; keep it private"},
    {"base-path", SETTING_TEXT, AT(base_path), "/api/", 0, 0, false, "Path prefix of the API"},
    REDIS_SETTINGS(struct config_values, redis),
    {"redis-prefix", SETTING_TEXT, AT(redis_prefix), "channels:", 0, 0, false,
     "What all keys in Redis begin with"},
    {"channel-host", SETTING_TEXT, AT(channel_host), "max.ru", 0, 0, false, "Host of stored channel links"},
    {"web-host", SETTING_TEXT, AT(web_host), "web.max.ru", 0, 0, false,
     "Host of the web client, whose links find the same channels"},
    {"workers", SETTING_COUNT, AT(workers), "0", 0, 1024, false,
     "Threads that serve; 0: as many as the processors granted to this process"},
    {"request-timeout", SETTING_DURATION, AT(request_timeout), "2s", 10, TEN_MINUTES_MS, false,
     "Longest wait for Redis before a request is answered with 500"},
    {"cache-size", SETTING_SIZE, AT(cache_size), "64MiB", 0, (int64_t)1 << 40, false,
     "Memory for what was read from Redis, split among the workers; 0: every request reads Redis"},
    {"stale-limit", SETTING_DURATION, AT(stale_limit), "30s", 0, DAY_MS, false,
     "How long, after Redis was lost, answers may come from memory and the process stays ready"},
    {"stale-keys-limit", SETTING_TEXT, AT(stale_keys_limit), "same", 0, 0, false,
     "The same for API keys: how long a key may still work; a duration, or same as stale-limit"},
    {"header-timeout", SETTING_DURATION, AT(header_timeout), "10s", 100, DAY_MS, false,
     "Longest time from the first byte of a request (or the opening of a connection) to its last"},
    {"idle-timeout", SETTING_DURATION, AT(idle_timeout), "75s", 100, DAY_MS, false,
     "How long a connection may stay open between two requests"},
    {"write-timeout", SETTING_DURATION, AT(write_timeout), "30s", 100, DAY_MS, false,
     "Longest time for a client to take an answer"},
    {"max-connection-age", SETTING_DURATION, AT(max_connection_age), "5m", 0, DAY_MS, false,
     "Age, give or take a tenth, from which on the next answer ends a connection, so that clients spread; 0: "
     "never"},
    {"max-header-size", SETTING_SIZE, AT(max_header_size), "16KiB", 1024, 1 << 20, false,
     "Largest request line and header section"},
    {"max-body-size", SETTING_SIZE, AT(max_body_size), "64KiB", 0, 1 << 30, false,
     "Largest request content, which is read and dropped"},
    {"max-connections", SETTING_COUNT, AT(max_connections), "10000", 1, 1000000, false,
     "Open client connections; more are answered with 503"},
    {"drain-delay", SETTING_DURATION, AT(drain_delay), "5s", 0, DAY_MS, false,
     "After SIGTERM: how long to go on serving, not ready, before the listeners close"},
    {"drain-timeout", SETTING_DURATION, AT(drain_timeout), "20s", 0, DAY_MS, false,
     "After that: how long requests under way may take"},
    {"log-level", SETTING_TEXT, AT(log_level), "info", 0, 0, false, "error, warn, info or debug"},
    {"access-log", SETTING_TEXT, AT(access_log), "errors", 0, 0, false,
     "off, errors (status 400 and above) or all"},
    {"log-clients", SETTING_TEXT, AT(log_clients), "on", 0, 0, false,
     "on: lines of the access log tell the client's address; off: they do not"},
    {"core-dumps", SETTING_TEXT, AT(core_dumps), "off", 0, 0, false,
     "on: core dumps and debuggers may see this process' memory, API keys included; off: they may not"},
    {"cors-origins", SETTING_TEXT, AT(cors_origins), "", 0, 0, false,
     "Origins whose pages may call the API, separated by commas, or *"},
    {"trusted-proxies", SETTING_TEXT, AT(trusted_proxies), "", 0, 0, false,
     "Networks of the proxies in front, separated by commas, that are believed what they say of client "
     "addresses"},
};

static const struct settings SETTINGS = {TABLE, sizeof TABLE / sizeof TABLE[0], "CHANNELD_"};
_Static_assert(sizeof TABLE / sizeof TABLE[0] <= CONFIG_SETTINGS_MAX, "config.sources is too short");

static int bad(const struct config *c, struct buf *error, const char *name, const char *what)
{
    config_write_source(c, name, error);
    buf_printf(error, ": %s", what);
    return -EINVAL;
}

static int check_address(const struct config *c, struct buf *error, const char *name, const char *text,
                         struct addr *out)
{
    if (addr_parse(span_of(text), out) == 0 && addr_port(out) != 0)
        return 0;
    return bad(c, error, name, "an address with a port is expected, such as 127.0.0.1:8080 or [::]:8080");
}

static bool is_path_char(char c)
{
    return isalnum((unsigned char)c) || strchr("/-._~", c) != NULL;
}

/* A slash at either end may be left out. */
static int check_base_path(struct config *c, struct buf *error)
{
    const char *text = c->values.base_path;
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if (!is_path_char(text[i]) || (text[i] == '/' && i > 0 && text[i - 1] == '/'))
            return bad(c, error, "base-path",
                       "a path of letters, digits and -._~/ is expected, such as /api/");
    const char *first = text[0] != '/' ? "/" : "";
    const char *last = len > 0 && text[len - 1] != '/' ? "/" : "";
    int n = snprintf(c->base_path, sizeof c->base_path, "%s%s%s", first, text, last);
    if (n >= (int)sizeof c->base_path)
        return bad(c, error, "base-path", "is too long");
    char *effective = strdup(c->base_path);
    if (effective == NULL)
        return -ENOMEM;
    free(c->values.base_path);
    c->values.base_path = effective; /* what --check shows */
    return 0;
}

/* Hosts are compared without case; they are kept in lower case, which is the stored shape. */
static int check_host(const struct config *c, struct buf *error, const char *name, char *text,
                      struct span *out)
{
    for (char *p = text; *p != '\0'; p++) {
        *p = (char)tolower((unsigned char)*p);
        if (!isalnum((unsigned char)*p) && *p != '-' && *p != '.')
            return bad(c, error, name, "a host name is expected");
    }
    *out = span_of(text);
    return out->len > 0 ? 0 : bad(c, error, name, "a host name is expected");
}

static int check_log_level(struct config *c, struct buf *error)
{
    static const char *const names[] = {
        [LOG_ERROR] = "error", [LOG_WARN] = "warn", [LOG_INFO] = "info", [LOG_DEBUG] = "debug"};
    for (int i = LOG_ERROR; i <= LOG_DEBUG; i++) {
        if (strcmp(c->values.log_level, names[i]) != 0)
            continue;
        c->log_level = (enum log_level)i;
        return 0;
    }
    return bad(c, error, "log-level", "error, warn, info or debug is expected");
}

static int check_switch(const struct config *c, struct buf *error, const char *name, const char *text,
                        bool *out)
{
    *out = strcmp(text, "on") == 0;
    if (*out || strcmp(text, "off") == 0)
        return 0;
    return bad(c, error, name, "on or off is expected");
}

static int check_trusted_proxies(struct config *c, struct buf *error)
{
    struct span which = SPAN_ABSENT;
    const char *why = ip_networks_parse(span_of(c->values.trusted_proxies), &c->trusted_proxies, &which);
    if (why == NULL)
        return 0;
    int err = bad(c, error, "trusted-proxies", why);
    buf_append_str(error, ": \"");
    buf_append_span(error, which);
    buf_append_str(error, "\"; networks such as 10.0.0.0/8 are expected, separated by commas");
    return err;
}

static int check_redis(struct config *c, struct buf *error)
{
    struct buf why = BUF_INIT;
    int err = redis_endpoint_init(&c->redis, &c->values.redis, &why);
    const char *text = buf_c_str(&why);
    if (err == -EINVAL)
        err = text != NULL ? bad(c, error, "redis-url", text) : -ENOMEM;
    buf_fini(&why);
    if (err != 0)
        return err;
    bool has_cert = c->values.redis.cert_file[0] != '\0';
    if (has_cert != (c->values.redis.key_file[0] != '\0'))
        return bad(c, error, has_cert ? "redis-cert-file" : "redis-key-file",
                   "a client certificate needs its key, and a key its certificate");
    if (keyspace_init(&c->keyspace, span_of(c->values.redis_prefix)) != 0)
        return bad(c, error, "redis-prefix", "1 to 64 visible ASCII characters are expected");
    return 0;
}

static int check_stale_keys_limit(struct config *c, struct buf *error)
{
    struct span text = span_of(c->values.stale_keys_limit);
    c->stale_keys_limit = c->values.stale_limit;
    if (span_equal(text, SPAN("same")) || parse_duration_ms(text, &c->stale_keys_limit) == 0)
        return 0;
    return bad(c, error, "stale-keys-limit", "a duration such as 30s is expected, or same");
}

static int check_cors(struct config *c, struct buf *error)
{
    struct span which = SPAN_ABSENT;
    c->cors.origins = span_of(c->values.cors_origins);
    const char *why = cors_origins_error(c->cors.origins, &which);
    if (why == NULL)
        return 0;
    int err = bad(c, error, "cors-origins", why);
    buf_append_str(error, ": \"");
    buf_append_span(error, which);
    buf_append_str(error, "\"; origins such as https://example.org are expected, separated by commas, or *");
    return err;
}

static int check(struct config *c, struct buf *error)
{
    int err = check_address(c, error, "listen", c->values.listen, &c->listen);
    if (err == 0)
        err = check_address(c, error, "admin-listen", c->values.admin_listen, &c->admin_listen);
    if (err == 0)
        err = check_base_path(c, error);
    if (err == 0)
        err = check_redis(c, error);
    if (err == 0)
        err = check_host(c, error, "channel-host", c->values.channel_host, &c->hosts.channel_host);
    if (err == 0)
        err = check_host(c, error, "web-host", c->values.web_host, &c->hosts.web_host);
    if (err == 0)
        err = check_log_level(c, error);
    if (err == 0 && access_log_parse_mode(span_of(c->values.access_log), &c->access_log) != 0)
        err = bad(c, error, "access-log", "off, errors or all is expected");
    if (err == 0)
        err = check_stale_keys_limit(c, error);
    if (err == 0)
        err = check_switch(c, error, "core-dumps", c->values.core_dumps, &c->core_dumps);
    if (err == 0)
        err = check_switch(c, error, "log-clients", c->values.log_clients, &c->log_clients);
    if (err == 0)
        err = check_trusted_proxies(c, error);
    if (err == 0)
        err = check_cors(c, error);
    c->workers = c->values.workers > 0 ? (int)c->values.workers : cpus_available();
    return err;
}

/* Whoever asks for help gets it, whatever else is wrong. */
static int asked_to_tell(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0)
            return CONFIG_HELP;
        if (strcmp(argv[i], "--version") == 0)
            return CONFIG_VERSION;
    }
    return CONFIG_RUN;
}

/* In the order of their bits. */
static const char *const SWITCHES[] = {"--check", "--probe", NULL};
enum { SWITCH_CHECK = 1, SWITCH_PROBE = 2 };

int config_read(struct config *c, int argc, char **argv, struct buf *error)
{
    int told = asked_to_tell(argc, argv);
    if (told != CONFIG_RUN)
        return told;
    char **words = calloc((size_t)argc + 1, sizeof *words);
    if (words == NULL)
        return -ENOMEM;
    struct settings_args args = {
        .argc = argc, .argv = argv, .switches = SWITCHES, .rest = words, .sources = c->sources};
    int count = settings_read(&SETTINGS, &c->values, &args, error);
    if (count > 0)
        buf_printf(error, "%s: unexpected (--help lists what is)", words[0]);
    free(words);
    if (count != 0)
        return count > 0 ? -EINVAL : count;
    int err = check(c, error);
    if (err != 0)
        return err;
    if ((args.switched & SWITCH_CHECK) != 0)
        return CONFIG_CHECK;
    return (args.switched & SWITCH_PROBE) != 0 ? CONFIG_PROBE : CONFIG_RUN;
}

void config_fini(struct config *c)
{
    redis_endpoint_fini(&c->redis);
    settings_fini(&SETTINGS, &c->values);
}

void config_write_help(struct buf *out)
{
    buf_append_str(
        out,
        "channeld: a read-only JSON API over public channels kept in Redis\n\n"
        "usage: channeld [--SETTING VALUE]...\n\n"
        "  --check    check the settings, print what is in force, and exit\n"
        "  --probe    ask the channeld that runs with these settings whether it is ready: exit code 0 or 1\n"
        "  --version  print the version and exit\n"
        "  --help     print this and exit\n\n"
        "Exit codes: 0 drained, or done; 1 could not run, or (--probe) is not ready; 2 wrong settings;\n"
        "128 and its number after a second signal.\n\n"
        "Each setting is a flag or an environment variable; the flag wins. Defaults are in brackets.\n\n");
    settings_write_help(&SETTINGS, out);
}

void config_write_source(const struct config *c, const char *name, struct buf *out)
{
    settings_write_source(out, &SETTINGS, c->sources, name);
}

/* Variables of the same prefix that belong to scripts/setup, the tests and benchmarks, and deploy's compose
 * file. */
static bool is_of_others(struct span name)
{
    static const char *const names[] = {"CHANNELD_DEPS_DIR", "CHANNELD_IMAGE", "CHANNELD_PUBLISH"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (span_equal(name, span_of(names[i])))
            return true;
    return span_starts_with(name, SPAN("CHANNELD_BENCH_")) || span_starts_with(name, SPAN("CHANNELD_TEST_"));
}

struct span config_next_unknown(size_t *at)
{
    struct span name;
    do
        name = settings_next_unknown(&SETTINGS, SPAN("CHANNELD_"), at);
    while (name.data != NULL && is_of_others(name));
    return name;
}

void config_write_unknown(struct span variable, struct buf *out)
{
    settings_write_unknown(out, &SETTINGS, variable);
}

void config_write_values(const struct config *c, struct buf *out)
{
    settings_write_values(&SETTINGS, &c->values, out);
}
