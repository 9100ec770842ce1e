/* Noting signals; see interrupt.h. The one variable a signal handler needs. */
#include "ctl/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t caught;

static void note(int number)
{
    caught = number;
}

void interrupt_watch(void)
{
    /* No SA_RESTART, so that waiting for input ends; SA_RESETHAND, so that the second one kills. */
    struct sigaction action = {.sa_flags = (int)SA_RESETHAND};
    action.sa_handler = note;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

int interrupt_signal(void)
{
    return caught;
}
