/* cases.c -- generated operands for the operators' tests. */
#include "ops/common/ops_priv.h"

#include <math.h>

/* xorshift64*, Vigna 2016. */
static uint64_t next(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 0x2545f4914f6cdd1du;
}

static double uniform(uint64_t *state) { return (double)(next(state) >> 11) * 0x1p-53; }

static double special(uint64_t *state) {
  static const double values[] = {0.0,   -0.0, 1.0,      -1.0,      0.5, -0.5, 1.5,  2.5, 1e-30,
                                  -1e30, 6e4,  INFINITY, -INFINITY, NAN, 127,  -128, 255};
  return values[next(state) % (sizeof values / sizeof *values)];
}

static double element(ops_fill fill, bool is_float, bool is_signed, int64_t index, uint64_t *state) {
  double u = uniform(state);
  if (fill == OPS_INDEX) return (double)index;
  if (!is_float && fill != OPS_SPECIAL) return floor(fill == OPS_POSITIVE ? 1 + u * 3 : is_signed ? u * 9 - 4 : u * 9);
  if (fill == OPS_UNIT) return u;
  if (fill == OPS_POSITIVE) return 3 - 3 * u;
  if (fill == OPS_SPECIAL && is_float) return special(state);
  if (fill == OPS_SPECIAL) return floor(u * 255) - (is_signed ? 128 : 0);
  return (u + uniform(state) + uniform(state) - 1.5) * 2;
}

bool ops_case_in(ir_case *c, td_dtype dtype, int32_t rank, const int64_t *dims, ops_fill fill, uint64_t seed) {
  int64_t count = 1;
  for (int32_t i = 0; i < rank; i++) count *= dims[i];
  size_t bytes;
  if (!base_dtype_bytes(dtype, count, &bytes)) return false;
  void *data = base_arena_alloc(c->arena, bytes ? bytes : 1);
  if (!data) return false;
  uint64_t state = (seed + 1) * 0x9e3779b97f4a7c15u;
  bool is_float = base_is_float(dtype), is_signed = base_dtype(dtype)->is_signed;
  for (int64_t i = 0; i < count; i++) base_store_f64(dtype, data, i, element(fill, is_float, is_signed, i, &state));
  c->in[c->in_count++] = base_tensor_of(data, dtype, rank, dims);
  return true;
}

bool ops_case_ints(ir_case *c, const int64_t *ints, uint32_t count) {
  int64_t *data = base_arena_copy(c->arena, ints, count * sizeof *ints), dims[] = {count};
  if (!data) return false;
  c->in[c->in_count++] = base_tensor_of(data, TD_I64, 1, dims);
  return true;
}

bool ops_case_absent(ir_case *c) {
  c->absent[c->in_count++] = true;
  return true;
}

void ops_case_arg(ir_case *c, base_arg arg) { c->args[c->arg_count++] = arg; }
