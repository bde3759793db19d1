/* lower_transformer.c -- the whole-layer operators that PyTorch's transformer modules call when they run without
 * gradients: attention of several heads, and an encoder layer. Written with the same operators as the modules' other
 * path, so that passes see one form. */
#include "import/aten/aten_priv.h"

#include <math.h>

/* What a layer attends with. */
typedef struct heads {
  ir_value qkv_weight, qkv_bias, out_weight, out_bias;
  ir_value mask; /* true where nothing may be seen, or added to the scores; none */
  int64_t size, count;
} heads;

/* [batch, rows, size] as [batch, heads, rows, size of a head] */
static ir_value split(aten *a, const heads *h, ir_value x) {
  int64_t dims[] = {0, 0, h->count, h->size / h->count};
  ir_value lead = aten_slice(a, aten_shape(a, x), 0, 0, 2, 1), tail = ir_build_ints(a->b, dims + 2, 2);
  x = IR_EMIT(a->b, "aten::view", x, aten_cat(a, (ir_value[]){lead, tail}, 2, 0));
  return aten_permute(a, x, (int64_t[]){0, 2, 1, 3}, 4);
}

/* Part `i` of the three that stand in the packed weights. */
static ir_value project(aten *a, const heads *h, ir_value x, int64_t i) {
  ir_value w = aten_slice(a, h->qkv_weight, 0, i * h->size, (i + 1) * h->size, 1);
  return split(a, h, aten_linear(a, x, w, aten_slice(a, h->qkv_bias, 0, i * h->size, (i + 1) * h->size, 1)));
}

/* Key padding [batch, rows], one for all [rows, rows], or [batch, heads, rows, rows]; as the operator for attention
 * has it: true where something may be seen. */
static ir_value mask_of(aten *a, ir_value mask, int64_t type) {
  if (!mask.id) return mask;
  if (aten_value_dtype(a, mask) == TD_BOOL) mask = IR_EMIT(a->b, "aten::logical_not", mask);
  if (type == 1) mask = aten_unsqueeze(a, aten_unsqueeze(a, mask, 1), 1);
  return mask;
}

/* y, and where `weights` is not NULL the attention of each head. */
static ir_value attend(aten *a, const heads *h, ir_value q, ir_value k, ir_value v, ir_value *weights) {
  ir_value in[] = {project(a, h, q, 0), project(a, h, k, 1), project(a, h, v, 2), h->mask}, y;
  if (!weights) y = ir_emit(a->b, "aten::scaled_dot_product_attention", in, 4, NULL, 0);
  else {
    double scale = 1 / sqrt((double)(h->size / h->count));
    ir_value s =
        IR_EMIT(a->b, "aten::matmul", aten_with_scalar(a, "aten::mul", in[0], scale), aten_swap(a, in[1], -1, -2));
    if (h->mask.id && aten_value_dtype(a, h->mask) == TD_BOOL)
      s = IR_EMIT(a->b, "aten::where", h->mask, s, aten_scalar_like(a, s, -INFINITY));
    else if (h->mask.id) s = aten_binary(a, "aten::add", s, h->mask);
    *weights = IR_EMIT_ARGS(a->b, "aten::_softmax", &s, 1, ARG_INT("dim", -1));
    y = IR_EMIT(a->b, "aten::matmul", *weights, in[2]);
  }
  y = aten_permute(a, y, (int64_t[]){0, 2, 1, 3}, 4);
  ir_value lead = aten_slice(a, aten_shape(a, y), 0, 0, 2, 1), size = ir_build_ints(a->b, &h->size, 1);
  y = IR_EMIT(a->b, "aten::view", y, aten_cat(a, (ir_value[]){lead, size}, 2, 0));
  return aten_linear(a, y, h->out_weight, h->out_bias);
}

static bool heads_fit(aten_args *c, const heads *h) {
  if (h->count < 1 || h->size < h->count || h->size % h->count || h->size > INT32_MAX)
    aten_refuse(c, "%lld heads of %lld", (long long)h->count, (long long)h->size);
  return !ir_build_failed(c->b);
}

/* (query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask?, need_weights,
 * average_attn_weights, mask_type?) -> y, weights */
aten_value aten_lower_mha(aten_args *c) {
  heads h = {.size = aten_get_int(c, 3),
             .count = aten_get_int(c, 4),
             .qkv_weight = aten_in(c, 5),
             .qkv_bias = aten_in(c, 6),
             .out_weight = aten_in(c, 7),
             .out_bias = aten_in(c, 8)};
  h.mask = mask_of(c->a, aten_in(c, 9), aten_has(c, 12) ? aten_get_int(c, 12) : 0);
  bool wants = aten_get_bool(c, 10);
  if (!heads_fit(c, &h)) return ATEN_NOTHING;
  ir_value weights = IR_NO_VALUE;
  ir_value y = attend(c->a, &h, aten_in(c, 0), aten_in(c, 1), aten_in(c, 2), wants ? &weights : NULL);
  if (!wants) return aten_tuple_of(c->a, (aten_value[]){aten_ret(c, y), {.kind = ATEN_UNDEFINED}}, 2);
  if (aten_get_bool(c, 11))
    weights =
        IR_EMIT_ARGS(c->b, "aten::mean", &weights, 1, ARG_INTS("dim", (int64_t[]){1}, 1), ARG_BOOL("keepdim", false));
  return aten_ret_many(c, (ir_value[]){y, weights}, 2);
}

static ir_value norm(aten_args *c, ir_value x, uint32_t weight) {
  ir_value in[] = {x, aten_in(c, weight), aten_in(c, weight + 1)};
  return IR_EMIT_ARGS(c->b, "aten::native_layer_norm", in, 3, ARG_INT("axis", -1),
                      ARG_FLOAT("eps", aten_get_float(c, 9)));
}

/* (src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1,
 * norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask?, mask_type?) */
aten_value aten_lower_encoder_layer(aten_args *c) {
  heads h = {.size = aten_get_int(c, 1),
             .count = aten_get_int(c, 2),
             .qkv_weight = aten_in(c, 3),
             .qkv_bias = aten_in(c, 4),
             .out_weight = aten_in(c, 5),
             .out_bias = aten_in(c, 6)};
  h.mask = mask_of(c->a, aten_in(c, 18), aten_has(c, 19) ? aten_get_int(c, 19) : 0);
  bool gelu = aten_get_bool(c, 7), first = aten_get_bool(c, 8);
  if (!heads_fit(c, &h)) return ATEN_NOTHING;
  ir_value x = aten_in(c, 0), y = first ? norm(c, x, 10) : x;
  x = aten_binary(c->a, "aten::add", x, attend(c->a, &h, y, y, y, NULL));
  if (!first) x = norm(c, x, 10);
  y = first ? norm(c, x, 12) : x;
  y = aten_linear(c->a, y, aten_in(c, 14), aten_in(c, 15));
  y = gelu ? IR_EMIT_ARGS(c->b, "aten::gelu", &y, 1, ARG_STR("approximate", "none")) : IR_EMIT(c->b, "aten::relu", y);
  x = aten_binary(c->a, "aten::add", x, aten_linear(c->a, y, aten_in(c, 16), aten_in(c, 17)));
  return aten_ret(c, first ? x : norm(c, x, 12));
}
