/* depthwise_strips.c -- the strips of depthwise_strips_priv.h: one function for every window and width that networks
 * have. */
#include "kernels/depthwise_strips_priv.h"

/* `whole`: no input column lies outside. */
V_INLINE void run_strip(const depthwise_strip *of, int taps, int stride, int width, bool whole) {
  const depthwise_strip s = *of;
  const vf low = v_set(s.low), high = v_set(s.high);
  const uintptr_t step = (uintptr_t)s.in_pitch * sizeof(float);
  for (int64_t block = 0; block < s.channels; block += V_LANES) {
    const int64_t c = base_min_i64(block, s.channels - V_LANES);
    const uintptr_t at = (uintptr_t)(s.at + c) * sizeof(float);
    const float *w = s.w + c;
    uint32_t columns = s.columns;
    vf sum[8], tap[7];
    const vf start = s.bias ? v_load(s.bias + c) : v_zero();
    V_UNROLL
    for (int i = 0; i < width; i++) sum[i] = start;
    for (int64_t r = 0; r < s.rows; r++, w += taps * s.w_pitch) {
      V_UNROLL
      for (int t = 0; t < taps; t++) tap[t] = v_load(w + t * s.w_pitch);
      uintptr_t third = (uintptr_t)s.lines[r] + at; /* a number: it may point out of the image */
      if (!whole) V_OPAQUE(columns);
      V_UNROLL
      for (int j = 0; j < (width - 1) * stride + taps; j++) {
        if (j % 3 == 0 && j) third += 3 * step;
        if (j % 3 == 0) V_OPAQUE(third);
        if (!whole && !(columns >> j & 1)) continue;
        const vf in = v_keep(v_load((const float *)(third + (uintptr_t)(j % 3) * step)));
        V_UNROLL
        for (int i = 0; i < width; i++) {
          const int t = j - i * stride;
          if (t >= 0 && t < taps) sum[i] = v_fma(in, tap[t], sum[i]);
        }
      }
    }
    float *y = s.y + c;
    V_UNROLL
    for (int i = 0; i < width; i++, y += s.out_pitch) {
      V_OPAQUE(y);
      v_store(y, s.limited ? v_min(high, v_max(low, sum[i])) : sum[i]);
    }
  }
}

/* STRIP(taps of a row, stride, width): what networks have. Levels for any machine have what keeps the code tested:
 * theirs is long, as they have no wide registers. */
#if defined KERN_LEVEL_avx2 || defined KERN_LEVEL_avx512
#define STRIPS(taps, stride) STRIP(taps, stride, 1) STRIP(taps, stride, 4) STRIP(taps, stride, 7) STRIP(taps, stride, 8)
#define ALL_STRIPS STRIPS(3, 1) STRIPS(3, 2) STRIPS(5, 1) STRIPS(5, 2) STRIPS(7, 1)
#else
#define ALL_STRIPS STRIP(3, 1, 1) STRIP(3, 1, 4) STRIP(5, 2, 1) STRIP(5, 2, 4)
#endif
#define STRIP(taps, stride, width)                                                                        \
  static void strip_##taps##_##stride##_##width(const depthwise_strip *s) {                               \
    if (s->columns == (1u << ((width - 1) * stride + taps)) - 1) run_strip(s, taps, stride, width, true); \
    else run_strip(s, taps, stride, width, false);                                                        \
  }
ALL_STRIPS
#undef STRIP

static const depthwise_form forms[] = {
#define STRIP(taps, stride, width) {taps, stride, width, strip_##taps##_##stride##_##width},
    ALL_STRIPS
#undef STRIP
};

const depthwise_form *KERN_NAME(depthwise_form)(const kern_conv *c) {
  const kern_conv_axis *depth = &c->axis[0], *h = &c->axis[1], *v = &c->axis[2];
  if (c->groups < V_LANES || v->dilation != 1 || depth->in != 1 || depth->out != 1 || depth->kernel != 1 ||
      depth->begin != 0 || h->kernel > DEPTHWISE_MAX_ROWS)
    return NULL;
  const depthwise_form *best = NULL;
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const depthwise_form *s = &forms[i];
    if (s->taps != v->kernel || s->stride != v->stride || s->width > v->out) continue;
    int64_t pixels = (v->out + s->width - 1) / s->width * s->width;
    if (pixels > least) continue;
    least = pixels;
    best = s;
  }
  return best;
}
