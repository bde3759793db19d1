/* depthwise.c -- KERN_DEPTHWISE: td::depthwise_conv, weights packed as [taps, channels] (panel 1). Every channel is a
 * sum of its own, so vectors lie along the channels.
 *
 * The fast form makes strips of output pixels (depthwise_strips_priv.h), which run down the rows of a task, so that the
 * window's lines stay in the first-level cache. A window too large for them is walked pixel by pixel.
 *
 * Of few channels a vector has some neighbouring pixels: as the window moves by one, what lies side by side in a line
 * is what the pixels see at a tap. They are one pixel of V_LANES channels, each with its weights again, in an image
 * whose window moves on by as many pixels; its lines are copied with zeros around.
 *
 * An image of bf16 becomes floats in a ring of lines that stays in the second-level cache; results become bf16 strip by
 * strip.
 *
 * Any sum is taken over its taps in order, those outside left out: bits depend on nothing else. */
#include "kernels/products/depthwise_strips_priv.h"
#include "kernels/products/gemm_priv.h"
#include "kernels/simd/pairs_priv.h"
#include "kernels/tasks_priv.h"

enum {
  BLOCK = 64,            /* channels of a task */
  L1_FLOATS = 6400,      /* of the smallest L1 that CPUs have: what a strip may see of the input and of the weights */
  CACHE_LINE = 16,       /* floats */
  QUARTER = 256,         /* floats in a quarter of the lines of which L1 holds one by address */
  COPY_TAPS = 9,         /* from which the channels of a task are copied out of their pixels */
  RING_FLOATS = 48 << 10 /* of lines of bf16, where the window lets it be so few */
};

typedef struct job {
  kern_conv conv;
  const char *x;
  int64_t x_size;        /* bytes of a number of x */
  depthwise_strip whole; /* of all channels of the first sample, at its first pixel */
  kern_epilogue rest;    /* of the epilogue */
  bool has_rest;
  kern_epilogue last;         /* its chain alone */
  const depthwise_form *form; /* NULL: the general form */
  int64_t channels, block, channel_blocks, block_rows, row_blocks;
  float *copy;         /* of the lines that a chunk sees, `ring` of them; NULL: they are read where they are */
  int64_t chunk, ring; /* output rows that are made at once; lines */
  int64_t pixels;      /* of a vector, where channels are few; 0: one. Then, of a line that is copied: */
  int64_t begin, in;   /* zeros in front, and pixels of the image */
  gemm_bf16 bf16;
  float *strip; /* one, where results are bf16 */
  void (*narrow)(float *to, const float *from, int64_t n);
} job;

/* ---- the general form ---- */

/* `sum` and the taps of one output pixel, over one vector of channels: `first` to `last` taps lie inside per axis. */
V_INLINE vf sum_pixel(const job *j, const float *x, const float *w, const int64_t *origin, const int64_t (*range)[2],
                      int64_t lanes, vf sum) {
  const kern_conv_axis *a = j->conv.axis;
  for (int64_t d = range[0][0]; d < range[0][1]; d++)
    for (int64_t h = range[1][0]; h < range[1][1]; h++)
      for (int64_t v = range[2][0]; v < range[2][1]; v++) {
        int64_t row = (origin[0] + d * a[0].dilation) * a[1].in + origin[1] + h * a[1].dilation;
        const float *in = x + (row * a[2].in + origin[2] + v * a[2].dilation) * j->whole.in_pitch;
        const float *tap = w + ((d * a[1].kernel + h) * a[2].kernel + v) * j->channels;
        if (lanes == V_LANES) sum = v_fma(v_load(in), v_load(tap), sum);
        else sum = v_fma(v_load_n(in, lanes), v_load_n(tap, lanes), sum);
      }
  return sum;
}

/* The same as depthwise_rows for any kernel, stride and dilation, in up to 3 dims: a pixel at a time. */
static void run_pixels(const job *j, const depthwise_part *p, int64_t row, int64_t end) {
  const kern_conv_axis *a = j->conv.axis;
  const depthwise_strip *s = &p->strip;
  const vf low = v_set(s->low), high = v_set(s->high);
  for (int64_t pixel = row * a[2].out; pixel < end * a[2].out; pixel++) {
    const int64_t at[] = {pixel / a[2].out / a[1].out, pixel / a[2].out % a[1].out, pixel % a[2].out};
    int64_t origin[KERN_CONV_AXES], range[KERN_CONV_AXES][2];
    for (int k = 0; k < KERN_CONV_AXES; k++) {
      origin[k] = at[k] * a[k].stride - a[k].begin;
      depthwise_inside(&a[k], at[k], &range[k][0], &range[k][1]);
    }
    for (int64_t c = 0; c < s->channels; c += V_LANES) {
      int64_t lanes = base_min_i64(s->channels - c, V_LANES);
      vf start = s->bias ? v_load_n(s->bias + c, lanes) : v_zero();
      vf sum = sum_pixel(j, p->x + c, s->w + c, origin, (const int64_t(*)[2])range, lanes, start);
      vf value = v_min(high, v_max(low, sum));
      if (s->scale) value = v_mul(value, v_load_n(s->scale + c, lanes));
      if (s->shift) value = v_add(value, v_load_n(s->shift + c, lanes));
      v_store_n(s->y + pixel * s->out_pitch + c, value, lanes);
    }
    if (!p->rest) continue;
    const kern_epilogue rest = kern_epilogue_at(p->rest, pixel, 0);
    KERN_NAME(epilogue_rows)(&rest, s->y + pixel * s->out_pitch, s->out_pitch, 1, s->channels);
  }
}

/* ---- copies ---- */

static bool is_plane(const kern_conv *c) { return c->axis[0].in == 1 && c->axis[0].out == 1; }

/* Lines of the input that `rows` output rows of one plane see. */
static int64_t lines_seen(const kern_conv_axis *h, int64_t rows) {
  return base_min_i64((rows - 1) * h->stride + (h->kernel - 1) * h->dilation + 1, h->in);
}

/* A block of `channels` of them, dense: whole lines of the cache, and from image line to image line an odd multiple of
 * a quarter of the first level's sets. */
static int64_t copied_line(const kern_conv_axis *v, int64_t channels) {
  const int64_t count = v->in * ((channels + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
  return (count + QUARTER - 1) / (2 * QUARTER) * (2 * QUARTER) + QUARTER;
}

/* Pixels so far apart fall on few sets of the first-level cache. */
static bool is_apart(const job *j) {
  return j->form && is_plane(&j->conv) && j->conv.taps >= COPY_TAPS && j->channels > j->block &&
         j->whole.in_pitch % (2 * QUARTER) == 0;
}

/* The channels of a pixel. */
static void copy_pixel(const job *j, const char *from, int64_t channels, float *to) {
  const float *wide = (const float *)(const void *)from;
  if (j->x_size != sizeof *to) {
    p_widen_row(to, (const uint16_t *)(const void *)from, channels);
    return;
  }
  int64_t c = 0;
  for (; c + V_LANES <= channels; c += V_LANES) v_store(to + c, v_load(wide + c));
  if (c < channels) v_store_n(to + c, v_load_n(wide + c, channels - c), channels - c);
}

/* A line with zeros around. */
static void copy_line(const job *j, const char *from, float *to) {
  const int64_t pitch = j->whole.in_pitch, all = j->conv.axis[2].in;
  const int64_t begin = base_min_i64(j->begin, all), count = base_min_i64(j->in, all - begin);
  memset(to, 0, (size_t)(begin * pitch) * sizeof *to);
  memcpy(to + begin * pitch, from, (size_t)(count * pitch) * sizeof *to);
  memset(to + (begin + count) * pitch, 0, (size_t)((all - begin - count) * pitch) * sizeof *to);
}

/* Those of the lines that output rows [row, end) see which are not in j->copy yet, where there are `made`. */
static int64_t copy_lines(const job *j, const depthwise_part *p, const char *x, int64_t made, int64_t row,
                          int64_t end) {
  const kern_conv_axis *h = &j->conv.axis[1], *v = &j->conv.axis[2];
  const int64_t last = base_min_i64((end - 1) * h->stride - h->begin + (h->kernel - 1) * h->dilation + 1, h->in);
  for (int64_t y = base_max_i64(row * h->stride - h->begin, made); y < last; y++) {
    if (j->pixels) copy_line(j, x + y * j->in * j->whole.in_pitch * j->x_size, j->copy + y % j->ring * p->line);
    for (int64_t i = 0; !j->pixels && i < v->in; i++)
      copy_pixel(j, x + (y * v->in + i) * j->whole.in_pitch * j->x_size, p->strip.channels,
                 j->copy + y % j->ring * p->line + i * p->strip.in_pitch);
  }
  return base_max_i64(last, made);
}

/* Room for what all tasks copy. False: there is none. */
static bool take_copy(const base_call *call, job *j) {
  const kern_conv_axis *h = &j->conv.axis[1];
  const int64_t widest = j->channels - (j->channel_blocks - 1) * j->block;
  const int64_t line = j->pixels ? j->conv.axis[2].in * j->whole.in_pitch : copied_line(&j->conv.axis[2], widest);
  const int64_t over =
      (h->kernel - 1) * h->dilation + 1 - h->stride; /* lines of a row that the next one does not add */
  if (j->bf16.c) {
    j->whole.out_pitch = widest;
    j->strip = base_call_scratch(call, j->form->width, (size_t)widest * sizeof *j->strip);
    if (!j->strip) return false;
  }
  j->chunk = j->block_rows;
  if (j->x_size == sizeof *j->copy && !is_apart(j) && !j->pixels) return true;
  if (j->x_size != sizeof *j->copy || j->pixels)
    j->chunk = base_min_i64(base_max_i64((RING_FLOATS / line - over) / h->stride, 1), j->block_rows);
  j->ring = base_max_i64(lines_seen(h, j->chunk), 1);
  j->copy = base_call_scratch(call, (size_t)j->ring, (size_t)line * sizeof *j->copy);
  return j->copy != NULL;
}

/* ---- tasks ---- */

static void run_task(const job *j, int64_t task) {
  const kern_conv *c = &j->conv;
  int64_t block = task % j->channel_blocks, rows = task / j->channel_blocks;
  int64_t sample = rows / j->row_blocks, row = rows % j->row_blocks * j->block_rows;
  int64_t channel = block * j->block, last = block + 1 == j->channel_blocks ? j->channels : channel + j->block;
  int64_t end = base_min_i64(row + j->block_rows, c->axis[0].out * c->axis[1].out);
  const kern_epilogue rest = kern_epilogue_at(&j->rest, sample * c->out_size, channel);
  const char *x = j->x + (sample * c->in_size * j->whole.in_pitch + channel) * j->x_size;
  depthwise_part p = {.conv = c,
                      .form = j->form,
                      .strip = j->whole,
                      .x = (const float *)(const void *)x,
                      .ring = c->axis[0].in * c->axis[1].in,
                      .line = c->axis[2].in * j->whole.in_pitch,
                      .rest = j->has_rest ? &rest : NULL};
  p.strip.w += channel;
  depthwise_from_channel(&p.strip, channel);
  p.strip.channels = last - channel;
  if (j->strip) {
    const gemm_bf16 at = gemm_bf16_at(&j->bf16, sample * c->out_size, channel);
    p.narrow = j->narrow;
    p.y_16 = at.c;
    p.pitch_16 = at.c_pitch;
    p.strip.y = j->strip;
  } else p.strip.y += sample * c->out_size * j->whole.out_pitch + channel;
  if (last < j->channels) /* likely the next task's */
    depthwise_fetch(p.strip.w + j->block, c->taps, j->channels, base_min_i64(j->block, j->channels - last));
  if (j->copy) {
    p.x = j->copy;
    p.ring = j->ring;
  }
  if (j->pixels) p.line = c->axis[2].in * j->whole.in_pitch;
  else if (j->copy) {
    p.strip.in_pitch = (p.strip.channels + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    p.line = copied_line(&c->axis[2], p.strip.channels);
  }
  for (int64_t at = row, made = 0; at < end; at += j->chunk) {
    const int64_t stop = base_min_i64(at + j->chunk, end);
    if (j->copy) made = copy_lines(j, &p, x, made, at, stop);
    if (j->form) KERN_NAME(depthwise_rows)(&p, at, stop);
    else run_pixels(j, &p, at, stop);
  }
  depthwise_finish(&j->last, &p, sample, row, end, channel);
}

/* Channels of a task: fewer where strips see much of each. */
static int64_t block_of(const kern_conv *c, const depthwise_form *form) {
  const kern_conv_axis *h = &c->axis[1], *v = &c->axis[2];
  int64_t width = form ? form->width : 1, reach = (v->kernel - 1) * v->dilation + 1;
  int64_t columns = base_min_i64((width - 1) * v->stride + reach, v->in);
  return (h->kernel * columns + c->taps) * BLOCK > L1_FLOATS ? BLOCK / 2 : BLOCK;
}

/* Tasks are blocks of rows by blocks of channels; the last block of channels has what does not make a whole one. */
static void split(job *j, uint32_t workers) {
  const kern_conv *c = &j->conv;
  int64_t height = c->axis[0].out * c->axis[1].out, width = c->axis[2].out;
  j->block = block_of(c, j->form);
  j->channel_blocks = base_max_i64(j->channels / j->block, 1);
  double row_work = (double)width * (double)c->taps * (double)j->channels / (double)j->channel_blocks / V_LANES;
  double rows = (double)base_ceil_div(height * j->channel_blocks, kern_tasks_wanted(workers));
  const double least = (double)kern_task_size(KERN_TASK_WORK, workers);
  if (rows * row_work < least) rows = least / row_work + 1;
  j->block_rows = rows < (double)height ? (int64_t)rows : height;
  j->row_blocks = (height + j->block_rows - 1) / j->block_rows;
}

/* Windows that see one pixel of each plane: its pixels are a row, down which the planes are near one another. */
static void merge_pixels(kern_conv *c) {
  kern_conv_axis *h = &c->axis[1], *v = &c->axis[2];
  for (const kern_conv_axis *a = h; a <= v; a++)
    if (a->kernel != 1 || a->stride != 1 || a->begin != 0 || a->in != a->out) return;
  v->in = v->out *= h->out;
  h->in = h->out = 1;
}

/* ---- few channels ---- */

/* Zeros around a line are no numbers times weights that are none. */
static bool are_finite(const float *w, int64_t count) {
  bool finite = true;
  for (int64_t i = 0; i < count; i++) finite &= isfinite(w[i]) != 0;
  return finite;
}

static bool joins_pixels(const job *j) {
  const kern_conv_axis *v = &j->conv.axis[2];
  const bool vectors = j->has_rest && (j->rest.residual || j->rest.scale || j->rest.shift);
  return !vectors && j->channels < V_LANES && V_LANES % j->channels == 0 && v->stride == 1 && v->begin >= 0 &&
         v->out % (V_LANES / j->channels) == 0 && is_plane(&j->conv) && j->x_size == sizeof(float) && !j->bf16.c &&
         !j->last.chain && j->whole.in_pitch == j->channels && j->whole.out_pitch == j->channels &&
         are_finite(j->whole.w, j->conv.taps * j->channels);
}

/* Each of `rows` rows of a number per channel so often that it fills a vector; *from NULL: there are none. */
static bool repeat(const base_call *call, const float **from, int64_t rows, int64_t channels) {
  float *to = *from ? base_call_scratch(call, (size_t)rows, V_LANES * sizeof *to) : NULL;
  if (!*from || !to) return !*from;
  for (int64_t i = 0; i < rows * V_LANES; i++) to[i] = (*from)[i / V_LANES * channels + i % channels];
  *from = to;
  return true;
}

static bool join_pixels(const base_call *call, job *j) {
  kern_conv_axis *v = &j->conv.axis[2];
  const int64_t channels = j->channels;
  depthwise_strip *s = &j->whole;
  j->pixels = V_LANES / channels;
  j->begin = v->begin;
  j->in = v->in;
  v->in = v->out + (v->kernel - 1) * v->dilation;
  v->begin = 0;
  v->out /= j->pixels;
  v->stride = j->pixels;
  j->conv.out_size /= j->pixels;
  j->channels = j->conv.groups = s->w_pitch = s->out_pitch = V_LANES;
  return repeat(call, &s->w, j->conv.taps, channels) && repeat(call, &s->bias, 1, channels) &&
         repeat(call, &s->scale, 1, channels) && repeat(call, &s->shift, 1, channels);
}

td_status KERN_NAME(depthwise_by)(const base_call *call, void (*narrow)(float *to, const float *from, int64_t n)) {
  const base_tensor *x = base_in(call, 0);
  job j = {.x = x->data, .x_size = base_dtype(x->dtype)->bits / 8, .narrow = narrow};
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  TRY(KERN_NAME(epilogue_of)(call, &j.rest));
  TRY(kern_conv_sizes(call, &j.conv));
  merge_pixels(&j.conv);
  j.channels = j.conv.groups;
  j.whole = (depthwise_strip){.w = base_in(call, 1)->data,
                              .y = base_out(call, 0)->data,
                              .in_pitch = kern_pitch(x),
                              .w_pitch = j.channels,
                              .out_pitch = kern_pitch(base_out(call, 0))};
  j.bf16 = gemm_bf16_of(call, &j.rest);
  j.has_rest = depthwise_take_epilogue(&j.rest, &j.whole, &j.last);
  if (joins_pixels(&j) && !join_pixels(call, &j)) return base_no_memory(call->err, "scratch");
  j.form = KERN_NAME(depthwise_form)(&j.conv);
  if (narrow && (!j.form || !is_plane(&j.conv)))
    return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "no strips of bf16 for this window");
  split(&j, call->workers);
  if (!take_copy(call, &j)) return base_no_memory(call->err, "scratch");
  int64_t total = j.conv.batch * j.row_blocks * j.channel_blocks;
  if (total > UINT32_MAX / 2) return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "a convolution of too many tasks");
  for (int64_t t = base_call_first(call, total); t < total; t = base_call_next(call, t, total)) run_task(&j, t);
  return TD_OK;
}

td_status KERN_NAME(depthwise)(const base_call *call) { return KERN_NAME(depthwise_by)(call, NULL); }
