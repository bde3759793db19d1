/* specialise.c -- variants of a model's plan for particular sizes, as td_load_options.specialise names them. */
#include "api/api_priv.h"

#include <string.h>

enum { AXES = 8 /* open dimensions in one list */ };

/* A dimension and the sizes that it is to have. */
typedef struct axis {
  const char *name;
  int64_t values[PLAN_VARIANTS];
  uint32_t count;
} axis;

static td_status misspelt(base_str text, td_error *err) {
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                   "'%.*s' says no sizes to specialise for: write NAME=SIZE,SIZE..., as in batch=1,8 seq=128",
                   (int)text.length, text.at);
}

/* Cuts what stands in front of the first of `ends` off `text`, that one included. */
static base_str cut(base_str *text, const char *ends) {
  base_str word = *text;
  word.length = 0;
  while (word.length < text->length && !strchr(ends, text->at[word.length])) word.length++;
  const size_t taken = word.length + (word.length < text->length);
  text->at += taken;
  text->length -= taken;
  return word;
}

/* ---- names ---- */

/* Does an input say the size? Expressions of it do, too. */
static bool is_open(const plan_exe *plan, base_str name, const char **found) {
  *found = NULL;
  for (uint32_t i = 0; i < plan->dims.symbols.count && !*found; i++) {
    const base_symbol *s = &plan->dims.symbols.at[i];
    if (!s->from_data && base_str_is(name, s->name)) *found = s->name;
  }
  return *found != NULL;
}

static td_status unknown_name(const td_model *m, base_str name, td_error *err) {
  base_text names = {.allocator = &m->allocator};
  for (uint32_t i = 0; i < m->plan->dims.symbols.count; i++) {
    const base_symbol *s = &m->plan->dims.symbols.at[i];
    if (!s->from_data) base_text_print(&names, "%s%s", names.length ? ", " : "", s->name);
  }
  const td_status status =
      names.length ? base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                               "the model has no open dimension called %.*s to specialise for; there are: %s",
                               (int)name.length, name.at, names.at)
                   : base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                               "the model cannot be specialised for %.*s: all of its dimensions are fixed already",
                               (int)name.length, name.at);
  base_text_free(&names);
  return status;
}

/* ---- one list: "batch=1,8 seq=128" ---- */

/* "batch=1,8" */
static td_status read_axis(const td_model *m, base_str text, axis *a, td_error *err) {
  base_str values = text;
  const base_str name = cut(&values, "=");
  *a = (axis){0};
  if (!name.length || !values.length || values.at[values.length - 1] == ',') return misspelt(text, err);
  if (!is_open(m->plan, name, &a->name)) return unknown_name(m, name, err);
  for (bool more = true; more;) {
    const base_str value = cut(&values, ",");
    more = values.length > 0;
    if (a->count == PLAN_VARIANTS || !base_str_int(value, &a->values[a->count]) || a->values[a->count] < 0)
      return misspelt(text, err);
    a->count++;
  }
  return TD_OK;
}

/* Adds the variant that takes value number `which` of all combinations. */
static td_status add_variant(td_model *m, const axis *axes, uint32_t axis_count, uint32_t which, td_error *err) {
  api_variant *v = base_vec_push(m->arena, &m->variants);
  ir_size *sizes = base_new(m->arena, ir_size, axis_count);
  if (!v || !sizes) return base_no_memory(err, "variants");
  const char *label = "";
  for (uint32_t i = axis_count; i-- > 0;) {
    sizes[i] = (ir_size){axes[i].name, axes[i].values[which % axes[i].count]};
    which /= axes[i].count;
  }
  for (uint32_t i = 0; i < axis_count && label; i++)
    label = base_arena_format(m->arena, "%s%s%s=%lld", label, i ? " " : "", sizes[i].name, (long long)sizes[i].value);
  *v = (api_variant){.label = label, .sizes = sizes, .count = axis_count};
  return label ? TD_OK : base_no_memory(err, "variants");
}

static td_status read_list(td_model *m, base_str text, td_error *err) {
  axis axes[AXES];
  uint32_t count = 0;
  uint64_t combinations = 1;
  for (base_str left = text; left.length;) {
    const base_str word = cut(&left, " ");
    if (!word.length) continue;
    if (count == AXES) return misspelt(text, err);
    TRY(read_axis(m, word, &axes[count], err));
    for (uint32_t i = 0; i < count; i++)
      if (axes[i].name == axes[count].name) return misspelt(text, err);
    combinations *= axes[count++].count;
    if (m->variants.count + combinations > PLAN_VARIANTS)
      return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                       "a model can be specialised for %d combinations of sizes, no more", PLAN_VARIANTS);
  }
  for (uint32_t i = 0; count && i < combinations; i++) TRY(add_variant(m, axes, count, i, err));
  return TD_OK;
}

/* ---- variants ---- */

static uint32_t symbol_of(const plan_exe *plan, const char *name) {
  uint32_t i = 0;
  while (strcmp(plan->dims.symbols.at[i].name, name) != 0) i++;
  return i;
}

static td_status compile(td_model *m, api_variant *v, td_error *err) {
  ir_graph *graph;
  plan_exe *plan = NULL;
  TRY(api_prepare(m, v, m->brief, &graph, err));
  td_status status = api_compile(m, v, graph, &plan, err);
  ir_graph_free(graph);
  for (uint32_t i = 0; status == TD_OK && i < v->count; i++) {
    plan_size *size = base_vec_push(plan->arena, &plan->sizes);
    if (!size) status = base_no_memory(err, "variants");
    else *size = (plan_size){.symbol = symbol_of(m->plan, v->sizes[i].name), .value = v->sizes[i].value};
  }
  if (status == TD_OK) status = plan_add_variant(m->plan, plan, err);
  if (status != TD_OK) plan_free(plan);
  return status;
}

/* What a size is refused for, and what to do: the model is sound for others. */
static td_status refuse(const api_variant *v, td_status status, td_error *err) {
  if (status == TD_OK || status == TD_NO_RESOURCE || !err) return status;
  const td_error why = *err;
  return base_fail(err, status == TD_BAD_FILE ? TD_BAD_ARGUMENT : status, why.name, why.offset,
                   "the model cannot be specialised for %s: %.1500s; leave that out", v->label, why.text);
}

td_status api_specialise(td_model *m, td_error *err) {
  for (base_str left = base_str_of(m->options.specialise ? m->options.specialise : ""); left.length;)
    TRY(read_list(m, cut(&left, ";"), err));
  for (uint32_t i = 0; i < m->variants.count; i++)
    TRY(refuse(&m->variants.at[i], compile(m, &m->variants.at[i], err), err));
  return TD_OK;
}

/* ---- steps of all plans in a row ---- */

static const plan_exe *plan_of(const plan_exe *first, size_t index, uint32_t *step) {
  for (uint32_t i = 0; i < plan_count(first); i++) {
    const plan_exe *plan = plan_at(first, i);
    if (index < plan->steps.count) return *step = (uint32_t)index, plan;
    index -= plan->steps.count;
  }
  return NULL;
}

const plan_exe *api_plan_of(const td_model *m, size_t index, uint32_t *step) { return plan_of(m->plan, index, step); }

const plan_exe *api_told_plan_of(const td_model *m, size_t index, uint32_t *step) {
  return plan_of(api_told_plan(m), index, step);
}

uint32_t api_first_step(const td_session *s) {
  const plan_exe *plan = run_plan_in_use(s->run);
  uint32_t first = 0;
  for (uint32_t i = 0; plan_at(s->model->plan, i) != plan; i++) first += plan_at(s->model->plan, i)->steps.count;
  return first;
}
