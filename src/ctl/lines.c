/* Reading lines, twice; see lines.h. */
#include "ctl/lines.h"

#include "ctl/command.h"
#include "ctl/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/param.h>
#include <unistd.h>

/* --- Opening --- */

static const char *lines_copy_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder != NULL && *folder != '\0' ? folder : "/tmp";
}

/* Returns a new file without a name, or NULL and errno. */
static FILE *lines_make_copy(void)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/channelctl.XXXXXX", lines_copy_folder());
    int fd = mkostemp(path, O_CLOEXEC);
    return fd < 0 || unlink(path) != 0 ? NULL : fdopen(fd, "w+");
}

/* Copies the rest of the input, and reads the copy from now on. */
static int lines_copy(struct lines *l, const char *name)
{
    enum { COPY_PIECE = 128 * 1024 };
    static char piece[COPY_PIECE];
    FILE *input = l->file;
    size_t n = 1;
    l->file = lines_make_copy();
    bool written = l->file != NULL;
    while (written && (n = fread(piece, 1, sizeof piece, input)) > 0)
        written = fwrite(piece, 1, n, l->file) == n;
    written = written && fflush(l->file) == 0;
    const char *why = strerror(errno);
    bool is_read = ferror(input) == 0;
    if (input != stdin)
        (void)fclose(input);
    if (!written)
        return FAIL("cannot copy the input to %s: %s", lines_copy_folder(), why);
    return is_read ? EXIT_OK : FAIL("cannot read %s: %s", name, why);
}

int lines_open(struct lines *l, const char *path)
{
    static const struct span mark = {"\xEF\xBB\xBF", 3};
    const char *name = strstr(path, "://") != NULL ? "the file" : path; /* it may be a URL with a password */
    struct span line = SPAN_ABSENT;
    *l = (struct lines){.file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re")};
    if (l->file == NULL)
        return FAIL("cannot read %s: %s", name, strerror(errno));
    l->start = ftello(l->file);
    bool is_regular = l->start >= 0;
    l->start = MAX(l->start, 0);
    int code = is_regular ? EXIT_OK : lines_copy(l, name);
    int64_t at = l->start;
    if (code == EXIT_OK && lines_read(l, &at, &line) != 0 && span_starts_with(line, mark))
        l->start += (int64_t)mark.len;
    return code;
}

void lines_close(struct lines *l)
{
    if (l->file != NULL && l->file != stdin)
        (void)fclose(l->file);
    buf_fini(&l->text);
}

/* --- Reading --- */

static int lines_read_file(struct lines *l, int64_t *at)
{
    int64_t length = 0;
    int c = EOF;
    if (buf_reserve(&l->text, LINE_BYTES_MAX) != 0)
        return -ENOMEM;
    if (fseeko(l->file, *at, SEEK_SET) != 0)
        return -errno;
    while ((c = getc_unlocked(l->file)) != EOF && c != '\n')
        if (length++ < LINE_BYTES_MAX)
            l->text.data[l->text.len++] = (char)c;
    if (ferror(l->file))
        return -errno;
    *at += length + (c == '\n');
    return length > LINE_BYTES_MAX ? -EMSGSIZE : length > 0 || c == '\n';
}

static int lines_make_sample(struct lines *l, int64_t number)
{
    if (number < l->samples)
        sample_write(&l->text, l->sample_host, number);
    return buf_error(&l->text) != 0 ? -ENOMEM : number < l->samples;
}

int lines_read(struct lines *l, int64_t *at, struct span *line)
{
    buf_clear(&l->text);
    int got = l->file != NULL ? lines_read_file(l, at) : lines_make_sample(l, (*at)++);
    *line = buf_span(&l->text);
    return got;
}
