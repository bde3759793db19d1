/* fit.c -- see fit.h.
 *
 * Nearest rounding leaves a product off by the same amount wherever its operand has the same mean, which behind a ReLU
 * is everywhere: of nine weights of a depthwise window the rounding errors add up to a shift of a whole channel. So the
 * mean of a product's error goes into its bias (Nagel et al. 2019, arXiv 1906.04721, measured on samples), and weights
 * are rounded so that what is left is small for the operand's covariance (round.c). A product that has no bias, and can
 * have none, is rounded by second moments about zero.
 *
 * The operand is that of the model in f32, in steps of its range: what rounding it shifts is part of the mean. */
#include "fit.h"

#include <math.h>
#include <string.h>

enum { TILE = 4 /* columns that are added up at once */ };

/* ---- products ---- */

/* Windows of one or two dimensions. */
static bool find_window(fit_layer *f) {
  const quant_node *n = f->node;
  const int32_t spatial = f->w.rank - 2;
  int64_t given[4] = {0};
  fit_window *to = &f->window;
  if (spatial > 2) return false;
  f->groups = quant_int(n, "group", 1);
  if (f->groups < 1 || f->w.dims[0] % f->groups) return false;
  *to = (fit_window){.channels = f->w.dims[1] * f->groups, .kernel = {1, 1}, .strides = {1, 1}, .dilations = {1, 1}};
  for (int32_t d = 0; d < spatial; d++) to->kernel[2 - spatial + d] = f->w.dims[2 + d];
  if (quant_ints(n, "strides", given, spatial)) memcpy(to->strides + 2 - spatial, given, (size_t)spatial * 8);
  if (quant_ints(n, "dilations", given, spatial)) memcpy(to->dilations + 2 - spatial, given, (size_t)spatial * 8);
  if (quant_ints(n, "pads", given, 2 * spatial)) {
    memcpy(to->pads + 2 - spatial, given, (size_t)spatial * 8);
    memcpy(to->pads + 4 - spatial, given + spatial, (size_t)spatial * 8);
  }
  to->lower = quant_says(n, "auto_pad", "SAME_LOWER");
  to->same = to->lower || quant_says(n, "auto_pad", "SAME_UPPER");
  f->rows = f->w.dims[0] / f->groups;
  f->k = base_tensor_numel(&f->w) / f->w.dims[0];
  for (int i = 0; i < 2; i++)
    if (to->strides[i] < 1 || to->dilations[i] < 1) return false;
  return true;
}

static bool find_matrix(fit_layer *f) {
  f->groups = 1;
  f->rows = f->w.dims[f->axis];
  f->k = f->w.dims[1 - f->axis];
  return true;
}

/* Second moments of a group. */
static int64_t moments_of(const fit_layer *f) {
  const int64_t rest = f->k % FIT_BLOCK;
  return f->k / FIT_BLOCK * FIT_BLOCK * FIT_BLOCK + rest * rest;
}

typedef struct fit {
  BASE_VEC(fit_layer) at;
  const char **names; /* of tapped tensors */
  uint32_t taps;
} fit;

static size_t tap(const quant_model *m, fit *all, const char *name) {
  for (size_t i = 0; i < m->outputs.count; i++)
    if (strcmp(m->outputs.at[i], name) == 0) return i;
  uint32_t i = 0;
  while (i < all->taps && strcmp(all->names[i], name) != 0) i++;
  if (i == all->taps) all->names[all->taps++] = name;
  return m->outputs.count + i;
}

static td_status find_layers(quant_model *m, base_arena *arena, const quant_ranges *ranges, fit *all, td_error *err) {
  all->names = base_new(arena, const char *, (size_t)m->nodes.count + 1);
  if (!all->names) return base_no_memory(err, "products");
  for (uint32_t i = 0; i < m->nodes.count; i++) {
    fit_layer f = {.node = &m->nodes.at[i]};
    const quant_node *n = f.node;
    f.range = n->is_product && !n->kept ? quant_range_of(ranges, quant_in(n, 0)) : NULL;
    if (!f.range || !quant_product_weight(m, n, &f.w, &f.axis)) continue;
    if (quant_is_op(n, "Conv") ? !find_window(&f) : !find_matrix(&f)) continue;
    f.output = tap(m, all, quant_in(n, 0));
    f.mean = base_new(arena, double, (size_t)(f.groups * f.k));
    f.mean_quantised = base_new(arena, double, (size_t)(f.groups * f.k));
    f.moments = base_new(arena, float, (size_t)(f.groups * moments_of(&f)));
    fit_layer *slot = base_vec_push(arena, &all->at);
    if (!f.mean || !f.mean_quantised || !f.moments || !slot) return base_no_memory(err, "moments");
    *slot = f;
  }
  return TD_OK;
}

/* ---- columns of operands ---- */

/* An operand in memory: images [count, channels, size], or rows. */
typedef struct operand {
  const float *x;
  int64_t size[2], results[2], before[2], columns; /* of windows: padding, positions */
} operand;

static bool read_operand(const fit_layer *f, const td_tensor *t, operand *o) {
  const fit_window *w = &f->window;
  *o = (operand){.x = t->data, .size = {1, 1}, .columns = 1};
  if (t->dtype != TD_F32 || t->rank < 1) return false;
  if (!w->channels) {
    for (int32_t d = 0; d < t->rank - 1; d++) o->columns *= t->dims[d];
    return t->dims[t->rank - 1] == f->k && o->columns > 0;
  }
  if (t->rank != f->w.rank || t->dims[1] != w->channels) return false;
  o->columns = t->dims[0];
  for (int32_t d = 0; d < 2; d++) {
    const int32_t axis = t->rank - 2 + d;
    if (axis >= 2) o->size[d] = t->dims[axis];
    const int64_t reach = w->dilations[d] * (w->kernel[d] - 1) + 1, same = (o->size[d] - 1) / w->strides[d] + 1,
                  missing = (same - 1) * w->strides[d] + reach - o->size[d], pad = missing > 0 ? missing : 0,
                  room = o->size[d] + w->pads[d] + w->pads[2 + d] - reach;
    if (!w->same && room < 0) return false;
    o->results[d] = w->same ? same : room / w->strides[d] + 1;
    o->before[d] = w->same ? (pad + w->lower) / 2 : w->pads[d];
    o->columns *= o->results[d];
  }
  return o->columns > 0;
}

static void read_window(const fit_layer *f, const operand *o, int64_t column, float *to) {
  const fit_window *w = &f->window;
  const int64_t area = o->results[0] * o->results[1], image = column / area, at = column % area;
  const int64_t top = at / o->results[1] * w->strides[0] - o->before[0],
                left = at % o->results[1] * w->strides[1] - o->before[1];
  for (int64_t c = 0; c < w->channels; c++) {
    const float *plane = o->x + (image * w->channels + c) * o->size[0] * o->size[1];
    for (int64_t i = 0; i < w->kernel[0]; i++)
      for (int64_t j = 0; j < w->kernel[1]; j++) {
        const int64_t y = top + i * w->dilations[0], x = left + j * w->dilations[1];
        const bool inside = y >= 0 && y < o->size[0] && x >= 0 && x < o->size[1];
        *to++ = inside ? plane[y * o->size[1] + x] : 0;
      }
  }
}

/* ---- moments ---- */

static void add_block(const float *x, int64_t pitch, int64_t k, float *to) {
  const float *a = x, *b = x + pitch, *c = x + 2 * pitch, *d = x + 3 * pitch;
  for (int64_t i = 0; i < k; i++) {
    float *restrict row = to + i * k;
    if (a[i] == 0 && b[i] == 0 && c[i] == 0 && d[i] == 0) continue;
    for (int64_t j = i; j < k; j++) row[j] += a[i] * a[j] + b[i] * b[j] + c[i] * c[j] + d[i] * d[j];
  }
}

/* TILE columns, of which the last may be zeros. */
static void add_tile(const fit_layer *f, const float *quantised) {
  const int64_t pitch = f->groups * f->k;
  for (int64_t g = 0; g < f->groups; g++) {
    float *to = f->moments + g * moments_of(f);
    for (int64_t first = 0; first < f->k; first += FIT_BLOCK) {
      const int64_t k = f->k - first < FIT_BLOCK ? f->k - first : FIT_BLOCK;
      add_block(quantised + g * f->k + first, pitch, k, to);
      to += k * k;
    }
  }
}

/* False: the column is left out, it has what is no number. */
static bool add_column(fit_layer *f, const float *x, float *quantised) {
  const int64_t count = f->groups * f->k;
  const float scale = f->range->scale, zero = (float)f->range->zero;
  for (int64_t i = 0; i < count; i++) {
    if (!isfinite(x[i])) return false;
    quantised[i] = (fminf(fmaxf(nearbyintf(x[i] / scale) + zero, 0), 255) - zero) * scale;
  }
  for (int64_t i = 0; i < count; i++) {
    f->mean[i] += (double)x[i];
    f->mean_quantised[i] += (double)quantised[i];
  }
  f->columns++;
  return true;
}

/* Columns of one sample, spread over it with some chance: a fixed step would meet the same places of every row. */
static td_status add_sample(fit_layer *f, const td_tensor *t, uint64_t most, base_arena *arena, td_error *err) {
  const int64_t count = f->groups * f->k;
  operand o;
  uint32_t seed = 1, held = 0;
  if (!read_operand(f, t, &o)) return TD_OK;
  float *x = base_new(arena, float, (size_t)count), *tile = base_new(arena, float, (size_t)(TILE * count));
  if (!x || !tile) return base_no_memory(err, "columns");
  const uint64_t columns = (uint64_t)o.columns, taken = columns < most ? columns : most;
  for (uint64_t i = 0; i < taken; i++) {
    const uint64_t first = i * columns / taken, next = (i + 1) * columns / taken;
    seed = seed * 1664525 + 1013904223;
    const int64_t column = (int64_t)(first + (uint64_t)(seed >> 8) % (next - first));
    if (f->window.channels) read_window(f, &o, column, x);
    else memcpy(x, o.x + column * count, (size_t)count * sizeof *x);
    held += add_column(f, x, tile + held * count);
    if (held < TILE) continue;
    add_tile(f, tile);
    held = 0;
  }
  memset(tile + held * count, 0, (size_t)((TILE - held) * count) * sizeof *tile);
  if (held) add_tile(f, tile);
  return TD_OK;
}

static td_status add_samples(const quant_runner *r, const quant_data *data, fit *all, td_error *err) {
  const uint64_t most = (FIT_COLUMNS + data->count - 1) / data->count;
  for (uint32_t i = 0; i < data->count; i++) {
    base_arena *arena = base_arena_new(r->allocator);
    if (!arena) return base_no_memory(err, "a sample");
    quant_progress("moments", i + 1, data->count);
    td_status status = quant_run_sample(r, data, i, arena, err);
    for (uint32_t k = 0; k < all->at.count && status == TD_OK; k++) {
      td_tensor t;
      status = td_session_output(r->session, all->at.at[k].output, &t, err);
      if (status == TD_OK) status = add_sample(&all->at.at[k], &t, most, arena, err);
    }
    base_arena_free(arena);
    TRY(status);
  }
  return TD_OK;
}

/* ---- what is chosen ---- */

/* Can the mean of its error go into a bias? */
static bool has_bias(const quant_model *m, const fit_layer *f) {
  base_tensor b;
  if (quant_is_op(f->node, "MatMul")) return false;
  const char *name = quant_in(f->node, 2);
  return !*name || (quant_weight(m, name, &b) && b.rank == 1 && b.dims[0] == f->groups * f->rows);
}

typedef struct fit_room {
  double *w, *moments, *owed; /* of a block */
  int8_t *rounded;
  uint32_t *order;
} fit_room;

/* Inputs by their moments, the smallest first: the largest are rounded first (round.c), while others can make up for
 * them. */
static void order_inputs(const float *moments, int64_t k, uint32_t *order) {
  for (int64_t i = 0; i < k; i++) {
    int64_t at = i;
    for (; at && moments[order[at - 1] * (k + 1)] > moments[i * (k + 1)]; at--) order[at] = order[at - 1];
    order[at] = (uint32_t)i;
  }
}

/* The rows of a group, elements first .. first + k. */
static void round_block(const fit_layer *f, bool centred, int64_t group, int64_t first, int64_t k, const float *moments,
                        const float *scales, const fit_room *room) {
  const double columns = (double)f->columns, *mean = f->mean_quantised + group * f->k + first;
  const int64_t from = group * f->rows;
  const uint32_t *order = room->order;
  order_inputs(moments, k, room->order);
  for (int64_t i = 0; i < k; i++)
    for (int64_t j = i; j < k; j++) {
      const int64_t a = order[i], b = order[j], at = a < b ? a * k + b : b * k + a;
      const double about = centred ? mean[a] / columns * (mean[b] / columns) : 0;
      room->moments[i * k + j] = (double)moments[at] / columns - about;
    }
  for (int64_t n = 0; n < f->rows; n++)
    for (int64_t i = 0; i < k; i++) room->w[n * k + i] = quant_weight_at(&f->w, f->axis, from + n, first + order[i]);
  if (!quant_round_rows(room->w, f->rows, k, scales + from, room->moments, room->owed, room->rounded)) return;
  for (int64_t n = 0; n < f->rows; n++)
    for (int64_t i = 0; i < k; i++) f->node->rounded[(from + n) * f->k + first + order[i]] = room->rounded[n * k + i];
}

/* The mean of what is missing. */
static float shift_of(const fit_layer *f, int64_t n, float scale) {
  const int64_t first = n / f->rows * f->k;
  double sum = 0;
  for (int64_t i = 0; i < f->k; i++)
    sum += quant_weight_at(&f->w, f->axis, n, i) * f->mean[first + i] -
           (double)scale * f->node->rounded[n * f->k + i] * f->mean_quantised[first + i];
  return (float)(sum / (double)f->columns);
}

static td_status choose(const quant_model *m, const quant_ranges *ranges, fit_layer *f, base_arena *arena,
                        td_error *err) {
  const int64_t n = f->groups * f->rows, block = f->k < FIT_BLOCK ? f->k : FIT_BLOCK;
  const bool centred = has_bias(m, f);
  const fit_room room = {base_new(arena, double, (size_t)(f->rows * block)),
                         base_new(arena, double, (size_t)(block * block)), base_new(arena, double, (size_t)block),
                         base_new(arena, int8_t, (size_t)(f->rows * block)), base_new(arena, uint32_t, (size_t)block)};
  float *scales = base_new(arena, float, (size_t)n);
  if (!f->columns) return TD_OK;
  f->node->rounded = base_new(m->arena, int8_t, (size_t)(n * f->k));
  if (centred) f->node->shift = base_new(m->arena, float, (size_t)n);
  if (!room.w || !room.moments || !room.owed || !room.rounded || !room.order || !scales || !f->node->rounded ||
      (centred && !f->node->shift))
    return base_no_memory(err, "weights");
  for (int64_t i = 0; i < n; i++)
    scales[i] =
        quant_round_nearest(&f->w, f->axis, i, quant_least_scale(m, ranges, f->node, i), f->node->rounded + i * f->k);
  for (int64_t g = 0; g < f->groups; g++) {
    const float *moments = f->moments + g * moments_of(f);
    for (int64_t first = 0; first < f->k; first += FIT_BLOCK) {
      const int64_t k = f->k - first < FIT_BLOCK ? f->k - first : FIT_BLOCK;
      round_block(f, centred, g, first, k, moments, scales, &room);
      moments += k * k;
    }
  }
  for (int64_t i = 0; i < n && centred; i++) f->node->shift[i] = shift_of(f, i, scales[i]);
  return TD_OK;
}

static td_status fit_all(quant_model *m, base_arena *arena, const quant_ranges *ranges, const quant_data *data,
                         const quant_engine *engine, td_error *err) {
  base_text file = {.allocator = engine->allocator};
  quant_runner r;
  fit all = {0};
  TRY(find_layers(m, arena, ranges, &all, err));
  if (!all.at.count) return TD_OK;
  quant_write_tapped(m, all.names, all.taps, &file);
  td_status status = quant_open(&r, file, engine, err);
  if (status == TD_OK) status = add_samples(&r, data, &all, err);
  quant_close(&r);
  for (uint32_t i = 0; i < all.at.count && status == TD_OK; i++) {
    base_arena *room = base_arena_new(engine->allocator);
    quant_progress("rounding", i + 1, all.at.count);
    status = room ? choose(m, ranges, &all.at.at[i], room, err) : base_no_memory(err, "weights");
    base_arena_free(room);
  }
  quant_progress("", 0, 0);
  return status;
}

td_status quant_fit(quant_model *m, const quant_ranges *ranges, const quant_data *data, const quant_engine *engine,
                    td_error *err) {
  base_arena *arena = base_arena_new(engine->allocator);
  if (!arena) return base_no_memory(err, "moments");
  const td_status status = fit_all(m, arena, ranges, data, engine, err);
  base_arena_free(arena);
  return status;
}
