/* plain.c -- what programs mean: their sizes, and plain loops over doubles. Nothing here is shared with the block
 * interpreter or with generated code; each function is written down once more, in C's own. */
#include "loop/loop.h"

#include <math.h>
#include <string.h>

/* ---- sizes ---- */

bool loop_space(const base_program *p, base_dims *dims, const int32_t *ranks, const base_dim *const *operand_dims,
                base_dim *sizes) {
  base_program_pick picks[BASE_PROGRAM_OPERANDS];
  base_program_picks(p, picks);
  for (int32_t axis = 0; axis < p->rank; axis++) {
    sizes[axis] = 1;
    for (uint32_t k = 0; k < p->in_count; k++) {
      const int32_t at = base_program_axis(p, &picks[k], ranks[k], axis);
      if (at < 0 || operand_dims[k][at] == 1 || operand_dims[k][at] == sizes[axis]) continue;
      const base_dim dim = operand_dims[k][at];
      if (sizes[axis] == 1) sizes[axis] = dim;
      else if (base_dim_known(dim) && base_dim_known(sizes[axis])) return false;
      else sizes[axis] = base_dim_binary(dims, BASE_DIM_BROADCAST, sizes[axis], dim);
      if (sizes[axis] == BASE_DIM_NONE) return false;
    }
  }
  return true;
}

void loop_output(const base_program *p, const base_dim *sizes, uint32_t index, td_dtype *dtype, int32_t *rank,
                 base_dim *dims) {
  for (uint32_t i = 0; i < p->count; i++) {
    const base_program_op *op = &p->ops[i];
    if (op->kind != BASE_PROGRAM_STORE || op->function != index) continue;
    *dtype = (td_dtype)op->in[2];
    *rank = 0;
    for (int32_t a = 0; a < p->rank; a++) {
      const bool gone = op->row && base_program_in_row(p, a);
      if (!gone || !op->in[1]) dims[(*rank)++] = gone ? 1 : sizes[a];
    }
  }
}

/* ---- functions ---- */

typedef double (*plain_fn)(double x, double y, double z, const double *p);
#define MEANS(name, value)                                                    \
  static double plain_##name(double x, double y, double z, const double *p) { \
    (void)x, (void)y, (void)z, (void)p;                                       \
    return value;                                                             \
  }
static double combine_log_add(double a, double b) {
  const double larger = fmax(a, b);
  if (isnan(a) || isnan(b)) return NAN;
  return isinf(larger) ? larger : larger + log1p(exp(-fabs(a - b)));
}
static double floor_rest(double x, double y) {
  const double rest = fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

MEANS(abs, fabs(x))
MEANS(ceil, ceil(x))
MEANS(clamp, isnan(x) ? x : fmin(fmax(x, p[0]), p[1]))
MEANS(cube, x *x *x)
MEANS(elu, x > 0 || isnan(x) ? p[1] * x : p[0] * expm1(p[2] * x))
MEANS(erf, erf(x))
MEANS(erfc, erfc(x))
MEANS(exp, exp(x))
MEANS(floor, floor(x))
MEANS(gelu, x == -INFINITY ? -0.0 : 0.5 * x * (1 + erf(x * 0.70710678118654752440)))
MEANS(gelu_tanh, x == -INFINITY ? -0.0 : 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))))
MEANS(hard_sigmoid, isnan(x) ? x : fmin(fmax(p[0] * x + p[1], 0), 1))
MEANS(hardswish, x == -INFINITY ? -0.0 : isnan(x) ? x : x * fmin(fmax(x / 6 + 0.5, 0), 1))
MEANS(leaky_relu, x < 0 ? p[0] * x : x)
MEANS(log, log(x))
MEANS(mish, x == -INFINITY ? -0.0 : x * tanh(fmax(x, 0) + log1p(exp(-fabs(x)))))
MEANS(neg, -x)
MEANS(pow_half, pow(x, 0.5))
MEANS(reciprocal, 1 / x)
MEANS(relu, x < 0 ? 0 : x)
MEANS(round, nearbyint(x))
MEANS(rsqrt, 1 / sqrt(x))
MEANS(sigmoid, 1 / (1 + exp(-x)))
MEANS(sign, isnan(x) ? x : (x > 0) - (x < 0))
MEANS(silu, x == -INFINITY ? -0.0 : x / (1 + exp(-x)))
MEANS(softplus, fmax(x, 0) + log1p(exp(-fabs(x))))
MEANS(softsign, x / (1 + fabs(x)))
MEANS(sqrt, sqrt(x))
MEANS(square, x *x)
MEANS(tanh, tanh(x))
MEANS(threshold, x <= p[0] ? p[1] : x)
MEANS(trunc, trunc(x))
MEANS(add, x + y)
MEANS(div, x / y)
MEANS(maximum, isnan(x) || x > y ? x : y)
MEANS(minimum, isnan(x) || x < y ? x : y)
MEANS(mul, x *y)
MEANS(prelu, x < 0 ? x * y : x)
MEANS(sub, x - y)
MEANS(eq, x == y)
MEANS(ne, x != y)
MEANS(lt, x < y)
MEANS(le, x <= y)
MEANS(where, x != 0 ? y : z)
MEANS(quantise, nearbyint((double)(float)((x > p[0] * p[1] ? fmin(x, p[0] * p[2]) : p[0] * p[1]) / p[0])))
MEANS(exp_flush, exp(x))
MEANS(cast, x)
MEANS(bitwise_and, 0)
MEANS(bitwise_or, 0)
MEANS(bitwise_xor, 0)
MEANS(bitwise_not, 0)
MEANS(shift_left, 0)
MEANS(shift_right, 0)
MEANS(div_floor, y == 0 ? x / y : nearbyint((x - floor_rest(x, y)) / y))
MEANS(div_trunc, trunc(x / y))
MEANS(remainder, floor_rest(x, y))
MEANS(fmod, fmod(x, y))
MEANS(pow, pow(x, y))
MEANS(logaddexp, combine_log_add(x, y))
MEANS(atan2, atan2(x, y))
MEANS(acos, acos(x))
MEANS(acosh, acosh(x))
MEANS(asin, asin(x))
MEANS(asinh, asinh(x))
MEANS(atan, atan(x))
MEANS(atanh, atanh(x))
MEANS(cos, cos(x))
MEANS(cosh, cosh(x))
MEANS(expm1, expm1(x))
MEANS(log10, log10(x))
MEANS(log1p, log1p(x))
MEANS(log2, log2(x))
MEANS(sin, sin(x))
MEANS(sinh, sinh(x))
MEANS(tan, tan(x))
MEANS(round_f16, base_f16_to_f32(base_f64_to_f16(x)))
MEANS(round_bf16, base_bf16_to_f32(base_f64_to_bf16(x)))

/* Whole numbers, as int64; what is narrower is cut afterwards. Truth is 1. */
typedef int64_t (*whole_fn)(int64_t x, int64_t y, int64_t z);

static int64_t raised(int64_t x, int64_t y) {
  uint64_t power = 1;
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  for (uint64_t base = (uint64_t)x; y; y /= 2, base *= base) power *= y % 2 ? base : 1;
  return (int64_t)power;
}
static int64_t rest_of(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }
static int64_t quotient(int64_t x, int64_t y) { return y == 0 ? 0 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y; }
static bool rest_turns(int64_t x, int64_t y) { return rest_of(x, y) != 0 && (x < 0) != (y < 0); }

#define WHOLE(name, value)                                       \
  static int64_t whole_##name(int64_t x, int64_t y, int64_t z) { \
    (void)x, (void)y, (void)z;                                   \
    return (int64_t)(value);                                     \
  }
#define WHOLE_LIST(X)                                      \
  X(abs, x < 0 ? 0 - (uint64_t)x : (uint64_t)x)            \
  X(neg, 0 - (uint64_t)x)                                  \
  X(relu, x < 0 ? 0 : x)                                   \
  X(square, (uint64_t)x *(uint64_t)x)                      \
  X(add, (uint64_t)x + (uint64_t)y)                        \
  X(sub, (uint64_t)x - (uint64_t)y)                        \
  X(mul, (uint64_t)x *(uint64_t)y)                         \
  X(maximum, x > y ? x : y)                                \
  X(minimum, x < y ? x : y)                                \
  X(eq, x == y)                                            \
  X(ne, x != y)                                            \
  X(lt, x < y)                                             \
  X(le, x <= y)                                            \
  X(where, x ? y : z)                                      \
  X(cast, x)                                               \
  X(bitwise_and, x &y)                                     \
  X(bitwise_or, x | y)                                     \
  X(bitwise_xor, x ^ y)                                    \
  X(bitwise_not, ~x)                                       \
  X(shift_left, y<0 || y> 63 ? 0 : (uint64_t)x << y)       \
  X(shift_right, y<0 || y> 63 ? (x < 0 ? -1 : 0) : x >> y) \
  X(div_floor, quotient(x, y) - rest_turns(x, y))          \
  X(div_trunc, quotient(x, y))                             \
  X(remainder, rest_of(x, y) + (rest_turns(x, y) ? y : 0)) \
  X(fmod, rest_of(x, y))                                   \
  X(pow, raised(x, y))
WHOLE_LIST(WHOLE)

static const plain_fn functions[] = {
#define UNARY(family, function, types, work, value) plain_##function,
#define BINARY(family, function, types, work, value) plain_##function,
#define PURE(function, operands, types, gives, work, value) plain_##function,
#define PLAIN(function, operands, types, work, value) plain_##function,
#include "base/scalar.def"
};
static const whole_fn wholes[BASE_SCALAR_COUNT] = {
#define WHOLE_ROW(name, value) [BASE_SCALAR_##name] = whole_##name,
    WHOLE_LIST(WHOLE_ROW)};

static double combine_sum(double a, double b) { return a + b; }
static double combine_max(double a, double b) { return isnan(a) || a > b ? a : b; }
static double combine_min(double a, double b) { return isnan(a) || a < b ? a : b; }
static double combine_prod(double a, double b) { return a * b; }
static int64_t whole_sum(int64_t a, int64_t b) { return whole_add(a, b, 0); }
static int64_t whole_max(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t whole_min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t whole_prod(int64_t a, int64_t b) { return whole_mul(a, b, 0); }
static const struct {
  double start;
  int64_t wide_start, narrow_start;
  double (*combine)(double a, double b);
  int64_t (*whole)(int64_t a, int64_t b);
} combines[BASE_COMBINE_COUNT] = {{0, 0, 0, combine_sum, whole_sum},
                                  {-INFINITY, INT64_MIN, INT32_MIN, combine_max, whole_max},
                                  {INFINITY, INT64_MAX, INT32_MAX, combine_min, whole_min},
                                  {1, 1, 1, combine_prod, whole_prod},
                                  {-INFINITY, 0, 0, combine_log_add, whole_sum}};

/* ---- running ---- */

/* A value: of floats `f` counts, of all others `i`. Truth is 1. */
typedef struct number {
  double f;
  int64_t i;
} number;

typedef struct plain {
  const base_call *call;
  const base_program *p;
  int64_t sizes[BASE_MAX_RANK], rows, length;
  number row_value[BASE_PROGRAM_OPS]; /* of what is computed once for a row */
  base_program_pick picks[BASE_PROGRAM_OPERANDS];
  td_status status;
} plain;

/* Where operand `k` stands at element `at` of row `row`, but for gathered ones along their axis. */
static int64_t place_of(const plain *m, uint32_t k, int64_t row, int64_t at) {
  const base_tensor *t = base_in(m->call, k);
  int64_t offset = 0;
  for (int32_t axis = m->p->rank; axis-- > 0;) {
    int64_t *rest = base_program_in_row(m->p, axis) ? &at : &row;
    const int64_t size = base_max_i64(m->sizes[axis], 1); /* rows without elements have numbers of their own */
    const int64_t index = *rest % size;
    const int32_t dim = base_program_axis(m->p, &m->picks[k], t->rank, axis);
    *rest /= size;
    if (dim >= 0 && t->dims[dim] != 1) offset += index * t->strides[dim];
  }
  return offset;
}

/* Operand `k` at element `at` of row `row`. An index outside of a gathered axis gives 0, and the call fails. */
static number load(plain *m, uint32_t k, int64_t row, int64_t at) {
  const base_tensor *t = base_in(m->call, k);
  int64_t offset = place_of(m, k, row, at);
  if (m->picks[k].picks) {
    const base_tensor *teller = base_in(m->call, m->picks[k].teller);
    const int64_t size = t->dims[m->picks[k].axis];
    const int64_t told = base_load_i64(teller->dtype, teller->data, place_of(m, m->picks[k].teller, row, at));
    const int64_t index = told < 0 ? told + size : told;
    if (index < 0 || index >= size) {
      m->status = base_fail(m->call->err, TD_BAD_ARGUMENT, NULL, -1, "index %lld is outside of an axis of %lld",
                            (long long)told, (long long)size);
      return (number){0};
    }
    offset += index * t->strides[m->picks[k].axis];
  }
  if (base_is_float(t->dtype)) return (number){.f = base_load_f64(t->dtype, t->data, offset)};
  return (number){.i = base_load_i64(t->dtype, t->data, offset)};
}

/* The value as one of `type` holds it. */
static number cut(base_type type, number x) {
  if (type == BASE_TYPE_I32) x.i = (int32_t)(uint32_t)(uint64_t)x.i;
  if (type == BASE_TYPE_BOOL) x.i &= 1;
  return x;
}

static number cast(base_type from, base_type to, number x) {
  const bool was_float = base_type_is_float(from);
  if (to == BASE_TYPE_BOOL) return (number){.i = was_float ? x.f != 0 : x.i != 0};
  if (base_type_is_float(to)) return (number){.f = was_float ? x.f : to == BASE_TYPE_F32 ? (float)x.i : (double)x.i};
  if (!was_float) return cut(to, x);
  number whole = {.i = base_load_i64(TD_F64, &x.f, 0)}; /* cut toward zero, and at the ends of int64 */
  if (to == BASE_TYPE_I32 && whole.i > INT32_MAX) whole.i = INT32_MAX;
  if (to == BASE_TYPE_I32 && whole.i < INT32_MIN) whole.i = INT32_MIN;
  return whole;
}

static number function_of(const base_program *p, const base_program_op *op, const number *done) {
  const uint16_t *in = op->in;
  const base_type type = base_program_operand_type(p, op);
  if (op->function == BASE_SCALAR_cast) return cast(type, (base_type)op->type, done[in[0]]);
  if (op->function == BASE_SCALAR_where) return done[in[0]].i ? done[in[1]] : done[in[2]];
  if (!base_type_is_float(type))
    return cut((base_type)op->type, (number){.i = wholes[op->function](done[in[0]].i, done[in[1]].i, done[in[2]].i)});
  const double value = functions[op->function](done[in[0]].f, done[in[1]].f, done[in[2]].f, op->p);
  return (number){.f = value, .i = value != 0};
}

static number scanned(plain *m, const base_program_op *op, int64_t row, int64_t at);

/* Op `i` at element `at` of row `row`. Recomputes what it needs, but for what belongs to the row. */
static number value_at(plain *m, uint32_t i, int64_t row, int64_t at) {
  number done[BASE_PROGRAM_OPS];
  for (uint32_t j = 0; j <= i; j++) {
    const base_program_op *op = &m->p->ops[j];
    done[j] = m->row_value[j];
    if (op->row && j != i) continue;
    if (m->p->ops[i].row && !op->row && op->kind != BASE_PROGRAM_NUMBER) continue; /* a row may have no elements */
    if (op->kind == BASE_PROGRAM_LOAD) done[j] = load(m, op->function, row, at);
    if (op->kind == BASE_PROGRAM_NUMBER) done[j] = cut((base_type)op->type, (number){op->p[0], op->whole});
    if (op->kind == BASE_PROGRAM_SCALAR) done[j] = function_of(m->p, op, done);
    if (op->kind == BASE_PROGRAM_SCAN) done[j] = scanned(m, op, row, at);
  }
  return done[i];
}

static void store(const plain *m, const base_program_op *op, int64_t element, number value) {
  const base_tensor *out = base_out(m->call, op->function);
  if (!out) return;
  if (base_is_float(out->dtype)) base_store_f64(out->dtype, out->data, element, value.f);
  else base_store_i64(out->dtype, out->data, element, value.i);
}

/* The op's operand in `count` elements of the row from `first` on, `step` apart, as one. Of truth the largest is any,
 * the smallest all. */
static number combined(plain *m, const base_program_op *op, int64_t row, int64_t first, int64_t step, int64_t count) {
  const base_type type = (base_type)op->type;
  const bool is_float = base_type_is_float(type);
  number total = {combines[op->function].start,
                  type == BASE_TYPE_I64 ? combines[op->function].wide_start : combines[op->function].narrow_start};
  if (type == BASE_TYPE_BOOL) total.i = op->function == BASE_COMBINE_MIN;
  for (int64_t i = 0; i < count; i++) {
    const number x = value_at(m, op->in[0], row, first + i * step);
    if (is_float) total.f = combines[op->function].combine(total.f, x.f);
    else total = cut(type, (number){.i = combines[op->function].whole(total.i, x.i)});
  }
  return total;
}

static number scanned(plain *m, const base_program_op *op, int64_t row, int64_t at) {
  const bool back = op->in[1] & BASE_SCAN_REVERSE;
  const int64_t own = !(op->in[1] & BASE_SCAN_EXCLUSIVE), last = m->length - 1;
  return back ? combined(m, op, row, last, -1, last - at + own) : combined(m, op, row, 0, 1, at + own);
}

static void row_op(plain *m, uint32_t i, int64_t row) {
  const base_program_op *op = &m->p->ops[i];
  if (op->kind == BASE_PROGRAM_STORE) store(m, op, row, m->row_value[op->in[0]]);
  else if (op->kind == BASE_PROGRAM_LENGTH) m->row_value[i] = (number){(double)m->length, m->length};
  else
    m->row_value[i] = op->kind == BASE_PROGRAM_REDUCE ? combined(m, op, row, 0, 1, m->length) : value_at(m, i, row, 0);
}

/* Of a result, element `at` of row `row`. */
static int64_t element_of(const plain *m, int64_t row, int64_t at) {
  int64_t behind = 1;
  for (int32_t axis = m->p->rank - m->p->behind; axis < m->p->rank; axis++) behind *= m->sizes[axis];
  return (row / behind * m->length + at) * behind + row % behind;
}

static bool is_element_store(const base_program_op *op) { return op->kind == BASE_PROGRAM_STORE && !op->row; }

static void run_row(plain *m, int64_t row) {
  for (uint32_t i = 0; i < m->p->count; i++)
    if (m->p->ops[i].row) row_op(m, i, row);
  for (int64_t at = 0; at < m->length; at++) {
    number values[BASE_PROGRAM_OPS]; /* all before the first is stored: a result may be an operand's memory */
    for (uint32_t i = 0; i < m->p->count; i++)
      if (is_element_store(&m->p->ops[i])) values[i] = value_at(m, m->p->ops[i].in[0], row, at);
    for (uint32_t i = 0; i < m->p->count; i++)
      if (is_element_store(&m->p->ops[i])) store(m, &m->p->ops[i], element_of(m, row, at), values[i]);
  }
}

td_status loop_run_plain(const base_call *call, const base_program *p) {
  plain m = {.call = call, .p = p, .rows = 1, .length = 1};
  int32_t ranks[BASE_PROGRAM_OPERANDS];
  const base_dim *dims[BASE_PROGRAM_OPERANDS];
  base_program_picks(p, m.picks);
  for (uint32_t k = 0; k < p->in_count; k++) {
    const base_tensor *t = base_in(call, k);
    if (!t || (t->rank > p->rank && !m.picks[k].picks))
      return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::fused: operand %u is missing or has too many axes",
                       k);
    if (m.picks[k].picks && (m.picks[k].axis >= t->rank || m.picks[k].axes + 1 < t->rank))
      return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::fused: operand %u cannot be gathered that way", k);
    ranks[k] = t->rank;
    dims[k] = t->dims;
  }
  if (!loop_space(p, NULL, ranks, dims, m.sizes))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::fused: the operands do not broadcast");
  for (int32_t axis = 0; axis < p->rank; axis++) *(base_program_in_row(p, axis) ? &m.length : &m.rows) *= m.sizes[axis];
  if (!p->row_axes && m.rows == 0) return TD_OK;
  for (int64_t row = 0; row < m.rows && m.status == TD_OK; row++) run_row(&m, row);
  return m.status;
}
