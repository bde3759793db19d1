/* code.c -- where the C compiler is, and where its work is kept: what the environment says of it. */
#include <treadle/defaults.h>

#include "options.h"

static void warn(void *user, const char *text) { fprintf(stderr, "treadle: %s: %s\n", (const char *)user, text); }

td_status cli_code_options(const cli_args *args, td_load_options *options, td_error *err) {
  const char *given = cli_value(args, "cc");
  const bool none = given && strcmp(given, "none") == 0;
  td_defaults *room = base_new(args->arena, td_defaults, 1);
  if (!room) return base_no_memory(err, "options");
  if (given && strchr(given, '/')) options->cc = given;
  else if (given && !none && td_find_program(given, room->cc, sizeof room->cc)) options->cc = room->cc;
  if (given && !none && !options->cc)
    return base_fail(err, TD_BAD_ARGUMENT, given, -1, "there is no program called %s", given);
  td_load_defaults(options, room);
  if (none) options->cc = NULL;
  options->trusted = cli_flag(args, "trusted");
  options->tiered = cli_flag(args, "tiered");
  options->strict = cli_flag(args, "strict");
  int64_t limit = 0;
  TRY(cli_int(args, "cc-limit-ms", 1, UINT32_MAX, &limit, err));
  options->cc_limit_ms = (uint32_t)limit;
  options->warn = warn;
  options->warn_user = (void *)(uintptr_t)(args->operand_count ? args->operands[0] : "generated code");
  return TD_OK;
}
