/* IMF-fixdate; see date.h. The names are English whatever the locale. */
#include "http/date.h"

#include <stdio.h>

void http_date_refresh(struct http_date *d)
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t now = time(NULL);
    if (now == d->second && d->text[0] != '\0')
        return;
    struct tm tm;
    (void)gmtime_r(&now, &tm);
    char text[96]; /* room for what the compiler thinks an int can print as */
    (void)snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[tm.tm_wday], tm.tm_mday,
                   months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
    memcpy(d->text, text, HTTP_DATE_LEN);
    d->second = now;
}
