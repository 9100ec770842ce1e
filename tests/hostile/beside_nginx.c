/*
 * Sends every hostile shape to channeld and to this machine's nginx and prints a table of what came of it. No
 * test: the shapes are tested by smuggling.c. tests/hostile/beside-nginx runs it.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostile/nginx.h"
#include "hostile/shapes.h"

static void print_row(int ours, int theirs, const struct shape *shape)
{
    char *channeld = shape_send(ours, shape, SIZE_MAX);
    char *nginx = shape_send(theirs, shape, SIZE_MAX);
    const char *mark = strcmp(channeld, shape->expected) == 0 ? "" : " (!)";
    (void)printf("| %s | %s%s | %s |\n", shape->name, channeld, mark, nginx);
    free(channeld);
    free(nginx);
}

TEST_CASE(table)
{
    struct fixture *fixture = *state;
    struct nginx nginx;
    nginx_start(&nginx, "");
    (void)printf("| shape | channeld | nginx |\n|---|---|---|\n");
    for (size_t i = 0; shape_lists[i] != NULL; i++) {
        for (const struct shape *shape = shape_lists[i]; shape->name != NULL; shape++)
            print_row(fixture->server.port, nginx.port, shape);
    }
    nginx_stop(&nginx);
}

FIXTURE(3, NULL)
