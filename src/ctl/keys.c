/*
 * channelctl keys: issues, revokes and lists API keys.
 *
 * A key is printed once, when it is issued. Redis holds only its digest, the lower-case hex SHA-256, so that
 * a leaked copy of Redis grants no access. A key is random and cannot be guessed, so that a plain digest is
 * enough where passwords would need a slow one. The timing of a look-up by digest is of no use: a client that
 * chooses a key cannot choose its digest. Names and expiries are in a hash. Set and hash are written
 * in one transaction. A key is revoked without a transaction, since a full Redis would refuse one.
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

enum { ISSUE_MAX = 100000 };

/* What a key or digest may have around it, as it was copied. */
#define BLANKS " \t\r\n"

/* The digest of a key, as Redis holds it, in `hex`. */
static struct span keys_digest_of(struct span key, char hex[DIGEST_HEX_LEN])
{
    struct digest digest;
    digest_sha256(key, &digest);
    digest_hex(&digest, hex);
    return (struct span){hex, DIGEST_HEX_LEN};
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

/* --- Issuing --- */

/* 256 bits from the kernel's generator, as "ck_" and base64url (RFC 4648 section 5, no padding). Differs from
 * every digest. */
enum { KEY_DIGITS = 43, KEY_LEN = 3 + KEY_DIGITS };

/* A new key, without a NUL. Returns 0 or a negative errno. */
static int keys_generate_key(char out[KEY_LEN])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char raw[KEY_DIGITS];
    /* The kernel does not interrupt a request of so few bytes. */
    if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw)
        return -errno;
    raw[KEY_DIGITS - 1] &= 60; /* the last digit has 4 bits, the others have 6 */
    memcpy(out, "ck_", 3);
    for (int i = 0; i < KEY_DIGITS; i++)
        out[3 + i] = digits[raw[i] & 63];
    explicit_bzero(raw, sizeof raw);
    return 0;
}

/* *removed: 1 if the key was in the set. Its info goes only after that: a key is never valid without its
 * expiry. */
static int keys_remove_key(struct client *c, struct span hex, int64_t *removed)
{
    CLIENT_SEND(c, SPAN("SREM"), c->api_keys, hex);
    *removed = client_receive_of(c, c->api_keys, "set")->integer;
    if (client_status(c) != 0)
        return -EIO;
    CLIENT_SEND(c, SPAN("HDEL"), c->api_key_info, hex);
    (void)client_receive_of(c, c->api_key_info, "hash");
    if (client_status(c) != 0)
        client_explain(c, "the key is not valid any more, but its info was not removed: %s", client_error(c));
    return client_status(c);
}

static int keys_add_key(struct client *c, struct span hex, struct span info)
{
    CLIENT_SEND(c, SPAN("MULTI"));
    CLIENT_SEND(c, SPAN("SADD"), c->api_keys, hex);
    CLIENT_SEND(c, SPAN("HSET"), c->api_key_info, hex, info);
    CLIENT_SEND(c, SPAN("EXEC"));
    for (int i = 0; i < 3; i++)
        (void)client_receive(c);
    const struct redis_reply *reply = client_receive(c);
    bool complete =
        reply->type == REPLY_ARRAY && reply->elements == 2 && reply_first(reply)->type == REPLY_INTEGER;
    return complete ? 0 : client_fail_unexpected(c);
}

/* Revokes a key that was not printed, after a failure. Returns -EIO with both reasons. */
static int keys_revoke_unprinted(struct client *c, struct span hex)
{
    int64_t removed = 0;
    const char *reason = EXCERPT(span_of(client_error(c)));
    if (client_reopen(c) == 0 && keys_remove_key(c, hex, &removed) == 0)
        return client_fail(c, "%s; the key that could not be printed was revoked", reason);
    client_explain(c,
                   "%s; a key that was not printed may be valid: revoke it with channelctl keys revoke %.*s",
                   reason, (int)hex.len, hex.data);
    return -EIO;
}

/* The key becomes valid before it is printed: every printed key works. After any failure it may be valid: the
 * connection was lost, or Redis refused the transaction and yet executed its commands. */
static int keys_issue_one(struct client *c, const struct api_key_info *info, struct buf *text)
{
    char hex[DIGEST_HEX_LEN];
    char line[KEY_LEN + 1] = "";
    int err = keys_generate_key(line);
    if (err != 0)
        return client_fail(c, "cannot get random numbers: %s", strerror(-err));
    line[KEY_LEN] = '\n';
    struct span digest = keys_digest_of((struct span){line, KEY_LEN}, hex);
    buf_clear(text);
    api_key_info_write(text, info);
    err = buf_error(text) == 0 ? keys_add_key(c, digest, buf_span(text)) : client_fail_memory(c);
    if (err == 0 && fwrite(line, 1, sizeof line, stdout) != sizeof line)
        err = client_fail(c, "cannot write to standard output: %s", strerror(errno));
    if (err != 0)
        err = keys_revoke_unprinted(c, digest);
    explicit_bzero(line, sizeof line);
    return err;
}

enum { SECONDS_MAX = 100LL * 366 * 24 * 60 * 60 }; /* the longest time until an expiry: a hundred years */

/* "90d", or another duration. Seconds, or -1. */
static int64_t keys_parse_seconds(struct span text)
{
    int64_t value = 0;
    if (text.len > 1 && text.data[text.len - 1] == 'd')
        return parse_int64((struct span){text.data, text.len - 1}, &value) == 0 && value >= 0 &&
                       value <= SECONDS_MAX / 86400
                   ? value * 86400
                   : -1;
    return parse_amount(text, &text_durations, &value) == 0 && value % 1000 == 0 ? value / 1000 : -1;
}

/* "2027-02-20" is the beginning of that day. */
static bool keys_parse_moment(struct span text, int64_t *out)
{
    struct buf whole = BUF_INIT;
    buf_append_span(&whole, text);
    if (text.len == 10)
        buf_append_str(&whole, "T00:00:00Z");
    bool valid = api_key_time_parse(buf_span(&whole), out);
    buf_fini(&whole);
    return valid;
}

/* Returns EXIT_OK, or prints what is wrong and returns the exit code. */
static int keys_read_expiry(const char *text, int64_t now, int64_t *out)
{
    int64_t seconds = keys_parse_seconds(span_of(text));
    if (seconds > 0 && seconds <= SECONDS_MAX)
        *out = now + seconds;
    else if (seconds >= 0)
        return usage_error("--expires: expected a second to a hundred years");
    else if (!keys_parse_moment(span_of(text), out))
        return usage_error("--expires: expected a time such as 90d, 12h or 30m, or a date in UTC such as "
                           "2027-02-20 or 2027-02-20T10:00:00Z");
    else if (*out <= now)
        return usage_error("--expires: %s is in the past", text);
    return EXIT_OK;
}

static int keys_check_name(const char *name)
{
    if (api_key_name_valid(span_of(name)))
        return EXIT_OK;
    return usage_error("--name: expected 1 to %d of the characters A-Z a-z 0-9 _ . -", API_KEY_NAME_MAX);
}

static int keys_read_info(const struct options *o, struct api_key_info *out)
{
    const char *name = o->args.flag[FLAG_NAME];
    *out = API_KEY_INFO_NONE;
    out->issued = clock_wall_s();
    if (name != NULL && keys_check_name(name) != EXIT_OK)
        return EXIT_USAGE;
    if (name != NULL)
        api_key_name_set(&out->name, span_of(name));
    return o->args.flag[FLAG_EXPIRES] == NULL
               ? EXIT_OK
               : keys_read_expiry(o->args.flag[FLAG_EXPIRES], out->issued, &out->expires);
}

/* Returns the exit code. */
static int keys_issue_all(struct client *c, int64_t count, const struct api_key_info *info)
{
    struct buf text = BUF_INIT;
    int64_t issued = 0;
    interrupt_watch();                      /* a signal must not end the process before a valid key is
                                             * printed */
    (void)setvbuf(stdout, NULL, _IONBF, 0); /* or a key that was revoked could be printed at the end */
    keys_check_type(c, c->api_keys, SPAN("set"));
    keys_check_type(c, c->api_key_info, SPAN("hash"));
    int err = client_status(c);
    while (issued < count && err == 0 && interrupt_signal() == 0) {
        err = keys_issue_one(c, info, &text);
        issued += err == 0;
    }
    buf_fini(&text);
    if (err != 0)
        (void)client_print_error(c);
    if (count > 1 && issued < count)
        show_message("%lld of %lld keys were issued and printed", (long long)issued, (long long)count);
    return interrupt_code(err == 0 ? EXIT_OK : EXIT_FAILED);
}

int command_keys_issue(const struct options *o, const char *argument)
{
    struct client c = {0};
    int64_t count = 1;
    struct api_key_info info;
    (void)argument;
    if (o->args.flag[FLAG_COUNT] != NULL &&
        (parse_int64(span_of(o->args.flag[FLAG_COUNT]), &count) != 0 || count < 1 || count > ISSUE_MAX))
        return usage_error("--count: expected a number from 1 to %d", ISSUE_MAX);
    int code = keys_read_info(o, &info);
    if (code == EXIT_OK)
        code = client_open(&c, o, CLIENT_API_KEYS);
    if (code == EXIT_OK)
        code = keys_issue_all(&c, count, &info);
    client_close(&c);
    return code;
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
    int64_t others; /* members of the set that are not digests */
};

static void keys_receive_info(struct client *c, struct api_key_info *out)
{
    const struct redis_reply *reply = client_receive_of(c, c->api_key_info, "hash");
    struct span text = reply->elements == 1 ? reply_text(reply_first(reply)) : SPAN_ABSENT;
    *out = API_KEY_INFO_NONE;
    if (text.data != NULL)
        (void)api_key_info_parse(text, out);
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

/* Returns 0 or -EIO. Call keys_list_fini in every case. */
static int keys_list_read(struct client *c, struct key_list *l)
{
    *l = (struct key_list){0};
    CLIENT_SEND(c, SPAN("SMEMBERS"), c->api_keys);
    (void)client_receive_of(c, c->api_keys, "set");
    l->members = client_own_reply(c);
    size_t members = l->members != NULL ? l->members->elements : 0;
    l->key = calloc(members + 1, sizeof *l->key);
    if (l->key == NULL)
        return client_fail_memory(c);
    for (size_t i = 0; i < members; i++)
        if (digest_is_hex(reply_text(&l->members[1 + i])))
            l->key[l->count++].digest = reply_text(&l->members[1 + i]);
    l->others = (int64_t)(members - l->count);
    qsort(l->key, l->count, sizeof *l->key, keys_compare);
    for (size_t at = 0; at < l->count && client_status(c) == 0; at += READ_BATCH)
        keys_read_infos(c, l->key + at, MIN(l->count - at, READ_BATCH));
    return client_status(c);
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

/* `key` is a key or a digest. A key may have the form of one, or any other form: it may be one that another
 * program has added. */
static int keys_revoke_key(struct client *c, struct span key)
{
    int64_t removed = 0;
    char hex[DIGEST_HEX_LEN] = "";
    struct span digest = keys_read_digest(key, hex);
    bool is_known_form = digest.data != NULL || (key.len == KEY_LEN && span_starts_with(key, SPAN("ck_")));
    int err = digest.data != NULL ? keys_remove_key(c, digest, &removed) : 0;
    if (err == 0 && removed == 0)
        err = keys_remove_key(c, keys_digest_of(key, hex), &removed);
    if (err != 0)
        return client_print_error(c);
    if (removed == 0)
        return FAIL("API key not found: it was never issued or is already revoked%s",
                    is_known_form ? ""
                                  : "; the text is neither a key of channelctl (ck_ and 43 characters) nor "
                                    "a digest (64 hexadecimal digits)");
    print_line(stdout, "revoked");
    return output_finish();
}

static bool keys_is_named(const struct issued_key *key, const char *name)
{
    return span_equal(api_key_name_span(&key->info.name), span_of(name));
}

/* Returns how many were revoked, also if not all of them could be. */
static int64_t keys_revoke_all_of(struct client *c, const struct key_list *l, const char *name)
{
    int64_t removed = 0;
    int64_t revoked = 0;
    for (size_t i = 0; i < l->count && client_status(c) == 0; i++)
        if (keys_is_named(&l->key[i], name) && keys_remove_key(c, l->key[i].digest, &removed) == 0)
            revoked += removed;
    return revoked;
}

static int keys_revoke_named(struct client *c, const char *name, bool all)
{
    struct key_list l;
    size_t count = 0;
    int err = keys_list_read(c, &l);
    for (size_t i = 0; i < l.count; i++)
        count += keys_is_named(&l.key[i], name);
    if (err == 0 && count == 0)
        err = client_fail(c, "API key not found: none has the name %s", name);
    else if (err == 0 && count > 1 && !all)
        err = client_fail(c,
                          "%zu keys have the name %s: nothing was revoked (--all revokes all of them, "
                          "a digest of channelctl keys list one)",
                          count, name);
    int64_t revoked = keys_revoke_all_of(c, &l, name);
    if (err == 0 && count == 1 && revoked == 1)
        print_line(stdout, "revoked");
    else if (err == 0)
        print_line(stdout, "revoked %lld keys", (long long)revoked);
    int code = output_finish();
    keys_list_fini(&l);
    return client_status(c) == 0 ? code : client_print_error(c);
}

int command_keys_revoke(const struct options *o, const char *argument)
{
    struct client c = {0};
    const char *name = o->args.flag[FLAG_NAME];
    struct span key = SPAN_ABSENT;
    if (argument != NULL) {
        key = span_skip(span_of(argument), strspn(argument, BLANKS));
        while (key.len > 0 && strchr(BLANKS, key.data[key.len - 1]) != NULL)
            key.len--;
        if (key.len == 0)
            return usage_error("keys revoke: expected a key or a digest");
    } else if (keys_check_name(name) != EXIT_OK)
        return EXIT_USAGE;
    int code = client_open(&c, o, CLIENT_API_KEYS);
    if (code == EXIT_OK)
        code = argument != NULL ? keys_revoke_key(&c, key)
                                : keys_revoke_named(&c, name, o->args.flag[FLAG_ALL] != NULL);
    client_close(&c);
    return code;
}

/* --- Listing --- */

/* Absent for API_KEY_NEVER, API_KEY_UNKNOWN and API_KEY_REFUSED; the last two are equal. */
static struct span keys_time_of(int64_t seconds, char out[API_KEY_TIME_LEN])
{
    if (seconds == API_KEY_UNKNOWN || seconds == API_KEY_NEVER)
        return SPAN_ABSENT;
    api_key_time_write(seconds, out);
    return (struct span){out, API_KEY_TIME_LEN};
}

/* A value as a JSON text, or as it is; `otherwise`, or null, where it is absent. */
enum { COLUMN_MAX = 80 };
static const char *keys_show(bool is_json, struct span value, const char *otherwise, char out[COLUMN_MAX])
{
    const char *quote = is_json && value.data != NULL ? "\"" : "";
    if (value.data == NULL)
        value = span_of(is_json ? "null" : otherwise);
    (void)snprintf(out, COLUMN_MAX, "%s%.*s%s", quote, (int)value.len, value.data, quote);
    return out;
}

static void keys_print_key(const struct issued_key *key, bool is_json, int64_t now)
{
    const struct api_key_info *info = &key->info;
    char column[4][COLUMN_MAX];
    char issued[API_KEY_TIME_LEN];
    char expires[API_KEY_TIME_LEN];
    bool is_refused = info->expires == API_KEY_REFUSED;
    bool is_expired = api_key_is_expired(info->expires, now);
    struct span name = info->name.len > 0 ? api_key_name_span(&info->name) : SPAN_ABSENT;
    const char *rest = is_expired && !is_refused ? " expired" : "";
    if (is_json)
        rest = is_expired ? "false" : "true";
    /* No column has a control character. */
    (void)printf(is_json ? "{\"digest\":%s,\"name\":%s,\"issued\":%s,\"expires\":%s,\"valid\":%s}\n"
                         : "%s\t%s\t%s\t%s%s\n",
                 keys_show(is_json, key->digest, "", column[0]), keys_show(is_json, name, "-", column[1]),
                 keys_show(is_json, keys_time_of(info->issued, issued), "-", column[2]),
                 keys_show(is_json, keys_time_of(info->expires, expires),
                           is_refused ? "malformed: refused" : "never", column[3]),
                 rest);
}

static int keys_print_all(struct client *c, bool is_json)
{
    struct key_list l;
    int64_t now = clock_wall_s();
    int err = keys_list_read(c, &l);
    for (size_t i = 0; i < l.count && err == 0; i++)
        keys_print_key(&l.key[i], is_json, now);
    if (err == 0 && l.others > 0) /* such a member may be a key, so it is not printed */
        show_message("not listed: %lld member%s of the set that cannot be a digest (see channelctl verify)",
                     (long long)l.others, plural(l.others));
    keys_list_fini(&l);
    return err == 0 ? output_finish() : client_print_error(c);
}

int command_keys_list(const struct options *o, const char *argument)
{
    struct client c = {0};
    (void)argument;
    int code = client_open(&c, o, CLIENT_API_KEYS);
    if (code == EXIT_OK)
        code = keys_print_all(&c, o->args.flag[FLAG_JSON] != NULL);
    client_close(&c);
    return code;
}
