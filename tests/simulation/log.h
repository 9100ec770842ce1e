<<<<<<< HEAD
/* What the process logs. */
#ifndef SIMULATION_LOG_H
#define SIMULATION_LOG_H

/* From now on the lines with this text are counted; NULL: none. */
void log_count(const char *text);
unsigned log_counted(void);
=======
/* Log lines of the process, for cases (cases.h). */
#ifndef SIMULATION_LOG_H
#define SIMULATION_LOG_H

/* Lines that begin with this message are counted from now on. Borrowed. */
void log_watch(const char *message);
unsigned log_count(void);
>>>>>>> 0bad6d2d (tests: hold what Sentinels and nodes say by cases and one table)

#endif
