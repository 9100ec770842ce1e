/* Dates. */
#include "model/channel.c"

#include "proof.h"

static int number_in(struct span text, size_t from, size_t to)
{
    int value = 0;
    for (size_t i = from; i < to; i++)
        value = value < 0 || text.data[i] < '0' || text.data[i] > '9' ? -1 : value * 10 + text.data[i] - '0';
    return value;
}

static bool is_between(int value, int least, int most)
{
    return value >= least && value <= most;
}

/* The days of a month, without a table. */
static int days_of(int year, int month)
{
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month == 2 ? 28 + leap : 30 + (month + (month > 7)) % 2;
}

static bool is_date(struct span text)
{
    int year = number_in(text, 0, 4);
    int month = number_in(text, 5, 7);
    return year >= 0 && is_between(month, 1, 12) &&
           is_between(number_in(text, 8, 10), 1, days_of(year, month)) && text.data[4] == '-' &&
           text.data[7] == '-';
}

void datetime(void)
{
    char bytes[DATETIME_LEN + 1];
    struct span text = ANY_TEXT(bytes);
    bool valid = text.len == DATETIME_LEN && is_date(text) && text.data[10] == 'T' &&
                 is_between(number_in(text, 11, 13), 0, 23) && is_between(number_in(text, 14, 16), 0, 59) &&
                 is_between(number_in(text, 17, 19), 0, 59) && text.data[13] == ':' && text.data[16] == ':';
    assert(datetime_valid(text) == valid);
}
