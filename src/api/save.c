/* save.c -- models as files that run without being compiled: written, and opened again. */
#include "api/api_priv.h"
#include "plan/file.h"
#include "sys/code.h"

#include <string.h>

/* ---- writing ---- */

static bool same_ports(const plan_exe *a, const plan_exe *b) {
  if (a->inputs.count != b->inputs.count || a->outputs.count != b->outputs.count || a->states.count != b->states.count)
    return false;
  for (uint32_t i = 0; i < plan_given_count(a); i++)
    if (strcmp(plan_name(a, plan_given(a, i)->name), plan_name(b, plan_given(b, i)->name)) != 0) return false;
  for (uint32_t i = 0; i < a->outputs.count; i++)
    if (strcmp(plan_name(a, a->outputs.at[i].name), plan_name(b, b->outputs.at[i].name)) != 0) return false;
  return true;
}

/* Beside the file first: whoever looks sees the old one or all of the new one. */
static td_status write_image(const plan_image *image, const char *path, base_arena *arena, td_error *err) {
  sys_part *parts = base_new(arena, sys_part, (size_t)image->pieces.count + 1);
  const char *fresh = base_arena_format(arena, "%s.%llu.tmp", path, (unsigned long long)sys_process_id());
  if (!parts || !fresh) return base_no_memory(err, "a file");
  for (uint32_t i = 0; i < image->pieces.count; i++)
    parts[i] = (sys_part){image->pieces.at[i].at, image->pieces.at[i].bytes};
  td_error why = {.offset = -1};
  td_status status = sys_write_parts(fresh, parts, image->pieces.count, true, &why);
  if (status == TD_OK) status = sys_rename(fresh, path, &why);
  if (status == TD_OK) return TD_OK;
  sys_remove(fresh);
  /* The name of the file beside it means nothing to the caller. */
  const char *reason = strstr(why.text, ": ");
  return base_fail(err, status, path, -1, "cannot be written%s", reason ? reason : "");
}

static td_status save(const td_model *const *models, uint32_t count, const char *path, base_arena *arena,
                      td_error *err) {
  const plan_exe **plans = base_new(arena, const plan_exe *, count);
  plan_image image;
  if (!plans) return base_no_memory(err, "a file");
  for (uint32_t i = 0; i < count; i++) {
    plans[i] = api_told_plan(models[i]);
    if (!same_ports(plans[0], plans[i]))
      return base_fail(err, TD_BAD_ARGUMENT, path, -1, "a file holds variants of one model; inputs and outputs differ");
  }
  TRY(plan_save(plans, count, td_version(), arena, &image, err));
  return write_image(&image, path, arena, err);
}

td_status td_model_save(const td_model *const *models, size_t count, const char *path, td_error *err) {
  bool all = models && path && count && count < UINT32_MAX;
  for (size_t i = 0; all && i < count; i++) all = models[i] != NULL;
  if (!all) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_model_save needs models and a path");
  base_arena *arena = base_arena_new(&models[0]->allocator);
  const td_status status = arena ? save(models, (uint32_t)count, path, arena, err) : base_no_memory(err, "a file");
  base_arena_free(arena);
  return status;
}

/* ---- opening ---- */

bool api_is_saved(const td_model *model) { return !model->builtin && plan_is_saved(model->bytes, model->size); }

/* What a saved plan has behind it. */
static td_status refuse_options(const td_model *m, td_error *err) {
  const td_load_options *o = &m->options;
  const struct {
    bool given;
    const char *what;
  } options[] = {
      {o->disabled_passes != NULL, "passes to leave out"},   {o->alone != NULL, "nodes excluded from fusion"},
      {o->disabled_kernels != NULL, "kernels to leave out"}, {o->taps != NULL, "results of nodes as outputs"},
      {m->math != KERN_MATH_DEFAULT, "another math"},        {m->precision != KERN_PRECISION_F32, "a precision"},
      {o->keep_f32 != NULL, "nodes that stay f32"},          {o->method != NULL, "another method"},
      {o->specialise != NULL, "sizes to specialise for"},    {o->state != NULL, "session state"}};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    if (options[i].given)
      return base_fail(err, TD_BAD_ARGUMENT, m->path, -1, "a saved plan is compiled: give %s when you compile it",
                       options[i].what);
  return TD_OK;
}

td_status api_open(td_model *m, uint64_t started, td_error *err) {
  const plan_source source = {.bytes = m->bytes,
                              .size = m->size,
                              .file = m->path ? m->path : "model",
                              .library = td_version(),
                              .isa = m->isa,
                              .trusted = m->options.trusted,
                              .contract = m->options.trusted ? compile_contract() : 0};
  TRY(refuse_options(m, err));
  TRY(plan_open(&source, &m->allocator, &m->plan, err));
  const uint64_t opened = sys_clock_ns();
  const compile_setting setting = api_setting(m);
  const char *backend = plan_name(m->plan, m->plan->backend);
  if (!m->backend->kernels && strcmp(backend, m->backend->name) != 0)
    return base_fail(err, TD_BAD_ARGUMENT, m->path, -1, "this plan was compiled for the backend %s, not %s", backend,
                     m->backend->name);
  TRY(base_error_name(err, compile_restore(m->plan, m->ops, &setting, err), "%s", source.file));
  m->stats.load_ms = (double)(opened - started) * 1e-6;
  m->stats.compile_ms = (double)(sys_clock_ns() - opened) * 1e-6;
  return TD_OK;
}
