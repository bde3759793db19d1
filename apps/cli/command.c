/* command.c -- a sub-command: parses its arguments, runs it, and prints its error once. */
#include "cli.h"

static td_status run_command(const cli_command *command, cli_work *run, int count, char **words, base_arena *arena) {
  td_error err = {.offset = -1};
  cli_args args;
  bool help;
  td_status status = cli_parse(command, count, words, arena, &args, &help, &err);
  args.words = words - 1;
  if (status == TD_OK && help) {
    cli_print_help(command, stdout);
  } else if (status == TD_OK) {
    status = run(&args, &err);
  }
  /* An answer of "no" has been printed as a result; everything else that went wrong is said here. */
  if (status != TD_OK && status != TD_ANSWER_NO) app_print_error(args.subject ? args.subject : command->name, &err);
  bool printed = fflush(stdout) == 0 && !ferror(stdout);
  if ((status == TD_OK || status == TD_ANSWER_NO) && !printed) {
    app_note("standard output cannot be written");
    status = TD_NO_RESOURCE;
  }
  return status;
}

int cli_execute(const cli_command *command, cli_work *run, int count, char **words) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  if (!arena) {
    app_note("out of memory");
    return TD_NO_RESOURCE;
  }
  const td_status status = run_command(command, run, count, words, arena);
  base_arena_free(arena);
  return (int)status;
}
