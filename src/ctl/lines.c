/* Reading lines, twice; see lines.h. */
#include "ctl/lines.h"

#include "ctl/command.h"
#include "ctl/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- Opening --- */

static const char *lines_copy_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder != NULL && *folder != '\0' ? folder : "/tmp";
}

/* Returns the descriptor of a new file without a name, or a negative errno. */
static int lines_make_copy(void)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/channelctl.XXXXXX", lines_copy_folder());
    int copy = mkostemp(path, O_CLOEXEC);
    return copy < 0 || unlink(path) != 0 ? -errno : copy;
}

/* Copies the rest of the input, and reads the copy from now on. */
static int lines_copy(struct lines *l, const char *name)
{
    enum { COPY_PIECE = 128 * 1024 };
    static char piece[COPY_PIECE];
    int copy = lines_make_copy();
    int err = copy < 0 ? -copy : 0;
    ssize_t n = 1;
    while (err == 0 && (n = read(l->fd, piece, sizeof piece)) > 0)
        for (ssize_t at = 0, written = 0; at < n && err == 0; at += written)
            err = (written = write(copy, piece + at, (size_t)(n - at))) < 0 ? errno : 0;
    if (n < 0)
        show_message("cannot read %s: %s", name, strerror(errno));
    else if (err != 0)
        show_message("cannot copy the input to %s: %s", lines_copy_folder(), strerror(err));
    if (l->fd > STDIN_FILENO)
        (void)close(l->fd);
    l->fd = copy;
    return n == 0 && err == 0 ? EXIT_OK : EXIT_FAILED;
}

int lines_open(struct lines *l, const char *path)
{
    struct stat st;
    const char *name = strstr(path, "://") != NULL ? "the file" : path; /* it may be a URL with a password */
    *l = (struct lines){.fd = STDIN_FILENO, .piece = LINES_PIECE};
    if (strcmp(path, "-") != 0)
        l->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (l->fd < 0 || fstat(l->fd, &st) != 0)
        return FAIL("cannot read %s: %s", name, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return lines_copy(l, name);
    l->first = lseek(l->fd, 0, SEEK_CUR);
    return EXIT_OK;
}

void lines_close(struct lines *l)
{
    if (l->fd > STDIN_FILENO)
        (void)close(l->fd);
    buf_fini(&l->window);
}

int64_t lines_total(const struct lines *l)
{
    struct stat st;
    if (l->fd < 0)
        return l->samples;
    return fstat(l->fd, &st) == 0 ? (int64_t)st.st_size - l->first : 0;
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

/* Checks the first line. Returns 0, or -EILSEQ if the input cannot be lines of JSON. */
static int lines_check_form(struct lines *l, struct span *line)
{
    static const struct span mark = {"\xEF\xBB\xBF", 3};
    if (span_starts_with(*line, mark)) {
        l->at += (int64_t)mark.len;
        *line = span_skip(*line, mark.len);
    }
    l->form = lines_find_form(lines_trim(*line));
    return l->form == NULL ? 0 : -EILSEQ;
}

/* --- Reading --- */

/* The bytes of the window from `at` on. */
static struct span lines_known(const struct lines *l, int64_t at)
{
    int64_t used = at - l->window_at;
    bool is_known = used >= 0 && used <= (int64_t)l->window.len;
    return is_known ? span_skip(buf_span(&l->window), (size_t)used) : (struct span){"", 0};
}

/* Reads on behind the window, which begins at `at` then. Returns the number of bytes or a negative errno. */
static ssize_t lines_read_piece(struct lines *l, int64_t at)
{
    buf_consume(&l->window, l->window.len - lines_known(l, at).len);
    l->window_at = at;
    if (buf_reserve(&l->window, l->piece) != 0)
        return -ENOMEM;
    ssize_t n =
        pread(l->fd, l->window.data + l->window.len, l->piece, l->first + at + (int64_t)l->window.len);
    if (n < 0)
        return -errno;
    l->window.len += (size_t)n;
    return n;
}

static int lines_make_sample(struct lines *l, int64_t number, struct span *line)
{
    if (number >= l->samples)
        return 0;
    buf_clear(&l->window);
    sample_write(&l->window, l->sample_host, number);
    *line = buf_span(&l->window);
    return buf_error(&l->window) == 0 ? 1 : -ENOMEM;
}

/* With -EMSGSIZE *line is the beginning of a line. */
int lines_read(struct lines *l, int64_t at, struct span *line)
{
    if (l->fd < 0)
        return lines_make_sample(l, at, line);
    for (ssize_t n = 1;; n = lines_read_piece(l, at)) {
        *line = lines_known(l, at);
        size_t end = span_find(*line, '\n');
        bool is_whole = end < line->len || n == 0;
        line->len = end;
        if (n < 0 || end > LINE_BYTES_MAX)
            return n < 0 ? (int)n : -EMSGSIZE;
        if (is_whole)
            return end > 0 || n > 0;
    }
}

int lines_next(struct lines *l, struct span *line)
{
    l->at = l->next;
    int got = lines_read(l, l->at, line);
    if (got != 1 && got != -EMSGSIZE)
        return got;
    l->next = l->fd < 0 ? l->at : l->at + (int64_t)line->len;
    if (l->number++ == 0 && lines_check_form(l, line) != 0)
        return -EILSEQ;
    struct span rest;
    int end = got;
    while (end == -EMSGSIZE) {
        end = lines_read(l, l->next, &rest);
        l->next += (int64_t)rest.len;
    }
    l->next++;
    return end < 0 ? end : got;
}
