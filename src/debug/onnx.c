/* onnx.c -- a graph as an ONNX model, for other engines to be asked. Operators that are one of ONNX's exactly have its
 * name among their aliases; the table below has those whose attributes or operands go by other rules. What is in
 * neither is an error that names it: the text form holds everything. */
#include <string.h>

#include "debug/debug.h"
#include "fmt/tensor_proto.h"

enum { OPSET = 20, IR_VERSION = 9 };
enum { MOST_BYTES = 1 << 30 }; /* of a message; the format ends at twice as much */

typedef struct writing {
  const ir_graph *g;
  base_text graph;         /* GraphProto */
  const char *const *name; /* per value */
  base_arena *scratch;
  td_error *err;
} writing;

/* ---- names of operators ---- */

/* `renames` as of ir_alias; an attribute that is called "" there has no place in ONNX and says nothing. Others must
 * have their defaults. NULL `holds`: always. */
typedef struct special {
  const char *op, *onnx, *renames;
  bool (*holds)(const ir_graph *g, const ir_node_def *node);
  bool axes; /* attribute 0 lists axes, which ONNX takes as operand 1 */
} special;

static bool plain_division(const ir_graph *g, const ir_node_def *node) {
  const char *mode = base_attr_str(node->attrs, 0);
  return !*mode || (strcmp(mode, "trunc") == 0 && !base_is_float(ir_type_of(g, node->in[0])->dtype));
}

static const special specials[] = {
    {"aten::_native_batch_norm_legit_no_training", "BatchNormalization", "epsilon=eps", NULL, false},
    {"aten::_to_copy", "Cast", "to=dtype,=saturate,=round_mode", NULL, false},
    {"aten::amax", "ReduceMax", "=dim,keepdims=keepdim,=noop", NULL, true},
    {"aten::amin", "ReduceMin", "=dim,keepdims=keepdim,=noop", NULL, true},
    {"aten::cat", "Concat", "axis=dim", NULL, false},
    {"aten::constant_pad_nd", "Pad", NULL, NULL, false},
    {"aten::convolution", "Conv", "strides=stride,pads=padding,dilations=dilation,group=groups", NULL, false},
    {"aten::div", "Div", "=rounding_mode", plain_division, false},
    {"aten::maximum", "Max", NULL, NULL, false},
    {"aten::mean", "ReduceMean", "=dim,keepdims=keepdim,=noop", NULL, true},
    {"aten::minimum", "Min", NULL, NULL, false},
    {"aten::native_layer_norm", "LayerNormalization", "axis=axis,epsilon=eps", NULL, false},
    {"aten::pow", "Pow", NULL, NULL, false},
    {"aten::relu", "Relu", NULL, NULL, false},
    {"aten::slice", "Slice", NULL, NULL, false},
    {"aten::squeeze", "Squeeze", NULL, NULL, false},
    {"aten::sum", "ReduceSum", "=dim,keepdims=keepdim,=noop", NULL, true},
    {"aten::unsqueeze", "Unsqueeze", NULL, NULL, false},
    {"aten::view", "Reshape", "=zero_copies", NULL, false},
    {"td::avg_pool", "AveragePool",
     "kernel_shape=kernel_size,strides=stride,pads=padding,dilations=dilation,ceil_mode=ceil_mode,"
     "count_include_pad=count_include_pad",
     NULL, false},
    {"td::gemm", "Gemm", "alpha=alpha,beta=beta,transA=trans_a,transB=trans_b", NULL, false},
    {"td::max_pool", "MaxPool",
     "kernel_shape=kernel_size,strides=stride,pads=padding,dilations=dilation,ceil_mode=ceil_mode", NULL, false},
};

/* What an operator is called; false: nothing. */
static bool find_name(const ir_graph *g, const ir_node_def *node, special *found) {
  int since = 0;
  for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
    if (strcmp(specials[i].op, node->op->name) == 0) {
      *found = specials[i];
      return !found->holds || found->holds(g, node);
    }
  for (uint32_t i = 0; i < node->op->alias_count; i++) {
    const ir_alias *a = &node->op->aliases[i];
    if (strcmp(a->dialect, "onnx") != 0 || a->since > OPSET || a->since < since) continue;
    *found = (special){.op = node->op->name, .onnx = a->name, .renames = a->renames};
    since = a->since;
  }
  return since > 0;
}

/* ONNX's name of an attribute, a slice; *named: the renames have it. */
static base_str name_of(const char *renames, const char *own, bool *named) {
  *named = false;
  for (const char *at = renames; at && *at;) {
    const size_t theirs = strcspn(at, "="), word = strcspn(at, ",");
    if (theirs < word && base_str_is((base_str){at + theirs + 1, word - theirs - 1}, own)) {
      *named = true;
      return (base_str){at, theirs};
    }
    at += word + (at[word] == ',');
  }
  return base_str_of(own);
}

/* ---- attributes ---- */

enum { ATTR_IS_FLOAT = 1, ATTR_IS_INT = 2, ATTR_IS_STRING = 3, ATTR_IS_FLOATS = 6, ATTR_IS_INTS = 7 };

static bool is_default(const ir_attr *attr, const base_attrs *attrs, uint32_t i) {
  uint32_t count = 0;
  switch ((base_attr_kind)attrs->at[i].kind) {
    case BASE_ATTR_NONE: return true;
    case BASE_ATTR_INT:
    case BASE_ATTR_BOOL:
    case BASE_ATTR_DTYPE: return !attr->required && base_attr_int(attrs, i) == attr->i;
    case BASE_ATTR_FLOAT: return !attr->required && (float)base_attr_float(attrs, i) == (float)attr->f;
    case BASE_ATTR_STR: return !attr->required && strcmp(base_attr_str(attrs, i), attr->str ? attr->str : "") == 0;
    case BASE_ATTR_INTS: return base_attr_ints(attrs, i, &count), count == 0;
    case BASE_ATTR_FLOATS: return base_attr_floats(attrs, i, &count), count == 0;
  }
  return false;
}

static void put_value(base_text *to, const base_attrs *attrs, uint32_t i) {
  uint32_t count = 0;
  int type = ATTR_IS_INT;
  const base_attr_kind kind = (base_attr_kind)attrs->at[i].kind;
  if (kind == BASE_ATTR_FLOAT) {
    fmt_put_float(to, 2, (float)base_attr_float(attrs, i));
    type = ATTR_IS_FLOAT;
  } else if (kind == BASE_ATTR_STR) {
    fmt_put_str(to, 4, base_attr_str(attrs, i));
    type = ATTR_IS_STRING;
  } else if (kind == BASE_ATTR_INTS) {
    const int64_t *ints = base_attr_ints(attrs, i, &count);
    for (uint32_t k = 0; k < count; k++) fmt_put_int(to, 8, ints[k]);
    type = ATTR_IS_INTS;
  } else if (kind == BASE_ATTR_FLOATS) {
    const double *floats = base_attr_floats(attrs, i, &count);
    for (uint32_t k = 0; k < count; k++) fmt_put_float(to, 7, (float)floats[k]);
    type = ATTR_IS_FLOATS;
  } else if (kind == BASE_ATTR_DTYPE) {
    fmt_put_int(to, 3, fmt_onnx_element((td_dtype)base_attr_int(attrs, i)));
  } else {
    fmt_put_int(to, 3, base_attr_int(attrs, i));
  }
  fmt_put_int(to, 20, type);
}

static void put_message(base_text *to, uint32_t field, base_text *nested) {
  fmt_put_bytes(to, field, nested->at ? nested->at : "", nested->length);
  to->failed |= nested->failed;
  base_text_free(nested);
}

static td_status refuse(writing *w, const ir_node_def *node, const char *attr) {
  const char *where = node->origins.count ? node->origins.names[0] : node->op->name;
  return base_fail(w->err, TD_UNSUPPORTED, where, -1, "ONNX has no name for %s%s%s", node->op->name,
                   attr ? " with this " : "", attr ? attr : "");
}

static td_status put_attributes(writing *w, const ir_node_def *node, const special *row, bool exact, base_text *to) {
  for (uint32_t i = 0; i < node->op->attr_count; i++) {
    const ir_attr *attr = &node->op->attrs[i];
    bool named;
    const base_str name = name_of(row->renames, attr->name, &named);
    const bool plain = is_default(attr, node->attrs, i),
               list = attr->kind == BASE_ATTR_INTS || attr->kind == BASE_ATTR_FLOATS;
    if (named ? !name.length || (plain && (list || attr->optional)) : plain) continue;
    if (!named && exact) return refuse(w, node, attr->name);
    base_text a = {.allocator = w->graph.allocator};
    fmt_put_bytes(&a, 1, name.at, name.length);
    put_value(&a, node->attrs, i);
    put_message(to, 5, &a);
  }
  return TD_OK;
}

/* ---- values ---- */

static void put_type(writing *w, const ir_type *type, base_text *to) {
  base_text tensor = {.allocator = w->graph.allocator}, shape = tensor, info = tensor;
  fmt_put_int(&tensor, 1, fmt_onnx_element(type->dtype));
  for (int32_t i = 0; i < type->rank; i++) {
    base_text dim = {.allocator = w->graph.allocator}, symbol = dim;
    base_dim_print(&w->g->dims, type->dims[i], &symbol);
    if (base_dim_known(type->dims[i])) fmt_put_int(&dim, 1, type->dims[i]);
    else fmt_put_bytes(&dim, 2, symbol.at, symbol.length);
    base_text_free(&symbol);
    put_message(&shape, 1, &dim);
  }
  if (type->rank >= 0) put_message(&tensor, 2, &shape);
  put_message(&info, 1, &tensor);
  put_message(to, 2, &info);
}

/* An input (field 11) or output (12). */
static td_status put_port(writing *w, uint32_t field, const char *name, ir_value v) {
  const ir_type *type = ir_type_of(w->g, v);
  base_text info = {.allocator = w->graph.allocator};
  if (type->kind != IR_TENSOR)
    return base_fail(w->err, TD_UNSUPPORTED, name, -1, "only tensors go into and out of an ONNX file of ours");
  fmt_put_str(&info, 1, name);
  put_type(w, type, &info);
  put_message(&w->graph, field, &info);
  return TD_OK;
}

static td_status put_constant(writing *w, const char *name, const base_tensor *t) {
  base_text tensor = {.allocator = w->graph.allocator};
  if (base_tensor_bytes(t) + w->graph.length > MOST_BYTES)
    return base_fail(w->err, TD_UNSUPPORTED, name, -1, "the constants are too many for one ONNX file");
  fmt_put_tensor_proto(&tensor, name, t);
  put_message(&w->graph, 5, &tensor);
  return TD_OK;
}

/* ---- nodes ---- */

/* The axes of a reduction as a constant operand; none: there is no operand. */
static td_status put_axes(writing *w, const ir_node_def *node, base_text *to) {
  uint32_t count;
  const int64_t *axes = base_attr_ints(node->attrs, 0, &count), dims[] = {count};
  const base_tensor t = base_tensor_of((void *)(uintptr_t)axes, TD_I64, 1, dims);
  const char *name = base_arena_format(w->scratch, "%s.axes", w->name[node->out[0].id]);
  if (!name) return base_no_memory(w->err, "a name");
  if (!count) return TD_OK;
  fmt_put_str(to, 1, name);
  return put_constant(w, name, &t);
}

static td_status put_node(writing *w, const ir_node_def *node) {
  special row;
  base_text n = {.allocator = w->graph.allocator};
  const char *origin = node->origins.count ? node->origins.names[0] : NULL;
  if (node->block_count || !find_name(w->g, node, &row)) return refuse(w, node, NULL);
  for (uint32_t i = 0; i < node->in_count; i++) fmt_put_str(&n, 1, node->in[i].id ? w->name[node->in[i].id] : "");
  td_status status = row.axes ? put_axes(w, node, &n) : TD_OK;
  for (uint32_t i = 0; i < node->out_count; i++) fmt_put_str(&n, 2, w->name[node->out[i].id]);
  const base_str name = base_node_name(origin ? origin : "");
  if (name.length) fmt_put_bytes(&n, 3, name.at, name.length);
  fmt_put_str(&n, 4, row.onnx);
  const bool exact = row.op != node->op->name; /* of the table, not an alias */
  if (status == TD_OK) status = put_attributes(w, node, &row, exact, &n);
  put_message(&w->graph, 1, &n);
  return status;
}

/* Each value gets a name of its own: those of inputs and outputs are the user's. */
static td_status name_values(writing *w) {
  const ir_block_def *top = ir_block_of(w->g, w->g->top);
  const char **names = base_new(w->scratch, const char *, w->g->values.count);
  if (!names) return base_no_memory(w->err, "names");
  for (uint32_t v = 1; v < w->g->values.count; v++)
    if (!(names[v] = base_arena_format(w->scratch, "v%u", v))) return base_no_memory(w->err, "names");
  for (uint32_t i = 0; i < w->g->output_names.count; i++)
    if (ir_value_of(w->g, top->results.at[i])->node.id) names[top->results.at[i].id] = w->g->output_names.at[i];
  for (uint32_t i = 0; i < w->g->input_defaults.count; i++)
    if (ir_value_of(w->g, top->params.at[i])->name)
      names[top->params.at[i].id] = ir_value_of(w->g, top->params.at[i])->name;
  w->name = names;
  return TD_OK;
}

static td_status put_ports(writing *w) {
  const ir_graph *g = w->g;
  const ir_block_def *top = ir_block_of(g, g->top);
  for (uint32_t i = 0; i < g->input_defaults.count; i++) {
    const ir_value v = top->params.at[i], fallback = g->input_defaults.at[i];
    const base_tensor *t = fallback.id ? ir_value_of(g, fallback)->info.constant : NULL;
    TRY(put_port(w, 11, w->name[v.id], v));
    if (t) TRY(put_constant(w, w->name[v.id], t));
  }
  for (uint32_t i = 0; i < g->output_names.count; i++) {
    const ir_value v = top->results.at[i];
    if (strcmp(w->name[v.id], g->output_names.at[i]) != 0)
      return base_fail(w->err, TD_UNSUPPORTED, g->output_names.at[i], -1,
                       "an output that is an input, a constant or another output");
    TRY(put_port(w, 12, g->output_names.at[i], v));
  }
  for (uint32_t v = 1; v < g->values.count; v++) {
    const base_tensor *t = g->values.at[v].info.constant;
    if (t && !g->values.at[v].node.id) TRY(put_constant(w, w->name[v], t));
  }
  return TD_OK;
}

static td_status put_graph(writing *w) {
  const ir_block_def *top = ir_block_of(w->g, w->g->top);
  if (w->g->states.count) return base_fail(w->err, TD_UNSUPPORTED, NULL, -1, "ONNX has no session state");
  TRY(name_values(w));
  for (uint32_t i = 0; i < top->nodes.count; i++) TRY(put_node(w, ir_node_of(w->g, top->nodes.at[i])));
  fmt_put_str(&w->graph, 2, "treadle");
  return put_ports(w);
}

td_status debug_write_onnx(const ir_graph *graph, base_text *model, td_error *err) {
  base_arena *scratch = base_arena_new(model->allocator);
  writing w = {.g = graph, .graph = {.allocator = model->allocator}, .scratch = scratch, .err = err};
  td_status status = scratch ? put_graph(&w) : base_no_memory(err, "an ONNX file");
  base_text opset = {.allocator = model->allocator};
  fmt_put_int(model, 1, IR_VERSION);
  fmt_put_str(model, 2, "treadle");
  put_message(model, 7, &w.graph);
  fmt_put_int(&opset, 2, OPSET);
  put_message(model, 8, &opset);
  base_arena_free(scratch);
  if (status == TD_OK && model->failed) status = base_no_memory(err, "an ONNX file");
  return status;
}
