/* integers.c -- products of 8-bit integers with constant matrices are taken in f32, where kernels are, to the bit:
 *
 *     matmul_integer(x, W, zero, zeros) -> sum over parts of _to_copy(matmul(_to_copy(x) - zero, W - zeros), i32)
 *
 * f32 holds every whole number up to 2^24. So K is cut into parts in which no column of W, times the largest x, can sum
 * up to more: then every sum of some of its products is exact, in whatever order a kernel takes them, and with
 * whatever it fuses.
 *
 * Requires: a verified graph. Keeps: types, and bits. Breaks: nothing. Weights take four times the memory. */
#include "passes/passes_priv.h"

#include <math.h>

enum { X, W, X_ZERO, W_ZERO, MAX_PARTS = 16 };
static const double exact = 16777216;

/* W - zeros [rows, columns], and where its parts begin. */
typedef struct weights {
  int64_t rows, columns;
  float *values;
  double largest; /* that |x - zero| can be */
  int64_t first[MAX_PARTS + 1];
  uint32_t parts;
} weights;

static bool is_byte(td_dtype dtype) { return base_is_int(dtype) && base_dtype(dtype)->bits == 8; }

/* *fits: W and its zero points are constants that can be split. */
static td_status centre(passes_edit *e, const ir_node_def *node, weights *w, bool *fits) {
  const base_tensor *t = passes_constant(e, node, W);
  const bool shifted = node->in_count > W_ZERO && node->in[W_ZERO].id;
  const base_tensor *zeros = shifted ? passes_constant(e, node, W_ZERO) : NULL;
  *fits = false;
  if (!t || t->rank != 2 || !base_tensor_contiguous(t) || !base_tensor_numel(t) || (shifted && !zeros)) return TD_OK;
  w->rows = t->dims[0];
  w->columns = t->dims[1];
  const int64_t count = zeros ? base_tensor_numel(zeros) : 1;
  if (count != 1 && (zeros->rank != 1 || count != w->columns || !base_tensor_contiguous(zeros))) return TD_OK;
  const base_tensor made = base_tensor_of(NULL, TD_F32, 2, t->dims);
  w->values = base_arena_alloc_uncleared(e->graph->arena, base_tensor_bytes(&made), 64);
  if (!w->values) return base_no_memory(e->err, "weights");
  for (int64_t i = 0; i < w->rows * w->columns; i++) {
    const double zero = zeros ? base_load_f64(zeros->dtype, zeros->data, count == 1 ? 0 : i % w->columns) : 0;
    w->values[i] = (float)(base_load_f64(t->dtype, t->data, i) - zero);
  }
  *fits = true;
  return TD_OK;
}

/* As few parts as are exact, each as long as it can be. *fits: they are not too many. */
static td_status part(passes_edit *e, weights *w, bool *fits) {
  double *sums = base_new(e->scratch, double, (size_t)w->columns);
  if (!sums) return base_no_memory(e->err, "sums of weights");
  w->parts = 0;
  w->first[0] = 0;
  *fits = false;
  for (int64_t k = 0; k < w->rows; k++) {
    const float *row = w->values + k * w->columns;
    bool full = false;
    for (int64_t n = 0; n < w->columns; n++) full |= (sums[n] += fabs((double)row[n])) * w->largest > exact;
    if (!full) continue;
    if (++w->parts == MAX_PARTS) return TD_OK;
    w->first[w->parts] = k;
    for (int64_t n = 0; n < w->columns; n++) sums[n] = fabs((double)row[n]);
  }
  w->first[++w->parts] = w->rows;
  *fits = true;
  return TD_OK;
}

/* The product of part `i`, in i32. */
static td_status multiply(passes_edit *e, ir_node at, const weights *w, uint32_t i, ir_value x, ir_value *out) {
  const int64_t first = w->first[i], end = w->first[i + 1];
  const base_tensor t = base_tensor_of(w->values + first * w->columns, TD_F32, 2, (int64_t[]){end - first, w->columns});
  ir_value in[2] = {x};
  if (w->parts > 1) TRY(passes_slice(e, at, x, ir_type_of(e->graph, x)->rank - 1, first, end, &in[0]));
  TRY(ir_add_constant(e->graph, &t, NULL, &in[1], e->err));
  TRY(passes_add(e, at, OP_aten_matmul, (ir_new_node){.in = in, .in_count = 2}, NULL, out));
  return passes_cast(e, at, *out, TD_I32, out);
}

static td_status visit_product(passes_edit *e, ir_node id, const ir_node_def *def) {
  const ir_node_def node = *def;
  const ir_type *type = ir_type_of(e->graph, node.in[X]);
  const ir_value zero = node.in_count > X_ZERO ? node.in[X_ZERO] : IR_NO_VALUE;
  const ir_type *zero_type = zero.id ? ir_type_of(e->graph, zero) : NULL;
  weights w = {.largest = 255};
  bool fits;
  if (e->setting->math == KERN_MATH_FAST || type->rank < 2 || !is_byte(type->dtype)) return TD_OK;
  if (zero_type && zero_type->rank != 0 && !(zero_type->rank == 1 && zero_type->dims[0] == 1)) return TD_OK;
  TRY(centre(e, &node, &w, &fits));
  if (fits) TRY(part(e, &w, &fits));
  if (!fits) return TD_OK;
  ir_value in[2], sum = IR_NO_VALUE;
  TRY(passes_cast(e, id, node.in[X], TD_F32, &in[0]));
  if (zero.id) {
    TRY(passes_cast(e, id, zero, TD_F32, &in[1]));
    TRY(passes_add(e, id, OP_aten_sub, (ir_new_node){.in = in, .in_count = 2}, NULL, &in[0]));
  }
  for (uint32_t i = 0; i < w.parts; i++) {
    ir_value both[2] = {sum};
    TRY(multiply(e, id, &w, i, in[0], &both[1]));
    if (i) TRY(passes_add(e, id, OP_aten_add, (ir_new_node){.in = both, .in_count = 2}, NULL, &sum));
    else sum = both[1];
  }
  return passes_take_place(e, id, sum);
}

static td_status visit(passes_edit *e, ir_node id) {
  static const passes_rule rules[] = {{OP_td_matmul_integer, visit_product}};
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_integers(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
