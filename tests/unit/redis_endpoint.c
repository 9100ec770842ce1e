/* Redis addresses: every form, its defaults, its errors, and that no secret is ever described. */
#include "redis/endpoint.h"
#include "redis/resp.h"

#include <errno.h>
#include <stdlib.h>

#include "support/text.h"
#include "unit/check.h"

/* The reason of the last refusal. */
static char reason[256];

static int init_options(struct redis_endpoint *t, const struct redis_options *options)
{
    struct buf why = BUF_INIT;
    int err = redis_endpoint_init(t, options, &why);
    assert_true((err == -EINVAL) == (why.len > 0));
    (void)snprintf(reason, sizeof reason, "%s", buf_c_str(&why));
    buf_fini(&why);
    return err;
}

static int init(struct redis_endpoint *t, const char *url, const char *password)
{
    char *own = text_printf("%s", url); /* on the heap, so that a sanitizer sees reads beyond it */
    struct redis_options options = {.url = own,
                                    .password = (char *)(uintptr_t)password,
                                    .ca_file = (char[]){""},
                                    .cert_file = (char[]){""},
                                    .key_file = (char[]){""},
                                    .sentinel_user = (char[]){""},
                                    .sentinel_password = (char[]){""}};
    int err = init_options(t, &options);
    free(own);
    return err;
}

struct pending {
    enum redis_transport transport;
    const char *host;
    int port;
    const char *path;
    int db;
    const char *user;
    const char *password;
};

static void assert_text(const char *url, const char *actual, const char *pending)
{
    if (actual == NULL || pending == NULL ? actual != pending : strcmp(actual, pending) != 0)
        fail_msg("%s: %s, not %s", url, actual == NULL ? "(none)" : actual,
                 pending == NULL ? "(none)" : pending);
}

static void assert_target(const char *url, const struct pending *e)
{
    struct redis_endpoint t;
    int err = init(&t, url, "");
    if (err != 0)
        fail_msg("%s: %s", url, reason);
    assert_int_equal(t.transport, e->transport);
    assert_text(url, t.host, e->host);
    assert_text(url, t.path, e->path);
    assert_text(url, t.user, e->user == NULL ? "default" : e->user);
    assert_text(url, t.password, e->password);
    assert_int_equal(t.db, e->db);
    if (e->host != NULL)
        assert_int_equal(t.port, e->port);
    redis_endpoint_fini(&t);
    assert_null(t.user);
}

#define ASSERT_TARGET(url, ...) assert_target((url), &(struct pending){__VA_ARGS__})

TEST_CASE(url_has_defaults_for_host_port_and_database)
{
    ASSERT_TARGET("redis://127.0.0.1:6379/0", .host = "127.0.0.1", .port = 6379);
    ASSERT_TARGET("redis://db", .host = "db", .port = 6379);
    ASSERT_TARGET("redis://db/", .host = "db", .port = 6379);
    ASSERT_TARGET("redis://db:7000", .host = "db", .port = 7000);
    ASSERT_TARGET("redis://db/3", .host = "db", .port = 6379, .db = 3);
    ASSERT_TARGET("redis://db.example.org:7000/15", .host = "db.example.org", .port = 7000, .db = 15);
}

TEST_CASE(url_scheme_chooses_the_transport)
{
    ASSERT_TARGET("rediss://db:6380/1", .transport = REDIS_TRANSPORT_TLS, .host = "db", .port = 6380,
                  .db = 1);
    ASSERT_TARGET("unix:///run/redis.sock", .transport = REDIS_TRANSPORT_UNIX, .path = "/run/redis.sock");
}

TEST_CASE(url_ipv6_address_has_brackets)
{
    ASSERT_TARGET("redis://[::1]", .host = "::1", .port = 6379);
    ASSERT_TARGET("redis://[::1]:7000/2", .host = "::1", .port = 7000, .db = 2);
    ASSERT_TARGET("rediss://u:p@[2001:db8::7]:7000", .transport = REDIS_TRANSPORT_TLS, .host = "2001:db8::7",
                  .port = 7000, .user = "u", .password = "p");
}

TEST_CASE(url_password_may_be_empty_or_without_user)
{
    ASSERT_TARGET("redis://alice:s3cret@db", .host = "db", .port = 6379, .user = "alice",
                  .password = "s3cret");
    ASSERT_TARGET("redis://:s3cret@db", .host = "db", .port = 6379, .password = "s3cret");
    ASSERT_TARGET("redis://alice:@db", .host = "db", .port = 6379, .user = "alice", .password = "");
    ASSERT_TARGET("redis://@db", .host = "db", .port = 6379);
}

TEST_CASE(url_user_needs_a_password)
{
    struct redis_endpoint t;
    assert_int_equal(init(&t, "redis://alice@db", ""), -EINVAL);
    assert_string_equal(reason, "a user needs a password (an empty one is written user:@host)");
    redis_endpoint_fini(&t);
}

TEST_CASE(url_credentials_are_decoded_once)
{
    ASSERT_TARGET("redis://al%40ice:p%3A%2F%40%25@db", .host = "db", .port = 6379, .user = "al@ice",
                  .password = "p:/@%");
    ASSERT_TARGET("redis://:%2541@db", .host = "db", .port = 6379, .password = "%41");
    ASSERT_TARGET("redis://:a+b%zz@db", .host = "db", .port = 6379, .password = "a+b%zz");
    ASSERT_TARGET("redis://:%D0%BF@db", .host = "db", .port = 6379, .password = "п");
}

TEST_CASE(url_password_ends_at_the_last_at_sign)
{
    ASSERT_TARGET("redis://alice:p@ss@db:1", .host = "db", .port = 1, .user = "alice", .password = "p@ss");
    ASSERT_TARGET("redis://alice:p:s:s@db", .host = "db", .port = 6379, .user = "alice", .password = "p:s:s");
}

TEST_CASE(url_of_a_local_socket)
{
    ASSERT_TARGET("unix:///run/redis.sock?db=3", .transport = REDIS_TRANSPORT_UNIX, .path = "/run/redis.sock",
                  .db = 3);
    ASSERT_TARGET("unix:///a%20b%3Fc", .transport = REDIS_TRANSPORT_UNIX, .path = "/a b?c");
    ASSERT_TARGET("unix:///s?&db=2", .transport = REDIS_TRANSPORT_UNIX, .path = "/s", .db = 2);
    ASSERT_TARGET("unix:///s?", .transport = REDIS_TRANSPORT_UNIX, .path = "/s");
    ASSERT_TARGET("unix:///a@b:c", .transport = REDIS_TRANSPORT_UNIX, .path = "/a@b:c");
    ASSERT_TARGET("unix://alice:s3cret@/run/r.sock?db=1", .transport = REDIS_TRANSPORT_UNIX,
                  .path = "/run/r.sock", .db = 1, .user = "alice", .password = "s3cret");
    ASSERT_TARGET("unix://:s3cret@/s", .transport = REDIS_TRANSPORT_UNIX, .path = "/s", .password = "s3cret");
}

TEST_CASE(url_port_and_database_are_bounded)
{
    struct redis_endpoint t;
    static const struct {
        const char *url;
        int err;
    } cases[] = {
        {"redis://db:0", -EINVAL},     {"redis://db:1", 0},         {"redis://db:65535", 0},
        {"redis://db:65536", -EINVAL}, {"redis://db:-1", -EINVAL},  {"redis://db:06379", -EINVAL},
        {"redis://db/0", 0},           {"redis://db/1048576", 0},   {"redis://db/1048577", -EINVAL},
        {"redis://db/-1", -EINVAL},    {"redis://db/00", -EINVAL},  {"unix:///s?db=-1", -EINVAL},
        {"unix:///s?db=0", 0},         {"unix:///s?db=x", -EINVAL},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        if (init(&t, cases[i].url, "") != cases[i].err)
            fail_msg("%s is judged wrong", cases[i].url);
        redis_endpoint_fini(&t);
    }
}

TEST_CASE(url_socket_path_is_bounded)
{
    enum { LONGEST = 107 }; /* 108 bytes with the NUL, unix(7) */
    struct redis_endpoint t;
    char *url = text_printf("unix:///");
    while (strlen(url) < strlen("unix://") + LONGEST)
        url = text_append(url, "s");
    assert_int_equal(init(&t, url, ""), 0);
    assert_int_equal(strlen(t.path), LONGEST);
    redis_endpoint_fini(&t);
    url = text_append(url, "s");
    assert_int_equal(init(&t, url, ""), -EINVAL);
    redis_endpoint_fini(&t);
    free(url);
}

static void assert_refused(const char *const *urls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct redis_endpoint t;
        if (init(&t, urls[i], "") != -EINVAL)
            fail_msg("%s was accepted", urls[i]);
        assert_true(strlen(reason) > 0);
        assert_null(strstr(reason, "cret"));
        redis_endpoint_fini(&t);
    }
}

TEST_CASE(url_errors_have_a_reason)
{
    static const char *const urls[] = {
        "",
        "127.0.0.1:6379",
        "db",
        "http://db",
        "REDIS://db",
        "redis:db",
        "redis:/db",
        "redis://",
        "redis:///0",
        "redis://:6379",
        "redis://user:s3cret@",
        "redis://user:s3cret@:6379",
        "redis://user:s3/cret@db", /* an unencoded slash */
        "redis://db:",
        "redis://db:port",
        "redis://db:6379:6379",
        "redis://db/x",
        "redis://db/0/1",
        "redis://db/0?db=1",
        "redis://db?db=1",
        "redis://db#1",
        "redis://[::1",
        "redis://[]",
        "redis://[::1]6379",
        "redis://[::1]x:6379",
        "redis://::1:6379",
        "unix://",
        "unix://run/redis.sock",
        "unix:/run/redis.sock",
        "unix://user:s3cret@",
        "redis://:%00s3cret@db",
        "redis://us%00er:s3cret@db",
        "unix:///run%00/s",
    };
    assert_refused(urls, TEST_COUNT(urls));
}

TEST_CASE(sentinel_url_errors_have_a_reason)
{
    static const char *const urls[] = {
        "redis+sentinel://",
        "redis+sentinel://a",
        "redis+sentinel://a/",
        "redis+sentinel://a//0",
        "redis+sentinel://a?role=replica",
        "redis+sentinel:///mymaster",
        "redis+sentinel://,/mymaster",
        "redis+sentinel://a,/mymaster",
        "redis+sentinel://,a/mymaster",
        "redis+sentinel://a:0/mymaster",
        "redis+sentinel://a:1:2/mymaster",
        "redis+sentinel://a/my%20master",
        "redis+sentinel://a/my%00master",
        "redis+sentinel://a/mymaster/x",
        "redis+sentinel://a/mymaster/0/1",
        "redis+sentinel://a/mymaster?role=s3cret",
        "redis+sentinel://a/mymaster?role=",
        "redis+sentinel://alice@a/mymaster",
        "redis+sentinel://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17/m",
    };
    assert_refused(urls, TEST_COUNT(urls));
}

/* What the sentinels of a target are, in one text: "host:port host:port master role". */
static void assert_sentinels(const char *url, const char *pending, int db)
{
    struct redis_endpoint t;
    struct buf out = BUF_INIT;
    if (init(&t, url, "") != 0)
        fail_msg("%s: %s", url, reason);
    for (int i = 0; i < t.sentinels.count; i++)
        buf_printf(&out, "%s:%d ", t.sentinels.at[i].host, t.sentinels.at[i].port);
    buf_printf(&out, "%s %s", t.sentinels.master, t.sentinels.replica ? "replica" : "master");
    assert_buf(&out, pending);
    assert_null(t.host);
    assert_int_equal(t.db, db);
    buf_fini(&out);
    redis_endpoint_fini(&t);
}

TEST_CASE(sentinel_url_lists_hosts_and_a_master)
{
    assert_sentinels("redis+sentinel://a/mymaster", "a:26379 mymaster master", 0);
    assert_sentinels("redis+sentinel://a,b:1,[::1],[::2]:2/m/3", "a:26379 b:1 ::1:26379 ::2:2 m master", 3);
    assert_sentinels("redis+sentinel://a/m?role=replica", "a:26379 m replica", 0);
    assert_sentinels("redis+sentinel://a/m/4?&role=replica", "a:26379 m replica", 4);
    assert_sentinels("redis+sentinel://a/m/?role=master", "a:26379 m master", 0);
    assert_sentinels("redis+sentinel://a/my%2Dmaster", "a:26379 my-master master", 0);
    assert_sentinels("rediss+sentinel://u:p@a,b/m", "a:26379 b:26379 m master", 0);
}

TEST_CASE(url_unknown_option_is_named)
{
    static const struct {
        const char *url;
        const char *reason;
    } cases[] = {
        {"redis+sentinel://a/m?rol=replica", "unknown option rol"},
        {"redis+sentinel://a/m/0?role=replica&x=1", "unknown option x"},
        {"redis+sentinel://a/m?Role=replica", "unknown option Role"},
        {"redis://db/0?db=1", "unknown option db"},
        {"redis://db?db=1", "unknown option db"},
        {"redis://db:6379?tls", "unknown option tls"},
        {"rediss://db/?timeout=1", "unknown option timeout"},
        {"unix:///run/s?base=1", "unknown option base"},
        {"unix:///run/s?db=1&&role=replica", "unknown option role"},
        {"redis://db/0?a%20b", "has an unknown option behind its question mark"},
        {"redis://db/s?cret@host", "has an unknown option behind its question mark"},
        {"redis://db/0?a=b&c=cret@host", "has an unknown option behind its question mark"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct redis_endpoint t;
        if (init(&t, cases[i].url, "") != -EINVAL || strcmp(reason, cases[i].reason) != 0)
            fail_msg("%s: \"%s\"", cases[i].url, reason);
        redis_endpoint_fini(&t);
    }
}

TEST_CASE(sentinel_credentials_are_separate)
{
    static char url[] = "rediss+sentinel://alice:s3cret@a,b:7/m/3";
    struct redis_options options = {.url = url,
                                    .password = (char[]){"other"},
                                    .sentinel_user = (char[]){""},
                                    .sentinel_password = (char[]){"watchword"}};
    struct redis_endpoint t;
    assert_int_equal(init_options(&t, &options), 0);
    struct redis_endpoint sentinel = redis_endpoint_sentinel(&t, 1);
    assert_string_equal(sentinel.host, "b");
    assert_int_equal(sentinel.port, 7);
    assert_string_equal(sentinel.user, "default");
    assert_string_equal(sentinel.password, "watchword");
    assert_int_equal(sentinel.db, 0);
    assert_int_equal(sentinel.transport, REDIS_TRANSPORT_TLS);
    struct redis_endpoint there = redis_endpoint_at(&t, (char[]){"10.0.0.1"}, 6380);
    assert_string_equal(there.host, "10.0.0.1");
    assert_int_equal(there.port, 6380);
    assert_string_equal(there.user, "alice");
    assert_string_equal(there.password, "s3cret");
    assert_int_equal(there.db, 3);
    redis_endpoint_fini(&t);
    options.sentinel_user = (char[]){"bob"};
    assert_int_equal(init_options(&t, &options), 0);
    assert_string_equal(redis_endpoint_sentinel(&t, 0).user, "bob");
    redis_endpoint_fini(&t);
    options.sentinel_password = (char[]){""};
    assert_int_equal(init_options(&t, &options), -EINVAL);
    redis_endpoint_fini(&t);
}

TEST_CASE(redact_hides_a_quoted_password)
{
    struct redis_endpoint t;
    assert_int_equal(init(&t, "redis+sentinel://a/m", "hush"), 0);
    t.sentinels.password = strdup("a-password-that-is-cut-short-when-quoted");
    assert_non_null(t.sentinels.password);
    static const char fine[] = "WRONGPASS invalid username-password pair";
    assert_ptr_equal(redis_endpoint_redact(&t, fine), fine);
    assert_null(strstr(redis_endpoint_redact(&t, "ERR 'HELLO' 'hush'"), "hush"));
    assert_null(strstr(redis_endpoint_redact(&t, "ERR 'a-password-that-is-cut'"), "a-pass"));
    redis_endpoint_fini(&t);
    assert_int_equal(init(&t, "redis://a", ""), 0);
    assert_ptr_equal(redis_endpoint_redact(&t, fine), fine);
    redis_endpoint_fini(&t);
}

/* Many a password is a word of Redis' own texts. */
TEST_CASE(redact_leaves_constant_texts)
{
    static const char *const texts[] = {
        "WRONGPASS invalid username-password pair or user is disabled.",
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH option",
        "DENIED Redis is running in protected mode because no password is set for the default user.",
        "ERR max number of clients reached",
        "LOADING Redis is loading the dataset in memory",
        "Connection refused",
        "no connection in time",
        "the name was not resolved in time"};
    static const char *const passwords[] = {"password", "pass", "user", "Redis",
                                            "clients",  "time", "e",    "Connection"};
    for (size_t i = 0; i < TEST_COUNT(passwords); i++) {
        struct redis_endpoint t;
        assert_int_equal(init(&t, "redis://a", passwords[i]), 0);
        for (size_t k = 0; k < TEST_COUNT(texts); k++)
            assert_ptr_equal(redis_endpoint_redact(&t, texts[k]), texts[k]);
        const char *told = redis_endpoint_redact(
            &t, "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `password`, "
                "`pass`, `user`, `Redis`, `clients`, `time`, `e`, `Connection`, ");
        assert_string_equal(told, "ERR unknown command HELLO: Redis older than 6");
        redis_endpoint_fini(&t);
    }
}

TEST_CASE(password_setting_is_for_urls_without_one)
{
    struct redis_endpoint t;
    assert_int_equal(init(&t, "redis://alice@db", "apart"), 0);
    assert_string_equal(t.user, "alice");
    assert_string_equal(t.password, "apart");
    redis_endpoint_fini(&t);
    assert_int_equal(init(&t, "redis://db", "per%41cent"), 0);
    assert_string_equal(t.password, "per%41cent"); /* as it is: it is no part of a URL */
    redis_endpoint_fini(&t);
    assert_int_equal(init(&t, "redis://:inside@db", "apart"), 0);
    assert_string_equal(t.password, "inside");
    redis_endpoint_fini(&t);
}

TEST_CASE(description_has_no_secret)
{
    static const struct {
        const char *url;
        const char *text;
    } cases[] = {
        {"redis://alice:s3cret@db:7000/2", "db:7000/2"},
        {"rediss://:s3cret@db", "db:6379/0"},
        {"redis://[::1]:7000", "[::1]:7000/0"},
        {"unix://alice:s3cret@/run/redis.sock?db=1", "/run/redis.sock"},
        {"redis+sentinel://alice:s3cret@a,b/mymaster/2", "mymaster/2 by Sentinel"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct redis_endpoint t;
        struct buf out = BUF_INIT;
        assert_int_equal(init(&t, cases[i].url, "other-s3cret"), 0);
        redis_endpoint_describe(&t, &out);
        assert_buf(&out, cases[i].text);
        buf_fini(&out);
        redis_endpoint_fini(&t);
    }
}

static void assert_hello(const char *url, const char **argv, int count)
{
    struct redis_endpoint t;
    struct buf expected = BUF_INIT;
    struct buf out = BUF_INIT;
    assert_int_equal(init(&t, url, ""), 0);
    command_write(&expected, count, argv, NULL);
    redis_endpoint_hello(&t, "test", &out);
    assert_buf(&out, buf_c_str(&expected));
    buf_fini(&out);
    buf_fini(&expected);
    redis_endpoint_fini(&t);
}

TEST_CASE(hello_authenticates_only_with_a_password)
{
    assert_hello("redis://db", (const char *[]){"HELLO", "3", "SETNAME", "test"}, 4);
    assert_hello("redis://:s3cret@db",
                 (const char *[]){"HELLO", "3", "AUTH", "default", "s3cret", "SETNAME", "test"}, 7);
    assert_hello("redis://alice:s3cret@db",
                 (const char *[]){"HELLO", "3", "AUTH", "alice", "s3cret", "SETNAME", "test"}, 7);
    assert_hello("redis://alice:@db", (const char *[]){"HELLO", "3", "AUTH", "alice", "", "SETNAME", "test"},
                 7);
}

TEST_CASE(select_is_sent_for_a_database_but_the_first)
{
    struct redis_endpoint t;
    struct buf out = BUF_INIT;
    assert_int_equal(init(&t, "redis://db/0", ""), 0);
    assert_false(redis_endpoint_select(&t, &out));
    assert_int_equal(out.len, 0);
    redis_endpoint_fini(&t);
    assert_int_equal(init(&t, "redis://db/12", ""), 0);
    assert_true(redis_endpoint_select(&t, &out));
    assert_buf(&out, "*2\r\n$6\r\nSELECT\r\n$2\r\n12\r\n");
    buf_fini(&out);
    redis_endpoint_fini(&t);
}

struct program {
    int64_t before;
    struct redis_options redis;
};

TEST_CASE(settings_fill_the_options)
{
    static const struct setting table[] = {REDIS_SETTINGS(struct program, redis)};
    const struct settings all = {table, TEST_COUNT(table), "CHANNELD_"};
    struct program p = {0};
    struct buf error = BUF_INIT;
    char *rest[8];
    char *argv[] = {(char[]){"channeld"},
                    (char[]){"--redis-ca-file=/ca"},
                    (char[]){"--redis-cert-file=/cert"},
                    (char[]){"--redis-key-file=/key"},
                    (char[]){"--redis-password=s3cret"},
                    (char[]){"--redis-sentinel-user=bob"},
                    (char[]){"--redis-sentinel-password=watchword"},
                    NULL};
    unsigned char sources[TEST_COUNT(table)];
    struct settings_args args = {.argc = 7, .argv = argv, .rest = rest, .sources = sources};
    assert_int_equal(settings_read(&all, &p, &args, &error), 0);
    assert_string_equal(p.redis.url, "redis://127.0.0.1:6379/0");
    assert_string_equal(p.redis.password, "s3cret");
    assert_string_equal(p.redis.ca_file, "/ca");
    assert_string_equal(p.redis.cert_file, "/cert");
    assert_string_equal(p.redis.key_file, "/key");
    assert_string_equal(p.redis.sentinel_user, "bob");
    assert_string_equal(p.redis.sentinel_password, "watchword");
    assert_int_equal(p.before, 0);
    settings_fini(&all, &p);
    buf_fini(&error);
}
