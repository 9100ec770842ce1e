/*
 * Prints the tables of which --help is printed, for the script `generate` beside this file: a row on each
 * line, the kind of row first, tabs between its columns. It is built and run with the programs, and not
 * installed.
 */
#include "app/config.h"
#include "ctl/command.h"
#include "version.h"

#include <stdio.h>
#include <stdlib.h>

static const char *tables_or_none(const char *text)
{
    return text != NULL ? text : "";
}

static void tables_print_setting(const struct settings *all, const struct setting *s)
{
    const struct settings_args none = {.settings = all};
    struct buf variable = BUF_INIT;
    struct buf bounds = BUF_INIT;
    settings_write_source(&variable, &none, s->name);
    if (s->max > 0) {
        settings_write_number(&bounds, s, s->min);
        buf_append_str(&bounds, " to ");
        settings_write_number(&bounds, s, s->max);
    }
    (void)printf("Setting\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", s->name, buf_message(&variable), settings_kind(s),
                 s->fallback, buf_message(&bounds), s->from_file, s->help);
    buf_fini(&variable);
    buf_fini(&bounds);
}

static void tables_print_usage(const struct usage *u)
{
    (void)printf("Program\t%s\t%s\n", u->program, CHANNELD_VERSION);
    for (const struct settings_flag *f = u->flags; f < u->flags + u->flag_count; f++)
        (void)printf("Flag\t%s\t%s\t%s\n", f->name, tables_or_none(f->value), f->help);
    for (const struct usage_command *c = u->commands; c < u->commands + u->command_count; c++)
        (void)printf("Command\t%s\t%s\t%u\t%u\t%s\n", c->name, tables_or_none(c->argument), c->needs,
                     c->takes, c->help);
    for (const struct usage_exit *e = u->exits; e < u->exits + u->exit_count; e++)
        (void)printf("Exit\t%s\t%s\n", e->code, e->help);
    for (size_t i = 0; i < u->settings->count; i++)
        tables_print_setting(u->settings, &u->settings->table[i]);
}

int main(void)
{
    tables_print_usage(&config_usage);
    tables_print_usage(&ctl_usage);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
