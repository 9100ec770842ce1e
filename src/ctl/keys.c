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

/* The digest of a key, as Redis holds it. */
struct hex_digest {
    char text[DIGEST_HEX_LEN];
};

static struct hex_digest keys_digest_of(struct span key)
{
    struct digest digest;
    struct hex_digest hex = {{0}};
    digest_sha256(key, &digest);
    digest_hex(&digest, hex.text);
    return hex;
}

static struct span keys_digest_text(const struct hex_digest *hex)
{
    return (struct span){hex->text, sizeof hex->text};
}

/* Fails because a key has another type. The error of Redis would name neither the key nor a remedy. */
static int keys_fail_wrongtype(struct client *c, const char *what, struct span key)
{
    return client_fail(c, "%.*s is not a %s: delete it and restore it from a backup", (int)key.len, key.data,
                       what);
}

/* Makes sure that both keys have their types, or do not exist. Otherwise a transaction would do only half of
 * its work. */
static int keys_check_types(struct client *c)
{
    static const char *const types[] = {"set", "hash"};
    const struct span keys[] = {c->api_keys, c->api_key_info};
    for (int i = 0; i < 2; i++)
        CLIENT_SEND(c, SPAN("TYPE"), keys[i]);
    for (int i = 0; i < 2; i++) {
        struct span type = reply_text(client_receive(c));
        if (!span_equal(type, span_of(types[i])) && !span_equal(type, SPAN("none")))
            (void)keys_fail_wrongtype(c, types[i], keys[i]);
    }
    return client_status(c);
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

static void keys_receive_removed(struct client *c, const char *what, struct span key, int64_t *removed)
{
    const struct redis_reply *reply = client_receive_or_wrongtype(c);
    if (reply_is_wrongtype(reply))
        (void)keys_fail_wrongtype(c, what, key);
    *removed = reply->integer;
}

/* *removed: 1 if the key was in the set. Its info goes only after that: a key is never valid without its
 * expiry. */
static int keys_remove_key(struct client *c, struct span hex, int64_t *removed)
{
    int64_t infos = 0;
    CLIENT_SEND(c, SPAN("SREM"), c->api_keys, hex);
    keys_receive_removed(c, "set", c->api_keys, removed);
    if (client_status(c) != 0)
        return -EIO;
    CLIENT_SEND(c, SPAN("HDEL"), c->api_key_info, hex);
    keys_receive_removed(c, "hash", c->api_key_info, &infos);
    return client_status(c) == 0
               ? 0
               : client_explain(c, "the key is not valid any more, but its info was not removed: %s",
                                client_error(c));
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
        return client_explain(c, "%s; the key that could not be printed was revoked", reason);
    return client_explain(
        c, "%s; a key that was not printed may be valid: revoke it with channelctl keys revoke %.*s", reason,
        (int)hex.len, hex.data);
}

/* The key becomes valid before it is printed: every printed key works. After any failure it may be valid: the
 * connection was lost, or Redis refused the transaction and yet executed its commands. */
static int keys_issue_one(struct client *c, const struct api_key_info *info, struct buf *text)
{
    char line[KEY_LEN + 1] = "";
    int err = keys_generate_key(line);
    if (err != 0)
        return client_fail(c, "cannot get random numbers: %s", strerror(-err));
    line[KEY_LEN] = '\n';
    struct hex_digest hex = keys_digest_of((struct span){line, KEY_LEN});
    buf_clear(text);
    api_key_info_write(text, info);
    err = buf_error(text) == 0 ? keys_add_key(c, keys_digest_text(&hex), buf_span(text))
                               : client_fail_memory(c);
    if (err == 0 && fwrite(line, 1, sizeof line, stdout) != sizeof line)
        err = client_fail(c, "cannot write to standard output: %s", strerror(errno));
    if (err != 0)
        err = keys_revoke_unprinted(c, keys_digest_text(&hex));
    explicit_bzero(line, sizeof line);
    return err;
}

enum { SECONDS_MAX = 100LL * 366 * 24 * 60 * 60 }; /* the longest time until an expiry: a hundred years */

/* "90d", or what parse_duration_ms reads. Seconds, or -1. */
static int64_t keys_parse_seconds(struct span text)
{
    int64_t value = 0;
    if (text.len > 1 && text.data[text.len - 1] == 'd')
        return parse_int64((struct span){text.data, text.len - 1}, &value) == 0 && value >= 0 &&
                       value <= SECONDS_MAX / 86400
                   ? value * 86400
                   : -1;
    return parse_duration_ms(text, &value) == 0 && value % 1000 == 0 ? value / 1000 : -1;
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
    int err = keys_check_types(c);
    while (issued < count && err == 0 && interrupt_signal() == 0) {
        err = keys_issue_one(c, info, &text);
        issued += err == 0;
    }
    buf_fini(&text);
    if (err != 0)
        (void)client_print_error(c);
    if (count > 1 && issued < count)
        show_message("%lld of %lld keys were issued and printed", (long long)issued, (long long)count);
    if (interrupt_signal() != 0)
        return 128 + interrupt_signal();
    return err == 0 ? EXIT_OK : EXIT_FAILED;
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

enum { VISIT_BATCH = 1000 };

/* Called with each key. It must not use the client. */
typedef void (*keys_visit)(void *arg, struct span digest, const struct api_key_info *info);

static void keys_visit_key(struct client *c, struct span digest, keys_visit visit, void *arg)
{
    struct api_key_info info = API_KEY_INFO_NONE;
    const struct redis_reply *reply = client_receive_or_wrongtype(c);
    if (reply_is_wrongtype(reply))
        (void)keys_fail_wrongtype(c, "hash", c->api_key_info);
    struct span text = reply->elements == 1 ? reply_text(reply_first(reply)) : SPAN_ABSENT;
    if (text.data != NULL)
        (void)api_key_info_parse(text, &info);
    if (client_status(c) == 0)
        visit(arg, digest, &info);
}

static void keys_visit_batch(struct client *c, const struct redis_reply *members, size_t count,
                             keys_visit visit, void *arg)
{
    CLIENT_PIPELINE(i, count, digest_is_hex(reply_text(&members[i])),
                    CLIENT_SEND(c, SPAN("HMGET"), c->api_key_info, reply_text(&members[i])),
                    keys_visit_key(c, reply_text(&members[i]), visit, arg));
}

static int keys_compare(const void *a, const void *b)
{
    const struct redis_reply *left = a;
    const struct redis_reply *right = b;
    return strcmp(left->str, right->str);
}

/* Visits all keys, sorted by their digests. *others: the members that are not digests, which are not visited.
 */
static int keys_visit_all(struct client *c, keys_visit visit, void *arg, int64_t *others)
{
    CLIENT_SEND(c, SPAN("SMEMBERS"), c->api_keys);
    struct redis_reply *members = client_copy_reply(c, client_receive_or_wrongtype(c));
    if (members != NULL && reply_is_wrongtype(members))
        (void)keys_fail_wrongtype(c, "set", c->api_keys);
    size_t count = members != NULL && client_status(c) == 0 ? members->elements : 0;
    if (count > 0)
        qsort(members + 1, count, sizeof *members, keys_compare);
    for (size_t i = 0; i < count; i++)
        *others += !digest_is_hex(reply_text(&members[1 + i]));
    for (size_t at = 0; at < count && client_status(c) == 0; at += VISIT_BATCH)
        keys_visit_batch(c, members + 1 + at, MIN(count - at, VISIT_BATCH), visit, arg);
    free(members);
    return client_status(c);
}

/* --- Revoking --- */

/* True if the text is a digest, in any case. */
static bool keys_read_digest(struct span text, struct hex_digest *hex)
{
    if (text.len != sizeof hex->text)
        return false;
    for (size_t i = 0; i < sizeof hex->text; i++)
        hex->text[i] = (char)tolower((unsigned char)text.data[i]);
    return digest_is_hex(keys_digest_text(hex));
}

/* `key` is a key or a digest. A key may have the form of one, or any other form: it may be one that another
 * program has added. */
static int keys_revoke_key(struct client *c, struct span key)
{
    int64_t removed = 0;
    struct hex_digest hex = {{0}};
    bool is_digest = keys_read_digest(key, &hex);
    int err = is_digest ? keys_remove_key(c, keys_digest_text(&hex), &removed) : 0;
    if (err == 0 && removed == 0) {
        hex = keys_digest_of(key);
        err = keys_remove_key(c, keys_digest_text(&hex), &removed);
    }
    if (err != 0)
        return client_print_error(c);
    if (removed == 0) {
        bool is_key = key.len == KEY_LEN && span_starts_with(key, SPAN("ck_"));
        return FAIL("API key not found: it was never issued or is already revoked%s",
                    is_digest || is_key ? ""
                                        : "; the text is neither a key of channelctl (ck_ and 43 characters) "
                                          "nor a digest (64 hexadecimal digits)");
    }
    print_line(stdout, "revoked");
    return output_finish();
}

/* The keys of a name. */
struct named_keys {
    struct span name;
    struct buf digests; /* one behind the other */
};

static void keys_collect_named(void *arg, struct span digest, const struct api_key_info *info)
{
    struct named_keys *n = arg;
    if (span_equal(api_key_name_span(&info->name), n->name))
        buf_append_span(&n->digests, digest);
}

static int keys_revoke_all_of(struct client *c, const struct named_keys *n, size_t count)
{
    int64_t removed = 0;
    int64_t revoked = 0;
    for (size_t i = 0; i < count; i++) {
        struct span digest = {n->digests.data + i * DIGEST_HEX_LEN, DIGEST_HEX_LEN};
        if (keys_remove_key(c, digest, &removed) != 0)
            break;
        revoked += removed;
    }
    if (count == 1 && revoked == 1)
        print_line(stdout, "revoked");
    else
        print_line(stdout, "revoked %lld keys", (long long)revoked);
    int code = output_finish();
    return client_status(c) == 0 ? code : client_print_error(c);
}

static int keys_revoke_named(struct client *c, const char *name, bool all)
{
    struct named_keys n = {.name = span_of(name)};
    int64_t others = 0;
    int err = keys_visit_all(c, keys_collect_named, &n, &others);
    size_t count = n.digests.len / DIGEST_HEX_LEN;
    if (buf_error(&n.digests) != 0)
        err = client_fail_memory(c);
    else if (err == 0 && count == 0)
        err = client_fail(c, "API key not found: none has the name %s", name);
    else if (err == 0 && count > 1 && !all)
        err = client_fail(c,
                          "%zu keys have the name %s: nothing was revoked (--all revokes all of them, "
                          "a digest of channelctl keys list one)",
                          count, name);
    int code = err == 0 ? keys_revoke_all_of(c, &n, count) : client_print_error(c);
    buf_fini(&n.digests);
    return code;
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

struct listing {
    bool is_json;
    int64_t now;
};

/* A value as a JSON text, or as it is; `otherwise`, or null, where it is absent. */
enum { COLUMN_MAX = 80 };
static const char *keys_show(const struct listing *l, struct span value, const char *otherwise,
                             char out[COLUMN_MAX])
{
    const char *quote = l->is_json && value.data != NULL ? "\"" : "";
    if (value.data == NULL)
        value = span_of(l->is_json ? "null" : otherwise);
    (void)snprintf(out, COLUMN_MAX, "%s%.*s%s", quote, (int)value.len, value.data, quote);
    return out;
}

static void keys_print_key(void *arg, struct span digest, const struct api_key_info *info)
{
    const struct listing *l = arg;
    char column[4][COLUMN_MAX];
    char issued[API_KEY_TIME_LEN];
    char expires[API_KEY_TIME_LEN];
    bool is_refused = info->expires == API_KEY_REFUSED;
    bool is_expired = api_key_is_expired(info->expires, l->now);
    struct span name = info->name.len > 0 ? api_key_name_span(&info->name) : SPAN_ABSENT;
    const char *rest = is_expired && !is_refused ? " expired" : "";
    if (l->is_json)
        rest = is_expired ? "false" : "true";
    /* No column has a control character. */
    (void)printf(l->is_json ? "{\"digest\":%s,\"name\":%s,\"issued\":%s,\"expires\":%s,\"valid\":%s}\n"
                            : "%s\t%s\t%s\t%s%s\n",
                 keys_show(l, digest, "", column[0]), keys_show(l, name, "-", column[1]),
                 keys_show(l, keys_time_of(info->issued, issued), "-", column[2]),
                 keys_show(l, keys_time_of(info->expires, expires),
                           is_refused ? "malformed: refused" : "never", column[3]),
                 rest);
}

static int keys_list_all(struct client *c, struct listing *l)
{
    int64_t others = 0;
    if (keys_visit_all(c, keys_print_key, l, &others) != 0)
        return client_print_error(c);
    if (others > 0) /* such a member may be a key, so it is not printed */
        show_message("not listed: %lld member%s of the set that cannot be a digest (see channelctl verify)",
                     (long long)others, plural(others));
    return output_finish();
}

int command_keys_list(const struct options *o, const char *argument)
{
    struct client c = {0};
    (void)argument;
    int code = client_open(&c, o, CLIENT_API_KEYS);
    if (code == EXIT_OK)
        code = keys_list_all(&c, &(struct listing){o->args.flag[FLAG_JSON] != NULL, clock_wall_s()});
    client_close(&c);
    return code;
}
