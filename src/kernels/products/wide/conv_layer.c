/* conv_layer.c -- how KERN_CONV cuts a layer (conv.c): what a run is, how many panels meet a pixel at a time, and how
 * many pixels, panels and groups are a task. */
#include "kernels/products/conv_groups_priv.h"
#include "kernels/products/conv_layer_priv.h"
#include "kernels/products/dot_tile_priv.h"
#include "kernels/products/packing.h"
#include "kernels/tasks_priv.h"

#include <math.h>

/* Rows of taps are runs up to here where many lie partly outside, more than one of MANY_BORDERS: then copies at the
 * image's borders cost more than a longer table. Lines that are brought to channels last have zeros around. */
enum { FEW_CHANNELS = 48, LONGEST_ROW = 256, LONGEST_INNER_ROW = 4096, MANY_BORDERS = 8 };
/* Of a tile of f32: their pointers stay in registers. */
enum { MOST_ROWS = 9 };
/* Of the image under a block of pixels: leaves the larger part of L2 to the weights. */
enum { IMAGE_BYTES = 256 * 1024 };
/* Of the weights that the tiles of a block meet, strip by strip, in L2: more are cut. */
enum { SLICE_BYTES = 1024 * 1024 };
/* Of results that stay in L1. */
enum { TILE_FLOATS = 4096 };
/* Columns behind the last whole panel are sums of products (dot_tile_priv.h) where that is half the work of a panel, a
 * sum of lanes costs as much as so many vectors, and they are taken from the panel for this many pixels. */
enum { SUM_WORK = 8, LONE_PIXELS = 64 };

/* Windows of a line that do not lie in it wholly, at most. */
static int64_t border_windows(const kern_conv_axis *w) {
  const int64_t before = w->begin > 0 ? (w->begin + w->stride - 1) / w->stride : 0;
  const int64_t last = w->in + w->begin - w->kernel, inside = last < 0 ? 0 : last / w->stride + 1;
  return base_min_i64(before + base_max_i64(w->out - inside, 0), w->out);
}

static void set_runs(conv_layer *l) {
  const kern_conv_axis *w = &l->c.axis[2];
  const int64_t borders = border_windows(w);
  const int64_t longest = l->c.channels_first || borders * MANY_BORDERS <= w->out ? LONGEST_INNER_ROW : LONGEST_ROW;
  int64_t row = w->kernel <= longest ? w->kernel * l->c.group_in : INT64_MAX;
  l->whole_rows = l->c.groups == 1 && w->kernel > 1 && w->dilation == 1 && l->pixel == l->c.group_in &&
                  l->c.group_in < FEW_CHANNELS && row <= longest;
  l->span = l->whole_rows ? row : l->c.group_in;
  l->runs = !l->span ? 0 : l->whole_rows ? l->c.taps / w->kernel : l->c.taps;
  l->padded = l->whole_rows && l->c.channels_first;
  l->wide_reach = false;
  for (int i = 0; i < KERN_CONV_AXES; i++)
    l->wide_reach |= !l->whole_rows && 2 * (l->c.axis[i].kernel - 1) * l->c.axis[i].dilation >= l->c.axis[i].in &&
                     l->c.axis[i].kernel > 1;
  l->borders = l->whole_rows && !l->padded ? borders : 0;
}

static int64_t at_least_one(double x, int64_t most) { return (int64_t)fmax(fmin(ceil(x), (double)most), 1); }

static int64_t lone_columns(const conv_layer *l) {
  const kern_conv *c = &l->c;
  int64_t lone = c->group_out % V_LANES, work = c->taps * kern_dot_pitch(c->group_in) / V_LANES + SUM_WORK;
  return c->groups == 1 && !l->pairs && c->out_size >= LONE_PIXELS && 2 * lone * work <= c->taps * c->group_in ? lone
                                                                                                               : 0;
}

/* Strips of as many panels as the tuning says, or of three where that leaves none over: they take fewer loads per
 * multiply-add, which narrow registers run short of as long as weights come from near. */
static int64_t strips_of(const conv_layer *l) {
  const kern_conv *c = &l->c;
  double weight_bytes = (double)(c->taps * c->group_in) * (double)(l->panels * V_LANES) * sizeof(float);
  if (V_REGISTERS <= 16 && l->panels % GEMM_MAX_PANELS == 0 && weight_bytes <= (double)(l->tuning->conv_weights * 4))
    return l->panels / GEMM_MAX_PANELS;
  if (l->pairs) return gemm_groups(l->panels, GEMM_MAX_PANELS);
  return gemm_groups(l->panels, base_min_i64(l->tuning->conv_panels, GEMM_MAX_PANELS));
}

static void set_panels(conv_layer *l) {
  const kern_conv *c = &l->c;
  l->shared = kern_conv_shared(false, c->groups, c->group_out, c->group_in, V_LANES);
  l->lone = lone_columns(l);
  l->twins = l->pairs && c->groups % 2 == 0 && c->group_out == V_LANES;
  l->panels = l->shared > 1 ? c->groups / l->shared : l->twins ? 2 : base_ceil_div(c->group_out - l->lone, V_LANES);
  l->strips = base_max_i64(strips_of(l), 1);
  l->in_strips = cut_into(l->strips, l->panels);
  int64_t widest = base_max_i64((l->panels + l->strips - 1) / l->strips, 1);
  l->tile_rows = base_min_i64(gemm_tile_rows(l->tuning, widest), l->pairs ? GEMM_MAX_ROWS : MOST_ROWS);
  if (l->shared > 1) l->tile_rows = CONV_GROUPS_ROWS;
  else if (l->panels == 0) l->tile_rows = DOT_TILE_ROWS;
  l->strips_at_once = base_max_i64(TILE_FLOATS / (l->tile_rows * widest * V_LANES), 1);
}

static void set_blocks(conv_layer *l, uint32_t workers) {
  const kern_conv *c = &l->c;
  l->products = l->shared > 1 ? 1 : l->twins ? c->groups / 2 : c->groups;
  const bool by_sample = c->channels_first || (l->made && !l->pixels_alone);
  l->maps = by_sample ? c->batch : 1;
  l->pixels = by_sample ? c->out_size : c->batch * c->out_size;
  double depth = (double)c->taps * (double)c->group_in, pixels = (double)l->pixels, products = (double)l->products;
  double seen = fmin((double)c->in_size / (double)c->out_size, (double)c->taps); /* of the image, by a pixel */
  double image_bytes = pixels * seen * (double)(c->group_in * c->groups) * 4;
  double weight_bytes = depth * (double)(c->group_out * c->groups) * 4, maps = (double)l->maps;
  const double least = (double)kern_task_size(KERN_TASK_WORK, workers);
  const double paying = depth * (double)base_max_i64(l->panels, 1) * pixels * products / least;
  double wanted = fmin(paying, (double)kern_tasks_wanted(workers) / maps);
  double fitting = fmax(ceil(image_bytes / IMAGE_BYTES), 1);
  int64_t tiles = (l->pixels + l->tile_rows - 1) / l->tile_rows;
  bool cut_weights = weight_bytes > image_bytes && l->shared == 1 && !c->channels_first; /* converted once per block */
  l->n_blocks = cut_weights ? at_least_one(wanted / products / fitting, l->strips) : 1;
  double cuts = wanted / (double)l->n_blocks;
  if (l->products > 1) cuts = fmin(cuts, (double)tiles / 4); /* a table serves all groups */
  l->m_blocks = at_least_one(fmax(fitting, cuts), tiles);
  const kern_cuts even = {.maps = l->maps * l->n_blocks,
                          .size = l->pixels,
                          .tile = l->tile_rows,
                          .row = 1,
                          .least = at_least_one(fitting, tiles),
                          .most = at_least_one(fmax(paying / (double)l->n_blocks, (double)l->m_blocks), tiles),
                          .cuts = l->m_blocks};
  if (l->products == 1 && !l->pairs) l->m_blocks = kern_even_cuts(&even, workers);
  if (l->pairs) { /* their tiles are best whole */
    const int64_t each = (tiles + l->m_blocks - 1) / l->m_blocks;
    l->m_blocks = (tiles + each - 1) / each;
  }
  l->product_blocks = at_least_one(wanted / (double)(l->n_blocks * l->m_blocks), l->products);
}

/* Of pairs alone: where windows of f32 are so deep, they are Winograd's. Tiles that leave out runs take all at once. */
static void set_slices(conv_layer *l) {
  const int64_t panels = base_ceil_div(l->panels, l->strips);
  const double bytes = (double)l->runs * (double)l->span * (double)panels * V_LANES * sizeof(float);
  const bool may = l->pairs && l->panels && !(l->wide_reach && !l->bf16.c);
  l->slices = may ? at_least_one(bytes / SLICE_BYTES, l->runs) : 1;
}

static const float *pack_now(const base_call *call, const kern_conv *c) {
  int64_t count;
  bool fits = kern_conv_packed_size(false, c->groups, c->group_out, c->taps, c->group_in, V_LANES, &count);
  float *packed = fits ? base_call_scratch(call, (size_t)count, sizeof *packed) : NULL;
  if (packed) KERN_NAME(packing).conv(base_in(call, 1), NULL, false, c->groups, V_LANES, packed);
  return packed;
}

td_status KERN_NAME(conv_layer_of)(const base_call *call, const gemm_pairs *pairs, conv_layer *l) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  kern_conv *c = &l->c;
  *l = (conv_layer){.pairs = pairs};
  TRY(kern_conv_of(call, false, c));
  int32_t first = c->channels_first ? 2 : 1, spatial = x->rank - 2;
  int64_t pitch[KERN_CONV_AXES] = {0};
  for (int32_t i = 0; i < spatial; i++) pitch[KERN_CONV_AXES - spatial + i] = x->strides[first + i];
  l->width = c->groups * c->group_in;
  const bool whole = gemm_are_pairs(x, l->width, pitch[2]);
  const int64_t unit = whole ? 2 : 1; /* elements of x that count as one */
  l->image = x->data;
  l->sample = x->strides[0] / unit;
  l->plane = pitch[0] / unit;
  l->line = pitch[1] / unit;
  TRY(KERN_NAME(product_of)(call, &l->e, &l->front));
  l->bf16 = gemm_bf16_of(call, &l->e);
  l->copied = x->dtype == TD_BF16 && !whole;
  l->made = l->front || (l->pairs && !whole && !c->channels_first);
  if (l->pairs) c->group_in = kern_pairs_depth(c->group_in) / 2;
  l->pixel = c->channels_first || l->made ? c->groups * c->group_in : pitch[2] / unit;
  l->raw_pitch = pitch[2];
  l->channel = c->channels_first ? x->strides[1] : 1;
  l->out = y->data;
  l->out_pitch = kern_pitch(y);
  if (l->made && c->channels_first)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "pixels that are made of an image with channels first");
  l->chain = l->e.chain;
  l->e.chain = NULL;
  l->tuning = kern_tuning_of(call);
  l->weights = c->panel ? base_in(call, 1)->data : pack_now(call, c);
  if (!l->weights) return base_no_memory(call->err, "scratch");
  l->pixels_alone = c->taps == 1;
  for (int i = 0; i < KERN_CONV_AXES; i++)
    l->pixels_alone &= c->axis[i].stride == 1 && c->axis[i].begin == 0 && c->axis[i].in == c->axis[i].out;
  set_runs(l);
  set_panels(l);
  set_blocks(l, call->workers);
  set_slices(l);
  return TD_OK;
}
