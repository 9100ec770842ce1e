/* Noting signals; see interrupt.h. The one variable a signal handler needs. */
#include "ctl/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t caught;

static void note(int number)
{
    caught = number;
}

static void watch(int number)
{
    /* No SA_RESTART, so that waiting for input ends; SA_RESETHAND, so that the second one kills. */
    struct sigaction action = {.sa_flags = (int)SA_RESETHAND};
    struct sigaction before;
    action.sa_handler = note;
    (void)sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        (void)sigaction(number, &action, NULL);
}

void interrupt_watch(void)
{
    watch(SIGINT);
    watch(SIGTERM);
    watch(SIGHUP);
}

int interrupt_signal(void)
{
    return caught;
}
