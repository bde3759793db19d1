/* int8_tables.c -- what a quantisation makes of bytes by f32 that nobody else needs:
 *
 *     quantize(f(dequantize(q)))                        -> lookup_i8(q)   f: any pointwise operators, of q alone
 *     quantize(dequantize(a) + dequantize(b))           -> add_i8(a, b), mul_i8 the same; limits of an activation, too
 *                                                       -> a, where no b there is moves it to another byte
 *     quantize(avg_pool(dequantize(q))), means the same -> avg_pool_i8(q)
 *     quantize(cat(dequantize(a), dequantize(b)))       -> cat(lookup_i8(a), lookup_i8(b))
 *     quantize(_softmax(dequantize(q))) of rows         -> softmax_i8(q)
 *
 * Rules of the pass int8. What is kept: types; the numbers of tables, which operators' references fill; of the others
 * but for rounding: they are ONNX Runtime's QLinearAdd and so on (ops/native/between_i8.c). */
#include "ir/eval.h"
#include "kernels/kernels.h"
#include "passes/int8_priv.h"

#include <math.h>
#include <string.h>

/* ---- functions of a byte ---- */

enum { BYTES = 256, MOST_VALUES = 32, MOST_OPERANDS = 4 };

/* Values that depend on one tensor of bytes, element by element, as what they are for each byte there is. */
typedef struct reading {
  passes_edit *e;
  const ir_type *shape; /* that all of them have */
  ir_value root;
  uint32_t count, tries;
  struct {
    ir_value of;
    base_tensor t;
  } seen[MOST_VALUES];
} reading;

/* Dequantisations are, by one scale: others have operands of more elements. */
static bool is_pointwise(passes_edit *e, const ir_node_def *node) {
  return node->op && node->out_count == 1 && node->in_count <= MOST_OPERANDS &&
         ((node->op->flags & (IR_OP_ELEMENTWISE | IR_OP_RANDOM)) == IR_OP_ELEMENTWISE ||
          passes_dequantised(e, node->out[0]));
}

static bool same_dims(const ir_type *a, const ir_type *b) {
  return a->kind == IR_TENSOR && a->rank >= 0 && a->rank == b->rank &&
         memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

static td_status read_value(reading *r, ir_value v, base_tensor *t, bool *found);

/* What the node makes of operands that are known for each byte. */
static td_status evaluate(reading *r, const ir_node_def *node, base_tensor *t, bool *found) {
  base_value in[MOST_OPERANDS], out;
  const base_value *at[MOST_OPERANDS];
  td_error ignored;
  *found = r->tries++ < MOST_VALUES;
  for (uint32_t i = 0; i < node->in_count && *found; i++) {
    in[i] = (base_value){.kind = BASE_TENSOR};
    at[i] = node->in[i].id ? &in[i] : NULL;
    if (at[i]) TRY(read_value(r, node->in[i], &in[i].tensor, found));
  }
  if (!*found) return TD_OK;
  const td_status status = ir_evaluate(node->op, node->attrs, at, node->in_count, r->e->scratch, &out, 1, &ignored);
  if (status == TD_NO_RESOURCE) return base_no_memory(r->e->err, "a table");
  *found = status == TD_OK && out.kind == BASE_TENSOR &&
           (base_tensor_numel(&out.tensor) == BYTES || base_tensor_numel(&out.tensor) == 1);
  *t = out.tensor;
  return TD_OK;
}

/* Each byte once: the root. */
static td_status all_bytes(reading *r, ir_value v, base_tensor *t, bool *found) {
  static const int64_t count = BYTES;
  uint8_t *bytes = base_new(r->e->scratch, uint8_t, BYTES);
  if (!bytes) return base_no_memory(r->e->err, "a table");
  for (int i = 0; i < BYTES; i++) bytes[i] = (uint8_t)i;
  *t = base_tensor_of(bytes, ir_type_of(r->e->graph, v)->dtype, 1, &count);
  *found = !r->root.id || r->root.id == v.id;
  r->root = v;
  return TD_OK;
}

static td_status read_value(reading *r, ir_value v, base_tensor *t, bool *found) {
  const base_tensor *constant = passes_constant_value(r->e, v);
  const ir_type *type = ir_type_of(r->e->graph, v);
  const ir_node made_by = ir_value_of(r->e->graph, v)->node;
  const ir_node_def *node = made_by.id ? ir_node_of(r->e->graph, made_by) : NULL;
  *found = constant && base_tensor_numel(constant) == 1;
  if (*found) *t = *constant;
  const bool whole = same_dims(type, r->shape); /* else one number, of constants */
  if (constant || (!whole && (type->kind != IR_TENSOR || ir_known_count(type) != 1))) return TD_OK;
  for (uint32_t i = 0; i < r->count && !*found; i++) {
    *found = r->seen[i].of.id == v.id;
    if (*found) *t = r->seen[i].t;
  }
  if (*found) return TD_OK;
  const bool pointwise = node && is_pointwise(r->e, node), bytes = passes_int8_is_bytes(type->dtype);
  if (pointwise && (!bytes || node->in_count == 1)) TRY(evaluate(r, node, t, found)); /* bytes: a table's, for one */
  else if (bytes && whole) TRY(all_bytes(r, v, t, found));
  *found = *found && r->count < MOST_VALUES;
  if (!*found) return TD_OK;
  r->seen[r->count].of = v;
  r->seen[r->count++].t = *t;
  return TD_OK;
}

/* `from` as the quantisation makes it, in front of `id`. *found: it is a function of bytes alone. */
static td_status look_up(passes_edit *e, ir_node id, const ir_node_def *quantize, ir_value from, ir_value *made,
                         bool *found) {
  const ir_type *type = ir_type_of(e->graph, from);
  reading r = {.e = e, .shape = type};
  ir_node_def node = *quantize;
  ir_value in[MOST_OPERANDS];
  base_tensor t;
  *found = false;
  if (type->kind != IR_TENSOR || type->rank < 0 || node.in_count > MOST_OPERANDS) return TD_OK;
  memcpy(in, node.in, node.in_count * sizeof *in);
  in[0] = from;
  node.in = in;
  TRY(evaluate(&r, &node, &t, found));
  *found = *found && r.root.id && base_tensor_numel(&t) == BYTES;
  if (!*found) return TD_OK;
  const base_arg args[] = {ARG_INTS("table", t.data, KERN_LOOKUP_NUMBERS), ARG_BOOL("y_signed", t.dtype == TD_I8)};
  return passes_add(e, id, OP_td_lookup_i8, (ir_new_node){.in = &r.root, .in_count = 1, .args = args, .arg_count = 2},
                    NULL, made);
}

/* ---- sums, products ---- */

/* A limit as the result has it. */
static int64_t limit_of(const int8_activation *y, double limit, int64_t low) {
  const float q = nearbyintf((float)limit / (float)y->scale) + (float)y->zero;
  return (int64_t)fminf(fmaxf(q, (float)low), (float)low + 255);
}

/* Is a sum with `b` the byte of `a` again, whatever they are? Nothing that b can be is half a step of the result. */
static bool adds_nothing(const passes_edit *e, const int8_activation *a, const int8_activation *b,
                         const int8_activation *y) {
  const double most = passes_int8_largest(b) * b->scale;
  return a->dtype == y->dtype && a->scale == y->scale && a->zero == y->zero && most < 0.499 * y->scale &&
         ir_type_equal(ir_type_of(e->graph, a->q), ir_type_of(e->graph, y->q));
}

static td_status binary(passes_edit *e, ir_node id, const int8_activation *y, ir_value from, const base_arg *limits,
                        uint32_t limit_count, bool *done) {
  static const ir_op_id ops[][2] = {{OP_aten_add, OP_td_add_i8}, {OP_aten_mul, OP_td_mul_i8}};
  const int64_t low = y->dtype == TD_I8 ? -128 : 0;
  int64_t least = low, most = low + 255;
  for (size_t i = 0; i < sizeof ops / sizeof *ops && !*done; i++) {
    const ir_node_def *node = passes_only_producer(e, from, ops[i][0]);
    int8_activation a, b;
    if (!node || !passes_int8_find_bytes(e, node->in[0], &a) || !passes_int8_find_bytes(e, node->in[1], &b)) continue;
    const bool sum = ops[i][0] == OP_aten_add && !limit_count;
    const int8_activation *all = sum && adds_nothing(e, &a, &b, y) ? &a : sum && adds_nothing(e, &b, &a, y) ? &b : NULL;
    if (all) {
      *done = true;
      return passes_take_place(e, id, all->q);
    }
    if (limit_count) least = limit_of(y, limits[1].f, low);
    if (limit_count && strcmp(limits[0].str, "clamp") == 0) most = limit_of(y, limits[2].f, low);
    const base_arg args[] = {ARG_FLOAT("a_scale", a.scale),
                             ARG_INT("a_zero", passes_int8_unsigned_zero(&a)),
                             ARG_FLOAT("b_scale", b.scale),
                             ARG_INT("b_zero", passes_int8_unsigned_zero(&b)),
                             ARG_FLOAT("y_scale", y->scale),
                             ARG_INT("y_zero", y->zero),
                             ARG_BOOL("y_signed", y->dtype == TD_I8),
                             ARG_INT("least", least),
                             ARG_INT("most", most < least ? least : most)};
    const ir_value in[] = {a.q, b.q};
    const float by = 1 / (float)y->scale;
    ir_value made;
    if (!isfinite((float)a.scale * (float)b.scale * by) || !isfinite((float)a.scale * by) ||
        !isfinite((float)b.scale * by))
      continue;
    *done = true;
    TRY(passes_add(e, id, ops[i][1],
                   (ir_new_node){.in = in, .in_count = 2, .args = args, .arg_count = sizeof args / sizeof *args}, NULL,
                   &made));
    TRY(passes_take_place(e, id, made));
  }
  return TD_OK;
}

/* ---- means ---- */

/* Each window of a pool of the kernel, or all pixels for a mean over them. False: a window may see nothing. */
static bool find_windows(passes_edit *e, ir_value from, ir_node_def *pool, base_arg *args, uint32_t *count) {
  const ir_node_def *mean = passes_only_producer(e, from, OP_aten_mean), *node = mean;
  uint32_t dims, kernels;
  *count = 0;
  if (!node) node = passes_only_producer(e, from, OP_td_avg_pool);
  if (!node) return false;
  *pool = *node;
  const int32_t rank = ir_type_of(e->graph, node->in[0])->rank;
  if (rank < 3 || rank > 5) return false;
  if (mean) {
    const int64_t *dim = passes_ints(node, "dim", &dims);
    uint32_t mask = 0;
    for (uint32_t i = 0; i < dims; i++) mask |= 1u << (dim[i] < 0 ? dim[i] + rank : dim[i]);
    return mask == (1u << rank) - 4 && passes_int(node, "keepdim") && node->in_count == 1;
  }
  *count = ir_node_args(node, args);
  passes_ints(node, "kernel_size", &kernels);
  bool seen = !passes_int(node, "channels_last");
  for (uint32_t i = 0; i < (uint32_t)rank - 2; i++)
    seen = seen && passes_int_at(node, "dilation", i, 1) == 1 &&
           passes_int_at(node, "padding", i, 0) < (kernels ? passes_int_at(node, "kernel_size", i, 1) : 1);
  return seen;
}

static td_status average(passes_edit *e, ir_node id, const int8_activation *y, ir_value from, bool *done) {
  base_arg args[2 * IR_NODE_ARGS];
  int8_activation x;
  ir_node_def pool;
  uint32_t count;
  if (!find_windows(e, from, &pool, args, &count) || !passes_int8_find_activation(e, pool.in[0], &x)) return TD_OK;
  if (count) *passes_arg(args, count, "channels_last") = ARG_BOOL("channels_last", true);
  else args[count++] = ARG_BOOL("channels_last", true);
  const base_arg scales[] = {ARG_FLOAT("x_scale", x.scale), ARG_INT("x_zero", passes_int8_unsigned_zero(&x)),
                             ARG_FLOAT("y_scale", y->scale), ARG_INT("y_zero", y->zero),
                             ARG_BOOL("y_signed", y->dtype == TD_I8)};
  ir_value made;
  if (!isfinite((float)x.scale / (float)y->scale)) return TD_OK;
  memcpy(args + count, scales, sizeof scales);
  *done = true;
  TRY(passes_int8_permute_channels(e, id, x.q, true, &made));
  TRY(passes_add(e, id, OP_td_avg_pool_i8,
                 (ir_new_node){.in = &made, .in_count = 1, .args = args, .arg_count = count + 5}, &pool, &made));
  TRY(passes_int8_permute_channels(e, id, made, false, &made));
  return passes_take_place(e, id, made);
}

/* ---- softmax ---- */

static td_status softmax(passes_edit *e, ir_node id, const int8_activation *y, ir_value from, bool *done) {
  const ir_node_def *node = passes_only_producer(e, from, OP_aten__softmax);
  int8_activation x;
  if (!node || passes_int(node, "flatten") || !passes_int8_find_activation(e, node->in[0], &x)) return TD_OK;
  const int32_t rank = ir_type_of(e->graph, x.q)->rank;
  const int64_t dim = passes_int(node, "dim");
  if (rank < 1 || (dim != -1 && dim != rank - 1)) return TD_OK;
  const base_arg args[] = {ARG_FLOAT("x_scale", x.scale), ARG_FLOAT("y_scale", y->scale), ARG_INT("y_zero", y->zero),
                           ARG_BOOL("y_signed", y->dtype == TD_I8)};
  const ir_new_node spec = {.in = &x.q, .in_count = 1, .args = args, .arg_count = sizeof args / sizeof *args};
  ir_value made;
  *done = true;
  TRY(passes_add(e, id, OP_td_softmax_i8, spec, node, &made));
  return passes_take_place(e, id, made);
}

/* ---- joins ---- */

/* Each part as the result has it. */
static td_status join(passes_edit *e, ir_node id, const ir_node_def *quantize, ir_value from, bool *done) {
  const ir_node made_by = ir_value_of(e->graph, from)->node;
  const ir_node_def *node = made_by.id ? ir_node_of(e->graph, made_by) : NULL;
  if (!node || !node->op || !(node->op->flags & IR_OP_JOIN) || passes_uses(e, from) != 1) return TD_OK;
  const ir_node_def cat = *node;
  ir_value *in = base_new(e->scratch, ir_value, (size_t)cat.in_count + 1), made;
  base_arg args[IR_NODE_ARGS];
  bool found = cat.in_count > 0;
  int8_activation x;
  if (!in) return base_no_memory(e->err, "a pass");
  for (uint32_t i = 0; i < cat.in_count; i++) found = found && passes_int8_find_activation(e, cat.in[i], &x);
  for (uint32_t i = 0; i < cat.in_count && found; i++) TRY(look_up(e, id, quantize, cat.in[i], &in[i], &found));
  if (!found) return TD_OK;
  *done = true;
  const ir_new_node spec = {.in = in, .in_count = cat.in_count, .args = args, .arg_count = ir_node_args(&cat, args)};
  TRY(passes_add(e, id, cat.op->id, spec, &cat, &made));
  return passes_take_place(e, id, made);
}

td_status passes_int8_between(passes_edit *e, ir_node id, const int8_activation *y, ir_value limited,
                              const base_arg *limits, uint32_t limit_count) {
  const ir_node_def quantize = *ir_node_of(e->graph, id);
  const ir_value from = quantize.in[0];
  bool done = false;
  ir_value made;
  TRY(look_up(e, id, &quantize, from, &made, &done));
  if (done) return passes_take_place(e, id, made);
  TRY(binary(e, id, y, limited, limits, limit_count, &done));
  if (!done) TRY(average(e, id, y, from, &done));
  if (!done) TRY(softmax(e, id, y, from, &done));
  return done ? TD_OK : join(e, id, &quantize, from, &done);
}
