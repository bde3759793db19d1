/* conv.c -- KERN_CONV: td::conv on f32 (kernels/products/conv.h) as products of pixels with packed weights
 * (pack_conv.h).
 *
 * No matrix of patches is made: a table points from each output pixel to the runs of floats under its window, and the
 * tile multiplies along them. A run is the channels of one tap or, where neighbouring taps are neighbours in memory and
 * channels are few, those of a whole row of taps. What lies outside the image is a run of zeros; a row of taps that
 * lies only partly in it is copied.
 *
 *     output pixel -> | run | run | ... |        runs * span = taps * channels of a group
 *
 * Sums go along the packed weights, whatever the runs are. An image with channels first is brought to channels last
 * line by line, as many lines as a task needs. conv_pixels.c has another form, for layers of few weights, and
 * kernels/products/conv_planes.c one for few channels out. */
#include "kernels/products/conv.h"
#include "kernels/products/channels_last_priv.h"
#include "kernels/products/conv_groups_priv.h"
#include "kernels/products/conv_pixels_priv.h"
#include "kernels/products/conv_table_priv.h"
#include "kernels/products/wide/planes_level_priv.h"
#include "kernels/products/dot_tile_priv.h"
#include "kernels/products/epilogue_priv.h"
#include "kernels/products/gemm_priv.h"
#include "kernels/products/packing.h"
#include "kernels/tasks_priv.h"
#include "kernels/tuning.h"

/* Rows of taps are runs up to here where some lie partly outside: then copies at the image's borders cost more than a
 * longer table. */
enum { FEW_CHANNELS = 48, LONGEST_ROW = 256, LONGEST_INNER_ROW = 4096 };
/* Of a tile: their pointers stay in registers. */
enum { MOST_ROWS = 9, MOST_PAIR_ROWS = 12 };
/* Pointers behind those of a block's pixels, to zeros: where runs are short, tiles take rows that they have not from
 * there, or from the next tile's, which is quicker than to look where theirs end. */
enum { BEHIND = MOST_PAIR_ROWS, SHORT = 16 };
/* Of the image under a block of pixels: leaves the larger part of L2 to the weights. */
enum { IMAGE_BYTES = 256 * 1024 };
/* Of the weights that the tiles of a block meet, strip by strip, in L2: more are cut. */
enum { SLICE_BYTES = 1024 * 1024 };
/* Of results that stay in L1. */
enum { TILE_FLOATS = 4096 };
/* Columns behind the last whole panel are sums of products (dot_tile_priv.h) where that is half the work of a panel, a
 * sum of lanes costs as much as so many vectors, and they are taken from the panel for this many pixels. */
enum { SUM_WORK = 8, LONE_PIXELS = 64 };

typedef struct layer {
  kern_conv c;
  kern_epilogue e;          /* but for the chain */
  kern_chain *chain;        /* on blocks, where sums are through all else; NULL: there is none */
  kern_chain *front;        /* makes the image's pixels, those that a block sees at a time; NULL: there is none */
  const gemm_pairs *pairs;  /* pixels are rounded to bf16, and channels in are pairs; NULL: they are f32 */
  bool copied;              /* pixels are bf16, but not whole pairs */
  bool made;                /* pixels are, by one of these */
  int64_t raw_pitch, width; /* elements from pixel to pixel of x, and of one */
  bool pixels_alone;        /* each output pixel sees the input pixel of its number, and no other */
  const kern_tuning *tuning;
  const float *image, *weights;
  int64_t sample, plane, line, pixel, channel; /* floats from one to the next of the image */
  int64_t skipped;                             /* floats of a sample in front of `image` */
  float *out;
  int64_t out_pitch;
  gemm_bf16 bf16;
  bool whole_rows;        /* a run is a row of taps */
  bool padded;            /* lines that are converted have zeros around, so that rows of taps lie in them wholly */
  int64_t runs, span;     /* of a pixel; floats of a run */
  int64_t borders;        /* pixels of an output line whose row of taps is copied */
  bool wide_reach;        /* many runs lie outside: tiles leave out those that are so for all of their pixels */
  int64_t maps, pixels;   /* pixels of a map: a sample where lines are converted, else all */
  int64_t shared;         /* groups that share a panel; 1: each has its own */
  int64_t panels, strips; /* of a group; a strip's panels go into one tile */
  int64_t slices;         /* of the runs, whose weights stay near while all tiles of a block meet them */
  cut in_strips;          /* panels */
  int64_t strips_at_once; /* their results stay in L1 */
  int64_t lone;           /* columns behind all panels, done with the last strip */
  int64_t products;       /* groups, or 1 where groups share panels: then all are done together */
  int64_t tile_rows;
  int64_t m_blocks, n_blocks, product_blocks; /* blocks of pixels in a map, of strips in a group, of products */
} layer;

/* What a worker has of its own. */
typedef struct desk {
  const float **table; /* of a block: [run][pixel], table_pitch apart */
  int64_t table_pitch;
  const float *zeros; /* span of them, for every group */
  float *patches, *next_patch;
  float *sums;       /* of a block and a strip, from slice to slice; NULL: they are in `out` */
  float *lines;      /* of the image, with channels last, or made by the chain in front */
  int64_t made;      /* the first pixel of the block that they were made for; -1: none yet */
  const float *lone; /* weights of lone columns */
} desk;

/* An output pixel of a map. */
typedef struct place {
  int64_t sample, at[KERN_CONV_AXES];
} place;

/* ---- how a layer is cut ---- */

static void set_runs(layer *l) {
  const kern_conv_axis *w = &l->c.axis[2];
  const bool inner = w->begin == 0 && (w->out - 1) * w->stride + w->kernel <= w->in;
  const int64_t longest = inner ? LONGEST_INNER_ROW : LONGEST_ROW;
  int64_t row = w->kernel <= longest ? w->kernel * l->c.group_in : INT64_MAX;
  l->whole_rows = l->c.groups == 1 && w->kernel > 1 && w->dilation == 1 && l->pixel == l->c.group_in &&
                  l->c.group_in < FEW_CHANNELS && row <= longest;
  l->span = l->whole_rows ? row : l->c.group_in;
  l->runs = !l->span ? 0 : l->whole_rows ? l->c.taps / w->kernel : l->c.taps;
  l->borders = 0;
  l->padded = l->whole_rows && l->c.channels_first;
  l->wide_reach = false;
  for (int i = 0; i < KERN_CONV_AXES; i++)
    l->wide_reach |= !l->whole_rows && 2 * (l->c.axis[i].kernel - 1) * l->c.axis[i].dilation >= l->c.axis[i].in &&
                     l->c.axis[i].kernel > 1;
  for (int64_t o = 0; l->whole_rows && !l->padded && o < w->out; o++) {
    int64_t from = o * w->stride - w->begin;
    l->borders += from < 0 || from + w->kernel > w->in;
  }
}

static int64_t at_least_one(double x, int64_t most) { return (int64_t)fmax(fmin(ceil(x), (double)most), 1); }

static int64_t lone_columns(const layer *l) {
  const kern_conv *c = &l->c;
  int64_t lone = c->group_out % V_LANES, work = c->taps * kern_dot_pitch(c->group_in) / V_LANES + SUM_WORK;
  return c->groups == 1 && !l->pairs && c->out_size >= LONE_PIXELS && 2 * lone * work <= c->taps * c->group_in ? lone
                                                                                                               : 0;
}

/* Strips of as many panels as the tuning says, or of three where that leaves none over: they take fewer loads per
 * multiply-add, which narrow registers run short of as long as weights come from near. */
static int64_t strips_of(const layer *l) {
  const kern_conv *c = &l->c;
  double weight_bytes = (double)(c->taps * c->group_in) * (double)(l->panels * V_LANES) * sizeof(float);
  if (V_REGISTERS <= 16 && l->panels % GEMM_MAX_PANELS == 0 && weight_bytes <= (double)(l->tuning->conv_weights * 4))
    return l->panels / GEMM_MAX_PANELS;
  if (l->pairs) return gemm_groups(l->panels, GEMM_MAX_PANELS);
  return gemm_groups(l->panels, base_min_i64(l->tuning->conv_panels, GEMM_MAX_PANELS));
}

static void set_panels(layer *l) {
  const kern_conv *c = &l->c;
  l->shared = kern_conv_shared(false, c->groups, c->group_out, c->group_in, V_LANES);
  l->lone = lone_columns(l);
  l->panels = l->shared > 1 ? c->groups / l->shared : (c->group_out - l->lone + V_LANES - 1) / V_LANES;
  l->strips = base_max_i64(strips_of(l), 1);
  l->in_strips = cut_into(l->strips, l->panels);
  int64_t widest = base_max_i64((l->panels + l->strips - 1) / l->strips, 1);
  l->tile_rows = base_min_i64(gemm_tile_rows(l->tuning, widest), l->pairs ? MOST_PAIR_ROWS : MOST_ROWS);
  if (l->shared > 1) l->tile_rows = CONV_GROUPS_ROWS;
  else if (l->panels == 0) l->tile_rows = DOT_TILE_ROWS;
  l->strips_at_once = base_max_i64(TILE_FLOATS / (l->tile_rows * widest * V_LANES), 1);
}

static void set_blocks(layer *l, uint32_t workers) {
  const kern_conv *c = &l->c;
  l->products = l->shared > 1 ? 1 : c->groups;
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
static void set_slices(layer *l) {
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

static td_status describe(const base_call *call, layer *l) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  kern_conv *c = &l->c;
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

/* ---- the table ---- */

static place place_of(const layer *l, int64_t pixel) {
  const kern_conv_axis *a = l->c.axis;
  int64_t in_sample = pixel % l->c.out_size;
  return (place){.sample = pixel / l->c.out_size,
                 .at = {in_sample / a[2].out / a[1].out, in_sample / a[2].out % a[1].out, in_sample % a[2].out}};
}

/* A row of taps that begins at pixel `from` of a line, with zeros outside of it. */
static const float *copy_row(const layer *l, desk *d, const float *line, int64_t from) {
  const kern_conv_axis *w = &l->c.axis[2];
  float *patch = d->next_patch;
  int64_t first = base_min_i64(base_max_i64(-from, 0), w->kernel);
  int64_t last = base_max_i64(base_min_i64(w->in - from, w->kernel), first), channels = l->c.group_in;
  memset(patch, 0, (size_t)(first * channels) * sizeof *patch);
  if (last > first)
    memcpy(patch + first * channels, line + (from + first) * channels,
           (size_t)((last - first) * channels) * sizeof *patch);
  memset(patch + last * channels, 0, (size_t)((w->kernel - last) * channels) * sizeof *patch);
  d->next_patch += l->span;
  return patch;
}

/* A run that begins at pixel `x` of a line and does not lie in it wholly. */
static const float *border_run(const layer *l, desk *d, const float *line, int64_t x) {
  return line && l->whole_rows ? copy_row(l, d, line, x) : d->zeros;
}

/* The runs of one line of taps for `count` pixels from output column `o` on, in `to`. `line` is NULL outside the image.
 * Returns the number of runs. */
static int64_t line_runs(const layer *l, desk *d, const float *line, int64_t o, int64_t count, const float **to) {
  const kern_conv_axis *w = &l->c.axis[2];
  int64_t from = o * w->stride - w->begin, runs = l->whole_rows ? 1 : w->kernel;
  int64_t width = l->whole_rows ? w->kernel : 1, step = w->stride * l->pixel;
  for (int64_t k = 0; k < runs; k++, to += d->table_pitch, from += w->dilation) {
    /* Pixels [first, last) have their run in the line. */
    int64_t room = line ? w->in - width - from : -1, r = 0;
    int64_t first = base_min_i64(from < 0 ? (w->stride - 1 - from) / w->stride : 0, count);
    int64_t last = room < 0 ? 0 : base_min_i64(room / w->stride + 1, count);
    for (; r < (last > first ? first : count); r++) to[r] = border_run(l, d, line, from + r * w->stride);
    if (r < last) {
      fill_places(to + r, line + (from * l->pixel + r * step), step, last - r);
      r = last;
    }
    for (; r < count; r++) to[r] = border_run(l, d, line, from + r * w->stride);
  }
  return runs;
}

/* All runs of `count` pixels of one output line. */
static void pixel_runs(const layer *l, desk *d, const place *p, int64_t count, const float **to) {
  const kern_conv_axis *a = l->c.axis;
  int64_t z = p->at[0] * a[0].stride - a[0].begin;
  for (int64_t i = 0; i < a[0].kernel; i++, z += a[0].dilation) {
    int64_t y = p->at[1] * a[1].stride - a[1].begin;
    for (int64_t j = 0; j < a[1].kernel; j++, y += a[1].dilation) {
      bool inside = z >= 0 && z < a[0].in && y >= 0 && y < a[1].in;
      const float *line = inside ? l->image + (p->sample * l->sample + z * l->plane + y * l->line - l->skipped) : NULL;
      to += d->table_pitch * line_runs(l, d, line, p->at[2], count, to);
    }
  }
}

/* Do tiles read pointers that are not their pixels'? */
static bool reads_on(const layer *l) { return l->pairs && l->span <= SHORT; }

/* Pixels [m0, m1), line by line, of the first group: those of the others lie behind. */
static void fill_table(const layer *l, desk *d, int64_t m0, int64_t m1) {
  d->next_patch = d->patches;
  for (int64_t m = m0, count; m < m1 && l->runs; m += count) {
    place p = place_of(l, m);
    count = base_min_i64(l->c.axis[2].out - p.at[2], m1 - m);
    pixel_runs(l, d, &p, count, d->table + (m - m0));
  }
  for (int64_t i = 0; reads_on(l) && i < l->runs; i++)
    fill_places(d->table + i * d->table_pitch + (m1 - m0), d->zeros, 0, BEHIND);
}

/* ---- channels first ---- */

/* Of one sample's input what some output pixels see: lines [first, last), planes merged, of each pixels [from, to). */
typedef struct part {
  int64_t first, last, from, to;
} part;

static void axis_seen(const kern_conv_axis *a, int64_t o0, int64_t o1, int64_t *first, int64_t *last) {
  *first = base_min_i64(base_max_i64(o0 * a->stride - a->begin, 0), a->in);
  *last = base_min_i64(o1 * a->stride - a->begin + (a->kernel - 1) * a->dilation + 1, a->in);
  *last = base_max_i64(*last, *first);
}

/* What output pixels [m0, m1) see: of one line a part of the input's lines, of one plane some lines, else all lines. */
static part part_seen(const layer *l, int64_t m0, int64_t m1) {
  const kern_conv_axis *a = l->c.axis;
  place p = place_of(l, m0), q = place_of(l, m1 - 1);
  bool one_plane = p.at[0] == q.at[0] && a[0].in == 1, one_line = p.at[0] == q.at[0] && p.at[1] == q.at[1];
  int64_t z0, z1, y0, y1;
  part seen_part;
  axis_seen(&a[0], p.at[0], q.at[0], &z0, &z1);
  axis_seen(&a[1], one_plane ? p.at[1] : 0, one_plane ? q.at[1] : a[1].out - 1, &y0, &y1);
  axis_seen(&a[2], one_line ? p.at[2] : 0, one_line ? q.at[2] : a[2].out - 1, &seen_part.from, &seen_part.to);
  seen_part.first = one_plane ? y0 : z0 * a[1].in;
  seen_part.last = one_plane ? (z1 > z0 ? y1 : y0) : z1 * a[1].in;
  return seen_part;
}

/* A line of the image as it is converted: with `padded`, from the first tap of the first window to the last of the last
 * one, and all of it. */
static kern_conv_axis line_axis(const layer *l) {
  kern_conv_axis w = l->c.axis[2];
  if (!l->padded) return w;
  const int64_t before = base_max_i64(w.begin, 0), end = (w.out - 1) * w.stride - w.begin + w.kernel;
  w.in = before + base_max_i64(w.in, end);
  w.begin -= before;
  return w;
}

/* The layer over what pixels [m0, m1) see alone, with channels last, in d->lines. What is around the lines there stays
 * zeros. */
static layer convert_lines(const layer *l, const desk *d, int64_t m0, int64_t m1) {
  layer converted = *l;
  int64_t height = l->c.axis[1].in, sample = m0 / l->c.out_size;
  const part p = part_seen(l, m0, m1);
  converted.c.axis[2] = line_axis(l);
  const int64_t before = l->c.axis[2].begin - converted.c.axis[2].begin;
  converted.image = d->lines;
  converted.sample = 0;
  converted.line = converted.c.axis[2].in * l->pixel;
  converted.plane = height * converted.line;
  converted.skipped = p.first * converted.line;
  for (int64_t i = p.first; i < p.last; i++) {
    const float *from = l->image + (sample * l->sample + i / height * l->plane + i % height * l->line + p.from);
    float *to = d->lines + ((i - p.first) * converted.line + (before + p.from) * l->pixel);
    if (l->pairs) l->pairs->from_planes(to, from, l->channel, l->width, p.to - p.from);
    else KERN_NAME(channels_last)(to, from, l->channel, l->pixel, p.to - p.from);
    if (l->padded) memset(to + (p.to - p.from) * l->pixel, 0, CHANNELS_LAST_BEHIND * sizeof *to);
  }
  return converted;
}

/* ---- pixels that are made ---- */

static void make_pixels(const layer *l, int64_t pixel, int64_t count, float *to) {
  const kern_chain_tile t = {
      .sums = to, .pitch = l->width, .row = pixel, .row_step = 1, .rows = count, .columns = l->width};
  if (l->front) kern_chain_run(l->front, &t);
  const int64_t first = pixel * l->raw_pitch;
  if (l->copied) gemm_copy_rows(to, (const uint16_t *)(const void *)l->image + first, l->raw_pitch, count, l->width);
  else if (l->pairs && l->front) gemm_round_rows(l->pairs, to, to, l->width, count, l->width);
  else if (l->pairs) gemm_round_rows(l->pairs, to, l->image + first, l->raw_pitch, count, l->width);
}

/* The layer over what pixels [m0, m1) see alone, as the chain in front makes it, in d->lines: the pixels themselves,
 * the part that is seen of one line, or all of the lines that a part is seen of. */
static layer make_lines(const layer *l, desk *d, int64_t m0, int64_t m1) {
  const kern_conv_axis *a = l->c.axis;
  const part p = l->pixels_alone ? (part){0} : part_seen(l, m0, m1);
  const int64_t lines = p.last - p.first, from = lines == 1 ? p.from : 0;
  const int64_t first = l->pixels_alone ? m0 : m0 / l->c.out_size * l->c.in_size + p.first * a[2].in + from;
  const int64_t count = l->pixels_alone ? m1 - m0 : lines == 1 ? p.to - p.from : lines * a[2].in;
  layer made = *l;
  if (d->made != m0) make_pixels(l, first, count, d->lines);
  d->made = m0;
  made.image = d->lines;
  made.line = a[2].in * l->pixel;
  made.plane = a[1].in * made.line;
  made.sample = l->c.in_size * l->pixel;
  made.skipped = first * l->pixel;
  return made;
}

/* ---- tasks ---- */

/* Pixels [m0, m1), whose table is made, in tiles. */
typedef struct block {
  int64_t group, m0, m1, tiles;
  cut in_tiles;
} block;

static void run_lone_columns(const layer *l, const desk *d, int64_t m, int64_t from, int64_t rows) {
  int64_t column = l->panels * V_LANES;
  const kern_epilogue e = kern_epilogue_at(&l->e, m, column);
  const dot_tile t = {.a = d->table + from,
                      .a_pitch = d->table_pitch,
                      .runs = l->runs,
                      .taps = l->span / l->c.group_in,
                      .k = l->c.group_in,
                      .b = d->lone,
                      .c = l->out + m * l->out_pitch + column,
                      .c_pitch = l->out_pitch};
  KERN_NAME(dot_tile)(&t, rows, l->lone, &e);
}

static void multiply(const layer *l, const gemm_tile *t, int64_t rows, int64_t panels, const kern_epilogue *e) {
  if (l->pairs) l->pairs->tile(t, rows, panels, e);
  else KERN_NAME(gemm_tile)(t, rows, panels, e);
}

/* The tile over some of the runs, the last ones where `last`: its sums begin with the bias, or go on where it has more.
 */
static void multiply_some(const layer *l, const gemm_tile *t, int64_t rows, int64_t panels, const kern_epilogue *e,
                          bool last) {
  const kern_epilogue start = {.act = KERN_ACT_none, .bias = e->bias};
  kern_epilogue rest = *e;
  if (t->more) rest.bias = NULL;
  multiply(l, t, rows, panels, last ? &rest : t->more ? NULL : &start);
}

/* Is run `run` zeros for all of a tile's rows? */
static bool is_dead(const layer *l, const desk *d, int64_t run, int64_t from, int64_t rows) {
  const uintptr_t zeros = (uintptr_t)d->zeros, bytes = (uintptr_t)(l->span * l->c.groups) * sizeof(float);
  const float *const *table = d->table + run * d->table_pitch + from;
  bool dead = true;
  for (int64_t r = 0; r < rows && dead; r++) dead = (uintptr_t)table[r] - zeros < bytes;
  return dead;
}

/* The tile over the runs that are not dead. They make up one chain, from the bias on: what is left out adds zeros to
 * it, so that the bits are those of the whole. */
static void run_live(const layer *l, const desk *d, const gemm_tile *whole, int64_t from, int64_t rows, int64_t panels,
                     const kern_epilogue *e) {
  gemm_tile t = *whole;
  int64_t run = 0, end = 0;
  for (;;) {
    while (run < l->runs && is_dead(l, d, run, from, rows)) run++;
    end = run;
    while (end < l->runs && !is_dead(l, d, end, from, rows)) end++;
    t.a = whole->a + run * d->table_pitch;
    t.b = whole->b + run * l->span * V_LANES;
    t.taps = end - run;
    run = end;
    while (run < l->runs && is_dead(l, d, run, from, rows)) run++;
    if (run == l->runs) break;
    multiply_some(l, &t, rows, panels, e, false);
    t.more = true;
  }
  multiply_some(l, &t, rows, panels, e, true);
}

/* The tile over a slice of the runs, of one strip. Sums go on from those of the slice before. */
static void run_slice(const layer *l, const desk *d, const gemm_tile *whole, int64_t slice, int64_t from, int64_t rows,
                      int64_t panels, const kern_epilogue *e) {
  const int64_t first = gemm_split(l->runs, l->slices, slice), end = gemm_split(l->runs, l->slices, slice + 1);
  const bool last = slice + 1 == l->slices;
  gemm_tile t = *whole;
  t.a += first * d->table_pitch;
  t.b += first * l->span * V_LANES;
  t.taps = end - first;
  t.more = slice > 0;
  if (d->sums) {
    t.c_pitch = panels * V_LANES;
    t.c = d->sums + from * t.c_pitch;
  }
  if (!last) t.bf16 = (gemm_bf16){0};
  multiply_some(l, &t, rows, panels, e, last);
}

/* Strips [s0, s1), which have as many panels each. `fetch`: the tiles share out the fetching of the next strip's
 * weights. `slice`: of the runs, where there are several. */
static void run_tile(const layer *l, const desk *d, const block *b, int64_t tile, int64_t s0, int64_t s1, bool fetch,
                     int64_t slice) {
  int64_t p0 = cut_at(&l->in_strips, s0), panels = cut_size(&l->in_strips, s0);
  int64_t depth = l->c.taps * l->c.group_in, column = b->group * l->c.group_out + p0 * V_LANES;
  int64_t from = cut_at(&b->in_tiles, tile), rows = cut_size(&b->in_tiles, tile);
  const kern_epilogue e = kern_epilogue_at(&l->e, b->m0 + from, column);
  gemm_tile t = {.a = d->table + from,
                 .a_pitch = d->table_pitch,
                 .a_whole = reads_on(l),
                 .taps = l->runs,
                 .k = l->span,
                 .a_first = b->group * l->c.group_in,
                 .b = l->weights + (b->group * l->panels + p0) * depth * V_LANES,
                 .b_panel = depth * V_LANES,
                 .c = l->out + (b->m0 + from) * l->out_pitch + column,
                 .c_pitch = l->out_pitch,
                 .bf16 = gemm_bf16_at(&l->bf16, b->m0 + from, column),
                 .columns = base_min_i64((s1 - s0) * panels * V_LANES, l->c.group_out - p0 * V_LANES),
                 .rolled = l->tuning->tile_steps == 1,
                 .b_ahead = l->tuning->b_lines * V_LANES};
  if (fetch) {
    t.ahead_step = (panels * V_LANES + b->tiles - 1) / b->tiles;
    t.ahead = t.b + panels * t.b_panel + tile * t.ahead_step * depth;
  }
  if (l->made && !l->copied && l->pixels_alone && !fetch && b->m1 + from < l->pixels) {
    t.ahead = l->image + (b->m1 + from) * l->raw_pitch;
    t.ahead_step = (rows * l->raw_pitch + depth - 1) / depth;
  }
  if (l->slices > 1) run_slice(l, d, &t, slice, from, rows, panels, &e);
  else if (panels && l->wide_reach && !l->bf16.c) run_live(l, d, &t, from, rows, panels, &e);
  else if (panels) multiply(l, &t, rows, panels, &e);
  if (l->lone && s1 == l->strips) run_lone_columns(l, d, b->m0 + from, from, rows);
}

/* All groups of a block, where they share panels. */
static void run_groups(const layer *l, const desk *d, const block *b) {
  conv_groups t = {.a_pitch = d->table_pitch,
                   .taps = l->runs,
                   .b = l->weights,
                   .b_panel = l->c.taps * l->c.group_in * V_LANES,
                   .group_in = l->c.group_in,
                   .group_out = l->c.group_out,
                   .panels = l->panels,
                   .c_pitch = l->out_pitch};
  for (int64_t i = 0; i < b->tiles; i++) {
    int64_t from = cut_at(&b->in_tiles, i), rows = cut_size(&b->in_tiles, i);
    const kern_epilogue e = kern_epilogue_at(&l->e, b->m0 + from, 0);
    t.a = d->table + from;
    t.c = l->out + (b->m0 + from) * l->out_pitch;
    KERN_NAME(conv_groups)(&t, rows, &e);
  }
}

/* The end of the strips from `s` on that go into one call: they have as many panels. */
static int64_t alike(const layer *l, int64_t s, int64_t s1) {
  int64_t end = s < l->in_strips.more ? base_min_i64(l->in_strips.more, s1) : s1;
  return base_min_i64(end, s + l->strips_at_once);
}

/* Strips [s0, s1) of a block. Weights that stay in L2 from block to block meet one tile after the other; else the tiles
 * meet one strip after the other. */
static void run_block(const layer *l, const desk *d, const block *b, int64_t s0, int64_t s1) {
  double bytes = (double)(l->c.taps * l->c.group_in) * (double)(l->panels * V_LANES * 4) * (double)(s1 - s0);
  if (l->n_blocks == 1 && l->slices == 1 && bytes <= (double)(l->tuning->conv_weights * 4 * l->strips)) {
    for (int64_t i = 0; i < b->tiles; i++)
      for (int64_t s = s0, end; s < s1; s = end) run_tile(l, d, b, i, s, end = alike(l, s, s1), false, 0);
    return;
  }
  for (int64_t s = s0; s < s1; s++)
    for (int64_t slice = 0; slice < l->slices; slice++)
      for (int64_t i = 0; i < b->tiles; i++) run_tile(l, d, b, i, s, s + 1, l->slices == 1 && s + 1 < l->strips, slice);
}

/* The chain on a block's columns [from, end), which are through all else: it is fastest on long rows. */
static void run_chain(const layer *l, const block *b, int64_t from, int64_t end) {
  const kern_chain_tile t = {.sums = l->out + b->m0 * l->out_pitch + from,
                             .pitch = l->out_pitch,
                             .row = b->m0,
                             .row_step = 1,
                             .rows = b->m1 - b->m0,
                             .column = from,
                             .columns = end - from};
  if (l->chain) kern_chain_run(l->chain, &t);
}

/* Where a block of pixels begins. Those of groups of pairs are whole tiles, which missing rows do not make quicker; of
 * one group even blocks are, whose ends meet those of lines. */
static int64_t block_at(const layer *l, int64_t number) {
  if (!l->pairs || l->products == 1) return gemm_split(l->pixels, l->m_blocks, number);
  const int64_t tiles = base_ceil_div(l->pixels, l->tile_rows);
  return base_min_i64(gemm_split(tiles, l->m_blocks, number) * l->tile_rows, l->pixels);
}

/* Tasks count blocks of strips fastest, then blocks of pixels, groups and maps. */
static void run_task(const layer *l, desk *d, int64_t task) {
  int64_t n = task % l->n_blocks, m = task / l->n_blocks % l->m_blocks, rest = task / l->n_blocks / l->m_blocks;
  int64_t p = rest % l->product_blocks, map = rest / l->product_blocks * l->pixels;
  block b = {.group = gemm_split(l->products, l->product_blocks, p),
             .m0 = map + block_at(l, m),
             .m1 = map + block_at(l, m + 1)};
  b.tiles = (b.m1 - b.m0 + l->tile_rows - 1) / l->tile_rows;
  b.in_tiles = cut_into(b.tiles, b.m1 - b.m0);
  if ((l->c.channels_first || l->made) && l->runs) {
    const layer seen = l->made ? make_lines(l, d, b.m0, b.m1) : convert_lines(l, d, b.m0, b.m1);
    fill_table(&seen, d, b.m0, b.m1);
  } else {
    fill_table(l, d, b.m0, b.m1);
  }
  if (l->shared > 1) {
    run_groups(l, d, &b);
    run_chain(l, &b, 0, l->c.groups * l->c.group_out);
    return;
  }
  const int64_t s0 = gemm_split(l->strips, l->n_blocks, n), s1 = gemm_split(l->strips, l->n_blocks, n + 1);
  const int64_t from = cut_at(&l->in_strips, s0) * V_LANES;
  const int64_t end = s1 == l->strips ? l->c.group_out : cut_at(&l->in_strips, s1) * V_LANES;
  const int64_t last = gemm_split(l->products, l->product_blocks, p + 1);
  int64_t first = b.group; /* that the chain was not on yet: groups that are done in whole lie side by side */
  for (; b.group < last; b.group++) {
    run_block(l, d, &b, s0, s1);
    if (b.group + 1 < last && l->n_blocks == 1) continue;
    run_chain(l, &b, first * l->c.group_out + from, b.group * l->c.group_out + end);
    first = b.group + 1;
  }
}

/* The weights of lone columns, from the panel that they would fill in part. */
static bool take_lone_columns(const base_call *call, const layer *l, desk *d) {
  if (!l->lone) return true;
  int64_t taps = l->c.taps, channels = l->c.group_in, pitch = kern_dot_pitch(channels), depth = taps * pitch;
  const float *panel = l->weights + l->panels * taps * channels * V_LANES;
  float *to = base_call_scratch(call, (size_t)(l->lone * depth), sizeof *to);
  d->lone = to;
  if (!to) return false;
  memset(to, 0, (size_t)(l->lone * depth) * sizeof *to);
  for (int64_t tap = 0; tap < taps; tap++)
    for (int64_t k = 0; k < channels; k++, panel += V_LANES)
      for (int64_t i = 0; i < l->lone; i++) to[i * depth + tap * pitch + k] = panel[i];
  return true;
}

/* Room for the largest block of pixels. */
static bool make_desk(const base_call *call, const layer *l, desk *d) {
  const kern_conv_axis *a = l->c.axis;
  int64_t most = 0, lines = 0;
  for (int64_t i = 0; i < l->m_blocks; i++) most = base_max_i64(most, block_at(l, i + 1) - block_at(l, i));
  int64_t copied = base_min_i64(most, (most / a[2].out + 2) * l->borders);
  const bool by_lines = l->c.channels_first || (l->made && !l->pixels_alone);
  size_t span = (size_t)(l->c.groups > 1 ? l->span * l->c.groups : l->span); /* groups move on in zeros, too */
  float *zeros = base_call_scratch(call, span, sizeof *zeros);
  d->table_pitch = (most + BEHIND) | 8; /* those of a pixel do not lie a power of two apart, on one line of L1 */
  d->table = base_call_scratch(call, (size_t)d->table_pitch, (size_t)l->runs * sizeof *d->table);
  const bool sums = l->slices > 1 && l->bf16.c;
  d->sums = sums ? base_call_scratch(call, (size_t)most, (size_t)(GEMM_MAX_PANELS * V_LANES) * sizeof *d->sums) : NULL;
  if (sums && !d->sums) return false;
  d->patches = base_call_scratch(call, (size_t)copied, (size_t)(l->runs * l->span) * sizeof *d->patches);
  if (by_lines && l->runs) {
    int64_t rows = ((most / a[2].out + 1) * a[1].stride + (a[1].kernel - 1) * a[1].dilation + 1);
    bool planes = a[0].in > 1 || a[0].out > 1;
    lines = planes ? a[0].in * a[1].in : base_min_i64(rows, a[1].in);
  }
  const int64_t pixels = l->made && l->pixels_alone ? most : lines * line_axis(l).in;
  const size_t floats = (size_t)(pixels * l->width + CHANNELS_LAST_BEHIND);
  d->made = -1;
  d->lines = base_call_scratch(call, floats, sizeof *d->lines);
  if (!zeros || !d->table || !d->patches || !d->lines) return false;
  if (l->padded) memset(d->lines, 0, floats * sizeof *d->lines);
  memset(zeros, 0, span * sizeof *zeros);
  d->zeros = zeros;
  return take_lone_columns(call, l, d);
}

td_status KERN_NAME(conv_by)(const base_call *call, const gemm_pairs *pairs) {
  layer l = {.pairs = pairs};
  desk d;
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  TRY(describe(call, &l));
#if CONV_PLANES
  if (!l.made && !l.pairs && kern_conv_planes_fit(&l.c, &KERN_NAME(planes_level)))
    return kern_conv_planes(call, &l.c, l.weights, &KERN_NAME(planes_level));
#endif
  if (!l.made && !l.pairs && KERN_NAME(conv_pixels_fit)(&l.c)) return KERN_NAME(conv_pixels)(call, &l.c, l.weights);
  if (!make_desk(call, &l, &d)) return base_no_memory(call->err, "scratch");
  int64_t total = l.maps * l.product_blocks * l.m_blocks * l.n_blocks;
  if (total > INT32_MAX)
    return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "a convolution of %lld parts", (long long)total);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total))
    run_task(&l, &d, task);
  return TD_OK;
}

td_status KERN_NAME(conv)(const base_call *call) { return KERN_NAME(conv_by)(call, NULL); }
