#ifndef TEST_HOSTILE_ATTACKS_H
#define TEST_HOSTILE_ATTACKS_H

#include <stddef.h>

/* What attacks are made of that more than one program makes. */

/* The text again and again, up to about a megabyte; owned. */
char *attack_megabyte_of(const char *text);

/* So many connect, one after the other, and are gone again; every other one by a reset, so that this machine
 * does not run out of ports. */
void attack_come_and_go(int port, int visitors);

/* Takes all descriptors that this process may have, for itself and its children; returns how many that are.
 */
size_t attack_take_descriptors(void);

#endif
