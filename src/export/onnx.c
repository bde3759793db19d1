/* onnx.c -- a graph as an ONNX model, for other engines to be asked. Operators that are one of ONNX's exactly have its
 * name among their aliases; the table below has those whose attributes or operands go by other rules. What is in
 * neither is an error that names it: the text form holds everything. */
#include <ctype.h>
#include <string.h>

#include "base/map.h"
#include "export/export.h"
#include "fmt/tensor_proto.h"

enum { OPSET = 23, IR_VERSION = 11 };
enum { MOST_BYTES = 1 << 30 }; /* of a message; the format ends at twice as much */

typedef struct writing {
  const ir_graph *g;
  base_text graph;         /* GraphProto */
  const char *const *name; /* per value */
  base_arena *scratch;
  base_map used; /* names of nodes */
  td_error *err;
} writing;

/* ---- names of operators ---- */

/* `renames` as of ir_alias; an attribute that is called "" there has no place in ONNX and says nothing. Others must
 * have their defaults. NULL `holds`: always. */
typedef struct special {
  const char *op, *onnx, *renames;
  bool (*holds)(const ir_graph *g, const ir_node_def *node);
  uint32_t also; /* what follows */
} special;
enum {
  AXES = 1,   /* attribute 0 lists axes, which ONNX takes as operand 1 */
  HIDDEN = 2, /* ONNX wants the last size of operand 2 as hidden_size */
  SWAPS = 4,  /* the two operands stand the other way round */
  MASK =
      16, /* operand 3 is a mask of queries by keys, which ONNX Runtime takes with as many rows as there are queries */
  EXACT = 8 /* set for rows of the table: attributes that they do not name must have their defaults */
};

static bool plain_division(const ir_graph *g, const ir_node_def *node) {
  const char *mode = base_attr_str(node->attrs, 0);
  return !*mode || (strcmp(mode, "trunc") == 0 && !base_is_float(ir_type_of(g, node->in[0])->dtype));
}

static bool of_integers(const ir_graph *g, const ir_node_def *node) {
  return !base_is_float(ir_type_of(g, node->in[0])->dtype);
}

static bool pools_all(const ir_graph *g, const ir_node_def *node) {
  uint32_t count;
  (void)g;
  return base_attr_ints(node->attrs, 0, &count), count == 0;
}

static bool has_dim(const ir_graph *g, const ir_node_def *node) {
  (void)g;
  return node->attrs->at[0].kind != BASE_ATTR_NONE;
}

/* A value spreads over sizes; over none it would have to lose its dimension. */
static bool of_some_sizes(const ir_graph *g, const ir_node_def *node) { return ir_type_of(g, node->out[0])->rank > 0; }

#define RECURRENT "direction=direction,layout=batch_first"
static const special specials[] = {
    {"aten::_native_batch_norm_legit_no_training", "BatchNormalization", "epsilon=eps", NULL, 0},
    {"aten::_to_copy", "Cast", "to=dtype,=saturate,=round_mode", NULL, 0},
    {"aten::amax", "ReduceMax", "=dim,keepdims=keepdim,=noop", NULL, AXES},
    {"aten::amin", "ReduceMin", "=dim,keepdims=keepdim,=noop", NULL, AXES},
    {"aten::arange", "Range", NULL, NULL, 0},
    {"aten::argmax", "ArgMax", "axis=dim,keepdims=keepdim,select_last_index=select_last_index", has_dim, 0},
    {"aten::argmin", "ArgMin", "axis=dim,keepdims=keepdim,select_last_index=select_last_index", has_dim, 0},
    {"aten::cat", "Concat", "axis=dim", NULL, 0},
    {"aten::constant_pad_nd", "Pad", NULL, NULL, 0},
    {"aten::convolution", "Conv", "strides=stride,pads=padding,dilations=dilation,group=groups,auto_pad=auto_pad", NULL,
     0},
    {"aten::div", "Div", "=rounding_mode", plain_division, 0},
    {"aten::full", "Expand", NULL, of_some_sizes, SWAPS},
    {"aten::full", "Reshape", NULL, NULL, SWAPS},
    {"aten::maximum", "Max", NULL, NULL, 0},
    {"aten::mean", "ReduceMean", "=dim,keepdims=keepdim,=noop", NULL, AXES},
    {"aten::minimum", "Min", NULL, NULL, 0},
    {"aten::native_layer_norm", "LayerNormalization", "axis=axis,epsilon=eps", NULL, 0},
    {"aten::pow", "Pow", NULL, NULL, 0},
    {"aten::relu", "Relu", NULL, NULL, 0},
    {"aten::remainder", "Mod", NULL, of_integers, 0},
    {"aten::scaled_dot_product_attention", "Attention",
     "scale=scale,is_causal=is_causal,softcap=softcap,q_num_heads=heads,kv_num_heads=kv_heads,"
     "qk_matmul_output_mode=scores",
     NULL, MASK},
    {"aten::slice", "Slice", NULL, NULL, 0},
    {"aten::squeeze", "Squeeze", NULL, NULL, 0},
    {"aten::sum", "ReduceSum", "=dim,keepdims=keepdim,=noop", NULL, AXES},
    {"aten::topk", "TopK", "axis=dim,largest=largest,sorted=sorted", NULL, 0},
    {"aten::unsqueeze", "Unsqueeze", NULL, NULL, 0},
    {"aten::view", "Reshape", "=zero_copies", NULL, 0},
    {"td::avg_pool", "GlobalAveragePool", "", pools_all, 0},
    {"td::avg_pool", "AveragePool",
     "kernel_shape=kernel_size,strides=stride,pads=padding,dilations=dilation,ceil_mode=ceil_mode,auto_pad=auto_pad,"
     "count_include_pad=count_include_pad",
     NULL, 0},
    {"td::gemm", "Gemm", "alpha=alpha,beta=beta,transA=trans_a,transB=trans_b", NULL, 0},
    {"td::gru", "GRU", RECURRENT ",linear_before_reset=linear_before_reset", NULL, HIDDEN},
    {"td::lstm", "LSTM", RECURRENT ",input_forget=input_forget", NULL, HIDDEN},
    {"td::max_pool", "GlobalMaxPool", "", pools_all, 0},
    {"td::max_pool", "MaxPool",
     "kernel_shape=kernel_size,strides=stride,pads=padding,dilations=dilation,ceil_mode=ceil_mode,auto_pad=auto_pad",
     NULL, 0},
    {"td::resize", "Resize",
     "mode=mode,coordinate_transformation_mode=coordinates,nearest_mode=nearest,cubic_coeff_a=cubic_a,"
     "exclude_outside=exclude_outside,extrapolation_value=extrapolation,antialias=antialias,"
     "keep_aspect_ratio_policy=policy,axes=axes",
     NULL, 0},
};

/* What an operator is called; false: nothing. */
static bool find_name(const ir_graph *g, const ir_node_def *node, special *found) {
  int since = 0;
  bool known = false;
  for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
    if (strcmp(specials[i].op, node->op->name) != 0) continue;
    *found = specials[i];
    found->also |= EXACT;
    known = true;
    if (!found->holds || found->holds(g, node)) return true;
  }
  if (known) return false;
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

static void put_string(base_text *to, const char *text, bool upper) {
  char large[32] = {0};
  for (size_t i = 0; upper && text[i] && i + 1 < sizeof large; i++) large[i] = (char)toupper((unsigned char)text[i]);
  fmt_put_str(to, 4, upper ? large : text);
}

static void put_value(base_text *to, const base_attrs *attrs, uint32_t i, bool upper) {
  uint32_t count = 0;
  int type = ATTR_IS_INT;
  const base_attr_kind kind = (base_attr_kind)attrs->at[i].kind;
  if (kind == BASE_ATTR_FLOAT) {
    fmt_put_float(to, 2, (float)base_attr_float(attrs, i));
    type = ATTR_IS_FLOAT;
  } else if (kind == BASE_ATTR_STR) {
    put_string(to, base_attr_str(attrs, i), upper);
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
  const char *where = ir_node_name(node);
  return base_fail(w->err, TD_UNSUPPORTED, where, -1, "ONNX has no name for %s%s%s", node->op->name,
                   attr ? " with this " : "", attr ? attr : "");
}

static td_status put_attributes(writing *w, const ir_node_def *node, const special *row, base_text *to) {
  for (uint32_t i = 0; i < node->op->attr_count; i++) {
    const ir_attr *attr = &node->op->attrs[i];
    bool named;
    const base_str name = name_of(row->renames, attr->name, &named);
    const bool plain = is_default(attr, node->attrs, i);
    const bool blank = attr->optional || attr->kind == BASE_ATTR_INTS || attr->kind == BASE_ATTR_FLOATS ||
                       (attr->kind == BASE_ATTR_STR && !*base_attr_str(node->attrs, i)); /* without its default */
    if (named ? !name.length || (plain && blank) : plain) continue;
    if (!named && row->also & EXACT) return refuse(w, node, attr->name);
    base_text a = {.allocator = w->graph.allocator};
    fmt_put_bytes(&a, 1, name.at, name.length);
    put_value(&a, node->attrs, i, strcmp(attr->name, "auto_pad") == 0);
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

static void put_operand(const writing *w, ir_value v, base_text *to) { fmt_put_str(to, 1, v.id ? w->name[v.id] : ""); }

/* A node of ours that ONNX has several for: `in` as names, the result under `out`. */
static void put_op(writing *w, const char *op, const char *a, const char *b, const char *out) {
  base_text n = {.allocator = w->graph.allocator};
  fmt_put_str(&n, 1, a);
  if (b) fmt_put_str(&n, 1, b);
  fmt_put_str(&n, 2, out);
  fmt_put_str(&n, 4, op);
  put_message(&w->graph, 1, &n);
}

/* The attention mask with a row for each query; without their number it stays as it is, which ONNX allows. */
static td_status put_mask(writing *w, const ir_node_def *node, base_text *to) {
  enum { QUERY, MASK_IN = 3 };
  const ir_type *query = ir_type_of(w->g, node->in[QUERY]), *mask = ir_type_of(w->g, node->in[MASK_IN]);
  const char *plain = w->name[node->in[MASK_IN].id], *out = w->name[node->out[0].id];
  const base_dim rows = query->rank > 1 ? query->dims[query->rank == 3 ? 1 : 2] : BASE_DIM_NONE;
  const bool one = mask->rank > 1 && mask->dims[mask->rank - 2] == 1;
  if (!one || !base_dim_known(rows) || rows <= 1) {
    fmt_put_str(to, 1, plain);
    return TD_OK;
  }
  const int64_t dims[] = {rows, 1};
  const char *zero = base_arena_format(w->scratch, "%s.rows", out),
             *wide = base_arena_format(w->scratch, "%s.mask", out);
  size_t bytes;
  void *data = base_dtype_bytes(mask->dtype, rows, &bytes) ? base_arena_alloc(w->scratch, bytes) : NULL;
  if (!zero || !wide || !data) return base_no_memory(w->err, "a mask");
  memset(data, 0, bytes);
  const base_tensor t = base_tensor_of(data, mask->dtype, 2, dims);
  fmt_put_str(to, 1, wide);
  put_op(w, mask->dtype == TD_BOOL ? "Or" : "Add", plain, zero, wide);
  return put_constant(w, zero, &t);
}

/* x, w, bias?: what belongs to the graph as imported; epilogues and packed weights come later. */
static td_status put_linear(writing *w, const ir_node_def *node) {
  enum { TRANS_W, COLUMNS, PANEL, STRASSEN, BIAS = 2 };
  const char *out = w->name[node->out[0].id], *transposed = base_arena_format(w->scratch, "%s.transposed", out);
  const char *product = base_arena_format(w->scratch, "%s.product", out), *weights = w->name[node->in[1].id];
  const bool biased = node->in_count > BIAS && node->in[BIAS].id;
  if (!transposed || !product) return base_no_memory(w->err, "a name");
  for (uint32_t i = BIAS + 1; i < node->in_count; i++)
    if (node->in[i].id) return refuse(w, node, "epilogue");
  for (uint32_t i = PANEL; i < node->op->attr_count; i++)
    if (i != STRASSEN && !is_default(&node->op->attrs[i], node->attrs, i))
      return refuse(w, node, node->op->attrs[i].name);
  if (base_attr_int(node->attrs, TRANS_W)) put_op(w, "Transpose", weights, NULL, transposed);
  else transposed = weights;
  put_op(w, "MatMul", w->name[node->in[0].id], transposed, biased ? product : out);
  if (biased) put_op(w, "Add", product, w->name[node->in[BIAS].id], out);
  return TD_OK;
}

/* ONNX has one operator with modes. */
static td_status put_pad(writing *w, const ir_node_def *node) {
  static const char *const modes[][2] = {{"aten::reflection_pad", "reflect"}, {"aten::replication_pad", "edge"}};
  const char *mode = "wrap";
  base_text n = {.allocator = w->graph.allocator}, a = n;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (strcmp(modes[i][0], node->op->name) == 0) mode = modes[i][1];
  put_operand(w, node->in[0], &n);
  put_operand(w, node->in[1], &n);
  fmt_put_str(&n, 1, "");
  if (node->in_count > 2) put_operand(w, node->in[2], &n);
  fmt_put_str(&n, 2, w->name[node->out[0].id]);
  fmt_put_str(&n, 4, "Pad");
  fmt_put_str(&a, 1, "mode");
  fmt_put_str(&a, 4, mode);
  fmt_put_int(&a, 20, ATTR_IS_STRING);
  put_message(&n, 5, &a);
  put_message(&w->graph, 1, &n);
  return TD_OK;
}

static td_status put_silu(writing *w, const ir_node_def *node) {
  const char *x = w->name[node->in[0].id], *out = w->name[node->out[0].id];
  const char *gate = base_arena_format(w->scratch, "%s.gate", out);
  if (!gate) return base_no_memory(w->err, "a name");
  put_op(w, "Sigmoid", x, NULL, gate);
  put_op(w, "Mul", x, gate, out);
  return TD_OK;
}

static const struct {
  const char *op;
  td_status (*put)(writing *w, const ir_node_def *node);
} several[] = {{"aten::circular_pad", put_pad},
               {"aten::reflection_pad", put_pad},
               {"aten::replication_pad", put_pad},
               {"aten::silu", put_silu},
               {"td::linear", put_linear}};

static td_status put_hidden_size(writing *w, const ir_node_def *node, base_text *to) {
  const ir_type *type = ir_type_of(w->g, node->in[2]);
  base_text a = {.allocator = w->graph.allocator};
  if (type->rank < 1 || !base_dim_known(type->dims[type->rank - 1])) return refuse(w, node, "hidden size");
  fmt_put_str(&a, 1, "hidden_size");
  fmt_put_int(&a, 3, type->dims[type->rank - 1]);
  fmt_put_int(&a, 20, ATTR_IS_INT);
  put_message(to, 5, &a);
  return TD_OK;
}

/* A node of the user's may have become several: all but the first get a number. */
static td_status put_name(writing *w, base_str name, const ir_node_def *node, base_text *to) {
  const char *text = base_arena_slice(w->scratch, name.at, name.length);
  bool known = false;
  if (!text || !base_map_put(&w->used, w->scratch, name, 0, &known)) return base_no_memory(w->err, "a name");
  if (known) text = base_arena_format(w->scratch, "%s.%u", text, node->out_count ? node->out[0].id : 0);
  if (!text) return base_no_memory(w->err, "a name");
  if (name.length) fmt_put_str(to, 3, text);
  return TD_OK;
}

static td_status put_node(writing *w, const ir_node_def *node) {
  special row;
  for (size_t i = 0; i < sizeof several / sizeof *several; i++)
    if (strcmp(several[i].op, node->op->name) == 0) return several[i].put(w, node);
  base_text n = {.allocator = w->graph.allocator};
  const char *origin = node->origins.count ? node->origins.names[0] : NULL;
  if (node->block_count || !find_name(w->g, node, &row)) return refuse(w, node, NULL);
  td_status status = TD_OK;
  for (uint32_t i = 0; i < node->in_count; i++) {
    if (row.also & MASK && i == 3 && node->in[i].id && status == TD_OK) status = put_mask(w, node, &n);
    else put_operand(w, node->in[row.also & SWAPS ? node->in_count - 1 - i : i], &n);
  }
  if (status == TD_OK && row.also & AXES) status = put_axes(w, node, &n);
  for (uint32_t i = 0; i < node->out_count; i++) fmt_put_str(&n, 2, w->name[node->out[i].id]);
  if (status == TD_OK) status = put_name(w, base_node_name(origin ? origin : ""), node, &n);
  fmt_put_str(&n, 4, row.onnx);
  if (status == TD_OK) status = put_attributes(w, node, &row, &n);
  if (status == TD_OK && row.also & HIDDEN) status = put_hidden_size(w, node, &n);
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

td_status export_onnx(const ir_graph *graph, base_text *model, td_error *err) {
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
