/* model.c -- ModelProto to records. Each message type has a function that takes one field; fields it does not know are
 * skipped. Graphs nest in attributes of nodes of graphs: the depth is bounded. */
#include "import/onnx/model_priv.h"

typedef struct reader {
  base_arena *arena;
  td_error *err;
} reader;

typedef td_status (*field_fn)(const reader *r, const fmt_field *f, uint32_t depth, void *to);

static td_status read_message(const reader *r, fmt_wire w, field_fn take, uint32_t depth, void *to) {
  while (fmt_wire_more(&w)) {
    fmt_field f;
    TRY(fmt_wire_next(&w, &f, r->err));
    TRY(take(r, &f, depth, to));
  }
  return TD_OK;
}

/* A nested message into `to`, which is NULL when its vector could not grow. */
static td_status read_nested(const reader *r, const fmt_field *f, const char *what, field_fn take, uint32_t depth,
                             void *to) {
  fmt_wire w;
  TRY(fmt_field_message(f, what, &w, r->err));
  return to ? read_message(r, w, take, depth, to) : base_no_memory(r->err, what);
}

static td_status read_str(const reader *r, const fmt_field *f, const char *what, base_str *to) {
  return to ? fmt_field_str(f, what, to, r->err) : base_no_memory(r->err, what);
}

static td_status read_domain(const reader *r, const fmt_field *f, base_str *domain) {
  TRY(fmt_field_str(f, "domain", domain, r->err));
  if (base_str_is(*domain, "ai.onnx")) *domain = BASE_STR("");
  return TD_OK;
}

static td_status missing(const reader *r, const fmt_field *f, const char *what) {
  return base_fail(r->err, TD_BAD_FILE, NULL, f->offset, "%s", what);
}

/* ---- tensors: only their names; tensor.c reads the rest when it is needed ---- */

static td_status take_tensor_name(const reader *r, const fmt_field *f, uint32_t depth, void *to) {
  (void)depth;
  return f->number == 8 ? read_str(r, f, "name of a tensor", to) : TD_OK;
}

static td_status take_sparse_name(const reader *r, const fmt_field *f, uint32_t depth, void *to) {
  return f->number == 1 ? read_nested(r, f, "values", take_tensor_name, depth, to) : TD_OK;
}

static td_status read_tensor(const reader *r, const fmt_field *f, bool is_sparse, onnx_tensor *to) {
  if (!to) return base_no_memory(r->err, "a tensor");
  to->is_sparse = is_sparse;
  TRY(fmt_field_message(f, "a tensor", &to->wire, r->err));
  return read_message(r, to->wire, is_sparse ? take_sparse_name : take_tensor_name, 0, &to->name);
}

/* ---- attributes ---- */

static td_status read_graph(const reader *r, const fmt_field *f, uint32_t depth, onnx_graph **graph);

/* IR versions before 2 may leave the type out: it follows from the field that is there. */
static const uint8_t type_of_field[] = {
    [2] = ONNX_ATTR_FLOAT,    [3] = ONNX_ATTR_INT,     [4] = ONNX_ATTR_STRING,        [5] = ONNX_ATTR_TENSOR,
    [6] = ONNX_ATTR_GRAPH,    [7] = ONNX_ATTR_FLOATS,  [8] = ONNX_ATTR_INTS,          [9] = ONNX_ATTR_STRINGS,
    [10] = ONNX_ATTR_TENSORS, [11] = ONNX_ATTR_GRAPHS, [22] = ONNX_ATTR_SPARSE_TENSOR};

typedef struct attr_reader {
  onnx_attr *attr;
  int64_t inferred;
} attr_reader;

static td_status take_attr(const reader *r, const fmt_field *f, uint32_t depth, void *to) {
  attr_reader *a = to;
  onnx_attr *attr = a->attr;
  if (f->number < sizeof type_of_field && type_of_field[f->number]) a->inferred = type_of_field[f->number];
  switch (f->number) {
    case 1: return fmt_field_str(f, "name of an attribute", &attr->name, r->err);
    case 2: return fmt_field_float(f, "f", &attr->f, r->err);
    case 3: return fmt_field_int(f, "i", &attr->i, r->err);
    case 4: return fmt_field_str(f, "s", &attr->s, r->err);
    case 5: return read_tensor(r, f, false, &attr->tensor);
    case 6: return read_graph(r, f, depth + 1, &attr->graph);
    case 20: return fmt_field_int(f, "type of an attribute", &attr->type, r->err);
    case 21: return fmt_field_str(f, "ref_attr_name", &attr->ref, r->err);
    case 22: return read_tensor(r, f, true, &attr->tensor);
    default: return TD_OK;
  }
}

static td_status read_attr(const reader *r, const fmt_field *f, uint32_t depth, onnx_attr *attr) {
  if (!attr) return base_no_memory(r->err, "an attribute");
  attr_reader a = {.attr = attr};
  TRY(fmt_field_message(f, "an attribute", &attr->wire, r->err));
  TRY(read_message(r, attr->wire, take_attr, depth, &a));
  if (attr->type == 0) attr->type = a.inferred;
  return attr->name.length ? TD_OK : missing(r, f, "an attribute has no name");
}

/* ---- nodes and graphs ---- */

/* Of what torch.onnx notes of a node, the modules around it. */
static td_status take_entry(const reader *r, const fmt_field *f, uint32_t depth, void *to) {
  base_str *entry = to; /* key, value */
  (void)depth;
  return f->number == 1 || f->number == 2 ? fmt_field_str(f, "metadata of a node", &entry[f->number - 1], r->err)
                                          : TD_OK;
}

static td_status read_metadata(const reader *r, const fmt_field *f, onnx_record *node) {
  base_str entry[2] = {{"", 0}, {"", 0}};
  TRY(read_nested(r, f, "metadata of a node", take_entry, 0, entry));
  if (base_str_is(entry[0], "pkg.torch.onnx.name_scopes")) node->scopes = entry[1];
  return TD_OK;
}

static td_status take_node(const reader *r, const fmt_field *f, uint32_t depth, void *to) {
  onnx_record *node = to;
  switch (f->number) {
    case 1: return read_str(r, f, "input of a node", base_vec_push(r->arena, &node->in));
    case 2: return read_str(r, f, "output of a node", base_vec_push(r->arena, &node->out));
    case 3: return fmt_field_str(f, "name of a node", &node->name, r->err);
    case 4: return fmt_field_str(f, "op_type", &node->op_type, r->err);
    case 5:
      if (node->attrs.count == ONNX_MAX_ATTRS)
        return missing(r, f, "a node has more attributes than any operator takes");
      return read_attr(r, f, depth, base_vec_push(r->arena, &node->attrs));
    case 7: return read_domain(r, f, &node->domain);
    case 8: return fmt_field_str(f, "overload", &node->overload, r->err);
    case 9: return read_metadata(r, f, node);
    default: return TD_OK;
  }
}

static td_status read_node(const reader *r, const fmt_field *f, uint32_t depth, onnx_graph *graph) {
  uint32_t index = graph->nodes.count;
  onnx_record *node = base_vec_push(r->arena, &graph->nodes);
  if (node) node->index = index;
  TRY(read_nested(r, f, "a node", take_node, depth, node));
  return node->op_type.length ? TD_OK : missing(r, f, "a node has no op_type");
}

static td_status take_value_info(const reader *r, const fmt_field *f, uint32_t depth, void *to) {
  onnx_value_info *info = to;
  (void)depth;
  if (f->number == 1) return fmt_field_str(f, "name of a value", &info->name, r->err);
  return f->number == 2 ? fmt_field_message(f, "type of a value", &info->type, r->err) : TD_OK;
}

static td_status read_value_info(const reader *r, const fmt_field *f, onnx_value_info *info) {
  TRY(read_nested(r, f, "an input or output", take_value_info, 0, info));
  return info->name.length ? TD_OK : missing(r, f, "an input or output of a graph has no name");
}

static td_status take_graph(const reader *r, const fmt_field *f, uint32_t depth, void *to) {
  onnx_graph *graph = to;
  switch (f->number) {
    case 1: return read_node(r, f, depth, graph);
    case 5: return read_tensor(r, f, false, base_vec_push(r->arena, &graph->initializers));
    case 11: return read_value_info(r, f, base_vec_push(r->arena, &graph->inputs));
    case 12: return read_value_info(r, f, base_vec_push(r->arena, &graph->outputs));
    case 15: return read_tensor(r, f, true, base_vec_push(r->arena, &graph->initializers));
    default: return TD_OK;
  }
}

static td_status read_graph(const reader *r, const fmt_field *f, uint32_t depth, onnx_graph **graph) {
  if (depth > ONNX_MAX_DEPTH) return missing(r, f, "graphs are nested too deep");
  if (*graph) return missing(r, f, "there are two graphs where one belongs");
  *graph = base_new(r->arena, onnx_graph, 1);
  return read_nested(r, f, "a graph", take_graph, depth, *graph);
}

/* ---- the model ---- */

static td_status take_opset(const reader *r, const fmt_field *f, uint32_t depth, void *to) {
  onnx_opset_import *import = to;
  (void)depth;
  if (f->number == 1) return read_domain(r, f, &import->domain);
  return f->number == 2 ? fmt_field_int(f, "version of an operator set", &import->version, r->err) : TD_OK;
}

static td_status read_opset(const reader *r, const fmt_field *f, onnx_opsets *opsets) {
  if (opsets->imports.count == ONNX_MAX_OPSETS) return missing(r, f, "too many operator sets are imported");
  onnx_opset_import *import = base_vec_push(r->arena, &opsets->imports);
  TRY(read_nested(r, f, "an operator set", take_opset, 0, import));
  return import->version > 0 ? TD_OK : missing(r, f, "the version of an operator set must be positive");
}

static td_status take_function(const reader *r, const fmt_field *f, uint32_t depth, void *to) {
  onnx_function *function = to;
  switch (f->number) {
    case 1: return fmt_field_str(f, "name of a function", &function->name, r->err);
    case 4: return read_str(r, f, "input of a function", base_vec_push(r->arena, &function->inputs));
    case 5: return read_str(r, f, "output of a function", base_vec_push(r->arena, &function->outputs));
    case 7: return read_node(r, f, depth, &function->body);
    case 9: return read_opset(r, f, &function->opsets);
    case 10: return read_domain(r, f, &function->domain);
    case 11:
      if (function->defaults.count == ONNX_MAX_ATTRS) return missing(r, f, "a function has too many attributes");
      return read_attr(r, f, depth, base_vec_push(r->arena, &function->defaults));
    case 13: return fmt_field_str(f, "overload", &function->overload, r->err);
    default: return TD_OK;
  }
}

static td_status take_model(const reader *r, const fmt_field *f, uint32_t depth, void *to) {
  onnx_model *model = to;
  switch (f->number) {
    case 1: return fmt_field_int(f, "ir_version", &model->ir_version, r->err);
    case 7: return read_graph(r, f, depth, &model->graph);
    case 8: return read_opset(r, f, &model->opsets);
    case 25: return read_nested(r, f, "a function", take_function, depth, base_vec_push(r->arena, &model->functions));
    default: return TD_OK;
  }
}

td_status onnx_read_model(base_arena *arena, const void *bytes, size_t size, const char *file, onnx_model *model,
                          td_error *err) {
  reader r = {arena, err};
  td_status status = read_message(&r, fmt_wire_of(bytes, size), take_model, 0, model);
  if (status != TD_OK) return base_error_name(err, status, "%s", file);
  if (!model->graph) return base_fail(err, TD_BAD_FILE, file, -1, "the model has no graph");
  return TD_OK;
}
