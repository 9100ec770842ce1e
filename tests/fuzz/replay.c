/*
 * Runs a fuzz target on files and folders of files, for compilers without libFuzzer: seeds, and inputs that
 * once failed, are tests of every build.
 *
 *     TARGET FILE...              each unchanged
 *     TARGET --insert X FILE...   each with X and '@', X and 'A', ... at every place of its first line
 */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

enum { INSERTED_MAX = 48 };

static int replayed;
static char inserted; /* 0: nothing is */

static void run(struct span bytes)
{
    char *exact = fuzz_copy(bytes);
    (void)LLVMFuzzerTestOneInput((const uint8_t *)exact, bytes.len);
    free(exact);
    replayed++;
}

static void run_with_insertions(struct span bytes)
{
    struct buf changed = BUF_INIT;
    for (size_t at = 0; at <= span_find(bytes, '\n'); at++) {
        for (int n = 0; n < INSERTED_MAX; n++) {
            buf_clear(&changed);
            buf_append(&changed, bytes.data, at);
            buf_append_char(&changed, inserted);
            buf_append_char(&changed, (char)('@' + n));
            buf_append_span(&changed, span_skip(bytes, at));
            run(buf_span(&changed));
        }
    }
    buf_fini(&changed);
}

static void replay_file(const char *path)
{
    struct buf bytes = BUF_INIT;
    char chunk[4096];
    size_t n = 0;
    FILE *f = fopen(path, "rb");
    FUZZ_CHECK(f != NULL);
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
        buf_append(&bytes, chunk, n);
    FUZZ_CHECK(ferror(f) == 0 && buf_error(&bytes) == 0);
    (void)fclose(f);
    (void)fprintf(stderr, "%s: %zu bytes\n", path, bytes.len);
    if (inserted != 0)
        run_with_insertions(buf_span(&bytes));
    else
        run(buf_span(&bytes));
    buf_fini(&bytes);
}

static void replay(const char *path);

static void replay_folder(const char *path, DIR *folder)
{
    struct dirent *entry = NULL;
    while ((entry = readdir(folder)) != NULL) {
        struct buf name = BUF_INIT;
        if (entry->d_name[0] == '.')
            continue;
        buf_printf(&name, "%s/%s", path, entry->d_name);
        replay(buf_c_str(&name));
        buf_fini(&name);
    }
}

static void replay(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        replay_file(path);
        return;
    }
    replay_folder(path, folder);
    (void)closedir(folder);
}

int main(int argc, char **argv)
{
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "--insert") == 0) {
        inserted = argv[2][0];
        first = 3;
    }
    for (int i = first; i < argc; i++)
        replay(argv[i]);
    (void)fprintf(stderr, "%d inputs\n", replayed);
    return replayed > 0 ? 0 : 1;
}
