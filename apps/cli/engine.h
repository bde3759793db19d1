/* engine.h -- a model as the options of a command ask for it. */
#ifndef CLI_ENGINE_H
#define CLI_ENGINE_H
#include "open.h"

/* How operand 0 is to be loaded; makes it the subject of errors. What the options point to lives as long as `args`. */
td_status cli_load_options(cli_args *args, td_load_options *options, td_error *err);
/* Loads it that way. */
td_status cli_open_model(cli_args *args, td_model **model, td_error *err);
#endif
