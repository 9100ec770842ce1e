/* The command line. */

#include "coherence/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coherence/world.h"

struct number_option {
    const char *name;
    size_t offset;
    int initial;
    int least;
    int most;
    const char *help;
};

#define NUMBER(name, field, initial, least, most, help)                   \
    {                                                                     \
        name, offsetof(struct options, field), initial, least, most, help \
    }

static const struct number_option numbers[] = {
    NUMBER("seconds", seconds, 10, 1, 86400, "how long faults go on"),
    NUMBER("workers", workers, 2, 1, 64, "threads of channeld"),
    NUMBER("writers", writers, 2, 1, WRITERS_MAX, "threads that change Redis"),
    NUMBER("readers", readers, 2, 1, READERS_MAX, "threads that ask channeld"),
    NUMBER("connections", connections, 8, 1, 256, "of each reader"),
    NUMBER("channels", channels, 1000, WORLD_CHANNELS_MIN, 1000000, "in the catalogue"),
    NUMBER("changes", changes, 4000, 0, INT_MAX, "a second; 0: as fast as it goes"),
    NUMBER("reads", reads, 0, 0, INT_MAX, "a second; 0: as fast as it goes"),
    NUMBER("page-permille", page_permille, 10, 0, 1000, "of the requests ask for a page"),
    NUMBER("bound-ms", bound_ms, 50, 1, 10000, "how old an answer may be"),
    NUMBER("stale-limit-ms", stale_limit_ms, 1500, 0, 600000, "CHANNELD_STALE_LIMIT"),
    NUMBER("fault-gap-ms", fault_gap_ms, 1000, 0, 600000, "of calm between two faults"),
    NUMBER("lie-ms", lie_ms, 0, 0, 600000, "put a proxy before channeld whose answers are up to that old"),
    NUMBER("lose", lose, 0, 0, INT_MAX, "one in so many changes is recorded, but not written"),
};

enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

enum flag {
    FLAG_SEED = 1000,
    FLAG_FAULTS,
    FLAG_CACHE,
    FLAG_REDIS,
    FLAG_REDIS_ARGS,
    FLAG_TEAR,
    FLAG_IGNORE,
    FLAG_EXPECT,
    FLAG_VERBOSE,
    FLAG_HELP
};

static const struct option flags[] = {
    {"seed", required_argument, NULL, FLAG_SEED},
    {"faults", required_argument, NULL, FLAG_FAULTS},
    {"cache-size", required_argument, NULL, FLAG_CACHE},
    {"redis-server", required_argument, NULL, FLAG_REDIS},
    {"redis-args", required_argument, NULL, FLAG_REDIS_ARGS},
    {"tear", no_argument, NULL, FLAG_TEAR},
    {"ignore-invalidations", no_argument, NULL, FLAG_IGNORE},
    {"expect-violations", optional_argument, NULL, FLAG_EXPECT},
    {"verbose", no_argument, NULL, FLAG_VERBOSE},
    {"help", no_argument, NULL, FLAG_HELP},
};

enum { FLAGS = sizeof flags / sizeof flags[0] };

static int *options_number(struct options *options, const struct number_option *number)
{
    return (int *)(void *)((char *)options + number->offset);
}

static void options_help(void)
{
    printf("usage: coherence [OPTION]...\n"
           "Asks channeld while Redis changes and fails, and checks that no answer is too old.\n\n");
    for (size_t i = 0; i < NUMBERS; i++)
        printf("  --%-22s %s (%d)\n", numbers[i].name, numbers[i].help, numbers[i].initial);
    printf("  --%-22s %s\n", "seed", "of all that is chosen by chance (1)");
    printf("  --%-22s %s\n", "cache-size", "CHANNELD_CACHE_SIZE (channeld's default)");
    printf("  --%-22s %s\n", "redis-server", "the server's program (redis-server)");
    printf("  --%-22s %s\n", "redis-args", "further arguments of it, separated by spaces");
    printf("  --%-22s %s", "faults", "none, all, quick, or some of:");
    for (int i = 0; i < FAULT_KINDS; i++)
        printf("%s%s", i == 0 ? " " : ",", weather_fault_name((enum fault_kind)i));
    printf(" (all)\n"
           "  --%-22s %s\n  --%-22s %s\n  --%-22s %s\n  --%-22s %s\n",
           "verbose", "a line every second", "tear", "write each card in two halves", "ignore-invalidations",
           "CHANNELD_TEST_IGNORE_INVALIDATIONS=1", "expect-violations[=KINDS]",
           "succeed if and only if there are some (of all these kinds)");
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
    const char *name = weather_fault_name(kind);
    size_t length = strlen(name);
    if (strcmp(list, "all") == 0)
        return true;
    if (strcmp(list, "quick") == 0)
        return weather_fault_is_quick(kind);
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

static void options_take_flag(struct options *options, int flag)
{
    switch (flag) {
    case FLAG_SEED:
        options->seed = (uint64_t)options_parse("seed", optarg, 0, LLONG_MAX);
        break;
    case FLAG_FAULTS:
        options_choose_faults(options, optarg);
        break;
    case FLAG_CACHE:
        options->cache_size = optarg;
        break;
    case FLAG_REDIS:
        options->redis_server = optarg;
        break;
    case FLAG_REDIS_ARGS:
        options->redis_args = optarg;
        break;
    case FLAG_TEAR:
        options->tear = true;
        break;
    case FLAG_IGNORE:
        options->ignore_invalidations = true;
        break;
    case FLAG_EXPECT:
        options->expect_violations = true;
        options->expected = optarg;
        break;
    case FLAG_VERBOSE:
        options->verbose = true;
        break;
    case FLAG_HELP:
        options_help();
        exit(0);
    default:
        (void)fprintf(stderr, "coherence: see --help\n");
        exit(2);
    }
}

void options_read(struct options *options, int argc, char **argv)
{
    struct option known[NUMBERS + FLAGS + 1];
    memset(known, 0, sizeof known);
    memset(options, 0, sizeof *options);
    for (int i = 0; i < NUMBERS; i++) {
        known[i] = (struct option){numbers[i].name, required_argument, NULL, i};
        *options_number(options, &numbers[i]) = numbers[i].initial;
    }
    memcpy(known + NUMBERS, flags, sizeof flags);
    options->seed = 1;
    options_choose_faults(options, "all");
    for (int flag; (flag = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (flag < 0 || flag >= NUMBERS) {
            options_take_flag(options, flag);
            continue;
        }
        const struct number_option *number = &numbers[flag];
        *options_number(options, number) =
            (int)options_parse(number->name, optarg, number->least, number->most);
    }
    if (optind < argc) {
        (void)fprintf(stderr, "coherence: unexpected argument %s\n", argv[optind]);
        exit(2);
    }
}
