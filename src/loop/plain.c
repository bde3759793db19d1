/* plain.c -- what programs mean: their sizes, and plain loops over doubles. Nothing here is shared with the block
 * interpreter or with generated code; each function is written down once more, in C's own. */
#include "loop/loop.h"

#include <math.h>
#include <string.h>

/* ---- sizes ---- */

bool loop_space(const base_program *p, base_dims *dims, const int32_t *ranks, const base_dim *const *operand_dims,
                base_dim *sizes) {
  for (int32_t axis = 0; axis < p->rank; axis++) {
    sizes[axis] = 1;
    for (uint32_t k = 0; k < p->in_count; k++) {
      const int32_t at = axis - p->rank + ranks[k];
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
    const int32_t outer = p->rank - p->row_axes;
    *dtype = (td_dtype)op->in[2];
    *rank = op->in[1] ? outer : p->rank;
    for (int32_t a = 0; a < *rank; a++) dims[a] = op->row && a >= outer ? 1 : sizes[a];
  }
}

/* ---- functions ---- */

typedef double (*plain_fn)(double x, double y, double z, const double *p);
#define PLAIN(name, value)                                                    \
  static double plain_##name(double x, double y, double z, const double *p) { \
    (void)x, (void)y, (void)z, (void)p;                                       \
    return value;                                                             \
  }
PLAIN(abs, fabs(x))
PLAIN(ceil, ceil(x))
PLAIN(clamp, isnan(x) ? x : fmin(fmax(x, p[0]), p[1]))
PLAIN(cube, x *x *x)
PLAIN(elu, x > 0 || isnan(x) ? p[1] * x : p[0] * expm1(p[2] * x))
PLAIN(erf, erf(x))
PLAIN(exp, exp(x))
PLAIN(floor, floor(x))
PLAIN(gelu, x == -INFINITY ? -0.0 : 0.5 * x * (1 + erf(x * 0.70710678118654752440)))
PLAIN(gelu_tanh, x == -INFINITY ? -0.0 : 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))))
PLAIN(hard_sigmoid, isnan(x) ? x : fmin(fmax(p[0] * x + p[1], 0), 1))
PLAIN(hardswish, x == -INFINITY ? -0.0 : isnan(x) ? x : x * fmin(fmax(x / 6 + 0.5, 0), 1))
PLAIN(leaky_relu, x < 0 ? p[0] * x : x)
PLAIN(log, log(x))
PLAIN(mish, x == -INFINITY ? -0.0 : x * tanh(fmax(x, 0) + log1p(exp(-fabs(x)))))
PLAIN(neg, -x)
PLAIN(pow_half, pow(x, 0.5))
PLAIN(reciprocal, 1 / x)
PLAIN(relu, x < 0 ? 0 : x)
PLAIN(round, nearbyint(x))
PLAIN(rsqrt, 1 / sqrt(x))
PLAIN(sigmoid, 1 / (1 + exp(-x)))
PLAIN(sign, isnan(x) ? x : (x > 0) - (x < 0))
PLAIN(silu, x == -INFINITY ? -0.0 : x / (1 + exp(-x)))
PLAIN(softplus, fmax(x, 0) + log1p(exp(-fabs(x))))
PLAIN(softsign, x / (1 + fabs(x)))
PLAIN(sqrt, sqrt(x))
PLAIN(square, x *x)
PLAIN(tanh, tanh(x))
PLAIN(threshold, x <= p[0] ? p[1] : x)
PLAIN(trunc, trunc(x))
PLAIN(add, x + y)
PLAIN(div, x / y)
PLAIN(maximum, isnan(x) || x > y ? x : y)
PLAIN(minimum, isnan(x) || x < y ? x : y)
PLAIN(mul, x *y)
PLAIN(prelu, x < 0 ? x * y : x)
PLAIN(sub, x - y)
PLAIN(eq, x == y)
PLAIN(ne, x != y)
PLAIN(lt, x < y)
PLAIN(le, x <= y)
PLAIN(isnan, isnan(x))
PLAIN(truth, x != 0)
PLAIN(logical_not, x == 0)
PLAIN(logical_and, x != 0 && y != 0)
PLAIN(logical_or, x != 0 || y != 0)
PLAIN(logical_xor, (x != 0) != (y != 0))
PLAIN(where, x != 0 ? y : z)
PLAIN(exp_flush, exp(x))

static const plain_fn functions[] = {
#define UNARY(family, function, value) plain_##function,
#define BINARY(family, function, value) plain_##function,
#define PURE(function, operands, value) plain_##function,
#include "base/scalar.def"
};

static double combine_sum(double a, double b) { return a + b; }
static double combine_max(double a, double b) { return isnan(a) || a > b ? a : b; }
static double combine_min(double a, double b) { return isnan(a) || a < b ? a : b; }
static const struct {
  double start;
  double (*combine)(double a, double b);
} combines[BASE_COMBINE_COUNT] = {{0, combine_sum}, {-INFINITY, combine_max}, {INFINITY, combine_min}};

/* ---- running ---- */

typedef struct plain {
  const base_call *call;
  const base_program *p;
  int64_t sizes[BASE_MAX_RANK], rows, length;
  double row_value[BASE_PROGRAM_OPS]; /* of what is computed once for a row */
} plain;

/* Operand `k` at element `at` of row `row`. */
static double load(const plain *m, uint32_t k, int64_t row, int64_t at) {
  const base_tensor *t = base_in(m->call, k);
  int64_t offset = 0;
  for (int32_t axis = m->p->rank; axis-- > 0;) {
    int64_t *rest = axis >= m->p->rank - m->p->row_axes ? &at : &row;
    const int64_t index = *rest % m->sizes[axis];
    const int32_t dim = axis - m->p->rank + t->rank;
    *rest /= m->sizes[axis];
    if (dim >= 0 && t->dims[dim] != 1) offset += index * t->strides[dim];
  }
  return base_load_f64(t->dtype, t->data, offset);
}

/* Op `i` at element `at` of row `row`. Recomputes what it needs, but for what belongs to the row. */
static double value_at(const plain *m, uint32_t i, int64_t row, int64_t at) {
  double done[BASE_PROGRAM_OPS];
  for (uint32_t j = 0; j <= i; j++) {
    const base_program_op *op = &m->p->ops[j];
    const uint16_t *in = op->in;
    const double p[3] = {(double)op->p[0], (double)op->p[1], (double)op->p[2]};
    done[j] = m->row_value[j];
    if (op->row && j != i) continue;
    if (op->kind == BASE_PROGRAM_LOAD) done[j] = load(m, op->function, row, at);
    if (op->kind == BASE_PROGRAM_NUMBER) done[j] = p[0];
    if (op->kind == BASE_PROGRAM_SCALAR) done[j] = functions[op->function](done[in[0]], done[in[1]], done[in[2]], p);
  }
  return done[i];
}

static void store(const plain *m, const base_program_op *op, int64_t element, double value) {
  const base_tensor *out = base_out(m->call, op->function);
  if (out) base_store_f64(out->dtype, out->data, element, value);
}

static void row_op(plain *m, uint32_t i, int64_t row) {
  const base_program_op *op = &m->p->ops[i];
  if (op->kind == BASE_PROGRAM_STORE) store(m, op, row, m->row_value[op->in[0]]);
  else if (op->kind == BASE_PROGRAM_LENGTH) m->row_value[i] = (double)m->length;
  else if (op->kind == BASE_PROGRAM_REDUCE) {
    m->row_value[i] = combines[op->function].start;
    for (int64_t at = 0; at < m->length; at++)
      m->row_value[i] = combines[op->function].combine(m->row_value[i], value_at(m, op->in[0], row, at));
  } else {
    m->row_value[i] = value_at(m, i, row, 0);
  }
}

static bool is_element_store(const base_program_op *op) { return op->kind == BASE_PROGRAM_STORE && !op->row; }

static void run_row(plain *m, int64_t row) {
  for (uint32_t i = 0; i < m->p->count; i++)
    if (m->p->ops[i].row) row_op(m, i, row);
  for (int64_t at = 0; at < m->length; at++) {
    double values[BASE_PROGRAM_OPS]; /* all before the first is stored: a result may be an operand's memory */
    for (uint32_t i = 0; i < m->p->count; i++)
      if (is_element_store(&m->p->ops[i])) values[i] = value_at(m, m->p->ops[i].in[0], row, at);
    for (uint32_t i = 0; i < m->p->count; i++)
      if (is_element_store(&m->p->ops[i])) store(m, &m->p->ops[i], row * m->length + at, values[i]);
  }
}

td_status loop_run_plain(const base_call *call, const base_program *p) {
  plain m = {.call = call, .p = p, .rows = 1, .length = 1};
  int32_t ranks[BASE_PROGRAM_OPERANDS];
  const base_dim *dims[BASE_PROGRAM_OPERANDS];
  for (uint32_t k = 0; k < p->in_count; k++) {
    const base_tensor *t = base_in(call, k);
    if (!t || t->rank > p->rank)
      return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::fused: operand %u is missing or has too many axes",
                       k);
    ranks[k] = t->rank;
    dims[k] = t->dims;
  }
  if (!loop_space(p, NULL, ranks, dims, m.sizes))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::fused: the operands do not broadcast");
  for (int32_t axis = 0; axis < p->rank; axis++)
    *(axis >= p->rank - p->row_axes ? &m.length : &m.rows) *= m.sizes[axis];
  if (!p->row_axes && m.rows == 0) return TD_OK;
  for (int64_t row = 0; row < m.rows; row++) run_row(&m, row);
  return TD_OK;
}
