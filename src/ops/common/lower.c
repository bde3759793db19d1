/* lower.c -- lowering to fused loops that many operators share. */
#include "ops/common/lower_priv.h"

#define ROW(function, x, y, z)                                                              \
  bool ops_lower_##function(const ir_kernel_query *query, loop_build *b) {                  \
    (void)query;                                                                            \
    b->out = loop_scalar(b, BASE_SCALAR_##function, b->in[x], b->in[y], b->in[z], NULL, 0); \
    return b->out != LOOP_NONE;                                                             \
  }
#define UNARY(family, function, types, work, value) ROW(function, 0, 0, 0)
#define BINARY(family, function, types, work, value) ROW(function, 0, 1, 0)
#define PURE(function, operands, types, gives, work, value) ROW(function, 0, 1, 2)
#define PLAIN(function, operands, types, work, value) ROW(function, 0, 1, 2)
#include "base/scalar.def"

bool ops_lower_with_attributes(const ir_kernel_query *query, loop_build *b, base_scalar function) {
  double numbers[3] = {0};
  for (uint32_t i = 0; i < query->attrs->count && i < 3; i++) numbers[i] = base_attr_float(query->attrs, i);
  b->out = loop_scalar(b, function, b->in[0], LOOP_NONE, LOOP_NONE, numbers, 3);
  return b->out != LOOP_NONE;
}

bool ops_lower_swapped(loop_build *b, base_scalar function) {
  b->out = loop_binary(b, function, b->in[1], b->in[0]);
  return b->out != LOOP_NONE;
}

bool ops_lower_number(const ir_kernel_query *query, uint32_t i, double *number) {
  const base_tensor *t = i < query->in_count && query->in[i] ? query->in[i]->constant : NULL;
  if (!t || base_tensor_numel(t) != 1 || t->dtype == TD_STRING || base_dtype(t->dtype)->bits < 8) return false;
  *number = base_load_f64(t->dtype, t->data, 0);
  return true;
}

bool ops_lower_is_row(const loop_build *b, int32_t rank, const int64_t *dims, uint32_t count) {
  uint32_t mask = 0, row = 0;
  if (rank != b->program.rank || b->program.row_axes == 0) return false;
  for (uint32_t i = 0; i < count; i++) mask |= 1u << (dims[i] < 0 ? dims[i] + rank : dims[i]);
  if (count == 0) mask = (1u << rank) - 1;
  for (int32_t axis = 0; axis < rank; axis++) row |= (uint32_t)base_program_in_row(&b->program, axis) << axis;
  return mask == row;
}

bool ops_lower_scan(const ir_kernel_query *query, loop_build *b, int64_t axis, base_combine combine, uint32_t how) {
  const base_type type = loop_type_of(b, b->in[0]);
  const bool widens = type == BASE_TYPE_F32 && combine != BASE_COMBINE_MAX && combine != BASE_COMBINE_MIN;
  if (type == BASE_TYPE_COUNT || loop_is_row(b, b->in[0]) || !ops_lower_is_row(b, query->in[0]->type.rank, &axis, 1))
    return false;
  const uint16_t x = widens ? loop_cast(b, b->in[0], BASE_TYPE_F64) : b->in[0];
  b->out = loop_cast(b, loop_scan(b, combine, x, how), type);
  return b->out != LOOP_NONE;
}
