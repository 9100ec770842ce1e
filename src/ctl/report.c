/* Printing problems; see report.h. */
#include "ctl/report.h"

#include "base/encoding.h"
#include "ctl/progress.h"

#include <stdarg.h>
#include <unistd.h>

void report_init(struct report *r, FILE *to)
{
    *r = (struct report){.to = to, .redrawn = isatty(fileno(to)) == 1};
}

void report_problem(struct report *r, const char *format, ...)
{
    if (++r->problems > REPORT_PRINTED_MAX)
        return;
    if (r->redrawn)
        (void)fputs(PROGRESS_WIPE, r->to);
    va_list args;
    va_start(args, format);
    (void)vfprintf(r->to, format, args);
    va_end(args);
    (void)fputc('\n', r->to);
}

void report_finish(const struct report *r)
{
    if (r->problems > REPORT_PRINTED_MAX)
        (void)fprintf(r->to, "and %lld more\n", (long long)(r->problems - REPORT_PRINTED_MAX));
}

const char *report_excerpt(struct span text, char out[REPORT_EXCERPT_MAX])
{
    static const char cut[] = "...";
    size_t used = 0;
    while (text.len > 0) {
        int step = utf8_step(text);
        size_t n = step > 0 ? (size_t)step : (size_t)-step;
        if (used + n + sizeof cut > REPORT_EXCERPT_MAX) {
            memcpy(out + used, cut, sizeof cut);
            return out;
        }
        /* C0, DEL and C1: the last are two bytes in UTF-8, 0xC2 0x80 to 0xC2 0x9F. */
        unsigned char first = (unsigned char)text.data[0];
        bool control = first < 0x20 || first == 0x7F ||
                       (step == 2 && first == 0xC2 && (unsigned char)text.data[1] < 0xA0);
        if (step < 0 || control) {
            out[used++] = '?';
        } else {
            memcpy(out + used, text.data, n);
            used += n;
        }
        text = span_skip(text, n);
    }
    out[used] = '\0';
    return out;
}
