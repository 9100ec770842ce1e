/*
 * What the client makes of the replies that it reads for itself, whatever is sent: a server's version, its
 * role, its link to the master, the answers of Sentinels and of the nodes of a cluster, and errors that name
 * a node.
 */
#include "redis/cluster.h"
#include "redis/server.h"

#include <stdlib.h>

#include "support/text.h"
#include "unit/reply.h"

/* A reply, and what is made of it. */
struct row {
    const char *reply, *expected;
};

typedef const char *read_fn(const struct redis_reply *reply);

static void check_rows(const struct row *rows, size_t count, read_fn *read)
{
    for (size_t i = 0; i < count; i++) {
        const char *result = read(reply_of(rows[i].reply));
        if (strcmp(result, rows[i].expected) != 0)
            fail_msg("%s: %s, not %s", rows[i].reply, result, rows[i].expected);
    }
}

#define CHECK_ROWS(rows, read) check_rows(rows, TEST_COUNT(rows), read)

/* --- HELLO --- */

static const char *version_of(const char *server, const char *version)
{
    AUTOFREE char *bytes = text_printf("%%2\r\n$6\r\nserver\r\n$%zu\r\n%s\r\n$7\r\nversion\r\n$%zu\r\n%s\r\n",
                                       strlen(server), server, strlen(version), version);
    return redis_server_check_hello(reply_of(bytes));
}

TEST_CASE(invalidations_are_in_order_since_redis_7_0_5_and_in_any_valkey)
{
    static const char *const since[] = {"7.0.5", "7.0.10", "7.1.0",       "7.2",
                                        "8.0.0", "10.0.1", "255.255.255", "7.0.5-rc1"};
    static const char *const before[] = {"7.0.4", "7.0", "7", "6.2.99", "6.10.10",
                                         "0.0.0", "",    "x", "-8.0.0", "7..5"};
    for (size_t i = 0; i < TEST_COUNT(since); i++)
        if (version_of("redis", since[i]) != NULL)
            fail_msg("%s", since[i]);
    for (size_t i = 0; i < TEST_COUNT(before); i++)
        if (version_of("redis", before[i]) == NULL || version_of("valkey", before[i]) != NULL)
            fail_msg("%s", before[i]);
}

static const char *hello(const struct redis_reply *reply)
{
    return redis_server_check_hello(reply) == NULL ? "trusted" : "not trusted";
}

TEST_CASE(server_without_name_or_version_is_not_trusted_with_tracking)
{
    static const struct row rows[] = {{"%0\r\n", "not trusted"},
                                      {"*0\r\n", "not trusted"},
                                      {"+OK\r\n", "not trusted"},
                                      {"_\r\n", "not trusted"},
                                      {"%1\r\n$6\r\nserver\r\n:1\r\n", "not trusted"},
                                      {"%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n", "not trusted"},
                                      {"%1\r\n$7\r\nversion\r\n$5\r\n8.0.0\r\n", "not trusted"},
                                      {"%1\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n", "trusted"}};
    CHECK_ROWS(rows, hello);
}

/* --- INFO --- */

enum { SENT_MS = 60000 };

#define UP "master_link_status:up\r\nmaster_last_io_seconds_ago:0\r\n"

static uint64_t sent_ms;
static struct redis_replication replication; /* that all servers of a test have */

/* "master", "replica of host:port, heard 1000 ms before", "not known", or the problem. */
static const char *server_of(const struct redis_reply *reply, enum redis_role_kind wanted)
{
    struct redis_server server;
    redis_server_init(&server, &replication, "r", 1);
    const char *problem = redis_server_take_info(&server, reply, wanted, sent_ms);
    const struct redis_role *role = &server.role;
    if (problem != NULL)
        return problem;
    if (role->kind != REDIS_ROLE_REPLICA)
        return role->kind == REDIS_ROLE_MASTER ? "master" : "not known";
    return text_temp("replica of %s:%d, heard %d ms before", role->master.host, role->master.port,
                     (int)(sent_ms - server.valid_until_ms));
}

static const char *any_server(const struct redis_reply *reply)
{
    return server_of(reply, REDIS_ROLE_UNKNOWN);
}

static const char *wanted_master(const struct redis_reply *reply)
{
    return server_of(reply, REDIS_ROLE_MASTER);
}

/* What is made of this text of INFO. */
static const char *info_of(const char *info, read_fn *read)
{
    AUTOFREE char *bytes = text_printf("=%zu\r\ntxt:%s\r\n", strlen(info) + 4, info);
    return read(reply_of(bytes));
}

static void check_infos(const struct row *rows, size_t count, read_fn *read)
{
    for (size_t i = 0; i < count; i++)
        assert_string_equal(info_of(rows[i].reply, read), rows[i].expected);
}

static const char neither[] = "it is neither a master nor a replica";

TEST_CASE(role_is_master_replica_or_neither)
{
    static const struct row rows[] = {
        {"# Replication\r\nrole:master\r\nconnected_slaves:0\r\n", "master"},
        {"role:master", "master"},
        {"role:slave\r\nmaster_host:a\r\nmaster_port:1\r\n" UP, "replica of a:1, heard 1000 ms before"},
        {UP "master_port:1\r\nmaster_host:redis-0\r\nrole:slave\r\n",
         "replica of redis-0:1, heard 1000 ms before"},
        /* an address that is of no use makes it no less a replica */
        {"role:slave\r\nmaster_host:fe80::1%eth\r\nmaster_port:1\r\n" UP,
         "replica of :0, heard 1000 ms before"},
        {"role:slave\r\nmaster_host:a\r\nmaster_port:70000\r\n" UP, "replica of :0, heard 1000 ms before"},
        {"role:slave\r\nmaster_host:a\r\n" UP, "replica of :0, heard 1000 ms before"},
        {"role:sentinel", neither},
        {"role:masters", neither},
        {"role:", neither},
        {"xrole:master", neither},
        {"", neither}};
    static const struct row others[] = {{"+role:master\r\n", neither},
                                        {"*1\r\n$11\r\nrole:master\r\n", neither},
                                        {":1\r\n", neither},
                                        {"_\r\n", neither},
                                        {"$0\r\n\r\n", neither},
                                        {"$11\r\nrole:master\r\n", "master"},
                                        {"-BUSY Redis is busy\r\n", "BUSY Redis is busy"},
                                        /* it may be used all the same */
                                        {"-NOPERM no\r\n", "not known"},
                                        {"-ERR unknown command 'INFO'\r\n", "not known"}};
    static const struct row wanted[] = {{"-NOPERM no\r\n", "NOPERM no"},
                                        {"-ERR unknown command 'INFO'\r\n", "ERR unknown command 'INFO'"},
                                        {"$10\r\nrole:slave\r\n", "it is not a master"},
                                        {"$11\r\nrole:master\r\n", "master"}};
    sent_ms = SENT_MS;
    check_infos(rows, TEST_COUNT(rows), any_server);
    CHECK_ROWS(others, any_server);
    CHECK_ROWS(wanted, wanted_master);
}

TEST_CASE(replica_is_used_a_second_after_its_link_was_first_seen_up_again)
{
    static const char up[] = "role:slave\r\n" UP;
    static const char down[] = "role:slave\r\nmaster_link_status:down\r\n";
    static const char used[] = "replica of :0, heard 1000 ms before";
    static const char is_down[] = "its link to the master is down";
    static const char was_down[] = "its link to the master was down a moment ago";
    static const struct {
        uint64_t ms;
        const char *info, *expected;
    } steps[] = {{100000, up, used},     {200000, down, is_down}, {205000, up, was_down},
                 {205999, up, was_down}, {206000, up, used},      {206500, down, is_down},
                 {207500, up, was_down}, {207600, down, is_down}, {208600, up, was_down},
                 {209600, up, used},     {900000, up, used}};
    replication = (struct redis_replication){0};
    for (size_t i = 0; i < TEST_COUNT(steps); i++) {
        sent_ms = steps[i].ms;
        assert_string_equal(info_of(steps[i].info, any_server), steps[i].expected);
    }
}

/* Each by a replica that was not seen before. */
static const char *link_of(const struct redis_reply *reply)
{
    struct redis_replication none = {0};
    struct redis_server server;
    redis_server_init(&server, &none, "r", 1);
    const char *problem = redis_server_take_info(&server, reply, REDIS_ROLE_REPLICA, SENT_MS);
    return problem != NULL ? problem : text_temp("%d ms ago", (int)(SENT_MS - server.valid_until_ms));
}

TEST_CASE(link_of_a_replica_is_good_while_its_master_is_heard)
{
    static const char down[] = "its link to the master is down";
    static const char silent[] = "its master has been silent for too long";
    static const char unstated[] = "INFO does not state when its master last sent something";
    static const char no_link[] = "INFO does not describe the link to its master";
    static const struct row rows[] = {
        {"master_link_status:up\r\nmaster_last_io_seconds_ago:0\r\nmaster_sync_in_progress:0", "1000 ms ago"},
        {"master_last_io_seconds_ago:15\r\nmaster_link_status:up", "16000 ms ago"},
        {"master_link_status:up\r\nmaster_last_io_seconds_ago:16", silent},
        {"master_link_status:down\r\nmaster_last_io_seconds_ago:-1", down},
        {"master_link_status:up\r\nmaster_last_io_seconds_ago:1\r\nmaster_sync_in_progress:1", down},
        {"master_link_status:", down},
        {"master_link_status:up", unstated},
        {"master_link_status:up\r\nmaster_last_io_seconds_ago:-1", unstated},
        {"master_link_status:up\r\nmaster_last_io_seconds_ago:x", unstated},
        {"", no_link},
        {"master_link_status", no_link},
        {"xmaster_link_status:up", no_link},
        {"master_link_statusx:up", no_link}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        AUTOFREE char *info = text_printf("# Replication\r\nrole:slave\r\n%s\r\n", rows[i].reply);
        assert_string_equal(info_of(info, link_of), rows[i].expected);
    }
}

static const char *eviction(const struct redis_reply *reply)
{
    struct span policy = redis_server_eviction_policy(reply);
    return policy.data == NULL ? "" : text_temp("%.*s", (int)policy.len, policy.data);
}

TEST_CASE(eviction_policy_is_one_that_needs_no_ttl)
{
    static const struct row rows[] = {
        {"=49\r\ntxt:# Memory\r\nmaxmemory_policy:allkeys-lru\r\nx:1\r\n\r\n", "allkeys-lru"},
        {"$29\r\nmaxmemory_policy:allkeys-lfu\n\r\n", "allkeys-lfu"},
        {"$29\r\nmaxmemory_policy:volatile-lru\r\n", ""},
        {"$12\r\nmaxmemory:10\r\n", ""},
        {"-NOPERM no\r\n", ""},
        {"*1\r\n+maxmemory_policy:allkeys-lru\r\n", ""}};
    CHECK_ROWS(rows, eviction);
}

static const char *availability(const struct redis_reply *error)
{
    return redis_server_is_unavailable(span_of(error->str)) ? "for a while" : "no";
}

TEST_CASE(errors_that_pass_are_known)
{
    static const struct row rows[] = {{"-LOADING x\r\n", "for a while"},
                                      {"-MASTERDOWN x\r\n", "for a while"},
                                      {"-CLUSTERDOWN x\r\n", "for a while"},
                                      {"-TRYAGAIN x\r\n", "for a while"},
                                      {"-BUSY x\r\n", "for a while"},
                                      {"-ERR max number of clients reached\r\n", "for a while"},
                                      {"-ERR x\r\n", "no"},
                                      {"-WRONGPASS x\r\n", "no"},
                                      {"-NOPERM x\r\n", "no"}};
    CHECK_ROWS(rows, availability);
}

/* --- SENTINEL --- */

/* Of a Sentinel that was queried for a replica: "host:port", or the problem. */
static const char *named_master(const struct redis_reply *reply)
{
    static const struct redis_endpoint endpoint = {.discovery = {.replica = true}};
    static struct locator_answer answer;
    const char *problem = sentinel_protocol.read(&endpoint, NULL, 0, reply, &answer);
    return problem != NULL ? problem : text_temp("%s:%d", answer.master.host, answer.master.port);
}

static const char *pair(const char *host, const char *port)
{
    AUTOFREE char *bytes =
        text_printf("*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(host), host, strlen(port), port);
    return named_master(reply_of(bytes));
}

TEST_CASE(sentinel_names_the_master)
{
    static const char bad[] = "its answer is not an address";
    static const char *const hosts[] = {"127.0.0.1", "::1", "fe80::1", "redis-0.redis_h.svc", "R"};
    static const char *const no_hosts[] = {"",     "a b", "a/b", "a\n", "a\x01",
                                           "\xff", "a;b", "a@b", "<a>", "%61"};
    static const char *const no_ports[] = {"",     "0", "65536", "-1", "6379 ", "x", "99999999999999999999",
                                           "06379"};
    static const struct row rows[] = {{"*-1\r\n", "it knows no master of that name"},
                                      {"_\r\n", "it knows no master of that name"},
                                      {"+OK\r\n", bad},
                                      {"*0\r\n", bad},
                                      {"*1\r\n$1\r\na\r\n", bad},
                                      {"*3\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n1\r\n", bad},
                                      {"*2\r\n:1\r\n:1\r\n", bad},
                                      {"*2\r\n$1\r\na\r\n:6379\r\n", bad},
                                      {"*2\r\n*0\r\n$4\r\n6379\r\n", bad},
                                      {"*2\r\n_\r\n_\r\n", bad},
                                      {"%1\r\n$1\r\na\r\n$4\r\n6379\r\n", bad},
                                      {"$6\r\na:6379\r\n", bad}};
    for (size_t i = 0; i < TEST_COUNT(hosts); i++)
        assert_string_equal(pair(hosts[i], "6379"), text_temp("%s:6379", hosts[i]));
    for (size_t i = 0; i < TEST_COUNT(no_hosts); i++)
        assert_string_equal(pair(no_hosts[i], "6379"), bad);
    for (size_t i = 0; i < TEST_COUNT(no_ports); i++)
        assert_string_equal(pair("a", no_ports[i]), bad);
    CHECK_ROWS(rows, named_master);
    assert_string_equal(named_master(reply_parse(SPAN("*2\r\n$3\r\na\0b\r\n$4\r\n6379\r\n"))), bad);
    AUTOFREE char *longer = text_repeat('a', REDIS_HOST_SIZE);
    assert_string_equal(pair(longer, "1"), bad);
    assert_string_equal(pair(longer + 1, "1"), text_temp("%s:1", longer + 1));
}

/* As Sentinel describes a replica, with a few of its thirty members. */
static char *replica(char kind, const char *port, const char *flags, const char *link)
{
    const char *const words[] = {"ip", "10.0.0.1", "port", port, "flags", flags, "master-link-status", link};
    size_t count = TEST_COUNT(words);
    char *text = text_printf("%c%zu\r\n", kind, kind == '%' ? count / 2 : count);
    for (size_t i = 0; i < count; i++) {
        AUTOFREE char *word = text_printf("$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
        text = text_append(text, word);
    }
    return text;
}

/* "replicas N", or the problem. */
static const char *replicas(const struct redis_reply *reply)
{
    static const struct redis_endpoint endpoint = {.discovery = {.replica = true}};
    static struct locator_answer answer;
    const char *problem = sentinel_protocol.read(&endpoint, NULL, 1, reply, &answer);
    return problem != NULL ? problem : text_temp("replicas %d", answer.replicas);
}

TEST_CASE(sentinel_lists_replicas_that_are_up_and_linked)
{
    static const struct {
        const char *flags, *link, *expected;
    } rows[] = {{"slave", "ok", "replicas 1"},
                {"slave,reconf_sent", "ok", "replicas 1"},
                {"slave", "err", "replicas 0"},
                {"slave", "", "replicas 0"},
                {"s_down,slave", "ok", "replicas 0"},
                {"slave,disconnected", "ok", "replicas 0"},
                {"master", "ok", "replicas 0"},
                {"master,s_down", "ok", "replicas 0"},
                {"", "ok", "replicas 0"},
                {",,", "ok", "replicas 0"}};
    for (size_t i = 0; i < 2 * TEST_COUNT(rows); i++) {
        AUTOFREE char *one = replica("*%"[i % 2], "7001", rows[i / 2].flags, rows[i / 2].link);
        AUTOFREE char *list = text_printf("*1\r\n%s", one);
        assert_string_equal(replicas(reply_of(list)), rows[i / 2].expected);
    }
}

TEST_CASE(replicas_that_are_none_or_too_many_are_left_out)
{
    AUTOFREE char *good = replica('*', "7001", "slave", "ok");
    AUTOFREE char *bad = replica('*', "70010x", "slave", "ok");
    AUTOFREE char *list = text_printf(
        "*8\r\n%s%s:1\r\n*0\r\n*1\r\n$5\r\nflags\r\n$-1\r\n*2\r\n:1\r\n:2\r\n%s", good, bad, good);
    AUTOFREE char *many = text_printf("*%d\r\n", LOCATOR_REPLICAS_MAX + 1);
    for (int i = 0; i <= LOCATOR_REPLICAS_MAX; i++)
        many = text_append(many, good);
    assert_string_equal(replicas(reply_of(list)), "replicas 2");
    assert_string_equal(replicas(reply_of(many)), text_temp("replicas %d", LOCATOR_REPLICAS_MAX));
    static const char *const none[] = {"*-1\r\n", "+OK\r\n", ":1\r\n", "-ERR no\r\n", "%0\r\n"};
    for (size_t i = 0; i < TEST_COUNT(none); i++)
        assert_null(strstr(replicas(reply_of(none[i])), "replicas "));
}

/* --- CLUSTER SLOTS --- */

/* Of the node "asked", for slot 100: "master; node ...", or the problem. */
static const char *slots(const struct redis_reply *reply)
{
    static char host[] = "asked";
    static const struct redis_endpoint endpoint = {.discovery = {.slot = 100}};
    static const struct redis_endpoint asked = {.host = host};
    static struct locator_answer answer;
    static char out[4096];
    const char *problem = cluster_protocol.read(&endpoint, &asked, 0, reply, &answer);
    if (problem != NULL)
        return problem;
    size_t n = (size_t)snprintf(out, sizeof out, "%s:%d;", answer.master.host, answer.master.port);
    for (int i = 0; i < answer.nodes; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, " %s:%d", answer.node[i].host, answer.node[i].port);
    return out;
}

#define NODE(len, host, port)                 "*3\r\n$" len "\r\n" host "\r\n:" port "\r\n$2\r\nid\r\n"
#define RANGE(count, first, last)             "*" count "\r\n:" first "\r\n:" last "\r\n"
#define ALL                                   "*1\r\n" RANGE("3", "0", "16383")
#define METADATA(len, name, value_len, value) "%1\r\n$" len "\r\n" name "\r\n$" value_len "\r\n" value "\r\n"
#define UNNAMED(port, metadata)               "*4\r\n$1\r\n?\r\n:" port "\r\n$1\r\ni\r\n" metadata

TEST_CASE(slots_name_the_master_and_other_nodes)
{
    static const struct row rows[] = {
        {"*3\r\n" RANGE("3", "0", "99") NODE("1", "a", "1") RANGE("5", "100", "100") NODE("1", "b", "2")
             NODE("1", "c", "3") NODE("5", "10::1", "4") RANGE("4", "101", "16383") NODE("1", "a", "1")
                 NODE("4", "d.-_", "65535"),
         "b:2; a:1 b:2 c:3 10::1:4 d.-_:65535"},
        /* without a host: the node that was asked */
        {ALL NODE("0", "", "1"), "asked:1; asked:1"},
        {ALL "*2\r\n$-1\r\n:7\r\n", "asked:7; asked:7"},
        {ALL "*4\r\n$1\r\na\r\n:7\r\n$1\r\ni\r\n*2\r\n$2\r\nip\r\n$1\r\nx\r\n", "a:7; a:7"},
        /* "?" is a node without a host name, which need not be the one that was asked */
        {ALL UNNAMED("7", METADATA("2", "ip", "8", "10.0.0.1")), "10.0.0.1:7; 10.0.0.1:7"},
        {ALL UNNAMED("7", METADATA("8", "hostname", "4", "name")), "its answer is not an address"},
        {ALL UNNAMED("7", METADATA("2", "ip", "0", "")), "asked:7; asked:7"},
        {ALL NODE("1", "?", "1"), "its answer is not an address"},
        {ALL UNNAMED("7", "*0\r\n"), "its answer is not an address"},
        {"*1\r\n" RANGE("5", "0", "16383") NODE("1", "a", "1") NODE("1", "?", "2")
             UNNAMED("3", METADATA("2", "ip", "8", "10.0.0.1")),
         "a:1; a:1 10.0.0.1:3"},
        /* a replica or a node that cannot be read is left out */
        {"*2\r\n" RANGE("5", "0", "100") NODE("1", "a", "1") "*0\r\n" NODE("1", "b", "2") "*0\r\n",
         "a:1; a:1 b:2"}};
    CHECK_ROWS(rows, slots);
}

TEST_CASE(slots_of_any_shape_are_refused)
{
    static const char none[] = "it knows no node that has the slot";
    static const char bad[] = "its answer is not an address";
    static const struct row rows[] = {
        {"*0\r\n", none},
        {"*1\r\n$-1\r\n", none},
        {"*1\r\n:100\r\n", none},
        {"*1\r\n*0\r\n", none},
        {"*1\r\n*2\r\n:0\r\n:16383\r\n", none},
        {"*1\r\n*3\r\n$1\r\n0\r\n:16383\r\n" NODE("1", "a", "1"), none},
        {"*1\r\n*3\r\n:0\r\n$5\r\n16383\r\n" NODE("1", "a", "1"), none},
        {"*1\r\n" RANGE("3", "101", "16383") NODE("1", "a", "1"), none},
        {"*1\r\n" RANGE("3", "16383", "0") NODE("1", "a", "1"), none},
        {"*1\r\n" RANGE("3", "-9223372036854775808", "99") NODE("1", "a", "1"), none},
        {ALL "$1\r\na\r\n", bad},
        {ALL "*0\r\n", bad},
        {ALL "*1\r\n$1\r\na\r\n", bad},
        {ALL "*2\r\n:1\r\n:1\r\n", bad},
        {ALL "*2\r\n$1\r\na\r\n$1\r\n1\r\n", bad},
        {ALL NODE("1", "a", "0"), bad},
        {ALL NODE("1", "a", "65536"), bad},
        {ALL NODE("3", "a b", "1"), bad},
        {ALL NODE("3", "a/b", "1"), bad},
        {"+OK\r\n", "its answer is not a list of slots"},
        {"%1\r\n+a\r\n+b\r\n", "its answer is not a list of slots"}};
    CHECK_ROWS(rows, slots);
}

TEST_CASE(nodes_of_a_slot_are_bounded)
{
    enum { MANY = 100 };
    static char host[] = "asked";
    static const struct redis_endpoint endpoint = {.discovery = {.slot = 100}};
    static const struct redis_endpoint asked = {.host = host};
    static struct locator_answer answer;
    AUTOFREE char *text = text_printf("*1\r\n*%d\r\n:0\r\n:16383\r\n", MANY + 2);
    for (int i = 0; i < MANY; i++) {
        AUTOFREE char *node = text_printf("*3\r\n$1\r\na\r\n:%d\r\n$1\r\ni\r\n", i + 1);
        text = text_append(text, node);
    }
    assert_null(cluster_protocol.read(&endpoint, &asked, 0, reply_of(text), &answer));
    assert_int_equal(answer.nodes, LOCATOR_NODES_MAX);
}

/* --- errors of nodes --- */

/* "MOVED host:port", "ASK host:port", "LEFT", or "". */
static const char *redirection(const struct redis_reply *error)
{
    const struct redis_address here = {.host = "here", .port = 1};
    struct redis_address node = {.host = "", .port = 0};
    if (cluster_read_redirection(error, SPAN("ASK "), &here, &node))
        return text_temp("ASK %s:%d", node.host, node.port);
    if (!cluster_is_left(error))
        return cluster_is_migrating(error) ? "MIGRATING" : "";
    if (!cluster_read_redirection(error, SPAN("MOVED "), &here, &node))
        return "LEFT";
    return text_temp("MOVED %s:%d", node.host, node.port);
}

TEST_CASE(errors_name_a_node)
{
    static const struct row rows[] = {{"-MOVED 3999 127.0.0.1:6381\r\n", "MOVED 127.0.0.1:6381"},
                                      {"-MOVED 3999 ::1:6381\r\n", "MOVED ::1:6381"},
                                      {"-MOVED 3999 :6381\r\n", "MOVED here:6381"},
                                      {"-MOVED 3999 ?:6381\r\n", "LEFT"},
                                      {"-ASK 3999 10.0.0.1:6381\r\n", "ASK 10.0.0.1:6381"},
                                      {"-ASK 3999 :6381\r\n", "ASK here:6381"},
                                      {"-ASK 3999 ?:6381\r\n", "MIGRATING"},
                                      {"-CLUSTERDOWN Hash slot not served\r\n", "LEFT"},
                                      {"-TRYAGAIN x\r\n", "MIGRATING"},
                                      /* the slot is elsewhere, wherever that is */
                                      {"-MOVED \r\n", "LEFT"},
                                      {"-MOVED 1\r\n", "LEFT"},
                                      {"-MOVED 1 a\r\n", "LEFT"},
                                      {"-MOVED 1 a:\r\n", "LEFT"},
                                      {"-MOVED 1 a:0\r\n", "LEFT"},
                                      {"-MOVED 1 a:65536\r\n", "LEFT"},
                                      {"-MOVED 1 a/b:1\r\n", "LEFT"},
                                      {"-MOVED 1 a:1 \r\n", "LEFT"},
                                      {"-ASK \r\n", "MIGRATING"},
                                      {"-ASK 1 a:x\r\n", "MIGRATING"},
                                      {"-MOVEDX 1 a:1\r\n", ""},
                                      {"-ERR MOVED\r\n", ""},
                                      {"+MOVED 1 a:1\r\n", ""},
                                      {"$-1\r\n", ""}};
    CHECK_ROWS(rows, redirection);
}
