/* cache_rows.c -- KERN_CACHE_ROWS and KERN_ROTATE_ROWS of td::cache_rows and td::rotate_rows (ops/native/cache_rows.c):
 * new rows of keys go behind those that a cache has in use, rotated by the angles of their places.
 *
 * A task is a head of a sample, or a token. The cache's result may have the memory of its past: then rows in use stay
 * where they are, and nothing but the new ones is written. */
#include "kernels/simd/simd_priv.h"

enum { X, TOTAL, CACHE_LAST, PAST = KERN_IN_RESIDUAL, CACHE_TURN };
enum { ROTATE_LAST = 1, ROTATE_TURN };
enum { COS, SIN, POSITIONS }; /* behind ..._TURN */

typedef struct placed_rows {
  const base_tensor *x, *last, *cosine, *sine, *positions; /* cosine NULL: rows stay as they are */
  int64_t batch, queries, heads, size, half;
  bool interleaved;
} placed_rows;

static int64_t integer_at(const base_tensor *t, int64_t i) { return base_load_i64(t->dtype, t->data, i); }

static int64_t last_of(const placed_rows *p, int64_t b) { return base_min_i64(integer_at(p->last, b), INT32_MAX); }

static int64_t first_place(const placed_rows *p, int64_t b) { return base_max_i64(last_of(p, b) + 1 - p->queries, 0); }

/* The row of the tables for new row i of sample b. */
static int64_t angle_of(const placed_rows *p, int64_t b, int64_t i) {
  return p->positions ? integer_at(p->positions, b * kern_pitch(p->positions) + i) : first_place(p, b) + i;
}

static td_status refuse(const base_call *call, const char *what, int64_t row, int64_t rows) {
  return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "%s %lld is outside of %lld rows", what, (long long)row,
                   (long long)rows);
}

static td_status check_places(const base_call *call, const placed_rows *p, int64_t room) {
  for (int64_t b = 0; b < p->batch; b++) {
    const int64_t last = last_of(p, b);
    if (last < -1 || last >= room || first_place(p, b) + p->queries > room)
      return refuse(call, "a sample's last row", last, room);
    for (int64_t i = 0; p->cosine && i < p->queries; i++) {
      const int64_t at = angle_of(p, b, i);
      if (at < 0 || at >= p->cosine->dims[0]) return refuse(call, "a position", at, p->cosine->dims[0]);
    }
  }
  return TD_OK;
}

/* `room`: rows of a sample. */
static td_status read_rows(const base_call *call, uint32_t last, uint32_t turn, int64_t room, placed_rows *p) {
  const base_tensor *x = base_in(call, X), *c = base_in(call, turn + COS), *s = base_in(call, turn + SIN);
  *p = (placed_rows){.x = x,
                     .last = base_in(call, last),
                     .cosine = c,
                     .sine = s,
                     .positions = c ? base_in(call, turn + POSITIONS) : NULL,
                     .batch = x->dims[0],
                     .queries = x->dims[1],
                     .heads = base_attr_int(call->attrs, KERN_ROWS_HEADS),
                     .interleaved = base_attr_int(call->attrs, KERN_ROWS_INTERLEAVED) != 0};
  p->size = x->dims[2] / p->heads;
  p->half = c ? c->dims[1] : 0;
  const base_tensor *positions = p->positions;
  if (p->last->dims[0] != p->batch ||
      (positions && (positions->dims[0] != p->batch || positions->dims[1] != p->queries)) ||
      (c && (s->dims[0] != c->dims[0] || s->dims[1] != p->half || p->half > p->size / 2)))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1,
                     "rows of %lld samples and %lld elements: last rows, positions or tables do not fit",
                     (long long)p->batch, (long long)p->size);
  return check_places(call, p, room);
}

static void rotate(const placed_rows *p, const float *from, const float *c, const float *s, float *to) {
  const int64_t half = p->half;
  for (int64_t i = 0; p->interleaved && i < half; i++) {
    const float x = from[2 * i], y = from[2 * i + 1];
    to[2 * i] = c[i] * x - s[i] * y;
    to[2 * i + 1] = s[i] * x + c[i] * y;
  }
  for (int64_t i = 0; !p->interleaved && i < half; i += V_LANES) {
    const int64_t n = base_min_i64(V_LANES, half - i);
    const vf x = v_load_n(from + i, n), y = v_load_n(from + half + i, n), a = v_load_n(c + i, n);
    const vf b = v_load_n(s + i, n);
    v_store_n(to + i, v_sub(v_mul(a, x), v_mul(b, y)), n);
    v_store_n(to + half + i, v_fma(b, x, v_mul(a, y)), n);
  }
  memcpy(to + 2 * half, from + 2 * half, (size_t)(p->size - 2 * half) * sizeof *to);
}

/* Row i of sample b, head h, of x. */
static void put_row(const placed_rows *p, int64_t b, int64_t i, int64_t h, float *to) {
  const float *from = (const float *)p->x->data + (b * p->queries + i) * kern_pitch(p->x) + h * p->size;
  const int64_t at = p->cosine ? angle_of(p, b, i) : 0;
  if (!p->cosine) memcpy(to, from, (size_t)p->size * sizeof *to);
  else
    rotate(p, from, (const float *)p->cosine->data + at * kern_pitch(p->cosine),
           (const float *)p->sine->data + at * kern_pitch(p->sine), to);
}

/* A head of a sample: what was there, where it is not there already, the new rows, zeros. */
static void put_head(const placed_rows *p, const base_tensor *past, base_tensor *out, int64_t b, int64_t h) {
  const int64_t room = out->dims[2], old = first_place(p, b), head = b * p->heads + h;
  float *to = (float *)out->data + head * room * p->size;
  const bool there = past && past->data == out->data;
  for (int64_t r = 0; past && !there && r < old; r++)
    memcpy(to + r * p->size, (const float *)past->data + (head * past->dims[2] + r) * kern_pitch(past),
           (size_t)p->size * sizeof *to);
  for (int64_t i = 0; i < p->queries; i++) put_row(p, b, i, h, to + (old + i) * p->size);
  if (!there) memset(to + (old + p->queries) * p->size, 0, (size_t)((room - old - p->queries) * p->size) * sizeof *to);
}

td_status KERN_NAME(cache_rows)(const base_call *call) {
  placed_rows p;
  const base_tensor *past = base_in(call, PAST);
  base_tensor *out = base_out(call, 0);
  if (base_tensor_numel(out) == 0) return TD_OK;
  TRY(read_rows(call, CACHE_LAST, CACHE_TURN, out->dims[2], &p));
  for (int64_t b = 0; b < p.batch; b++)
    if (first_place(&p, b) > (past ? past->dims[2] : 0))
      return refuse(call, "a past row", first_place(&p, b) - 1, past ? past->dims[2] : 0);
  const int64_t tasks = p.batch * p.heads;
  for (int64_t t = base_call_first(call, tasks); t < tasks; t = base_call_next(call, t, tasks))
    put_head(&p, past, out, t / p.heads, t % p.heads);
  return TD_OK;
}

td_status KERN_NAME(rotate_rows)(const base_call *call) {
  placed_rows p;
  base_tensor *out = base_out(call, 0);
  if (base_tensor_numel(out) == 0) return TD_OK;
  TRY(read_rows(call, ROTATE_LAST, ROTATE_TURN, INT32_MAX, &p));
  const int64_t tasks = p.batch * p.queries, width = p.heads * p.size;
  for (int64_t t = base_call_first(call, tasks); t < tasks; t = base_call_next(call, t, tasks))
    for (int64_t h = 0; h < p.heads; h++)
      put_row(&p, t / p.queries, t % p.queries, h, (float *)out->data + t * width + h * p.size);
  return TD_OK;
}
