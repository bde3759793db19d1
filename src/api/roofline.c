/* roofline.c -- what the machine can do: the public face of the runtime's measurement. */
#include "api/api_priv.h"
#include "runtime/roofline.h"

td_status td_roofline_measure(const td_roofline_options *options, td_roofline *roofline, td_error *err) {
  td_roofline_options o = {0};
  if (!roofline) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_roofline_measure needs a place for the figures");
  TRY(api_read_options(&o, sizeof o, options, err));
  sys_machine machine;
  sys_machine_read(&machine);
  td_roofline all;
  TRY(run_roofline(o.threads ? o.threads : machine.threads, o.seconds > 0 ? o.seconds : 2, &all, err));
  return api_write_stats(roofline, &all, sizeof all, err);
}
