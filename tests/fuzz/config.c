/*
 * Settings with any values: each is accepted, or rejected with its name, and the printed configuration
 * results in the same settings when it is parsed again.
 *
 * An input is a list of "name=value" lines, like flags without their hyphens. Files are not read.
 */
#include "app/config.h"
#include "base/text.h"
#include "fuzz/fuzz.h"

#include <errno.h>
#include <stdint.h>

enum { FLAGS_MAX = 64 };

struct flags {
    int argc;
    char *argv[FLAGS_MAX + 1];
};

static void add_flag(struct flags *f, struct span line)
{
    struct buf flag = BUF_INIT;
    struct span name = {line.data, span_find(line, '=')};
    bool reads_file = name.len == line.len || memmem(name.data, name.len, "file", 4) != NULL;
    if (f->argc == FLAGS_MAX || reads_file)
        return;
    buf_append_str(&flag, "--");
    buf_append_span(&flag, line);
    f->argv[f->argc++] = fuzz_text(buf_span(&flag));
    buf_fini(&flag);
}

static void read_flags(struct flags *f, struct span input)
{
    *f = (struct flags){.argc = 1, .argv = {fuzz_text(SPAN("channeld"))}};
    while (input.len > 0)
        add_flag(f, fuzz_take(&input, '\n'));
}

static void free_flags(struct flags *f)
{
    for (int i = 0; i < f->argc; i++)
        free(f->argv[i]);
}

static void print(const struct config *c, struct buf *out)
{
    struct redis_config *redis = NULL;
    const char *setting = NULL;
    settings_write_values(&config_usage, &c->values, out);
    struct buf error = BUF_INIT;
    if (redis_config_new(&c->values.redis, keyspace_prefix(&c->keyspace), 1, &redis, &error, &setting) == 0)
        redis_endpoint_describe(&redis->endpoint, out);
    buf_append_span(out, buf_span(&error));
    buf_fini(&error);
    redis_config_unref(redis);
    buf_append_char(out, '\n');
    buf_append_str(out, c->values.api.base_path);
    const struct addr *const addresses[] = {&c->listen, &c->admin_listen};
    for (int i = 0; i < 2; i++) {
        char text[ADDR_TEXT_MAX];
        addr_write(addresses[i], text);
        buf_append_str(out, text);
    }
    buf_append(out, &c->stale_keys_limit, sizeof c->stale_keys_limit);
    FUZZ_CHECK(buf_error(out) == 0);
}

/* The value that was printed redacted. */
static const char *unmasked(const struct config *c, struct span name)
{
    if (span_equal(name, SPAN("redis-url")))
        return c->values.redis.url;
    return span_equal(name, SPAN("redis-password")) ? c->values.redis.password : NULL;
}

/* "name = value" lines as flags. */
static void read_printed(struct flags *f, const struct config *c, struct span printed)
{
    *f = (struct flags){.argc = 1, .argv = {fuzz_text(SPAN("channeld"))}};
    while (printed.len > 0) {
        struct span line = fuzz_take(&printed, '\n');
        struct buf flag = BUF_INIT;
        struct span name = {line.data, span_find(line, ' ')};
        FUZZ_CHECK(line.len >= name.len + 3 && f->argc < FLAGS_MAX);
        const char *secret = unmasked(c, name);
        buf_printf(&flag, "--%.*s=", (int)name.len, name.data);
        buf_append_span(&flag, secret != NULL ? span_of(secret) : span_skip(line, name.len + 3));
        f->argv[f->argc++] = fuzz_text(buf_span(&flag));
        buf_fini(&flag);
    }
}

static void check_printed(const struct config *c)
{
    struct config again = {.workers = 0};
    struct buf printed = BUF_INIT;
    struct buf all = BUF_INIT;
    struct buf all_again = BUF_INIT;
    struct buf error = BUF_INIT;
    struct flags flags;
    settings_write_values(&config_usage, &c->values, &printed);
    read_printed(&flags, c, buf_span(&printed));
    FUZZ_CHECK(config_read(&again, flags.argc, flags.argv, &error) == 0);
    print(c, &all);
    print(&again, &all_again);
    FUZZ_CHECK(span_equal(buf_span(&all), buf_span(&all_again)));
    settings_fini(&config_usage, &again.values);
    free_flags(&flags);
    buf_fini(&printed);
    buf_fini(&all);
    buf_fini(&all_again);
    buf_fini(&error);
}

/* The message begins with the flag or variable. A word that is neither is not repeated. */
static void check_error(struct buf *error)
{
    const char *text = buf_c_str(error);
    FUZZ_CHECK(text != NULL);
    bool variable = strncmp(text, "CHANNELD_", 9) == 0;
    bool flag = strncmp(text, "--", 2) == 0;
    bool word = strcmp(text, "unexpected argument (see --help)") == 0;
    FUZZ_CHECK(word || ((variable || flag) && strstr(text, ": ") != NULL));
}

static void check_numbers(struct span line)
{
    struct addr address;
    int64_t number = 0;
    char digits[INT64_DIGITS_MAX];
    struct span value = span_skip(line, span_find(line, '='));
    value = value.len > 0 ? span_skip(value, 1) : value;
    if (parse_int64(value, &number) == 0)
        FUZZ_CHECK(span_equal((struct span){digits, format_int64(number, digits)}, value));
    FUZZ_CHECK(parse_amount(value, &text_durations, &number) != 0 || number >= 0);
    FUZZ_CHECK(parse_amount(value, &text_sizes, &number) != 0 || number >= 0);
    if (addr_parse(value, &address) == 0) {
        char text[ADDR_TEXT_MAX];
        addr_write(&address, text);
        FUZZ_CHECK(addr_parse(span_of(text), &address) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span input = fuzz_input(data, size);
    struct config config = {.workers = 0};
    struct buf error = BUF_INIT;
    struct flags flags;
    read_flags(&flags, input);
    int result = config_read(&config, flags.argc, flags.argv, &error);
    bool is_run = true;
    for (int i = 0; i < CONFIG_FLAGS; i++)
        is_run = is_run && config.args.flag[i] == NULL;
    FUZZ_CHECK(result == 0 || result == -EINVAL);
    if (result == 0 && is_run)
        check_printed(&config);
    else if (result != 0)
        check_error(&error);
    settings_fini(&config_usage, &config.values);
    free_flags(&flags);
    buf_fini(&error);
    while (input.len > 0)
        check_numbers(fuzz_take(&input, '\n'));
    return 0;
}
