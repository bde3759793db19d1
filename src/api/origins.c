/* origins.c -- where steps come from, in the user's words. Models are loaded with brief origins, whose places are those
 * of the program's own text; when somebody asks for names, the user's are looked up, once, for all steps. */
#include <stdio.h>

#include "api/api_priv.h"

struct api_told {
  base_arena *arena; /* it lies there too */
  plan_exe *plan;    /* the model's, and its variants, with the user's places */
};

static plan_exe *retell(const td_model *m, const plan_exe *plan, base_arena *arena) {
  const import_source source = api_source(m);
  const char **texts = base_new(arena, const char *, (size_t)plan->origins.count + 1);
  if (!texts) return NULL;
  for (uint32_t i = 0; i < plan->origins.count; i++) texts[i] = plan_name(plan, plan->origins.at[i]);
  import_tell(&source, arena, texts, plan->origins.count);
  return plan_retold(plan, arena, texts);
}

static plan_exe *retell_all(const td_model *m, base_arena *arena) {
  plan_exe *told = retell(m, m->plan, arena);
  const uint32_t count = m->plan->here.variants.count;
  plan_exe **variants = told ? base_new(arena, plan_exe *, (size_t)count + 1) : NULL;
  for (uint32_t i = 0; variants && i < count; i++)
    if (!(variants[i] = retell(m, m->plan->here.variants.at[i], arena))) return NULL;
  if (variants) told->here.variants.at = variants;
  return variants ? told : NULL;
}

/* NULL: out of memory. */
static api_told *make(const td_model *m) {
  base_arena *arena = base_arena_new(&m->allocator);
  api_told *told = arena ? base_new(arena, api_told, 1) : NULL;
  if (told) *told = (api_told){arena, retell_all(m, arena)};
  if (told && told->plan) return told;
  base_arena_free(arena);
  return NULL;
}

const plan_exe *api_told_plan(const td_model *model) {
  td_model *m = (td_model *)(uintptr_t)model;
  if (!m->brief) return m->plan;
  api_told *known = atomic_load(&m->told);
  if (known) return known->plan;
  api_told *fresh = make(m);
  if (!fresh) return m->plan;
  if (atomic_compare_exchange_strong(&m->told, &known, fresh)) return fresh->plan;
  base_arena_free(fresh->arena); /* another thread was sooner */
  return known->plan;
}

void api_told_free(td_model *m) {
  api_told *told = atomic_load(&m->told);
  if (told) base_arena_free(told->arena);
}

td_status api_tell_error(const td_model *m, td_status status, td_error *err) {
  base_arena *arena = status != TD_OK && err && m->brief ? base_arena_new(&m->allocator) : NULL;
  if (!arena) return status;
  const import_source source = api_source(m);
  const char *texts[] = {err->name, err->text};
  import_tell(&source, arena, texts, 2);
  if (texts[0] != err->name) snprintf(err->name, sizeof err->name, "%s", texts[0]);
  if (texts[1] != err->text) snprintf(err->text, sizeof err->text, "%s", texts[1]);
  base_arena_free(arena);
  return status;
}

void api_warn(void *user, const char *text) {
  const td_model *m = user;
  const import_source source = api_source(m);
  base_arena *arena = m->brief ? base_arena_new(&m->allocator) : NULL;
  if (arena) import_tell(&source, arena, &text, 1);
  m->options.warn(m->options.warn_user, text);
  base_arena_free(arena);
}
