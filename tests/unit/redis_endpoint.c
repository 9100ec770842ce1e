/* Redis addresses: every form, its defaults, its errors, and that no secret is ever described. */
#include "redis/endpoint.h"

#include <errno.h>
#include <stdlib.h>

#include "support/text.h"
#include "unit/check.h"

/* The reason of the last refusal. */
static char reason[256];

static struct redis_config *config; /* NULL: the last one was refused */
static const char *prefix = "{a}";

/* Borrowed until drop(). */
static int init_options(struct redis_endpoint *t, const struct redis_options *options)
{
    struct buf why = BUF_INIT;
    const char *setting = NULL;
    int err = redis_config_new(options, span_of(prefix), 1, &config, &why, &setting);
    *t = config != NULL ? config->endpoint : (struct redis_endpoint){0};
    assert_true((err == -EINVAL) == (why.len > 0));
    (void)snprintf(reason, sizeof reason, "%s", buf_c_str(&why));
    buf_fini(&why);
    return err;
}

static void drop(void)
{
    redis_config_unref(config);
    config = NULL;
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

static void refuse(const char *url, const char *why)
{
    struct redis_endpoint t;
    if (init(&t, url, "") != -EINVAL)
        fail_msg("%s was accepted", url);
    if (why != NULL && strcmp(reason, why) != 0)
        fail_msg("%s: \"%s\"", url, reason);
    assert_null(strstr(reason, "cret"));
    drop();
}

/* URLs with spaces between them. */
static void refuse_all(const char *urls)
{
    char *copy = text_printf("%s", urls);
    for (char *rest = copy, *url; (url = strtok_r(rest, " ", &rest)) != NULL;)
        refuse(url, NULL);
    free(copy);
}

static void make(struct redis_endpoint *t, const char *url, const char *password)
{
    if (init(t, url, password) != 0)
        fail_msg("%s: %s", url, reason);
}

/* "tcp HOST PORT DB USER PASSWORD", "tls ..." or "unix PATH DB USER PASSWORD"; "-" for a password that is
 * none. */
static void assert_parts(const char *url, const char *expected)
{
    struct redis_endpoint t;
    struct buf out = BUF_INIT;
    make(&t, url, "");
    if (t.transport == REDIS_TRANSPORT_UNIX)
        buf_printf(&out, "unix %s", t.path);
    else
        buf_printf(&out, "%s %s %d", t.transport == REDIS_TRANSPORT_TLS ? "tls" : "tcp", t.host, t.port);
    assert_true(t.transport == REDIS_TRANSPORT_UNIX ? t.host == NULL : t.path == NULL);
    buf_printf(&out, " %d %s %s", t.db, t.user, t.password == NULL ? "-" : t.password);
    if (strcmp(buf_c_str(&out), expected) != 0)
        fail_msg("%s: %s, not %s", url, buf_c_str(&out), expected);
    buf_fini(&out);
    drop();
}

TEST_CASE(url_has_parts_and_defaults)
{
    static const char *const rows[][2] = {
        /* host, port and database */
        {"redis://127.0.0.1:6379/0", "tcp 127.0.0.1 6379 0 default -"},
        {"redis://db", "tcp db 6379 0 default -"},
        {"redis://db/", "tcp db 6379 0 default -"},
        {"redis://db:7000", "tcp db 7000 0 default -"},
        {"redis://db/3", "tcp db 6379 3 default -"},
        {"redis://db.example.org:7000/15", "tcp db.example.org 7000 15 default -"},
        {"rediss://db:6380/1", "tls db 6380 1 default -"},
        /* an IPv6 address has brackets */
        {"redis://[::1]", "tcp ::1 6379 0 default -"},
        {"redis://[::1]:7000/2", "tcp ::1 7000 2 default -"},
        {"rediss://u:p@[2001:db8::7]:7000", "tls 2001:db8::7 7000 0 u p"},
        /* one of a link has a zone, RFC 9844 */
        {"redis://[fe80::1%eth0]", "tcp fe80::1%eth0 6379 0 default -"},
        {"redis://[fe80::1%eth0]:7000/1", "tcp fe80::1%eth0 7000 1 default -"},
        /* the password may be empty, or without user */
        {"redis://alice:s3cret@db", "tcp db 6379 0 alice s3cret"},
        {"redis://:s3cret@db", "tcp db 6379 0 default s3cret"},
        {"redis://alice:@db", "tcp db 6379 0 alice "},
        {"redis://@db", "tcp db 6379 0 default -"},
        /* credentials are decoded once */
        {"redis://al%40ice:p%3A%2F%40%25@db", "tcp db 6379 0 al@ice p:/@%"},
        {"redis://:%2541@db", "tcp db 6379 0 default %41"},
        {"redis://:a+b%zz@db", "tcp db 6379 0 default a+b%zz"},
        {"redis://:%D0%BF@db", "tcp db 6379 0 default п"},
        /* the password ends at the last at sign */
        {"redis://alice:p@ss@db:1", "tcp db 1 0 alice p@ss"},
        {"redis://alice:p:s:s@db", "tcp db 6379 0 alice p:s:s"},
        /* a local socket */
        {"unix:///run/redis.sock", "unix /run/redis.sock 0 default -"},
        {"unix:///run/redis.sock?db=3", "unix /run/redis.sock 3 default -"},
        {"unix:///a%20b%3Fc", "unix /a b?c 0 default -"},
        {"unix:///s?", "unix /s 0 default -"},
        {"unix:///a@b:c", "unix /a@b:c 0 default -"},
        {"unix://alice:s3cret@/run/r.sock?db=1", "unix /run/r.sock 1 alice s3cret"},
        {"unix://:s3cret@/s", "unix /s 0 default s3cret"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++)
        assert_parts(rows[i][0], rows[i][1]);
}

/* As a tool or an editor adds them; no look-up would find such a name. */
TEST_CASE(url_has_no_blanks_around_it_or_in_a_host)
{
    static const char ends[] = "ends with a blank or a line end";
    static const char blank[] = "is not a Redis address";
    static const char comma[] = "several hosts need redis+sentinel:// or redis+cluster://";
    refuse("redis://db ", ends);
    refuse("redis://db\t", ends);
    refuse("redis://db:6379/0\r\n", ends);
    refuse("unix:///run/s\n", ends);
    refuse("redis+sentinel://a,b/m ", ends);
    refuse("redis+cluster://a,b\n", ends);
    refuse("redis://d b", blank);
    refuse("redis://[::1 ]", blank);
    refuse("redis+sentinel://a, b/m", blank);
    refuse("redis+cluster://a\x7F,b", blank);
    refuse("redis://a,b:6379", comma);
    refuse("rediss://a:6379,b", comma);
    assert_parts("redis://:a b@db", "tcp db 6379 0 default a b");
}

TEST_CASE(url_port_and_database_are_bounded)
{
    assert_parts("redis://db:1", "tcp db 1 0 default -");
    assert_parts("redis://db:65535/0", "tcp db 65535 0 default -");
    assert_parts("redis://db/1048576", "tcp db 6379 1048576 default -");
    assert_parts("unix:///s?db=0", "unix /s 0 default -");
    refuse_all(
        "redis://db:0 redis://db:65536 redis://db:-1 redis://db:06379 redis://db/1048577 redis://db/-1 "
        "redis://db/00 unix:///s?db=-1 unix:///s?db=x");
}

TEST_CASE(url_socket_path_is_bounded)
{
    enum { LONGEST = 107 }; /* 108 bytes with the NUL, unix(7) */
    struct redis_endpoint t;
    char *rest = text_repeat('s', LONGEST - 1);
    char *url = text_printf("unix:///%s", rest);
    make(&t, url, "");
    assert_int_equal(strlen(t.path), LONGEST);
    drop();
    url = text_append(url, "s");
    refuse(url, NULL);
    free(url);
    free(rest);
}

TEST_CASE(url_errors_have_a_reason)
{
    refuse("", NULL);
    refuse_all("127.0.0.1:6379 db http://db REDIS://db redis:db redis:/db redis:// redis:///0 redis://:6379 "
               "redis://user:s3cret@ redis://user:s3cret@:6379 redis://user:s3/cret@db redis://db: "
               "redis://db:port redis://db:6379:6379 redis://db/x redis://db/0/1 redis://db/0?db=1 "
               "redis://db?db=1 redis://db#1 redis://[::1 redis://[] redis://[::1]6379 redis://[::1]x:6379 "
               "redis://::1:6379 unix:// unix://run/redis.sock unix:/run/redis.sock unix://user:s3cret@ "
               "redis://:%00s3cret@db redis://us%00er:s3cret@db unix:///run%00/s");
    refuse("redis://alice@db", "a user needs a password (an empty one is written user:@host)");
}

TEST_CASE(sentinel_url_errors_have_a_reason)
{
    refuse_all(
        "redis+sentinel:// redis+sentinel://a redis+sentinel://a/ redis+sentinel://a//0 "
        "redis+sentinel://a?role=replica redis+sentinel:///mymaster redis+sentinel://,/mymaster "
        "redis+sentinel://a,/mymaster redis+sentinel://,a/mymaster redis+sentinel://a:0/mymaster "
        "redis+sentinel://a:1:2/mymaster redis+sentinel://a/my%20master redis+sentinel://a/my%00master "
        "redis+sentinel://a/mymaster/x redis+sentinel://a/mymaster/0/1 "
        "redis+sentinel://a/mymaster?role=s3cret redis+sentinel://a/mymaster?role= "
        "redis+sentinel://alice:7/s3cret@a redis+sentinel://alice:7/s3cret%40a/m "
        "redis+sentinel://alice@a/mymaster redis+sentinel://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17/m");
}

/* What the sentinels of a target are, in one text: "host:port host:port master role". */
static void assert_sentinels(const char *url, const char *pending, int db)
{
    struct redis_endpoint t;
    struct buf out = BUF_INIT;
    make(&t, url, "");
    for (int i = 0; i < t.discovery.count; i++)
        buf_printf(&out, "%s:%d ", t.discovery.at[i].host, t.discovery.at[i].port);
    buf_printf(&out, "%s %s", t.discovery.master, t.discovery.replica ? "replica" : "master");
    assert_buf(&out, pending);
    assert_null(t.host);
    assert_int_equal(t.db, db);
    buf_fini(&out);
    drop();
}

TEST_CASE(sentinel_url_lists_hosts_and_a_master)
{
    assert_sentinels("redis+sentinel://a/mymaster", "a:26379 mymaster master", 0);
    assert_sentinels("redis+sentinel://a,b:1,[::1],[::2]:2/m/3", "a:26379 b:1 ::1:26379 ::2:2 m master", 3);
    assert_sentinels("redis+sentinel://[fe80::1%eth0]/m", "fe80::1%eth0:26379 m master", 0);
    assert_sentinels("redis+sentinel://a/m?role=replica", "a:26379 m replica", 0);
    assert_sentinels("redis+sentinel://a/m/4?role=replica", "a:26379 m replica", 4);
    assert_sentinels("redis+sentinel://a/m/?role=master", "a:26379 m master", 0);
    assert_sentinels("redis+sentinel://a/my%2Dmaster", "a:26379 my-master master", 0);
    assert_sentinels("rediss+sentinel://u:p@a,b/m", "a:26379 b:26379 m master", 0);
}

/* "host:port host:port " of the nodes in a URL. */
static void assert_nodes(const char *url, const char *expected)
{
    struct redis_endpoint t;
    struct buf out = BUF_INIT;
    make(&t, url, "");
    for (int i = 0; i < t.discovery.count; i++)
        buf_printf(&out, "%s:%d ", t.discovery.at[i].host, t.discovery.at[i].port);
    assert_buf(&out, expected);
    assert_true(redis_endpoint_is_cluster(&t) && redis_endpoint_is_discovered(&t));
    assert_int_equal(t.db, 0);
    buf_fini(&out);
    drop();
}

TEST_CASE(cluster_url_lists_nodes)
{
    assert_nodes("redis+cluster://a", "a:6379 ");
    assert_nodes("redis+cluster://a/", "a:6379 ");
    assert_nodes("redis+cluster://a/0", "a:6379 ");
    assert_nodes("redis+cluster://u:p@a,b:1,[::1],[::2]:2/", "a:6379 b:1 ::1:6379 ::2:2 ");
    assert_nodes("rediss+cluster://a:7000/0", "a:7000 ");
}

TEST_CASE(cluster_url_errors_have_a_reason)
{
    refuse_all("redis+cluster:// redis+cluster:/// redis+cluster://,a redis+cluster://a, redis+cluster://a:0 "
               "redis+cluster://a/x redis+cluster://a/0/1 redis+cluster://a?role=master redis+cluster://a#1 "
               "redis+cluster://alice@a redis+cluster://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17");
    refuse("redis+cluster://a/1", "a Redis Cluster has database 0 only");
    refuse("redis+cluster://a/?rol=replica", "has an unknown option behind its question mark");
    refuse("redis+cluster://a/?role=replica", "replicas of a Redis Cluster are not read: leave ?role out");
}

/* The nodes have the user and password of Redis. */
TEST_CASE(cluster_nodes_have_one_user)
{
    struct redis_endpoint t;
    make(&t, "rediss+cluster://alice:s3cret@a,b:7", "");
    struct redis_endpoint node = redis_endpoint_server(&t, 1);
    assert_string_equal(node.host, "b");
    assert_int_equal(node.port, 7);
    assert_string_equal(node.user, "alice");
    assert_string_equal(node.password, "s3cret");
    assert_int_equal(node.transport, REDIS_TRANSPORT_TLS);
    assert_true(redis_endpoint_is_cluster(&node) && !redis_endpoint_is_discovered(&node));
    drop();
}

/* The slot of all keys with that prefix; -1: they have none in common. By CLUSTER KEYSLOT of Redis. */
static int slot_of(const char *with)
{
    struct redis_endpoint t;
    prefix = with;
    int slot = init(&t, "redis+cluster://a", "") == 0 ? t.discovery.slot : -1;
    drop();
    prefix = "{a}";
    return slot;
}

TEST_CASE(slot_is_that_of_the_hash_tag)
{
    static const struct {
        const char *prefix;
        int slot;
    } rows[] = {
        {"{channels}:", 8726},
        {"x{channels}", 8726},
        {"{channels}{a}:", 8726},
        {"{a}", 15495},
        {"a{foo}{bar}", 12182},
        {"{123456789}", 12739},
        {"{{bar}}zap:", 4015},
        {"}{a}", 15495},
        {"{user1000}.", 3443},
        {"channels:", -1},
        {"{}:", -1},
        {"{}{a}:", -1},
        {"{a:", -1},
        {"a}:", -1},
        {"", -1},
        {"{", -1},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++)
        if (slot_of(rows[i].prefix) != rows[i].slot)
            fail_msg("%s: %d", rows[i].prefix, slot_of(rows[i].prefix));
}

TEST_CASE(prefix_matters_in_a_cluster_only)
{
    struct redis_endpoint t;
    prefix = "channels:";
    make(&t, "redis://a", "");
    drop();
    prefix = "{a}";
}

TEST_CASE(url_has_at_most_one_option)
{
    static const char *const urls[] = {
        "redis+sentinel://a/m?rol=replica", "redis+sentinel://a/m?Role=replica",
        "redis+sentinel://a/m?&role=replica", "redis://db/0?db=1", "redis://db?db=1", "redis://db:6379?tls",
        "redis://db?=1", "rediss://db/?timeout=1", "unix:///run/s?base=1", "redis://db/0?a%20b",
        /* it may be a part of a password */
        "redis://db/s?cret@host", "redis://db/0?a=b&c=cret@host"};
    for (size_t i = 0; i < TEST_COUNT(urls); i++)
        refuse(urls[i], "has an unknown option behind its question mark");
    refuse("redis+sentinel://a/m/0?role=replica&x=1", "the role is master or replica");
    refuse("unix:///run/s?db=1&role=replica", "the database must be a number, 0 or more");
}

TEST_CASE(sentinel_credentials_are_separate)
{
    static char url[] = "rediss+sentinel://alice:s3cret@a,b:7/m/3";
    struct redis_options options = {.url = url,
                                    .password = (char[]){"other"},
                                    .ca_file = (char[]){""},
                                    .cert_file = (char[]){""},
                                    .key_file = (char[]){""},
                                    .sentinel_user = (char[]){""},
                                    .sentinel_password = (char[]){"watchword"}};
    struct redis_endpoint t;
    assert_int_equal(init_options(&t, &options), 0);
    struct redis_endpoint sentinel = redis_endpoint_server(&t, 1);
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
    drop();
    options.sentinel_user = (char[]){"bob"};
    assert_int_equal(init_options(&t, &options), 0);
    assert_string_equal(redis_endpoint_server(&t, 0).user, "bob");
    drop();
    options.sentinel_password = (char[]){""};
    assert_int_equal(init_options(&t, &options), -EINVAL);
    drop();
}

TEST_CASE(redact_hides_a_quoted_password)
{
    struct redis_endpoint t;
    make(&t, "redis+sentinel://a/m", "hush");
    t.discovery.password = (char[]){"a-password-that-is-cut-short-when-quoted"};
    static const char fine[] = "WRONGPASS invalid username-password pair";
    assert_ptr_equal(redis_endpoint_redact(&t, fine), fine);
    assert_null(strstr(redis_endpoint_redact(&t, "ERR 'HELLO' 'hush'"), "hush"));
    assert_null(strstr(redis_endpoint_redact(&t, "ERR 'a-password-that-is-cut'"), "a-pass"));
    drop();
    make(&t, "redis://a", "");
    assert_ptr_equal(redis_endpoint_redact(&t, fine), fine);
    drop();
}

/* Redis quotes 128 bytes of the arguments of a command that it does not know, and writes line ends as spaces.
 */
TEST_CASE(redact_hides_a_part_of_a_quoted_password)
{
    static const char *const quoted[][2] = {
        {"a-password-that-is-cut", "'uuuuuuuuuuuuuuuuuuuu' 'a-password-th' "},
        {"hush\nhush", "'u' 'hush hush' "}};
    for (size_t i = 0; i < TEST_COUNT(quoted); i++) {
        struct redis_endpoint t = {.password = (char *)(uintptr_t)quoted[i][0]};
        char *text =
            text_printf("ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' %s", quoted[i][1]);
        assert_string_equal(redis_endpoint_redact(&t, text), "ERR unknown command HELLO: Redis older than 6");
        free(text);
    }
}

/* Many a password is a word of Redis' own texts. */
TEST_CASE(redact_leaves_constant_texts)
{
    static const char *const texts[] = {
        "WRONGPASS invalid username-password pair or user is disabled.",
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH option",
        "DENIED Redis is running in protected mode because no password is set for the default user.",
        "LOADING Redis is loading the dataset in memory",
        "Connection refused",
        "no connection in time",
        "the name was not resolved in time"};
    static const char *const passwords[] = {"password", "pass", "user", "Redis",
                                            "clients",  "time", "e",    "Connection"};
    for (size_t i = 0; i < TEST_COUNT(passwords); i++) {
        struct redis_endpoint t;
        make(&t, "redis://a", passwords[i]);
        for (size_t k = 0; k < TEST_COUNT(texts); k++)
            assert_ptr_equal(redis_endpoint_redact(&t, texts[k]), texts[k]);
        const char *told = redis_endpoint_redact(
            &t, "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `password`, "
                "`pass`, `user`, `Redis`, `clients`, `time`, `e`, `Connection`, ");
        assert_string_equal(told, "ERR unknown command HELLO: Redis older than 6");
        drop();
    }
}

TEST_CASE(password_setting_is_for_urls_without_one)
{
    struct redis_endpoint t;
    make(&t, "redis://alice@db", "apart");
    assert_string_equal(t.user, "alice");
    assert_string_equal(t.password, "apart");
    drop();
    make(&t, "redis://db", "per%41cent");
    assert_string_equal(t.password, "per%41cent"); /* as it is: it is no part of a URL */
    drop();
    make(&t, "redis://:inside@db", "apart");
    assert_string_equal(t.password, "inside");
    drop();
}

TEST_CASE(description_has_no_secret)
{
    static const char *const cases[][2] = {
        {"redis://alice:s3cret@db:7000/2", "db:7000/2"},
        {"rediss://:s3cret@db", "db:6379/0"},
        {"redis://[::1]:7000", "[::1]:7000/0"},
        {"unix://alice:s3cret@/run/redis.sock?db=1", "/run/redis.sock"},
        {"redis+sentinel://alice:s3cret@a,b/mymaster/2", "mymaster/2 by Sentinel"},
        {"redis+cluster://alice:s3cret@a,b", "slot 15495 of the cluster"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct redis_endpoint t;
        struct buf out = BUF_INIT;
        make(&t, cases[i][0], "other-s3cret");
        redis_endpoint_describe(&t, &out);
        assert_buf(&out, cases[i][1]);
        buf_fini(&out);
        drop();
    }
}

struct program {
    int64_t before;
    struct redis_options redis;
};

TEST_CASE(settings_fill_the_options)
{
    static const struct setting table[] = {REDIS_SETTINGS(struct program, redis)};
    const struct usage all = {.table = table, .count = TEST_COUNT(table), .others = ""};
    struct program p = {0};
    struct buf error = BUF_INIT;
    char *argv[] = {(char[]){"channeld"},
                    (char[]){"--redis-ca-file=/ca"},
                    (char[]){"--redis-cert-file=/cert"},
                    (char[]){"--redis-key-file=/key"},
                    (char[]){"--redis-password=s3cret"},
                    (char[]){"--redis-sentinel-user=bob"},
                    (char[]){"--redis-sentinel-password=watchword"},
                    NULL};
    struct settings_args args = {.usage = &all, .target = &p, .argc = 7, .argv = argv};
    assert_int_equal(settings_read(&args, &error), 0);
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
