/* reduce.c -- the kernels of reduce.def: reductions of operand 0, dense, over neighbouring dimensions, read as [outer,
 * middle, inner]: the middle goes. Along rows (inner 1) elements are combined as rows_priv.h says; over columns eight
 * rows of the middle at a time, as a tree, into the output. Both orders depend on the middle's length alone. */
#include "kernels/simd/wide/rows_priv.h"

enum { COLUMNS = 1024 /* most outputs of a task: they stay in the first-level cache */ };

typedef struct reduce_space {
  const float *in;
  float *out;
  int64_t outer, middle, inner;
} reduce_space;

/* Marks the dimensions in `dims`, or all where there are none. */
static uint32_t mask_of(const base_call *call) {
  int32_t rank = base_in(call, 0)->rank;
  const base_tensor *given = base_in(call, 1);
  uint32_t count, mask = 0;
  const int64_t *dims = base_attr_ints(call->attrs, KERN_REDUCE_DIM, &count);
  if (given) {
    dims = given->data;
    count = (uint32_t)base_tensor_numel(given);
  }
  if (count == 0) return base_attr_int(call->attrs, KERN_REDUCE_NOOP) ? 0 : (1u << rank) - 1;
  for (uint32_t i = 0; i < count && rank; i++) mask |= 1u << (dims[i] < 0 ? dims[i] + rank : dims[i]);
  return mask;
}

static reduce_space space_of(const base_call *call) {
  const base_tensor *in = base_in(call, 0);
  reduce_space s = {in->data, base_out(call, 0)->data, 1, 1, 1};
  uint32_t mask = mask_of(call);
  bool reduced = false; /* dimensions so far, from the last */
  for (int32_t i = in->rank; i-- > 0;) {
    bool goes = mask >> i & 1;
    reduced = reduced || (goes && in->dims[i] != 1);
    *(goes ? &s.middle : reduced ? &s.outer : &s.inner) *= in->dims[i];
  }
  return s;
}

typedef struct reduce_body {
  float (*row)(const float *row, int64_t n);
  /* to[c] = the reduction of n rows of `width` columns, `step` elements from row to row. */
  void (*columns)(float *to, const float *from, int64_t n, int64_t step, int64_t width);
} reduce_body;

static void reduce_columns(const base_call *call, const reduce_space *s, const reduce_body *body) {
  int64_t wanted = (2 * ROW_TASK / base_max_i64(s->middle, 1) + 63) / 64 * 64, each;
  int64_t columns = base_min_i64(base_max_i64(wanted, 64), COLUMNS), blocks = (s->inner + columns - 1) / columns;
  uint32_t total = row_tasks(s->outer * blocks, s->middle * base_min_i64(columns, s->inner), call->workers, &each);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total))
    for (int64_t b = task * each; b < base_min_i64(s->outer * blocks, (task + 1) * each); b++) {
      int64_t o = b / blocks, c = b % blocks * columns;
      body->columns(s->out + o * s->inner + c, s->in + o * s->middle * s->inner + c, s->middle, s->inner,
                    base_min_i64(columns, s->inner - c));
    }
}

static td_status reduce(const base_call *call, const reduce_body *body) {
  reduce_space s = space_of(call);
  if (s.outer * s.inner == 0) return TD_OK;
  if (s.inner > 1) {
    reduce_columns(call, &s, body);
    return TD_OK;
  }
  int64_t each;
  uint32_t total = row_tasks(s.outer, s.middle, call->workers, &each);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total))
    for (int64_t r = task * each; r < base_min_i64(s.outer, (task + 1) * each); r++)
      s.out[r] = body->row(s.in + r * s.middle, s.middle);
  return TD_OK;
}

/* v_max and v_min of what was so far and what comes, either of which may be not a number. */
V_INLINE vf nan_max(vf a, vf b) { return v_select(v_eq(a, a), v_max(a, b), a); }
V_INLINE vf nan_min(vf a, vf b) { return v_select(v_eq(a, a), v_min(a, b), a); }
static inline float any_nan(vf a) { return v_sum(v_select(v_eq(a, a), v_zero(), v_set(1))); }
static inline float nan_highest(vf a) { return any_nan(a) > 0 ? NAN : v_highest(a); }
static inline float nan_lowest(vf a) { return any_nan(a) > 0 ? NAN : v_lowest(a); }

#define REDUCE(family, name, START, value, COMBINE, ACROSS, finish)                                          \
  static float row_##name(const float *row, int64_t n) {                                                     \
    const vf start = v_set(START), count = v_set((float)n);                                                  \
    vf total = start;                                                                                        \
    (void)count;                                                                                             \
    for (int64_t from = 0; from < n; from += ROW_PIECE) {                                                    \
      int64_t i = from, end = base_min_i64(n, from + ROW_PIECE);                                             \
      vf part0 = start, part1 = start, part2 = start, part3 = start, x;                                      \
      for (; i + 4 * V_LANES <= end; i += 4 * V_LANES) {                                                     \
        x = v_load(row + i), part0 = COMBINE(part0, value);                                                  \
        x = v_load(row + i + V_LANES), part1 = COMBINE(part1, value);                                        \
        x = v_load(row + i + 2 * V_LANES), part2 = COMBINE(part2, value);                                    \
        x = v_load(row + i + 3 * V_LANES), part3 = COMBINE(part3, value);                                    \
      }                                                                                                      \
      for (; i < end; i += V_LANES) {                                                                        \
        x = v_load_or(row + i, base_min_i64(V_LANES, end - i), start), part0 = COMBINE(part0, value);        \
      }                                                                                                      \
      total = COMBINE(total, COMBINE(COMBINE(part0, part1), COMBINE(part2, part3)));                         \
    }                                                                                                        \
    float all[V_LANES];                                                                                      \
    vf x = v_set(ACROSS(total));                                                                             \
    v_store(all, finish);                                                                                    \
    return all[0];                                                                                           \
  }                                                                                                          \
  static inline vf load_##name(const float *from, int64_t width, vf start) {                                 \
    vf x = row_load(from, width, start);                                                                     \
    return value;                                                                                            \
  }                                                                                                          \
  static void columns_##name(float *to, const float *from, int64_t n, int64_t step, int64_t width) {         \
    const vf start = v_set(START), count = v_set((float)n);                                                  \
    (void)count;                                                                                             \
    for (int64_t c = 0; c < width; c += V_LANES) row_store(to + c, start, base_min_i64(V_LANES, width - c)); \
    int64_t k = 0;                                                                                           \
    for (; k + 8 <= n; k += 8, from += 8 * step)                                                             \
      for (int64_t c = 0; c < width; c += V_LANES) {                                                         \
        int64_t w = base_min_i64(V_LANES, width - c);                                                        \
        const float *at = from + c;                                                                          \
        vf a = COMBINE(load_##name(at, w, start), load_##name(at + step, w, start));                         \
        vf b = COMBINE(load_##name(at + 2 * step, w, start), load_##name(at + 3 * step, w, start));          \
        vf d = COMBINE(load_##name(at + 4 * step, w, start), load_##name(at + 5 * step, w, start));          \
        vf e = COMBINE(load_##name(at + 6 * step, w, start), load_##name(at + 7 * step, w, start));          \
        row_store(to + c, COMBINE(row_load(to + c, w, start), COMBINE(COMBINE(a, b), COMBINE(d, e))), w);    \
      }                                                                                                      \
    for (; k < n; k++, from += step)                                                                         \
      for (int64_t c = 0; c < width; c += V_LANES) {                                                         \
        int64_t w = base_min_i64(V_LANES, width - c);                                                        \
        row_store(to + c, COMBINE(row_load(to + c, w, start), load_##name(from + c, w, start)), w);          \
      }                                                                                                      \
    for (int64_t c = 0; c < width; c += V_LANES) {                                                           \
      int64_t w = base_min_i64(V_LANES, width - c);                                                          \
      vf x = row_load(to + c, w, start);                                                                     \
      row_store(to + c, finish, w);                                                                          \
    }                                                                                                        \
  }                                                                                                          \
  td_status KERN_NAME(name)(const base_call *call) {                                                         \
    static const reduce_body body = {row_##name, columns_##name};                                            \
    return reduce(call, &body);                                                                              \
  }
#include "kernels/reduce.def"
#undef REDUCE
