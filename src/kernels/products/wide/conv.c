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
#include "kernels/products/conv_layer_priv.h"
#include "kernels/products/wide/planes_level_priv.h"
#include "kernels/products/dot_tile_priv.h"
#include "kernels/products/epilogue_priv.h"
#include "kernels/products/gemm_priv.h"

/* Pointers behind those of a block's pixels, to zeros: where runs are short, tiles take rows that they have not from
 * there, or from the next tile's, which is quicker than to look where theirs end. */
enum { BEHIND = GEMM_MAX_ROWS, SHORT = 16 };

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

/* ---- the table ---- */

static place place_of(const conv_layer *l, int64_t pixel) {
  const kern_conv_axis *a = l->c.axis;
  int64_t in_sample = pixel % l->c.out_size;
  return (place){.sample = pixel / l->c.out_size,
                 .at = {in_sample / a[2].out / a[1].out, in_sample / a[2].out % a[1].out, in_sample % a[2].out}};
}

/* A row of taps that begins at pixel `from` of a line, with zeros outside of it. */
static const float *copy_row(const conv_layer *l, desk *d, const float *line, int64_t from) {
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
static const float *border_run(const conv_layer *l, desk *d, const float *line, int64_t x) {
  return line && l->whole_rows ? copy_row(l, d, line, x) : d->zeros;
}

/* The runs of one line of taps for `count` pixels from output column `o` on, in `to`. `line` is NULL outside the image.
 * Returns the number of runs. */
static int64_t line_runs(const conv_layer *l, desk *d, const float *line, int64_t o, int64_t count, const float **to) {
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
static void pixel_runs(const conv_layer *l, desk *d, const place *p, int64_t count, const float **to) {
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
static bool reads_on(const conv_layer *l) { return l->pairs && l->span <= SHORT; }

/* Pixels [m0, m1), line by line, of the first group: those of the others lie behind. */
static void fill_table(const conv_layer *l, desk *d, int64_t m0, int64_t m1) {
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
static part part_seen(const conv_layer *l, int64_t m0, int64_t m1) {
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
static kern_conv_axis line_axis(const conv_layer *l) {
  kern_conv_axis w = l->c.axis[2];
  if (!l->padded) return w;
  const int64_t before = base_max_i64(w.begin, 0), end = (w.out - 1) * w.stride - w.begin + w.kernel;
  w.in = before + base_max_i64(w.in, end);
  w.begin -= before;
  return w;
}

/* The layer over what pixels [m0, m1) see alone, with channels last, in d->lines. What is around the lines there stays
 * zeros. */
static conv_layer convert_lines(const conv_layer *l, const desk *d, int64_t m0, int64_t m1) {
  conv_layer converted = *l;
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

static void make_pixels(const conv_layer *l, int64_t pixel, int64_t count, float *to) {
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
static conv_layer make_lines(const conv_layer *l, desk *d, int64_t m0, int64_t m1) {
  const kern_conv_axis *a = l->c.axis;
  const part p = l->pixels_alone ? (part){0} : part_seen(l, m0, m1);
  const int64_t lines = p.last - p.first, from = lines == 1 ? p.from : 0;
  const int64_t first = l->pixels_alone ? m0 : m0 / l->c.out_size * l->c.in_size + p.first * a[2].in + from;
  const int64_t count = l->pixels_alone ? m1 - m0 : lines == 1 ? p.to - p.from : lines * a[2].in;
  conv_layer made = *l;
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
  const float *ahead; /* of the image under the pixels behind, of which each tile fetches a share */
  int64_t share, first_group;
} block;

/* Groups read a part of each pixel, too far from the next one's for the CPU to fetch it: tiles of `products` groups
 * fetch what the next block sees. Pixels of output and image lie in one order, so that shares of both are the same. */
static void fetch_ahead(const conv_layer *l, block *b, int64_t products) {
  const int64_t left = base_min_i64(l->pixels - b->m1, b->m1 - b->m0);
  if (l->c.groups == 1 || l->made || l->c.channels_first || !l->pairs || !b->tiles || left <= 0) return;
  const double floats = (double)(l->c.in_size * l->pixel) / (double)l->c.out_size; /* of a pixel of output */
  b->ahead = l->image + (int64_t)(floats * (double)b->m1);
  b->share = (int64_t)(floats * (double)left) / (b->tiles * products);
  b->first_group = b->group;
}

static void run_lone_columns(const conv_layer *l, const desk *d, int64_t m, int64_t from, int64_t rows) {
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

/* Columns of a product. */
static int64_t width_out(const conv_layer *l) { return l->twins ? 2 * l->c.group_out : l->c.group_out; }

static void multiply(const conv_layer *l, const gemm_tile *t, int64_t rows, int64_t panels, const kern_epilogue *e) {
  if (l->pairs) l->pairs->tile(t, rows, panels, e);
  else KERN_NAME(gemm_tile)(t, rows, panels, e);
}

/* The tile over some of the runs, the last ones where `last`: its sums begin with the bias, or go on where it has more.
 */
static void multiply_some(const conv_layer *l, const gemm_tile *t, int64_t rows, int64_t panels, const kern_epilogue *e,
                          bool last) {
  const kern_epilogue start = {.act = KERN_ACT_none, .bias = e->bias};
  kern_epilogue rest = *e;
  if (t->more) rest.bias = NULL;
  multiply(l, t, rows, panels, last ? &rest : t->more ? NULL : &start);
}

/* Is run `run` zeros for all of a tile's rows? */
static bool is_dead(const conv_layer *l, const desk *d, int64_t run, int64_t from, int64_t rows) {
  const uintptr_t zeros = (uintptr_t)d->zeros, bytes = (uintptr_t)(l->span * l->c.groups) * sizeof(float);
  const float *const *table = d->table + run * d->table_pitch + from;
  bool dead = true;
  for (int64_t r = 0; r < rows && dead; r++) dead = (uintptr_t)table[r] - zeros < bytes;
  return dead;
}

/* The tile over the runs that are not dead. They make up one chain, from the bias on: what is left out adds zeros to
 * it, so that the bits are those of the whole. */
static void run_live(const conv_layer *l, const desk *d, const gemm_tile *whole, int64_t from, int64_t rows,
                     int64_t panels, const kern_epilogue *e) {
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
static void run_slice(const conv_layer *l, const desk *d, const gemm_tile *whole, int64_t slice, int64_t from,
                      int64_t rows, int64_t panels, const kern_epilogue *e) {
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
static void run_tile(const conv_layer *l, const desk *d, const block *b, int64_t tile, int64_t s0, int64_t s1,
                     bool fetch, int64_t slice) {
  int64_t p0 = cut_at(&l->in_strips, s0), panels = cut_size(&l->in_strips, s0);
  int64_t depth = l->c.taps * l->c.group_in, column = b->group * width_out(l) + p0 * V_LANES;
  int64_t from = cut_at(&b->in_tiles, tile), rows = cut_size(&b->in_tiles, tile);
  const kern_epilogue e = kern_epilogue_at(&l->e, b->m0 + from, column);
  gemm_tile t = {.a = d->table + from,
                 .a_pitch = d->table_pitch,
                 .a_whole = reads_on(l),
                 .taps = l->runs,
                 .k = l->span,
                 .a_first = b->group * l->c.group_in * (l->twins ? 2 : 1),
                 .a_panel = l->twins ? l->c.group_in : 0,
                 .b = l->weights + (b->group * l->panels + p0) * depth * V_LANES,
                 .b_panel = depth * V_LANES,
                 .c = l->out + (b->m0 + from) * l->out_pitch + column,
                 .c_pitch = l->out_pitch,
                 .bf16 = gemm_bf16_at(&l->bf16, b->m0 + from, column),
                 .columns = base_min_i64((s1 - s0) * panels * V_LANES, width_out(l) - p0 * V_LANES),
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
  if (b->share) {
    t.ahead = b->ahead + ((b->group - b->first_group) * b->tiles + tile) * b->share;
    t.ahead_step = base_ceil_div(b->share, depth);
  }
  if (l->slices > 1) run_slice(l, d, &t, slice, from, rows, panels, &e);
  else if (panels && l->wide_reach && !l->bf16.c) run_live(l, d, &t, from, rows, panels, &e);
  else if (panels) multiply(l, &t, rows, panels, &e);
  if (l->lone && s1 == l->strips) run_lone_columns(l, d, b->m0 + from, from, rows);
}

/* All groups of a block, where they share panels. */
static void run_groups(const conv_layer *l, const desk *d, const block *b) {
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
static int64_t alike(const conv_layer *l, int64_t s, int64_t s1) {
  int64_t end = s < l->in_strips.more ? base_min_i64(l->in_strips.more, s1) : s1;
  return base_min_i64(end, s + l->strips_at_once);
}

/* Strips [s0, s1) of a block. Weights that stay in L2 from block to block meet one tile after the other; else the tiles
 * meet one strip after the other. */
static void run_block(const conv_layer *l, const desk *d, const block *b, int64_t s0, int64_t s1) {
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
static void run_chain(const conv_layer *l, const block *b, int64_t from, int64_t end) {
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
static int64_t block_at(const conv_layer *l, int64_t number) {
  if (!l->pairs || l->c.groups == 1) return gemm_split(l->pixels, l->m_blocks, number);
  const int64_t tiles = base_ceil_div(l->pixels, l->tile_rows);
  return base_min_i64(gemm_split(tiles, l->m_blocks, number) * l->tile_rows, l->pixels);
}

/* Tasks count blocks of strips fastest, then blocks of pixels, groups and maps. */
static void run_task(const conv_layer *l, desk *d, int64_t task) {
  int64_t n = task % l->n_blocks, m = task / l->n_blocks % l->m_blocks, rest = task / l->n_blocks / l->m_blocks;
  int64_t p = rest % l->product_blocks, map = rest / l->product_blocks * l->pixels;
  block b = {.group = gemm_split(l->products, l->product_blocks, p),
             .m0 = map + block_at(l, m),
             .m1 = map + block_at(l, m + 1)};
  b.tiles = (b.m1 - b.m0 + l->tile_rows - 1) / l->tile_rows;
  b.in_tiles = cut_into(b.tiles, b.m1 - b.m0);
  if ((l->c.channels_first || l->made) && l->runs) {
    const conv_layer seen = l->made ? make_lines(l, d, b.m0, b.m1) : convert_lines(l, d, b.m0, b.m1);
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
  const int64_t out = width_out(l), end = s1 == l->strips ? out : cut_at(&l->in_strips, s1) * V_LANES;
  const int64_t last = gemm_split(l->products, l->product_blocks, p + 1);
  int64_t first = b.group; /* that the chain was not on yet: groups that are done in whole lie side by side */
  fetch_ahead(l, &b, last - first);
  for (; b.group < last; b.group++) {
    run_block(l, d, &b, s0, s1);
    if (b.group + 1 < last && l->n_blocks == 1) continue;
    run_chain(l, &b, first * out + from, b.group * out + end);
    first = b.group + 1;
  }
}

/* The weights of lone columns, from the panel that they would fill in part. */
static bool take_lone_columns(const base_call *call, const conv_layer *l, desk *d) {
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
static bool make_desk(const base_call *call, const conv_layer *l, desk *d) {
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

/* Pixels that see no other one, of pairs: rows of a matrix, whose tiles are told less. */
static td_status run_rows(const base_call *call, conv_layer *l) {
  gemm_front front = {.chain = l->front, .copied = l->copied, .width = l->width};
  gemm_product g = {.m = l->c.batch * l->c.out_size,
                    .n = l->c.group_out,
                    .k = l->c.group_in,
                    .a = l->image,
                    .a_pitch = l->made ? l->raw_pitch : l->pixel,
                    .front = l->made ? &front : NULL,
                    .b = l->weights,
                    .c = l->out,
                    .c_pitch = l->out_pitch,
                    .pairs = l->pairs,
                    .bf16 = l->bf16,
                    .e = &l->e};
  l->e.chain = l->chain;
  return KERN_NAME(gemm_run)(call, &g);
}

td_status KERN_NAME(conv_by)(const base_call *call, const gemm_pairs *pairs) {
  conv_layer l;
  desk d;
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  TRY(KERN_NAME(conv_layer_of)(call, pairs, &l));
#if CONV_PLANES
  if (!l.made && !l.pairs && kern_conv_planes_fit(&l.c, &KERN_NAME(planes_level)))
    return kern_conv_planes(call, &l.c, l.weights, &KERN_NAME(planes_level));
#endif
  if (!l.made && !l.pairs && KERN_NAME(conv_pixels_fit)(&l.c)) return KERN_NAME(conv_pixels)(call, &l.c, l.weights);
  if (l.pairs && l.pixels_alone && l.c.groups == 1 && !l.c.channels_first) return run_rows(call, &l);
  if (!make_desk(call, &l, &d)) return base_no_memory(call->err, "scratch");
  int64_t total = l.maps * l.product_blocks * l.m_blocks * l.n_blocks;
  if (total > INT32_MAX)
    return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "a convolution of %lld parts", (long long)total);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total))
    run_task(&l, &d, task);
  return TD_OK;
}

td_status KERN_NAME(conv)(const base_call *call) { return KERN_NAME(conv_by)(call, NULL); }
