/* A settings table with one setting of each kind, and one run of settings_read over it. */
#ifndef TEST_UNIT_SETTINGS_H
#define TEST_UNIT_SETTINGS_H

#include <errno.h>
#include <stdlib.h>

#include "base/settings.h"
#include "unit/check.h"

enum { SWITCH_HELP = 1, SWITCH_CHECK = 2, WORDS_MAX = 16 };

struct sample {
    char *host;
    char *url;
    char *secret;
    int64_t workers;
    int64_t cache;
    int64_t timeout;
};

static const struct setting SAMPLE_TABLE[] = {
    {"channel-host", SETTING_TEXT, offsetof(struct sample, host), "max.ru", 0, 0, false, "Host of the links"},
    {"redis-url", SETTING_URL, offsetof(struct sample, url), "redis://127.0.0.1:6379/0", 0, 0, true,
     "Where Redis is"},
    {"password", SETTING_SECRET, offsetof(struct sample, secret), "", 0, 0, true, "The password"},
    {"workers", SETTING_COUNT, offsetof(struct sample, workers), "4", 1, 64, true, "Threads"},
    {"cache-size", SETTING_SIZE, offsetof(struct sample, cache), "64MiB", 0, 0, false, "Memory"},
    {"timeout", SETTING_DURATION, offsetof(struct sample, timeout), "2s", 10, 60000, false, "Patience"},
};

static const struct settings SAMPLE = {SAMPLE_TABLE, sizeof SAMPLE_TABLE / sizeof SAMPLE_TABLE[0]};

struct run {
    struct sample values;
    struct buf error;
    char *rest[WORDS_MAX];
    unsigned char sources[sizeof SAMPLE_TABLE / sizeof SAMPLE_TABLE[0]];
    unsigned switched;
    int result;
};

/* Reads the words, which end with NULL, as a program's arguments. */
static inline void run_words(struct run *r, const char *const *words)
{
    static const char *const switches[] = {"--help", "--check", NULL};
    char *argv[WORDS_MAX] = {NULL};
    int argc = 0;
    for (; words[argc] != NULL; argc++) {
        assert_true(argc + 1 < WORDS_MAX);
        argv[argc] = (char *)(uintptr_t)words[argc]; /* not written to */
    }
    *r = (struct run){.error = BUF_INIT};
    struct settings_args args = {
        .argc = argc, .argv = argv, .switches = switches, .rest = r->rest, .sources = r->sources};
    r->result = settings_read(&SAMPLE, &r->values, &args, &r->error);
    r->switched = args.switched;
}

#define RUN(r, ...)  run_words((r), (const char *const[]){"channeld", __VA_ARGS__, NULL})
#define RUN_PLAIN(r) run_words((r), (const char *const[]){"channeld", NULL})

static inline void run_fini(struct run *r)
{
    settings_fini(&SAMPLE, &r->values);
    buf_fini(&r->error);
}

/* The run failed, and the message begins with the name of what was wrong. */
static inline void assert_run_failed(struct run *r, const char *called)
{
    const char *message = buf_c_str(&r->error);
    assert_int_equal(r->result, -EINVAL);
    assert_non_null(message);
    if (strncmp(message, called, strlen(called)) != 0 || message[strlen(called)] != ':')
        fail_msg("\"%s\" does not name %s", message, called);
}

/* Removes all of the table's variables from the environment: the setup and teardown of each test. */
static inline int clean_environment(void **state)
{
    static const char *const VARIABLES[] = {
        "CHANNELD_CHANNEL_HOST",   "CHANNELD_CHANNEL_HOST_FILE", "CHANNELD_REDIS_URL",
        "CHANNELD_REDIS_URL_FILE", "CHANNELD_PASSWORD",          "CHANNELD_PASSWORD_FILE",
        "CHANNELD_WORKERS",        "CHANNELD_WORKERS_FILE",      "CHANNELD_CACHE_SIZE",
        "CHANNELD_TIMEOUT",
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(VARIABLES); i++)
        unsetenv(VARIABLES[i]);
    return 0;
}

static inline void set(const char *variable, const char *value)
{
    assert_int_equal(setenv(variable, value, 1), 0);
}

#define CLEAN(test) cmocka_unit_test_setup_teardown(test, clean_environment, clean_environment)

#endif
