/* main.c -- `treadle-debug COMMAND ...`, which `treadle COMMAND ...` starts with the command for its own name. */
#include <string.h>

#include "cli/debug/pages.h"
#include "cli/faults.h"

static const struct {
  const cli_command *command;
  cli_work *run;
} commands[] = {{&cli_check, cli_run_check},       {&cli_compare, cli_run_compare},
                {&cli_bisect, cli_run_bisect},     {&cli_minify, cli_run_minify},
                {&cli_replay, cli_run_replay},     {&cli_repro, cli_run_repro},
                {&cli_profile, cli_run_profile},   {&cli_compare_profiles, cli_run_compare_profiles},
                {&cli_inspect, cli_run_inspect},   {&cli_bench, cli_run_bench},
                {&cli_roofline, cli_run_roofline}, {&cli_tune, cli_run_tune}};

td_status cli_help_rest(cli_args *args, td_error *err) {
  if (cli_flag(args, "bash-completion")) return cli_print_completion(args->arena, stdout, err);
  cli_print_man(stdout);
  return TD_OK;
}

int main(int count, char **words) {
  for (int at = 0; at < count && at < 2; at++) {
    if (strcmp(words[at], cli_help.name) == 0)
      return cli_execute(&cli_help, cli_help.run, count - at - 1, words + at + 1);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
      if (strcmp(words[at], commands[i].command->name) == 0)
        return cli_execute(commands[i].command, commands[i].run, count - at - 1, words + at + 1);
  }
  app_note(
      "treadle-debug has the commands check, compare, bisect, minify, replay, repro, inspect, profile, "
      "compare-profiles, bench, roofline and tune of `treadle`; see `treadle help`");
  return TD_BAD_ARGUMENT;
}
