/* Dates; see datetime.h. */
#include "model/datetime.h"

#include <time.h>

enum { DATE_LEN = 10 };

/* The two-digit or four-digit number at `s`, or -1. */
static int number(const char *s, int digits)
{
    int value = 0;
    for (int i = 0; i < digits; i++) {
        if (s[i] < '0' || s[i] > '9')
            return -1;
        value = value * 10 + (s[i] - '0');
    }
    return value;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

bool date_valid(struct span text)
{
    if (text.len != DATE_LEN || text.data[4] != '-' || text.data[7] != '-')
        return false;
    int year = number(text.data, 4);
    int month = number(text.data + 5, 2);
    int day = number(text.data + 8, 2);
    return year >= 0 && month >= 1 && month <= 12 && day >= 1 && day <= days_in_month(year, month);
}

static bool below(const char *s, int limit)
{
    int n = number(s, 2);
    return n >= 0 && n < limit;
}

bool datetime_valid(struct span text)
{
    if (text.len != DATETIME_LEN || !date_valid((struct span){text.data, DATE_LEN}))
        return false;
    const char *t = text.data;
    return t[10] == 'T' && below(t + 11, 24) && t[13] == ':' && below(t + 14, 60) && t[16] == ':' &&
           below(t + 17, 60);
}

int64_t datetime_to_unix(struct span text)
{
    const char *t = text.data;
    struct tm tm = {.tm_year = number(t, 4) - 1900,
                    .tm_mon = number(t + 5, 2) - 1,
                    .tm_mday = number(t + 8, 2),
                    .tm_hour = number(t + 11, 2),
                    .tm_min = number(t + 14, 2),
                    .tm_sec = number(t + 17, 2)};
    return timegm(&tm);
}
