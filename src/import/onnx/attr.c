/* attr.c -- attributes of a node as lowerings ask for them. Inside a function body an attribute may refer to one of the
 * call; such references are followed once, when the node is entered. */
#include "import/onnx/state_priv.h"
#include "fmt/wire.h"

#include <string.h>

static const onnx_bound *find(const onnx_bound *bound, uint32_t count, base_str name) {
  for (uint32_t i = 0; i < count; i++)
    if (base_str_equal(bound[i].name, name)) return &bound[i];
  return NULL;
}

td_status onnx_bind_attrs(onnx_import *im, const onnx_scope *scope, const onnx_record *record, onnx_bound **bound,
                          uint32_t *count) {
  onnx_bound *to = base_new(im->arena, onnx_bound, record->attrs.count + 1);
  if (!to) return base_no_memory(im->err, "attributes");
  uint32_t n = 0;
  for (uint32_t i = 0; i < record->attrs.count; i++) {
    onnx_attr *attr = &record->attrs.at[i];
    if (find(to, n, attr->name))
      return base_fail(im->err, TD_BAD_FILE, NULL, -1, "the attribute \"%.*s\" is given twice", (int)attr->name.length,
                       attr->name.at);
    if (!attr->ref.length) {
      to[n++] = (onnx_bound){attr->name, attr, scope};
      continue;
    }
    const onnx_bound *given = find(scope->bound, scope->bound_count, attr->ref);
    if (given) to[n++] = (onnx_bound){attr->name, given->attr, given->scope};
  }
  *bound = to;
  *count = n;
  return TD_OK;
}

const onnx_bound *onnx_find_bound(const onnx_node *n, const char *name) {
  const onnx_bound *bound = find(n->attrs, n->attr_count, base_str_of(name));
  if (bound) n->attr_read[bound - n->attrs] = true;
  return bound;
}

bool onnx_attr_has(const onnx_node *n, const char *name) { return onnx_find_bound(n, name) != NULL; }

static const char *const type_names[] = {"nothing",  "a float", "an integer", "a string",
                                         "a tensor", "a graph", "floats",     "integers",
                                         "strings",  "tensors", "graphs",     "a sparse tensor"};

static const char *type_name(int64_t type) {
  return type >= 0 && type < (int64_t)(sizeof type_names / sizeof *type_names) ? type_names[type] : "a type";
}

/* The attribute when it is there and has `type`. */
static const onnx_attr *typed(onnx_node *n, const char *name, int64_t type) {
  const onnx_bound *bound = onnx_failed(n) ? NULL : onnx_find_bound(n, name);
  if (!bound) return NULL;
  if (bound->attr->type == type) return bound->attr;
  onnx_fail(n, TD_BAD_FILE, "the attribute \"%s\" must be %s and is %s", name, type_name(type),
            type_name(bound->attr->type));
  return NULL;
}

int64_t onnx_attr_int(onnx_node *n, const char *name, int64_t fallback) {
  const onnx_attr *attr = typed(n, name, ONNX_ATTR_INT);
  return attr ? attr->i : fallback;
}

double onnx_attr_float(onnx_node *n, const char *name, double fallback) {
  const onnx_attr *attr = typed(n, name, ONNX_ATTR_FLOAT);
  return attr ? (double)attr->f : fallback;
}

/* Texts in operators are names: a NUL inside is an error, not an end. */
static const char *keep_text(onnx_node *n, const char *name, base_str s) {
  if (s.length && memchr(s.at, 0, s.length))
    onnx_fail(n, TD_BAD_FILE, "the attribute \"%s\" has a NUL byte in it", name);
  char *text = onnx_alloc(n, s.length + 1);
  if (text && s.length) memcpy(text, s.at, s.length);
  return text;
}

const char *onnx_attr_str(onnx_node *n, const char *name, const char *fallback) {
  const onnx_attr *attr = typed(n, name, ONNX_ATTR_STRING);
  if (!attr) return onnx_failed(n) && !fallback ? "" : fallback; /* callers compare it before they look for failures */
  const char *text = keep_text(n, name, attr->s);
  return text ? text : "";
}

/* A list of an attribute: floats are field 7, ints 8, strings 9. */
typedef struct list_reader {
  onnx_node *n;
  const char *name;
  uint32_t field;
  fmt_wire_type type;
} list_reader;

static td_status count_list(const list_reader *l, fmt_wire w, uint32_t *count) {
  size_t total = 0;
  while (fmt_wire_more(&w)) {
    fmt_field f;
    fmt_wire values;
    TRY(fmt_wire_next(&w, &f, l->n->im->err));
    if (f.number != l->field) continue;
    if (l->type != FMT_BYTES) TRY(fmt_field_scalars(&f, l->type, l->name, &values, l->n->im->err));
    total += l->type == FMT_BYTES ? 1 : fmt_wire_count(&values, l->type);
  }
  if (total > INT32_MAX)
    return base_fail(l->n->im->err, TD_BAD_FILE, NULL, -1, "the attribute \"%s\" is too long", l->name);
  *count = (uint32_t)total;
  return TD_OK;
}

/* Bits of all scalars, one 64-bit word each. `count` is from count_list. */
static td_status read_scalars(const list_reader *l, fmt_wire w, uint64_t *to, uint32_t count) {
  uint32_t n = 0;
  while (fmt_wire_more(&w)) {
    fmt_field f;
    fmt_wire values;
    TRY(fmt_wire_next(&w, &f, l->n->im->err));
    if (f.number != l->field) continue;
    TRY(fmt_field_scalars(&f, l->type, l->name, &values, l->n->im->err));
    while (fmt_wire_more(&values) && n < count) TRY(fmt_wire_scalar(&values, l->type, &to[n++], l->n->im->err));
  }
  return TD_OK;
}

static uint64_t *scalar_list(const list_reader *l, int64_t type, uint32_t *count) {
  *count = 0;
  const onnx_attr *attr = typed(l->n, l->name, type);
  if (!attr) return NULL;
  onnx_take(l->n, count_list(l, attr->wire, count));
  uint64_t *bits = onnx_alloc(l->n, *count * sizeof *bits);
  if (bits) onnx_take(l->n, read_scalars(l, attr->wire, bits, *count));
  if (!onnx_failed(l->n)) return bits;
  *count = 0;
  return NULL;
}

const int64_t *onnx_attr_ints(onnx_node *n, const char *name, uint32_t *count) {
  list_reader l = {n, name, 8, FMT_VARINT};
  return (const int64_t *)scalar_list(&l, ONNX_ATTR_INTS, count);
}

const double *onnx_attr_floats(onnx_node *n, const char *name, uint32_t *count) {
  list_reader l = {n, name, 7, FMT_FIXED32};
  uint64_t *bits = scalar_list(&l, ONNX_ATTR_FLOATS, count);
  double *floats = bits ? onnx_alloc(n, *count * sizeof *floats) : NULL;
  for (uint32_t i = 0; floats && i < *count; i++) floats[i] = base_load_f64(TD_F32, &bits[i], 0);
  return floats;
}

td_status onnx_attr_slices(onnx_node *n, const char *name, base_str **slices, uint32_t *count) {
  list_reader l = {n, name, 9, FMT_BYTES};
  const onnx_attr *attr = typed(n, name, ONNX_ATTR_STRINGS);
  *slices = NULL;
  *count = 0;
  if (!attr) return n->b.status;
  TRY(count_list(&l, attr->wire, count));
  *slices = onnx_alloc(n, *count * sizeof **slices);
  if (!*slices) return n->b.status;
  uint32_t at = 0;
  for (fmt_wire w = attr->wire; fmt_wire_more(&w);) {
    fmt_field f;
    TRY(fmt_wire_next(&w, &f, n->im->err));
    if (f.number == l.field) TRY(fmt_field_str(&f, name, &(*slices)[at++], n->im->err));
  }
  return TD_OK;
}

const char *const *onnx_attr_strs(onnx_node *n, const char *name, uint32_t *count) {
  base_str *slices;
  onnx_take(n, onnx_attr_slices(n, name, &slices, count));
  const char **texts = slices ? onnx_alloc(n, *count * sizeof *texts) : NULL;
  for (uint32_t i = 0; texts && i < *count; i++) texts[i] = keep_text(n, name, slices[i]);
  if (!onnx_failed(n)) return texts;
  *count = 0;
  return NULL;
}

ir_value onnx_attr_tensor(onnx_node *n, const char *name) {
  const onnx_bound *bound = onnx_failed(n) ? NULL : onnx_find_bound(n, name);
  ir_value value = IR_NO_VALUE;
  if (!bound) return value;
  int64_t type = bound->attr->type;
  if (type != ONNX_ATTR_TENSOR && type != ONNX_ATTR_SPARSE_TENSOR)
    onnx_fail(n, TD_BAD_FILE, "the attribute \"%s\" must be a tensor and is %s", name, type_name(type));
  else onnx_take(n, onnx_tensor_value(n->im, &bound->attr->tensor, &value));
  return onnx_failed(n) ? IR_NO_VALUE : value;
}

const onnx_bound *onnx_attr_graph(onnx_node *n, const char *name) {
  const onnx_attr *attr = typed(n, name, ONNX_ATTR_GRAPH);
  if (attr && attr->graph) return onnx_find_bound(n, name);
  onnx_fail(n, TD_BAD_FILE, "the graph attribute \"%s\" is missing", name);
  return NULL;
}
