/* move.c -- KERN_COPY on 32 bits, KERN_RESHAPE, KERN_CAT and KERN_INDEX_SELECT: data from where it lies to where it
 * belongs.
 *
 * A copy is cut into a core of two dimensions and the dimensions around it. Where both sides are dense along the last
 * dimension the core is rows. Where the source is dense along another one, the core is a transposition, in blocks that
 * stay in the first-level cache, of tiles that are transposed in registers; where it has few rows or columns, these are
 * put together in turn, or taken apart. */
#include "kernels/simd/wide/transpose_priv.h"
#include "kernels/simd/wide/zip_priv.h"

#include "base/size.h"
#include "kernels/data/data.h"
#include "kernels/tasks_priv.h"
#include "kernels/data/move_priv.h"

/* Floats of a cache line; rows so far apart, or a multiple of it, fall on the same sets of a cache. */
enum { LINE = 16, ALIKE = 256, PIECE = 64 /* columns of one of vectors that are no line */ };
enum { TALL_ROWS = 1024, WIDE_SPAN = 512, TALL = 4 }; /* of a transposition, see turn_lines; rows for each column */
enum { TASK_ELEMENTS = 1 << 15 };                     /* 128 KiB */
enum { STREAM_BYTES = 8 << 20 };                      /* of a result that caches do not keep */
enum { STREAM_ROWS = 64, STREAM_SPAN = 128 };         /* of blocks whose rows are written past the caches */

/* A copy and how it is shared out: `units` of equal size, `each` of them a task. */
typedef struct job {
  kern_move move;
  int32_t across;      /* dimension of the core besides the last; < 0: there is none */
  int64_t block, span; /* elements of `across` and of the last dimension in a unit */
  int64_t blocks, spans, units, each, tasks;
  bool turns, streams; /* the core is a transposition; written past the caches */
  bool tall;           /* of many rows, for its columns */
  bool zips, unzips;   /* one of few rows or columns, which are dense on the other side */
  zip_table table;
} job;

static bool is_few(int64_t n) { return n >= ZIP_LEAST && n <= ZIP_MOST; }

static job plan(const kern_move *m, uint32_t workers) {
  job j = {.move = *m, .across = m->rank - 2, .block = 1};
  if (m->count == 0) return j;
  if (m->rank == 0) j.move.dims[0] = 1, j.move.rank = 1; /* its steps are 0 */
  int32_t last = j.move.rank - 1;
  bool rows = m->rank == 0 || (m->to_step[last] == 1 && m->from_step[last] == 1);
  for (int32_t i = 0; i < last && !rows; i++)
    if (m->from_step[i] == 1) j.across = i;
  j.turns = j.across >= 0 && m->to_step[last] == 1 && m->from_step[last] != 1 && m->from_step[j.across] == 1;
  j.zips = j.turns && is_few(m->dims[last]) && m->to_step[j.across] == m->dims[last];
  j.unzips = j.turns && !j.zips && is_few(m->dims[j.across]) && m->from_step[last] == m->dims[j.across];
  if (j.zips || j.unzips) zip_fill(&j.table, j.zips ? m->dims[last] : m->dims[j.across], j.unzips);
  j.streams = j.turns && !j.zips && !j.unzips && m->count >= STREAM_BYTES / (int64_t)sizeof(float) &&
              (uintptr_t)m->to % sizeof(float) == 0;
  const int64_t size = kern_task_size(TASK_ELEMENTS, workers);
  int64_t length = j.move.dims[last], others = m->count / length;
  int64_t across = j.across < 0 ? 1 : j.move.dims[j.across];
  const bool tiles = j.turns && !j.zips && !j.unzips;
  j.tall = tiles && across >= TALL * length;
  j.span = base_min_i64(length, j.streams  ? STREAM_SPAN
                                : j.tall   ? 2 * size / TALL_ROWS
                                : tiles    ? WIDE_SPAN
                                : j.unzips ? size / ZIP_MOST
                                           : size);
  j.spans = (length + j.span - 1) / j.span;
  j.block = base_min_i64(across, j.streams ? STREAM_ROWS : j.tall ? TALL_ROWS : base_max_i64(1, size / j.span));
  j.blocks = (across + j.block - 1) / j.block;
  j.units = others / across * j.blocks * j.spans;
  j.each = base_min_i64(j.units, base_max_i64(1, size / (j.span * j.block)));
  j.tasks = (j.units + j.each - 1) / j.each;
  return j;
}

typedef base_u32 element;

static void copy_row(element *to, int64_t to_step, const element *from, int64_t from_step, int64_t count) {
  if (to_step == 1 && from_step == 1) {
    memcpy(to, from, (size_t)count * sizeof *to);
    return;
  }
  for (int64_t i = 0; i < count; i++) to[i * to_step] = from[i * from_step];
}

static void copy_rows(const kern_move *m, int32_t across, element *to, const element *from, int64_t rows,
                      int64_t length) {
  int32_t last = m->rank - 1;
  for (int64_t i = 0; i < rows; i++) {
    element *row = to + i * m->to_step[across];
    const element *source = from + i * m->from_step[across];
    if (m->to_step[last] == 1 && m->from_step[last] == 1 && length <= 4 * V_LANES) {
      int64_t k = 0; /* a call of memcpy would cost more */
      for (; k + V_LANES <= length; k += V_LANES) v_store((float *)(row + k), v_load((const float *)(source + k)));
      v_store_n((float *)(row + k), v_load_n((const float *)(source + k), length - k), length - k);
    } else {
      copy_row(row, m->to_step[last], source, m->from_step[last], length);
    }
  }
}

/* A row of `n` floats, whole lines of it past the caches. */
static void stream_row(float *to, const float *from, int64_t n) {
  int64_t i = base_min_i64(n, (int64_t)(-((uintptr_t)to / sizeof *to) % LINE));
  for (int64_t k = 0; k < i; k += V_LANES)
    v_store_n(to + k, v_load_n(from + k, base_min_i64(V_LANES, i - k)), base_min_i64(V_LANES, i - k));
  for (; i + LINE <= n; i += LINE)
    for (int64_t k = i; k < i + LINE; k += V_LANES) v_stream(to + k, v_load(from + k));
  for (; i < n; i += V_LANES)
    v_store_n(to + i, v_load_n(from + i, base_min_i64(V_LANES, n - i)), base_min_i64(V_LANES, n - i));
}

/* A line of rows, `columns` of each. */
V_INLINE void turn_piece(float *to, int64_t to_step, const float *from, int64_t from_step, int64_t columns) {
  for (int64_t i = 0; i < LINE; i += V_LANES)
    for (int64_t k = 0; k < columns; k += V_LANES)
      v_transpose_square(to + i * to_step + k, to_step, from + k * from_step + i, from_step);
}

/* to[i][k] = from[k][i], i < rows, k < length, in pieces. Along the longer side, so that the lines read, or those
 * written, follow one another; rows of `to` are whole lines if they begin at one. */
static void turn_lines(const job *j, float *to, const float *from, int64_t rows, int64_t length) {
  const int64_t to_step = j->move.to_step[j->across], from_step = j->move.from_step[j->move.rank - 1];
  const int64_t ahead = !j->tall && from_step % ALIKE == 0 ? LINE : 0;
  const int64_t lanes = V_LANES, columns = j->tall || ahead || lanes == LINE ? LINE : PIECE;
  const int64_t outer = j->tall ? length : rows, inner = j->tall ? rows : length;
  for (int64_t a = 0; a < outer; a += LINE)
    for (int64_t b = 0; b < inner; b += columns) {
      const int64_t i = j->tall ? b : a, k = j->tall ? a : b;
      const int64_t high = base_min_i64(LINE, rows - i), wide = base_min_i64(columns, length - k);
      float *at = to + i * to_step + k;
      const float *source = from + k * from_step + i;
      for (int64_t c = 0; ahead && c < wide; c++) __builtin_prefetch(source + c * from_step + ahead, 0, 2);
      if (high == LINE && wide == columns) turn_piece(at, to_step, source, from_step, columns);
      else KERN_NAME(transpose_block)(at, to_step, source, from_step, high, wide, 0);
    }
}

/* What is stored past the caches is transposed in them before. */
static void turn_rows(const job *j, float *to, const float *from, int64_t rows, int64_t length) {
  const int64_t to_step = j->move.to_step[j->across], from_step = j->move.from_step[j->move.rank - 1];
  _Alignas(64) float block[STREAM_ROWS * STREAM_SPAN];
  if (j->zips || j->unzips) {
    zip(&j->table, to, from, j->zips ? from_step : to_step, j->zips ? length : rows, j->zips ? rows : length,
        j->unzips);
  } else if (j->streams) {
    KERN_NAME(transpose_block)(block, STREAM_SPAN, from, from_step, rows, length, STREAM_ROWS);
    for (int64_t i = 0; i < rows; i++) stream_row(to + i * to_step, block + i * STREAM_SPAN, length);
  } else {
    turn_lines(j, to, from, rows, length);
  }
}

/* Where a unit stands: its span, its block, and along the dimensions around the core; where those begin. */
typedef struct place {
  int64_t span, block, index[BASE_MAX_RANK];
  element *to;
  const element *from;
} place;

static place place_of(const job *j, int64_t unit) {
  const kern_move *m = &j->move;
  place p = {.span = unit % j->spans, .block = unit / j->spans % j->blocks, .to = m->to, .from = m->from};
  int64_t rest = unit / j->spans / j->blocks;
  for (int32_t i = m->rank - 2; i >= 0; i--) {
    if (i == j->across) continue;
    p.index[i] = rest % m->dims[i];
    p.to += p.index[i] * m->to_step[i];
    p.from += p.index[i] * m->from_step[i];
    rest /= m->dims[i];
  }
  return p;
}

static void go_on(const job *j, place *p) {
  const kern_move *m = &j->move;
  if (++p->span < j->spans) return;
  p->span = 0;
  if (++p->block < j->blocks) return;
  p->block = 0;
  for (int32_t i = m->rank - 2; i >= 0; i--) {
    if (i == j->across) continue;
    const int64_t by = p->index[i] + 1 < m->dims[i] ? 1 : -p->index[i];
    p->to += by * m->to_step[i];
    p->from += by * m->from_step[i];
    p->index[i] += by;
    if (by > 0) return;
  }
}

static void run_unit(const job *j, const place *p) {
  const kern_move *m = &j->move;
  const int32_t last = m->rank - 1;
  const int64_t begin = p->span * j->span, length = base_min_i64(j->span, m->dims[last] - begin);
  element *to = p->to + begin * m->to_step[last];
  const element *from = p->from + begin * m->from_step[last];
  if (j->across < 0) {
    copy_row(to, m->to_step[last], from, m->from_step[last], length);
    return;
  }
  const int64_t first = p->block * j->block, rows = base_min_i64(j->block, m->dims[j->across] - first);
  to += first * m->to_step[j->across];
  from += first * m->from_step[j->across];
  if (j->turns) turn_rows(j, (float *)(void *)to, (const float *)(const void *)from, rows, length);
  else copy_rows(m, j->across, to, from, rows, length);
}

static void run_task(const job *j, int64_t task) {
  int64_t unit = task * j->each;
  place p = place_of(j, unit);
  for (; unit < base_min_i64((task + 1) * j->each, j->units); unit++, go_on(j, &p)) run_unit(j, &p);
}

static td_status move(const base_call *call, const base_tensor *to, const base_tensor *from) {
  const kern_move m = kern_move_of(to, from);
  const job j = plan(&m, call->workers);
  for (int64_t t = base_call_first(call, j.tasks); t < j.tasks; t = base_call_next(call, t, j.tasks)) run_task(&j, t);
  if (j.streams) v_fence();
  return TD_OK;
}

td_status KERN_NAME(copy)(const base_call *call) { return move(call, base_out(call, 0), base_in(call, 0)); }

/* The elements in their order, whatever their dimensions: out[0], which is dense, seen with those of the operand. */
td_status KERN_NAME(reshape)(const base_call *call) {
  const base_tensor *in = base_in(call, 0), *out = base_out(call, 0);
  if (base_tensor_numel(in) != base_tensor_numel(out))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "a view of another number of elements");
  const base_tensor same = base_tensor_of(out->data, out->dtype, in->rank, in->dims);
  return move(call, &same, in);
}

static td_status move_blocks(const base_call *call, bool to_space) {
  base_tensor to, from;
  TRY(kern_blocks_of(call, to_space, &to, &from));
  return move(call, &to, &from);
}
td_status KERN_NAME(depth_to_space)(const base_call *call) { return move_blocks(call, true); }
td_status KERN_NAME(space_to_depth)(const base_call *call) { return move_blocks(call, false); }

/* The part of `out` that `in` fills, from `start` on. */
static bool part_of(const base_tensor *out, const base_tensor *in, int32_t axis, int64_t start, base_tensor *part) {
  bool fits = in && in->rank == out->rank && in->dims[axis] <= out->dims[axis] - start;
  for (int32_t d = 0; fits && d < out->rank; d++) fits = d == axis || in->dims[d] == out->dims[d];
  if (!fits) return false;
  *part = *out;
  part->dims[axis] = in->dims[axis];
  part->data = (element *)out->data + start * out->strides[axis];
  return true;
}

/* Where operand `operand` of a join goes, and the number of its first task: those of all operands are counted through.
 */
typedef struct joined {
  uint32_t operand;
  int64_t start, before; /* along the axis; tasks */
  job job;
} joined;

static td_status plan_joined(const base_call *call, int32_t axis, joined *j) {
  const base_tensor *in = base_in(call, j->operand);
  base_tensor part;
  if (!part_of(base_out(call, 0), in, axis, j->start, &part))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "aten::cat: operand %u does not fit into the result",
                     j->operand);
  const kern_move m = kern_move_of(&part, in);
  j->job = plan(&m, call->workers);
  return TD_OK;
}

/* To the operand behind. */
static td_status advance(const base_call *call, int32_t axis, joined *j) {
  j->start += base_in(call, j->operand)->dims[axis];
  j->before += j->job.tasks;
  return ++j->operand < call->in_count ? plan_joined(call, axis, j) : TD_OK;
}

td_status KERN_NAME(cat)(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  int64_t dim = base_attr_int(call->attrs, KERN_CAT_DIM);
  int32_t axis = (int32_t)(dim < 0 ? dim + out->rank : dim);
  joined first = {0};
  if (call->in_count) TRY(plan_joined(call, axis, &first));
  joined at = first;
  while (at.operand < call->in_count) TRY(advance(call, axis, &at));
  if (at.start != out->dims[axis])
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "aten::cat: the operands do not fill the result");
  const int64_t total = at.before;
  at = first;
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total)) {
    if (task < at.before) at = first;
    while (task >= at.before + at.job.tasks) TRY(advance(call, axis, &at));
    run_task(&at.job, task - at.before);
  }
  v_fence();
  return TD_OK;
}

/* ---- index_select ---- */

enum { ROWS_AHEAD = 8, LINES_AHEAD = 4 };

/* Slices of x, in the order of an index, whatever its rank. A row of the result is one of a slice, or where slices are
 * single elements one along the index. */
typedef struct selection {
  const float *x;
  float *y;
  const int64_t *at;   /* floats from x to the slices */
  const int32_t *near; /* the same for slices of one element; NULL: they are more, or far apart */
  int64_t count;
  kern_move outer, inner; /* from_step: of the dimensions in front of the slices, and of a slice but for its rows */
  int64_t row, row_step;  /* of a slice */
  int64_t rows;
} selection;

/* Dimensions [first, end) of x, merged where that can be. */
static kern_move dims_of(const base_tensor *x, int32_t first, int32_t end) {
  base_tensor part = {.rank = end - first}, dense;
  for (int32_t i = first; i < end; i++) {
    part.dims[i - first] = x->dims[i];
    part.strides[i - first] = x->strides[i];
  }
  dense = base_tensor_of(NULL, x->dtype, part.rank, part.dims);
  return kern_move_of(&dense, &part);
}

/* Floats from the first element of some dimensions to their `index`-th. */
static int64_t offset_of(const kern_move *dims, int64_t index) {
  int64_t offset = 0;
  for (int32_t i = dims->rank; i-- > 0; index /= dims->dims[i]) offset += index % dims->dims[i] * dims->from_step[i];
  return offset;
}

/* Where the slices are, in the call's scratch; *even: evenly spaced, `step` apart. */
static td_status read_index(const base_call *call, int32_t axis, selection *s, bool *even, int64_t *step) {
  const base_tensor *x = base_in(call, 0), *index = base_in(call, 1);
  const int64_t size = x->dims[axis], *strides[] = {index->strides};
  int64_t *at = base_call_scratch(call, (size_t)s->count, sizeof *at), i = 0;
  const base_i64 *plain = index->dtype == TD_I64 && base_tensor_contiguous(index) ? index->data : NULL;
  base_walk w;
  if (!at) return base_no_memory(call->err, "scratch");
  base_walk_start(&w, index->rank, index->dims, 1, strides);
  do {
    const int64_t given = plain ? plain[i] : base_load_i64(index->dtype, index->data, w.offset[0]);
    const int64_t k = given < 0 ? given + size : given;
    if (k < 0 || k >= size)
      return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1,
                       "aten::index_select: index %lld is outside of an axis of %lld", (long long)given,
                       (long long)size);
    at[i++] = k * x->strides[axis];
  } while (plain ? i < s->count : base_walk_next(&w));
  *step = s->count > 1 ? at[1] - at[0] : 0;
  *even = true;
  for (i = 1; i < s->count; i++) *even &= at[i] - at[i - 1] == *step;
  s->at = at;
  return TD_OK;
}

/* The index as int32, for slices of one element. */
static td_status read_near(const base_call *call, selection *s) {
  int32_t *near = base_call_scratch(call, (size_t)s->count, sizeof *near);
  if (!near) return base_no_memory(call->err, "scratch");
  s->near = near;
  for (int64_t i = 0; i < s->count; i++) {
    if (s->at[i] > INT32_MAX || s->at[i] < INT32_MIN) s->near = NULL;
    near[i] = (int32_t)s->at[i];
  }
  return TD_OK;
}

/* A row of the result. */
static void copy_slice(const selection *s, float *to, const float *from) {
  if (s->row_step != 1 || s->row > 8 * V_LANES) {
    copy_row((element *)(void *)to, 1, (const element *)(const void *)from, s->row_step, s->row);
    return;
  }
  const int64_t n = s->row;
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES) v_store(to + i, v_load(from + i));
  if (i < n) v_store_n(to + i, v_load_n(from + i, n - i), n - i);
}

static void run_row(const selection *s, int64_t r) {
  float *to = s->y + r * s->row;
  const int64_t lines = s->inner.count;
  if (s->near) {
    const float *from = s->x + offset_of(&s->outer, r);
    to = s->y + r * s->count;
    for (int64_t i = 0; i < s->count; i += V_LANES) {
      const int64_t n = base_min_i64(V_LANES, s->count - i);
      v_store_n(to + i, v_gather(from, s->near + i, n), n);
    }
    return;
  }
  const int64_t slice = r / lines;
  const float *from = s->x + offset_of(&s->outer, slice / s->count) + s->at[slice % s->count] +
                      (lines > 1 ? offset_of(&s->inner, r % lines) : 0);
  copy_slice(s, to, from);
}

/* Rows of a table, which nobody foresees: the lines that they begin with are fetched some rows ahead. */
static void run_table(const selection *s, int64_t first, int64_t end) {
  const float *const x = s->x;
  const int64_t *const at = s->at, count = s->rows, row = s->row;
  for (int64_t r = first; r < end; r++) {
    for (int64_t i = 0; r + ROWS_AHEAD < count && i < base_min_i64(row, LINES_AHEAD * LINE); i += LINE)
      __builtin_prefetch(x + at[r + ROWS_AHEAD] + i);
    copy_slice(s, s->y + r * row, x + at[r]);
  }
}

/* Slices evenly spaced are a copy. */
static td_status select_even(const base_call *call, int32_t axis, const selection *s, int64_t step) {
  base_tensor from = *base_in(call, 0), to;
  from.dims[axis] = s->count;
  from.strides[axis] = step;
  from.data = (float *)from.data + s->at[0];
  to = base_tensor_of(base_out(call, 0)->data, from.dtype, from.rank, from.dims);
  return move(call, &to, &from);
}

td_status KERN_NAME(index_select)(const base_call *call) {
  const base_tensor *x = base_in(call, 0);
  const int64_t dim = base_attr_int(call->attrs, KERN_GATHER_DIM);
  const int32_t axis = (int32_t)(dim < 0 ? dim + x->rank : dim);
  selection s = {.x = x->data, .y = base_out(call, 0)->data, .count = base_tensor_numel(base_in(call, 1))};
  bool even = false;
  int64_t step = 0;
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  TRY(read_index(call, axis, &s, &even, &step));
  if (even) return select_even(call, axis, &s, step);
  s.outer = dims_of(x, 0, axis);
  s.inner = dims_of(x, axis + 1, x->rank);
  s.row = s.row_step = 1;
  if (s.inner.rank) {
    const int32_t last = --s.inner.rank;
    s.row = s.inner.dims[last];
    s.row_step = s.inner.from_step[last];
    s.inner.count /= s.row;
  } else TRY(read_near(call, &s));
  s.rows = s.outer.count * (s.near ? 1 : s.count * s.inner.count);
  const bool table = !s.near && s.rows == s.count;
  const int64_t each = base_max_i64(1, TASK_ELEMENTS / (s.near ? s.count : s.row)), total = (s.rows + each - 1) / each;
  for (int64_t t = base_call_first(call, total); t < total; t = base_call_next(call, t, total))
    if (table) run_table(&s, t * each, base_min_i64(s.rows, (t + 1) * each));
    else
      for (int64_t r = t * each; r < base_min_i64(s.rows, (t + 1) * each); r++) run_row(&s, r);
  return TD_OK;
}
