/*
 * Files of channels: a line that `channelctl load` accepts appears in the API's response unchanged, and is
 * accepted again; and a file has the same lines when they are read again. An input is such a file.
 */
#include "ctl/card.h"
#include "ctl/input.h"
#include "fuzz/contract.h"
#include "fuzz/fuzz.h"
#include "support/fields.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct link_hosts HOSTS = {{"max.ru", 6}, {"web.max.ru", 10}};

/* A card that was read is owned. */
static int read_card(struct span line, struct card *card)
{
    static FILE *nowhere;
    if (nowhere == NULL)
        nowhere = fopen("/dev/null", "w");
    struct report report = {.to = nowhere};
    int err = card_read(&HOSTS, &report, line, card);
    FUZZ_CHECK(err == 0 || err == -EINVAL);
    FUZZ_CHECK((err == 0) == (report.problems == 0));
    return err;
}

/* The latest ten days; of a repeated day the last value counts. */
static void check_history(yyjson_val *given, yyjson_val *shown)
{
    yyjson_obj_iter iter;
    yyjson_val *day = NULL;
    yyjson_obj_iter_init(given, &iter);
    while ((day = yyjson_obj_iter_next(&iter)) != NULL) {
        yyjson_val *kept = yyjson_obj_getn(shown, yyjson_get_str(day), yyjson_get_len(day));
        const char *oldest = yyjson_get_str(unsafe_yyjson_get_first(shown));
        FUZZ_CHECK(kept != NULL || (yyjson_obj_size(shown) == 10 && strcmp(yyjson_get_str(day), oldest) < 0));
    }
    yyjson_obj_iter_init(shown, &iter);
    while ((day = yyjson_obj_iter_next(&iter)) != NULL) {
        yyjson_val *last = NULL;
        yyjson_obj_iter all;
        yyjson_val *key = NULL;
        yyjson_obj_iter_init(given, &all);
        while ((key = yyjson_obj_iter_next(&all)) != NULL)
            if (yyjson_equals_strn(key, yyjson_get_str(day), yyjson_get_len(day)))
                last = yyjson_obj_iter_get_val(key);
        FUZZ_CHECK(last != NULL && yyjson_get_sint(last) == yyjson_get_sint(yyjson_obj_iter_get_val(day)));
    }
}

static void check_member(enum channel_type type, yyjson_val *given, yyjson_val *shown)
{
    if (given == NULL || yyjson_is_null(given))
        FUZZ_CHECK(type == CHANNEL_HISTORY ? yyjson_obj_size(shown) == 0 : yyjson_is_null(shown));
    else if (type == CHANNEL_HISTORY)
        check_history(given, shown);
    else if (type == CHANNEL_INTEGER || type == CHANNEL_FLAG)
        FUZZ_CHECK(yyjson_is_int(shown) && yyjson_get_sint(given) == yyjson_get_sint(shown));
    else
        FUZZ_CHECK(yyjson_equals_strn(shown, yyjson_get_str(given), yyjson_get_len(given)));
}

/* `shown` is the API's JSON of the row. */
static void check_same(struct span line, struct span shown)
{
    yyjson_doc *given = yyjson_read(line.data, line.len, YYJSON_READ_NOFLAG);
    yyjson_doc *api = yyjson_read(shown.data, shown.len, YYJSON_READ_NOFLAG);
    FUZZ_CHECK(given != NULL && api != NULL);
    yyjson_val *line_root = yyjson_doc_get_root(given);
    bool whole_response = yyjson_obj_get(line_root, "success") != NULL;
    yyjson_val *card = whole_response ? yyjson_obj_get(line_root, "data") : line_root;
    contract_check_channel(yyjson_doc_get_root(api), false);
    for (enum channel_field f = 0; f < CHANNEL_FIELD_COUNT; f++)
        check_member(field_table[f].type, yyjson_obj_get(card, field_table[f].name),
                     yyjson_obj_get(yyjson_doc_get_root(api), field_table[f].name));
    yyjson_doc_free(given);
    yyjson_doc_free(api);
}

static void check_line(struct span line)
{
    struct buf shown = BUF_INIT;
    struct buf again = BUF_INIT;
    struct card card;
    if (read_card(line, &card) == 0) {
        FUZZ_CHECK(channel_write(&shown, &card.row, CHANNEL_CARD) == 0);
        card_fini(&card);
        check_same(line, buf_span(&shown));
        FUZZ_CHECK(read_card(buf_span(&shown), &card) == 0);
        FUZZ_CHECK(channel_write(&again, &card.row, CHANNEL_CARD) == 0);
        card_fini(&card);
        FUZZ_CHECK(span_equal(buf_span(&shown), buf_span(&again)));
    }
    buf_fini(&shown);
    buf_fini(&again);
}

/* A file with these bytes. */
static void open_input(struct input *input, struct span bytes)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("load", MFD_CLOEXEC);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    FUZZ_CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, bytes.data, bytes.len, 0) == (ssize_t)bytes.len);
    FUZZ_CHECK(input_open(input, &(struct options){.hosts = HOSTS}, path) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span rest = fuzz_input(data, size);
    const struct span whole = rest;
    struct input input;
    struct span line = SPAN_ABSENT;
    open_input(&input, whole);
    if (span_starts_with(rest, SPAN("\xEF\xBB\xBF")))
        rest = span_skip(rest, 3);
    int64_t at = input.start;
    FUZZ_CHECK(at == rest.data - whole.data);
    while (rest.len > 0) {
        int64_t again = at;
        struct span pending = fuzz_take(&rest, '\n');
        FUZZ_CHECK(input_read_line(&input, &at, &line) == 1 && span_equal(line, pending));
        FUZZ_CHECK(at == rest.data - whole.data);
        FUZZ_CHECK(input_read_line(&input, &again, &line) == 1 && span_equal(line, pending) && again == at);
        check_line(line);
    }
    FUZZ_CHECK(input_read_line(&input, &at, &line) == 0);
    input_close(&input);
    return 0;
}
