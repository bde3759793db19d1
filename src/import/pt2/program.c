/* program.c -- the program as a whole: its arguments become inputs of the graph, parameters and buffers constants, the
 * buffers that it writes state of the session; results become outputs under the names of their pytree. */
#include <string.h>

#include "import/pt2/pt2_priv.h"

/* ---- inputs ---- */

/* The arguments' names and types are looked up while the specs are walked side by side with the leaves of the tree. */
typedef struct arguments {
  const fmt_json *graph;
  const char **paths; /* of the leaves */
  uint32_t path_count, leaf;
} arguments;

static const fmt_json *root_signature(const pt2 *p) {
  const fmt_json *calls = fmt_json_get(fmt_json_get(p->root, "graph_module"), "module_call_graph");
  for (size_t i = 0; i < fmt_json_count(calls); i++) {
    const fmt_json *call = fmt_json_at(calls, i);
    const char *name = pt2_text(call, "fqn");
    if (name && !*name) return fmt_json_get(call, "signature");
  }
  return NULL;
}

/* Bound as a number of the graph; the caller says what else it is. */
static ir_value add_input(pt2 *p, pt2_scope *s, arguments *a, const ir_type *type, const char *name) {
  ir_value value = IR_NO_VALUE;
  const char *kept = pt2_format(p, "%s", name),
             *path = a->leaf < a->path_count ? a->paths[a->leaf] : pt2_format(p, "L['%s']", name);
  if (!pt2_failed(p)) ir_build_take(&p->b, ir_add_input(p->b.graph, type, kept, IR_NO_VALUE, &value, p->b.err));
  if (pt2_failed(p)) return IR_NO_VALUE;
  const char **slot = base_vec_push(p->arena, &p->input_paths);
  if (!slot) {
    ir_build_take(&p->b, base_no_memory(p->b.err, "names"));
    return IR_NO_VALUE;
  }
  *slot = path;
  pt2_bind(p, s, name, (aten_value){.kind = ATEN_NONE, .graph = value});
  return value;
}

static void add_tensor_input(pt2 *p, pt2_scope *s, arguments *a, const char *name) {
  ir_frame frame;
  ir_build_enter(&p->b, &frame, pt2_format(p, "input %.200s", name));
  const fmt_json *meta = fmt_json_get(fmt_json_get(a->graph, "tensor_values"), name);
  ir_type type = pt2_type(p, meta);
  ir_build_leave(&p->b);
  ir_value value = add_input(p, s, a, &type, name);
  if (pt2_failed(p)) return;
  aten_value *entry = &s->entries.at[s->entries.count - 1].value;
  *entry = pt2_is_complex(p, meta) ? aten_of_complex(p->a, value) : aten_of(p->a, value, pt2_is_dense(meta));
}

/* A number that the caller gives; where it is the size of a tensor too, see fix_numbers. */
static void add_number_input(pt2 *p, pt2_scope *s, arguments *a, const char *name, td_dtype dtype) {
  const ir_type type = ir_tensor(dtype, 0, NULL);
  ir_value value = add_input(p, s, a, &type, name);
  if (!pt2_failed(p)) s->entries.at[s->entries.count - 1].value = aten_number(p->a, value);
}

static void add_user_input(pt2 *p, pt2_scope *s, arguments *a, const fmt_json *argument) {
  static const struct {
    const char *tag;
    td_dtype dtype;
  } numbers[] = {{"as_sym_int", TD_I64}, {"as_sym_float", TD_F64}, {"as_sym_bool", TD_BOOL}};
  const char *tag;
  const fmt_json *inner = pt2_union(argument, &tag);
  const char *name = pt2_text(inner, "name");
  if (strcmp(tag, "as_tensor") == 0 && name) add_tensor_input(p, s, a, name);
  if (!name) name = pt2_text(inner, "as_name");
  for (size_t i = 0; name && i < sizeof numbers / sizeof *numbers; i++)
    if (strcmp(tag, numbers[i].tag) == 0) add_number_input(p, s, a, name, numbers[i].dtype);
  if (strcmp(tag, "as_custom_obj") == 0)
    ir_build_fail(&p->b, TD_UNSUPPORTED, "arguments that are objects of C++ classes are not supported");
  a->leaf++;
}

/* ---- what the archive holds ---- */

static void add_stored(pt2 *p, pt2_scope *s, const fmt_json *graph, const char *name, const char *key, bool constant) {
  if (!name || !key) pt2_fail(p, "a parameter has no name");
  if (!pt2_failed(p)) pt2_bind(p, s, name, ATEN_NOTHING);
  if (pt2_failed(p)) return;
  pt2_entry *entry = &s->entries.at[s->entries.count - 1];
  entry->stored = key;
  entry->constant = constant;
  const fmt_json *meta = fmt_json_get(fmt_json_get(graph, "tensor_values"), name);
  entry->is_dense = pt2_is_dense(meta);
  entry->is_complex = fmt_json_get(meta, "dtype") && pt2_is_complex(p, meta);
}

/* A buffer that the program writes begins as what the archive holds, and is kept from one run to the next. */
static void make_state(pt2 *p, const char *key, pt2_entry *entry) {
  ir_value first = pt2_tensor(p, key, entry->constant), state = IR_NO_VALUE;
  if (pt2_failed(p)) return;
  const ir_type type = *ir_build_type(&p->b, first);
  const ir_initial initial = {.value = first};
  const char *name = pt2_format(p, "%s", key);
  ir_build_take(&p->b, ir_add_state(p->b.graph, &type, name, &initial, &state, p->b.err));
  entry->value = entry->is_complex ? aten_of_complex(p->a, state) : aten_of(p->a, state, entry->is_dense);
  entry->stored = NULL;
  entry->state = state;
}

static void add_spec(pt2 *p, pt2_scope *s, arguments *a, const fmt_json *spec) {
  static const struct {
    const char *tag, *key;
  } kinds[] = {{"parameter", "parameter_name"}, {"buffer", "buffer_name"}, {"tensor_constant", "tensor_constant_name"}};
  const char *tag;
  const fmt_json *inner = pt2_union(spec, &tag), *arg = fmt_json_get(inner, "arg");
  if (strcmp(tag, "user_input") == 0) {
    add_user_input(p, s, a, arg);
    return;
  }
  if (strcmp(tag, "constant_input") == 0) {
    const char *name = pt2_text(inner, "name");
    if (name) pt2_bind(p, s, name, pt2_argument(p, s, fmt_json_get(inner, "value")));
    a->leaf++;
    return;
  }
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(tag, kinds[i].tag) != 0) continue;
    const char *key = pt2_text(inner, kinds[i].key);
    bool constant = i == 2 || (i == 1 && fmt_json_is(fmt_json_get(inner, "persistent"), FMT_JSON_FALSE));
    add_stored(p, s, a->graph, pt2_text(arg, "name"), key, constant);
    bool written = !pt2_failed(p) && base_map_get(p->written, base_str_of(key));
    if (written) make_state(p, key, &s->entries.at[s->entries.count - 1]);
    return;
  }
  if (strcmp(tag, "token") == 0) return;
  ir_build_fail(&p->b, TD_UNSUPPORTED, "inputs of kind %.60s are not supported", tag);
}

static void note_written(pt2 *p, const char *key) {
  char *kept = base_arena_text(p->written_arena, key);
  if (!kept || !base_map_put(p->written, p->written_arena, base_str_of(kept), 0, NULL))
    ir_build_take(&p->b, base_no_memory(p->b.err, "names"));
}

/* Buffers whose new contents the signature names. */
static void find_written(pt2 *p, const fmt_json *outputs) {
  for (size_t i = 0; i < fmt_json_count(outputs) && !pt2_failed(p); i++) {
    const char *tag;
    const fmt_json *inner = pt2_union(fmt_json_at(outputs, i), &tag);
    const char *key = strcmp(tag, "buffer_mutation") == 0      ? pt2_text(inner, "buffer_name")
                      : strcmp(tag, "parameter_mutation") == 0 ? pt2_text(inner, "parameter_name")
                                                               : NULL;
    if (key) note_written(p, key);
  }
}

/* A number among the arguments that is also the size of a tensor (torch.compile passes both) is taken from there, so
 * that sizes that follow from it are known when shapes are bound. */
static void fix_numbers(pt2 *p, pt2_scope *s, const arguments *a) {
  const fmt_json *values = fmt_json_get(a->graph, "sym_int_values");
  const ir_graph *g = p->b.graph;
  const char *name;
  const fmt_json *meta;
  for (size_t k = 0; (meta = fmt_json_member(values, k, &name)); k++) {
    const uint32_t *at = base_map_get(&s->names, base_str_of(name));
    if (!at || pt2_failed(p)) continue; /* computed by a node */
    base_dim size = pt2_size(p, meta);
    for (uint32_t i = 0; i < g->input_defaults.count && !base_dim_known(size); i++) {
      ir_value input = ir_block_of(g, g->top)->params.at[i];
      const ir_type *type = ir_type_of(g, input);
      int32_t axis = 0;
      while (axis < type->rank && type->dims[axis] != size) axis++;
      if (axis >= type->rank) continue;
      const aten_value args[] = {aten_of(p->a, input, true), aten_int(axis)};
      s->entries.at[*at].value = aten_call(p->a, "aten::sym_size", "int", args, 2, NULL, 0);
      break;
    }
  }
}

/* ---- outputs ---- */

static void add_output(pt2 *p, const char *name, const aten_value *value) {
  ir_value v = pt2_failed(p) ? IR_NO_VALUE : aten_graph_value(p->a, value);
  if (!pt2_failed(p)) ir_build_take(&p->b, ir_add_output(p->b.graph, v, name, p->b.err));
  if (!pt2_failed(p) && aten_is_complex(value) && ir_holds_pairs(ir_type_of(p->b.graph, v)))
    ir_build_take(&p->b, ir_mark_complex(p->b.graph, p->b.err));
}

static void add_user_output(pt2 *p, pt2_scope *s, const fmt_json *argument, const char *name) {
  const char *tag;
  pt2_union(argument, &tag);
  if (strcmp(tag, "as_none") == 0 || strcmp(tag, "as_string") == 0) return; /* nothing that has elements */
  aten_value value = pt2_argument(p, s, argument);
  add_output(p, name, &value);
}

static void store(pt2 *p, pt2_scope *s, const char *key, const fmt_json *argument) {
  aten_value value = pt2_lookup(p, s, pt2_text(argument, "name"));
  for (uint32_t i = 0; key && i < s->entries.count && !pt2_failed(p); i++) {
    pt2_entry *entry = &s->entries.at[i];
    const char *name = entry->state.id ? ir_value_of(p->b.graph, entry->state)->name : NULL;
    if (!name || strcmp(name, key) != 0) continue;
    entry->value = value; /* written back below, with what the program wrote in place */
    return;
  }
  pt2_fail(p, "the program writes the buffer %.200s, which it does not have", key ? key : "");
}

static void add_outputs(pt2 *p, pt2_scope *s, const fmt_json *specs, const fmt_json *signature) {
  uint32_t leaves, leaf = 0;
  const char **names = pt2_leaves(p, pt2_text(signature, "out_spec"), NULL, NULL, &leaves);
  for (size_t i = 0; i < fmt_json_count(specs) && !pt2_failed(p); i++) {
    const char *tag;
    const fmt_json *inner = pt2_union(fmt_json_at(specs, i), &tag), *arg = fmt_json_get(inner, "arg");
    if (strcmp(tag, "user_output") == 0) {
      add_user_output(p, s, arg, leaf < leaves ? names[leaf] : pt2_format(p, "output_%u", leaf));
      leaf++;
    } else if (strcmp(tag, "buffer_mutation") == 0) {
      store(p, s, pt2_text(inner, "buffer_name"), arg);
    } else if (strcmp(tag, "parameter_mutation") == 0) {
      store(p, s, pt2_text(inner, "parameter_name"), arg);
    } else if (strcmp(tag, "user_input_mutation") == 0) {
      aten_value value = pt2_lookup(p, s, pt2_text(arg, "name"));
      const char *input = pt2_text(inner, "user_input_name");
      add_output(p, pt2_format(p, "%s.written", input ? input : ""), &value);
    } else if (strcmp(tag, "token") != 0) {
      ir_build_fail(&p->b, TD_UNSUPPORTED, "outputs of kind %.60s are not supported: the program is one for training",
                    tag);
    }
  }
}

/* What the program wrote in place: states are stored; a buffer that was taken for a constant is noted, and the import
 * begins anew. */
static void find_changes(pt2 *p, pt2_scope *s, const fmt_json *inputs) {
  for (uint32_t i = 0; i < s->entries.count && !pt2_failed(p); i++) {
    pt2_entry *entry = &s->entries.at[i];
    if (entry->value.kind != ATEN_TENSOR || !(entry->state.id || entry->made.id)) continue;
    ir_value now = aten_read(p->a, &entry->value);
    if (entry->state.id && now.id != entry->state.id)
      ir_build_take(&p->b, ir_store_state(p->b.graph, entry->state, now, p->b.err));
    if (!entry->made.id || now.id == entry->made.id) continue;
    const char *tag, *key = NULL;
    const fmt_json *spec = pt2_union(fmt_json_at(inputs, entry->spec), &tag);
    if (strcmp(tag, "buffer") == 0) key = pt2_text(spec, "buffer_name");
    if (strcmp(tag, "parameter") == 0) key = pt2_text(spec, "parameter_name");
    if (strcmp(tag, "tensor_constant") == 0) key = pt2_text(spec, "tensor_constant_name");
    if (key) note_written(p, key);
    p->begin_anew |= key != NULL;
  }
}

/* ---- all of it ---- */

/* Weights that the caller gives are segments, as files are. */
static void add_segments(pt2 *p) {
  for (uint32_t i = 0; i < p->source->weight_count && !pt2_failed(p); i++) {
    const import_weight *w = &p->source->weights[i];
    int64_t last = 0;
    for (int32_t k = 0; k < w->tensor.rank; k++)
      last += w->tensor.dims[k] > 0 ? (w->tensor.dims[k] - 1) * w->tensor.strides[k] : 0;
    size_t bytes = 0;
    base_dtype_bytes(w->tensor.dtype, last + 1, &bytes);
    ir_segment *segment = base_vec_push(p->b.graph->arena, &p->b.graph->segments);
    const char *name = pt2_format(p, "%s", w->name);
    if (!segment) ir_build_take(&p->b, base_no_memory(p->b.err, "a graph"));
    else *segment = (ir_segment){.name = name, .base = w->tensor.data, .bytes = bytes};
  }
}

void pt2_run(pt2 *p) {
  const fmt_json *module = fmt_json_get(p->root, "graph_module");
  const fmt_json *specs = fmt_json_get(module, "signature"), *inputs = fmt_json_get(specs, "input_specs");
  const fmt_json *signature = root_signature(p);
  arguments a = {.graph = fmt_json_get(module, "graph")};
  pt2_scope s = {.depth = 0};
  if (!fmt_json_is(inputs, FMT_JSON_ARRAY) || !fmt_json_is(a.graph, FMT_JSON_OBJECT))
    pt2_fail(p, "the program has no graph or no signature");
  if (pt2_failed(p)) return;
  add_segments(p);
  pt2_note_missing(p, a.graph, 0);
  aten_report_missing(p->a);
  a.paths =
      pt2_leaves(p, pt2_text(signature, "in_spec"), fmt_json_get(signature, "forward_arg_names"), "L", &a.path_count);
  find_written(p, fmt_json_get(specs, "output_specs"));
  for (size_t i = 0; i < fmt_json_count(inputs) && !pt2_failed(p); i++) {
    uint32_t before = s.entries.count;
    add_spec(p, &s, &a, fmt_json_at(inputs, i));
    if (s.entries.count > before) s.entries.at[before].spec = (uint32_t)i;
  }
  fix_numbers(p, &s, &a);
  pt2_add_guards(p);
  pt2_run_nodes(p, &s, a.graph);
  if (!pt2_failed(p)) add_outputs(p, &s, fmt_json_get(specs, "output_specs"), signature);
  find_changes(p, &s, inputs);
}
