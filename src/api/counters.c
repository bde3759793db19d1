/* counters.c -- hardware counters over runs: the public face of profile/counters.h. */
#include <treadle/experimental.h>

#include <string.h>

#include "api/api_priv.h"
#include "profile/counters.h"

static td_status run_once(void *user, td_error *err) { return td_session_run(user, err); }

static void observe(void *user, const td_observer *observer) { td_session_observe(user, observer, NULL); }

static const char *class_of_step(void *user, uint32_t step) {
  const td_session *session = user;
  uint32_t number;
  const plan_exe *plan = api_plan_of(session->model, step, &number);
  const plan_step *s = &plan->steps.at[number];
  return td_class_of(s->kind == PLAN_CALL ? plan_name(plan, plan->functions.at[s->function].op) : "");
}

td_status td_session_count(td_session *session, const char *level, uint32_t runs, td_write_fn write, void *user,
                           td_error *err) {
  if (!session || !write || runs < 1)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_session_count needs a session, runs, and a place for text");
  if (!base_str_listed("tma,tma1,tma2,tma3,ipc", level ? level : ""))
    return base_fail(
        err, TD_BAD_ARGUMENT, NULL, -1,
        "counters have no level '%s': there are tma (all of a top-down analysis), tma1, tma2, tma3 and ipc",
        level ? level : "");
  sys_machine machine;
  sys_machine_read(&machine);
  const sys_counters counters = sys_counters_here();
  const prof_counting counting = {.counters = &counters,
                                  .family = prof_family_of(machine.cpu_vendor, machine.cpu_family, machine.cpu_model),
                                  .cpu = machine.cpu_name,
                                  .level = level,
                                  .runs = runs,
                                  .run = run_once,
                                  .user = session,
                                  .observe = observe,
                                  .class_of_step = class_of_step,
                                  .threads = run_session_threads(session->run),
                                  .steps = session->model->stats.steps};
  return prof_count(&counting, &session->allocator, write, user, err);
}
