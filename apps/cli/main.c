/* main.c -- `treadle`: finds the sub-command, parses its arguments, runs it, and prints its error once. */
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

static td_status run_command(const cli_command *command, int count, char **words, base_arena *arena) {
  td_error err = {.offset = -1};
  cli_args args;
  bool help;
  td_status status = cli_parse(command, count, words, arena, &args, &help, &err);
  args.words = words - 1;
  if (status == TD_OK && help) {
    cli_print_help(command, stdout);
  } else if (status == TD_OK) {
    status = command->run(&args, &err);
  }
  /* An answer of "no" has been printed as a result; everything else that went wrong is said here. */
  if (status != TD_OK && status != TD_ANSWER_NO) cli_print_error(args.subject ? args.subject : command->name, &err);
  bool printed = fflush(stdout) == 0 && !ferror(stdout);
  if ((status == TD_OK || status == TD_ANSWER_NO) && !printed) {
    cli_note("standard output cannot be written");
    status = TD_NO_RESOURCE;
  }
  return status;
}

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
    if (nearest) cli_note("there is no command '%s'; is '%s' meant? See `treadle help`", name, nearest);
    else cli_note("there is no command '%s'; see `treadle help`", name);
    return TD_BAD_ARGUMENT;
  }
  if (command->program) return (int)cli_become(command->program, words + 1);
  base_arena *arena = base_arena_new(&base_libc_allocator);
  if (!arena) {
    cli_note("out of memory");
    return TD_NO_RESOURCE;
  }
  td_status status = run_command(command, count - 2, words + 2, arena);
  base_arena_free(arena);
  return (int)status;
}
