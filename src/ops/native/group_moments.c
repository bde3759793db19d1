/* group_moments.c -- td::group_moments, which a pass puts in front of group norms of large images, so that many threads
 * share each: x [n, plane..., c], f32 or bf16, gives [n, parts, 2, c]: of each part of the plane (kern_moments_start)
 * and each channel
 *
 *     mean = sum of x / count;  squares = sum of (x - mean)^2
 */
#include "kernels/rows/rows.h"
#include "ops/common/epilogue_priv.h"
#include "ops/common/ops_priv.h"

static const ir_attr attrs[] = {KERN_MOMENTS_LIST(OPS_ATTR_ROW)};

static td_status infer(ir_infer *ctx) {
  enum { MOST_PARTS = 1 << 20 };
  const ir_type *x = &ir_in(ctx, 0)->type;
  const int64_t parts = base_attr_int(ctx->attrs, KERN_MOMENTS_PARTS);
  if (x->rank == IR_UNRANKED || x->rank < 2) return ir_infer_fail(ctx, "an image has channels");
  if (x->dtype != TD_F32 && x->dtype != TD_BF16) return ir_infer_fail(ctx, "an image of %s", td_dtype_name(x->dtype));
  if (parts < 1 || parts > MOST_PARTS) return ir_infer_fail(ctx, "there are %lld parts", (long long)parts);
  const base_dim dims[] = {x->dims[0], parts, 2, x->dims[x->rank - 1]};
  return ir_out(ctx, 0, TD_F32, 4, dims);
}

static td_status reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  const int64_t channels = x->dims[x->rank - 1], parts = out->dims[1];
  if (base_tensor_numel(out) == 0) return TD_OK;
  const int64_t plane = base_tensor_numel(x) / x->dims[0] / channels;
  const base_f32 *from = ops_dense_f32(call, 0);
  if (!from) return base_no_memory(call->err, "scratch");
  float *to = out->data;
  for (int64_t at = 0; at < x->dims[0] * parts; at++, to += 2 * channels) {
    const int64_t first = kern_moments_start(plane, parts, at % parts);
    const int64_t count = kern_moments_start(plane, parts, at % parts + 1) - first;
    const base_f32 *rows = from + (at / parts * plane + first) * channels;
    for (int64_t c = 0; c < channels; c++) {
      double mean = 0, squares = 0;
      for (int64_t i = 0; i < count; i++) mean += (double)rows[i * channels + c] / (double)count;
      for (int64_t i = 0; i < count; i++) {
        const double d = (double)rows[i * channels + c] - mean;
        squares += d * d;
      }
      to[c] = (float)mean;
      to[channels + c] = (float)squares;
    }
  }
  return TD_OK;
}

static const kern_row *kernel_of(const ir_kernel_query *query) {
  return kern_select(KERN_GROUP_MOMENTS, query->in[0]->type.dtype, query->isa);
}

static double flops(const ir_info *const *in, const ir_info *out, const base_attrs *at) {
  double n = 4;
  (void)out;
  (void)at;
  for (int32_t i = 0; i < in[0]->type.rank; i++)
    if (base_dim_known(in[0]->type.dims[i])) n *= (double)in[0]->type.dims[i];
  return n;
}

static bool cases(ir_case *c, uint32_t number) {
  static const struct {
    int64_t dims[4], parts;
  } rows[] = {{{2, 8, 8, 32}, 3},  {{1, 9, 7, 40}, 4},    {{2, 5, 1, 131}, 7},  {{1, 40, 48, 16}, 5},
              {{3, 3, 3, 2}, 16},  {{1, 16, 12, 1}, 2},   {{1, 20, 20, 64}, 6}, {{0, 3, 3, 4}, 2},
              {{2, 1, 1, 300}, 1}, {{1, 24, 32, 128}, 11}};
  if (number >= 2 * OPS_COUNT(rows)) return false;
  ops_case_arg(c, ARG_INT("parts", rows[number / 2].parts));
  return ops_case_in(c, TD_F32, 4, rows[number / 2].dims, OPS_NORMAL, number) &&
         ops_case_bf16(c, number % 2 ? BF16_X : 0, 0);
}

OPS_DECLARE(group_moments);
const ir_op ops_group_moments[] = {
    {.id = OPERATOR(td, group_moments),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .attrs = attrs,
     .attr_count = OPS_COUNT(attrs),
     .by_sample = 1,
     .infer = infer,
     .reference = reference,
     .kernel = kernel_of,
     .flops = flops,
     .rtol = 1e-5f,
     .atol = 1e-4f},
};
OPS_TABLE(group_moments);
OPS_CASES(group_moments) = {{OP_td_group_moments, cases}, {0}};
