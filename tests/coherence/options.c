/* The command line; see options.h. */

#include "coherence/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coherence/model.h"
#include "coherence/run.h"

enum option_kind {
    OPTION_NUMBER,
    OPTION_TEXT,
    OPTION_FLAG,
    OPTION_SEED,
    OPTION_FAULTS,
    OPTION_EXPECT,
    OPTION_HELP
};

/* Each option with what it sets: the member of struct options at `offset`. */
struct option_spec {
    const char *name;
    enum option_kind kind;
    size_t offset;
    int initial, least, most; /* of a number */
    const char *help;
};

#define NUMBER(name, field, initial, least, most, help)                                  \
    {                                                                                    \
        name, OPTION_NUMBER, offsetof(struct options, field), initial, least, most, help \
    }
#define OTHER(name, kind, field, help)                             \
    {                                                              \
        name, kind, offsetof(struct options, field), 0, 0, 0, help \
    }

static const struct option_spec specs[] = {
    NUMBER("seconds", seconds, 10, 1, 86400, "how long faults are caused"),
    NUMBER("workers", workers, 2, 1, 64, "threads of channeld"),
    NUMBER("writers", writers, 2, 1, WRITERS_MAX, "threads that change Redis"),
    NUMBER("readers", readers, 2, 1, READERS_MAX, "threads that send requests to channeld"),
    NUMBER("connections", connections, 8, 1, 256, "per reader"),
    NUMBER("channels", channels, 1000, MODEL_CHANNELS_MIN, 1000000, "in the catalogue"),
    NUMBER("changes", changes, 4000, 0, INT_MAX, "per second; 0: as fast as possible"),
    NUMBER("reads", reads, 0, 0, INT_MAX, "per second; 0: as fast as possible"),
    NUMBER("page-permille", page_permille, 10, 0, 1000, "of the requests are for a page"),
    NUMBER("bound-ms", bound_ms, 50, 1, 10000, "how old a response may be"),
    NUMBER("stale-limit-ms", stale_limit_ms, 1500, 0, 600000, "CHANNELD_STALE_LIMIT"),
    NUMBER("fault-gap-ms", fault_gap_ms, 1000, 0, 600000, "between two faults"),
    NUMBER("drop-changes", drop, 0, 0, INT_MAX,
           "sabotage: one in so many changes is recorded, but not written"),
    OTHER("seed", OPTION_SEED, seed, "of all random choices (1)"),
    OTHER("cache-ttl", OPTION_TEXT, cache_ttl, "CHANNELD_CACHE_TTL (channeld's default)"),
    OTHER("cache-size", OPTION_TEXT, cache_size, "CHANNELD_CACHE_SIZE (channeld's default)"),
    OTHER("tracking", OPTION_TEXT, tracking, "CHANNELD_TRACKING (channeld's default)"),
    OTHER("redis-server", OPTION_TEXT, redis_server, "the server's program (redis-server)"),
    OTHER("redis-args", OPTION_TEXT, redis_args, "further arguments of it, separated by spaces"),
    OTHER("faults", OPTION_FAULTS, faults, "none, all, quick, or some of the following (all):"),
    OTHER("replica", OPTION_FLAG, replica, "channeld reads a replica"),
    OTHER("cluster", OPTION_FLAG, cluster, "channeld reads a Redis Cluster of six nodes"),
    OTHER("tls", OPTION_FLAG, tls, "channeld connects to Redis by TLS"),
    OTHER("torn-writes", OPTION_FLAG, torn_writes, "sabotage: write each card in two halves"),
    OTHER("hide-link", OPTION_FLAG, hide_link, "sabotage: deny channeld INFO"),
    OTHER("misdirect-links", OPTION_FLAG, misdirect_links, "sabotage: request another link than is checked"),
    OTHER("expect-violations", OPTION_EXPECT, expect_violations,
          "[=KINDS] succeed if and only if there are some (of all these kinds)"),
    OTHER("help", OPTION_HELP, seed, "print this"),
};

enum { OPTIONS = sizeof specs / sizeof specs[0] };

static void options_help(void)
{
    printf("usage: coherence [OPTION]...\n"
           "Sends requests to channeld while Redis changes and fails, and checks that no response is too "
           "old.\n\n");
    for (size_t i = 0; i < OPTIONS; i++) {
        printf("  --%-22s %s", specs[i].name, specs[i].help);
        if (specs[i].kind == OPTION_NUMBER)
            printf(" (%d)", specs[i].initial);
        for (int k = 0; specs[i].kind == OPTION_FAULTS && k < FAULT_KINDS; k++)
            printf("%s%s", k == 0 ? " " : ",", fault_name((enum fault_kind)k));
        printf("\n");
    }
}

_Noreturn static void options_refuse(const char *name, const char *value)
{
    (void)fprintf(stderr, "coherence: bad value for --%s: %s\n", name, value);
    exit(2);
}

static long long options_parse(const char *name, const char *text, long long least, long long most)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > most)
        options_refuse(name, text);
    return value;
}

static bool options_fault_wanted(const char *list, enum fault_kind kind)
{
    const char *name = fault_name(kind);
    size_t length = strlen(name);
    if (strcmp(list, "all") == 0)
        return true;
    if (strcmp(list, "quick") == 0)
        return fault_is_quick(kind);
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

static void options_choose_faults(struct options *options, const char *list)
{
    bool any = strcmp(list, "none") == 0;
    for (int i = 0; i < FAULT_KINDS; i++) {
        options->faults[i] = options_fault_wanted(list, (enum fault_kind)i);
        any = any || options->faults[i];
    }
    if (!any)
        options_refuse("faults", list);
}

static void options_set(struct options *options, const struct option_spec *spec, const char *value)
{
    void *field = (char *)options + spec->offset;
    switch (spec->kind) {
    case OPTION_NUMBER:
        *(int *)field = (int)options_parse(spec->name, value, spec->least, spec->most);
        break;
    case OPTION_TEXT:
        *(const char **)field = value;
        break;
    case OPTION_SEED:
        options->seed = (uint64_t)options_parse(spec->name, value, 0, LLONG_MAX);
        break;
    case OPTION_FAULTS:
        options_choose_faults(options, value);
        break;
    case OPTION_EXPECT:
        options->expected = value;
        options->expect_violations = true;
        break;
    case OPTION_FLAG:
        *(bool *)field = true;
        break;
    case OPTION_HELP:
        options_help();
        exit(0);
    }
}

void options_read(struct options *options, int argc, char **argv)
{
    struct option known[OPTIONS + 1];
    memset(known, 0, sizeof known);
    memset(options, 0, sizeof *options);
    for (int i = 0; i < OPTIONS; i++) {
        bool alone = specs[i].kind == OPTION_FLAG || specs[i].kind == OPTION_HELP;
        int argument = alone ? no_argument : required_argument;
        known[i] = (struct option){specs[i].name,
                                   specs[i].kind == OPTION_EXPECT ? optional_argument : argument, NULL, i};
        if (specs[i].kind == OPTION_NUMBER)
            *(int *)(void *)((char *)options + specs[i].offset) = specs[i].initial;
    }
    options->seed = 1;
    options_choose_faults(options, "all");
    for (int n; (n = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (n == '?') {
            (void)fprintf(stderr, "coherence: see --help\n");
            exit(2);
        }
        options_set(options, &specs[n], optarg);
    }
    for (int i = 0; i < FAULT_KINDS; i++) {
        if (!fault_applies((enum fault_kind)i, options->replica, options->cluster))
            options->faults[i] = false;
    }
    if (options->hide_link) /* by a user of its own */
        options->faults[FAULT_ROTATE] = false;
    if (options->cluster && options->replica)
        options_refuse("cluster", "there is no --replica");
    if (options->tls && (options->cluster || options->replica))
        options_refuse("tls", "there is one server, neither --cluster nor --replica");
    if (optind < argc) {
        (void)fprintf(stderr, "coherence: unexpected argument %s\n", argv[optind]);
        exit(2);
    }
}
