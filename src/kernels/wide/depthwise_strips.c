/* depthwise_strips.c -- the strips of depthwise_strips_priv.h: one function for every window and width that networks
 * have. */
#include "kernels/depthwise_strips_priv.h"

enum { MAX_WIDTH = 14 };

/* `whole`: no input column lies outside. Else, with stride 1, some of the first or the last taps / 2 do (depthwise_form
 * sees to it; a strip of one pixel takes any). Strides ask for every column: compilers spill less in short pieces. */
V_INLINE void run_strip(const depthwise_strip *of, int taps, int stride, int width, bool whole) {
  const depthwise_strip s = *of;
  const vf low = v_set(s.low), high = v_set(s.high);
  const uintptr_t step = (uintptr_t)s.in_pitch * sizeof(float);
  const int count = (width - 1) * stride + taps;
  for (int64_t block = 0; block < s.channels; block += V_LANES) {
    const int64_t c = base_min_i64(block, s.channels - V_LANES);
    const uintptr_t at = (uintptr_t)(s.at + c) * sizeof(float);
    const float *w = s.w + c;
    uint32_t columns = s.columns;
    vf sum[MAX_WIDTH], tap[7];
    const vf start = s.bias ? v_load(s.bias + c) : v_zero();
    V_UNROLL
    for (int i = 0; i < width; i++) sum[i] = start;
    for (int64_t r = 0; r < s.rows; r++, w += taps * s.w_pitch) {
      V_UNROLL
      for (int t = 0; t < taps; t++) tap[t] = v_load(w + t * s.w_pitch);
      uintptr_t third = (uintptr_t)s.lines[r] + at; /* a number: it may point out of the image */
      if (!whole) V_OPAQUE(columns);
      V_UNROLL
      for (int j = 0; j < count; j++) {
        const int first = j < taps ? 0 : (j - taps) / stride + 1, last = j / stride < width ? j / stride : width - 1;
        const bool edge = stride > 1 || width == 1 || j < taps / 2 || j >= count - taps / 2;
        if (j % 3 == 0 && j) third += 3 * step;
        if (j % 3 == 0) V_OPAQUE(third);
        if (!whole && edge && !(columns >> j & 1)) continue;
        vf in = v_load((const float *)(third + (uintptr_t)(j % 3) * step));
        if (first < last) in = v_keep(in); /* else it can be an operand in memory */
        V_UNROLL
        for (int i = 0; i < width; i++)
          if (first <= i && i <= last) sum[i] = v_fma(in, tap[j - i * stride], sum[i]);
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

/* STRIP(taps of a row, stride, width): what networks have. 14 sums hide the latency of two multiply-adds a cycle where
 * 7 or 8 do so barely, on AVX2, as long as there is work for the weights that then come from memory; wider registers,
 * one multiply-add a cycle, gain from them where there are few taps to a weight. Levels for any machine have what keeps
 * the code tested: theirs is long, as they have no wide registers. */
#if defined KERN_LEVEL_avx2 || defined KERN_LEVEL_avx512
#define STRIPS(taps, stride) STRIP(taps, stride, 1) STRIP(taps, stride, 4) STRIP(taps, stride, 7) STRIP(taps, stride, 8)
#if defined KERN_LEVEL_avx512
#define LONG_STRIPS STRIP(3, 1, 14)
#else
#define LONG_STRIPS STRIP(5, 1, 14) STRIP(7, 1, 14)
#endif
#define ALL_STRIPS STRIPS(3, 1) STRIPS(3, 2) STRIPS(5, 1) STRIPS(5, 2) STRIPS(7, 1) LONG_STRIPS
#else
#define ALL_STRIPS STRIP(3, 1, 1) STRIP(3, 1, 4) STRIP(3, 2, 1) STRIP(5, 1, 1) STRIP(5, 2, 1) STRIP(5, 2, 4)
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
  int64_t behind = (v->out - 1) * v->stride - v->begin + v->kernel - v->in;
  bool wide = v->begin <= v->kernel / 2 && behind <= v->kernel / 2;
  const depthwise_form *best = NULL;
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const depthwise_form *s = &forms[i];
    if (s->taps != v->kernel || s->stride != v->stride || s->width > (wide ? v->out : 1)) continue;
    int64_t pixels = (v->out + s->width - 1) / s->width * s->width;
    if (pixels > least) continue;
    least = pixels;
    best = s;
  }
  return best;
}

/* What depends on the strip's first output column. */
static void set_columns(depthwise_strip *s, const depthwise_form *form, const kern_conv_axis *v, int64_t o) {
  int64_t start = o * v->stride - v->begin, count = (form->width - 1) * form->stride + form->taps;
  int64_t first = base_min_i64(base_max_i64(-start, 0), count);
  int64_t last = base_min_i64(base_max_i64(v->in - start, first), count);
  s->at = start * s->in_pitch;
  s->columns = (uint32_t)((1u << last) - (1u << first));
}

/* Strips run down the rows, so that the window's lines stay in the first-level cache. */
void KERN_NAME(depthwise_rows)(const depthwise_part *p, int64_t row, int64_t end) {
  const kern_conv_axis *h = &p->conv->axis[1], *v = &p->conv->axis[2];
  const int64_t width = p->form->width, line_size = v->in * p->strip.in_pitch;
  const float *lines[DEPTHWISE_MAX_ROWS];
  depthwise_strip s = p->strip;
  s.lines = lines;
  for (int64_t o = 0; o < v->out; o += width) {
    o = base_min_i64(o, v->out - width);
    set_columns(&s, p->form, v, o);
    for (int64_t r = row; r < end; r++) {
      int64_t first, last, top = r * h->stride - h->begin, pixel = r * v->out + o;
      depthwise_inside(h, r, &first, &last);
      for (int64_t t = first; t < last; t++) {
        int64_t line = top + t * h->dilation;
        lines[t - first] = p->x + (line < p->ring ? line : line % p->ring) * line_size;
      }
      s.w = p->strip.w + first * v->kernel * s.w_pitch;
      s.rows = last - first;
      s.y = p->strip.y + pixel * s.out_pitch;
      p->form->run(&s);
      if (!p->rest) continue;
      const kern_epilogue rest = kern_epilogue_at(p->rest, pixel, 0);
      KERN_NAME(epilogue_rows)(&rest, s.y, s.out_pitch, width, s.channels);
    }
  }
}
