/* Made-up channels, written by the code that writes the API's answers, and channelctl sample; see sample.h.
 */
#include "ctl/sample.h"

#include "base/parse.h"
#include "ctl/command.h"
#include "ctl/sample_text.h"
#include "model/channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLE_MAX = 100 * 1000 * 1000, FIRST_DAY = 11, PIECE = 128 * 1024, SECONDS_A_DAY = 86400 };

/* The month that every sample's history and update lie in. */
#define MONTH "2026-11-"
enum { LAST_DAY = FIRST_DAY + HISTORY_DAYS_MAX - 1 };

/* One channel while it is made: its texts follow each other in `text`. */
struct draft {
    struct buf text;
    size_t begin[CHANNEL_FIELD_COUNT];
    size_t end[CHANNEL_FIELD_COUNT]; /* 0: absent */
    size_t at;                       /* where the field that is being written begins */
};

static void finish_field(struct draft *d, enum channel_field f)
{
    d->begin[f] = d->at;
    d->end[f] = d->text.len;
    d->at = d->text.len;
}

static void put_number(struct draft *d, enum channel_field f, uint64_t value)
{
    buf_append_int(&d->text, (int64_t)value);
    finish_field(d, f);
}

/* Most ids are large and negative, as those of real channels are; each n has a range of its own. */
static void put_id(struct draft *d, struct prng *p, int64_t n)
{
    const int64_t base = INT64_C(68000000000000);
    const int64_t range = 1000003;
    int64_t id =
        prng_chance(p, 14) ? 1000 + n : -(base + n * range + (int64_t)prng_below(p, (uint64_t)range));
    buf_append_int(&d->text, id);
    finish_field(d, CHANNEL_FIELD_max_channel_id);
}

static void put_link(struct draft *d, struct prng *p, const struct options *o, int64_t n)
{
    buf_printf(&d->text, "https://%s/", o->channel_host);
    sample_slug(p, &d->text);
    buf_printf(&d->text, "_%lld", (long long)n);
    finish_field(d, CHANNEL_FIELD_link);
}

static void put_avatar(struct draft *d, struct prng *p)
{
    buf_append_str(&d->text, "https://cdn.example.org/file/");
    sample_token(p, 260, &d->text);
    buf_append_str(&d->text, ".jpg");
    finish_field(d, CHANNEL_FIELD_avatar);
}

static void put_texts(struct draft *d, struct prng *p)
{
    uint64_t script = prng_next(p);
    sample_title(p, script, &d->text);
    finish_field(d, CHANNEL_FIELD_title);
    if (!prng_chance(p, 6)) {
        sample_description(p, script, &d->text);
        finish_field(d, CHANNEL_FIELD_description);
    }
    if (!prng_chance(p, 8))
        put_avatar(d, p);
    sample_category(p, &d->text);
    finish_field(d, CHANNEL_FIELD_category);
    if (!prng_chance(p, 40)) {
        sample_category(p, &d->text);
        finish_field(d, CHANNEL_FIELD_category2);
    }
}

/* The count of each day lies within 1% of the day before; returns the last. */
static uint64_t put_history(struct draft *d, struct prng *p, uint64_t followers)
{
    for (int day = FIRST_DAY; day <= LAST_DAY; day++) {
        followers += prng_below(p, followers / 50 + 3);
        followers -= followers / 100 + 1;
        buf_printf(&d->text, "%s\"" MONTH "%d\":%llu", day == FIRST_DAY ? "{" : ",", day,
                   (unsigned long long)followers);
    }
    buf_append_char(&d->text, '}');
    finish_field(d, CHANNEL_FIELD_followers_history);
    return followers;
}

static void put_numbers(struct draft *d, struct prng *p)
{
    uint64_t size = UINT64_C(20) << prng_below(p, 17);
    uint64_t followers = put_history(d, p, size + prng_below(p, size));
    put_number(d, CHANNEL_FIELD_followers_cnt_today, followers);
    put_number(d, CHANNEL_FIELD_is_a_plus_flag, prng_chance(p, 5) ? 1 : 0);
    if (prng_chance(p, 4))
        return; /* a channel whose views nobody knows */
    uint64_t views = followers * (2 + prng_below(p, 60)) / 100;
    uint64_t more = views + views * prng_below(p, 70) / 100;
    put_number(d, CHANNEL_FIELD_views_24h, views);
    put_number(d, CHANNEL_FIELD_views_48h, more);
    put_number(d, CHANNEL_FIELD_er_24h, views * 100 / followers);
    put_number(d, CHANNEL_FIELD_er_48h, more * 100 / followers);
}

static void put_update(struct draft *d, struct prng *p)
{
    unsigned second = (unsigned)prng_below(p, SECONDS_A_DAY);
    buf_printf(&d->text, MONTH "%dT%02u:%02u:%02u", (int)LAST_DAY, second / 3600, second / 60 % 60,
               second % 60);
    finish_field(d, CHANNEL_FIELD_updated_at);
}

static void write_draft(const struct draft *d, struct buf *out)
{
    struct channel_row row = {0};
    for (size_t f = 0; f < CHANNEL_FIELD_COUNT; f++)
        if (d->end[f] != 0)
            row.value[f] = (struct span){d->text.data + d->begin[f], d->end[f] - d->begin[f]};
    (void)channel_write(out, &row, CHANNEL_CARD);
    buf_append_char(out, '\n');
}

struct samples {
    const struct options *options;
    struct prng prng;
    struct draft draft;
    int64_t made, count;
};

static void make_channel(struct samples *s, struct buf *out)
{
    struct draft *d = &s->draft;
    struct prng *p = &s->prng;
    *d = (struct draft){.text = d->text};
    buf_clear(&d->text);
    put_id(d, p, s->made);
    put_texts(d, p);
    if (!prng_chance(p, 1))
        put_link(d, p, s->options, s->made);
    put_numbers(d, p);
    put_update(d, p);
    s->made++;
    if (buf_error(&d->text) != 0)
        out->error = buf_error(&d->text);
    else
        write_draft(d, out);
}

struct samples *samples_new(const struct options *o, const char *count, int *code)
{
    int64_t n = 0;
    int64_t seed = 1;
    *code = EXIT_USAGE;
    if (parse_int64(span_of(count), &n) != 0 || n < 0 || n > SAMPLE_MAX)
        usage_error("sample: one number up to %d is expected", SAMPLE_MAX);
    else if (o->seed != NULL && parse_int64(span_of(o->seed), &seed) != 0)
        usage_error("--seed: a whole number is expected");
    else
        *code = EXIT_FINE;
    struct samples *s = *code == EXIT_FINE ? malloc(sizeof *s) : NULL;
    if (s != NULL)
        *s =
            (struct samples){.options = o, .prng = {(uint64_t)seed}, .draft = {.text = BUF_INIT}, .count = n};
    else if (*code == EXIT_FINE)
        *code = memory_error();
    return s;
}

void samples_free(struct samples *s)
{
    if (s != NULL)
        buf_fini(&s->draft.text);
    free(s);
}

int samples_next(struct samples *s, struct buf *out)
{
    size_t end = out->len + PIECE;
    while (s->made < s->count && out->len < end && buf_error(out) == 0)
        make_channel(s, out);
    return buf_error(out);
}

/* Returns 0 or a negative errno. */
static int print(struct samples *s)
{
    struct buf out = BUF_INIT;
    int err = 0;
    do {
        buf_clear(&out);
        err = samples_next(s, &out);
        errno = EIO;
        if (err == 0 && out.len > 0 && fwrite(out.data, 1, out.len, stdout) != out.len)
            err = -errno;
    } while (err == 0 && out.len > 0);
    if (err == 0 && fflush(stdout) != 0)
        err = -errno;
    buf_fini(&out);
    return err;
}

int command_sample(const struct options *o, int words, char **word)
{
    int code = EXIT_FINE;
    struct samples *s = samples_new(o, words == 1 ? word[0] : "", &code);
    if (s == NULL)
        return code;
    int err = print(s);
    samples_free(s);
    return err == 0 ? EXIT_FINE : output_error(err);
}
