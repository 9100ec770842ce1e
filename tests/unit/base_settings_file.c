/* Settings from files: what of the file is the value, and which files are errors. */
#include "unit/settings.h"

#include <errno.h>

#include "support/tempdir.h"
#include "support/text.h"

static struct tempdir dir;

/* A file in the tests' folder; the path is borrowed until the next call. */
static char *file_with(const void *bytes, size_t n)
{
    static char path[TEMPDIR_PATH_SIZE + 8];
    (void)snprintf(path, sizeof path, "%s/value", dir.path);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static char *file_with_text(const char *text)
{
    return file_with(text, strlen(text));
}

TEST(a_file_gives_the_value_without_its_newline)
{
    static const struct {
        const char *content;
        const char *value;
    } cases[] = {
        {"secret", "secret"},
        {"secret\n", "secret"},
        {"secret\r\n", "secret"},
        {"secret\n\n", "secret\n"},
        {" secret ", " secret "},
        {"secret\r", "secret\r"},
        {"a\nb\n", "a\nb"},
        {"", ""},
        {"\n", ""},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct run r;
        RUN(&r, "--password-file", file_with_text(cases[i].content));
        assert_int_equal(r.result, 0);
        assert_string_equal(r.values.secret, cases[i].value);
        run_fini(&r);
    }
}

TEST(a_file_can_be_named_by_the_environment)
{
    struct run r;
    set("CHANNELD_WORKERS_FILE", file_with_text("12\n"));
    RUN_PLAIN(&r);
    assert_int_equal(r.result, 0);
    assert_int_equal(r.values.workers, 12);
    run_fini(&r);
}

TEST(a_file_named_by_a_flag_wins_over_the_environment)
{
    struct run r;
    set("CHANNELD_PASSWORD", "from-env");
    RUN(&r, "--password-file", file_with_text("from-file\n"));
    assert_int_equal(r.result, 0);
    assert_string_equal(r.values.secret, "from-file");
    run_fini(&r);
}

TEST(file_forms_are_for_those_settings_that_allow_them)
{
    struct run r;
    RUN(&r, "--channel-host-file", file_with_text("x"));
    assert_run_failed(&r, "--channel-host-file");
    run_fini(&r);
    set("CHANNELD_CHANNEL_HOST_FILE", file_with_text("x"));
    RUN_PLAIN(&r);
    assert_int_equal(r.result, 0);
    assert_string_equal(r.values.host, "max.ru");
    run_fini(&r);
}

TEST(a_file_that_cannot_be_read_is_an_error_with_its_name)
{
    struct run r;
    RUN(&r, "--password-file=/nonexistent/password");
    assert_run_failed(&r, "--password-file");
    assert_non_null(strstr(buf_c_str(&r.error), "/nonexistent/password: No such file"));
    run_fini(&r);
    RUN(&r, "--password-file", dir.path);
    assert_run_failed(&r, "--password-file");
    run_fini(&r);
    set("CHANNELD_PASSWORD_FILE", "/nonexistent/password");
    RUN_PLAIN(&r);
    assert_run_failed(&r, "CHANNELD_PASSWORD_FILE");
    run_fini(&r);
}

TEST(a_file_may_hold_64_kib_and_no_more)
{
    enum { LIMIT = 64 * 1024 };
    char *text = text_repeat('x', LIMIT + 1);
    struct run r;
    RUN(&r, "--password-file", file_with(text, LIMIT));
    assert_int_equal(r.result, 0);
    assert_int_equal(strlen(r.values.secret), LIMIT);
    run_fini(&r);
    RUN(&r, "--password-file", file_with(text, LIMIT + 1));
    assert_run_failed(&r, "--password-file");
    run_fini(&r);
    free(text);
}

TEST(a_nul_byte_in_a_file_is_an_error_not_an_end)
{
    struct run r;
    RUN(&r, "--password-file", file_with("sec\0ret", 7));
    assert_run_failed(&r, "--password-file");
    run_fini(&r);
}

TEST(value_and_file_at_one_level_exclude_each_other)
{
    struct run r;
    char *path = file_with_text("from-file");
    RUN(&r, "--password", "x", "--password-file", path);
    assert_run_failed(&r, "--password-file");
    run_fini(&r);
    RUN(&r, "--password-file", path, "--password", "x");
    assert_run_failed(&r, "--password");
    run_fini(&r);
    set("CHANNELD_PASSWORD", "x");
    set("CHANNELD_PASSWORD_FILE", path);
    RUN_PLAIN(&r);
    assert_int_equal(r.result, -EINVAL);
    assert_non_null(strstr(buf_c_str(&r.error), "CHANNELD_PASSWORD and CHANNELD_PASSWORD_FILE"));
    run_fini(&r);
}

TEST(a_bad_number_in_a_file_names_what_named_the_file)
{
    struct run r;
    set("CHANNELD_WORKERS_FILE", file_with_text("many"));
    RUN_PLAIN(&r);
    assert_run_failed(&r, "CHANNELD_WORKERS_FILE");
    run_fini(&r);
}

static int open_dir(void **state)
{
    (void)state;
    tempdir_init(&dir);
    return 0;
}

static int close_dir(void **state)
{
    (void)state;
    tempdir_fini(&dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLEAN(a_file_gives_the_value_without_its_newline),
        CLEAN(a_file_can_be_named_by_the_environment),
        CLEAN(a_file_named_by_a_flag_wins_over_the_environment),
        CLEAN(file_forms_are_for_those_settings_that_allow_them),
        CLEAN(a_file_that_cannot_be_read_is_an_error_with_its_name),
        CLEAN(a_file_may_hold_64_kib_and_no_more),
        CLEAN(a_nul_byte_in_a_file_is_an_error_not_an_end),
        CLEAN(value_and_file_at_one_level_exclude_each_other),
        CLEAN(a_bad_number_in_a_file_names_what_named_the_file),
    };
    return cmocka_run_group_tests(tests, open_dir, close_dir);
}
