/* compile.c -- the ladder of backends and the line through it:
 *
 *     graph ──passes (the last ones fuse)──▶ graph ──compile_generate──▶ code ──lower_graph──▶ plan
 */
#include "compile/compile_priv.h"
#include "kernels/kernels.h"
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

/* Machine code for the loops, then steps and slots. */
static td_status lower(ir_graph *graph, const compile_setting *setting, base_arena *scratch, plan_exe *plan,
                       td_error *err) {
  compile_code code = {.plan = plan, .setting = setting, .scratch = scratch, .err = err};
  compile_generated made;
  plan->dims = graph->dims; /* until all sizes are there */
  plan->in_place = setting->backend->in_place;
  plan->isa = setting->isa;
  plan->backend = plan_add_name(plan, setting->backend->name);
  if (plan->backend == PLAN_NONE) return base_no_memory(err, "the plan");
  TRY(compile_generate(graph, &code, &made));
  const compile_names names = {graph->ops, setting->isa | BASE_ISA_VECTOR, made.kernels, made.count};
  const plan_symbols symbols = compile_symbols(&names);
  const lower_setting lower = {.isa = setting->isa,
                               .kernels = setting->backend->kernels,
                               .disabled_kernels = setting->options.disabled_kernels,
                               .symbols = &symbols,
                               .generated = made.number,
                               .code = made.names};
  if (setting->options.inject) TRY(compile_inject_end(graph, &lower, scratch, err));
  TRY(lower_graph(graph, &lower, plan, scratch, err));
  return plan_verify(plan, err);
}

static fuse_setting fusing(const compile_setting *setting, const base_speed *speed, fuse_log *log) {
  return (fuse_setting){.isa = setting->isa,
                        .compiled = compile_makes_code(setting),
                        .alone = setting->options.alone,
                        .front_least = setting->front_least,
                        .speed = speed,
                        .log = log};
}

/* loops.txt of the folder, if it is there: the user's own loops. */
static td_status take_edited_loops(ir_graph *graph, const char *folder, td_error *err) {
  char path[1024];
  sys_mapping file;
  if ((size_t)snprintf(path, sizeof path, "%s/loops.txt", folder) >= sizeof path ||
      sys_file_map(path, &file, NULL) != TD_OK)
    return TD_OK;
  const td_status status = fuse_take_edited(graph, file.bytes, file.size, path, err);
  sys_unmap(&file);
  return status;
}

static td_status run_passes(ir_graph *graph, const compile_setting *setting, fuse_log *log, uint32_t *changes,
                            td_error *err) {
  const compile_backend *backend = setting->backend;
  if (!backend->passes) return TD_OK;
  uint32_t unwanted[PASSES_MAX];
  const base_speed speed = kern_speed(setting->tuning);
  const passes_setting passes = {.disabled = setting->options.disabled_passes,
                                 .kernels = backend->kernels,
                                 .loops = backend->fuses,
                                 .math = setting->math,
                                 .precision = setting->precision,
                                 .keep_f32 = setting->options.keep_f32,
                                 .isa = setting->isa,
                                 .speed = &speed,
                                 .fuse = fusing(setting, &speed, log),
                                 .share = setting->share,
                                 .seen = setting->seen,
                                 .seen_user = setting->seen_user,
                                 .spoil = setting->options.inject ? compile_spoil : NULL,
                                 .inject = setting->options.inject && backend->kernels ? compile_inject : NULL,
                                 .fault = setting->options.inject};
  TRY(passes_run(graph, &passes, changes ? changes : unwanted, err));
  return setting->options.edited ? take_edited_loops(graph, setting->options.edited, err) : TD_OK;
}

void compile_finish(plan_exe *plan, const compile_setting *setting) {
  kern_tuning *kept = setting->tuning ? base_new(plan->arena, kern_tuning, 1) : NULL;
  if (kept) *kept = *setting->tuning;
  base_speed *speed = base_new(plan->arena, base_speed, 1);
  if (speed) *speed = kern_speed(setting->tuning);
  plan->here.tuning = kept; /* without memory for these a plan is as good but for speed */
  if (speed) plan->here.speed = speed;
  uint32_t count;
  const kern_level *levels = kern_levels(&count);
  for (uint32_t i = count; i-- > 0;)
    if (!(plan->needs & ~levels[i].isa)) plan->level = levels[i].name;
}

td_status compile_rewrite(ir_graph *graph, const compile_setting *setting, td_error *err) {
  return run_passes(graph, setting, NULL, NULL, err);
}

td_status compile_explain_loops(ir_graph *graph, const compile_setting *setting, bool why,
                                const td_allocator *allocator, base_text *text, td_error *err) {
  fuse_log log = {.text = text, .arena = base_arena_new(allocator)};
  if (!log.arena) return base_no_memory(err, "fused loops");
  td_status status = run_passes(graph, setting, why ? &log : NULL, NULL, err);
  const base_speed speed = kern_speed(setting->tuning);
  const fuse_setting fuse = fusing(setting, &speed, why ? &log : NULL);
  if (status == TD_OK) status = fuse_print(graph, &fuse, text, err);
  base_arena_free(log.arena);
  return status;
}

td_status compile_graph(ir_graph *graph, const compile_setting *setting, const td_allocator *allocator,
                        uint32_t *changes, plan_exe **plan, td_error *err) {
  plan_exe *made = plan_new(allocator);
  base_arena *scratch = base_arena_new_brief(allocator), *own = setting->general ? base_arena_new(allocator) : NULL;
  td_status status = made && scratch && (own || !setting->general) ? TD_OK : base_no_memory(err, "the plan");
  if (status == TD_OK) base_arena_expect_much(graph->constants = own ? own : made->arena); /* packed weights */
  if (status == TD_OK) status = run_passes(graph, setting, NULL, changes, err);
  if (status == TD_OK) status = lower(graph, setting, scratch, made, err);
  if (status == TD_OK && own) status = compile_share_constants(made, setting->general, own, err);
  base_arena_free(scratch);
  base_arena_free(own);
  graph->constants = graph->arena;
  if (status == TD_OK) compile_finish(made, setting);
  if (status == TD_OK) status = compile_start_tier(made, err);
  if (status == TD_OK) *plan = made;
  else plan_free(made);
  return status;
}
