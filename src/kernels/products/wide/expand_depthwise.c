/* expand_depthwise.c -- KERN_EXPAND_DEPTHWISE: td::expand_depthwise (kernels/products/expand.h), on f32 or with an
 * expansion by pairs of bf16, whose pixels are rounded to that where they are not.
 *
 * A task makes some channels of a band of output rows of one sample. It goes down the band in chunks of rows: the lines
 * of the expanded image that a chunk sees and the one before did not are products of pixels with the panels of the
 * task's channels; they go into a ring of lines that stays in the nearest caches, and strips read them from there
 * (depthwise_strips_priv.h). A line is made once for each band that sees it.
 *
 *     x -> | line | line | line | ... -> strips -> output rows         ring: [lines][width][channels of the task]
 *
 * Every sum is the one that KERN_CONV and KERN_DEPTHWISE would take, in the same order: bits are theirs. */
#include "kernels/products/conv_image_priv.h"
#include "kernels/products/depthwise_strips_priv.h"
#include "kernels/products/expand.h"
#include "kernels/products/gemm_priv.h"
#include "kernels/simd/math_priv.h"
#include "kernels/tasks_priv.h"

enum {
  NARROW = 32, /* channels of a task, at least, where there are so many */
  WIDE = 64,   /* at most, but for what does not make another task */
  /* Lines of a band, at least, for each one that its neighbour makes, too; where one worker makes most of them once.
   * Not for more than two workers (even_bands). */
  OVERLAP = 24,
  LONE_OVERLAP = 8
};
enum {
  NEAR_BYTES = 48 * 1024,    /* of the lines under one output row: leaves the first-level cache no sooner */
  RING_BYTES = 128 * 1024,   /* of the ring, where the window lets it be so small */
  IMAGE_BYTES = 256 * 1024,  /* of x, under a band that one block of channels after the other goes over */
  FAR_BYTES = 1024 * 1024,   /* of x, that blocks would read from beyond the second-level cache, one after the other; */
  LINES_BYTES = 300 * 1024,  /* where one block of all channels can do: of the lines under one output row, */
  NEAR_WEIGHTS = 512 * 1024, /* and of the weights, which each line reads */
  /* Of the expansion, before an activation that is a pass of its own, as they are in L1 then: whole tiles. */
  PIXELS = 48,
  LONE_PIXELS = 56 /* of one panel */
};

typedef struct layer {
  kern_conv conv; /* of the window over the expanded image */
  kern_conv maker;
  const gemm_pairs *pairs;                                 /* elements are pairs; NULL: they are f32 */
  void (*narrow)(float *to, const float *from, int64_t n); /* rounds results to bf16 */
  int64_t depth;                                           /* elements of a pixel of x, or of a window over it */
  const float *x;
  int64_t x_pitch;
  int64_t rounded; /* floats of a pixel of x that has to be rounded to pairs; 0: it has not */
  const float *panels_w;
  kern_epilogue expand;  /* its bias has whole panels */
  depthwise_strip whole; /* of all channels of the first sample, at its first pixel */
  kern_epilogue rest;    /* of the epilogue */
  bool has_rest;
  kern_epilogue last; /* its chain alone */
  gemm_bf16 bf16;
  const depthwise_form *form;
  int64_t panels, blocks, bands; /* panels of all channels; parts of them; parts of the output's rows */
  int64_t widest;                /* panels of a block */
  int64_t chunk, ring;           /* output rows; lines */
} layer;

/* ---- the expansion ---- */

/* What a worker has of its own. */
typedef struct desk {
  float *lines;          /* the ring */
  float *pixels;         /* those that are rounded, of a piece */
  float *strip;          /* one, where results are bf16 */
  kern_conv_image image; /* x, where its channels stand first */
  int64_t task, made;    /* the last one; its sample's lines from here on are not in the ring */
} desk;

/* Panels [first, last) of one sample's lines. */
typedef struct block {
  desk *desk;
  int64_t sample, first, last, pitch;
} block;

/* What comes behind panel `next`: two panels at least, if there are; behind the last one, the first. */
static void set_ahead(const layer *l, int64_t next, pixel_tiles *p) {
  int64_t left = l->panels - next, panels = left == 3 ? 3 : base_min_i64(l->panels, 2);
  p->ahead = l->panels_w + (left < 2 ? 0 : next) * l->depth * V_LANES;
  p->ahead_last = base_max_i64(panels * V_LANES - PIXEL_FETCH, 0) * l->depth;
}

/* Pixels [from, from + count) of the sample, at least one, to `to`; of the image's row, where channels stand first. */
static void expand_pixels(const layer *l, const block *b, int64_t from, int64_t count, float *to) {
  int64_t panels = b->last - b->first, pairs = base_max_i64(panels / 2, 1);
  float limits[2];
  bool cheap = kern_epilogue_cheap(&l->expand, limits);
  bool planes = l->maker.channels_first;
  const float *x = planes ? NULL : l->x + (b->sample * l->conv.in_size + from) * l->x_pitch;
  if (l->rounded) gemm_round_rows(l->pairs, b->desk->pixels, x, l->x_pitch, count, l->rounded);
  pixel_tiles p = {.x = l->rounded ? b->desk->pixels : x,
                   .taps = planes ? b->desk->image.row : NULL,
                   .skipped = from * l->x_pitch,
                   .x_pitch = l->rounded ? l->depth : l->x_pitch,
                   .depth = l->depth,
                   .low = limits[0],
                   .high = limits[1],
                   .to_pitch = b->pitch,
                   .pixels = count,
                   .last = V_LANES};
  for (int64_t i = 0; i < pairs; i++) {
    int64_t panel = gemm_split(panels, pairs, i), next = gemm_split(panels, pairs, i + 1);
    p.w = l->panels_w + (b->first + panel) * l->depth * V_LANES;
    p.bias = l->expand.bias + (b->first + panel) * V_LANES;
    p.to = to + panel * V_LANES;
    set_ahead(l, b->first + next, &p);
    if (l->pairs) l->pairs->pixels(&p, next - panel);
    else KERN_NAME(pixel_tiles)(&p, next - panel);
  }
  if (!cheap) KERN_NAME(epilogue_act)(&l->expand, to, b->pitch, count, b->pitch);
}

/* The same for any number of pixels, in pieces. */
static void expand_run(const layer *l, const block *b, int64_t from, int64_t count, float *to) {
  const int64_t piece = b->last - b->first > 1 ? PIXELS : LONE_PIXELS;
  while (count >= 2 * piece) {
    expand_pixels(l, b, from, piece, to);
    from += piece;
    count -= piece;
    to += piece * b->pitch;
  }
  expand_pixels(l, b, from, count, to);
}

/* Lines [line, last) into the ring, as many at once as lie together there and in x. */
static void expand_lines(const layer *l, const block *b, int64_t line, int64_t last) {
  int64_t width = l->conv.axis[2].in;
  for (int64_t count; line < last; line += count) {
    int64_t at = line % l->ring;
    bool planes = l->maker.channels_first;
    if (planes) kern_conv_image_row(&b->desk->image, b->sample, line);
    count = planes ? 1 : base_min_i64(last - line, l->ring - at);
    expand_run(l, b, planes ? 0 : line * width, count * width, b->desk->lines + at * width * b->pitch);
  }
}

/* ---- tasks ---- */

/* The lines inside the image under output rows [row, end). */
static void lines_under(const kern_conv_axis *h, int64_t row, int64_t end, int64_t *first, int64_t *last) {
  *first = base_min_i64(base_max_i64(row * h->stride - h->begin, 0), h->in);
  *last = base_min_i64((end - 1) * h->stride - h->begin + h->kernel, h->in);
}

/* Where all channels are one block, a worker goes on from one band to the next with the lines that it has. */
static void run_task(const layer *l, desk *d, int64_t task) {
  const kern_conv *c = &l->conv;
  int64_t part = task % l->blocks, place = task / l->blocks, sample = place / l->bands, band = place % l->bands;
  block b = {.desk = d,
             .sample = sample,
             .first = 2 * gemm_split(l->panels / 2, l->blocks, part),
             .last = part + 1 == l->blocks ? l->panels : 2 * gemm_split(l->panels / 2, l->blocks, part + 1)};
  b.pitch = (b.last - b.first) * V_LANES;
  int64_t channel = b.first * V_LANES, channels = base_min_i64(b.pitch, c->groups - channel);
  const kern_epilogue rest = kern_epilogue_at(&l->rest, sample * c->out_size, channel);
  depthwise_part p = {.conv = c,
                      .form = l->form,
                      .strip = l->whole,
                      .x = d->lines,
                      .ring = l->ring,
                      .rest = l->has_rest ? &rest : NULL};
  if (l->bf16.c) {
    const gemm_bf16 at = gemm_bf16_at(&l->bf16, sample * c->out_size, channel);
    p.narrow = l->narrow;
    p.y_16 = at.c;
    p.pitch_16 = at.c_pitch;
  }
  p.strip.w += channel;
  depthwise_fetch(p.strip.w, c->taps, p.strip.w_pitch, channels);
  depthwise_from_channel(&p.strip, channel);
  if (l->bf16.c) p.strip.y = d->strip;
  else p.strip.y += sample * c->out_size * p.strip.out_pitch + channel;
  p.strip.in_pitch = b.pitch;
  p.line = c->axis[2].in * b.pitch;
  p.strip.channels = channels;
  int64_t end = gemm_split(c->axis[1].out, l->bands, band + 1);
  if (l->blocks > 1 || band == 0 || task != d->task + 1) d->made = 0;
  d->task = task;
  for (int64_t row = gemm_split(c->axis[1].out, l->bands, band); row < end; row += l->chunk) {
    int64_t stop = base_min_i64(row + l->chunk, end), first, last;
    lines_under(&c->axis[1], row, stop, &first, &last);
    expand_lines(l, &b, base_max_i64(first, d->made), last);
    d->made = base_max_i64(d->made, last);
    KERN_NAME(depthwise_rows)(&p, row, stop);
    depthwise_finish(&l->last, &p, sample, row, stop, channel);
  }
}

static int64_t ceil_div(double a, double b) { return (int64_t)fmin(ceil(a / b), 1 << 20); }

/* Is x read once, for all channels at a time? */
static bool is_one_block(const layer *l) {
  const kern_conv_axis *h = &l->conv.axis[1], *v = &l->conv.axis[2];
  const double line = (double)v->in * (double)sizeof(float);
  return line * (double)h->in * (double)l->depth > FAR_BYTES &&
         line * (double)h->kernel * (double)l->conv.groups <= LINES_BYTES &&
         (double)l->depth * (double)l->conv.groups * (double)sizeof(float) <= NEAR_WEIGHTS;
}

/* Lines that the worker who makes most of them makes. */
static int64_t most_lines(const layer *l, int64_t bands, uint32_t workers) {
  const kern_conv_axis *h = &l->conv.axis[1];
  const int64_t lines = (base_ceil_div(h->out, bands) - 1) * h->stride + h->kernel;
  return base_ceil_div(l->conv.batch * l->blocks * bands, workers) * base_min_i64(lines, h->in);
}

/* As many bands as `bands`, or more by which many workers are through clearly sooner. */
static int64_t even_bands(const layer *l, int64_t bands, uint32_t workers) {
  enum { ROUNDS = 4, GAIN = 8 }; /* lines are made more often: fewer by one of so many do not pay */
  int64_t least = most_lines(l, bands, workers), best = bands;
  least -= least / GAIN;
  for (int64_t round = 1; round <= ROUNDS; round++) {
    const int64_t wanted = round * workers / (l->conv.batch * l->blocks);
    const int64_t tried = base_min_i64(base_max_i64(wanted, bands), l->conv.axis[1].out);
    const int64_t lines = most_lines(l, tried, workers);
    if (lines >= least) continue;
    best = tried;
    least = lines;
  }
  return best;
}

/* Blocks are pairs of panels, the last one with whatever is left: each has the channels of a vector. Narrow ones cost
 * less than many bands. */
static void split(layer *l, uint32_t workers) {
  const kern_conv_axis *h = &l->conv.axis[1], *v = &l->conv.axis[2];
  int64_t channels = l->conv.groups, overlap = base_max_i64(h->kernel - h->stride, 1);
  /* Fewer than others want, since each makes lines that its neighbours make, too: two for each of many workers. */
  const double tasks = (double)base_max_i64(kern_tasks_wanted(0) / 2, 2 * (int64_t)workers);
  double batch = (double)l->conv.batch, line = (double)v->in * (double)sizeof(float);
  l->panels = (channels + V_LANES - 1) / V_LANES;
  int64_t pairs = l->panels / 2;
  double wide = fmax(fmin(NEAR_BYTES / (line * (double)h->kernel), WIDE), NARROW);
  int64_t blocks = base_max_i64((int64_t)((double)channels / wide), ceil_div(tasks, batch));
  if (is_one_block(l)) blocks = 1;
  l->blocks = base_max_i64(base_min_i64(base_min_i64(blocks, channels / NARROW), pairs), 1);
  int64_t least = overlap * (l->blocks > 1 ? OVERLAP : LONE_OVERLAP);
  int64_t most_bands = base_min_i64(1 + h->in / least, h->out);
  int64_t bands = base_max_i64(ceil_div(tasks, batch * (double)l->blocks),
                               ceil_div(line * (double)h->in * (double)l->depth, IMAGE_BYTES));
  l->bands = base_max_i64(base_min_i64(bands, most_bands), 1);
  if (workers > 2) l->bands = even_bands(l, l->bands, workers);
  const kern_cuts even = {.maps = l->conv.batch * l->bands,
                          .size = pairs,
                          .tile = pairs,
                          .row = 8,
                          .least = l->blocks,
                          .most = base_min_i64(channels / NARROW, pairs),
                          .cuts = l->blocks};
  if (l->blocks > 1) l->blocks = kern_even_cuts(&even, workers);
  l->widest = 2 * ((pairs + l->blocks - 1) / l->blocks) + l->panels % 2;
  double lines = RING_BYTES / (line * (double)(l->widest * V_LANES));
  double chunk = (lines - (double)h->kernel) / (double)h->stride + 1;
  l->chunk = (int64_t)fmax(fmin(chunk, (double)h->out), 1);
  l->ring = base_min_i64((l->chunk - 1) * h->stride + h->kernel, h->in);
}

/* The expansion's bias, zeros where there is none and behind the last channel. */
static td_status pad_bias(const base_call *call, layer *l) {
  const base_tensor *bias = base_in(call, KERN_IN_EXPAND_BIAS);
  size_t count = (size_t)(l->panels * V_LANES), channels = (size_t)l->conv.groups;
  float *padded = base_call_scratch(call, count, sizeof *padded);
  if (!padded) return base_no_memory(call->err, "scratch");
  memset(padded, 0, count * sizeof *padded);
  if (bias) memcpy(padded, bias->data, channels * sizeof *padded);
  l->expand.bias = padded;
  return TD_OK;
}

static td_status describe(const base_call *call, layer *l) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  TRY(kern_expand_of(call, &l->conv, &l->maker));
  l->depth = l->maker.taps * l->maker.group_in;
  l->x = x->data;
  l->x_pitch = l->maker.channels_first ? l->maker.axis[2].stride : kern_pitch(x);
  if (l->pairs) {
    l->rounded = x->dtype == TD_F32 ? l->depth : 0;
    l->depth = kern_pairs_depth(l->depth) / 2;
    if (!l->rounded) l->x_pitch /= 2;
  }
  l->panels_w = base_in(call, KERN_IN_EXPAND_W)->data;
  const kern_act_of act = kern_act_at(call->attrs, KERN_EXPAND_ACT);
  l->expand = (kern_epilogue){.act = act.act, .a = act.a, .b = act.b};
  TRY(KERN_NAME(epilogue_of)(call, &l->rest));
  l->whole = (depthwise_strip){
      .w = base_in(call, 1)->data, .y = y->data, .w_pitch = l->conv.groups, .out_pitch = kern_pitch(y)};
  l->bf16 = gemm_bf16_of(call, &l->rest);
  l->has_rest = depthwise_take_epilogue(&l->rest, &l->whole, &l->last);
  l->form = KERN_NAME(depthwise_form)(&l->conv);
  if (!l->form) return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "no strips for this window");
  split(l, call->workers);
  if (l->bf16.c) l->whole.out_pitch = l->widest * V_LANES;
  return pad_bias(call, l);
}

static bool make_desk(const base_call *call, const layer *l, desk *d) {
  const size_t wide = (size_t)(l->widest * V_LANES), pixels = l->rounded ? 2 * LONE_PIXELS : 0;
  const size_t width = l->bf16.c ? l->form->width : 0;
  *d = (desk){.task = -1};
  d->lines = base_call_scratch(call, (size_t)(l->ring * l->conv.axis[2].in), wide * sizeof(float));
  d->pixels = base_call_scratch(call, pixels, (size_t)l->depth * sizeof *d->pixels);
  d->strip = base_call_scratch(call, width, wide * sizeof *d->strip);
  return d->lines && d->pixels && d->strip;
}

td_status KERN_NAME(expand_depthwise_by)(const base_call *call, const gemm_pairs *pairs) {
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  const bool narrow = base_in(call, KERN_IN_EXPAND_W)->dtype == TD_BF16;
  layer l = {.pairs = narrow ? pairs : NULL, .narrow = pairs ? pairs->narrow : NULL};
  TRY(describe(call, &l));
  int64_t total = l.conv.batch * l.bands * l.blocks;
  desk d;
  if (!make_desk(call, &l, &d)) return base_no_memory(call->err, "scratch");
  if (l.maker.channels_first) TRY(kern_conv_image_of(call, &l.maker, &d.image));
  if (total > UINT32_MAX / 2) return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "a convolution of too many tasks");
  for (int64_t t = base_call_first(call, total); t < total; t = base_call_next(call, t, total)) run_task(&l, &d, t);
  return TD_OK;
}

td_status KERN_NAME(expand_depthwise)(const base_call *call) { return KERN_NAME(expand_depthwise_by)(call, NULL); }
