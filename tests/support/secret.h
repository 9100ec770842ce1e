#ifndef TEST_SUPPORT_SECRET_H
#define TEST_SUPPORT_SECRET_H

#include "support/tempdir.h"

/*
 * A volume with a secret, as Kubernetes mounts it. Each name is a link to ..data/<name>, and ..data is a link
 * to the folder of one version, which rename() replaces. Functions fail the test when they cannot do their
 * work.
 */

struct secret {
    struct tempdir dir;
    int version; /* 0: it has no files yet */
};

/* A file of it; the content is borrowed. */
struct secret_file {
    const char *name, *content;
};

void secret_init(struct secret *secret);

/* Removes it. Harmless when done twice. */
void secret_fini(struct secret *secret);

/* Replaces all files at once; the list ends with a name that is NULL. */
void secret_replace(struct secret *secret, const struct secret_file *files);
#define SECRET(secret, ...) secret_replace((secret), (const struct secret_file[]){__VA_ARGS__, {NULL, NULL}})

/* The path of one of its files, borrowed until the program ends. */
const char *secret_path(const struct secret *secret, const char *name);

#endif
