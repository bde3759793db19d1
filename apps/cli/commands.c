/* commands.c -- the table of sub-commands. */
#include "cli.h"

#include <string.h>

const cli_command *const cli_commands[] = {
    &cli_run,      &cli_check,  &cli_bench,   &cli_profile,  &cli_compare_profiles,
    &cli_compare,  &cli_bisect, &cli_minify,  &cli_replay,   &cli_repro,
    &cli_roofline, &cli_tune,   &cli_compile, &cli_quantize, &cli_serve,
    &cli_inspect,  &cli_info,   &cli_launch,  &cli_version,  &cli_help,
    NULL};

const cli_command *cli_find_command(const char *name) {
  for (const cli_command *const *c = cli_commands; *c; c++) {
    if (strcmp((*c)->name, name) == 0) return *c;
  }
  return NULL;
}
