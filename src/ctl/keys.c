/*
 * channelctl keys: issues, revokes and lists API keys.
 *
 * A key is printed once, when it is issued. Redis holds only its digest, the lower-case hex SHA-256. Names
 * and expiries are in a hash. Set and hash are written in one transaction. A key is revoked without one,
 * which a full Redis would refuse.
 */
#include "base/clock.h"
#include "base/digest.h"
#include "base/text.h"
#include "ctl/client.h"
#include "ctl/terminal.h"
#include "model/api_key.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/param.h>
#include <sys/random.h>

/* Removes a key, whose info goes only after it: a key is never valid without its expiry. Returns 1 if the key
 * was in the set, else 0. */
static int64_t keys_remove(struct client *c, struct span digest)
{
    CLIENT_SEND(c, SPAN("SREM"), c->api_keys, digest);
    int64_t removed = client_receive_of(c, c->api_keys, "set")->integer;
    if (client_status(c) != 0)
        return 0;
    CLIENT_SEND(c, SPAN("HDEL"), c->api_key_info, digest);
    (void)client_receive_of(c, c->api_key_info, "hash");
    if (client_status(c) != 0)
        client_explain(c, "the key is not valid any more, but its info was not removed: %s", client_error(c));
    return removed;
}

static int keys_check_name(const char *name)
{
    if (name_valid(span_of(name), API_KEY_NAME_MAX))
        return EXIT_OK;
    return usage_error("--name: expected 1 to %d of the characters A-Z a-z 0-9 _ . -", API_KEY_NAME_MAX);
}

/* --- Issuing --- */

enum { ISSUE_MAX = 100000 };

/* 256 bits from the kernel's generator, as "ck_" and base64url (RFC 4648 section 5, no padding). Differs from
 * every digest. */
enum { KEY_DIGITS = 43, KEY_LEN = 3 + KEY_DIGITS };

struct issue {
    struct api_key_info info; /* of each key */
    int64_t count, printed;
};

/* A new key, without a NUL. */
static void keys_generate(struct client *c, char out[KEY_LEN])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char raw[KEY_DIGITS] = {0};
    /* The kernel does not interrupt a request of so few bytes. */
    if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw)
        (void)client_fail(c, "cannot get random numbers: %s", strerror(errno));
    raw[KEY_DIGITS - 1] &= 60; /* the last digit has 4 bits, the others have 6 */
    memcpy(out, "ck_", 3);
    for (int i = 0; i < KEY_DIGITS; i++)
        out[3 + i] = digits[raw[i] & 63];
    explicit_bzero(raw, sizeof raw);
}

/* Makes sure that a key has its type, or does not exist. Otherwise a transaction would do only half of its
 * work. */
static void keys_check_type(struct client *c, struct span key, struct span type)
{
    CLIENT_SEND(c, SPAN("TYPE"), key);
    struct span found = reply_text(client_receive(c));
    if (!span_equal(found, type) && !span_equal(found, SPAN("none")))
        (void)client_fail_type(c, key, type.data);
}

static void keys_store(struct client *c, struct span digest, const struct api_key_info *info)
{
    struct buf text = BUF_INIT;
    api_key_info_write(&text, info);
    if (buf_error(&text) != 0)
        (void)client_fail_memory(c);
    CLIENT_SEND(c, SPAN("MULTI"));
    CLIENT_SEND(c, SPAN("SADD"), c->api_keys, digest);
    CLIENT_SEND(c, SPAN("HSET"), c->api_key_info, digest, buf_span(&text));
    CLIENT_SEND(c, SPAN("EXEC"));
    for (int i = 0; i < 3; i++)
        (void)client_receive(c);
    if (client_receive(c)->elements != 2)
        (void)client_fail_unexpected(c);
    buf_fini(&text);
}

static void keys_revoke_unprinted(struct client *c, struct span digest)
{
    const char *reason = EXCERPT(span_of(client_error(c)));
    if (client_reopen(c) == 0)
        (void)keys_remove(c, digest);
    if (client_status(c) == 0)
        (void)client_fail(c, "%s; the key that could not be printed was revoked", reason);
    else
        client_explain(
            c, "%s; a key that was not printed may be valid: revoke it with channelctl keys revoke %.*s",
            reason, (int)digest.len, digest.data);
}

/* The key becomes valid before it is printed: every printed key works. After any failure it may be valid: the
 * connection was lost, or Redis refused the transaction and yet executed its commands. */
static void keys_issue_one(struct client *c, struct issue *issue)
{
    char line[KEY_LEN + 1];
    keys_generate(c, line);
    if (client_status(c) != 0)
        return;
    line[KEY_LEN] = '\n';
    struct span digest = DIGEST_HEX((struct span){line, KEY_LEN});
    keys_store(c, digest, &issue->info);
    if (client_status(c) == 0 && fwrite(line, 1, sizeof line, stdout) != sizeof line)
        (void)client_fail(c, "cannot write to standard output: %s", strerror(errno));
    explicit_bzero(line, sizeof line);
    if (client_status(c) != 0)
        keys_revoke_unprinted(c, digest);
    else
        issue->printed++;
}

static void keys_issue(struct client *c, void *arg)
{
    struct issue *issue = arg;
    interrupt_watch(); /* a signal must not end the process before a valid key is printed */
    (void)setvbuf(stdout, NULL, _IONBF, 0); /* or a key that was revoked could be printed at the end */
    keys_check_type(c, c->api_keys, SPAN("set"));
    keys_check_type(c, c->api_key_info, SPAN("hash"));
    while (issue->printed < issue->count && client_status(c) == 0 && interrupt_signal() == 0)
        keys_issue_one(c, issue);
}

static int keys_read_expiry(const char *text, int64_t now, int64_t *out)
{
    static const struct units times = {
        span_equal,
        {{{"d", 1}, 86400000}, {{"h", 1}, 3600000}, {{"m", 1}, 60000}, {{"s", 1}, 1000}, {{"ms", 2}, 1}}};
    const int64_t longest_ms = 100LL * 366 * 86400 * 1000;
    char whole[2 * API_KEY_TIME_LEN];
    int64_t ms = 0;
    bool is_date = strlen(text) == 10; /* the beginning of that day */
    (void)snprintf(whole, sizeof whole, "%s%s", text, is_date ? "T00:00:00Z" : "");
    if (parse_amount(span_of(text), &times, &ms) == 0 && ms % 1000 == 0) {
        if (ms < 1000 || ms > longest_ms)
            return usage_error("--expires: expected a second to a hundred years");
        *out = now + ms / 1000;
    } else if (!api_key_time_parse(span_of(whole), out)) {
        return usage_error("--expires: expected a time such as 90d, 12h or 30m, or a date in UTC such as "
                           "2027-02-20 or 2027-02-20T10:00:00Z");
    }
    return *out > now ? EXIT_OK : usage_error("--expires: %s is in the past", text);
}

int command_keys_issue(const struct options *o)
{
    const char *count = o->args.flag[FLAG_COUNT];
    const char *name = o->args.flag[FLAG_NAME];
    const char *expires = o->args.flag[FLAG_EXPIRES];
    struct issue issue = {.info = API_KEY_INFO_NONE, .count = 1};
    issue.info.issued = clock_wall_s();
    if (count != NULL &&
        (parse_int64(span_of(count), &issue.count) != 0 || issue.count < 1 || issue.count > ISSUE_MAX))
        return usage_error("--count: expected a number from 1 to %d", ISSUE_MAX);
    if ((name != NULL && keys_check_name(name) != EXIT_OK) ||
        (expires != NULL && keys_read_expiry(expires, issue.info.issued, &issue.info.expires) != EXIT_OK))
        return EXIT_USAGE;
    if (name != NULL)
        api_key_name_set(&issue.info.name, span_of(name));
    int code = client_run(o, CLIENT_API_KEYS, keys_issue, &issue);
    if (issue.count > 1 && issue.printed < issue.count)
        show_message("%lld of %lld keys were issued and printed", (long long)issue.printed,
                     (long long)issue.count);
    return interrupt_code(code);
}

/* --- All keys and their infos --- */

enum { READ_BATCH = 1000 };

struct issued_key {
    struct span digest;
    struct api_key_info info;
};

/* Sorted by their digests. */
struct key_list {
    struct redis_reply *members; /* owned: the texts of the digests */
    struct issued_key *key;      /* owned: `count` of them */
    size_t count;
    size_t others; /* members of the set that are not digests */
};

static void keys_receive_info(struct client *c, struct api_key_info *out)
{
    const struct redis_reply *reply = client_receive_of(c, c->api_key_info, "hash");
    *out = API_KEY_INFO_NONE;
    if (reply->elements == 1 && reply_text(reply_first(reply)).data != NULL)
        (void)api_key_info_parse(reply_text(reply_first(reply)), out);
}

static int keys_compare(const void *a, const void *b)
{
    return memcmp(((const struct issued_key *)a)->digest.data, ((const struct issued_key *)b)->digest.data,
                  DIGEST_HEX_LEN);
}

static void keys_read_infos(struct client *c, struct issued_key *key, size_t count)
{
    CLIENT_PIPELINE(i, count, true, CLIENT_SEND(c, SPAN("HMGET"), c->api_key_info, key[i].digest),
                    keys_receive_info(c, &key[i].info));
}

/* Call keys_list_fini in every case. After a failure the list is of no use. */
static void keys_list_read(struct client *c, struct key_list *l)
{
    CLIENT_SEND(c, SPAN("SMEMBERS"), c->api_keys);
    (void)client_receive_of(c, c->api_keys, "set");
    *l = (struct key_list){.members = client_own_reply(c)};
    size_t members = l->members != NULL ? l->members->elements : 0;
    l->key = calloc(members + 1, sizeof *l->key);
    if (l->key == NULL) {
        (void)client_fail_memory(c);
        return;
    }
    for (size_t i = 0; i < members; i++)
        if (digest_is_hex(reply_text(&l->members[1 + i])))
            l->key[l->count++].digest = reply_text(&l->members[1 + i]);
    l->others = members - l->count;
    qsort(l->key, l->count, sizeof *l->key, keys_compare);
    for (size_t at = 0; at < l->count && client_status(c) == 0; at += READ_BATCH)
        keys_read_infos(c, l->key + at, MIN(l->count - at, READ_BATCH));
}

static void keys_list_fini(struct key_list *l)
{
    free(l->members);
    free(l->key);
}

/* --- Revoking --- */

/* The text if it is a digest, in any case; else absent. */
static struct span keys_read_digest(struct span text, char hex[DIGEST_HEX_LEN])
{
    for (size_t i = 0; i < DIGEST_HEX_LEN && text.len == DIGEST_HEX_LEN; i++)
        hex[i] = (char)tolower((unsigned char)text.data[i]);
    return digest_is_hex((struct span){hex, text.len}) ? (struct span){hex, text.len} : SPAN_ABSENT;
}

/* Of a key or a digest. A key may have the form of one, or any other form: it may be one that another program
 * has added. */
static void keys_revoke(struct client *c, void *arg)
{
    const struct span key = *(const struct span *)arg;
    char hex[DIGEST_HEX_LEN] = "";
    struct span digest = keys_read_digest(key, hex);
    bool is_known_form = digest.data != NULL || (key.len == KEY_LEN && span_starts_with(key, SPAN("ck_")));
    int64_t removed = digest.data != NULL ? keys_remove(c, digest) : 0;
    if (removed == 0 && client_status(c) == 0)
        removed = keys_remove(c, DIGEST_HEX(key));
    if (removed == 0)
        (void)client_fail(c, "API key not found: it was never issued or is already revoked%s",
                          is_known_form ? ""
                                        : "; the text is neither a key of channelctl (ck_ and 43 characters) "
                                          "nor a digest (64 hexadecimal digits)");
    else if (client_status(c) == 0)
        print_line(stdout, "revoked");
}

static bool keys_is_named(const struct issued_key *key, const char *name)
{
    return span_equal(api_key_name_span(&key->info.name), span_of(name));
}

static void keys_revoke_named(struct client *c, void *arg)
{
    const char *const *flag = c->options->args.flag;
    struct key_list l;
    (void)arg;
    size_t count = 0;
    long long revoked = 0;
    keys_list_read(c, &l);
    for (size_t i = 0; i < l.count; i++)
        count += keys_is_named(&l.key[i], flag[FLAG_NAME]);
    if (count == 0)
        (void)client_fail(c, "API key not found: none has the name %s", flag[FLAG_NAME]);
    else if (count > 1 && flag[FLAG_ALL] == NULL)
        (void)client_fail(c,
                          "%zu keys have the name %s: nothing was revoked (--all revokes all of them, "
                          "a digest of channelctl keys list one)",
                          count, flag[FLAG_NAME]);
    bool is_permitted = client_status(c) == 0;
    for (size_t i = 0; i < l.count && client_status(c) == 0; i++)
        if (keys_is_named(&l.key[i], flag[FLAG_NAME]))
            revoked += keys_remove(c, l.key[i].digest);
    if (count == 1 && revoked == 1)
        print_line(stdout, "revoked");
    else if (is_permitted)
        print_line(stdout, "revoked %lld keys", revoked);
    keys_list_fini(&l);
}

int command_keys_revoke(const struct options *o)
{
    static const char blanks[] = " \t\r\n"; /* what a key or digest may have around it, as it was copied */
    if (o->argument == NULL)
        return keys_check_name(o->args.flag[FLAG_NAME]) == EXIT_OK
                   ? client_run(o, CLIENT_API_KEYS, keys_revoke_named, NULL)
                   : EXIT_USAGE;
    struct span key = span_skip(span_of(o->argument), strspn(o->argument, blanks));
    while (key.len > 0 && strchr(blanks, key.data[key.len - 1]) != NULL)
        key.len--;
    return key.len > 0 ? client_run(o, CLIENT_API_KEYS, keys_revoke, &key)
                       : usage_error("keys revoke: expected a key or a digest");
}

/* --- Listing --- */

/* The text of a time; absent where there is none. */
static struct span keys_write_time(int64_t seconds, char out[API_KEY_TIME_LEN])
{
    if (seconds == API_KEY_NEVER || seconds == API_KEY_UNKNOWN) /* or API_KEY_REFUSED, the same */
        return SPAN_ABSENT;
    api_key_time_write(seconds, out);
    return (struct span){out, API_KEY_TIME_LEN};
}

/* No value has a control character. */
static void keys_print(const struct issued_key *key, bool is_json, int64_t now)
{
    const struct api_key_info *info = &key->info;
    char issued[API_KEY_TIME_LEN];
    char expires[API_KEY_TIME_LEN];
    bool is_refused = info->expires == API_KEY_REFUSED;
    bool is_expired = api_key_is_expired(info->expires, now);
    const struct {
        const char *name, *absent;
        struct span value;
    } fields[] = {
        {"{\"digest\":", "", key->digest},
        {",\"name\":", "-", info->name.len > 0 ? api_key_name_span(&info->name) : SPAN_ABSENT},
        {",\"issued\":", "-", keys_write_time(info->issued, issued)},
        {",\"expires\":", is_refused ? "malformed: refused" : "never",
         keys_write_time(info->expires, expires)},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        struct span value = fields[i].value;
        (void)fputs(is_json ? fields[i].name : i > 0 ? "\t" : "", stdout);
        if (value.data == NULL)
            (void)fputs(is_json ? "null" : fields[i].absent, stdout);
        else
            (void)printf(is_json ? "\"%.*s\"" : "%.*s", (int)value.len, value.data);
    }
    if (is_json)
        (void)printf(",\"valid\":%s}\n", is_expired ? "false" : "true");
    else
        (void)puts(is_expired && !is_refused ? " expired" : "");
}

static void keys_list(struct client *c, void *arg)
{
    struct key_list l;
    bool is_json = c->options->args.flag[FLAG_JSON] != NULL;
    int64_t now = clock_wall_s();
    (void)arg;
    keys_list_read(c, &l);
    for (size_t i = 0; i < l.count && client_status(c) == 0; i++)
        keys_print(&l.key[i], is_json, now);
    if (l.others > 0 && client_status(c) == 0) /* such a member may be a key, so it is not printed */
        show_message("not listed: %zu member%s of the set that cannot be a digest (see channelctl verify)",
                     l.others, plural((int64_t)l.others));
    keys_list_fini(&l);
}

int command_keys_list(const struct options *o)
{
    return client_run(o, CLIENT_API_KEYS, keys_list, NULL);
}
