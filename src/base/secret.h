/* Keeping secrets: comparing them, and keeping them out of core dumps. (explicit_bzero wipes them.) */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include "base/span.h"

/*
 * As span_equal, in a time that depends on the lengths alone: where a comparison ends early, who can measure
 * it learns how much of a guess was right.
 */
bool secret_equal(struct span a, struct span b);

/*
 * No core dump of this process, no debugger of the same user, no reading of its memory through /proc
 * (PR_SET_DUMPABLE, prctl(2)): its memory holds the keys of clients and the password of Redis. Processes that
 * may trace any other (CAP_SYS_PTRACE) still can. Under AddressSanitizer this does nothing: its search for
 * leaks traces the process.
 */
void secret_forbid_dumps(void);

/* Takes that back. */
void secret_allow_dumps(void);

#endif
