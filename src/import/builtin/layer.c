/* layer.c -- the layers that architectures of all kinds are put together from. */
#include "import/builtin/builtin_priv.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { KEY_BYTES = 128 };

const char *builtin_key(builtin_net *n, const char *format, ...) {
  char text[KEY_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  const char *key = base_arena_text(n->b.graph->arena, text);
  if (!key) ir_build_take(&n->b, base_no_memory(n->b.err, "a key"));
  return key ? key : "";
}

ir_value builtin_input(builtin_net *n, const char *name, td_dtype dtype, int32_t rank, const int64_t *dims) {
  ir_value input = IR_NO_VALUE;
  base_dim sizes[BASE_MAX_RANK];
  for (int32_t i = 0; i < rank; i++) {
    sizes[i] = dims[i] < 0 ? base_dim_symbol(&n->b.graph->dims, "batch") : base_dim_number(dims[i]);
    if (sizes[i] == BASE_DIM_NONE) n->b.status = base_no_memory(n->b.err, "a symbol");
  }
  ir_type type = ir_tensor(dtype, rank, sizes);
  if (n->b.status == TD_OK) n->b.status = ir_add_input(n->b.graph, &type, name, IR_NO_VALUE, &input, n->b.err);
  return input;
}

void builtin_output(builtin_net *n, ir_value x, const char *name) {
  if (n->b.status == TD_OK) n->b.status = ir_add_output(n->b.graph, x, name, n->b.err);
}

ir_value builtin_node(builtin_net *n, const char *op, const ir_value *in, uint32_t in_count, const base_arg *args,
                      uint32_t arg_count, const char *key, const char *kind) {
  char text[KEY_BYTES + 32];
  ir_frame frame;
  snprintf(text, sizeof text, "%s (%s)", key, kind);
  ir_build_enter(&n->b, &frame, text);
  ir_value out = ir_emit(&n->b, op, in, in_count, args, arg_count);
  ir_build_leave(&n->b);
  return out;
}

int64_t builtin_size(const builtin_net *n, ir_value x, int32_t dim) {
  if (n->b.status != TD_OK) return 0;
  const ir_type *type = ir_type_of(n->b.graph, x);
  return type->dims[dim < 0 ? dim + type->rank : dim];
}

ir_value builtin_param_of(builtin_net *n, const char *key, const char *name, int32_t rank, const int64_t *dims,
                          double center, double spread) {
  char full[KEY_BYTES];
  snprintf(full, sizeof full, "%s.%s", key, name);
  return builtin_param(n, full, rank, dims, center, spread);
}

/* ---- arithmetic ---- */

ir_value builtin_binary(builtin_net *n, const char *op, ir_value x, ir_value y, const char *key) {
  const ir_value in[] = {x, y};
  return builtin_node(n, op, in, 2, NULL, 0, key, strstr(op, "::") + 2);
}

ir_value builtin_add(builtin_net *n, ir_value x, ir_value y, const char *key) {
  return builtin_binary(n, "aten::add", x, y, key);
}

typedef struct activation {
  const char *name, *op, *kind;
} activation;
static const activation activations[] = {
    {"relu", "aten::relu", "ReLU"},
    {"relu6", "aten::clamp", "ReLU6"},
    {"silu", "aten::silu", "SiLU"},
    {"sigmoid", "aten::sigmoid", "Sigmoid"},
    {"gelu", "aten::gelu", "GELU"},
    {"hardswish", "aten::hardswish", "Hardswish"},
    {"hardsigmoid", "td::hard_sigmoid", "Hardsigmoid"},
};

ir_value builtin_activation(builtin_net *n, ir_value x, const char *name, const char *key) {
  ir_value in[3] = {x};
  const base_arg slope[] = {ARG_FLOAT("alpha", 1.0 / 6), ARG_FLOAT("beta", 0.5)};
  const activation *a = activations, *end = a + sizeof activations / sizeof *activations;
  if (!name || n->b.status != TD_OK) return x;
  while (a < end && strcmp(a->name, name) != 0) a++;
  if (a == end) {
    n->b.status = base_fail(n->b.err, TD_BAD_ARGUMENT, NULL, -1, "there is no activation '%s'", name);
    return x;
  }
  bool clamped = strcmp(name, "relu6") == 0, sloped = strcmp(name, "hardsigmoid") == 0;
  if (clamped) in[1] = ir_build_scalar(&n->b, TD_F32, 0), in[2] = ir_build_scalar(&n->b, TD_F32, 6);
  return builtin_node(n, a->op, in, clamped ? 3 : 1, slope, sloped ? 2 : 0, key, a->kind);
}

ir_value builtin_linear_of(builtin_net *n, ir_value x, int64_t out, const char *weight, const char *bias,
                           const char *key) {
  const int64_t dims[] = {out, builtin_size(n, x, -1)};
  ir_value in[3] = {x};
  /* Seeded weights keep the second moment of what flows through. */
  in[1] = builtin_param(n, weight, 2, dims, 0, sqrt(3 / (double)(dims[1] + !dims[1])));
  in[2] = builtin_param(n, bias, 1, &out, 0, 0.1);
  const base_arg args[] = {ARG_BOOL("trans_w", true), ARG_INT("n", out)};
  return builtin_node(n, "td::linear", in, 3, args, 2, key, "Linear");
}

ir_value builtin_linear(builtin_net *n, ir_value x, int64_t out, const char *key) {
  return builtin_linear_of(n, x, out, builtin_key(n, "%s.weight", key), builtin_key(n, "%s.bias", key), key);
}

void builtin_unused_linear(builtin_net *n, int64_t in, int64_t out, const char *key) {
  const int64_t dims[] = {out, in};
  builtin_param_of(n, key, "weight", 2, dims, 0, 0);
  builtin_param_of(n, key, "bias", 1, &out, 0, 0);
}

ir_value builtin_layer_norm(builtin_net *n, ir_value x, double eps, const char *key) {
  const int64_t width = builtin_size(n, x, -1);
  ir_value in[3] = {x};
  in[1] = builtin_param_of(n, key, "weight", 1, &width, 1, 0.25);
  in[2] = builtin_param_of(n, key, "bias", 1, &width, 0, 0.1);
  const base_arg args[] = {ARG_INT("axis", -1), ARG_FLOAT("eps", eps)};
  return builtin_node(n, "aten::native_layer_norm", in, 3, args, 2, key, "LayerNorm");
}

/* ---- order of elements ---- */

ir_value builtin_permute(builtin_net *n, ir_value x, int32_t rank, const int64_t *order, const char *key) {
  const base_arg args[] = {ARG_INTS("dims", order, rank)};
  return builtin_node(n, "aten::permute", &x, 1, args, 1, key, "permute");
}

ir_value builtin_view(builtin_net *n, ir_value x, int32_t rank, const int64_t *dims, const char *key) {
  const ir_value in[] = {x, ir_build_ints(&n->b, dims, (uint32_t)rank)};
  const base_arg args[] = {ARG_BOOL("zero_copies", true)};
  return builtin_node(n, "aten::view", in, 2, args, 1, key, "view");
}

ir_value builtin_slice(builtin_net *n, ir_value x, int64_t dim, int64_t from, int64_t to, const char *key) {
  const ir_value in[] = {x, ir_build_ints(&n->b, &from, 1), ir_build_ints(&n->b, &to, 1),
                         ir_build_ints(&n->b, &dim, 1)};
  return builtin_node(n, "aten::slice", in, 4, NULL, 0, key, "slice");
}

ir_value builtin_pad_rows(builtin_net *n, ir_value x, int64_t before, int64_t behind, const char *key) {
  const int64_t pads[] = {0, before, 0, 0, behind, 0};
  const ir_value in[] = {x, ir_build_ints(&n->b, pads, 6)};
  return builtin_node(n, "aten::constant_pad_nd", in, 2, NULL, 0, key, "pad");
}

ir_value builtin_select(builtin_net *n, ir_value x, int64_t dim, const int64_t *indices, uint32_t count,
                        const char *key) {
  const ir_value in[] = {x, ir_build_ints(&n->b, indices, count)};
  const base_arg args[] = {ARG_INT("dim", dim)};
  return builtin_node(n, "aten::index_select", in, 2, args, 1, key, "index");
}

ir_value builtin_cat(builtin_net *n, const ir_value *parts, uint32_t count, int64_t dim, const char *key) {
  const base_arg args[] = {ARG_INT("dim", dim)};
  return builtin_node(n, "aten::cat", parts, count, args, 1, key, "cat");
}

/* ---- tokens ---- */

ir_value builtin_embedding(builtin_net *n, ir_value ids, int64_t rows, int64_t width, const char *key) {
  const int64_t dims[] = {rows, width};
  const ir_value in[] = {builtin_param_of(n, key, "weight", 2, dims, 0, 1), ids};
  const base_arg args[] = {ARG_INT("dim", 0)};
  return builtin_node(n, "aten::index_select", in, 2, args, 1, key, "Embedding");
}

ir_value builtin_attention(builtin_net *n, const ir_value qkv[3], ir_value mask, int64_t heads, const char *key) {
  const ir_value in[] = {qkv[0], qkv[1], qkv[2], mask};
  const base_arg args[] = {ARG_INT("heads", heads), ARG_INT("kv_heads", heads)};
  return builtin_node(n, "aten::scaled_dot_product_attention", in, mask.id ? 4 : 3, args, 2, key, "attention");
}

ir_value builtin_token_inputs(builtin_net *n, int64_t length, ir_value *mask) {
  const int64_t dims[] = {-1, length};
  ir_value ids = builtin_input(n, "input_ids", TD_I64, 2, dims);
  ir_value m = builtin_input(n, "attention_mask", TD_I64, 2, dims);
  /* Any number but 0 means a valid token: 0 or the lowest number is added to its scores. */
  const base_arg to_bool[] = {ARG_DTYPE("dtype", TD_BOOL)}, to_float[] = {ARG_DTYPE("dtype", TD_F32)};
  m = builtin_node(n, "aten::_to_copy", &m, 1, to_bool, 1, "attention_mask", "to");
  m = builtin_node(n, "aten::_to_copy", &m, 1, to_float, 1, "attention_mask", "to");
  m = builtin_binary(n, "aten::sub", ir_build_scalar(&n->b, TD_F32, 1), m, "attention_mask");
  m = builtin_binary(n, "aten::mul", m, ir_build_scalar(&n->b, TD_F32, -3.4028234663852886e38), "attention_mask");
  *mask = builtin_view(n, m, 4, (const int64_t[]){0, 1, 1, length}, "attention_mask");
  return ids;
}
