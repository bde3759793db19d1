/* resize.c -- KERN_RESIZE: td::resize of f32 (resize.h).
 *
 * The last axis that changes makes lines: of [in, inner] floats, lines of [out, inner]. An output line is a sum of a
 * few such lines, one per combination of the other axes' taps. A line is made once for all output lines that need it
 * and kept, one place for each combination of taps:
 *
 *     x [.., rows, in, inner]  --along the line-->  kept lines [out, inner]  --sum of a few-->  y [.., rows, out,
 * inner]
 *
 * What has no weight is not read, so that an infinity stays where it counts. */
#include "kernels/simd_priv.h"

#include "base/size.h"
#include "kernels/resize.h"

enum { TASK_ELEMENTS = 1 << 15, TASK_LINES = 8 /* at least: neighbours share lines */ };

/* Dimensions in front of the line: one that changes, or neighbours that do not as one. */
typedef struct outer {
  int64_t in, out;
  const kern_resize_axis *axis; /* NULL: does not change */
} outer;

typedef struct tap {
  int64_t line, place; /* of x; where it is kept */
  float weight;
} tap;

typedef struct job {
  const float *x;
  float *y, extrapolation;
  outer dims[BASE_MAX_RANK];
  int32_t rank;
  kern_resize_axis line;
  int64_t inner, lines, places, task_lines; /* lines: of y */
  bool outside, copies;                     /* some of a line is; nearest, and nothing is */
  /* Of a worker. */
  tap *taps, *more;      /* of an output line, and room to multiply them out */
  const float **rows;    /* of its taps */
  const float *made;     /* kept_line[0] in y, where lines are not blended */
  float *weights, *kept; /* [place][out * inner] */
  int64_t *kept_line;    /* [place], -1: none */
  /* The line's taps [tap][out], where inner is 1; where those of as many outputs as a vector has lie within a vector of
   * x, that starts at start[tap][out / V_LANES], from which they are counted then; else it is -1. */
  int32_t *index;
  int64_t *start;
  float *weight;
  int64_t at[BASE_MAX_RANK]; /* of the output line, along the dimensions */
} job;

/* ---- sums of rows ---- */

V_INLINE void blend_some(float *to, const float *const *rows, const float *weights, int taps, int64_t n) {
  vf w[4];
  V_UNROLL
  for (int t = 0; t < taps; t++) w[t] = v_set(weights[t]);
  for (int64_t i = 0; i < n; i += V_LANES) {
    const int64_t count = base_min_i64(n - i, V_LANES);
    const bool whole = count == V_LANES;
    vf sum = v_mul(w[0], whole ? v_load(rows[0] + i) : v_load_n(rows[0] + i, count));
    V_UNROLL
    for (int t = 1; t < taps; t++) sum = v_fma(w[t], whole ? v_load(rows[t] + i) : v_load_n(rows[t] + i, count), sum);
    if (whole) v_store(to + i, sum);
    else v_store_n(to + i, sum, count);
  }
}

static void blend_many(float *to, const float *const *rows, const float *weights, int64_t taps, int64_t n) {
  for (int64_t i = 0; i < n; i += V_LANES) {
    const int64_t count = base_min_i64(n - i, V_LANES);
    vf sum = v_zero();
    for (int64_t t = 0; t < taps; t++) sum = v_fma(v_set(weights[t]), v_load_n(rows[t] + i, count), sum);
    v_store_n(to + i, sum, count);
  }
}

/* to = the sum of weights[t] * rows[t], n floats. */
static void blend(float *to, const float *const *rows, const float *weights, int64_t taps, int64_t n) {
  if (taps == 1 && weights[0] == 1 && n > 4 * V_LANES) memcpy(to, rows[0], (size_t)n * sizeof *to);
  else if (taps == 1) blend_some(to, rows, weights, 1, n);
  else if (taps == 2) blend_some(to, rows, weights, 2, n);
  else if (taps == 4) blend_some(to, rows, weights, 4, n);
  else blend_many(to, rows, weights, taps, n);
}

static void fill(float *to, float value, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = value;
}

/* ---- along the line ---- */

/* Each pixel is one of the source, as it is. */
static void line_of_copies(const job *j, const float *from, float *to) {
  const int64_t whole = j->inner - j->inner % V_LANES;
  for (int64_t o = 0; o < j->line.out; o++, to += j->inner) {
    const float *pixel = from + j->line.index[o] * j->inner;
    for (int64_t i = 0; i < whole; i += V_LANES) v_store(to + i, v_load(pixel + i));
    if (whole < j->inner) v_store_n(to + whole, v_load_n(pixel + whole, j->inner - whole), j->inner - whole);
  }
}

static void line_of_pixels(const job *j, const float *from, float *to) {
  const kern_resize_axis *a = &j->line;
  for (int64_t o = 0; o < a->out; o++, to += j->inner) {
    int64_t count = 0;
    for (int64_t k = 0; k < a->per_output; k++) {
      double weight = a->weight[o * a->per_output + k];
      if (weight == 0) continue;
      j->rows[count] = from + a->index[o * a->per_output + k] * j->inner;
      j->weights[count++] = (float)weight;
    }
    if (a->outside[o]) fill(to, j->extrapolation, j->inner);
    else blend(to, j->rows, j->weights, count, j->inner);
  }
}

static void line_of_floats(const job *j, const float *from, float *to) {
  const kern_resize_axis *a = &j->line;
  const bool copies = a->per_output == 1;
  const int64_t blocks = (a->out + V_LANES - 1) / V_LANES;
  for (int64_t o = 0; o < a->out; o += V_LANES) {
    const int64_t n = base_min_i64(a->out - o, V_LANES);
    vf sum = v_zero();
    for (int64_t k = 0; k < a->per_output; k++) {
      const int32_t *index = j->index + k * a->out + o;
      const int64_t start = j->start[k * blocks + o / V_LANES];
      const vi near = v_as_int(v_load_n((const float *)(const void *)index, n));
      vf w = v_load_n(j->weight + k * a->out + o, n);
      vf x = start < 0 ? v_gather(from, index, n) : v_permute(v_load(from + start), near);
      sum = copies ? x : v_fma(w, v_select(v_eq(w, v_zero()), v_zero(), x), sum);
    }
    v_store_n(to + o, sum, n);
  }
  for (int64_t o = 0; j->outside && o < a->out; o++)
    if (a->outside[o]) to[o] = j->extrapolation;
}

static void make_line(const job *j, int64_t line, float *to) {
  const float *from = j->x + line * j->line.in * j->inner;
  if (j->index) line_of_floats(j, from, to);
  else (j->copies ? line_of_copies : line_of_pixels)(j, from, to);
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
  const int64_t *at = j->at;
  int64_t count = 1;
  j->taps[0] = (tap){.weight = 1};
  for (int32_t d = 0; d < j->rank; d++) {
    const outer *dim = &j->dims[d];
    const kern_resize_axis *a = dim->axis;
    int64_t more = 0, per_output = a ? a->per_output : 1;
    if (a && a->outside[at[d]]) return -1;
    for (int64_t t = 0; t < count; t++)
      for (int64_t k = 0; k < per_output; k++) {
        int64_t index = a ? a->index[at[d] * per_output + k] : at[d];
        double weight = a ? a->weight[at[d] * per_output + k] : 1;
        if (weight == 0) continue;
        j->more[more++] = (tap){.line = j->taps[t].line * dim->in + index,
                                .place = j->taps[t].place * per_output + index % per_output,
                                .weight = j->taps[t].weight * (float)weight};
      }
    tap *taps = j->taps;
    j->taps = j->more;
    j->more = taps;
    count = more;
  }
  return count;
}

static void run_line(job *j, int64_t o) {
  const int64_t length = j->line.out * j->inner, count = take_taps(j);
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
  } else j->dims[j->rank++] = (outer){in, out, axis};
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
  for (int64_t o = 0; o < j->line.out; o++) j->outside |= j->line.outside[o];
  j->copies = j->line.per_output == 1 && !j->outside;
  j->task_lines = base_max_i64(TASK_LINES, TASK_ELEMENTS / (j->line.out * j->inner));
}

/* Where the taps of `n` neighbours lie within a vector of a line of `in`, counts them from its start, which it returns;
 * else -1. */
static int64_t take_near(int32_t *index, int64_t n, int64_t in) {
  int32_t least = index[0], most = index[0];
  for (int64_t i = 1; i < n; i++) {
    if (index[i] < least) least = index[i];
    if (index[i] > most) most = index[i];
  }
  const int64_t start = base_min_i64(least, in - V_LANES);
  if (start < 0 || most - start >= V_LANES) return -1;
  for (int64_t i = 0; i < n; i++) index[i] -= (int32_t)start;
  return start;
}

/* The line's taps by tap, for outputs that are neighbours. */
static bool turn_taps(const base_call *call, job *j) {
  const kern_resize_axis *a = &j->line;
  if (j->inner > 1 || a->in > INT32_MAX) return true;
  j->index = base_call_scratch(call, (size_t)a->out, (size_t)a->per_output * sizeof *j->index);
  j->weight = base_call_scratch(call, (size_t)a->out, (size_t)a->per_output * sizeof *j->weight);
  const int64_t blocks = (a->out + V_LANES - 1) / V_LANES;
  j->start = base_call_scratch(call, (size_t)blocks, (size_t)a->per_output * sizeof *j->start);
  if (!j->index || !j->weight || !j->start) return false;
  for (int64_t o = 0; o < a->out; o++)
    for (int64_t k = 0; k < a->per_output; k++) {
      j->index[k * a->out + o] = (int32_t)a->index[o * a->per_output + k];
      j->weight[k * a->out + o] = (float)a->weight[o * a->per_output + k];
    }
  for (int64_t k = 0; k < a->per_output; k++)
    for (int64_t o = 0; o < a->out; o += V_LANES)
      j->start[k * blocks + o / V_LANES] =
          take_near(j->index + k * a->out + o, base_min_i64(V_LANES, a->out - o), a->in);
  return true;
}

static bool take_room(const base_call *call, job *j) {
  const size_t most = (size_t)base_max_i64(j->places, j->line.per_output);
  j->taps = base_call_scratch(call, most, sizeof *j->taps);
  j->more = base_call_scratch(call, most, sizeof *j->more);
  j->rows = base_call_scratch(call, most, sizeof *j->rows);
  j->weights = base_call_scratch(call, most, sizeof *j->weights);
  j->kept_line = base_call_scratch(call, (size_t)j->places, sizeof *j->kept_line);
  j->kept = base_call_scratch(call, (size_t)(j->line.out * j->inner), (size_t)j->places * sizeof *j->kept);
  if (!j->taps || !j->more || !j->rows || !j->weights || !j->kept_line || !j->kept) return false;
  for (int64_t i = 0; i < j->places; i++) j->kept_line[i] = -1;
  return turn_taps(call, j);
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
