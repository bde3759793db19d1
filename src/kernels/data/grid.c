/* grid.c -- KERN_GRID_SAMPLE: td::grid_sample of f32 and f64 (data.h), operands of any strides.
 *
 * The taps of a position are found once for all channels. Where the channels of a pixel lie side by side they are
 * summed a block at a time; where they do not, and there are enough of them and of positions, a block of channels is
 * copied so first:
 *
 *     x [C, pixels]  ->  transposed [pixels, BLOCK]  --sums of taps-->  made [positions, BLOCK]  ->  y [C, positions]
 */
#include "kernels/data/data.h"
#include "kernels/kernels_priv.h"
#include "kernels/data/move_priv.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 16, GROUP = 2 * BLOCK /* channels of a task */, PART = 1 << 12 /* positions of a task, at most */ };
enum { LEAST_CHANNELS = 6 /* below which a copy costs more than it saves */, FAR = 1000000000 };

/* ---- taps ---- */

static double reflect(double x, double least, double most) {
  const double range = most - least, beyond = x < least ? least - x : x > most ? x - most : -1;
  if (beyond < 0) return x;
  if (range <= 0) return least;
  const double flips = floor(beyond / range), rest = beyond - flips * range;
  const bool from_least = (x < least) == (fmod(flips, 2) == 0);
  return from_least ? least + rest : most - rest;
}

static double clamp(double x, double least, double most) { return x < least ? least : x > most ? most : x; }

static int64_t pad_index(const kern_grid *grid, int64_t at, int64_t size) {
  double place = (double)at;
  if (grid->padding == KERN_GRID_REFLECTION)
    place = reflect(place, grid->align ? 0 : -0.5, grid->align ? (double)size - 1 : (double)size - 0.5);
  return (int64_t)clamp(trunc(place), 0, (double)size - 1);
}

/* Cubic convolution (Keys 1981) with a = -0.75. */
static double cubic(double x) {
  const double a = -0.75;
  x = fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Of |x| <= FAR. */
static int64_t floor_of(double x) {
  const int64_t near = (int64_t)x;
  return near - (x < (double)near);
}

/* In elements, of an axis of so many. */
static double element_of(const kern_grid *grid, double coordinate, double length) {
  const double x = grid->align ? (coordinate + 1) / 2 * (length - 1) : ((coordinate + 1) * length - 1) / 2;
  return grid->fine ? x : (double)(float)x;
}

void kern_grid_place(const kern_grid *grid, double coordinate, int64_t size, kern_grid_taps *taps) {
  const double length = (double)size;
  double x = element_of(grid, coordinate, length);
  if (grid->mode == KERN_GRID_LINEAR && x >= 0 && x < length - 1) { /* the common case: between two elements */
    const int64_t first = (int64_t)x;
    const double second = x - (double)first;
    *taps = (kern_grid_taps){2, {first, first + 1}, {1 - second, second}};
    return;
  }
  if (!(fabs(x) < FAR)) x = isnan(x) || x < 0 ? -FAR : FAR;
  if (grid->mode == KERN_GRID_NEAREST) x = nearbyint(x);
  const double least = grid->align ? 0 : -0.5, most = grid->align ? length - 1 : length - 0.5;
  if (grid->padding == KERN_GRID_BORDER && grid->mode != KERN_GRID_CUBIC) /* cubic pads each tap */
    x = clamp(x, 0, length - 1);
  if (grid->padding == KERN_GRID_REFLECTION) x = reflect(x, least, most);
  const int64_t below = grid->mode == KERN_GRID_NEAREST ? (int64_t)x : floor_of(x);
  taps->count = 0;
  for (int32_t k = 0; k < grid->taps; k++) {
    const int64_t at = below + k - (grid->mode == KERN_GRID_CUBIC);
    const bool inside = at >= 0 && at < size;
    const double distance = x - (double)at;
    if (!inside && grid->padding == KERN_GRID_ZEROS) continue;
    taps->index[taps->count] = inside ? at : pad_index(grid, at, size);
    taps->weight[taps->count++] = grid->mode == KERN_GRID_NEAREST  ? 1
                                  : grid->mode == KERN_GRID_LINEAR ? 1 - fabs(distance)
                                                                   : cubic(distance);
  }
}

/* ---- what a call is ---- */

static const struct {
  const char *name;
  int32_t taps;
} modes[] = {
    [KERN_GRID_NEAREST] = {"nearest", 1}, [KERN_GRID_LINEAR] = {"linear", 2}, [KERN_GRID_CUBIC] = {"cubic", 4}};
static const char *const paddings[] = {
    [KERN_GRID_ZEROS] = "zeros", [KERN_GRID_BORDER] = "border", [KERN_GRID_REFLECTION] = "reflection"};
enum { MODES = sizeof modes / sizeof *modes, PADDINGS = sizeof paddings / sizeof *paddings };

static bool operands_fit(const base_tensor *x, const base_tensor *grid, const base_tensor *y) {
  const int32_t axes = x->rank - 2;
  bool fit = axes >= 1 && axes <= KERN_GRID_AXES && grid->rank == x->rank && y->rank == x->rank &&
             base_tensor_numel(x) > 0 && grid->dims[0] == x->dims[0] && y->dims[0] == x->dims[0] &&
             y->dims[1] == x->dims[1] && grid->dims[grid->rank - 1] == axes;
  for (int32_t i = 0; fit && i < axes; i++) fit = y->dims[2 + i] == grid->dims[1 + i];
  return fit;
}

td_status kern_grid_read(const base_call *call, kern_grid *grid) {
  const char *mode = base_attr_str(call->attrs, KERN_GRID_MODE),
             *padding = base_attr_str(call->attrs, KERN_GRID_PADDING);
  int m = 0, p = 0;
  while (m < MODES && strcmp(modes[m].name, mode) != 0) m++;
  while (p < PADDINGS && strcmp(paddings[p], padding) != 0) p++;
  if (m == MODES || p == PADDINGS)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::grid_sample: unknown mode \"%s\" or padding \"%s\"",
                     mode, padding);
  *grid = (kern_grid){(kern_grid_mode)m, (kern_grid_padding)p, base_attr_int(call->attrs, KERN_GRID_ALIGN_CORNERS),
                      modes[m].taps, base_in(call, 1)->dtype == TD_F64};
  if (!operands_fit(base_in(call, 0), base_in(call, 1), base_out(call, 0)))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::grid_sample: image and grid do not fit");
  return TD_OK;
}

/* ---- sums ---- */

/* A pixel, in elements behind an image's first, and what it counts. */
typedef struct tap {
  int64_t at;
  double weight;
} tap;

typedef struct job {
  kern_grid how;
  const struct sums *sums;
  const base_tensor *x, *grid, *y;
  int32_t axes;
  int64_t channels, positions, parts, part, groups; /* positions: of a sample; part: positions of a task */
  int64_t most, step[KERN_GRID_AXES];               /* taps of a position; elements from a pixel to the next */
  bool transposes;
  /* Of a worker. */
  tap *taps;       /* [part, most] */
  int32_t *counts; /* [part] */
  void *transposed, *made;
} job;

/* Each tap of an axis times those of the axes before it. */
static int64_t multiply_out(tap *to, int64_t count, const kern_grid_taps *own, int64_t step) {
  for (int64_t i = count; i-- > 0;) { /* from the end, for they grow in their place */
    const tap one = to[i];
    for (int32_t k = own->count; k-- > 0;)
      to[i * own->count + k] = (tap){one.at + own->index[k] * step, one.weight * own->weight[k]};
  }
  return count * own->count;
}

/* The taps of a position whose coordinates are elements `coordinates`, with stride `between`, of the grid; how many. */
static int64_t find_position(const job *j, int64_t coordinates, int64_t between, tap *to) {
  int64_t made = 1;
  to[0] = (tap){0, 1};
  for (int32_t d = 0; d < j->axes; d++) { /* x comes first, which is the last axis */
    kern_grid_taps own;
    const double x = base_load_f64(j->grid->dtype, j->grid->data, coordinates + (j->axes - 1 - d) * between);
    kern_grid_place(&j->how, x, j->x->dims[2 + d], &own);
    made = multiply_out(to, made, &own, j->step[d]);
  }
  return made;
}

/* The same of a position between four pixels of an image, its grid of f32: the common case, with the same sums. False:
 * it is none of those. */
static bool find_between_four(const job *j, int64_t coordinates, int64_t between, tap *to) {
  const base_f32 *at = (const base_f32 *)j->grid->data + coordinates;
  const double height = (double)j->x->dims[2], width = (double)j->x->dims[3];
  const double x = element_of(&j->how, (double)at[0], width), y = element_of(&j->how, (double)at[between], height);
  if (!(x >= 0 && x < width - 1 && y >= 0 && y < height - 1)) return false;
  const int64_t row = (int64_t)y, column = (int64_t)x, first = row * j->step[0] + column * j->step[1];
  const double below = y - (double)row, right = x - (double)column;
  to[0] = (tap){first, (1 - below) * (1 - right)};
  to[1] = (tap){first + j->step[1], (1 - below) * right};
  to[2] = (tap){first + j->step[0], below * (1 - right)};
  to[3] = (tap){first + j->step[0] + j->step[1], below * right};
  return true;
}

static void find_taps(const job *j, int64_t sample, int64_t first, int64_t count) {
  const int64_t *strides = j->grid->strides, *dims = j->grid->dims, between = strides[j->axes + 1];
  const bool common = j->axes == 2 && j->how.mode == KERN_GRID_LINEAR && j->grid->dtype == TD_F32;
  int64_t at[KERN_GRID_AXES], rest = first;
  for (int32_t d = j->axes; d-- > 0; rest /= dims[1 + d]) at[d] = rest % dims[1 + d];
  for (int64_t p = 0; p < count; p++) {
    int64_t coordinates = sample * strides[0];
    for (int32_t d = 0; d < j->axes; d++) coordinates += at[d] * strides[1 + d];
    tap *to = j->taps + p * j->most;
    const bool four = common && find_between_four(j, coordinates, between, to);
    j->counts[p] = four ? 4 : (int32_t)find_position(j, coordinates, between, to);
    for (int32_t d = j->axes; d-- > 0 && ++at[d] == dims[1 + d];) at[d] = 0;
  }
}

/* Of an element type: a coordinate; of `count` positions those of a block of channels, which lie side by side, and of
 * one channel. */
typedef struct sums {
  td_dtype dtype;
  void (*block)(const job *j, const void *from, int64_t count),
      (*channel)(const job *j, const void *from, int64_t count, void *to);
} sums;

#define SUMS(name, type)                                                                \
  static void block_##name(const job *j, const void *from, int64_t count) {             \
    type *to = j->made;                                                                 \
    for (int64_t p = 0; p < count; p++, to += BLOCK) {                                  \
      type sum[BLOCK] = {0};                                                            \
      for (int32_t t = 0; t < j->counts[p]; t++) {                                      \
        const tap *one = &j->taps[p * j->most + t];                                     \
        const type *pixel = (const type *)from + one->at;                               \
        const type weight = (type)one->weight;                                          \
        for (int i = 0; i < BLOCK; i++) sum[i] += weight * pixel[i];                    \
      }                                                                                 \
      memcpy(to, sum, sizeof sum);                                                      \
    }                                                                                   \
  }                                                                                     \
  static void channel_##name(const job *j, const void *from, int64_t count, void *to) { \
    for (int64_t p = 0; p < count; p++) {                                               \
      type sum = 0;                                                                     \
      for (int32_t t = 0; t < j->counts[p]; t++) {                                      \
        const tap *one = &j->taps[p * j->most + t];                                     \
        sum += (type)one->weight * ((const type *)from)[one->at];                       \
      }                                                                                 \
      ((type *)to)[p] = sum;                                                            \
    }                                                                                   \
  }
SUMS(f32, float)
SUMS(f64, double)
static const sums of_type[] = {{TD_F32, block_f32, channel_f32}, {TD_F64, block_f64, channel_f64}};

/* ---- tasks ---- */

/* Pixels of `count` channels, each beside the other; what a block has more is whatever it was: nobody reads it. */
static td_status turn_block(const base_call *call, const job *j, const base_tensor *image, int64_t count) {
  base_tensor from = *image, to;
  from.dims[0] = 1;
  from.dims[1] = count;
  to = from;
  to.data = j->transposed;
  to.strides[0] = to.strides[1] = 1;
  for (int32_t d = 0; d < j->axes; d++) to.strides[2 + d] = j->step[d];
  return kern_move_now(call, &to, &from);
}

/* A block of channels, from pixels whose channels lie side by side. */
static td_status sample_block(const base_call *call, const job *j, const void *from, int64_t channels, int64_t count,
                              void *to) {
  j->sums->block(j, from, count);
  base_tensor made = base_tensor_of(j->made, j->sums->dtype, 2, (int64_t[]){channels, count}), target = made;
  made.strides[0] = 1;
  made.strides[1] = BLOCK;
  target.data = to;
  target.strides[0] = j->positions;
  return kern_move_now(call, &target, &made);
}

/* A group of channels at some positions of a sample. */
static td_status run_task(const base_call *call, const job *j, int64_t task) {
  const int64_t part = task % j->parts, sample = task / j->parts / j->groups;
  const int64_t first = part * j->part, count = base_min_i64(j->positions - first, j->part);
  int64_t c = task / j->parts % j->groups * GROUP;
  const int64_t end = base_min_i64(c + GROUP, j->channels);
  find_taps(j, sample, first, count);
  for (int64_t channels; c < end; c += channels) {
    base_tensor image = *j->x;
    image.data = base_at(j->x, sample * j->x->strides[0] + c * j->x->strides[1]);
    void *to = base_at(j->y, (sample * j->channels + c) * j->positions + first);
    channels = base_min_i64(end - c, BLOCK);
    if (j->transposes) {
      TRY(turn_block(call, j, &image, channels));
      TRY(sample_block(call, j, j->transposed, channels, count, to));
    } else if (channels == BLOCK && j->x->strides[1] == 1) {
      TRY(sample_block(call, j, image.data, channels, count, to));
    } else {
      channels = 1;
      j->sums->channel(j, image.data, count, to);
    }
  }
  return TD_OK;
}

static bool take_room(const base_call *call, job *j, int64_t pixels) {
  const size_t block = BLOCK * base_dtype(j->sums->dtype)->bits / 8;
  j->taps = base_call_scratch(call, (size_t)j->part, (size_t)j->most * sizeof *j->taps);
  j->counts = base_call_scratch(call, (size_t)j->part, sizeof *j->counts);
  j->made = base_call_scratch(call, (size_t)j->part, block);
  j->transposed = base_call_scratch(call, j->transposes ? (size_t)pixels : 0, block);
  if (!j->taps || !j->counts || !j->made || !j->transposed) return false;
  if (j->transposes) memset(j->transposed, 0, (size_t)pixels * block);
  return true;
}

td_status kern_grid_sample(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  job j = {.x = x, .grid = base_in(call, 1), .y = y, .axes = x->rank - 2, .channels = x->dims[1], .most = 1};
  if (base_tensor_numel(y) == 0) return TD_OK;
  TRY(kern_grid_read(call, &j.how));
  j.sums = &of_type[x->dtype == TD_F64];
  int64_t pixels = 1;
  j.positions = 1;
  for (int32_t d = 0; d < j.axes; d++) {
    pixels *= x->dims[2 + d];
    j.positions *= y->dims[2 + d];
    j.most *= j.how.taps;
  }
  j.transposes = x->strides[1] != 1 && j.channels >= LEAST_CHANNELS && j.positions >= pixels / 2;
  int64_t step = BLOCK;
  for (int32_t d = j.axes; d-- > 0; step *= x->dims[2 + d]) j.step[d] = j.transposes ? step : x->strides[2 + d];
  j.part = j.transposes ? j.positions : base_min_i64(j.positions, PART);
  j.parts = (j.positions + j.part - 1) / j.part;
  j.groups = (j.channels + GROUP - 1) / GROUP;
  if (!take_room(call, &j, pixels)) return base_no_memory(call->err, "scratch");
  const int64_t total = x->dims[0] * j.groups * j.parts;
  for (int64_t t = base_call_first(call, total); t < total; t = base_call_next(call, t, total))
    TRY(run_task(call, &j, t));
  return TD_OK;
}
