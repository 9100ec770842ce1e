/* Commands, tracking, and iterations of the event loop; see redis.h. */
#include "simulation/redis.h"

#include "simulation/costs.h"
#include "simulation/events.h"
#include "simulation/random.h"
#include "simulation/sentinel.h"
#include "simulation/settings.h"
#include "simulation/trace.h"

#include <stdio.h>
#include <strings.h>
#include <time.h>

enum { PORTION = 2, OTHERS_PORTION = 24, DIGITS = 2 * DIGEST };

/* Of an array, which channeld reads to its end and discards. */
enum { ELEMENTS_MAX = 1408000 }; /* of 48 bytes in the memory of channeld: more than 64 MiB */

/* --- replies --- */

static void put_bulk(struct bytes *out, const char *text)
{
    bytes_printf(out, "$%zu\r\n", strlen(text));
    bytes_printf(out, "%s\r\n", text);
}

static void put_integer(struct bytes *out, int64_t n)
{
    bytes_printf(out, ":%lld\r\n", (long long)n);
}

/* --- tracking --- */

static uint64_t names_of(const char *name)
{
    return UINT64_C(1) << catalogue_number(name, strlen(name));
}

static void push_name(struct redis_client *c, const char *name)
{
    if (c->redis->faults.deaf)
        return;
    struct bytes *out = c->redis->faults.disordered ? &c->early : &c->out;
    bytes_printf(out, ">2\r\n$10\r\ninvalidate\r\n*1\r\n");
    put_bulk(out, name);
    costs_invalidated(c, names_of(name));
    TRACE(c->redis->name, "%u: invalidates %s", c->number, name);
}

static void push_all(struct redis_client *c)
{
    if (c->redis->faults.deaf)
        return;
    bytes_printf(&c->out, ">2\r\n$10\r\ninvalidate\r\n_\r\n");
    costs_invalidated(c, COSTS_ALL);
    TRACE(c->redis->name, "%u: invalidates everything", c->number);
}

static void forget(struct redis *r, int name)
{
    for (struct redis_client *c = r->client; c < r->client + CLIENTS; c++) {
        if (c->conn == NULL || (c->tracked & UINT64_C(1) << name) == 0)
            continue;
        c->tracked &= ~(UINT64_C(1) << name);
        push_name(c, catalogue_name(name));
    }
}

static void touch(struct redis *r, int name)
{
    forget(r, name);
    r->changed |= UINT64_C(1) << name;
}

static uint64_t table_of(const struct redis *r)
{
    uint64_t all = 0;
    for (const struct redis_client *c = r->client; c < r->client + CLIENTS; c++)
        all |= c->conn != NULL ? c->tracked : 0;
    return all;
}

/* A random one of those in the table. */
static void evict_one(struct redis *r)
{
    uint64_t all = table_of(r);
    unsigned from = random_below(STREAM_SERVER, NAMES_COUNT);
    for (unsigned i = 0; i < NAMES_COUNT && all != 0; i++) {
        int name = (int)((from + i) % NAMES_COUNT);
        if ((all & UINT64_C(1) << name) == 0)
            continue;
        forget(r, name);
        return;
    }
}

static void bound_table(struct redis *r)
{
    while ((unsigned)__builtin_popcountll(table_of(r)) > r->table_max)
        evict_one(r);
}

/* Behind the replies of the turn: one push with all names. */
static void broadcast(struct redis *r, struct redis_client *c)
{
    static const uint64_t unwatched = ((UINT64_C(1) << LINKS) - 1) << OBJECT_LINK;
    uint64_t names = r->changed & ~unwatched;
    if (r->flushed)
        push_all(c);
    if (names == 0 || r->faults.deaf)
        return;
    bytes_printf(&c->out, ">2\r\n$10\r\ninvalidate\r\n*%d\r\n", __builtin_popcountll(names));
    for (int name = 0; name < NAMES_COUNT; name++)
        if ((names & UINT64_C(1) << name) != 0)
            put_bulk(&c->out, catalogue_name(name));
    costs_invalidated(c, names);
    TRACE(r->name, "%u: invalidates %d names", c->number, __builtin_popcountll(names));
}

/* --- what is read --- */

static int64_t value_of(const struct redis *r, int object)
{
    return catalogue_value(&r->catalogue, object);
}

static int64_t count_members(const struct redis *r)
{
    int64_t n = 0;
    for (int k = 0; k < KEYS; k++)
        n += key_is_member(value_of(r, OBJECT_KEY + k));
    return n == 0 || r->catalogue.lost ? 0 : n + r->other_keys;
}

bool word_is(const struct word *w, const char *text)
{
    return w->len == strlen(text) && strncasecmp(w->text, text, w->len) == 0;
}

/* A date that is none. */
static void put_long_date(struct bytes *out, size_t length)
{
    bytes_printf(out, "$%zu\r\n", length);
    while (length-- > 0)
        bytes_add(out, "x", 1);
    bytes_printf(out, "\r\n");
}

static void put_field(struct bytes *out, const struct word *field, int id, int64_t value)
{
    char text[32] = "";
    if (value != 0 && word_is(field, "max_channel_id"))
        (void)snprintf(text, sizeof text, "%d", id);
    else if (value != 0 && word_is(field, "title"))
        (void)snprintf(text, sizeof text, "v%lld", (long long)card_version(value));
    else if (value != 0 && word_is(field, "link") && card_link(value) >= 0)
        (void)snprintf(text, sizeof text, "l%d", card_link(value));
    if (text[0] == '\0')
        bytes_printf(out, "_\r\n");
    else
        put_bulk(out, text);
}

static int number_of(const struct command *m)
{
    return m->count < 2 ? -1 : catalogue_number(m->word[1].text, m->word[1].len);
}

static int key_of(const struct word *digest)
{
    return catalogue_key(digest->text, digest->len);
}

static void write_digest(int key, char out[DIGITS + 1])
{
    unsigned char digest[DIGEST];
    catalogue_digest(key, digest);
    for (int i = 0; i < DIGEST; i++)
        (void)snprintf(out + 2 * (size_t)i, 3, "%02x", digest[i]);
}

static void write_time(int64_t s, char out[32])
{
    struct tm tm;
    time_t t = (time_t)s;
    (void)strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
}

static void put_info(struct bytes *out, struct redis *r, int key)
{
    bool is_known = key >= 0 && key < KEYS;
    int64_t info = is_known ? key_info(value_of(r, OBJECT_KEY + key)) : 0;
    if (is_known)
        r->infos_unread &= ~(1U << key);
    char text[128];
    char expires[32];
    if (info == 0) {
        bytes_printf(out, "_\r\n");
        return;
    }
    if (catalogue_expires[info] == INT64_MAX) {
        (void)snprintf(text, sizeof text, "{\"name\":\"n%d\"}", (int)info);
    } else {
        write_time(catalogue_expires[info], expires);
        (void)snprintf(text, sizeof text, "{\"name\":\"n%d\",\"expires\":\"%s\"}", (int)info, expires);
    }
    put_bulk(out, text);
}

/* --- commands --- */

static void on_hmget(struct redis *r, struct redis_client *c, const struct command *m)
{
    int name = number_of(m);
    int fixed = r->catalogue.lost ? 0 : catalogue_fixed(&r->catalogue, m->word[1].text, m->word[1].len);
    bytes_printf(&c->out, "*%zu\r\n", m->count - 2);
    for (size_t i = 2; i < m->count; i++)
        if (name == OBJECT_CARD && r->faults.date_bytes > 0 && word_is(&m->word[i], "updated_at"))
            put_long_date(&c->out, r->faults.date_bytes);
        else if (name == NAME_API_KEY_INFO)
            put_info(&c->out, r, key_of(&m->word[i]));
        else if (fixed != 0)
            put_field(&c->out, &m->word[i], fixed, card_value(FIXED_VERSION, -1));
        else
            put_field(&c->out, &m->word[i], name + 1, name < 0 ? 0 : value_of(r, name));
    if (name == OBJECT_CARD && r->faults.at_first_card != NULL)
        r->faults.at_first_card(c);
}

static void on_hget(struct redis *r, struct redis_client *c, const struct command *m)
{
    put_info(&c->out, r, key_of(&m->word[2]));
}

static void on_get(struct redis *r, struct redis_client *c, const struct command *m)
{
    char text[16];
    int name = number_of(m);
    int64_t id = name < 0 ? 0 : value_of(r, name);
    (void)snprintf(text, sizeof text, "%lld", (long long)id);
    if (id == 0)
        bytes_printf(&c->out, "_\r\n");
    else
        put_bulk(&c->out, text);
}

static void on_zcard(struct redis *r, struct redis_client *c, const struct command *m)
{
    int ids[MEMBERS_MAX];
    (void)m;
    put_integer(&c->out, catalogue_members(&r->catalogue, value_of(r, OBJECT_INDEX), ids));
}

static void on_zrange(struct redis *r, struct redis_client *c, const struct command *m)
{
    int ids[MEMBERS_MAX];
    char id[8];
    uint64_t count = (uint64_t)catalogue_members(&r->catalogue, value_of(r, OBJECT_INDEX), ids);
    uint64_t from = number_at(m->word[2].text, m->word[2].len);
    uint64_t end = number_at(m->word[3].text, m->word[3].len) + 1;
    end = end < count ? end : count;
    from = from < end ? from : end;
    bytes_printf(&c->out, "*%d\r\n", (int)(end - from));
    for (; from < end; from++) {
        (void)snprintf(id, sizeof id, "%d", ids[from]);
        put_bulk(&c->out, id);
    }
}

static void on_scard(struct redis *r, struct redis_client *c, const struct command *m)
{
    (void)m;
    put_integer(&c->out, count_members(r));
}

/* The first of the others has a name that is not a digest. */
static bool is_other_member(const struct redis *r, int key)
{
    return key > OTHER_KEYS && key < OTHER_KEYS + r->other_keys && count_members(r) > 0;
}

static bool is_member(const struct redis *r, const struct word *digest)
{
    int key = key_of(digest);
    return key < KEYS ? key_is_member(value_of(r, OBJECT_KEY + key)) : is_other_member(r, key);
}

static void on_sismember(struct redis *r, struct redis_client *c, const struct command *m)
{
    put_integer(&c->out, is_member(r, &m->word[2]));
}

static void on_smismember(struct redis *r, struct redis_client *c, const struct command *m)
{
    bytes_printf(&c->out, "*%zu\r\n", m->count - 2);
    for (size_t i = 2; i < m->count; i++)
        put_integer(&c->out, is_member(r, &m->word[i]));
}

static void put_digest(struct bytes *out, int key)
{
    char digest[DIGITS + 1];
    write_digest(key, digest);
    put_bulk(out, key == OTHER_KEYS ? "x" : digest);
}

/* A portion has two keys, or more of those of others, which come last. */
static void on_sscan(struct redis *r, struct redis_client *c, const struct command *m)
{
    char cursor[16];
    int all = count_members(r) > 0 ? KEYS + r->other_keys : KEYS;
    int from = (int)number_at(m->word[2].text, m->word[2].len);
    int to = from + (from < KEYS ? PORTION : OTHERS_PORTION);
    int members = 0;
    to = from < KEYS && to > KEYS ? KEYS : to < all ? to : all;
    for (int k = from; k < to; k++)
        members += k >= KEYS || key_is_member(value_of(r, OBJECT_KEY + k));
    (void)snprintf(cursor, sizeof cursor, "%d", to >= all ? 0 : to);
    bytes_printf(&c->out, "*2\r\n");
    put_bulk(&c->out, cursor);
    bytes_printf(&c->out, "*%d\r\n", members);
    for (int k = from; k < to; k++)
        if (k >= KEYS || key_is_member(value_of(r, OBJECT_KEY + k)))
            put_digest(&c->out, k < KEYS ? k : OTHER_KEYS + k - KEYS);
}

static void on_ping(struct redis *r, struct redis_client *c, const struct command *m)
{
    (void)m;
    bytes_printf(&c->out, "+PONG\r\n");
    void (*fault)(struct redis * r) = r->faults.behind_ping;
    r->faults.behind_ping = NULL;
    if (fault != NULL)
        fault(r);
}

/* HELLO 3 AUTH user password SETNAME name; Sentinels are given no password. */
static void on_hello(struct redis *r, struct redis_client *c, const struct command *m)
{
    enum { PASSWORD = 4 };
    bool authenticates = m->count > PASSWORD && word_is(&m->word[2], "AUTH");
    c->settings = authenticates ? (unsigned)strtoul(m->word[PASSWORD].text, NULL, 10) : 0;
    if (authenticates && c->settings == SETTINGS_WRONG) {
        bytes_printf(&c->out, "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
        return;
    }
    bytes_printf(&c->out, "%%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n%s\r\n$4\r\nmode\r\n",
                 r->faults.disordered ? "7.0.04" : "7.0.15");
    put_bulk(&c->out, r->cluster == NULL ? "standalone" : "cluster");
}

static void on_select(struct redis *r, struct redis_client *c, const struct command *m)
{
    (void)r;
    (void)m;
    bytes_printf(&c->out, "+OK\r\n");
}

/* As a verbatim string. */
static void on_info(struct redis *r, struct redis_client *c, const struct command *m)
{
    const struct redis *master = r->cluster == NULL ? NULL : r->cluster->master_of(r);
    static struct bytes text;
    (void)m;
    bytes_clear(&text);
    if (r->cluster == NULL)
        replica_put_info(r, c->number, &text);
    else if (master != NULL)
        bytes_printf(&text,
                     "role:slave\r\nmaster_host:10.0.0.%d\r\nmaster_port:%d\r\nmaster_link_status:up\r\n"
                     "master_last_io_seconds_ago:0\r\n",
                     master->listener.address.host, master->listener.address.port);
    else
        bytes_printf(&text, "role:master\r\n");
    bytes_printf(&c->out, "=%zu\r\ntxt:", bytes_count(&text) + 4);
    bytes_add(&c->out, bytes_front(&text), bytes_count(&text));
    bytes_printf(&c->out, "\r\n");
}

static void on_client(struct redis *r, struct redis_client *c, const struct command *m)
{
    if (word_is(&m->word[1], "CACHING")) {
        c->caching_no = true;
        bytes_printf(&c->out, "+OK\r\n");
        return;
    }
    if (r->faults.refuses_tracking) {
        bytes_printf(&c->out, "-%s\r\n",
                     r->faults.tracking_error != NULL ? r->faults.tracking_error : "ERR unknown subcommand");
        return;
    }
    c->tracks = true;
    c->broadcast = m->count > 3 && word_is(&m->word[3], "BCAST");
    bytes_printf(&c->out, "+OK\r\n");
}

static void on_cluster(struct redis *r, struct redis_client *c, const struct command *m)
{
    (void)m;
    r->cluster->write_slots(r, &c->out);
}

static void on_asking(struct redis *r, struct redis_client *c, const struct command *m)
{
    (void)r;
    (void)m;
    c->asking = true;
    bytes_printf(&c->out, "+OK\r\n");
}

struct known {
    const char *name;
    bool reads; /* the key that it names */
    void (*execute)(struct redis *r, struct redis_client *c, const struct command *m);
};

static const struct known *find(const struct word *name)
{
    static const struct known all[] = {
        {"HMGET", true, on_hmget},
        {"PING", false, on_ping},
        {"SCARD", true, on_scard},
        {"SMISMEMBER", true, on_smismember},
        {"GET", true, on_get},
        {"ZCARD", true, on_zcard},
        {"ZRANGE", true, on_zrange},
        {"SSCAN", true, on_sscan},
        {"HGET", true, on_hget},
        {"SISMEMBER", true, on_sismember},
        {"HELLO", false, on_hello},
        {"SELECT", false, on_select},
        {"CLIENT", false, on_client},
        {"INFO", false, on_info},
        {"SENTINEL", false, sentinel_query},
        {"CLUSTER", false, on_cluster},
        {"ASKING", false, on_asking},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (word_is(name, all[i].name))
            return &all[i];
    trace_fail("%.*s is not simulated", (int)name->len, name->text);
}

/* Of the server's state: commands of a connection are executed all the same. */
static const char *state_error(const struct redis *r, const struct known *k)
{
    return k->reads || k->execute == on_ping ? replica_error(r) : NULL;
}

/* Commands of a connection are executed while Redis loads its data, HELLO while it is busy as well. */
static bool is_refused(const struct redis *r, const struct known *k)
{
    const char *error = r->faults.error;
    if (error == NULL || (strncmp(error, "LOADING", 7) == 0 && !k->reads && k->execute != on_ping) ||
        (strncmp(error, "BUSY", 4) == 0 && k->execute == on_hello))
        return false;
    if (strncmp(error, "MISCONF", 7) == 0 && k->execute != on_ping)
        return false;
    return random_once_in(STREAM_SERVER, r->faults.error_one_in);
}

/* More elements than a reply may have. */
static void put_large(struct redis_client *c)
{
    enum { MANY = 128, BYTES = 3 };
    char many[MANY * BYTES];
    for (int i = 0; i < MANY; i++)
        memcpy(many + (size_t)i * BYTES, "_\r\n", BYTES);
    bytes_printf(&c->out, "*%d\r\n_\r\n", ELEMENTS_MAX + 1);
    for (int i = 0; i < ELEMENTS_MAX; i += MANY)
        bytes_add(&c->out, many, sizeof many);
}

/* What a broken key replies to a command that reads it. False: it is none. */
static bool put_broken(struct redis_client *c, int64_t value)
{
    if (value == WRONG_TYPE)
        bytes_printf(&c->out, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n");
    if (value == TOO_LARGE)
        put_large(c);
    return value_is_broken(value);
}

/* Under maxmemory Redis evicts a key before it executes a command. */
static void evict_key(struct redis *r);

static void execute(struct redis *r, struct redis_client *c, const struct command *m)
{
    const struct known *k = find(&m->word[0]);
    bool untracked = c->caching_no;
    int name = k->reads ? number_of(m) : -1;
    r->commands++;
    trace_sum((uint64_t)m->word[0].text[0] << 8 | (uint64_t)(name + 1));
    TRACE(r->name, "%u: executes %.*s %s%s", c->number, (int)m->word[0].len, m->word[0].text,
          name >= 0 ? catalogue_name(name) : "", untracked ? " untracked" : "");
    evict_key(r);
    bound_table(r);
    c->caching_no = false;
    const char *state = state_error(r, k);
    const char *refusal = state != NULL                    ? state
                          : is_refused(r, k)               ? r->faults.error
                          : r->cluster != NULL && k->reads ? r->cluster->refuses(r, c, name)
                                                           : NULL;
    c->asks |= k->execute == on_asking; /* also if it is refused */
    c->asking = false;
    /* An error of the server's state, or one that was injected, does not tell this node from the one that has
     * the slot. */
    bool is_referred = refusal != NULL && refusal != state && refusal != r->faults.error;
    c->reads |= k->reads && !c->asks && !is_referred;
    if (refusal != NULL) {
        TRACE(r->name, "%u: %s", c->number, refusal);
        bytes_printf(&c->out, "-%s\r\n", refusal);
        costs_executed(c, false);
        return;
    }
    if (name < 0 || name > OBJECT_INDEX || !put_broken(c, value_of(r, name)))
        k->execute(r, c, m);
    costs_executed(c, name < 0 || name >= OBJECT_KEY || value_of(r, name) > 0);
    if (name < 0)
        return;
    r->read_ns[name] = now_ns();
    if (c->tracks && !c->broadcast && !untracked)
        c->tracked |= UINT64_C(1) << name;
}

/* --- parsing: arrays of bulk strings --- */

/* Returns the number behind `type`, and moves *at behind the line; -1: not complete. */
static long take_line(const char **at, const char *end, char type)
{
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    if (stop == NULL)
        return -1;
    if (**at != type)
        trace_fail("a command does not begin as one");
    long n = (long)number_at(*at + 1, (size_t)(stop - *at) - 1);
    *at = stop + 1;
    return n;
}

size_t redis_parse(const struct bytes *in, struct command *m)
{
    const char *at = bytes_front(in);
    const char *end = at + bytes_count(in);
    long words = at < end ? take_line(&at, end, '*') : -1;
    if (words > WORDS_MAX)
        trace_fail("a command has %ld words", words);
    m->count = 0;
    for (long i = 0; i < words; i++) {
        long len = at < end ? take_line(&at, end, '$') : -1;
        if (len < 0 || end - at < len + 2)
            return 0;
        m->word[m->count++] = (struct word){at, (size_t)len};
        at += len + 2;
    }
    return words < 0 ? 0 : (size_t)(at - bytes_front(in));
}

static void execute_all(struct redis *r, struct redis_client *c)
{
    struct command m;
    if (c->conn == NULL || bytes_count(&c->in) == 0)
        return;
    for (size_t n = redis_parse(&c->in, &m); n > 0; n = redis_parse(&c->in, &m)) {
        assert(m.count > 0);
        execute(r, c, &m);
        bytes_drop(&c->in, n);
        if (bytes_count(&c->in) == 0)
            return;
    }
}

/* --- changes --- */

static void flush(struct redis *r)
{
    for (struct redis_client *c = r->client; c < r->client + CLIENTS; c++) {
        if (c->conn != NULL && c->tracks && !c->broadcast)
            push_all(c);
        c->tracked = 0;
    }
    r->flushed = true;
    r->changed = 0;
}

static void lose(struct redis *r)
{
    TRACE("writer", "FLUSHALL at %s", r->name);
    r->catalogue.lost = true;
    flush(r);
}

static void restore(struct redis *r)
{
    TRACE("writer", "everything is back at %s", r->name);
    r->catalogue.lost = false;
    r->catalogue.back_ns[1] = r->catalogue.back_ns[0];
    r->catalogue.back_ns[0] = now_ns();
    for (int name = 0; name < NAMES_COUNT; name++)
        touch(r, name);
}

static void replace(struct redis *r, const struct catalogue *by)
{
    if (by == NULL)
        return;
    for (int object = 0; object < OBJECTS; object++)
        if (r->catalogue.value[object] != by->value[object])
            catalogue_set(&r->catalogue, object, by->value[object], r->changed_ns);
    r->catalogue.lost = by->lost;
    flush(r);
}

void redis_set(struct redis *r, int object, int64_t value, uint64_t at_ns)
{
    int64_t before = r->catalogue.value[object];
    bool is_key = object >= OBJECT_KEY;
    catalogue_set(&r->catalogue, object, value, at_ns);
    TRACE(r->name, "object %d changes from %lld to %lld", object, (long long)before, (long long)value);
    trace_sum((uint64_t)value);
    if (r->catalogue.lost || (object == OBJECT_INDEX && value == before)) /* a ZADD of what is there */
        return;
    if (!is_key)
        touch(r, object);
    if (is_key && key_is_member(before) != key_is_member(value))
        touch(r, NAME_API_KEYS);
    if (is_key && key_info(before) != key_info(value)) {
        touch(r, NAME_API_KEY_INFO);
        r->infos_unread = (1U << KEYS) - 1;
        r->infos_ns = at_ns;
    }
}

static void write_objects(struct redis *r, const struct change *change)
{
    for (size_t i = 0; i < change->count; i++)
        redis_set(r, change->set[i].object, change->set[i].value, r->changed_ns);
}

static void apply(struct redis *r, const struct change *change)
{
    r->changed_ns = now_ns() > r->changed_ns ? now_ns() : r->changed_ns + 1;
    switch (change->kind) {
    case CHANGE_WRITE:
        write_objects(r, change);
        break;
    case CHANGE_LOSE:
        lose(r);
        break;
    case CHANGE_RESTORE:
        restore(r);
        break;
    case CHANGE_PING:
        break;
    case CHANGE_REPLACE:
        replace(r, replica_load(r));
        return;
    }
    replica_feed(r, change);
}

/* A card, a link, the index or the infos of all API keys; not the set of keys, without which no key is valid.
 */
static void evict_key(struct redis *r)
{
    struct change c = {.kind = CHANGE_WRITE};
    unsigned one_in = r->faults.evicts_one_in;
    if (one_in == 0 || r->replication.upstream != NULL || !random_once_in(STREAM_SERVER, one_in))
        return;
    int object = (int)random_below(STREAM_SERVER, OBJECT_KEY + 1);
    if (object < OBJECT_KEY && value_of(r, object) != 0)
        change_add(&c, object, 0);
    for (int k = OBJECT_KEY; object == OBJECT_KEY && k < OBJECT_KEY + KEYS; k++)
        if (key_info(value_of(r, k)) != 0)
            change_add(&c, k, key_value(key_is_member(value_of(r, k)), 0));
    if (c.count == 0)
        return;
    TRACE(r->name, "evicts object %d", object);
    apply(r, &c);
}

static void on_turn(void *arg, uint64_t number);

static void schedule(struct redis *r)
{
    if (r->scheduled || r->in_turn)
        return;
    r->scheduled = true;
    uint64_t wait_ns = 5 * (uint64_t)US + random_duration(STREAM_SERVER, 500 * (uint64_t)US);
    events_add_in(wait_ns, on_turn, r, 0);
}

bool redis_submit(struct redis *r, const struct change *c)
{
    if (r->pending_count == PENDING_CHANGES)
        return false;
    r->pending[r->pending_count++] = *c;
    schedule(r);
    return true;
}

void redis_wake(struct redis *r)
{
    schedule(r);
}

void redis_evict(struct redis *r)
{
    evict_one(r);
    schedule(r);
}

void redis_lose(struct redis *r)
{
    if (r->catalogue.lost)
        return;
    apply(r, &(const struct change){.kind = CHANGE_LOSE});
    schedule(r);
}

/* In one transaction. */
void redis_restore(struct redis *r)
{
    if (!r->catalogue.lost)
        return;
    apply(r, &(const struct change){.kind = CHANGE_RESTORE});
    schedule(r);
}

void redis_flood(struct redis *r, unsigned count)
{
    TRACE("writer", "changes %u other keys", count);
    for (struct redis_client *c = r->client; c < r->client + CLIENTS; c++)
        for (unsigned i = 0; i < count && c->conn != NULL && c->tracks; i++)
            bytes_printf(&c->out, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$14\r\n{sim}:card:%03u\r\n",
                         CARDS + FIXED_MAX + 1 + i % 700);
    schedule(r);
}

void redis_push_large(struct redis *r, unsigned count)
{
    TRACE("writer", "changes %u other keys at once", count);
    for (struct redis_client *c = r->client; c < r->client + CLIENTS; c++) {
        if (c->conn == NULL || !c->tracks)
            continue;
        bytes_printf(&c->out, ">2\r\n$10\r\ninvalidate\r\n*%u\r\n", count);
        for (unsigned i = 0; i < count; i++)
            bytes_printf(&c->out, "$14\r\n{sim}:card:%03u\r\n", CARDS + FIXED_MAX + 1 + i % 700);
    }
    schedule(r);
}

void redis_say(struct redis *r, const char *text)
{
    TRACE(r->name, "says %.*s", (int)strcspn(text, "\r"), text);
    for (struct redis_client *c = r->client; c < r->client + CLIENTS; c++)
        if (c->conn != NULL)
            bytes_add(&c->out, text, strlen(text));
    schedule(r);
}

void redis_ignore(struct redis *r)
{
    TRACE(r->name, "ignores all commands");
    for (struct redis_client *c = r->client; c < r->client + CLIENTS; c++)
        c->ignored = true;
}

/* --- turns --- */

/* In records of any size, or as it is. */
static void send_to(struct redis *r, struct redis_client *c)
{
    if (c->mute) {
        bytes_clear(&c->early);
        bytes_clear(&c->out);
        return;
    }
    bytes_add(&c->early, bytes_front(&c->out), bytes_count(&c->out));
    const char *at = bytes_front(&c->early);
    size_t left = bytes_count(&c->early);
    while (r->tls && left > 0) {
        unsigned most = random_once_in(STREAM_SERVER, 4) ? 16384 : 64;
        size_t n = 1 + random_below(STREAM_SERVER, most);
        n = n < left ? n : left;
        const char head[] = {(char)(n >> 8), (char)(n & 0xff)};
        bytes_add(&r->records, head, sizeof head);
        bytes_add(&r->records, at, n);
        at += n;
        left -= n;
    }
    const struct bytes *all = r->tls ? &r->records : &c->early;
    net_send(c->conn, bytes_front(all), bytes_count(all), r->turn_ns);
    costs_replied(c, bytes_count(all));
    bytes_clear(&r->records);
    bytes_clear(&c->early);
    bytes_clear(&c->out);
}

static void send_all(struct redis *r)
{
    for (struct redis_client *c = r->client; c < r->client + CLIENTS; c++) {
        if (c->conn == NULL)
            continue;
        if (c->tracks && c->broadcast)
            broadcast(r, c);
        send_to(r, c);
    }
    r->changed = 0;
    r->flushed = false;
}

static bool has_input(const struct redis *r)
{
    bool input = r->pending_count > 0 || (r->cluster != NULL && r->cluster->has_work(r));
    for (const struct redis_client *c = r->client; c < r->client + CLIENTS && !input; c++)
        input = c->conn != NULL && bytes_count(&c->in) > 0;
    return input;
}

static void on_turn_ended(void *arg, uint64_t number)
{
    struct redis *r = arg;
    (void)number;
    r->in_turn = false;
    send_all(r);
    if (has_input(r) || r->flushed || r->changed != 0)
        schedule(r);
}

/* The changes come before, between or behind the commands of the clients. */
static void run(struct redis *r)
{
    unsigned first = random_below(STREAM_SERVER, CLIENTS);
    size_t changes = r->pending_count;
    size_t before = changes == 0 ? 0 : random_below(STREAM_SERVER, (unsigned)changes + 1);
    size_t done = 0;
    bool works_first = r->cluster != NULL && random_once_in(STREAM_SERVER, 2);
    if (works_first)
        r->cluster->work(r);
    for (; done < before; done++)
        apply(r, &r->pending[done]);
    for (unsigned i = 0; i < CLIENTS; i++)
        execute_all(r, &r->client[(first + i) % CLIENTS]);
    for (; done < changes; done++)
        apply(r, &r->pending[done]);
    memmove(r->pending, r->pending + changes, (r->pending_count - changes) * sizeof r->pending[0]);
    r->pending_count -= changes;
    if (r->cluster != NULL && !works_first)
        r->cluster->work(r);
}

static void on_turn(void *arg, uint64_t number)
{
    struct redis *r = arg;
    (void)number;
    if (r->hung_until_ns > now_ns()) {
        events_add(r->hung_until_ns, on_turn, r, 0);
        return;
    }
    r->scheduled = false;
    r->in_turn = true;
    r->turn_ns = now_ns();
    run(r);
    events_add_in(random_duration(STREAM_SERVER, 20 * (uint64_t)MS), on_turn_ended, r, 0);
}

/* --- connections --- */

static void *on_accepted(void *server, struct net_conn *conn)
{
    struct redis *r = server;
    struct redis_client *c = r->client;
    while (c < r->client + CLIENTS && c->conn != NULL)
        c++;
    if (c == r->client + CLIENTS)
        trace_fail("%s has too many clients", r->name);
    c->redis = r;
    c->conn = conn;
    c->number = net_number(conn);
    c->settings = 0;
    c->tracks = c->broadcast = c->caching_no = c->reads = c->asks = c->asking = false;
    c->ignored = false;
    c->mute = false;
    c->tracked = 0;
    bytes_clear(&c->in);
    bytes_clear(&c->early);
    bytes_clear(&c->out);
    return c;
}

static void on_received(void *peer, const char *data, size_t n)
{
    struct redis_client *c = peer;
    if (c->ignored)
        return;
    bytes_add(&c->in, data, n);
    schedule(c->redis);
}

static void on_closed(void *peer)
{
    struct redis_client *c = peer;
    c->conn = NULL;
}

void redis_begin(struct redis *r, const char *name, uint8_t host)
{
    for (struct redis_client *c = r->client; c < r->client + CLIENTS; c++)
        c->conn = NULL;
    r->name = name;
    r->cluster = NULL;
    r->listener = (struct net_listener){.address = {host, 6379},
                                        .accepted = on_accepted,
                                        .received = on_received,
                                        .closed = on_closed,
                                        .server = r};
    r->catalogue.fixed = 0;
    r->catalogue.lost = false;
    r->catalogue.back_ns[0] = r->catalogue.back_ns[1] = 0;
    for (int i = 0; i < OBJECTS; i++) {
        r->catalogue.value[i] = 0;
        r->catalogue.history[i].count = 0;
    }
    r->pending_count = 0;
    r->faults = (struct redis_faults){.error_one_in = 1};
    r->sentinel = NULL;
    r->table_max = NAMES_COUNT;
    r->other_keys = 0;
    r->tls = false;
    bytes_clear(&r->records);
    r->changed = r->changed_ns = 0;
    r->flushed = false;
    r->hung_until_ns = 0;
    r->scheduled = r->in_turn = false;
    r->commands = 0;
    memset(r->read_ns, 0, sizeof r->read_ns);
    r->infos_unread = 0;
    r->infos_ns = 0;
    replica_begin(r);
    net_listen(&r->listener);
}

void redis_hang(struct redis *r, uint64_t duration_ns)
{
    r->hung_until_ns = now_ns() + duration_ns;
    TRACE(r->name, "hangs for %u ms", (unsigned)(duration_ns / MS));
}

void redis_restart(struct redis *r, bool reset)
{
    TRACE(r->name, "closes all connections");
    send_all(r); /* or the oracle would not know when it was made */
    net_reset(&r->listener, reset);
}
