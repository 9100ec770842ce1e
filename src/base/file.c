/* Reading small files; see file.h. */
#include "base/file.h"

#include <stdio.h>

bool file_first_line(const char *path, char *out, int size)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    bool read = fgets(out, size, f) != NULL;
    (void)fclose(f);
    return read;
}
