#ifndef TEST_HOSTILE_CROWD_H
#define TEST_HOSTILE_CROWD_H

#include <stddef.h>
#include <stdint.h>

/* Many connections at once, driven from the test's own thread. */

struct crowd {
    int port;
    size_t size;
    struct crowd_member *member;
    int64_t began_ms;
};

/* How the server ended them, in milliseconds since crowd_open() returned. */
struct crowd_end {
    int answered; /* with `status` */
    int reset;    /* without an orderly end */
    int left;     /* not ended in time */
    int64_t first_ms, last_ms;
};

/* Connects so many; fails the test when one cannot. `receive_buffer`: bytes, 0 for the system's own. */
void crowd_open(struct crowd *crowd, int port, size_t size, int receive_buffer);

/* Sends the bytes on each connection that has not ended; what the server's kernel does not take is left out.
 */
void crowd_send(struct crowd *crowd, const char *bytes, size_t length);

/* Sends the first text on the first connection, the second on the second, and so on all around. */
void crowd_send_in_turn(struct crowd *crowd, const char *const *text, size_t count);

/*
 * Reads all connections until the server has ended them or `ms` (scaled) have passed. Every `interval_ms` it
 * sends the byte of `drip` on each of them, when that is not NULL. Counts those that were answered with that
 * status.
 */
struct crowd_end crowd_watch(struct crowd *crowd, int status, const char *drip, int interval_ms, int ms);

/* Sends more of the bytes, again and again from where each connection stopped, and drops what has come. */
void crowd_pump(struct crowd *crowd, const char *bytes, size_t length);

/* Does that, crowd_send() or crowd_pump(), all the time for so long. */
void crowd_keep_sending(struct crowd *crowd, void (*send)(struct crowd *, const char *, size_t),
                        const char *bytes, size_t length, int ms);

void crowd_close(struct crowd *crowd);

#endif
