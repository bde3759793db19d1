/* tuning.c -- the numbers that `treadle tune` found for this machine, in a file. */
#include "tuning.h"

#include <stdio.h>

#include "sys/sys.h"

td_status cli_tuning_place(app_kept *k, td_error *err) {
  sys_machine m;
  sys_machine_read(&m);
  snprintf(k->key, sizeof k->key, "%s %u/%u; isa %x; treadle %s", m.cpu_name, m.cpu_family, m.cpu_model, m.isa,
           td_version());
  return app_kept_place(k, "tuning", "txt") ? TD_OK : app_no_cache(err);
}

td_status cli_tuning_of(const cli_args *args, const char **text, td_error *err) {
  app_kept k;
  char numbers[CLI_TUNING_TEXT];
  *text = NULL;
  if (!cli_flag(args, "tuned")) return TD_OK;
  TRY(cli_tuning_place(&k, err));
  if (!app_kept_read(&k, numbers, sizeof numbers))
    return base_fail(err, TD_BAD_FILE, NULL, -1, "nothing is known of this machine yet: run `treadle tune` first");
  *text = base_arena_text(args->arena, numbers);
  return *text ? TD_OK : base_no_memory(err, "the tuning");
}
