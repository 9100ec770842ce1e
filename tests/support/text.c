/* Text helpers of the tests. A failed allocation ends the test program, as no test is about it here. */

#include "support/text.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *text_allocate(size_t size)
{
    void *memory = malloc(size);
    if (memory == NULL)
        abort();
    return memory;
}

void text_free(void *text)
{
    void *memory = NULL;
    memcpy(&memory, text, sizeof memory);
    free(memory);
}

char *text_printf(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0)
        abort();
    return text;
}

static struct text_kept {
    struct text_kept *next;
    char *text;
} * kept;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

const char *text_temp(const char *format, ...)
{
    struct text_kept *keep = text_allocate(sizeof *keep);
    va_list args;
    va_start(args, format);
    int length = vasprintf(&keep->text, format, args);
    va_end(args);
    if (length < 0)
        abort();
    (void)pthread_mutex_lock(&kept_lock);
    keep->next = kept;
    kept = keep;
    (void)pthread_mutex_unlock(&kept_lock);
    return keep->text;
}

__attribute__((destructor)) static void text_free_kept(void)
{
    for (struct text_kept *next = NULL; kept != NULL; kept = next) {
        next = kept->next;
        free(kept->text);
        free(kept);
    }
}

char *text_repeat(char c, size_t n)
{
    char *text = text_allocate(n + 1);
    memset(text, c, n);
    text[n] = '\0';
    return text;
}

char *text_fill(const char *text, size_t size)
{
    size_t length = strlen(text);
    char *all = text_repeat(' ', size / length * length);
    for (size_t at = 0; at + length <= size; at += length)
        memcpy(all + at, text, length);
    return all;
}

char *text_append(char *a, const char *b)
{
    size_t left = strlen(a);
    size_t right = strlen(b);
    char *text = realloc(a, left + right + 1);
    if (text == NULL)
        abort();
    memcpy(text + left, b, right + 1);
    return text;
}

char *text_read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t capacity = 0;
    if (file == NULL)
        return text_repeat('x', 0);
    if (getdelim(&text, &capacity, '\0', file) < 0) {
        free(text);
        text = text_repeat('x', 0);
    }
    (void)fclose(file);
    return text;
}

bool text_write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    bool written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written;
}

static bool text_is_unreserved(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

char *text_percent_encode(const char *text)
{
    static const char hex[] = "0123456789ABCDEF";
    char *encoded = text_allocate(strlen(text) * 3 + 1);
    char *out = encoded;
    for (const char *in = text; *in != '\0'; in++) {
        unsigned char byte = (unsigned char)*in;
        if (text_is_unreserved(*in)) {
            *out++ = *in;
        } else {
            *out++ = '%';
            *out++ = hex[byte >> 4];
            *out++ = hex[byte & 15];
        }
    }
    *out = '\0';
    return encoded;
}

size_t text_count(const char *text, const char *needle)
{
    size_t count = 0;
    size_t length = strlen(needle);
    for (const char *hit = strstr(text, needle); hit != NULL; hit = strstr(hit + length, needle))
        count++;
    return count;
}
