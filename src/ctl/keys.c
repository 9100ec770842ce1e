/* channelctl keys: issues, revokes and lists API keys. A key is printed once, when it is made, and is nowhere
 * kept. */
#include "base/digest.h"
#include "base/parse.h"
#include "ctl/client.h"
#include "ctl/command.h"
#include "ctl/report.h"
#include "model/apikey.h"

#include <errno.h>
#include <stdlib.h>

enum { ISSUE_MAX = 100000 };

static void send_digest(struct client *c, struct span command, struct span key)
{
    struct digest digest;
    char hex[DIGEST_HEX_LEN];
    digest_sha256(key, &digest);
    digest_hex(&digest, hex);
    CLIENT_SEND(c, command, buf_span(&c->api_keys), (struct span){hex, sizeof hex});
}

/* The key is valid before it is printed: nobody gets one that does not work. */
static int issue_one(struct client *c)
{
    char key[APIKEY_LEN + 1] = "";
    int err = apikey_generate(key);
    if (err != 0)
        return client_fail(c, "no random numbers: %s", strerror(-err));
    send_digest(c, SPAN("SADD"), (struct span){key, APIKEY_LEN});
    err = client_receive_done(c);
    if (err == 0 && (puts(key) < 0 || fflush(stdout) != 0))
        err = client_fail(c, "cannot write to standard output: %s", strerror(errno));
    explicit_bzero(key, sizeof key);
    return err;
}

static int issue(struct client *c, const struct options *o)
{
    int64_t count = 1;
    if (o->count != NULL && (parse_int64(span_of(o->count), &count) != 0 || count < 1 || count > ISSUE_MAX))
        return usage_error("--count: a number from 1 to %d is expected", ISSUE_MAX);
    int code = client_open(c, o);
    if (code != EXIT_FINE)
        return code;
    int err = 0;
    for (int64_t i = 0; i < count && err == 0; i++)
        err = issue_one(c);
    return err == 0 ? EXIT_FINE : client_complain(c);
}

static int revoke(struct client *c, const struct options *o, struct span key)
{
    int64_t removed = 0;
    int code = client_open(c, o);
    if (code != EXIT_FINE)
        return code;
    if (digest_is_hex(key))
        CLIENT_SEND(c, SPAN("SREM"), buf_span(&c->api_keys), key);
    else
        send_digest(c, SPAN("SREM"), key);
    int err = client_receive_integer(c, &removed);
    if (err != 0)
        return client_complain(c);
    if (removed == 0) {
        (void)fputs("channelctl: there is no such key\n", stderr);
        return EXIT_FAILED;
    }
    (void)puts("revoked");
    return output_end();
}

static int compare(const void *a, const void *b)
{
    const redisReply *const *left = a;
    const redisReply *const *right = b;
    return strcmp((*left)->str, (*right)->str);
}

/* In RESP3 SMEMBERS answers with a set. */
static int list(struct client *c, const struct options *o)
{
    int code = client_open(c, o);
    if (code != EXIT_FINE)
        return code;
    CLIENT_SEND(c, SPAN("SMEMBERS"), buf_span(&c->api_keys));
    redisReply *reply = client_receive(c);
    if (reply == NULL)
        return client_complain(c);
    if (reply->elements > 0)
        qsort(reply->element, reply->elements, sizeof(redisReply *), compare);
    char text[REPORT_EXCERPT_MAX];
    for (size_t i = 0; i < reply->elements; i++)
        (void)puts(report_excerpt(reply_text(reply->element[i]), text));
    freeReplyObject(reply);
    return output_end();
}

int command_keys(const struct options *o, int words, char **word)
{
    struct client c = {0};
    const char *what = words > 0 ? word[0] : "";
    int code = EXIT_USAGE;
    if (o->count != NULL && strcmp(what, "issue") != 0)
        code = usage_error("--count belongs to keys issue");
    else if (strcmp(what, "issue") == 0 && words == 1)
        code = issue(&c, o);
    else if (strcmp(what, "revoke") == 0 && words == 2)
        code = revoke(&c, o, span_of(word[1]));
    else if (strcmp(what, "list") == 0 && words == 1)
        code = list(&c, o);
    else
        code = usage_error("keys: issue [--count N], revoke KEY|DIGEST or list is expected");
    client_close(&c);
    return code;
}
