/* The info of an API key: its names, its times, and what a malformed text means. */
#include "model/api_key.h"

#include "unit/check.h"

static unsigned parse(const char *text, struct api_key_info *info)
{
    return api_key_info_parse(span_of(text), info);
}

TEST_CASE(names_have_1_to_64_of_the_permitted_characters)
{
    char name[API_KEY_NAME_MAX + 1];
    memset(name, 'a', sizeof name);
    assert_false(name_valid(SPAN(""), API_KEY_NAME_MAX));
    assert_false(name_valid(SPAN_ABSENT, API_KEY_NAME_MAX));
    assert_true(name_valid(SPAN("a"), API_KEY_NAME_MAX));
    assert_true(name_valid((struct span){name, API_KEY_NAME_MAX}, API_KEY_NAME_MAX));
    assert_false(name_valid((struct span){name, API_KEY_NAME_MAX + 1}, API_KEY_NAME_MAX));
    for (int c = 0; c < 256; c++) {
        char text[] = {'x', (char)c};
        bool permitted =
            c != 0 && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-", c);
        assert_int_equal(name_valid((struct span){text, 2}, API_KEY_NAME_MAX), permitted);
    }
}

TEST_CASE(times_are_utc_to_the_second)
{
    static const char *const wrong[] = {"",
                                        "2026-11-22T10:00:00",
                                        "2026-11-22T10:00:00z",
                                        "2026-11-22 10:00:00Z",
                                        "2026-11-22T10:00:00.5Z",
                                        "2026-11-22T10:00:00+00:00",
                                        "2026-02-29T10:00:00Z",
                                        "2026-11-22T24:00:00Z",
                                        "2026-11-22T10:00:60Z",
                                        "2026-11-22"};
    int64_t at = 7;
    char text[API_KEY_TIME_LEN];
    for (size_t i = 0; i < TEST_COUNT(wrong); i++)
        assert_false(api_key_time_parse(span_of(wrong[i]), &at));
    assert_false(api_key_time_parse(SPAN_ABSENT, &at));
    assert_int_equal(at, 7);
    assert_true(api_key_time_parse(SPAN("1970-01-01T00:00:00Z"), &at));
    assert_int_equal(at, 0);
    assert_true(api_key_time_parse(SPAN("2026-01-01T00:00:01Z"), &at));
    assert_int_equal(at, 1767225601);
    api_key_time_write(at, text);
    assert_memory_equal(text, "2026-01-01T00:00:01Z", sizeof text);
    assert_true(api_key_time_parse(SPAN("9999-12-31T23:59:59Z"), &at));
    api_key_time_write(at, text);
    assert_memory_equal(text, "9999-12-31T23:59:59Z", sizeof text);
}

TEST_CASE(a_key_is_expired_from_the_second_of_its_expiry_on)
{
    assert_false(api_key_is_expired(100, 99));
    assert_true(api_key_is_expired(100, 100));
    assert_false(api_key_is_expired(API_KEY_NEVER, INT64_MAX - 1));
    assert_true(api_key_is_expired(API_KEY_REFUSED, 0));
}

TEST_CASE(every_member_may_be_absent_or_null)
{
    static const char *const texts[] = {"{}", " { } ", "{\"name\":null,\"issued\":null,\"expires\":null}",
                                        "{\"owner\":[1,{\"expires\":\"x\"}]}"};
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct api_key_info info;
        assert_int_equal(parse(texts[i], &info), 0);
        assert_true(info.expires == API_KEY_NEVER && info.issued == API_KEY_UNKNOWN && info.name.len == 0);
    }
}

TEST_CASE(what_is_written_is_read_again)
{
    struct api_key_info info = {.issued = 1767225600, .expires = 1767225601};
    struct api_key_info again;
    struct buf text = BUF_INIT;
    api_key_name_set(&info.name, SPAN("dash-board_1.x"));
    api_key_info_write(&text, &info);
    assert_buf(&text, "{\"name\":\"dash-board_1.x\",\"issued\":\"2026-01-01T00:00:00Z\","
                      "\"expires\":\"2026-01-01T00:00:01Z\"}");
    assert_int_equal(api_key_info_parse(buf_span(&text), &again), 0);
    assert_true(again.issued == info.issued && again.expires == info.expires);
    assert_true(span_equal(api_key_name_span(&again.name), SPAN("dash-board_1.x")));
    buf_clear(&text);
    info = API_KEY_INFO_NONE;
    api_key_info_write(&text, &info);
    assert_buf(&text, "{}");
    buf_fini(&text);
}

TEST_CASE(malformed_members_are_told_and_a_malformed_expiry_refuses_the_key)
{
    static const struct {
        const char *text;
        unsigned faults;
        bool refused;
    } cases[] = {
        {"", API_KEY_FAULT_FORM, true},
        {"[]", API_KEY_FAULT_FORM, true},
        {"\"x\"", API_KEY_FAULT_FORM, true},
        {"{\"name\":\"x\"", API_KEY_FAULT_FORM, true},
        {"{\"name\":\"\xFF\"}", API_KEY_FAULT_FORM, true},
        {"{\"expires\":\"\"}", API_KEY_FAULT_EXPIRES, true},
        {"{\"expires\":1}", API_KEY_FAULT_EXPIRES, true},
        {"{\"expires\":\"2026-01-01T00:00:00Z\",\"expires\":\"2027-01-01T00:00:00Z\"}", API_KEY_FAULT_EXPIRES,
         true},
        {"{\"expires\":null,\"expires\":\"2027-01-01T00:00:00Z\"}", API_KEY_FAULT_EXPIRES, true},
        {"{\"expires\":\"2027-01-01T00:00:00Z\",\"expires\":null}", API_KEY_FAULT_EXPIRES, true},
        {"{\"name\":\"\"}", API_KEY_FAULT_NAME, false},
        {"{\"name\":\"a b\"}", API_KEY_FAULT_NAME, false},
        {"{\"name\":\"a\",\"name\":\"b\"}", API_KEY_FAULT_NAME, false},
        {"{\"name\":7}", API_KEY_FAULT_NAME, false},
        {"{\"issued\":\"now\"}", API_KEY_FAULT_ISSUED, false},
        {"{\"issued\":1,\"expires\":1,\"name\":1}",
         API_KEY_FAULT_ISSUED | API_KEY_FAULT_EXPIRES | API_KEY_FAULT_NAME, true},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct api_key_info info;
        assert_int_equal(parse(cases[i].text, &info), cases[i].faults);
        assert_int_equal(info.expires == API_KEY_REFUSED, cases[i].refused);
        assert_int_equal(info.name.len, 0);
    }
}

/* Both sides of the limit, and more values than there is memory for. */
TEST_CASE(texts_that_are_too_long_are_malformed)
{
    struct api_key_info info;
    char text[API_KEY_INFO_MAX + 1];
    memset(text, ' ', sizeof text);
    memcpy(text, "{\"name\":\"x\"}", 12);
    assert_int_equal(api_key_info_parse((struct span){text, API_KEY_INFO_MAX}, &info), 0);
    assert_int_equal(info.name.len, 1);
    assert_int_equal(api_key_info_parse((struct span){text, API_KEY_INFO_MAX + 1}, &info),
                     API_KEY_FAULT_FORM);
    memset(text, '[', sizeof text);
    assert_int_equal(api_key_info_parse((struct span){text, API_KEY_INFO_MAX}, &info), API_KEY_FAULT_FORM);
    assert_true(info.expires == API_KEY_REFUSED);
}
