/*
 * Requests and responses as files of JSON lines; see recording.h. Requests are delimited as RFC 9112 section
 * 6 requires. A request that is not valid HTTP may be cut at the wrong place: it is the last of its
 * connection.
 */

#include "support/recording.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "support/http.h"
#include "support/text.h"

enum { LISTENERS_MAX = 256, REQUEST_KEPT = 4096 };

struct recording {
    const char *base_path; /* borrowed from the listener */
    char *sent;            /* what has no response yet, behind what has, and a NUL */
    size_t answered;
    size_t length;
    size_t capacity;
};

static struct listener {
    int port;
    char *base_path;
} listeners[LISTENERS_MAX];
static size_t listener_count;

/* The hashes of the lines that were written: a table with linear probing, 0 marks a free slot. */
static uint64_t *written;
static size_t written_capacity;
static size_t written_count;

static int file = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void recording_open(void)
{
    const char *path = getenv("TEST_RECORDING");
    if (path == NULL)
        return;
    file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0)
        abort();
}

static void *recording_allocate(size_t size)
{
    void *memory = calloc(1, size);
    if (memory == NULL)
        abort();
    return memory;
}

/* ---- listeners and connections ---- */

void recording_add_listener(int port, const char *base_path)
{
    (void)pthread_mutex_lock(&lock);
    size_t i = 0;
    while (i < listener_count && listeners[i].port != port)
        i++;
    if (file >= 0 && i == LISTENERS_MAX)
        abort();
    const char *path = base_path != NULL ? base_path : "/api/";
    bool same = i < listener_count && strcmp(listeners[i].base_path, path) == 0;
    if (file >= 0 && !same) {
        /* The text of an earlier listener may be borrowed: it stays. */
        listeners[i] = (struct listener){port, text_printf("%s", path)};
        listener_count += i == listener_count;
    }
    (void)pthread_mutex_unlock(&lock);
}

static struct recording *recording_of(const struct listener *listener)
{
    struct recording *recording = recording_allocate(sizeof *recording);
    recording->base_path = listener->base_path;
    return recording;
}

struct recording *recording_begin(int port)
{
    struct recording *recording = NULL;
    (void)pthread_mutex_lock(&lock);
    size_t i = 0;
    while (i < listener_count && listeners[i].port != port)
        i++;
    if (i < listener_count)
        recording = recording_of(&listeners[i]);
    (void)pthread_mutex_unlock(&lock);
    return recording;
}

void recording_end(struct recording *recording)
{
    if (recording == NULL)
        return;
    free(recording->sent);
    free(recording);
}

void recording_sent(struct recording *recording, const char *data, size_t length)
{
    if (recording == NULL)
        return;
    (void)pthread_mutex_lock(&lock);
    if (recording->capacity - recording->length < length) {
        recording->capacity = recording->capacity * 2 + length;
        char *larger = realloc(recording->sent, recording->capacity + 1);
        if (larger == NULL)
            abort();
        recording->sent = larger;
    }
    if (length > 0)
        memcpy(recording->sent + recording->length, data, length);
    recording->length += length;
    if (recording->sent != NULL)
        recording->sent[recording->length] = '\0';
    (void)pthread_mutex_unlock(&lock);
}

/* ---- where a request ends ---- */

static const char *find(const char *from, const char *end, const char *text)
{
    return from < end ? memmem(from, (size_t)(end - from), text, strlen(text)) : NULL;
}

/* The value of the first field of that name in a head, or NULL; it ends with CR LF. */
static const char *field(const char *head, const char *end, const char *name)
{
    for (const char *line = find(head, end, "\r\n"); line != NULL; line = find(line + 2, end, "\r\n")) {
        size_t length = strlen(name);
        if ((size_t)(end - line) < length + 5 || strncasecmp(line + 2, name, length) != 0 ||
            line[2 + length] != ':')
            continue;
        const char *value = line + 2 + length + 1;
        return value + strspn(value, " \t");
    }
    return NULL;
}

/* The end of chunked content, or NULL when it is not complete. */
static const char *chunks_end(const char *at, const char *end)
{
    for (;;) {
        const char *line_end = find(at, end, "\r\n");
        if (line_end == NULL)
            return NULL;
        size_t size = strtoul(at, NULL, 16);
        if (size == 0) {
            const char *trailer_end = find(line_end, end, "\r\n\r\n");
            return trailer_end != NULL ? trailer_end + 4 : NULL;
        }
        if (size > (size_t)(end - line_end) - 2)
            return NULL;
        at = line_end + 2 + size;
        at += end - at >= 2 ? 2 : end - at;
    }
}

/* The end of the request at `head`, whose head ends at `head_end`. */
static const char *request_end(const char *head, const char *head_end, const char *end)
{
    const char *coding = field(head, head_end, "Transfer-Encoding");
    const char *length = field(head, head_end, "Content-Length");
    const char *found = NULL;
    size_t size = 0;
    if (coding != NULL && strncasecmp(coding, "chunked", 7) == 0)
        found = chunks_end(head_end, end);
    else if (length != NULL)
        size = strtoul(length, NULL, 10);
    if (found == NULL && coding == NULL)
        found = size <= (size_t)(end - head_end) ? head_end + size : NULL;
    return found != NULL ? found : end;
}

struct request {
    const char *head;
    size_t kept;       /* bytes of the head that are recorded */
    const char *after; /* where the next request begins */
};

/* Looks at what may be a head first, not at all requests behind it: there can be thousands. */
static struct request first_request(const struct recording *recording)
{
    enum { HEAD_USUAL = 16 * 1024 };
    const char *end = recording->sent + recording->length;
    const char *head = recording->sent + recording->answered;
    while (end - head >= 2 && memcmp(head, "\r\n", 2) == 0)
        head += 2;
    const char *head_end = find(head, end - head > HEAD_USUAL ? head + HEAD_USUAL : end, "\r\n\r\n");
    if (head_end == NULL)
        head_end = find(head, end, "\r\n\r\n");
    const char *kept_end = head_end != NULL ? head_end + 4 : end;
    size_t kept = (size_t)(kept_end - head);
    return (struct request){
        .head = head,
        .kept = kept < REQUEST_KEPT ? kept : REQUEST_KEPT,
        .after = head_end != NULL ? request_end(head, head_end + 4, end) : end,
    };
}

/* ---- lines ---- */

struct line {
    char *text;
    size_t length;
};

static char *line_append(char *at, const char *data, size_t length)
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c >= ' ' && c < 0x7f && c != '"' && c != '\\') {
            *at++ = (char)c;
            continue;
        }
        at = mempcpy(at, "\\u00", 4);
        *at++ = hex[c >> 4];
        *at++ = hex[c & 15];
    }
    return at;
}

/* FNV-1a, but of eight bytes at a time: ThreadSanitizer makes each access slow. */
static uint64_t hash_append(uint64_t hash, const char *data, size_t length)
{
    uint64_t word;
    for (; length >= sizeof word; data += sizeof word, length -= sizeof word) {
        memcpy(&word, data, sizeof word);
        hash = (hash ^ word) * 0x100000001B3U;
        hash ^= hash >> 32;
    }
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)data[i]) * 0x100000001B3U;
    return hash;
}

/* The time, and ids that were made up, do not make a response another one. */
static uint64_t hash_append_head(uint64_t hash, const struct http_reply *reply)
{
    static const char *const varying[] = {"Date:", "X-Request-Id:"};
    const char *end = reply->head + reply->head_length;
    for (const char *at = reply->head; at < end;) {
        const char *next = find(at, end, "\r\n") + 2;
        size_t length = (size_t)(next - at);
        for (size_t i = 0; i < sizeof varying / sizeof varying[0]; i++) {
            if (strncasecmp(at, varying[i], strlen(varying[i])) == 0)
                length = strlen(varying[i]);
        }
        hash = hash_append(hash, at, length);
        at = next;
    }
    return hash;
}

/* Of all that is recorded, without what differs each time; never 0. */
static uint64_t hash_of(const struct recording *recording, const struct request *request,
                        const struct http_reply *reply)
{
    uint64_t hash = hash_append(0xCBF29CE484222325U, recording->base_path, strlen(recording->base_path) + 1);
    hash = hash_append(hash, request->head, request->kept);
    hash = hash_append_head(hash, reply);
    hash = hash_append(hash, reply->body, reply->body_length);
    return hash | (hash == 0);
}

static struct line line_make(const struct recording *recording, const struct request *request,
                             const struct http_reply *reply)
{
    enum { ESCAPED = 6, MEMBERS = 64 };
    size_t base_length = strlen(recording->base_path);
    struct line line = {
        .text = recording_allocate(
            (base_length + request->kept + reply->head_length + reply->body_length) * ESCAPED + MEMBERS)};
    char *at = stpcpy(line.text, "{\"base\":\"");
    at = line_append(at, recording->base_path, base_length);
    at = stpcpy(at, "\",\"request\":\"");
    at = line_append(at, request->head, request->kept);
    at = stpcpy(at, "\",\"head\":\"");
    at = line_append(at, reply->head, reply->head_length);
    at = stpcpy(at, "\",\"body\":\"");
    at = line_append(at, reply->body, reply->body_length);
    at = stpcpy(at, "\"}\n");
    line.length = (size_t)(at - line.text);
    return line;
}

static uint64_t *slot_of(uint64_t hash)
{
    size_t i = hash & (written_capacity - 1);
    while (written[i] != 0 && written[i] != hash)
        i = (i + 1) & (written_capacity - 1);
    return &written[i];
}

/* True when it was written before; it counts as written then. */
static bool was_written(uint64_t hash)
{
    if (written_count * 2 >= written_capacity) {
        uint64_t *old = written;
        size_t old_capacity = written_capacity;
        written_capacity = old_capacity == 0 ? 1024 : old_capacity * 2;
        written = recording_allocate(written_capacity * sizeof *written);
        for (size_t i = 0; i < old_capacity; i++) {
            if (old[i] != 0)
                *slot_of(old[i]) = old[i];
        }
        free(old);
    }
    uint64_t *slot = slot_of(hash);
    bool before = *slot != 0;
    *slot = hash;
    written_count += !before;
    return before;
}

/* Half of it is moved at a time. */
static void take_off(struct recording *recording, const char *until)
{
    recording->answered = (size_t)(until - recording->sent);
    if (recording->sent == NULL || recording->answered < recording->length / 2)
        return;
    recording->length -= recording->answered;
    recording->answered = 0;
    memmove(recording->sent, until, recording->length + 1);
}

static void recording_write(const struct recording *recording, const struct request *request,
                            const struct http_reply *reply)
{
    struct line line = line_make(recording, request, reply);
    if (write(file, line.text, line.length) != (ssize_t)line.length)
        abort();
    free(line.text);
}

void recording_received(struct recording *recording, const struct http_reply *reply)
{
    if (recording == NULL || reply->status < 200)
        return;
    (void)pthread_mutex_lock(&lock);
    struct request request = first_request(recording);
    if (!was_written(hash_of(recording, &request, reply)))
        recording_write(recording, &request, reply);
    take_off(recording, request.after);
    (void)pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void recording_close(void)
{
    for (size_t i = 0; i < listener_count; i++)
        free(listeners[i].base_path);
    free(written);
    if (file >= 0)
        (void)close(file);
}
