/* Reading lines; see lines.h. */
#include "ctl/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 128 * 1024 };

int lines_open(struct lines *l, const char *path)
{
    *l = (struct lines){.fd = STDIN_FILENO};
    if (strcmp(path, "-") == 0)
        return 0;
    l->fd = open(path, O_RDONLY | O_CLOEXEC);
    return l->fd < 0 ? -errno : 0;
}

void lines_open_source(struct lines *l, lines_source source, void *arg)
{
    *l = (struct lines){.fd = -1, .source = source, .source_arg = arg};
}

void lines_close(struct lines *l)
{
    if (l->fd > STDIN_FILENO)
        (void)close(l->fd);
    buf_fini(&l->read);
}

int64_t lines_total(const struct lines *l)
{
    struct stat st;
    return fstat(l->fd, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : 0;
}

static int read_file(struct lines *l)
{
    struct pollfd input = {.fd = l->fd, .events = POLLIN};
    int err = buf_reserve(&l->read, PIECE);
    if (err != 0)
        return err;
    int ready = poll(&input, 1, LINES_WAIT_MS);
    if (ready <= 0)
        return ready < 0 ? -errno : -EAGAIN;
    ssize_t n = read(l->fd, l->read.data + l->read.len, PIECE);
    if (n < 0)
        return -errno;
    l->read.len += (size_t)n;
    return 0;
}

static int read_piece(struct lines *l)
{
    buf_consume(&l->read, l->at);
    l->searched -= l->at;
    l->at = 0;
    size_t had = l->read.len;
    int err = l->source != NULL ? l->source(l->source_arg, &l->read) : read_file(l);
    if (err != 0)
        return err;
    l->bytes += (int64_t)(l->read.len - had);
    l->ended = l->read.len == had;
    return 0;
}

/* The line that begins at l->at and has `length` bytes; `end` more bytes lie between it and the next. */
static int give(struct lines *l, size_t length, size_t end, struct span *line)
{
    *line = (struct span){l->read.data + l->at, length};
    l->at += length + end;
    l->searched = l->at;
    l->number++;
    bool too_long = l->skipping || length > LINE_BYTES_MAX;
    l->skipping = false;
    return too_long ? -EMSGSIZE : 1;
}

int lines_next(struct lines *l, struct span *line)
{
    for (;;) {
        struct span fresh = span_skip(buf_span(&l->read), l->searched);
        size_t newline = l->searched - l->at + span_find(fresh, '\n');
        size_t pending = l->read.len - l->at;
        if (newline < pending)
            return give(l, newline, 1, line);
        if (l->ended)
            return pending > 0 || l->skipping ? give(l, pending, 0, line) : 0;
        l->searched = l->read.len;
        if (pending > LINE_BYTES_MAX) {
            l->skipping = true;
            l->at = l->read.len;
        }
        int err = read_piece(l);
        if (err != 0)
            return err;
    }
}
