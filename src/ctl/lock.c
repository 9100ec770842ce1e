/* The lock of a load; see lock.h. */
#include "ctl/lock.h"

#include "base/clock.h"
#include "base/text.h"
#include "ctl/terminal.h"

#include <assert.h>
#include <errno.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { POLL_MS = 100, NONCE_BYTES = 8 };

static struct span value_of(const struct lock *l)
{
    return (struct span){l->value, l->value_len};
}

/* "channelctl on <host>, process <pid>, <16 random hexadecimal digits>" */
static int make_value(struct lock *l)
{
    unsigned char nonce[NONCE_BYTES];
    char digits[2 * NONCE_BYTES + 1] = "";
    char host[65] = "";
    if (getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
        return client_fail(l->client, "cannot get random numbers: %s", strerror(errno));
    hex_write(nonce, sizeof nonce, digits);
    if (gethostname(host, sizeof host - 1) != 0)
        (void)snprintf(host, sizeof host, "an unknown host");
    int length = snprintf(l->value, sizeof l->value, "channelctl on %s, process %ld, %s", host,
                          (long)getpid(), digits);
    l->value_len = (size_t)length;
    return 0;
}

/* --- The holder --- */

/* Takes the lock if it is free, and reads the holder. */
static void send_claim(struct lock *l)
{
    struct client *c = l->client;
    char lease[INT64_DIGITS_MAX];
    l->sent_ms = clock_now_ms();
    CLIENT_SEND(c, SPAN("SET"), buf_span(&c->loader), value_of(l), SPAN("NX"), SPAN("PX"),
                (struct span){lease, format_int64(LOCK_LEASE_MS, lease)});
    CLIENT_SEND(c, SPAN("GET"), buf_span(&c->loader));
}

/* Receives the holder, and whether that is `l`. */
static int receive_holder(struct lock *l, char out[EXCERPT_MAX])
{
    redisReply *reply = client_receive_or_wrongtype(l->client);
    if (reply == NULL)
        return -EIO;
    struct span name = reply_text(reply);
    l->held = name.data != NULL && span_equal(name, value_of(l));
    (void)excerpt(name.data != NULL ? name : SPAN("another load"), out);
    if (l->held)
        l->renewed_ms = l->sent_ms;
    freeReplyObject(reply);
    return 0;
}

static int receive_claim(struct lock *l, char out[EXCERPT_MAX])
{
    int err = client_receive_done(l->client);
    return err == 0 ? receive_holder(l, out) : err;
}

/* Fails because `holder` has the lock. */
static int fail_held(struct lock *l, const char *what, const char *holder)
{
    char key[EXCERPT_MAX];
    return client_fail(l->client, "%s (%s: %s)", what, excerpt(buf_span(&l->client->loader), key), holder);
}

/* Fails if another load has the lock, after it was held. */
static int check_held(struct lock *l, const char *holder)
{
    return l->held ? 0 : fail_held(l, "another load has taken the lock", holder);
}

/* --- Renewal --- */

bool lock_is_due(const struct lock *l)
{
    return l->held && clock_now_ms() - l->renewed_ms >= LOCK_RENEWAL_MS;
}

/* If another load holds the lock, PEXPIRE extends its lease once, which is harmless. */
static void send_renewal(struct lock *l)
{
    char lease[INT64_DIGITS_MAX];
    assert(!l->renewing);
    l->renewing = true;
    send_claim(l);
    CLIENT_SEND(l->client, SPAN("PEXPIRE"), buf_span(&l->client->loader),
                (struct span){lease, format_int64(LOCK_LEASE_MS, lease)});
}

void lock_send_renewal(struct lock *l)
{
    if (!l->renewing && lock_is_due(l))
        send_renewal(l);
}

int lock_receive_renewal(struct lock *l)
{
    char holder[EXCERPT_MAX];
    if (!l->renewing)
        return 0;
    l->renewing = false;
    int err = receive_claim(l, holder);
    if (err == 0)
        err = client_receive_done(l->client);
    return err == 0 ? check_held(l, holder) : err;
}

static int watch(struct lock *l, char out[EXCERPT_MAX])
{
    CLIENT_SEND(l->client, SPAN("WATCH"), buf_span(&l->client->loader));
    CLIENT_SEND(l->client, SPAN("GET"), buf_span(&l->client->loader));
    return receive_claim(l, out);
}

int lock_watch(struct lock *l)
{
    char holder[EXCERPT_MAX];
    int err = watch(l, holder);
    return err == 0 ? check_held(l, holder) : err;
}

/* --- Acquiring --- */

static int claim(struct lock *l, char holder[EXCERPT_MAX], int64_t *ttl_ms)
{
    send_claim(l);
    CLIENT_SEND(l->client, SPAN("PTTL"), buf_span(&l->client->loader));
    int err = receive_claim(l, holder);
    return err == 0 ? client_receive_integer(l->client, ttl_ms) : err;
}

/* A user who may not renew the lock gets the error now and not in the middle of the load. */
static int renew_at_once(struct lock *l)
{
    send_renewal(l);
    return lock_receive_renewal(l);
}

static void pause_poll(void)
{
    struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    (void)nanosleep(&pause, NULL);
}

int lock_acquire(struct lock *l, struct client *c)
{
    *l = (struct lock){.client = c};
    int err = make_value(l);
    char holder[EXCERPT_MAX];
    int64_t ttl = 0;
    int64_t before = INT64_MAX;
    while (err == 0 && interrupt_signal() == 0) {
        err = claim(l, holder, &ttl);
        if (err == 0 && l->held)
            return renew_at_once(l);
        if (err != 0)
            return err;
        if (ttl == -1 || ttl > before) /* it does not expire, or was renewed */
            return fail_held(l, "another load is running", holder);
        if (before == INT64_MAX && ttl >= 0)
            (void)fprintf(stderr, "channelctl: waiting for another load to end (%s)\n", holder);
        if (ttl >= 0)
            before = ttl;
        pause_poll();
    }
    return err != 0 ? err : -EINTR;
}

/* --- Releasing --- */

static int release(struct lock *l)
{
    char holder[EXCERPT_MAX];
    int err = watch(l, holder);
    if (err != 0 || !l->held)
        return err;
    CLIENT_SEND(l->client, SPAN("MULTI"));
    CLIENT_SEND(l->client, SPAN("DEL"), buf_span(&l->client->loader));
    CLIENT_SEND(l->client, SPAN("EXEC"));
    for (int i = 0; i < 3 && err == 0; i++)
        err = client_receive_done(l->client);
    return err;
}

/* When the connection was lost, Redis may have granted the lock although its reply never came. */
void lock_release(struct lock *l, bool failed)
{
    if (l->client == NULL || (!l->held && !(failed && client_is_lost(l->client))))
        return;
    int err = failed ? -EIO : release(l);
    if (err != 0 && client_reopen(l->client) == 0)
        err = release(l);
    if (err != 0)
        (void)fprintf(stderr, "channelctl: could not release the load lock, which expires within %d s: %s\n",
                      LOCK_LEASE_MS / 1000, client_error(l->client));
    l->held = false;
}
