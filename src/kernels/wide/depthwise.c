/* depthwise.c -- KERN_DEPTHWISE: td::depthwise_conv, weights packed as [taps, channels] (panel 1). Every channel is a
 * sum of its own, so vectors lie along the channels.
 *
 * The fast form makes a strip of up to 8 output pixels of one row at a time: an input vector is loaded once and added
 * to all the sums of the strip that it belongs to, while a tap row's weights stay in registers. Strips run down the
 * rows of a task, so that the window's lines stay in the first-level cache. Taps outside the image are left out by a
 * bit mask of the strip's input columns and by the range of its tap rows. The last strip of a row, and the last vector
 * of the channels, overlap their neighbours instead of being short.
 *
 * Any sum is taken over its taps in order, those outside left out: bits depend on nothing else. */
#include "kernels/conv.h"
#include "kernels/epilogue_priv.h"

/* Multiplications of a task, at least, and tasks per sample to aim at. */
enum { TASK_WORK = 128 * 1024, TASKS = 32, BLOCK = 64 /* channels */ };

/* A row of output pixels, or a part of one, over some channels. Offsets count elements of x. */
typedef struct strip {
  const float *x, *w, *bias; /* w: first tap row; bias may be NULL */
  float *y;
  int64_t at;           /* of the first pixel's first tap; it may lie outside the image */
  int64_t x_row, w_row; /* from tap row to tap row */
  int64_t pitch;        /* from pixel to pixel */
  int64_t channels;     /* at least V_LANES */
  int64_t rows;         /* tap rows inside the image */
  uint32_t columns;     /* bit j: input column j of the strip is inside the image */
  bool limited;         /* what comes out is at least `low` and at most `high` */
  float low, high;
} strip;

/* `whole`: no input column lies outside. */
V_INLINE void run_strip(const strip *of, int taps, int stride, int width, bool whole) {
  const strip s = *of;
  const vf low = v_set(s.low), high = v_set(s.high);
  for (int64_t block = 0; block < s.channels; block += V_LANES) {
    const int64_t c = base_min_i64(block, s.channels - V_LANES);
    int64_t at = s.at + c;
    const float *w = s.w + c;
    uint32_t columns = s.columns;
    vf sum[8], tap[7];
    const vf start = s.bias ? v_load(s.bias + c) : v_zero();
    V_UNROLL
    for (int i = 0; i < width; i++) sum[i] = start;
    for (int64_t r = s.rows; r > 0; r--, at += s.x_row, w += s.w_row) {
      V_UNROLL
      for (int t = 0; t < taps; t++) tap[t] = v_load(w + t * s.pitch);
      int64_t third = at;
      if (!whole) V_OPAQUE(columns);
      V_UNROLL
      for (int j = 0; j < (width - 1) * stride + taps; j++) {
        if (j % 3 == 0 && j) third += 3 * s.pitch;
        if (j % 3 == 0) V_OPAQUE(third);
        if (!whole && !(columns >> j & 1)) continue;
        const vf in = v_keep(v_load(s.x + third + j % 3 * s.pitch));
        V_UNROLL
        for (int i = 0; i < width; i++) {
          const int t = j - i * stride;
          if (t >= 0 && t < taps) sum[i] = v_fma(in, tap[t], sum[i]);
        }
      }
    }
    float *y = s.y + c;
    V_UNROLL
    for (int i = 0; i < width; i++, y += s.pitch) {
      V_OPAQUE(y);
      v_store(y, s.limited ? v_min(high, v_max(low, sum[i])) : sum[i]);
    }
  }
}

typedef void (*strip_fn)(const strip *s);
/* STRIP(taps of a row, stride, width): what networks have. Levels for any machine have what keeps the code tested:
 * theirs is long, as they have no wide registers. */
#if defined KERN_LEVEL_avx2 || defined KERN_LEVEL_avx512
#define STRIPS(taps, stride) STRIP(taps, stride, 1) STRIP(taps, stride, 4) STRIP(taps, stride, 7) STRIP(taps, stride, 8)
#define ALL_STRIPS STRIPS(3, 1) STRIPS(3, 2) STRIPS(5, 1) STRIPS(5, 2) STRIPS(7, 1)
#else
#define ALL_STRIPS STRIP(3, 1, 1) STRIP(3, 1, 4) STRIP(5, 2, 1) STRIP(5, 2, 4)
#endif
#define STRIP(taps, stride, width)                                                                        \
  static void strip_##taps##_##stride##_##width(const strip *s) {                                         \
    if (s->columns == (1u << ((width - 1) * stride + taps)) - 1) run_strip(s, taps, stride, width, true); \
    else run_strip(s, taps, stride, width, false);                                                        \
  }
ALL_STRIPS
#undef STRIP

static const struct strip_row {
  uint8_t taps, stride, width;
  strip_fn run;
} strips[] = {
#define STRIP(taps, stride, width) {taps, stride, width, strip_##taps##_##stride##_##width},
    ALL_STRIPS
#undef STRIP
};

typedef struct job {
  kern_conv conv;
  const float *x, *w;
  float *y;
  const float *bias;
  kern_epilogue rest;           /* of the epilogue, without the bias */
  const struct strip_row *form; /* NULL: the general form */
  bool cheap;                   /* it is limits alone */
  float limits[2];
  int64_t channels, channel_blocks, block_rows, row_blocks;
} job;

/* The range of taps that lie inside the image for output `o`. */
static void inside(const kern_conv_axis *a, int64_t o, int64_t *first, int64_t *last) {
  int64_t start = o * a->stride - a->begin, room = a->in - start;
  *first = start >= 0 ? 0 : base_min_i64((-start + a->dilation - 1) / a->dilation, a->kernel);
  *last = room <= 0 ? 0 : base_min_i64((room + a->dilation - 1) / a->dilation, a->kernel);
  *last = base_max_i64(*first, *last);
}

/* The strips that cover a row with the fewest pixels. */
static const struct strip_row *choose_strips(const kern_conv *c) {
  const kern_conv_axis *depth = &c->axis[0], *v = &c->axis[2];
  if (c->groups < V_LANES || v->dilation != 1 || depth->in != 1 || depth->out != 1 || depth->kernel != 1) return NULL;
  const struct strip_row *best = NULL;
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < sizeof strips / sizeof *strips; i++) {
    const struct strip_row *s = &strips[i];
    if (s->taps != v->kernel || s->stride != v->stride || s->width > v->out || depth->begin != 0) continue;
    int64_t pixels = (v->out + s->width - 1) / s->width * s->width;
    if (pixels > least) continue;
    least = pixels;
    best = s;
  }
  return best;
}

/* Bits of the strip's input columns, the first of which is column `start` of the image. */
static uint32_t columns_inside(int64_t start, int64_t count, int64_t in) {
  int64_t first = base_min_i64(base_max_i64(-start, 0), count),
          last = base_min_i64(base_max_i64(in - start, first), count);
  return (uint32_t)((1u << last) - (1u << first));
}

/* What the tile leaves of the epilogue, on `pixels` pixels from `pixel` of the sample, at y. */
static void finish(const job *j, const kern_epilogue *rest, int64_t pixel, int64_t pixels, float *y, const strip *s) {
  if (j->cheap) return;
  kern_epilogue e = kern_epilogue_at(rest, pixel, 0);
  KERN_NAME(epilogue_rows)(&e, y, s->pitch, pixels, s->channels);
}

/* Output rows [row, end) of one sample, over the strip's channels. `rest`: of the sample's first pixel. */
static void run_strips(const job *j, const float *x, float *y, int64_t row, int64_t end, strip *s,
                       const kern_epilogue *rest) {
  const kern_conv_axis *h = &j->conv.axis[1], *v = &j->conv.axis[2];
  const int64_t width = j->form->width;
  const float *w = s->w;
  for (int64_t o = 0; o < v->out; o += width) {
    o = base_min_i64(o, v->out - width);
    int64_t start = o * v->stride - v->begin;
    s->columns = columns_inside(start, (width - 1) * v->stride + v->kernel, v->in);
    for (int64_t r = row; r < end; r++) {
      int64_t first, last;
      inside(h, r, &first, &last);
      s->x = x;
      s->at = ((r * h->stride - h->begin + first * h->dilation) * v->in + start) * s->pitch;
      s->w = w + first * s->w_row;
      s->rows = last - first;
      s->y = y + (r * v->out + o) * s->pitch;
      j->form->run(s);
      finish(j, rest, r * v->out + o, width, s->y, s);
    }
  }
}

/* ---- the general form ---- */

/* `sum` and the taps of one output pixel, over one vector of channels: `first` to `last` taps lie inside per axis. */
V_INLINE vf sum_pixel(const job *j, const float *x, const float *w, const int64_t *origin, const int64_t (*range)[2],
                      int64_t lanes, vf sum) {
  const kern_conv_axis *a = j->conv.axis;
  for (int64_t d = range[0][0]; d < range[0][1]; d++)
    for (int64_t h = range[1][0]; h < range[1][1]; h++)
      for (int64_t v = range[2][0]; v < range[2][1]; v++) {
        int64_t row = (origin[0] + d * a[0].dilation) * a[1].in + origin[1] + h * a[1].dilation;
        const float *in = x + (row * a[2].in + origin[2] + v * a[2].dilation) * j->channels;
        const float *tap = w + ((d * a[1].kernel + h) * a[2].kernel + v) * j->channels;
        if (lanes == V_LANES) sum = v_fma(v_load(in), v_load(tap), sum);
        else sum = v_fma(v_load_n(in, lanes), v_load_n(tap, lanes), sum);
      }
  return sum;
}

/* The same as run_strips for any kernel, stride and dilation, in up to 3 dims: a pixel at a time. */
static void run_pixels(const job *j, const float *x, float *y, int64_t row, int64_t end, const strip *s,
                       const kern_epilogue *rest) {
  const kern_conv_axis *a = j->conv.axis;
  const vf low = v_set(s->low), high = v_set(s->high);
  for (int64_t pixel = row * a[2].out; pixel < end * a[2].out; pixel++) {
    const int64_t at[] = {pixel / a[2].out / a[1].out, pixel / a[2].out % a[1].out, pixel % a[2].out};
    int64_t origin[KERN_CONV_AXES], range[KERN_CONV_AXES][2];
    for (int k = 0; k < KERN_CONV_AXES; k++) {
      origin[k] = at[k] * a[k].stride - a[k].begin;
      inside(&a[k], at[k], &range[k][0], &range[k][1]);
    }
    for (int64_t c = 0; c < s->channels; c += V_LANES) {
      int64_t lanes = base_min_i64(s->channels - c, V_LANES);
      vf start = s->bias ? v_load_n(s->bias + c, lanes) : v_zero();
      vf sum = sum_pixel(j, x + c, s->w + c, origin, (const int64_t(*)[2])range, lanes, start);
      v_store_n(y + pixel * s->pitch + c, v_min(high, v_max(low, sum)), lanes);
    }
    finish(j, rest, pixel, 1, y + pixel * s->pitch, s);
  }
}

/* ---- tasks ---- */

static void run_task(const job *j, int64_t task) {
  const kern_conv *c = &j->conv;
  int64_t block = task % j->channel_blocks, rows = task / j->channel_blocks;
  int64_t sample = rows / j->row_blocks, row = rows % j->row_blocks * j->block_rows;
  int64_t channel = block * BLOCK, last = block + 1 == j->channel_blocks ? j->channels : channel + BLOCK;
  int64_t end = base_min_i64(row + j->block_rows, c->axis[0].out * c->axis[1].out);
  const float *x = j->x + sample * c->in_size * j->channels + channel;
  float *y = j->y + sample * c->out_size * j->channels + channel;
  strip s = {.w = j->w + channel,
             .bias = j->bias ? j->bias + channel : NULL,
             .x_row = c->axis[1].dilation * c->axis[2].in * j->channels,
             .w_row = c->axis[2].kernel * j->channels,
             .pitch = j->channels,
             .channels = last - channel,
             .limited = j->limits[0] > -INFINITY || j->limits[1] < INFINITY,
             .low = j->limits[0],
             .high = j->limits[1]};
  kern_epilogue rest = kern_epilogue_at(&j->rest, sample * c->out_size, channel);
  if (j->form) run_strips(j, x, y, row, end, &s, &rest);
  else run_pixels(j, x, y, row, end, &s, &rest);
}

/* Tasks are blocks of rows by blocks of channels; the last block of channels has what does not make a whole one. */
static void split(job *j) {
  const kern_conv *c = &j->conv;
  int64_t height = c->axis[0].out * c->axis[1].out, width = c->axis[2].out;
  j->channel_blocks = base_max_i64(j->channels / BLOCK, 1);
  double row_work = (double)width * (double)c->taps * (double)j->channels / (double)j->channel_blocks;
  double rows = (double)((height * j->channel_blocks + TASKS - 1) / TASKS);
  if (rows * row_work < TASK_WORK) rows = TASK_WORK / row_work + 1;
  j->block_rows = rows < (double)height ? (int64_t)rows : height;
  j->row_blocks = (height + j->block_rows - 1) / j->block_rows;
}

td_status KERN_NAME(depthwise)(const base_call *call) {
  job j = {.x = base_in(call, 0)->data, .w = base_in(call, 1)->data, .y = base_out(call, 0)->data};
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  TRY(kern_conv_sizes(call, &j.conv));
  kern_epilogue *e = &j.rest;
  *e = kern_epilogue_of(call);
  j.cheap = kern_epilogue_cheap(e, j.limits) && !e->residual && !e->scale && !e->shift;
  if (!j.cheap) j.limits[0] = -INFINITY, j.limits[1] = INFINITY;
  j.bias = e->bias;
  e->bias = NULL;
  j.channels = j.conv.groups;
  j.form = choose_strips(&j.conv);
  split(&j);
  int64_t total = j.conv.batch * j.row_blocks * j.channel_blocks;
  if (total > UINT32_MAX / 2) return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "a convolution of too many tasks");
  for (uint32_t t = base_call_first(call); t < total; t = base_call_next(call, t)) run_task(&j, t);
  return TD_OK;
}
