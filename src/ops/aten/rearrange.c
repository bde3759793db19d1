/* rearrange.c -- fixed rearrangements: blocks between depth and space, reversed sequences, centred crops, columns to an
 * image.
 *
 *     td::depth_to_space, space_to_depth  [N, b b C, H, W] <-> [N, C, b H, b W] (ONNX 1)
 *     td::reverse_sequence                y[t] = x[length - 1 - t] below the length, else x[t] (ONNX ReverseSequence
 *                                         10)
 *     td::center_crop_pad                 the middle of x, or x in the middle of zeros (ONNX CenterCropPad 18)
 *     aten::col2im                        sum of all columns' windows where they lie in the image (ONNX Col2Im 18) */
#include "kernels/data/data.h"
#include "ops/common/kernel_priv.h"
#include "ops/common/move_priv.h"
#include "base/size.h"

#include <string.h>

enum { REVERSE_BATCH_AXIS, REVERSE_TIME_AXIS };
enum { CENTER_AXES };
enum { COLUMNS_DILATIONS, COLUMNS_PADS, COLUMNS_STRIDES };

static const ir_attr block_attrs[] = {KERN_BLOCKS_LIST(OPS_ATTR_ROW)};
static const ir_attr reverse_attrs[] = {ATTR_INT("batch_axis", 1), ATTR_INT("time_axis", 0)};
static const ir_attr center_attrs[] = {ATTR_OPTIONAL("axes", BASE_ATTR_INTS)};
static const ir_attr columns_attrs[] = {ATTR_INTS("dilations"), ATTR_INTS("pads"), ATTR_INTS("strides")};

/* ---- depth and space ---- */

/* Divides, where it is known whether that comes out even. */
static td_status exact(ir_infer *ctx, base_dim a, int64_t b, base_dim *result) {
  if (base_dim_known(a) && a % b)
    return ir_infer_fail(ctx, "a size of %lld does not divide by %lld", (long long)a, (long long)b);
  *result = base_dim_div(ctx->dims, a, b);
  return TD_OK;
}

static td_status infer_blocks(ir_infer *ctx, bool to_space) {
  ir_type type = ctx->in[0]->type;
  int64_t block = base_attr_int(ctx->attrs, KERN_BLOCKS_SIZE);
  const char *mode = base_attr_str(ctx->attrs, KERN_BLOCKS_MODE);
  if (strcmp(mode, "DCR") != 0 && strcmp(mode, "CRD") != 0) return ir_infer_fail(ctx, "there is no mode \"%s\"", mode);
  if (block < 1 || block > INT16_MAX) return ir_infer_fail(ctx, "a block size of %lld", (long long)block);
  if (type.rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, type.dtype);
  if (type.rank != 4) return ir_infer_fail(ctx, "the input has rank %d, not 4", type.rank);
  if (to_space) {
    TRY(exact(ctx, type.dims[1], block * block, &type.dims[1]));
    for (int i = 2; i < 4; i++) type.dims[i] = base_dim_mul(ctx->dims, type.dims[i], block);
  } else {
    type.dims[1] = base_dim_mul(ctx->dims, type.dims[1], block * block);
    for (int i = 2; i < 4; i++) TRY(exact(ctx, type.dims[i], block, &type.dims[i]));
  }
  return ir_out(ctx, 0, type.dtype, type.rank, type.dims);
}

static td_status infer_to_space(ir_infer *ctx) { return infer_blocks(ctx, true); }
static td_status infer_to_depth(ir_infer *ctx) { return infer_blocks(ctx, false); }

static td_status move_blocks(const base_call *call, bool to_space) {
  base_tensor to, from;
  TRY(kern_blocks_of(call, to_space, &to, &from));
  ops_move(&to, 0, &from, 0);
  return TD_OK;
}

static const kern_row *to_space_kernel(const ir_kernel_query *query) {
  return kern_select(KERN_DEPTH_TO_SPACE, query->in[0]->type.dtype, query->isa);
}
static const kern_row *to_depth_kernel(const ir_kernel_query *query) {
  return kern_select(KERN_SPACE_TO_DEPTH, query->in[0]->type.dtype, query->isa);
}

static td_status to_space_reference(const base_call *call) { return move_blocks(call, true); }
static td_status to_depth_reference(const base_call *call) { return move_blocks(call, false); }

/* ---- reversed sequences ---- */

static td_status infer_reverse(ir_infer *ctx) {
  int32_t rank = ctx->in[0]->type.rank, batch, time;
  if (rank == IR_UNRANKED) return ops_infer_same(ctx);
  TRY(ir_axis(ctx, base_attr_int(ctx->attrs, REVERSE_BATCH_AXIS), rank, &batch));
  TRY(ir_axis(ctx, base_attr_int(ctx->attrs, REVERSE_TIME_AXIS), rank, &time));
  if (batch == time) return ir_infer_fail(ctx, "the batch axis and the time axis are the same");
  return ops_infer_same(ctx);
}

static td_status reverse_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  int64_t batch = base_attr_int(call->attrs, REVERSE_BATCH_AXIS), time = base_attr_int(call->attrs, REVERSE_TIME_AXIS);
  if (batch < 0) batch += x->rank;
  if (time < 0) time += x->rank;
  const base_i64 *lengths = ops_dense_i64(call, 1);
  if (!lengths) return base_no_memory(call->err, "scratch");
  if (base_tensor_numel(base_in(call, 1)) != x->dims[batch])
    return ops_fail(call, "there must be a length for each sample");
  if (base_tensor_numel(out) == 0) return TD_OK;
  base_tensor to = *out, from = *x;
  to.dims[batch] = 1;
  for (int64_t b = 0; b < x->dims[batch]; b++) {
    int64_t length = lengths[b], size = x->dims[time];
    if (length < 0 || length > size)
      return ops_fail(call, "a length of %lld where there are %lld steps", (long long)length, (long long)size);
    to.dims[time] = length;
    from.strides[time] = -x->strides[time];
    if (length) ops_move(&to, b * out->strides[batch], &from, b * x->strides[batch] + (length - 1) * x->strides[time]);
    to.dims[time] = size - length;
    from.strides[time] = x->strides[time];
    ops_move(&to, b * out->strides[batch] + length * out->strides[time], &from,
             b * x->strides[batch] + length * x->strides[time]);
  }
  return TD_OK;
}

/* ---- centred crop or pad ---- */

static td_status infer_center(ir_infer *ctx) {
  ir_type type = ctx->in[0]->type;
  const base_dim *shape = NULL;
  uint32_t count, axis_count;
  const int64_t *axes = base_attr_ints(ctx->attrs, CENTER_AXES, &axis_count);
  bool some = base_attr_has(ctx->attrs, CENTER_AXES), known = ir_in_ints(ctx, 1, &shape, &count);
  if (type.rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, type.dtype);
  if (!some) axis_count = (uint32_t)type.rank;
  if (known && count != axis_count) return ir_infer_fail(ctx, "%u sizes for %u axes", count, axis_count);
  for (uint32_t k = 0; k < axis_count; k++) {
    int32_t axis;
    TRY(ir_axis(ctx, some ? axes[k] : k, type.rank, &axis));
    type.dims[axis] = known ? shape[k] : ir_fresh(ctx);
  }
  return ir_out(ctx, 0, type.dtype, type.rank, type.dims);
}

/* Where the sizes are odd the smaller part is cropped, or padded, in front. */
static td_status center_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  size_t bytes = base_tensor_bytes(out);
  if (bytes) memset(out->data, 0, bytes);
  base_tensor to = *out;
  int64_t to_at = 0, from_at = 0;
  for (int32_t i = 0; i < out->rank; i++) {
    to.dims[i] = base_min_i64(x->dims[i], out->dims[i]);
    if (x->dims[i] > out->dims[i]) from_at += (x->dims[i] - out->dims[i]) / 2 * x->strides[i];
    else to_at += (out->dims[i] - x->dims[i]) / 2 * out->strides[i];
  }
  ops_move(&to, to_at, x, from_at);
  return TD_OK;
}

/* ---- columns to an image ---- */

static td_status infer_columns(ir_infer *ctx) {
  const ir_type *x = &ctx->in[0]->type;
  const base_dim *image, *block;
  uint32_t rank, block_rank;
  if (x->rank == IR_UNRANKED || !ir_in_ints(ctx, 1, &image, &rank) || !ir_in_ints(ctx, 2, &block, &block_rank))
    return ir_out_unranked(ctx, 0, x->dtype);
  if (x->rank != 3 || rank != block_rank || rank < 1 || rank + 2 > BASE_MAX_RANK)
    return ir_infer_fail(ctx, "the input must be [n, c * block, columns], image and block of one rank");
  base_dim dims[BASE_MAX_RANK] = {x->dims[0], x->dims[1]};
  for (uint32_t i = 0; i < rank; i++) {
    dims[1] = base_dim_div(ctx->dims, dims[1], block[i]);
    dims[2 + i] = image[i];
  }
  if (dims[1] == BASE_DIM_NONE && ctx->dims) dims[1] = ir_fresh(ctx);
  return ir_out(ctx, 0, x->dtype, (int32_t)rank + 2, dims);
}

typedef struct columns {
  int32_t rank;
  int64_t image[BASE_MAX_RANK], block[BASE_MAX_RANK], count[BASE_MAX_RANK]; /* count: of columns along each axis */
  int64_t step[BASE_MAX_RANK], pad[BASE_MAX_RANK], dilation[BASE_MAX_RANK];
} columns;

static int64_t attr_or(const base_call *call, uint32_t attr, int32_t i, int64_t fallback) {
  uint32_t count;
  const int64_t *ints = base_attr_ints(call->attrs, attr, &count);
  return (uint32_t)i < count ? ints[i] : fallback;
}

static bool small(int64_t value) { return value > -INT32_MAX && value < INT32_MAX; }

static td_status columns_start(const base_call *call, columns *p) {
  const base_tensor *x = base_in(call, 0), *out = base_out(call, 0);
  uint32_t rank, block_rank;
  int64_t places = 1, positions = 1;
  TRY(ops_read_ints(call, 1, BASE_MAX_RANK, p->image, &rank));
  TRY(ops_read_ints(call, 2, BASE_MAX_RANK, p->block, &block_rank));
  if (rank != block_rank || (int32_t)rank + 2 != out->rank) return ops_fail(call, "image and block differ in rank");
  p->rank = (int32_t)rank;
  for (int32_t i = 0; i < p->rank; i++) {
    p->step[i] = attr_or(call, COLUMNS_STRIDES, i, 1);
    p->dilation[i] = attr_or(call, COLUMNS_DILATIONS, i, 1);
    p->pad[i] = attr_or(call, COLUMNS_PADS, i, 0);
    int64_t behind = attr_or(call, COLUMNS_PADS, i + p->rank, 0);
    if (p->step[i] < 1 || !small(p->dilation[i]) || p->dilation[i] < 1 || !small(p->block[i]) || p->block[i] < 1 ||
        !small(p->image[i]) || !small(p->pad[i]) || !small(behind))
      return ops_fail(call, "strides, dilations and block must be positive, and no size too large");
    int64_t room = p->image[i] + p->pad[i] + behind - (p->dilation[i] * (p->block[i] - 1) + 1);
    p->count[i] = room < 0 ? 0 : room / p->step[i] + 1;
    if (!base_mul_i64(places, p->block[i], &places) || !base_mul_i64(positions, p->count[i], &positions) ||
        p->image[i] != out->dims[2 + i])
      return ops_fail(call, "the image does not fit");
  }
  if (x->dims[2] != positions || x->dims[1] != out->dims[1] * places)
    return ops_fail(call, "the input must be [n, c * %lld, %lld]", (long long)places, (long long)positions);
  return TD_OK;
}

/* Element of the image that place `k` of the block shows at column position `at`; -1 outside. */
static int64_t image_offset(const columns *p, const int64_t *place, const int64_t *at) {
  int64_t offset = 0;
  for (int32_t i = 0; i < p->rank; i++) {
    int64_t where = at[i] * p->step[i] + place[i] * p->dilation[i] - p->pad[i];
    if (where < 0 || where >= p->image[i]) return -1;
    offset = offset * p->image[i] + where;
  }
  return offset;
}

static td_status columns_reference(const base_call *call) {
  const base_tensor *out = base_out(call, 0);
  columns p;
  TRY(columns_start(call, &p));
  int64_t planes = out->dims[0] * out->dims[1], pixels = 1, n = 0;
  for (int32_t i = 0; i < p.rank; i++) pixels *= p.image[i];
  const base_f64 *from = ops_dense_f64(call, 0);
  base_f64 *to = ops_take_f64(call, 0);
  if (!from || !to) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; i < planes * pixels; i++) to[i] = 0;
  base_walk place, at;
  for (int64_t plane = 0; plane < planes; plane++) {
    base_walk_start(&place, p.rank, p.block, 0, NULL);
    do {
      base_walk_start(&at, p.rank, p.count, 0, NULL);
      if (!at.count) break;
      do {
        int64_t pixel = image_offset(&p, place.index, at.index);
        if (pixel >= 0) to[plane * pixels + pixel] += from[n];
        n++;
      } while (base_walk_next(&at));
    } while (base_walk_next(&place));
  }
  ops_put(call, 0, TD_F64, to);
  return TD_OK;
}

/* ---- cases ---- */

static bool to_space_cases(ir_case *c, uint32_t number) {
  if (number >= 4) return false;
  ops_case_arg(c, ARG_INT("blocksize", 1 + number % 2));
  ops_case_arg(c, ARG_STR("mode", number / 2 ? "CRD" : "DCR"));
  return ops_case_in(c, number == 1 ? TD_I4 : TD_F32, OPS_DIMS(2, 8, 3, 5), OPS_INDEX, number);
}

static bool to_depth_cases(ir_case *c, uint32_t number) {
  if (number >= 3) return false;
  ops_case_arg(c, ARG_INT("blocksize", 1 + (int64_t)number));
  ops_case_arg(c, ARG_STR("mode", number == 2 ? "CRD" : "DCR"));
  return ops_case_in(c, TD_F32, OPS_DIMS(1, 2, 6, 6), OPS_INDEX, number);
}

static bool reverse_cases(ir_case *c, uint32_t number) {
  static const int64_t lengths[] = {4, 1, 0};
  if (number >= 2) return false;
  ops_case_arg(c, ARG_INT("batch_axis", 1 - (int64_t)number));
  ops_case_arg(c, ARG_INT("time_axis", (int64_t)number));
  return ops_case_in(c, TD_F32, OPS_DIMS(number ? 3 : 5, number ? 5 : 3, 2), OPS_INDEX, number) &&
         ops_case_ints(c, lengths, 3);
}

static bool center_cases(ir_case *c, uint32_t number) {
  static const int64_t shapes[][2] = {{3, 8}, {6, 2}, {5, 0}}, axes[] = {1, 0};
  if (number >= 6) return false;
  if (number >= 3) ops_case_arg(c, ARG_INTS("axes", axes, 2));
  return ops_case_in(c, TD_F32, OPS_DIMS(5, 5), OPS_NORMAL, number) && ops_case_ints(c, shapes[number % 3], 2);
}

static bool columns_cases(ir_case *c, uint32_t number) {
  static const int64_t image[] = {5, 5}, block[] = {2, 3}, pads[] = {1, 0, 1, 2}, strides[] = {2, 1};
  if (number >= 2) return false;
  if (number) {
    ops_case_arg(c, ARG_INTS("pads", pads, 4));
    ops_case_arg(c, ARG_INTS("strides", strides, 2));
  }
  return ops_case_in(c, TD_F32, OPS_DIMS(2, 12, number ? 15 : 12), OPS_NORMAL, number) && ops_case_ints(c, image, 2) &&
         ops_case_ints(c, block, 2);
}

static const ir_alias to_space_aliases[] = {{"onnx", "DepthToSpace", 1, NULL}};
static const ir_alias to_depth_aliases[] = {{"onnx", "SpaceToDepth", 1, NULL}};
static const ir_alias reverse_aliases[] = {{"onnx", "ReverseSequence", 10, NULL}};
static const ir_alias center_aliases[] = {{"onnx", "CenterCropPad", 18, NULL}};
static const ir_alias columns_aliases[] = {{"onnx", "Col2Im", 18, NULL}};

OPS_DECLARE(rearrange);
const ir_op ops_rearrange[] = {
    /* (x [n, c * b * b, h, w]) -> [n, c, h * b, w * b]; mode CRD is aten::pixel_shuffle */
    {.id = OPERATOR(td, depth_to_space),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .strings = 1,
     .attrs = block_attrs,
     .attr_count = OPS_COUNT(block_attrs),
     .infer = infer_to_space,
     .reference = to_space_reference,
     .kernel = to_space_kernel,
     .aliases = to_space_aliases,
     .alias_count = OPS_COUNT(to_space_aliases)},
    /* (x [n, c, h * b, w * b]) -> [n, c * b * b, h, w]: the reverse, in either mode */
    {.id = OPERATOR(td, space_to_depth),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .strings = 1,
     .attrs = block_attrs,
     .attr_count = OPS_COUNT(block_attrs),
     .infer = infer_to_depth,
     .reference = to_depth_reference,
     .kernel = to_depth_kernel,
     .aliases = to_depth_aliases,
     .alias_count = OPS_COUNT(to_depth_aliases)},
    /* (x, lengths): the first lengths[b] steps of sample b in reverse */
    {.id = OPERATOR(td, reverse_sequence),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .strings = 1,
     .attrs = reverse_attrs,
     .attr_count = OPS_COUNT(reverse_attrs),
     .infer = infer_reverse,
     .reference = reverse_reference,
     .aliases = reverse_aliases,
     .alias_count = OPS_COUNT(reverse_aliases)},
    /* (x, sizes): the middle of x, or x in the middle of zeros, along axes (all without the attribute) */
    {.id = OPERATOR(td, center_crop_pad),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .attrs = center_attrs,
     .attr_count = OPS_COUNT(center_attrs),
     .infer = infer_center,
     .reference = center_reference,
     .aliases = center_aliases,
     .alias_count = OPS_COUNT(center_aliases)},
    /* (columns [n, c * block, positions], image sizes, block sizes): overlapping blocks add up */
    {.id = OPERATOR(aten, col2im),
     .min_in = 3,
     .max_in = 3,
     .out_count = 1,
     .attrs = columns_attrs,
     .attr_count = OPS_COUNT(columns_attrs),
     .infer = infer_columns,
     .reference = columns_reference,
     .rtol = 1e-5f,
     .atol = 1e-6f,
     .aliases = columns_aliases,
     .alias_count = OPS_COUNT(columns_aliases)},
};
OPS_TABLE(rearrange);
OPS_CASES(rearrange) = {
    {OP_td_depth_to_space, to_space_cases},  {OP_td_space_to_depth, to_depth_cases},
    {OP_td_reverse_sequence, reverse_cases}, {OP_td_center_crop_pad, center_cases},
    {OP_aten_col2im, columns_cases},         {0},
};
