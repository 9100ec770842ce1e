#ifndef LOADER_GATE_H
#define LOADER_GATE_H

#include <stdbool.h>
#include <stddef.h>

#include "support/process.h"

/*
 * A channelctl whose connection to Redis the test passes on by itself, command by command: nothing happens in
 * Redis, and the program learns nothing, between two calls of this module. One thread, no time limits but
 * those against a hang.
 */

enum { GATE_BYTES_MAX = 64 * 1024, GATE_WORD_MAX = 192 };

/* How far the first command that has not been replied to has come. */
enum gate_point { GATE_SENT, GATE_HALF_FORWARDED, GATE_EXECUTED, GATE_HALF_REPLIED, GATE_REPLIED };

struct gate_bytes {
    size_t len;
    char data[GATE_BYTES_MAX];
};

/* A connection. Where `client` is -1 nobody receives the replies any more. */
struct gate_connection {
    int client, server; /* descriptors, or -1 */
    enum gate_point point;
    struct gate_bytes commands, reply;
};

struct gate {
    struct process process;
    int listener, ended; /* descriptors: -1: connections are refused; readable when the process has ended */
    bool running;
    long commands; /* replied to so far */
    struct gate_connection connection, late;
};

/* Starts channelctl for the Redis of support/ctl.h. `name` names its output. */
void gate_start(struct gate *g, const char *name, const char *const *args);

/* Waits until it has sent a whole command, true, or has ended. */
bool gate_wait(struct gate *g);

/* A word of that command, or "". Borrowed until the next call. */
const char *gate_word(const struct gate_connection *c, size_t n);

/* Passes the command on until it has come so far; after GATE_REPLIED it is gone. */
void gate_pass(struct gate_connection *c, enum gate_point point);

/* True when a connection whose client is lost still holds a whole command. */
bool gate_has_command(const struct gate_connection *c);

/* Closes the connection. With `late` what was sent remains in g->late, and may reach Redis still. */
void gate_cut(struct gate *g, bool late);

/* Refuses connections from now on. */
void gate_refuse(struct gate *g);

/* SIGKILL; the connection remains. */
void gate_kill(struct gate *g);

/* Closes the late connection. */
void gate_drop_late(struct gate *g);

/* Ends everything. */
void gate_end(struct gate *g);

#endif
