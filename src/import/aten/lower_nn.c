/* lower_nn.c -- attention, resampling and losses. */
#include "import/aten/aten_priv.h"

#include <math.h>
#include <string.h>

static ir_value optional(aten_args *c, uint32_t i) { return aten_has(c, i) ? aten_in(c, i) : IR_NO_VALUE; }

/* ---- attention ---- */

/* Any rank from 2 on as [batch, heads, rows, size]. */
static ir_value as_heads(aten_args *c, ir_value x) {
  int32_t rank = aten_rank(c->a, x);
  if (rank == 4) return x;
  if (rank == 3) return aten_unsqueeze(c->a, x, 1); /* each of the batch is its own head */
  if (rank == 2) return aten_unsqueeze(c->a, aten_unsqueeze(c->a, x, 0), 0);
  ir_value shape = aten_shape(c->a, x);
  ir_value parts[] = {ir_build_ints(c->b, (int64_t[]){-1}, 1), aten_slice(c->a, shape, 0, rank - 3, INT64_MAX, 1)};
  return IR_EMIT(c->b, "aten::view", x, aten_cat(c->a, parts, 2, 0));
}
static ir_value mask_as_heads(aten_args *c, ir_value m, int32_t rank) {
  if (rank == 3 && aten_rank(c->a, m) == 3) return aten_unsqueeze(c->a, m, 1);
  if (aten_rank(c->a, m) > 4) aten_refuse(c, "a mask of rank %d", aten_rank(c->a, m));
  return m;
}

/* Keys and values may have different numbers of heads: each is repeated for as many as the queries have. */
static ir_value repeated_heads(aten_args *c, ir_value x, int64_t heads) {
  const aten_value size = aten_size(c->a, x, 1);
  int64_t *at = heads > 0 && heads <= 1 << 16 ? ir_build_alloc(c->b, (size_t)heads * sizeof *at) : NULL;
  if (!at || !aten_is_known(&size) || size.u.i < 1 || heads % size.u.i) return x; /* the operator says what is wrong */
  for (int64_t i = 0; i < heads; i++) at[i] = i / (heads / size.u.i);
  ir_value in[] = {x, ir_build_ints(c->b, at, (uint32_t)heads)};
  return IR_EMIT_ARGS(c->b, "aten::index_select", in, 2, ARG_INT("dim", 1));
}
static void meet_heads(aten_args *c, ir_value q, ir_value *k, ir_value *v) {
  const aten_value heads = aten_size(c->a, q, 1), of_k = aten_size(c->a, *k, 1), of_v = aten_size(c->a, *v, 1);
  const bool known = aten_is_known(&heads) && aten_is_known(&of_k) && aten_is_known(&of_v);
  if (ir_build_failed(c->b) || !known || of_k.u.i == of_v.u.i) return;
  *k = repeated_heads(c, *k, heads.u.i);
  *v = repeated_heads(c, *v, heads.u.i);
}

/* Queries, keys and values [batch, heads, ..] of one sample or one query head stand for as many as others have; the
 * operator shares keys and values among heads by itself. */
static void meet_batches(aten_args *c, ir_value *qkv) {
  for (int32_t axis = 0; axis < 2; axis++) {
    int64_t most = 1;
    for (uint32_t i = 0; i < 3; i++) {
      const aten_value size = aten_size(c->a, qkv[i], axis);
      most = aten_is_known(&size) && size.u.i > most ? size.u.i : most;
    }
    for (uint32_t i = 0; i < (axis ? 1 : 3) && most > 1; i++) {
      const aten_value size = aten_size(c->a, qkv[i], axis);
      int64_t to[] = {-1, -1, -1, -1};
      to[axis] = most;
      if (aten_is_known(&size) && size.u.i == 1)
        qkv[i] = IR_EMIT(c->b, "aten::expand", qkv[i], ir_build_ints(c->b, to, 4));
    }
  }
}

/* f64 has no operator of its own: products, softmax. */
static ir_value plain_attention(aten_args *c, ir_value q, ir_value k, ir_value v, ir_value mask, bool causal,
                                double scale) {
  ir_value s = IR_EMIT(c->b, "aten::matmul", aten_with_scalar(c->a, "aten::mul", q, scale), aten_swap(c->a, k, -1, -2));
  ir_value least = aten_scalar_like(c->a, s, -INFINITY);
  if (causal) {
    ir_value ones =
        aten_full(c->a, aten_slice(c->a, aten_shape(c->a, s), 0, -2, INT64_MAX, 1), ir_build_scalar(c->b, TD_I64, 1));
    ir_value seen = ir_build_cast(c->b, IR_EMIT(c->b, "aten::tril", ones, ir_build_int(c->b, 0)), TD_BOOL);
    s = IR_EMIT(c->b, "aten::where", seen, s, least);
  }
  if (mask.id && aten_value_dtype(c->a, mask) == TD_BOOL) s = IR_EMIT(c->b, "aten::where", mask, s, least);
  else if (mask.id) s = aten_binary(c->a, "aten::add", s, ir_build_cast(c->b, mask, aten_value_dtype(c->a, s)));
  return IR_EMIT(c->b, "aten::matmul", IR_EMIT_ARGS(c->b, "aten::_softmax", &s, 1, ARG_INT("dim", -1)), v);
}

/* Is the result known to be nothing, or zeros? PyTorch asks no more of operands then: of values without elements 0. */
static bool attends_to_nothing(aten_args *c, ir_value q, ir_value v) {
  bool none = aten_is_empty(c->a, v);
  for (int32_t i = 0; i + 1 < aten_rank(c->a, q); i++) {
    const aten_value size = aten_size(c->a, q, i);
    none |= aten_is_known(&size) && size.u.i == 0;
  }
  return none;
}

/* (query, key, value, attn_mask?, dropout_p, is_causal, *, scale?, enable_gqa) */
aten_value aten_lower_sdpa(aten_args *c) {
  ir_value q = aten_in(c, 0), k = aten_in(c, 1), v = aten_in(c, 2), mask = optional(c, 3);
  int32_t rank = aten_rank(c->a, q);
  bool causal = aten_get_bool(c, 5), scaled = c->schema->count > 6 && aten_has(c, 6);
  ir_value shape = aten_shape(c->a, q), last = aten_slice(c->a, aten_shape(c->a, v), 0, -1, INT64_MAX, 1);
  if (attends_to_nothing(c, q, v)) {
    ir_value sizes[] = {aten_slice(c->a, shape, 0, 0, -1, 1), last};
    return aten_ret_strided(c, aten_full(c->a, aten_cat(c->a, sizes, 2, 0), aten_scalar_like(c->a, q, 0)));
  }
  if (aten_get_float(c, 4) != 0) aten_refuse(c, "dropout drops elements at random");
  if (aten_value_dtype(c->a, q) == TD_F64) {
    aten_value size = aten_size(c->a, q, -1);
    double scale = scaled ? aten_get_float(c, 6) : 1 / sqrt((double)size.u.i);
    if (!scaled && !aten_is_known(&size)) aten_refuse(c, "the size of a head must be known");
    return aten_ret_strided(c, plain_attention(c, q, k, v, mask, causal, scale));
  }
  if (mask.id) mask = mask_as_heads(c, mask, rank);
  if (mask.id && aten_value_dtype(c->a, mask) != TD_BOOL) mask = ir_build_cast(c->b, mask, aten_value_dtype(c->a, q));
  base_arg args[] = {ARG_BOOL("is_causal", causal), ARG_FLOAT("scale", scaled ? aten_get_float(c, 6) : 0)};
  ir_value in[] = {as_heads(c, q), as_heads(c, k), as_heads(c, v), mask};
  if (!ir_build_failed(c->b)) meet_batches(c, in);
  if (rank == 4) meet_heads(c, in[0], &in[1], &in[2]);
  ir_value y = ir_emit(c->b, "aten::scaled_dot_product_attention", in, 4, args, scaled ? 2 : 1);
  if (rank == 4 || rank == 3) return aten_ret_strided(c, rank == 4 ? y : aten_squeeze(c->a, y, 1));
  ir_value lead = aten_slice(c->a, shape, 0, 0, -1, 1);
  return aten_ret_strided(c, IR_EMIT(c->b, "aten::view", y, aten_cat(c->a, (ir_value[]){lead, last}, 2, 0)));
}

/* (query, key, value, dropout_p, is_causal, *, attn_mask?, scale?) -> y, log-sum-exp (not made) */
aten_value aten_lower_flash(aten_args *c) {
  aten_value args[] = {c->args[0], c->args[1], c->args[2], c->args[5], c->args[3], c->args[4]};
  aten_keyword scale = {BASE_STR("scale"), c->args[6]};
  aten_value y = aten_call(c->a, "aten::scaled_dot_product_attention", NULL, args, 6, &scale, 1);
  return aten_tuple_of(c->a, (aten_value[]){y, {.kind = ATEN_UNDEFINED}}, 2);
}

/* ---- resampling ---- */

/* Scale factors of `n` axes from `scale_factors` or scales_d, scales_h, scales_w; false: none are given. */
static bool read_scales(aten_args *c, int32_t n, float *scales) {
  static const char *const names[] = {"scales_d", "scales_h", "scales_w"};
  int64_t list = aten_position(c, "scale_factors"), one = aten_position(c, "scales");
  uint32_t count = list >= 0 ? aten_list_count(c, (uint32_t)list) : 0;
  if (count) {
    const aten_value *items = aten_items(c, (uint32_t)list);
    for (int32_t i = 0; i < n; i++)
      scales[i] = (float)(items[count == 1 ? 0 : i].kind == ATEN_FLOAT ? items[count == 1 ? 0 : i].u.f
                                                                       : (double)items[count == 1 ? 0 : i].u.i);
    return count == 1 || count >= (uint32_t)n;
  }
  for (int32_t i = 0; i < n; i++) {
    int64_t at = n == 1 ? one : aten_position(c, names[3 - n + i]);
    if (at < 0 || !aten_has(c, (uint32_t)at)) return false;
    scales[i] = (float)aten_get_float(c, (uint32_t)at);
  }
  return true;
}

/* Output sizes floor(in * scale), as PyTorch has them. */
static ir_value scaled_sizes(aten_args *c, ir_value x, int32_t n, const float *scales) {
  aten_value sizes[3];
  for (int32_t i = 0; i < n; i++) {
    aten_value in = aten_size(c->a, x, i - n);
    if (aten_is_known(&in)) sizes[i] = aten_int(aten_whole(floor((double)in.u.i * (double)scales[i])));
    else {
      ir_value f = aten_with_scalar(c->a, "aten::mul", aten_number_value(c->a, &in, TD_F64), (double)scales[i]);
      bool whole = floorf(scales[i]) == scales[i];
      sizes[i] = whole ? aten_int_op(c->a, "mul", in, aten_int(aten_whole((double)scales[i])))
                       : aten_number(c->a, ir_build_cast(c->b, IR_EMIT(c->b, "aten::floor", f), TD_I64));
    }
  }
  return aten_vector(c->a, sizes, (uint32_t)n);
}

/* Factors that bring the corners of an image of known sizes to those of another. */
static void corner_scales(aten_args *c, ir_value x, ir_value sizes, int32_t n, float *scales) {
  for (int32_t i = 0; i < n; i++) {
    aten_value in = aten_size(c->a, x, i - n);
    int64_t out = 0;
    bool known = aten_is_known(&in) && ir_build_known_int(c->b, aten_select(c->a, sizes, 0, i), &out);
    if (!known) aten_refuse(c, "antialias with align_corners, of sizes that are not known before the model runs");
    scales[i] = known && in.u.i > 1 && out > 1 ? (float)((double)(out - 1) / (double)(in.u.i - 1)) : INFINITY;
  }
}

/* The output sizes that are given; one number, which became as many as a list may have, stands for each axis. */
static ir_value given_sizes(aten_args *c, int32_t n) {
  ir_value sizes = aten_ints_value(c, 1);
  bool more = aten_is_known(&c->args[1]) && aten_list_count(c, 1) > (uint32_t)n;
  return more ? aten_slice(c->a, sizes, 0, 0, n, 1) : sizes;
}

/* `mode`: its first letter, then "a" for antialias or "e" for exact. `by_size`: scale factors give the sizes alone. */
static aten_value resample(aten_args *c, const char *mode, bool by_size) {
  ir_value x = aten_in(c, 0);
  int32_t n = aten_rank(c->a, x) - 2;
  bool nearest = mode[0] == 'n', aa = mode[1] == 'a', cubic = mode[0] == 'c';
  int64_t align = aten_position(c, "align_corners");
  bool corners = align >= 0 && aten_has(c, (uint32_t)align) && aten_get_bool(c, (uint32_t)align),
       sized = aten_has(c, 1);
  float scales[3];
  if (n < 1 || n > 3 || ir_build_failed(c->b)) {
    aten_refuse(c, "a tensor of rank %d", n + 2);
    return ATEN_NOTHING;
  }
  bool scaled = read_scales(c, n, scales);
  bool apart = aa && corners; /* the windows of antialiasing lie as without corners, at that scale */
  if (!sized && !scaled) aten_refuse(c, "neither sizes nor scale factors");
  ir_value sizes = sized ? given_sizes(c, n) : scaled_sizes(c, x, n, scales), factors = IR_NO_VALUE;
  if (by_size) scaled = false;
  if (apart) corner_scales(c, x, sizes, n, scales);
  int64_t axes[3];
  for (int32_t i = 0; i < n; i++) axes[i] = 2 + i;
  /* a factor that is given says where pixels lie, whatever the output's size */
  if ((scaled && !corners) || apart) {
    base_tensor t = base_tensor_of(scales, TD_F32, 1, (int64_t[]){n});
    factors = ir_build_constant(c->b, &t);
  }
  base_arg args[] = {ARG_STR("mode", nearest ? "nearest"
                                     : cubic ? "cubic"
                                             : "linear"),
                     ARG_STR("coordinates", corners && !apart           ? "align_corners"
                                            : nearest && mode[1] != 'e' ? "asymmetric"
                                                                        : "half_pixel"),
                     ARG_STR("nearest", mode[1] == 'e' ? "round_prefer_ceil" : "floor"),
                     ARG_FLOAT("cubic_a", aa ? -0.5 : -0.75),
                     ARG_BOOL("antialias", aa),
                     ARG_BOOL("exclude_outside", aa),
                     ARG_INTS("axes", axes, n)};
  ir_value in[] = {x, IR_NO_VALUE, factors, factors.id && !sized && !apart ? IR_NO_VALUE : sizes};
  return aten_ret(c, ir_emit(c->b, "td::resize", in, 4, args, 7));
}

/* upsample_*: (input, output_size(?), align_corners?, scales...); data: the mode */
aten_value aten_lower_upsample(aten_args *c) { return resample(c, c->row->data, false); }

/* __interpolate(input, size?, scale_factor?, mode, align_corners?, recompute_scale_factor?, antialias): what scripted
 * functions that a trace calls have of torch.nn.functional.interpolate */
aten_value aten_lower_interpolate(aten_args *c) {
  static const struct {
    const char *name, *mode, *smooth;
  } modes[] = {{"nearest", "n", NULL},  {"nearest-exact", "ne", NULL}, {"linear", "l", NULL},
               {"bilinear", "l", "la"}, {"trilinear", "l", NULL},      {"bicubic", "c", "ca"}};
  const char *name = aten_get_str(c, 3);
  bool by_size = aten_has(c, 5) && aten_get_bool(c, 5), smooth = aten_get_bool(c, 6);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    const char *mode = smooth ? modes[i].smooth : modes[i].mode;
    if (mode && strcmp(modes[i].name, name) == 0) return resample(c, mode, by_size);
  }
  aten_refuse(c, "mode %s%s", name, smooth ? " with antialias" : "");
  return ATEN_NOTHING;
}

/* grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners) */
aten_value aten_lower_grid_sample(aten_args *c) {
  static const char *const modes[] = {"linear", "nearest", "cubic"}, *const paddings[] = {"zeros", "border",
                                                                                          "reflection"};
  int64_t mode = aten_get_int(c, 2), padding = aten_get_int(c, 3);
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2) {
    aten_refuse(c, "mode %lld, padding %lld", (long long)mode, (long long)padding);
    return ATEN_NOTHING;
  }
  ir_value in[] = {aten_in(c, 0), aten_in(c, 1)};
  return aten_ret(c,
                  IR_EMIT_ARGS(c->b, "td::grid_sample", in, 2, ARG_STR("mode", modes[mode]),
                               ARG_STR("padding", paddings[padding]), ARG_BOOL("align_corners", aten_get_bool(c, 4))));
}
/* affine_grid_generator(theta, size, align_corners) */
aten_value aten_lower_affine_grid(aten_args *c) {
  ir_value in[] = {aten_in(c, 0), aten_ints_value(c, 1)};
  return aten_ret(c, IR_EMIT_ARGS(c->b, "td::affine_grid", in, 2, ARG_BOOL("align_corners", aten_get_bool(c, 2))));
}

/* Windows of an axis: index [windows, kernel] into the padded axis. */
static ir_value window_index(aten_args *c, int64_t size, int64_t kernel, int64_t dilation, int64_t stride,
                             int64_t *windows) {
  enum { MAX_KERNEL = 1 << 16, MAX_WINDOWS = 1 << 24, MAX_INDEX = 1 << 26 };
  int64_t away; /* the last element of a window from the first one */
  const bool fits = kernel >= 1 && kernel <= MAX_KERNEL && base_mul_i64(dilation, kernel - 1, &away);
  const int64_t last = fits && away < size ? (size - 1 - away) / stride : -1;
  *windows = last < MAX_WINDOWS ? last + 1 : 0;
  if (!fits || last >= MAX_WINDOWS || *windows * kernel > MAX_INDEX) {
    aten_refuse(c, "windows of %lld", (long long)kernel);
    return IR_NO_VALUE;
  }
  int64_t *at = ir_build_alloc(c->b, ((size_t)(*windows * kernel) + 1) * sizeof *at);
  for (int64_t k = 0; at && k < kernel; k++)
    for (int64_t w = 0; w < *windows; w++) at[k * *windows + w] = w * stride + k * dilation;
  base_tensor t = base_tensor_of(at, TD_I64, 2, (int64_t[]){kernel, *windows});
  return at ? ir_build_constant(c->b, &t) : IR_NO_VALUE;
}
/* im2col(self [N, C, H, W], kernel_size, dilation, padding, stride) -> [N, C kh kw, oh ow] */
aten_value aten_lower_im2col(aten_args *c) {
  uint32_t n[4];
  const int64_t *v[4];
  ir_value x = aten_in(c, 0);
  bool single = aten_rank(c->a, x) == 3;
  if (single) x = aten_unsqueeze(c->a, x, 0);
  for (uint32_t i = 0; i < 4; i++) {
    v[i] = aten_get_ints(c, i + 1, &n[i]);
    if (n[i] != 2) aten_refuse(c, "%u numbers instead of 2", n[i]);
  }
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  const int64_t *kernel = v[0], *dilation = v[1], *padding = v[2], *stride = v[3];
  int64_t axes[] = {2, 3}, pads[] = {padding[0], padding[1], padding[0], padding[1]}, count[2];
  if (padding[0] || padding[1])
    x = IR_EMIT(c->b, "aten::constant_pad_nd", x, ir_build_ints(c->b, pads, 4), aten_scalar_like(c->a, x, 0),
                ir_build_ints(c->b, axes, 2));
  for (int64_t i = 0; i < 2; i++) { /* each axis becomes [kernel, windows] */
    aten_value size = aten_size(c->a, x, i ? -1 : 2);
    if (!aten_is_known(&size) || stride[i] < 1 || dilation[i] < 1) aten_refuse(c, "the image's size must be known");
    if (ir_build_failed(c->b)) return ATEN_NOTHING;
    ir_value index = window_index(c, size.u.i, kernel[i], dilation[i], stride[i], &count[i]);
    x = IR_EMIT_ARGS(c->b, "aten::index_select", ((ir_value[]){x, index}), 2, ARG_INT("dim", i ? 4 : 2));
  }
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  x = aten_permute(c->a, x, (int64_t[]){0, 1, 2, 4, 3, 5}, 6);
  aten_value batch = aten_size(c->a, x, 0), channels = aten_size(c->a, x, 1);
  aten_value to[] = {batch, aten_int_op(c->a, "mul", channels, aten_int(kernel[0] * kernel[1])),
                     aten_int(count[0] * count[1])};
  x = IR_EMIT(c->b, "aten::view", x, aten_vector(c->a, to, 3));
  return aten_ret(c, single ? aten_squeeze(c->a, x, 0) : x);
}
/* col2im(self, output_size, kernel_size, dilation, padding, stride) */
aten_value aten_lower_col2im(aten_args *c) {
  uint32_t n[3];
  ir_value x = aten_in(c, 0), in[] = {x, aten_ints_value(c, 1), aten_ints_value(c, 2)};
  bool single = aten_rank(c->a, x) == 2;
  if (single) in[0] = aten_unsqueeze(c->a, x, 0);
  const int64_t *dilation = aten_get_ints(c, 3, &n[0]), *padding = aten_get_ints(c, 4, &n[1]),
                *stride = aten_get_ints(c, 5, &n[2]);
  if (n[0] != 2 || n[1] != 2 || n[2] != 2) aten_refuse(c, "dilation, padding and stride are not 2 numbers each");
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  int64_t pads[] = {padding[0], padding[1], padding[0], padding[1]};
  ir_value y = IR_EMIT_ARGS(c->b, "aten::col2im", in, 3, ARG_INTS("dilations", dilation, 2), ARG_INTS("pads", pads, 4),
                            ARG_INTS("strides", stride, 2));
  return aten_ret(c, single ? aten_squeeze(c->a, y, 0) : y);
}

/* ---- losses ---- */

static aten_value reduced(aten_args *c, ir_value v, uint32_t i) {
  int64_t how = aten_get_int(c, i);
  if (how == 0) return aten_ret(c, v);
  return aten_ret(c, IR_EMIT_ARGS(c->b, how == 1 ? "aten::mean" : "aten::sum", &v, 1, ARG_BOOL("keepdim", false)));
}
/* (self, target, reduction); data: "l1" or "mse" */
aten_value aten_lower_difference_loss(aten_args *c) {
  ir_value d = aten_binary(c->a, "aten::sub", aten_in(c, 0), aten_in(c, 1));
  return reduced(c, c->row->data[0] == 'l' ? IR_EMIT(c->b, "aten::abs", d) : aten_binary(c->a, "aten::mul", d, d), 2);
}
/* smooth_l1_loss(self, target, reduction, beta), huber_loss (data: delta) */
aten_value aten_lower_smooth_loss(aten_args *c) {
  ir_value d = IR_EMIT(c->b, "aten::abs", aten_binary(c->a, "aten::sub", aten_in(c, 0), aten_in(c, 1)));
  double beta = aten_get_float(c, 3);
  bool huber = c->row->data != NULL;
  if (beta == 0) return reduced(c, d, 2);
  ir_value near = aten_with_scalar(c->a, "aten::mul", aten_binary(c->a, "aten::mul", d, d), huber ? 0.5 : 0.5 / beta);
  ir_value far = aten_with_scalar(c->a, "aten::sub", d, 0.5 * beta);
  if (huber) far = aten_with_scalar(c->a, "aten::mul", far, beta);
  return reduced(c, IR_EMIT(c->b, "aten::where", aten_with_scalar(c->a, "aten::lt", d, beta), near, far), 2);
}
static ir_value promoted_product(aten_args *c, ir_value x, ir_value y) {
  aten_mix m = {0};
  aten_mix_tensor(c->a, &m, x);
  aten_mix_tensor(c->a, &m, y);
  const td_dtype d = aten_mix_result(&m);
  return aten_binary(c->a, "aten::mul", ir_build_cast(c->b, x, d), ir_build_cast(c->b, y, d));
}
/* Cross entropy with targets that are probabilities: -sum over classes of w t log softmax(x). */
static aten_value soft_targets(aten_args *c, ir_value x, ir_value target, int64_t reduction) {
  int32_t rank = aten_rank(c->a, x);
  int64_t dim = rank > 1 ? 1 : 0;
  if (reduction == 1 && aten_is_empty(c->a, x)) return aten_ret(c, aten_scalar_like(c->a, x, NAN));
  ir_value y = IR_EMIT_ARGS(c->b, "aten::_log_softmax", &x, 1, ARG_INT("dim", dim));
  y = promoted_product(c, y, target);
  if (aten_has(c, 2)) {
    ir_value w = aten_in(c, 2);
    for (int32_t i = 2; i < rank && !ir_build_failed(c->b); i++) w = aten_unsqueeze(c->a, w, -1);
    y = promoted_product(c, y, w);
  }
  y = IR_EMIT_ARGS(c->b, "aten::sum", &y, 1, ARG_INTS("dim", &dim, 1), ARG_BOOL("keepdim", false));
  y = IR_EMIT(c->b, "aten::neg", y);
  if (reduction == 0) return aten_ret(c, y);
  const char *how = reduction == 1 ? "aten::mean" : "aten::sum";
  return aten_ret(c, IR_EMIT_ARGS(c->b, how, &y, 1, ARG_BOOL("keepdim", false)));
}
/* nll_loss(self, target, weight?, reduction, ignore_index) of log-probabilities; data: of logits, cross_entropy_loss */
aten_value aten_lower_nll_loss(aten_args *c) {
  static const char *const how[] = {"none", "mean", "sum"};
  ir_value x = aten_in(c, 0), target = aten_in(c, 1);
  int64_t reduction = aten_get_int(c, 3);
  bool logits = c->row->data != NULL, single = aten_rank(c->a, x) == 1;
  if (logits && c->schema->count > 5 && aten_get_float(c, 5) != 0) aten_refuse(c, "label smoothing");
  if (logits && base_is_float(aten_value_dtype(c->a, target))) return soft_targets(c, x, target, reduction);
  if (reduction < 0 || reduction > 2) aten_refuse(c, "reduction %lld", (long long)reduction);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  if (single) {
    x = aten_unsqueeze(c->a, x, 0);
    target = aten_unsqueeze(c->a, target, 0);
  }
  if (logits) x = IR_EMIT_ARGS(c->b, "aten::_log_softmax", &x, 1, ARG_INT("dim", 1));
  ir_value in[] = {x, target, optional(c, 2)};
  ir_value y = IR_EMIT_ARGS(c->b, "aten::nll_loss_nd", in, 3, ARG_STR("reduction", how[reduction]),
                            ARG_INT("ignore_index", aten_get_int(c, 4)));
  return aten_ret(c, single && reduction == 0 ? aten_squeeze(c->a, y, 0) : y);
}
