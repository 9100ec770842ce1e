/*
 * channelctl load: reads channels from a file, a card per line, and writes them to Redis.
 *
 * The input is read twice, as a load applies the last line of each channel: the first time notes and checks
 * the lines, the second time reads those that count. A replacing load becomes the catalogue only if every
 * line was valid: a damaged file must never remove channels. Otherwise its channels are added to the
 * catalogue, as without --replace.
 */
#include "base/hash.h"
#include "base/text.h"
#include "ctl/lines.h"
#include "ctl/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/param.h>

/* Without --max-removed a replacing load may remove this share of the channels, or this number of them. */
enum { REMOVED_SHARE_MAX = 20, REMOVED_CHANNELS_MAX = 20 };

/* The offset of a line that does not count. */
enum { LINE_UNUSED = -1, LINK_TAKEN = -2 /* its link is that of another channel */ };

struct indexed_line {
    int64_t id;     /* of its channel */
    int64_t offset; /* where it begins, if it counts */
    int64_t number; /* in the file, from 1 */
    uint64_t link;  /* the hash of its link, 0: it has none; of LINK_TAKEN the id of the other channel */
};

struct channel {
    struct indexed_line *line;
};

struct load {
    const struct options *options;
    const char *const *flag; /* those of the command line */
    int64_t max_removed;     /* channels, or percent if `is_share` */
    bool is_share;
    int64_t expected; /* channels; 0: any number */

    struct lines lines;
    struct card_source source;
    struct report report;
    struct buf index;          /* the lines with an id, in the order of the file */
    struct indexed_line *line; /* these, borrowed */
    struct channel *channel;   /* owned: the line of each channel, by id */
    size_t line_count, channels;
    int64_t refused; /* lines */

    /* The catalogue before the load. */
    int64_t cards;   /* channels */
    int64_t lacking; /* of these, those that the input does not have */
    int64_t samples; /* the value of the mark; 0: there is none */

    struct client client;
    struct lock lock;
    struct writer writer;
    uint64_t started_ns;
};

/* --- The first reading --- */

/* A line that is refused is the last one of its channel, too: an earlier one is not loaded instead. Returns 0
 * or -ENOMEM. */
static int load_index_line(struct load *l, int64_t number, int64_t offset, struct span line)
{
    struct card card;
    int err = card_read(&l->source, number, line, &card);
    struct indexed_line indexed = {.id = card.id, .offset = LINE_UNUSED, .number = number};
    l->refused += err == -EINVAL;
    if (err == 0) {
        struct span link = card.row.value[CHANNEL_FIELD_link];
        indexed.offset = offset;
        indexed.link = link.data != NULL ? hash_bytes(link, l->started_ns) | 1 : 0;
        card_fini(&card);
    }
    if (card.has_id)
        buf_append(&l->index, &indexed, sizeof indexed);
    return err == -ENOMEM ? err : buf_error(&l->index);
}

/* Returns EXIT_OK, or prints why the input is refused and returns the exit code. */
static int load_read_all(struct load *l)
{
    struct span line = SPAN_ABSENT;
    bool is_first = true;
    int err = 0;
    int got = 0;
    int64_t at = l->lines.start;
    int64_t next = at;
    for (int64_t number = 1; err == 0; number++, at = next) {
        got = lines_read(&l->lines, &next, &line);
        if (got != 1 && got != -EMSGSIZE)
            break;
        struct span text = span_trim(line);
        if (text.len == 0 || span_equal(text, SPAN("\r")))
            continue;
        if (is_first && (*text.data != '{' || text.len == 1 || span_equal(text, SPAN("{\r"))))
            return FAIL("cannot read %s: its first line is not a JSON object (\"Other formats\" in "
                        "docs/schema.md says how to convert a file)",
                        l->source.file);
        is_first = false;
        if (got == 1)
            err = load_index_line(l, number, at, line);
        l->refused += got == -EMSGSIZE;
        if (got == -EMSGSIZE)
            report_problem(&l->report, "%s:%lld: the line is longer than %d bytes", l->source.file,
                           (long long)number, LINE_BYTES_MAX);
    }
    if (err != 0)
        return memory_error();
    return got == 0 ? EXIT_OK : FAIL("cannot read %s: %s", l->source.file, strerror(-got));
}

/* --- Channels and their links --- */

static int load_compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int load_compare_ids(const void *a, const void *b)
{
    const struct channel *x = a;
    const struct channel *y = b;
    return load_compare((uint64_t)x->line->id, (uint64_t)y->line->id);
}

static int load_compare_numbers(const struct channel *x, const struct channel *y)
{
    return load_compare((uint64_t)x->line->number, (uint64_t)y->line->number);
}

/* By channel, then in the order of the file. */
static int load_compare_lines(const void *a, const void *b)
{
    int by_id = load_compare_ids(a, b);
    return by_id != 0 ? by_id : load_compare_numbers(a, b);
}

/* By link, then in the order of the file. */
static int load_compare_links(const void *a, const void *b)
{
    const struct channel *x = a;
    const struct channel *y = b;
    int by_link = load_compare(x->line->link, y->line->link);
    return by_link != 0 ? by_link : load_compare_numbers(a, b);
}

static void load_sort(struct load *l, int (*compare)(const void *a, const void *b))
{
    qsort(l->channel, l->channels, sizeof *l->channel, compare);
}

/* Lists the channels. The last line of each one takes the place of the first. Returns 0 or -ENOMEM. */
static int load_list_channels(struct load *l)
{
    l->line = (struct indexed_line *)(void *)l->index.data;
    l->line_count = l->channels = l->index.len / sizeof *l->line;
    l->channel = malloc((l->line_count + 1) * sizeof *l->channel);
    if (l->channel == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < l->line_count; i++)
        l->channel[i].line = &l->line[i];
    load_sort(l, load_compare_lines);
    l->channels = 0;
    for (size_t i = 0; i < l->line_count; i++) {
        struct indexed_line *line = l->channel[i].line;
        struct indexed_line *first = l->channels > 0 ? l->channel[l->channels - 1].line : NULL;
        if (first == NULL || first->id != line->id) {
            l->channel[l->channels++].line = line;
            continue;
        }
        *first = *line;
        line->offset = LINE_UNUSED;
    }
    return 0;
}

/*
 * A link belongs to the first line with it, of those that are the last ones of their channels; the others are
 * refused, in the order of the file. Of 1,000,000 links two have the same hash in one of 37 million loads.
 */
static void load_check_links(struct load *l)
{
    const struct indexed_line *owner = NULL;
    load_sort(l, load_compare_links);
    for (size_t i = 0; i < l->channels; i++) {
        struct indexed_line *line = l->channel[i].line;
        if (owner == NULL || line->link == 0 || line->link != owner->link)
            owner = line;
        else
            *line = (struct indexed_line){line->id, LINK_TAKEN, line->number, (uint64_t)owner->id};
    }
    load_sort(l, load_compare_ids);
    for (const struct indexed_line *line = l->line; line < l->line + l->line_count; line++)
        if (line->offset == LINK_TAKEN) {
            report_problem(&l->report, "%s:%lld: link: is the link of channel %lld in an earlier line",
                           l->source.file, (long long)line->number, (long long)line->link);
            l->refused++;
        }
}

/* Reads and checks the whole input, before Redis is asked for anything. Returns EXIT_OK, or prints why
 * nothing is loaded and returns the exit code. */
static int load_examine(struct load *l)
{
    int code = load_read_all(l);
    if (code == EXIT_OK && load_list_channels(l) != 0)
        code = memory_error();
    else if (code == EXIT_OK)
        load_check_links(l);
    report_finish(&l->report);
    l->writer.replace = l->flag[FLAG_REPLACE] != NULL && l->refused == 0;
    int64_t count = (int64_t)l->channels;
    if (code == EXIT_OK && l->expected > 0 && count != l->expected)
        return FAIL("the file has %lld channel%s, and not %lld as --expect says", (long long)count,
                    plural(count), (long long)l->expected);
    if (code == EXIT_OK && count == 0 && l->refused == 0)
        return FAIL("the file has no channels");
    return code;
}

/* --- The catalogue before the load --- */

static bool load_has_channel(const struct load *l, struct span id_text)
{
    struct indexed_line wanted = {0};
    return parse_int64(id_text, &wanted.id) == 0 &&
           bsearch(&(struct channel){&wanted}, l->channel, l->channels, sizeof *l->channel,
                   load_compare_ids) != NULL;
}

static void load_take_census(struct load *l)
{
    struct client *c = &l->client;
    struct client_scan s = {.what = SCAN_CARD_HASHES};
    while (client_scan_next(c, &s)) {
        for (size_t i = 0; i < s.count; i++)
            l->lacking +=
                !load_has_channel(l, keyspace_rest(c->keys, reply_text(&s.names[i]), KEYSPACE_CARD));
        l->cards += (int64_t)s.count;
        lock_keep(&l->lock);
    }
    CLIENT_SEND(c, SPAN("GET"), c->samples);
    if (parse_int64(reply_text(client_receive_or_wrongtype(c)), &l->samples) != 0)
        l->samples = 0;
    int64_t kept = l->writer.replace ? 0 : l->lacking;
    if (l->lines.file == NULL && (kept == 0 || l->cards <= l->samples))
        l->writer.samples = kept + (int64_t)l->channels;
}

/* Samples may be replaced by anything. Channels beyond their number are no samples. */
static void load_check_removal(struct load *l)
{
    int64_t most = l->is_share ? MAX(REMOVED_CHANNELS_MAX, l->cards * l->max_removed / 100) : l->max_removed;
    if (l->writer.replace && l->lacking > MAX(most, l->samples))
        (void)client_fail(&l->client,
                          "--replace would remove %lld of %lld channels, more than %lld%s; if this is "
                          "meant, add --max-removed 100%%",
                          (long long)l->lacking, (long long)l->cards, (long long)l->max_removed,
                          l->is_share ? "%" : "");
}

/* --- Loading: the second reading --- */

static void load_write_line(struct load *l, const struct indexed_line *indexed)
{
    struct span line = SPAN_ABSENT;
    struct card card;
    int64_t at = indexed->offset;
    int got = lines_read(&l->lines, &at, &line);
    int err = got == 1 ? card_read(&l->source, indexed->number, line, &card) : got == 0 ? -EINVAL : got;
    bool is_same = err == 0 && card.id == indexed->id;
    if (is_same) {
        writer_add(&l->writer, &card, line.len);
        return;
    }
    if (err == 0)
        card_fini(&card);
    bool is_other = err == 0 || err == -EINVAL || err == -EMSGSIZE;
    (void)client_fail(&l->client, "cannot read %s: %s", l->source.file,
                      is_other ? "it was changed while it was read" : strerror(-err));
}

/* With the lock. */
static void load_write_all(struct load *l)
{
    struct client *c = &l->client;
    const struct indexed_line *end = l->line + l->line_count;
    if (l->writer.replace || l->lines.file == NULL)
        load_take_census(l);
    load_check_removal(l);
    if (client_status(c) != 0)
        return;
    writer_begin(&l->writer);
    for (const struct indexed_line *i = l->line; i < end && client_status(c) == 0; i++)
        if (interrupt_signal() == 0 && i->offset >= 0)
            load_write_line(l, i);
    if (interrupt_signal() != 0)
        (void)client_fail(c, "interrupted");
    if (client_status(c) == 0)
        writer_finish(&l->writer);
}

/* --- Messages --- */

static void load_print_warnings(const struct load *l)
{
    const struct writer *n = &l->writer;
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
    if (l->flag[FLAG_REPLACE] != NULL && !n->replace)
        show_message("nothing was replaced or removed, because lines were refused; the others were added "
                     "to the catalogue");
}

static void load_print_summary(const struct load *l)
{
    const struct writer *n = &l->writer;
    double seconds = (double)(clock_now_ns() - l->started_ns) / 1e9;
    char removed[INT64_DIGITS_MAX + 16] = "";
    if (l->flag[FLAG_REPLACE] != NULL)
        (void)snprintf(removed, sizeof removed, ", %lld removed", (long long)n->cards_removed);
    print_line(stdout, "%lld channel%s: %lld changed, %lld refused%s in %.1f s, %.0f/s",
               (long long)n->channels, plural(n->channels), (long long)n->written, (long long)l->refused,
               removed, seconds, (double)n->channels / seconds);
}

/* What becomes of the index that a replacing load has begun to replace, while the connection is as it was. */
static void load_print_index(struct load *l)
{
    bool is_whole = l->writer.channels == (int64_t)l->channels;
    if (l->writer.replace && l->writer.is_sent && !l->writer.replaced)
        show_message(is_whole && client_is_lost(&l->client)
                         ? "the catalogue may have been replaced: Redis has not confirmed it"
                         : "the index was not changed: a new channel is on no page until a load succeeds");
}

/* What a load that has failed has written. */
static void load_print_stop(const struct load *l)
{
    const struct writer *n = &l->writer;
    if (n->channels > 0)
        show_message("stopped after %lld of %zu channels of %s: %lld loaded, %lld unchanged",
                     (long long)n->channels, l->channels, l->source.file, (long long)n->written,
                     (long long)(n->channels - n->written));
    else
        show_message("stopped before %s",
                     n->is_sent ? "Redis confirmed that anything was loaded" : "anything was loaded");
    if (n->replaced)
        show_message("the catalogue was replaced, but keys of removed channels may be left; "
                     "the next load --replace removes them");
}

/* Returns the exit code. */
static int load_finish_output(const struct load *l)
{
    int code = output_finish();
    return l->refused == 0 ? code : EXIT_FAILED;
}

/* Returns the exit code. */
static int load_run(struct load *l)
{
    if (lock_acquire(&l->lock, &l->client) == 0)
        load_write_all(l);
    if (client_status(&l->client) != 0)
        load_print_index(l);
    if (lock_release(&l->lock) != 0) {
        load_print_stop(l);
        return interrupt_code(EXIT_FAILED);
    }
    load_print_warnings(l);
    load_print_summary(l);
    return load_finish_output(l);
}

/* --- Without writing --- */

/* Compares the input with the cards that Redis holds. Returns the exit code. */
static int load_preview(struct load *l)
{
    load_take_census(l);
    int64_t added = MAX((int64_t)l->channels - (l->cards - l->lacking), 0);
    if (client_status(&l->client) == 0)
        print_line(stdout, "would add %lld channel%s, and remove %lld of %lld; %lld refused",
                   (long long)added, plural(added), (long long)(l->writer.replace ? l->lacking : 0),
                   (long long)l->cards, (long long)l->refused);
    load_check_removal(l);
    if (client_status(&l->client) != 0)
        return client_print_error(&l->client);
    return load_finish_output(l);
}

/* --- The command --- */

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
    const char *most = l->flag[FLAG_MAX_REMOVED];
    const char *expected = l->flag[FLAG_EXPECT];
    if (most != NULL && l->flag[FLAG_REPLACE] == NULL)
        return usage_error("load: --max-removed needs --replace");
    if (most != NULL && !load_read_max_removed(l, span_of(most)))
        return usage_error(
            "load: --max-removed: expected a number of channels, or a share from 0%% to 100%%");
    if (expected != NULL && (parse_int64(span_of(expected), &l->expected) != 0 || l->expected < 1))
        return usage_error("load: --expect: expected a number of channels, 1 or more");
    return EXIT_OK;
}

/* Returns the exit code. */
static int load_all(struct load *l)
{
    bool is_dry = l->flag[FLAG_DRY_RUN] != NULL;
    int code = load_examine(l);
    if (code != EXIT_OK) {
        show_message(is_dry ? "the load would be refused" : "stopped before anything was loaded");
        return code;
    }
    code = client_open(&l->client, l->options, CLIENT_CATALOGUE);
    if (code == EXIT_OK)
        return is_dry ? load_preview(l) : load_run(l);
    bool is_unreachable = client_status(&l->client) != 0 && !l->client.rejected;
    if (!is_dry || !is_unreachable)
        return code;
    print_line(stdout, "%zu channel%s, %lld refused; not compared with Redis", l->channels,
               plural((int64_t)l->channels), (long long)l->refused);
    return load_finish_output(l);
}

int command_load(const struct options *o, const char *argument)
{
    struct load l = {.options = o,
                     .flag = o->args.flag,
                     .max_removed = REMOVED_SHARE_MAX,
                     .is_share = true,
                     .source = {&o->hosts, argument != NULL ? argument : "sample", &l.report},
                     .report = {.to = stderr},
                     .writer = {.lock = &l.lock},
                     .started_ns = clock_now_ns()};
    int code = load_read_flags(&l);
    if (code == EXIT_OK)
        code = argument != NULL ? lines_open(&l.lines, argument)
                                : lines_open_samples(&l.lines, o->channel_host, o->args.flag[FLAG_SAMPLE]);
    if (code == EXIT_OK)
        code = load_all(&l);
    writer_clear(&l.writer);
    client_close(&l.client);
    lines_close(&l.lines);
    free(l.channel);
    buf_fini(&l.index);
    return code;
}
