/* arg_reduce.c -- KERN_ARGMAX, KERN_ARGMIN: aten::argmax and aten::argmin of dense f32, read as [outer, length, inner]:
 * the places along the length. What is not a number wins over all that is; of equals the first wins, or the last. Least
 * ones are largest ones of the numbers with their signs flipped. */
#include "kernels/simd/simd_priv.h"

enum { AT_ONCE = 2, COLUMNS = 4 };      /* vectors: of a row in turn, of neighbouring lanes of the inner */
enum { SHORT = 2 * AT_ONCE * V_LANES }; /* a row of less has no vectors */
enum { TASK_ELEMENTS = 1 << 14, BLOCK = 1 << 8 /* columns of a unit */ };

typedef struct job {
  const float *in;
  int64_t *out;
  int64_t outer, length, inner;
  float sign;
  bool last;
} job;

/* Winners so far in each lane; their places are int32. */
typedef struct winner {
  vf value, place;
} winner;

V_INLINE void meet(winner *w, vf x, vf place, const bool last) {
  const vm number = v_eq(w->value, w->value);
  const vm kept = last ? v_lt(x, w->value) : v_le(x, w->value), also = v_eq(x, x);
  w->place = v_select(number, v_select(kept, w->place, place), last ? v_select(also, w->place, place) : w->place);
  w->value = v_select(number, v_select(kept, w->value, x), last ? v_select(also, w->value, x) : w->value);
}

/* Does b, at a later place, win over a? */
static inline bool wins(float a, float b, bool last) {
  if (isnan(a)) return last && isnan(b);
  return isnan(b) || b > a || (last && a == b);
}

typedef struct found {
  float value;
  int64_t place;
} found;

static inline void choose(found *best, float value, int64_t place, bool last) {
  const bool better = place > best->place ? wins(best->value, value, last) : !wins(value, best->value, last);
  if (better) *best = (found){value, place};
}

/* The first `steps` times AT_ONCE vectors of a row. */
V_INLINE void find_in_vectors(const float *row, int64_t steps, float sign, const bool last, found *best) {
  const vf turn = v_set(sign);
  winner w[AT_ONCE];
  float values[AT_ONCE * V_LANES];
  int32_t places[AT_ONCE * V_LANES];
  V_FOR(u, AT_ONCE) w[u] = (winner){v_mul(v_load(row + u * V_LANES), turn), v_zero()};
  for (int64_t j = 1; j < steps; j++) {
    const vf place = v_as_float(vi_set((int32_t)j));
    V_FOR(u, AT_ONCE) meet(&w[u], v_mul(v_load(row + (j * AT_ONCE + u) * V_LANES), turn), place, last);
  }
  V_FOR(u, AT_ONCE) {
    v_store(values + u * V_LANES, w[u].value);
    memcpy(places + u * V_LANES, &w[u].place, sizeof w[u].place);
  }
  for (int64_t i = 0; i < AT_ONCE * V_LANES; i++)
    choose(best, values[i], (int64_t)places[i] * AT_ONCE * V_LANES + i, last);
}

static int64_t row_winner(const job *j, const float *row) {
  found best = {j->sign * row[0], 0};
  int64_t i = 1;
  if (j->length >= SHORT) {
    const int64_t steps = base_min_i64(j->length / (AT_ONCE * V_LANES), INT32_MAX);
    if (j->last) find_in_vectors(row, steps, j->sign, true, &best);
    else find_in_vectors(row, steps, j->sign, false, &best);
    i = steps * AT_ONCE * V_LANES;
  }
  for (; i < j->length; i++)
    if (wins(best.value, j->sign * row[i], j->last)) best = (found){j->sign * row[i], i};
  return best.place;
}

/* `count` of COLUMNS vectors of lanes side by side, from `from` on. */
V_INLINE void column_winners(const job *j, const float *from, int64_t *to, int64_t count, const bool last) {
  const vf turn = v_set(j->sign);
  winner w[COLUMNS];
  int32_t places[COLUMNS * V_LANES];
  int64_t lanes[COLUMNS];
  V_FOR(u, COLUMNS) {
    lanes[u] = base_max_i64(0, base_min_i64(V_LANES, count - u * V_LANES));
    w[u] = (winner){v_mul(v_load_n(from + u * V_LANES, lanes[u]), turn), v_zero()};
  }
  for (int64_t k = 1; k < j->length; k++) {
    const vf place = v_as_float(vi_set((int32_t)k));
    const float *row = from + k * j->inner;
    if (count == COLUMNS * V_LANES) V_FOR(u, COLUMNS) {
        meet(&w[u], v_mul(v_load(row + u * V_LANES), turn), place, last);
      }
    else V_FOR(u, COLUMNS) {
        if (lanes[u]) meet(&w[u], v_mul(v_load_n(row + u * V_LANES, lanes[u]), turn), place, last);
      }
  }
  V_FOR(u, COLUMNS) memcpy(places + u * V_LANES, &w[u].place, sizeof w[u].place);
  for (int64_t i = 0; i < count; i++) to[i] = places[i];
}

/* Columns [first, first + count) of one of the outer. */
static void find_columns(const job *j, int64_t outer, int64_t first, int64_t count) {
  const float *from = j->in + outer * j->length * j->inner + first;
  int64_t *to = j->out + outer * j->inner + first;
  for (int64_t c = 0; c < count; c += COLUMNS * V_LANES) {
    const int64_t some = base_min_i64(COLUMNS * V_LANES, count - c);
    if (j->last) column_winners(j, from + c, to + c, some, true);
    else column_winners(j, from + c, to + c, some, false);
  }
}

static job describe(const base_call *call, float sign) {
  const base_tensor *in = base_in(call, 0);
  job j = {.in = in->data,
           .out = base_out(call, 0)->data,
           .outer = 1,
           .length = 1,
           .inner = 1,
           .sign = sign,
           .last = base_attr_int(call->attrs, KERN_ARG_LAST)};
  const bool whole = !base_attr_has(call->attrs, KERN_ARG_DIM);
  int64_t axis = whole ? 0 : base_attr_int(call->attrs, KERN_ARG_DIM);
  if (axis < 0) axis += in->rank;
  for (int32_t i = 0; i < in->rank; i++)
    *(whole || i == axis ? &j.length : i < axis ? &j.outer : &j.inner) *= in->dims[i];
  return j;
}

static td_status find(const base_call *call, float sign) {
  const job j = describe(call, sign);
  if (j.outer * j.inner == 0) return TD_OK;
  if (j.length == 0 || j.length > INT32_MAX)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "%lld elements to choose from", (long long)j.length);
  const int64_t block = base_min_i64(j.inner, BLOCK), blocks = (j.inner + block - 1) / block, units = j.outer * blocks;
  const int64_t each = base_max_i64(1, TASK_ELEMENTS / (block * j.length)), total = (units + each - 1) / each;
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total))
    for (int64_t u = task * each; u < base_min_i64(units, (task + 1) * each); u++) {
      const int64_t outer = u / blocks, first = u % blocks * block;
      if (j.inner == 1) j.out[u] = row_winner(&j, j.in + u * j.length);
      else find_columns(&j, outer, first, base_min_i64(block, j.inner - first));
    }
  return TD_OK;
}

td_status KERN_NAME(argmax)(const base_call *call) { return find(call, 1); }
td_status KERN_NAME(argmin)(const base_call *call) { return find(call, -1); }
