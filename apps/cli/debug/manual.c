/* manual.c -- the manual page treadle(1) in roff, made from the table of sub-commands. */
#include "cli/debug/pages.h"

#include <string.h>

/* Text with what roff would take for markup made harmless: backslashes, minus signs, and dots or quotes that open a
 * line. */
static void print_roff(const char *text, size_t length, FILE *to) {
  bool line_start = true;
  for (size_t i = 0; i < length; i++) {
    char c = text[i];
    if (line_start && (c == '.' || c == '\'')) fputs("\\&", to);
    if (c == '\\') {
      fputs("\\e", to);
    } else if (c == '-') {
      fputs("\\-", to);
    } else {
      fputc(c, to);
    }
    line_start = c == '\n';
  }
}

static void print_paragraphs(const char *text, FILE *to) {
  while (*text) {
    const char *end = strstr(text, "\n\n");
    size_t length = end ? (size_t)(end - text) : strlen(text);
    fprintf(to, ".PP\n");
    print_roff(text, length, to);
    fprintf(to, "\n");
    text += length;
    text += strspn(text, "\n");
  }
}

static void print_option(const cli_option *option, FILE *to) {
  fprintf(to, ".TP\n\\fB%s", option->name[1] ? "\\-\\-" : "\\-");
  print_roff(option->name, strlen(option->name), to);
  fprintf(to, "\\fR");
  if (option->value) {
    fprintf(to, " \\fI");
    print_roff(option->value, strlen(option->value), to);
    fprintf(to, "\\fR%s", option->repeats ? " ..." : "");
  }
  fprintf(to, "\n");
  print_roff(option->help, strlen(option->help), to);
  if (option->choices) {
    fprintf(to, " (");
    print_roff(option->choices, strlen(option->choices), to);
    fprintf(to, ")");
  }
  fprintf(to, "\n");
}

static void print_command(const cli_command *command, FILE *to) {
  fprintf(to, ".SS \"treadle %s", command->name);
  fprintf(to, "%s", command->operands[0] ? " " : "");
  print_roff(command->operands, strlen(command->operands), to);
  fprintf(to, "%s\"\n", command->option_count ? " [OPTION]..." : "");
  print_roff(command->summary, strlen(command->summary), to);
  fprintf(to, ".\n");
  if (command->text) print_paragraphs(command->text, to);
  for (uint32_t i = 0; i < command->option_count; i++) print_option(&command->options[i], to);
  if (!command->examples) return;
  fprintf(to, ".PP\nExamples:\n.PP\n.nf\n");
  print_roff(command->examples, strlen(command->examples), to);
  fprintf(to, "\n.fi\n");
}

void cli_print_man(FILE *to) {
  fprintf(to,
          ".TH TREADLE 1 \"\" \"treadle %s\" \"User Commands\"\n.SH NAME\ntreadle \\- run trained models on the CPU\n",
          td_version());
  fprintf(to, ".SH SYNOPSIS\n.B treadle\n\\fICOMMAND\\fR [\\fIOPTION\\fR]... [\\fIOPERAND\\fR]...\n");
  fprintf(to, ".SH DESCRIPTION\nLoads a trained model, compiles it for the CPU it finds itself on, and runs it.\n");
  fprintf(to, ".SH COMMANDS\n");
  for (const cli_command *const *c = cli_commands; *c; c++) print_command(*c, to);
  static const char *const statuses[] = {"done",
                                         "the answer is no: a check failed",
                                         "usage: an unknown option, name or shape",
                                         "a bad input file",
                                         "an unsupported operator or feature",
                                         "out of memory or another resource",
                                         "internal error"};
  fprintf(to, ".SH EXIT STATUS\n");
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) fprintf(to, ".TP\n%zu\n%s\n", i, statuses[i]);
  fprintf(to, ".SH ENVIRONMENT\n.TP\nNO_COLOR\nwhen set, no colours are used.\n");
}
