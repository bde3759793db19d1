/* collector.c -- the collector of ITT ranges that a profiler such as VTune has left in the environment. */
#include <stdlib.h>
#include <string.h>

#include "collector.h"

td_status cli_collector_open(const cli_args *args, td_collector **collector, td_error *err) {
  static const char variable[] = "INTEL_LIBITTNOTIFY64";
  if (!cli_value(args, "itt")) return TD_OK;
  const char *library = getenv(variable);
  if (library && *library) return td_collector_open(library, collector, err);
  return base_fail(err, TD_BAD_ARGUMENT, "--itt", -1,
                   "there is no collector: start this command with one (`vtune -collect hotspots -- treadle ...`), or "
                   "put the path of its library into %s",
                   variable);
}

td_status cli_collect(const cli_args *args, td_session *session, td_collector *collector, td_error *err) {
  const char *what = cli_value(args, "itt");
  return collector ? td_session_collect(session, collector, strcmp(what, "shapes") == 0, err) : TD_OK;
}
