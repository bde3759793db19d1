/* expand_depthwise.c -- KERN_EXPAND_DEPTHWISE: td::expand_depthwise on f32 (kernels/expand.h).
 *
 * A task makes some channels of a band of output rows of one sample. It goes down the band in chunks of rows: the lines
 * of the expanded image that a chunk sees and the one before did not are products of pixels with the panels of the
 * task's channels; they go into a ring of lines that stays in the nearest caches, and strips read them from there
 * (depthwise_strips_priv.h). A line is made once for each band that sees it.
 *
 *     x -> | line | line | line | ... -> strips -> output rows         ring: [lines][width][channels of the task]
 *
 * Every sum is the one that KERN_CONV and KERN_DEPTHWISE would take, in the same order: bits are theirs. */
#include "kernels/depthwise_strips_priv.h"
#include "kernels/expand.h"
#include "kernels/gemm_tile_priv.h"

enum {
  BLOCK = 32,             /* channels of a task, at least, where there are so many */
  RING_BYTES = 48 * 1024, /* of the ring, where the window lets it be so small */
  TASKS = 24              /* to aim at: three for each of eight threads */
};

typedef struct layer {
  kern_conv conv; /* of the window over the expanded image */
  int64_t depth;  /* channels of x */
  const float *x;
  int64_t x_pitch;
  const float *panels_w;
  kern_epilogue expand;  /* its bias has whole panels */
  depthwise_strip whole; /* of all channels of the first sample, at its first pixel */
  kern_epilogue rest;    /* of the epilogue */
  bool has_rest;
  const depthwise_form *form;
  int64_t panels, blocks, bands; /* panels of all channels; parts of them; parts of the output's rows */
  int64_t chunk, ring;           /* output rows; lines */
} layer;

/* ---- the expansion ---- */

/* Panels [first, last) of one sample's lines. */
typedef struct block {
  const float *x; /* the sample */
  float *lines;   /* the ring */
  int64_t first, last, pitch;
} block;

/* Pixels [from, from + count) of the sample, to `to`. */
static void expand_pixels(const layer *l, const block *b, int64_t from, int64_t count, float *to) {
  int64_t panels = b->last - b->first,
          groups = base_max_i64(panels / 2, (panels + GEMM_MAX_PANELS - 1) / GEMM_MAX_PANELS);
  int64_t most = gemm_max_rows((panels + groups - 1) / groups);
  int64_t tiles = (count + most - 1) / most;
  const float *rows[GEMM_MAX_ROWS];
  gemm_tile t = {.a = rows, .taps = 1, .k = l->depth, .b_panel = l->depth * V_LANES, .c_pitch = b->pitch};
  for (int64_t i = 0; i < tiles; i++) {
    int64_t start = gemm_split(count, tiles, i), height = gemm_split(count, tiles, i + 1) - start;
    for (int64_t r = 0; r < height; r++) rows[r] = b->x + (from + start + r) * l->x_pitch;
    for (int64_t g = 0; g < groups; g++) {
      int64_t panel = gemm_split(panels, groups, g), width = gemm_split(panels, groups, g + 1) - panel;
      const kern_epilogue e = kern_epilogue_at(&l->expand, 0, (b->first + panel) * V_LANES);
      t.b = l->panels_w + (b->first + panel) * t.b_panel;
      t.c = to + start * b->pitch + panel * V_LANES;
      t.columns = width * V_LANES;
      KERN_NAME(gemm_tile)(&t, height, width, &e);
    }
  }
}

/* Lines [line, last) into the ring, as many at once as lie together there. */
static void expand_lines(const layer *l, const block *b, int64_t line, int64_t last) {
  int64_t width = l->conv.axis[2].in;
  while (line < last) {
    int64_t at = line % l->ring, count = base_min_i64(last - line, l->ring - at);
    expand_pixels(l, b, line * width, count * width, b->lines + at * width * b->pitch);
    line += count;
  }
}

/* ---- tasks ---- */

/* The lines inside the image under output rows [row, end). */
static void lines_under(const kern_conv_axis *h, int64_t row, int64_t end, int64_t *first, int64_t *last) {
  *first = base_min_i64(base_max_i64(row * h->stride - h->begin, 0), h->in);
  *last = base_min_i64((end - 1) * h->stride - h->begin + (h->kernel - 1) * h->dilation + 1, h->in);
}

static void run_task(const layer *l, float *lines, int64_t task) {
  const kern_conv *c = &l->conv;
  int64_t place = task / l->blocks, sample = place / l->bands, band = place % l->bands;
  block b = {.x = l->x + sample * c->in_size * l->x_pitch,
             .lines = lines,
             .first = gemm_split(l->panels, l->blocks, task % l->blocks),
             .last = gemm_split(l->panels, l->blocks, task % l->blocks + 1)};
  b.pitch = (b.last - b.first) * V_LANES;
  int64_t channel = b.first * V_LANES;
  const kern_epilogue rest = kern_epilogue_at(&l->rest, sample * c->out_size, channel);
  depthwise_part p = {
      .conv = c, .form = l->form, .strip = l->whole, .x = lines, .ring = l->ring, .rest = l->has_rest ? &rest : NULL};
  p.strip.w += channel;
  if (p.strip.bias) p.strip.bias += channel;
  p.strip.y += sample * c->out_size * p.strip.out_pitch + channel;
  p.strip.in_pitch = b.pitch;
  p.strip.channels = base_min_i64(b.pitch, c->groups - channel);
  int64_t end = gemm_split(c->axis[1].out, l->bands, band + 1), made = 0;
  for (int64_t row = gemm_split(c->axis[1].out, l->bands, band); row < end; row += l->chunk) {
    int64_t stop = base_min_i64(row + l->chunk, end), first, last;
    lines_under(&c->axis[1], row, stop, &first, &last);
    expand_lines(l, &b, base_max_i64(first, made), last);
    made = base_max_i64(made, last);
    KERN_NAME(depthwise_rows)(&p, row, stop);
  }
}

/* Blocks have two panels at least, so that each has the channels of a vector. */
static void split(layer *l) {
  const kern_conv_axis *h = &l->conv.axis[1], *v = &l->conv.axis[2];
  l->panels = (l->conv.groups + V_LANES - 1) / V_LANES;
  l->blocks = base_max_i64(l->panels / base_max_i64(BLOCK / V_LANES, 2), 1);
  int64_t most = (l->panels + l->blocks - 1) / l->blocks, reach = (h->kernel - 1) * h->dilation + 1;
  double line = (double)v->in * (double)(most * V_LANES) * (double)sizeof(float);
  double chunk = (RING_BYTES / line - (double)reach) / (double)h->stride + 1;
  l->chunk = (int64_t)fmax(fmin(chunk, (double)h->out), 1);
  l->ring = base_min_i64((l->chunk - 1) * h->stride + reach, h->in);
  /* A band computes the window's overlap anew: as many of them as keep that below a tenth. */
  int64_t overlap = base_max_i64(reach - h->stride, 1), wanted = (TASKS + l->blocks - 1) / l->blocks;
  l->bands = base_max_i64(base_min_i64(h->out * h->stride / (10 * overlap), wanted), 1);
}

/* The expansion's bias with zeros behind the last channel. */
static td_status pad_bias(const base_call *call, layer *l) {
  const base_tensor *bias = base_in(call, KERN_IN_EXPAND_BIAS);
  if (!bias) return TD_OK;
  size_t count = (size_t)(l->panels * V_LANES), channels = (size_t)l->conv.groups;
  float *padded = base_call_scratch(call, count, sizeof *padded);
  if (!padded) return base_no_memory(call->err, "scratch");
  memcpy(padded, bias->data, channels * sizeof *padded);
  memset(padded + channels, 0, (count - channels) * sizeof *padded);
  l->expand.bias = padded;
  return TD_OK;
}

static td_status describe(const base_call *call, layer *l) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  TRY(kern_expand_of(call, &l->conv, &l->depth));
  l->x = x->data;
  l->x_pitch = kern_pitch(x);
  l->panels_w = base_in(call, KERN_IN_EXPAND_W)->data;
  l->expand = (kern_epilogue){.act = kern_act_find(base_attr_str(call->attrs, KERN_EXPAND_ACT)),
                              .a = (float)base_attr_float(call->attrs, KERN_EXPAND_ACT_A),
                              .b = (float)base_attr_float(call->attrs, KERN_EXPAND_ACT_B)};
  l->rest = kern_epilogue_of(call);
  l->whole = (depthwise_strip){
      .w = base_in(call, 1)->data, .y = y->data, .w_pitch = l->conv.groups, .out_pitch = kern_pitch(y)};
  l->has_rest = depthwise_take_epilogue(&l->rest, &l->whole);
  l->form = KERN_NAME(depthwise_form)(&l->conv);
  if (!l->form) return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "no strips for this window");
  split(l);
  return pad_bias(call, l);
}

td_status KERN_NAME(expand_depthwise)(const base_call *call) {
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  layer l;
  TRY(describe(call, &l));
  int64_t most = (l.panels + l.blocks - 1) / l.blocks, total = l.conv.batch * l.bands * l.blocks;
  float *lines =
      base_call_scratch(call, (size_t)(l.ring * l.conv.axis[2].in), (size_t)(most * V_LANES) * sizeof *lines);
  if (!lines) return base_no_memory(call->err, "scratch");
  if (total > UINT32_MAX / 2) return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "a convolution of too many tasks");
  for (uint32_t t = base_call_first(call); t < total; t = base_call_next(call, t)) run_task(&l, lines, t);
  return TD_OK;
}
