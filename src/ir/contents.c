/* contents.c -- small integers that can be known while a graph is built. */
#include "ir/eval.h"
#include "ir/graph_priv.h"

enum { MAX_OPERANDS = 16, MAX_BYTES = 1 << 16 };

bool ir_is_countable(const ir_type *type) {
  int64_t product = 1;
  for (int32_t i = 0; type->kind == IR_TENSOR && i < type->rank; i++)
    if (base_dim_known(type->dims[i]) && type->dims[i] != 0 && !base_mul_i64(product, type->dims[i], &product))
      return false;
  return true;
}

int64_t ir_known_count(const ir_type *type) {
  int64_t count = 1;
  if (type->kind != IR_TENSOR || type->rank < 0) return -1;
  for (int32_t i = 0; i < type->rank; i++)
    if (!base_dim_known(type->dims[i]) || __builtin_mul_overflow(count, type->dims[i], &count)) return -1;
  return count;
}

td_status ir_tensor_of_ints(base_arena *arena, const ir_info *info, base_tensor *tensor, bool *known, td_error *err) {
  *known = false;
  if (!info->ints || ir_known_count(&info->type) != (int64_t)info->int_count) return TD_OK;
  for (uint32_t i = 0; i < info->int_count; i++)
    if (!base_dim_known(info->ints[i])) return TD_OK;
  void *data = base_arena_alloc(arena, (size_t)info->int_count * sizeof(int64_t) + 1);
  if (!data) return base_no_memory(err, "the contents of a value");
  int64_t dims[BASE_MAX_RANK];
  for (int32_t i = 0; i < info->type.rank; i++) dims[i] = info->type.dims[i];
  for (uint32_t i = 0; i < info->int_count; i++) base_store_i64(info->type.dtype, data, i, info->ints[i]);
  *tensor = base_tensor_of(data, info->type.dtype, info->type.rank, dims);
  *known = true;
  return TD_OK;
}

/* The value of `info` in *value, when it is known in full and small. */
static td_status known_value(base_arena *arena, const ir_info *info, base_value *value, bool *known, td_error *err) {
  *value = (base_value){.kind = BASE_TENSOR};
  if (!info->constant) return ir_tensor_of_ints(arena, info, &value->tensor, known, err);
  *known = base_tensor_bytes(info->constant) <= MAX_BYTES;
  if (*known) value->tensor = *info->constant;
  return TD_OK;
}

static td_status evaluate(base_arena *scratch, base_arena *arena, const ir_op *op, const base_attrs *attrs,
                          const ir_info *const *in, uint32_t in_count, ir_info *out, td_error *err) {
  base_value values[MAX_OPERANDS], result;
  const base_value *at[MAX_OPERANDS];
  for (uint32_t i = 0; i < in_count; i++) {
    bool known = true;
    at[i] = in[i] ? &values[i] : NULL;
    if (in[i]) TRY(known_value(scratch, in[i], &values[i], &known, err));
    if (!known) return TD_OK;
  }
  td_error ignored; /* what fails now fails again when it runs, and says so there */
  td_status status = ir_evaluate(op, attrs, at, in_count, scratch, &result, 1, &ignored);
  if (status == TD_NO_RESOURCE) return base_no_memory(err, "the contents of a value");
  if (status != TD_OK || result.kind != BASE_TENSOR || base_tensor_numel(&result.tensor) != ir_known_count(&out->type))
    return TD_OK;
  uint32_t count = (uint32_t)base_tensor_numel(&result.tensor);
  base_dim *ints = base_new(arena, base_dim, (size_t)count + 1);
  if (!ints) return base_no_memory(err, "the contents of a value");
  for (uint32_t i = 0; i < count; i++)
    ints[i] = base_dim_number(base_load_i64(result.tensor.dtype, result.tensor.data, i));
  out->ints = ints;
  out->int_count = count;
  return TD_OK;
}

td_status ir_learn_contents(ir_graph *g, const ir_op *op, const base_attrs *attrs, const ir_info *const *in,
                            uint32_t in_count, ir_info *out, td_error *err) {
  int64_t count = ir_known_count(&out->type);
  bool whole_numbers = base_is_int(out->type.dtype) || out->type.dtype == TD_BOOL;
  if (out->ints || !whole_numbers || count < 0 || count > IR_MAX_INTS || in_count > MAX_OPERANDS || !op->reference)
    return TD_OK;
  if (op->flags & (IR_OP_REGION | IR_OP_RANDOM | IR_OP_HOST | IR_OP_DEFINES | IR_OP_EFFECT)) return TD_OK;
  base_arena *scratch = base_arena_new(base_arena_allocator(g->arena));
  if (!scratch) return base_no_memory(err, "the contents of a value");
  td_status status = evaluate(scratch, g->arena, op, attrs, in, in_count, out, err);
  base_arena_free(scratch);
  return status;
}
