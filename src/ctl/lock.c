/* The lock of a load; see lock.h. */
#include "ctl/lock.h"

#include "base/clock.h"
#include "base/encoding.h"
#include "ctl/interrupt.h"
#include "ctl/report.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { POLL_MS = 100, NONCE_BYTES = 8 };

static struct span value_of(const struct lock *l)
{
    return (struct span){l->value, l->value_len};
}

/* "channelctl on <host>, process <pid>, <16 random digits>" */
static int make_value(struct lock *l)
{
    unsigned char nonce[NONCE_BYTES];
    char digits[2 * NONCE_BYTES + 1] = "";
    char host[65] = "";
    if (getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
        return client_fail(l->client, "no random numbers: %s", strerror(errno));
    hex_write(nonce, sizeof nonce, digits);
    if (gethostname(host, sizeof host - 1) != 0)
        (void)snprintf(host, sizeof host, "an unknown host");
    int length = snprintf(l->value, sizeof l->value, "channelctl on %s, process %ld, %s", host,
                          (long)getpid(), digits);
    l->value_len = (size_t)length;
    return 0;
}

/* --- Who holds it --- */

struct holder {
    bool known;
    char name[REPORT_EXCERPT_MAX];
};

/* Takes the lock if it is free, and asks who has it then. */
static void send_claim(struct lock *l)
{
    struct client *c = l->client;
    char lease[INT64_DIGITS_MAX];
    l->sent_ms = clock_now_ms();
    CLIENT_SEND(c, SPAN("SET"), buf_span(&c->loader), value_of(l), SPAN("NX"), SPAN("PX"),
                (struct span){lease, format_int64(LOCK_LEASE_MS, lease)});
    CLIENT_SEND(c, SPAN("GET"), buf_span(&c->loader));
}

/* Receives the name of the holder, and whether that is `l`. */
static int receive_holder(struct lock *l, struct holder *out)
{
    redisReply *reply = client_receive_or_wrongtype(l->client);
    if (reply == NULL)
        return -EIO;
    struct span name = reply_text(reply);
    l->held = name.data != NULL && span_equal(name, value_of(l));
    out->known = name.data != NULL;
    (void)report_excerpt(out->known ? name : SPAN("another load"), out->name);
    if (l->held)
        l->renewed_ms = l->sent_ms;
    freeReplyObject(reply);
    return 0;
}

static int receive_claim(struct lock *l, struct holder *out)
{
    int err = client_receive_done(l->client);
    return err == 0 ? receive_holder(l, out) : err;
}

static int fail_held(struct lock *l, const char *what, const struct holder *holder)
{
    char key[REPORT_EXCERPT_MAX];
    return client_fail(l->client, "%s (%s: %s)", what, report_excerpt(buf_span(&l->client->loader), key),
                       holder->name);
}

/* --- Keeping it --- */

bool lock_is_due(const struct lock *l)
{
    return l->held && clock_now_ms() - l->renewed_ms >= LOCK_RENEWAL_MS;
}

/* PEXPIRE may prolong the lease of another holder, once, which does no harm. */
static void send_renewal(struct lock *l)
{
    char lease[INT64_DIGITS_MAX];
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
    struct holder holder;
    if (!l->renewing)
        return 0;
    l->renewing = false;
    int err = receive_claim(l, &holder);
    if (err == 0)
        err = client_receive_done(l->client);
    return err == 0 && !l->held ? fail_held(l, "another load has taken over", &holder) : err;
}

int lock_renew(struct lock *l)
{
    lock_send_renewal(l);
    return lock_receive_renewal(l);
}

static int watch(struct lock *l, struct holder *out)
{
    CLIENT_SEND(l->client, SPAN("WATCH"), buf_span(&l->client->loader));
    CLIENT_SEND(l->client, SPAN("GET"), buf_span(&l->client->loader));
    return receive_claim(l, out);
}

int lock_watch(struct lock *l)
{
    struct holder holder;
    int err = watch(l, &holder);
    return err == 0 && !l->held ? fail_held(l, "another load has taken over", &holder) : err;
}

/* --- Taking it --- */

static int claim(struct lock *l, struct holder *holder, int64_t *ttl_ms)
{
    send_claim(l);
    CLIENT_SEND(l->client, SPAN("PTTL"), buf_span(&l->client->loader));
    int err = receive_claim(l, holder);
    return err == 0 ? client_receive_integer(l->client, ttl_ms) : err;
}

/* A user without the right to renew is told now and not in the middle of the load. */
static int renew_at_once(struct lock *l)
{
    send_renewal(l);
    return lock_receive_renewal(l);
}

static void wait_a_little(void)
{
    struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    (void)nanosleep(&pause, NULL);
}

int lock_acquire(struct lock *l, struct client *c)
{
    *l = (struct lock){.client = c};
    int err = make_value(l);
    struct holder holder;
    int64_t ttl = 0;
    int64_t before = INT64_MAX;
    while (err == 0 && interrupt_signal() == 0) {
        err = claim(l, &holder, &ttl);
        if (err == 0 && l->held)
            return renew_at_once(l);
        if (err != 0)
            return err;
        if (ttl == -1 || ttl > before) /* it never expires, or was renewed */
            return fail_held(l, "another load is running", &holder);
        if (before == INT64_MAX && ttl >= 0)
            (void)fprintf(stderr, "channelctl: waiting for another load to end (%s)\n", holder.name);
        if (ttl >= 0)
            before = ttl;
        wait_a_little();
    }
    return err != 0 ? err : -EINTR;
}

/* --- Giving it back --- */

static int release(struct lock *l)
{
    struct holder holder;
    int err = watch(l, &holder);
    if (err != 0 || !l->held)
        return err;
    CLIENT_SEND(l->client, SPAN("MULTI"));
    CLIENT_SEND(l->client, SPAN("DEL"), buf_span(&l->client->loader));
    CLIENT_SEND(l->client, SPAN("EXEC"));
    for (int i = 0; i < 3 && err == 0; i++)
        err = client_receive_done(l->client);
    return err;
}

/* Where the connection was lost the lock may be held without a reply that says so. */
void lock_release(struct lock *l, bool failed)
{
    if (l->client == NULL || (!l->held && !(failed && client_is_lost(l->client))))
        return;
    int err = failed ? -EIO : release(l);
    if (err != 0 && client_reopen(l->client) == 0)
        err = release(l);
    if (err != 0)
        (void)fprintf(stderr, "channelctl: the lock of the load may stay for %d s: %s\n",
                      LOCK_LEASE_MS / 1000, client_error(l->client));
    l->held = false;
}
