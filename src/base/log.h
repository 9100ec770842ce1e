/*
 * Logging: one JSON object per line, written by a separate thread.
 *
 * The queue of lines is bounded: if the file descriptor blocks, lines are dropped and counted, and no caller
 * waits. The access log has a third of the queue, so that its lines do not displace others. The sink is the
 * only mutable global of the program. API keys are never logged.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/span.h"

#include <stdint.h>

/* LOG_ACCESS is the access log, which has a separate setting and is written at any level. */
enum log_level { LOG_ACCESS, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

enum { LOG_LINE_MAX = 4096 }; /* bytes, with the newline; fields that do not fit are left out */

struct log_line {
    enum log_level level;
    size_t len;
    char text[LOG_LINE_MAX];
};

/* Starts the writer thread on `fd`, which is borrowed. Before that, and after log_stop, lines are discarded.
 * Returns 0 or a negative errno. */
int log_start(int fd, enum log_level level) __attribute__((warn_unused_result));

/* From the thread of log_start and log_stop. No effect before the one, and after the other. */
void log_set_level(enum log_level level);

/* Writes the queued lines, for at most a second, and ends the thread. */
void log_stop(void);

/* Lines lost since the start: the queue was full, or they could not be written. */
uint64_t log_dropped(void);

/* False if this level is not logged; the line must not be used then. `message` is a constant text. */
bool log_begin(struct log_line *line, enum log_level level, const char *message);
void log_str(struct log_line *line, const char *name, struct span value);
void log_int(struct log_line *line, const char *name, int64_t value);
void log_end(struct log_line *line);

/* A line with one text field; `detail` may be NULL: none. */
void log_text(enum log_level level, const char *message, const char *name, const char *detail);

/*
 * Rate limit for the reasons of a failure that repeats: each reason is logged at its first occurrence and
 * then once per minute. Zero-initialised: no reason was logged yet.
 */
enum { LOG_REASONS_MAX = 8, LOG_REPEAT_MS = 60 * 1000 };

struct log_reasons {
    struct log_reason {
        uint64_t hash, logged_ms;
    } recent[LOG_REASONS_MAX];
};

/* True if the reason must be logged now; it is then recorded as logged. */
bool log_reason_is_due(struct log_reasons *reasons, const char *reason, uint64_t now_ms);

#endif
