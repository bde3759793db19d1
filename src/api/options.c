/* options.c -- td_load_options as a model keeps them: one copy whose texts and inputs are its own. What they name is
 * found beside: the backend, instruction sets, the tuning. An option is read where it is used, in that copy, which
 * compile_setting (made here, too) has as well. */
#include "api/api_priv.h"

#include <stdio.h>
#include <string.h>

/* ---- the list ---- */

/* Each field of td_load_options is in options.def, in its place and of its kind. */
#define OTHER(field) __typeof__(((td_load_options *)0)->field) field;
#define VALUE OTHER
#define NUMBER OTHER
#define TEXT(field) const char *field;
#define FLAG(field) int32_t field;
typedef struct listed_options {
#include <treadle/options.def>
} listed_options;
#undef OTHER
#undef VALUE
#undef NUMBER
#undef TEXT
#undef FLAG
#define OTHER(field)                                                                                           \
  _Static_assert(offsetof(listed_options, field) == offsetof(td_load_options, field), "options.def: " #field); \
  _Static_assert(__builtin_types_compatible_p(__typeof__(((listed_options *)0)->field),                        \
                                              __typeof__(((td_load_options *)0)->field)),                      \
                 "options.def: " #field);
#define VALUE OTHER
#define NUMBER OTHER
#define TEXT OTHER
#define FLAG OTHER
#include <treadle/options.def>
_Static_assert(sizeof(listed_options) == sizeof(td_load_options), "options.def has all fields of td_load_options");
#undef OTHER
#undef TEXT
#undef FLAG

/* ---- copies ---- */

/* Makes the texts the model's own, NULL where there is none or an empty one, and flags 0 or 1. */
static td_status keep_plain(base_arena *arena, td_load_options *o, td_error *err) {
#define OTHER(field)
#define FLAG(field) o->field = o->field != 0;
#define TEXT(field)                            \
  if (o->field && !*o->field) o->field = NULL; \
  if (o->field && !(o->field = base_arena_text(arena, o->field))) return base_no_memory(err, "a model");
#include <treadle/options.def>
#undef OTHER
#undef VALUE
#undef NUMBER
#undef TEXT
#undef FLAG
  return TD_OK;
}

/* Copies of the input specs, and of the texts in them. */
static td_status keep_inputs(base_arena *arena, td_load_options *o, td_error *err) {
  const size_t count = o->input_count;
  td_input_spec *specs = base_new(arena, td_input_spec, count + 1);
  if (!specs) return base_no_memory(err, "inputs");
  for (size_t i = 0; i < count; i++) {
    td_input_spec *s = &specs[i];
    TRY(api_read_item(s, sizeof *s, o->inputs, o->input_stride, i, err));
    if (s->rank > TD_MAX_RANK) return base_fail(err, TD_BAD_ARGUMENT, s->name, -1, "an input has too many dimensions");
    const char **texts[TD_MAX_RANK + 2] = {&s->name, &s->path};
    for (int32_t k = 0; k < TD_MAX_RANK; k++) texts[k + 2] = k < s->rank ? &s->symbols[k] : NULL;
    for (size_t k = 0; k < TD_MAX_RANK + 2; k++)
      if (texts[k] && *texts[k] && !(*texts[k] = base_arena_text(arena, *texts[k])))
        return base_no_memory(err, "inputs");
  }
  o->inputs = specs;
  o->input_stride = sizeof *specs;
  return TD_OK;
}

/* ---- names ---- */

static td_status unknown_backend(const char *name, td_error *err) {
  char names[128] = "";
  uint32_t count;
  const compile_backend *backends = compile_backends(&count);
  for (uint32_t i = 0; i < count; i++) {
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", backends[i].name);
  }
  return base_fail(err, TD_BAD_ARGUMENT, name, -1, "there is no backend called %s; there are: %s", name, names);
}

/* `any`: what the machine lacks, too. */
static td_status find_isa(const char *name, const sys_machine *machine, bool any, uint32_t *isa, td_error *err) {
  bool known;
  char names[128] = "";
  uint32_t count;
  const uint32_t may = !name ? machine->isa & ~machine->slow_isa : any ? UINT32_MAX : machine->isa;
  *isa = kern_level_mask(name, may, &known);
  if (known) return TD_OK;
  const kern_level *levels = kern_levels(&count);
  for (uint32_t i = 0; i < count; i++) {
    size_t used = strlen(names);
    if (!base_isa_lacks(machine->isa, levels[i].isa))
      snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", levels[i].name);
  }
  return base_fail(err, TD_BAD_ARGUMENT, name, -1, "this machine has no instruction set called %s; it has: %s", name,
                   names);
}

static td_status find_math(const char *name, kern_math *math, td_error *err) {
  if (kern_find_math(name, math)) return TD_OK;
  return base_fail(err, TD_BAD_ARGUMENT, name, -1, "there is no math called %s; there are: exact, default, fast", name);
}

static td_status find_precision(const char *name, kern_precision *precision, td_error *err) {
  if (kern_find_precision(name, precision)) return TD_OK;
  return base_fail(err, TD_BAD_ARGUMENT, name, -1, "there is no precision called %s; there are: f32, bf16, f16, int8",
                   name);
}

static kern_tuning tuning_of(const sys_machine *machine) {
  return kern_tuning_for(machine->cpu_vendor, machine->cpu_family, machine->cpu_model);
}

int32_t td_tuning_at(size_t index, td_tuning *tuning) {
  uint32_t count;
  const kern_tuning_row *rows = kern_tuning_rows(&count);
  if (index >= count) return 0;
  sys_machine machine;
  sys_cpu_read(&machine);
  const kern_tuning here = tuning_of(&machine);
  const kern_tuning_row *row = &rows[index];
  td_tuning own = {.name = row->name, .what = row->what, .candidates = row->candidates, .threads = row->threads};
  memcpy(&own.value, (const char *)&here + row->at, sizeof own.value);
  return api_write_stats(tuning, &own, sizeof own, NULL) == TD_OK;
}

/* Finds what the options name. */
static td_status find_named(td_model *m, const td_load_options *o, td_error *err) {
  sys_machine machine;
  m->backend = compile_find_backend(o->backend);
  if (!m->backend) return unknown_backend(o->backend, err);
  sys_cpu_read(&machine);
  m->cpu_isa = machine.isa;
  m->tuning = tuning_of(&machine);
  TRY(find_isa(o->isa, &machine, o->for_file, &m->isa, err));
  TRY(find_math(o->math, &m->math, err));
  TRY(find_precision(o->precision, &m->precision, err));
  return o->tuning ? kern_tuning_set(&m->tuning, o->tuning, err) : TD_OK;
}

td_status api_take_options(td_model *m, const td_load_options *options, td_error *err) {
  TRY(find_named(m, options, err));
  m->options = *options;
  m->options.allocator = &m->allocator;
  TRY(keep_plain(m->arena, &m->options, err));
  return keep_inputs(m->arena, &m->options, err);
}

compile_setting api_setting(const td_model *m) {
  compile_setting setting = {.options = m->options,
                             .backend = m->backend,
                             .isa = m->isa,
                             .math = m->math,
                             .precision = m->precision,
                             .tuning = &m->tuning,
                             .share = run_in_parallel};
  if (m->options.warn) {
    setting.options.warn = api_warn;
    setting.options.warn_user = (td_model *)(uintptr_t)m;
  }
  return setting;
}
