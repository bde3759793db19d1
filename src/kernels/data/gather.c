/* gather.c -- KERN_GATHER (aten::gather): the element of x in the place of each element of the index, but for one axis,
 * where the index says. Indices are checked and become offsets some at a time, and each width has a loop for what they
 * point to. */
#include "kernels/index_priv.h"
#include "kernels/kernels_priv.h"
#include "kernels/tasks_priv.h"

#include <string.h>

enum { CHUNK = 512, TASK_ELEMENTS = 1 << 14 };

/* to[i * to_step] = from[at[i]] */
typedef void (*pick_run)(void *to, int64_t to_step, const void *from, const int64_t *at, int64_t count);

#define PICK(bits, type)                                                                                   \
  static void pick_##bits(void *to, int64_t to_step, const void *from, const int64_t *at, int64_t count) { \
    for (int64_t i = 0; i < count; i++) ((type *)to)[i * to_step] = ((const type *)from)[at[i]];           \
  }
PICK(8, uint8_t)
PICK(16, base_u16)
PICK(32, base_u32)
PICK(64, base_u64)
PICK(128, base_u128)

static const struct {
  uint32_t bits;
  pick_run run;
} runs[] = {{8, pick_8}, {16, pick_16}, {32, pick_32}, {64, pick_64}, {128, pick_128}};

typedef struct gathering {
  const base_tensor *x, *index, *out;
  int32_t axis, across; /* tasks are parts of dimension `across` of the index, its longest */
  pick_run run;
} gathering;

static bool read(const base_call *call, gathering *g) {
  *g = (gathering){.x = base_in(call, 0), .index = base_in(call, 1), .out = base_out(call, 0)};
  const int32_t rank = g->x->rank;
  const int64_t dim = base_attr_int(call->attrs, KERN_GATHER_DIM);
  g->axis = (int32_t)(dim < 0 ? dim + rank : dim);
  if (!kern_index_fits(g->index, g->out, g->x, g->axis)) return false;
  for (int32_t i = 0; i < rank; i++)
    if (g->index->dims[i] > g->index->dims[g->across]) g->across = i;
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
    if (runs[i].bits == base_dtype(g->out->dtype)->bits) g->run = runs[i].run;
  return g->run;
}

/* A row of which one index says where it is. */
static td_status gather_whole(const base_call *call, const gathering *g, void *to, int64_t index_from, const char *from,
                              int64_t length, const int64_t *step) {
  const int64_t size = g->x->dims[g->axis], bytes = base_dtype(g->out->dtype)->bits / 8;
  const int64_t given = kern_index_at(g->index, index_from);
  int64_t where, at[CHUNK];
  if (!kern_index_place(given, size, &where)) return kern_index_outside(call, "aten::gather", given, size);
  from += where * g->x->strides[g->axis] * bytes;
  if (step[0] == 1 && step[2] == 1) {
    memcpy(to, from, (size_t)(length * bytes));
    return TD_OK;
  }
  for (int64_t i = 0; i < base_min_i64(length, CHUNK); i++) at[i] = i * step[2];
  for (int64_t first = 0; first < length; first += CHUNK)
    g->run((char *)to + first * step[0] * bytes, step[0], from + first * step[2] * bytes, at,
           base_min_i64(CHUNK, length - first));
  return TD_OK;
}

/* A row of the index: `step` counts elements of the result, the index and x. */
static td_status gather_row(const base_call *call, const gathering *g, void *to, int64_t index_from, const void *from,
                            int64_t length, const int64_t *step) {
  const int64_t size = g->x->dims[g->axis], stride = g->x->strides[g->axis];
  const int64_t bytes = base_dtype(g->out->dtype)->bits / 8;
  int64_t at[CHUNK];
  if (step[1] == 0 && length > 1) return gather_whole(call, g, to, index_from, from, length, step);
  for (int64_t first = 0; first < length; first += CHUNK) {
    const int64_t count = base_min_i64(CHUNK, length - first);
    for (int64_t i = 0; i < count; i++) {
      const int64_t given = kern_index_at(g->index, index_from + (first + i) * step[1]);
      int64_t where;
      if (!kern_index_place(given, size, &where)) return kern_index_outside(call, "aten::gather", given, size);
      at[i] = where * stride + (first + i) * step[2];
    }
    g->run((char *)to + first * step[0] * bytes, step[0], from, at, count);
  }
  return TD_OK;
}

/* Elements [first, end) of dimension `across`. */
static td_status gather_part(const base_call *call, const gathering *whole, int64_t first, int64_t end) {
  const base_tensor index = kern_index_part(whole->index, whole->across, first, end);
  const base_tensor out = kern_index_part(whole->out, whole->across, first, end);
  const base_tensor x = kern_index_part(whole->x, whole->across == whole->axis ? -1 : whole->across, first, end);
  gathering g = *whole;
  g.index = &index;
  int64_t strides[BASE_MAX_RANK], length, step[3];
  const int64_t bytes = base_dtype(out.dtype)->bits / 8;
  for (int32_t i = 0; i < x.rank; i++) strides[i] = i == g.axis ? 0 : x.strides[i];
  base_walk w;
  base_walk_rows(&w, index.rank, index.dims, 3, (const int64_t *const[]){out.strides, index.strides, strides}, &length,
                 step);
  if (!w.count) return TD_OK;
  do
    TRY(gather_row(call, &g, (char *)out.data + w.offset[0] * bytes, w.offset[1],
                   (const char *)x.data + w.offset[2] * bytes, length, step));
  while (base_walk_next(&w));
  return TD_OK;
}

td_status kern_gather(const base_call *call) {
  gathering g;
  const int64_t count = base_tensor_numel(base_out(call, 0));
  if (count == 0) return TD_OK;
  if (!read(call, &g))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "aten::gather: input and index do not fit");
  const int64_t room = g.index->dims[g.across];
  const int64_t total = base_min_i64(base_min_i64(count / TASK_ELEMENTS + 1, kern_tasks_wanted(call->workers)), room);
  for (int64_t t = base_call_first(call, total); t < total; t = base_call_next(call, t, total))
    TRY(gather_part(call, &g, room * t / total, room * (t + 1) / total));
  return TD_OK;
}
