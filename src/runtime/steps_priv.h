/* steps_priv.h -- running steps: one, several, and until when. */
#ifndef RUNTIME_STEPS_PRIV_H
#define RUNTIME_STEPS_PRIV_H
#include "runtime/session_priv.h"

/* Runs steps [first, end). */
td_status run_steps(run_frame *f, uint32_t first, uint32_t end);
/* Runs step `number`, a CALL or SHOW, on what its operands hold now. The observer hears of it; of a step that comes
 * again for the next part it hears later, and its time is added to *spent. */
td_status run_call(run_frame *f, uint32_t number, uint64_t *spent);
/* Calls the function of step `number`, for one thread, which has `scratch`: the only place that does. `spent` (may be
 * NULL): its time is added, if anybody wants to know. */
td_status run_function(const run_session *s, uint32_t number, const base_call *call, run_stack *scratch,
                       uint32_t thread, uint64_t *spent);
/* Compares the planned sizes of step `number` with what its operands say, unless that was done and holds. */
td_status run_check(run_frame *f, uint32_t number);
/* Stores `from` (in slot `source`) into slot `target`: by copy where the target is planned or the source will be
 * reused. */
td_status run_assign(run_frame *f, uint32_t target, uint32_t source);
/* Makes `call` a worker's, with that one's memory and error. */
void run_give_call(base_call *call, run_worker *worker);
/* Names the step at which a run has failed, if the error does not name one yet, and tells in its text what the user's
 * node has become (where.c). Returns `status`. */
td_status run_name_step(const plan_exe *plan, uint32_t number, td_status status, td_error *err);

/* ---- limits ---- */

/* Is the run's time up, or has somebody cancelled it? Then that is the error. */
td_status run_find_end(const run_until *until, td_error *err);
/* The same before step `number`, which the error names. */
td_status run_end_at(const run_session *s, uint32_t number, td_error *err);
static inline td_status run_go_on(const run_session *s, uint32_t number, td_error *err) {
  return s->now.ends_early ? run_end_at(s, number, err) : TD_OK;
}

/* ---- on how many threads (threads.c) ---- */

/* About how long the call takes on one thread. */
double run_estimate_ns(const base_speed *speed, const plan_link *function, const base_call *call);
/* On how many threads should the step run, under the active binding and after what ran before? The results are
 * the same on any number. */
uint16_t run_threads_for(const run_frame *f, uint32_t number);
#endif
