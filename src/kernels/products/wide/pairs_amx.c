/* pairs_amx.c -- KERN_LINEAR and KERN_CONV on 16 bits by tiles of AMX: weights are pairs of bf16 (pack.h), the image is
 * rounded to that, where it is not bf16. So may the residual and the result be.
 *
 * A pixel has as many numbers as are stored of a tap, and zeros lie beside x. Of an image with channels first, whose
 * channels are few, the numbers that a window sees of a line are one tap (kern_row_channels, pack_conv.h). */
#include "kernels/simd/amx_priv.h"
#include "kernels/products/epilogue_priv.h"
#include "kernels/products/image_product_priv.h"
#include "kernels/products/nbits_pairs_priv.h"
#include "kernels/products/pack_conv.h"
#include "kernels/simd/math_priv.h"
#include "kernels/simd/pairs_priv.h"

typedef struct product {
  image_product amx; /* the first, so that its functions know the others */
  kern_epilogue e;
  bool cheap; /* no chain, and the activation is limits and a slope below 0, or a hardswish */
  bool gated; /* a hardswish */
  float limits[2], slope;
  kern_chain *front;        /* makes the pixels of x; NULL: they are there */
  int64_t taken, x_size;    /* channels of x in a pixel of the image; bytes of a number of x */
  const uint16_t *residual; /* of bf16; NULL: there is none, or the epilogue has it */
  int64_t residual_pitch;
  char *out;
  int64_t out_pitch, out_size;
  float *made;             /* lines of x by `front` */
  const kern_nbits *nbits; /* how the weights are packed; NULL: as pairs */
  bool *odd;               /* rows that are multiplied by themselves; NULL: x is rounded, and none is */
  int64_t shared;          /* groups that are one here, and have zeros in each other's rows */
  int64_t across;          /* taps of a row that are columns; 0: none are */
  int64_t width, channels; /* of the output, where they are */
  float *parts;            /* sums of a block's lines by such columns */
} product;

/* ---- the image of a block ---- */

/* n numbers of x. */
static void take_numbers(const product *p, const char *from, int64_t n, uint16_t *to) {
  if (p->x_size == sizeof *to) memcpy(to, from, (size_t)n * sizeof *to);
  else p_round_row(to, (const float *)(const void *)from, n);
}

/* Pairs of bf16 of n pixels of two planes; NULL: zeros. */
V_INLINE words take_pairs(const float *first, const float *second, int64_t n) {
  const vf pairs = p_interleave(first ? v_load_n(first, n) : v_zero(), second ? v_load_n(second, n) : v_zero());
  words bits;
  memcpy(&bits, &pairs, sizeof bits);
  return bits;
}

/* A line of an image with channels first, which begins at `from` in the first plane. */
static void take_planes(const image_product *p, const char *from, int64_t phase, void *image) {
  const kern_conv_axis *a = &p->c.axis[2];
  const int64_t plane = p->c.axis[0].in * p->x_plane / (int64_t)sizeof(float);
  uint16_t *to = image;
  (void)phase;
  const int64_t whole = p->line * a->stride, pairs = p->channels / 2;
  const int64_t first = from ? base_max_i64(base_min_i64(a->begin, whole), 0) : whole;
  const int64_t last = base_max_i64(base_min_i64(a->in + a->begin, whole), first);
  memset(to, 0, (size_t)(first * p->channels) * sizeof *to);
  memset(to + last * p->channels, 0, (size_t)((whole - last) * p->channels) * sizeof *to);
  for (int64_t i = first, n; i < last; i += n) {
    uint32_t *pixel = (uint32_t *)(void *)(to + i * p->channels);
    const float *at = (const float *)from + i - a->begin;
    n = base_min_i64(V_LANES, last - i);
    for (int64_t c = 0; c < pairs; c++) {
      const float *one = at + 2 * c * plane;
      const words some =
          take_pairs(2 * c < p->c.group_in ? one : NULL, 2 * c + 1 < p->c.group_in ? one + plane : NULL, n);
      for (int64_t k = 0; k < n; k++) pixel[k * pairs + c] = some[k];
    }
  }
}

/* Pixels of one phase of a line of x, which begins at `from`; NULL: it lies beside x. */
static void take_line(const image_product *amx, const char *from, int64_t phase, void *image) {
  const product *p = (const product *)amx;
  const kern_conv_axis *a = &amx->c.axis[2];
  const int64_t channels = p->taken, stored = amx->channels, before = a->begin - phase, line = amx->line;
  const int64_t first = from ? base_min_i64(base_max_i64(base_ceil_div(before, a->stride), 0), line) : line;
  const int64_t last = base_max_i64(base_min_i64(base_ceil_div(a->in + before, a->stride), line), first);
  uint16_t *to = image;
  memset(to, 0, (size_t)(first * stored) * sizeof *to);
  memset(to + last * stored, 0, (size_t)((line - last) * stored) * sizeof *to);
  if (last == first) return;
  from += (first * a->stride - before) * amx->x_pixel;
  to += first * stored;
  if (a->stride == 1 && amx->x_pixel == channels * p->x_size && channels == stored) {
    take_numbers(p, from, (last - first) * channels, to);
    return;
  }
  for (int64_t i = first; i < last; i++, from += a->stride * amx->x_pixel, to += stored) {
    take_numbers(p, from, channels, to);
    memset(to + channels, 0, (size_t)(stored - channels) * sizeof *to);
  }
}

/* The same of pixels that are lines of their own. */
static void take_pixels(const image_product *amx, const char *from, int64_t count, void *image) {
  const product *p = (const product *)amx;
  const int64_t taken = p->taken, stored = amx->channels;
  uint16_t *to = image;
  if (amx->x_pixel == taken * p->x_size && taken == stored) {
    take_numbers(p, from, count * taken, to);
    return;
  }
  for (; count > 0; count--, from += amx->x_pixel, to += stored) {
    take_numbers(p, from, taken, to);
    memset(to + taken, 0, (size_t)(stored - taken) * sizeof *to);
  }
}

static const char *make_lines(const image_product *amx, int64_t plane, int64_t first, int64_t last, int64_t group) {
  const product *p = (const product *)amx;
  const kern_conv_axis *a = amx->c.axis;
  const kern_chain_tile t = {.sums = p->made,
                             .pitch = p->taken,
                             .row = (plane * a[1].in + first) * a[2].in,
                             .row_step = 1,
                             .rows = (last - first) * a[2].in,
                             .column = amx->a_group ? 0 : group * p->taken,
                             .columns = p->taken};
  if (last > first) kern_chain_run(p->front, &t);
  return (const char *)p->made;
}

/* ---- sums ---- */

/* Rows of sums on their way to memory. */
typedef struct rows_out {
  const float *bias, *scale, *shift; /* NULL: none; */
  const float *wide;                 /* the residual where it is f32, */
  const uint16_t *half;              /* or where it is bf16 */
  int64_t residual_pitch;
  float low, high, slope; /* max(t, slope t) of what is within limits: 1, or a leaky_relu's */
  bool gated, late;       /* a hardswish; the activation comes last */
  char *to;
  int64_t pitch; /* bytes from row to row */
  bool narrow;   /* to bf16 */
} rows_out;

V_INLINE vf bend(rows_out o, vf t, bool gated) {
  if (gated) return v_hardswish(t);
  t = v_min(v_set(o.high), v_max(v_set(o.low), t));
  return o.slope < 1 ? v_max(t, v_mul(v_set(o.slope), t)) : t;
}

/* All rows of some columns from `column` on, then the next ones: what is theirs stays in registers. `lanes`: of a
 * single panel. */
V_TEMPLATE void put_columns(rows_out o, const float *sums, int64_t rows, int64_t column, int64_t lanes,
                            const int panels, const bool narrow, const bool gated) {
  const bool scaled = o.scale || o.shift;
  char *to = o.to + column * (narrow ? 2 : 4);
  vf bias[AMX_PANELS], scale[AMX_PANELS], shift[AMX_PANELS], t[AMX_PANELS];
#define PART(load, from) panels > 1 ? load((from) + i * V_LANES, V_LANES) : load(from, lanes)
#define EACH(condition, to, value) \
  if (condition) V_UNROLL          \
  for (int i = 0; i < panels; i++) to[i] = value
  EACH(true, bias, o.bias ? PART(v_load_n, o.bias + column) : v_set(-0.0f));
  EACH(true, scale, o.scale ? PART(v_load_n, o.scale + column) : v_set(1));
  EACH(true, shift, o.shift ? PART(v_load_n, o.shift + column) : v_set(-0.0f));
  for (int64_t r = 0, at = column; r < rows; r++, sums += AMX_WIDTH, to += o.pitch, at += o.residual_pitch) {
    EACH(true, t, v_add(v_load(sums + column + i * V_LANES), bias[i]));
    EACH(!o.late, t, bend(o, t[i], gated));
    EACH(o.half, t, v_add(t[i], PART(p_load, o.half + at)));
    EACH(o.wide, t, v_add(t[i], PART(v_load_n, o.wide + at)));
    EACH(scaled, t, v_add(v_mul(t[i], scale[i]), shift[i]));
    EACH(o.late, t, bend(o, t[i], gated));
    for (int i = 0; narrow && i + 1 < panels; i += 2) {
      const vf pairs = p_round_two(t[i], t[i + 1]);
      memcpy(to + i * V_LANES * 2, &pairs, sizeof pairs);
    }
    for (int i = 0; !narrow && panels > 1 && i < panels; i++) v_store((float *)(void *)to + i * V_LANES, t[i]);
    if (panels == 1 && narrow) p_store((uint16_t *)(void *)to, t[0], lanes);
    if (panels == 1 && !narrow) v_store_n((float *)(void *)to, t[0], lanes);
  }
#undef EACH
#undef PART
}

static void put_rows(const rows_out *o, const float *sums, int64_t rows, int64_t columns) {
  enum { PAIR = 2 * V_LANES };
  if (columns == AMX_WIDTH && !o->gated && o->narrow) put_columns(*o, sums, rows, 0, 0, AMX_PANELS, true, false);
  if (columns == AMX_WIDTH && !o->gated && !o->narrow) put_columns(*o, sums, rows, 0, 0, AMX_PANELS, false, false);
  int64_t i = columns == AMX_WIDTH && !o->gated ? columns : 0;
  for (; i + PAIR <= columns; i += PAIR)
    if (o->gated) put_columns(*o, sums, rows, i, 0, 2, o->narrow, true);
    else put_columns(*o, sums, rows, i, 0, 2, o->narrow, false);
  for (; i < columns; i += V_LANES)
    put_columns(*o, sums, rows, i, base_min_i64(V_LANES, columns - i), 1, o->narrow, o->gated);
}

/* All of an epilogue with a chain, in place. */
static void finish_chain(kern_epilogue *e, const rows_out *o, float *sums, int64_t rows, int64_t columns) {
  float wide[AMX_MOST_ROWS * AMX_WIDTH];
  for (int64_t r = 0; o->half && r < rows; r++)
    for (int64_t i = 0; i < columns; i += V_LANES) {
      const vf x = p_load(o->half + r * o->residual_pitch + i, base_min_i64(V_LANES, columns - i));
      v_store(wide + r * AMX_WIDTH + i, x);
    }
  if (o->half) e->residual = wide;
  if (o->half) e->residual_pitch = AMX_WIDTH;
  KERN_NAME(epilogue_rows)(e, sums, AMX_WIDTH, rows, columns);
}

static bool has_parts(const rows_out *o) { return o->bias || o->scale || o->shift || o->wide || o->half; }

/* What of an epilogue is not cheap, and what comes before it, in place; *o is what comes behind. */
static void finish_dear(kern_epilogue *e, rows_out *o, float *sums, int64_t rows, int64_t columns) {
  static const rows_out none = {.low = -INFINITY, .high = INFINITY, .slope = 1};
  rows_out all = *o, before = none;
  *o = none;
  o->to = all.to, o->pitch = all.pitch, o->narrow = all.narrow;
  if (e->chain) {
    finish_chain(e, &all, sums, rows, columns);
    return;
  }
  rows_out *parts = e->late ? &before : o;
  parts->scale = all.scale, parts->shift = all.shift;
  parts->wide = all.wide, parts->half = all.half, parts->residual_pitch = all.residual_pitch;
  before.bias = all.bias;
  before.to = (char *)sums;
  before.pitch = AMX_WIDTH * (int64_t)sizeof *sums;
  if (has_parts(&before)) put_rows(&before, sums, rows, columns);
  KERN_NAME(epilogue_act)(e, sums, AMX_WIDTH, rows, columns);
}

static void finish(const image_product *amx, float *sums, int64_t pixel, int64_t rows, int64_t group, int64_t column,
                   int64_t columns) {
  const product *p = (const product *)amx;
  column += group * amx->c.group_out;
  kern_epilogue e = kern_epilogue_at(&p->e, pixel, column);
  rows_out all = {.bias = e.bias,
                  .scale = e.scale,
                  .shift = e.shift,
                  .wide = e.residual,
                  .half = p->residual ? p->residual + pixel * p->residual_pitch + column : NULL,
                  .residual_pitch = p->residual ? p->residual_pitch : e.residual_pitch,
                  .low = p->limits[0],
                  .high = p->limits[1],
                  .slope = p->slope,
                  .gated = p->gated,
                  .late = e.late,
                  .to = p->out + (pixel * p->out_pitch + column) * p->out_size,
                  .pitch = p->out_pitch * p->out_size,
                  .narrow = p->out_size < (int64_t)sizeof *sums};
  if (!p->cheap) finish_dear(&e, &all, sums, rows, columns);
  put_rows(&all, sums, rows, columns);
}

/* ---- groups that share a panel ---- */

/* The sum of a pixel and a channel, of nothing but its own group. */
static float own_sum(const product *p, int64_t pixel, int64_t channel) {
  const image_product *amx = &p->amx;
  const kern_conv *c = &amx->c;
  const int64_t line = pixel / c->axis[2].out % c->axis[1].out % amx->block_lines;
  const int64_t row = line * amx->line + pixel % c->axis[2].out, in = c->group_in / p->shared;
  const int64_t panel = channel / V_LANES, lane = channel % V_LANES, first = lane * p->shared / V_LANES * in;
  const char *from = amx->image + row * amx->pixel * amx->size + panel * amx->a_panel;
  const uint16_t *w = (const uint16_t *)(const void *)(amx->w + panel * amx->panel);
  float sum = 0;
  for (int64_t i = 0; i < amx->runs; i++, w += c->stored * V_LANES)
    for (int64_t k = first; k < first + in; k++)
      sum += base_bf16_to_f32(((const uint16_t *)(const void *)(from + amx->run[i]))[k]) *
             base_bf16_to_f32(w[(k / 2 * V_LANES + lane) * 2 + k % 2]);
  return sum;
}

/* Zero times what is not finite is no number, in channels of other groups, too: such sums are taken anew. */
static void finish_shared(const image_product *amx, float *sums, int64_t pixel, int64_t rows, int64_t group,
                          int64_t column, int64_t columns) {
  float bad[V_LANES];
  vf none = v_zero();
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < columns; i += V_LANES) {
      const vf t = v_load(sums + r * AMX_WIDTH + i);
      none = v_add(none, v_sub(t, t)); /* 0, or no number */
    }
  v_store(bad, none);
  for (int64_t i = 0; i < columns; i++)
    for (int64_t r = 0; bad[i % V_LANES] != 0 && r < rows; r++)
      if (!isfinite(sums[r * AMX_WIDTH + i]))
        sums[r * AMX_WIDTH + i] = own_sum((const product *)amx, pixel + r, column + i);
  finish(amx, sums, pixel, rows, group, column, columns);
}

/* ---- taps as columns ---- */

/* Sums of rows of taps: they wait for those of the pixels beside them. */
static void keep_parts(const image_product *amx, float *sums, int64_t pixel, int64_t rows, int64_t group,
                       int64_t column, int64_t columns) {
  const product *p = (const product *)amx;
  const kern_conv_axis *a = amx->c.axis;
  const int64_t pitch = amx->panels * V_LANES, line = pixel / a[2].out % a[1].out % amx->block_lines;
  float *to = p->parts + (line * a[2].out + pixel % a[2].out) * pitch + column;
  (void)group; /* there is one */
  for (int64_t r = 0; r < rows; r++, sums += AMX_WIDTH, to += pitch)
    for (int64_t i = 0; i < columns; i += V_LANES) v_store(to + i, v_load(sums + i));
}

/* out[x] = sum over taps of parts[x + tap][tap] */
static void join_parts(const image_product *amx, int64_t line, int64_t lines) {
  const product *p = (const product *)amx;
  const int64_t pitch = amx->panels * V_LANES, wide = amx->c.axis[2].out;
  _Alignas(64) float sums[AMX_MOST_ROWS * AMX_WIDTH];
  for (int64_t i = 0; i < lines; i++)
    for (int64_t x = 0, n; x < p->width; x += n) {
      n = base_min_i64(AMX_MOST_ROWS, p->width - x);
      for (int64_t r = 0; r < n; r++) {
        const float *at = p->parts + (i * wide + x + r) * pitch;
        vf sum = v_load(at);
        for (int64_t tap = 1; tap < p->across; tap++) sum = v_add(sum, v_load(at + tap * (pitch + p->channels)));
        v_store(sums + r * AMX_WIDTH, sum);
      }
      finish(amx, sums, (line + i) * p->width + x, n, 0, 0, p->channels);
    }
}

/* ---- weights of few bits ---- */

static void unpack(const image_product *amx, int64_t group, int64_t panel, int64_t panels, char *to) {
  const product *p = (const product *)amx;
  (void)group; /* there is one */
  const nbits_panels n = {p->nbits, (const uint8_t *)amx->w, panel, panels, amx->c.stored, p->odd != NULL};
  KERN_PART_NAME(nbits_pairs)(&n, to);
}

/* A row as two of bf16, what it is rounded to and the rest. One that holds something infinite, or so large that its
 * products with whole numbers are, is odd: it is zeros here. */
static void take_parts(const image_product *amx, const char *from, int64_t phase, void *image) {
  const product *p = (const product *)amx;
  const int64_t stored = amx->c.stored, k = amx->c.group_in;
  const float *x = (const float *)(const void *)from;
  uint16_t *to = image;
  vf most = v_zero();
  (void)phase;
  if (!from) { /* behind the last row */
    memset(to, 0, (size_t)(2 * stored) * sizeof *to);
    return;
  }
  for (int64_t i = 0; i < k; i += V_LANES) {
    const int64_t lanes = base_min_i64(V_LANES, k - i);
    const vf a = v_load_n(x + i, lanes);
    p_store(to + i, a, lanes);
    p_store(to + stored + i, v_sub(a, p_load(to + i, lanes)), lanes);
    most = v_max(v_abs(a), most);
  }
  bool *odd = &p->odd[(from - amx->x) / amx->x_line];
  *odd = v_highest(most) >= 0x1p64f;
  for (int64_t part = 0; part < 2; part++, to += stored) {
    if (*odd) memset(to, 0, (size_t)stored * sizeof *to);
    memset(to + k, 0, (size_t)(stored - k) * sizeof *to);
  }
}

static void finish_parts(const image_product *amx, float *sums, int64_t pixel, int64_t rows, int64_t group,
                         int64_t column, int64_t columns) {
  const product *p = (const product *)amx;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; p->odd[pixel + r] && i < columns; i++)
      sums[r * AMX_WIDTH + i] = kern_nbits_multiply(p->nbits, (const uint8_t *)amx->w, column + i,
                                                    (const float *)(const void *)(amx->x + (pixel + r) * amx->x_line));
  finish(amx, sums, pixel, rows, group, column, columns);
}

/* Two parts of each row times whole numbers: blocks of a tile, as long as fill a block of these. */
static td_status take_two_parts(const base_call *call, product *p) {
  image_product *amx = &p->amx;
  const kern_nbits *l = p->nbits;
  p->odd = base_call_scratch(call, (size_t)amx->c.out_size, sizeof *p->odd);
  if (!p->odd) return base_no_memory(call->err, "scratch");
  amx->words = AMX_ROWS;
  while (l->block / 2 % amx->words) amx->words--;
  amx->blocks = base_ceil_div(l->k, 2 * amx->words);
  amx->c.stored = amx->blocks * amx->words * 2;
  amx->scales = (const float *)base_in(call, 1)->data;
  amx->scale_panel = l->blocks * V_LANES;
  amx->scale_blocks = l->block / 2 / amx->words;
  amx->a_low = amx->c.stored * amx->size;
  amx->channels = KERN_PART_NAME(image_spread)(2 * amx->c.stored, amx->size);
  amx->take = take_parts;
  amx->take_pixels = NULL;
  amx->multiply = KERN_PART_NAME(amx_scaled);
  amx->finish = finish_parts;
  return TD_OK;
}

/* ---- the operators ---- */

/* Groups whose channels fill whole blocks have one image of them all; those of one panel are panels of one group. */
static void join_groups(product *p) {
  image_product *amx = &p->amx;
  kern_conv *c = &amx->c;
  const int64_t bytes = c->group_in * amx->size;
  p->taken = c->group_in;
  if (c->groups == 1 || c->channels_first || c->stored != c->group_in) return;
  p->taken *= c->groups;
  if (c->group_out == V_LANES) {
    amx->a_panel = bytes;
    c->group_out *= c->groups;
    c->groups = 1;
  } else {
    amx->a_group = bytes;
  }
}

/* Are the taps of a row, which lie side by side in the image as in the weights, fewer blocks together? */
static bool joins_taps(const product *p) {
  const kern_conv *c = &p->amx.c;
  const kern_conv_axis *a = &c->axis[2];
  const int64_t pairs = c->stored / 2, row = pairs * a->kernel;
  return a->stride == 1 && a->dilation == 1 && p->shared <= 1 && p->taken == c->group_in &&
         KERN_PART_NAME(image_spread)(c->stored, p->amx.size) == c->stored && kern_tiles_depth(2 * row) == 2 * row &&
         base_ceil_div(row, AMX_ROWS) < base_ceil_div(pairs, AMX_ROWS) * a->kernel;
}

static void set_sizes(product *p, int64_t x_pitch) {
  image_product *amx = &p->amx;
  const kern_conv *c = &amx->c;
  const kern_conv_axis *a = c->axis;
  const bool merged = KERN_PART_NAME(image_merge_lines)(&amx->c), planes = c->channels_first;
  amx->size = sizeof(uint16_t);
  join_groups(p);
  const int64_t pitch = p->front ? p->taken : x_pitch;
  amx->weights = sizeof(uint32_t);
  amx->rows = planes || joins_taps(p);
  const int64_t pairs = c->stored / 2 * (amx->rows && !planes ? a[2].kernel : 1);
  amx->blocks = base_ceil_div(pairs, AMX_ROWS);
  amx->words = amx->blocks ? pairs / amx->blocks : 0;
  amx->lies = merged && !p->front && p->x_size == amx->size && c->stored == c->group_in;
  amx->channels = KERN_PART_NAME(image_spread)(p->taken > c->group_in ? p->taken : c->stored, amx->size);
  if (planes) amx->channels = c->stored / a[2].kernel;
  if (amx->lies) amx->channels = pitch;
  amx->x_pixel = planes ? p->x_size : pitch * p->x_size;
  amx->x_line = planes ? pitch * p->x_size : a[2].in * amx->x_pixel;
  amx->x_plane = a[1].in * amx->x_line;
  amx->x_group = p->front || p->taken > c->group_in ? 0 : c->group_in * p->x_size;
  amx->x_sample = (planes ? c->group_in : 1) * a[0].in * amx->x_plane;
  amx->take = planes ? take_planes : take_line;
  amx->take_pixels = merged ? take_pixels : NULL;
  amx->make_lines = p->front ? make_lines : NULL;
  amx->multiply = KERN_PART_NAME(amx_bf16);
  amx->zeros = true;
  amx->finish = p->across ? keep_parts : p->shared > 1 ? finish_shared : finish;
  amx->finish_lines = p->across ? join_parts : NULL;
}

static td_status take_room(const base_call *call, product *p) {
  const int64_t sizes[] = {p->amx.seen, p->amx.c.axis[2].in, p->taken};
  const int64_t pixels = p->amx.block_lines * p->amx.c.axis[2].out;
  int64_t count;
  if (p->across) { /* what is read of a pixel's last tap may lie behind it */
    p->parts = base_call_scratch(call, (size_t)(pixels + 1), (size_t)p->amx.panels * V_LANES * sizeof *p->parts);
    if (!p->parts) return base_no_memory(call->err, "scratch");
  }
  if (!p->front) return TD_OK;
  if (!base_numel(3, sizes, &count)) return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "the window is too large");
  p->made = base_call_scratch(call, (size_t)count, sizeof *p->made);
  return p->made ? TD_OK : base_no_memory(call->err, "scratch");
}

/* Sums begin with the bias where an activation is a pass of its own: else the bias would be another. */
static td_status start_with_bias(const base_call *call, product *p) {
  const image_product *amx = &p->amx;
  if (p->cheap || !p->e.bias || p->nbits || p->across || p->shared > 1 || amx->c.groups > 1) return TD_OK;
  float *start = base_call_scratch(call, (size_t)amx->panels * V_LANES, sizeof *start);
  if (!start) return base_no_memory(call->err, "scratch");
  memset(start, 0, (size_t)amx->panels * V_LANES * sizeof *start);
  memcpy(start, p->e.bias, (size_t)amx->c.group_out * sizeof *start);
  p->amx.start = (const int32_t *)(const void *)start;
  p->e.bias = NULL;
  return TD_OK;
}

static td_status multiply(const base_call *call, product *p) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0), *residual = base_in(call, KERN_IN_RESIDUAL);
  if (base_tensor_numel(out) == 0) return TD_OK;
  p->amx.w = base_in(call, 1)->data;
  p->amx.x = x->data;
  p->x_size = base_dtype(x->dtype)->bits / 8;
  p->out = out->data;
  p->out_pitch = kern_pitch(out);
  p->out_size = base_dtype(out->dtype)->bits / 8;
  TRY(KERN_NAME(product_of)(call, &p->e, &p->front));
  if (residual && residual->dtype == TD_BF16) {
    p->residual = residual->data;
    p->residual_pitch = p->e.residual_pitch;
    p->e.residual = NULL;
  }
  const bool leaky = p->e.act == KERN_ACT_leaky_relu && p->e.a > 0 && p->e.a <= 1;
  p->slope = leaky ? p->e.a : 1;
  p->gated = p->e.act == KERN_ACT_hardswish;
  p->cheap = kern_epilogue_cheap(&p->e, p->limits) || leaky || p->gated;
  p->cheap &= !p->e.chain;
  set_sizes(p, kern_pitch(x));
  if (p->nbits && base_attr_int(call->attrs, KERN_NBITS_X_BITS) == 16) TRY(take_two_parts(call, p));
  KERN_PART_NAME(image_cut)(&p->amx, call->workers);
  TRY(take_room(call, p));
  TRY(start_with_bias(call, p));
  return KERN_PART_NAME(image_run)(call, &p->amx);
}

/* Sizes of rows of a matrix, of which `stored` numbers meet weights. */
static void rows_of(const base_call *call, kern_conv *c) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const kern_conv_axis one = {1, 1, 1, 1, 0, 1};
  *c = (kern_conv){.axis = {one, one, one},
                   .batch = 1,
                   .groups = 1,
                   .group_in = x->dims[x->rank - 1],
                   .group_out = out->dims[out->rank - 1],
                   .taps = 1,
                   .out_size = 1};
  c->stored = kern_tiles_depth(c->group_in);
  for (int32_t i = 0; i < x->rank - 1; i++) c->out_size *= x->dims[i];
}

td_status KERN_PART_NAME(linear_bf16_amx)(const base_call *call) {
  product p = {.x_size = 0};
  rows_of(call, &p.amx.c);
  return multiply(call, &p);
}

td_status KERN_PART_NAME(linear_nbits_amx)(const base_call *call) {
  const base_tensor *x = base_in(call, 0);
  kern_nbits l;
  product p = {.amx.unpack = unpack, .nbits = &l};
  if (!kern_nbits_of(call->attrs, x->dims[x->rank - 1], &l))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::linear_nbits: rows of %lld elements",
                     (long long)x->dims[x->rank - 1]);
  rows_of(call, &p.amx.c);
  return multiply(call, &p);
}

/* Taps of a row become columns: a window of one column, and of output pixels all that any tap sees. */
static void split_rows(product *p) {
  kern_conv *c = &p->amx.c;
  kern_conv_axis *a = &c->axis[KERN_CONV_AXES - 1];
  p->across = a->kernel;
  p->width = a->out;
  p->channels = c->group_out;
  c->group_out *= a->kernel;
  c->taps /= a->kernel;
  a->out += a->kernel - 1;
  a->kernel = 1;
}

td_status KERN_PART_NAME(conv_bf16_amx)(const base_call *call) {
  product p = {.x_size = 0};
  kern_conv *c = &p.amx.c;
  TRY(kern_conv_of(call, false, c));
  p.shared = kern_conv_pairs_shared(c->groups, c->group_out, c->group_in, V_LANES, true);
  c->groups /= p.shared;
  c->group_in *= p.shared;
  c->group_out *= p.shared;
  if (c->row_columns) split_rows(&p);
  return multiply(call, &p);
}
