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

static void tables_print_settings(const struct settings *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct setting *one = &s->table[i];
        struct buf bounds = BUF_INIT;
        if (one->max > 0) {
            settings_write_number(&bounds, one, one->min);
            buf_append_str(&bounds, " to ");
            settings_write_number(&bounds, one, one->max);
        }
        (void)printf("setting\t%s\t%s\t%s\t%s\t%d\t%s\n", one->name, settings_kind(one), one->fallback,
                     buf_message(&bounds), one->from_file, one->help);
        buf_fini(&bounds);
    }
}

static void tables_print_usage(const struct usage *u)
{
    (void)printf("program\t%s\t%s\t%s\n", u->program, CHANNELD_VERSION, u->settings->env_prefix);
    for (size_t i = 0; i < u->flag_count; i++)
        (void)printf("flag\t%s\t%s\t%s\n", u->flags[i].name, tables_or_none(u->flags[i].value),
                     u->flags[i].help);
    for (size_t i = 0; i < u->command_count; i++) {
        const struct usage_command *c = &u->commands[i];
        (void)printf("command\t%s\t%s\t%u\t%u\t%s\n", c->name, tables_or_none(c->argument), c->needs,
                     c->takes, c->help);
    }
    for (size_t i = 0; i < u->exit_count; i++)
        (void)printf("exit\t%s\t%s\n", u->exits[i].code, u->exits[i].help);
    tables_print_settings(u->settings);
}

int main(void)
{
    tables_print_usage(&config_usage);
    tables_print_usage(&ctl_usage);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
