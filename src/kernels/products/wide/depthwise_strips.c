/* depthwise_strips.c -- the strips of depthwise_strips_priv.h: one function for every window and width that networks
 * have. */
#include "kernels/products/depthwise_strips_priv.h"

enum { MAX_WIDTH = 14, LATENCY = 4, LONG = 8 /* strips of a row */ };

/* `whole`: no input column lies outside. Else, with stride 1, some of the first or the last taps / 2 do (depthwise_form
 * sees to it; a strip of one pixel takes any). Strides ask for every column: compilers spill less in short pieces. */
V_TEMPLATE void run_strip(const depthwise_strip *of, int taps, int stride, int width, bool whole) {
  const depthwise_strip s = *of;
  const vf low = v_set(s.low), high = v_set(s.high);
  const uintptr_t step = (uintptr_t)s.in_pitch * sizeof(float);
  const int count = (width - 1) * stride + taps;
  for (int64_t block = 0; block < s.channels; block += V_LANES) {
    const int64_t c = base_min_i64(block, s.channels - V_LANES);
    const uintptr_t at = (uintptr_t)(s.at + c) * sizeof(float);
    uint32_t columns = s.columns;
    vf sum[MAX_WIDTH], tap[7];
    const vf start = s.bias ? v_load(s.bias + c) : v_zero();
    V_UNROLL
    for (int i = 0; i < width; i++) sum[i] = start;
    for (int64_t r = 0; r < s.rows; r++) {
      const float *w = s.w_rows[r] + c;
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

/* The same for any row of taps. `part`: there are not V_LANES channels. */
V_TEMPLATE void run_any(const depthwise_strip *of, const int width, const bool whole, const bool part) {
  const depthwise_strip s = *of;
  const vf low = v_set(s.low), high = v_set(s.high);
  const int64_t taps = s.across->kernel, lanes = part ? s.channels : V_LANES;
  const uintptr_t step = (uintptr_t)(s.in_pitch * s.across->stride) * sizeof(float);
  const uintptr_t next = (uintptr_t)(s.in_pitch * s.across->dilation) * sizeof(float);
  const uint32_t all = (1u << width) - 1;
  for (int64_t block = 0; block < s.channels; block += V_LANES) {
    const int64_t c = part ? 0 : base_min_i64(block, s.channels - V_LANES);
    const uintptr_t at = (uintptr_t)(s.at + c) * sizeof(float);
    vf sum[MAX_WIDTH];
    const vf start = !s.bias ? v_zero() : part ? v_load_n(s.bias, lanes) : v_load(s.bias + c);
    V_FOR(i, width) sum[i] = start;
    for (int64_t r = 0; r < s.rows; r++) {
      const float *w = s.w_rows[r] + c;
      uintptr_t line = (uintptr_t)s.lines[r] + at; /* a number: it may point out of the image */
      for (int64_t t = 0; t < taps; t++, line += next, w += s.w_pitch) {
        const vf tap = part ? v_load_n(w, lanes) : v_load(w);
        const uint32_t inside = whole ? all : s.inside[t];
        if (!inside) continue;
        uintptr_t third = line;
        if (!part && inside == all) { /* most taps of a long window, even at the edges */
          V_FOR(i, width) {
            if (i % 3 == 0 && i) third += 3 * step;
            if (i % 3 == 0) V_OPAQUE(third);
            sum[i] = v_fma(v_load((const float *)(third + (uintptr_t)(i % 3) * step)), tap, sum[i]);
          }
          continue;
        }
        V_FOR(i, width) {
          if (i % 3 == 0 && i) third += 3 * step;
          if (i % 3 == 0) V_OPAQUE(third);
          if (!(inside >> i & 1)) continue;
          const float *in = (const float *)(third + (uintptr_t)(i % 3) * step);
          sum[i] = v_fma(part ? v_load_n(in, lanes) : v_load(in), tap, sum[i]);
        }
      }
    }
    float *y = s.y + c;
    V_FOR(i, width) {
      const vf value = s.limited ? v_min(high, v_max(low, sum[i])) : sum[i];
      V_OPAQUE(y);
      if (part) v_store_n(y, value, lanes);
      else v_store(y, value);
      y += s.out_pitch;
    }
  }
}

#define ANY(width)                                             \
  static void any_##width(const depthwise_strip *s) {          \
    if (s->channels < V_LANES) run_any(s, width, false, true); \
    else if (s->whole) run_any(s, width, true, false);         \
    else run_any(s, width, false, false);                      \
  }
#if V_NATIVE
#define ANY_STRIPS ANY(1) ANY(4) ANY(7) ANY(8)
#else
#define ANY_STRIPS ANY(1) ANY(4)
#endif
ANY_STRIPS
#undef ANY

/* STRIP(taps of a row, stride, width): what networks have. 14 sums hide the latency of two multiply-adds a cycle where
 * 7 or 8 do so barely, on AVX2, as long as there is work for the weights that then come from memory; wider registers,
 * one multiply-add a cycle, gain from them where there are few taps to a weight. Levels for any machine have what keeps
 * the code tested: theirs is long, as they have no wide registers. */
#if V_NATIVE
#define STRIPS(taps, stride) STRIP(taps, stride, 1) STRIP(taps, stride, 4) STRIP(taps, stride, 7) STRIP(taps, stride, 8)
#if V_REGISTERS == 32
#define LONG_STRIPS STRIP(3, 1, 5) STRIP(3, 1, 14)
#else
#define LONG_STRIPS STRIP(3, 1, 5) STRIP(5, 1, 14) STRIP(7, 1, 14)
#endif
#define ALL_STRIPS STRIPS(3, 1) STRIPS(3, 2) STRIPS(5, 1) STRIPS(5, 2) STRIPS(7, 1) LONG_STRIPS
#else
#define ALL_STRIPS STRIP(3, 1, 1) STRIP(3, 1, 4) STRIP(3, 2, 1) STRIP(5, 1, 1) STRIP(5, 2, 1) STRIP(5, 2, 4)
#endif
/* Long rows of taps at stride 1 ask at their ends alone, which costs less than a second copy of the code. */
#define WHOLE(taps, stride, width) ((stride > 1 || taps < 5) && s->columns == (1u << ((width - 1) * stride + taps)) - 1)
#define STRIP(taps, stride, width)                                           \
  static void strip_##taps##_##stride##_##width(const depthwise_strip *s) {  \
    if (WHOLE(taps, stride, width)) run_strip(s, taps, stride, width, true); \
    else run_strip(s, taps, stride, width, false);                           \
  }
ALL_STRIPS
#undef STRIP
#undef WHOLE

/* CUT(taps, width): rows of so many taps of which longer ones are made up, the longest first. */
#if V_NATIVE
#define CUTS(taps) CUT(taps, 4) CUT(taps, 7) CUT(taps, 8)
#define ALL_CUTS CUTS(7) CUTS(5) CUTS(3)
#else
#define ALL_CUTS CUT(3, 4)
#endif

#define STRIP(taps, stride, width) {taps, stride, width, strip_##taps##_##stride##_##width, 0, NULL},
#define ANY(width) {0, 0, width, any_##width, 0, NULL},
#define CUT(taps, width) {0, 0, width, any_##width, taps, strip_##taps##_1_##width},
static const depthwise_form forms[] = {ALL_STRIPS}, any_forms[] = {ANY_STRIPS}, cut_forms[] = {ALL_CUTS};
#undef STRIP
#undef ANY
#undef CUT

static bool is_made_for(const depthwise_form *form, const kern_conv *c) {
  const kern_conv_axis *v = &c->axis[2];
  const int64_t behind = (v->out - 1) * v->stride - v->begin + v->kernel - v->in;
  const bool wide = v->begin <= v->kernel / 2 && behind <= v->kernel / 2;
  return c->groups >= V_LANES && v->dilation == 1 && form->taps == v->kernel && form->stride == v->stride &&
         form->width <= (wide ? v->out : 1);
}

/* The general form with rows of taps cut into parts, where that can be. */
static const depthwise_form *cut(const depthwise_form *form, const kern_conv *c) {
  const kern_conv_axis *v = &c->axis[2];
  const int64_t rows = c->axis[0].kernel * c->axis[1].kernel;
  if (v->stride > 1 || v->dilation > 1 || c->groups < V_LANES) return form;
  for (size_t i = 0; i < sizeof cut_forms / sizeof *cut_forms; i++) {
    const depthwise_form *f = &cut_forms[i];
    if (f->width == form->width && v->kernel % f->part == 0 && rows * (v->kernel / f->part) <= KERN_DEPTHWISE_ROWS)
      return f;
  }
  return form;
}

const depthwise_form *KERN_NAME(depthwise_form)(const kern_conv *c) {
  const kern_conv_axis *v = &c->axis[2];
  const depthwise_form *best = NULL;
  int64_t least = INT64_MAX;
  if (c->axis[0].kernel * c->axis[1].kernel > KERN_DEPTHWISE_ROWS || v->kernel > KERN_DEPTHWISE_TAPS) return NULL;
  for (int general = 0; general < 2 && !best; general++) {
    const depthwise_form *list = general ? any_forms : forms;
    const size_t count = general ? sizeof any_forms / sizeof *any_forms : sizeof forms / sizeof *forms;
    for (size_t i = 0; i < count; i++) {
      const depthwise_form *s = &list[i];
      if (general ? s->width > v->out : !is_made_for(s, c)) continue;
      /* Fewer sums than hide a multiply-add's latency take as long as so many. */
      const int64_t time = (v->out + s->width - 1) / s->width * base_max_i64(s->width, LATENCY);
      if (time > least) continue;
      least = time;
      best = s;
    }
  }
  return best && !best->taps ? cut(best, c) : best;
}

/* What depends on the strip's first output column. */
static void set_columns(depthwise_strip *s, const depthwise_form *form, const kern_conv_axis *v, int64_t o,
                        uint32_t *inside) {
  int64_t start = o * v->stride - v->begin;
  s->at = start * s->in_pitch;
  const uint32_t all = (1u << form->width) - 1;
  const int64_t wide = (form->width - 1) * v->stride;
  s->whole = start >= 0 && start + wide + (v->kernel - 1) * v->dilation < v->in;
  for (int64_t t = 0, at = start; !form->taps && t < v->kernel; t++, at += v->dilation) {
    inside[t] = all;
    if (at >= 0 && at + wide < v->in) continue;
    inside[t] = 0;
    for (int64_t i = 0; i < form->width; i++)
      inside[t] |= (uint32_t)(at + i * v->stride >= 0 && at + i * v->stride < v->in) << i;
  }
  if (!form->taps) return;
  int64_t count = (form->width - 1) * form->stride + form->taps;
  int64_t first = base_min_i64(base_max_i64(-start, 0), count);
  int64_t last = base_min_i64(base_max_i64(v->in - start, first), count);
  s->columns = (uint32_t)((1u << last) - (1u << first));
}

/* The tap rows inside the image under output line `y` of a plane. */
static void set_rows(depthwise_strip *s, const depthwise_part *p, int64_t plane, int64_t y, const float **lines,
                     const float **w_rows) {
  const kern_conv_axis *d = &p->conv->axis[0], *h = &p->conv->axis[1], *v = &p->conv->axis[2];
  const int64_t tap_row = v->kernel * s->w_pitch;
  int64_t from, to, first, last;
  depthwise_inside(d, plane, &from, &to);
  depthwise_inside(h, y, &first, &last);
  s->rows = 0;
  for (int64_t z = from; z < to; z++) {
    int64_t line = (plane * d->stride - d->begin + z * d->dilation) * h->in + y * h->stride - h->begin;
    const float *w = p->strip.w + z * h->kernel * tap_row;
    for (int64_t t = first; t < last; t++, s->rows++) {
      const int64_t at = line + t * h->dilation - p->first;
      lines[s->rows] = p->x + (at < p->ring ? at : at % p->ring) * p->line;
      w_rows[s->rows] = w + t * tap_row;
    }
  }
}

/* The same for forms made for a window, over an image of one plane. A strip of few channels takes 50 ns: this may take
 * little of it. */
static void set_plane_rows(depthwise_strip *s, const depthwise_part *p, int64_t y, const float **lines,
                           const float **w_rows) {
  const kern_conv_axis *h = &p->conv->axis[1], *v = &p->conv->axis[2];
  int64_t first, last;
  depthwise_inside(h, y, &first, &last);
  int64_t at = y * h->stride - h->begin + first * h->dilation - p->first;
  const float *w = p->strip.w + first * v->kernel * s->w_pitch;
  s->rows = last - first;
  for (int64_t i = 0; i < s->rows; i++, at += h->dilation, w += v->kernel * s->w_pitch) {
    if (at >= p->ring) at %= p->ring;
    lines[i] = p->x + at * p->line;
    w_rows[i] = w;
  }
}

/* Rows of taps become several shorter ones each. */
static void cut_rows(depthwise_strip *s, const depthwise_form *form, const float **lines, const float **w_rows) {
  const int64_t parts = s->across->kernel / form->part;
  for (int64_t i = s->rows * parts; i-- > 0;) {
    const int64_t taps = i % parts * form->part;
    lines[i] = lines[i / parts] + taps * s->in_pitch;
    w_rows[i] = w_rows[i / parts] + taps * s->w_pitch;
  }
  s->rows *= parts;
  s->columns = (1u << (form->width + form->part - 1)) - 1;
}

/* The scale and the shift of a strip that was just made. */
static void scale_strip(const depthwise_strip *s, int64_t width) {
  for (int64_t c = 0; c < s->channels; c += V_LANES) {
    const int64_t lanes = base_min_i64(V_LANES, s->channels - c);
    const vf scale = s->scale ? v_load_n(s->scale + c, lanes) : v_set(1);
    const vf shift = s->shift ? v_load_n(s->shift + c, lanes) : v_set(-0.0f);
    float *y = s->y + c;
    for (int64_t i = 0; i < width; i++, y += s->out_pitch)
      v_store_n(y, v_add(v_mul(v_load_n(y, lanes), scale), shift), lanes);
  }
}

/* What strips leave of the epilogue, on the one that was just made, whose first pixel is `pixel` of the sample. */
V_INLINE void finish_strip(const depthwise_part *p, const depthwise_strip *s, int64_t pixel) {
  if (s->scale || s->shift) scale_strip(s, p->form->width);
  if (p->rest) {
    const kern_epilogue rest = kern_epilogue_at(p->rest, pixel, 0);
    KERN_NAME(epilogue_rows)(&rest, s->y, s->out_pitch, p->form->width, s->channels);
  }
  for (int64_t i = 0; p->narrow && i < p->form->width; i++)
    p->narrow((float *)(void *)(p->y_16 + (pixel + i) * p->pitch_16), s->y + i * s->out_pitch, s->channels);
}

static float *strip_at(const depthwise_part *p, int64_t pixel) {
  return p->narrow ? p->strip.y : p->strip.y + pixel * p->strip.out_pitch;
}

/* Strips along the rows of a plane, for forms made for a window: of few channels a long row is read and written as one
 * stream, which the machine foresees, where strips down the rows wait for each line. */
static void run_along(const depthwise_part *p, depthwise_strip *s, int64_t row, int64_t end, const float **lines,
                      const float **w_rows) {
  const kern_conv_axis *v = &p->conv->axis[2];
  for (int64_t y = row; y < end; y++) {
    set_plane_rows(s, p, y, lines, w_rows);
    for (int64_t o = 0; o < v->out; o += p->form->width) {
      o = base_min_i64(o, v->out - p->form->width);
      set_columns(s, p->form, v, o, NULL);
      s->y = strip_at(p, y * v->out + o);
      p->form->run(s);
      finish_strip(p, s, y * v->out + o);
    }
  }
}

/* Strips run down the rows where they can, so that the window's lines stay in the first-level cache. */
void KERN_NAME(depthwise_rows)(const depthwise_part *p, int64_t row, int64_t end) {
  const kern_conv_axis *v = &p->conv->axis[2];
  const kern_conv_axis *deep = &p->conv->axis[0];
  const bool plane_alone = deep->in == 1 && deep->out == 1 && deep->kernel == 1 && deep->begin == 0;
  const int64_t width = p->form->width, height = p->conv->axis[1].out;
  const int64_t first_plane = row < end ? row / height : 0; /* an image may have no lines */
  const float *lines[KERN_DEPTHWISE_ROWS], *w_rows[KERN_DEPTHWISE_ROWS];
  uint32_t inside[KERN_DEPTHWISE_TAPS];
  depthwise_strip s = p->strip;
  s.lines = lines;
  s.w_rows = w_rows;
  s.across = v;
  s.inside = inside;
  if (p->form->taps && plane_alone && s.channels <= 2 * V_LANES && v->out > LONG * width) {
    run_along(p, &s, row, end, lines, w_rows);
    return;
  }
  for (int64_t o = 0; o < v->out; o += width) {
    o = base_min_i64(o, v->out - width);
    set_columns(&s, p->form, v, o, inside);
    int64_t plane = first_plane, y = row - plane * height; /* no division per strip: few channels are soon done */
    for (int64_t r = row; r < end; r++, y++) {
      if (y == height) plane++, y = 0;
      int64_t pixel = r * v->out + o;
      if (p->form->taps && plane_alone) set_plane_rows(&s, p, y, lines, w_rows);
      else set_rows(&s, p, plane, y, lines, w_rows);
      s.y = strip_at(p, pixel);
      const bool parts = p->form->part && s.whole;
      if (parts) cut_rows(&s, p->form, lines, w_rows);
      (parts ? p->form->run_parts : p->form->run)(&s);
      finish_strip(p, &s, pixel);
    }
  }
}
