/* group_norm.c -- KERN_GROUP_NORM of aten::native_group_norm: x [n, c, plane...], or with channels_last [n, plane...,
 * c]; weight and bias have one element per channel. A group is a row of the first; of the second some columns, which
 * tasks take in blocks of whole groups. A column's mean and squares are those of its pieces, joined (Chan's formula),
 * so that memory is read once for both. An activation is applied to what has just been written.
 *
 * x of bf16 becomes floats, and floats the result of bf16, some rows at a time in L1.
 *
 * KERN_GROUP_MOMENTS of td::group_moments makes moments of parts of the plane, from which the norm then goes by parts,
 * too: so many threads share an image. */
#include "kernels/epilogue.h"
#include "kernels/rows/group_norm_priv.h"
#include "kernels/rows/rows.h"
#include "kernels/simd/pairs_priv.h"
#include "kernels/simd/math_priv.h"
#include "kernels/simd/wide/rows_priv.h"

enum { PIECE = 64, VECTORS = 4 }; /* rows of columns added up in one piece, and how many vectors of them side by side */
enum { AHEAD = 8 };               /* rows to fetch in front: too far apart for the machine to guess */
enum { NEAR = 2048, NEAR_ROWS = 16 }; /* elements of a row, rows of columns: L1 holds them until they are activated */
enum { COLUMNS = 256 }; /* of a task: parts of pixels cost three times as much as whole ones, which are one stream */

ROW_SUM(sum_of, v_zero(), x)
ROW_SUM(spread_of, a, v_mul(v_sub(x, a), v_sub(x, a)))

typedef struct group_norm {
  const float *x, *weight, *bias; /* weight, bias NULL: absent */
  float *y;
  const uint16_t *x_16; /* instead of x; NULL: floats */
  uint16_t *y_16;
  float *room; /* for the floats of a piece, and of NEAR_ROWS rows */
  void (*narrow)(uint16_t *to, const float *from, int64_t n);
  int64_t samples, channels, groups, width, plane; /* width: channels of a group */
  int64_t fold; /* pixels that are one row of columns, where one alone fills too few vectors */
  double eps;
  kern_act_rows act; /* NULL: none */
  float a, b;
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
    float *y = g->y + lane * count + c * g->plane;
    for (int64_t i = 0, n; i < g->plane; i += n) {
      n = base_min_i64(g->plane - i, g->act ? NEAR : g->plane);
      affine_row(y + i, x + c * g->plane + i, n, center, scale, shift);
      if (g->act) g->act(y + i, n, 1, n, g->a, g->b);
    }
  }
}

/* Rows of `width` columns from element `at` of x on; *pitch: from one to the next. */
static const float *rows_of(const group_norm *g, int64_t at, int64_t rows, int64_t width, int64_t *pitch) {
  *pitch = g->channels;
  if (!g->x_16) return g->x + at;
  *pitch = width;
  if (width == g->channels) p_widen_row(g->room, g->x_16 + at, rows * width);
  else
    for (int64_t r = 0; r < rows; r++) p_widen_row(g->room + r * width, g->x_16 + at + r * g->channels, width);
  return g->room;
}

/* Mean and sum of squared distances from it over the plane, for `vectors` vectors of columns; of a single one `n`
 * lanes.
 */
V_INLINE void column_moments(const group_norm *g, int64_t offset, const int vectors, int64_t n, float *to_mean,
                             float *to_squares) {
  const int chains = vectors == 1 ? VECTORS : 1; /* of additions: rows take turns where there are no vectors to */
  vf mean[VECTORS], squares[VECTORS];
  V_FOR(u, vectors) mean[u] = squares[u] = v_zero();
  for (int64_t from = 0; from < g->plane; from += PIECE) {
    const int64_t rows = base_min_i64(g->plane - from, PIECE);
    int64_t pitch;
    const float *at = rows_of(g, offset + from * g->channels, rows, (vectors - 1) * V_LANES + n, &pitch), *row = at;
    const float part = (float)rows / (float)(from + rows);
    vf sum[VECTORS], spread[VECTORS];
    V_FOR(i, VECTORS) sum[i] = spread[i] = v_zero();
    int64_t k = 0;
    for (; k + chains <= rows; k += chains, row += chains * pitch) V_FOR(i, VECTORS) {
        const float *from_row = row + i / vectors * pitch;
        if (i % vectors == 0) __builtin_prefetch(from_row + AHEAD * pitch);
        sum[i] = v_add(sum[i], vectors == 1 ? row_load(from_row, n, v_zero()) : v_load(from_row + i * V_LANES));
      }
    for (; k < rows; k++, row += pitch) sum[0] = v_add(sum[0], row_load(row, n, v_zero()));
    if (chains > 1) sum[0] = v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3]));
    V_FOR(u, vectors) sum[u] = v_div(sum[u], v_set((float)rows));
    row = at;
    for (k = 0; k + chains <= rows; k += chains, row += chains * pitch) V_FOR(i, VECTORS) {
        const float *from_row = row + i / vectors * pitch;
        const vf d =
            v_sub(vectors == 1 ? row_load(from_row, n, v_zero()) : v_load(from_row + i * V_LANES), sum[i % vectors]);
        spread[i] = v_fma(d, d, spread[i]);
      }
    for (; k < rows; k++, row += pitch) {
      const vf d = v_sub(row_load(row, n, v_zero()), sum[0]);
      spread[0] = v_fma(d, d, spread[0]);
    }
    if (chains > 1) spread[0] = v_add(v_add(spread[0], spread[1]), v_add(spread[2], spread[3]));
    V_FOR(u, vectors) {
      const vf d = v_sub(sum[u], mean[u]);
      mean[u] = from ? v_fma(d, v_set(part), mean[u]) : sum[u];
      if (from) squares[u] = v_fma(v_mul(d, d), v_set((float)from * part), squares[u]);
      squares[u] = v_add(squares[u], spread[u]);
    }
  }
  V_FOR(u, vectors) {
    row_store(to_mean + u * V_LANES, mean[u], vectors == 1 ? n : V_LANES);
    row_store(to_squares + u * V_LANES, squares[u], vectors == 1 ? n : V_LANES);
  }
}

/* The moments of `count` columns as those of one (Chan's formula): they stand `step` apart, each is of `plane`
 * elements. The mean; *sum: the squares. */
static float join(const float *means, const float *squares, int64_t count, int64_t step, int64_t plane, float *sum) {
  float mean = 0;
  for (int64_t k = 0; k < count; k++) mean += means[k * step];
  mean /= (float)count;
  *sum = 0;
  for (int64_t k = 0; k < count; k++) {
    const float d = means[k * step] - mean;
    *sum += squares[k * step] + d * d * (float)plane;
  }
  return mean;
}

/* The moments of `width` channels, of which each row of `plane` had `fold` pixels. */
static void join_pixels(float *means, float *squares, int64_t width, int64_t fold, int64_t plane) {
  float sum;
  for (int64_t c = 0; c < width && fold > 1; c++) {
    means[c] = join(means + c, squares + c, fold, width, plane, &sum);
    squares[c] = sum;
  }
}

/* means[c], scale[c]: of the group of channel c; scale is 1 / its standard deviation. */
static void join_groups(const group_norm *g, float *means, float *squares, int64_t width) {
  float sum;
  for (int64_t c = 0; c < width; c += g->width) {
    const float mean = join(means + c, squares + c, g->width, 1, g->plane, &sum), scale = inverse_of(g, sum);
    for (int64_t k = 0; k < g->width; k++) {
      means[c + k] = mean;
      squares[c + k] = scale;
    }
  }
}

/* Columns of a row; y may be x. */
static void affine_columns(const float *x, const float *sums, int64_t width, float *y) {
  const float *center = sums, *scale = sums + width, *shift = sums + 2 * width;
  const int64_t whole = width - width % V_LANES, rest = width - whole;
  for (int64_t c = 0; c < whole; c += V_LANES)
    v_store(y + c, v_fma(v_sub(v_load(x + c), v_load(center + c)), v_load(scale + c), v_load(shift + c)));
  if (!rest) return;
  const vf d = v_sub(v_load_n(x + whole, rest), v_load_n(center + whole, rest));
  v_store_n(y + whole, v_fma(d, v_load_n(scale + whole, rest), v_load_n(shift + whole, rest)), rest);
}

/* Some rows from element `at` on; `sums`: centers, scales and shifts of the columns. */
static void finish_rows(const group_norm *g, int64_t at, int64_t rows, int64_t width, const float *sums) {
  int64_t pitch;
  const float *x = rows_of(g, at, rows, width, &pitch);
  float *y = g->y_16 ? g->room : g->y + at;
  const int64_t to_pitch = g->y_16 ? width : g->channels;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; !g->y_16 && c < width; c += 16) __builtin_prefetch(y + (r + AHEAD) * to_pitch + c, 1);
    affine_columns(x + r * pitch, sums, width, y + r * to_pitch);
  }
  if (g->act) g->act(y, to_pitch, rows, width, g->a, g->b);
  if (g->y_16 && width == g->channels) g->narrow(g->y_16 + at, y, rows * width);
  else
    for (int64_t r = 0; g->y_16 && r < rows; r++) g->narrow(g->y_16 + at + r * g->channels, y + r * width, width);
}

/* `rows`: g whose rows are of `fold` pixels; channels [first, first + width) of them from element `offset` on. */
static void all_moments(const group_norm *g, const group_norm *rows, int64_t offset, int64_t width, float *means,
                        float *squares) {
  const int64_t wide = width * g->fold;
  int64_t done = 0;
  for (; done + VECTORS * V_LANES <= wide; done += VECTORS * V_LANES)
    column_moments(rows, offset + done, VECTORS, V_LANES, means + done, squares + done);
  for (; done < wide; done += V_LANES)
    column_moments(rows, offset + done, 1, base_min_i64(V_LANES, wide - done), means + done, squares + done);
  join_pixels(means, squares, width, g->fold, rows->plane);
}

/* From the moments of groups to what each column takes: those of channels [first, first + width), `fold` times. */
static void scale_columns(const group_norm *g, int64_t first, int64_t width, float *sums) {
  const int64_t wide = width * g->fold;
  float *center = sums, *scale = sums + wide, *shift = sums + 2 * wide;
  for (int64_t c = 0; c < width; c++) {
    if (g->weight) scale[c] *= g->weight[first + c];
    shift[c] = g->bias ? g->bias[first + c] : 0;
  }
  for (int64_t c = width; c < wide; c++)
    center[c] = center[c - width], scale[c] = scale[c - width], shift[c] = shift[c - width];
}

/* g with rows of `fold` pixels, `plane` of these. */
static group_norm fold_rows(const group_norm *g, int64_t plane) {
  group_norm rows = *g;
  rows.channels *= g->fold;
  rows.plane = plane / g->fold;
  return rows;
}

/* Channels [first, first + width) of a sample, whole groups; `sums` has room for 3 * width * fold. */
static void groups_of_columns(const group_norm *g, int64_t sample, int64_t first, int64_t width, float *sums) {
  const int64_t offset = sample * g->plane * g->channels + first, wide = width * g->fold;
  const group_norm rows = fold_rows(g, g->plane);
  all_moments(g, &rows, offset, width, sums, sums + wide);
  join_groups(g, sums, sums + wide, width);
  scale_columns(g, first, width, sums);
  for (int64_t k = 0; k < rows.plane; k += NEAR_ROWS)
    finish_rows(&rows, offset + k * rows.channels, base_min_i64(NEAR_ROWS, rows.plane - k), wide, sums);
}

/* Pixels whose channels together fill the vectors of a row. */
static int64_t pixels_of_row(const group_norm *g) {
  const int64_t fold = VECTORS * V_LANES / g->channels;
  return fold > 0 && VECTORS * V_LANES % g->channels == 0 && g->plane % fold == 0 ? fold : 1;
}

/* ---- by parts ---- */

/* Room for the floats of a piece, and of NEAR_ROWS rows of `wide` columns, where x or the result is bf16. */
static td_status take_room(const base_call *call, group_norm *g, int64_t wide) {
  const int64_t piece = PIECE * VECTORS * V_LANES;
  if (!g->x_16 && !g->y_16) return TD_OK;
  g->room = base_call_scratch(call, (size_t)base_max_i64(piece, NEAR_ROWS * wide), sizeof *g->room);
  return g->room ? TD_OK : base_no_memory(call->err, "scratch");
}

td_status KERN_NAME(group_moments)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const int64_t channels = x->dims[x->rank - 1], parts = out->dims[1];
  if (base_tensor_numel(out) == 0) return TD_OK;
  group_norm g = {.x = x->data,
                  .x_16 = x->dtype == TD_BF16 ? x->data : NULL,
                  .samples = x->dims[0],
                  .channels = channels,
                  .plane = base_tensor_numel(x) / x->dims[0] / channels};
  g.fold = pixels_of_row(&g);
  float *sums = base_call_scratch(call, 2 * (size_t)(channels * g.fold), sizeof *sums);
  if (!sums) return base_no_memory(call->err, "scratch");
  TRY(take_room(call, &g, 0));
  const int64_t total = g.samples * parts;
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total)) {
    /* from back to front: what came last is still near, and the norm will begin with what comes last here */
    const int64_t at = total - 1 - task, part = at % parts, first = kern_moments_start(g.plane, parts, part);
    const group_norm rows = fold_rows(&g, kern_moments_start(g.plane, parts, part + 1) - first);
    float *to = (float *)out->data + at * 2 * channels;
    all_moments(&g, &rows, (at / parts * g.plane + first) * channels, channels, sums, sums + channels * g.fold);
    memcpy(to, sums, (size_t)channels * sizeof *to);
    memcpy(to + channels, sums + channels * g.fold, (size_t)channels * sizeof *to);
  }
  return TD_OK;
}

/* The moments of `lanes` channels of a sample from those of its parts, of so many pixels each (Chan's formula). */
V_INLINE void join_parts(const group_norm *g, const float *moments, const float *pixels, int64_t parts, int64_t lanes,
                         float *means, float *squares) {
  const int64_t step = 2 * g->channels;
  const float share = 1 / (float)g->plane;
  vf mean = v_zero(), sum = v_zero();
  for (int64_t i = 0; i < parts; i++)
    if (pixels[i] > 0) mean = v_fma(v_load_n(moments + i * step, lanes), v_set(pixels[i] * share), mean);
  for (int64_t i = 0; i < parts; i++) {
    if (pixels[i] <= 0) continue;
    const vf d = v_sub(v_load_n(moments + i * step, lanes), mean);
    sum = v_add(sum, v_load_n(moments + i * step + g->channels, lanes));
    sum = v_fma(v_mul(d, d), v_set(pixels[i]), sum);
  }
  v_store_n(means, mean, lanes);
  v_store_n(squares, sum, lanes);
}

static td_status run_parts(const base_call *call, group_norm *g) {
  const base_tensor *moments = base_in(call, 3);
  const int64_t parts = moments->dims[1];
  g->fold = pixels_of_row(g);
  const int64_t wide = g->channels * g->fold, total = g->samples * parts;
  float *sums = base_call_scratch(call, 3 * (size_t)wide, sizeof *sums);
  float *pixels = base_call_scratch(call, (size_t)parts, sizeof *pixels);
  if (!sums || !pixels) return base_no_memory(call->err, "scratch");
  TRY(take_room(call, g, wide));
  for (int64_t i = 0; i < parts; i++)
    pixels[i] = (float)(kern_moments_start(g->plane, parts, i + 1) - kern_moments_start(g->plane, parts, i));
  int64_t joined = -1; /* the sample whose sums are there */
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total)) {
    const int64_t sample = task / parts, first = kern_moments_start(g->plane, parts, task % parts);
    const group_norm rows = fold_rows(g, kern_moments_start(g->plane, parts, task % parts + 1) - first);
    if (sample != joined) {
      const float *from = (const float *)moments->data + sample * parts * 2 * g->channels;
      for (int64_t c = 0; c < g->channels; c += V_LANES)
        join_parts(g, from + c, pixels, parts, base_min_i64(V_LANES, g->channels - c), sums + c, sums + wide + c);
      join_groups(g, sums, sums + wide, g->channels);
      scale_columns(g, 0, g->channels, sums);
      joined = sample;
    }
    for (int64_t k = 0; k < rows.plane; k += NEAR_ROWS)
      finish_rows(&rows, (sample * g->plane + first) * g->channels + k * wide, base_min_i64(NEAR_ROWS, rows.plane - k),
                  wide, sums);
  }
  return TD_OK;
}

/* ---- all of it ---- */

static td_status run_columns(const base_call *call, group_norm *g) {
  const int64_t least = base_min_i64(g->channels, COLUMNS);
  int64_t joined = base_max_i64(1, (least + g->width - 1) / g->width), width = joined * g->width;
  int64_t blocks = (g->groups + joined - 1) / joined;
  g->fold = pixels_of_row(g);
  float *sums = base_call_scratch(call, 3 * (size_t)(width * g->fold), sizeof *sums);
  if (!sums) return base_no_memory(call->err, "scratch");
  TRY(take_room(call, g, g->fold * base_min_i64(width, g->channels)));
  uint32_t total = (uint32_t)(g->samples * blocks);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total)) {
    int64_t first = task % blocks * width;
    groups_of_columns(g, task / blocks, first, base_min_i64(width, g->channels - first), sums);
  }
  return TD_OK;
}

/* Operand 3, where there is one, is of x. */
static td_status check_moments(const base_call *call, bool last, int64_t channels) {
  const base_tensor *x = base_in(call, 0), *moments = base_in(call, 3);
  const bool fits = !moments || (last && moments->rank == 4 && moments->dims[0] == x->dims[0] && moments->dims[1] > 0 &&
                                 moments->dims[2] == 2 && moments->dims[3] == channels);
  return fits ? TD_OK : base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "operand 3 has no moments of operand 0");
}

td_status KERN_NAME(group_norm_by)(const base_call *call, void (*narrow)(uint16_t *to, const float *from, int64_t n)) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0), *weight = base_in(call, 1), *bias = base_in(call, 2);
  bool last = base_attr_int(call->attrs, KERN_GROUP_NORM_LAST);
  int64_t channels = x->dims[last ? x->rank - 1 : 1], groups = base_attr_int(call->attrs, KERN_GROUP_NORM_GROUPS), each;
  if (groups == 0) groups = channels;
  if (base_tensor_numel(x) == 0) return TD_OK;
  for (uint32_t i = 1; i <= 2; i++)
    if (base_in(call, i) && base_tensor_numel(base_in(call, i)) != channels)
      return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "operand %u does not fit %lld channels", i,
                       (long long)channels);
  TRY(check_moments(call, last, channels));
  if (groups < 1 || channels % groups)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "%lld channels do not make %lld groups", (long long)channels,
                     (long long)groups);
  const kern_act_of act = kern_act_at(call->attrs, KERN_GROUP_NORM_ACT);
  const kern_act_rows *acts = y->dtype == TD_BF16 ? KERN_NAME(act_rows_near) : KERN_NAME(act_rows);
  group_norm g = {.x = x->data,
                  .weight = weight ? weight->data : NULL,
                  .bias = bias ? bias->data : NULL,
                  .y = y->data,
                  .x_16 = x->dtype == TD_BF16 ? x->data : NULL,
                  .y_16 = y->dtype == TD_BF16 ? y->data : NULL,
                  .narrow = narrow,
                  .samples = x->dims[0],
                  .channels = channels,
                  .groups = groups,
                  .width = channels / groups,
                  .plane = base_tensor_numel(x) / x->dims[0] / channels,
                  .eps = base_attr_float(call->attrs, KERN_GROUP_NORM_EPS),
                  .act = act.act == KERN_ACT_none ? NULL : acts[act.act],
                  .a = act.a,
                  .b = act.b};
  if (last) return base_in(call, 3) ? run_parts(call, &g) : run_columns(call, &g);
  uint32_t total = row_tasks(g.samples * groups, g.width * g.plane, call->workers, &each);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total))
    for (int64_t lane = task * each; lane < base_min_i64(g.samples * groups, (task + 1) * each); lane++)
      group_of_rows(&g, lane);
  return TD_OK;
}

td_status KERN_NAME(group_norm)(const base_call *call) { return KERN_NAME(group_norm_by)(call, NULL); }
