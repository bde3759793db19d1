/* threads.c -- on how many threads a step pays.
 *
 * Data that a core has written is in its own caches. Another core reads it at a small fraction of the speed at which it
 * reads its own: a step with little work per byte loses more by that than a second thread gains. What matters is which
 * thread last wrote the operands: steps of little work stay on the caller's thread if it wrote them, and run on several
 * threads if those did. What they write over, which another core may have, is not counted here: who had it depends on
 * where memory was planned. The simulator counts it (bench/walk.h). */
#include "runtime/steps_priv.h"

/* Elements of all operands: even a product of these takes less than a hand-over pays for. */
enum { FEW = 2048 };
static const double there_and_back = 1.5; /* what is spread is fetched at the end, by one thread or by several */
static const double astray = 0.25;        /* the part of what threads have written that others of them read */

double run_estimate_ns(const base_speed *speed, const plan_link *function, const base_call *call) {
  double flops, bytes;
  if (!function->work) return 0;
  function->work(call, &flops, &bytes);
  return base_work_ns(speed, flops, bytes);
}

/* Bytes of a step's operands by who has made them. */
typedef struct origins {
  double caller, threads;
} origins;

static origins find_origins(const run_frame *f, const plan_step *step) {
  origins from = {0};
  for (uint32_t i = 0; i < step->in_count; i++) {
    const uint32_t slot = f->plan->operands.at[step->in + i];
    if (slot == PLAN_NONE || f->values[slot].kind != BASE_TENSOR) continue;
    const uint32_t root = f->plan->slots.at[slot].root;
    const double bytes = (double)base_tensor_bytes(&f->values[slot].tensor);
    if (f->plan->slots.at[root].place == PLAN_CONST || bytes > f->plan->here.speed->own_bytes) continue;
    if (f->session->bounds.active->spread[root]) from.threads += bytes;
    else from.caller += bytes;
  }
  return from;
}

/* Of all operands and outputs; past `enough` nobody counts. */
static int64_t count_elements(const run_frame *f, const plan_step *step, int64_t enough) {
  int64_t count = 0;
  for (uint32_t i = 0; i < step->in_count + step->out_count && count < enough; i++) {
    const uint32_t slot = plan_operand(f->plan, step, i);
    if (slot != PLAN_NONE && f->values[slot].kind == BASE_TENSOR) count += base_tensor_numel(&f->values[slot].tensor);
  }
  return count;
}

/* Where sizes change from call to call this is done each time: what is small at the first look is not looked at
 * further. */
static uint16_t choose(const run_frame *f, const plan_step *step, const base_call *call) {
  const plan_link *function = &f->plan->here.links.at[step->function];
  const double most = run_most_threads(f->session);
  const base_speed *speed = f->plan->here.speed;
  double flops, bytes;
  if (most < 2 || !function->parallel || !function->work || count_elements(f, step, FEW) < FEW) return 1;
  function->work(call, &flops, &bytes);
  const double computing = flops / speed->flops_per_ns, moving = bytes / speed->near_per_ns;
  const double alone_ns = computing > moving ? computing : moving, wanted = alone_ns / speed->thread_ns;
  if (wanted < 2) return 1;
  const double threads = wanted < most ? (double)(uint16_t)wanted : most, others = 1 - 1 / threads;
  const origins from = find_origins(f, step);
  const double fetched = there_and_back * from.caller + astray * from.threads;
  const double shared_ns = alone_ns / threads + speed->hand_over_ns + others * fetched / speed->far_per_ns;
  return shared_ns < alone_ns + (1 - 1 / most) * from.threads / speed->far_per_ns ? (uint16_t)threads : 1;
}

uint16_t run_threads_for(const run_frame *f, uint32_t number) {
  const plan_step *step = &f->plan->steps.at[number];
  const uint16_t threads = choose(f, step, &f->steps[number].call);
  for (uint32_t i = 0; i < step->out_count && step->kind == PLAN_CALL; i++) {
    const uint32_t slot = f->plan->operands.at[step->out + i];
    if (slot != PLAN_NONE) f->session->bounds.active->spread[f->plan->slots.at[slot].root] = threads > 1;
  }
  return threads;
}
