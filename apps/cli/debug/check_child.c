/* check_child.c -- one case in a process of its own. Whatever ends it (a signal, an exit status) is the result. */
#include <string.h>

#include "common/isolate.h"
#include "check.h"
#include "common/measure.h"

typedef struct child {
  const char *folder;
  const check_settings *settings;
} child;

static void run_case(void *user, void *to) {
  const child *c = user;
  check_result *result = to;
  const double start = app_now_ms();
  result->status = check_case(c->folder, c->settings, &result->err);
  result->ms = app_now_ms() - start;
}

void check_case_isolated(const char *folder, const check_settings *settings, check_result *result) {
  child c = {folder, settings};
  app_end end;
  td_error *err = &result->err;
  *result = (check_result){.err.offset = -1};
  const td_status status = app_run_isolated(run_case, &c, result, sizeof *result, settings->limit_s, &end, err);
  if (status != TD_OK) result->status = status;
  else if (end.late)
    result->status = base_fail(err, TD_NO_RESOURCE, NULL, -1, "not done after %u s (--time-limit)", settings->limit_s);
  else if (end.signal) result->status = base_fail(err, TD_INTERNAL, NULL, -1, "crashed: %s", strsignal(end.signal));
  else if (!end.done)
    result->status = base_fail(err, TD_INTERNAL, NULL, -1, "ended with exit status %d", end.exit_code);
}
