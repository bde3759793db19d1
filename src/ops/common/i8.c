/* i8.c -- products of 8-bit integers: what their operators share. Sums are exact, so a result has one value: that of
 * the f32 operations below, in their order. */
#include "ops/common/i8_priv.h"

#include <math.h>
#include <string.h>

td_status ops_i8_check(ir_infer *ctx, td_dtype *out) {
  const kern_i8_scales s = kern_i8_scales_of(ctx->attrs);
  const td_dtype x = ir_in(ctx, 0)->type.dtype;
  const float scales[] = {s.y_scale, s.t_scale, s.r_scale};
  const int64_t shift =
      base_attr_int(ctx->attrs, ctx->attrs->count - KERN_EPILOGUE_ATTRS - KERN_I8_ATTRS + KERN_I8_W_SHIFT);
  bool scaled = shift >= INT8_MIN && shift <= UINT8_MAX && isfinite(s.x_scale) && s.x_zero >= 0 && s.x_zero <= 255 &&
                s.r_zero >= 0 && s.r_zero <= 255;
  for (size_t i = 0; i < OPS_COUNT(scales); i++) scaled = scaled && scales[i] >= 0 && isfinite(scales[i]);
  if (!scaled || !(s.y_zero >= s.least && s.y_zero <= s.most) || !(s.t_zero >= s.least && s.t_zero <= s.most))
    return ir_infer_fail(ctx, "a scale or zero point is out of range");
  if ((s.panel != 8 && s.panel != 16) || (s.depth != 2 && s.depth != 4 && s.depth != KERN_I8_TILE))
    return ir_infer_fail(ctx, "there are no panels of %lld columns by %lld", (long long)s.panel, (long long)s.depth);
  if (x != TD_F32 && ((x != TD_U8 && x != TD_I8) || s.x_scale <= 0))
    return ir_infer_fail(ctx, "x must be f32, or of 8 bits with a scale");
  *out = s.y_scale == 0 ? TD_F32 : s.least < 0 ? TD_I8 : TD_U8;
  return TD_OK;
}

td_status ops_i8_check_packed(ir_infer *ctx, td_dtype *out) {
  TRY(ops_i8_check(ctx, out));
  return ir_in(ctx, 1)->type.dtype == TD_U8 ? TD_OK : ir_infer_fail(ctx, "packed weights must be u8");
}

const kern_row *ops_i8_kernel(kern_family family, const ir_kernel_query *query) {
  const kern_row *row = kern_select(family, TD_I8, query->isa);
  const kern_i8_scales s = kern_i8_scales_of(query->attrs);
  return row && s.panel == row->lanes && s.depth == kern_i8_depth(row) ? row : NULL;
}

const uint8_t *ops_i8_values(const base_call *call, kern_i8_scales *s) {
  const base_tensor *x = base_in(call, 0);
  const int64_t count = base_tensor_numel(x);
  uint8_t *to = base_call_scratch(call, (size_t)count, sizeof *to);
  if (!to) return NULL;
  if (x->dtype != TD_F32) {
    base_tensor dense = base_tensor_of(to, x->dtype, x->rank, x->dims);
    base_tensor_copy(&dense, x);
    for (int64_t i = 0; x->dtype == TD_I8 && i < count; i++) to[i] ^= 128;
    return to;
  }
  const base_f32 *from = ops_dense_f32(call, 0);
  float low = 0, high = 0;
  if (!from) return NULL;
  for (int64_t i = 0; s->x_scale <= 0 && i < count; i++) {
    if (from[i] < low) low = from[i];
    if (from[i] > high) high = from[i];
  }
  if (s->x_scale <= 0) kern_i8_range(low, high, s);
  for (int64_t i = 0; i < count; i++)
    to[i] = (uint8_t)fminf(fmaxf(nearbyintf(from[i] / s->x_scale) + s->x_zero, 0), 255);
  return to;
}

td_status ops_i8_infer_epilogue(ir_infer *ctx) {
  const ir_info *residual = ir_in(ctx, KERN_IN_RESIDUAL);
  const td_dtype dtype = residual ? residual->type.dtype : TD_F32;
  uint32_t operands = 0;
  kern_i8_direct d;
  for (uint32_t i = 0; i < KERN_EPILOGUE_END; i++) operands |= (uint32_t)(ir_in(ctx, i) != NULL) << i;
  if (dtype != TD_U8 && dtype != TD_I8) return ops_infer_epilogue(ctx, TD_F32);
  if (!kern_i8_is_direct(ctx->attrs, operands, &d) || !d.residual)
    return ir_infer_fail(ctx, "a residual of 8 bits needs scales, and sums that stay in 8 bits");
  return ops_infer_epilogue(ctx, dtype);
}

/* ---- what sums become ---- */

static float limit(float t, float least, float most) { return fminf(fmaxf(t, least), most); }

static td_status finish_direct(const base_call *call, const kern_i8_scales *s, const kern_i8_direct *d,
                               const int32_t *sums, const float *scales) {
  const base_tensor *out = base_out(call, 0), *r = base_in(call, KERN_IN_RESIDUAL);
  const base_f32 *bias = base_in(call, KERN_IN_BIAS) ? ops_dense_f32(call, KERN_IN_BIAS) : NULL;
  const uint8_t *added = r ? ops_dense(call, KERN_IN_RESIDUAL) : NULL;
  const int64_t count = base_tensor_numel(out);
  if ((r && !added) || (base_in(call, KERN_IN_BIAS) && !bias)) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; i < count; i++) {
    const int64_t c = i % out->dims[out->rank - 1];
    float t = fmaf((float)sums[i], scales[c], bias ? bias[c] / d->over : 0);
    if (!r || d->rounds) t = nearbyintf(t);
    if (r) {
      const float other = (float)(added[i] ^ (r->dtype == TD_I8 ? 128 : 0)) - s->r_zero;
      t = nearbyintf(fmaf(other, d->r_by, d->rounds ? limit(t, d->least_t, d->most_t) * d->t_by : t));
    }
    ((uint8_t *)out->data)[i] = (uint8_t)(int)limit(t + s->y_zero, d->least, d->most);
  }
  return TD_OK;
}

/* Through f32, in place. */
static td_status finish_f32(const base_call *call, const kern_i8_scales *s, const int32_t *sums, const float *scales) {
  const base_tensor *out = base_out(call, 0);
  const int64_t count = base_tensor_numel(out), n = out->dims[out->rank - 1];
  float *t = base_call_scratch(call, (size_t)count, sizeof *t);
  if (!t) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; i < count; i++) t[i] = (float)sums[i] * scales[i % n];
  base_value value = {.kind = BASE_TENSOR, .tensor = base_tensor_of(t, TD_F32, out->rank, out->dims)};
  base_value *outs[BASE_PROGRAM_OUTS] = {&value};
  base_call of = *call;
  for (uint32_t i = 1; i < call->out_count; i++) outs[i] = call->out[i];
  of.out = outs;
  TRY(ops_apply_epilogue(&of, t));
  const float by = s->y_scale > 0 ? 1 / s->y_scale : 0;
  for (int64_t i = 0; i < count && by > 0; i++)
    ((uint8_t *)out->data)[i] = (uint8_t)(int)limit(nearbyintf(t[i] * by) + s->y_zero, s->least, s->most);
  if (s->y_scale == 0) memcpy(out->data, t, (size_t)count * sizeof *t);
  return TD_OK;
}

td_status ops_i8_finish_scaled(const base_call *call, const kern_i8_scales *s, const int32_t *sums, float *by) {
  const base_tensor *out = base_out(call, 0);
  kern_i8_direct d;
  const bool direct = kern_i8_is_direct(call->attrs, kern_i8_operands(call), &d);
  for (int64_t i = 0; i < out->dims[out->rank - 1]; i++) by[i] = s->x_scale * by[i] / (direct ? d.over : 1);
  return direct ? finish_direct(call, s, &d, sums, by) : finish_f32(call, s, sums, by);
}

td_status ops_i8_finish(const base_call *call, const kern_i8_layout *l, const kern_i8_scales *s, int32_t *sums) {
  const base_tensor *w = base_in(call, 1), *out = base_out(call, 0);
  const base_f32 *scales = (const base_f32 *)((const uint8_t *)w->data + l->columns * (int64_t)sizeof(int32_t));
  const base_i32 *bias = (const base_i32 *)(const void *)(scales + l->columns);
  const int64_t count = base_tensor_numel(out), n = l->groups * l->n;
  float *by = base_call_scratch(call, (size_t)n, sizeof *by);
  if (!by) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; i < n; i++) {
    const int64_t lane = kern_i8_column(l, i);
    by[i] = scales[lane];
    for (int64_t at = i; at < count; at += n) sums[at] += bias[lane];
  }
  return ops_i8_finish_scaled(call, s, sums, by);
}

/* ---- cases ---- */

static uint32_t next_random(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 24; }

bool ops_case_i8(ir_case *c, const kern_i8_window *window, int32_t rank, const int64_t *x_dims, uint32_t variant) {
  static const td_dtype types[] = {TD_F32, TD_F32, TD_U8, TD_I8, TD_U8, TD_F32};
  static const int64_t forms[OPS_I8_FORMS][2] = {{8, 2}, {16, 4}, {16, KERN_I8_TILE}};
  const uint32_t made = variant / OPS_I8_FORMS % OPS_COUNT(types);
  const int64_t panel = forms[variant % OPS_I8_FORMS][0], depth = forms[variant % OPS_I8_FORMS][1];
  const bool dynamic = made == 0 || made == 5;
  const td_dtype type = types[made];
  kern_i8_layout l;
  bool depthwise;
  if (!kern_i8_window_layout(window, panel, depth, &l, &depthwise)) return false;
  const int64_t columns = l.groups * l.n, count = columns * l.k;
  uint32_t state = (uint32_t)(l.k * 31 + l.n);
  int8_t *w = base_new(c->arena, int8_t, (size_t)(count + 1));
  float *scales = base_new(c->arena, float, (size_t)(columns + 1));
  int32_t *bias = base_new(c->arena, int32_t, (size_t)(columns + 1));
  uint8_t *packed = base_new(c->arena, uint8_t, (size_t)l.size + 1);
  if (!bias || !w || !scales || !packed || !ops_case_in(c, type, rank, x_dims, OPS_SPECIAL, variant)) return false;
  if (type == TD_F32 && !(c->in_count = 0, ops_case_in(c, type, rank, x_dims, OPS_NORMAL, variant))) return false;
  for (int64_t i = 0; i < count; i++) w[i] = (int8_t)(next_random(&state) - 128); /* the extremes, too */
  for (int64_t i = 0; i < columns; i++) scales[i] = (float)(next_random(&state) + 1) / 8192;
  for (int64_t i = 0; i < columns; i++) bias[i] = (int32_t)(next_random(&state) - 128) * 40;
  kern_pack_i8(&l, w, scales, dynamic ? NULL : bias, packed);
  c->in[c->in_count++] = base_tensor_of(packed, TD_U8, 1, &l.size);
  ops_case_arg(c, ARG_INT("panel8", panel));
  ops_case_arg(c, ARG_INT("depth", depth));
  ops_case_arg(c, ARG_FLOAT("x_scale", !dynamic ? 1.0 / 64 : l.n % 2 ? -0x1p-6 : 0));
  ops_case_arg(c, ARG_INT("x_zero", !dynamic ? 131 : l.k % 2 ? KERN_I8_REDUCED_STEPS : 0));
  ops_case_arg(c, ARG_FLOAT("y_scale", type == TD_F32 ? 0 : 0.37));
  ops_case_arg(c, ARG_INT("y_zero", type == TD_I8 ? -3 : type == TD_U8 ? 100 : 0));
  ops_case_arg(c, ARG_BOOL("y_signed", type == TD_I8));
  if (made >= 4) ops_case_arg(c, ARG_INT("w_shift", l.n % 2 ? 200 : -77));
  return true;
}

bool ops_case_i8_residual(ir_case *c, int32_t rank, const int64_t *dims, bool rounds) {
  if (dims[rank - 1] % 2 && !ops_case_in(c, TD_F32, OPS_DIMS(dims[rank - 1]), OPS_NORMAL, 18)) return false;
  const uint32_t used = c->in_count;
  if (!ops_case_in(c, c->in[0].dtype, rank, dims, OPS_SPECIAL, 17)) return false;
  c->in[KERN_IN_RESIDUAL] = c->in[used];
  for (uint32_t i = used; i < KERN_IN_RESIDUAL; i++) c->absent[i] = true;
  c->in_count = KERN_IN_RESIDUAL + 1;
  ops_case_arg(c, ARG_FLOAT("t_scale", rounds ? 0.25 : 0));
  ops_case_arg(c, ARG_INT("t_zero", 9));
  ops_case_arg(c, ARG_FLOAT("r_scale", 0.11));
  ops_case_arg(c, ARG_INT("r_zero", 140));
  return true;
}
