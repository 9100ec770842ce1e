/*
 * The settings of Redis that the process has read, and reads again (cache_use_redis): each has a password of
 * its own, by which servers tell to which of them a connection belongs.
 */
#ifndef SIMULATION_SETTINGS_H
#define SIMULATION_SETTINGS_H

#include "cache/cache.h"

#include <stdbool.h>

/* The password that servers refuse. */
enum { SETTINGS_WRONG = 0 };

/* Reads the first settings, which are valid until settings_end(). */
struct redis_config *settings_begin(void);
void settings_end(void);

/* The cache that uses them, and changes to those that are read from now on. NULL: none any more. */
void settings_apply_to(struct cache *cache);

/* Other settings are read, with a wrong password or a right one. */
void settings_renew(bool wrong);

/* No more are read. If the last ones are wrong or could not be used, right ones are read and used. */
void settings_quieten(void);

/* The password of those in use, as a number. */
unsigned settings_in_use(void);

#endif
