/* The lock of a load; see lock.h. */
#include "ctl/lock.h"

#include "base/clock.h"
#include "base/hash.h"

#include <time.h>
#include <unistd.h>

enum { RENEWAL_MS = 5000, POLL_MS = 100 };

/* "channelctl on <host>, process <pid>, <16 random hexadecimal digits>" */
static void lock_make_value(struct lock *l)
{
    char host[65] = "an unknown host";
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(l->value, sizeof l->value, "channelctl on %s, process %ld, %016llx", host, (long)getpid(),
                   (unsigned long long)random_seed(l));
}

static void lock_fail_held(struct lock *l, const char *what)
{
    (void)client_fail(l->client, "%s (%s: %s)", what, EXCERPT(l->client->loader),
                      *l->holder != '\0' ? l->holder : "nobody holds it");
}

/* Receives the reply to GET, behind another one. After a failure of the client `held` stays as it is: whether
 * the lock is held is unknown. */
static void lock_receive_holder(struct lock *l)
{
    (void)client_receive(l->client);
    const struct redis_reply *reply = client_receive_or_wrongtype(l->client);
    struct span name = reply->type == REPLY_ERROR ? SPAN("another load") : reply_text(reply);
    if (client_status(l->client) != 0)
        return;
    l->held = span_equal(name, span_of(l->value));
    (void)excerpt(name, l->holder);
}

static void lock_check(struct lock *l)
{
    if (!l->held)
        lock_fail_held(l, "the lock is lost: it has expired or was deleted");
}

/* --- Transactions --- */

static void lock_send_watch(struct lock *l)
{
    CLIENT_SEND(l->client, SPAN("WATCH"), l->client->loader);
    CLIENT_SEND(l->client, SPAN("GET"), l->client->loader);
}

static void lock_watch(struct lock *l)
{
    lock_send_watch(l);
    lock_receive_holder(l);
    lock_check(l);
}

/* As lock_commit. MULTI and the commands in it reply by a status, EXEC by an array, or nil when a watched key
 * has changed. `held` tells afterwards whether the lock is held. */
static int lock_execute(struct lock *l, int64_t *integers, size_t count)
{
    struct client *c = l->client;
    const struct redis_reply *reply = NULL;
    CLIENT_SEND(c, SPAN("EXEC"));
    lock_send_watch(l);
    do
        reply = client_receive(c);
    while (reply->type == REPLY_STATUS);
    bool is_executed = reply->type == REPLY_ARRAY && reply->elements >= count;
    if (!is_executed && reply->type != REPLY_NIL)
        (void)client_fail_unexpected(c);
    for (size_t i = 0; i < count && is_executed; i++)
        integers[i] = reply[1 + i].integer;
    lock_receive_holder(l);
    if (is_executed)
        return 0;
    lock_check(l);
    return client_fail(c, "what was to be written was changed by another program meanwhile");
}

static bool lock_is_due(const struct lock *l)
{
    return l->renewed_ms == 0 || clock_now_ms() - l->renewed_ms >= RENEWAL_MS;
}

void lock_begin(struct lock *l)
{
    CLIENT_SEND(l->client, SPAN("MULTI"));
}

int lock_commit(struct lock *l, int64_t *integers, size_t count)
{
    if (lock_is_due(l)) {
        l->renewed_ms = clock_now_ms();
        CLIENT_SEND(l->client, SPAN("PEXPIRE"), l->client->loader, DIGITS(LOCK_LEASE_MS));
    }
    int err = lock_execute(l, integers, count);
    lock_check(l);
    return err;
}

void lock_keep(struct lock *l)
{
    if (!l->held || !lock_is_due(l))
        return;
    lock_begin(l);
    (void)lock_commit(l, NULL, 0);
}

/* --- Acquiring --- */

/* Takes the lock if it is free. Returns the TTL of its holder. */
static int64_t lock_claim(struct lock *l)
{
    struct client *c = l->client;
    CLIENT_SEND(c, SPAN("SET"), c->loader, span_of(l->value), SPAN("NX"), SPAN("PX"), DIGITS(LOCK_LEASE_MS));
    CLIENT_SEND(c, SPAN("GET"), c->loader);
    CLIENT_SEND(c, SPAN("PTTL"), c->loader);
    lock_receive_holder(l);
    return client_receive_integer(c);
}

int lock_acquire(struct lock *l, struct client *c)
{
    int64_t before = LOCK_LEASE_MS;
    bool is_shown = false;
    *l = (struct lock){.client = c};
    lock_make_value(l);
    interrupt_watch();
    for (;;) {
        int64_t ttl = lock_claim(l);
        if (l->held) {
            lock_watch(l);
            lock_keep(l);     /* without the right to renew it this fails now, not later */
        } else if (ttl == -1) /* it was not set by a load */
            lock_fail_held(l, "the lock has no TTL: no load is possible until it is deleted");
        else if (ttl > before) /* it does not expire in time, or was renewed */
            lock_fail_held(l, "another load is running");
        else if (interrupt_signal() != 0)
            (void)client_fail(c, "interrupted");
        if (l->held || client_status(c) != 0)
            return client_status(c);
        if (ttl >= 0) {
            if (!is_shown)
                show_message("waiting for another load to end (%s)", l->holder);
            is_shown = true;
            before = ttl;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    }
}

/* --- Releasing --- */

/* Removes the lock and the next index, which no longer belongs to a load. */
static int lock_send_release(struct lock *l)
{
    struct client *c = l->client;
    if (!c->full)
        lock_begin(l);
    CLIENT_SEND(c, SPAN("UNLINK"), c->index_next, c->loader);
    if (!c->full)
        return lock_execute(l, NULL, 0);
    /* If a network delays it until another load has the lock, that load finds its lock deleted, and fails. */
    (void)client_receive(c);
    return client_status(c);
}

/* Releases the lock after a failure, over a new connection. When the connection was lost, Redis may have
 * granted the lock although its reply never came. */
static void lock_abandon(struct lock *l)
{
    if (l->renewed_ms == 0 && !client_is_lost(l->client))
        return;
    l->held = true; /* unless a reply shows that it is not */
    if (client_reopen(l->client) == 0) {
        lock_watch(l);
        (void)lock_send_release(l);
    }
    if (client_status(l->client) != 0 && l->held)
        show_message("could not release the load lock, which expires within %d s: %s", LOCK_LEASE_MS / 1000,
                     client_error(l->client));
}

int lock_release(struct lock *l)
{
    bool is_done = client_status(l->client) == 0;
    if (is_done && lock_send_release(l) == 0)
        return 0;
    bool is_lost = !is_done || !l->held;
    if (is_lost)
        show_message("%s", client_error(l->client));
    lock_abandon(l);
    return is_lost ? -EIO : 0;
}
