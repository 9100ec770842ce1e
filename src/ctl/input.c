/* Reading channels, twice; see input.h. */
#include "ctl/input.h"

#include "base/hash.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* The places of a line that does not count. */
enum { LINE_UNUSED = -1, LINK_TAKEN = -2 /* its link is that of another channel */ };

/* --- Opening --- */

/* A copy of what is left of the input, in a file without a name; NULL after printing what is wrong. */
static FILE *input_copy(FILE *from)
{
    char path[PATH_MAX];
    const char *folder = getenv("TMPDIR");
    folder = folder != NULL && *folder != '\0' ? folder : "/tmp";
    (void)snprintf(path, sizeof path, "%s/channelctl.XXXXXX", folder);
    int fd = mkostemp(path, O_CLOEXEC);
    FILE *copy = fd < 0 || unlink(path) != 0 ? NULL : fdopen(fd, "w+");
    int c = 0;
    while (copy != NULL && (c = getc_unlocked(from)) != EOF && putc_unlocked(c, copy) != EOF)
        continue;
    if (copy != NULL && fflush(copy) == 0 && !ferror(copy) && !ferror(from))
        return copy;
    show_message("cannot copy the input to %s: %s", folder, strerror(errno));
    if (copy != NULL)
        (void)fclose(copy);
    return NULL;
}

int input_open(struct input *in, const struct options *o, const char *path)
{
    static const char mark[3] = "\xEF\xBB\xBF";
    char start[sizeof mark];
    const char *name = path != NULL ? path : "sample";
    *in = (struct input){.name = name, .hosts = &o->hosts, .report = {.to = stderr}, .seed = random_seed(in)};
    if (path == NULL)
        return sample_parse_count(o->args.flag[FLAG_SAMPLE], &in->samples);
    in->file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (in->file == NULL) /* it may be a URL with a password */
        return FAIL("cannot read %s: %s", strstr(path, "://") != NULL ? "the file" : path, strerror(errno));
    in->start = ftello(in->file);
    if (in->start < 0) {
        in->file = input_copy(in->file);
        if (in->file == NULL)
            return EXIT_FAILED;
        rewind(in->file);
        in->start = 0;
    }
    if (fread(start, sizeof start, 1, in->file) == 1 && memcmp(start, mark, sizeof mark) == 0)
        in->start += (int64_t)sizeof mark;
    return EXIT_OK;
}

void input_close(struct input *in)
{
    if (in->file != NULL && in->file != stdin)
        (void)fclose(in->file);
    buf_fini(&in->text);
    buf_fini(&in->index);
    free(in->channel);
}

/* --- Lines --- */

static int input_read_from_file(struct input *in, int64_t *at)
{
    int64_t length = 0;
    int c = EOF;
    if (buf_reserve(&in->text, LINE_BYTES_MAX) != 0 || fseeko(in->file, *at, SEEK_SET) != 0)
        return -errno;
    while ((c = getc_unlocked(in->file)) != EOF && c != '\n')
        if (length++ < LINE_BYTES_MAX)
            in->text.data[in->text.len++] = (char)c;
    if (ferror(in->file))
        return -errno;
    *at += length + (c == '\n');
    return length > LINE_BYTES_MAX ? -EMSGSIZE : length > 0 || c == '\n';
}

int input_read_line(struct input *in, int64_t *at, struct span *line)
{
    buf_clear(&in->text);
    int got = in->file != NULL ? input_read_from_file(in, at) : *at < in->samples;
    if (in->file == NULL && got == 1)
        sample_write(&in->text, in->hosts->channel_host, (*at)++);
    *line = buf_span(&in->text);
    return buf_error(&in->text) == 0 ? got : -ENOMEM;
}

/* A line that is refused is the last one of its channel, too: an earlier one is not loaded instead. Returns 0
 * or -ENOMEM. */
static int input_note_line(struct input *in, int64_t number, int64_t at, struct span line)
{
    struct card card;
    int err = card_read(in->hosts, &in->report, line, &card);
    struct input_line noted = {.id = card.id, .at = LINE_UNUSED, .number = number};
    in->refused += err == -EINVAL;
    if (err == 0) {
        struct span link = card.row.value[CHANNEL_FIELD_link];
        noted.at = at;
        noted.link = link.data != NULL ? hash_bytes(link, in->seed) | 1 : 0;
        card_fini(&card);
    }
    if (card.has_id)
        buf_append(&in->index, &noted, sizeof noted);
    return err == -ENOMEM ? err : buf_error(&in->index);
}

/* Returns 0, -EILSEQ if the first line is not a JSON object, or another negative errno. */
static int input_note_lines(struct input *in)
{
    struct span line = SPAN_ABSENT;
    bool is_first = true;
    int err = 0;
    int64_t at = in->start;
    int64_t next = at;
    for (int64_t number = 1; err == 0; number++, at = next) {
        int got = input_read_line(in, &next, &line);
        if (got != 1 && got != -EMSGSIZE)
            return got;
        struct span text = span_trim(line);
        if (text.len == 0 || span_equal(text, SPAN("\r")))
            continue;
        if (is_first && (*text.data != '{' || text.len == 1 || span_equal(text, SPAN("{\r"))))
            return -EILSEQ;
        is_first = false;
        report_begin(&in->report, "%s:%lld", in->name, (long long)number);
        if (got == 1) {
            err = input_note_line(in, number, at, line);
            continue;
        }
        in->refused++;
        report_problem(&in->report, "the line is longer than %d bytes", LINE_BYTES_MAX);
    }
    return err;
}

/* --- Channels and their links --- */

enum input_order { BY_ID, BY_LINK }; /* and where that is equal, in the order of the file */

static int input_compare(const void *a, const void *b, void *order)
{
    const struct input_line *x = ((const struct input_channel *)a)->line;
    const struct input_line *y = ((const struct input_channel *)b)->line;
    bool by_id = *(const enum input_order *)order == BY_ID;
    uint64_t i = by_id ? (uint64_t)x->id : x->link;
    uint64_t j = by_id ? (uint64_t)y->id : y->link;
    return i != j ? (i > j) - (i < j) : (x->number > y->number) - (x->number < y->number);
}

static void input_sort(struct input *in, enum input_order order)
{
    qsort_r(in->channel, in->channels, sizeof *in->channel, input_compare, &order);
}

static int input_find(const void *id, const void *channel)
{
    uint64_t i = *(const uint64_t *)id;
    uint64_t j = (uint64_t)((const struct input_channel *)channel)->line->id;
    return (i > j) - (i < j);
}

static int input_list_channels(struct input *in)
{
    size_t lines = in->index.len / sizeof *in->next;
    in->next = (struct input_line *)(void *)in->index.data;
    in->end = in->next + lines;
    in->channel = malloc((lines + 1) * sizeof *in->channel);
    if (in->channel == NULL)
        return -ENOMEM;
    for (in->channels = 0; in->channels < lines; in->channels++)
        in->channel[in->channels].line = &in->next[in->channels];
    input_sort(in, BY_ID);
    in->channels = 0;
    for (size_t i = 0; i < lines; i++) {
        struct input_line *line = in->channel[i].line;
        struct input_line *first = in->channels > 0 ? in->channel[in->channels - 1].line : NULL;
        if (first == NULL || first->id != line->id) {
            in->channel[in->channels++].line = line;
            continue;
        }
        *first = *line;
        line->at = LINE_UNUSED;
        in->repeated++;
    }
    return 0;
}

/*
 * A link belongs to the first line with it, of those that are the last ones of their channels; the others are
 * refused, in the order of the file. Of 1,000,000 links two have the same hash in one of 37 million loads.
 */
static void input_check_links(struct input *in)
{
    const struct input_line *owner = NULL;
    input_sort(in, BY_LINK);
    for (size_t i = 0; i < in->channels; i++) {
        struct input_line *line = in->channel[i].line;
        if (owner == NULL || line->link == 0 || line->link != owner->link)
            owner = line;
        else
            *line = (struct input_line){line->id, LINK_TAKEN, line->number, (uint64_t)owner->id};
    }
    input_sort(in, BY_ID);
    for (const struct input_line *line = in->next; line < in->end; line++)
        if (line->at == LINK_TAKEN) {
            report_begin(&in->report, "%s:%lld", in->name, (long long)line->number);
            report_problem(&in->report, "link: is the link of channel %lld in an earlier line",
                           (long long)line->link);
            in->refused++;
        }
}

int input_examine(struct input *in)
{
    int err = input_note_lines(in);
    if (err == 0)
        err = input_list_channels(in);
    if (err == 0)
        input_check_links(in);
    report_finish(&in->report);
    if (err == -ENOMEM)
        return FAIL("out of memory");
    if (err == -EILSEQ)
        return FAIL("cannot read %s: its first line is not a JSON object (\"Other formats\" in "
                    "docs/schema.md says how to convert a file)",
                    in->name);
    return err == 0 ? EXIT_OK : FAIL("cannot read %s: %s", in->name, strerror(-err));
}

bool input_has(const struct input *in, struct span id_text)
{
    int64_t id = 0;
    return parse_int64(id_text, &id) == 0 &&
           bsearch(&id, in->channel, in->channels, sizeof *in->channel, input_find) != NULL;
}

/* --- The second reading --- */

int input_next(struct input *in, struct card *card)
{
    struct span line = SPAN_ABSENT;
    while (in->next < in->end && in->next->at < 0)
        in->next++;
    if (in->next == in->end)
        return 0;
    const struct input_line *noted = in->next++;
    int64_t at = noted->at;
    int got = input_read_line(in, &at, &line);
    report_begin(&in->report, "%s:%lld", in->name, (long long)noted->number);
    int err = got == 1 ? card_read(in->hosts, &in->report, line, card) : got == 0 ? -ESTALE : got;
    if (err == 0 && card->id == noted->id)
        return 1;
    if (err == 0)
        card_fini(card);
    return err == 0 || err == -EINVAL || err == -EMSGSIZE ? -ESTALE : err;
}
