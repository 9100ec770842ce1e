/*
 * channelctl keys: issues, revokes and lists API keys.
 *
 * A key is printed once, when it is issued. Redis holds only its digest, the lower-case hex SHA-256, so that
 * a leaked copy of Redis grants no access. A key is random and cannot be guessed, so that a plain digest is
 * enough where passwords would need a slow one. The timing of a look-up by digest is of no use: a client that
 * chooses a key cannot choose its digest.
 */
#include "base/digest.h"
#include "base/text.h"
#include "ctl/client.h"
#include "ctl/terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

enum { ISSUE_MAX = 100000 };

/* The digest of a key, as Redis holds it. */
struct hex_digest {
    char text[DIGEST_HEX_LEN];
};

static struct hex_digest digest_of(struct span key)
{
    struct digest digest;
    struct hex_digest hex = {{0}};
    digest_sha256(key, &digest);
    digest_hex(&digest, hex.text);
    return hex;
}

static struct span digest_text(const struct hex_digest *hex)
{
    return (struct span){hex->text, sizeof hex->text};
}

/* As client_receive, but the error for a key of another type names the key. */
static redisReply *receive(struct client *c)
{
    redisReply *reply = client_receive_or_wrongtype(c);
    if (reply == NULL || !reply_is_wrongtype(reply))
        return reply;
    freeReplyObject(reply);
    (void)client_fail(c, "%.*s is not a set: delete it, then issue all keys again", (int)c->api_keys.len,
                      c->api_keys.data);
    return NULL;
}

static int receive_integer(struct client *c, int64_t *out)
{
    return client_take_integer(c, receive(c), out);
}

/* --- Issuing --- */

/* 256 bits from the kernel's generator, as "ck_" and base64url (RFC 4648 section 5, no padding). Differs from
 * every digest. */
enum { KEY_BYTES = 32, KEY_LEN = 46 };

static int random_bytes(unsigned char *out, size_t n)
{
    while (n > 0) {
        ssize_t got = getrandom(out, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : -EIO;
        out += got;
        n -= (size_t)got;
    }
    return 0;
}

static void base64url(const unsigned char *in, size_t n, char *out)
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
static int generate_key(char out[KEY_LEN])
{
    unsigned char raw[KEY_BYTES];
    int err = random_bytes(raw, sizeof raw);
    if (err != 0)
        return err;
    memcpy(out, "ck_", 3);
    base64url(raw, sizeof raw, out + 3);
    explicit_bzero(raw, sizeof raw);
    return 0;
}

/* Without stdio, which could write the text later. Returns 0 or a negative errno. */
static int write_out(const char *text, size_t length)
{
    while (length > 0) {
        ssize_t n = write(STDOUT_FILENO, text, length);
        if (n < 0 && (errno != EINTR || interrupt_signal() != 0))
            return -errno;
        if (n > 0) {
            text += n;
            length -= (size_t)n;
        }
    }
    return 0;
}

static int remove_key(struct client *c, const struct hex_digest *hex)
{
    int64_t removed = 0;
    CLIENT_SEND(c, SPAN("SREM"), buf_span(&c->api_keys), digest_text(hex));
    return receive_integer(c, &removed);
}

/* Revokes a key that was not printed. Makes `why` the reason of the failure. */
static int revoke_unprinted(struct client *c, const struct hex_digest *hex, const char *why)
{
    char reason[EXCERPT_MAX];
    (void)excerpt(span_of(why), reason); /* `why` may be client_error(), which changes */
    int err = client_is_lost(c) ? -EIO : remove_key(c, hex);
    if (err != 0 && client_reopen(c) == 0)
        err = remove_key(c, hex);
    if (err == 0)
        return client_fail(c, "%s; the key that could not be printed was revoked", reason);
    return client_fail(
        c, "%s; a key that was not printed may be valid: revoke it with channelctl keys revoke %.*s", reason,
        DIGEST_HEX_LEN, hex->text);
}

/* The key becomes valid before it is printed: every printed key works. */
static int issue_one(struct client *c)
{
    char line[KEY_LEN + 1] = "";
    int err = generate_key(line);
    if (err != 0)
        return client_fail(c, "cannot get random numbers: %s", strerror(-err));
    line[KEY_LEN] = '\n';
    struct hex_digest hex = digest_of((struct span){line, KEY_LEN});
    int64_t added = 0;
    CLIENT_SEND(c, SPAN("SADD"), buf_span(&c->api_keys), digest_text(&hex));
    err = receive_integer(c, &added);
    if (err != 0 && client_is_lost(c))
        err = revoke_unprinted(c, &hex, client_error(c));
    if (err == 0) {
        int written = write_out(line, sizeof line);
        char why[EXCERPT_MAX];
        (void)snprintf(why, sizeof why, "cannot write to standard output: %s", strerror(-written));
        err = written == 0 ? 0 : revoke_unprinted(c, &hex, why);
    }
    explicit_bzero(line, sizeof line);
    return err;
}

static int issue(struct client *c, const struct options *o)
{
    int64_t count = 1;
    int64_t issued = 0;
    if (o->count != NULL && (parse_int64(span_of(o->count), &count) != 0 || count < 1 || count > ISSUE_MAX))
        return usage_error("--count: expected a number from 1 to %d", ISSUE_MAX);
    int code = client_open(c, o);
    if (code != EXIT_OK)
        return code;
    interrupt_watch(); /* no signal may end the process before a valid key is printed */
    int err = 0;
    while (issued < count && err == 0 && interrupt_signal() == 0) {
        err = issue_one(c);
        issued += err == 0;
    }
    if (err != 0)
        (void)client_print_error(c);
    if (count > 1 && issued < count)
        (void)fprintf(stderr, "channelctl: %lld of %lld keys were issued and printed\n", (long long)issued,
                      (long long)count);
    if (interrupt_signal() != 0)
        return 128 + interrupt_signal();
    return err == 0 ? EXIT_OK : EXIT_FAILED;
}

/* --- Revoking --- */

static int revoke_key(struct client *c, const struct options *o, struct span key)
{
    int64_t removed = 0;
    struct hex_digest hex = digest_of(key);
    int code = client_open(c, o);
    if (code != EXIT_OK)
        return code;
    if (digest_is_hex(key))
        CLIENT_SEND(c, SPAN("SREM"), buf_span(&c->api_keys), key);
    else
        CLIENT_SEND(c, SPAN("SREM"), buf_span(&c->api_keys), digest_text(&hex));
    int err = receive_integer(c, &removed);
    if (err != 0)
        return client_print_error(c);
    if (removed == 0) {
        (void)fputs("channelctl: API key not found: it was never issued or is already revoked\n", stderr);
        return EXIT_FAILED;
    }
    (void)puts("revoked");
    return output_finish();
}

/* --- Listing --- */

static int compare(const void *a, const void *b)
{
    const redisReply *const *left = a;
    const redisReply *const *right = b;
    return strcmp((*left)->str, (*right)->str);
}

/* A member that is not a digest may be a key: it is not printed. */
static void print_digests(const redisReply *members)
{
    int64_t others = 0;
    for (size_t i = 0; i < members->elements; i++) {
        if (digest_is_hex(reply_text(members->element[i])))
            (void)puts(members->element[i]->str);
        else
            others++;
    }
    if (others > 0)
        (void)fprintf(stderr,
                      "channelctl: not listed: %lld member%s of the set that cannot be a digest (see "
                      "channelctl verify)\n",
                      (long long)others, plural(others));
}

static int list(struct client *c, const struct options *o)
{
    int code = client_open(c, o);
    if (code != EXIT_OK)
        return code;
    CLIENT_SEND(c, SPAN("SMEMBERS"), buf_span(&c->api_keys));
    redisReply *reply = receive(c);
    if (reply == NULL)
        return client_print_error(c);
    if (reply->elements > 0)
        qsort(reply->element, reply->elements, sizeof(redisReply *), compare);
    print_digests(reply);
    freeReplyObject(reply);
    return output_finish();
}

int command_keys(const struct options *o, int count, char **words)
{
    struct client c = {0};
    const char *what = count > 0 ? words[0] : "";
    int code = EXIT_USAGE;
    if (o->count != NULL && strcmp(what, "issue") != 0)
        code = usage_error("--count: only keys issue accepts it");
    else if (strcmp(what, "issue") == 0 && count == 1)
        code = issue(&c, o);
    else if (strcmp(what, "revoke") == 0 && count == 2)
        code = revoke_key(&c, o, span_of(words[1]));
    else if (strcmp(what, "list") == 0 && count == 1)
        code = list(&c, o);
    else
        code = usage_error("keys: expected issue [--count N], revoke KEY|DIGEST or list");
    client_close(&c);
    return code;
}
