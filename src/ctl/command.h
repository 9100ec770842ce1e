/* The commands. Each gets its words without its own name in front and returns the exit code. */
#ifndef CTL_COMMAND_H
#define CTL_COMMAND_H

#include "ctl/options.h"

int command_load(const struct options *o, int words, char **word);
int command_keys(const struct options *o, int words, char **word);
int command_verify(const struct options *o, int words, char **word);
int command_sample(const struct options *o, int words, char **word);

#endif
