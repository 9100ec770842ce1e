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
#include "ctl/card.h"
#include "ctl/lines.h"
#include "ctl/lock.h"
#include "ctl/terminal.h"
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
    uint64_t link;  /* the hash of its link, 0: it has none; of LINK_TAKEN the place of its owner's line */
};

struct load {
    const struct options *options;
    bool replaces, dry_run; /* the flags of the command line */
    int64_t max_removed;    /* channels, or percent if `is_share` */
    bool is_share;
    int64_t expected; /* channels; 0: any number */
    const char *file; /* its name, for messages */

    struct lines lines;
    struct card_reader reader;
    uint64_t seed;             /* of the hashes */
    struct buf index;          /* the lines with an id, in the order of the file */
    struct indexed_line *line; /* these, borrowed */
    size_t line_count;
    uint32_t *channel; /* owned: the place of the line of each channel, by id */
    size_t channels;
    int64_t refused; /* lines */

    /* The catalogue before the load. */
    int64_t cards;   /* channels */
    int64_t lacking; /* of these, those that the input does not have */
    int64_t samples; /* the value of the mark; 0: there is none */

    struct client client;
    struct lock lock;
    struct writer writer;
    struct report report;
    uint64_t started_ns;
};

/* --- The first reading --- */

/* A line that is refused is the last one of its channel, too: an earlier one is not loaded instead. Returns 0
 * or -ENOMEM. */
static int load_index_line(struct load *l, int64_t number, int64_t offset, struct span line)
{
    struct card card;
    int err = card_read(&l->reader, number, line, &card);
    l->refused += err == -EINVAL;
    if (err == -ENOMEM || !card.has_id)
        return err == -ENOMEM ? err : 0;
    struct span link = err == 0 ? card.row.value[CHANNEL_FIELD_link] : SPAN_ABSENT;
    const struct indexed_line indexed = {.id = card.id,
                                         .offset = err == 0 ? offset : LINE_UNUSED,
                                         .number = number,
                                         .link = link.data != NULL ? hash_bytes(link, l->seed) | 1 : 0};
    buf_append(&l->index, &indexed, sizeof indexed);
    return ++l->line_count < UINT32_MAX ? buf_error(&l->index) : -ENOMEM;
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
                        l->file);
        is_first = false;
        if (got == 1)
            err = load_index_line(l, number, at, line);
        l->refused += got == -EMSGSIZE;
        if (got == -EMSGSIZE)
            report_problem(&l->report, "%s:%lld: the line is longer than %d bytes", l->file,
                           (long long)number, LINE_BYTES_MAX);
    }
    l->line = (struct indexed_line *)(void *)l->index.data;
    if (err != 0)
        return memory_error();
    return got == 0 ? EXIT_OK : FAIL("cannot read %s: %s", l->file, strerror(-got));
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

/* Lists the channels. The last line of each one takes the place of the first. Returns 0 or -ENOMEM. */
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
        line->offset = LINE_UNUSED;
    }
    return 0;
}

static bool load_has_channel(const struct load *l, struct span id_text)
{
    int64_t id = 0;
    size_t low = 0;
    size_t high = parse_int64(id_text, &id) == 0 ? l->channels : 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int compared = load_compare((uint64_t)l->line[l->channel[middle]].id, (uint64_t)id);
        if (compared == 0)
            return true;
        *(compared < 0 ? &low : &high) = compared < 0 ? middle + 1 : middle;
    }
    return false;
}

/* --- Links of several channels --- */

/* By link, then in the order of the file. */
static int load_compare_links(const void *a, const void *b, void *lines)
{
    const struct indexed_line *x = (struct indexed_line *)lines + *(const uint32_t *)a;
    const struct indexed_line *y = (struct indexed_line *)lines + *(const uint32_t *)b;
    int by_link = load_compare(x->link, y->link);
    return by_link != 0 ? by_link : load_compare((uint64_t)x->number, (uint64_t)y->number);
}

/*
 * A link belongs to the first line with it, of those that are the last ones of their channels; the others are
 * refused, in the order of the file. Of 1,000,000 links two have the same hash in one of 37 million loads.
 */
static void load_check_links(struct load *l)
{
    uint32_t owner = 0;
    qsort_r(l->channel, l->channels, sizeof *l->channel, load_compare_links, l->line);
    for (size_t i = 0; i < l->channels; i++) {
        struct indexed_line *line = &l->line[l->channel[i]];
        if (i == 0 || line->link == 0 || line->link != l->line[owner].link)
            owner = l->channel[i];
        else
            *line = (struct indexed_line){line->id, LINK_TAKEN, line->number, owner};
    }
    qsort_r(l->channel, l->channels, sizeof *l->channel, load_compare_ids, l->line);
    for (size_t i = 0; i < l->line_count; i++)
        if (l->line[i].offset == LINK_TAKEN) {
            report_problem(&l->report, "%s:%lld: link: is the link of channel %lld in an earlier line",
                           l->file, (long long)l->line[i].number, (long long)l->line[l->line[i].link].id);
            l->refused++;
        }
}

/* --- Reasons to refuse the whole load --- */

static int load_check_count(const struct load *l)
{
    int64_t count = (int64_t)l->channels;
    if (l->expected > 0 && count != l->expected)
        return FAIL("the file has %lld channel%s, and not %lld as --expect says", (long long)count,
                    plural(count), (long long)l->expected);
    if (count == 0 && l->refused == 0)
        return FAIL("the file has no channels");
    return EXIT_OK;
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
    l->writer.replace = l->replaces && l->refused == 0;
    return code == EXIT_OK ? load_check_count(l) : code;
}

/* Counts what the catalogue has before the load. */
static void load_take_census(struct load *l)
{
    struct client *c = &l->client;
    struct client_scan s = {.what = SCAN_CARD_HASHES};
    while (client_scan_next(c, &s)) {
        for (size_t i = 0; i < s.count; i++)
            l->lacking +=
                !load_has_channel(l, keyspace_rest(c->keys, reply_text(&s.names[i]), KEYSPACE_CARD));
        l->cards += (int64_t)s.count;
        if (l->lock.held && lock_is_due(&l->lock))
            lock_renew(&l->lock);
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

/* Reads a line, and its card, again. Returns 0, -ESTALE if it is another line now, or another negative errno.
 */
static int load_read_again(struct load *l, const struct indexed_line *indexed, struct card *card)
{
    struct span line = SPAN_ABSENT;
    int64_t at = indexed->offset;
    int got = lines_read(&l->lines, &at, &line);
    int err = got == 1 ? card_read(&l->reader, indexed->number, line, card) : got == 0 ? -ESTALE : got;
    bool is_other = err == -EINVAL || err == -EMSGSIZE || (err == 0 && card->id != indexed->id);
    return is_other ? -ESTALE : err;
}

static void load_write_all(struct load *l)
{
    struct client *c = &l->client;
    struct card card;
    int err = 0;
    writer_begin(&l->writer);
    for (size_t i = 0; i < l->line_count && err == 0 && interrupt_signal() == 0 && client_status(c) == 0;
         i++) {
        err = l->line[i].offset < 0 ? 0 : load_read_again(l, &l->line[i], &card);
        if (l->line[i].offset >= 0 && err == 0)
            writer_add(&l->writer, &card);
    }
    writer_confirm(&l->writer);
    if (err != 0)
        (void)client_fail(c, "cannot read %s: %s", l->file,
                          err == -ESTALE ? "it was changed while it was read" : strerror(-err));
    else if (interrupt_signal() != 0)
        (void)client_fail(c, "interrupted");
    else if (client_status(c) == 0)
        writer_finish(&l->writer);
}

/* With the lock. */
static void load_into_redis(void *arg)
{
    struct load *l = arg;
    struct client *c = &l->client;
    const struct writer *w = &l->writer;
    if (w->replace || l->lines.file == NULL)
        load_take_census(l);
    load_check_removal(l);
    if (client_status(c) == 0)
        load_write_all(l);
    if (client_status(c) == 0 || !w->replace || writer_accepted(&w->sent) == 0 || w->counts.replaced)
        return;
    bool is_whole = writer_accepted(&w->counts) == (int64_t)l->channels;
    show_message(is_whole && client_is_lost(c)
                     ? "the catalogue may have been replaced: Redis has not confirmed it"
                     : "the index was not changed: a new channel is on no page until a load succeeds");
}

/* --- Messages --- */

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
    if (l->replaces && !l->writer.replace)
        show_message("nothing was replaced or removed, because lines were refused; the others were added "
                     "to the catalogue");
}

static void load_print_summary(const struct load *l)
{
    const struct writer_counts *n = &l->writer.counts;
    int64_t accepted = writer_accepted(n);
    double seconds = (double)(clock_now_ns() - l->started_ns) / 1e9;
    char removed[INT64_DIGITS_MAX + 16] = "";
    if (l->replaces)
        (void)snprintf(removed, sizeof removed, ", %lld removed", (long long)n->cards_removed);
    print_line(stdout, "%lld channel%s: %lld changed, %lld refused%s in %.1f s, %.0f/s", (long long)accepted,
               plural(accepted), (long long)n->written, (long long)l->refused, removed, seconds,
               (double)accepted / seconds);
}

/* What a load that has failed has written. */
static void load_print_stop(const struct load *l)
{
    const struct writer_counts *n = &l->writer.counts;
    bool is_sent = writer_accepted(&l->writer.sent) > 0;
    if (writer_accepted(n) > 0)
        show_message("stopped after %lld of %zu channels of %s: %lld loaded, %lld unchanged",
                     (long long)writer_accepted(n), l->channels, l->file, (long long)n->written,
                     (long long)n->unchanged);
    else
        show_message("stopped before %s",
                     is_sent ? "Redis confirmed that anything was loaded" : "anything was loaded");
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
    if (lock_run(&l->lock, &l->client, load_into_redis, l) != 0) {
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

static int load_open(struct load *l, const char *path)
{
    int64_t count = 0;
    l->file = l->reader.file = path != NULL ? path : "sample";
    if (path != NULL)
        return lines_open(&l->lines, path);
    int code = sample_parse_count(l->options->args.flag[FLAG_SAMPLE], &count);
    l->lines = (struct lines){.sample_host = l->options->channel_host, .samples = count};
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
    const char *const *flag = l->options->args.flag;
    l->replaces = flag[FLAG_REPLACE] != NULL;
    l->dry_run = flag[FLAG_DRY_RUN] != NULL;
    if (flag[FLAG_MAX_REMOVED] != NULL && !l->replaces)
        return usage_error("load: --max-removed needs --replace");
    if (flag[FLAG_MAX_REMOVED] != NULL && !load_read_max_removed(l, span_of(flag[FLAG_MAX_REMOVED])))
        return usage_error(
            "load: --max-removed: expected a number of channels, or a share from 0%% to 100%%");
    if (flag[FLAG_EXPECT] != NULL &&
        (parse_int64(span_of(flag[FLAG_EXPECT]), &l->expected) != 0 || l->expected < 1))
        return usage_error("load: --expect: expected a number of channels, 1 or more");
    return EXIT_OK;
}

/* Returns the exit code. */
static int load_all(struct load *l)
{
    int code = load_examine(l);
    if (code != EXIT_OK) {
        show_message(l->dry_run ? "the load would be refused" : "stopped before anything was loaded");
        return code;
    }
    code = client_open(&l->client, l->options, CLIENT_CATALOGUE);
    if (code == EXIT_OK)
        return l->dry_run ? load_preview(l) : load_run(l);
    bool is_unreachable = client_status(&l->client) != 0 && !redis_client_is_rejected(l->client.redis);
    if (!l->dry_run || !is_unreachable)
        return code;
    print_line(stdout, "%zu channel%s, %lld refused; not compared with Redis", l->channels,
               plural((int64_t)l->channels), (long long)l->refused);
    return load_finish_output(l);
}

int command_load(const struct options *o, const char *argument)
{
    struct load l = {
        .options = o, .max_removed = REMOVED_SHARE_MAX, .is_share = true, .started_ns = clock_now_ns()};
    l.seed = random_seed(&l);
    l.report.to = stderr;
    l.reader = (struct card_reader){.hosts = &o->hosts, .report = &l.report};
    l.writer = (struct writer){.client = &l.client, .lock = &l.lock};
    int code = load_read_flags(&l);
    if (code == EXIT_OK)
        code = load_open(&l, argument);
    if (code == EXIT_OK)
        code = load_all(&l);
    writer_fini(&l.writer);
    client_close(&l.client);
    lines_close(&l.lines);
    card_reader_fini(&l.reader);
    free(l.channel);
    buf_fini(&l.index);
    return code;
}
