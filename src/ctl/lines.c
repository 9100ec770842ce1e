/* Reading lines, twice; see lines.h. */
#include "ctl/lines.h"

#include "ctl/command.h"
#include "ctl/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* Copies what is left of the input to a file without a name. Returns that, or NULL after printing what is
 * wrong. */
static FILE *lines_copy(FILE *input)
{
    char path[PATH_MAX];
    const char *folder = getenv("TMPDIR");
    folder = folder != NULL && *folder != '\0' ? folder : "/tmp";
    (void)snprintf(path, sizeof path, "%s/channelctl.XXXXXX", folder);
    int fd = mkostemp(path, O_CLOEXEC);
    FILE *copy = fd < 0 || unlink(path) != 0 ? NULL : fdopen(fd, "w+");
    int c = 0;
    while (copy != NULL && (c = getc_unlocked(input)) != EOF && putc_unlocked(c, copy) != EOF)
        continue;
    if (copy == NULL || fflush(copy) != 0 || ferror(copy) || ferror(input)) {
        show_message("cannot copy the input to %s: %s", folder, strerror(errno));
        if (copy != NULL)
            (void)fclose(copy);
        return NULL;
    }
    return copy;
}

int lines_open(struct lines *l, const char *path)
{
    static const char mark[3] = "\xEF\xBB\xBF";
    char start[sizeof mark];
    const char *name = strstr(path, "://") != NULL ? "the file" : path; /* it may be a URL with a password */
    *l = (struct lines){.file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re")};
    if (l->file == NULL)
        return FAIL("cannot read %s: %s", name, strerror(errno));
    l->start = ftello(l->file);
    if (l->start < 0) {
        l->start = 0;
        l->file = lines_copy(l->file);
        if (l->file == NULL)
            return EXIT_FAILED;
        rewind(l->file);
    }
    if (fread(start, sizeof start, 1, l->file) == 1 && memcmp(start, mark, sizeof mark) == 0)
        l->start += (int64_t)sizeof mark;
    return EXIT_OK;
}

int lines_open_samples(struct lines *l, const char *host, const char *count)
{
    *l = (struct lines){.sample_host = host};
    return sample_parse_count(count, &l->samples);
}

void lines_close(struct lines *l)
{
    if (l->file != NULL && l->file != stdin)
        (void)fclose(l->file);
    buf_fini(&l->text);
}

static int lines_read_file(struct lines *l, int64_t *at)
{
    int64_t length = 0;
    int c = EOF;
    if (buf_reserve(&l->text, LINE_BYTES_MAX) != 0 || fseeko(l->file, *at, SEEK_SET) != 0)
        return -errno;
    while ((c = getc_unlocked(l->file)) != EOF && c != '\n')
        if (length++ < LINE_BYTES_MAX)
            l->text.data[l->text.len++] = (char)c;
    if (ferror(l->file))
        return -errno;
    *at += length + (c == '\n');
    return length > LINE_BYTES_MAX ? -EMSGSIZE : length > 0 || c == '\n';
}

int lines_read(struct lines *l, int64_t *at, struct span *line)
{
    buf_clear(&l->text);
    int got = l->file != NULL ? lines_read_file(l, at) : *at < l->samples;
    if (l->file == NULL && got == 1)
        sample_write(&l->text, l->sample_host, (*at)++);
    *line = buf_span(&l->text);
    return buf_error(&l->text) == 0 ? got : -ENOMEM;
}
