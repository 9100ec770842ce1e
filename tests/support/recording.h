#ifndef TEST_SUPPORT_RECORDING_H
#define TEST_SUPPORT_RECORDING_H

#include <stddef.h>

/*
 * Records the exchanges between the tests' HTTP client and channeld's public listeners, for
 * tests/openapi/check. With TEST_RECORDING set, each distinct pair of a request and its response is a line of
 * JSON in that file, at least once. The file is emptied first. Without it nothing is
 * recorded. All functions may be called from any thread.
 *
 * A line has the members base (the value of CHANNELD_BASE_PATH), request (its head, or the first bytes of
 * it), head and body (of the response). Bytes are the characters U+0000 to U+00FF.
 */

struct http_reply;

/* What is known of one connection; owned. */
struct recording;

/* From now on connections to this port are recorded. `base_path`: NULL for the default. */
void recording_add_listener(int port, const char *base_path);

/* NULL when connections to this port are not recorded; the other functions then do nothing. */
struct recording *recording_begin(int port);
void recording_end(struct recording *recording);

/* To be called before the bytes are sent: otherwise the response could be faster. */
void recording_sent(struct recording *recording, const char *data, size_t length);

/* The response to what was sent since the last one. */
void recording_received(struct recording *recording, const struct http_reply *reply);

#endif
