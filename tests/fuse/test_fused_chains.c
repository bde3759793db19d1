/* test_fused_chains.c -- random chains of operators of random shapes, strides and types: fused loops, interpreted on
 * each level and compiled, give what the references give one by one. TREADLE_CHAINS sets how many are interpreted, from
 * TREADLE_FIRST_CHAIN on; a twentieth of them is compiled. */
#include <math.h>
#include <unistd.h>

#include "codegen/chains.h"
#include "kernels/kernels.h"

enum { CHAINS = 300, COMPILED = 12, VALUES = 64 };

typedef struct chain {
  uint64_t random;
  base_arena *arena;
  ir_graph *graph;
  ir_block top;
  int32_t rank;
  int64_t dims[4];
  td_dtype dtype;
  ir_value values[VALUES]; /* of the whole space */
  uint32_t count, inputs;
  base_tensor in[VALUES];
  td_error err;
} chain;

static uint32_t below(chain *c, uint32_t n) {
  c->random = c->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(c->random >> 33) % n;
}

#define OK(call) \
  if ((call) != TD_OK) fail_msg("%s: %s", c->err.name, c->err.text)

static ir_value node(chain *c, const char *op, const ir_value *in, uint32_t count, const base_arg *args,
                     uint32_t arg_count) {
  ir_value out;
  const ir_new_node spec = {
      .op = ir_opset_find(c->graph->ops, op), .in = in, .in_count = count, .args = args, .arg_count = arg_count};
  assert_non_null(spec.op);
  OK(ir_add_node(c->graph, c->top, &spec, NULL, &out, &c->err));
  return out;
}

/* Small numbers; one in eight of the whole ones is any. */
static base_tensor random_tensor(chain *c, td_dtype dtype, int32_t rank, const int64_t *dims) {
  int64_t count = 1;
  for (int32_t i = 0; i < rank; i++) count *= dims[i];
  base_tensor t = base_tensor_of(base_arena_alloc_aligned(c->arena, (size_t)count * 8 + 64, 64), dtype, rank, dims);
  for (int64_t i = 0; i < count; i++) {
    if (base_is_float(dtype)) base_store_f64(dtype, t.data, i, (int)below(c, 4001) / 1000.0 - 2);
    else if (dtype != TD_BOOL && below(c, 8) == 0)
      base_store_i64(dtype, t.data, i, (int64_t)((uint64_t)below(c, 1u << 31) << 33 ^ below(c, 1u << 31)));
    else base_store_i64(dtype, t.data, i, dtype == TD_BOOL ? below(c, 2) : (int64_t)below(c, 19) - 9);
  }
  return t;
}

/* An input of the space, or one that broadcasts to it, sometimes read through a permutation. */
static ir_value new_input_of(chain *c, td_dtype dtype, bool whole) {
  int64_t dims[4], stored[4], order[4];
  base_dim sizes[4];
  int32_t rank = whole ? c->rank : (int32_t)below(c, (uint32_t)c->rank + 1);
  for (int32_t i = 0; i < rank; i++) {
    dims[i] = !whole && below(c, 3) == 0 ? 1 : c->dims[c->rank - rank + i];
    order[i] = i;
  }
  const bool turned = rank > 1 && below(c, 4) == 0;
  if (turned) {
    const int32_t a = (int32_t)below(c, (uint32_t)rank), b = (int32_t)below(c, (uint32_t)rank);
    order[a] = b;
    order[b] = a;
  }
  for (int32_t i = 0; i < rank; i++) sizes[order[i]] = stored[order[i]] = dims[i];
  ir_value v;
  const ir_type type = ir_tensor(dtype, rank, sizes);
  OK(ir_add_input(c->graph, &type, base_arena_format(c->arena, "in%u", c->inputs), IR_NO_VALUE, &v, &c->err));
  c->in[c->inputs++] = random_tensor(c, dtype, rank, stored);
  const base_arg arg = ARG_INTS("dims", order, rank);
  return turned ? node(c, "aten::permute", &v, 1, &arg, 1) : v;
}

static ir_value new_input(chain *c, bool whole) { return new_input_of(c, c->dtype, whole); }

static ir_value cast(chain *c, ir_value x, td_dtype dtype) {
  const base_arg arg = ARG_DTYPE("dtype", dtype);
  return node(c, "aten::_to_copy", &x, 1, &arg, 1);
}

static ir_value some_value(chain *c) { return c->values[below(c, c->count)]; }

/* Functions that neither grow without bound nor tear what is close apart; of whole numbers any. */
static ir_value one_operand(chain *c, ir_value x) {
  static const char *const names[] = {"aten::relu", "aten::sigmoid",  "aten::tanh",      "aten::silu",
                                      "aten::gelu", "aten::abs",      "aten::neg",       "aten::mish",
                                      "aten::erf",  "aten::softplus", "aten::hardswish", "td::softsign",
                                      "aten::sin",  "aten::cos",      "aten::atan",      "aten::leaky_relu"};
  static const char *const whole[] = {"aten::relu", "aten::abs", "aten::neg", "aten::bitwise_not", "aten::square"};
  const bool floats = base_is_float(c->dtype);
  return node(c, floats ? names[below(c, sizeof names / sizeof *names)] : whole[below(c, sizeof whole / sizeof *whole)],
              &x, 1, NULL, 0);
}

/* Truth values made of whole numbers, over (a part of) the space. */
static ir_value mask(chain *c) {
  static const td_dtype dtypes[] = {TD_I64, TD_I32, TD_U8, TD_BOOL, TD_I16, TD_U32};
  static const char *const compares[] = {"aten::eq", "aten::ne", "aten::lt",         "aten::le",
                                         "aten::gt", "aten::ge", "aten::logical_and"};
  static const char *const logic[] = {"aten::bitwise_and", "aten::bitwise_or", "aten::bitwise_xor", "aten::logical_or",
                                      "aten::logical_xor"};
  const td_dtype dtype = dtypes[below(c, sizeof dtypes / sizeof *dtypes)];
  const ir_value in[] = {new_input_of(c, dtype, below(c, 2)), new_input_of(c, dtype, false)};
  ir_value m = node(c, compares[below(c, sizeof compares / sizeof *compares)], in, 2, NULL, 0);
  if (below(c, 2)) m = node(c, below(c, 2) ? "aten::logical_not" : "aten::bitwise_not", &m, 1, NULL, 0);
  if (below(c, 2)) return m;
  const ir_value both[] = {m, new_input_of(c, TD_BOOL, false)};
  return node(c, logic[below(c, sizeof logic / sizeof *logic)], both, 2, NULL, 0);
}

static ir_value two_whole(chain *c, ir_value x, ir_value y) {
  static const char *const names[] = {"aten::add",       "aten::sub",         "aten::mul",        "aten::maximum",
                                      "aten::minimum",   "aten::bitwise_and", "aten::bitwise_or", "aten::bitwise_xor",
                                      "aten::remainder", "aten::fmod",        "aten::__lshift__", "aten::__rshift__",
                                      "aten::pow"};
  const uint32_t count = sizeof names / sizeof *names, which = below(c, count + 2);
  const ir_value in[] = {x, y};
  const base_arg mode = ARG_STR("rounding_mode", which == count ? "floor" : "trunc");
  return which < count ? node(c, names[which], in, 2, NULL, 0) : node(c, "aten::div", in, 2, &mode, 1);
}

static ir_value two_operands(chain *c, ir_value x, ir_value y) {
  static const char *const names[] = {"aten::add", "aten::sub", "aten::maximum", "aten::minimum", "aten::mul"};
  const uint32_t which = below(c, 8);
  const ir_value in[] = {x, y};
  if (which == 7) return node(c, "aten::where", (ir_value[]){mask(c), x, y}, 3, NULL, 0);
  if (which == 6) return node(c, "aten::add", (ir_value[]){x, cast(c, mask(c), c->dtype)}, 2, NULL, 0);
  if (!base_is_float(c->dtype)) return two_whole(c, x, y);
  if (which < 4) return node(c, names[which], in, 2, NULL, 0);
  const ir_value bounded[] = {x, node(c, "aten::tanh", &y, 1, NULL, 0)};
  if (which == 4) return node(c, names[4], bounded, 2, NULL, 0);
  const ir_value choice[] = {node(c, "aten::lt", in, 2, NULL, 0), x, y};
  return node(c, "aten::where", choice, 3, NULL, 0);
}

/* A constant of the chain's type. */
static ir_value number(chain *c, double value) {
  base_tensor t = random_tensor(c, c->dtype, 0, NULL);
  ir_value v;
  base_store_f64(c->dtype, t.data, 0, value);
  OK(ir_add_constant(c->graph, &t, NULL, &v, &c->err));
  return v;
}

/* Another type meets the chain's, or whole numbers go through one and back. To what is rounded to 8 and 11 bits nothing
 * large is added: loops do not round in between. */
static ir_value through_cast(chain *c, ir_value x) {
  static const td_dtype small[] = {TD_BOOL, TD_U8, TD_I8};
  static const td_dtype any[] = {TD_I64, TD_I32, TD_U8, TD_I8, TD_U32, TD_BOOL, TD_F64, TD_F32};
  const td_dtype own = c->dtype;
  if (base_is_float(own)) {
    const bool halves = own == TD_F16 || own == TD_BF16;
    const ir_value other = cast(c, new_input_of(c, small[halves ? 0 : below(c, 3)], below(c, 2)), own);
    const ir_value scaled = halves ? other : node(c, "aten::mul", (ir_value[]){other, number(c, 1.0 / 64)}, 2, NULL, 0);
    return node(c, "aten::add", (ir_value[]){x, scaled}, 2, NULL, 0);
  }
  c->dtype = any[below(c, sizeof any / sizeof *any)];
  const td_dtype to = c->dtype;
  ir_value v = cast(c, x, to);
  if (to == TD_BOOL) v = node(c, "aten::logical_not", &v, 1, NULL, 0);
  else if (!base_is_float(to)) v = one_operand(c, v);
  c->dtype = own;
  return cast(c, v, own);
}

/* What has been seen so far along an axis, from either end, with or without the element; sums made small. */
static ir_value scanned(chain *c, ir_value x) {
  const int64_t axis = below(c, 3) ? -1 : (int64_t)below(c, (uint32_t)c->rank);
  const uint32_t which = below(c, 5);
  const base_arg how[] = {ARG_BOOL("exclusive", below(c, 3) == 0), ARG_BOOL("reverse", below(c, 3) == 0)};
  if (which == 4 && base_is_float(c->dtype)) {
    const base_arg dim = ARG_INT("dim", axis);
    return node(c, "aten::logcumsumexp", &x, 1, &dim, 1);
  }
  if (which >= 2) {
    const base_arg dim = ARG_INT("dim", axis);
    ir_value out[2];
    const ir_new_node spec = {.op = ir_opset_find(c->graph->ops, which == 2 ? "aten::cummax" : "aten::cummin"),
                              .in = &x,
                              .in_count = 1,
                              .args = &dim,
                              .arg_count = 1};
    OK(ir_add_node(c->graph, c->top, &spec, NULL, out, &c->err));
    return out[0];
  }
  ir_value in[2] = {x};
  OK(ir_add_ints(c->graph, &axis, 1, &in[1], &c->err));
  if (!base_is_float(c->dtype)) return node(c, which ? "aten::cumprod" : "aten::cumsum", in, 2, how, 2);
  if (which) in[0] = node(c, "aten::tanh", &x, 1, NULL, 0);
  const ir_value seen = node(c, which ? "aten::cumprod" : "aten::cumsum", in, 2, how, 2);
  return node(c, "aten::mul", (ir_value[]){seen, number(c, 1.0 / 64)}, 2, NULL, 0);
}

/* Along the last axis, or another: a result of the whole space. */
static ir_value along_row(chain *c, ir_value x) {
  const int64_t last = -1, axis = below(c, 3) ? -1 : (int64_t)below(c, (uint32_t)c->rank);
  const base_arg keep[] = {ARG_INTS("dim", &axis, 1), ARG_BOOL("keepdim", 1)};
  static const char *const reductions[] = {"aten::mean", "aten::amax", "aten::amin", "aten::logsumexp"};
  static const char *const wholes[] = {"aten::sum", "aten::amax", "aten::amin", "aten::prod"};
  uint32_t which = below(c, 7);
  if (below(c, 4) == 0) return scanned(c, x);
  if (below(c, 4) == 0) { /* of truth */
    const ir_value m =
        node(c, "aten::where", (ir_value[]){mask(c), new_input_of(c, TD_BOOL, true), new_input_of(c, TD_BOOL, false)},
             3, NULL, 0);
    const ir_value all = node(c, below(c, 2) ? "aten::any" : "aten::all", &m, 1, keep, 2);
    return node(c, "aten::where", (ir_value[]){all, x, new_input(c, false)}, 3, NULL, 0);
  }
  if (!base_is_float(c->dtype)) {
    const ir_value in[] = {x, node(c, wholes[which % 4], &x, 1, keep, 2)};
    return node(c, "aten::sub", in, 2, NULL, 0);
  }
  if (c->dtype != TD_F32) which %= 4;
  if (which == 6) {
    const base_arg drop[] = {ARG_INTS("dim", &last, 1)};
    const ir_value m = node(c, "aten::mean", &x, 1, drop, 1);
    ir_value r = node(c, "aten::relu", &m, 1, NULL, 0);
    if (below(c, 2)) { /* meets what has no row, or lacks further axes */
      const int64_t row = c->dims[c->rank - 1];
      if (--c->rank) r = node(c, "aten::add", (ir_value[]){r, new_input(c, below(c, 2))}, 2, NULL, 0);
      c->dims[c->rank++] = row;
    }
    OK(ir_add_output(c->graph, r, base_arena_format(c->arena, "rows%u", c->count), &c->err));
    /* Of a square the means of rows meet columns. */
    const ir_value meet[] = {x, r};
    return c->rank == 2 && c->dims[0] == c->dims[1] ? node(c, "aten::sub", meet, 2, NULL, 0) : one_operand(c, x);
  }
  const base_arg dim = ARG_INT("dim", axis);
  if (which == 4) return node(c, "aten::_softmax", &x, 1, &dim, 1);
  if (which == 5) return node(c, "aten::_log_softmax", &x, 1, &dim, 1);
  const ir_value in[] = {x, node(c, reductions[which], &x, 1, keep, 2)};
  return node(c, "aten::sub", in, 2, NULL, 0);
}

static ir_value ints(chain *c, const int64_t *values, uint32_t count) {
  ir_value v;
  OK(ir_add_ints(c->graph, values, count, &v, &c->err));
  return v;
}

static ir_value node_with_ints(chain *c, const char *op, ir_value x, const int64_t *values, uint32_t count) {
  const ir_value in[] = {x, ints(c, values, count)};
  return node(c, op, in, 2, NULL, 0);
}

static ir_value part_of(chain *c, ir_value x, int64_t axis, int64_t first, int64_t end) {
  const ir_value in[] = {x, ints(c, &first, 1), ints(c, &end, 1), ints(c, &axis, 1)};
  return node(c, "aten::slice", in, 4, NULL, 0);
}

/* Two axes change places, something is done, and they change back. */
static ir_value through_permutation(chain *c, ir_value x) {
  int64_t order[4] = {0, 1, 2, 3};
  const uint32_t a = below(c, (uint32_t)c->rank), b = below(c, (uint32_t)c->rank);
  order[a] = b;
  order[b] = a;
  const base_arg arg = ARG_INTS("dims", order, c->rank);
  ir_value v = node(c, "aten::permute", &x, 1, &arg, 1);
  for (uint32_t i = below(c, 3); i > 0; i--) v = one_operand(c, v);
  return node(c, "aten::permute", &v, 1, &arg, 1);
}

/* Axes are merged, or one of 1 element comes between; something is done; and they are as before. */
static ir_value through_view(chain *c, ir_value x) {
  int64_t sizes[5];
  uint32_t count = 0;
  const uint32_t at = below(c, (uint32_t)c->rank), how = below(c, 2);
  for (uint32_t i = 0; i < (uint32_t)c->rank; i++) {
    if (how && i == at) sizes[count++] = 1;
    if (!how && i == at && i) sizes[count - 1] *= c->dims[i];
    else sizes[count++] = c->dims[i];
  }
  ir_value v = node_with_ints(c, "aten::view", x, sizes, count);
  for (uint32_t i = below(c, 3); i > 0; i--) v = one_operand(c, v);
  if (below(c, 3) == 0 && c->dtype == TD_F32) v = node(c, "aten::_softmax", &v, 1, NULL, 0);
  return node_with_ints(c, "aten::view", v, c->dims, (uint32_t)c->rank);
}

/* Both ends of an axis change places, or come together again, with something done to one of them. */
static ir_value through_join(chain *c, ir_value x) {
  const uint32_t axis = below(c, (uint32_t)c->rank);
  if (c->dims[axis] < 2) return one_operand(c, x);
  const int64_t at = 1 + below(c, (uint32_t)c->dims[axis] - 1);
  const bool turns = below(c, 2);
  ir_value first = part_of(c, x, axis, 0, at), second = part_of(c, x, axis, at, c->dims[axis]);
  if (below(c, 2)) second = one_operand(c, second);
  const ir_value in[] = {turns ? second : first, turns ? first : second};
  const base_arg arg = ARG_INT("dim", below(c, 2) ? (int64_t)axis : (int64_t)axis - c->rank);
  return node(c, "aten::cat", in, 2, &arg, 1);
}

/* An operand that is expanded to the whole space, or taken through an index. */
static ir_value through_expand(chain *c, ir_value x) {
  int64_t index[64];
  const uint32_t axis = below(c, (uint32_t)c->rank);
  if (below(c, 2) || c->dims[axis] > 64) {
    const ir_value v = node_with_ints(c, "aten::expand", new_input(c, false), c->dims, (uint32_t)c->rank);
    return node(c, "aten::add", (ir_value[]){x, v}, 2, NULL, 0);
  }
  for (int64_t i = 0; i < c->dims[axis]; i++) index[i] = c->dims[axis] - 1 - i;
  const ir_value in[] = {x, ints(c, index, (uint32_t)c->dims[axis])};
  const base_arg arg = ARG_INT("dim", axis);
  return node(c, "aten::index_select", in, 2, &arg, 1);
}

/* The elements as they may lie in a file: at an odd address. */
static base_tensor in_file(ir_graph *graph, base_arena *arena, base_tensor t) {
  const size_t bytes = base_tensor_bytes(&t);
  char *file = base_arena_alloc(arena, bytes + 1);
  ir_segment *to = base_vec_push(graph->arena, &graph->segments);
  assert_true(file && to);
  memcpy(file + 1, t.data, bytes);
  *to = (ir_segment){.base = file, .bytes = bytes + 1};
  t.data = file + 1;
  return t;
}

/* Rows, or single elements, of a table, which may be constant, as whole numbers tell, meet the space. */
static ir_value through_pick(chain *c, ir_value x) {
  const int32_t rank = c->rank, axis = rank > 1 && below(c, 2) ? 1 : 0;
  const int64_t size = 1 + below(c, 40);
  int64_t table[4], told[4];
  base_dim sizes[4];
  ir_value in[2];
  const td_dtype own = c->dtype;
  const bool elements = axis == 0 && below(c, 4) == 0; /* the table is a vector */
  const int32_t lead = axis ? rank - 1 : elements ? rank : rank - 1;
  table[axis] = size;
  if (axis) table[0] = c->dims[0];
  else if (!elements) table[1] = c->dims[rank - 1];
  const int32_t table_rank = axis || !elements ? 2 : 1;
  for (int32_t i = 0; i < lead; i++) sizes[i] = told[i] = c->dims[i + (axis ? 1 : 0)];
  base_tensor t = random_tensor(c, own, table_rank, table);
  const ir_type table_type = ir_tensor(own, table_rank, table);
  const char *name = base_arena_format(c->arena, "in%u", c->inputs);
  if (below(c, 2)) {
    if (below(c, 2)) t = in_file(c->graph, c->arena, t);
    OK(ir_add_constant(c->graph, &t, NULL, &in[0], &c->err));
  } else {
    OK(ir_add_input(c->graph, &table_type, name, IR_NO_VALUE, &in[0], &c->err));
    c->in[c->inputs++] = t;
  }
  const td_dtype dtype = below(c, 2) ? TD_I64 : TD_I32;
  const ir_type type = ir_tensor(dtype, lead, sizes);
  OK(ir_add_input(c->graph, &type, base_arena_format(c->arena, "in%u", c->inputs), IR_NO_VALUE, &in[1], &c->err));
  base_tensor *index = &c->in[c->inputs++];
  *index = random_tensor(c, dtype, lead, told);
  for (int64_t i = 0; i < base_tensor_numel(index); i++)
    base_store_i64(dtype, index->data, i, (int64_t)below(c, 2 * (uint32_t)size) - size);
  const base_arg arg = ARG_INT("dim", axis);
  return node(c, "aten::add", (ir_value[]){x, node(c, "aten::index_select", in, 2, &arg, 1)}, 2, NULL, 0);
}

/* Something is made over a smaller space, and read here and there over the whole one. */
static ir_value through_smaller(chain *c, ir_value x) {
  ir_value v = new_input(c, false);
  for (uint32_t i = below(c, 3); i > 0; i--) v = one_operand(c, v);
  v = two_operands(c, v, new_input(c, false));
  const ir_value first =
      node(c, base_is_float(c->dtype) ? "aten::add" : "aten::bitwise_xor", (ir_value[]){x, v}, 2, NULL, 0);
  if (below(c, 2)) return first;
  const ir_value between = c->dtype == TD_F32 && below(c, 2) ? node(c, "aten::_softmax", &first, 1, NULL, 0) : first;
  return node(c, "aten::sub", (ir_value[]){one_operand(c, between), v}, 2, NULL, 0);
}

/* Elements of what was made before, along an axis, each where an index of its own tells. */
static ir_value through_gather(chain *c, ir_value x) {
  base_dim sizes[4];
  int64_t told[4];
  const int32_t axis = (int32_t)below(c, (uint32_t)c->rank);
  for (int32_t i = 0; i < c->rank; i++) sizes[i] = told[i] = c->dims[i];
  const td_dtype dtype = below(c, 2) ? TD_I64 : TD_I32;
  const ir_type type = ir_tensor(dtype, c->rank, sizes);
  ir_value in[] = {below(c, 2) ? x : new_input(c, true), {0}};
  OK(ir_add_input(c->graph, &type, base_arena_format(c->arena, "in%u", c->inputs), IR_NO_VALUE, &in[1], &c->err));
  base_tensor *index = &c->in[c->inputs++];
  *index = random_tensor(c, dtype, c->rank, told);
  for (int64_t i = 0; i < base_tensor_numel(index); i++)
    base_store_i64(dtype, index->data, i, (int64_t)below(c, 2 * (uint32_t)c->dims[axis]) - c->dims[axis]);
  const base_arg arg = ARG_INT("dim", axis);
  const ir_value v = node(c, "aten::gather", in, 2, &arg, 1);
  return below(c, 3)
             ? node(c, base_is_float(c->dtype) ? "aten::maximum" : "aten::bitwise_xor", (ir_value[]){x, v}, 2, NULL, 0)
             : v;
}

static ir_value constant(chain *c, int32_t rank, const int64_t *dims, double scale) {
  base_tensor t = random_tensor(c, TD_F32, rank, dims);
  ir_value v;
  for (int64_t i = 0; i < base_tensor_numel(&t); i++) ((float *)t.data)[i] *= (float)scale;
  OK(ir_add_constant(c->graph, &t, NULL, &v, &c->err));
  return v;
}

/* A product with weights that are known when it runs, the same for all matrices or not. */
static ir_value through_values(chain *c, ir_value x) {
  const int64_t k = c->dims[c->rank - 1];
  int64_t dims[] = {c->dims[0], c->dims[1], k, k};
  const int32_t rank = below(c, 2) ? c->rank : 2;
  ir_value w;
  dims[c->rank - 2] = k;
  dims[c->rank - 1] = k;
  const int64_t *own = dims + c->rank - rank;
  const ir_type type = ir_tensor(TD_F32, rank, own);
  OK(ir_add_input(c->graph, &type, base_arena_format(c->arena, "in%u", c->inputs), IR_NO_VALUE, &w, &c->err));
  c->in[c->inputs++] = random_tensor(c, TD_F32, rank, own);
  const ir_value in[] = {x, node(c, "aten::mul", (ir_value[]){w, number(c, 0.5 / sqrt((double)k))}, 2, NULL, 0)};
  return node(c, "aten::matmul", in, 2, NULL, 0);
}

/* A product with constant weights: along the last axis, or the one before it (of tokens); or a convolution. */
static ir_value through_product(chain *c, ir_value x) {
  const int32_t rank = c->rank;
  const uint32_t which = below(c, 4);
  int64_t order[] = {0, 1, 2, 3};
  if (which == 3) return through_values(c, x);
  if (rank == 4 && which == 0) {
    const int64_t side = below(c, 2) ? 3 : 1, pad[] = {side / 2, side / 2, side / 2, side / 2},
                  w[] = {c->dims[1], c->dims[1], side, side};
    const ir_value in[] = {x, constant(c, 4, w, 0.5 / sqrt((double)(c->dims[1] * side * side)))};
    const base_arg args[] = {ARG_INTS("padding", pad, 4)};
    return node(c, "aten::convolution", in, 2, args, 1);
  }
  const bool tokens = which == 1;
  const int64_t k = c->dims[rank - 1 - tokens], w[] = {k, k};
  order[rank - 1] = rank - 2;
  order[rank - 2] = rank - 1;
  const base_arg turn = ARG_INTS("dims", order, rank);
  ir_value v = tokens ? node(c, "aten::permute", &x, 1, &turn, 1) : x;
  const ir_value in[] = {v, constant(c, 2, w, 0.5 / sqrt((double)k))};
  v = node(c, "aten::matmul", in, 2, NULL, 0);
  return tokens ? node(c, "aten::permute", &v, 1, &turn, 1) : v;
}

static ir_value rearranged(chain *c, ir_value x) {
  static ir_value (*const ways[])(chain * c, ir_value x) = {through_permutation, through_view,  through_join,
                                                            through_expand,      through_cast,  through_pick,
                                                            through_smaller,     through_gather};
  return ways[below(c, sizeof ways / sizeof *ways)](c, x);
}

static void make_chain(chain *c, uint64_t seed) {
  static const int64_t sizes[] = {1, 2, 3, 5, 7, 16, 17, 33, 64};
  *c = (chain){.random = seed * 7919 + 1, .arena = base_arena_new(&base_libc_allocator)};
  c->graph = ir_graph_new(&base_libc_allocator, ops_set(c->arena));
  c->top = c->graph->top;
  for (int i = 0; i < 3; i++) below(c, 2);
  c->rank = 1 + (int32_t)below(c, 4);
  static const td_dtype dtypes[] = {TD_F16, TD_BF16, TD_F64, TD_I64, TD_I32, TD_U8, TD_I8, TD_I16, TD_U32, TD_I64};
  c->dtype = below(c, 2) ? TD_F32 : dtypes[below(c, sizeof dtypes / sizeof *dtypes)];
  for (int32_t i = 0; i < c->rank; i++) c->dims[i] = sizes[below(c, sizeof sizes / sizeof *sizes)];
  if (c->rank == 1 && below(c, 2)) c->dims[0] = 1000 + below(c, 1000);
  if (c->rank == 2 && below(c, 2)) c->dims[1] = c->dims[0];
  c->values[c->count++] = new_input(c, true);
  const uint32_t length = 2 + below(c, 11);
  for (uint32_t i = 0; i < length; i++) {
    const uint32_t which = below(c, 12);
    const ir_value x = below(c, 3) ? c->values[c->count - 1] : some_value(c);
    ir_value made = which > 9   ? (c->dtype == TD_F32 && c->rank > 1 ? through_product(c, x) : one_operand(c, x))
                    : which > 7 ? rearranged(c, x)
                    : which < 3 ? one_operand(c, x)
                    : which == 3 && c->dtype != TD_F16 && c->dtype != TD_BF16
                        ? along_row(c, x)
                        : two_operands(c, x, below(c, 2) ? new_input(c, below(c, 2)) : some_value(c));
    c->values[c->count++] = made;
  }
  OK(ir_add_output(c->graph, c->values[c->count - 1], "last", &c->err));
  if (below(c, 2)) OK(ir_add_output(c->graph, c->values[1 + below(c, c->count - 1)], "other", &c->err));
}

/* Runs the chain of the seed on a backend; gives its outputs, in *arena. */
static uint32_t run_chain(uint64_t seed, const compile_setting *setting, base_arena *arena, base_tensor *out) {
  chain made, *c = &made;
  plan_exe *plan = NULL;
  run_session *session = NULL;
  make_chain(c, seed);
  OK(compile_graph(c->graph, setting, &base_libc_allocator, NULL, &plan, &c->err));
  OK(run_session_new(plan, &base_libc_allocator, NULL, &session, &c->err));
  for (uint32_t i = 0; i < c->inputs; i++) {
    const base_value value = {.kind = BASE_TENSOR, .tensor = c->in[i]};
    OK(run_set_input(session, i, &value, &c->err));
  }
  for (int run = 0; run < 2; run++) OK(run_session_run(session, &c->err));
  const uint32_t count = plan->outputs.count;
  for (uint32_t i = 0; i < count; i++) {
    const base_value *value;
    OK(run_output(session, i, &value, &c->err));
    out[i] = value->tensor;
    out[i].data = base_arena_copy(arena, value->tensor.data, base_tensor_bytes(&value->tensor) + 0);
  }
  run_session_free(session);
  plan_free(plan);
  ir_graph_free(c->graph);
  base_arena_free(c->arena);
  return count;
}

static void print_chain(uint64_t seed) {
  chain made;
  base_text text = {.allocator = &base_libc_allocator};
  make_chain(&made, seed);
  if (ir_print_brief(made.graph, &text) == TD_OK) fprintf(stderr, "%s\n", text.at);
  base_text_free(&text);
  ir_graph_free(made.graph);
  base_arena_free(made.arena);
}

static void expect_same(uint64_t seed, const base_tensor *want, const base_tensor *got, const char *what) {
  const bool exact = !base_is_float(want->dtype);
  const double close = want->dtype == TD_F16    ? 2e-2
                       : want->dtype == TD_BF16 ? 1e-1
                       : want->dtype == TD_F32  ? 2e-5
                                                : 1e-12;
  for (int64_t i = 0; i < base_tensor_numel(want); i++) {
    if (exact && base_load_i64(want->dtype, want->data, i) == base_load_i64(got->dtype, got->data, i)) continue;
    const double a = base_load_f64(want->dtype, want->data, i), b = base_load_f64(got->dtype, got->data, i);
    if (!exact && (fabs(a - b) <= close * (1 + fabs(a)) || (isnan(a) && isnan(b)) || a == b)) continue;
    print_chain(seed);
    fail_msg("chain %llu, %s: element %lld is %.17g, not %.17g", (unsigned long long)seed, what, (long long)i, b, a);
  }
}

static void compare(uint64_t seed, const compile_setting *setting, const char *what) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_tensor want[VALUES], got[VALUES];
  const compile_setting truth = {.backend = compile_find_backend("aot_eager")};
  const uint32_t count = run_chain(seed, &truth, arena, want);
  assert_int_equal(run_chain(seed, setting, arena, got), count);
  for (uint32_t i = 0; i < count; i++) expect_same(seed, &want[i], &got[i], what);
  base_arena_free(arena);
}

static uint32_t chains(void) {
  const char *given = getenv("TREADLE_CHAINS");
  return given ? (uint32_t)strtoul(given, NULL, 10) : CHAINS;
}

/* Where a longer search begins, and one that found something is repeated. */
static uint32_t first(void) {
  const char *given = getenv("TREADLE_FIRST_CHAIN");
  return given ? (uint32_t)strtoul(given, NULL, 10) : 0;
}

static void interpreted(void **state) {
  (void)state;
  uint32_t levels;
  sys_machine machine;
  const kern_level *level = kern_levels(&levels);
  sys_cpu_read(&machine);
  for (uint32_t seed = first(); seed < first() + chains(); seed++) {
    const kern_level *at = &level[seed % levels];
    if (base_isa_lacks(machine.isa, at->isa)) continue;
    const compile_setting setting = {
        .backend = compile_find_backend("interp"), .isa = at->isa, .front_least = seed / levels % 2};
    compare(seed, &setting, at->name);
  }
}

/* What is told from outside of a table is an error that names the node, whether its loop is interpreted or compiled. */
static void picked_outside(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"ids\": i64[n, 3]\ninput %1 \"x\": f32[n, 3, 4]\n"
      "const %2: f32[5, 4] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}\n"
      "%3 = aten::tanh(%1)  # \"node /tanh (Tanh)\"\n"
      "%4 = aten::index_select(%2, %0) {dim = 0}  # \"node /words (Gather)\"\n"
      "%5 = aten::add(%3, %4)  # \"node /add (Add)\"\noutput \"z\" %5\n";
  char *cache = chains_cache();
  sys_machine machine;
  sys_cpu_read(&machine);
  for (int native = 0; native < 2; native++) {
    rig r = {.counting = {.inner = &base_libc_allocator}};
    r.allocator = base_counting_allocator(&r.counting);
    r.arena = base_arena_new(&base_libc_allocator);
    r.graph = parse_graph(r.arena, text, &r.allocator);
    const compile_setting setting = {.backend = compile_find_backend(native ? "native" : "interp"),
                                     .isa = machine.isa | BASE_ISA_VECTOR,
                                     .options.cc = chains_compiler(),
                                     .options.cache = cache};
    assert_int_equal(compile_graph(r.graph, &setting, &r.allocator, NULL, &r.plan, &r.err), TD_OK);
    assert_int_equal(r.plan->steps.count, 1);
    assert_int_equal(run_session_new(r.plan, &r.allocator, NULL, &r.session, &r.err), TD_OK);
    rig_feed(&r, 0, TD_I64, "1x3: 3"); /* 3, 4, 5 */
    rig_feed(&r, 1, TD_F32, "1x3x4: 1");
    assert_int_equal(run_session_run(r.session, &r.err), TD_BAD_ARGUMENT);
    assert_non_null(strstr(r.err.text, "index 5 is outside of an axis of 5"));
    assert_string_equal(r.err.name, "/words");
    rig_feed(&r, 0, TD_I64, "1x3: 2");
    rig_run(&r);
    assert_float_equal(((const float *)rig_output(&r, 0)->data)[0], tanhf(1) + 8, 1e-6);
    rig_close(&r);
  }
  chains_remove(cache);
}

/* Blocks that an index tells meet a reduction along their rows; one outside is an error. */
static void picked_blocks(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"ids\": i64[n]\ninput %1 \"x\": f32[n, 3, 18]\ninput %2 \"blocks\": f32[5, 3, 18]\n"
      "%3 = aten::index_select(%2, %0) {dim = 0}\n%4 = aten::add(%1, %3)\n%5 = aten::abs(%4)\n"
      "%6 = aten::sum(%5) {dim = [-1], keepdim = true}\n%7 = aten::sub(%5, %6)\n"
      "output \"z\" %7\n";
  const int64_t blocks[] = {4, 0, 2, 2};
  rig r;
  rig_open(&r, text, "native");
  rig_feed(&r, 0, TD_I64, "4: 4 -5 2 2");
  rig_feed(&r, 1, TD_F32, "4x3x18: 1");
  rig_feed(&r, 2, TD_F32, "5x3x18: 0.5");
  rig_run(&r);
  for (int64_t i = 0; i < 4 * 3; i++) {
    float sum = 0;
    for (int64_t k = 0; k < 18; k++) sum += (float)(i * 18 + k) + (float)((blocks[i / 3] * 3 + i % 3) * 18 + k) + 1.5f;
    for (int64_t k = 0; k < 18; k++) {
      const float one = (float)(i * 18 + k) + (float)((blocks[i / 3] * 3 + i % 3) * 18 + k) + 1.5f;
      assert_true(((const float *)rig_output(&r, 0)->data)[i * 18 + k] == one - sum);
    }
  }
  rig_feed(&r, 0, TD_I64, "4: 0 1 5 2");
  assert_int_equal(run_session_run(r.session, &r.err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(r.err.text, "index 5 is outside of an axis of 5"));
  rig_close(&r);
}

/* A table of which rows are picked stays in its file, wherever it lies there. */
static void picked_in_place(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"ids\": i64[n]\ninput %1 \"x\": f32[n, 2]\ninput %2 \"words\": f32[5, 2]\n"
      "%3 = aten::index_select(%2, %0) {dim = 0}\n%4 = aten::add(%1, %3)\noutput \"z\" %4\n";
  float words[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const int64_t dims[] = {5, 2};
  rig r = {.counting = {.inner = &base_libc_allocator}};
  r.allocator = base_counting_allocator(&r.counting);
  r.arena = base_arena_new(&base_libc_allocator);
  r.graph = parse_graph(r.arena, text, &r.allocator);
  const base_tensor table = in_file(r.graph, r.arena, base_tensor_of(words, TD_F32, 2, dims));
  ir_value constant;
  assert_int_equal(ir_add_constant(r.graph, &table, NULL, &constant, &r.err), TD_OK);
  ir_node_of(r.graph, (ir_node){1})->in[0] = constant;
  const compile_setting setting = {.backend = compile_find_backend("interp"), .isa = BASE_ISA_VECTOR};
  assert_int_equal(compile_graph(r.graph, &setting, &r.allocator, NULL, &r.plan, &r.err), TD_OK);
  assert_int_equal(r.plan->steps.count, 1);
  bool stays = false;
  for (uint32_t i = 0; i < r.plan->slots.count; i++) {
    const plan_slot *slot = &r.plan->slots.at[i];
    stays |= slot->place == PLAN_CONST && plan_constant(r.plan, slot) == table.data;
  }
  assert_true(stays);
  rig_close(&r);
}

static void compiled(void **state) {
  (void)state;
  sys_machine machine;
  sys_cpu_read(&machine);
  if (!chains_compiler()) skip();
  char *cache = chains_cache();
  for (uint32_t i = 0; i < COMPILED * chains() / CHAINS; i++) {
    const uint32_t avx512 = BASE_ISA_AVX512F;
    compile_setting setting = {.backend = compile_find_backend("native"),
                               .isa = (i % 3 == 2 ? machine.isa & ~avx512 : machine.isa) | BASE_ISA_VECTOR,
                               .options.cc = chains_compiler(),
                               .options.cache = cache,
                               .front_least = i % 2,
                               .options.strict = true};
    if (i % 6 == 5) setting.isa = BASE_ISA_VECTOR;
    compare(first() + 20 * i + 3, &setting, "compiled");
  }
  chains_remove(cache);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(interpreted), cmocka_unit_test(picked_outside),
                                     cmocka_unit_test(picked_blocks), cmocka_unit_test(picked_in_place),
                                     cmocka_unit_test(compiled)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
