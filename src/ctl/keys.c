/*
 * channelctl keys: issues, revokes and lists API keys.
 *
 * A key is printed once, when it is issued. Redis holds only its digest, the lower-case hex SHA-256, so that
 * a leaked copy of Redis grants no access. A key is random and cannot be guessed, so that a plain digest is
 * enough where passwords would need a slow one. The timing of a look-up by digest is of no use: a client that
 * chooses a key cannot choose its digest. Names and expiries are in a hash beside the set. Both are written
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
#include <sys/random.h>

enum { ISSUE_MAX = 100000 };

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

/* Makes sure that this user may use transactions: Redis would execute the commands of a refused one. */
static int keys_check_transactions(struct client *c)
{
    CLIENT_SEND(c, SPAN("MULTI"));
    CLIENT_SEND(c, SPAN("EXEC"));
    (void)client_receive(c);
    (void)client_receive(c);
    return client_status(c);
}

/* --- Issuing --- */

/* 256 bits from the kernel's generator, as "ck_" and base64url (RFC 4648 section 5, no padding). Differs from
 * every digest. */
enum { KEY_BYTES = 32, KEY_LEN = 46 };

static void keys_base64url(const unsigned char *in, size_t n, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint32_t bits = 0;
    int held = 0;
    for (size_t i = 0; i < n; i++) {
        bits = bits << 8 | in[i];
        held += 8;
        while (held >= 6) {
            held -= 6;
            *out++ = digits[bits >> held & 63];
        }
    }
    if (held > 0)
        *out = digits[bits << (6 - held) & 63];
}

/* A new key, without a NUL. Returns 0 or a negative errno. */
static int keys_generate_key(char out[KEY_LEN])
{
    unsigned char raw[KEY_BYTES];
    /* The kernel does not interrupt a request of so few bytes. */
    if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw)
        return -errno;
    memcpy(out, "ck_", 3);
    keys_base64url(raw, sizeof raw, out + 3);
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

static int keys_add_key(struct client *c, const struct hex_digest *hex, struct span info)
{
    CLIENT_SEND(c, SPAN("MULTI"));
    CLIENT_SEND(c, SPAN("SADD"), c->api_keys, keys_digest_text(hex));
    CLIENT_SEND(c, SPAN("HSET"), c->api_key_info, keys_digest_text(hex), info);
    CLIENT_SEND(c, SPAN("EXEC"));
    for (int i = 0; i < 3; i++)
        (void)client_receive(c);
    const struct redis_reply *reply = client_receive(c);
    bool complete =
        reply->type == REPLY_ARRAY && reply->elements == 2 && reply->element[0]->type == REPLY_INTEGER;
    return complete ? 0 : client_fail_unexpected(c);
}

/* Revokes a key that was not printed. Makes `why` the reason of the failure. */
static int keys_revoke_unprinted(struct client *c, const struct hex_digest *hex, const char *why)
{
    char reason[EXCERPT_MAX];
    int64_t removed = 0;
    (void)excerpt(span_of(why), reason); /* `why` may be client_error(), which changes */
    int err = client_is_lost(c) ? -EIO : keys_remove_key(c, keys_digest_text(hex), &removed);
    if (err != 0 && client_reopen(c) == 0)
        err = keys_remove_key(c, keys_digest_text(hex), &removed);
    if (err == 0)
        return client_explain(c, "%s; the key that could not be printed was revoked", reason);
    return client_explain(
        c, "%s; a key that was not printed may be valid: revoke it with channelctl keys revoke %.*s", reason,
        DIGEST_HEX_LEN, hex->text);
}

/* The key becomes valid before it is printed: every printed key works. */
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
    err = buf_error(text) == 0 ? keys_add_key(c, &hex, buf_span(text)) : client_fail_memory(c);
    if (err != 0 && client_is_lost(c))
        err = keys_revoke_unprinted(c, &hex, client_error(c));
    if (err == 0) {
        char why[EXCERPT_MAX];
        bool written = fwrite(line, 1, sizeof line, stdout) == sizeof line;
        (void)snprintf(why, sizeof why, "cannot write to standard output: %s", strerror(errno));
        err = written ? 0 : keys_revoke_unprinted(c, &hex, why);
    }
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

static int keys_read_info(const struct options *o, struct api_key_info *out)
{
    *out = API_KEY_INFO_NONE;
    out->issued = clock_wall_s();
    if (o->flag[FLAG_NAME] != NULL && !api_key_name_valid(span_of(o->flag[FLAG_NAME])))
        return usage_error("--name: expected 1 to %d of the characters A-Z a-z 0-9 _ . -", API_KEY_NAME_MAX);
    if (o->flag[FLAG_NAME] != NULL)
        api_key_name_set(&out->name, span_of(o->flag[FLAG_NAME]));
    return o->flag[FLAG_EXPIRES] == NULL
               ? EXIT_OK
               : keys_read_expiry(o->flag[FLAG_EXPIRES], out->issued, &out->expires);
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
    if (err == 0)
        err = keys_check_transactions(c);
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

static int keys_issue(struct client *c, const struct options *o)
{
    int64_t count = 1;
    struct api_key_info info;
    if (o->flag[FLAG_COUNT] != NULL &&
        (parse_int64(span_of(o->flag[FLAG_COUNT]), &count) != 0 || count < 1 || count > ISSUE_MAX))
        return usage_error("--count: expected a number from 1 to %d", ISSUE_MAX);
    int code = keys_read_info(o, &info);
    if (code == EXIT_OK)
        code = client_open(c, o, CLIENT_API_KEYS);
    return code == EXIT_OK ? keys_issue_all(c, count, &info) : code;
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

/* `key` is a key or a digest. A key may have the form of one. */
static int keys_revoke_key(struct client *c, const struct options *o, struct span key)
{
    int64_t removed = 0;
    struct hex_digest hex = {{0}};
    int code = client_open(c, o, CLIENT_API_KEYS);
    if (code != EXIT_OK)
        return code;
    int err = keys_read_digest(key, &hex) ? keys_remove_key(c, keys_digest_text(&hex), &removed) : 0;
    if (err == 0 && removed == 0) {
        hex = keys_digest_of(key);
        err = keys_remove_key(c, keys_digest_text(&hex), &removed);
    }
    if (err != 0)
        return client_print_error(c);
    if (removed == 0) {
        show_message("API key not found: it was never issued or is already revoked");
        return EXIT_FAILED;
    }
    (void)puts("revoked");
    return output_finish();
}

/* --- Listing --- */

static int keys_compare(const void *a, const void *b)
{
    const struct redis_reply *const *left = a;
    const struct redis_reply *const *right = b;
    return strcmp((*left)->str, (*right)->str);
}

static void keys_write_time(struct buf *out, int64_t seconds)
{
    char time[API_KEY_TIME_LEN];
    api_key_time_write(seconds, time);
    buf_append(out, time, sizeof time);
}

static void keys_write_expiry(struct buf *out, int64_t expires, int64_t now)
{
    if (expires == API_KEY_NEVER)
        buf_append_str(out, "never");
    else if (expires == API_KEY_REFUSED)
        buf_append_str(out, "malformed: refused");
    else
        keys_write_time(out, expires);
    if (expires != API_KEY_REFUSED && api_key_is_expired(expires, now))
        buf_append_str(out, " expired");
}

/* Prints the digest, name, time of issue and expiry, with a tab between them. */
static void keys_print_key(struct buf *line, struct span digest, const struct api_key_info *info, int64_t now)
{
    struct span name = info->name.len > 0 ? api_key_name_span(&info->name) : SPAN("-");
    buf_clear(line);
    buf_printf(line, "%.*s\t%.*s\t", (int)digest.len, digest.data, (int)name.len, name.data);
    if (info->issued == API_KEY_UNKNOWN)
        buf_append_char(line, '-');
    else
        keys_write_time(line, info->issued);
    buf_append_char(line, '\t');
    keys_write_expiry(line, info->expires, now);
    if (buf_c_str(line) != NULL)
        (void)puts(line->data);
}

enum { LIST_BATCH = 1000 };

static const struct redis_reply *keys_receive_infos(struct client *c, struct redis_reply *const *digests,
                                                    size_t count)
{
    struct span words[2 + LIST_BATCH] = {SPAN("HMGET"), c->api_key_info};
    for (size_t i = 0; i < count; i++)
        words[2 + i] = reply_text(digests[i]);
    client_send(c, 2 + count, words);
    const struct redis_reply *infos = client_receive_or_wrongtype(c);
    if (infos->type == REPLY_ARRAY && infos->elements == count)
        return infos;
    (void)(reply_is_wrongtype(infos) ? keys_fail_wrongtype(c, "hash", c->api_key_info)
                                     : client_fail_unexpected(c));
    return NULL;
}

/* Adds to *others the number of members that are not digests. Such a member may be a key, so it is not
 * printed. */
static int keys_print_batch(struct client *c, struct redis_reply *const *members, size_t count,
                            struct buf *line, int64_t *others)
{
    int64_t now = clock_wall_s();
    const struct redis_reply *infos = keys_receive_infos(c, members, count);
    if (infos == NULL)
        return -EIO;
    for (size_t i = 0; i < count && buf_error(line) == 0; i++) {
        struct api_key_info info = API_KEY_INFO_NONE;
        struct span text = reply_text(infos->element[i]);
        if (text.data != NULL)
            (void)api_key_info_parse(text, &info);
        if (digest_is_hex(reply_text(members[i])))
            keys_print_key(line, reply_text(members[i]), &info, now);
        else
            ++*others;
    }
    return buf_error(line) == 0 ? 0 : client_fail_memory(c);
}

static int keys_print_keys(struct client *c, const struct redis_reply *members)
{
    struct buf line = BUF_INIT;
    int64_t others = 0;
    int err = 0;
    for (size_t at = 0; at < members->elements && err == 0; at += LIST_BATCH) {
        size_t left = members->elements - at;
        err =
            keys_print_batch(c, members->element + at, left < LIST_BATCH ? left : LIST_BATCH, &line, &others);
    }
    buf_fini(&line);
    if (err == 0 && others > 0)
        show_message("not listed: %lld member%s of the set that cannot be a digest (see "
                     "channelctl verify)",
                     (long long)others, plural(others));
    return err;
}

static int keys_list(struct client *c, const struct options *o)
{
    int code = client_open(c, o, CLIENT_API_KEYS);
    if (code != EXIT_OK)
        return code;
    CLIENT_SEND(c, SPAN("SMEMBERS"), c->api_keys);
    struct redis_reply *reply = client_copy_reply(c, client_receive_or_wrongtype(c));
    if (reply != NULL && reply_is_wrongtype(reply))
        (void)keys_fail_wrongtype(c, "set", c->api_keys);
    if (reply == NULL || client_status(c) != 0) {
        free(reply);
        return client_print_error(c);
    }
    if (reply->elements > 0)
        qsort(reply->element, reply->elements, sizeof(struct redis_reply *), keys_compare);
    int err = keys_print_keys(c, reply);
    free(reply);
    return err != 0 ? client_print_error(c) : output_finish();
}

int command_keys(const struct options *o, int count, char **words)
{
    struct client c = {0};
    const char *what = count > 0 ? words[0] : "";
    int code = EXIT_USAGE;
    if (strcmp(what, "issue") == 0 && count == 1)
        code = keys_issue(&c, o);
    else if (strcmp(what, "revoke") == 0 && count == 2)
        code = keys_revoke_key(&c, o, span_of(words[1]));
    else if (strcmp(what, "list") == 0 && count == 1)
        code = keys_list(&c, o);
    else
        code = usage_error(
            "keys: expected issue [--count N] [--name NAME] [--expires WHEN], revoke KEY|DIGEST or "
            "list");
    client_close(&c);
    return code;
}
