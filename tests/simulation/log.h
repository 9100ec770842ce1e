/* What the process logs. */
#ifndef SIMULATION_LOG_H
#define SIMULATION_LOG_H

/* From now on the lines with this text are counted; NULL: none. */
void log_count(const char *text);
unsigned log_counted(void);

#endif
