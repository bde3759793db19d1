/* channels_last_conv.c -- td::conv and td::conv_transpose: convolutions of images that stand channels last, f32, with
 * an epilogue. Passes make them of aten::convolution. Operands and attributes: kernels/products/conv.h; weights:
 * [channels, channels in / groups, kernel...] (transposed [channels in, channels / groups, kernel...]), or packed
 * (kernels/products/pack_conv.h), of td::conv also as pairs of bf16: then the image is rounded to bf16, too, and
 * it (with channels last), the residual and the result may be bf16. */
#include "kernels/kernels.h"
#include "kernels/products/products.h"
#include "ops/common/conv_priv.h"
#include "ops/common/convolution_priv.h"

#include <string.h>

enum { CONV_IMAGE_OUTPUT_PADDING = KERN_CONV_ATTRS };
static const ir_attr conv_attrs[] = {KERN_CONV_LIST(OPS_ATTR_ROW) KERN_EPILOGUE_LIST(OPS_ATTR_ROW)};
static const ir_attr transpose_attrs[] = {KERN_CONV_LIST(OPS_ATTR_ROW) ATTR_INTS("output_padding"),
                                          KERN_EPILOGUE_LIST(OPS_ATTR_ROW)};

/* ---- shapes ---- */

static td_status check_attributes(ir_infer *ctx, int32_t spatial) {
  static const char *const names[] = {
      [KERN_CONV_GROUPS] = "groups", [KERN_CONV_CHANNELS] = "channels", [KERN_CONV_PANEL] = "panel"};
  static const int64_t least[] = {[KERN_CONV_GROUPS] = 1, [KERN_CONV_CHANNELS] = 0, [KERN_CONV_PANEL] = 0};
  uint32_t count;
  base_attr_ints(ctx->attrs, KERN_CONV_KERNEL, &count);
  if (count < 1 || count > KERN_CONV_AXES || count != (uint32_t)spatial)
    return ir_infer_fail(ctx, "a kernel of %u sizes does not fit %d spatial dimensions of 1 to 3", count, spatial);
  TRY(ops_window_check_list(ctx, KERN_CONV_KERNEL, count, true));
  TRY(ops_window_check_list(ctx, KERN_CONV_STRIDE, count, true));
  TRY(ops_window_check_list(ctx, KERN_CONV_PADDING, 2 * count, false));
  TRY(ops_window_check_list(ctx, KERN_CONV_DILATION, count, true));
  for (uint32_t i = KERN_CONV_GROUPS; i <= KERN_CONV_PANEL; i++) {
    int64_t value = base_attr_int(ctx->attrs, i);
    if (value < least[i] || value > INT32_MAX) return ir_infer_fail(ctx, "%s is %lld", names[i], (long long)value);
  }
  return TD_OK;
}

static base_dim out_size(const ir_infer *ctx, int32_t spatial, int32_t i, base_dim in, const int64_t *more) {
  base_dims *d = ctx->dims;
  const base_attrs *a = ctx->attrs;
  int64_t reach = (base_attr_int_at(a, KERN_CONV_KERNEL, i, 1) - 1) * base_attr_int_at(a, KERN_CONV_DILATION, i, 1);
  int64_t pads = base_attr_int_at(a, KERN_CONV_PADDING, i, 0) + base_attr_int_at(a, KERN_CONV_PADDING, spatial + i, 0);
  int64_t stride = base_attr_int_at(a, KERN_CONV_STRIDE, i, 1);
  if (more) return base_dim_add(d, base_dim_mul(d, in, stride), base_dim_number(reach + 1 + more[i] - pads - stride));
  base_dim room = base_dim_add(d, in, base_dim_number(pads - reach - 1));
  return ops_windows(d, room, stride);
}

td_status ops_conv_dims(ir_infer *ctx, const int64_t *more, base_dim *dims) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  int32_t spatial = x->rank - 2;
  TRY(check_attributes(ctx, spatial));
  bool first = base_attr_int(ctx->attrs, KERN_CONV_CHANNELS_FIRST);
  int64_t groups = base_attr_int(ctx->attrs, KERN_CONV_GROUPS),
          channels = base_attr_int(ctx->attrs, KERN_CONV_CHANNELS);
  base_dim in_channels = x->dims[first ? 1 : x->rank - 1];
  if (channels % groups != 0 || (base_dim_known(in_channels) && in_channels % groups != 0))
    return ir_infer_fail(ctx, "channels do not divide into %lld groups", (long long)groups);
  dims[0] = x->dims[0];
  for (int32_t i = 0; i < spatial; i++) dims[1 + i] = out_size(ctx, spatial, i, x->dims[(first ? 2 : 1) + i], more);
  dims[1 + spatial] = channels;
  return TD_OK;
}

/* `w`: the type of the weights; `pairs`: x and the result may be bf16. */
static td_status infer_as(ir_infer *ctx, const int64_t *more, td_dtype w, bool pairs) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  base_dim dims[BASE_MAX_RANK];
  if ((x->dtype != TD_F32 && !(pairs && x->dtype == TD_BF16)) || ir_in(ctx, 1)->type.dtype != w)
    return ir_infer_fail(ctx, "the image and the weights must be f32");
  if (x->rank == IR_UNRANKED) return ops_out_unranked_sums(ctx);
  TRY(ops_conv_dims(ctx, more, dims));
  return ops_infer_product(ctx, pairs, x->rank, dims);
}

td_status ops_infer_conv(ir_infer *ctx, const int64_t *more, bool pairs) { return infer_as(ctx, more, TD_F32, pairs); }

/* The weights fit x, as far as sizes are known. */
static td_status check_weights(ir_infer *ctx, bool transposed) {
  const ir_type *x = &ir_in(ctx, 0)->type, *w = &ir_in(ctx, 1)->type;
  if (x->rank == IR_UNRANKED || w->rank == IR_UNRANKED) return TD_OK;
  const base_attrs *a = ctx->attrs;
  const int64_t groups = base_attr_int(a, KERN_CONV_GROUPS), channels = base_attr_int(a, KERN_CONV_CHANNELS);
  const base_dim in = x->dims[base_attr_int(a, KERN_CONV_CHANNELS_FIRST) ? 1 : x->rank - 1];
  if (base_attr_int(a, KERN_CONV_PANEL)) {
    kern_conv c;
    if (!kern_conv_window(a, x->rank, in, &c)) return ir_infer_fail(ctx, "a huge kernel");
    const bool known = w->rank == 1 && base_dim_known(in) && base_dim_known(w->dims[0]);
    const bool fits = known ? kern_conv_stored(transposed, &c, w->dtype, w->dims[0]) >= 0 : w->rank == 1;
    return fits ? TD_OK : ir_infer_fail(ctx, "the packed weights do not fit the image");
  }
  base_dim inner = base_dim_known(in) ? in / groups : w->dims[1];
  bool fits = w->rank == x->rank && !ops_dims_differ(w->dims[0], transposed ? in : channels) &&
              !ops_dims_differ(w->dims[1], transposed ? channels / groups : inner);
  for (int32_t i = 2; fits && i < w->rank; i++)
    fits = !ops_dims_differ(w->dims[i], base_attr_int_at(a, KERN_CONV_KERNEL, i - 2, 1));
  return fits ? TD_OK : ir_infer_fail(ctx, "the weights do not fit the image");
}

static td_status infer_conv(ir_infer *ctx) {
  if (base_attr_int(ctx->attrs, KERN_CONV_CHANNELS_FIRST) && kern_chain_in_front(ctx->attrs))
    return ir_infer_fail(ctx, "a chain in front of an image with channels first");
  const base_attrs *a = ctx->attrs;
  const bool may = base_attr_int(a, KERN_CONV_PANEL) > 0;
  if (base_attr_int(a, KERN_CONV_CHANNELS_FIRST) && ir_in(ctx, 0)->type.dtype == TD_BF16)
    return ir_infer_fail(ctx, "an image of bf16 with channels first");
  const bool pairs = may && ir_in(ctx, 1)->type.dtype == TD_BF16;
  TRY(infer_as(ctx, NULL, pairs ? TD_BF16 : TD_F32, pairs));
  return check_weights(ctx, false);
}

static td_status infer_conv_transpose(ir_infer *ctx) {
  int64_t more[KERN_CONV_AXES];
  TRY(ops_window_check_list(ctx, CONV_IMAGE_OUTPUT_PADDING,
                            ir_in(ctx, 0)->type.rank > 2 ? (uint32_t)ir_in(ctx, 0)->type.rank - 2 : 0, false));
  for (int32_t i = 0; i < KERN_CONV_AXES; i++) more[i] = base_attr_int_at(ctx->attrs, CONV_IMAGE_OUTPUT_PADDING, i, 0);
  TRY(ops_infer_conv(ctx, more, false));
  return check_weights(ctx, true);
}

/* ---- run ---- */

/* `t` with its last dimension moved in front of the spatial ones. */
static base_tensor channels_to_front(const base_tensor *t) {
  base_tensor front = *t;
  front.dims[1] = t->dims[t->rank - 1];
  front.strides[1] = t->strides[t->rank - 1];
  for (int32_t i = 2; i < t->rank; i++) {
    front.dims[i] = t->dims[i - 1];
    front.strides[i] = t->strides[i - 1];
  }
  return front;
}

static const base_f32 *image_of(const base_call *call, const kern_conv *c) {
  const bool rounds = base_in(call, 1)->dtype == TD_BF16;
  if (c->channels_first && !rounds) return ops_dense_f32(call, 0);
  base_tensor image = *base_in(call, 0);
  if (image.dtype != TD_F32)
    image = base_tensor_of((void *)(uintptr_t)ops_dense_f32(call, 0), TD_F32, image.rank, image.dims);
  if (!image.data) return NULL;
  if (!c->channels_first) image = channels_to_front(&image);
  float *x = base_call_scratch(call, (size_t)base_tensor_numel(&image), sizeof *x);
  if (x) base_tensor_pack(x, &image);
  for (int64_t i = 0; x && rounds && i < base_tensor_numel(&image); i++) x[i] = base_round_to_bf16(x[i]);
  return x;
}

td_status ops_run_conv(const base_call *call, const kern_conv *c, bool transposed, const base_f32 *w) {
  convolution plain = {
      .window = {.rank = KERN_CONV_AXES, .in_size = c->in_size, .out_size = c->out_size, .kernel_size = c->taps},
      .batch = c->batch,
      .groups = c->groups,
      .group_in = c->group_in,
      .group_out = c->group_out,
      .transposed = transposed};
  for (int32_t k = 0; k < KERN_CONV_AXES; k++) {
    const kern_conv_axis *a = &c->axis[k];
    plain.window.axis[k] = (window_axis){.in = a->in,
                                         .out = a->out,
                                         .kernel = a->kernel,
                                         .stride = a->stride,
                                         .dilation = a->dilation,
                                         .begin = a->begin};
  }
  const base_tensor *out = base_out(call, 0);
  const size_t count = (size_t)base_tensor_numel(out);
  base_tensor wide = *out;
  if (out->dtype != TD_F32)
    wide = base_tensor_of(base_call_scratch(call, count, sizeof(float)), TD_F32, out->rank, out->dims);
  base_tensor front = channels_to_front(&wide);
  const base_f32 *x = image_of(call, c);
  float *y = base_call_scratch(call, count, sizeof *y);
  if (!x || !y || !wide.data) return base_no_memory(call->err, "scratch");
  memset(y, 0, count * sizeof *y);
  TRY(ops_convolve_f32(call, &plain, x, w, y));
  base_tensor sums = base_tensor_of(y, TD_F32, front.rank, front.dims);
  base_tensor_copy(&front, &sums);
  return ops_apply_epilogue(call, wide.data);
}

static void unpack_shared(const kern_conv *c, int64_t shared, const base_f32 *from, float *to) {
  for (int64_t first = 0; first < c->groups; first += shared)
    for (int64_t tap = 0; tap < c->taps; tap++)
      for (int64_t k = 0; k < c->group_in; k++, from += c->panel)
        for (int64_t m = 0; m < c->panel; m++)
          to[((first * c->group_out + m) * c->group_in + k) * c->taps + tap] = from[m];
}

/* Panels of pairs of rows of taps as panels of rows. */
static void part_rows(const kern_conv *c, const base_f32 *from, float *to) {
  const int64_t in = c->group_in, across = c->axis[KERN_CONV_AXES - 1].kernel, channels = c->stored / across;
  const int64_t parts = (c->group_out + c->panel - 1) / c->panel * (c->taps / across);
  for (int64_t i = 0; i < parts; i++)
    for (int64_t x = 0; x < across; x++)
      for (int64_t k = 0; k < in; k++)
        for (int64_t m = 0; m < c->panel; m++) {
          const int64_t number = x * channels + k;
          to[((i * across + x) * in + k) * c->panel + m] =
              from[((i * c->stored + number) / 2 * c->panel + m) * 2 + number % 2];
        }
}

/* Panels of columns of taps of rows as panels of rows. */
static void part_columns(const kern_conv *c, const base_f32 *from, float *to) {
  const int64_t in = c->group_in, across = c->axis[KERN_CONV_AXES - 1].kernel, rows = c->taps / across;
  for (int64_t column = 0; column < c->group_out * across; column++) {
    const int64_t out = column % c->group_out, tap = column / c->group_out, lane = column % c->panel;
    for (int64_t y = 0; y < rows; y++)
      for (int64_t k = 0; k < in; k++)
        to[((out / c->panel * c->taps + y * across + tap) * in + k) * c->panel + out % c->panel] =
            from[((column / c->panel * rows + y) * c->stored + k) / 2 * 2 * c->panel + lane * 2 + k % 2];
  }
}

/* Panels of pairs as panels of rows. */
static void part_pairs(const kern_conv *c, const base_f32 *from, float *to) {
  if (c->channels_first) {
    part_rows(c, from, to);
    return;
  }
  if (c->row_columns) {
    part_columns(c, from, to);
    return;
  }
  const int64_t shared = kern_conv_pairs_shared(c->groups, c->group_out, c->group_in, c->panel, true);
  const int64_t panels = (c->group_out * shared + c->panel - 1) / c->panel, in = c->group_in;
  const int64_t parts = c->groups / shared * panels * c->taps;
  for (int64_t i = 0; i < parts; i++)
    for (int64_t k = 0; k < in; k++)
      for (int64_t m = 0; m < c->panel; m++) {
        const int64_t row = shared > 1 ? m / c->group_out * in + k : k;
        to[(i * in + k) * c->panel + m] = from[((i * c->stored + row) / 2 * c->panel + m) * 2 + row % 2];
      }
}

/* Packed weights back as the model has them: the inverse of kern_pack_conv. */
static void unpack(const kern_conv *c, bool transposed, const base_f32 *from, float *to) {
  int64_t p = c->panel, shared = kern_conv_shared(transposed, c->groups, c->group_out, c->group_in, p);
  if (shared > 1) {
    unpack_shared(c, shared, from, to);
    return;
  }
  for (int64_t g = 0; g < c->groups; g++)
    for (int64_t first = 0; first < c->group_out; first += p)
      for (int64_t tap = 0; tap < c->taps; tap++)
        for (int64_t k = 0; k < c->group_in; k++, from += p)
          for (int64_t m = first; m < base_min_i64(first + p, c->group_out); m++) {
            int64_t row =
                transposed ? (g * c->group_in + k) * c->group_out + m : (g * c->group_out + m) * c->group_in + k;
            to[row * c->taps + tap] = from[m - first];
          }
}

static td_status reference(const base_call *call, bool transposed) {
  kern_conv c;
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  TRY(kern_conv_of(call, transposed, &c));
  const base_f32 *w = ops_dense_f32(call, 1);
  if (!w) return base_no_memory(call->err, "scratch");
  if (base_in(call, 1)->dtype == TD_BF16) {
    const size_t panels = (size_t)(c.groups * ((c.group_out + c.panel - 1) / c.panel) * c.panel);
    float *rows = base_call_scratch(call, panels * (size_t)c.group_in, (size_t)c.taps * sizeof *rows);
    if (!rows) return base_no_memory(call->err, "scratch");
    part_pairs(&c, w, rows);
    w = rows;
  }
  if (c.panel) {
    float *plain = base_call_scratch(call, (size_t)(c.groups * c.group_out * c.group_in), (size_t)c.taps * sizeof *w);
    if (!plain) return base_no_memory(call->err, "scratch");
    unpack(&c, transposed, w, plain);
    w = plain;
  }
  return ops_run_conv(call, &c, transposed, w);
}

static td_status conv_reference(const base_call *call) {
  ops_front front;
  TRY(ops_run_front(&call, &front));
  return reference(call, false);
}
static td_status conv_transpose_reference(const base_call *call) { return reference(call, true); }

/* Are pairs of bf16 stored as the row takes them? */
static bool takes_stored(const ir_kernel_query *query, const kern_row *row) {
  const ir_type *x = &query->in[0]->type, *w = &query->in[1]->type;
  const bool first = base_attr_int(query->attrs, KERN_CONV_CHANNELS_FIRST);
  const base_dim channels = x->dims[first ? 1 : x->rank - 1];
  if (!base_dim_known(channels) || !base_dim_known(w->dims[0])) return false;
  uint32_t count;
  const int64_t *kernel = base_attr_ints(query->attrs, KERN_CONV_KERNEL, &count);
  if (first) return kern_takes_tiles(row) || (count > 0 && kern_rows_are_pairs(channels, kernel[count - 1]));
  kern_conv c;
  if (!kern_conv_window(query->attrs, x->rank, channels, &c)) return false;
  c.panel = row->lanes;
  const int64_t shared = kern_conv_pairs_shared(c.groups, c.group_out, c.group_in, c.panel, kern_takes_tiles(row));
  if (kern_conv_has_row_columns(&c, TD_BF16, w->dims[0])) return kern_takes_tiles(row);
  return shared && kern_conv_stored(false, &c, TD_BF16, w->dims[0]) == kern_pairs_depth_of(row, c.group_in * shared);
}

/* The kernel of the query's level where the weights are packed for it, or still the model's. */
static const kern_row *kernel_of(const ir_kernel_query *query, kern_family family) {
  const ir_type *w = &query->in[1]->type;
  const kern_row *row = kern_select(family, w->dtype, query->isa);
  int64_t panel = base_attr_int(query->attrs, KERN_CONV_PANEL);
  if (!row || (panel && panel != row->lanes)) return NULL;
  return w->dtype != TD_BF16 || takes_stored(query, row) ? row : NULL;
}

static const kern_row *kernel_of_conv(const ir_kernel_query *query) { return kernel_of(query, KERN_CONV); }

static const kern_row *kernel_of_conv_transpose(const ir_kernel_query *query) {
  return base_attr_int(query->attrs, KERN_CONV_CHANNELS_FIRST) ? NULL : kernel_of(query, KERN_CONV_TRANSPOSE);
}

static double known_or_1(base_dim d) { return base_dim_known(d) ? (double)d : 1; }

/* Every element of `of` meets every tap and a group's channels on the other side. */
static double flops(const ir_type *of, double other_channels, const base_attrs *attrs) {
  double n = 2 * other_channels / (double)base_attr_int(attrs, KERN_CONV_GROUPS);
  for (int32_t i = 0; i < of->rank; i++) n *= known_or_1(of->dims[i]);
  for (int32_t i = 0; i < of->rank - 2; i++) n *= (double)base_attr_int_at(attrs, KERN_CONV_KERNEL, i, 1);
  return n;
}

double ops_flops_conv(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  const ir_type *x = &in[0]->type;
  if (x->rank < 3) return 0;
  return flops(&out->type, known_or_1(x->dims[base_attr_int(attrs, KERN_CONV_CHANNELS_FIRST) ? 1 : x->rank - 1]),
               attrs);
}

static double flops_conv_transpose(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)out;
  return flops(&in[0]->type, (double)base_attr_int(attrs, KERN_CONV_CHANNELS), attrs);
}

/* ---- test cases ---- */

typedef struct conv_case {
  int64_t spatial, batch, channels, out_channels, groups, panel;
  int64_t in[3], kernel[3], stride[3], dilation[3], padding[6]; /* stride 0: all defaults */
  bool channels_first;
  uint32_t parts; /* of the epilogue: BIAS, ... */
  kern_act act;
  bool late, pairs, tiles; /* weights: pairs of bf16, for tiles */
  uint32_t bf16;           /* of these: BF16_X, ... */
  int64_t more[3];         /* output padding */
} conv_case;

/* What comes out, for the residual. */
static void case_out_dims(const conv_case *s, bool transposed, int64_t *dims) {
  int64_t n = s->spatial;
  dims[0] = s->batch;
  dims[n + 1] = s->out_channels;
  for (int64_t i = 0; i < n; i++) {
    int64_t stride = s->stride[i] ? s->stride[i] : 1, dilation = s->stride[i] ? s->dilation[i] : 1;
    int64_t reach = (s->kernel[i] - 1) * dilation + 1, pads = s->padding[i] + s->padding[n + i];
    dims[1 + i] =
        transposed ? (s->in[i] - 1) * stride + reach + s->more[i] - pads : (s->in[i] + pads - reach) / stride + 1;
  }
}

/* Operand 1 as pairs of rows of taps. */
static bool case_rows(ir_case *c, const conv_case *s, int64_t taps) {
  base_tensor *w = &c->in[1];
  const int64_t across = s->kernel[s->spatial - 1], wide = (s->out_channels + s->panel - 1) / s->panel * s->panel;
  const int64_t count = wide * taps * kern_row_channels(s->channels, across);
  uint16_t *pairs = base_new(c->arena, uint16_t, (size_t)count + 1);
  if (!pairs) return false;
  kern_pack_rows(w, NULL, s->panel, pairs);
  *w = base_tensor_of(pairs, TD_BF16, 1, &count);
  return true;
}

/* How many pairs there are whose columns are taps of a row; 0: it is not so packed. */
static int64_t row_columns_of(const conv_case *s, int64_t taps) {
  const int64_t last = s->spatial - 1;
  int64_t count;
  kern_conv c = {.groups = s->groups, .group_in = s->channels, .group_out = s->out_channels, .taps = taps};
  c.panel = s->tiles && s->channels > 0 ? s->panel : 0;
  c.axis[KERN_CONV_AXES - 1] = (kern_conv_axis){.kernel = s->kernel[last], .stride = 1, .dilation = 1};
  const bool whole = !s->stride[0] || (s->stride[last] == 1 && s->dilation[last] == 1);
  return whole && kern_conv_row_columns(&c, &count) ? count : 0;
}

/* Operand 1 as these. */
static bool case_row_columns(ir_case *c, const conv_case *s, int64_t count) {
  base_tensor *w = &c->in[1];
  uint16_t *pairs = base_new(c->arena, uint16_t, (size_t)count + 1);
  if (!pairs) return false;
  kern_pack_row_columns(w, NULL, s->panel, kern_tiles_depth(s->channels), pairs);
  *w = base_tensor_of(pairs, TD_BF16, 1, &count);
  return true;
}

/* Groups that are one for the kernel; 0: their weights can't be pairs. */
static int64_t shared_of(const conv_case *s) {
  return kern_conv_pairs_shared(s->groups, s->out_channels / s->groups, s->channels / s->groups, s->panel, s->tiles);
}

static bool case_weights(ir_case *c, const conv_case *s, bool transposed, int64_t taps, uint32_t seed) {
  int64_t rows = transposed ? s->channels : s->out_channels, columns = transposed ? s->out_channels : s->channels;
  int64_t plain[5] = {rows, columns / s->groups, s->kernel[0], s->kernel[1], s->kernel[2]}, count;
  if (!ops_case_in(c, TD_F32, (int32_t)s->spatial + 2, plain, OPS_NORMAL, seed)) return false;
  if (!s->panel) return true;
  if (s->pairs && s->channels_first) return case_rows(c, s, taps);
  const int64_t row_columns = row_columns_of(s, taps);
  if (row_columns) return case_row_columns(c, s, row_columns);
  if (!kern_conv_packed_size(transposed, s->groups, s->out_channels / s->groups, taps, s->channels / s->groups,
                             s->panel, &count))
    return false;
  base_tensor *w = &c->in[1];
  float *packed = base_new(c->arena, float, (size_t)count + 1);
  if (!packed) return false;
  kern_pack_conv(w, NULL, transposed, s->groups, s->panel, packed);
  *w = base_tensor_of(packed, TD_F32, 1, &count);
  if (!s->pairs) return true;
  const int64_t out = s->out_channels / s->groups, in = s->channels / s->groups, shared = shared_of(s);
  const int64_t parts = s->groups / shared * ((out * shared + s->panel - 1) / s->panel) * taps;
  const int64_t stored = s->tiles ? kern_tiles_depth(in * shared) : kern_pairs_depth(in);
  count = parts * stored * s->panel;
  uint16_t *pairs = base_new(c->arena, uint16_t, (size_t)count + 1);
  if (!pairs) return false;
  if (shared > 1) kern_pack_shared_pairs(packed, parts, in, shared, s->panel, stored, pairs);
  else kern_pack_pairs(packed, in, parts, s->panel, stored, pairs);
  *w = base_tensor_of(pairs, TD_BF16, 1, &count);
  return true;
}

enum { DEEP = 4096 }; /* sums of more have smaller numbers: a tolerance is absolute near zero */

static bool make_case(ir_case *c, const conv_case *s, bool transposed, uint32_t seed) {
  int64_t x[5] = {s->batch}, y[5], taps = 1, n = s->spatial;
  for (int64_t i = 0; i < n; i++) {
    x[(s->channels_first ? 2 : 1) + i] = s->in[i];
    taps *= s->kernel[i];
  }
  x[s->channels_first ? 1 : n + 1] = s->channels;
  case_out_dims(s, transposed, y);
  if (!ops_case_in(c, TD_F32, (int32_t)n + 2, x, OPS_NORMAL, seed)) return false;
  const base_tensor *image = &c->in[0];
  for (int64_t i = 0; taps * s->channels > DEEP && i < base_tensor_numel(image); i++) ((float *)image->data)[i] /= 16;
  if (!case_weights(c, s, transposed, taps, seed + 1)) return false;
  ops_case_arg(c, ARG_INTS("kernel", s->kernel, n));
  ops_case_arg(c, ARG_INT("channels", s->out_channels));
  if (s->stride[0]) {
    ops_case_arg(c, ARG_INTS("stride", s->stride, n));
    ops_case_arg(c, ARG_INTS("dilation", s->dilation, n));
  }
  ops_case_arg(c, ARG_INTS("padding", s->padding, 2 * n));
  ops_case_arg(c, ARG_INT("groups", s->groups));
  ops_case_arg(c, ARG_INT("panel", s->panel));
  ops_case_arg(c, ARG_BOOL("channels_first", s->channels_first));
  if (transposed) ops_case_arg(c, ARG_INTS("output_padding", s->more, n));
  return ops_case_epilogue(c, s->parts, s->act, s->late, (int32_t)n + 2, y) && ops_case_bf16(c, s->bf16, s->parts);
}

#define PAD_1 .padding = {1, 1, 1, 1}
#define STRIDE(h, w) .stride = {(h), (w)}, .dilation = {1, 1}

/* As the layers of networks, and as no network has them. Packed ones are repeated for every panel width. */
static const conv_case forward_cases[] = {
    /* 1x1: a product over merged rows; strided: rows of a table */
    {2, 1, 64, 40, 1, .in = {9, 8}, .kernel = {1, 1}, .parts = BIAS, .act = KERN_ACT_relu},
    {2, 3, 17, 5, 1, .in = {5, 3}, .kernel = {1, 1}, .parts = BIAS | RESIDUAL, .act = KERN_ACT_relu, .late = true},
    {2, 1, 33, 48, 1, .in = {9, 8}, .kernel = {1, 1}, STRIDE(2, 2), .parts = SCALE | SHIFT},
    {2, 2, 8, 16, 1, .in = {4, 5}, .kernel = {1, 1}, .padding = {1, 0, 0, 2}, .parts = BIAS},
    {2, 2, 9, 16, 1, .in = {8, 9}, .kernel = {1, 1}, .parts = BIAS, .act = KERN_ACT_clamp},
    {2, 1, 24, 80, 1, .in = {13, 16}, .kernel = {1, 1}, .parts = BIAS | RESIDUAL, .act = KERN_ACT_relu, .late = true},
    {2, 1, 0, 32, 1, .in = {8, 8}, .kernel = {1, 1}, .act = KERN_ACT_silu},
    {2, 2, 9, 16, 1, .in = {8, 9}, .kernel = {1, 1}, .parts = BIAS | CHAIN, .act = KERN_ACT_clamp},
    {2, 3, 17, 35, 1, .in = {5, 3}, .kernel = {1, 1}, .parts = BIAS | RESIDUAL | CHAIN, .act = KERN_ACT_gelu},
    {2, 2, 16, 33, 1, .in = {9, 8}, .kernel = {3, 3}, PAD_1, .parts = SCALE | SHIFT | CHAIN},
    {2, 2, 3, 32, 1, .in = {9, 11}, .kernel = {3, 3}, STRIDE(2, 2), .channels_first = true, .parts = CHAIN},
    {2, 2, 32, 64, 4, .in = {6, 7}, .kernel = {3, 3}, PAD_1, .parts = BIAS | CHAIN, .act = KERN_ACT_relu},
    {2, 2, 12, 6, 3, .in = {4, 5}, .kernel = {3, 3}, PAD_1, .parts = CHAIN},
    {2, 3, 17, 35, 1, .in = {5, 3}, .kernel = {1, 1}, .parts = BIAS | RESIDUAL | FRONT, .act = KERN_ACT_relu},
    {2, 2, 9, 16, 1, .in = {8, 9}, .kernel = {1, 1}, .parts = BIAS | FRONT_ROWS},
    {2, 2, 70, 200, 1, .in = {23, 21}, .kernel = {1, 1}, .parts = FRONT},
    {2, 1, 700, 130, 1, .in = {7, 7}, .kernel = {1, 1}, .parts = FRONT_ROWS, .act = KERN_ACT_relu},
    {2, 2, 33, 48, 1, .in = {9, 8}, .kernel = {1, 1}, STRIDE(2, 2), .parts = SCALE | SHIFT | FRONT},
    {2, 2, 16, 33, 1, .in = {19, 28}, .kernel = {3, 3}, PAD_1, .parts = BIAS | FRONT},
    {2, 2, 48, 32, 1, .in = {33, 17}, .kernel = {3, 3}, STRIDE(2, 2), .parts = FRONT_ROWS},
    {2, 2, 32, 64, 4, .in = {6, 7}, .kernel = {3, 3}, PAD_1, .parts = BIAS | FRONT, .act = KERN_ACT_relu},
    {3, 2, 6, 17, 1, .in = {4, 5, 3}, .kernel = {3, 2, 3}, .padding = {1, 0, 1, 1, 1, 1}, .parts = FRONT},
    {2, 2, 0, 32, 1, .in = {8, 8}, .kernel = {1, 1}, .parts = FRONT},
    {2, 1, 5, 7, 1, .in = {0, 2}, .kernel = {2, 1}, PAD_1, .parts = FRONT},
    /* windows */
    {2, 1, 16, 32, 1, .in = {7, 7}, .kernel = {3, 3}, PAD_1, .parts = BIAS, .act = KERN_ACT_relu},
    {2, 2, 19, 33, 1, .in = {6, 11}, .kernel = {3, 3}, PAD_1, .parts = BIAS | RESIDUAL | SCALE | SHIFT,
     .act = KERN_ACT_silu},
    {2, 1, 5, 65, 1, .in = {13, 10}, .kernel = {3, 3}, STRIDE(2, 2), PAD_1, .act = KERN_ACT_clamp},
    {2, 1, 12, 7, 1, .in = {11, 12}, .kernel = {3, 2}, .stride = {1, 3}, .dilation = {2, 3}, .padding = {2, 1, 0, 3}},
    {2, 1, 4, 16, 1, .in = {3, 2}, .kernel = {5, 5}, .padding = {2, 2, 2, 2}, .parts = BIAS, .act = KERN_ACT_gelu},
    {2, 1, 6, 6, 1, .in = {8, 8}, .kernel = {3, 3}, .padding = {-1, 0, 0, -2}, .act = KERN_ACT_hardswish},
    /* only padding under some windows */
    {2, 1, 3, 4, 1, .in = {2, 2}, .kernel = {2, 2}, .padding = {4, 0, 0, 5}, .parts = BIAS},
    /* few channels: first layers, patches */
    {2, 1, 3, 64, 1, .in = {23, 21}, .kernel = {7, 7}, STRIDE(2, 2), .padding = {3, 3, 3, 3}, .parts = BIAS,
     .act = KERN_ACT_relu},
    {2, 2, 3, 32, 1, .in = {9, 14}, .kernel = {3, 3}, STRIDE(2, 2), .padding = {0, 0, 1, 1}, .parts = BIAS,
     .channels_first = true, .act = KERN_ACT_hardswish},
    {2, 2, 16, 33, 1, .in = {12, 25}, .kernel = {3, 3}, STRIDE(2, 2), .parts = BIAS, .channels_first = true,
     .act = KERN_ACT_relu},
    {2, 1, 3, 24, 1, .in = {16, 20}, .kernel = {4, 4}, STRIDE(4, 4), .parts = BIAS, .channels_first = true},
    {2, 1, 1, 20, 1, .in = {10, 33}, .kernel = {3, 5}, .padding = {1, 2, 1, 2}, .parts = BIAS, .act = KERN_ACT_tanh},
    {2, 1, 4, 18, 2, .in = {6, 5}, .kernel = {3, 3}, PAD_1, .parts = BIAS, .channels_first = true},
    {2, 2, 1, 20, 1, .in = {12, 9}, .kernel = {5, 4}, STRIDE(2, 2), .padding = {2, 1, 2, 2}, .parts = BIAS,
     .channels_first = true, .act = KERN_ACT_relu},
    {2, 1, 3, 16, 1, .in = {9, 6}, .kernel = {3, 3}, .padding = {1, 2, 0, -1}, .channels_first = true},
    {3, 1, 2, 16, 1, .in = {3, 5, 4}, .kernel = {2, 3, 3}, .padding = {1, 1, 1, 1, 1, 1}, .parts = BIAS,
     .channels_first = true},
    {2, 1, 40, 24, 1, .in = {5, 6}, .kernel = {1, 1}, .parts = BIAS, .channels_first = true, .act = KERN_ACT_sigmoid},
    {2, 2, 3, 16, 1, .in = {9, 37}, .kernel = {3, 3}, STRIDE(2, 2), PAD_1, .parts = BIAS, .channels_first = true,
     .act = KERN_ACT_clamp},
    {2, 1, 3, 64, 1, .in = {13, 40}, .kernel = {7, 7}, STRIDE(2, 2), .padding = {3, 3, 3, 3}, .parts = BIAS | RESIDUAL,
     .channels_first = true, .act = KERN_ACT_silu},
    {2, 2, 5, 32, 1, .in = {7, 260}, .kernel = {3, 3}, .channels_first = true, .act = KERN_ACT_relu},
    {2, 1, 2, 48, 1, .in = {4, 19}, .kernel = {2, 3}, .padding = {3, -2, 3, 1}, .parts = SCALE | SHIFT,
     .channels_first = true},
    {2, 1, 4, 16, 1, .in = {0, 20}, .kernel = {1, 3}, .padding = {1, 1, 0, 1}, .parts = BIAS, .channels_first = true},
    {2, 1, 3, 16, 1, .in = {3, 0}, .kernel = {2, 9}, .padding = {0, 9, 0, 9}, .parts = BIAS, .channels_first = true},
    {2, 1, 0, 16, 1, .in = {3, 30}, .kernel = {2, 2}, .parts = BIAS, .channels_first = true},
    /* groups */
    {2, 2, 32, 64, 4, .in = {6, 7}, .kernel = {3, 3}, PAD_1, .parts = BIAS, .act = KERN_ACT_relu},
    {2, 1, 12, 18, 6, .in = {5, 5}, .kernel = {3, 3}, STRIDE(2, 1), PAD_1, .parts = BIAS | RESIDUAL,
     .act = KERN_ACT_leaky_relu},
    {2, 1, 5, 5, 5, .in = {4, 9}, .kernel = {2, 3}, .parts = BIAS},
    {2, 3, 34, 34, 2, .in = {3, 3}, .kernel = {1, 1}, .act = KERN_ACT_gelu_tanh},
    {2, 1, 48, 80, 2, .in = {5, 6}, .kernel = {3, 3}, PAD_1, .parts = BIAS | RESIDUAL, .act = KERN_ACT_relu,
     .late = true},
    {2, 2, 32, 32, 8, .in = {9, 11}, .kernel = {3, 3}, PAD_1, .parts = BIAS | RESIDUAL, .act = KERN_ACT_relu},
    {2, 1, 24, 48, 6, .in = {8, 7}, .kernel = {3, 2}, STRIDE(2, 2), PAD_1, .parts = SCALE | SHIFT,
     .act = KERN_ACT_silu},
    {3, 1, 16, 32, 8, .in = {3, 5, 4}, .kernel = {2, 3, 3}, .padding = {1, 1, 1, 1, 1, 1}, .parts = BIAS},
    {2, 2, 16, 16, 2, .in = {13, 9}, .kernel = {1, 1}, .parts = BIAS | FRONT},
    {2, 1, 96, 72, 3, .in = {5, 5}, .kernel = {1, 1}, .parts = FRONT_ROWS, .act = KERN_ACT_relu},
    {2, 2, 64, 48, 2, .in = {9, 5}, .kernel = {3, 3}, STRIDE(2, 2), PAD_1, .parts = BIAS},
    /* tiles of rows of the image, whose weights L2 does not hold; activations before and behind a residual */
    {2, 1, 576, 18, 1, .in = {3, 32}, .kernel = {3, 3}, PAD_1, .parts = BIAS, .act = KERN_ACT_leaky_relu},
    {2, 1, 32, 72, 1, .in = {5, 7}, .kernel = {1, 1}, .parts = BIAS | RESIDUAL, .act = KERN_ACT_leaky_relu,
     .late = true},
    {2, 1, 32, 64, 1, .in = {5, 7}, .kernel = {1, 1}, .parts = BIAS | RESIDUAL, .act = KERN_ACT_leaky_relu},
    {2, 1, 32, 64, 1, .in = {5, 7}, .kernel = {1, 1}, .parts = BIAS | RESIDUAL, .act = KERN_ACT_gelu, .late = true},
    {2, 1, 32, 80, 1, .in = {5, 7}, .kernel = {1, 1}, .parts = BIAS | RESIDUAL, .act = KERN_ACT_tanh},
    {2, 1, 32, 64, 1, .in = {5, 7}, .kernel = {1, 1}, .parts = BIAS | RESIDUAL, .act = KERN_ACT_relu},
    /* 1 and 3 spatial dims */
    {1, 2, 10, 21, 1, .in = {37}, .kernel = {3}, .stride = {2}, .dilation = {1}, .padding = {1, 1}, .parts = BIAS},
    {1, 1, 80, 32, 1, .in = {19}, .kernel = {3}, .padding = {1, 1}, .parts = BIAS, .act = KERN_ACT_gelu},
    {1, 1, 1, 40, 1, .in = {2009}, .kernel = {475}, .stride = {441}, .dilation = {1}, .padding = {17, 458}},
    {3, 1, 6, 17, 1, .in = {4, 5, 3}, .kernel = {3, 2, 3}, .padding = {1, 0, 1, 1, 1, 1}, .parts = BIAS,
     .act = KERN_ACT_relu},
    {3, 2, 3, 16, 1, .in = {4, 6, 6}, .kernel = {2, 3, 3}, .stride = {2, 1, 2}, .dilation = {1, 2, 1},
     .channels_first = true, .parts = BIAS},
    /* few channels out: lanes are pixels */
    {2, 1, 8, 6, 1, .in = {19, 31}, .kernel = {3, 5}, .padding = {1, 2, 1, 2}, .parts = BIAS, .act = KERN_ACT_silu},
    {2, 2, 16, 13, 1, .in = {21, 17}, .kernel = {5, 5}, STRIDE(2, 3), .padding = {0, 2, 3, 1}, .parts = BIAS | RESIDUAL,
     .act = KERN_ACT_relu, .late = true},
    {2, 1, 4, 3, 1, .in = {23, 40}, .kernel = {3, 4}, .stride = {1, 2}, .dilation = {3, 2}, .padding = {-1, 5, 2, -2},
     .parts = SCALE | SHIFT, .act = KERN_ACT_gelu},
    {2, 1, 2, 7, 1, .in = {18, 33}, .kernel = {7, 7}, .stride = {2, 2}, .dilation = {1, 1}, .padding = {3, 3, 3, 3},
     .channels_first = true, .parts = BIAS | CHAIN, .act = KERN_ACT_tanh},
    {2, 1, 12, 10, 2, .in = {16, 24}, .kernel = {4, 3}, PAD_1, .parts = BIAS},
    {2, 1, 8, 5, 1, .in = {3, 700}, .kernel = {3, 9}, .padding = {1, 4, 1, 4}, .parts = BIAS | CHAIN},
    {1, 2, 1, 1, 1, .in = {900}, .kernel = {40}, .stride = {6}, .dilation = {1}, .parts = BIAS},
    {1, 1, 1, 2, 1, .in = {2000}, .kernel = {33}, .padding = {16, 16}, .channels_first = true},
    {3, 1, 3, 6, 1, .in = {4, 13, 15}, .kernel = {3, 5, 5}, .stride = {1, 2, 2}, .dilation = {2, 1, 1},
     .padding = {2, 2, 2, 2, 2, 2}, .channels_first = true, .parts = BIAS, .act = KERN_ACT_relu},
    {3, 2, 5, 2, 1, .in = {3, 9, 11}, .kernel = {2, 3, 3}, .padding = {0, 1, 1, 1, 1, 1}, .parts = BIAS},
    /* nothing */
    {2, 0, 3, 4, 1, .in = {5, 5}, .kernel = {3, 3}, .parts = BIAS},
    {2, 1, 0, 4, 1, .in = {3, 3}, .kernel = {2, 2}, .parts = BIAS, .act = KERN_ACT_relu},
    {2, 1, 0, 4, 1, .in = {5, 4}, .kernel = {2, 2}, .channels_first = true, .parts = BIAS},
    {2, 1, 3, 0, 1, .in = {3, 3}, .kernel = {1, 1}},
    {2, 1, 7, 1, 1, .in = {1, 1}, .kernel = {1, 1}, .parts = BIAS, .act = KERN_ACT_hard_sigmoid},
    {2, 1, 3, 16, 1, .in = {0, 2}, .kernel = {2, 1}, PAD_1, .parts = BIAS},
    /* a hardswish of whole and of other panels, behind a residual and in front of one */
    {2, 1, 32, 112, 1, .in = {5, 7}, .kernel = {1, 1}, .parts = BIAS | RESIDUAL, .act = KERN_ACT_hardswish,
     .late = true},
    {2, 1, 32, 64, 1, .in = {5, 7}, .kernel = {1, 1}, .parts = BIAS | RESIDUAL, .act = KERN_ACT_hardswish},
    /* few channels out: for tiles of pairs taps of a row are columns */
    {2, 2, 32, 3, 1, .in = {13, 41}, .kernel = {9, 9}, .padding = {4, 4, 4, 4}, .parts = BIAS, .act = KERN_ACT_tanh},
    {2, 1, 66, 1, 1, .in = {7, 70}, .kernel = {5, 5}, .parts = BIAS | RESIDUAL, .act = KERN_ACT_relu, .late = true},
    {2, 2, 16, 9, 1, .in = {40, 33}, .kernel = {3, 3}, PAD_1, .parts = BIAS | SCALE | SHIFT | CHAIN,
     .act = KERN_ACT_silu},
    {2, 1, 40, 2, 1, .in = {9, 12}, .kernel = {4, 3}, .stride = {2, 1}, .dilation = {3, 1}, .padding = {1, 2, 0, 3}},
    {2, 2, 24, 4, 1, .in = {3, 6}, .kernel = {1, 7}, .padding = {0, 3, 0, 3}, .parts = BIAS},
    {2, 2, 24, 4, 1, .in = {3, 9}, .kernel = {1, 4}, .parts = BIAS | FRONT},
    {1, 2, 34, 1, 1, .in = {50}, .kernel = {7}, .padding = {3, 3}, .parts = BIAS, .act = KERN_ACT_tanh},
    {3, 1, 20, 3, 1, .in = {3, 5, 6}, .kernel = {2, 3, 3}, .stride = {2, 1, 1}, .dilation = {1, 1, 1},
     .padding = {1, 0, 1, 1, 1, 0}, .parts = BIAS | FRONT_ROWS},
    /* taps of a row that are fewer tiles together; most parts of an epilogue */
    {2, 2, 8, 112, 1, .in = {9, 21}, .kernel = {3, 3}, .parts = RESIDUAL | SCALE | SHIFT, .act = KERN_ACT_clamp},
    {2, 1, 16, 70, 1, .in = {5, 40}, .kernel = {2, 5}, .parts = RESIDUAL | SCALE, .act = KERN_ACT_relu, .late = true},
    {2, 1, 576, 80, 1, .in = {7, 5}, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {6, 6}, .padding = {6, 6, 6, 6}},
    {2, 2, 96, 64, 4, .in = {5, 29}, .kernel = {3, 3}, STRIDE(2, 1), PAD_1, .parts = BIAS | RESIDUAL | CHAIN},
};

static const conv_case transposed_cases[] = {
    {2, 1, 16, 24, 1, .in = {5, 6}, .kernel = {2, 2}, STRIDE(2, 2), .parts = BIAS, .act = KERN_ACT_relu},
    {2, 2, 19, 8, 1, .in = {4, 3}, .kernel = {4, 4}, STRIDE(2, 2), PAD_1, .parts = BIAS | RESIDUAL,
     .act = KERN_ACT_tanh},
    {2, 1, 8, 33, 1, .in = {5, 7}, .kernel = {3, 3}, STRIDE(2, 3), .padding = {1, 0, 0, 1}, .more = {1, 2}},
    {2, 1, 12, 6, 3, .in = {4, 4}, .kernel = {3, 2}, .stride = {3, 1}, .dilation = {2, 2}, .parts = BIAS},
    {2, 1, 6, 20, 2, .in = {3, 5}, .kernel = {2, 2}, .stride = {5, 4}, .dilation = {1, 1},
     .parts = BIAS | SCALE | SHIFT},
    {1, 1, 32, 16, 1, .in = {11}, .kernel = {16}, .stride = {8}, .dilation = {1}, .padding = {4, 4}, .parts = BIAS},
    {3, 1, 5, 7, 1, .in = {2, 3, 2}, .kernel = {2, 2, 3}, .stride = {2, 1, 2}, .dilation = {1, 1, 1},
     .padding = {0, 1, 1, 0, 0, 1}, .parts = BIAS},
    {2, 2, 3, 5, 1, .in = {4, 3}, .kernel = {2, 3}, STRIDE(2, 2), .channels_first = true, .parts = BIAS},
    {2, 1, 7, 5, 1, .in = {3, 3}, .kernel = {1, 1}, .parts = BIAS | RESIDUAL, .act = KERN_ACT_relu, .late = true},
    {2, 2, 6, 20, 2, .in = {3, 5}, .kernel = {3, 3}, STRIDE(2, 2), .parts = BIAS | CHAIN},
    /* few channels: sums of products */
    {2, 2, 64, 3, 1, .in = {4, 9}, .kernel = {4, 4}, STRIDE(2, 2), PAD_1, .parts = BIAS, .act = KERN_ACT_tanh},
    {2, 1, 70, 2, 1, .in = {3, 4}, .kernel = {3, 2}, .stride = {2, 3}, .dilation = {2, 2}, .padding = {1, 0, 0, 1},
     .parts = BIAS | RESIDUAL | SCALE | SHIFT, .more = {1, 0}},
    {1, 1, 96, 1, 1, .in = {21}, .kernel = {5}, .stride = {7}, .dilation = {1}, .parts = BIAS},
    {3, 1, 64, 2, 1, .in = {2, 3, 4}, .kernel = {2, 3, 3}, .stride = {1, 2, 1}, .dilation = {1, 1, 1},
     .padding = {1, 0, 1, 0, 1, 1}, .act = KERN_ACT_relu},
    {2, 0, 3, 4, 1, .in = {5, 5}, .kernel = {3, 3}, .parts = BIAS},
    {2, 1, 0, 4, 1, .in = {3, 3}, .kernel = {2, 2}, .parts = BIAS},
};

/* Can its weights be pairs of rows of taps? */
static bool has_rows(const conv_case *s) {
  const int64_t last = s->spatial - 1;
  return (!s->stride[0] || s->dilation[last] == 1) && kern_row_channels(s->channels, s->kernel[last]) > 0;
}

/* Each with weights as the model has them, then packed for every level's panels. */
static bool nth_case(ir_case *c, const conv_case *table, uint32_t count, bool transposed, uint32_t number) {
  static const int64_t panels[] = {0, 1,  4,  8,  16, 16,
                                   4, 16, 16, 16, 16, 4}; /* the last seven of pairs, three for tiles */
  static const uint32_t bf16[] = {[8] = BF16_X | BF16_RESIDUAL | BF16_RESULT,
                                  [9] = BF16_RESULT,
                                  [10] = BF16_X | BF16_RESIDUAL | BF16_RESULT,
                                  [11] = BF16_X | BF16_RESIDUAL};
  if (number >= count * (transposed ? 5 : OPS_COUNT(panels))) return false;
  conv_case *s = base_arena_copy(c->arena, &table[number % count], sizeof *s);
  if (!s) return false;
  s->panel = panels[number / count];
  s->tiles = number / count >= 7 && number / count < 10 && (!s->channels_first || has_rows(s));
  s->tiles &= shared_of(s) > 0;
  s->pairs = s->tiles || (number / count > 4 && shared_of(s) && !s->channels_first);
  s->bf16 = s->pairs ? bf16[number / count] : 0;
  if (s->channels_first) s->bf16 &= ~(uint32_t)BF16_X;
  /* The last bit of what a chain in front makes may decide how x is rounded: where it is f32 there are few numbers of
   * it, and none of these seeds has one. */
  if (s->bf16) s->parts &= ~(uint32_t)(FRONT | FRONT_ROWS);
  const int64_t few = s->channels > 256 ? 2 : 5;
  for (int i = 0; s->pairs && s->parts & (FRONT | FRONT_ROWS) && i < 3; i++) s->in[i] = base_min_i64(s->in[i], few);
  return make_case(c, s, transposed, 3 * (number % count * OPS_COUNT(panels) + number / count) + 2);
}

static bool cases_conv(ir_case *c, uint32_t number) {
  return nth_case(c, forward_cases, OPS_COUNT(forward_cases), false, number);
}
static bool cases_conv_transpose(ir_case *c, uint32_t number) {
  return nth_case(c, transposed_cases, OPS_COUNT(transposed_cases), true, number);
}

OPS_DECLARE(channels_last_conv);
const ir_op ops_channels_last_conv[] = {
    {.id = OPERATOR(td, conv),
     .min_in = 2,
     .max_in = KERN_CHAIN_END,
     .out_count = BASE_PROGRAM_OUTS,
     .flags = IR_OP_CHAIN | IR_OP_EPILOGUE | IR_OP_FRONT,
     .attrs = conv_attrs,
     .attr_count = OPS_COUNT(conv_attrs),
     .by_sample = 1 | RESIDUAL | CHAIN,
     .infer = infer_conv,
     .reference = conv_reference,
     .kernel = kernel_of_conv,
     .flops = ops_flops_conv,
     .rtol = 1e-4f,
     .atol = 1e-4f},
    {.id = OPERATOR(td, conv_transpose),
     .min_in = 2,
     .max_in = KERN_CHAIN_END,
     .out_count = BASE_PROGRAM_OUTS,
     .flags = IR_OP_CHAIN | IR_OP_EPILOGUE,
     .attrs = transpose_attrs,
     .attr_count = OPS_COUNT(transpose_attrs),
     .by_sample = 1 | RESIDUAL | CHAIN,
     .infer = infer_conv_transpose,
     .reference = conv_transpose_reference,
     .kernel = kernel_of_conv_transpose,
     .flops = flops_conv_transpose,
     .rtol = 1e-4f,
     .atol = 1e-4f},
};
OPS_TABLE(channels_last_conv);
OPS_CASES(channels_last_conv) = {
    {OP_td_conv, cases_conv},
    {OP_td_conv_transpose, cases_conv_transpose},
    {0},
};
