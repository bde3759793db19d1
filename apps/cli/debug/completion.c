/* completion.c -- a bash completion script made from the table of sub-commands. */
#include "cli/debug/pages.h"
#include "common/known.h"

#include <string.h>

/* What completes a value or operand that the help shows as `placeholder`: a compgen call, or NULL for nothing. */
static const char *completes(const char *placeholder) {
  if (strstr(placeholder, "DIR")) return "compgen -d -- \"$word\"";
  if (strstr(placeholder, "FILE") || strstr(placeholder, "MODEL")) return "compgen -f -- \"$word\"";
  return NULL;
}

static void print_value_cases(const cli_command *command, FILE *to) {
  for (uint32_t i = 0; i < command->option_count; i++) {
    const cli_option *option = &command->options[i];
    if (!option->value) continue;
    const char *call = completes(option->value);
    fprintf(to, "    %s:%s%s) ", command->name, cli_dashes(option), option->name);
    if (strcmp(option->name, "disable-passes") == 0) { /* several, separated by commas */
      fprintf(to, "COMPREPLY=($(compgen -P \"${word%%\"${word##*,}\"}\" -W \"$passes\" -- \"${word##*,}\"))");
    } else if (option->choices) {
      fprintf(to, "COMPREPLY=($(compgen -W '%s' -- \"$word\"))", option->choices);
    } else if (call) {
      fprintf(to, "COMPREPLY=($(%s))", call);
    } else {
      fprintf(to, "COMPREPLY=()");
    }
    fprintf(to, "; return ;;\n");
  }
}

static void print_options_case(const cli_command *command, FILE *to) {
  fprintf(to, "    %s) options='--help", command->name);
  for (uint32_t i = 0; i < command->option_count; i++)
    fprintf(to, " %s%s", cli_dashes(&command->options[i]), command->options[i].name);
  fprintf(to, "' ;;\n");
}

static void print_operand_case(const cli_command *command, FILE *to) {
  const char *call = completes(command->operands);
  if (strstr(command->operands, "COMMAND")) call = "compgen -W \"$commands\" -- \"$word\"";
  if (call) fprintf(to, "    %s) COMPREPLY=($(%s)) ;;\n", command->name, call);
}

td_status cli_print_completion(base_arena *arena, FILE *to, td_error *err) {
  app_name_vec passes = {0};
  TRY(app_known_names(arena, "passes", &passes, err));
  fprintf(to,
          "# bash completion of treadle; made by `treadle help --bash-completion`\n_treadle() {\n"
          "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
          "  local options commands='");
  for (const cli_command *const *c = cli_commands; *c; c++)
    fprintf(to, "%s%s", c == cli_commands ? "" : " ", (*c)->name);
  fprintf(to, "' passes='");
  for (uint32_t i = 0; i < passes.count; i++) fprintf(to, "%s%s", i ? " " : "", passes.at[i]);
  fprintf(
      to,
      "'\n  if ((COMP_CWORD == 1)); then\n    COMPREPLY=($(compgen -W \"$commands\" -- \"$word\"))\n    return\n  fi\n"
      "  case $command:$before in\n");
  for (const cli_command *const *c = cli_commands; *c; c++) print_value_cases(*c, to);
  fprintf(to, "  esac\n  case $command in\n");
  for (const cli_command *const *c = cli_commands; *c; c++) print_options_case(*c, to);
  fprintf(to,
          "  esac\n  if [[ $word == -* ]]; then\n    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n    return\n "
          " fi\n"
          "  case $command in\n");
  for (const cli_command *const *c = cli_commands; *c; c++) print_operand_case(*c, to);
  fprintf(to, "  esac\n}\ncomplete -o filenames -F _treadle treadle\n");
  return TD_OK;
}
