/* inputs.c -- arguments of the method that runs. The file does not say what tensors they are, so the caller's input
 * specs do; each becomes one input of the graph, and lists, tuples and dictionaries are made of several. */
#include <stdio.h>
#include <string.h>

#include "import/torchscript/ts_priv.h"

enum { MAX_INPUTS = 4096, MAX_NESTING = 16 };

/* An input spec, and where in its argument it goes: the rest of its path, "[0]['key']". */
typedef struct placed {
  const td_input_spec *spec;
  uint32_t param;
  const char *rest;
  bool used;
} placed;

typedef struct inputs {
  ts_import *im;
  ts_function *function;
  placed *at;
  uint32_t count;
} inputs;

static aten_value fail(inputs *in, const char *name, const char *what) {
  ts_import *im = in->im;
  if (ts_ok(im)) ir_build_take(&im->build, base_fail(im->err, TD_BAD_ARGUMENT, name, -1, "%s", what));
  return ATEN_NOTHING;
}

/* ---- which argument a spec belongs to ---------------------------------------------------------------------------- */

static uint32_t find_param(const ts_function *f, base_str name) {
  for (uint32_t i = 1; i < f->param_count; i++)
    if (base_str_equal(f->params[i].name, name)) return i;
  return 0;
}

/* "argument 0[1]", "context['keys']" */
static uint32_t param_of_path(const ts_function *f, const char *path, const char **rest) {
  static const char word[] = "argument ";
  size_t length = strcspn(path, "[");
  int64_t index;
  *rest = path + length;
  if (strncmp(path, word, sizeof word - 1) != 0) return find_param(f, (base_str){path, length});
  base_str number = {path + sizeof word - 1, length - (sizeof word - 1)};
  if (!base_str_int(number, &index) || index < 0 || index >= (int64_t)f->param_count - 1) return 0;
  return (uint32_t)index + 1;
}

static bool takes_many(const ts_param *p) {
  const ts_expr *type = p->type;
  const ts_expr *inner = ts_type_argument(type, "Optional", 0);
  if (inner) type = inner;
  return type && type->kind == TS_INDEX && !ts_type_is(type->items[0], "Optional") &&
         !ts_type_is(type->items[0], "Union");
}

/* Arguments from `param` on that cannot do without a spec. */
static uint32_t needed_after(const ts_function *f, uint32_t param) {
  uint32_t count = 0;
  for (uint32_t i = param + 1; i < f->param_count; i++) count += f->params[i].fallback == NULL;
  return count;
}

/* Specs that say neither a path nor the name of an argument go to the arguments in order. */
static void place_in_order(inputs *in) {
  uint32_t left = 0, param = 1;
  for (uint32_t i = 0; i < in->count; i++) left += in->at[i].param == 0;
  for (uint32_t i = 0, taken = 0; i < in->count; i++) {
    bool is_taken = true;
    if (in->at[i].param) continue;
    while (is_taken && taken == 0 && param < in->function->param_count) {
      is_taken = false;
      for (uint32_t k = 0; k < in->count; k++) is_taken = is_taken || in->at[k].param == param;
      param += is_taken;
    }
    if (param >= in->function->param_count) return;
    in->at[i].param = param;
    left--;
    taken++;
    if (takes_many(&in->function->params[param]) && left > needed_after(in->function, param)) continue;
    param++;
    taken = 0;
  }
}

static aten_value no_argument(inputs *in, const char *path) {
  const ts_function *f = in->function;
  base_text names = {.allocator = base_arena_allocator(in->im->arena)};
  for (uint32_t i = 1; i < f->param_count; i++)
    base_text_print(&names, "%s%.*s", i > 1 ? ", " : "", (int)f->params[i].name.length, f->params[i].name.at);
  const char *text = base_arena_format(in->im->arena, "the method has no such argument; it has: %s",
                                       names.failed || !names.length ? "none" : names.at);
  base_text_free(&names);
  return fail(in, path, text ? text : "the method has no such argument");
}

static void place_all(inputs *in) {
  const import_source *source = in->im->source;
  for (uint32_t i = 0; i < in->count; i++) {
    const td_input_spec *spec = &source->inputs[i];
    in->at[i] = (placed){.spec = spec, .rest = ""};
    if (spec->path) in->at[i].param = param_of_path(in->function, spec->path, &in->at[i].rest);
    else if (spec->name) in->at[i].param = find_param(in->function, base_str_of(spec->name));
    if (spec->path && !in->at[i].param) no_argument(in, spec->path);
  }
  place_in_order(in);
  for (uint32_t i = 0; i < in->count && ts_ok(in->im); i++)
    if (!in->at[i].param) fail(in, in->at[i].spec->name, "the method has no argument for this input");
}

/* ---- one input --------------------------------------------------------------------------------------------------- */

static bool is_name_taken(const ts_import *im, const char *name) {
  for (uint32_t i = 0; i < im->graph->input_defaults.count; i++) {
    ir_value v = ir_block_of(im->graph, im->graph->top)->params.at[i];
    if (strcmp(ir_value_of(im->graph, v)->name, name) == 0) return true;
  }
  return false;
}

static const char *input_name(inputs *in, const placed *p) {
  const ts_param *param = &in->function->params[p->param];
  base_arena *arena = in->im->graph->arena;
  const char *name = p->spec->name
                         ? base_arena_text(arena, p->spec->name)
                         : base_arena_format(arena, "%.*s%s", (int)param->name.length, param->name.at, p->rest);
  const char *wanted = name;
  for (uint32_t i = 1; name && is_name_taken(in->im, name) && i < MAX_INPUTS; i++)
    name = base_arena_format(arena, "%s_%u", wanted, i);
  if (!name) ir_build_take(&in->im->build, base_no_memory(in->im->err, "an input"));
  return name;
}

static ir_type type_of(inputs *in, const td_input_spec *s) {
  base_dims *dims = &in->im->graph->dims;
  ir_type type = ir_unranked(s->dtype);
  if (s->rank < 0) return type;
  type.rank = s->rank;
  for (int32_t i = 0; i < s->rank; i++) {
    type.dims[i] = s->dims[i];
    if (s->dims[i] >= 0) continue;
    char made_up[48];
    snprintf(made_up, sizeof made_up, "%.30s.%d", s->name ? s->name : "input", i);
    type.dims[i] = base_dim_symbol(dims, s->symbols[i] ? s->symbols[i] : made_up);
    if (type.dims[i] == BASE_DIM_NONE) ir_build_take(&in->im->build, base_no_memory(in->im->err, "an input"));
  }
  return type;
}

/* A number's argument takes a tensor of rank 0. */
static aten_value as_number(inputs *in, ir_value value, const ts_expr *type) {
  static const struct {
    const char *name;
    td_dtype dtype;
  } rows[] = {{"int", TD_I64}, {"float", TD_F64}, {"bool", TD_BOOL}, {"number", TD_F64}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (ts_type_is(type, rows[i].name))
      return aten_number(in->im->a, ir_build_cast(&in->im->build, value, rows[i].dtype));
  return aten_of(in->im->a, value, true);
}

static bool holds_pairs(const td_input_spec *s) {
  return base_is_float(s->dtype) && s->rank > 0 && s->rank <= TD_MAX_RANK && s->dims[s->rank - 1] == 2;
}

static aten_value one_input(inputs *in, placed *p, const ts_expr *type) {
  ts_import *im = in->im;
  const td_input_spec *s = p->spec;
  ir_value value = IR_NO_VALUE;
  p->used = true;
  if (s->is_complex && !holds_pairs(s))
    return fail(in, s->name, "an input of complex numbers has f32 or f64 parts along a last axis of 2");
  if (s->rank > TD_MAX_RANK || s->dtype <= TD_INVALID || s->dtype >= TD_DTYPE_COUNT)
    return fail(in, s->name, "the input's spec has no dtype, or too many dimensions");
  const char *name = ts_ok(im) ? input_name(in, p) : NULL;
  if (!name) return ATEN_NOTHING;
  ir_type t = type_of(in, s);
  if (ts_ok(im)) ir_build_take(&im->build, ir_add_input(im->graph, &t, name, IR_NO_VALUE, &value, im->err));
  if (!ts_ok(im)) return ATEN_NOTHING;
  return s->is_complex ? aten_of_complex(im->a, value) : as_number(in, value, type);
}

/* ---- arguments made of several ----------------------------------------------------------------------------------- */

static aten_value build(inputs *in, uint32_t param, const ts_expr *type, base_str prefix, uint32_t depth);

static bool is_below(const placed *p, uint32_t param, base_str prefix) {
  return p->param == param && !p->used && strncmp(p->rest, prefix.at, prefix.length) == 0;
}

/* The first unused spec of the argument whose path goes on behind `prefix`. */
static placed *first_below(inputs *in, uint32_t param, base_str prefix) {
  for (uint32_t i = 0; i < in->count; i++)
    if (is_below(&in->at[i], param, prefix)) return &in->at[i];
  return NULL;
}

/* Type of a part: of List[T], Optional[T] and Dict[K, T] T; of Tuple[A, B] by position. */
static const ts_expr *part_type(const ts_expr *type, uint32_t index) {
  if (ts_type_argument(type, "Dict", 1)) return ts_type_argument(type, "Dict", 1);
  if (ts_type_argument(type, "Tuple", index)) return ts_type_argument(type, "Tuple", index);
  return ts_type_argument(type, "List", 0);
}

static aten_value build_parts(inputs *in, uint32_t param, const ts_expr *type, base_str prefix, uint32_t depth) {
  ts_import *im = in->im;
  BASE_VEC(aten_value) items = {0};
  aten_value dict = aten_dict_of(im->a);
  bool is_dict = false;
  for (placed *p; ts_ok(im) && (p = first_below(in, param, prefix)) != NULL;) {
    const char *part = p->rest + prefix.length;
    size_t length = strcspn(part, "]") + 1;
    aten_value *slot = base_vec_push(im->arena, &items);
    if (!slot || depth > MAX_NESTING || (*part && length > strlen(part))) return fail(in, p->rest, "the path is none");
    base_str inner = {p->rest, prefix.length + (*part ? length : 0)};
    uint32_t index = items.count - 1;
    aten_value v =
        *part ? build(in, param, part_type(type, index), inner, depth + 1) : one_input(in, p, part_type(type, index));
    items.at[index] = v;
    if (part[0] != '[' || (part[1] != '\'' && part[1] != '"') || length < 5) continue;
    is_dict = true;
    const char *key = base_arena_slice(im->arena, part + 2, length - 4);
    if (ts_ok(im) && key) aten_dict_set(im->a, dict.u.dict, aten_str(im->a, base_str_of(key)), v);
  }
  if (is_dict) return dict;
  bool is_tuple = type && type->kind == TS_INDEX && ts_type_is(type->items[0], "Tuple");
  return is_tuple ? aten_tuple_of(im->a, items.at, items.count) : aten_list_of(im->a, items.at, items.count);
}

static aten_value build(inputs *in, uint32_t param, const ts_expr *type, base_str prefix, uint32_t depth) {
  placed *p = first_below(in, param, prefix);
  const ts_expr *inner = ts_type_argument(type, "Optional", 0);
  if (!p) return ATEN_NOTHING;
  if (inner) type = inner;
  ts_param as = {.type = (ts_expr *)(uintptr_t)type};
  if (p->rest[prefix.length] == 0 && !takes_many(&as)) return one_input(in, p, type);
  return build_parts(in, param, type, prefix, depth);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static const char *missing_text(inputs *in, const ts_param *p) {
  const char *text = base_arena_format(
      in->im->arena,
      "TorchScript files do not say what shape and type argument %.*s has; give an example or "
      "a shape (--input %.*s=FILE, --shape %.*s=1x3x224x224; td_load_options.inputs)",
      (int)p->name.length, p->name.at, (int)p->name.length, p->name.at, (int)p->name.length, p->name.at);
  return text ? text : "an argument is not given";
}

aten_value *ts_make_inputs(ts_import *im, ts_function *function, uint32_t *count) {
  inputs in = {.im = im, .function = function, .count = (uint32_t)im->source->input_count};
  *count = 0;
  if (im->source->input_count > MAX_INPUTS) {
    fail(&in, NULL, "there are too many inputs");
    return NULL;
  }
  in.at = base_new(im->arena, placed, in.count + 1);
  aten_value *values = base_new(im->arena, aten_value, function->param_count + 1);
  if (!in.at || !values) {
    ir_build_take(&im->build, base_no_memory(im->err, "inputs"));
    return NULL;
  }
  place_all(&in);
  for (uint32_t i = 1; i < function->param_count && ts_ok(im); i++) {
    const ts_param *p = &function->params[i];
    bool given = first_below(&in, i, (base_str){"", 0}) != NULL;
    if (given) values[i - 1] = build(&in, i, p->type, (base_str){"", 0}, 0);
    else if (p->fallback) values[i - 1] = ts_eval_default(im, p->fallback);
    else if (ts_type_argument(p->type, "Optional", 0)) values[i - 1] = ATEN_NOTHING;
    else fail(&in, NULL, missing_text(&in, p));
    *count = i;
  }
  for (uint32_t i = 0; i < in.count && ts_ok(im); i++)
    if (!in.at[i].used) fail(&in, in.at[i].spec->name, "the method has no argument for this input");
  return values;
}
