/* conv.c -- KERN_CONV: td::conv on f32 (kernels/conv.h) as products of pixels with packed weights (pack_conv.h).
 *
 * No matrix of patches is made: a table points from each output pixel to the runs of floats under its window, and the
 * tile multiplies along them. A run is the channels of one tap or, where neighbouring taps are neighbours in memory and
 * channels are few, those of a whole row of taps. What lies outside the image is a run of zeros; a row of taps that
 * lies only partly in it is copied.
 *
 *     output pixel -> | run | run | ... |        runs * span = taps * channels of a group
 *
 * Sums go along the packed weights, whatever the runs are. An image with channels first is brought to channels last
 * line by line, as many lines as a task needs. */
#include "kernels/conv.h"
#include "kernels/epilogue_priv.h"
#include "kernels/gemm_tile_priv.h"
#include "kernels/pack_conv.h"

/* Rows of taps are runs up to here: then copies at the image's borders cost more than a longer table. */
enum { FEW_CHANNELS = 48, LONGEST_ROW = 256 };
/* Tasks wanted, and vector multiply-adds that are worth one: about 5 us. */
enum { TASKS = 24, TASK_WORK = 16384 };
/* Of the image under a block of pixels: leaves the larger part of L2 to the weights. */
enum { IMAGE_BYTES = 256 * 1024 };

typedef struct layer {
  kern_conv c;
  kern_epilogue e;
  const float *image, *weights;
  int64_t sample, plane, line, pixel, channel; /* floats from one to the next of the image */
  int64_t skipped;                             /* floats of a sample in front of `image` */
  float *out;
  int64_t out_pitch;
  bool whole_rows;                       /* a run is a row of taps */
  int64_t runs, span;                    /* of a pixel; floats of a run */
  int64_t borders;                       /* pixels of an output line whose row of taps is copied */
  int64_t maps, pixels;                  /* pixels of a map: a sample where lines are converted, else all */
  int64_t panels, strips;                /* of a group; a strip's panels go into one tile */
  int64_t tile_rows, m_blocks, n_blocks; /* blocks of pixels in a map, of strips in a group */
} layer;

/* What a worker has of its own. */
typedef struct desk {
  const float **table; /* of a block, tile by tile: [run][row] */
  const float *zeros;  /* span of them */
  float *patches, *next_patch;
  float *lines; /* of the image, with channels last */
} desk;

/* An output pixel of a map. */
typedef struct place {
  int64_t sample, at[KERN_CONV_AXES];
} place;

/* ---- how a layer is cut ---- */

static void set_runs(layer *l) {
  const kern_conv_axis *w = &l->c.axis[2];
  int64_t row = w->kernel <= LONGEST_ROW ? w->kernel * l->c.group_in : INT64_MAX;
  l->whole_rows = l->c.groups == 1 && w->kernel > 1 && w->dilation == 1 && l->pixel == l->c.group_in &&
                  l->c.group_in < FEW_CHANNELS && row <= LONGEST_ROW;
  l->span = l->whole_rows ? row : l->c.group_in;
  l->runs = !l->span ? 0 : l->whole_rows ? l->c.taps / w->kernel : l->c.taps;
  l->borders = 0;
  for (int64_t o = 0; l->whole_rows && o < w->out; o++) {
    int64_t from = o * w->stride - w->begin;
    l->borders += from < 0 || from + w->kernel > w->in;
  }
}

static int64_t at_least_one(double x, int64_t most) { return (int64_t)fmax(fmin(ceil(x), (double)most), 1); }

static void set_blocks(layer *l) {
  const kern_conv *c = &l->c;
  l->panels = (c->group_out + V_LANES - 1) / V_LANES;
  l->strips = base_max_i64(base_max_i64(l->panels / 2, (l->panels + GEMM_MAX_PANELS - 1) / GEMM_MAX_PANELS), 1);
  l->tile_rows = gemm_max_rows((l->panels + l->strips - 1) / l->strips);
  l->maps = c->channels_first ? c->batch : 1;
  l->pixels = c->channels_first ? c->out_size : c->batch * c->out_size;
  double depth = (double)c->taps * (double)c->group_in, pixels = (double)l->pixels;
  double image_bytes = pixels * (double)c->in_size / (double)c->out_size * (double)c->group_in * 4;
  double weight_bytes = depth * (double)c->group_out * 4;
  double wanted = fmin(depth * (double)l->panels * pixels / TASK_WORK, TASKS / (double)(c->groups * l->maps));
  double fitting = fmax(ceil(image_bytes / IMAGE_BYTES), 1);
  int64_t tiles = (l->pixels + l->tile_rows - 1) / l->tile_rows;
  bool cut_weights = weight_bytes > image_bytes && !c->channels_first; /* which are converted once per block */
  l->n_blocks = cut_weights ? at_least_one(wanted / fitting, l->strips) : 1;
  l->m_blocks = at_least_one(fmax(fitting, wanted / (double)l->n_blocks), tiles);
}

static const float *pack_now(const base_call *call, const kern_conv *c) {
  int64_t count;
  bool fits = kern_conv_packed_size(c->groups, c->group_out, c->taps, c->group_in, V_LANES, &count);
  float *packed = fits ? base_call_scratch(call, (size_t)count, sizeof *packed) : NULL;
  if (packed) kern_pack_conv(base_in(call, 1), false, c->groups, V_LANES, packed);
  return packed;
}

static td_status describe(const base_call *call, layer *l) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  kern_conv *c = &l->c;
  TRY(kern_conv_of(call, false, c));
  int32_t first = c->channels_first ? 2 : 1, spatial = x->rank - 2;
  int64_t pitch[KERN_CONV_AXES] = {0};
  for (int32_t i = 0; i < spatial; i++) pitch[KERN_CONV_AXES - spatial + i] = x->strides[first + i];
  l->image = x->data;
  l->sample = x->strides[0];
  l->plane = pitch[0];
  l->line = pitch[1];
  l->pixel = c->channels_first ? c->groups * c->group_in : pitch[2];
  l->channel = c->channels_first ? x->strides[1] : 1;
  l->out = y->data;
  l->out_pitch = kern_pitch(y);
  l->e = kern_epilogue_of(call);
  l->weights = c->panel ? base_in(call, 1)->data : pack_now(call, c);
  if (!l->weights) return base_no_memory(call->err, "scratch");
  set_runs(l);
  set_blocks(l);
  return TD_OK;
}

/* ---- the table ---- */

static place place_of(const layer *l, int64_t pixel) {
  const kern_conv_axis *a = l->c.axis;
  int64_t in_sample = pixel % l->c.out_size;
  return (place){.sample = pixel / l->c.out_size,
                 .at = {in_sample / a[2].out / a[1].out, in_sample / a[2].out % a[1].out, in_sample % a[2].out}};
}

static void next_place(const layer *l, place *p) {
  if (++p->at[2] < l->c.axis[2].out) return;
  p->at[2] = 0;
  if (++p->at[1] < l->c.axis[1].out) return;
  p->at[1] = 0;
  if (++p->at[0] < l->c.axis[0].out) return;
  p->at[0] = 0;
  p->sample++;
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

/* The runs of one line of taps for the pixel at output column `o`; `line` is NULL outside the image. Returns how many.
 */
static int64_t line_runs(const layer *l, desk *d, const float *line, int64_t o, const float **to, int64_t rows) {
  const kern_conv_axis *w = &l->c.axis[2];
  int64_t from = o * w->stride - w->begin;
  if (l->whole_rows) {
    bool inside = from >= 0 && from + w->kernel <= w->in;
    *to = !line ? d->zeros : inside ? line + from * l->pixel : copy_row(l, d, line, from);
    return 1;
  }
  for (int64_t k = 0; k < w->kernel; k++, to += rows, from += w->dilation)
    *to = line && from >= 0 && from < w->in ? line + from * l->pixel : d->zeros;
  return w->kernel;
}

/* All runs of a pixel, `rows` entries apart; `image`: the group's first channel. */
static void pixel_runs(const layer *l, desk *d, const float *image, const place *p, const float **to, int64_t rows) {
  const kern_conv_axis *a = l->c.axis;
  int64_t z = p->at[0] * a[0].stride - a[0].begin;
  for (int64_t i = 0; i < a[0].kernel; i++, z += a[0].dilation) {
    int64_t y = p->at[1] * a[1].stride - a[1].begin;
    for (int64_t j = 0; j < a[1].kernel; j++, y += a[1].dilation) {
      bool inside = z >= 0 && z < a[0].in && y >= 0 && y < a[1].in;
      const float *line = inside ? image + (p->sample * l->sample + z * l->plane + y * l->line - l->skipped) : NULL;
      to += rows * line_runs(l, d, line, p->at[2], to, rows);
    }
  }
}

/* Pixels [m0, m1), tile by tile. */
static void fill_table(const layer *l, desk *d, int64_t group, int64_t m0, int64_t m1) {
  int64_t tiles = (m1 - m0 + l->tile_rows - 1) / l->tile_rows;
  const float **to = d->table;
  place p = place_of(l, m0);
  d->next_patch = d->patches;
  for (int64_t i = 0; i < tiles && l->runs; i++) {
    int64_t rows = gemm_split(m1 - m0, tiles, i + 1) - gemm_split(m1 - m0, tiles, i);
    for (int64_t r = 0; r < rows; r++, next_place(l, &p))
      pixel_runs(l, d, l->image + group * l->c.group_in, &p, to + r, rows);
    to += rows * l->runs;
  }
}

/* ---- channels first ---- */

/* Lines of input, planes merged, that output pixels [m0, m1) of one sample see: [*first, *last). */
static void lines_seen(const layer *l, int64_t m0, int64_t m1, int64_t *first, int64_t *last) {
  const kern_conv_axis *z = &l->c.axis[0], *y = &l->c.axis[1];
  place a = place_of(l, m0), b = place_of(l, m1 - 1);
  int64_t z0 = base_max_i64(a.at[0] * z->stride - z->begin, 0);
  int64_t z1 = base_min_i64(b.at[0] * z->stride - z->begin + (z->kernel - 1) * z->dilation, z->in - 1);
  int64_t y0 = base_max_i64(a.at[1] * y->stride - y->begin, 0);
  int64_t y1 = base_min_i64(b.at[1] * y->stride - y->begin + (y->kernel - 1) * y->dilation, y->in - 1);
  if (z->in > 1 || z->out > 1) { /* whole planes */
    y0 = 0;
    y1 = y->in - 1;
  }
  *first = z0 * y->in + y0;
  *last = z1 < z0 || y1 < y0 ? *first : z1 * y->in + y1 + 1;
}

static void convert_line(const layer *l, const float *from, float *to) {
  int64_t channels = l->pixel, pixels = l->c.axis[2].in;
  for (int64_t c = 0; c < channels; c++)
    for (int64_t i = 0; i < pixels; i++) to[i * channels + c] = from[c * l->channel + i];
}

/* The layer over those lines alone, with channels last, in d->lines. */
static layer convert_lines(const layer *l, const desk *d, int64_t m0, int64_t m1) {
  layer converted = *l;
  int64_t first, last, height = l->c.axis[1].in, sample = m0 / l->c.out_size;
  lines_seen(l, m0, m1, &first, &last);
  converted.image = d->lines;
  converted.sample = 0;
  converted.line = l->c.axis[2].in * l->pixel;
  converted.plane = height * converted.line;
  converted.skipped = first * converted.line;
  for (int64_t i = first; i < last; i++)
    convert_line(l, l->image + (sample * l->sample + i / height * l->plane + i % height * l->line),
                 d->lines + (i - first) * converted.line);
  return converted;
}

/* ---- tasks ---- */

/* One strip of panels for all tiles of a block whose table is made. */
static void run_strip(const layer *l, const desk *d, int64_t group, int64_t m0, int64_t m1, int64_t strip) {
  int64_t p0 = gemm_split(l->panels, l->strips, strip), panels = gemm_split(l->panels, l->strips, strip + 1) - p0;
  int64_t depth = l->c.taps * l->c.group_in, column = group * l->c.group_out + p0 * V_LANES;
  int64_t tiles = (m1 - m0 + l->tile_rows - 1) / l->tile_rows;
  const float *const *table = d->table;
  gemm_tile t = {.taps = l->runs,
                 .k = l->span,
                 .b = l->weights + (group * l->panels + p0) * depth * V_LANES,
                 .b_panel = depth * V_LANES,
                 .c_pitch = l->out_pitch,
                 .columns = base_min_i64(panels * V_LANES, l->c.group_out - p0 * V_LANES)};
  for (int64_t i = 0; i < tiles; i++) {
    int64_t from = m0 + gemm_split(m1 - m0, tiles, i), rows = m0 + gemm_split(m1 - m0, tiles, i + 1) - from;
    const kern_epilogue e = kern_epilogue_at(&l->e, from, column);
    t.a = table;
    t.c = l->out + from * l->out_pitch + column;
    KERN_NAME(gemm_tile)(&t, rows, panels, &e);
    table += rows * l->runs;
  }
}

/* Tasks count blocks of strips fastest, then blocks of pixels, groups and maps. */
static void run_task(const layer *l, desk *d, int64_t task) {
  int64_t n = task % l->n_blocks, m = task / l->n_blocks % l->m_blocks, rest = task / l->n_blocks / l->m_blocks;
  int64_t group = rest % l->c.groups, map = rest / l->c.groups * l->pixels;
  int64_t m0 = map + gemm_split(l->pixels, l->m_blocks, m), m1 = map + gemm_split(l->pixels, l->m_blocks, m + 1);
  if (l->c.channels_first) {
    const layer converted = convert_lines(l, d, m0, m1);
    fill_table(&converted, d, group, m0, m1);
  } else {
    fill_table(l, d, group, m0, m1);
  }
  int64_t last = gemm_split(l->strips, l->n_blocks, n + 1);
  for (int64_t s = gemm_split(l->strips, l->n_blocks, n); s < last; s++) run_strip(l, d, group, m0, m1, s);
}

/* Room for the largest block of pixels. */
static bool make_desk(const base_call *call, const layer *l, desk *d) {
  const kern_conv_axis *a = l->c.axis;
  int64_t block = (l->pixels + l->m_blocks - 1) / l->m_blocks, lines = 0;
  int64_t copied = base_min_i64(block, (block / a[2].out + 2) * l->borders);
  float *zeros = base_call_scratch(call, (size_t)l->span, sizeof *zeros);
  d->table = base_call_scratch(call, (size_t)block, (size_t)l->runs * sizeof *d->table);
  d->patches = base_call_scratch(call, (size_t)copied, (size_t)(l->runs * l->span) * sizeof *d->patches);
  if (l->c.channels_first) {
    int64_t rows = ((block / a[2].out + 1) * a[1].stride + (a[1].kernel - 1) * a[1].dilation + 1);
    bool planes = a[0].in > 1 || a[0].out > 1;
    lines = planes ? a[0].in * a[1].in : base_min_i64(rows, a[1].in);
  }
  d->lines = base_call_scratch(call, (size_t)lines, (size_t)(a[2].in * l->pixel) * sizeof *d->lines);
  if (!zeros || !d->table || !d->patches || !d->lines) return false;
  memset(zeros, 0, (size_t)l->span * sizeof *zeros);
  d->zeros = zeros;
  return true;
}

td_status KERN_NAME(conv)(const base_call *call) {
  layer l = {.skipped = 0};
  desk d;
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  TRY(describe(call, &l));
  if (!make_desk(call, &l, &d)) return base_no_memory(call->err, "scratch");
  int64_t total = l.maps * l.c.groups * l.m_blocks * l.n_blocks;
  if (total > INT32_MAX)
    return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "a convolution of %lld parts", (long long)total);
  for (uint32_t task = base_call_first(call); task < total; task = base_call_next(call, task)) run_task(&l, &d, task);
  return TD_OK;
}
