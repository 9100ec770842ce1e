/* channelctl keys: a key is printed once, works at once, and stops working when it is revoked. */

#include "support/ctl.h"
#include "support/http.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KEY_LENGTH = 46 };

static struct server server;

static int start(void **state)
{
    (void)ctl_setup(state);
    catalogue_issue_key(&redis, "some-key");
    catalogue_put_samples(&redis, 1);
    const struct server_spec spec = {.redis_url = redis.url, .wait = SERVER_WAIT_READY};
    server_start(&server, &spec);
    return 0;
}

static int end(void **state)
{
    server_stop(&server);
    return ctl_teardown(state);
}

TEST_GROUP(start, end)

struct expectation {
    const char *key;
    int status;
};

static bool key_gives(void *arg)
{
    const struct expectation *expected = arg;
    AUTOFREE char *header = text_printf("X-Api-Key: %s\r\n", expected->key);
    int status = http_get_status(server.port, "/api/channels/", header);
    return status == expected->status;
}

static void expect_status_of(const char *key, int status)
{
    struct expectation expected = {key, status};
    assert_true(wait_until(key_gives, &expected, WAIT_DEADLINE_MS));
}

static long long issued_keys(void)
{
    return redis_integer(&redis, "SCARD channels:api_keys");
}

static bool is_valid(const char *key)
{
    char digest[65];
    catalogue_digest(key, digest);
    return redis_integer(&redis, "SISMEMBER channels:api_keys %s", digest) == 1;
}

/* A new key without its newline, owned. */
static char *issue(void)
{
    struct ctl_run run = CTL("keys", "issue");
    assert_int_equal(run.status, 0);
    assert_string_equal(run.err, "");
    assert_int_equal(strlen(run.out), KEY_LENGTH + 1);
    assert_int_equal(strncmp(run.out, "ck_", 3), 0);
    assert_int_equal(run.out[KEY_LENGTH], '\n');
    run.out[KEY_LENGTH] = '\0';
    free(run.err);
    return run.out;
}

/* ---- Issuing ---- */

TEST_CASE(keys_issue_stores_the_digest_only)
{
    AUTOFREE char *key = issue();
    assert_true(is_valid(key));
    assert_int_equal(redis_integer(&redis, "SISMEMBER channels:api_keys %s", key), 0);
}

TEST_CASE(keys_issue_count_prints_different_valid_keys)
{
    struct ctl_run run = CTL("keys", "issue", "--count", "20");
    char *rest = NULL;
    assert_int_equal(text_count(run.out, "\n"), 20);
    AUTOFREE char *all = text_printf("%s", run.out);
    for (char *key = strtok_r(run.out, "\n", &rest); key != NULL; key = strtok_r(NULL, "\n", &rest)) {
        assert_int_equal(text_count(all, key), 1);
        expect_status_of(key, 200);
    }
    ctl_expect(run, 0, NULL, NULL);
}

TEST_CASE(issued_keys_have_the_documented_shape_and_use_every_digit_everywhere)
{
    enum { KEYS = 2000 };
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    static bool seen[KEY_LENGTH][256];
    struct ctl_run run = CTL("keys", "issue", "--count", "2000");
    assert_int_equal(strlen(run.out), KEYS * (KEY_LENGTH + 1));
    for (const char *key = run.out; *key != '\0'; key += KEY_LENGTH + 1) {
        assert_memory_equal(key, "ck_", 3);
        assert_int_equal(strspn(key + 3, digits), KEY_LENGTH - 3);
        assert_int_equal(key[KEY_LENGTH], '\n');
        /* 256 bits end 4 bits into the last digit: its low two bits are zero. */
        assert_int_equal((strchr(digits, key[KEY_LENGTH - 1]) - digits) & 3, 0);
        for (int at = 3; at < KEY_LENGTH - 1; at++)
            seen[at][(unsigned char)key[at]] = true;
    }
    for (int at = 3; at < KEY_LENGTH - 1; at++) {
        int distinct = 0;
        for (int c = 0; c < 256; c++)
            distinct += seen[at][c];
        assert_int_equal(distinct, 64); /* a miss has a chance below 1 in 10^10 */
    }
    ctl_expect(run, 0, NULL, NULL);
}

TEST_CASE(keys_issue_revokes_a_key_that_it_cannot_print)
{
    long long before = issued_keys();
    ctl_expect(ctl_shell(text_printf("\"$CTL\" keys issue >/dev/full")), 1, NULL,
               "cannot write to standard output: No space left on device; "
               "the key that could not be printed was revoked\n");
    ctl_expect(ctl_shell(text_printf("\"$CTL\" keys issue --count 5000 >/dev/full")), 1, NULL,
               "channelctl: 0 of 5000 keys were issued and printed\n");
    assert_int_equal(issued_keys(), before);
}

/* The number in "N of COUNT keys were issued and printed". */
static long long printed_keys(const char *err, int count)
{
    AUTOFREE char *rest = text_printf(" of %d keys were issued and printed\n", count);
    ctl_expect_text(err, rest);
    const char *start = strstr(err, rest);
    while (start > err && start[-1] >= '0' && start[-1] <= '9')
        start--;
    return strtoll(start, NULL, 10);
}

/* The file has room for ten keys and a part of the next. */
TEST_CASE(keys_issue_keeps_only_the_keys_that_were_printed)
{
    enum { COUNT = 50 };
    redis_do(&redis, "DEL channels:api_keys");
    struct ctl_run run =
        ctl_shell(text_printf("ulimit -f 1; exec \"$CTL\" keys issue --count %d >keys", COUNT));
    AUTOFREE char *keys = text_read_file(text_temp("%s/keys", redis.dir.path));
    long long whole = (long long)text_count(keys, "\n");
    assert_in_range(whole, 1, COUNT - 1);
    assert_int_not_equal(strlen(keys) % (KEY_LENGTH + 1), 0);
    assert_int_equal(printed_keys(run.err, COUNT), whole);
    assert_int_equal(issued_keys(), whole);
    char *rest = NULL;
    for (char *key = strtok_r(keys, "\n", &rest); whole > 0; key = strtok_r(NULL, "\n", &rest), whole--)
        assert_true(is_valid(key));
    ctl_expect(run, 1, NULL, "cannot write to standard output: File too large; the key ");
}

TEST_CASE(keys_issue_revokes_the_key_after_a_closed_pipe)
{
    enum { COUNT = 50000 };
    redis_do(&redis, "DEL channels:api_keys");
    struct ctl_run run = ctl_shell(text_printf(
        "{ \"$CTL\" keys issue --count %d; echo $? >status; } | head -n 3 >/dev/null; exit $(cat status)",
        COUNT));
    assert_int_equal(issued_keys(), printed_keys(run.err, COUNT));
    ctl_expect(run, 1, NULL, "cannot write to standard output: Broken pipe; the key ");
}

TEST_CASE(keys_issue_prints_each_valid_key_when_interrupted)
{
    enum { COUNT = 100000 };
    static const char *const args[] = {"keys", "issue", "--count=100000", NULL};
    struct process process;
    redis_do(&redis, "DEL channels:api_keys");
    ctl_start(&process, args);
    while (issued_keys() == 0)
        (void)usleep(1000);
    redis_pause(&redis); /* so that not all are issued before the signal comes */
    process_signal(&process, SIGINT);
    redis_resume(&redis);
    struct ctl_run run = ctl_finish(&process);
    assert_int_equal(text_count(run.out, "\n"), issued_keys());
    assert_int_equal(printed_keys(run.err, COUNT), issued_keys());
    ctl_expect(run, 130, NULL, NULL);
}

/* ---- Revoking ---- */

TEST_CASE(keys_revoke_ends_the_validity_of_a_key)
{
    AUTOFREE char *key = issue();
    expect_status_of(key, 200);
    ctl_expect(CTL("keys", "revoke", key), 0, "revoked\n", NULL);
    expect_status_of(key, 401);
}

TEST_CASE(keys_revoke_accepts_a_digest)
{
    char digest[65];
    AUTOFREE char *key = issue();
    catalogue_digest(key, digest);
    expect_status_of(key, 200);
    ctl_expect(CTL("keys", "revoke", digest), 0, "revoked\n", NULL);
    expect_status_of(key, 401);
    ctl_expect(CTL("keys", "revoke", digest), 1, NULL, "API key not found");
}

/* Such as openssl rand -hex 32 generates. */
TEST_CASE(keys_revoke_accepts_a_key_in_the_form_of_a_digest)
{
    char key[65];
    catalogue_digest("any", key);
    catalogue_issue_key(&redis, key);
    ctl_expect(CTL("keys", "revoke", key), 0, "revoked\n", NULL);
    assert_false(is_valid(key));
    ctl_expect(CTL("keys", "revoke", key), 1, NULL, "API key not found");
}

TEST_CASE(keys_revoke_fails_for_an_unknown_key)
{
    static const char not_found[] =
        "channelctl: API key not found: it was never issued or is already revoked";
    static const struct {
        const char *key;
        bool is_possible;
    } rows[] = {
        {"ck_0123456789012345678901234567890123456789012", true},
        {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", true},
        {"0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF", true},
        {"ck_012345678901234567890123456789012345678901", false},
        {"ck_01234567890123456789012345678901234567890123", false},
        {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde", false},
        {"g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", false},
        {"01234567...", false},
        {"never-issued", false},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        AUTOFREE char *err =
            text_printf("%s%s\n", not_found,
                        rows[i].is_possible ? ""
                                            : "; the text is neither a key of channelctl (ck_ and "
                                              "43 characters) nor a digest (64 hexadecimal digits)");
        struct ctl_run run = CTL("keys", "revoke", rows[i].key);
        assert_string_equal(run.err, err);
        ctl_expect(run, 1, "", NULL);
    }
    ctl_expect(CTL("keys", "revoke", " \n"), 2, "", "keys revoke: expected a key or a digest");
}

/* As they are copied from a message, or read from a file. */
TEST_CASE(keys_revoke_trims_blanks_around_a_key)
{
    AUTOFREE char *key = issue();
    ctl_expect(CTL("keys", "revoke", text_temp(" \t%s\r\n ", key)), 0, "revoked\n", NULL);
    assert_false(is_valid(key));
}

/* ---- Listing ---- */

TEST_CASE(keys_list_prints_sorted_digests)
{
    char *rest = NULL;
    const char *last = "";
    redis_do(&redis, "DEL channels:api_keys");
    ctl_expect(CTL("keys", "issue", "--count=30"), 0, NULL, NULL);
    AUTOFREE char *key = issue();
    char digest[65];
    catalogue_digest(key, digest);
    struct ctl_run run = CTL("keys", "list");
    assert_int_equal(text_count(run.out, "\n"), 31);
    assert_int_equal(text_count(run.out, digest), 1);
    assert_null(strstr(run.out, key));
    for (char *line = strtok_r(run.out, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        assert_int_equal(strcspn(line, "\t"), 64);
        assert_true(strcmp(last, line) < 0);
        last = line;
    }
    ctl_expect(run, 0, NULL, NULL);
}

/* As other tools print it. */
TEST_CASE(keys_revoke_accepts_a_digest_in_upper_case)
{
    char digest[65];
    AUTOFREE char *key = issue();
    catalogue_digest(key, digest);
    for (char *c = digest; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
    ctl_expect(CTL("keys", "revoke", digest), 0, "revoked\n", NULL);
    assert_false(is_valid(key));
}

/* The line of a key in the list, without its digest; owned. */
static char *listed(const char *key)
{
    char digest[65];
    catalogue_digest(key, digest);
    struct ctl_run run = CTL("keys", "list");
    const char *at = strstr(run.out, digest);
    assert_non_null(at);
    char *line = text_printf("%.*s", (int)strcspn(at + 64, "\n"), at + 64);
    ctl_expect(run, 0, NULL, NULL);
    return line;
}

static char *issue_with(const char *const *args)
{
    struct ctl_run run = ctl_run(args);
    assert_int_equal(run.status, 0);
    assert_int_equal(strlen(run.out), KEY_LENGTH + 1);
    run.out[KEY_LENGTH] = '\0';
    free(run.err);
    return run.out;
}
#define ISSUE(...) issue_with((const char *const[]){"keys", "issue", __VA_ARGS__, NULL})

static void put_info(const char *key, const char *info)
{
    char digest[65];
    catalogue_digest(key, digest);
    redis_do(&redis, "HSET channels:api_key_info %s %s", digest, info);
}

TEST_CASE(keys_list_shows_name_issue_and_expiry)
{
    AUTOFREE char *named = ISSUE("--name", "dashboards");
    AUTOFREE char *dated = ISSUE("--expires=2099-02-20", "--name=a.b_c-1");
    AUTOFREE char *plain = issue();
    AUTOFREE char *of_named = listed(named);
    AUTOFREE char *of_dated = listed(dated);
    AUTOFREE char *of_plain = listed(plain);
    assert_memory_equal(of_named, "\tdashboards\t", 12);
    assert_non_null(strstr(of_named, "Z\tnever"));
    assert_memory_equal(of_dated, "\ta.b_c-1\t", 9);
    assert_non_null(strstr(of_dated, "\t2099-02-20T00:00:00Z"));
    assert_memory_equal(of_plain, "\t-\t", 3);
}

/* As any program may have written them. */
TEST_CASE(keys_list_shows_what_is_not_known_and_what_has_expired)
{
    static const char *const rows[][2] = {
        {"{}", "\t-\t-\tnever"},
        {"{\"issued\":\"2026-01-01T00:00:00Z\",\"expires\":\"2026-02-01T00:00:00Z\"}",
         "\t-\t2026-01-01T00:00:00Z\t2026-02-01T00:00:00Z expired"},
        {"{\"expires\":1}", "\t-\t-\tmalformed: refused"},
        {"{\"name\":\"\x1B[2J\"}", "\t-\t-\tmalformed: refused"},
        {"{\"name\":\"a b\"}", "\t-\t-\tnever"}};
    AUTOFREE char *key = issue();
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        put_info(key, rows[i][0]);
        AUTOFREE char *line = listed(key);
        assert_non_null(strstr(line, rows[i][1]));
    }
}

/* The same, as JSON. */
TEST_CASE(keys_list_prints_json)
{
    static const char *const rows[][2] = {
        {"{}", "\",\"name\":null,\"issued\":null,\"expires\":null,\"valid\":true}\n"},
        {"{\"name\":\"a.b\",\"issued\":\"2026-01-01T00:00:00Z\",\"expires\":\"2026-02-01T00:00:00Z\"}",
         "\",\"name\":\"a.b\",\"issued\":\"2026-01-01T00:00:00Z\",\"expires\":\"2026-02-01T00:00:00Z\","
         "\"valid\":false}"},
        {"{\"expires\":\"2999-01-01T00:00:00Z\"}", ",\"expires\":\"2999-01-01T00:00:00Z\",\"valid\":true}"},
        {"{\"expires\":1}", ",\"expires\":null,\"valid\":false}"}};
    char digest[65];
    AUTOFREE char *key = issue();
    catalogue_digest(key, digest);
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        put_info(key, rows[i][0]);
        struct ctl_run run = CTL("keys", "list", "--json");
        const char *line = strstr(run.out, text_temp("{\"digest\":\"%s", digest));
        assert_non_null(line);
        ctl_expect_text(line, rows[i][1]);
        assert_int_equal(text_count(run.out, "\n"), issued_keys());
        ctl_expect(run, 0, NULL, NULL);
    }
}

static double seconds_left(const char *line)
{
    struct tm tm = {0};
    assert_non_null(strptime(strrchr(line, '\t') + 1, "%Y-%m-%dT%H:%M:%SZ", &tm));
    return difftime(timegm(&tm), time(NULL));
}

TEST_CASE(expiries_are_counted_from_now)
{
    static const struct {
        const char *text;
        double seconds;
    } rows[] = {{"90d", 90 * 86400}, {"12h", 12 * 3600}, {"30m", 1800},
                {"45s", 45},         {"1000ms", 1},      {"36600d", 36600 * 86400.0}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        AUTOFREE char *key = ISSUE("--expires", rows[i].text);
        AUTOFREE char *line = listed(key);
        double left = seconds_left(line);
        if (left > rows[i].seconds || left < rows[i].seconds - 60)
            fail_msg("%s: %s", rows[i].text, line);
    }
}

TEST_CASE(keys_issue_refuses_names_and_expiries_that_are_none)
{
    static const struct {
        const char *flag, *value, *why;
    } rows[] = {
        {"--name", "", "--name: expected 1 to 64 of the characters A-Z a-z 0-9 _ . -"},
        {"--name", "a b", "--name: expected"},
        {"--name", "0123456789012345678901234567890123456789012345678901234567890123x", "--name: expected"},
        {"--expires", "", "--expires: expected a time such as 90d, 12h or 30m, or a date in UTC"},
        {"--expires", "tomorrow", "--expires: expected"},
        {"--expires", "90", "--expires: expected"},
        {"--expires", "-1d", "--expires: expected"},
        {"--expires", "-9223372036854775807d", "--expires: expected"},
        {"--expires", "2026-02-30", "--expires: expected"},
        {"--expires", "0", "--expires: expected a second to a hundred years"},
        {"--expires", "36601d", "--expires: expected"},
        {"--expires", "500ms", "--expires: expected"},
        {"--expires", "2020-01-01", "--expires: 2020-01-01 is in the past"},
        {"--expires", "2020-01-01T00:00:00Z", "is in the past"},
    };
    long long before = issued_keys();
    for (size_t i = 0; i < TEST_COUNT(rows); i++)
        ctl_expect(CTL("keys", "issue", rows[i].flag, rows[i].value), 2, NULL, rows[i].why);
    assert_int_equal(issued_keys(), before);
    AUTOFREE char *longest =
        ISSUE("--name", "0123456789012345678901234567890123456789012345678901234567890123");
    assert_true(is_valid(longest));
}

static bool has_info(const char *key)
{
    char digest[65];
    catalogue_digest(key, digest);
    return redis_integer(&redis, "HEXISTS channels:api_key_info %s", digest) == 1;
}

TEST_CASE(keys_revoke_by_name_revokes_the_key_of_that_name)
{
    AUTOFREE char *key = ISSUE("--name", "one");
    AUTOFREE char *other = ISSUE("--name", "one-more");
    ctl_expect(CTL("keys", "revoke", "--name", "one"), 0, "revoked\n", NULL);
    assert_false(is_valid(key) || has_info(key));
    assert_true(is_valid(other));
    ctl_expect(CTL("keys", "revoke", "--name", "one"), 1, "", "API key not found: none has the name one\n");
    ctl_expect(CTL("keys", "revoke", "--name", "a b"), 2, "", "--name: expected 1 to 64 of the characters");
}

/* Their infos alone do not make keys of them. */
TEST_CASE(keys_revoke_by_name_needs_all_for_several_keys)
{
    AUTOFREE char *first = ISSUE("--name", "many");
    AUTOFREE char *second = ISSUE("--name", "many");
    char left[65];
    catalogue_digest("a key that another program has removed", left);
    redis_do(&redis, "HSET channels:api_key_info %s {\"name\":\"many\"}", left);
    ctl_expect(CTL("keys", "revoke", "--name", "many"), 1, "",
               "2 keys have the name many: nothing was revoked (--all");
    assert_true(is_valid(first) && is_valid(second));
    ctl_expect(CTL("keys", "revoke", "--name", "many", "--all"), 0, "revoked 2 keys\n", NULL);
    assert_false(is_valid(first) || is_valid(second) || has_info(first) || has_info(second));
    redis_do(&redis, "HDEL channels:api_key_info %s", left);
}

TEST_CASE(keys_revoke_removes_the_info)
{
    char digest[65];
    AUTOFREE char *key = ISSUE("--name", "gone");
    catalogue_digest(key, digest);
    assert_int_equal(redis_integer(&redis, "HEXISTS channels:api_key_info %s", digest), 1);
    ctl_expect(CTL("keys", "revoke", digest), 0, "revoked\n", NULL);
    assert_int_equal(redis_integer(&redis, "HEXISTS channels:api_key_info %s", digest), 0);
}

/* It refuses everything that might take memory, and any transaction. */
TEST_CASE(leaked_keys_can_be_revoked_while_redis_is_full)
{
    char digest[65];
    AUTOFREE char *key = ISSUE("--name", "leaked", "--expires", "90d");
    catalogue_digest(key, digest);
    expect_status_of(key, 200);
    redis_do(&redis, "CONFIG SET maxmemory 1");
    ctl_expect(CTL("keys", "issue"), 1, NULL, "Redis refused: OOM ");
    ctl_expect(CTL("keys", "revoke", key), 0, "revoked\n", NULL);
    redis_do(&redis, "CONFIG SET maxmemory 0");
    expect_status_of(key, 401);
    assert_int_equal(redis_integer(&redis, "HEXISTS channels:api_key_info %s", digest), 0);
}

/* Then at least the key is not valid any more, and the operator is told what is left. */
TEST_CASE(keys_revoke_says_when_only_the_info_could_not_be_removed)
{
    AUTOFREE char *key = ISSUE("--name", "leaked");
    AUTOFREE char *url = text_printf("redis://issuer:pw@127.0.0.1:%d", redis.port);
    redis_do(&redis, "ACL SETUSER issuer reset on >pw ~* +@all -hdel");
    ctl_expect(CTL("--redis-url", url, "keys", "revoke", key), 1, "",
               "the key is not valid any more, but its info was not removed: Redis refused: NOPERM");
    expect_status_of(key, 401);
}

/* It would be valid for ever. */
TEST_CASE(key_that_is_not_revoked_keeps_its_expiry)
{
    char digest[65];
    AUTOFREE char *key = ISSUE("--expires", "90d");
    AUTOFREE char *url = text_printf("redis://issuer:pw@127.0.0.1:%d", redis.port);
    catalogue_digest(key, digest);
    redis_do(&redis, "ACL SETUSER issuer reset on >pw ~* +@all -srem");
    ctl_expect(CTL("--redis-url", url, "keys", "revoke", key), 1, "", "NOPERM");
    assert_true(is_valid(key));
    assert_int_equal(redis_integer(&redis, "HEXISTS channels:api_key_info %s", digest), 1);
}

/* Redis executes the commands of a transaction that it refuses: the key would be valid, and known to nobody.
 */
TEST_CASE(keys_issue_without_the_right_to_transactions_adds_nothing)
{
    long long before = issued_keys();
    AUTOFREE char *url = text_printf("redis://issuer:pw@127.0.0.1:%d", redis.port);
    static const char *const commands[] = {"multi", "exec"};
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        redis_do(&redis, "ACL SETUSER issuer reset on >pw ~* +@all -%s", commands[i]);
        ctl_expect(CTL("--redis-url", url, "keys", "issue"), 1, "", "NOPERM");
        assert_int_equal(issued_keys(), before);
    }
}

/* Such a member may be a key. */
TEST_CASE(keys_list_omits_members_that_are_not_digests)
{
    redis_do(&redis, "SADD channels:api_keys ck_a-key-as-it-is");
    struct ctl_run run = CTL("keys", "list");
    assert_null(strstr(run.out, "ck_"));
    assert_null(strstr(run.err, "ck_"));
    ctl_expect(run, 0, NULL, "not listed: 1 member of the set that cannot be a digest");
    redis_do(&redis, "SREM channels:api_keys ck_a-key-as-it-is");
}

static void expect_wrongtype(const char *command, const char *word, const char *what)
{
    struct ctl_run run = CTL("keys", command, word);
    assert_string_equal(run.out, "");
    ctl_expect(run, 1, NULL, text_temp("%s: delete it and restore it from a backup", what));
}

TEST_CASE(keys_commands_name_a_set_of_another_type)
{
    static const char *const commands[][2] = {{"list"}, {"issue"}, {"revoke", "some-key"}};
    redis_do(&redis, "SET channels:api_keys text");
    for (size_t i = 0; i < TEST_COUNT(commands); i++)
        expect_wrongtype(commands[i][0], commands[i][1], "channels:api_keys is not a set");
    redis_do(&redis, "DEL channels:api_keys");
    redis_do(&redis, "DEL channels:api_key_info");
    redis_do(&redis, "SET channels:api_key_info text");
    catalogue_issue_key(&redis, "some-key");
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        assert_true(is_valid("some-key"));
        expect_wrongtype(commands[i][0], commands[i][1], "channels:api_key_info is not a hash");
    }
    assert_false(is_valid("some-key")); /* revoked all the same */
    redis_do(&redis, "DEL channels:api_key_info");
    redis_do(&redis, "DEL channels:api_keys");
}

/* As docs/production.md describes it: a loader restores the channels, the list of digests restores the keys,
 * and a copy of the hash their names and expiries. */
TEST_CASE(keys_can_be_restored_from_their_list)
{
    redis_do(&redis, "DEL channels:api_keys");
    redis_do(&redis, "DEL channels:api_key_info");
    AUTOFREE char *key = ISSUE("--name=kept", "--expires=2099-01-01");
    ctl_expect(ctl_shell(text_printf("\"$CTL\" keys list | cut -f 1 >api_keys; redis-cli -p %d --raw HGETALL "
                                     "channels:api_key_info >api_key_info",
                                     redis.port)),
               0, NULL, NULL);
    redis_do(&redis, "FLUSHALL");
    ctl_expect(CTL("verify"), 1, NULL, NULL);
    ctl_expect(CTL("load", "--sample=10", "--replace"), 0, NULL, NULL);
    ctl_expect(CTL("verify"), 1, "api_keys: there are no API keys", NULL);
    expect_status_of(key, 401); /* channeld may have to connect again */
    ctl_expect(ctl_shell(text_printf(
                   "sed \"1{/^$/d;}; s/.*/'&'/\" api_key_info | xargs -n 1000 redis-cli -p %d HSET "
                   "channels:api_key_info",
                   redis.port)),
               0, NULL, NULL);
    ctl_expect(ctl_shell(text_printf("xargs redis-cli -p %d SADD channels:api_keys <api_keys", redis.port)),
               0, NULL, NULL);
    ctl_expect(CTL("verify"), 0, NULL, NULL);
    expect_status_of(key, 200);
    AUTOFREE char *line = listed(key);
    assert_memory_equal(line, "\tkept\t", 6);
    assert_non_null(strstr(line, "\t2099-01-01T00:00:00Z"));
}
