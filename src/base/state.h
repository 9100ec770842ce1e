/* The states of a module: an enum, a table of the states that may follow each (STATE(SHUT) | STATE(LOCKED)),
 * and one function, named `<module>_enter`, through which every change passes. */
#ifndef BASE_STATE_H
#define BASE_STATE_H

#include <assert.h>

#define STATE(state) (1U << (state))

/* Changes *state to `next`, which table[*state] must hold. A macro: the assertion names the module. */
#define STATE_ENTER(state, next, table)                 \
    do {                                                \
        assert(((table)[*(state)] & STATE(next)) != 0); \
        *(state) = (next);                              \
    } while (0)

#endif
