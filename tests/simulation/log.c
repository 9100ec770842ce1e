/*
 * Log lines of the process, in the trace. Replaces the functions of base/log.c that begin and end a line.
 * Lines are composed without a trace too, so that each run of a seed makes the same allocations. A warning
 * that is repeated again and again is a failure.
 */
#include "simulation/log.h"

#include "base/hash.h"
#include "base/log.h"
#include "simulation/events.h"
#include "simulation/trace.h"

#include <stdio.h>
#include <string.h>

static const char *counted; /* NULL: no lines are counted */
static unsigned counted_lines;

void log_count(const char *text)
{
    counted = text;
    counted_lines = 0;
}

unsigned log_counted(void)
{
    return counted_lines;
}

bool __wrap_log_begin(struct log_line *line, enum log_level level, const char *message);
void __wrap_log_end(struct log_line *line);
void __wrap_log_text(enum log_level level, const char *message, const char *name, const char *detail);

/* The last warnings. Each is logged at most REPEATED_MAX times in a minute: less than once a second. */
enum { LINES = 1024, REPEATED_MAX = 50 };

static struct {
    uint64_t at_ns, hash;
} lines[LINES];

static size_t count;

static void count_line(const struct log_line *line)
{
    unsigned repeated = 0;
    if (line->level != LOG_WARN && line->level != LOG_ERROR)
        return;
    uint64_t hash = hash_bytes((struct span){line->text, line->len}, 0);
    lines[count % LINES].at_ns = now_ns();
    lines[count++ % LINES].hash = hash;
    for (size_t i = 0; i < LINES && i < count; i++)
        repeated += lines[i].hash == hash && lines[i].at_ns + 60 * SECOND > now_ns();
    if (repeated > REPEATED_MAX)
        trace_fail("a warning is logged again and again: %.*s", (int)line->len, line->text);
}

bool __wrap_log_begin(struct log_line *line, enum log_level level, const char *message)
{
    line->level = level;
    line->len = (size_t)snprintf(line->text, sizeof line->text, "%s", message);
    return true;
}

void __wrap_log_end(struct log_line *line)
{
    count_line(line);
    TRACE("log", "%.*s", (int)line->len, line->text);
    counted_lines += counted != NULL && memmem(line->text, line->len, counted, strlen(counted)) != NULL;
}

void __wrap_log_text(enum log_level level, const char *message, const char *name, const char *detail)
{
    struct log_line line;
    if (!__wrap_log_begin(&line, level, message))
        return;
    if (name != NULL && detail != NULL)
        log_str(&line, name, span_of(detail));
    __wrap_log_end(&line);
}
