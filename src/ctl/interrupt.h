/* SIGINT, SIGTERM and SIGHUP ask to stop at the next good place. A second one ends the process at once. */
#ifndef CTL_INTERRUPT_H
#define CTL_INTERRUPT_H

/* From now on the three signals are noted instead of ending the process; a read that they interrupt fails
 * with EINTR. One that is ignored (nohup) stays so. */
void interrupt_watch(void);

/* The signal that came, or 0. */
int interrupt_signal(void);

#endif
