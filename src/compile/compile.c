/* compile.c -- the ladder of backends and the line through it:
 *
 *     graph ──passes──▶ graph ──lower_graph──▶ slots and steps ──plan_find_lifetimes, lower_find_batches──▶ plan
 */
#include "compile/compile_priv.h"
#include "passes/passes.h"
#include "sys/sys.h"

#include <stdio.h>
#include <string.h>

static const compile_backend backends[] = {
    {"eager", "one step per node, reference implementations, no passes: the truth", false, false, false, false, false},
    {"aot_eager", "graph passes, still one reference step per node: is it a pass?", true, true, false, false, false},
    {"interp", "all passes, kernels; loops of fused operators are interpreted", true, true, true, true, false},
    {"native", "all passes, kernels for this CPU, fused loops compiled: speed", true, true, true, true, true},
};

const compile_backend *compile_backends(uint32_t *count) {
  *count = sizeof backends / sizeof *backends;
  return backends;
}

const compile_backend *compile_find_backend(const char *name) {
  uint32_t count = sizeof backends / sizeof *backends;
  if (!name) return &backends[count - 1];
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(backends[i].name, name) == 0) return &backends[i];
  return NULL;
}

static td_status lower(ir_graph *graph, const compile_setting *setting, base_arena *scratch, plan_exe *plan,
                       td_error *err) {
  size_t values = graph->values.count;
  lowering l = {.graph = graph,
                .setting = setting,
                .plan = plan,
                .scratch = scratch,
                .err = err,
                .slot_of = base_new(scratch, uint32_t, values),
                .segment_of = base_new(scratch, uint32_t, (size_t)graph->segments.count + 1),
                .parts = base_new(scratch, lower_part, values),
                .uses = base_new(scratch, uint32_t, values),
                .held = base_new(scratch, bool, values)};
  if (!l.slot_of || !l.segment_of || !l.parts || !l.uses || !l.held) return base_no_memory(err, "the plan");
  memset(l.slot_of, 0xff, values * sizeof *l.slot_of);
  memset(l.segment_of, 0xff, graph->segments.count * sizeof *l.segment_of);
  plan->dims = graph->dims; /* until all sizes are there */
  plan->in_place = setting->backend->in_place;
  plan->isa = setting->isa;
  plan->backend = plan_add_name(plan, setting->backend->name);
  if (plan->backend == PLAN_NONE) return base_no_memory(err, "the plan");
  TRY(lower_generate(&l));
  if (setting->inject) TRY(lower_inject_end(&l, graph));
  ir_count_uses(graph, l.uses);
  TRY(lower_graph(&l));
  if (!base_dims_copy(&plan->dims, plan->arena, &plan->dims)) return base_no_memory(err, "the plan");
  TRY(plan_find_captures(plan, scratch, err));
  TRY(plan_find_lifetimes(plan, scratch, err));
  if (setting->backend->kernels) TRY(lower_find_batches(plan, scratch, err));
  return plan_verify(plan, err);
}

/* ---- sharing out what a pass has to do ---- */

enum { MAX_HELPERS = 15 };

typedef struct share {
  _Atomic uint32_t next;
  uint32_t count;
  void (*task)(void *arg, uint32_t i);
  void *arg;
} share;

static void take_tasks(void *user) {
  share *s = user;
  for (uint32_t i; (i = atomic_fetch_add(&s->next, 1)) < s->count;) s->task(s->arg, i);
}

/* On as many threads as affinity and quota allow; a thread that cannot be had is done without. */
static void share_tasks(uint32_t count, void (*task)(void *arg, uint32_t i), void *arg) {
  sys_thread threads[MAX_HELPERS];
  share s = {.count = count, .task = task, .arg = arg};
  uint32_t helpers = 0;
  td_error unused;
  const uint32_t usable = sys_threads_read();
  while (helpers + 1 < count && helpers < MAX_HELPERS && helpers + 1 < usable &&
         sys_thread_start(&threads[helpers], take_tasks, &s, &unused) == TD_OK)
    helpers++;
  take_tasks(&s);
  for (uint32_t i = 0; i < helpers; i++) sys_thread_join(&threads[i]);
}

td_status compile_run_passes(ir_graph *graph, const compile_setting *setting, uint32_t *changes, td_error *err) {
  if (!setting->backend->passes) return TD_OK;
  uint32_t unwanted[PASSES_MAX];
  const passes_setting passes = {.disabled = setting->disabled,
                                 .kernels = setting->backend->kernels,
                                 .math = setting->math,
                                 .isa = setting->isa,
                                 .share = share_tasks,
                                 .seen = setting->seen,
                                 .seen_user = setting->seen_user,
                                 .spoil = setting->inject ? lower_spoil : NULL,
                                 .fault = setting->inject};
  return passes_run(graph, &passes, changes ? changes : unwanted, err);
}

void lower_finish(plan_exe *plan, const compile_setting *setting) {
  kern_tuning *kept = setting->tuning ? base_new(plan->arena, kern_tuning, 1) : NULL;
  if (kept) *kept = *setting->tuning;
  plan->tuning = kept; /* without memory for it a plan is as good but for speed */
  uint32_t count;
  const kern_level *levels = kern_levels(&count);
  for (uint32_t i = count; i-- > 0;)
    if (!(plan->needs & ~levels[i].isa)) plan->level = levels[i].name;
}

/* Is one of the nodes, or "*", in the setting's list, `before` in front? */
static bool is_listed(const compile_setting *setting, const char *before, const ir_origins *origins) {
  char name[288];
  if (!setting->alone) return false;
  snprintf(name, sizeof name, "%s*", before);
  bool listed = base_str_listed(setting->alone, name);
  for (uint32_t i = 0; i < origins->count && !listed; i++) {
    const base_str own = base_node_name(origins->names[i]);
    if (own.length >= 256) continue;
    snprintf(name, sizeof name, "%s%.*s", before, (int)own.length, own.at);
    listed = base_str_listed(setting->alone, name);
  }
  return listed;
}

bool lower_stands_alone(const compile_setting *setting, const ir_origins *origins) {
  return is_listed(setting, "", origins);
}

bool lower_stays_loop(const compile_setting *setting, const ir_origins *origins) {
  return is_listed(setting, "", origins) || is_listed(setting, "chain=", origins);
}

bool compile_fuses(const compile_setting *setting) {
  return setting->backend->fuses && !base_str_listed(setting->disabled, "fuse");
}

/* The graph that is lowered. */
static td_status rewrite(ir_graph *graph, const compile_setting *setting, base_arena *scratch, uint32_t *changes,
                         td_error *err) {
  TRY(compile_run_passes(graph, setting, changes, err));
  if (setting->backend->kernels) TRY(lower_inject(graph, setting->inject, scratch, err));
  if (!compile_fuses(setting)) return TD_OK;
  const uint32_t first = graph->nodes.count;
  TRY(lower_fuse(graph, setting, scratch, err));
  TRY(lower_spoil(setting->inject, "fuse", graph, first, err));
  TRY(lower_chain(graph, setting, scratch, NULL, err));
  return setting->seen ? setting->seen(setting->seen_user, "fuse", graph, err) : TD_OK;
}

td_status compile_rewrite(ir_graph *graph, const compile_setting *setting, td_error *err) {
  base_arena *scratch = base_arena_new(base_arena_allocator(graph->arena));
  if (!scratch) return base_no_memory(err, "a graph");
  const td_status status = rewrite(graph, setting, scratch, NULL, err);
  base_arena_free(scratch);
  return status;
}

td_status compile_graph(ir_graph *graph, const compile_setting *setting, const td_allocator *allocator,
                        uint32_t *changes, plan_exe **plan, td_error *err) {
  plan_exe *made = plan_new(allocator);
  base_arena *scratch = base_arena_new_brief(allocator), *own = setting->general ? base_arena_new(allocator) : NULL;
  td_status status = made && scratch && (own || !setting->general) ? TD_OK : base_no_memory(err, "the plan");
  if (status == TD_OK) base_arena_expect_much(graph->constants = own ? own : made->arena); /* packed weights */
  if (status == TD_OK) status = rewrite(graph, setting, scratch, changes, err);
  if (status == TD_OK) status = lower(graph, setting, scratch, made, err);
  if (status == TD_OK && own) status = lower_share_constants(made, setting->general, own, err);
  base_arena_free(scratch);
  base_arena_free(own);
  graph->constants = graph->arena;
  if (status == TD_OK) lower_finish(made, setting);
  if (status == TD_OK) status = lower_start_tier(made, err);
  if (status == TD_OK) *plan = made;
  else plan_free(made);
  return status;
}
