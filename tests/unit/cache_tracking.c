/*
 * The cache and a Redis that the test simulates: its data, its tracking table, and the one stream on which
 * replies and invalidations come. Requests, changes, evictions from the table, a loss of all data and lost
 * connections happen in a random order, with commands and replies under way at any time. Whenever everything
 * has arrived, each answer must be what Redis holds: nothing is cached that no invalidation can reach. At any
 * time an answer by link is a card with that link; link keys are only read, and never tracked.
 */
#include "cache/cache.h"
#include "cache/key_reader.h"

#include "redis/connection.h"
#include "redis/redirect.h"
#include "unit/entries_check.h"
#include "unit/fake_redis.h"
#include "unit/fixtures/cache_clock.h"
#include "unit/fixtures/redis_config.h"

#include <stdlib.h>

enum {
    CARDS = 6,
    LINKS = 3,
    KEYS = 2,
    FIRST_LINK = CARDS,
    INDEX = FIRST_LINK + LINKS,
    API_KEYS,
    API_KEY_INFO,
    OBJECTS,
    REQUESTS = 6,
    ROUNDS = 60,
    STEPS = 40,
    SEEDS_UNTIL_NOTICED = 150, /* at most: how soon depends on the object */
#if defined(__SANITIZE_THREAD__)
    SEEDS = 8 /* forty times slower, and there is one thread only */
#elif defined(__SANITIZE_ADDRESS__)
    SEEDS = 40 /* ten times slower */
#else
    SEEDS = 150
#endif
};

static uint64_t seed;

static unsigned pick(unsigned count)
{
    return check_random(&seed) % count;
}

/* ---- what Redis holds ---- */

enum { INFO_NONE, INFO_EXPIRED, INFO_NAMED, NAMES = 3 };

/* The card of channel i is at i - 1: its version, 0 where there is none. */
struct data {
    int card[CARDS];
    int own[CARDS]; /* the number of its link; LINKS: none */
    bool indexed[CARDS];
    int link[LINKS]; /* the id that its key leads to; 0: none */
    bool key[KEYS];
    int info[KEYS]; /* of each: INFO_NONE, INFO_EXPIRED, or the number in its name */
    int other_keys; /* in the set as well, and nobody's */
};

static struct data data, lost;
static bool is_lost;

/* ---- its tracking table, and the stream ---- */

struct sent {
    bool is_push;
    bool is_untracked;
    char text[1024]; /* of the command, until it is executed; then the reply or the name; "": everything */
    redis_connection_reply_fn fn;
    void *arg;
};

enum { SENT_MAX = 4096 };

static struct {
    struct sent at[SENT_MAX];
    int first, count;
} commands, stream; /* not executed yet; not arrived yet */

static bool broadcast;
static unsigned untracked; /* a set of objects, of which Redis forgets that they were read: a fault */
static bool tracked[OBJECTS];
static bool turn_changed[OBJECTS]; /* a broadcast tells at the end of the turn */
static int turn_open;              /* so many at the end of the stream wait for that too */
static bool executed; /* one of our commands, in this turn: those of one client have no others between */
static bool changed_behind; /* and something after it */

static struct sent *append(bool is_push, const char *text)
{
    assert_true(stream.first + stream.count < SENT_MAX);
    struct sent *s = &stream.at[stream.first + stream.count++];
    *s = (struct sent){.is_push = is_push};
    (void)snprintf(s->text, sizeof s->text, "%s", text);
    turn_open++;
    return s;
}

static const char *name_of(int object)
{
    static char name[32];
    if (object < FIRST_LINK)
        (void)snprintf(name, sizeof name, "test:card:%d", object + 1);
    else if (object < INDEX)
        (void)snprintf(name, sizeof name, "test:link:%d", object - FIRST_LINK);
    else
        (void)snprintf(name, sizeof name, "test:%s",
                       object == INDEX      ? "index"
                       : object == API_KEYS ? "api_keys"
                                            : "api_key_info");
    return name;
}

static int object_of(const char *name)
{
    int object = 0;
    while (object < OBJECTS && strcmp(name_of(object), name) != 0)
        object++;
    assert_true(object < OBJECTS);
    return object;
}

static bool is_link(int object)
{
    return object >= FIRST_LINK && object < INDEX;
}

static void changed(int object)
{
    changed_behind = changed_behind || executed;
    if (broadcast)
        turn_changed[object] = true;
    else if (tracked[object])
        (void)append(true, name_of(object));
    tracked[object] = false;
}

static void end_turn(void)
{
    for (int i = 0; i < OBJECTS; i++) {
        if (turn_changed[i])
            (void)append(true, name_of(i));
        turn_changed[i] = false;
    }
    turn_open = 0;
    executed = changed_behind = false;
}

/* ---- commands ---- */

static int64_t count_of(const bool *set, int size)
{
    int64_t count = 0;
    for (int i = 0; i < size; i++)
        count += set[i];
    return count;
}

static char digit_of(int key)
{
    return (char)('a' + key);
}

/* The digests of the keys from `from` on, as words. */
static const char *members(int from, int to)
{
    static char words[KEYS * 80];
    size_t len = 0;
    words[0] = '\0';
    for (int i = from; i < to; i++) {
        for (int byte = 0; data.key[i] && byte < DIGEST_LEN; byte++)
            len += (size_t)snprintf(words + len, sizeof words - len, "%02x", digit_of(i));
        len += (size_t)snprintf(words + len, sizeof words - len, " ");
    }
    return words;
}

static const char *indexed(void)
{
    static char words[64];
    size_t len = 0;
    words[0] = '\0';
    for (int i = 0; i < CARDS; i++)
        if (data.indexed[i])
            len += (size_t)snprintf(words + len, sizeof words - len, "%d ", i + 1);
    return words;
}

static void reply_row_of(int id, size_t fields)
{
    static const char *const links[] = {"0", "1", "2", NULL};
    char number[16];
    char title[16];
    int version = data.card[id - 1];
    size_t summary = 0;
    const struct row_values values = {number, title, NULL, links[data.own[id - 1]]};
    const struct row_values none = {0};
    (void)channel_shape_fields(CHANNEL_SUMMARY, &summary);
    (void)snprintf(number, sizeof number, "%d", id);
    (void)snprintf(title, sizeof title, "v%d", version);
    (void)reply_values(fields == summary ? CHANNEL_SUMMARY : CHANNEL_CARD, version == 0 ? &none : &values);
}

/* The set is read in two portions, and each key is in another one. The keys of others are no digests. */
static void reply_portion(const char *cursor)
{
    char text[1024];
    char words[1024];
    bool first = strcmp(cursor, "0") == 0;
    size_t words_len = (size_t)snprintf(words, sizeof words, "%s", first ? members(0, 1) : members(1, KEYS));
    bool others = first && count_of(data.key, KEYS) > 0;
    for (int i = 0; others && i < data.other_keys && i < KEY_READER_PORTION; i++)
        words_len += (size_t)snprintf(words + words_len, sizeof words - words_len, "x ");
    (void)reply_words(words);
    size_t len = strlen(fake_redis.text);
    assert_true(len < sizeof text);
    memcpy(text, fake_redis.text, len + 1);
    (void)snprintf(fake_redis.text, sizeof fake_redis.text, "*2\r\n$1\r\n%c\r\n%s", first ? '1' : '0', text);
}

/* The info of the key whose digest is at `hex`, as a reply; returns its length. */
static size_t write_info(const char *hex, char *out, size_t size)
{
    static const char expired[] = "{\"expires\":\"2026-01-01T00:00:00Z\"}";
    char text[64];
    int info = data.info[hex[1] - '1'];
    (void)snprintf(text, sizeof text, "{\"name\":\"n%d\",\"expires\":\"2026-01-01T00:00:01Z\"}", info);
    if (info == INFO_NONE)
        return (size_t)snprintf(out, size, "_\r\n");
    const char *shown = info == INFO_EXPIRED ? expired : text;
    return (size_t)snprintf(out, size, "$%zu\r\n%s\r\n", strlen(shown), shown);
}

/* `digests`: each with a space in front. */
static void reply_infos(const char *digests, size_t count)
{
    size_t len = (size_t)snprintf(fake_redis.text, sizeof fake_redis.text, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++)
        len += write_info(digests + i * (DIGEST_HEX_LEN + 1) + 1, fake_redis.text + len,
                          sizeof fake_redis.text - len);
}

/* `digests`: each with a space in front. */
static void reply_members(const char *digests, size_t count)
{
    char digest[DIGEST_HEX_LEN + 1] = "";
    size_t len = (size_t)snprintf(fake_redis.text, sizeof fake_redis.text, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++) {
        memcpy(digest, digests + i * (DIGEST_HEX_LEN + 1) + 1, DIGEST_HEX_LEN);
        len += (size_t)snprintf(fake_redis.text + len, sizeof fake_redis.text - len, ":%d\r\n",
                                strstr(members(0, KEYS), digest) != NULL);
    }
}

static int64_t count_infos(void)
{
    int64_t count = 0;
    for (int i = 0; i < KEYS; i++)
        count += data.info[i] != INFO_NONE;
    return count;
}

static void reply_link(int id)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%d", id);
    if (id == 0)
        (void)snprintf(fake_redis.text, sizeof fake_redis.text, "_\r\n");
    else
        (void)reply_string(text);
}

/* Leaves the reply in fake_redis.text. */
static void execute_command(const char *name, int object, const char *third, const char *text, size_t fields)
{
    int64_t keys = count_of(data.key, KEYS);
    if (strcmp(name, "HLEN") == 0)
        (void)reply_integer(count_infos());
    else if (strcmp(name, "HGET") == 0)
        (void)write_info(third, fake_redis.text, sizeof fake_redis.text);
    else if (object == API_KEY_INFO)
        reply_infos(strchr(strchr(text, ' ') + 1, ' '), fields);
    else if (strcmp(name, "HMGET") == 0)
        reply_row_of(object + 1, fields);
    else if (strcmp(name, "GET") == 0)
        reply_link(data.link[object - FIRST_LINK]);
    else if (strcmp(name, "ZCARD") == 0)
        (void)reply_integer(count_of(data.indexed, CARDS));
    else if (strcmp(name, "ZRANGE") == 0)
        (void)reply_words(strcmp(third, "0") == 0 ? indexed() : "");
    else if (strcmp(name, "SCARD") == 0)
        (void)reply_integer(keys == 0 ? 0 : keys + data.other_keys);
    else if (strcmp(name, "SMISMEMBER") == 0)
        reply_members(strchr(strchr(text, ' ') + 1, ' '), fields);
    else if (strcmp(name, "SSCAN") == 0)
        reply_portion(third);
    else if (strcmp(name, "SISMEMBER") == 0)
        (void)reply_integer(strstr(members(0, KEYS), third) != NULL);
    else
        fail_msg("%s is not simulated", name);
}

static void execute(void)
{
    char name[16];
    char key[32];
    char third[80] = "";
    assert_true(commands.count > 0);
    if (broadcast && changed_behind)
        end_turn();
    executed = true;
    const struct sent command = commands.at[commands.first++];
    commands.count--;
    int words = sscanf(command.text, "%15s %31s %79s", name, key, third);
    if (words == 1) {
        (void)snprintf(fake_redis.text, sizeof fake_redis.text, "+PONG\r\n");
    } else {
        int object = object_of(key);
        size_t fields = 0;
        for (const char *at = command.text; *at != '\0'; at++)
            fields += *at == ' ';
        execute_command(name, object, third, command.text, fields - 1);
        assert_int_equal(is_link(object), command.is_untracked);
        tracked[object] = tracked[object] || (!command.is_untracked && (untracked & 1U << object) == 0);
    }
    struct sent *reply = append(false, fake_redis.text);
    reply->fn = command.fn;
    reply->arg = command.arg;
}

/* ---- the connection, in place of the real one ---- */

struct redis_connection {
    struct redis_connection_options options;
    bool up, ready, ping_pending;
    bool was_ready; /* permissions are checked before that only */
};

static struct redis_connection connection;

int redis_connection_new(uv_loop_t *loop, const struct redis_connection_options *options,
                         struct redis_connection **out)
{
    (void)loop;
    connection = (struct redis_connection){.options = *options};
    *out = &connection;
    return 0;
}

static void fail_all(void)
{
    while (stream.count > 0) {
        const struct sent s = stream.at[stream.first++];
        stream.count--;
        if (!s.is_push)
            s.fn(s.arg, NULL);
    }
    while (commands.count > 0) {
        const struct sent s = commands.at[commands.first++];
        commands.count--;
        s.fn(s.arg, NULL);
    }
    stream.first = commands.first = turn_open = 0;
    memset(tracked, 0, sizeof tracked);
    memset(turn_changed, 0, sizeof turn_changed);
}

static void lose(void)
{
    bool was_ready = connection.ready;
    connection.up = connection.ready = connection.ping_pending = false;
    if (was_ready)
        connection.options.on_lost(connection.options.arg);
    fail_all();
}

void redis_connection_close(struct redis_connection *c, void (*closed)(void *arg), void *arg)
{
    c->up = c->ready = false;
    fail_all();
    closed(arg);
}

void redis_connection_accept(struct redis_connection *c)
{
    c->ready = c->was_ready = true;
    c->options.on_ready(c->options.arg);
}

void redis_connection_fail(struct redis_connection *c, const char *why)
{
    assert_non_null(strstr(why, "no catalogue"));
    (void)c;
    lose();
}

bool redis_connection_is_ready(const struct redis_connection *c)
{
    return c->ready;
}

bool redis_connection_is_tracking(const struct redis_connection *c)
{
    return c->ready;
}

bool redis_connection_is_drained(struct redis_connection *c, uint64_t at_ms)
{
    (void)at_ms;
    assert_true(c->ready);
    return true;
}

uint64_t redis_connection_last_pong_ms(const struct redis_connection *c)
{
    (void)c;
    return clock_ms;
}

uint64_t redis_connection_valid_until_ms(const struct redis_connection *c)
{
    (void)c;
    return UINT64_MAX;
}

static struct sent *queue(const char *text, redis_connection_reply_fn fn, void *arg)
{
    assert_true(commands.first + commands.count < SENT_MAX);
    struct sent *s = &commands.at[commands.first + commands.count++];
    *s = (struct sent){.fn = fn, .arg = arg};
    (void)snprintf(s->text, sizeof s->text, "%s", text);
    return s;
}

static int queue_words(struct redis_connection *c, struct span command, bool is_untracked,
                       redis_connection_reply_fn fn, void *arg)
{
    char text[512];
    size_t len = 0;
    const redisReply *words = reply_parse(command);
    if (!c->up)
        return -ENOTCONN;
    for (size_t i = 0; i < words->elements; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s", i == 0 ? "" : " ",
                                (int)words->element[i]->len, words->element[i]->str);
    queue(text, fn, arg)->is_untracked = is_untracked;
    return 0;
}

int redis_connection_send_command(struct redis_connection *c, struct span command,
                                  redis_connection_reply_fn fn, void *arg)
{
    return queue_words(c, command, false, fn, arg);
}

int redis_connection_send_untracked(struct redis_connection *c, struct span command,
                                    redis_connection_reply_fn fn, void *arg)
{
    return queue_words(c, command, true, fn, arg);
}

/* There is no cluster. */
bool redis_connection_is_usable(const struct redis_connection *c)
{
    return c->up;
}

bool redis_connection_elsewhere(const struct redis_connection *c, const redisReply *reply,
                                struct redis_address *node)
{
    (void)c;
    (void)reply;
    (void)node;
    return false;
}

int redirects_new(uv_loop_t *on_loop, const struct redirects_options *options, struct redirects **out)
{
    (void)on_loop;
    (void)options;
    (void)out;
    return -ENOTSUP;
}

void redirects_close(struct redirects *r, void (*closed)(void *arg), void *arg)
{
    (void)r;
    closed(arg);
}

int redirects_send(struct redirects *r, const struct redis_address *node, struct span command,
                   redis_connection_reply_fn fn, void *arg)
{
    (void)r;
    (void)node;
    (void)command;
    (void)fn;
    (void)arg;
    return -ENOTSUP;
}

void redirects_cancel(struct redirects *r, const void *arg)
{
    (void)r;
    (void)arg;
}

static void on_pong(void *arg, const redisReply *reply)
{
    struct redis_connection *c = arg;
    c->ping_pending = false;
    if (reply != NULL)
        c->options.on_heartbeat(c->options.arg);
}

static void heartbeat(struct redis_connection *c)
{
    if (!c->ready || c->ping_pending)
        return;
    c->ping_pending = true;
    (void)queue("PING", on_pong, c);
}

/* The check of permissions, of which only errors count. */
static void permit(void)
{
    for (int checks = commands.count; checks > 0; checks--) {
        const struct sent command = commands.at[commands.first++];
        commands.count--;
        command.fn(command.arg, reply_integer(0));
    }
}

static void connect_redis(void)
{
    connection.up = true;
    connection.options.on_handshake_done(connection.options.arg);
    if (!connection.was_ready)
        permit();
}

/* The next reply or invalidation arrives; those of the turn that goes on have not been sent. */
static void deliver(void)
{
    static struct resp_parser parser; /* not that of the commands, which are sent meanwhile */
    const redisReply *reply = NULL;
    if (stream.count <= turn_open)
        return;
    const struct sent s = stream.at[stream.first++];
    char text[1100];
    stream.count--;
    if (s.is_push && s.text[0] != '\0')
        (void)snprintf(text, sizeof text, "$%zu\r\n%s\r\n", strlen(s.text), s.text);
    else
        (void)snprintf(text, sizeof text, "%s", s.is_push ? "_\r\n" : s.text);
    struct span bytes = span_of(text);
    resp_init(&parser);
    assert_int_equal(resp_parse(&parser, &bytes, &reply), RESP_REPLY);
    if (!s.is_push)
        s.fn(s.arg, reply);
    else if (connection.ready)
        connection.options.on_push(connection.options.arg, SPAN("invalidate"), reply);
    resp_fini(&parser);
}

/* ---- the cache, and requests ---- */

static uv_loop_t loop;
static struct keyspace keyspace;
static struct cache_metrics metrics;
static struct redis_metrics redis_metrics;
static struct loop_lag loop_lag;
static struct cache *cache;
static int differences; /* answers that were not what Redis held */

static struct asked {
    struct cache_request request;
    bool waits;
    struct cache_query query;
    int key;
    enum cache_status status;
    char name[API_KEY_NAME_MAX + 1];
    char body[4096];
} asked[REQUESTS + 1];

static bool never_valid; /* key 1 is either in the set and expired, or neither in it nor has an info */

static void differ(const struct asked *a)
{
    differences++;
    if (untracked == 0)
        print_error("query %d of %d by key %d (%s): %d %s\n", (int)a->query.type, (int)a->query.number,
                    a->key, a->name, (int)a->status, a->body);
}

/* Of a query by link, even if the card or its link changes all the time. */
static bool has_link(const struct asked *a)
{
    char link[32];
    (void)snprintf(link, sizeof link, "\"link\":\"%.*s\"", (int)a->query.link.len, a->query.link.data);
    return a->query.type != QUERY_CARD_BY_LINK || strstr(a->body, link) != NULL;
}

/* Card 1 always exists, in Redis or among what it has lost, and key 0 is never revoked. */
static void take(struct asked *a, const struct cache_result *result)
{
    bool always = a->query.type == QUERY_CARD && a->query.number == 1 && a->key == 0;
    a->waits = false;
    a->status = result->status;
    a->body[0] = a->name[0] = '\0';
    if (result->key_name != NULL && result->key_name->len > 0)
        (void)snprintf(a->name, sizeof a->name, "%.*s", result->key_name->len, result->key_name->text);
    if (result->body != NULL)
        (void)snprintf(a->body, sizeof a->body, "%.*s", (int)result->body->len, result->body->data);
    blob_unref(result->body);
    if ((always && a->status == CACHE_NOT_FOUND) || (a->key == 0 && a->status == CACHE_KEY_INVALID))
        differ(a);
    if (a->status == CACHE_FOUND && !has_link(a))
        differ(a);
    bool accepted = a->status == CACHE_FOUND || a->status == CACHE_NOT_FOUND;
    if (never_valid && a->key == 1 && accepted && result->source == CACHE_SOURCE_HIT)
        differ(a);
}

static void on_done(void *arg, const struct cache_result *result)
{
    take(arg, result);
}

static void ask(struct asked *a, enum cache_query_type type, int number, int key)
{
    static const struct span links[LINKS] = {{"0", 1}, {"1", 1}, {"2", 1}};
    struct cache_result result;
    *a = (struct asked){.request = {.done = on_done, .arg = a}, .waits = true, .key = key};
    a->query = (struct cache_query){.type = type, .number = number};
    if (type == QUERY_CARD_BY_LINK)
        a->query = (struct cache_query){.type = type, .link = links[number]};
    memset(&a->query.key, digit_of(key), sizeof a->query.key);
    if (cache_get(cache, &a->request, &a->query, &result))
        take(a, &result);
}

static void on_connection(void *arg, bool ready)
{
    (void)arg;
    (void)ready;
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

/* ---- what happens ---- */

/* In one transaction, or its info alone. */
static void change_key(bool with_info)
{
    if (with_info || never_valid) {
        data.key[1] ^= true;
        data.info[1] = !data.key[1] ? INFO_NONE : never_valid ? INFO_EXPIRED : (int)pick(INFO_NAMED + NAMES);
        changed(API_KEYS);
    } else {
        data.info[1] = (int)pick(INFO_NAMED + NAMES);
        data.info[0] = INFO_NAMED + (int)pick(NAMES);
    }
    changed(API_KEY_INFO);
}

/* In one transaction: the link leads to the card, which has it, and its key before leads nowhere. */
static void move_link(int link, int card)
{
    int old = data.own[card];
    data.own[card] = link;
    data.card[card] += data.card[card] > 0;
    changed(card);
    if (old < LINKS && data.link[old] == card + 1) {
        data.link[old] = 0;
        changed(FIRST_LINK + old);
    }
    data.link[link] = card + 1;
    changed(FIRST_LINK + link);
}

/* In one transaction. */
static void exchange_links(int a, int b)
{
    int old = data.own[a];
    if (old == LINKS || data.own[b] == LINKS || a == b)
        return;
    move_link(data.own[b], a);
    move_link(old, b);
}

/* What loaders should do, or only a key: to nowhere, or to a card that has another link. */
static void change_link(int link)
{
    switch (pick(3)) {
    case 0:
        data.link[link] = (int)pick(CARDS + 1);
        changed(FIRST_LINK + link);
        break;
    case 1:
        move_link(link, (int)pick(CARDS));
        break;
    default:
        exchange_links((int)pick(CARDS), (int)pick(CARDS));
        break;
    }
}

static void change(void)
{
    int object = (int)pick(OBJECTS);
    if (is_lost)
        return;
    if (is_link(object)) {
        change_link(object - FIRST_LINK);
        return;
    }
    if (object < FIRST_LINK)
        data.card[object] = object > 0 && pick(4) == 0 ? 0 : data.card[object] + 1 + (int)pick(3);
    else if (object == INDEX)
        data.indexed[1 + pick(CARDS - 1)] ^= true;
    else if (object == API_KEYS && !never_valid && pick(2) == 0)
        data.key[1] ^= true;
    else
        change_key(object == API_KEYS);
    if (object < API_KEYS || (object == API_KEYS && !never_valid))
        changed(object);
}

/* Atomically, and by FLUSHALL or by DEL. */
static void lose_all(bool by_flush)
{
    lost = data;
    is_lost = true;
    data = (struct data){.other_keys = data.other_keys};
    if (!by_flush) {
        for (int i = 0; i < OBJECTS; i++)
            changed(i);
        return;
    }
    memset(tracked, 0, sizeof tracked);
    memset(turn_changed, 0, sizeof turn_changed);
    (void)append(true, "");
}

static void restore_data(void)
{
    if (!is_lost)
        return;
    is_lost = false;
    data = lost;
    for (int i = 0; i < OBJECTS; i++)
        changed(i);
}

static void evict(void)
{
    int object = (int)pick(OBJECTS);
    if (!broadcast)
        changed(object); /* the same to the client */
}

static void request(void)
{
    struct asked *a = &asked[pick(REQUESTS)];
    if (a->waits && pick(8) == 0) {
        cache_cancel(&a->request);
        a->waits = false;
    }
    if (a->waits)
        return;
    int key = pick(4) == 0;
    switch (pick(4)) {
    case 0:
        ask(a, QUERY_CARD, 1 + (int)pick(CARDS), key);
        break;
    case 1:
        ask(a, QUERY_CARD_BY_LINK, (int)pick(LINKS), key);
        break;
    default:
        ask(a, QUERY_PAGE, 1 + (pick(5) == 0), key);
        break;
    }
}

static void execute_one(void)
{
    if (commands.count > 0)
        execute();
}

static void lose_data(void)
{
    if (!is_lost)
        lose_all(pick(2) == 0);
}

static void let_time_pass(void)
{
    clock_ms += pick(2) == 0 ? pick(150) : pick(2500); /* the keys used last are checked once a second */
    heartbeat(&connection);
}

static void reconnect(void)
{
    lose();
    connect_redis();
}

static void step(void)
{
    static const struct {
        unsigned weight;
        void (*happens)(void);
    } events[] = {{20, request}, {14, execute_one}, {10, deliver},      {6, change},    {4, end_turn},
                  {1, evict},    {4, restore_data}, {2, let_time_pass}, {2, lose_data}, {1, reconnect}};
    unsigned number = pick(64);
    size_t i = 0;
    for (; number >= events[i].weight; i++)
        number -= events[i].weight;
    events[i].happens();
}

/* A request waits while nothing is under way: for the pause between two checks of keys. */
static bool is_pausing(void)
{
    bool waits = false;
    for (size_t i = 0; i < TEST_COUNT(asked); i++)
        waits = waits || asked[i].waits;
    return waits && commands.count == 0 && stream.count == 0;
}

/* Everything arrives. */
static void settle(void)
{
    restore_data();
    end_turn();
    for (int i = 0; commands.count > 0 || stream.count > 0 || !connection.ready || is_pausing(); i++) {
        assert_true(i < 10000);
        if (connection.ready && is_pausing()) {
            clock_ms += 10;
            heartbeat(&connection);
        }
        if (!connection.up)
            connect_redis();
        while (commands.count > 0)
            execute();
        end_turn();
        while (stream.count > 0 && turn_open < stream.count)
            deliver();
    }
    stream.first = commands.first = 0;
}

/* ---- what is compared ---- */

static void compare_card(const struct asked *a, int id)
{
    int version = id == 0 ? 0 : data.card[id - 1];
    char title[32];
    (void)snprintf(title, sizeof title, "\"title\":\"v%d\"", version);
    if (version == 0 ? a->status != CACHE_NOT_FOUND
                     : a->status != CACHE_FOUND || strstr(a->body, title) == NULL)
        differ(a);
}

/* Any card that has the link will do, also one that its key does not lead to; has_link() has been checked. */
static void compare_linked(const struct asked *a, int link)
{
    int id = data.link[link];
    bool exists = id != 0 && data.card[id - 1] != 0 && data.own[id - 1] == link;
    if (a->status == CACHE_NOT_FOUND) {
        if (exists)
            differ(a);
        return;
    }
    const char *at = strstr(a->body, "\"max_channel_id\":");
    id = at == NULL ? 0 : at[strlen("\"max_channel_id\":")] - '0';
    if (id < 1 || id > CARDS || data.own[id - 1] != link)
        differ(a);
    else
        compare_card(a, id);
}

static void compare_page(const struct asked *a)
{
    const char *at = a->body;
    for (int i = 0; i < CARDS && a->query.number == 1; i++) {
        char item[64];
        if (!data.indexed[i] || data.card[i] == 0)
            continue;
        (void)snprintf(item, sizeof item, "{\"max_channel_id\":%d,\"title\":\"v%d\"", i + 1, data.card[i]);
        at = strstr(at, item);
        if (at == NULL) {
            differ(a);
            return;
        }
        at += strlen(item);
    }
    if (a->status != CACHE_FOUND || strstr(at, "max_channel_id") != NULL)
        differ(a);
}

static void compare(enum cache_query_type type, int number, int key)
{
    struct asked *a = &asked[REQUESTS];
    ask(a, type, number, key);
    if (a->waits)
        settle();
    assert_false(a->waits);
    bool valid = data.key[key] && data.info[key] != INFO_EXPIRED;
    char name[16] = "";
    if (valid && data.info[key] >= INFO_NAMED)
        (void)snprintf(name, sizeof name, "n%d", data.info[key]);
    if ((a->status == CACHE_KEY_INVALID) == valid || strcmp(a->name, name) != 0)
        differ(a);
    else if (!valid)
        return;
    else if (type == QUERY_CARD)
        compare_card(a, number);
    else if (type == QUERY_CARD_BY_LINK)
        compare_linked(a, number);
    else
        compare_page(a);
}

/* In a random order, as one read may hide what another would show. */
static void compare_all(void)
{
    enum { COMPARED = CARDS + LINKS + 2 };
    unsigned first = pick(COMPARED);
    for (unsigned i = 0; i < COMPARED; i++) {
        int n = (int)((first + i * 5) % COMPARED);
        int key = (int)pick(KEYS);
        if (n < CARDS)
            compare(QUERY_CARD, n + 1, key);
        else if (n < CARDS + LINKS)
            compare(QUERY_CARD_BY_LINK, n - CARDS, key);
        else
            compare(QUERY_PAGE, n - CARDS - LINKS + 1, key);
    }
}

static void begin(uint64_t number)
{
    static const int other_keys[] = {0, KEY_READER_PORTION, API_KEYS_MAX};
    seed = number * 2654435761U + 1;
    clock_ms = 1000000;
    wall_s = 1767225600; /* 2026-01-01T00:00:00Z */
    metrics = (struct cache_metrics){0};
    is_lost = false;
    data = (struct data){.key = {true, true}, .other_keys = other_keys[number % TEST_COUNT(other_keys)]};
    data.info[1] = never_valid ? INFO_EXPIRED : (int)pick(INFO_NAMED + NAMES);
    for (int i = 0; i < CARDS; i++) {
        data.card[i] = 1;
        data.own[i] = i < LINKS ? i : LINKS;
        data.indexed[i] = true;
    }
    for (int i = 0; i < LINKS; i++)
        data.link[i] = i + 1;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(keyspace_init(&keyspace, SPAN("test:")), 0);
    struct redis_config *config = config_numbered(1);
    const struct cache_options options = {.redis = config,
                                          .keyspace = &keyspace,
                                          .metrics = &metrics,
                                          .redis_metrics = &redis_metrics,
                                          .loop_lag = &loop_lag,
                                          .request_timeout_ms = 1000000,
                                          .cache_size = 1 << 20,
                                          .broadcast = broadcast,
                                          .stale_limit_ms = 0,
                                          .on_connection = on_connection};
    assert_int_equal(cache_new(&loop, &options, &cache), 0);
    redis_config_unref(config);
    assert_int_equal(connection.options.tracking, broadcast ? REDIS_TRACKING_BROADCAST : REDIS_TRACKING_KEYS);
    connect_redis();
    settle();
}

static void end(void)
{
    bool closed = false;
    entries_check(cache_entries(cache));
    cache_close(cache, on_closed, &closed);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_true(closed);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* Returns how many answers were wrong. */
static int simulate(uint64_t number)
{
    differences = 0;
    begin(number);
    for (int round = 0; round < ROUNDS && differences == 0; round++) {
        for (int i = 0; i < STEPS; i++)
            step();
        settle();
        for (int i = 0; i < REQUESTS; i++)
            assert_false(asked[i].waits);
        compare_all();
    }
    if (untracked == 0 && metrics.cache_audit_failures_total > 0)
        fail_msg("the audit failed with seed %d", (int)number);
    assert_true(differences > 0 || metrics.cache_hits_total > ROUNDS);
    end();
    return differences;
}

static void expect_coherent(bool by_broadcast)
{
    broadcast = by_broadcast;
    untracked = 0;
    for (uint64_t number = 1; number <= SEEDS; number++)
        if (simulate(number) > 0)
            fail_msg("a wrong answer with seed %d", (int)number);
}

TEST_CASE(by_key_every_answer_is_what_redis_holds)
{
    expect_coherent(false);
}

TEST_CASE(by_broadcast_every_answer_is_what_redis_holds)
{
    expect_coherent(true);
}

/* Neither a key that is added with an expiry in the past, nor the revocation of one that has expired, makes
 * it valid in between. */
TEST_CASE(keys_and_their_expiries_are_never_of_different_moments)
{
    never_valid = true;
    expect_coherent(false);
    never_valid = false;
}

/* The test notices if a single key is cached that Redis did not track; what a link leads to never is. */
TEST_CASE(an_untracked_read_is_noticed)
{
    broadcast = false;
    for (int object = 0; object < OBJECTS; object++) {
        int wrong = 0;
        if (is_link(object))
            continue;
        untracked = 1U << object;
        for (uint64_t number = 1; number <= SEEDS_UNTIL_NOTICED && wrong == 0; number++)
            wrong = simulate(number);
        if (wrong == 0)
            fail_msg("nothing is wrong without tracking of %s", name_of(object));
    }
    untracked = 0;
}
