/* signal.c -- Fourier transforms (td::dft, td::stft), window functions (td::window) and mel filters (td::mel_weights),
 * with ONNX's operands, and a table for their kernels behind them. A complex number is a last axis of 2. Computed in
 * double by a mixed-radix transform (Cooley and Tukey 1965): O(n times the sum of n's prime factors).
 *
 *     td::dft          X[k] = sum over n of x[n] exp(-2 pi i k n / N); inverse: exp(+..) / N (ONNX DFT 17)
 *     td::stft         the DFT of window[n] x[frame step + n] (ONNX STFT 17)
 *     td::window       a0 - a1 cos(2 pi k / N) + a2 cos(4 pi k / N): Hann, Hamming, Blackman (ONNX HannWindow 17,
 *                      ...)
 *     td::mel_weights  triangles between frequencies equally far apart in 2595 log10(1 + f / 700) (ONNX
 *                      MelWeightMatrix 17) */
#include "kernels/rows/rows.h"
#include "kernels/kernels.h"
#include "ops/common/ops_priv.h"

#include <math.h>

static td_status transform_open(const base_call *call, int64_t n, bool inverse, kern_fourier_plain *t) {
  kern_complex *room = base_call_scratch(call, (size_t)n, 4 * sizeof *room);
  if (!room) return base_no_memory(call->err, "scratch");
  *t = kern_fourier_open(n, inverse, room);
  return TD_OK;
}

/* ---- td::dft(x [..., 1 or 2], [length], [axis], [table]) ---- */

static const ir_attr dft_attrs[] = {KERN_DFT_LIST(OPS_ATTR_ROW)};

/* The axis: the operand, or the last but one. */
static td_status infer_axis(ir_infer *ctx, int32_t rank, int32_t *axis, bool *known) {
  int64_t value = -2;
  *known = !ir_in(ctx, 2) || ir_in_int(ctx, 2, &value);
  if (!*known) return TD_OK;
  TRY(ir_axis(ctx, value, rank, axis));
  return *axis == rank - 1 ? ir_infer_fail(ctx, "the last axis holds real and imaginary parts") : TD_OK;
}

static td_status infer_dft(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  bool inverse = base_attr_int(ctx->attrs, KERN_DFT_INVERSE), onesided = base_attr_int(ctx->attrs, KERN_DFT_ONESIDED),
       known;
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, x->dtype);
  if (x->rank < 2) return ir_infer_fail(ctx, "an operand of rank %d", x->rank);
  int32_t axis = 0;
  TRY(infer_axis(ctx, x->rank, &axis, &known));
  base_dim dims[BASE_MAX_RANK];
  for (int32_t i = 0; i + 1 < x->rank; i++) dims[i] = known ? x->dims[i] : ir_fresh(ctx);
  dims[x->rank - 1] = inverse && onesided ? 1 : 2;
  if (!known) return ir_out(ctx, 0, x->dtype, x->rank, dims);
  const base_dim *length;
  uint32_t count;
  base_dim n = dims[axis];
  if (inverse && onesided) n = base_dim_mul(ctx->dims, base_dim_sub(ctx->dims, n, 1), 2);
  if (ir_in(ctx, 1)) n = ir_in_ints(ctx, 1, &length, &count) && count == 1 ? length[0] : ir_fresh(ctx);
  if (base_dim_known(n) && n < 1) return ir_infer_fail(ctx, "a transform of %lld elements", (long long)n);
  dims[axis] = onesided && !inverse ? base_dim_add(ctx->dims, base_dim_div(ctx->dims, n, 2), 1) : n;
  return ir_out(ctx, 0, x->dtype, x->rank, dims);
}

/* Reads `count` complex numbers (parts 1: real), `step` elements apart; the rest up to n is zero. */
static void load_signal(const base_f64 *from, int64_t step, int64_t parts, int64_t count, kern_fourier_plain *t) {
  for (int64_t k = 0; k < t->n; k++) {
    bool inside = k < count;
    t->in[k] = (kern_complex){inside ? from[k * step] : 0, inside && parts == 2 ? from[k * step + 1] : 0};
  }
}

/* Of a real signal the mean and the highest frequency are real: their imaginary parts are 0, not some -0 or rounding.
 */
static void make_real(const kern_fourier_plain *t) {
  t->out[0].im = 0;
  if (t->n % 2 == 0) t->out[t->n / 2].im = 0;
}

/* The other half of the spectrum of a real signal. */
static void mirror(kern_fourier_plain *t) {
  for (int64_t k = t->n / 2 + 1; k < t->n; k++) t->in[k] = (kern_complex){t->in[t->n - k].re, -t->in[t->n - k].im};
}

static td_status dft_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  bool inverse = base_attr_int(call->attrs, KERN_DFT_INVERSE), onesided = base_attr_int(call->attrs, KERN_DFT_ONESIDED);
  int64_t number = -2, n, parts = x->dims[x->rank - 1], y_parts = y->dims[y->rank - 1], inner = 1, outer = 1;
  uint32_t count;
  if (base_in(call, 2)) TRY(ops_read_ints(call, 2, 1, &number, &count));
  int64_t axis = number < 0 ? number + x->rank : number, in_size = x->dims[axis], out_size = y->dims[axis];
  n = inverse && onesided ? 2 * (in_size - 1) : in_size;
  if (base_in(call, 1)) TRY(ops_read_ints(call, 1, 1, &n, &count));
  if (n < 1 || (parts != 1 && parts != 2))
    return ops_fail(call, "%lld elements of %lld parts", (long long)n, (long long)parts);
  if (base_tensor_numel(y) == 0) return TD_OK;
  for (int64_t i = 0; i < axis; i++) outer *= x->dims[i];
  for (int64_t i = axis + 1; i + 1 < x->rank; i++) inner *= x->dims[i];
  const base_f64 *from = ops_dense_f64(call, 0);
  base_f64 *to = ops_take_f64(call, 0);
  kern_fourier_plain t;
  if (!from || !to) return base_no_memory(call->err, "scratch");
  TRY(transform_open(call, n, inverse, &t));
  double scale = inverse ? 1 / (double)n : 1;
  for (int64_t i = 0; i < outer * inner; i++) {
    load_signal(from + (i / inner * in_size * inner + i % inner) * parts, inner * parts, parts,
                base_min_i64(in_size, n), &t);
    if (inverse && onesided) mirror(&t);
    kern_fourier_run(&t);
    if (parts == 1 && !inverse) make_real(&t);
    base_f64 *row = to + (i / inner * out_size * inner + i % inner) * y_parts;
    for (int64_t k = 0; k < out_size; k++) {
      row[k * inner * y_parts] = t.out[k].re * scale;
      if (y_parts == 2) row[k * inner * y_parts + 1] = t.out[k].im * scale;
    }
  }
  ops_put(call, 0, TD_F64, to);
  return TD_OK;
}

/* Multiplications and additions of `numbers` floats in transforms of n elements. */
static double transform_flops(double numbers, base_dim n) {
  return base_dim_known(n) && n > 1 ? 2.5 * numbers * log2((double)n) : 0;
}

static double floats_of(const ir_type *t) {
  double count = 1;
  for (int32_t i = 0; i < t->rank; i++) count *= base_dim_known(t->dims[i]) ? (double)t->dims[i] : 1;
  return count;
}

static double dft_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  const ir_type *x = &in[0]->type, *y = &out->type;
  const base_tensor *given = in[KERN_DFT_AXIS] ? in[KERN_DFT_AXIS]->constant : NULL;
  const int64_t number = given && base_tensor_numel(given) == 1 ? base_load_i64(given->dtype, given->data, 0) : -2,
                axis = number < 0 ? number + y->rank : number;
  if (x->rank < 2 || axis < 0 || axis >= y->rank) return 0;
  return transform_flops(fmax(floats_of(x), floats_of(y)),
                         base_attr_int(attrs, KERN_DFT_INVERSE) ? y->dims[axis] : x->dims[axis]);
}

static const kern_row *dft_kernel(const ir_kernel_query *q) {
  return q->in[0]->type.dtype == TD_F32 ? kern_select(KERN_DFT, TD_F32, q->isa) : NULL;
}

/* Lengths by their factors, one of each way to do them; rows that fill vectors, and do not. */
static const struct {
  int64_t n, rows, inner;
} dft_shapes[] = {{1, 3, 1},  {2, 17, 1}, {3, 1, 5},  {4, 5, 16},  {6, 0, 1},   {7, 2, 1},    {8, 33, 1},
                  {10, 2, 3}, {15, 1, 1}, {16, 4, 9}, {30, 18, 1}, {37, 3, 1},  {48, 1, 20},  {62, 2, 1},
                  {64, 1, 1}, {74, 2, 1}, {81, 1, 1}, {96, 2, 17}, {100, 1, 1}, {4104, 1, 1}, {1034, 1, 2}};
enum { DFT_WAYS = 7 };

static bool cases_dft(ir_case *c, uint32_t number) {
  if (number >= DFT_WAYS * OPS_COUNT(dft_shapes)) return false;
  const uint32_t way = number % DFT_WAYS;
  const int64_t n = dft_shapes[number / DFT_WAYS].n;
  const bool inverse = way == 1 || way == 3 || way == 5, onesided = way >= 2 && way <= 5, real = way == 2 || way == 4;
  const bool given = way >= 4; /* more than there is, and less */
  const int64_t axis = 1,
                length[] = {given && way % 2 ? n
                            : way == 4       ? n + 3
                                             : base_max_i64(n - 1, 1)},
                dims[] = {dft_shapes[number / DFT_WAYS].rows, inverse && onesided ? n / 2 + 1 : n,
                          dft_shapes[number / DFT_WAYS].inner, real ? 1 : 2};
  if (inverse && onesided && !given && dims[1] < 2) return cases_dft(c, number - 1);
  ops_case_arg(c, ARG_BOOL("inverse", inverse));
  ops_case_arg(c, ARG_BOOL("onesided", onesided));
  if (!ops_case_in(c, TD_F32, 4, dims, OPS_NORMAL, number)) return false;
  if (given ? !ops_case_ints(c, length, 1) : !ops_case_absent(c)) return false;
  return ops_case_ints(c, &axis, 1);
}

/* ---- td::stft(signal [batch, length, 1 or 2], step, [window], [frame length], [table]) ---- */

static const ir_attr stft_attrs[] = {KERN_STFT_LIST(OPS_ATTR_ROW)};

/* Frame length as a size: the operand, the window's, or unknown. */
static base_dim frame_length(ir_infer *ctx) {
  const base_dim *ints;
  uint32_t count;
  if (ir_in(ctx, 3)) return ir_in_ints(ctx, 3, &ints, &count) && count == 1 ? ints[0] : ir_fresh(ctx);
  return ir_in(ctx, 2)->type.rank == 1 ? ir_in(ctx, 2)->type.dims[0] : ir_fresh(ctx);
}

static td_status infer_stft(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type;
  if (x->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, x->dtype);
  if (x->rank != 3 && x->rank != 2) return ir_infer_fail(ctx, "a signal of rank %d", x->rank);
  if (!ir_in(ctx, 2) && !ir_in(ctx, 3)) return ir_infer_fail(ctx, "neither a window nor a frame length is given");
  const base_dim *step;
  uint32_t count;
  base_dim n = frame_length(ctx), frames = BASE_DIM_NONE;
  if (base_dim_known(n) && n < 1) return ir_infer_fail(ctx, "frames of %lld elements", (long long)n);
  bool known = ir_in_ints(ctx, 1, &step, &count) && count == 1;
  if (known && base_dim_known(step[0]) && step[0] < 1) return ir_infer_fail(ctx, "a step of %lld", (long long)step[0]);
  if (known)
    frames = base_dim_add(ctx->dims, base_dim_div(ctx->dims, base_dim_sub(ctx->dims, x->dims[1], n), step[0]), 1);
  else frames = ir_fresh(ctx);
  base_dim bins =
      base_attr_int(ctx->attrs, KERN_STFT_ONESIDED) ? base_dim_add(ctx->dims, base_dim_div(ctx->dims, n, 2), 1) : n;
  return ir_out(ctx, 0, x->dtype, 4, (base_dim[]){x->dims[0], frames, bins, 2});
}

static td_status stft_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0), *w = base_in(call, 2);
  int64_t step = 0, n = w ? base_tensor_numel(w) : 0, parts = x->rank == 3 ? x->dims[2] : 1, length = x->dims[1];
  uint32_t count;
  TRY(ops_read_ints(call, 1, 1, &step, &count));
  if (base_in(call, 3)) TRY(ops_read_ints(call, 3, 1, &n, &count));
  if (n < 1 || step < 1 || (parts != 1 && parts != 2))
    return ops_fail(call, "frames of %lld elements, a hop of %lld", (long long)n, (long long)step);
  if (w && base_tensor_numel(w) != n)
    return ops_fail(call, "the window has %lld elements, a frame %lld", (long long)base_tensor_numel(w), (long long)n);
  const base_f64 *from = ops_dense_f64(call, 0), *window = ops_dense_f64(call, 2);
  base_f64 *to = ops_take_f64(call, 0);
  kern_fourier_plain t;
  if (!from || !to || (w && !window)) return base_no_memory(call->err, "scratch");
  TRY(transform_open(call, n, false, &t));
  if (base_tensor_numel(y) == 0) return TD_OK;
  int64_t frames = y->dims[1], bins = y->dims[2];
  for (int64_t i = 0; i < y->dims[0] * frames; i++) {
    int64_t start = i % frames * step;
    load_signal(from + (i / frames * length + start) * parts, parts, parts, base_min_i64(n, length - start), &t);
    for (int64_t k = 0; w && k < n; k++) t.in[k] = (kern_complex){t.in[k].re * window[k], t.in[k].im * window[k]};
    kern_fourier_run(&t);
    if (parts == 1) make_real(&t);
    for (int64_t k = 0; k < bins; k++) {
      to[(i * bins + k) * 2] = t.out[k].re;
      to[(i * bins + k) * 2 + 1] = t.out[k].im;
    }
  }
  ops_put(call, 0, TD_F64, to);
  return TD_OK;
}

static double stft_flops(const ir_info *const *in, const ir_info *out, const base_attrs *attrs) {
  (void)in;
  const base_dim bins = out->type.rank == 4 ? out->type.dims[2] : BASE_DIM_NONE;
  return transform_flops(floats_of(&out->type), bins) * (base_attr_int(attrs, KERN_STFT_ONESIDED) ? 1 : 0.5);
}

static const kern_row *stft_kernel(const ir_kernel_query *q) {
  const ir_type *window =
      q->in_count > KERN_STFT_WINDOW && q->in[KERN_STFT_WINDOW] ? &q->in[KERN_STFT_WINDOW]->type : NULL;
  if (q->in[0]->type.dtype != TD_F32 || (window && window->dtype != TD_F32)) return NULL;
  return kern_select(KERN_STFT, TD_F32, q->isa);
}

static bool cases_stft(ir_case *c, uint32_t number) {
  static const int64_t lengths[] = {8, 9, 13, 37, 20};
  const int64_t step[] = {3}, parts = number % 4 == 3 ? 2 : 1, *n = &lengths[number / 4];
  if (number >= 4 * OPS_COUNT(lengths)) return false;
  ops_case_arg(c, ARG_BOOL("onesided", number % 2 == 0));
  if (!ops_case_in(c, TD_F32, OPS_DIMS(2, *n + 30, parts), OPS_NORMAL, 1) || !ops_case_ints(c, step, 1)) return false;
  if (number % 4) return ops_case_in(c, TD_F32, OPS_DIMS(*n), OPS_UNIT, 2);
  return ops_case_absent(c) && ops_case_ints(c, n, 1);
}

/* ---- td::window(size): a0 - a1 cos(2 pi k / n) + a2 cos(4 pi k / n) ---- */

enum { PERIODIC, A0, A1, A2, WINDOW_DTYPE };
static const ir_attr window_attrs[] = {ATTR_BOOL("periodic", true), ATTR_FLOAT("a0", 0.5), ATTR_FLOAT("a1", 0.5),
                                       ATTR_FLOAT("a2", 0), ATTR_DTYPE("dtype")};

static td_status infer_window(ir_infer *ctx) {
  const base_dim *size;
  uint32_t count;
  bool known = ir_in_ints(ctx, 0, &size, &count) && count == 1;
  base_dim dims[] = {known ? size[0] : ir_fresh(ctx)};
  return ir_out(ctx, 0, (td_dtype)base_attr_int(ctx->attrs, WINDOW_DTYPE), 1, dims);
}

static td_status window_reference(const base_call *call) {
  const base_tensor *y = base_out(call, 0);
  int64_t size = y->dims[0], n = base_attr_int(call->attrs, PERIODIC) ? size : base_max_i64(size - 1, 1);
  double a0 = base_attr_float(call->attrs, A0), a1 = base_attr_float(call->attrs, A1),
         a2 = base_attr_float(call->attrs, A2);
  for (int64_t k = 0; k < size; k++) {
    double angle = 2 * 3.14159265358979323846 * (double)k / (double)n;
    base_store_f64(y->dtype, y->data, k, a0 - a1 * cos(angle) + a2 * cos(2 * angle));
  }
  return TD_OK;
}

static bool cases_window(ir_case *c, uint32_t number) {
  static const int64_t sizes[] = {0, 1, 7, 10};
  if (number >= 8) return false;
  ops_case_arg(c, ARG_BOOL("periodic", number % 2));
  ops_case_arg(c, ARG_DTYPE("dtype", TD_F32));
  return ops_case_ints(c, &sizes[number / 2], 1);
}

/* ---- td::mel_weights(bins, transform length, sample rate, lowest, highest frequency): triangles on the mel scale ----
 */

static const ir_attr mel_attrs[] = {ATTR_DTYPE("dtype")};

static td_status infer_mel(ir_infer *ctx) {
  const base_dim *bins, *length;
  uint32_t bin_count, length_count;
  bool known = ir_in_ints(ctx, 0, &bins, &bin_count) && ir_in_ints(ctx, 1, &length, &length_count) && bin_count == 1 &&
               length_count == 1;
  base_dim dims[2];
  dims[0] = known ? base_dim_add(ctx->dims, base_dim_div(ctx->dims, length[0], 2), 1) : ir_fresh(ctx);
  dims[1] = known ? bins[0] : ir_fresh(ctx);
  return ir_out(ctx, 0, (td_dtype)base_attr_int(ctx->attrs, 0), 2, dims);
}

static double mel_number(const base_call *call, uint32_t i) {
  const base_tensor *t = base_in(call, i);
  return base_tensor_numel(t) == 1 ? base_load_f64(t->dtype, t->data, 0) : NAN;
}

static void mel_put(const base_tensor *y, double row, int64_t column, double value) {
  if (row >= 0 && row < (double)y->dims[0])
    base_store_f64(y->dtype, y->data, (int64_t)row * y->dims[1] + column, value);
}

static td_status mel_reference(const base_call *call) {
  const base_tensor *y = base_out(call, 0);
  int64_t bins = y->dims[1], count = base_tensor_numel(y);
  double rows = (double)y->dims[0];
  double length = mel_number(call, 1), rate = mel_number(call, 2), low = mel_number(call, 3),
         high = mel_number(call, 4);
  if (!(rate > 0) || !(low >= 0) || !(high >= low))
    return ops_fail(call, "frequencies and sample rate are out of range");
  double low_mel = 2595 * log10(1 + low / 700), step = (2595 * log10(1 + high / 700) - low_mel) / (double)(bins + 2);
  if (count == 0) return TD_OK;
  for (int64_t k = 0; k < count; k++) base_store_f64(y->dtype, y->data, k, 0);
  for (int64_t i = 0; i < bins; i++) {
    double edge[3];
    for (int k = 0; k < 3; k++) {
      double hertz = 700 * (pow(10, ((double)(i + k) * step + low_mel) / 2595) - 1);
      edge[k] = floor((length + 1) * hertz / rate);
      if (!(edge[k] < 1e9)) return ops_fail(call, "a frequency is out of range");
    }
    if (edge[1] == edge[0]) mel_put(y, edge[1], i, 1);
    for (double j = edge[0]; edge[1] > edge[0] && j <= edge[1] && j < rows; j++)
      mel_put(y, j, i, (j - edge[0]) / (edge[1] - edge[0]));
    for (double j = edge[1]; j < edge[2] && j < rows; j++) mel_put(y, j, i, (edge[2] - j) / (edge[2] - edge[1]));
  }
  return TD_OK;
}

static bool cases_mel(ir_case *c, uint32_t number) {
  static const int64_t bins[] = {8}, length[] = {16}, rate[] = {8192};
  static const double edges[] = {0, 4096};
  if (number >= 1) return false;
  ops_case_arg(c, ARG_DTYPE("dtype", TD_F32));
  if (!ops_case_ints(c, bins, 1) || !ops_case_ints(c, length, 1) || !ops_case_ints(c, rate, 1)) return false;
  for (int k = 0; k < 2; k++) {
    if (!ops_case_in(c, TD_F32, 0, NULL, OPS_UNIT, 1)) return false;
    base_store_f64(TD_F32, c->in[3 + k].data, 0, edges[k]);
  }
  return true;
}

OPS_DECLARE(signal);
const ir_op ops_signal[] = {
    {.id = OPERATOR(td, dft),
     .min_in = 1,
     .max_in = 4,
     .out_count = 1,
     .attrs = dft_attrs,
     .attr_count = OPS_COUNT(dft_attrs),
     .infer = infer_dft,
     .reference = dft_reference,
     .kernel = dft_kernel,
     .flops = dft_flops,
     .rtol = 1e-4f,
     .atol = 1e-4f},
    {.id = OPERATOR(td, stft),
     .min_in = 2,
     .max_in = 5,
     .out_count = 1,
     .attrs = stft_attrs,
     .attr_count = OPS_COUNT(stft_attrs),
     .infer = infer_stft,
     .reference = stft_reference,
     .kernel = stft_kernel,
     .flops = stft_flops,
     .rtol = 1e-4f,
     .atol = 1e-4f},
    {.id = OPERATOR(td, window),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = window_attrs,
     .attr_count = OPS_COUNT(window_attrs),
     .infer = infer_window,
     .reference = window_reference,
     .rtol = 1e-5f,
     .atol = 1e-6f},
    {.id = OPERATOR(td, mel_weights),
     .min_in = 5,
     .max_in = 5,
     .out_count = 1,
     .attrs = mel_attrs,
     .attr_count = OPS_COUNT(mel_attrs),
     .infer = infer_mel,
     .reference = mel_reference,
     .rtol = 1e-5f,
     .atol = 1e-6f},
};
OPS_TABLE(signal);
OPS_CASES(signal) = {
    {OP_td_dft, cases_dft}, {OP_td_stft, cases_stft}, {OP_td_window, cases_window}, {OP_td_mel_weights, cases_mel}, {0},
};
