/*
 * Runs a fuzz target on files and folders of files, for compilers without libFuzzer: seeds, and inputs that
 * once failed, are tests of every build.
 */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

static int replayed;

static void run(struct span bytes)
{
    char *exact = fuzz_copy(bytes);
    (void)LLVMFuzzerTestOneInput((const uint8_t *)exact, bytes.len);
    free(exact);
    replayed++;
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
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    (void)fprintf(stderr, "%d inputs\n", replayed);
    return replayed > 0 ? 0 : 1;
}
