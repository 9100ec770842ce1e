/* channelctl load: reads channels from a file, line by line, and writes them to Redis; see load.h. */
#include "ctl/load.h"

#include "base/hash.h"
#include "base/text.h"
#include "model/channel.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <yyjson.h>

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
    struct buf scratch;
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
    size_t length = 0;
    char *text = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, &length);
    if (text == NULL) {
        r->error = -ENOMEM;
        return;
    }
    load_refuse(r, "%s: %s is not %s", EXCERPT(field), EXCERPT((struct span){text, length}), expected);
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

/* What the value of a field should be. */
static const char *load_expected(enum channel_field f)
{
    static const char *const expected[] = {[CHANNEL_TEXT] = "a string or null",
                                           [CHANNEL_INTEGER] = "a 64-bit integer or null",
                                           [CHANNEL_FLAG] = "0, 1 or null",
                                           [CHANNEL_DATETIME] = "a date and time YYYY-MM-DDTHH:MM:SS or null",
                                           [CHANNEL_HISTORY] =
                                               "an object of YYYY-MM-DD dates and 64-bit integers, or null"};
    return f == CHANNEL_FIELD_max_channel_id ? "a 64-bit integer" : expected[channel_field_type(f)];
}

/* The text that is stored for a value; absent if the value has another type than those of its field. A
 * history is stored as compact JSON with all its days, which is *owned then. */
static struct span load_text_of(struct reader *r, enum channel_field f, yyjson_val *value, char **owned)
{
    enum channel_type type = channel_field_type(f);
    size_t length = yyjson_get_len(value);
    if (type == CHANNEL_INTEGER || type == CHANNEL_FLAG)
        return (struct span){yyjson_get_raw(value), length};
    if (type != CHANNEL_HISTORY)
        return (struct span){yyjson_get_str(value), length};
    if (!yyjson_is_obj(value))
        return SPAN_ABSENT;
    *owned = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, &length);
    if (*owned == NULL)
        r->error = -ENOMEM;
    return (struct span){*owned, length};
}

/* Reads a value, which is valid if channeld, and this program, would parse it in Redis. */
static void load_read_value(struct reader *r, enum channel_field f, yyjson_val *value)
{
    char *owned = NULL;
    char link[EXCERPT_MAX];
    const char *expected = load_expected(f);
    struct span text = load_text_of(r, f, value, &owned);
    bool is_valid = text.data != NULL && channel_value_is_valid(f, text, &r->scratch);
    if (buf_error(&r->scratch) != 0)
        r->error = buf_error(&r->scratch);
    if (is_valid && f == CHANNEL_FIELD_link && !link_is_stored_shape(r->hosts, text)) {
        (void)snprintf(link, sizeof link, "https://%.*s/<slug> (of at most %d bytes; --channel-host) or null",
                       (int)r->hosts->channel_host.len, r->hosts->channel_host.data, LINK_SLUG_MAX);
        expected = link;
        is_valid = false;
    }
    if (is_valid)
        r->card->row.value[f] = load_keep(r, text);
    else if (r->error == 0)
        load_refuse_value(r, channel_field_name(f), value, expected);
    if (is_valid && f == CHANNEL_FIELD_max_channel_id)
        r->card->has_id = parse_int64(text, &r->card->id) == 0;
    free(owned);
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
    int f = load_find_field(name);
    if (f < 0) {
        load_refuse(r, "%s: no such field", EXCERPT(name));
        return;
    }
    if ((r->seen & 1U << f) != 0) {
        load_refuse(r, "%s: is given twice", EXCERPT(name));
        return;
    }
    r->seen |= 1U << f;
    if (yyjson_is_null(value) && f != CHANNEL_FIELD_max_channel_id)
        return;
    load_read_value(r, (enum channel_field)f, value);
}

/* Refuses values that have their types, but are impossible. */
static void load_refuse_faults(struct reader *r)
{
    for (int f = 0; f < CHANNEL_FIELD_COUNT; f++) {
        const struct channel_row *row = &r->card->row;
        const char *fault = channel_find_fault(row, (enum channel_field)f, &r->scratch);
        if (buf_error(&r->scratch) != 0)
            r->error = buf_error(&r->scratch);
        if (fault != NULL)
            load_refuse(r, "%s: %s %s", channel_field_name((enum channel_field)f).data,
                        EXCERPT(row->value[f]), fault);
    }
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
    buf_fini(&r.scratch);
    if (r.refused || r.error != 0)
        texts->len = texts_was;
    return r.error != 0 ? r.error : (r.refused ? -EINVAL : 0);
}

/* --- The load --- */

_Static_assert((int)WRITER_CARD_BYTES_MAX >= (int)LINE_BYTES_MAX,
               "a batch must have room for the card of any line");

/* Without --max-removed a replacing load may remove this share of the channels, or this number of them. */
enum { REMOVED_SHARE_MAX = 20, REMOVED_CHANNELS_MAX = 20 };

/* The input is read twice, as a load applies the last line of each channel: the first time notes the lines,
 * the second time reads those that count. A line counts unless its offset is one of these. */
enum { LINE_REFUSED = -1, LINE_REPEATED = -2 /* another line of its channel counts */ };

struct indexed_line {
    int64_t id;     /* of its channel */
    int64_t offset; /* where it begins */
    int64_t number; /* in the file, from 1 */
    uint64_t link;  /* the hash of its link, 0: it has none; then the place of the line that owns the link */
};

/* The catalogue before the load. */
struct census {
    int64_t channels; /* cards */
    int64_t lacking;  /* of these, those that the input does not have */
    int64_t samples;  /* the value of the mark; 0: there is none */
};

/*
 * A replacing load becomes the catalogue only if every line was valid: a damaged file must never remove
 * channels. Otherwise its channels are added to the catalogue, as without --replace.
 */
struct load {
    const struct options *options;
    struct lines lines;
    struct buf texts;          /* the texts of the line's card */
    struct indexed_line *line; /* owned: the lines with an id, in the order of the file */
    size_t line_count;
    uint32_t *channel; /* owned: the place of the line of each channel, by id */
    size_t channels;
    uint64_t seed; /* of the hashes of links */
    struct census census;
    int64_t max_removed; /* channels, or percent if `is_share` */
    bool is_share;
    int64_t expected; /* channels; 0: any number */
    struct client client;
    struct lock lock;
    struct writer writer;
    struct report report;
    struct progress progress, writing, removal;
    int64_t refused; /* lines; without those that the writer refused */
    bool is_refused; /* the whole load, before anything was written */
    int read_error;  /* of the second reading: a negative errno, or 0 */
    int stopped_by;  /* this signal, or 0 */
};

static bool load_has_flag(const struct load *l, enum ctl_flag flag)
{
    return l->options->args.flag[flag] != NULL;
}

static int64_t load_refused(const struct load *l)
{
    return l->refused + l->writer.counts.refused;
}

/* Nothing is written, for this reason. */
__attribute__((format(printf, 2, 3))) static void load_refuse_all(struct load *l, const char *format, ...)
{
    struct buf reason = BUF_INIT;
    va_list args;
    va_start(args, format);
    buf_set_message(&reason, format, args);
    va_end(args);
    show_message("%s", buf_message(&reason));
    buf_fini(&reason);
    l->is_refused = true;
}

/* --- The first reading --- */

/* Reads the card of a line; as card_read. */
static int load_read_card(struct load *l, struct span line, int64_t number, struct card *card)
{
    const struct card_source from = {l->writer.file, number, &l->report};
    buf_clear(&l->texts);
    int err = buf_reserve(&l->texts, line.len);
    return err == 0 ? card_read(&from, &l->options->hosts, line, &l->texts, card) : err;
}

static int load_add_line(struct load *l, const struct indexed_line *line)
{
    enum { FIRST_LINES = 1024 };
    size_t n = l->line_count;
    if (n == 0 || (n >= FIRST_LINES && (n & (n - 1)) == 0)) { /* the room is a power of two, and full */
        size_t room = n == 0 ? FIRST_LINES : 2 * n;
        struct indexed_line *larger = n <= UINT32_MAX / 2 ? realloc(l->line, room * sizeof *larger) : NULL;
        if (larger == NULL)
            return -ENOMEM;
        l->line = larger;
    }
    l->line[l->line_count++] = *line;
    return 0;
}

/* A line that is refused is the last one of its channel, too: an earlier one is not loaded instead. Returns 0
 * or -ENOMEM. */
static int load_index_line(struct load *l, struct span line)
{
    struct card card = {0};
    int err = load_read_card(l, line, l->lines.number, &card);
    l->refused += err == -EINVAL;
    if (err == -ENOMEM || !card.has_id)
        return err == -ENOMEM ? err : 0;
    struct span link = err == 0 ? card.row.value[CHANNEL_FIELD_link] : SPAN_ABSENT;
    return load_add_line(
        l, &(struct indexed_line){.id = card.id,
                                  .offset = err == 0 ? l->lines.at : LINE_REFUSED,
                                  .number = l->lines.number,
                                  .link = link.data != NULL ? hash_bytes(link, l->seed) | 1 : 0});
}

/* Reads the input to its end, or to a reason to refuse all of it. Returns 0 or -ENOMEM. */
static int load_read_all(struct load *l)
{
    struct span line = SPAN_ABSENT;
    int err = 0;
    int got = 0;
    while (err == 0 && ((got = lines_next(&l->lines, &line)) == 1 || got == -EMSGSIZE)) {
        progress_show(&l->progress, l->lines.number, l->lines.at);
        if (got == 1 && lines_trim(line).len > 0)
            err = load_index_line(l, line);
        l->refused += got == -EMSGSIZE;
        if (got == -EMSGSIZE)
            report_problem(&l->report, "%s:%lld: the line is longer than %d bytes", l->writer.file,
                           (long long)l->lines.number, LINE_BYTES_MAX);
    }
    if (err == 0 && got < 0)
        load_refuse_all(l, "cannot read %s: %s", l->writer.file,
                        got == -EILSEQ ? l->lines.form : strerror(-got));
    return err;
}

/* --- Channels --- */

static int load_compare(uint64_t a, uint64_t b)
{
    return a == b ? 0 : a < b ? -1 : 1;
}

/* By channel, then in the order of the file, which is that of their places. */
static int load_compare_ids(const void *a, const void *b, void *lines)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    const struct indexed_line *line = lines;
    int by_id = load_compare((uint64_t)line[x].id, (uint64_t)line[y].id);
    return by_id != 0 ? by_id : load_compare(x, y);
}

/* Lists the channels. The last line of each one takes the place of the first. */
static int load_list_channels(struct load *l)
{
    size_t n = l->line_count;
    uint32_t *place = l->channel = malloc((n + 1) * sizeof *place);
    if (place == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        place[i] = (uint32_t)i;
    qsort_r(place, n, sizeof *place, load_compare_ids, l->line);
    for (size_t i = 0; i < n; i++) {
        struct indexed_line *first = l->channels > 0 ? &l->line[place[l->channels - 1]] : NULL;
        struct indexed_line *line = &l->line[place[i]];
        if (first == NULL || first->id != line->id) {
            place[l->channels++] = place[i];
            continue;
        }
        *first = *line;
        line->offset = LINE_REPEATED;
    }
    return 0;
}

static bool load_has_channel(const struct load *l, int64_t id)
{
    size_t low = 0;
    size_t high = l->channels;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int compared = load_compare((uint64_t)l->line[l->channel[middle]].id, (uint64_t)id);
        if (compared == 0)
            return true;
        *(compared < 0 ? &low : &high) = compared < 0 ? middle + 1 : middle;
    }
    return false;
}

/* --- The second reading --- */

static const char *load_name_error(int err)
{
    return err == -ESTALE ? "it was changed while it was read" : strerror(-err);
}

/* Reads a line, and its card, again. Returns 0, -ESTALE if it is another line now, or another negative errno.
 */
static int load_read_again(struct load *l, const struct indexed_line *indexed, struct card *card)
{
    struct span line = SPAN_ABSENT;
    int got = lines_read(&l->lines, indexed->offset, &line);
    if (got == 1)
        got = load_read_card(l, line, indexed->number, card);
    else if (got == 0)
        got = -ESTALE;
    bool is_other = got == -EINVAL || got == -EMSGSIZE || (got == 0 && card->id != indexed->id);
    return is_other ? -ESTALE : got;
}

/* --- Links of several channels --- */

/* Refuses the line if it has the link of the owner's line, as its hash says. Returns 0 or a negative errno.
 */
static int load_refuse_link(struct load *l, struct indexed_line *line, const struct indexed_line *owner)
{
    struct buf link = BUF_INIT;
    struct card card;
    int err = load_read_again(l, owner, &card);
    if (err == 0)
        buf_append_span(&link, card.row.value[CHANNEL_FIELD_link]);
    if (err == 0)
        err = buf_error(&link) == 0 ? load_read_again(l, line, &card) : -ENOMEM;
    if (err == 0 && span_equal(card.row.value[CHANNEL_FIELD_link], buf_span(&link))) {
        report_problem(&l->report, "%s:%lld: link: %s is the link of channel %lld in an earlier line",
                       l->writer.file, (long long)line->number, EXCERPT(buf_span(&link)),
                       (long long)owner->id);
        line->offset = LINE_REFUSED;
        l->refused++;
    }
    buf_fini(&link);
    return err;
}

/* By link, then in the order of the file. */
static int load_compare_links(const void *a, const void *b, void *lines)
{
    const struct indexed_line *x = (struct indexed_line *)lines + *(const uint32_t *)a;
    const struct indexed_line *y = (struct indexed_line *)lines + *(const uint32_t *)b;
    int by_link = load_compare(x->link, y->link);
    return by_link != 0 ? by_link : load_compare((uint64_t)x->number, (uint64_t)y->number);
}

/* A link belongs to the first line with it, of those that are the last ones of their channels. Returns 0 or
 * -ENOMEM. */
static int load_check_links(struct load *l)
{
    uint32_t *place = malloc((l->channels + 1) * sizeof *place);
    int err = place != NULL ? 0 : -ENOMEM;
    uint64_t link = 0;
    uint32_t owner = 0;
    if (place != NULL && l->channels > 0) {
        memcpy(place, l->channel, l->channels * sizeof *place);
        qsort_r(place, l->channels, sizeof *place, load_compare_links, l->line);
    }
    for (size_t i = 0; i < l->channels && err == 0; i++) {
        struct indexed_line *line = &l->line[place[i]];
        owner = line->link != 0 && line->link == link ? owner : place[i];
        link = line->link;
        line->link = owner;
    }
    for (size_t i = 0; i < l->line_count && err == 0; i++)
        if (l->line[i].offset >= 0 && l->line[i].link != i)
            err = load_refuse_link(l, &l->line[i], &l->line[l->line[i].link]);
    free(place);
    if (err != 0 && err != -ENOMEM)
        load_refuse_all(l, "cannot read %s again: %s", l->writer.file, load_name_error(err));
    return err == -ENOMEM ? err : 0;
}

/* --- Reasons to refuse the whole load --- */

static void load_check_count(struct load *l)
{
    int64_t count = (int64_t)l->channels;
    if (l->expected > 0 && count != l->expected)
        load_refuse_all(l, "the file has %lld channel%s, and not %lld as --expect says", (long long)count,
                        plural(count), (long long)l->expected);
    else if (count == 0 && l->refused == 0)
        load_refuse_all(l, "the file has no channels");
}

/* Reads and checks the whole input, before Redis is asked for anything. Returns EXIT_OK, or prints why
 * nothing is loaded and returns the exit code. */
static int load_examine(struct load *l)
{
    report_init(&l->report, stderr);
    progress_start(&l->progress, "line", lines_total(&l->lines));
    int err = load_read_all(l);
    progress_end(&l->progress);
    if (err == 0 && !l->is_refused)
        err = load_list_channels(l);
    if (err == 0 && !l->is_refused)
        err = load_check_links(l);
    report_finish(&l->report);
    if (err == -ENOMEM)
        return memory_error();
    if (!l->is_refused)
        load_check_count(l);
    l->writer.replace = load_has_flag(l, FLAG_REPLACE) && l->refused == 0;
    return l->is_refused ? EXIT_FAILED : EXIT_OK;
}

/* A client_visit. */
static void load_count_cards(void *arg, const struct redis_reply *keys, size_t count)
{
    struct load *l = arg;
    int64_t id = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_id = parse_int64(keyspace_card_id(l->client.keys, reply_text(&keys[i])), &id) == 0;
        l->census.lacking += !is_id || !load_has_channel(l, id);
    }
    l->census.channels += (int64_t)count;
    if (interrupt_signal() != 0)
        (void)client_fail(&l->client, "interrupted");
    else if (l->lock.held && lock_is_due(&l->lock) && lock_renew(&l->lock) != 0)
        return; /* its failure is the client's */
}

static int64_t load_count_samples_after(const struct load *l)
{
    const struct census *c = &l->census;
    int64_t kept = l->writer.replace ? 0 : c->lacking;
    bool all_are_samples = load_has_flag(l, FLAG_SAMPLE) && (kept == 0 || c->channels <= c->samples);
    return all_are_samples ? kept + (int64_t)l->channels : 0;
}

/* Counts what the catalogue has before the load, where that matters. Returns 0 or -EIO. */
static int load_take_census(struct load *l)
{
    struct client *c = &l->client;
    if (!l->writer.replace && !load_has_flag(l, FLAG_SAMPLE))
        return 0;
    client_scan(c, SCAN_CARD_HASHES, load_count_cards, l);
    CLIENT_SEND(c, SPAN("GET"), c->samples);
    if (parse_int64(reply_text(client_receive_or_wrongtype(c)), &l->census.samples) != 0)
        l->census.samples = 0;
    l->writer.samples = load_count_samples_after(l);
    return client_status(c);
}

/* Samples may be replaced by anything. Channels beyond their number are no samples. */
static void load_check_removal(struct load *l)
{
    const struct census *c = &l->census;
    if (!l->writer.replace || c->lacking <= c->samples)
        return;
    bool too_many = l->is_share ? c->lacking > REMOVED_CHANNELS_MAX &&
                                      (double)c->lacking * 100 > (double)l->max_removed * (double)c->channels
                                : c->lacking > l->max_removed;
    if (too_many)
        load_refuse_all(
            l,
            "--replace would remove %lld of %lld channels, more than %lld%s; if this is meant, add "
            "--max-removed 100%%",
            (long long)c->lacking, (long long)c->channels, (long long)l->max_removed, l->is_share ? "%" : "");
}

/* --- Loading --- */

/* Loads until the end of the input, a signal or a failure. Returns 0, or -EIO when Redis failed. */
static int load_write_all(struct load *l)
{
    struct card card;
    int err = 0;
    report_init(&l->report, stderr);
    progress_start(&l->writing, "channel", (int64_t)l->line_count);
    for (size_t i = 0; i < l->line_count && interrupt_signal() == 0 && err == 0; i++) {
        const struct indexed_line *line = &l->line[i];
        progress_show(&l->writing, writer_accepted(&l->writer), (int64_t)i);
        if (line->offset < 0)
            continue;
        l->read_error = load_read_again(l, line, &card);
        if (l->read_error != 0)
            break;
        err = writer_add(&l->writer, &card, line->number);
        if (err == 0 && l->lock.held && lock_is_due(&l->lock))
            err = writer_flush(&l->writer);
    }
    l->stopped_by = interrupt_signal();
    err = err == 0 ? writer_finish(&l->writer) : err;
    progress_end(&l->writing);
    report_finish(&l->report);
    if (l->read_error != 0)
        show_message("cannot read %s: %s", l->writer.file, load_name_error(l->read_error));
    return err;
}

/* Why a replacing load must not replace the catalogue, or NULL. */
static const char *load_why_not_replaced(const struct load *l)
{
    if (l->stopped_by != 0)
        return "the load was interrupted";
    if (l->read_error != 0)
        return "the file could not be read to its end";
    return load_refused(l) > 0 ? "lines were refused" : NULL;
}

#define INDEX_NOT_CHANGED "the index was not changed: a new channel is on no page until a load succeeds"

/* Makes the next index the index, or adds its channels to the index. Returns 0 or -EIO. */
static int load_finish_index(struct load *l, const char *why_not)
{
    if (!l->writer.replace)
        return 0;
    progress_start(&l->removal, "key", 0);
    int err = why_not == NULL ? writer_replace(&l->writer) : writer_merge(&l->writer);
    progress_end(&l->removal);
    if (err != 0 && why_not == NULL && !l->writer.counts.replaced)
        show_message(client_is_lost(&l->client)
                         ? "the catalogue may have been replaced: Redis has not confirmed it"
                         : INDEX_NOT_CHANGED);
    return err;
}

static int load_finish(struct load *l)
{
    const char *why_not = load_has_flag(l, FLAG_REPLACE) ? load_why_not_replaced(l) : NULL;
    int err = load_finish_index(l, why_not);
    if (why_not != NULL)
        show_message("nothing was replaced or removed, because %s%s", why_not,
                     err == 0 && writer_accepted(&l->writer) > 0
                         ? "; what was loaded was added to the catalogue"
                         : "");
    bool is_complete = err == 0 && l->stopped_by == 0 && l->read_error == 0 && load_refused(l) == 0;
    return is_complete ? writer_mark_samples(&l->writer) : err;
}

/* --- Messages and exit code --- */

static void load_print_warnings(const struct load *l)
{
    const struct writer_counts *n = &l->writer.counts;
    int64_t repeated = (int64_t)(l->line_count - l->channels);
    if (repeated > 0)
        show_message("%lld line%s repeated a channel; the last line of each channel was used",
                     (long long)repeated, plural(repeated));
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
    if (load_has_flag(l, FLAG_REPLACE))
        (void)snprintf(removed, sizeof removed, ", %lld removed", (long long)n->cards_removed);
    print_line(stdout, "%lld channel%s: %lld changed, %lld refused%s in %.1f s, %.0f/s",
               (long long)writer_accepted(&l->writer), plural(writer_accepted(&l->writer)),
               (long long)n->written, (long long)load_refused(l), removed, seconds,
               (double)writer_accepted(&l->writer) / seconds);
}

static void load_print_stop(const struct load *l)
{
    const struct writer_counts *n = &l->writer.counts;
    if (writer_accepted(&l->writer) > 0)
        show_message("stopped after %lld of %zu channels of %s: %lld loaded, %lld unchanged",
                     (long long)writer_accepted(&l->writer), l->channels, l->writer.file,
                     (long long)n->written, (long long)n->unchanged);
    else
        show_message("stopped before %s",
                     n->is_sent ? "Redis confirmed that anything was loaded" : "anything was loaded");
    if (n->replaced)
        show_message("the catalogue was replaced, but keys of removed channels may be left; "
                     "the next load --replace removes them");
}

/* Ends the output. Returns the exit code. */
static int load_finish_output(const struct load *l)
{
    int code = output_finish();
    if (l->stopped_by != 0)
        return 128 + l->stopped_by;
    return load_refused(l) == 0 && l->read_error == 0 && !l->is_refused ? code : EXIT_FAILED;
}

/* --- With the lock --- */

/* Whatever may be wrong is found before this. */
static int load_write(struct load *l)
{
    int err = writer_begin(&l->writer);
    if (err == 0)
        err = load_write_all(l);
    if (err == 0)
        load_print_warnings(l);
    else if (l->writer.replace && l->writer.counts.is_sent)
        show_message(INDEX_NOT_CHANGED);
    return err == 0 ? load_finish(l) : err;
}

/* Returns 0, or -EIO with the reason in client_error(). */
static int load_with_lock(void *arg)
{
    struct load *l = arg;
    int err = load_take_census(l);
    if (err == 0)
        load_check_removal(l);
    return err == 0 && !l->is_refused ? load_write(l) : err;
}

/* Returns the exit code. */
static int load_run(struct load *l)
{
    l->writer.lock = &l->lock;
    int err = lock_run(&l->lock, &l->client, load_with_lock, l);
    if (err != 0)
        l->stopped_by = interrupt_signal();
    if (err != 0 || l->is_refused || l->stopped_by != 0)
        load_print_stop(l);
    if (err == -EIO)
        return l->stopped_by != 0 ? 128 + l->stopped_by : EXIT_FAILED;
    if (err == 0 && !l->is_refused)
        load_print_summary(l);
    return load_finish_output(l);
}

/* --- Without writing --- */

static void load_print_preview(const struct load *l)
{
    const struct writer_counts *n = &l->writer.counts;
    bool removes = l->writer.replace && load_refused(l) == 0;
    if (load_has_flag(l, FLAG_REPLACE) && !removes)
        show_message("nothing would be replaced or removed, because lines were refused");
    print_line(stdout, "would add %lld channel%s, change %lld and remove %lld (%lld unchanged, %lld refused)",
               (long long)n->added, plural(n->added), (long long)(n->written - n->added),
               (long long)(removes ? l->census.lacking : 0), (long long)n->unchanged,
               (long long)load_refused(l));
}

/* Compares the input with what Redis holds. Returns the exit code. */
static int load_preview(struct load *l)
{
    int err = load_take_census(l);
    if (err == 0) {
        load_check_removal(l);
        err = writer_begin(&l->writer);
    }
    if (err == 0)
        err = load_write_all(l);
    if (err != 0)
        return client_print_error(&l->client);
    load_print_preview(l);
    if (l->is_refused)
        show_message("the load would be refused");
    return load_finish_output(l);
}

/* Redis cannot be reached. */
static int load_preview_alone(const struct load *l)
{
    print_line(stdout, "%zu channel%s, %lld refused; not compared with Redis", l->channels,
               plural((int64_t)l->channels), (long long)l->refused);
    return load_finish_output(l);
}

/* --- The command --- */

static int load_open(struct load *l, const char *path)
{
    int64_t count = 0;
    l->writer.file = path != NULL ? path : "sample";
    if (path != NULL)
        return lines_open(&l->lines, path);
    int code = sample_parse_count(l->options->args.flag[FLAG_SAMPLE], &count);
    l->lines = (struct lines){.fd = -1, .sample_host = l->options->channel_host, .samples = count};
    return code;
}

/* N, or N% of at most 100%. */
static bool load_read_max_removed(struct load *l, struct span text)
{
    l->is_share = text.len > 0 && text.data[text.len - 1] == '%';
    text.len -= l->is_share;
    return parse_int64(text, &l->max_removed) == 0 && l->max_removed >= 0 &&
           (!l->is_share || l->max_removed <= 100);
}

/* Returns EXIT_OK, or EXIT_USAGE after printing what is wrong. */
static int load_read_flags(struct load *l)
{
    const char *max_removed = l->options->args.flag[FLAG_MAX_REMOVED];
    const char *expected = l->options->args.flag[FLAG_EXPECT];
    l->max_removed = REMOVED_SHARE_MAX;
    l->is_share = true;
    if (max_removed != NULL && !load_has_flag(l, FLAG_REPLACE))
        return usage_error("load: --max-removed needs --replace");
    if (max_removed != NULL && !load_read_max_removed(l, span_of(max_removed)))
        return usage_error(
            "load: --max-removed: expected a number of channels, or a share from 0%% to 100%%");
    if (expected != NULL && (parse_int64(span_of(expected), &l->expected) != 0 || l->expected < 1))
        return usage_error("load: --expect: expected a number of channels, 1 or more");
    return EXIT_OK;
}

/* Returns the exit code. */
static int load_all(struct load *l)
{
    bool dry_run = load_has_flag(l, FLAG_DRY_RUN);
    int code = load_examine(l);
    if (code != EXIT_OK) {
        show_message(dry_run ? "the load would be refused" : "stopped before anything was loaded");
        return code;
    }
    code = client_open(&l->client, l->options, CLIENT_CATALOGUE);
    if (code == EXIT_OK)
        return dry_run ? load_preview(l) : load_run(l);
    return dry_run && client_is_unreachable(&l->client) ? load_preview_alone(l) : code;
}

int command_load(const struct options *o, const char *argument)
{
    struct load l = {.options = o, .seed = random_seed(&l)};
    l.writer = (struct writer){.client = &l.client, .report = &l.report, .progress = &l.removal};
    int code = load_read_flags(&l);
    if (code == EXIT_OK)
        code = load_open(&l, argument);
    if (code == EXIT_OK)
        code = load_all(&l);
    writer_fini(&l.writer);
    client_close(&l.client);
    lines_close(&l.lines);
    free(l.line);
    free(l.channel);
    buf_fini(&l.texts);
    return code;
}
