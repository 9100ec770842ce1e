/* The lock of a load; see lock.h. */
#include "ctl/lock.h"

#include "base/clock.h"
#include "base/hash.h"
#include "ctl/terminal.h"

#include <assert.h>
#include <errno.h>
#include <time.h>
#include <unistd.h>

enum { POLL_MS = 100 };

/* "channelctl on <host>, process <pid>, <16 random hexadecimal digits>" */
static void lock_make_value(struct lock *l)
{
    char host[65] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        (void)snprintf(host, sizeof host, "an unknown host");
    int length = snprintf(l->text, sizeof l->text, "channelctl on %s, process %ld, %016llx", host,
                          (long)getpid(), (unsigned long long)random_seed(l));
    l->value = (struct span){l->text, (size_t)length};
}

/* --- The holder --- */

static void lock_fail_held(struct lock *l, const char *what)
{
    (void)client_fail(l->client, "%s (%s: %s)", what, EXCERPT(l->client->loader),
                      *l->holder != '\0' ? l->holder : "nobody holds it");
}

static void lock_send_expiry(struct lock *l)
{
    l->sent_ms = clock_now_ms();
    CLIENT_SEND(l->client, SPAN("PEXPIRE"), l->client->loader, DIGITS(LOCK_LEASE_MS));
}

/* After a failure of the client `held` stays as it is: whether the lock is held is unknown. */
static void lock_receive_holder(struct lock *l)
{
    const struct redis_reply *reply = client_receive_or_wrongtype(l->client);
    struct span name = reply->type == REPLY_ERROR ? SPAN("another load") : reply_text(reply);
    if (client_status(l->client) != 0)
        return;
    l->held = span_equal(name, l->value);
    (void)excerpt(name, l->holder);
}

/* --- Transactions --- */

bool lock_is_due(const struct lock *l)
{
    return clock_now_ms() - l->sent_ms >= LOCK_RENEWAL_MS;
}

void lock_send_watch(struct lock *l)
{
    CLIENT_SEND(l->client, SPAN("WATCH"), l->client->loader);
    CLIENT_SEND(l->client, SPAN("GET"), l->client->loader);
}

void lock_receive_watch(struct lock *l)
{
    (void)client_receive(l->client);
    lock_receive_holder(l);
    if (!l->held && client_status(l->client) == 0)
        lock_fail_held(l, "the lock is lost: it has expired or was deleted");
}

void lock_begin(struct lock *l)
{
    assert((l->held || client_status(l->client) != 0) && !l->committed);
    CLIENT_SEND(l->client, SPAN("MULTI"));
}

void lock_commit(struct lock *l)
{
    if (lock_is_due(l))
        lock_send_expiry(l);
    CLIENT_SEND(l->client, SPAN("EXEC"));
    l->committed = true;
}

/* MULTI and the commands in it reply by a status, EXEC by an array, or nil when a watched key has changed. */
const struct redis_reply *lock_receive(struct lock *l, size_t count)
{
    const struct redis_reply *reply = NULL;
    assert(l->committed);
    l->committed = false;
    do
        reply = client_receive(l->client);
    while (reply->type == REPLY_STATUS);
    if (client_status(l->client) != 0)
        return NULL;
    if (reply->type == REPLY_ARRAY && reply->elements >= count)
        return reply;
    if (reply->type == REPLY_NIL)
        (void)client_fail(l->client,
                          "the lock, or what was to be written, was changed by another program meanwhile");
    else
        (void)client_fail_unexpected(l->client);
    return NULL;
}

int lock_execute(struct lock *l)
{
    lock_commit(l);
    return lock_receive(l, 0) != NULL ? 0 : -EIO;
}

/* --- Acquiring --- */

/* Takes the lock if it is free. *ttl_ms: that of its holder. */
static void lock_claim(struct lock *l, int64_t *ttl_ms)
{
    struct client *c = l->client;
    l->sent_ms = clock_now_ms();
    CLIENT_SEND(c, SPAN("SET"), c->loader, l->value, SPAN("NX"), SPAN("PX"), DIGITS(LOCK_LEASE_MS));
    CLIENT_SEND(c, SPAN("GET"), c->loader);
    CLIENT_SEND(c, SPAN("PTTL"), c->loader);
    (void)client_receive(c);
    lock_receive_holder(l);
    *ttl_ms = client_receive_integer(c);
}

void lock_renew(struct lock *l)
{
    lock_watch(l);
    lock_begin(l);
    lock_send_expiry(l);
    (void)lock_execute(l);
}

/* While another load holds the lock this waits until it is released or expires. */
static void lock_acquire(struct lock *l)
{
    int64_t ttl = 0;
    int64_t before = LOCK_LEASE_MS;
    bool is_shown = false;
    lock_make_value(l);
    for (;;) {
        lock_claim(l, &ttl);
        if (l->held)
            lock_renew(l);  /* without the right to do so it fails now, not later */
        else if (ttl == -1) /* it was not set by a load */
            lock_fail_held(l, "the lock has no TTL: no load is possible until it is deleted");
        else if (ttl > before) /* it does not expire in time, or was renewed */
            lock_fail_held(l, "another load is running");
        else if (interrupt_signal() != 0)
            (void)client_fail(l->client, "interrupted");
        if (l->held || client_status(l->client) != 0)
            return;
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
    bool in_transaction = !c->full;
    lock_watch(l);
    if (in_transaction)
        lock_begin(l);
    CLIENT_SEND(c, SPAN("UNLINK"), c->index_next, c->loader);
    if (in_transaction)
        return lock_execute(l);
    /* If a network delays it until another load has the lock, that load finds its lock deleted, and fails. */
    (void)client_receive(c);
    return client_status(c);
}

/* Releases the lock after a failure, over a new connection. When the connection was lost, Redis may have
 * granted the lock although its reply never came. */
static void lock_abandon(struct lock *l)
{
    if (!l->held && !client_is_lost(l->client))
        return;
    l->held = true; /* unless a reply shows that it is not */
    l->committed = false;
    int err = client_reopen(l->client);
    if (err == 0)
        err = lock_send_release(l);
    if (err != 0 && l->held)
        show_message("could not release the load lock, which expires within %d s: %s", LOCK_LEASE_MS / 1000,
                     client_error(l->client));
}

int lock_run(struct lock *l, struct client *c, void (*work)(void *arg), void *arg)
{
    *l = (struct lock){.client = c};
    interrupt_watch();
    lock_acquire(l);
    if (client_status(c) == 0)
        work(arg);
    bool is_done = client_status(c) == 0;
    if (is_done && lock_send_release(l) == 0)
        return 0;
    bool is_lost = !is_done || !l->held;
    if (is_lost)
        (void)client_print_error(c);
    lock_abandon(l);
    return is_lost ? -EIO : 0;
}
