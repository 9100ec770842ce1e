/* Makes settings and hands them to the cache, as a worker does (app/worker.c); see settings.h. */
#include "simulation/settings.h"

#include "redis/endpoint.h"
#include "simulation/events.h"
#include "simulation/loop.h"
#include "simulation/memory.h"
#include "simulation/scenario.h"
#include "simulation/trace.h"

#include <errno.h>
#include <stdio.h>

enum { SETTINGS_MAX = 100 };

static struct redis_config *config[SETTINGS_MAX]; /* the first `count`, by their numbers, which begin at 1 */
static size_t count;
static bool last_wrong;
static struct cache *user;

/* Returns 0, and adds the settings; or -ENOMEM. */
static int make(bool wrong)
{
    static char url[128];
    static char password[16];
    static char none[] = "";
    struct redis_options options = {url, password, none, none, none, none, none};
    struct redis_config *made = NULL;
    struct buf why = BUF_INIT;
    const char *setting = NULL;
    (void)snprintf(url, sizeof url, "%s", scenario.url);
    (void)snprintf(password, sizeof password, "%zu", wrong ? SETTINGS_WRONG : count + 1);
    int err = redis_config_new(&options, SPAN("{sim}:"), count + 1, &made, &why, &setting);
    if (err != 0 && err != -ENOMEM)
        trace_fail("no settings: %s", buf_message(&why));
    buf_fini(&why);
    if (err != 0)
        return err;
    if (scenario.server[0].tls)
        made->endpoint.tls = (struct ssl_ctx_st *)url; /* any pointer: tls.c does not look at it */
    config[count++] = made;
    last_wrong = wrong;
    return 0;
}

struct redis_config *settings_begin(void)
{
    count = 0;
    user = NULL;
    if (make(false) != 0)
        trace_fail("no settings");
    return config[0];
}

void settings_end(void)
{
    while (count > 0) {
        config[--count]->endpoint.tls = NULL;
        redis_config_unref(config[count]);
    }
}

void settings_apply_to(struct cache *cache)
{
    user = cache;
}

unsigned settings_in_use(void)
{
    return (unsigned)cache_redis_number(user);
}

static void on_retry(void *arg, uint64_t number);

/* Without memory it is tried again a second later. */
static void use(void *arg)
{
    (void)arg;
    bool failed = user != NULL && cache_use_redis(user, config[count - 1]) != 0;
    if (failed && memory_suffices())
        trace_fail("settings are refused, though there is memory");
    if (failed)
        events_add_in(SECOND, on_retry, NULL, count);
}

/* By its loop, as all that concerns a worker. */
static void offer(void)
{
    if (user != NULL)
        loop_post(use, NULL);
}

static void on_retry(void *arg, uint64_t number)
{
    (void)arg;
    if (number == count)
        offer();
}

void settings_renew(bool wrong)
{
    TRACE("scenario", "other settings are read%s", wrong ? ", with a wrong password" : "");
    if (count < SETTINGS_MAX - 1 && make(wrong) == 0)
        offer();
}

void settings_quieten(void)
{
    if (last_wrong && make(false) != 0)
        trace_fail("no settings");
    offer(); /* also those in use */
}
