/* move.c -- KERN_COPY on 32 bits, KERN_RESHAPE and KERN_CAT: data from where it lies to where it belongs.
 *
 * A copy is cut into a core of two dimensions and the dimensions around it. Where both sides are dense along the last
 * dimension the core is rows. Where the source is dense along another one, the core is a transposition, in blocks that
 * stay in the first-level cache, of tiles that are transposed in registers. */
#include "kernels/simd_priv.h"

#include "base/size.h"
#include "kernels/move_priv.h"

enum { BLOCK = 64 };              /* of a transposition: elements along each dimension */
enum { TASK_ELEMENTS = 1 << 15 }; /* 128 KiB */

/* A copy and how it is shared out: `units` of equal size, `each` of them a task. */
typedef struct job {
  kern_move move;
  int32_t across;      /* dimension of the core besides the last; < 0: there is none */
  int64_t block, span; /* elements of `across` and of the last dimension in a unit */
  int64_t blocks, spans, units, each, tasks;
} job;

static job plan(const kern_move *m) {
  job j = {.move = *m, .across = m->rank - 2, .block = 1};
  if (m->count == 0) return j;
  if (m->rank == 0) j.move.dims[0] = 1, j.move.rank = 1; /* its steps are 0 */
  int32_t last = j.move.rank - 1;
  bool rows = m->rank == 0 || (m->to_step[last] == 1 && m->from_step[last] == 1);
  for (int32_t i = 0; i < last && !rows; i++)
    if (m->from_step[i] == 1) j.across = i;
  int64_t length = j.move.dims[last], others = m->count / length;
  int64_t across = j.across < 0 ? 1 : j.move.dims[j.across];
  j.span = base_min_i64(length, rows ? TASK_ELEMENTS : 8 * BLOCK);
  j.spans = (length + j.span - 1) / j.span;
  j.block = base_min_i64(across, rows ? base_max_i64(1, TASK_ELEMENTS / length) : BLOCK);
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

/* to[i][k] = from[k][i], i < rows, k < columns; a row of `to` and a column of `from` are dense. */
static void transpose(float *to, int64_t to_step, const float *from, int64_t from_step, int64_t rows, int64_t columns) {
  int64_t whole_rows = rows - rows % V_LANES, whole = columns - columns % V_LANES;
  for (int64_t i = 0; i < whole_rows; i += V_LANES)
    for (int64_t k = 0; k < whole; k += V_LANES)
      v_transpose_square(to + i * to_step + k, to_step, from + k * from_step + i, from_step);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = i < whole_rows ? whole : 0; k < columns; k++)
      ((element *)(to + i * to_step))[k] = ((const element *)(from + k * from_step))[i];
}

static void transpose_rows(const kern_move *m, int32_t across, element *to, const element *from, int64_t rows,
                           int64_t length) {
  int64_t step = m->from_step[m->rank - 1];
  for (int64_t k = 0; k < length; k += BLOCK)
    transpose((float *)(to + k), m->to_step[across], (const float *)(from + k * step), step, rows,
              base_min_i64(BLOCK, length - k));
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
  bool turn = m->to_step[last] == 1 && m->from_step[last] != 1 && m->from_step[j->across] == 1;
  (turn ? transpose_rows : copy_rows)(m, j->across, to, from, base_min_i64(j->block, m->dims[j->across] - first),
                                      length);
}

static void run_task(const job *j, int64_t task) {
  for (int64_t unit = task * j->each; unit < base_min_i64((task + 1) * j->each, j->units); unit++) run_unit(j, unit);
}

static td_status move(const base_call *call, const base_tensor *to, const base_tensor *from) {
  const kern_move m = kern_move_of(to, from);
  const job j = plan(&m);
  for (int64_t t = base_call_first(call, j.tasks); t < j.tasks; t = base_call_next(call, t, j.tasks)) run_task(&j, t);
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
  return TD_OK;
}
