/* help.c -- `treadle help`, --help and the usage text, all made from the table of sub-commands. */
#include "cli.h"

#include <string.h>

void cli_print_usage(FILE *to) {
  fprintf(to, "usage: treadle COMMAND ...\n\nLoads a trained model, compiles it for this CPU, and runs it.\n\n");
  for (const cli_command *const *c = cli_commands; *c; c++) fprintf(to, "  %-16s %s\n", (*c)->name, (*c)->summary);
  fprintf(to,
          "\n`treadle help COMMAND` says more. Exit status: 0 done, 1 the answer is no, 2 usage, 3 bad input file,\n"
          "4 unsupported, 5 out of resources, 6 internal error.\n");
}

enum { LINE = 110, INDENT = 29 };

/* Words from column *at on; lines end before LINE and begin at INDENT. */
static void print_words(const char *text, int *at, FILE *to) {
  while (*text) {
    const int length = (int)strcspn(text, " ");
    const bool full = *at > INDENT && *at + 1 + length > LINE;
    const char *before = full ? "\n" : *at > INDENT ? " " : "";
    fprintf(to, "%s%*s%.*s", before, full ? INDENT : 0, "", length, text);
    *at = full ? INDENT + length : *at + (int)strlen(before) + length;
    text += length + (text[length] == ' ');
  }
}

static void print_option(const cli_option *option, FILE *to) {
  char left[48];
  int at = INDENT;
  snprintf(left, sizeof left, "%s%s%s%s%s", cli_dashes(option), option->name, option->value ? " " : "",
           option->value ? option->value : "", option->repeats ? " ..." : "");
  fprintf(to, "  %-26s ", left);
  print_words(option->help, &at, to);
  if (option->choices) {
    print_words("(one of:", &at, to);
    print_words(option->choices, &at, to);
    fputc(')', to);
  }
  fputc('\n', to);
}

void cli_print_help(const cli_command *command, FILE *to) {
  fprintf(to, "usage: treadle %s%s%s%s\n\n%s.\n", command->name, command->operands[0] ? " " : "", command->operands,
          command->option_count ? " [OPTION]..." : "", command->summary);
  if (command->text) fprintf(to, "\n%s\n", command->text);
  if (command->option_count) fprintf(to, "\noptions:\n");
  for (uint32_t i = 0; i < command->option_count; i++) print_option(&command->options[i], to);
  if (!command->examples) return;
  fprintf(to, "\nexamples:\n");
  for (const char *at = command->examples; *at;) {
    size_t length = strcspn(at, "\n");
    fprintf(to, "  %.*s\n", (int)length, at);
    at += length + (at[length] == '\n');
  }
}

static bool is_brief(const cli_command *command) { return command->program && !command->examples; }

static td_status run_help(cli_args *args, td_error *err) {
  const char *name = args->operand_count ? args->operands[0] : NULL;
  const cli_command *command = name ? cli_find_command(name) : NULL;
  if (name && !command)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no command '%s'; see `treadle help`", name);
  if (args->given_count || (command && is_brief(command))) return cli_help_rest(args, err);
  if (command) cli_print_help(command, stdout);
  else cli_print_usage(stdout);
  return TD_OK;
}

static const cli_option help_options[] = {
    {"man", NULL, "print the manual page of all commands, for man(1)", NULL, false},
    {"bash-completion", NULL, "print a completion script, for bash to source", NULL, false},
};

const cli_command cli_help = {
    .name = "help",
    .operands = "[COMMAND]",
    .summary = "describe the commands",
    .examples =
        "treadle help run\n"
        "treadle help --man | man -l -\n"
        "source <(treadle help --bash-completion)",
    .options = help_options,
    .option_count = sizeof help_options / sizeof *help_options,
    .max_operands = 1,
    .run = run_help,
};
