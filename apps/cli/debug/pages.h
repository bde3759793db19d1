/* pages.h -- what is made from the rows of all commands: the manual page, and the completion for bash. */
#ifndef CLI_DEBUG_PAGES_H
#define CLI_DEBUG_PAGES_H
#include "cli/cli.h"

void cli_print_man(FILE *to);
td_status cli_print_completion(base_arena *arena, FILE *to, td_error *err);
#endif
