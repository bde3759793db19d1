/* scatter.c -- td::scatter_nd at the indices of a box, which is what exporters make of an assignment to a slice, joins
 * the box with what stays around it:
 *
 *     scatter_nd(x, indices, updates)  ->  cat(x before, updates, x behind), along each axis that the box does not fill
 *
 * Indices are a box where those of each axis are constants that count up along one axis of the tuples, in the order of
 * x's axes, or are one number.
 *
 * Requires: a verified graph; sizes of x and of the indices known. Keeps: types, bits. Breaks: nothing. */
#include "passes/passes_priv.h"

#include <string.h>

/* What indices select: [start, start + count) of each axis of x. */
typedef struct box {
  int64_t start[BASE_MAX_RANK], count[BASE_MAX_RANK];
} box;

/* Element `i`, in row-major order, of component `k`; *at: its place along `axis`. Axes that repeat have one element. */
static int64_t element(const base_tensor *t, int64_t k, int64_t i, int32_t axis, int64_t *at) {
  int64_t place = k * t->strides[t->rank - 1];
  *at = 0;
  for (int32_t d = t->rank - 2; d >= 0; i /= t->dims[d--]) {
    place += i % t->dims[d] * t->strides[d];
    if (d == axis) *at = i % t->dims[d];
  }
  return base_load_i64(t->dtype, t->data, place);
}

/* Component `k` of the tuples `t` [..., components], whose axes that repeat have one element, as a run along x's axis
 * of `size`; *axis: that of the tuples along which it counts, behind the one of the component before. False: it is no
 * such run. */
static bool read_run(const base_tensor *t, int64_t k, int64_t size, int32_t *axis, int64_t *start, int64_t *count) {
  int32_t along = -1;
  int64_t at, tuples = 1;
  const int64_t first = element(t, k, 0, -1, &at);
  for (int32_t d = t->rank - 2; d >= 0; tuples *= t->dims[d--])
    if (t->dims[d] > 1 && element(t, k, tuples, -1, &at) != first) along = d;
  if (along >= 0 && along <= *axis) return false;
  *count = along < 0 ? 1 : t->dims[along];
  *start = first < 0 ? first + size : first;
  if (*start < 0 || *start > size - *count) return false;
  for (int64_t i = 0; i < tuples; i++) {
    const int64_t value = element(t, k, i, along, &at);
    if (value >= size || value < -size || (value < 0 ? value + size : value) != *start + at) return false;
  }
  if (along >= 0) *axis = along;
  return true;
}

/* The next components of tuples out of `part`, which has some of them. */
static bool read_part(const passes_edit *e, ir_value part, const ir_type *x, int32_t *component, int32_t *axis,
                      box *b) {
  base_tensor t;
  if (!passes_shown(e->graph, part, &t) || t.rank < 1 || (t.dtype != TD_I64 && t.dtype != TD_I32)) return false;
  const int64_t components = t.dims[t.rank - 1];
  for (int32_t i = 0; i < t.rank - 1; i++)
    if (t.strides[i] == 0) t.dims[i] = 1;
  if (components > x->rank - *component || base_tensor_numel(&t) == 0) return false;
  for (int64_t k = 0; k < components; k++, ++*component)
    if (!read_run(&t, k, x->dims[*component], axis, &b->start[*component], &b->count[*component])) return false;
  return true;
}

static bool read_box(passes_edit *e, const ir_node_def *node, box *b) {
  const ir_type x = *ir_type_of(e->graph, node->in[0]), indices = *ir_type_of(e->graph, node->in[1]);
  int32_t component = 0, axis = -1;
  if (ir_known_count(&x) < 1 || ir_known_count(&indices) < 1) return false;
  const ir_node_def *join = passes_producer(e, node->in[1], OP_aten_cat);
  const int64_t dim = join ? passes_int(join, "dim") : -1;
  if (join && dim != -1 && dim != indices.rank - 1) return false;
  for (uint32_t i = 0; i < (join ? join->in_count : 1); i++)
    if (!read_part(e, join ? join->in[i] : node->in[1], &x, &component, &axis, b)) return false;
  if (component != indices.dims[indices.rank - 1]) return false;
  int64_t tuples = ir_known_count(&indices) / component;
  for (int32_t k = 0; k < component; k++) {
    if (tuples % b->count[k] != 0) return false;
    tuples /= b->count[k];
  }
  if (tuples != 1) return false; /* some are there several times */
  for (int32_t k = component; k < x.rank; k++) b->start[k] = 0, b->count[k] = x.dims[k];
  return true;
}

/* [first, end) of an axis of v; none where that is nothing. */
static td_status slice(passes_edit *e, ir_node at, ir_value v, int64_t axis, int64_t first, int64_t end,
                       ir_value *out) {
  *out = IR_NO_VALUE;
  return first == end ? TD_OK : passes_slice(e, at, v, axis, first, end, out);
}

/* `inside` in the place of the box's part of `around` along `axis` and those behind it. */
static td_status put(passes_edit *e, ir_node at, const box *b, int32_t axis, ir_value around, ir_value inside,
                     ir_value *out) {
  const ir_type x = *ir_type_of(e->graph, around);
  ir_value parts[3], middle = around;
  uint32_t count = 0;
  while (axis < x.rank && b->count[axis] == x.dims[axis]) axis++;
  if (axis == x.rank) return *out = inside, TD_OK;
  const int64_t start = b->start[axis], end = start + b->count[axis];
  bool last = true;
  for (int32_t i = axis + 1; i < x.rank; i++) last &= b->count[i] == x.dims[i];
  if (!last) TRY(slice(e, at, around, axis, start, end, &middle));
  TRY(slice(e, at, around, axis, 0, start, &parts[count]));
  count += parts[count].id != 0;
  TRY(put(e, at, b, axis + 1, middle, inside, &parts[count++]));
  TRY(slice(e, at, around, axis, end, x.dims[axis], &parts[count]));
  count += parts[count].id != 0;
  const base_arg dim = ARG_INT("dim", axis);
  return passes_add(e, at, OP_aten_cat, (ir_new_node){.in = parts, .in_count = count, .args = &dim, .arg_count = 1},
                    NULL, out);
}

static td_status visit_scatter(passes_edit *e, ir_node id, const ir_node_def *def) {
  const ir_node_def node = *def;
  const ir_type x = *ir_type_of(e->graph, node.in[0]);
  ir_value inside, view[2] = {node.in[2]};
  box b;
  if (strcmp(passes_str(&node, "reduce"), "none") != 0 || !read_box(e, &node, &b)) return TD_OK;
  TRY(ir_add_ints(e->graph, b.count, (uint32_t)x.rank, &view[1], e->err));
  const base_arg zero = ARG_BOOL("zero_copies", false);
  TRY(passes_add(e, id, OP_aten_view, (ir_new_node){.in = view, .in_count = 2, .args = &zero, .arg_count = 1}, NULL,
                 &inside));
  TRY(put(e, id, &b, 0, node.in[0], inside, &inside));
  return passes_take_place(e, id, inside);
}

static td_status visit(passes_edit *e, ir_node id) {
  static const passes_rule rules[] = {{OP_td_scatter_nd, visit_scatter}};
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_scatter(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
