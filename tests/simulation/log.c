/*
 * Log lines of the process, in the trace. Replaces the functions of base/log.c that begin and end a line.
 * Lines are composed without a trace too, so that each run of a seed makes the same allocations.
 */
#include "simulation/log.h"

#include "base/log.h"
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

bool __wrap_log_begin(struct log_line *line, enum log_level level, const char *message)
{
    line->level = level;
    line->len = (size_t)snprintf(line->text, sizeof line->text, "%s", message);
    return true;
}

void __wrap_log_end(struct log_line *line)
{
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
