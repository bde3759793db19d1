/* node.c -- one node after the other: its arguments become values, its target is called, its outputs get names. */
#include <stdio.h>
#include <string.h>

#include "import/pt2/pt2_priv.h"

/* ---- names ---- */

void pt2_bind(pt2 *p, pt2_scope *s, const char *name, aten_value value) {
  pt2_entry *entry = pt2_failed(p) ? NULL : base_vec_push(p->arena, &s->entries);
  if (pt2_failed(p)) return;
  if (!entry || !base_map_put(&s->names, p->arena, base_str_of(name), s->entries.count - 1, NULL)) {
    ir_build_take(&p->b, base_no_memory(p->b.err, "names"));
    return;
  }
  *entry = (pt2_entry){.value = value};
}

aten_value pt2_lookup(pt2 *p, pt2_scope *s, const char *name) {
  const uint32_t *at = pt2_failed(p) || !name ? NULL : base_map_get(&s->names, base_str_of(name));
  if (!at) {
    pt2_fail(p, "the name \"%.200s\" is not defined", name ? name : "");
    return ATEN_NOTHING;
  }
  pt2_entry *entry = &s->entries.at[*at];
  if (entry->stored) {
    ir_value value = pt2_tensor(p, entry->stored, entry->constant);
    const int32_t rank = ir_build_rank(&p->b, value);
    if (entry->is_complex && (rank < 1 || ir_build_type(&p->b, value)->dims[rank - 1] != 2))
      pt2_fail(p, "the tensor %s is not of complex numbers, as the program has it", entry->stored);
    entry->value = entry->is_complex ? aten_of_complex(p->a, value) : aten_of(p->a, value, entry->is_dense);
    entry->made = value;
    entry->stored = NULL;
  }
  return entry->value;
}

/* ---- arguments ---- */

typedef aten_value (*read_fn)(pt2 *p, pt2_scope *s, const fmt_json *value);

static aten_value read_list(pt2 *p, pt2_scope *s, const fmt_json *value, read_fn read) {
  size_t count = fmt_json_count(value);
  aten_value *items = pt2_alloc(p, count * sizeof *items);
  if (!fmt_json_is(value, FMT_JSON_ARRAY)) pt2_fail(p, "an argument is no list");
  for (size_t i = 0; items && i < count && !pt2_failed(p); i++) items[i] = read(p, s, fmt_json_at(value, i));
  return pt2_failed(p) ? ATEN_NOTHING : aten_list_of(p->a, items, (uint32_t)count);
}

static aten_value read_none(pt2 *p, pt2_scope *s, const fmt_json *value) {
  (void)p, (void)s, (void)value;
  return ATEN_NOTHING;
}

static aten_value read_named(pt2 *p, pt2_scope *s, const fmt_json *value) {
  return pt2_lookup(p, s, pt2_text(value, "name"));
}

static aten_value read_int(pt2 *p, pt2_scope *s, const fmt_json *value) {
  int64_t number = 0;
  (void)s;
  if (!pt2_int(value, &number)) pt2_fail(p, "an argument is no integer");
  return aten_int(number);
}

static aten_value read_float(pt2 *p, pt2_scope *s, const fmt_json *value) {
  double number = 0;
  (void)s;
  if (!pt2_float(value, &number)) pt2_fail(p, "an argument is no number");
  return aten_float(number);
}

static aten_value read_bool(pt2 *p, pt2_scope *s, const fmt_json *value) {
  (void)s;
  if (!fmt_json_is(value, FMT_JSON_TRUE) && !fmt_json_is(value, FMT_JSON_FALSE))
    pt2_fail(p, "an argument is neither true nor false");
  return aten_bool(fmt_json_is(value, FMT_JSON_TRUE));
}

static aten_value read_text(pt2 *p, pt2_scope *s, const fmt_json *value) {
  const char *text = fmt_json_text(value);
  (void)s;
  if (!text) pt2_fail(p, "an argument is no text");
  return pt2_failed(p) ? ATEN_NOTHING : aten_text(p->a, text);
}

static aten_value read_scalar_type(pt2 *p, pt2_scope *s, const fmt_json *value) {
  (void)s;
  return aten_int(pt2_scalar_type(p, value));
}

/* Memory formats and layouts have numbers of their own in the document; these are c10's. */
static aten_value read_row(pt2 *p, const fmt_json *value, const int8_t *row, int64_t count, const char *what) {
  int64_t number = -1;
  bool known = pt2_int(value, &number) && number >= 0 && number < count && row[number] >= 0;
  if (!known) ir_build_fail(&p->b, TD_UNSUPPORTED, "the %s %lld is not supported", what, (long long)number);
  return aten_int(known ? row[number] : 0);
}

static aten_value read_memory_format(pt2 *p, pt2_scope *s, const fmt_json *value) {
  static const int8_t row[] = {-1, 0, 2, 3, 1}; /* contiguous, channels last, channels last 3-D, preserve */
  (void)s;
  return read_row(p, value, row, sizeof row, "memory format");
}

static aten_value read_layout(pt2 *p, pt2_scope *s, const fmt_json *value) {
  static const int8_t row[] = {-1, -1, -1, -1, -1, -1, -1, 0}; /* strided */
  (void)s;
  return read_row(p, value, row, sizeof row, "layout");
}

static aten_value read_device(pt2 *p, pt2_scope *s, const fmt_json *value) {
  (void)value;
  (void)s;
  aten_value device = pt2_failed(p) ? ATEN_NOTHING : aten_text(p->a, "cpu"); /* wherever it was made, it runs here */
  device.kind = ATEN_DEVICE;
  return device;
}

/* {as_name} or a plain number. */
static aten_value read_symbolic(pt2 *p, pt2_scope *s, const fmt_json *value) {
  const char *tag;
  const fmt_json *inner = pt2_union(value, &tag);
  if (strcmp(tag, "as_name") == 0) return pt2_lookup(p, s, fmt_json_text(inner));
  if (strcmp(tag, "as_int") == 0) return read_int(p, s, inner);
  if (strcmp(tag, "as_float") == 0) return read_float(p, s, inner);
  if (strcmp(tag, "as_bool") == 0) return read_bool(p, s, inner);
  pt2_fail(p, "an argument is neither a name nor a number");
  return ATEN_NOTHING;
}

static aten_value read_optional(pt2 *p, pt2_scope *s, const fmt_json *value) {
  const char *tag;
  const fmt_json *inner = pt2_union(value, &tag);
  return strcmp(tag, "as_tensor") == 0 ? read_named(p, s, inner) : ATEN_NOTHING;
}

static aten_value read_complex(pt2 *p, pt2_scope *s, const fmt_json *value) {
  double re = 0, im = 0;
  (void)s;
  if (!pt2_float(fmt_json_get(value, "real"), &re) || !pt2_float(fmt_json_get(value, "imag"), &im))
    pt2_fail(p, "an argument is no complex number");
  return aten_complex(p->a, re, im);
}

static aten_value read_ints(pt2 *p, pt2_scope *s, const fmt_json *value) { return read_list(p, s, value, read_int); }
static aten_value read_floats(pt2 *p, pt2_scope *s, const fmt_json *value) {
  return read_list(p, s, value, read_float);
}
static aten_value read_names(pt2 *p, pt2_scope *s, const fmt_json *value) { return read_list(p, s, value, read_named); }

static const struct {
  const char *tag;
  read_fn read;
  bool list; /* of what `read` reads */
} readers[] = {{"as_none", read_none, false},
               {"as_tensor", read_named, false},
               {"as_tensors", read_named, true},
               {"as_optional_tensor", read_optional, false},
               {"as_optional_tensors", read_optional, true},
               {"as_nested_tensors", read_names, true},
               {"as_int", read_int, false},
               {"as_ints", read_int, true},
               {"as_int_lists", read_ints, true},
               {"as_float", read_float, false},
               {"as_floats", read_float, true},
               {"as_float_lists", read_floats, true},
               {"as_bool", read_bool, false},
               {"as_bools", read_bool, true},
               {"as_string", read_text, false},
               {"as_strings", read_text, true},
               {"as_sym_int", read_symbolic, false},
               {"as_sym_ints", read_symbolic, true},
               {"as_sym_float", read_symbolic, false},
               {"as_sym_floats", read_symbolic, true},
               {"as_sym_bool", read_symbolic, false},
               {"as_sym_bools", read_symbolic, true},
               {"as_scalar_type", read_scalar_type, false},
               {"as_memory_format", read_memory_format, false},
               {"as_layout", read_layout, false},
               {"as_device", read_device, false},
               {"as_complex", read_complex, false},
               {"as_operator", read_text, false}};

aten_value pt2_argument(pt2 *p, pt2_scope *s, const fmt_json *argument) {
  const char *tag;
  const fmt_json *value = pt2_union(argument, &tag);
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
    if (strcmp(tag, readers[i].tag) == 0)
      return readers[i].list ? read_list(p, s, value, readers[i].read) : readers[i].read(p, s, value);
  ir_build_fail(&p->b, TD_UNSUPPORTED, "arguments of kind %.60s are not supported", tag);
  return ATEN_NOTHING;
}

/* ---- outputs ---- */

/* The name that an output binds, "" for one that nobody uses; NULL: several, a list. */
static const char *output_name(const fmt_json *output, const fmt_json **list) {
  const char *tag;
  const fmt_json *inner = pt2_union(output, &tag);
  *list = fmt_json_is(inner, FMT_JSON_ARRAY) ? inner : NULL;
  if (*list) return NULL;
  const char *name = pt2_text(inner, "name");
  if (!name) name = pt2_text(inner, "as_name");
  return name ? name : "";
}

static uint32_t item_count(const aten_value *v) {
  return v->kind == ATEN_TUPLE || v->kind == ATEN_LIST ? v->u.list->items.count : 0;
}

static void bind_output(pt2 *p, pt2_scope *s, const fmt_json *output, aten_value value) {
  const fmt_json *list;
  const char *name = output_name(output, &list);
  if (name && *name) pt2_bind(p, s, name, value);
  if (!list) return;
  if (item_count(&value) != fmt_json_count(list)) pt2_fail(p, "the operator gives another number of results");
  for (size_t i = 0; i < fmt_json_count(list) && !pt2_failed(p); i++) {
    const fmt_json *item = fmt_json_at(list, i);
    const char *inner = pt2_text(item, "name");
    if (!inner) inner = pt2_text(item, "as_name");
    if (inner) pt2_bind(p, s, inner, value.u.list->items.at[i]);
  }
}

void pt2_bind_outputs(pt2 *p, pt2_scope *s, const fmt_json *node, aten_value result) {
  const fmt_json *outputs = fmt_json_get(node, "outputs"), *list;
  size_t count = fmt_json_count(outputs);
  if (pt2_failed(p) || count == 0) return;
  output_name(fmt_json_at(outputs, 0), &list);
  /* A tuple goes to as many names; where there is one name, a tuple of one is its item. */
  bool spread = result.kind == ATEN_TUPLE && !list;
  if (!spread && count == 1) {
    bind_output(p, s, fmt_json_at(outputs, 0), result);
    return;
  }
  if (!spread || item_count(&result) < count) {
    pt2_fail(p, "the operator gives another number of results than the %zu that the program takes", count);
    return;
  }
  for (size_t i = 0; i < count; i++) bind_output(p, s, fmt_json_at(outputs, i), result.u.list->items.at[i]);
}

/* ---- targets ---- */

typedef struct target {
  char name[160];    /* "aten::add" */
  char overload[80]; /* "Tensor", "" for the unnamed one */
  bool has_overload;
  bool region; /* of torch.ops.higher_order: `name` is the operator's own */
} target;

static bool read_target(const char *text, target *t) {
  static const char ops[] = "torch.ops.", higher[] = "torch.ops.higher_order.";
  *t = (target){.has_overload = false};
  if (!text) return false;
  base_str whole = base_str_of(text);
  if (base_str_starts(whole, higher)) {
    t->region = true;
    return snprintf(t->name, sizeof t->name, "%s", text + sizeof higher - 1) < (int)sizeof t->name;
  }
  bool op = base_str_starts(whole, ops);
  const char *space = op ? text + sizeof ops - 1 : text, *name = strchr(space, '.');
  const char *last = name ? strrchr(name + 1, '.') : NULL;
  if (!name || (op && !last)) return false;
  if (!op) { /* torch.sym_max, _operator.add, math.trunc */
    if (!last) last = name;
    return snprintf(t->name, sizeof t->name, "%.*s::%s", (int)(name - space), space, last + 1) < (int)sizeof t->name;
  }
  t->has_overload = true;
  const char *overload = strcmp(last + 1, "default") == 0 ? "" : last + 1;
  return snprintf(t->name, sizeof t->name, "%.*s::%.*s", (int)(name - space), space, (int)(last - name - 1), name + 1) <
             (int)sizeof t->name &&
         snprintf(t->overload, sizeof t->overload, "%s", overload) < (int)sizeof t->overload;
}

/* What only checks what export has proved, or says what is known of a size. */
static const char *const checks[] = {"aten::_assert_tensor_metadata", "aten::_assert_scalar", "aten::_assert_async",
                                     "aten::sym_constrain_range", "aten::sym_constrain_range_for_size"};

static bool is_check(const target *t) {
  for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
    if (strcmp(t->name, checks[i]) == 0) return true;
  return false;
}

/* Calls t with the inputs from number `first` on. */
static aten_value call_target(pt2 *p, pt2_scope *s, const fmt_json *inputs, size_t first, const target *t) {
  size_t count = fmt_json_count(inputs);
  aten_value *args = pt2_alloc(p, (count + 1) * sizeof *args);
  aten_keyword *keywords = pt2_alloc(p, (count + 1) * sizeof *keywords);
  uint32_t arg_count = 0, keyword_count = 0;
  for (size_t i = first; i < count && !pt2_failed(p); i++) {
    const fmt_json *input = fmt_json_at(inputs, i);
    const char *name = pt2_text(input, "name");
    int64_t kind = name && *name && t->has_overload ? 2 : 1;
    pt2_int(fmt_json_get(input, "kind"), &kind);
    aten_value value = pt2_argument(p, s, fmt_json_get(input, "arg"));
    if (kind == 1 || !name || !*name) args[arg_count++] = value;
    else keywords[keyword_count++] = (aten_keyword){base_str_of(name), value};
  }
  if (pt2_failed(p)) return ATEN_NOTHING;
  return aten_call(p->a, t->name, t->has_overload ? t->overload : NULL, args, arg_count, keywords, keyword_count);
}

/* The operator that argument `at` of a higher-order one names; NULL: it is none. */
static const char *operator_argument(const fmt_json *inputs, size_t at) {
  return fmt_json_text(fmt_json_get(fmt_json_get(fmt_json_at(inputs, at), "arg"), "as_operator"));
}

void pt2_run_with_effects(pt2 *p, pt2_scope *s, const fmt_json *node) {
  const fmt_json *inputs = fmt_json_get(node, "inputs");
  aten_value items[2] = {pt2_argument(p, s, fmt_json_get(fmt_json_at(inputs, 0), "arg"))};
  target t;
  if (!read_target(operator_argument(inputs, 1), &t) || t.region) pt2_fail(p, "its operator is missing");
  if (pt2_failed(p)) return;
  aten_value result = call_target(p, s, inputs, 2, &t), all = aten_tuple_of(p->a, items, 1);
  bool several = result.kind == ATEN_TUPLE;
  for (uint32_t i = 0; several && i < result.u.list->items.count; i++)
    aten_list_append(p->a, all.u.list, result.u.list->items.at[i]);
  if (!several) aten_list_append(p->a, all.u.list, result); /* none, where it gives none */
  pt2_bind_outputs(p, s, node, all);
}

/* ---- origins ---- */

/* The innermost module: the second word of the last "key,path,class;". */
static base_str module_path(const fmt_json *node) {
  const char *stack = pt2_text(fmt_json_get(node, "metadata"), "nn_module_stack");
  const char *last = stack ? strrchr(stack, ';') : NULL;
  last = last ? last + 1 : stack;
  const char *path = last ? strchr(last, ',') : NULL, *end = path ? strchr(path + 1, ',') : NULL;
  if (!end || path[1] == '_') return (base_str){"", 0}; /* "_empty_nn_module_stack..." */
  return (base_str){path + 1, (size_t)(end - path - 1)};
}

/* The innermost line of the user's own code: "model.py:41, in forward". */
static bool source_line(const fmt_json *node, char *text, size_t size) {
  const char *trace = pt2_text(fmt_json_get(node, "metadata"), "stack_trace"), *best = NULL;
  for (const char *at = trace ? strstr(trace, "File \"") : NULL; at; at = strstr(at + 1, "File \"")) {
    const char *end = strchr(at + 6, '"');
    if (!end) break;
    bool own = !memmem(at, (size_t)(end - at), "/torch/", 7) && at[6] != '<';
    if (own || !best) best = at + 6;
  }
  const char *end = best ? strchr(best, '"') : NULL;
  int line = 0, used = 0;
  char function[64];
  if (!end || sscanf(end, "\", line %d, in %63[^\n]%n", &line, function, &used) < 2) return false;
  const char *file = end;
  while (file > best && file[-1] != '/') file--;
  snprintf(text, size, "%.*s:%d, in %s", (int)(end - file), file, line, function);
  return true;
}

static const char *origin_of(pt2 *p, const fmt_json *node, const target *t) {
  const fmt_json *list;
  const char *name = pt2_text(node, "name"), *slash = "";
  char line[200] = "";
  if (!name) name = output_name(fmt_json_at(fmt_json_get(node, "outputs"), 0), &list);
  base_str module = module_path(node);
  if (module.length) slash = ".";
  bool has_line = source_line(node, line, sizeof line);
  return pt2_format(p, "%.*s%s%.80s (%s)%s%s", (int)base_min_i64((int64_t)module.length, 160), module.at, slash,
                    name ? name : "", t->name, has_line ? " at " : "", line);
}

/* ---- graphs ---- */

static void check_memory(pt2 *p) {
  if (pt2_failed(p) || base_arena_bytes(p->arena) + base_arena_bytes(p->b.graph->arena) <= p->memory_limit) return;
  ir_build_fail(&p->b, TD_NO_RESOURCE,
                "the model asks for more than %zu MiB while it is read, which its size of %zu bytes does not explain",
                p->memory_limit >> 20, p->source->size);
}

static void run_node(pt2 *p, pt2_scope *s, const fmt_json *node) {
  target t;
  ir_frame frame;
  if (!read_target(pt2_text(node, "target"), &t)) {
    pt2_fail(p, "a node has no target");
    return;
  }
  if (is_check(&t)) return;
  ir_build_enter(&p->b, &frame, origin_of(p, node, &t));
  pt2_region_fn region = t.region ? pt2_find_region(t.name) : NULL;
  if (region) region(p, s, node);
  else if (t.region) ir_build_fail(&p->b, TD_UNSUPPORTED, "the higher-order operator %s is not supported", t.name);
  else pt2_bind_outputs(p, s, node, call_target(p, s, fmt_json_get(node, "inputs"), 0, &t));
  check_memory(p);
  ir_build_leave(&p->b);
}

void pt2_run_nodes(pt2 *p, pt2_scope *s, const fmt_json *graph) {
  const fmt_json *nodes = fmt_json_get(graph, "nodes");
  if (!fmt_json_is(nodes, FMT_JSON_ARRAY)) pt2_fail(p, "a graph has no nodes");
  if (s->depth > PT2_MAX_DEPTH) pt2_fail(p, "graphs are nested more than %d deep", PT2_MAX_DEPTH);
  for (size_t i = 0; i < fmt_json_count(nodes) && !pt2_failed(p); i++) run_node(p, s, fmt_json_at(nodes, i));
}

/* ---- what is not supported ---- */

/* The operator that auto_functionalized(op, ...), its second form or with_effects(token, op, ...) calls: a user's own,
 * or one that is there. NULL: it is no such. */
static const char *wrapped_operator(const target *t, const fmt_json *node) {
  const fmt_json *inputs = fmt_json_get(node, "inputs");
  if (t->region && strncmp(t->name, "auto_functionalized", 19) == 0) return operator_argument(inputs, 0);
  return t->region && strcmp(t->name, "with_effects") == 0 ? operator_argument(inputs, 1) : NULL;
}

static void note_node(pt2 *p, const fmt_json *node, uint32_t depth) {
  target t;
  char line[200];
  if (!read_target(pt2_text(node, "target"), &t) || is_check(&t)) return;
  bool found =
      t.region ? pt2_find_region(t.name) != NULL : aten_supports(p->a, t.name, t.has_overload ? t.overload : NULL);
  target inner_op;
  if (read_target(wrapped_operator(&t, node), &inner_op) && !inner_op.region &&
      !aten_supports(p->a, inner_op.name, inner_op.overload)) {
    t = inner_op;
    found = false;
  }
  const bool composed = base_str_starts(base_str_of(t.name), "export::") ||
                        base_str_starts(base_str_of(t.name), "torchao::"); /* weights of torchao, and what it calls */
  const char *what = *t.overload ? pt2_format(p, "%s.%s", t.name, t.overload) : pt2_format(p, "%s", t.name);
  if (!found)
    aten_note_missing(p->a, what, source_line(node, line, sizeof line) ? pt2_format(p, "%s", line) : NULL,
                      composed ? "PyTorch writes it out: save program.run_decompositions()" : NULL);
  const fmt_json *inputs = fmt_json_get(node, "inputs");
  for (size_t i = 0; t.region && i < fmt_json_count(inputs); i++) {
    const fmt_json *inner = fmt_json_get(fmt_json_get(fmt_json_at(inputs, i), "arg"), "as_graph");
    if (inner) pt2_note_missing(p, fmt_json_get(inner, "graph"), depth + 1);
  }
}

void pt2_note_missing(pt2 *p, const fmt_json *graph, uint32_t depth) {
  const fmt_json *nodes = fmt_json_get(graph, "nodes");
  if (depth > PT2_MAX_DEPTH) return; /* pt2_run_nodes says so */
  for (size_t i = 0; i < fmt_json_count(nodes) && !pt2_failed(p); i++) note_node(p, fmt_json_at(nodes, i), depth);
}
