/* Reading and checking cards; see card.h. */
#include "ctl/card.h"

#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <yyjson.h>

struct card_reader {
    const struct link_hosts *hosts;
    struct report *report;
    int64_t problems; /* in the report before this line */
    struct card *card;
    unsigned seen; /* the fields so far, as bits */
    bool is_out_of_memory;
};

const char *card_check_value(const struct link_hosts *hosts, enum channel_field f, struct span text)
{
    static const char *const problems[] = {[CHANNEL_TEXT] = "is not text in UTF-8",
                                           [CHANNEL_INTEGER] = "is not a 64-bit integer",
                                           [CHANNEL_FLAG] = "is not 0 or 1",
                                           [CHANNEL_DATETIME] = "is not a date and time YYYY-MM-DDTHH:MM:SS",
                                           [CHANNEL_HISTORY] =
                                               "is not an object of dates YYYY-MM-DD and 64-bit integers"};
    enum channel_type type = channel_field_type(f);
    if (text.data == NULL || !channel_value_is_valid(f, text) || (type == CHANNEL_TEXT && !utf8_valid(text)))
        return problems[type];
    return f != CHANNEL_FIELD_link || link_is_stored_shape(hosts, text) ? NULL : CARD_INVALID_LINK;
}

static void card_refuse_value(struct card_reader *r, enum channel_field f, struct span text,
                              const char *problem)
{
    report_problem(r->report, "%s: %s %s", channel_field_name(f).data, EXCERPT(text), problem);
}

/* The JSON of a value; absent without memory. Borrowed until the next one is written. */
static struct span card_write_json(struct card_reader *r, const yyjson_val *value)
{
    size_t length = 0;
    free(r->card->json);
    r->card->json = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, &length);
    r->is_out_of_memory = r->is_out_of_memory || r->card->json == NULL;
    return (struct span){r->card->json, length};
}

/* Numbers and texts are stored as they are in the file, a history as compact JSON with all its days. */
static void card_read_value(struct card_reader *r, enum channel_field f, yyjson_val *value)
{
    enum channel_type type = channel_field_type(f);
    bool is_number = type == CHANNEL_INTEGER || type == CHANNEL_FLAG;
    struct span text = {is_number ? yyjson_get_raw(value) : yyjson_get_str(value), yyjson_get_len(value)};
    if (type == CHANNEL_HISTORY)
        text = yyjson_is_obj(value) ? card_write_json(r, value) : SPAN_ABSENT;
    const char *problem = card_check_value(r->hosts, f, text);
    if (problem != NULL) { /* no text of the card is used any more */
        text = card_write_json(r, value);
        if (!r->is_out_of_memory)
            card_refuse_value(r, f, text, problem);
        return;
    }
    r->card->row.value[f] = text;
    if (f == CHANNEL_FIELD_max_channel_id)
        r->card->has_id = parse_int64(text, &r->card->id) == 0;
}

static void card_read_member(struct card_reader *r, yyjson_val *key, yyjson_val *value)
{
    struct span name = {unsafe_yyjson_get_str(key), unsafe_yyjson_get_len(key)};
    enum channel_field f = 0;
    while (f < CHANNEL_FIELD_COUNT && !span_equal(channel_field_name(f), name))
        f++;
    if (f == CHANNEL_FIELD_COUNT || (r->seen & 1U << f) != 0) {
        report_problem(r->report, f == CHANNEL_FIELD_COUNT ? "%s: no such field" : "%s: is given twice",
                       EXCERPT(name));
        return;
    }
    r->seen |= 1U << f;
    if (!yyjson_is_null(value) || f == CHANNEL_FIELD_max_channel_id)
        card_read_value(r, f, value);
}

static void card_read_object(struct card_reader *r, yyjson_val *object)
{
    const struct channel_row *row = &r->card->row;
    yyjson_obj_iter iter;
    if (!yyjson_obj_iter_init(object, &iter)) {
        report_problem(r->report, "not a JSON object");
        return;
    }
    yyjson_val *key = NULL;
    while ((key = yyjson_obj_iter_next(&iter)) != NULL)
        card_read_member(r, key, yyjson_obj_iter_get_val(key));
    if ((r->seen & 1U << CHANNEL_FIELD_max_channel_id) == 0)
        report_problem(r->report, "max_channel_id is missing");
    bool is_whole = r->report->problems == r->problems;
    for (enum channel_field f = 0; is_whole && f < CHANNEL_FIELD_COUNT; f++)
        if (channel_find_fault(row, f) != NULL)
            card_refuse_value(r, f, row->value[f], channel_find_fault(row, f));
}

/* Reads the line itself, or, where it is a whole response of the API, its data. */
static void card_read_root(struct card_reader *r, yyjson_val *root)
{
    yyjson_val *success = yyjson_obj_get(root, "success");
    yyjson_val *data = yyjson_obj_get(root, "data");
    if (success == NULL)
        card_read_object(r, root);
    else if (yyjson_is_arr(data))
        report_problem(r->report,
                       "is a page of the list, which lacks most fields of its channels: load their cards");
    else if (!yyjson_is_true(success) || !yyjson_is_obj(data) || yyjson_obj_size(root) != 2)
        report_problem(r->report, "is a response without a card");
    else
        card_read_object(r, data);
}

void card_fini(struct card *card)
{
    yyjson_doc_free(card->doc);
    free(card->json);
}

int card_read(const struct link_hosts *hosts, struct report *report, struct span line, struct card *out)
{
    yyjson_read_err error;
    struct card_reader r = {.hosts = hosts, .report = report, .problems = report->problems, .card = out};
    char *text = (char *)(uintptr_t)line.data; /* not written to: YYJSON_READ_INSITU is not set */
    /* Numbers are kept and printed as they are in the file. */
    *out = (struct card){.bytes = line.len,
                         .doc = yyjson_read_opts(text, line.len, YYJSON_READ_NUMBER_AS_RAW, NULL, &error)};
    if (out->doc != NULL)
        card_read_root(&r, yyjson_doc_get_root(out->doc));
    else if (error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        r.is_out_of_memory = true;
    else
        report_problem(report, "not a JSON object (%s at byte %zu)", error.msg, error.pos + 1);
    int err = r.is_out_of_memory ? -ENOMEM : report->problems > r.problems ? -EINVAL : 0;
    if (err != 0)
        card_fini(out);
    return err;
}
