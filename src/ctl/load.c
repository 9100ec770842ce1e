/* channelctl load: reads channels from a file, line by line, and writes them to Redis; see load.h. */
#include "ctl/load.h"

#include "base/text.h"
#include "ctl/sample.h"
#include "model/channel.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yyjson.h>

/* --- Lines --- */

enum { PIECE = 128 * 1024 };

/* "-" is standard input. Returns 0 or a negative errno. lines_close is due in every case. */
static int lines_open(struct lines *l, const char *path)
{
    *l = (struct lines){.fd = STDIN_FILENO};
    if (strcmp(path, "-") == 0)
        return 0;
    l->fd = open(path, O_RDONLY | O_CLOEXEC);
    return l->fd < 0 ? -errno : 0;
}

void lines_close(struct lines *l)
{
    if (l->fd > STDIN_FILENO)
        (void)close(l->fd);
    buf_fini(&l->read);
}

/* The size of the file in bytes; 0: unknown, as it is no regular file. */
static int64_t lines_total(const struct lines *l)
{
    struct stat st;
    return fstat(l->fd, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : 0;
}

static int load_read_file(struct lines *l)
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

static int load_read_piece(struct lines *l)
{
    buf_consume(&l->read, l->at);
    l->searched -= l->at;
    l->at = 0;
    size_t had = l->read.len;
    int err = l->source != NULL ? l->source(l->source_arg, &l->read) : load_read_file(l);
    if (err != 0)
        return err;
    l->bytes += (int64_t)(l->read.len - had);
    l->ended = l->read.len == had;
    return 0;
}

/* The line without the blanks around it. */
static struct span load_trim(struct span line)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): only an empty line has no data */
    if (line.len > 0 && line.data[line.len - 1] == '\r')
        line.len--;
    return span_trim(line);
}

/* What a file with this first line is, unless it may be lines of JSON: then NULL. */
static const char *load_find_form(struct span line)
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
static int load_begin_lines(struct lines *l, size_t length)
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
    l->form = load_find_form(load_trim(line));
    return l->form == NULL ? 0 : -EILSEQ;
}

/* Ends the line of `length` bytes at l->at, after which `end` more bytes are skipped. */
static int load_finish_line(struct lines *l, size_t length, size_t end, struct span *line)
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
    struct span fresh = span_skip(buf_span(&l->read), l->searched);
    size_t newline = l->searched - l->at + span_find(fresh, '\n');
    size_t pending = l->read.len - l->at;
    if (!l->begun && (newline < pending || pending > LINE_BYTES_MAX || (l->ended && pending > 0))) {
        int err = load_begin_lines(l, newline);
        return err < 0 ? err : -EINTR;
    }
    if (newline < pending)
        return load_finish_line(l, newline, 1, line);
    if (l->ended)
        return pending > 0 || l->skipping ? load_finish_line(l, pending, 0, line) : 0;
    l->searched = l->read.len;
    if (pending > LINE_BYTES_MAX) {
        l->skipping = true;
        l->at = l->read.len;
    }
    int err = load_read_piece(l);
    return err < 0 ? err : -EINTR;
}

/* --- Cards --- */

/* The state while one line is read. */
struct reader {
    const struct card_source *from;
    const struct link_hosts *hosts;
    struct buf *texts;
    struct card *card;
    unsigned seen; /* the fields so far, as bits */
    bool refused;
    int error; /* -ENOMEM */
    char link_shape[EXCERPT_MAX];
};

/* Reports an error in the line. */
__attribute__((format(printf, 2, 3))) static void load_refuse(struct reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report_line(r->from->report, r->from->file, r->from->line, format, args);
    va_end(args);
    r->refused = true;
}

/* Names the value, as JSON. */
static void load_refuse_value(struct reader *r, struct span field, const yyjson_val *value,
                              const char *expected)
{
    char name[EXCERPT_MAX];
    char shown[EXCERPT_MAX];
    size_t length = 0;
    char *text = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, &length);
    if (text == NULL) {
        r->error = -ENOMEM;
        return;
    }
    load_refuse(r, "%s: %s is not %s", excerpt(field, name), excerpt((struct span){text, length}, shown),
                expected);
    free(text);
}

static struct span load_keep(struct reader *r, struct span text)
{
    size_t at = r->texts->len;
    buf_append_span(r->texts, text);
    if (buf_error(r->texts) != 0) {
        r->error = buf_error(r->texts);
        return SPAN_ABSENT;
    }
    return (struct span){r->texts->data + at, text.len};
}

static const char *load_expect_link(struct reader *r)
{
    (void)snprintf(r->link_shape, sizeof r->link_shape,
                   "https://%.*s/<slug> (of at most %d bytes; --channel-host) or null",
                   (int)r->hosts->channel_host.len, r->hosts->channel_host.data, LINK_SLUG_MAX);
    return r->link_shape;
}

/* Each of these sets *out and returns NULL, or returns what the value should be. */
static const char *load_read_text(struct reader *r, enum channel_field f, yyjson_val *value, struct span *out)
{
    if (!yyjson_is_str(value))
        return "a string or null";
    struct span text = {yyjson_get_str(value), yyjson_get_len(value)};
    if (f == CHANNEL_FIELD_link && !link_is_stored_shape(r->hosts, text))
        return load_expect_link(r);
    *out = load_keep(r, text);
    return NULL;
}

static const char *load_read_integer(struct reader *r, enum channel_field f, yyjson_val *value,
                                     struct span *out)
{
    int64_t number = 0;
    struct span text = {yyjson_get_raw(value), yyjson_get_len(value)};
    bool valid = text.data != NULL && parse_int64(text, &number) == 0;
    if (f == CHANNEL_FIELD_is_a_plus_flag && !(valid && (number == 0 || number == 1)))
        return "0, 1 or null";
    if (!valid)
        return f == CHANNEL_FIELD_max_channel_id ? "a 64-bit integer" : "a 64-bit integer or null";
    *out = load_keep(r, text);
    if (f == CHANNEL_FIELD_max_channel_id)
        r->card->id = number;
    return NULL;
}

static const char *load_read_datetime(struct reader *r, yyjson_val *value, struct span *out)
{
    struct span text = {yyjson_get_str(value), yyjson_get_len(value)};
    if (text.data == NULL || !datetime_valid(text))
        return "a date and time YYYY-MM-DDTHH:MM:SS or null";
    *out = load_keep(r, text);
    return NULL;
}

/* Stored as compact JSON with all its days, and checked by the code that channeld reads it with. */
static const char *load_read_history(struct reader *r, yyjson_val *value, struct span *out)
{
    static const char expected[] = "an object of YYYY-MM-DD dates and 64-bit integers, or null";
    if (!yyjson_is_obj(value))
        return expected;
    struct buf days = BUF_INIT;
    size_t length = 0;
    char *text = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, &length);
    bool valid = text != NULL && history_write(&days, (struct span){text, length}) == 0;
    if (text == NULL || buf_error(&days) != 0)
        r->error = -ENOMEM;
    else if (valid)
        *out = load_keep(r, (struct span){text, length});
    buf_fini(&days);
    free(text);
    return valid || r->error != 0 ? NULL : expected;
}

static const char *load_read_value(struct reader *r, enum channel_field f, yyjson_val *value,
                                   struct span *out)
{
    switch (channel_field_type(f)) {
    case CHANNEL_TEXT:
        return load_read_text(r, f, value, out);
    case CHANNEL_INTEGER:
    case CHANNEL_FLAG:
        return load_read_integer(r, f, value, out);
    case CHANNEL_DATETIME:
        return load_read_datetime(r, value, out);
    case CHANNEL_HISTORY:
        return load_read_history(r, value, out);
    }
    return "of a known type";
}

static int load_find_field(struct span name)
{
    for (int f = 0; f < CHANNEL_FIELD_COUNT; f++)
        if (span_equal(channel_field_name((enum channel_field)f), name))
            return f;
    return -ENOENT;
}

static void load_read_member(struct reader *r, yyjson_val *key, yyjson_val *value)
{
    struct span name = {unsafe_yyjson_get_str(key), unsafe_yyjson_get_len(key)};
    char shown[EXCERPT_MAX];
    int f = load_find_field(name);
    if (f < 0) {
        load_refuse(r, "%s: no such field", excerpt(name, shown));
        return;
    }
    if ((r->seen & 1U << f) != 0) {
        load_refuse(r, "%s: is given twice", excerpt(name, shown));
        return;
    }
    r->seen |= 1U << f;
    if (yyjson_is_null(value) && f != CHANNEL_FIELD_max_channel_id)
        return;
    const char *expected = load_read_value(r, (enum channel_field)f, value, &r->card->row.value[f]);
    if (expected != NULL)
        load_refuse_value(r, name, value, expected);
}

/* Refuses values that have their types, but are impossible. */
static void load_refuse_faults(struct reader *r)
{
    struct buf scratch = BUF_INIT;
    char shown[EXCERPT_MAX];
    for (int f = 0; f < CHANNEL_FIELD_COUNT; f++) {
        const struct channel_row *row = &r->card->row;
        const char *fault = channel_find_fault(row, (enum channel_field)f, &scratch);
        if (buf_error(&scratch) != 0)
            r->error = buf_error(&scratch);
        if (fault != NULL)
            load_refuse(r, "%s: %s %s", channel_field_name((enum channel_field)f).data,
                        excerpt(row->value[f], shown), fault);
    }
    buf_fini(&scratch);
}

static void load_read_object(struct reader *r, yyjson_val *object)
{
    yyjson_obj_iter iter;
    if (!yyjson_obj_iter_init(object, &iter)) {
        load_refuse(r, "not a JSON object");
        return;
    }
    yyjson_val *key = NULL;
    while ((key = yyjson_obj_iter_next(&iter)) != NULL)
        load_read_member(r, key, yyjson_obj_iter_get_val(key));
    if ((r->seen & 1U << CHANNEL_FIELD_max_channel_id) == 0)
        load_refuse(r, "max_channel_id is missing");
    if (!r->refused && r->error == 0)
        load_refuse_faults(r);
}

/*
 * The card of a line: the line itself, or, where it is a whole response of the API, its data. NULL after
 * reporting that it is a response of another kind.
 */
static yyjson_val *load_find_card(struct reader *r, yyjson_val *root)
{
    yyjson_val *success = yyjson_obj_get(root, "success");
    yyjson_val *data = yyjson_obj_get(root, "data");
    if (success == NULL)
        return root;
    if (yyjson_is_arr(data))
        load_refuse(r, "is a page of the list, which lacks most fields of its channels: load their cards");
    else if (!yyjson_is_true(success) || !yyjson_is_obj(data) || yyjson_obj_size(root) != 2)
        load_refuse(r, "is a response without a card");
    else
        return data;
    return NULL;
}

int card_read(const struct card_source *from, const struct link_hosts *hosts, struct span line,
              struct buf *texts, struct card *out)
{
    *out = (struct card){0};
    struct reader r = {.from = from, .hosts = hosts, .texts = texts, .card = out};
    size_t texts_was = texts->len;
    yyjson_read_err error;
    char *text = (char *)(uintptr_t)line.data; /* not written to: YYJSON_READ_INSITU is not set */
    /* Numbers are kept and printed as they are in the file. */
    yyjson_doc *doc = yyjson_read_opts(text, line.len, YYJSON_READ_NUMBER_AS_RAW, NULL, &error);
    yyjson_val *object = doc != NULL ? load_find_card(&r, yyjson_doc_get_root(doc)) : NULL;
    if (object != NULL)
        load_read_object(&r, object);
    else if (doc != NULL)
        assert(r.refused);
    else if (error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        r.error = -ENOMEM;
    else
        load_refuse(&r, "not a JSON object (%s at byte %zu)", error.msg, error.pos + 1);
    yyjson_doc_free(doc);
    if (r.refused || r.error != 0)
        texts->len = texts_was;
    return r.error != 0 ? r.error : (r.refused ? -EINVAL : 0);
}

/* --- The load --- */

_Static_assert((int)WRITER_CARD_BYTES_MAX >= (int)LINE_BYTES_MAX,
               "a batch must have room for the card of any line");

/*
 * A replacing load becomes the catalogue only if every line was valid: a damaged file must never remove
 * channels. Otherwise its channels are added to the catalogue, as without --replace.
 */
struct load {
    const struct options *options;
    struct lines lines;
    struct buf texts;       /* the texts of the line's card */
    struct samples samples; /* with --sample, the input instead of a file */
    struct client client;
    struct lock lock;
    struct writer writer;
    struct report report;
    struct progress progress, removal;
    int64_t refused; /* lines; without those that the writer refused */
    int stopped_by;  /* this signal, or 0 */
    int read_error;  /* a negative errno, or 0 */
};

static int64_t load_accepted(const struct load *l)
{
    return l->writer.counts.written + l->writer.counts.unchanged;
}

static int64_t load_refused(const struct load *l)
{
    return l->refused + l->writer.counts.refused;
}

/* Returns 0 or -EIO. */
static int load_line(struct load *l, struct span line)
{
    const struct card_source from = {l->writer.file, l->lines.number, &l->report};
    struct card card;
    if (load_trim(line).len == 0)
        return 0;
    buf_clear(&l->texts);
    int err = buf_reserve(&l->texts, line.len);
    if (err == 0)
        err = card_read(&from, &l->options->hosts, line, &l->texts, &card);
    if (err == -ENOMEM)
        return client_fail_memory(&l->client);
    if (err == 0)
        return writer_add(&l->writer, &card, from.line);
    l->refused++;
    return 0;
}

static void load_refuse_long_line(struct load *l)
{
    report_problem(&l->report, "%s:%lld: the line is longer than %d bytes", l->writer.file,
                   (long long)l->lines.number, LINE_BYTES_MAX);
    l->refused++;
}

/* Loads until the end of the file, a signal or a failure. Returns 0, or -EIO when Redis failed. */
static int load_lines(struct load *l)
{
    int err = 0;
    while (interrupt_signal() == 0 && err == 0) {
        struct span line = SPAN_ABSENT;
        int got = lines_next(&l->lines, &line);
        if (got == 1)
            err = load_line(l, line);
        else if (got == -EMSGSIZE)
            load_refuse_long_line(l);
        else if (got != -EINTR && got != -EAGAIN) {
            l->read_error = got;
            break;
        }
        /* When the input is slow, the lines received so far are written now, and the lock is renewed. */
        if (err == 0 && (got == -EAGAIN || lock_is_due(&l->lock)))
            err = writer_flush(&l->writer);
        progress_show(&l->progress, load_accepted(l), l->lines.bytes);
    }
    l->stopped_by = interrupt_signal();
    return err == 0 ? writer_finish(&l->writer) : err;
}

/* Why a replacing load must not replace the catalogue, or NULL. */
static const char *load_why_not_replaced(const struct load *l)
{
    if (l->stopped_by != 0)
        return "the load was interrupted";
    if (l->read_error != 0)
        return "the file could not be read to its end";
    if (load_refused(l) > 0)
        return "lines were refused";
    return load_accepted(l) == 0 ? "the file has no channels" : NULL;
}

#define INDEX_NOT_CHANGED "the index was not changed: a new channel is on no page until a load succeeds"

static int load_finish_replace(struct load *l)
{
    const char *why = load_why_not_replaced(l);
    progress_start(&l->removal, "key", 0);
    int err = why == NULL ? writer_replace(&l->writer) : writer_merge(&l->writer);
    progress_end(&l->removal);
    if (why != NULL)
        show_message("nothing was replaced or removed, because %s%s", why,
                     err == 0 && load_accepted(l) > 0 ? "; what was loaded was added to the catalogue" : "");
    else if (err != 0 && !l->writer.counts.replaced)
        show_message(client_is_lost(&l->client)
                         ? "the catalogue may have been replaced: Redis has not confirmed it"
                         : INDEX_NOT_CHANGED);
    return err;
}

/* --- Messages and exit code --- */

static void load_print_warnings(const struct load *l)
{
    const struct writer_counts *n = &l->writer.counts;
    if (l->read_error != 0)
        show_message("cannot read %s: %s", l->writer.file,
                     l->lines.form != NULL ? l->lines.form : strerror(-l->read_error));
    if (n->repeated > 0)
        show_message("%lld line%s repeated a channel; the last line of each channel was used",
                     (long long)n->repeated, plural(n->repeated));
    if (n->links_moved > 0)
        show_message("%lld link%s belonged to another channel before", (long long)n->links_moved,
                     plural(n->links_moved));
    if (n->ttls_removed > 0)
        show_message("%lld channel%s had a TTL, which was removed", (long long)n->ttls_removed,
                     plural(n->ttls_removed));
    if (n->index_ttl_removed)
        show_message("the index had a TTL, which was removed");
    if (n->field_ttls_denied)
        show_message("TTLs of hash fields were not checked: Redis does not permit "
                     "HPEXPIRETIME to this user");
}

static void load_print_summary(const struct load *l)
{
    const struct writer_counts *n = &l->writer.counts;
    double seconds = progress_seconds(&l->progress);
    char removed[INT64_DIGITS_MAX + 16] = "";
    if (l->writer.replace)
        (void)snprintf(removed, sizeof removed, ", %lld removed", (long long)n->cards_removed);
    print_line(stdout, "%lld channel%s: %lld changed, %lld refused%s in %.1f s, %.0f/s",
               (long long)load_accepted(l), plural(load_accepted(l)), (long long)n->written,
               (long long)load_refused(l), removed, seconds, (double)load_accepted(l) / seconds);
}

static void load_print_stop(const struct load *l)
{
    const struct writer_counts *n = &l->writer.counts;
    if (n->last_line > 0)
        show_message("stopped after line %lld of %s: %lld channel%s loaded, %lld unchanged",
                     (long long)n->last_line, l->writer.file, (long long)n->written, plural(n->written),
                     (long long)n->unchanged);
    else
        show_message("stopped before %s",
                     n->is_sent ? "Redis confirmed that anything was loaded" : "anything was loaded");
    if (n->replaced)
        show_message("the catalogue was replaced, but keys of removed channels may be left; "
                     "the next load --replace removes them");
}

static int load_exit_code(const struct load *l)
{
    if (l->stopped_by != 0)
        return 128 + l->stopped_by;
    bool complete =
        load_refused(l) == 0 && l->read_error == 0 && !(l->writer.replace && load_accepted(l) == 0);
    return complete ? EXIT_OK : EXIT_FAILED;
}

/* --- The command --- */

/* Returns 0, or -EIO with the reason in client_error(). */
static int load_input(void *arg)
{
    struct load *l = arg;
    report_init(&l->report, stderr);
    progress_start(&l->progress, "channel", lines_total(&l->lines));
    int err = writer_begin(&l->writer);
    if (err == 0)
        err = load_lines(l);
    progress_end(&l->progress);
    report_finish(&l->report);
    if (err == 0)
        load_print_warnings(l);
    if (err != 0 && l->writer.replace && l->writer.counts.is_sent)
        show_message(INDEX_NOT_CHANGED);
    return err == 0 && l->writer.replace ? load_finish_replace(l) : err;
}

static int load_run(struct load *l)
{
    l->writer.client = &l->client;
    l->writer.lock = &l->lock;
    l->writer.report = &l->report;
    l->writer.progress = &l->removal;
    int err = lock_run(&l->lock, &l->client, load_input, l);
    if (err != 0)
        l->stopped_by = interrupt_signal();
    if (err != 0 || l->stopped_by != 0)
        load_print_stop(l);
    if (err == -EIO)
        return l->stopped_by != 0 ? 128 + l->stopped_by : EXIT_FAILED;
    if (err == 0)
        load_print_summary(l);
    int code = output_finish();
    return load_exit_code(l) == EXIT_OK ? code : load_exit_code(l);
}

static int load_open_samples(struct load *l, const char *count)
{
    l->writer.file = "sample";
    lines_open_source(&l->lines, samples_next, &l->samples);
    return samples_init(&l->samples, l->options, count);
}

static int load_open_file(struct load *l, const char *path)
{
    l->writer.file = path;
    int err = lines_open(&l->lines, path);
    if (err == 0)
        return EXIT_OK;
    /* it may be a URL with a password */
    show_message("cannot read %s: %s", strstr(path, "://") != NULL ? "the file" : path, strerror(-err));
    return EXIT_FAILED;
}

int command_load(const struct options *o, const char *argument)
{
    struct load l = {.options = o, .writer.replace = o->flag[FLAG_REPLACE] != NULL};
    int code = argument != NULL ? load_open_file(&l, argument) : load_open_samples(&l, o->flag[FLAG_SAMPLE]);
    if (code == EXIT_OK)
        code = client_open(&l.client, o, CLIENT_CATALOGUE);
    if (code == EXIT_OK)
        code = load_run(&l);
    writer_fini(&l.writer);
    client_close(&l.client);
    lines_close(&l.lines);
    buf_fini(&l.texts);
    return code;
}
