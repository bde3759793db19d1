/* layout.c -- how a view lies in the memory of a dense value: dense itself, in rows of one pitch, or in any way. Where
 * sizes are open it is what holds for all of them: a view is tried with few elements along each open axis, of which
 * what an index reaches is all, and with many, of which it is a part; sizes of 1 and 0 leave less to ask for, so none
 * of many may be that. */
#include "lower/lower_priv.h"

/* Open sizes of inputs, and what each open size of a view must be at least, for what is seen to hold for others. */
typedef struct tried {
  int64_t *symbols;
  int64_t least;
} tried;

/* A tensor that has the type of v where open sizes are as tried, without memory; false: no memory could hold it, or one
 * of its open sizes is too small to tell, as 32 / n is where n is large. */
static bool sized_tensor(const lowering *l, ir_value v, const tried *sizes_of, base_value *value) {
  const ir_info *info = &ir_value_of(l->graph, v)->info;
  const ir_type *type = &info->type;
  const bool tensor = type->kind == IR_TENSOR;
  int64_t sizes[BASE_MAX_RANK], count = 1;
  size_t bytes;
  if (type->kind > IR_BOOL || type->rank < 0) return false;
  for (int32_t i = 0; i < type->rank; i++)
    if (!base_dim_eval(&l->graph->dims, type->dims[i], sizes_of->symbols, &sizes[i]) ||
        (!base_dim_known(type->dims[i]) && sizes[i] < sizes_of->least))
      return false;
  if ((tensor && !base_numel(type->rank, sizes, &count)) || !base_dtype_bytes(type->dtype, count, &bytes) ||
      bytes > INT64_MAX / 2)
    return false;
  *value = (base_value){.kind = BASE_TENSOR,
                        .tensor = base_tensor_of(value /* only its strides count */, type->dtype, type->rank, sizes)};
  if (info->constant) value->tensor = *info->constant;
  return true;
}

/* Open sizes are FEW and MANY to find how views lie, each some more than the one before. */
enum { FEW = 2, MANY = 1 << 14 };

/* How the view lies that `node` makes of a dense value, where open sizes are as tried. A permutation that moves
 * dimensions of one element alone is dense. */
static uint8_t sized_layout(const lowering *l, const ir_node_def *node, const tried *sizes_of) {
  enum { MOST = 8 };
  base_value values[MOST + 1];
  const base_value *in[MOST] = {NULL};
  base_value *out[] = {&values[MOST]};
  if (node->in_count > MOST || !sized_tensor(l, node->out[0], sizes_of, out[0])) return LOWER_STRIDED;
  for (uint32_t i = 0; i < node->in_count; i++) {
    if (!node->in[i].id) continue;
    const base_tensor *constant = ir_value_of(l->graph, node->in[i])->info.constant;
    if (!sized_tensor(l, node->in[i], sizes_of, &values[i]) || (i > 0 && !constant)) return LOWER_STRIDED;
    in[i] = &values[i];
  }
  td_error err;
  const base_call call = {.attrs = node->attrs,
                          .op = node->op,
                          .in = in,
                          .out = out,
                          .in_count = node->in_count,
                          .out_count = 1,
                          .err = &err};
  if (node->op->view(&call) != TD_OK) return LOWER_STRIDED;
  if (base_tensor_contiguous(&out[0]->tensor)) return LOWER_DENSE;
  return base_tensor_pitched(&out[0]->tensor) ? LOWER_PITCHED : LOWER_STRIDED;
}

/* Is every number that operands beside the first one have nearer to 0 than MANY, or farther than any size? */
static bool are_few(const lowering *l, const ir_node_def *node) {
  for (uint32_t i = 1; i < node->in_count; i++) {
    const base_tensor *t = node->in[i].id ? ir_value_of(l->graph, node->in[i])->info.constant : NULL;
    for (int64_t k = 0; t && k < base_tensor_numel(t); k++) {
      const int64_t n = t->rank > 1 ? MANY : base_load_i64(t->dtype, t->data, t->rank ? k * t->strides[0] : 0);
      if ((n >= MANY || n <= -MANY) && n < INT64_MAX / 2 && n > INT64_MIN / 2) return false;
    }
  }
  return true;
}

td_status lower_view_layout(lowering *l, const ir_node_def *node, uint8_t *layout) {
  const uint32_t count = l->graph->dims.symbols.count;
  tried sizes = {.symbols = base_new(l->scratch, int64_t, (size_t)count + 1)};
  if (!sizes.symbols) return base_no_memory(l->err, "open sizes");
  for (uint32_t i = 0; i < count; i++) sizes.symbols[i] = FEW + i;
  *layout = sized_layout(l, node, &sizes);
  for (uint32_t i = 0; i < count; i++) sizes.symbols[i] = MANY + i;
  sizes.least = FEW;
  const uint8_t of_many = !count ? *layout : are_few(l, node) ? sized_layout(l, node, &sizes) : LOWER_STRIDED;
  if (of_many > *layout) *layout = of_many;
  return TD_OK;
}
