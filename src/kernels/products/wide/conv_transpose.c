/* conv_transpose.c -- KERN_CONV_TRANSPOSE: td::conv_transpose on f32 (kernels/products/conv.h), by stride phases.
 *
 * Output pixels of one line that are `stride` apart see the same taps: every `step`-th of the kernel's row. So each
 * such phase of a line is a plain convolution, whose tile gathers; nothing is scattered, and every output element is
 * written by one task. Rows of taps that land between the image's lines are left out.
 *
 * Channels too few for a panel are sums of products along the phase's taps (dot_tile_priv.h). */
#include "kernels/products/conv.h"
#include "kernels/products/dot_tile_priv.h"
#include "kernels/products/epilogue_priv.h"
#include "kernels/products/gemm_tile_priv.h"
#include "kernels/products/packing.h"
#include "kernels/tasks_priv.h"
#include "kernels/tuning.h"

enum { SUM_WORK = 8 }; /* vectors that the lanes of a sum cost to add up */
enum { TABLE_ROWS = (int)GEMM_MAX_ROWS > (int)DOT_TILE_ROWS ? (int)GEMM_MAX_ROWS : (int)DOT_TILE_ROWS };

typedef struct layer {
  kern_conv c;
  kern_epilogue e;
  const kern_tuning *tuning;
  const float *image, *weights, *zeros;
  int64_t sample, plane, line, pixel; /* floats from one to the next of the image */
  float *out;
  int64_t out_pitch;
  int64_t lines; /* of output, in all samples and planes */
  int64_t panels, strips, line_blocks, strip_blocks;
  /* Of few channels: [phase of z, y, x][channel][tap of the phase][channel in, to whole vectors], and where each phase
   * begins. NULL: channels make panels. */
  const float *few;
  const int64_t *few_at;
} layer;

/* Output pixels first, first + stride, ... of a line, and the taps they see: tap, tap + step, ... */
typedef struct phase {
  int64_t first, pixels;
  int64_t tap, step, taps;
} phase;

static int64_t divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static phase phase_of(const kern_conv_axis *w, int64_t first) {
  phase p = {.first = first, .pixels = (w->out - first + w->stride - 1) / w->stride};
  p.step = w->stride / divisor(w->stride, w->dilation);
  int64_t tries = base_min_i64(p.step, w->kernel);
  while (p.tap < tries && (first + w->begin - p.tap * w->dilation) % w->stride != 0) p.tap++;
  p.taps = p.tap < tries ? (w->kernel - p.tap + p.step - 1) / p.step : 0;
  return p;
}

/* The input position that tap `k` brings to output `o`; -1: none. */
static int64_t source(const kern_conv_axis *a, int64_t o, int64_t k) {
  int64_t at = o + a->begin - k * a->dilation;
  return at >= 0 && at % a->stride == 0 && at / a->stride < a->in ? at / a->stride : -1;
}

/* Pixels [r0, r1) of a phase under its taps: [tap][row]. `line`: of the group's first channel. */
static void fill_table(const layer *l, const phase *p, const float *line, int64_t r0, int64_t r1, const float **to) {
  const kern_conv_axis *w = &l->c.axis[2];
  for (int64_t j = 0; j < p->taps; j++) {
    int64_t at = (p->first + w->begin - (p->tap + j * p->step) * w->dilation) / w->stride; /* exact */
    for (int64_t r = r0; r < r1; r++) *to++ = at + r >= 0 && at + r < w->in ? line + (at + r) * l->pixel : l->zeros;
  }
}

/* Where a tile's sums go, and what they meet. */
typedef struct spot {
  int64_t group, panel, panels; /* panels of the strip */
  int64_t line;                 /* of output */
  const float **table;
} spot;

/* One tile: rows [r0, r1) of a phase of a line, tap row by tap row. */
static void run_tile(const layer *l, const spot *s, const phase *p, int64_t r0, int64_t r1) {
  const kern_conv_axis *a = l->c.axis;
  int64_t plane = s->line / a[1].out, depth = l->c.taps * l->c.group_in;
  int64_t column = s->group * l->c.group_out + s->panel * V_LANES;
  int64_t row = s->line * a[2].out + p->first + r0 * a[2].stride, row_floats = l->c.group_in * V_LANES;
  const float *image = l->image + plane / a[0].out * l->sample + s->group * l->c.group_in;
  const float *weights = l->weights + (s->group * l->panels + s->panel) * depth * V_LANES + p->tap * row_floats;
  kern_epilogue e = kern_epilogue_at(&l->e, row, column);
  kern_epilogue_stride(&e, a[2].stride);
  gemm_tile t = {.a = s->table,
                 .a_pitch = r1 - r0,
                 .k = l->c.group_in,
                 .b = weights,
                 .b_panel = depth * V_LANES,
                 .b_skip = (p->step - 1) * row_floats,
                 .c = l->out + row * l->out_pitch + column,
                 .c_pitch = l->out_pitch * a[2].stride,
                 .columns = base_min_i64(s->panels * V_LANES, l->c.group_out - s->panel * V_LANES),
                 .rolled = l->tuning->tile_steps == 1,
                 .b_ahead = l->tuning->b_lines * V_LANES};
  for (int64_t z = 0; z < a[0].kernel && p->taps; z++) {
    int64_t from_plane = source(&a[0], plane % a[0].out, z);
    for (int64_t y = 0; y < a[1].kernel && from_plane >= 0; y++) {
      int64_t from_line = source(&a[1], s->line % a[1].out, y);
      if (from_line < 0) continue;
      if (t.taps) KERN_NAME(gemm_tile)(&t, r1 - r0, s->panels, NULL); /* those of the row before */
      t.more = t.taps > 0;
      t.taps = p->taps;
      t.b = weights + (z * a[1].kernel + y) * a[2].kernel * row_floats;
      fill_table(l, p, image + from_plane * l->plane + from_line * l->line, r0, r1, s->table);
    }
  }
  KERN_NAME(gemm_tile)(&t, r1 - r0, s->panels, &e);
}

static void run_line(const layer *l, const spot *s) {
  const kern_conv_axis *w = &l->c.axis[2];
  int64_t most = gemm_tile_rows(l->tuning, s->panels);
  for (int64_t first = 0; first < base_min_i64(w->stride, w->out); first++) {
    const phase p = phase_of(w, first);
    int64_t tiles = (p.pixels + most - 1) / most;
    for (int64_t i = 0; i < tiles; i++)
      run_tile(l, s, &p, gemm_split(p.pixels, tiles, i), gemm_split(p.pixels, tiles, i + 1));
  }
}

/* ---- few channels ---- */

static int64_t phases(const kern_conv_axis *a) { return base_min_i64(a->stride, a->out); }

/* Is that half the work of a panel? */
static bool few_channels(const kern_conv *c) {
  const double strides = (double)c->axis[0].stride * (double)c->axis[1].stride * (double)c->axis[2].stride;
  const double taps = fmax((double)c->taps / strides, 1); /* of a phase */
  const double work = taps * (double)(kern_dot_pitch(c->group_in) / V_LANES) + SUM_WORK;
  return V_LANES > 1 && c->groups == 1 && c->group_out < V_LANES &&
         2 * (double)c->group_out * work <= taps * (double)c->group_in;
}

/* The weights of one phase's taps, out of the panel that they fill in part. Returns the end of what it wrote. */
static float *pack_phase(const layer *l, const phase of[KERN_CONV_AXES], float *to) {
  const kern_conv_axis *a = l->c.axis;
  const int64_t pitch = kern_dot_pitch(l->c.group_in);
  for (int64_t column = 0; column < l->c.group_out; column++)
    for (int64_t z = 0; z < of[0].taps; z++)
      for (int64_t y = 0; y < of[1].taps; y++)
        for (int64_t x = 0; x < of[2].taps; x++, to += pitch) {
          int64_t tap = ((of[0].tap + z * of[0].step) * a[1].kernel + of[1].tap + y * of[1].step) * a[2].kernel +
                        of[2].tap + x * of[2].step;
          const float *from = l->weights + tap * l->c.group_in * V_LANES + column;
          for (int64_t k = 0; k < l->c.group_in; k++) to[k] = from[k * V_LANES];
        }
  return to;
}

/* Each tap belongs to one phase. */
static bool take_few(const base_call *call, layer *l) {
  const kern_conv_axis *a = l->c.axis;
  const int64_t pitch = kern_dot_pitch(l->c.group_in), count = phases(&a[0]) * phases(&a[1]) * phases(&a[2]);
  const size_t floats = (size_t)(l->c.taps * l->c.group_out);
  if (!few_channels(&l->c)) return true;
  float *few = base_call_scratch(call, floats, (size_t)pitch * sizeof *few), *to = few;
  int64_t *at = base_call_scratch(call, (size_t)count, sizeof *at);
  l->few = few;
  l->few_at = at;
  if (!few || !at) return false;
  memset(few, 0, floats * (size_t)pitch * sizeof *few);
  for (int64_t i = 0; i < count; i++) {
    const int64_t first[] = {i / phases(&a[2]) / phases(&a[1]), i / phases(&a[2]) % phases(&a[1]), i % phases(&a[2])};
    const phase of[] = {phase_of(&a[0], first[0]), phase_of(&a[1], first[1]), phase_of(&a[2], first[2])};
    at[i] = to - few;
    to = pack_phase(l, of, to);
  }
  return true;
}

/* The runs of pixels [r0, r1) of a phase of a line: [tap][row]. */
static void fill_few(const layer *l, int64_t line, const phase of[KERN_CONV_AXES], int64_t r0, int64_t r1,
                     const float **to) {
  const kern_conv_axis *a = l->c.axis;
  const int64_t plane = line / a[1].out, rows = r1 - r0;
  for (int64_t z = 0; z < of[0].taps; z++)
    for (int64_t y = 0; y < of[1].taps; y++, to += of[2].taps * rows) {
      const int64_t from_plane = source(&a[0], plane % a[0].out, of[0].tap + z * of[0].step);
      const int64_t from_line = source(&a[1], line % a[1].out, of[1].tap + y * of[1].step);
      if (from_plane >= 0 && from_line >= 0)
        fill_table(l, &of[2], l->image + plane / a[0].out * l->sample + from_plane * l->plane + from_line * l->line, r0,
                   r1, to);
      else
        for (int64_t i = 0; i < of[2].taps * rows; i++) to[i] = l->zeros;
    }
}

static void run_few(const layer *l, int64_t line, const float **table) {
  const kern_conv_axis *a = l->c.axis;
  const int64_t plane = line / a[1].out % a[0].out, z = plane % a[0].stride, y = line % a[1].out % a[1].stride;
  for (int64_t x = 0; x < phases(&a[2]); x++) {
    const phase of[] = {phase_of(&a[0], z), phase_of(&a[1], y), phase_of(&a[2], x)};
    dot_tile t = {.a = table,
                  .runs = of[0].taps * of[1].taps * of[2].taps,
                  .taps = 1,
                  .k = l->c.group_in,
                  .b = l->few + l->few_at[(z * phases(&a[1]) + y) * phases(&a[2]) + x],
                  .c_pitch = l->out_pitch * a[2].stride};
    for (int64_t r = 0; r < of[2].pixels; r += t.a_pitch) {
      const int64_t row = line * a[2].out + x + r * a[2].stride;
      kern_epilogue e = kern_epilogue_at(&l->e, row, 0);
      kern_epilogue_stride(&e, a[2].stride);
      t.a_pitch = base_min_i64(of[2].pixels - r, DOT_TILE_ROWS);
      t.c = l->out + row * l->out_pitch;
      fill_few(l, line, of, r, r + t.a_pitch, table);
      KERN_NAME(dot_tile)(&t, t.a_pitch, l->c.group_out, &e);
    }
  }
}

/* ---- tasks ---- */

static void set_blocks(layer *l, uint32_t workers) {
  const kern_conv *c = &l->c;
  l->lines = c->batch * c->axis[0].out * c->axis[1].out;
  l->panels = (c->group_out + V_LANES - 1) / V_LANES;
  l->strips = base_max_i64(base_max_i64(l->panels / 2, (l->panels + GEMM_MAX_PANELS - 1) / GEMM_MAX_PANELS), 1);
  double work = (double)(c->batch * c->in_size) * (double)c->taps * (double)(c->group_in * l->panels);
  double wanted = fmin(work / (double)kern_task_size(KERN_TASK_WORK, workers),
                       (double)kern_tasks_wanted(workers) / (double)c->groups);
  l->line_blocks = (int64_t)fmax(fmin(ceil(wanted), (double)l->lines), 1);
  l->strip_blocks = (int64_t)fmax(fmin(ceil(wanted / (double)l->line_blocks), (double)l->strips), 1);
}

static const float *pack_now(const base_call *call, const kern_conv *c) {
  int64_t count;
  bool fits = kern_conv_packed_size(true, c->groups, c->group_out, c->taps, c->group_in, V_LANES, &count);
  float *packed = fits ? base_call_scratch(call, (size_t)count, sizeof *packed) : NULL;
  if (packed) KERN_NAME(packing).conv(base_in(call, 1), NULL, true, c->groups, V_LANES, packed);
  return packed;
}

static td_status describe(const base_call *call, layer *l) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  TRY(kern_conv_of(call, true, &l->c));
  if (l->c.channels_first)
    return base_fail(call->err, TD_UNSUPPORTED, NULL, -1, "a transposed convolution of an image with channels first");
  int64_t pitch[KERN_CONV_AXES] = {0};
  for (int32_t i = 0; i < x->rank - 2; i++) pitch[KERN_CONV_AXES + 2 - x->rank + i] = x->strides[1 + i];
  l->image = x->data;
  l->sample = x->strides[0];
  l->plane = pitch[0];
  l->line = pitch[1];
  l->pixel = pitch[2];
  l->out = y->data;
  l->out_pitch = kern_pitch(y);
  TRY(KERN_NAME(epilogue_of)(call, &l->e));
  l->tuning = kern_tuning_of(call);
  l->weights = l->c.panel ? base_in(call, 1)->data : pack_now(call, &l->c);
  float *zeros = base_call_scratch(call, (size_t)l->c.group_in, sizeof *zeros);
  if (!l->weights || !zeros) return base_no_memory(call->err, "scratch");
  memset(zeros, 0, (size_t)l->c.group_in * sizeof *zeros);
  l->zeros = zeros;
  set_blocks(l, call->workers);
  return take_few(call, l) ? TD_OK : base_no_memory(call->err, "scratch");
}

/* Tasks count blocks of lines fastest, then blocks of strips, and groups: a strip's weights stay in L2. */
static void run_task(const layer *l, const float **table, int64_t task) {
  int64_t lines = task % l->line_blocks, rest = task / l->line_blocks;
  int64_t strips = rest % l->strip_blocks, last_strip = gemm_split(l->strips, l->strip_blocks, strips + 1);
  int64_t last_line = gemm_split(l->lines, l->line_blocks, lines + 1);
  if (l->few) {
    for (int64_t line = gemm_split(l->lines, l->line_blocks, lines); line < last_line; line++) run_few(l, line, table);
    return;
  }
  for (int64_t i = gemm_split(l->strips, l->strip_blocks, strips); i < last_strip; i++) {
    spot s = {.group = rest / l->strip_blocks, .panel = gemm_split(l->panels, l->strips, i), .table = table};
    s.panels = gemm_split(l->panels, l->strips, i + 1) - s.panel;
    for (s.line = gemm_split(l->lines, l->line_blocks, lines); s.line < last_line; s.line++) run_line(l, &s);
  }
}

td_status KERN_NAME(conv_transpose)(const base_call *call) {
  layer l = {0};
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  TRY(describe(call, &l));
  const size_t runs = (size_t)(l.few ? l.c.taps : l.c.axis[2].kernel);
  const float **table = base_call_scratch(call, runs, TABLE_ROWS * sizeof *table);
  if (!table) return base_no_memory(call->err, "scratch");
  int64_t total = l.c.groups * l.line_blocks * l.strip_blocks;
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total))
    run_task(&l, table, task);
  return TD_OK;
}
