/*
 * The protocol of Sentinels (locator.h): the master of a name, or one of its replicas.
 */
#ifndef REDIS_SENTINEL_H
#define REDIS_SENTINEL_H

#include "redis/locator.h"

/* The limits of a Sentinel's answer: bytes, and elements of an array. */
enum { SENTINEL_ANSWER_MAX = 1024 * 1024, SENTINEL_ELEMENTS_MAX = 1024 };

extern const struct locator_protocol sentinel_protocol;

#endif
