/*
 * Loads that are cut off, killed, delayed and overlapped at every command. The real channelctl runs against a
 * real Redis, whose clock and whose commands only move when this program says so (clock.c, gate.h). After
 * every transaction Redis must hold what the load that holds the lock may make of it (model.h); exit codes
 * and messages must be true, and the next load must repair what `channelctl verify` reports.
 *
 * Before each command and before its reply the connection is closed, Redis becomes unreachable, channelctl is
 * killed, stopped or paused, or another load begins and both run alternately. The test each_command runs a
 * ninth of these cases, each_command-slow all of them. By hand, with CHANNELCTL_BIN and LOADER_CLOCK_LIBRARY
 * set to loader_channelctl and libloader_clock.so of this folder in the build:
 *
 *   loader --every 1000000 --seed 1 --seeds 10000              seeds alone
 *   loader --case 'replace hold load 111 executed' --trace     one case, with its commands
 */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loader/gate.h"
#include "loader/model.h"
#include "support/ctl.h"

/* --- Catalogues and loads --- */

static const struct model_file OLD = {
    .name = "old",
    .count = 4,
    .line = {{2, {'o', 'b', 0}}, {1, {'o', 'a', 0}}, {9, {'o', 'i', 'x'}}, {4, {'o', 'd', 0}}}};

/* Six channels, in three batches. Links are exchanged, left and taken. */
#define NEW_LINES                                                                                           \
    {                                                                                                       \
        {1, {'n', 'b', 0}}, {3, {'n', 'c', 0}}, {2, {'o', 'a', 0}}, {9, {'n', 'i', 0}}, {1, {'m', 'b', 0}}, \
            {5, {'n', 0, 0}}, {3, {'n', 'e', 0}}, {6, {'n', 'c', 0}},                                       \
        {                                                                                                   \
            5,                                                                                              \
            {                                                                                               \
                'n', 'f', 0                                                                                 \
            }                                                                                               \
        }                                                                                                   \
    }

static const struct model_file NEW = {.name = "new", .count = 9, .line = NEW_LINES};
static const struct model_file DAMAGED = {.name = "damaged", .damaged = true, .count = 9, .line = NEW_LINES};

/* Channel 7 takes the link of 9, which gets another one in the next batch. */
static const struct model_file OTHER = {.name = "other",
                                        .count = 7,
                                        .line = {{4, {'p', 'd', 0}},
                                                 {1, {'o', 'a', 0}},
                                                 {7, {'p', 'i', 0}},
                                                 {2, {'p', 'b', 'y'}},
                                                 {4, {'q', 'd', 0}},
                                                 {9, {'p', 'g', 0}},
                                                 {3, {'p', 'e', 0}}}};

static const struct kind {
    const char *name;
    const struct model_file *file;
    bool replace;
} FIRST[] = {{"load", &NEW, false}, {"replace", &NEW, true}, {"fail", &DAMAGED, true}},
  SECOND[] = {{"load", &OTHER, false}, {"replace", &OTHER, true}};

enum { FIRST_COUNT = 3, SECOND_COUNT = 2 };

/* --- What happens --- */

static const struct fault {
    const char *name;
    int seconds; /* with how many of SECOND it is tried, from the last one */
    int points;  /* of a command at which it is tried, of POINT_ORDER; 0: it is not about one command */
} FAULTS[] = {
    {"close", 0, 4},      /* the connection is closed, and what was sent is lost */
    {"drain", 0, 2},      /* ... and what was sent is executed */
    {"late", 2, 2},       /* ... and what was sent is executed when another load has run */
    {"late-amid", 1, 2},  /* ... or while it runs */
    {"gone", 0, 2},       /* as close, and Redis cannot be reached any more */
    {"gone-late", 2, 2},  /* as late, and Redis cannot be reached any more */
    {"kill", 0, 2},       /* SIGKILL, and what was sent is lost */
    {"kill-drain", 0, 2}, /* ... and what was sent is executed */
    {"hold", 2, 2},       /* stopped until its lease has passed and another load has run */
    {"hold-amid", 1, 2},  /* ... or while it runs */
    {"beside", 2, 1},     /* another load begins, and both run in turns */
    {"pause", 0, 2},      /* for almost a lease */
    {"pauses", 0, 0},     /* the same after every transaction */
};

enum fault_number {
    CLOSE,
    DRAIN,
    LATE,
    LATE_AMID,
    GONE,
    GONE_LATE,
    KILL,
    KILL_DRAIN,
    HOLD,
    HOLD_AMID,
    BESIDE,
    PAUSE,
    PAUSES,
    FAULT_COUNT
};

static const char *const POINTS[] = {"sent", "half-forwarded", "executed", "half-replied"};

/* The order in which points are tried; two of them suffice where only Redis matters. */
static const enum gate_point POINT_ORDER[] = {GATE_SENT, GATE_EXECUTED, GATE_HALF_FORWARDED,
                                              GATE_HALF_REPLIED};

enum { ALMOST_MS = 14500, CASE_MAX = 96 };

/* --- One case and its loads --- */

struct actor {
    const char *name;
    const struct kind *kind;
    struct gate gate;
    struct model_load load;
    char value[MODEL_HOLDER_MAX]; /* of its lock */
    struct model_catalogue last;  /* while it held the lock */
    int claims;                   /* how often it tried to take the lock */
    bool started, finished;
    bool disturbed; /* it may fail */
    bool killed;
    bool claimed_late; /* its SET may have been executed when it had ended */
    bool released;     /* its lock, and so has removed its next index */
};

static int64_t *now_ns;
static struct model_state state;
static struct actor first = {.name = "A"}, second = {.name = "B"};
static char *reset_script, *paths[4];
static const struct model_file *const FILES[] = {&OLD, &NEW, &DAMAGED, &OTHER};
static bool left_next; /* some load of the case has */
static char case_name[CASE_MAX];
static FILE *trace;
static char *trace_text;
static size_t trace_size;
static bool shows_trace;
static long runs;

static int64_t now_ms(void)
{
    return __atomic_load_n(now_ns, __ATOMIC_SEQ_CST) / 1000000;
}

static void pass_time(int ms)
{
    (void)__atomic_add_fetch(now_ns, (int64_t)ms * 1000000, __ATOMIC_SEQ_CST);
    (void)fprintf(trace, "  %d ms pass\n", ms);
}

static bool holds(const struct actor *a, const struct model_state *s)
{
    return a->claims > 0 && strcmp(s->holder, a->value) == 0;
}

static const char *name_holder(const struct model_state *s)
{
    if (s->holder[0] == '\0')
        return "-";
    return holds(&first, s) ? first.name : holds(&second, s) ? second.name : "other";
}

static void show_order(const char *name, const struct model_order *o)
{
    (void)fprintf(trace, " %s", name);
    for (int i = 0; i < o->count; i++)
        (void)fprintf(trace, " %d", o->id[i]);
}

static void show_state(const struct model_state *s)
{
    show_order("  index", &s->catalogue.index);
    show_order("| next", &s->next);
    (void)fprintf(trace, " | cards");
    for (int id = 0; id < MODEL_IDS; id++) {
        const struct model_card *c = &s->catalogue.card[id];
        if (c->title != 0)
            (void)fprintf(trace, " %d:%c%c%c", id, c->title, c->link == 0 ? '-' : c->link,
                          c->category == 0 ? '-' : c->category);
    }
    (void)fprintf(trace, " | links");
    for (int i = 0; i < MODEL_LINKS; i++)
        if (s->catalogue.link[i] != 0)
            (void)fprintf(trace, " %c:%d", 'a' + i, s->catalogue.link[i]);
    (void)fprintf(trace, " | lock %s\n", name_holder(s));
}

static void fail_case(const struct actor *a, const char *what)
{
    (void)fflush(trace);
    (void)printf("%.*s", (int)trace_size, trace_text);
    AUTOFREE char *err = a != NULL ? process_stderr(&a->gate.process) : text_printf("%s", "");
    fail_msg("%s: %s%s%s\n%sRepeat it by --case '%s'", case_name, a != NULL ? a->name : "",
             a != NULL ? ": " : "", what, err, case_name);
}

/* --- What Redis holds --- */

static void read_state(struct model_state *out, const struct actor *a)
{
    const char *problem = model_read(out, &redis, now_ms());
    if (problem != NULL)
        fail_case(a, problem);
}

static void check_lock(struct actor *a, const struct model_state *before, const struct model_state *after)
{
    bool changed = strcmp(before->holder, after->holder) != 0;
    if (changed && before->holder[0] != '\0' && !holds(a, before))
        fail_case(a, "it took or removed the lock of another load");
}

/* A command of this load was executed. */
static void observe(struct actor *a)
{
    struct model_state before = state;
    if (before.expires_ms < now_ms()) /* Redis still has the key in its last millisecond */
        before.holder[0] = '\0';
    read_state(&state, a);
    show_state(&state);
    bool wrote = !model_equal(&before.catalogue, &state.catalogue);
    bool wrote_next = before.next.count != state.next.count;
    if ((wrote || wrote_next) && !holds(a, &before))
        fail_case(a, "it wrote without the lock");
    check_lock(a, &before, &state);
    const char *problem = model_step(&a->load, &before.catalogue, &state.catalogue);
    if (problem != NULL)
        fail_case(a, problem);
    a->released = a->released || (holds(a, &before) && state.holder[0] == '\0');
    if (holds(a, &before) || holds(a, &state))
        a->last = state.catalogue;
}

/* --- Loads --- */

static bool only_reads(const char *word)
{
    static const char *const reads[] = {"HELLO", "SELECT", "INFO",   "WATCH",     "MULTI", "GET",   "PTTL",
                                        "HMGET", "HGET",   "ZSCORE", "ZREVRANGE", "SCAN",  "ZCARD", "ZRANGE"};
    for (size_t i = 0; i < TEST_COUNT(reads); i++)
        if (strcmp(word, reads[i]) == 0)
            return true;
    return false;
}

/* Passes on a command of the connection, and looks at Redis when it may have written. */
static void pass_to(struct actor *a, struct gate_connection *c, enum gate_point point)
{
    char word[GATE_WORD_MAX];
    bool executes = c->point < GATE_EXECUTED && point >= GATE_EXECUTED;
    (void)snprintf(word, sizeof word, "%s", gate_word(c, 0));
    if (strcmp(word, "SET") == 0 && strcmp(gate_word(c, 1), "channels:loader") == 0) {
        (void)snprintf(a->value, sizeof a->value, "%s", gate_word(c, 2));
        a->claims += executes;
        a->claimed_late = a->claimed_late || c == &a->gate.late;
    }
    (void)fprintf(trace, "%s%s %ld %s %s %s\n", a->name, c == &a->gate.late ? " (late)" : "",
                  a->gate.commands, word, gate_word(c, 1), point < GATE_REPLIED ? POINTS[point] : "");
    gate_pass(c, point < GATE_EXECUTED ? point : GATE_EXECUTED);
    if (executes && !only_reads(word) && strncmp(c->reply.data, "+QUEUED", 7) != 0)
        observe(a);
    gate_pass(c, point);
    if (point == GATE_REPLIED && c == &a->gate.connection)
        a->gate.commands++;
}

static void start(struct actor *a, const struct kind *kind)
{
    const char *path = "";
    for (size_t i = 0; i < TEST_COUNT(FILES); i++)
        if (FILES[i] == kind->file)
            path = paths[i];
    const char *const args[] = {"load", path, kind->replace ? "--replace" : NULL, NULL};
    a->kind = kind;
    a->load = (struct model_load){kind->file, kind->replace, 0, false};
    a->value[0] = '\0';
    a->claims = 0;
    a->claimed_late = false;
    a->finished = a->disturbed = a->killed = a->released = false;
    a->started = true;
    a->last = state.catalogue;
    gate_start(&a->gate, a->name, args);
    (void)fprintf(trace, "%s starts: %s\n", a->name, kind->name);
}

static void step(struct actor *a)
{
    pass_to(a, &a->gate.connection, GATE_REPLIED);
}

static void pass_late(struct actor *a)
{
    while (gate_has_command(&a->gate.late))
        pass_to(a, &a->gate.late, GATE_REPLIED);
    gate_drop_late(&a->gate);
}

/* --- What a load says about itself --- */

static void check_success(struct actor *a)
{
    if (!model_is_complete(&a->load, &a->last))
        fail_case(a, "exit code 0, but its catalogue was not there");
    if (a->kind->file->damaged)
        fail_case(a, "exit code 0 for a damaged file");
}

static void check_messages(struct actor *a, const char *err)
{
    static const char prefix[] = "stopped after ";
    const char *stopped = strstr(err, prefix);
    long channels = stopped == NULL ? 0 : strtol(stopped + strlen(prefix), NULL, 10);
    if (channels > a->load.channels && !model_has_channels(&a->load, &a->last, (int)channels))
        fail_case(a, "it had not loaded so many channels");
    if (strstr(err, "stopped before anything was loaded") != NULL &&
        (a->load.channels > 0 || a->load.replaced))
        fail_case(a, "something was loaded");
    if (strstr(err, "the catalogue was replaced") != NULL && !model_is_replaced(&a->load, &a->last))
        fail_case(a, "the catalogue was not replaced");
    if (strstr(err, "the index was not changed") != NULL && a->load.replaced)
        fail_case(a, "the index was changed");
    bool told =
        strstr(err, "the catalogue was replaced") != NULL || strstr(err, "may have been replaced") != NULL;
    if (a->gate.process.status != 0 && a->load.replaced && !told)
        fail_case(a, "it does not say that it has replaced the catalogue");
}

/* A load that has ended has released its lock, or says why not. */
static void check_rest(struct actor *a, const char *err)
{
    bool kept = strstr(err, "could not release the load lock") != NULL;
    if (!kept && !a->claimed_late && holds(a, &state) && state.expires_ms >= now_ms())
        fail_case(a, "it left its lock");
}

static void finish(struct actor *a)
{
    if (a->finished || !a->started)
        return;
    a->finished = true;
    int status = a->gate.process.status;
    AUTOFREE char *out = process_stdout(&a->gate.process);
    AUTOFREE char *err = process_stderr(&a->gate.process);
    (void)fprintf(trace, "%s ends: %d %s%s", a->name, status, out, err);
    if (a->killed)
        return;
    if (status != 0 && status != 1)
        fail_case(a, "not an exit code of a load");
    if (status == 0)
        check_success(a);
    else if (!a->kind->file->damaged && !a->disturbed)
        fail_case(a, "it failed without a fault");
    check_messages(a, err);
    check_rest(a, err);
}

static void run_to_end(struct actor *a)
{
    while (gate_wait(&a->gate))
        step(a);
    finish(a);
}

/* --- Cases --- */

static void reset(void)
{
    (void)fflush(trace);
    rewind(trace);
    first.started = second.started = left_next = false;
    redis_do(&redis, "EVAL %s 0", reset_script);
    read_state(&state, NULL);
    runs++;
}

/* Final states whose sequel is known to be good: what verify says, and what further loads make of it. */
enum { SEEN_MAX = 4096 };
static struct model_state seen[SEEN_MAX];
static size_t seen_count;

static bool is_new(void)
{
    for (size_t i = 0; i < seen_count; i++)
        if (model_ends_alike(&seen[i], &state))
            return false;
    if (seen_count < SEEN_MAX)
        seen[seen_count++] = state;
    return true;
}

static void expect_verify(void)
{
    AUTO(ctl_run_free) struct ctl_run run = CTL("verify");
    if ((run.status == 0) == model_is_sound(&state))
        return;
    (void)fprintf(trace, "%s%s", run.out, run.err);
    fail_case(NULL, run.status == 0 ? "verify finds no problem" : "verify finds problems");
}

/* The next load repairs what the others have left. */
static void expect_repair(void)
{
    static struct actor next = {.name = "C"};
    static const struct kind *const sequel[] = {&SECOND[0], &FIRST[1]};
    for (size_t i = 0; i < TEST_COUNT(sequel); i++) {
        start(&next, sequel[i]);
        run_to_end(&next);
        gate_end(&next.gate);
    }
    if (!model_is_sound(&state) || state.holder[0] != '\0')
        fail_case(NULL, "a load --replace did not repair the catalogue");
}

static void end(struct actor *a)
{
    if (a->started)
        gate_end(&a->gate);
}

/* A load that was killed or has lost its lock removes nothing. */
static bool leaves_next(const struct actor *a)
{
    return a->started && a->load.replace && !a->released;
}

/* All loads have ended, and the lease has passed. */
static void settle(void)
{
    finish(&first);
    finish(&second);
    left_next = left_next || leaves_next(&first) || leaves_next(&second);
    end(&first);
    end(&second);
    pass_time(MODEL_LEASE_MS + 1);
    read_state(&state, NULL);
    if (state.holder[0] != '\0')
        fail_case(NULL, "the lock has not expired");
    if (state.next.count > 0 && !left_next)
        fail_case(NULL, "a next index was left");
    if (!is_new())
        return;
    redis_do(&redis, "DEL " MODEL_FOREIGN);
    expect_verify();
    expect_repair();
}

/* Both, a command each in turn. */
static void run_in_turns(void)
{
    bool any = true;
    while (any) {
        bool a = gate_wait(&first.gate);
        if (a)
            step(&first);
        else
            finish(&first);
        bool b = gate_wait(&second.gate);
        if (b)
            step(&second);
        else
            finish(&second);
        any = a || b;
    }
}

static void cut(struct actor *a, bool late)
{
    a->disturbed = true;
    gate_cut(&a->gate, late);
    (void)fprintf(trace, "%s loses its connection\n", a->name);
}

static void kill_load(struct actor *a, bool late)
{
    a->disturbed = a->killed = true;
    (void)fprintf(trace, "%s is killed\n", a->name);
    gate_kill(&a->gate);
    gate_cut(&a->gate, late);
}

/* The second load; with `amid` only until it has written its first batch, as it is to be disturbed there. */
static void run_second(const struct kind *other, bool amid)
{
    start(&second, other);
    while (!(amid && second.load.channels > 0) && gate_wait(&second.gate))
        step(&second);
    if (!amid)
        finish(&second);
}

/* Stopped while the lease passes and the other load runs; goes on then. */
static void hold(const struct kind *other, bool amid)
{
    first.disturbed = true;
    process_signal(&first.gate.process, SIGSTOP);
    pass_time(ALMOST_MS);
    run_second(other, amid);
    process_signal(&first.gate.process, SIGCONT);
    run_to_end(&first);
    /* The first one may have waited until the lease of the second one had passed. */
    second.disturbed = amid && first.claims > 1;
    run_to_end(&second);
}

static void run_late(enum fault_number fault, const struct kind *other)
{
    cut(&first, true);
    if (fault == GONE_LATE)
        gate_refuse(&first.gate);
    run_to_end(&first);
    if (fault == GONE_LATE)
        pass_time(ALMOST_MS);
    run_second(other, fault == LATE_AMID);
    pass_late(&first);
    run_to_end(&second);
}

static void inject(enum fault_number fault, const struct kind *other)
{
    switch (fault) {
    case CLOSE:
    case DRAIN:
        cut(&first, fault == DRAIN);
        pass_late(&first);
        break;
    case GONE:
        cut(&first, false);
        gate_refuse(&first.gate);
        break;
    case LATE:
    case LATE_AMID:
    case GONE_LATE:
        run_late(fault, other);
        break;
    case KILL:
    case KILL_DRAIN:
        kill_load(&first, fault == KILL_DRAIN);
        pass_late(&first);
        break;
    case HOLD:
    case HOLD_AMID:
        hold(other, fault == HOLD_AMID);
        break;
    case BESIDE:
        start(&second, other);
        second.disturbed = true;
        run_in_turns();
        break;
    case PAUSE:
        pass_time(ALMOST_MS);
        break;
    case PAUSES:
    case FAULT_COUNT:
        break;
    }
    run_to_end(&first);
}

static void run_with_pauses(const struct kind *kind)
{
    (void)snprintf(case_name, sizeof case_name, "%s pauses - 0 sent", kind->name);
    reset();
    start(&first, kind);
    while (gate_wait(&first.gate)) {
        bool commits = strcmp(gate_word(&first.gate.connection, 0), "EXEC") == 0;
        step(&first);
        if (commits)
            pass_time(ALMOST_MS);
    }
    settle();
}

static void run_case(const struct kind *kind, enum fault_number fault, const struct kind *other, long command,
                     enum gate_point point)
{
    (void)snprintf(case_name, sizeof case_name, "%s %s %s %ld %s", kind->name, FAULTS[fault].name,
                   other != NULL ? other->name : "-", command, POINTS[point]);
    reset();
    start(&first, kind);
    bool reached = gate_wait(&first.gate);
    while (reached && first.gate.commands < command) {
        step(&first);
        reached = gate_wait(&first.gate);
    }
    if (reached) {
        if (point != GATE_SENT)
            pass_to(&first, &first.gate.connection, point);
        inject(fault, other);
    }
    settle();
}

/* --- All cases --- */

static int every = 1;
static long case_number;

static bool is_chosen(void)
{
    return case_number++ % every == 0;
}

static void run_at_each_command(const struct kind *kind, enum fault_number fault, const struct kind *other,
                                long commands)
{
    for (long command = 0; command < commands; command++)
        for (int i = 0; i < FAULTS[fault].points; i++)
            if (is_chosen())
                run_case(kind, fault, other, command, POINT_ORDER[i]);
}

static void run_kind(const struct kind *kind)
{
    const long endless = 1000000;
    run_with_pauses(kind);
    run_case(kind, PAUSE, NULL, endless, GATE_SENT); /* without a fault */
    long commands = first.gate.commands;
    for (int fault = 0; fault < FAULT_COUNT; fault++) {
        int seconds = FAULTS[fault].seconds;
        if (seconds == 0)
            run_at_each_command(kind, (enum fault_number)fault, NULL, commands);
        for (int i = SECOND_COUNT - seconds; seconds > 0 && i < SECOND_COUNT; i++)
            run_at_each_command(kind, (enum fault_number)fault, &SECOND[i], commands);
    }
    (void)printf("%s: %ld commands\n", kind->name, commands);
}

static void every_command(void **unused)
{
    (void)unused;
    for (int i = 0; i < FIRST_COUNT; i++)
        run_kind(&FIRST[i]);
}

/* --- Seeds --- */

static uint64_t random_state;

static uint64_t random_below(uint64_t limit)
{
    random_state += 0x9e3779b97f4a7c15;
    uint64_t x = random_state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return (x ^ (x >> 31)) % limit;
}

static void disturb_both(void)
{
    first.disturbed = second.disturbed = true;
}

static void random_fault(struct actor *a)
{
    bool late = random_below(2) == 0;
    disturb_both();
    switch (random_below(6)) {
    case 0:
        kill_load(a, late);
        break;
    case 1:
        gate_refuse(&a->gate);
        cut(a, late);
        break;
    case 2:
    case 3:
        cut(a, late);
        break;
    default:
        pass_time((int)random_below(18) * 1000 + 500);
    }
}

/* Some steps of one load, and perhaps a fault at any point of its next command. */
static void random_steps(struct actor *a)
{
    static const int lengths[] = {1, 1, 4, 20, 100};
    int steps = lengths[random_below(TEST_COUNT(lengths))];
    while (steps-- > 0 && gate_wait(&a->gate))
        step(a);
    if (random_below(8) == 0)
        pass_late(a);
    if (random_below(10) != 0 || !gate_wait(&a->gate))
        return;
    enum gate_point point = (enum gate_point)random_below(GATE_REPLIED);
    if (point > GATE_SENT)
        pass_to(a, &a->gate.connection, point);
    random_fault(a);
}

static void random_loads(void)
{
    start(&first, &FIRST[random_below(FIRST_COUNT)]);
    for (uint64_t i = random_below(3) == 0 ? 0 : random_below(120); i > 0 && gate_wait(&first.gate); i--)
        step(&first);
    start(&second, random_below(4) == 0 ? &FIRST[2] : &SECOND[random_below(SECOND_COUNT)]);
    disturb_both();
    while (gate_wait(&first.gate) || gate_wait(&second.gate))
        random_steps(random_below(2) == 0 ? &first : &second);
    finish(&first);
    finish(&second);
    pass_late(&first);
    pass_late(&second);
}

/* The second pair of loads finds what the first one has left. */
static void run_seed(uint64_t seed)
{
    (void)snprintf(case_name, sizeof case_name, "seed %" PRIu64, seed);
    random_state = seed;
    reset();
    random_loads();
    left_next = leaves_next(&first) || leaves_next(&second);
    end(&first);
    end(&second);
    random_loads();
    settle();
}

static uint64_t seed_first = 1, seed_count = 100;

static void seeds(void **unused)
{
    (void)unused;
    for (uint64_t i = 0; i < seed_count; i++)
        run_seed(seed_first + i);
}

/* --- One case --- */

static char *chosen_case;

static const struct kind *find_kind(const struct kind *kinds, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

static int find_name(const char *const *names, size_t stride, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(*(const char *const *)((const char *)names + i * stride), name) == 0)
            return (int)i;
    fail_msg("no such fault or point: %s", name);
    return -1;
}

static void one_case(void **unused)
{
    (void)unused;
    char words[5][32];
    if (strncmp(chosen_case, "seed ", 5) == 0) {
        run_seed(strtoull(chosen_case + 5, NULL, 10));
        return;
    }
    assert_int_equal(
        sscanf(chosen_case, "%31s %31s %31s %31s %31s", words[0], words[1], words[2], words[3], words[4]), 5);
    const struct kind *kind = find_kind(FIRST, FIRST_COUNT, words[0]);
    int fault = find_name(&FAULTS[0].name, sizeof FAULTS[0], FAULT_COUNT, words[1]);
    int point = find_name(POINTS, sizeof POINTS[0], TEST_COUNT(POINTS), words[4]);
    assert_non_null(kind);
    if (fault == PAUSES)
        run_with_pauses(kind);
    else
        run_case(kind, (enum fault_number)fault, find_kind(SECOND, SECOND_COUNT, words[2]),
                 strtol(words[3], NULL, 10), (enum gate_point)point);
}

/* --- The program --- */

static void make_clock(void)
{
    AUTOFREE char *path = text_printf("%s/clock", redis.dir.path);
    const int64_t start_ns = 1795000000LL * 1000000000;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, &start_ns, sizeof start_ns), sizeof start_ns);
    now_ns = mmap(NULL, sizeof *now_ns, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(now_ns != MAP_FAILED);
    (void)close(fd);
    const char *inherited = getenv("ASAN_OPTIONS");
    AUTOFREE char *asan = text_printf("%s:verify_asan_link_order=0", inherited != NULL ? inherited : "");
    assert_int_equal(setenv("ASAN_OPTIONS", asan, 1), 0);
    assert_int_equal(setenv("LOADER_CLOCK", path, 1), 0);
    assert_int_equal(setenv("LD_PRELOAD", process_require_env("LOADER_CLOCK_LIBRARY"), 1), 0);
}

static int set_up(void **unused)
{
    (void)unused;
    struct model_catalogue old;
    /* The allocator's thread waits by the wall clock: it would never sleep. */
    const char *const args[] = {"--jemalloc-bg-thread", "no", NULL};
    redis_prepare(&redis, args);
    make_clock();
    redis_restart(&redis);
    assert_int_equal(setenv("LOADER_CLOCK_WHOLE", "1", 1), 0);
    model_fill(&old, &OLD);
    reset_script = model_script(&old);
    for (size_t i = 0; i < TEST_COUNT(FILES); i++) {
        AUTOFREE char *text = model_text(FILES[i]);
        paths[i] = text_printf("%s/%s", redis.dir.path, FILES[i]->name);
        assert_true(text_write_file(paths[i], text));
    }
    trace = open_memstream(&trace_text, &trace_size);
    assert_non_null(trace);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    end(&first);
    end(&second);
    (void)fclose(trace);
    if (shows_trace)
        (void)printf("%.*s", (int)trace_size, trace_text);
    (void)printf("%ld runs, %zu different ends\n", runs, seen_count);
    free(trace_text);
    free(reset_script);
    for (size_t i = 0; i < TEST_COUNT(paths); i++)
        free(paths[i]);
    (void)munmap(now_ns, sizeof *now_ns);
    redis_stop(&redis);
    return 0;
}

static const struct option OPTIONS[] = {{"every", required_argument, NULL, 'e'},
                                        {"seeds", required_argument, NULL, 'n'},
                                        {"seed", required_argument, NULL, 's'},
                                        {"case", required_argument, NULL, 'c'},
                                        {"trace", no_argument, NULL, 't'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static int usage(FILE *to, int code)
{
    (void)fputs("usage: loader [--every N] [--seed FIRST] [--seeds COUNT] | --case CASE [--trace]\n"
                "  --every N      only every n-th of the cases at each command (default: 1)\n"
                "  --seed FIRST   the first seed (default: 1)\n"
                "  --seeds COUNT  how many (default: 100)\n"
                "  --case CASE    one case, as a failure prints it, such as 'replace hold load 37 executed', "
                "'seed 5'\n"
                "  --trace        prints what happened in the last case\n",
                to);
    return code;
}

int main(int argc, char **argv)
{
    int option = 0;
    while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        if (option == 'e')
            every = (int)strtol(optarg, NULL, 10);
        else if (option == 'n')
            seed_count = strtoull(optarg, NULL, 10);
        else if (option == 's')
            seed_first = strtoull(optarg, NULL, 10);
        else if (option == 'c')
            chosen_case = optarg;
        else if (option == 't')
            shows_trace = true;
        else
            return option == 'h' ? usage(stdout, 0) : usage(stderr, 2);
    }
    if (every < 1)
        return usage(stderr, 2);
    const struct CMUnitTest one[] = {cmocka_unit_test(one_case)};
    const struct CMUnitTest all[] = {cmocka_unit_test(every_command), cmocka_unit_test(seeds)};
    return chosen_case != NULL ? cmocka_run_group_tests(one, set_up, tear_down)
                               : cmocka_run_group_tests(all, set_up, tear_down);
}
