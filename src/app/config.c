/* Reading and checking the settings; see config.h. */
#include "app/config.h"

#include "api/cors.h"
#include "base/file.h"
#include "base/process.h"
#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* clang-format off */
static const struct setting TABLE[] = {
#define ROW(kind, member, name, fallback, min, max, help) \
    {name, SETTING_##kind, offsetof(struct config_values, member), fallback, min, max, false, help, NULL},
#define CHOICE_ROW(member, name, fallback, choices, help) \
    {name, SETTING_CHOICE, offsetof(struct config_values, member), fallback, 0, 0, false, help, choices},
#define REDIS_ROWS(member) REDIS_SETTINGS(struct config_values, member),
#define LOG_ROWS(member) CONFIG_LOG(member),
    CONFIG_SETTINGS(ROW, CHOICE_ROW, REDIS_ROWS, LOG_ROWS)
#undef ROW
#undef CHOICE_ROW
#undef REDIS_ROWS
#undef LOG_ROWS
};
/* clang-format on */

static const struct settings SETTINGS = {TABLE, sizeof TABLE / sizeof TABLE[0], "CHANNELD_"};
_Static_assert(sizeof TABLE / sizeof TABLE[0] <= CONFIG_SETTINGS_MAX, "config.sources is too short");

/* The rows of the values from one offset to another. */
static struct settings config_rows(size_t from, size_t to, size_t *first)
{
    struct settings rows = {TABLE, 0, SETTINGS.env_prefix};
    while (rows.table->offset < from)
        rows.table++;
    *first = (size_t)(rows.table - TABLE);
    while (*first + rows.count < SETTINGS.count && rows.table[rows.count].offset < to)
        rows.count++;
    return rows;
}

static struct settings config_redis_rows(size_t *first)
{
    size_t from = offsetof(struct config_values, redis);
    return config_rows(from, from + sizeof(struct redis_options), first);
}

struct settings config_log_rows(size_t *first)
{
    size_t from = offsetof(struct config_values, log);
    return config_rows(from, from + sizeof(struct config_log), first);
}

static int config_bad(const struct config *c, struct buf *error, const char *name, const char *what)
{
    config_write_source(c, name, error);
    buf_printf(error, ": %s", what);
    return -EINVAL;
}

static int config_check_address(const struct config *c, struct buf *error, const char *name, const char *text,
                                struct addr *out)
{
    if (addr_parse(span_of(text), out) == 0 && addr_port(out) != 0)
        return 0;
    return config_bad(c, error, name,
                      "an address with a port is expected, such as 127.0.0.1:8080 or [::]:8080");
}

static int config_check_admin_address(struct config *c, struct buf *error)
{
    return config_check_address(c, error, "admin-listen", c->values.admin_listen, &c->admin_listen);
}

static int config_check_addresses(struct config *c, struct buf *error)
{
    int err = config_check_address(c, error, "listen", c->values.listen, &c->listen);
    return err != 0 ? err : config_check_admin_address(c, error);
}

static bool config_is_path_char(char c)
{
    return ascii_is_alnum(c) || strchr("/-._~", c) != NULL;
}

/* The slash at either end is optional. */
static int config_check_base_path(struct config *c, struct buf *error)
{
    const char *text = c->values.base_path;
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if (!config_is_path_char(text[i]) || (text[i] == '/' && i > 0 && text[i - 1] == '/'))
            return config_bad(c, error, "base-path",
                              "a path of letters, digits and -._~/ is expected, such as /api/");
    const char *first = text[0] != '/' ? "/" : "";
    const char *last = len > 0 && text[len - 1] != '/' ? "/" : "";
    int n = snprintf(c->base_path, sizeof c->base_path, "%s%s%s", first, text, last);
    if (n >= (int)sizeof c->base_path)
        return config_bad(c, error, "base-path", "is too long");
    char *effective = strdup(c->base_path);
    if (effective == NULL)
        return -ENOMEM;
    free(c->values.base_path);
    c->values.base_path = effective; /* --check shows it */
    return 0;
}

/* Hosts are compared without case; they are kept in lower case, as in stored links. */
static int config_check_host(const struct config *c, struct buf *error, const char *name, char *text,
                             struct span *out)
{
    for (char *p = text; *p != '\0'; p++) {
        *p = (char)tolower((unsigned char)*p);
        if (!ascii_is_alnum(*p) && *p != '-' && *p != '.')
            return config_bad(c, error, name, "a host name is expected");
    }
    *out = span_of(text);
    return out->len > 0 && out->len <= LINK_HOST_MAX ? 0
                                                     : config_bad(c, error, name, "a host name is expected");
}

static int config_check_hosts(struct config *c, struct buf *error)
{
    int err = config_check_host(c, error, "channel-host", c->values.channel_host, &c->hosts.channel_host);
    return err != 0 ? err : config_check_host(c, error, "web-host", c->values.web_host, &c->hosts.web_host);
}

/* `why`: the error in one element of a list, or NULL. */
static int config_check_list(const struct config *c, struct buf *error, const char *name, const char *why,
                             struct span element, const char *expected)
{
    if (why == NULL)
        return 0;
    (void)config_bad(c, error, name, why);
    buf_append_str(error, ": \"");
    buf_append_span(error, element);
    buf_printf(error, "\"; %s", expected);
    return -EINVAL;
}

static int config_check_trusted_proxies(struct config *c, struct buf *error)
{
    struct span which = SPAN_ABSENT;
    const char *why = ip_networks_parse(span_of(c->values.trusted_proxies), &c->trusted_proxies, &which);
    return config_check_list(c, error, "trusted-proxies", why, which,
                             "networks such as 10.0.0.0/8 are expected, separated by commas");
}

/* Adds the source of the setting to the reason, which is freed. */
static int config_explain(const struct config *c, int err, const char *setting, struct buf *why,
                          struct buf *error)
{
    const char *text = buf_c_str(why);
    if (err == -EINVAL)
        err = text != NULL ? config_bad(c, error, setting, text) : -ENOMEM;
    buf_fini(why);
    return err;
}

/* The caller calls redis_endpoint_fini in every case. */
static int config_make_endpoint(const struct config *c, const struct redis_options *options,
                                struct redis_endpoint *out, struct buf *error)
{
    struct buf why = BUF_INIT;
    int err = redis_endpoint_init(out, options, &why);
    err = config_explain(c, err, "redis-url", &why, error);
    if (err == 0 && redis_endpoint_set_prefix(out, span_of(c->values.redis_prefix)) != 0)
        err = config_bad(c, error, "redis-prefix", REDIS_PREFIX_UNTAGGED);
    return err;
}

static int config_check_redis(struct config *c, struct buf *error)
{
    struct redis_endpoint endpoint = {0};
    int err = config_make_endpoint(c, &c->values.redis, &endpoint, error);
    redis_endpoint_fini(&endpoint);
    if (err != 0)
        return err;
    bool has_cert = c->values.redis.cert_file[0] != '\0';
    if (has_cert != (c->values.redis.key_file[0] != '\0'))
        return config_bad(c, error, has_cert ? "redis-cert-file" : "redis-key-file",
                          "a client certificate needs its key, and a key its certificate");
    if (keyspace_init(&c->keyspace, span_of(c->values.redis_prefix)) != 0)
        return config_bad(c, error, "redis-prefix", "1 to 64 visible ASCII characters are expected");
    return 0;
}

static int config_check_stale_keys_limit(struct config *c, struct buf *error)
{
    struct span text = span_of(c->values.stale_keys_limit);
    c->stale_keys_limit = c->values.stale_limit;
    if (span_equal(text, SPAN("same")) || parse_duration_ms(text, &c->stale_keys_limit) == 0)
        return 0;
    return config_bad(c, error, "stale-keys-limit", "a duration such as 30s is expected, or same");
}

static int config_check_cors(struct config *c, struct buf *error)
{
    struct span which = SPAN_ABSENT;
    const char *why = cors_origins_error(span_of(c->values.cors_origins), &which);
    return config_check_list(c, error, "cors-origins", why, which,
                             "origins such as https://example.org are expected, separated by commas, or *");
}

static int config_check_key_rate(struct config *c, struct buf *error)
{
    const char *why = rate_policy_parse(span_of(c->values.key_rate), &c->key_rate);
    return why == NULL ? 0 : config_bad(c, error, "key-rate", why);
}

static int config_check_access_log(const struct config *c, const struct config_values *v, int *share,
                                   struct buf *error)
{
    if (access_log_parse(span_of(v->log.access), share) == 0)
        return 0;
    return config_bad(c, error, "access-log", "off, errors, all or a share from 0.01% to 100% is expected");
}

static int config_check_log(struct config *c, struct buf *error)
{
    int share = 0;
    return config_check_access_log(c, &c->values, &share, error);
}

static int config_check(struct config *c, struct buf *error)
{
    static int (*const checks[])(struct config * c, struct buf * error) = {
        config_check_addresses,       config_check_base_path,        config_check_redis,
        config_check_hosts,           config_check_stale_keys_limit, config_check_cors,
        config_check_trusted_proxies, config_check_key_rate,         config_check_log};
    int err = 0;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && err == 0; i++)
        err = checks[i](c, error);
    c->workers = c->values.workers > 0 ? (int)c->values.workers : process_cpus_available();
    return err;
}

static void config_add_file(struct config *c, const char *setting, const char *path)
{
    if (path == NULL || path[0] == '\0')
        return;
    assert(c->redis_file_count < FILE_WATCH_MAX);
    c->redis_files[c->redis_file_count++] = (struct config_file){setting, path};
}

enum { TLS_FILES = 3 };

/* The files that OpenSSL reads. */
static void config_tls_files(const struct redis_options *redis, struct config_file out[TLS_FILES])
{
    out[0] = (struct config_file){"redis-ca-file", redis->ca_file};
    out[1] = (struct config_file){"redis-cert-file", redis->cert_file};
    out[2] = (struct config_file){"redis-key-file", redis->key_file};
}

static void config_list_files(struct config *c)
{
    const struct redis_options *redis = &c->values.redis;
    size_t first = 0;
    const struct settings rows = config_redis_rows(&first);
    for (size_t i = 0; i < rows.count; i++)
        config_add_file(c, rows.table[i].name, c->files[first + i]);
    struct config_file files[TLS_FILES];
    config_tls_files(redis, files);
    for (int i = 0; i < TLS_FILES; i++)
        config_add_file(c, files[i].setting, files[i].path);
}

/* --help and --version win over all errors. */
static int config_find_help_or_version(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return CONFIG_HELP;
        if (strcmp(argv[i], "--version") == 0)
            return CONFIG_VERSION;
    }
    return CONFIG_RUN;
}

/* In the order of their bits; the last two are found before the others. */
static const struct settings_switch SWITCHES[] = {
    {"--check", "run all checks of a start, print the settings in force, and exit"},
    {"--probe", "check that the channeld running with these settings is ready: exit code 0 or 1"},
    {"--version", "print the version and exit"},
    {"--help", "print this and exit; also -h"},
    {NULL, NULL}};
enum { SWITCH_CHECK = 1, SWITCH_PROBE = 2 };

static const struct usage_exit EXITS[] = {{"0", "drained, or done"},
                                          {"1", "could not run, or (--probe) not ready"},
                                          {"2", "wrong settings"},
                                          {"128 plus its number", "after a second signal"}};

const struct usage config_usage = {
    .program = "channeld",
    .summary = "a read-only JSON API over public channels kept in Redis",
    .synopsis = "[--SETTING VALUE]...",
    .switches = SWITCHES,
    .exits = EXITS,
    .exit_count = sizeof EXITS / sizeof EXITS[0],
    .settings = &SETTINGS,
};

/* The files may differ from those of the server that is probed. */
static int config_check_probe(struct config *c, struct buf *error)
{
    int err = config_check_admin_address(c, error);
    return err != 0 ? err : CONFIG_PROBE;
}

int config_read(struct config *c, int argc, char **argv, struct buf *error)
{
    int wanted = config_find_help_or_version(argc, argv);
    if (wanted != CONFIG_RUN)
        return wanted;
    char **words = calloc((size_t)argc + 1, sizeof *words);
    if (words == NULL)
        return -ENOMEM;
    struct settings_args args = {.argc = argc,
                                 .argv = argv,
                                 .switches = SWITCHES,
                                 .rest = words,
                                 .sources = c->sources,
                                 .files = c->files};
    int count = settings_read(&SETTINGS, &c->values, &args, error);
    if (count > 0)
        buf_append_str(error, "unexpected argument (see --help)"); /* it may be a URL with a password */
    free(words);
    if (count != 0)
        return count > 0 ? -EINVAL : count;
    if ((args.switched & (SWITCH_CHECK | SWITCH_PROBE)) == SWITCH_PROBE)
        return config_check_probe(c, error);
    int err = settings_read_files(&SETTINGS, &c->values, &args, error);
    if (err == 0)
        err = config_check(c, error);
    if (err != 0)
        return err;
    config_list_files(c);
    return (args.switched & SWITCH_CHECK) != 0 ? CONFIG_CHECK : CONFIG_RUN;
}

/* OpenSSL would wait for a writer of the pipe. */
static int config_check_again(const struct config *c, const struct redis_options *redis, struct buf *error)
{
    struct config_file files[TLS_FILES];
    config_tls_files(redis, files);
    for (int i = 0; i < TLS_FILES; i++)
        if (file_is_stream(files[i].path))
            return config_bad(c, error, files[i].setting, "a pipe can be read only at the start");
    return 0;
}

int config_read_redis(const struct config *c, struct config_values *last, uint64_t number,
                      struct redis_config **out, struct buf *error)
{
    struct config_values now = {0};
    struct redis_endpoint endpoint = {0};
    struct buf why = BUF_INIT;
    const char *setting = NULL;
    size_t first = 0;
    const struct settings rows = config_redis_rows(&first);
    const struct config_values *before = number == 1 ? &c->values : last;
    int err = settings_read_again(&rows, before, c->sources + first, c->files + first, &now, error);
    if (err == 0 && number > 1)
        err = config_check_again(c, &now.redis, error);
    if (err == 0)
        err = config_make_endpoint(c, &now.redis, &endpoint, error);
    if (err == 0) {
        err = redis_config_new(&endpoint, &now.redis, number, out, &why, &setting);
        err = config_explain(c, err, setting, &why, error);
    }
    redis_endpoint_fini(&endpoint);
    config_fini_values(err == 0 ? last : &now);
    if (err == 0)
        *last = now;
    return err;
}

int config_read_log(const struct config *c, const struct config_values *last, struct config_values *now,
                    int *access_log, struct buf *error)
{
    size_t first = 0;
    const struct settings rows = config_log_rows(&first);
    int err = settings_read_again(&rows, last, c->sources + first, c->files + first, now, error);
    return err != 0 ? err : config_check_access_log(c, now, access_log, error);
}

void config_fini_values(struct config_values *v)
{
    settings_fini(&SETTINGS, v);
}

void config_fini(struct config *c)
{
    config_fini_values(&c->values);
}

void config_write_source(const struct config *c, const char *name, struct buf *out)
{
    settings_write_source(out, &SETTINGS, c->sources, name);
}

/* Variables of the same prefix that channelctl, scripts/setup and the compose file use. */
static bool config_is_used_elsewhere(struct span name)
{
    static const char *const names[] = {"CHANNELD_DEPS_DIR", "CHANNELD_IMAGE", "CHANNELD_PUBLISH",
                                        "CHANNELD_WAIT"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (span_equal(name, span_of(names[i])))
            return true;
    return false;
}

bool config_next_unknown(size_t *at, struct buf *warning)
{
    struct span name;
    do
        name = settings_next_unknown(&SETTINGS, SPAN("CHANNELD_"), at, warning);
    while (name.data != NULL && config_is_used_elsewhere(name));
    return name.data != NULL;
}

void config_write_values(const struct config *c, struct buf *out)
{
    settings_write_values(&SETTINGS, &c->values, out);
}
