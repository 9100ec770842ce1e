/* Reading lines, twice; see lines.h. */
#include "ctl/lines.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes per read. A piece is small, because each line that is read again costs one. */
enum { PIECE = 16 * 1024, COPY_PIECE = 128 * 1024 };

/* Finds out whether it is a regular file. Returns 0 or a negative errno. */
static int lines_measure(struct lines *l)
{
    struct stat st;
    if (fstat(l->fd, &st) != 0)
        return -errno;
    l->first = S_ISREG(st.st_mode) ? lseek(l->fd, 0, SEEK_CUR) : -1;
    return 0;
}

int lines_open(struct lines *l, const char *path)
{
    *l = (struct lines){.fd = STDIN_FILENO, .copy = -1};
    if (strcmp(path, "-") != 0)
        l->fd = open(path, O_RDONLY | O_CLOEXEC);
    return l->fd < 0 ? -errno : lines_measure(l);
}

void lines_close(struct lines *l)
{
    if (l->fd > STDIN_FILENO)
        (void)close(l->fd);
    if (l->copy >= 0)
        (void)close(l->copy);
    buf_fini(&l->read);
    buf_fini(&l->kept);
}

int64_t lines_total(const struct lines *l)
{
    struct stat st;
    return fstat(l->fd, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size - l->first : 0;
}

static int lines_read_file(struct lines *l)
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

static int lines_read_piece(struct lines *l)
{
    buf_consume(&l->read, l->at);
    l->searched -= l->at;
    l->at = 0;
    size_t had = l->read.len;
    int err = l->source != NULL ? l->source(l->source_arg, &l->read) : lines_read_file(l);
    if (err != 0)
        return err;
    l->bytes += (int64_t)(l->read.len - had);
    l->ended = l->read.len == had;
    return 0;
}

/* The offset of the first byte in l->read. */
static int64_t lines_begin(const struct lines *l)
{
    return l->bytes - (int64_t)l->read.len;
}

/* --- The first line --- */

struct span lines_trim(struct span line)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): only an empty line has no data */
    if (line.len > 0 && line.data[line.len - 1] == '\r')
        line.len--;
    return span_trim(line);
}

/* What a file with this first line is, unless it may be lines of JSON: then NULL. */
static const char *lines_find_form(struct span line)
{
    static const struct {
        struct span start;
        const char *form;
    } rows[] = {
        {{"\x1F\x8B", 2}, "it is compressed: zcat FILE | channelctl load -"},
        {{"\x28\xB5\x2F\xFD", 4}, "it is compressed: zstdcat FILE | channelctl load -"},
        {{"\xFD"
          "7zXZ",
          5},
         "it is compressed: xzcat FILE | channelctl load -"},
        {{"\xFF\xFE", 2}, "it is UTF-16: iconv -f UTF-16 -t UTF-8 FILE | channelctl load -"},
        {{"[", 1}, "it is a JSON array, not one object per line: jq -c '.[]' FILE | channelctl load -"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (span_starts_with(line, rows[i].start))
            return rows[i].form;
    if (span_equal(line, SPAN("{")))
        return "its objects have several lines, not one object per line: jq -c . FILE | channelctl load -";
    bool is_table = !span_starts_with(line, SPAN("{")) &&
                    (span_find(line, ',') < line.len || span_find(line, ';') < line.len ||
                     span_find(line, '\t') < line.len);
    return is_table ? "CSV? see \"Other formats\" in docs/schema.md, which converts it to one object per line"
                    : NULL;
}

/* The first line has `length` bytes. Returns 0, or -EILSEQ if the input cannot be lines of JSON. */
static int lines_check_form(struct lines *l, size_t length)
{
    static const struct span mark = {"\xEF\xBB\xBF", 3};
    assert(l->read.data != NULL);
    struct span line = {l->read.data + l->at, length};
    l->begun = true;
    if (span_starts_with(line, mark)) {
        l->at += mark.len;
        l->searched = l->at;
        line = span_skip(line, mark.len);
    }
    l->form = lines_find_form(lines_trim(line));
    return l->form == NULL ? 0 : -EILSEQ;
}

/* --- The first reading --- */

/* Ends the line of `length` bytes at l->at, after which `end` more bytes are skipped. */
static int lines_finish_line(struct lines *l, size_t length, size_t end, struct span *line)
{
    *line = (struct span){l->read.data + l->at, length};
    l->offset = lines_begin(l) + (int64_t)l->at;
    l->at += length + end;
    l->searched = l->at;
    l->number++;
    bool too_long = l->skipping || length > LINE_BYTES_MAX;
    l->skipping = false;
    return too_long ? -EMSGSIZE : 1;
}

int lines_next(struct lines *l, struct span *line)
{
    struct span fresh = span_skip(buf_span(&l->read), l->searched);
    size_t newline = l->searched - l->at + span_find(fresh, '\n');
    size_t pending = l->read.len - l->at;
    if (!l->begun && (newline < pending || pending > LINE_BYTES_MAX || (l->ended && pending > 0))) {
        int err = lines_check_form(l, newline);
        return err < 0 ? err : -EINTR;
    }
    if (newline < pending)
        return lines_finish_line(l, newline, 1, line);
    if (l->ended)
        return pending > 0 || l->skipping ? lines_finish_line(l, pending, 0, line) : 0;
    l->searched = l->read.len;
    if (pending > LINE_BYTES_MAX) {
        l->skipping = true;
        l->at = l->read.len;
    }
    int err = lines_read_piece(l);
    return err < 0 ? err : -EINTR;
}

/* --- The second reading --- */

const char *lines_copy_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder != NULL && *folder != '\0' ? folder : "/tmp";
}

static int lines_make_copy(struct lines *l)
{
    struct buf path = BUF_INIT;
    buf_printf(&path, "%s/channelctl.XXXXXX", lines_copy_folder());
    int err = buf_c_str(&path) == NULL ? -ENOMEM : 0;
    if (err == 0) {
        l->copy = mkostemp(path.data, O_CLOEXEC);
        err = l->copy < 0 || unlink(path.data) != 0 ? -errno : 0;
    }
    buf_fini(&path);
    return err;
}

static int lines_write_kept(struct lines *l)
{
    struct span rest = buf_span(&l->kept);
    while (rest.len > 0) {
        ssize_t n = write(l->copy, rest.data, rest.len);
        if (n < 0 && errno != EINTR)
            return -errno;
        rest = span_skip(rest, n > 0 ? (size_t)n : 0);
    }
    buf_clear(&l->kept);
    return 0;
}

static bool lines_need_copy(const struct lines *l)
{
    return l->source == NULL && l->first < 0;
}

int lines_keep(struct lines *l, struct span line, int64_t *offset)
{
    *offset = l->offset;
    if (!lines_need_copy(l))
        return 0;
    *offset = l->copied;
    int err = l->copy < 0 ? lines_make_copy(l) : 0;
    buf_append_span(&l->kept, line);
    buf_append_char(&l->kept, '\n');
    l->copied += (int64_t)line.len + 1;
    if (err == 0)
        err = buf_error(&l->kept);
    return err == 0 && l->kept.len >= COPY_PIECE ? lines_write_kept(l) : err;
}

static int lines_restart(struct lines *l, int64_t offset)
{
    buf_clear(&l->read);
    l->at = l->searched = 0;
    l->bytes = offset;
    l->ended = false;
    return l->source != NULL || lseek(l->fd, l->first + offset, SEEK_SET) >= 0 ? 0 : -errno;
}

int lines_rewind(struct lines *l)
{
    if (!lines_need_copy(l))
        return lines_restart(l, 0);
    int err = lines_write_kept(l);
    if (err != 0 || l->copy < 0) /* no line was kept */
        return err;
    buf_fini(&l->kept);
    if (l->fd > STDIN_FILENO)
        (void)close(l->fd);
    l->fd = l->copy;
    l->copy = -1;
    l->first = 0;
    return lines_restart(l, 0);
}

int lines_seek(struct lines *l, int64_t offset)
{
    if (offset < lines_begin(l) || offset > l->bytes)
        return lines_restart(l, offset);
    l->at = l->searched = (size_t)(offset - lines_begin(l));
    return 0;
}
