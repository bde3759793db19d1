/* move.c -- KERN_COPY on 32 bits, KERN_RESHAPE, KERN_CAT and KERN_INDEX_SELECT: data from where it lies to where it
 * belongs.
 *
 * A copy is cut into a core of two dimensions and the dimensions around it. Where both sides are dense along the last
 * dimension the core is rows. Where the source is dense along another one, the core is a transposition, in blocks that
 * stay in the first-level cache, of tiles that are transposed in registers; where it has few rows or columns, these are
 * put together in turn, or taken apart. */
#include "kernels/wide/turn_priv.h"
#include "kernels/wide/zip_priv.h"

#include "base/size.h"
#include "kernels/blocks.h"
#include "kernels/move_priv.h"

enum { BLOCK = 64 };                                /* of a transposition: elements along each dimension */
enum { TASK_ELEMENTS = 1 << 15 };                   /* 128 KiB */
enum { STREAM_BYTES = 8 << 20 };                    /* of a result that caches do not keep */
enum { STREAM_SPAN = 128, LINE = 16 /* floats */ }; /* of blocks whose rows are written past the caches */

/* A copy and how it is shared out: `units` of equal size, `each` of them a task. */
typedef struct job {
  kern_move move;
  int32_t across;      /* dimension of the core besides the last; < 0: there is none */
  int64_t block, span; /* elements of `across` and of the last dimension in a unit */
  int64_t blocks, spans, units, each, tasks;
  bool turns, streams; /* the core is a transposition; written past the caches */
  bool zips, unzips;   /* one of few rows or columns, which are dense on the other side */
  zip_table table;
} job;

static bool is_few(int64_t n) { return n >= ZIP_LEAST && n <= ZIP_MOST; }

static job plan(const kern_move *m) {
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
  int64_t length = j.move.dims[last], others = m->count / length;
  int64_t across = j.across < 0 ? 1 : j.move.dims[j.across];
  j.span = base_min_i64(length, j.streams              ? STREAM_SPAN
                                : j.turns && !j.unzips ? 8 * BLOCK
                                : j.unzips             ? TASK_ELEMENTS / ZIP_MOST
                                                       : TASK_ELEMENTS);
  j.spans = (length + j.span - 1) / j.span;
  j.block = base_min_i64(across, j.turns && !j.zips ? BLOCK : base_max_i64(1, TASK_ELEMENTS / j.span));
  j.blocks = (across + j.block - 1) / j.block;
  j.units = others / across * j.blocks * j.spans;
  j.each = base_min_i64(j.units, base_max_i64(1, TASK_ELEMENTS / (j.span * j.block)));
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

/* Blocks are turned within the cache; then they leave it for good, if they are to. */
static void turn_rows(const job *j, float *to, const float *from, int64_t rows, int64_t length) {
  const int64_t to_step = j->move.to_step[j->across], from_step = j->move.from_step[j->move.rank - 1];
  _Alignas(64) float block[BLOCK * STREAM_SPAN];
  if (j->zips || j->unzips) {
    zip(&j->table, to, from, j->zips ? from_step : to_step, j->zips ? length : rows, j->zips ? rows : length,
        j->unzips);
    return;
  }
  if (j->streams) {
    turn_block(block, STREAM_SPAN, from, from_step, rows, length, BLOCK);
    for (int64_t i = 0; i < rows; i++) stream_row(to + i * to_step, block + i * STREAM_SPAN, length);
    return;
  }
  for (int64_t k = 0; k < length; k += BLOCK)
    turn_block(to + k, to_step, from + k * from_step, from_step, rows, base_min_i64(BLOCK, length - k), 0);
}

static void run_unit(const job *j, int64_t unit) {
  const kern_move *m = &j->move;
  int32_t last = m->rank - 1;
  int64_t begin = unit % j->spans * j->span, length = base_min_i64(j->span, m->dims[last] - begin);
  element *to = (element *)m->to + begin * m->to_step[last];
  const element *from = (const element *)m->from + begin * m->from_step[last];
  if (j->across < 0) {
    copy_row(to, m->to_step[last], from, m->from_step[last], length);
    return;
  }
  int64_t rest = unit / j->spans, first = rest % j->blocks * j->block;
  rest /= j->blocks;
  to += first * m->to_step[j->across];
  from += first * m->from_step[j->across];
  for (int32_t i = last - 1; i >= 0; i--) {
    if (i == j->across) continue;
    to += rest % m->dims[i] * m->to_step[i];
    from += rest % m->dims[i] * m->from_step[i];
    rest /= m->dims[i];
  }
  const int64_t rows = base_min_i64(j->block, m->dims[j->across] - first);
  if (j->turns) turn_rows(j, (float *)(void *)to, (const float *)(const void *)from, rows, length);
  else copy_rows(m, j->across, to, from, rows, length);
}

static void run_task(const job *j, int64_t task) {
  for (int64_t unit = task * j->each; unit < base_min_i64((task + 1) * j->each, j->units); unit++) run_unit(j, unit);
}

static td_status move(const base_call *call, const base_tensor *to, const base_tensor *from) {
  const kern_move m = kern_move_of(to, from);
  const job j = plan(&m);
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
  j->job = plan(&m);
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
  int64_t dim = base_attr_int(call->attrs, 0);
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
  base_walk w;
  if (!at) return base_no_memory(call->err, "scratch");
  base_walk_start(&w, index->rank, index->dims, 1, strides);
  do {
    int64_t given = base_load_i64(index->dtype, index->data, w.offset[0]), k = given < 0 ? given + size : given;
    if (k < 0 || k >= size)
      return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1,
                       "aten::index_select: index %lld is outside of an axis of %lld", (long long)given,
                       (long long)size);
    at[i++] = k * x->strides[axis];
  } while (base_walk_next(&w));
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
  if (s->row_step != 1 || s->row > 8 * V_LANES) {
    copy_row((element *)(void *)to, 1, (const element *)(const void *)from, s->row_step, s->row);
    return;
  }
  int64_t i = 0;
  for (; i + V_LANES <= s->row; i += V_LANES) v_store(to + i, v_load(from + i));
  v_store_n(to + i, v_load_n(from + i, s->row - i), s->row - i);
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
  const int64_t dim = base_attr_int(call->attrs, 0);
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
  const int64_t each = base_max_i64(1, TASK_ELEMENTS / (s.near ? s.count : s.row)), total = (s.rows + each - 1) / each;
  for (int64_t t = base_call_first(call, total); t < total; t = base_call_next(call, t, total))
    for (int64_t r = t * each; r < base_min_i64(s.rows, (t + 1) * each); r++) run_row(&s, r);
  return TD_OK;
}
