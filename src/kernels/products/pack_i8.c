/* pack_i8.c -- weights of products of 8-bit integers, and their scales. */
#include "kernels/products/pack_i8.h"

#include <math.h>
#include <string.h>

/* Elements of k that lie side by side. */
static int64_t dot_depth(int64_t depth) { return depth == KERN_I8_TILE ? 4 : depth; }

/* Of `runs` runs of k elements in all. */
static bool layout_of(int64_t groups, int64_t n, int64_t k, int64_t runs, int64_t panel, int64_t depth,
                      kern_i8_layout *l) {
  const int64_t column = 2 * sizeof(int32_t) + sizeof(float);
  int64_t bytes;
  if (groups < 1 || n < 0 || n > INT32_MAX || k < 0 || k > KERN_I8_MAX_K || (panel != 8 && panel != 16) ||
      (depth != 2 && depth != 4 && depth != KERN_I8_TILE))
    return false;
  *l = (kern_i8_layout){.groups = groups, .n = n, .k = k, .panel = panel, .depth = dot_depth(depth), .runs = runs};
  l->group_panels = (n + panel - 1) / panel;
  l->blocks = (k / runs + depth - 1) / depth;
  const int64_t dots = (k / runs + l->depth - 1) / l->depth, each = l->blocks ? (dots + l->blocks - 1) / l->blocks : 0;
  l->steps = runs * each * l->blocks;
  l->panel_bytes = l->steps * l->depth * panel;
  return base_mul_i64(groups, l->group_panels * panel, &l->columns) && base_mul_i64(l->columns, column, &l->data) &&
         base_mul_i64(l->columns / panel, l->panel_bytes, &bytes) && !__builtin_add_overflow(bytes, l->data, &l->size);
}

bool kern_i8_layout_of(int64_t n, int64_t k, int64_t panel, int64_t depth, kern_i8_layout *l) {
  return layout_of(1, n, k, 1, panel, depth, l);
}

int64_t kern_i8_column(const kern_i8_layout *l, int64_t channel) {
  return channel / l->n * l->group_panels * l->panel + channel % l->n;
}

/* Where the weights of a column begin; step after step stand panel * depth apart. */
static int64_t place(const kern_i8_layout *l, int64_t group, int64_t column) {
  const int64_t panel = group * l->group_panels + column / l->panel;
  return l->data + panel * l->panel_bytes + column % l->panel * l->depth;
}

/* A run of `k` weights of a column; `depth` of them are copied at once. */
static void pack_run(const int8_t *w, int64_t k, const int64_t depth, int64_t step, uint8_t *to) {
  for (; k >= depth; k -= depth, w += depth, to += step) memcpy(to, w, (size_t)depth);
  if (k > 0) memcpy(to, w, (size_t)k);
}

/* One column; gives the sum of its weights. */
static int32_t pack_column(const kern_i8_layout *l, const int8_t *w, uint8_t *to) {
  const int64_t run = l->k / l->runs, step = l->panel * l->depth;
  int32_t sum = 0;
  for (int64_t k = 0; k < l->k; k++) sum += w[k];
  for (int64_t r = 0; r < l->runs; r++, w += run, to += l->steps / l->runs * step) {
    if (l->depth == 4) pack_run(w, run, 4, step, to);
    else pack_run(w, run, 2, step, to);
  }
  return sum;
}

void kern_pack_i8(const kern_i8_layout *l, const int8_t *w, const float *scales, const int32_t *bias, uint8_t *to) {
  memset(to, 0, (size_t)l->size);
  for (int64_t g = 0; g < l->groups; g++)
    for (int64_t n = 0; n < l->n; n++, w += l->k) {
      const int64_t column = g * l->group_panels * l->panel + n;
      const int32_t sum = pack_column(l, w, to + place(l, g, n));
      memcpy(to + column * (int64_t)sizeof sum, &sum, sizeof sum);
      memcpy(to + (l->columns + column) * (int64_t)sizeof sum, scales + g * l->n + n, sizeof *scales);
      if (bias) memcpy(to + (2 * l->columns + column) * (int64_t)sizeof sum, bias + g * l->n + n, sizeof *bias);
    }
}

/* Taps of all axes but the last, padded. */
static int64_t rows_of(const kern_i8_window *w, int64_t depth) {
  depth = dot_depth(depth);
  return (w->kernel[0] * w->kernel[1] + depth - 1) / depth * depth;
}

kern_i8_window kern_i8_window_of(const kern_conv *c) {
  return (kern_i8_window){
      c->groups, c->group_in, c->group_out, {c->axis[0].kernel, c->axis[1].kernel, c->axis[2].kernel}};
}

bool kern_i8_takes_planes(const kern_conv *c) {
  const kern_conv_axis *a = &c->axis[KERN_CONV_AXES - 1];
  return c->groups == 1 && c->group_in <= KERN_I8_PLANES && a->kernel > 1 && a->dilation == 1 && a->stride <= a->kernel;
}

bool kern_i8_window_layout(const kern_i8_window *w, int64_t panel, int64_t depth, kern_i8_layout *l, bool *depthwise) {
  int64_t k = w->group_in;
  *depthwise = w->groups > 1 && w->group_in == 1 && w->group_out == 1;
  for (int i = 0; i < 3; i++)
    if (w->kernel[i] < 1 || !base_mul_i64(k, w->kernel[i], &k) || k > KERN_I8_MAX_K) return false;
  if (!*depthwise) return layout_of(w->groups, w->group_out, k, w->kernel[0] * w->kernel[1], panel, depth, l);
  return kern_i8_layout_of(w->groups, w->kernel[2] * rows_of(w, depth), panel, dot_depth(depth), l);
}

int64_t kern_i8_depthwise_k(const kern_i8_window *w, int64_t depth, int64_t tap) {
  return tap % w->kernel[2] * rows_of(w, depth) + tap / w->kernel[2];
}

int8_t kern_i8_weight(const kern_i8_layout *l, const uint8_t *packed, int64_t group, int64_t column, int64_t k) {
  const int64_t run = l->k / l->runs, step = k / run * (l->steps / l->runs) + k % run / l->depth;
  return (int8_t)packed[place(l, group, column) + step * l->panel * l->depth + k % run % l->depth];
}

int64_t kern_i8_depth(const kern_row *row) {
  const uint8_t depth = kern_signature_of(row)->depth;
  return depth ? depth : KERN_I8_TILE;
}

kern_i8_scales kern_i8_scales_of(const base_attrs *a) {
  const uint32_t at = a->count - KERN_EPILOGUE_ATTRS - KERN_I8_ATTRS;
  const bool is_signed = base_attr_int(a, at + KERN_I8_Y_SIGNED) != 0;
  return (kern_i8_scales){.panel = base_attr_int(a, at + KERN_I8_PANEL),
                          .depth = base_attr_int(a, at + KERN_I8_DEPTH),
                          .x_scale = (float)base_attr_float(a, at + KERN_I8_X_SCALE),
                          .x_zero = (float)base_attr_int(a, at + KERN_I8_X_ZERO),
                          .y_scale = (float)base_attr_float(a, at + KERN_I8_Y_SCALE),
                          .y_zero = (float)base_attr_int(a, at + KERN_I8_Y_ZERO),
                          .least = is_signed ? -128 : 0,
                          .most = is_signed ? 127 : 255,
                          .t_scale = (float)base_attr_float(a, at + KERN_I8_T_SCALE),
                          .t_zero = (float)base_attr_int(a, at + KERN_I8_T_ZERO),
                          .r_scale = (float)base_attr_float(a, at + KERN_I8_R_SCALE),
                          .r_zero = (float)base_attr_int(a, at + KERN_I8_R_ZERO),
                          .w_shift = (int32_t)base_attr_int(a, at + KERN_I8_W_SHIFT)};
}

uint32_t kern_i8_operands(const base_call *call) {
  uint32_t operands = 0;
  for (uint32_t i = 0; i < KERN_EPILOGUE_END; i++) operands |= (uint32_t)(base_in(call, i) != NULL) << i;
  return operands;
}

bool kern_i8_is_direct(const base_attrs *a, uint32_t operands, kern_i8_direct *d) {
  const uint32_t at = a->count - KERN_EPILOGUE_ATTRS;
  const kern_i8_scales s = kern_i8_scales_of(a);
  const kern_act act = kern_act_find(base_attr_str(a, at + KERN_EPILOGUE_ACT));
  const bool limits = act == KERN_ACT_relu || act == KERN_ACT_clamp, given = operands >> KERN_IN_RESIDUAL & 1;
  *d = (kern_i8_direct){.residual = given && s.r_scale > 0, .rounds = s.t_scale > 0, .least = s.least, .most = s.most};
  const bool vectors = (operands & (1 << KERN_IN_SCALE | 1 << KERN_IN_SHIFT)) != 0;
  if (!(s.y_scale > 0) || vectors || given != d->residual || (act != KERN_ACT_none && !limits) ||
      base_attr_has(a, at + KERN_EPILOGUE_CHAIN) || (limits && given && !base_attr_int(a, at + KERN_EPILOGUE_LATE)))
    return false;
  const float low = act == KERN_ACT_clamp ? (float)base_attr_float(a, at + KERN_EPILOGUE_ACT_A) : 0,
              high = act == KERN_ACT_clamp ? (float)base_attr_float(a, at + KERN_EPILOGUE_ACT_B) : INFINITY;
  if (limits) d->least = fminf(fmaxf(nearbyintf(low / s.y_scale) + s.y_zero, s.least), s.most);
  if (limits) d->most = fmaxf(fminf(nearbyintf(high / s.y_scale) + s.y_zero, s.most), d->least);
  d->over = given && d->rounds ? s.t_scale : s.y_scale;
  d->t_by = d->rounds ? s.t_scale / s.y_scale : 1;
  d->r_by = s.r_scale / s.y_scale;
  d->least_t = s.least - s.t_zero;
  d->most_t = s.most - s.t_zero;
  return true;
}

void kern_i8_range(float low, float high, kern_i8_scales *s) {
  const float steps = s->x_zero > 0 ? s->x_zero : UINT8_MAX;
  s->x_scale = fmaxf((high - low) / steps, -s->x_scale);
  s->x_zero = s->x_scale > 0 ? nearbyintf(fminf(fmaxf(-low / s->x_scale, 0), steps)) : 0;
}
