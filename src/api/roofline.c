/* roofline.c -- what the machine can do: the public face of the runtime's measurement. */
#include "api/api_priv.h"
#include "profile/profile.h"
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

td_limits td_limits_of(const td_roofline *roofline, const char *isa, uint32_t threads) {
  return prof_limits_of(roofline, isa, threads);
}

double td_limit_ms(const td_limits *limits, const td_work *work) { return prof_limit_ms(limits, work); }

int32_t td_beats_limit(const td_limits *limits, const td_work *work, double ms) {
  return prof_beats_limit(limits, work, ms);
}
