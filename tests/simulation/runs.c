/* Runs seeds in processes, and shrinks a failure; see runs.h. */
#include "simulation/runs.h"

#include "simulation/trace.h"

#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of a processor: it hangs. Hundreds of replies that are too large take a minute. */
enum { LIMIT_S = 180 };

/* Writes the counts of coverage, which _Exit() does not. */
#if defined SIMULATION_COVERAGE && defined __clang__
int __llvm_profile_write_file(void);
static void write_counts(void)
{
    (void)__llvm_profile_write_file();
}
#elif defined SIMULATION_COVERAGE
void __gcov_dump(void);
static void write_counts(void)
{
    __gcov_dump();
}
#else
static void write_counts(void)
{
}
#endif

static const struct runs *runs;

/* In memory that the processes share. */
static struct shared {
    uint64_t sum; /* of the traces of all runs that passed */
    char why[64]; /* the last run failed */
} * shared;

/* In a process of its own. Returns whether it passed; what it prints is shown if `shown`. */
static bool passes(const struct run *r, bool shown)
{
    int status = 0;
    (void)fflush(stdout);
    (void)snprintf(shared->why, sizeof shared->why, "it crashed, or hung");
    trace_why = shared->why;
    trace_why_size = sizeof shared->why;
    pid_t child = fork();
    if (child == 0) {
        if (!shown &&
            (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL))
            _Exit(2);
        (void)setrlimit(RLIMIT_CPU, &(struct rlimit){LIMIT_S, LIMIT_S});
        runs->simulate(r);
        shared->sum ^= trace_total();
        (void)fflush(stdout);
        write_counts();
        _Exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror(runs->name);
        exit(2);
    }
    if (shown && WIFSIGNALED(status))
        printf("ended by signal %d: %s\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Leaves out kinds of faults, and ends earlier, for as long as it fails. */
static struct run shrink(struct run r)
{
    for (unsigned kind = 0; kind < runs->kinds; kind++) {
        struct run fewer = r;
        fewer.faults &= ~(1U << kind);
        if (fewer.faults != r.faults && !passes(&fewer, false))
            r = fewer;
    }
    for (unsigned cut = r.length_s / 2; cut > 0; cut /= 2)
        while (r.length_s > cut) {
            struct run shorter = r;
            shorter.length_s -= cut;
            if (passes(&shorter, false))
                break;
            r = shorter;
        }
    return r;
}

static double cpu_s(void)
{
    static const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    double s = 0;
    for (int i = 0; i < 2; i++) {
        struct rusage u;
        (void)getrusage(whose[i], &u);
        s += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
             (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
    }
    return s;
}

static void summarise(uint64_t seeds)
{
    double used_s = cpu_s();
    printf("%llu seeds in %.1f s of a processor; sum %016llx\n", (unsigned long long)seeds, used_s,
           (unsigned long long)shared->sum);
    runs->summarise(*runs->totals, used_s);
}

static void report(const struct run *failed)
{
    printf("seed %llu failed; shrinking\n", (unsigned long long)failed->seed);
    struct run r = shrink(*failed);
    (void)passes(&r, true);
    printf("%s --seed %llu --faults 0x%x --length %u --trace", runs->name, (unsigned long long)r.seed,
           r.faults, r.length_s);
    if (r.topology >= 0)
        printf(" --topology %s", runs->topologies[r.topology]);
    if (r.which_case >= 0)
        printf(" --case %s", runs->case_name((unsigned)r.which_case));
    printf("\n");
}

/* The same seed twice: what happens must be the same. */
static int run_repeated(struct run r, uint64_t count)
{
    uint64_t first = r.seed;
    for (; r.seed - first < count; r.seed++) {
        uint64_t before = shared->sum;
        bool first_passes = passes(&r, false);
        bool second_passes = passes(&r, false);
        if (!first_passes || !second_passes || shared->sum != before) {
            printf("seed %llu is not the same twice\n", (unsigned long long)r.seed);
            return 1;
        }
    }
    summarise(2 * count);
    return 0;
}

/* Ends with the seconds of a processor, or with the count of seeds: what is 0 does not bound. */
static int run_many(struct run r, double seconds, uint64_t count, bool is_brief)
{
    uint64_t first = r.seed;
    for (; (seconds <= 0 || cpu_s() < seconds) && (count == 0 || r.seed - first < count); r.seed++) {
        if (passes(&r, false))
            continue;
        if (is_brief) {
            printf("seed %llu failed after %.1f s: %s\n", (unsigned long long)r.seed, cpu_s(), shared->why);
            return 1;
        }
        report(&r);
        summarise(r.seed - first + 1);
        return 1;
    }
    summarise(r.seed - first);
    return 0;
}

static int run_one(const struct run *r, bool traced)
{
    trace_on = traced;
    bool passed = passes(r, true);
    if (passed)
        summarise(1);
    return passed ? 0 : 1;
}

/* --- cases --- */

enum { CASES_MAX = 64, CASE_SEEDS = 3, LINE_SIZE = 256 };

static int find_case(const char *name)
{
    for (unsigned i = 0; runs->case_name != NULL && runs->case_name(i) != NULL; i++)
        if (strcmp(runs->case_name(i), name) == 0)
            return (int)i;
    (void)fprintf(stderr, "%s: there is no case %s\n", runs->name, name);
    exit(2);
}

/* What is wrong with each case by the file, whose lines are "NAME why" or comments; "": nothing. */
static void read_failures(const char *path, char expected[CASES_MAX][LINE_SIZE])
{
    char line[LINE_SIZE];
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    while (fgets(line, sizeof line, file) != NULL) {
        char *why = line + strcspn(line, " \n");
        if (why == line || line[0] == '#')
            continue;
        line[strcspn(line, "\n")] = '\0';
        *why++ = '\0';
        (void)snprintf(expected[find_case(line)], LINE_SIZE, "%s", why);
    }
    (void)fclose(file);
}

/* With all of some seeds; of one that fails shared->why has the reason. */
static bool passes_case(struct run r)
{
    bool passed = true;
    for (r.seed = 1; r.seed <= CASE_SEEDS && passed; r.seed++)
        passed = passes(&r, false);
    return passed;
}

/* A case that fails must be in the file, for this reason, and one that passes must not. */
static int run_cases(struct run r, const char *path)
{
    static char expected[CASES_MAX][LINE_SIZE];
    int wrong = 0;
    read_failures(path, expected);
    for (int i = 0; runs->case_name((unsigned)i) != NULL; i++) {
        r.which_case = i;
        const char *why = passes_case(r) ? "" : shared->why;
        bool is_expected = strcmp(why, expected[i]) == 0;
        printf("%s %s%s\n", runs->case_name((unsigned)i), why[0] == '\0' ? "passes" : "fails: ", why);
        if (!is_expected)
            printf("  which is not expected: see %s\n", path);
        wrong += !is_expected;
    }
    return wrong > 0;
}

static uint64_t number_in(const char *text)
{
    char *end = NULL;
    unsigned long long n = strtoull(text, &end, 0);
    if (*text == '\0' || *end != '\0') {
        (void)fprintf(stderr, "%s: not a number: %s\n", runs->name, text);
        exit(2);
    }
    return n;
}

static int find_topology(const char *name)
{
    for (int i = 0; runs->topologies[i] != NULL; i++)
        if (strcmp(runs->topologies[i], name) == 0)
            return i;
    (void)fprintf(stderr, "%s: there is no topology %s\n", runs->name, name);
    exit(2);
}

static void *map_shared(size_t size)
{
    /* cppcheck-suppress invalidFunctionArg ; -1 is for no file */
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror(runs->name);
        exit(2);
    }
    return memory;
}

int runs_main(int argc, char **argv, const struct runs *which)
{
    static char lines[BUFSIZ]; /* or the first line would move what is allocated later */
    (void)setvbuf(stdout, lines, _IOFBF, sizeof lines);
    static const struct option options[] = {{"seconds", required_argument, NULL, 's'},
                                            {"from", required_argument, NULL, 'f'},
                                            {"count", required_argument, NULL, 'c'},
                                            {"seed", required_argument, NULL, 'o'},
                                            {"trace", no_argument, NULL, 't'},
                                            {"faults", required_argument, NULL, 'm'},
                                            {"length", required_argument, NULL, 'l'},
                                            {"brief", no_argument, NULL, 'b'},
                                            {"repeat", no_argument, NULL, 'r'},
                                            {"topology", required_argument, NULL, 'p'},
                                            {"case", required_argument, NULL, 'k'},
                                            {"cases", required_argument, NULL, 'e'},
                                            {NULL, 0, NULL, 0}};
    uint64_t value[128] = {0};
    runs = which;
    struct run r = {.seed = 1,
                    .faults = (1U << runs->kinds) - 1,
                    .length_s = runs->length_s,
                    .topology = -1,
                    .which_case = -1};
    const char *failures = NULL;
    for (int option = 0; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == '?')
            return 2;
        if (option == 'p') {
            r.topology = find_topology(optarg);
            continue;
        }
        if (option == 'k') {
            r.which_case = find_case(optarg);
            continue;
        }
        if (option == 'e') {
            failures = optarg;
            continue;
        }
        value[option] = optarg == NULL ? 1 : number_in(optarg);
        if (option == 'f' || option == 'o')
            r.seed = value[option];
        if (option == 'm')
            r.faults = (unsigned)value[option];
        if (option == 'l')
            r.length_s = (unsigned)value[option];
        value['o'] |= option == 'o';
    }
    *runs->totals = map_shared(runs->totals_size);
    shared = map_shared(sizeof *shared);
    if (failures != NULL)
        return run_cases(r, failures);
    if (value['r'] != 0)
        return run_repeated(r, value['c'] == 0 ? 1 : value['c']);
    uint64_t count = value['c'] == 0 && value['s'] == 0 ? 100 : value['c'];
    return value['o'] != 0 ? run_one(&r, value['t'] != 0)
                           : run_many(r, (double)value['s'], count, value['b'] != 0);
}
