/* scatter.c -- KERN_SCATTER and KERN_SCATTER_ND: a copy of x in which updates replace elements, or (f32) are combined
 * with them one after the other in row-major order.
 *
 * Tasks are parts of the result that no update crosses: each copies its part of x, and takes all updates that fall into
 * it in their order. So results depend on nothing else, and what lies side by side is moved as a run. */
#include "kernels/data/data.h"
#include "kernels/index_priv.h"
#include "kernels/kernels_priv.h"
#include "kernels/data/move_priv.h"
#include "kernels/tasks_priv.h"

#include <string.h>

enum { TASK_BYTES = 1 << 17 };

/* ---- what is done along a run ---- */

/* `count` elements; steps count elements. */
typedef void (*combine)(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count);

#define LINE(name, type, value)                                                                     \
  static void name(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count) { \
    type *y = (type *)(void *)to;                                                                   \
    const type *x = (const type *)(const void *)from;                                               \
    if (to_step == 1 && from_step == 1)                                                             \
      for (int64_t i = 0; i < count; i++) y[i] = value(y[i], x[i]);                                 \
    else                                                                                            \
      for (int64_t i = 0; i < count; i++) y[i * to_step] = value(y[i * to_step], x[i * from_step]); \
  }
#define SECOND(a, b) (b)
#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
#define HIGHER(a, b) ((a) != (a) || (a) > (b) ? (a) : (b)) /* what is no number stays */
#define LOWER(a, b) ((a) != (a) || (a) < (b) ? (a) : (b))
LINE(put_8, uint8_t, SECOND)
LINE(put_16, base_u16, SECOND)
LINE(put_32, base_u32, SECOND)
LINE(put_64, base_u64, SECOND)
LINE(put_128, base_u128, SECOND)
LINE(add_f32, base_f32, SUM)
LINE(mul_f32, base_f32, PRODUCT)
LINE(max_f32, base_f32, HIGHER)
LINE(min_f32, base_f32, LOWER)

static const struct {
  const char *reduce;
  td_dtype dtype; /* TD_INVALID: any of so many bytes */
  size_t bytes;
  combine run;
} lines[] = {{"none", TD_INVALID, 1, put_8},  {"none", TD_INVALID, 2, put_16},   {"none", TD_INVALID, 4, put_32},
             {"none", TD_INVALID, 8, put_64}, {"none", TD_INVALID, 16, put_128}, {"add", TD_F32, 4, add_f32},
             {"mul", TD_F32, 4, mul_f32},     {"max", TD_F32, 4, max_f32},       {"min", TD_F32, 4, min_f32}};

static combine line_for(const char *reduce, td_dtype dtype) {
  const size_t bits = base_dtype(dtype)->bits;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (strcmp(lines[i].reduce, reduce) == 0 && (lines[i].dtype == TD_INVALID || lines[i].dtype == dtype) &&
        lines[i].bytes * 8 == bits)
      return lines[i].run;
  return NULL;
}

bool kern_scatter_has(const char *reduce, td_dtype dtype) { return line_for(reduce, dtype) != NULL; }

/* ---- scatter_nd: all operands are dense ---- */

typedef struct blocks {
  const base_tensor *x, *index, *updates, *out;
  int64_t tuple, count, inner; /* indices of a tuple; tuples; elements of what each selects */
  size_t bytes;                /* of an element */
  combine line;
} blocks;

static bool read_blocks(const base_call *call, blocks *b) {
  *b =
      (blocks){.x = base_in(call, 0), .index = base_in(call, 1), .updates = base_in(call, 2), .out = base_out(call, 0)};
  const int32_t last = b->index->rank - 1;
  int64_t expected;
  if (last < 0 || b->index->dims[last] > b->x->rank) return false;
  b->tuple = b->index->dims[last];
  b->count = b->inner = 1;
  for (int32_t i = 0; i < last; i++)
    if (!base_mul_i64(b->count, b->index->dims[i], &b->count)) return false;
  for (int32_t i = (int32_t)b->tuple; i < b->x->rank; i++)
    if (!base_mul_i64(b->inner, b->x->dims[i], &b->inner)) return false;
  b->bytes = base_dtype(b->out->dtype)->bits / 8;
  b->line = line_for(base_attr_str(call->attrs, KERN_SCATTER_ND_REDUCE), b->out->dtype);
  return b->line && base_mul_i64(b->count, b->inner, &expected) && base_tensor_numel(b->updates) == expected;
}

/* Where in the result each tuple points, in elements. */
static td_status find_blocks(const base_call *call, const blocks *b, int64_t *at) {
  const base_i64 *plain = b->index->dtype == TD_I64 ? b->index->data : NULL;
  const int64_t *sizes = b->x->dims, *strides = b->out->strides, tuple = b->tuple;
  for (int64_t i = 0; i < b->count; i++) {
    int64_t to = 0;
    for (int64_t k = 0; k < tuple; k++) {
      const int64_t given = plain ? plain[i * tuple + k] : kern_index_at(b->index, i * tuple + k);
      int64_t where;
      if (!kern_index_place(given, sizes[k], &where))
        return kern_index_outside(call, "td::scatter_nd", given, sizes[k]);
      to += where * strides[k];
    }
    at[i] = to;
  }
  return TD_OK;
}

/* Elements [first, end) of the result. Blocks that follow one another there, too, are one run. */
static void fill(const blocks *b, const int64_t *at, int64_t first, int64_t end) {
  const size_t bytes = b->bytes;
  char *to = b->out->data;
  const char *from = b->updates->data;
  memcpy(to + (size_t)first * bytes, (const char *)b->x->data + (size_t)first * bytes, (size_t)(end - first) * bytes);
  for (int64_t i = 0, run = 1; i < b->count; i += run) {
    run = 1;
    if (at[i] < first || at[i] >= end) continue;
    while (i + run < b->count && at[i + run] == at[i] + run * b->inner && at[i + run] < end) run++;
    b->line(to + (size_t)at[i] * bytes, 1, from + (size_t)(i * b->inner) * bytes, 1, run * b->inner);
  }
}

td_status kern_scatter_nd(const base_call *call) {
  blocks b;
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  if (!read_blocks(call, &b))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::scatter_nd: tuples, updates and input do not fit");
  int64_t *at = base_call_scratch(call, (size_t)b.count, sizeof *at);
  if (!at) return base_no_memory(call->err, "scratch");
  TRY(find_blocks(call, &b, at));
  const int64_t whole = base_tensor_numel(b.out) / b.inner; /* blocks */
  const int64_t wanted = (int64_t)(base_tensor_bytes(b.out) / TASK_BYTES) + 1;
  /* Each task looks at all tuples, so there are no more than are taken at once. */
  const int64_t total = base_min_i64(base_min_i64(wanted, base_max_i64(call->workers, 1)), whole);
  for (int64_t t = base_call_first(call, total); t < total; t = base_call_next(call, t, total))
    fill(&b, at, whole * t / total * b.inner, whole * (t + 1) / total * b.inner);
  return TD_OK;
}

/* ---- scatter ---- */

typedef struct picks {
  const base_tensor *x, *index, *updates, *out;
  int32_t axis, across; /* tasks are parts of `across`, another dimension; < 0: there is none */
  size_t bytes;
  combine line;
} picks;

static bool read_picks(const base_call *call, picks *p) {
  *p = (picks){.x = base_in(call, 0), .index = base_in(call, 1), .updates = base_in(call, 2), .out = base_out(call, 0)};
  const int32_t rank = p->x->rank;
  const int64_t dim = base_attr_int(call->attrs, KERN_SCATTER_DIM);
  p->axis = (int32_t)(dim < 0 ? dim + rank : dim);
  p->across = -1;
  if (!kern_index_fits(p->index, p->updates, p->x, p->axis)) return false;
  for (int32_t i = 0; i < rank; i++)
    if (i != p->axis && p->x->dims[i] > (p->across < 0 ? 1 : p->x->dims[p->across])) p->across = i;
  p->bytes = base_dtype(p->out->dtype)->bits / 8;
  p->line = line_for(base_attr_str(call->attrs, KERN_SCATTER_REDUCE), p->out->dtype);
  return p->line;
}

/* Updates of one row of indices: with one index for all it is a run. */
static td_status scatter_row(const base_call *call, const picks *p, const base_tensor *index, char *to,
                             const char *from, int64_t index_from, int64_t length, const int64_t *step) {
  const int64_t size = p->x->dims[p->axis], stride = p->out->strides[p->axis];
  const int64_t run = step[1] == 0 && p->axis != p->x->rank - 1 ? length : 1, bytes = (int64_t)p->bytes;
  for (int64_t k = 0; k < length; k += run) {
    const int64_t given = kern_index_at(index, index_from + k * step[1]);
    int64_t where;
    if (!kern_index_place(given, size, &where)) return kern_index_outside(call, "aten::scatter", given, size);
    p->line(to + (k * step[0] + where * stride) * bytes, step[0], from + k * step[2] * bytes, step[2], run);
  }
  return TD_OK;
}

/* Elements [first, end) of dimension `across` of the result. */
static td_status scatter_part(const base_call *call, const picks *p, int64_t first, int64_t end) {
  const base_tensor out = kern_index_part(p->out, p->across, first, end),
                    x = kern_index_part(p->x, p->across, first, end);
  const base_tensor index = kern_index_part(p->index, p->across, first, end);
  const base_tensor updates = kern_index_part(p->updates, p->across, first, end);
  int64_t strides[BASE_MAX_RANK], length, step[3];
  TRY(kern_move_now(call, &out, &x));
  for (int32_t i = 0; i < out.rank; i++) strides[i] = i == p->axis ? 0 : out.strides[i];
  base_walk w;
  base_walk_rows(&w, index.rank, index.dims, 3, (const int64_t *const[]){strides, index.strides, updates.strides},
                 &length, step);
  if (!w.count) return TD_OK;
  do
    TRY(scatter_row(call, p, &index, (char *)out.data + w.offset[0] * (int64_t)p->bytes,
                    (const char *)updates.data + w.offset[2] * (int64_t)p->bytes, w.offset[1], length, step));
  while (base_walk_next(&w));
  return TD_OK;
}

td_status kern_scatter(const base_call *call) {
  picks p;
  if (base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  if (!read_picks(call, &p))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "aten::scatter: indices, updates and input do not fit");
  const int64_t room = p.across < 0 ? 1 : p.out->dims[p.across];
  const int64_t wanted = (int64_t)((base_tensor_bytes(p.out) + base_tensor_bytes(p.updates)) / TASK_BYTES) + 1;
  const int64_t total = base_min_i64(base_min_i64(wanted, kern_tasks_wanted(call->workers)), room);
  for (int64_t t = base_call_first(call, total); t < total; t = base_call_next(call, t, total))
    TRY(scatter_part(call, &p, room * t / total, room * (t + 1) / total));
  return TD_OK;
}
