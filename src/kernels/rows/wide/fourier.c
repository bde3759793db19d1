/* fourier.c -- KERN_DFT and KERN_STFT: td::dft and td::stft of f32 (rows.h). A task is a few rows, V_LANES of them
 * at once, each in a lane (fourier_passes_priv.h); of a long row, that is a matrix, the columns and then the rows of
 * that lie in the lanes. */
#include "kernels/rows/fourier_job_priv.h"
#include "kernels/rows/wide/fourier_passes_priv.h"
#include "kernels/simd/wide/zip_priv.h"

_Static_assert((int)V_LANES <= (int)KERN_FOURIER_LANES, "rows of a vector have places");

typedef kern_fourier_side side;
typedef struct job {
  kern_fourier_job of;
  zip_table apart, together;
} job;

/* ---- lanes: V_LANES, or 1 of a long row ---- */

V_INLINE vf lanes_load(const float *p, int64_t lanes) { return lanes == V_LANES ? v_load(p) : v_set(*p); }
V_INLINE void lanes_store(float *p, vf a, int64_t lanes) {
  if (lanes == V_LANES) v_store(p, a);
  else memcpy(p, &a, sizeof *p);
}
V_INLINE vc element_load(const float *p, int64_t lanes, int64_t re) {
  return (vc){lanes_load(p + re, lanes), lanes_load(p + lanes - re, lanes)};
}
V_INLINE void element_store(float *p, vc z, int64_t lanes, int64_t re) {
  lanes_store(p + re, z.re, lanes);
  lanes_store(p + lanes - re, z.im, lanes);
}

/* Elements times those of a table. */
static void multiply(float *x, const float *table, int64_t count, int64_t lanes, int64_t re) {
  for (int64_t k = 0; k < count; k++, x += 2 * lanes)
    element_store(x, vc_times(element_load(x, lanes, re), table + 2 * k), lanes, re);
}

static void scale(float *x, float by, int64_t count, int64_t lanes) {
  for (int64_t i = 0; i < 2 * count; i++, x += lanes) lanes_store(x, v_mul(lanes_load(x, lanes), v_set(by)), lanes);
}

static void put_conjugate(float *to, const float *from, int64_t lanes) {
  const vc z = element_load(from, lanes, 0);
  element_store(to, (vc){z.re, v_neg(z.im)}, lanes, 0);
}

/* The spectrum of `points` pairs of real numbers becomes that of the numbers, or back: elements k and points - k of
 * each other (x has points + 1). */
static void untangle(const job *j, float *x) {
  const int64_t points = j->of.f.points, lanes = j->of.lanes;
  const vf half = v_set(0.5f);
  for (int64_t k = 0; k <= points / 2; k++) {
    const float *root = j->of.table + j->of.f.half_table + 2 * k;
    float *low = x + 2 * lanes * k, *high = x + 2 * lanes * (points - k);
    const vc a = element_load(low, lanes, 0), b = element_load(high, lanes, 0), c = {b.re, v_neg(b.im)};
    const vc sum = vc_add(a, c), mean = {v_mul(half, sum.re), v_mul(half, sum.im)};
    const vc rotated = vc_mul(vc_sub(a, c), v_set(root[0]), v_set(j->of.inverse ? -root[1] : root[1]));
    const vc back = vc_sub(mean, rotated);
    element_store(high, (vc){back.re, v_neg(back.im)}, lanes, 0);
    element_store(low, vc_add(mean, rotated), lanes, 0);
  }
}

/* ---- from and to memory ---- */

/* Columns of a matrix of complex numbers: `n` of them, neighbours in memory, from or to the lanes of an element. */
static void columns_load(const job *j, float *to, const float *from, int64_t n) {
  if (n == V_LANES) {
    zip_vectors(&j->apart, to, V_LANES, from, V_LANES, 2);
    return;
  }
  memset(to, 0, PAIR * sizeof *to);
  for (int64_t l = 0; l < n; l++) to[l] = from[2 * l], to[V_LANES + l] = from[2 * l + 1];
}

static void columns_store(const job *j, float *to, const float *from, int64_t n) {
  if (n == V_LANES) zip_vectors(&j->together, to, V_LANES, from, V_LANES, 2);
  else
    for (int64_t l = 0; l < n; l++) to[2 * l] = from[l], to[2 * l + 1] = from[V_LANES + l];
}

/* Are the rows in hand neighbours in memory, `step` floats apart? */
static bool side_by_side(const side *s, int64_t n, int64_t step) {
  for (int64_t l = 1; l < n; l++)
    if (s->at[l] != s->at[0] + l * step) return false;
  return n == V_LANES;
}

static bool is_dense(const side *s) { return s->element == s->parts && (s->parts == 1 || s->part == 1); }

/* Where float `i` of a row stands in memory. */
V_INLINE int64_t float_at(const side *s, int64_t i) {
  return s->parts == 2 ? i / 2 * s->element + i % 2 * s->part : i * s->element;
}

/* Rows of `floats` neighbours, a square of V_LANES of them at once; what is in lanes without a row means nothing. */
static void load_dense(const side *s, float *to, int64_t step, int64_t n) {
  const int64_t whole = s->floats - s->floats % V_LANES;
  for (int64_t i = 0; i < whole; i += V_LANES) {
    vf square[V_LANES];
    V_FOR(l, V_LANES) square[l] = v_load(s->data + s->at[l] + i);
    v_transpose(square);
    V_FOR(k, V_LANES) v_store(to + (i + k) * step, square[k]);
  }
  for (int64_t i = whole; i < s->floats; i++)
    for (int64_t l = 0; l < n; l++) to[i * step + l] = s->data[s->at[l] + i];
}

static void store_dense(const side *s, const float *from, int64_t step, int64_t n) {
  const int64_t whole = s->floats - s->floats % V_LANES;
  for (int64_t i = 0; i < whole; i += V_LANES) {
    vf square[V_LANES];
    V_FOR(k, V_LANES) square[k] = v_load(from + (i + k) * step);
    v_transpose(square);
    V_FOR(l, V_LANES) if (l < n) v_store(s->data + s->at[l] + i, square[l]);
  }
  for (int64_t i = whole; i < s->floats; i++)
    for (int64_t l = 0; l < n; l++) s->data[s->at[l] + i] = from[i * step + l];
}

/* `n` rows into the lanes, `elements` of each: zeros behind what there is. */
static void load(const job *j, float *to, int64_t elements, int64_t n) {
  const side *s = &j->of.x;
  const int64_t lanes = j->of.lanes, step = s->parts == 2 ? lanes : 2 * lanes;
  if (s->parts == 1 || s->floats < 2 * elements || n < lanes)
    memset(to, 0, (size_t)(2 * lanes * elements) * sizeof *to);
  if (lanes == V_LANES && is_dense(s)) {
    load_dense(s, to, step, n);
  } else if (lanes == V_LANES && side_by_side(s, n, 1)) {
    for (int64_t i = 0; i < s->floats; i++) v_store(to + i * step, v_load(s->data + s->at[0] + float_at(s, i)));
  } else if (lanes == V_LANES && side_by_side(s, n, 2) && s->parts == 2 && s->part == 1) {
    for (int64_t i = 0; i < s->floats; i += 2) columns_load(j, to + i * step, s->data + s->at[0] + float_at(s, i), n);
  } else {
    for (int64_t l = 0; l < n; l++)
      for (int64_t i = 0; i < s->floats; i++) to[i * step + l] = s->data[s->at[l] + float_at(s, i)];
  }
}

static void store(const job *j, const float *from, int64_t n) {
  const side *s = &j->of.y;
  const int64_t lanes = j->of.lanes, step = s->parts == 2 ? lanes : 2 * lanes;
  float *to = s->data;
  if (lanes == V_LANES && is_dense(s)) {
    store_dense(s, from, step, n);
  } else if (lanes == V_LANES && side_by_side(s, n, 1)) {
    for (int64_t i = 0; i < s->floats; i++) v_store(to + s->at[0] + float_at(s, i), v_load(from + i * step));
  } else if (lanes == V_LANES && side_by_side(s, n, 2) && s->parts == 2 && s->part == 1) {
    for (int64_t i = 0; i < s->floats; i += 2) columns_store(j, to + s->at[0] + float_at(s, i), from + i * step, n);
  } else {
    for (int64_t l = 0; l < n; l++)
      for (int64_t i = 0; i < s->floats; i++) to[s->at[l] + float_at(s, i)] = from[i * step + l];
  }
}

/* ---- a block of rows ---- */

/* The length of a long row: its columns in place, then its rows, which gives columns of `spare`. */
static float *run_matrix(const job *j, float *x, float *spare, int64_t re) {
  const int64_t rows = j->of.f.line[0].points, columns = j->of.f.line[1].points, block_re = re ? V_LANES : 0;
  for (int64_t c = 0; c < columns; c += V_LANES) {
    const int64_t n = base_min_i64(V_LANES, columns - c);
    for (int64_t k = 0; k < rows; k++) columns_load(j, j->of.block[0] + k * PAIR, x + 2 * (k * columns + c), n);
    float *y = run_line(&j->of.f.line[0], j->of.table, j->of.block[0], j->of.block[1], block_re);
    for (int64_t k = 0; k < rows; k++) {
      const float *w = j->of.table + j->of.f.matrix_table + 2 * k * columns + c;
      float *at = y + k * PAIR;
      vc_store(at, vc_mul(vc_load(at, block_re), v_load_n(w, n), v_load_n(w + columns, n)), block_re);
      columns_store(j, x + 2 * (k * columns + c), at, n);
    }
  }
  side s = {.data = x, .element = 2, .part = 1, .parts = 2, .floats = 2 * columns};
  for (int64_t r = 0; r < rows; r += V_LANES) {
    const int64_t n = base_min_i64(V_LANES, rows - r);
    for (int64_t l = 0; l < V_LANES; l++) s.at[l] = 2 * (r + (l < n ? l : 0)) * columns;
    load_dense(&s, j->of.block[0], V_LANES, n);
    const float *y = run_line(&j->of.f.line[1], j->of.table, j->of.block[0], j->of.block[1], block_re);
    for (int64_t k = 0; k < columns; k++) columns_store(j, spare + 2 * (r + rows * k), y + k * PAIR, n);
  }
  return spare;
}

static float *run_length(const job *j, float *x, float *spare, int64_t re) {
  return j->of.f.matrix ? run_matrix(j, x, spare, re) : run_line(&j->of.f.line[0], j->of.table, x, spare, re);
}

/* The complex transform of x; gives the buffer that holds it. */
static float *transform(const job *j, float *x, float *spare) {
  const kern_fourier *f = &j->of.f;
  const int64_t lanes = j->of.lanes, re = j->of.inverse ? lanes : 0;
  if (!f->chirp) return run_length(j, x, spare, re);
  const float *chirp = j->of.table + f->chirp_table;
  multiply(x, chirp, f->points, lanes, re);
  memset(x + 2 * lanes * f->points, 0, (size_t)(2 * lanes * (f->length - f->points)) * sizeof *x);
  float *y = run_length(j, x, spare, re);
  multiply(y, j->of.table + f->spectrum, f->length, lanes, re);
  float *z = run_length(j, y, y == x ? spare : x, lanes - re);
  multiply(z, chirp, f->points, lanes, re);
  return z;
}

static void apply_window(const job *j, float *x) {
  const int64_t step = j->of.x.parts == 2 ? j->of.lanes : 2 * j->of.lanes, per = j->of.f.half ? 1 : j->of.x.parts;
  for (int64_t i = 0; i < j->of.x.floats; i++, x += step)
    lanes_store(x, v_mul(lanes_load(x, j->of.lanes), v_set(j->of.window[i / per * j->of.window_step])), j->of.lanes);
}

/* Elements that make one spectrum of a half: of real numbers, X[n - k] is X[k] conjugated. */
static void mirror(const job *j, float *x) {
  const int64_t step = 2 * j->of.lanes;
  for (int64_t k = j->of.f.n / 2 + 1; k < j->of.f.n; k++)
    put_conjugate(x + k * step, x + (j->of.f.n - k) * step, j->of.lanes);
}

/* Of real numbers the mean and, where there is an even number of them, the highest frequency are real. */
static void drop_imaginary(const job *j, float *x) {
  const int64_t lanes = j->of.lanes;
  lanes_store(x + lanes, v_zero(), lanes);
  if (j->of.f.half) lanes_store(x + 2 * lanes * j->of.f.points + lanes, v_zero(), lanes);
}

static void run_block(const job *j, int64_t n) {
  const kern_fourier *f = &j->of.f;
  const int64_t lanes = j->of.lanes;
  float *x = j->of.buffer[0];
  load(j, x, f->half && j->of.inverse ? f->points + 1 : f->points, n);
  if (j->of.window) apply_window(j, x);
  if (f->half && j->of.inverse) {
    drop_imaginary(j, x);
    untangle(j, x);
  } else if (j->of.inverse && j->of.onesided) {
    mirror(j, x);
  }
  float *y = transform(j, x, j->of.buffer[1]);
  if (f->half && !j->of.inverse) {
    memcpy(y + 2 * lanes * f->points, y, (size_t)(2 * lanes) * sizeof *y);
    untangle(j, y);
  }
  if (j->of.real && !j->of.inverse) drop_imaginary(j, y);
  if (j->of.extends) mirror(j, y);
  if (j->of.inverse) scale(y, 1 / (float)f->points, f->points, lanes);
  store(j, y, n);
}

static td_status run(const base_call *call, job *j) {
  zip_fill(&j->apart, 2, true);
  zip_fill(&j->together, 2, false);
  for (int64_t task = base_call_first(call, j->of.tasks); task < j->of.tasks;
       task = base_call_next(call, task, j->of.tasks)) {
    const int64_t end = base_min_i64(j->of.rows, (task + 1) * j->of.task_rows);
    for (int64_t i = task * j->of.task_rows; i < end; i += j->of.lanes) {
      const int64_t n = base_min_i64(j->of.lanes, end - i);
      kern_fourier_place(&j->of, i, n);
      run_block(j, n);
    }
  }
  return TD_OK;
}

td_status KERN_NAME(dft)(const base_call *call) {
  job j;
  const td_status status = kern_fourier_dft(call, V_LANES, &j.of);
  return status == TD_OK && j.of.tasks ? run(call, &j) : status;
}

td_status KERN_NAME(stft)(const base_call *call) {
  job j;
  const td_status status = kern_fourier_stft(call, V_LANES, &j.of);
  return status == TD_OK && j.of.tasks ? run(call, &j) : status;
}
