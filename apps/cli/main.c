/* main.c -- `treadle`: finds the sub-command. */
#include "cli.h"

#include <string.h>

int main(int count, char **words) {
  if (count < 2) {
    cli_print_usage(stderr);
    return TD_BAD_ARGUMENT;
  }
  const char *name = words[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
  if (strcmp(name, "--version") == 0) name = "version";
  const cli_command *command = cli_find_command(name);
  if (!command) {
    const char *nearest = NULL;
    for (const cli_command *const *c = cli_commands; *c; c++) cli_nearer(base_str_of(name), (*c)->name, &nearest);
    if (nearest) app_note("there is no command '%s'; is '%s' meant? See `treadle help`", name, nearest);
    else app_note("there is no command '%s'; see `treadle help`", name);
    return TD_BAD_ARGUMENT;
  }
  if (!command->program) return cli_execute(command, command->run, count - 2, words + 2);
  td_error err = {.offset = -1};
  const td_status status = cli_become(command->program, words + 1, &err);
  app_print_error(name, &err);
  return (int)status;
}
