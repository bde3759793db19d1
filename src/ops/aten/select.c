/* select.c -- results whose size depends on data: nonzero, compress, non-maximum suppression.
 *
 *     aten::nonzero            the coordinates of elements that are not 0 (ONNX NonZero 9)
 *     td::compress             the slices k whose condition[k] holds (ONNX Compress 9)
 *     td::non_max_suppression  boxes by score whose intersection / union with all chosen ones is small (ONNX
 *                              NonMaxSuppression 10) */
#include "ops/common/kernel_priv.h"
#include "ops/common/move_priv.h"
#include "ops/common/sort_priv.h"
#include "base/size.h"

#include <math.h>
#include <string.h>

enum { COMPRESS_DIM };

static const ir_attr compress_attrs[] = {ATTR_OPTIONAL("dim", BASE_ATTR_INT)};
static const ir_attr nms_attrs[] = {KERN_SUPPRESS_LIST(OPS_ATTR_ROW)};

/* ---- nonzero ---- */

static td_status infer_nonzero(ir_infer *ctx) {
  int32_t rank = ctx->in[0]->type.rank;
  base_dim dims[2] = {ir_fresh(ctx), rank == IR_UNRANKED ? ir_fresh(ctx) : rank};
  return ir_out(ctx, 0, TD_I64, 2, dims);
}

static bool is_set(const base_tensor *t, int64_t element) {
  if (t->dtype == TD_STRING) {
    td_string s;
    memcpy(&s, (const char *)t->data + (size_t)element * sizeof s, sizeof s);
    return s.length != 0;
  }
  return base_is_float(t->dtype) ? base_load_f64(t->dtype, t->data, element) != 0
                                 : base_load_i64(t->dtype, t->data, element) != 0;
}

/* The places of a row's elements that are set, `step` apart from element `first` on; how many. */
static int64_t find_set(const base_tensor *t, int64_t first, int64_t step, int64_t length, int64_t *places) {
  const bool bytes = base_dtype(t->dtype)->bits == 8 && !base_is_float(t->dtype);
  const uint8_t *from = (const uint8_t *)t->data + (bytes ? first : 0);
  int64_t count = 0;
  for (int64_t i = 0; i < length; i++) { /* without a branch that is hard to foresee */
    places[count] = i;
    count += bytes ? from[i * step] != 0 : is_set(t, first + i * step);
  }
  return count;
}

static td_status nonzero_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0);
  int64_t dims[2] = {0, x->rank}, length, step;
  base_walk w;
  const int64_t *strides[] = {x->strides};
  base_walk_rows(&w, x->rank, x->dims, 1, strides, &length, &step);
  int64_t *places = base_call_scratch(call, (size_t)length, sizeof *places);
  if (!places) return base_no_memory(call->err, "scratch");
  if (w.count) {
    do dims[0] += find_set(x, w.offset[0], step, length, places);
    while (base_walk_next(&w));
  }
  TRY(base_call_define(call, 0, TD_I64, 2, dims));
  if (!base_out(call, 0) || dims[0] == 0) return TD_OK;
  base_i64 *to = base_out(call, 0)->data;
  base_walk_rows(&w, x->rank, x->dims, 1, strides, &length, &step);
  do {
    const int64_t count = find_set(x, w.offset[0], step, length, places);
    for (int64_t n = 0; n < count; n++, to += x->rank) {
      for (int32_t i = 0; i + 1 < x->rank; i++) to[i] = w.index[i];
      if (x->rank) to[x->rank - 1] = places[n];
    }
  } while (base_walk_next(&w));
  return TD_OK;
}

/* ---- compress ---- */

static td_status infer_compress(ir_infer *ctx) {
  ir_type type = ctx->in[0]->type;
  base_dim count = ir_fresh(ctx);
  int32_t axis;
  if (!base_attr_has(ctx->attrs, COMPRESS_DIM)) return ir_out(ctx, 0, type.dtype, 1, &count);
  if (type.rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, type.dtype);
  TRY(ir_axis(ctx, base_attr_int(ctx->attrs, COMPRESS_DIM), type.rank, &axis));
  type.dims[axis] = count;
  return ir_out(ctx, 0, type.dtype, type.rank, type.dims);
}

static td_status compress_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0);
  bool flat = !base_attr_has(call->attrs, COMPRESS_DIM);
  int64_t dim = flat ? 0 : base_attr_int(call->attrs, COMPRESS_DIM), axis = dim < 0 ? dim + x->rank : dim;
  if (!flat && (axis < 0 || axis >= x->rank)) return ops_fail(call, "axis %lld does not fit", (long long)dim);
  int64_t size = flat ? base_tensor_numel(x) : x->dims[axis], outer = 1, inner = 1, dims[BASE_MAX_RANK], count = 0;
  for (int32_t i = 0; i < x->rank; i++) {
    dims[i] = x->dims[i];
    if (!flat && i < axis) outer *= dims[i];
    if (!flat && i > axis) inner *= dims[i];
  }
  int64_t asked = base_min_i64(base_tensor_numel(base_in(call, 1)), size);
  const base_i64 *keep = ops_dense_i64(call, 1);
  const void *from = ops_dense(call, 0);
  if (!keep || !from) return base_no_memory(call->err, "scratch");
  for (int64_t i = 0; i < asked; i++) count += keep[i] != 0;
  if (!flat) dims[axis] = count;
  TRY(base_call_define(call, 0, x->dtype, flat ? 1 : x->rank, flat ? &count : dims));
  if (!base_out(call, 0) || base_tensor_numel(base_out(call, 0)) == 0) return TD_OK;
  for (int64_t o = 0, to = 0; o < outer; o++)
    for (int64_t i = 0; i < asked; i++)
      if (keep[i]) ops_move_run(x->dtype, base_out(call, 0)->data, to++ * inner, from, (o * size + i) * inner, inner);
  return TD_OK;
}

/* ---- non-maximum suppression ---- */

typedef struct nms {
  const base_f32 *boxes, *scores;
  int64_t batches, classes, count, most; /* boxes of a sample; most to select per class */
  float iou_threshold, score_threshold;
  bool has_score_threshold, center;
  int64_t *order, *spare;
} nms;

static td_status infer_nms(ir_infer *ctx) {
  base_dim dims[2] = {ir_fresh(ctx), 3};
  return ir_out(ctx, 0, TD_I64, 2, dims);
}

/* Corners (low y, low x, high y, high x), whichever two opposite ones are given. */
static void corners(const nms *p, const base_f32 *box, float *to) {
  for (int i = 0; i < 2; i++) {
    float a = box[i], b = box[i + 2];
    if (p->center) { /* x, y, width, height: the order of axes does not matter for areas */
      a = box[i] - box[i + 2] / 2;
      b = box[i] + box[i + 2] / 2;
    }
    to[i] = a < b ? a : b;
    to[i + 2] = a < b ? b : a;
  }
}

static bool overlaps(const nms *p, const base_f32 *boxes, int64_t i, int64_t j) {
  float a[4], b[4], side[2];
  corners(p, boxes + i * 4, a);
  corners(p, boxes + j * 4, b);
  for (int d = 0; d < 2; d++) side[d] = (a[d + 2] < b[d + 2] ? a[d + 2] : b[d + 2]) - (a[d] > b[d] ? a[d] : b[d]);
  float area_a = (a[2] - a[0]) * (a[3] - a[1]), area_b = (b[2] - b[0]) * (b[3] - b[1]);
  if (side[0] <= 0 || side[1] <= 0 || area_a <= 0 || area_b <= 0) return false;
  float shared = side[0] * side[1];
  return shared / (area_a + area_b - shared) > p->iou_threshold;
}

/* Higher scores first, NaN last. */
static int compare_scores(const void *user, int64_t a, int64_t b) {
  const base_f32 *scores = user;
  if (isnan(scores[a]) || isnan(scores[b])) return (isnan(scores[a]) != 0) - (isnan(scores[b]) != 0);
  return (scores[a] < scores[b]) - (scores[a] > scores[b]);
}

/* Positions of the candidates of one class, best first; equal scores in order. */
static int64_t rank_candidates(nms *p, const base_f32 *scores) {
  int64_t count = 0;
  for (int64_t i = 0; i < p->count; i++)
    if (!p->has_score_threshold || scores[i] > p->score_threshold) p->order[count++] = i;
  ops_sort_positions(p->order, p->spare, count, compare_scores, scores);
  return count;
}

/* Selects for one sample and class; the selected stand at the front of p->order. */
static int64_t select_boxes(nms *p, int64_t batch, int64_t class) {
  const base_f32 *boxes = p->boxes + batch * p->count * 4;
  int64_t candidates = rank_candidates(p, p->scores + (batch * p->classes + class) * p->count), selected = 0;
  for (int64_t i = 0; i < candidates && selected < p->most; i++) {
    bool keep = true;
    for (int64_t j = 0; keep && j < selected; j++) keep = !overlaps(p, boxes, p->order[i], p->order[j]);
    if (keep) p->order[selected++] = p->order[i];
  }
  return selected;
}

static td_status nms_start(const base_call *call, nms *p) {
  const base_tensor *boxes = base_in(call, 0), *scores = base_in(call, 1);
  if (boxes->rank != 3 || scores->rank != 3 || boxes->dims[2] != 4 || scores->dims[0] != boxes->dims[0] ||
      scores->dims[2] != boxes->dims[1])
    return ops_fail(call, "boxes must be [batches, n, 4] and scores [batches, classes, n]");
  *p = (nms){.boxes = ops_dense_f32(call, 0),
             .scores = ops_dense_f32(call, 1),
             .batches = boxes->dims[0],
             .classes = scores->dims[1],
             .count = boxes->dims[1],
             .center = base_attr_int(call->attrs, KERN_SUPPRESS_CENTER) != 0};
  uint32_t given;
  TRY(ops_read_ints(call, 2, 1, &p->most, &given));
  const base_tensor *iou = base_in(call, 3), *score = base_in(call, 4);
  if (iou && base_tensor_numel(iou)) p->iou_threshold = (float)base_load_f64(iou->dtype, iou->data, 0);
  p->has_score_threshold = score && base_tensor_numel(score);
  if (p->has_score_threshold) p->score_threshold = (float)base_load_f64(score->dtype, score->data, 0);
  p->order = base_call_scratch(call, (size_t)p->count, sizeof *p->order);
  p->spare = base_call_scratch(call, (size_t)p->count, sizeof *p->spare);
  return p->boxes && p->scores && p->order && p->spare ? TD_OK : base_no_memory(call->err, "scratch");
}

static const kern_row *nms_kernel(const ir_kernel_query *query) {
  bool f32 = query->in[0]->type.dtype == TD_F32 && query->in[1]->type.dtype == TD_F32;
  return f32 ? kern_select(KERN_SUPPRESS, TD_F32, query->isa) : NULL;
}

static td_status nms_reference(const base_call *call) {
  nms p;
  TRY(nms_start(call, &p));
  size_t room;
  int64_t most = base_min_i64(base_max_i64(p.most, 0), p.count), total = 0;
  if (!base_mul((size_t)(p.batches * p.classes), (size_t)most, &room)) return ops_fail(call, "too many boxes");
  base_i64 *found = base_call_scratch(call, room, 3 * sizeof *found);
  if (!found) return base_no_memory(call->err, "scratch");
  for (int64_t b = 0; b < p.batches; b++)
    for (int64_t c = 0; c < p.classes; c++) {
      int64_t selected = select_boxes(&p, b, c);
      for (int64_t i = 0; i < selected; i++, total++) {
        found[total * 3] = b;
        found[total * 3 + 1] = c;
        found[total * 3 + 2] = p.order[i];
      }
    }
  TRY(base_call_define(call, 0, TD_I64, 2, (int64_t[]){total, 3}));
  if (base_out(call, 0) && total) memcpy(base_out(call, 0)->data, found, (size_t)total * 3 * sizeof *found);
  return TD_OK;
}

/* ---- cases ---- */

static bool nonzero_cases(ir_case *c, uint32_t number) {
  static const td_dtype dtypes[] = {TD_F32, TD_BOOL, TD_I8, TD_F16};
  if (number > OPS_COUNT(dtypes)) return false;
  if (number == OPS_COUNT(dtypes)) return ops_case_in(c, TD_I64, 0, NULL, OPS_POSITIVE, 1);
  return ops_case_in(c, dtypes[number], OPS_DIMS(3, 5, number == 3 ? 0 : 2), OPS_SPECIAL, number);
}

static bool compress_cases(ir_case *c, uint32_t number) {
  if (number >= 4) return false;
  if (number) ops_case_arg(c, ARG_INT("dim", (int64_t)number - 2));
  return ops_case_in(c, TD_F32, OPS_DIMS(5, 7), OPS_NORMAL, number) &&
         ops_case_in(c, TD_BOOL, OPS_DIMS(number == 3 ? 9 : 4), OPS_NORMAL, number);
}

static bool nms_cases(ir_case *c, uint32_t number) {
  static const int64_t most[] = {3, 0, 100};
  if (number >= 15) return false;
  int64_t boxes = number < 6 ? 13 : 97;
  ops_case_arg(c, ARG_INT("center_point_box", number / 3 % 2));
  return ops_case_in(c, TD_F32, OPS_DIMS(2, boxes, 4), number < 12 ? OPS_UNIT : OPS_SPECIAL, number) &&
         ops_case_in(c, TD_F32, OPS_DIMS(2, 3, boxes), number < 9 ? OPS_UNIT : OPS_SPECIAL, number + 10) &&
         ops_case_ints(c, &most[number % 3], 1) && ops_case_in(c, TD_F32, OPS_DIMS(1), OPS_UNIT, 1) &&
         ops_case_in(c, TD_F32, OPS_DIMS(1), OPS_UNIT, 2);
}

static const ir_alias compress_aliases[] = {{"onnx", "Compress", 9, "axis=dim"}};
static const ir_alias nms_aliases[] = {{"onnx", "NonMaxSuppression", 10, NULL}};

OPS_DECLARE(select);
const ir_op ops_select[] = {
    /* (x): positions of what is not zero, a row each */
    {.id = OPERATOR(aten, nonzero),
     .min_in = 1,
     .max_in = 1,
     .out_count = 1,
     .strings = 1,
     .flags = IR_OP_DEFINES,
     .infer = infer_nonzero,
     .reference = nonzero_reference},
    /* (x, keep): slices along dim (elements, without one) where the bool vector keep is set; it may be shorter */
    {.id = OPERATOR(td, compress),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .strings = 1,
     .flags = IR_OP_DEFINES,
     .attrs = compress_attrs,
     .attr_count = OPS_COUNT(compress_attrs),
     .infer = infer_compress,
     .reference = compress_reference,
     .aliases = compress_aliases,
     .alias_count = OPS_COUNT(compress_aliases)},
    /* (boxes, scores, most per class?, iou threshold?, score threshold?): rows of sample, class, box. ONNX's operator:
     * greedy by score; a box goes when it overlaps a selected one by more than the threshold. */
    {.id = OPERATOR(td, non_max_suppression),
     .min_in = 2,
     .max_in = 5,
     .out_count = 1,
     .flags = IR_OP_DEFINES,
     .attrs = nms_attrs,
     .attr_count = OPS_COUNT(nms_attrs),
     .infer = infer_nms,
     .reference = nms_reference,
     .kernel = nms_kernel,
     .aliases = nms_aliases,
     .alias_count = OPS_COUNT(nms_aliases)},
};
OPS_TABLE(select);
OPS_CASES(select) = {
    {OP_aten_nonzero, nonzero_cases},
    {OP_td_compress, compress_cases},
    {OP_td_non_max_suppression, nms_cases},
    {0},
};
