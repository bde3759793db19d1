/* conv_planes.c -- convolutions whose lanes are pixels (conv_planes_priv.h).
 *
 * A task brings what a band of pixels sees into planes, one for each channel and phase of the strides, with zeros
 * around, such that every tap lies at one distance from its pixel, whichever that is. Pixels are counted along lines of
 * the planes: all lines of a band are one run, those behind a line's last pixel included (which are thrown away), or
 * each is its own. k goes along channels in, then taps, whose pixels are near one another. The results are transposed
 * to channels last.
 *
 *     | zeros  line 0 of the band  zeros | zeros  line 1  zeros | ...        a plane
 *       ^ offsets[k] + m, for tap k of pixel m */
#include "kernels/products/conv_planes_priv.h"
#include "kernels/products/pack_conv.h"
#include "kernels/tasks_priv.h"

#include <math.h>
#include <string.h>

enum { MOST_STRIDE = 8, MOST_EXTRA = 1 << 16 }; /* MOST_EXTRA: of lines, or pixels, that a band sees around it */
enum { NEAR_FLOATS = 48 * 1024 };               /* of planes and results: the smaller part of L2 */
enum { LINE = 16 };                             /* floats of a cache line */

/* How taps along an axis lie in the phases of its stride: tap t of output o is element o + step of its phase. */
typedef struct phases {
  int64_t lowest, extra; /* the least step; from it to the greatest */
  int64_t count;         /* phases that some tap reads */
  int64_t slot[MOST_STRIDE];
} phases;

typedef struct layer {
  kern_conv c;
  const kern_planes_level *level;
  kern_epilogue rest; /* of the epilogue: what is done to rows with channels last */
  bool has_rest;
  kern_act act; /* what is done to rows of planes */
  const float *image;
  int64_t sample, line[KERN_CONV_AXES], channel; /* floats from one to the next of the image */
  const float *packed, *bias;
  float *out;
  int64_t out_pitch;
  int64_t depth, channels_in, channels_out; /* of a group; of all groups */
  phases along[KERN_CONV_AXES];             /* of lines and pixels; slices have none */
  int64_t tasks;                            /* that are wanted */
  int64_t rows, columns;                    /* of a band, at most */
  int64_t bands, parts;                     /* of a map's rows and columns */
} layer;

/* What a worker has of its own, for bands of one size. */
typedef struct desk {
  float *planes, *results, *weights; /* weights: of up to KERN_PLANES_CHANNELS channels: [k][channel] */
  int64_t *offsets;
  int64_t pitch, plane, result; /* floats from line to line, plane to plane, channel to channel of results */
} desk;

/* A rectangle of a map's pixels. */
typedef struct band {
  int64_t sample, slice, row, rows, column, columns;
} band;

/* ---- how a layer is cut ---- */

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static phases phases_of(const kern_conv_axis *a) {
  const int64_t last = (a->kernel - 1) * a->dilation - a->begin;
  phases p = {.lowest = floor_div(-a->begin, a->stride)};
  p.extra = floor_div(last, a->stride) - p.lowest;
  for (int64_t i = 0; i < MOST_STRIDE; i++) p.slot[i] = -1;
  for (int64_t t = 0; t < a->kernel; t++) {
    const int64_t shift = t * a->dilation - a->begin, phase = shift - floor_div(shift, a->stride) * a->stride;
    if (p.slot[phase] < 0) p.slot[phase] = p.count++;
  }
  return p;
}

static int64_t planes_of(const layer *l) {
  return l->c.axis[0].kernel * l->channels_in * l->along[1].count * l->along[2].count;
}

/* Channels of a group that the tile from `first` on takes. */
static int64_t tile_channels(const layer *l, int64_t first) {
  return base_min_i64(l->c.group_out - first, KERN_PLANES_CHANNELS);
}

/* How the pixels of a band are multiplied: as one run, or as one for each line. */
typedef struct runs {
  int64_t count, pixels, tiles; /* of a run */
} runs;

static runs runs_of(const layer *l, int64_t pitch, int64_t rows, int64_t columns, int64_t channels) {
  const int64_t tile = l->level->pixels[channels - 1], all = (rows - 1) * pitch + columns;
  const runs whole = {1, all, (all + tile - 1) / tile}, lines = {rows, columns, (columns + tile - 1) / tile};
  return whole.tiles <= rows * lines.tiles ? whole : lines;
}

static int64_t at_least_one(double x, int64_t most) { return (int64_t)fmax(fmin(ceil(x), (double)most), 1); }

/* Bands whose planes and results stay near, but not so thin that what neighbours see is most of it; more of them where
 * there is work for more threads. */
static void set_bands(layer *l) {
  const kern_conv *c = &l->c;
  const int64_t height = c->axis[1].out, width = c->axis[2].out;
  const double planes = (double)planes_of(l), all = planes + (double)l->channels_out;
  const double down = (double)l->along[1].extra, across = (double)l->along[2].extra;
  const double pixels = (double)height * (double)width, maps = (double)c->batch * (double)c->axis[0].out;
  const double work = (double)l->depth * (double)l->channels_out * pixels / (double)l->level->lanes;
  const double wanted = fmax(fmin(work / KERN_TASK_WORK, (double)l->tasks / maps), 1);
  const double tiles = 2 * (double)l->level->pixels[0]; /* least pixels of a band */
  double rows = (NEAR_FLOATS / ((double)width + across) - planes * down) / all;
  rows = fmax(fmin(rows, (double)height / wanted), fmax(down, tiles / ((double)width + across)));
  l->bands = at_least_one((double)height / rows, height);
  l->rows = (height + l->bands - 1) / l->bands;
  double columns = (NEAR_FLOATS / ((double)l->rows + down) - planes * across) / all;
  columns = fmax(fmin(columns, (double)width * (double)l->bands / wanted), fmax(2 * across, tiles));
  l->parts = at_least_one((double)width / columns, width);
  l->columns = (width + l->parts - 1) / l->parts;
}

/* Bands do not change a bit of a pixel: they may be cut for the workers that there are. */
static void set_sizes(layer *l, const kern_conv *c, int64_t tasks) {
  l->c = *c;
  l->tasks = tasks;
  l->depth = c->taps * c->group_in;
  l->channels_in = c->groups * c->group_in;
  l->channels_out = c->groups * c->group_out;
  for (int i = 1; i < KERN_CONV_AXES; i++) l->along[i] = phases_of(&c->axis[i]);
  set_bands(l);
}

/* What planes can do of the epilogue: the bias, and an activation that nothing comes before. */
static td_status take_epilogue(const base_call *call, layer *l) {
  kern_epilogue *rest = &l->rest;
  TRY(l->level->epilogue_of(call, rest));
  float *zeros = base_call_scratch(call, (size_t)l->channels_out, sizeof *zeros);
  if (!zeros) return base_no_memory(call->err, "scratch");
  memset(zeros, 0, (size_t)l->channels_out * sizeof *zeros);
  l->bias = rest->bias ? rest->bias : zeros;
  rest->bias = NULL;
  const bool rows = rest->residual || rest->scale || rest->shift;
  l->act = rows ? KERN_ACT_none : rest->act;
  if (!rows) rest->act = KERN_ACT_none;
  l->has_rest = rows || rest->chain;
  return TD_OK;
}

static td_status describe(const base_call *call, const kern_conv *conv, layer *l) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  const int32_t first = conv->channels_first ? 2 : 1, spatial = x->rank - 2;
  set_sizes(l, conv, kern_tasks_wanted(call->workers));
  l->image = x->data;
  l->out = y->data;
  l->out_pitch = kern_pitch(y);
  l->sample = x->strides[0];
  l->channel = conv->channels_first ? x->strides[1] : 1;
  for (int32_t i = 0; i < spatial; i++) l->line[KERN_CONV_AXES - spatial + i] = x->strides[first + i];
  return take_epilogue(call, l);
}

/* ---- a worker's desk ---- */

/* `count` channels of group `g` from `first` on, out of the panels. */
static void take_weights(const layer *l, int64_t g, int64_t first, int64_t count, float *to) {
  const kern_conv *c = &l->c;
  const int64_t lanes = l->level->lanes;
  const int64_t shared = kern_conv_shared(false, c->groups, c->group_out, c->group_in, lanes);
  const int64_t panel = shared > 1 ? g / shared : g * ((c->group_out + lanes - 1) / lanes) + first / lanes;
  const float *from = l->packed + panel * l->depth * lanes + g % shared * c->group_out + first % lanes;
  for (int64_t k = 0; k < c->group_in; k++, from += lanes)
    for (int64_t tap = 0; tap < c->taps; tap++)
      for (int64_t i = 0; i < count; i++) *to++ = from[tap * c->group_in * lanes + i];
}

/* Where tap [z][y][x] lies, from the first channel's plane on. */
static int64_t tap_at(const layer *l, const desk *d, int64_t z, int64_t y, int64_t x) {
  const kern_conv_axis *a = l->c.axis;
  const phases *v = &l->along[1], *h = &l->along[2];
  const int64_t down = y * a[1].dilation - a[1].begin, across = x * a[2].dilation - a[2].begin;
  const int64_t row = floor_div(down, a[1].stride), column = floor_div(across, a[2].stride);
  const int64_t phase = v->slot[down - row * a[1].stride] * h->count + h->slot[across - column * a[2].stride];
  return (z * l->channels_in * v->count * h->count + phase) * d->plane + (row - v->lowest) * d->pitch +
         (column - h->lowest);
}

static void set_offsets(const layer *l, const desk *d) {
  const kern_conv_axis *a = l->c.axis;
  const int64_t next = l->along[1].count * l->along[2].count * d->plane, taps = l->c.taps;
  int64_t *to = d->offsets;
  for (int64_t z = 0; z < a[0].kernel; z++)
    for (int64_t y = 0; y < a[1].kernel; y++)
      for (int64_t x = 0; x < a[2].kernel; x++) *to++ = tap_at(l, d, z, y, x);
  for (int64_t k = taps; k < l->depth; k++, to++) *to = to[-taps] + next;
}

static bool make_desk(const base_call *call, const layer *l, desk *d) {
  const kern_conv *c = &l->c;
  const int64_t beyond = l->level->pixels[0];
  d->pitch = l->columns + l->along[2].extra;
  /* Planes at a pitch of an odd number of lines crowd no set of a cache. */
  d->plane = (((l->rows + l->along[1].extra) * d->pitch + LINE - 1) / LINE | 1) * LINE;
  d->result = ((l->rows * d->pitch + beyond + LINE - 1) / LINE | 1) * LINE;
  const size_t floats = (size_t)(planes_of(l) * d->plane);
  d->planes = base_call_scratch(call, floats + (size_t)beyond, sizeof(float));
  d->results = base_call_scratch(call, (size_t)(l->channels_out * d->result), sizeof(float));
  d->weights = base_call_scratch(call, (size_t)(l->channels_out * l->depth), sizeof(float));
  d->offsets = base_call_scratch(call, (size_t)l->depth, sizeof(int64_t));
  if (!d->planes || !d->results || !d->weights || !d->offsets) return false;
  set_offsets(l, d);
  for (int64_t g = 0; g < c->groups; g++)
    for (int64_t first = 0; first < c->group_out; first += KERN_PLANES_CHANNELS)
      take_weights(l, g, first, tile_channels(l, first), d->weights + (g * c->group_out + first) * l->depth);
  return true;
}

/* ---- planes ---- */

/* Elements [first, last) of a line of every channel's plane, `step` floats of the image from one to the next. */
static void fill_line(const layer *l, const desk *d, const float *from, int64_t step, int64_t first, int64_t last,
                      float *to) {
  const int64_t next = l->along[1].count * l->along[2].count * d->plane, channels = l->channels_in;
  const int64_t count = last - first;
  if (channels > 1 && l->channel == 1) {
    l->level->turn(to + first, next, from, step, channels, count);
    return;
  }
  for (int64_t c = 0; c < channels; c++, from += l->channel, to += next) {
    if (step == 1) memcpy(to + first, from, (size_t)count * sizeof *to);
    else
      for (int64_t i = 0; i < count; i++) to[first + i] = from[i * step];
  }
}

/* The phases of a line of the image. */
static void fill_phases(const layer *l, const desk *d, const float *line, int64_t column, float *to) {
  const kern_conv_axis *a = &l->c.axis[2];
  const phases *h = &l->along[2];
  const int64_t start = column + h->lowest; /* element i of phase p is pixel (start + i) * stride + p */
  const int64_t first = base_min_i64(base_max_i64(-start, 0), d->pitch);
  for (int64_t phase = 0; phase < a->stride; phase++) {
    if (h->slot[phase] < 0) continue;
    const int64_t end = base_min_i64((a->in - phase + a->stride - 1) / a->stride - start, d->pitch);
    if (end <= first) continue;
    const float *from = line + ((start + first) * a->stride + phase) * l->line[2];
    fill_line(l, d, from, a->stride * l->line[2], first, end, to + h->slot[phase] * d->plane);
  }
}

static void fill_planes(const layer *l, const desk *d, const band *b) {
  const kern_conv_axis *deep = &l->c.axis[0], *a = &l->c.axis[1];
  const phases *v = &l->along[1], *h = &l->along[2];
  memset(d->planes, 0, (size_t)(planes_of(l) * d->plane + l->level->pixels[0]) * sizeof *d->planes);
  for (int64_t z = 0; z < deep->kernel; z++) {
    const int64_t slice = b->slice * deep->stride - deep->begin + z * deep->dilation;
    const int64_t at = b->sample * l->sample + slice * l->line[0];
    if (slice < 0 || slice >= deep->in) continue;
    for (int64_t phase = 0; phase < a->stride; phase++) {
      if (v->slot[phase] < 0) continue;
      float *to = d->planes + (z * l->channels_in * v->count + v->slot[phase]) * h->count * d->plane;
      for (int64_t i = 0; i < b->rows + v->extra; i++) {
        const int64_t y = (b->row + v->lowest + i) * a->stride + phase;
        if (y >= 0 && y < a->in) fill_phases(l, d, l->image + (at + y * l->line[1]), b->column, to + i * d->pitch);
      }
    }
  }
}

/* ---- tasks ---- */

/* A line of results, from its planes to where it belongs. */
static void finish_line(const layer *l, const desk *d, const band *b, int64_t row) {
  const kern_conv *c = &l->c;
  const int64_t n = l->channels_out, line = (b->sample * c->axis[0].out + b->slice) * c->axis[1].out + b->row + row;
  const int64_t pixel = line * c->axis[2].out + b->column;
  float *from = d->results + row * d->pitch, *to = l->out + pixel * l->out_pitch;
  if (l->act != KERN_ACT_none) l->level->act[l->act](from, d->result, n, b->columns, l->rest.a, l->rest.b);
  if (n >= KERN_PLANES_CHANNELS) l->level->turn(to, l->out_pitch, from, d->result, b->columns, n);
  else
    for (int64_t k = 0; k < n; k++)
      for (int64_t i = 0; i < b->columns; i++) to[i * l->out_pitch + k] = from[k * d->result + i];
  if (l->has_rest) l->level->epilogue(&l->rest, pixel, to, l->out_pitch, b->columns, n);
}

/* Channels of group `g` from `first` on, of all lines of a band. */
static void multiply(const layer *l, const desk *d, const band *b, int64_t g, int64_t first) {
  const int64_t n = g * l->c.group_out + first, channels = tile_channels(l, first);
  const runs r = runs_of(l, d->pitch, b->rows, b->columns, channels);
  kern_planes_tiles t = {
      .x = d->planes + g * l->c.group_in * l->along[1].count * l->along[2].count * d->plane,
      .offsets = d->offsets,
      .depth = l->depth,
      .w = d->weights + n * l->depth,
      .bias = l->bias + n,
      .to = d->results + n * d->result,
      .pitch = d->result,
      .count = r.pixels,
  };
  for (int64_t i = 0; i < r.count; i++, t.x += d->pitch, t.to += d->pitch) l->level->tiles[channels - 1](&t);
}

static void run_band(const layer *l, const desk *d, const band *b) {
  fill_planes(l, d, b);
  for (int64_t g = 0; g < l->c.groups; g++)
    for (int64_t first = 0; first < l->c.group_out; first += KERN_PLANES_CHANNELS) multiply(l, d, b, g, first);
  for (int64_t row = 0; row < b->rows; row++) finish_line(l, d, b, row);
}

td_status kern_conv_planes(const base_call *call, const kern_conv *conv, const float *weights,
                           const kern_planes_level *level) {
  layer l = {.level = level, .packed = weights};
  desk d;
  TRY(describe(call, conv, &l));
  if (!make_desk(call, &l, &d)) return base_no_memory(call->err, "scratch");
  const int64_t slices = conv->axis[0].out, height = conv->axis[1].out, width = conv->axis[2].out;
  const int64_t each = l.bands * l.parts, total = conv->batch * slices * each;
  if (total > INT32_MAX)
    return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "a convolution of %lld parts", (long long)total);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total)) {
    const int64_t map = task / each, row = task % each / l.parts, part = task % l.parts;
    band b = {
        .sample = map / slices, .slice = map % slices, .row = height * row / l.bands, .column = width * part / l.parts};
    b.rows = height * (row + 1) / l.bands - b.row;
    b.columns = width * (part + 1) / l.parts - b.column;
    run_band(&l, &d, &b);
  }
  return TD_OK;
}

/* ---- which layers ---- */

/* Costs are in multiply-adds of a vector, as measured on Zen 4. An element of the planes, or of the results: */
static double element_cost(const layer *l) {
  const bool lies = l->c.channels_first || l->channels_in == 1; /* else it is transposed */
  return !lies ? 0.7 : l->c.axis[2].stride > 1 ? 1.5 : 0.3;
}

static double planes_cost(const layer *l) {
  static const double share[KERN_PLANES_CHANNELS] = {2, 1.3, 1.1, 1.05}; /* few channels are short of loads */
  const kern_conv *c = &l->c;
  const int64_t pitch = l->columns + l->along[2].extra, lines = l->rows + l->along[1].extra;
  const double elements = (double)pitch * ((double)planes_of(l) * (double)lines + (double)(l->channels_out * l->rows));
  double tiles = 0;
  for (int64_t first = 0; first < c->group_out; first += KERN_PLANES_CHANNELS) {
    const int64_t channels = tile_channels(l, first);
    const runs r = runs_of(l, pitch, l->rows, l->columns, channels);
    const double vectors = (double)(r.count * r.tiles * l->level->pixels[channels - 1] / l->level->lanes);
    tiles += vectors * (double)channels * share[channels - 1];
  }
  const double bands = (double)(c->batch * c->axis[0].out) * (double)(l->bands * l->parts);
  const double weights = (double)l->depth * (double)l->channels_out * 1.5; /* out of panels */
  return bands * (elements * element_cost(l) + tiles * (double)c->groups * (double)l->depth) + weights;
}

/* What conv.c takes: a panel, one for several groups, or sums over the channels of each. */
static double panels_cost(const layer *l) {
  const kern_conv *c = &l->c;
  const int64_t lanes = l->level->lanes;
  const int64_t shared = kern_conv_shared(false, c->groups, c->group_out, c->group_in, lanes);
  const double panel = shared > 1 ? 2.5 : c->group_out * 2 > lanes ? 1.25 : 1.4; /* half of one is short of loads */
  const double vectors = ceil((double)c->group_in / (double)lanes), lone = (double)c->group_out;
  const double sums = lone * ((double)c->taps * (vectors * 1.5 + (c->group_in % lanes ? 5 : 0)) + 15);
  return (double)c->batch * (double)c->out_size * (double)(c->groups / shared) * fmin((double)l->depth * panel, sums);
}

bool kern_conv_planes_fit(const kern_conv *c, const kern_planes_level *level) {
  if (c->in_size == 0 || c->out_size == 0 || c->group_out == 0 || c->group_out >= level->lanes ||
      c->axis[1].stride > MOST_STRIDE || c->axis[2].stride > MOST_STRIDE)
    return false;
  kern_conv sample = *c; /* the order of sums is not to depend on the batch */
  sample.batch = 1;
  layer l = {.level = level};
  set_sizes(&l, &sample, kern_tasks_wanted(1));
  return l.along[1].extra <= MOST_EXTRA && l.along[2].extra <= MOST_EXTRA && planes_cost(&l) * 1.25 < panels_cost(&l);
}
