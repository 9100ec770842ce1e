/*
 * Requests and responses as files of JSON lines; see recording.h. A connection is recorded for as long as
 * each of its requests is a head alone, and gets its response before the next one is sent.
 */

#include "support/recording.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "support/http.h"
#include "support/text.h"

enum { LISTENERS_MAX = 256, REQUEST_KEPT = 4096, SEEN = 1 << 16 };

struct recording {
    const char *base_path; /* borrowed from the listener */
    char sent[REQUEST_KEPT];
    size_t length; /* of what was sent since the last response, of which the beginning is kept */
    bool ended;
};

static struct listener {
    int port;
    char *base_path;
} listeners[LISTENERS_MAX];
static size_t listener_count;

static uint64_t seen[SEEN]; /* hashes of lines that were written, each at its place */
static FILE *file;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Not when the program begins: it may begin again, to hand sockets to the server (sockets.h). */
static bool recording_open(void)
{
    const char *path = getenv("TEST_RECORDING");
    if (path != NULL && file == NULL && (file = fopen(path, "we")) == NULL)
        abort();
    return file != NULL;
}

/* ---- listeners and connections ---- */

static size_t listener_find(int port)
{
    size_t i = 0;
    while (i < listener_count && listeners[i].port != port)
        i++;
    return i;
}

void recording_add_listener(int port, const char *base_path)
{
    (void)pthread_mutex_lock(&lock);
    const char *path = base_path != NULL ? base_path : "/api/";
    size_t i = listener_find(port);
    if (i == LISTENERS_MAX)
        abort();
    if (recording_open() && (i == listener_count || strcmp(listeners[i].base_path, path) != 0)) {
        /* The text of an earlier listener may be borrowed: it stays. */
        listeners[i] = (struct listener){port, text_printf("%s", path)};
        listener_count += i == listener_count;
    }
    (void)pthread_mutex_unlock(&lock);
}

struct recording *recording_begin(int port)
{
    struct recording *recording = NULL;
    (void)pthread_mutex_lock(&lock);
    size_t i = listener_find(port);
    if (i < listener_count) {
        recording = calloc(1, sizeof *recording);
        if (recording == NULL)
            abort();
        recording->base_path = listeners[i].base_path;
    }
    (void)pthread_mutex_unlock(&lock);
    return recording;
}

void recording_end(struct recording *recording)
{
    free(recording);
}

void recording_sent(struct recording *recording, const char *data, size_t length)
{
    if (recording == NULL || length == 0)
        return;
    (void)pthread_mutex_lock(&lock);
    size_t kept = recording->length < REQUEST_KEPT ? recording->length : REQUEST_KEPT;
    memcpy(recording->sent + kept, data, length < REQUEST_KEPT - kept ? length : REQUEST_KEPT - kept);
    recording->length += length;
    (void)pthread_mutex_unlock(&lock);
}

/* ---- lines ---- */

struct part {
    const char *data;
    size_t length;
};

static void part_write(const char *name, struct part part)
{
    (void)fprintf(file, "\"%s\":\"", name);
    for (size_t i = 0; i < part.length; i++) {
        unsigned char c = (unsigned char)part.data[i];
        bool plain = c >= ' ' && c < 0x7f && c != '"' && c != '\\';
        (void)(plain ? putc_unlocked(c, file) : fprintf(file, "\\u%04x", c));
    }
    (void)putc_unlocked('"', file);
}

/* FNV-1a, but of eight bytes at a time: ThreadSanitizer makes each access slow. */
static uint64_t part_hash(uint64_t hash, struct part part)
{
    uint64_t word;
    for (; part.length >= sizeof word; part.data += sizeof word, part.length -= sizeof word) {
        memcpy(&word, part.data, sizeof word);
        hash = (hash ^ word) * 0x100000001B3U;
        hash ^= hash >> 32;
    }
    for (size_t i = 0; i < part.length; i++)
        hash = (hash ^ (unsigned char)part.data[i]) * 0x100000001B3U;
    return hash;
}

/* The time, and ids that were made up, do not make a response another one. */
static uint64_t head_hash(uint64_t hash, const struct http_reply *reply)
{
    const char *end = reply->head + reply->head_length;
    for (const char *at = reply->head, *next = NULL; at < end; at = next) {
        next = (const char *)memmem(at, (size_t)(end - at), "\r\n", 2) + 2;
        if (strncasecmp(at, "Date:", 5) != 0 && strncasecmp(at, "X-Request-Id:", 13) != 0)
            hash = part_hash(hash, (struct part){at, (size_t)(next - at)});
    }
    return hash;
}

/* Each distinct pair once, unless another one has taken its place meanwhile. */
static void pair_write(const char *base_path, struct part request, const struct http_reply *reply)
{
    struct part base = {base_path, strlen(base_path)};
    struct part body = {reply->body, reply->body_length};
    uint64_t hash =
        part_hash(head_hash(part_hash(part_hash(0xCBF29CE484222325U, base), request), reply), body);
    if (seen[hash % SEEN] == hash)
        return;
    seen[hash % SEEN] = hash;
    (void)putc_unlocked('{', file);
    part_write("base", base);
    (void)putc_unlocked(',', file);
    part_write("request", request);
    (void)putc_unlocked(',', file);
    part_write("head", (struct part){reply->head, reply->head_length});
    (void)putc_unlocked(',', file);
    part_write("body", body);
    (void)fputs("}\n", file);
    (void)fflush(file);
}

void recording_received(struct recording *recording, const struct http_reply *reply)
{
    if (recording == NULL || recording->ended || reply->status < 200)
        return;
    (void)pthread_mutex_lock(&lock);
    struct part sent = {recording->sent, recording->length < REQUEST_KEPT ? recording->length : REQUEST_KEPT};
    size_t skipped = 0; /* empty lines before the request */
    while (sent.length >= 2 && memcmp(sent.data, "\r\n", 2) == 0) {
        sent = (struct part){sent.data + 2, sent.length - 2};
        skipped += 2;
    }
    const char *end = memmem(sent.data, sent.length, "\r\n\r\n", 4);
    if (end != NULL)
        sent.length = (size_t)(end - sent.data) + 4;
    pair_write(recording->base_path, sent, reply);
    recording->ended = end == NULL || skipped + sent.length != recording->length;
    recording->length = 0;
    (void)pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void recording_close(void)
{
    for (size_t i = 0; i < listener_count; i++)
        free(listeners[i].base_path);
    if (file != NULL)
        (void)fclose(file);
}
