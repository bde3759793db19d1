/* group_norm.c -- KERN_GROUP_NORM of aten::native_group_norm: x [n, c, plane...], or with channels_last [n, plane...,
 * c]; weight and bias have one element per channel. A group is a row of the first; of the second some columns, which
 * tasks take in blocks of whole groups, at least COLUMNS wide. */
#include "kernels/wide/rows_priv.h"

enum { NUM_GROUPS, EPS, LAST, COLUMNS = 16, PIECE = 64 /* rows of columns added up in one piece */ };

ROW_SUM(sum_of, v_zero(), x)
ROW_SUM(spread_of, a, v_mul(v_sub(x, a), v_sub(x, a)))

typedef struct group_norm {
  const float *x, *weight, *bias; /* weight, bias NULL: absent */
  float *y;
  int64_t samples, channels, groups, width, plane; /* width: channels of a group */
  double eps;
} group_norm;

static float inverse_of(const group_norm *g, float squares) {
  return (float)(1 / sqrt((double)squares / (double)(g->width * g->plane) + g->eps));
}

/* to = (from - center) * scale + shift. */
static void affine_row(float *to, const float *from, int64_t n, float center, float scale, float shift) {
  const vf c = v_set(center), s = v_set(scale), t = v_set(shift);
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES) v_store(to + i, v_fma(v_sub(v_load(from + i), c), s, t));
  if (i < n) v_store_n(to + i, v_fma(v_sub(v_load_n(from + i, n - i), c), s, t), n - i);
}

/* Group `lane` of the samples' groups in turn, whose channels are rows. */
static void group_of_rows(const group_norm *g, int64_t lane) {
  int64_t count = g->width * g->plane, first = lane % g->groups * g->width;
  const float *x = g->x + lane * count;
  float center = sum_of(x, count, v_zero()) / (float)count;
  float inverse = inverse_of(g, spread_of(x, count, v_set(center)));
  for (int64_t c = 0; c < g->width; c++) {
    float scale = inverse * (g->weight ? g->weight[first + c] : 1), shift = g->bias ? g->bias[first + c] : 0;
    affine_row(g->y + lane * count + c * g->plane, x + c * g->plane, g->plane, center, scale, shift);
  }
}

/* to[c] = the sum over the plane of x, or with `center` of (x - center[c])^2, for n <= V_LANES columns. */
static void add_columns(const group_norm *g, float *to, const float *x, int64_t n, const float *center) {
  vf total = v_zero(), c = center ? v_load_n(center, n) : v_zero();
  for (int64_t from = 0; from < g->plane; from += PIECE) {
    vf even = v_zero(), odd = v_zero();
    for (int64_t k = from; k < base_min_i64(g->plane, from + PIECE); k++) {
      vf d = v_sub(row_load(x + k * g->channels, n, c), c), value = center ? v_mul(d, d) : d;
      vf sum = v_add(odd, value); /* they take turns: two chains of additions */
      odd = even;
      even = sum;
    }
    total = v_add(total, v_add(even, odd));
  }
  v_store_n(to, total, n);
}

/* sums[c] = f(the sum of the group of channel c). */
static void join_groups(const group_norm *g, float *sums, int64_t width, bool squares) {
  for (int64_t c = 0; c < width; c += g->width) {
    float sum = 0;
    for (int64_t k = 0; k < g->width; k++) sum += sums[c + k];
    sum = squares ? inverse_of(g, sum) : sum / (float)(g->width * g->plane);
    for (int64_t k = 0; k < g->width; k++) sums[c + k] = sum;
  }
}

/* Channels [first, first + width) of a sample, whole groups; `sums` has room for 2 * width. */
static void groups_of_columns(const group_norm *g, int64_t sample, int64_t first, int64_t width, float *sums) {
  int64_t offset = sample * g->plane * g->channels + first;
  float *center = sums, *scale = sums + width;
  for (int64_t c = 0; c < width; c += V_LANES)
    add_columns(g, center + c, g->x + offset + c, base_min_i64(V_LANES, width - c), NULL);
  join_groups(g, center, width, false);
  for (int64_t c = 0; c < width; c += V_LANES)
    add_columns(g, scale + c, g->x + offset + c, base_min_i64(V_LANES, width - c), center + c);
  join_groups(g, scale, width, true);
  for (int64_t c = 0; g->weight && c < width; c++) scale[c] *= g->weight[first + c];
  for (int64_t k = 0; k < g->plane; k++)
    for (int64_t c = 0; c < width; c += V_LANES) {
      int64_t n = base_min_i64(V_LANES, width - c), at = offset + k * g->channels + c;
      vf shift = g->bias ? row_load(g->bias + first + c, n, v_zero()) : v_zero();
      vf d = v_sub(row_load(g->x + at, n, v_zero()), row_load(center + c, n, v_zero()));
      row_store(g->y + at, v_fma(d, row_load(scale + c, n, v_zero()), shift), n);
    }
}

static td_status run_columns(const base_call *call, const group_norm *g) {
  int64_t joined = base_max_i64(1, (COLUMNS + g->width - 1) / g->width), width = joined * g->width;
  int64_t blocks = (g->groups + joined - 1) / joined;
  float *sums = base_call_scratch(call, 2 * (size_t)width, sizeof *sums);
  if (!sums) return base_no_memory(call->err, "scratch");
  uint32_t total = (uint32_t)(g->samples * blocks);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total)) {
    int64_t first = task % blocks * width;
    groups_of_columns(g, task / blocks, first, base_min_i64(width, g->channels - first), sums);
  }
  return TD_OK;
}

td_status KERN_NAME(group_norm)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *weight = base_in(call, 1), *bias = base_in(call, 2);
  bool last = base_attr_int(call->attrs, LAST);
  int64_t channels = x->dims[last ? x->rank - 1 : 1], groups = base_attr_int(call->attrs, NUM_GROUPS), each;
  if (groups == 0) groups = channels;
  if (base_tensor_numel(x) == 0) return TD_OK;
  for (uint32_t i = 1; i <= 2; i++)
    if (base_in(call, i) && base_tensor_numel(base_in(call, i)) != channels)
      return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "operand %u does not fit %lld channels", i,
                       (long long)channels);
  if (groups < 1 || channels % groups)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "%lld channels do not make %lld groups", (long long)channels,
                     (long long)groups);
  const group_norm g = {.x = x->data,
                        .weight = weight ? weight->data : NULL,
                        .bias = bias ? bias->data : NULL,
                        .y = base_out(call, 0)->data,
                        .samples = x->dims[0],
                        .channels = channels,
                        .groups = groups,
                        .width = channels / groups,
                        .plane = base_tensor_numel(x) / x->dims[0] / channels,
                        .eps = base_attr_float(call->attrs, EPS)};
  if (last) return run_columns(call, &g);
  uint32_t total = row_tasks(g.samples * groups, g.width * g.plane, &each);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total))
    for (int64_t lane = task * each; lane < base_min_i64(g.samples * groups, (task + 1) * each); lane++)
      group_of_rows(&g, lane);
  return TD_OK;
}
