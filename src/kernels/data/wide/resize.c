/* resize.c -- KERN_RESIZE: td::resize of f32 (data.h).
 *
 * The last axis that changes makes lines: of [in, inner] floats, lines of [out, inner]. An output line is a sum of a
 * few such lines, one per combination of the other axes' taps. A line is made once for all output lines that need it
 * and kept, one place for each combination of taps:
 *
 *     x [.., rows, in, inner]  --along the line-->  kept lines [out, inner]  --sum of a few-->  y [.., rows, out,
 * inner]
 *
 * What has no weight is not read, so that an infinity stays where it counts. */
#include "kernels/simd/wide/rows_priv.h"

#include "base/size.h"
#include "kernels/data/data.h"

enum { TASK_ELEMENTS = 1 << 15, TASK_LINES = 8 /* at least: neighbours share lines */ };

typedef struct tap {
  int64_t line, place; /* of x; where it is kept */
  float weight;
} tap;

/* Dimensions in front of the line: one that changes, or neighbours that do not as one. */
typedef struct outer {
  int64_t in, out, step;        /* step: lines of x from one to the next */
  const kern_resize_axis *axis; /* NULL: does not change */
  tap *taps;                    /* [out, per_output] of the axis, those with a weight first, */
  int64_t *counts;              /* [out] of them; < 0: outside */
} outer;

typedef struct job {
  const float *x;
  float *y, extrapolation;
  outer dims[BASE_MAX_RANK];
  int32_t rank;
  kern_resize_axis line;
  int64_t inner, length, lines, places, task_lines; /* length: out * inner; lines: of y */
  bool outside, zeros;                              /* some of a line is; some tap of it has no weight */
  /* Of a worker. */
  tap *taps, *more;      /* of an output line, and room to multiply them out */
  const float **rows;    /* of its taps */
  const float *made;     /* kept_line[0] in y, where lines are not blended */
  float *weights, *kept; /* [place][length] */
  int64_t *kept_line;    /* [place], -1: none */
  /* The line's taps for each of its floats, where they are fewer than a vector in a pixel: [tap][block][V_LANES], the
   * last block ends with the line. Where those of a block lie within a vector of x, that starts at start[tap][block],
   * they are counted from it; else it is -1. */
  int32_t *index;
  float *weight;
  int64_t *start, blocks;
  outer pixels; /* its taps for each of its pixels, where they are not; lines: floats from the line's start */
  int64_t at[BASE_MAX_RANK]; /* of the output line, along the dimensions */
} job;

/* ---- sums of rows ---- */

/* Where the next vector of n floats begins, at `i` or so that it is the last one whole; its `count` floats. */
V_INLINE int64_t vector_at(int64_t i, int64_t n, int64_t *count) {
  *count = base_min_i64(V_LANES, n);
  return i + V_LANES <= n ? i : base_max_i64(0, n - V_LANES);
}

/* Stores might change what pointers lead to, but for locals. */
V_INLINE void blend_some(float *to, const float *const *rows, const float *weights, int taps, int64_t n) {
  vf w[4];
  const float *row[4];
  V_FOR(t, taps) w[t] = v_set(weights[t]), row[t] = rows[t];
  int64_t i = 0, count;
  for (; i + V_LANES <= n; i += V_LANES) {
    vf sum = v_mul(w[0], v_load(row[0] + i));
    V_FOR(t, taps - 1) sum = v_fma(w[t + 1], v_load(row[t + 1] + i), sum);
    v_store(to + i, sum);
  }
  if (i == n) return;
  i = vector_at(i, n, &count);
  vf sum = v_mul(w[0], row_load(row[0] + i, count, v_zero()));
  V_FOR(t, taps - 1) sum = v_fma(w[t + 1], row_load(row[t + 1] + i, count, v_zero()), sum);
  row_store(to + i, sum, count);
}

static void blend_many(float *to, const float *const *rows, const float *weights, int64_t taps, int64_t n) {
  for (int64_t i = 0, count; i < n; i += V_LANES) {
    const int64_t at = vector_at(i, n, &count);
    vf sum = v_zero();
    for (int64_t t = 0; t < taps; t++) sum = v_fma(v_set(weights[t]), row_load(rows[t] + at, count, v_zero()), sum);
    row_store(to + at, sum, count);
  }
}

/* Any numbers of 32 bits, which no arithmetic may touch. */
static void copy(float *to, const float *from, int64_t n) {
  if (n > 16 * V_LANES) memcpy(to, from, (size_t)n * sizeof *to);
  else
    for (int64_t i = 0, count; i < n; i += V_LANES) {
      const int64_t at = vector_at(i, n, &count);
      row_store(to + at, row_load(from + at, count, v_zero()), count);
    }
}

/* to = the sum of weights[t] * rows[t], n floats. */
static void blend(float *to, const float *const *rows, const float *weights, int64_t taps, int64_t n) {
  if (taps == 1 && weights[0] == 1) copy(to, rows[0], n);
  else if (taps == 2) blend_some(to, rows, weights, 2, n);
  else if (taps == 4) blend_some(to, rows, weights, 4, n);
  else blend_many(to, rows, weights, taps, n);
}

static void fill(float *to, float value, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = value;
}

/* ---- along the line ---- */

static void line_of_pixels(const job *j, const float *from, float *to) {
  const outer *p = &j->pixels;
  const tap *taps = p->taps;
  for (int64_t o = 0; o < p->out; o++, to += j->inner, taps += j->line.per_output) {
    for (int64_t k = 0; k < p->counts[o]; k++) {
      j->rows[k] = from + taps[k].line;
      j->weights[k] = taps[k].weight;
    }
    if (p->counts[o] < 0) fill(to, j->extrapolation, j->inner);
    else blend(to, j->rows, j->weights, p->counts[o], j->inner);
  }
}

/* Taps `near` a start, or anywhere. */
V_INLINE vf take(const float *from, const int32_t *near, int64_t start) {
  if (start < 0) return v_gather(from, near, V_LANES);
  return v_permute(v_load(from + start), v_as_int(v_load((const float *)(const void *)near)));
}

/* `taps` of each float; 0: as many as there are, some of no weight. */
V_INLINE void line_of_floats(const job *j, const float *from, float *to, int taps) {
  const int64_t length = j->length, blocks = j->blocks, all = taps ? taps : j->line.per_output, *const start = j->start;
  const int32_t *const index = j->index;
  const float *const weight = j->weight;
  for (int64_t b = 0, count; b < blocks; b++) {
    const int64_t at = vector_at(b * V_LANES, length, &count);
    vf sum = v_zero();
    if (taps == 1) sum = take(from, index + b * V_LANES, start[b]);
    else
      for (int64_t k = 0, i = b; k < all; k++, i += blocks) {
        const vf w = v_load(weight + i * V_LANES), x = take(from, index + i * V_LANES, start[i]);
        sum = v_fma(w, taps ? x : v_select(v_eq(w, v_zero()), v_zero(), x), sum);
      }
    row_store(to + at, sum, count);
  }
  for (int64_t i = 0; j->outside && i < length; i++)
    if (j->line.outside[i / j->inner]) to[i] = j->extrapolation;
}

static void make_line(const job *j, int64_t line, float *to) {
  const float *from = j->x + line * j->line.in * j->inner;
  if (!j->index) line_of_pixels(j, from, to);
  else if (j->line.per_output == 1) line_of_floats(j, from, to, 1);
  else if (j->line.per_output == 2 && !j->zeros) line_of_floats(j, from, to, 2);
  else if (j->line.per_output == 4 && !j->zeros) line_of_floats(j, from, to, 4);
  else line_of_floats(j, from, to, 0);
}

/* ---- lines ---- */

static void go_to_line(job *j, int64_t o) {
  for (int32_t d = j->rank; d-- > 0; o /= j->dims[d].out) j->at[d] = o % j->dims[d].out;
}

static void go_to_next_line(job *j) {
  for (int32_t d = j->rank; d-- > 0;) {
    if (++j->at[d] < j->dims[d].out) return;
    j->at[d] = 0;
  }
}

/* The taps of the output line in j->taps; < 0: it is outside. */
static int64_t take_taps(job *j) {
  int64_t count = 0, base = 0;
  for (int32_t d = 0; d < j->rank; d++)
    if (!j->dims[d].axis) base += j->at[d] * j->dims[d].step;
  for (int32_t d = 0; d < j->rank; d++) {
    const outer *dim = &j->dims[d];
    if (!dim->axis) continue;
    const int64_t per_output = dim->axis->per_output, own = dim->counts[j->at[d]];
    const tap *taps = dim->taps + j->at[d] * per_output, *so_far = j->taps;
    tap *to = count ? j->more : j->taps;
    int64_t more = 0;
    if (own <= 0) return own;
    for (int64_t k = 0; k < own && !count; k++) to[more++] = (tap){base + taps[k].line, taps[k].place, taps[k].weight};
    for (int64_t t = 0; t < count; t++)
      for (int64_t k = 0; k < own; k++)
        to[more++] = (tap){so_far[t].line + taps[k].line, so_far[t].place * per_output + taps[k].place,
                           so_far[t].weight * taps[k].weight};
    if (count) j->more = j->taps;
    j->taps = to;
    count = more;
  }
  if (count == 0) j->taps[count++] = (tap){base, 0, 1};
  return count;
}

static void run_line(job *j, int64_t o) {
  const int64_t length = j->length, count = take_taps(j);
  float *to = j->y + o * length;
  if (count < 0) {
    fill(to, j->extrapolation, length);
    return;
  }
  if (j->places == 1 && count == 1 && j->taps[0].weight == 1) { /* one line as it is, or again */
    if (j->kept_line[0] == j->taps[0].line) memcpy(to, j->made, (size_t)length * sizeof *to);
    else make_line(j, j->taps[0].line, to);
    j->kept_line[0] = j->taps[0].line;
    j->made = to;
    return;
  }
  for (int64_t t = 0; t < count; t++) {
    const tap *at = &j->taps[t];
    float *kept = j->kept + at->place * length;
    if (j->kept_line[at->place] != at->line) make_line(j, at->line, kept);
    j->kept_line[at->place] = at->line;
  }
  for (int64_t t = 0; t < count; t++) {
    j->rows[t] = j->kept + j->taps[t].place * length;
    j->weights[t] = j->taps[t].weight;
  }
  blend(to, j->rows, j->weights, count, length);
}

/* ---- a call ---- */

static void add_outer(job *j, int64_t in, int64_t out, const kern_resize_axis *axis) {
  outer *last = j->rank ? &j->dims[j->rank - 1] : NULL;
  if (last && !last->axis && !axis) {
    last->in *= in;
    last->out *= out;
  } else j->dims[j->rank++] = (outer){.in = in, .out = out, .axis = axis};
}

static void describe(const base_call *call, job *j, const kern_resize_axis *axes, uint32_t count) {
  const base_tensor *x = base_in(call, KERN_RESIZE_X), *y = base_out(call, 0);
  const kern_resize_axis *of[BASE_MAX_RANK] = {NULL};
  int32_t last = 0;
  j->x = x->data;
  j->y = y->data;
  j->extrapolation = (float)base_attr_float(call->attrs, KERN_RESIZE_EXTRAPOLATION);
  for (uint32_t i = 0; i < count; i++) {
    of[axes[i].axis] = &axes[i];
    if (axes[i].axis > last) last = axes[i].axis;
  }
  j->line = *of[last];
  j->inner = j->lines = j->places = 1;
  for (int32_t d = last + 1; d < x->rank; d++) j->inner *= x->dims[d];
  for (int32_t d = 0; d < last; d++) {
    add_outer(j, x->dims[d], y->dims[d], of[d]);
    j->lines *= y->dims[d];
    if (of[d]) j->places *= of[d]->per_output;
  }
  j->length = j->line.out * j->inner;
  for (int64_t o = 0; o < j->line.out; o++) j->outside |= j->line.outside[o];
  for (int64_t i = 0; i < j->line.out * j->line.per_output; i++) j->zeros |= j->line.weight[i] == 0;
  j->task_lines = base_max_i64(TASK_LINES, kern_task_size(TASK_ELEMENTS, call->workers) / j->length);
}

/* Where the taps of a block lie within a vector of `in` floats, counts them from its start, which it returns; else -1.
 */
static int64_t take_near(int32_t *index, int64_t in) {
  int32_t least = index[0], most = index[0];
  for (int64_t i = 1; i < V_LANES; i++) {
    if (index[i] < least) least = index[i];
    if (index[i] > most) most = index[i];
  }
  const int64_t start = base_min_i64(least, in - V_LANES);
  if (start < 0 || most - start >= V_LANES) return -1;
  for (int64_t i = 0; i < V_LANES; i++) index[i] -= (int32_t)start;
  return start;
}

/* The line's taps by tap, for floats that are neighbours. */
static bool turn_taps(const base_call *call, job *j) {
  const kern_resize_axis *a = &j->line;
  j->blocks = (j->length + V_LANES - 1) / V_LANES;
  const int64_t size = j->blocks * V_LANES, last = base_max_i64(0, j->length - V_LANES);
  j->index = base_call_scratch(call, (size_t)size, (size_t)a->per_output * sizeof *j->index);
  j->weight = base_call_scratch(call, (size_t)size, (size_t)a->per_output * sizeof *j->weight);
  j->start = base_call_scratch(call, (size_t)j->blocks, (size_t)a->per_output * sizeof *j->start);
  if (!j->index || !j->weight || !j->start) return false;
  for (int64_t k = 0; k < a->per_output; k++)
    for (int64_t b = 0; b < j->blocks; b++) {
      int32_t *index = j->index + k * size + b * V_LANES;
      for (int64_t i = 0; i < V_LANES; i++) { /* behind a short line its end again */
        const int64_t at = base_min_i64(base_min_i64(b * V_LANES, last) + i, j->length - 1);
        const int64_t o = at / j->inner, from = o * a->per_output + k;
        index[i] = (int32_t)(a->index[from] * j->inner + at % j->inner);
        j->weight[k * size + b * V_LANES + i] = (float)a->weight[from];
      }
      j->start[k * j->blocks + b] = take_near(index, a->in * j->inner);
    }
  return true;
}

static bool list_taps(const base_call *call, outer *dim) {
  const kern_resize_axis *a = dim->axis;
  dim->taps = base_call_scratch(call, (size_t)a->out, (size_t)a->per_output * sizeof *dim->taps);
  dim->counts = base_call_scratch(call, (size_t)a->out, sizeof *dim->counts);
  if (!dim->taps || !dim->counts) return false;
  for (int64_t o = 0; o < a->out; o++) {
    tap *to = dim->taps + o * a->per_output;
    int64_t count = 0;
    for (int64_t i = o * a->per_output; i < (o + 1) * a->per_output; i++)
      if (a->weight[i] != 0)
        to[count++] = (tap){a->index[i] * dim->step, a->index[i] % a->per_output, (float)a->weight[i]};
    dim->counts[o] = a->outside[o] ? -1 : count;
  }
  return true;
}

static bool take_room(const base_call *call, job *j) {
  const size_t most = (size_t)base_max_i64(j->places, j->line.per_output);
  j->taps = base_call_scratch(call, most, sizeof *j->taps);
  j->more = base_call_scratch(call, most, sizeof *j->more);
  j->rows = base_call_scratch(call, most, sizeof *j->rows);
  j->weights = base_call_scratch(call, most, sizeof *j->weights);
  j->kept_line = base_call_scratch(call, (size_t)j->places, sizeof *j->kept_line);
  j->kept = base_call_scratch(call, (size_t)j->length, (size_t)j->places * sizeof *j->kept);
  if (!j->taps || !j->more || !j->rows || !j->weights || !j->kept_line || !j->kept) return false;
  for (int64_t i = 0; i < j->places; i++) j->kept_line[i] = -1;
  int64_t step = 1;
  for (int32_t d = j->rank; d-- > 0; step *= j->dims[d].in) {
    j->dims[d].step = step;
    if (j->dims[d].axis && !list_taps(call, &j->dims[d])) return false;
  }
  if (j->inner < V_LANES && j->line.in * j->inner <= INT32_MAX) return turn_taps(call, j);
  j->pixels = (outer){.out = j->line.out, .step = j->inner, .axis = &j->line};
  return list_taps(call, &j->pixels);
}

static void copy_task(const base_call *call, int64_t task) {
  int64_t count = base_tensor_numel(base_out(call, 0)), from = task * TASK_ELEMENTS;
  memcpy((float *)base_out(call, 0)->data + from, (const float *)base_in(call, KERN_RESIZE_X)->data + from,
         (size_t)base_min_i64(TASK_ELEMENTS, count - from) * sizeof(float));
}

td_status KERN_NAME(resize)(const base_call *call) {
  kern_resize_axis axes[BASE_MAX_RANK];
  uint32_t count;
  job j = {.x = NULL};
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  if (base_tensor_numel(base_in(call, KERN_RESIZE_X)) == 0)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::resize: cannot enlarge an image without elements");
  TRY(kern_resize_axes(call, axes, &count));
  if (count) {
    describe(call, &j, axes, count);
    if (!take_room(call, &j)) return base_no_memory(call->err, "scratch");
  }
  const int64_t each = count ? j.task_lines : TASK_ELEMENTS,
                all = count ? j.lines : base_tensor_numel(base_out(call, 0));
  const int64_t total = (all + each - 1) / each;
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total)) {
    if (!count) copy_task(call, task);
    if (count) go_to_line(&j, task * each);
    for (int64_t o = task * each; count && o < base_min_i64(all, (task + 1) * each); o++, go_to_next_line(&j))
      run_line(&j, o);
  }
  return TD_OK;
}
