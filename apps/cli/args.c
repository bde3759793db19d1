/* args.c -- words of the command line to cli_args, by the option table of the sub-command.
 *
 * --name VALUE and --name=VALUE are the same; -- ends the options; a lone - is an operand. */
#include "cli.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static td_status usage_error(const cli_command *command, td_error *err, const char *what, base_str word) {
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "%s '%.*s'; see `treadle help %s`", what, (int)word.length, word.at,
                   command->name);
}

static const cli_option *find_option(const cli_command *command, base_str name) {
  for (uint32_t i = 0; i < command->option_count; i++) {
    if (base_str_is(name, command->options[i].name)) return &command->options[i];
  }
  return NULL;
}

/* Letters to change, add or take away to make one word of the other (Levenshtein 1965); words of up to 31 letters. */
static size_t distance(base_str a, const char *b) {
  size_t row[32], n = strlen(b);
  if (n > 31 || a.length > 31) return SIZE_MAX;
  for (size_t k = 0; k <= n; k++) row[k] = k;
  for (size_t i = 0; i < a.length; i++) {
    size_t before = row[0]++;
    for (size_t k = 0; k < n; k++) {
      const size_t change = before + (a.at[i] != b[k]), one = (row[k] < row[k + 1] ? row[k] : row[k + 1]) + 1;
      before = row[k + 1];
      row[k + 1] = change < one ? change : one;
    }
  }
  return row[n];
}

bool cli_nearer(base_str word, const char *name, const char **nearest) {
  const size_t most = *nearest ? distance(word, *nearest) : word.length / 3 + 2;
  if (distance(word, name) >= most) return false;
  *nearest = name;
  return true;
}

static td_status unknown_option(const cli_command *command, base_str word, base_str name, td_error *err) {
  const char *nearest = NULL;
  for (uint32_t i = 0; i < command->option_count; i++) cli_nearer(name, command->options[i].name, &nearest);
  if (!nearest) return usage_error(command, err, "unknown option", word);
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "unknown option '%.*s'; is --%s meant? See `treadle help %s`",
                   (int)word.length, word.at, nearest, command->name);
}

const char *cli_dashes(const cli_option *option) { return option->name[1] ? "--" : "-"; }

static bool is_choice(const char *choices, const char *value) {
  size_t length = strlen(value);
  for (const char *at = choices; *at; at += strspn(at, " ")) {
    size_t word = strcspn(at, " ");
    if (word == length && memcmp(at, value, length) == 0) return true;
    at += word;
  }
  return false;
}

static td_status add_given(cli_args *args, const cli_option *option, const char *value, td_error *err) {
  if (!option->repeats) {
    for (uint32_t i = 0; i < args->given_count; i++) {
      if (args->given[i].option == option) {
        return usage_error(args->command, err, "given twice:", base_str_of(option->name));
      }
    }
  }
  if (value && option->choices && !is_choice(option->choices, value)) {
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--%s '%s': choose one of: %s", option->name, value,
                     option->choices);
  }
  args->given[args->given_count++] = (cli_given){option, value};
  return TD_OK;
}

/* Takes the option at words[*at], and its value if it has one; *at is left at the last word taken. */
static td_status take_option(cli_args *args, int count, char **words, int *at, td_error *err) {
  const char *word = words[*at];
  size_t dashes = word[1] == '-' ? 2 : 1;
  const char *equals = strchr(word, '=');
  base_str name = {word + dashes, equals ? (size_t)(equals - word) - dashes : strlen(word + dashes)};
  const cli_option *option = (dashes == 2) == (name.length > 1) ? find_option(args->command, name) : NULL;
  if (!option) return unknown_option(args->command, base_str_of(word), name, err);
  if (!option->value) {
    if (equals) return usage_error(args->command, err, "takes no value:", base_str_of(word));
    return add_given(args, option, NULL, err);
  }
  if (equals) return add_given(args, option, equals + 1, err);
  if (*at + 1 == count) return usage_error(args->command, err, "a value is missing after", base_str_of(word));
  return add_given(args, option, words[++*at], err);
}

td_status cli_parse(const cli_command *command, int count, char **words, base_arena *arena, cli_args *args, bool *help,
                    td_error *err) {
  *args = (cli_args){.command = command, .arena = arena};
  *help = false;
  args->operands = base_new(arena, const char *, (size_t)count + 1);
  args->given = base_new(arena, cli_given, (size_t)count + 1);
  if (!args->operands || !args->given) return base_no_memory(err, "arguments");
  bool options = true;
  for (int i = 0; i < count; i++) {
    const char *word = words[i];
    if (!options || word[0] != '-' || !word[1]) {
      args->operands[args->operand_count++] = word;
    } else if (strcmp(word, "--") == 0) {
      options = false;
    } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
      *help = true;
      return TD_OK;
    } else {
      TRY(take_option(args, count, words, &i, err));
    }
  }
  if (args->operand_count < command->min_operands) {
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "%s is missing; see `treadle help %s`", command->operands,
                     command->name);
  }
  if (args->operand_count > command->max_operands) {
    return usage_error(command, err, "one word too many:", base_str_of(args->operands[command->max_operands]));
  }
  return TD_OK;
}

bool cli_flag(const cli_args *args, const char *option) {
  for (uint32_t i = 0; i < args->given_count; i++) {
    if (strcmp(args->given[i].option->name, option) == 0) return true;
  }
  return false;
}

const char *cli_value(const cli_args *args, const char *option) {
  uint32_t cursor = 0;
  return cli_next(args, option, &cursor);
}

const char *cli_next(const cli_args *args, const char *option, uint32_t *cursor) {
  while (*cursor < args->given_count) {
    const cli_given *given = &args->given[(*cursor)++];
    if (strcmp(given->option->name, option) == 0) return given->value;
  }
  return NULL;
}

td_status cli_int(const cli_args *args, const char *option, int64_t low, int64_t high, int64_t *value, td_error *err) {
  const char *text = cli_value(args, option);
  if (!text) return TD_OK;
  int64_t number;
  if (!base_str_int(base_str_of(text), &number) || number < low || number > high) {
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--%s '%s': a number from %lld to %lld is needed", option, text,
                     (long long)low, (long long)high);
  }
  *value = number;
  return TD_OK;
}

td_status cli_real(const cli_args *args, const char *option, double low, double high, double *value, td_error *err) {
  const char *text = cli_value(args, option);
  if (!text) return TD_OK;
  char *end;
  double number = strtod(text, &end);
  if (end == text || *end || isnan(number) || number < low || number > high) {
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--%s '%s': a number from %g to %g is needed", option, text, low,
                     high);
  }
  *value = number;
  return TD_OK;
}

void cli_print_given(const cli_args *args, const char *const *without, FILE *to) {
  for (uint32_t i = 0; i < args->given_count; i++) {
    const cli_given *g = &args->given[i];
    size_t k = 0;
    while (without[k] && strcmp(without[k], g->option->name) != 0) k++;
    if (without[k]) continue;
    fprintf(to, " --%s", g->option->name);
    if (g->value) app_print_word(g->value, to);
  }
}
