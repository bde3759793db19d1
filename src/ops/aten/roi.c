/* roi.c -- pooling of regions of images [N, C, H, W] to a fixed size: td::roi_align(x, boxes [R, 4], image of each
 * box) averages bilinear samples (He et al. 2017); td::max_roi_pool(x, boxes [R, 5], image first) takes maxima of whole
 * cells. td::deform_conv samples each kernel element where an offset says (Dai et al. 2017).
 *
 * Sources: He et al. 2017 (Mask R-CNN), ONNX RoiAlign 10; ONNX MaxRoiPool 1, Girshick 2015; Dai et al. 2017, ONNX
 * DeformConv 19.
 *     td::deform_conv  y[m, o] = bias[m] + sum over c, t of w[m, c, t] mask[o, t] x[c, position of tap t of o +
 *                      offset[o, t]] */
#include "kernels/data/data.h"
#include "ops/common/kernel_priv.h"
#include "ops/common/window_priv.h"

#include <math.h>

/* ---- td::roi_align ---- */

static const ir_attr align_attrs[] = {KERN_ROI_LIST(OPS_ATTR_ROW)};
static const ir_attr max_attrs[] = {KERN_ROI_SIZE_LIST(OPS_ATTR_ROW)};

static td_status infer_region(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type, *boxes = &ir_in(ctx, 1)->type;
  int64_t height = base_attr_int(ctx->attrs, KERN_ROI_HEIGHT), width = base_attr_int(ctx->attrs, KERN_ROI_WIDTH);
  if (x->rank == IR_UNRANKED || boxes->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, x->dtype);
  if (x->rank != 4 || boxes->rank != 2)
    return ir_infer_fail(ctx, "an image of rank %d with boxes of rank %d", x->rank, boxes->rank);
  if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX)
    return ir_infer_fail(ctx, "a result of %lld by %lld", (long long)height, (long long)width);
  return ir_out(ctx, 0, x->dtype, 4, (base_dim[]){boxes->dims[0], x->dims[1], height, width});
}

/* One cell: the mean of its samples, or (as ONNX defines it) the largest weighted neighbour. */
static double align_cell(const base_call *call, const kern_roi_box *b, int64_t row, int64_t column,
                         const base_f64 *plane, int64_t height, int64_t width) {
  bool maximum = base_attr_int(call->attrs, KERN_ROI_MAXIMUM), first = true;
  double sum = 0;
  for (int64_t i = 0; i < b->rows; i++)
    for (int64_t j = 0; j < b->columns; j++) {
      kern_roi_sample s = kern_roi_place(b, row, column, i, j, height, width);
      double value = maximum ? -INFINITY : 0;
      for (int k = 0; k < 4; k++)
        value = maximum ? fmax(value, s.weight[k] * plane[s.at[k]]) : value + s.weight[k] * plane[s.at[k]];
      sum = !maximum ? sum + value : first ? value : fmax(sum, value);
      first = false;
    }
  return maximum ? sum : sum / (double)base_max_i64(b->rows * b->columns, 1);
}

static td_status align_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *boxes = base_in(call, 1), *y = base_out(call, 0);
  const base_f64 *from = ops_dense_f64(call, 0), *at = ops_dense_f64(call, 1);
  const base_i64 *images = ops_dense_i64(call, 2);
  base_f64 *to = ops_take_f64(call, 0);
  int64_t height = x->dims[2], width = x->dims[3], channels = x->dims[1], cells = y->dims[2] * y->dims[3];
  if (!from || !at || !images || !to) return base_no_memory(call->err, "scratch");
  TRY(kern_roi_check(call));
  if (base_tensor_numel(y) == 0) return TD_OK;
  for (int64_t r = 0; r < boxes->dims[0]; r++) {
    kern_roi_box b = {0};
    TRY(kern_roi_read(call, (double[]){at[4 * r], at[4 * r + 1], at[4 * r + 2], at[4 * r + 3]}, &b));
    for (int64_t c = 0; c < channels; c++)
      for (int64_t cell = 0; cell < cells; cell++)
        to[(r * channels + c) * cells + cell] =
            align_cell(call, &b, cell / y->dims[3], cell % y->dims[3],
                       from + (images[r] * channels + c) * height * width, height, width);
  }
  ops_put(call, 0, TD_F64, to);
  return TD_OK;
}

static const kern_row *align_kernel(const ir_kernel_query *query) {
  bool f32 = query->in[0]->type.dtype == TD_F32 && query->in[1]->type.dtype == TD_F32;
  return f32 && !base_attr_int(query->attrs, KERN_ROI_MAXIMUM) ? kern_select(KERN_ROI_ALIGN, TD_F32, query->isa) : NULL;
}

/* ---- td::max_roi_pool ---- */

/* Elements [*first, *last) of a cell along one axis of `size`. */
static void cell_span(double start, double end, int64_t cell, int64_t cells, int64_t size, int64_t *first,
                      int64_t *last) {
  double length = fmax(end - start + 1, 1) / (double)cells;
  *first = (int64_t)fmin(fmax(floor((double)cell * length) + start, 0), (double)size);
  *last = (int64_t)fmin(fmax(ceil((double)(cell + 1) * length) + start, 0), (double)size);
}

static td_status max_region_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *boxes = base_in(call, 1), *y = base_out(call, 0);
  const base_f64 *from = ops_dense_f64(call, 0), *at = ops_dense_f64(call, 1);
  base_f64 *to = ops_take_f64(call, 0);
  double scale = base_attr_float(call->attrs, KERN_ROI_SPATIAL_SCALE);
  int64_t height = x->dims[2], width = x->dims[3], rows = y->dims[2], columns = y->dims[3];
  if (!from || !at || !to) return base_no_memory(call->err, "scratch");
  if (base_tensor_numel(y) == 0) return TD_OK;
  if (boxes->dims[1] != 5) return ops_fail(call, "boxes are not [R, 5]");
  for (int64_t i = 0; i < base_tensor_numel(y); i++) {
    int64_t column = i % columns, row = i / columns % rows, channel = i / columns / rows % x->dims[1];
    const base_f64 *b = at + i / columns / rows / x->dims[1] * 5;
    int64_t top, bottom, left, right;
    if (!(b[0] >= 0 && b[0] < (double)x->dims[0])) return ops_fail(call, "a box is of image %g", b[0]);
    cell_span(round(b[2] * scale), round(b[4] * scale), row, rows, height, &top, &bottom);
    cell_span(round(b[1] * scale), round(b[3] * scale), column, columns, width, &left, &right);
    const base_f64 *plane = from + ((int64_t)b[0] * x->dims[1] + channel) * height * width;
    double most = bottom > top && right > left ? -INFINITY : 0;
    for (int64_t v = top; v < bottom; v++)
      for (int64_t h = left; h < right; h++) most = fmax(most, plane[v * width + h]);
    to[i] = most;
  }
  ops_put(call, 0, TD_F64, to);
  return TD_OK;
}

/* ---- td::deform_conv(x, w, offset, [bias], [mask]) ---- */

enum { DEFORM_GROUPS = KERN_WINDOW_ATTRS, DEFORM_OFFSET_GROUPS };
static const ir_attr deform_attrs[] = {KERN_WINDOW_LIST(OPS_ATTR_ROW) ATTR_INT("groups", 1),
                                       ATTR_INT("offset_groups", 1)};

static td_status infer_deform(ir_infer *ctx) {
  const ir_type *x = &ir_in(ctx, 0)->type, *w = &ir_in(ctx, 1)->type;
  int64_t groups = base_attr_int(ctx->attrs, DEFORM_GROUPS),
          offset_groups = base_attr_int(ctx->attrs, DEFORM_OFFSET_GROUPS);
  if (x->rank == IR_UNRANKED || w->rank == IR_UNRANKED) return ir_out_unranked(ctx, 0, x->dtype);
  if (x->rank != 4 || w->rank != 4)
    return base_fail(ctx->err, TD_UNSUPPORTED, NULL, -1, "%s: an image of rank %d; only rank 4 is supported",
                     ctx->op->name, x->rank);
  if (groups < 1 || offset_groups < 1 || groups > INT32_MAX || offset_groups > INT32_MAX)
    return ir_infer_fail(ctx, "%lld groups and %lld offset groups", (long long)groups, (long long)offset_groups);
  TRY(ops_window_check(ctx, 2));
  base_dim dims[] = {x->dims[0], w->dims[0], ops_window_out(ctx, 2, 0, x->dims[2], w->dims[2], false),
                     ops_window_out(ctx, 2, 1, x->dims[3], w->dims[3], false)};
  return ir_out(ctx, 0, x->dtype, 4, dims);
}

/* Bilinear, zero outside. */
static double bilinear(const base_f64 *plane, int64_t height, int64_t width, double y, double x) {
  if (!(y > -1 && y < (double)height && x > -1 && x < (double)width)) return 0;
  int64_t top = (int64_t)floor(y), left = (int64_t)floor(x);
  double sum = 0;
  for (int64_t v = top; v <= top + 1; v++)
    for (int64_t h = left; h <= left + 1; h++)
      if (v >= 0 && v < height && h >= 0 && h < width)
        sum += (1 - fabs(y - (double)v)) * (1 - fabs(x - (double)h)) * plane[v * width + h];
  return sum;
}

typedef struct deformation {
  window window;
  const base_f64 *x, *w, *offset, *bias, *mask;
  int64_t channels, outputs, groups, offset_groups, group_in, taps, places;
} deformation;

static double deform_element(const deformation *d, int64_t n, int64_t m, int64_t place) {
  const window_axis *v = &d->window.axis[1], *h = &d->window.axis[2];
  int64_t group = m / (d->outputs / d->groups);
  double sum = d->bias ? d->bias[m] : 0, top = (double)(place / h->out * v->stride - v->begin),
         left = (double)(place % h->out * h->stride - h->begin);
  for (int64_t c = 0; c < d->group_in; c++) {
    int64_t channel = group * d->group_in + c, own = channel / (d->channels / d->offset_groups);
    const base_f64 *plane = d->x + (n * d->channels + channel) * d->window.in_size;
    for (int64_t tap = 0; tap < d->taps; tap++) {
      int64_t at = (n * d->offset_groups + own) * d->taps + tap;
      double y = top + (double)(tap / h->kernel * v->dilation) + d->offset[2 * at * d->places + place];
      double x = left + (double)(tap % h->kernel * h->dilation) + d->offset[(2 * at + 1) * d->places + place];
      double value = bilinear(plane, v->in, h->in, y, x) * d->w[(m * d->group_in + c) * d->taps + tap];
      sum += d->mask ? value * d->mask[at * d->places + place] : value;
    }
  }
  return sum;
}

static td_status check_deform(const base_call *call, const deformation *d) {
  const base_tensor *x = base_in(call, 0), *w = base_in(call, 1), *offset = base_in(call, 2), *bias = base_in(call, 3),
                    *mask = base_in(call, 4);
  int64_t each = x->dims[0] * d->offset_groups * d->taps * d->places;
  if (w->dims[1] * d->groups != d->channels || d->outputs % d->groups || d->channels % d->offset_groups)
    return ops_fail(call, "the channels do not fit the groups");
  if (base_tensor_numel(offset) != 2 * each)
    return ops_fail(call, "there are not two offsets per kernel element and place");
  if (mask && base_tensor_numel(mask) != each)
    return ops_fail(call, "there is not one mask element per kernel element and place");
  if (bias && base_tensor_numel(bias) != d->outputs) return ops_fail(call, "the bias has not one element per channel");
  return TD_OK;
}

static td_status deform_reference(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *w = base_in(call, 1), *y = base_out(call, 0);
  deformation d = {.x = ops_dense_f64(call, 0),
                   .w = ops_dense_f64(call, 1),
                   .offset = ops_dense_f64(call, 2),
                   .bias = ops_dense_f64(call, 3),
                   .mask = ops_dense_f64(call, 4),
                   .channels = x->dims[1],
                   .outputs = w->dims[0],
                   .groups = base_attr_int(call->attrs, DEFORM_GROUPS),
                   .offset_groups = base_attr_int(call->attrs, DEFORM_OFFSET_GROUPS),
                   .group_in = w->dims[1],
                   .taps = w->dims[2] * w->dims[3],
                   .places = y->dims[2] * y->dims[3]};
  base_f64 *to = ops_take_f64(call, 0);
  if (base_tensor_numel(y) == 0) return TD_OK;
  if (!d.x || !d.w || !d.offset || !to || (base_in(call, 3) && !d.bias) || (base_in(call, 4) && !d.mask))
    return base_no_memory(call->err, "scratch");
  ops_window_make(call->attrs, 2, x->dims + 2, w->dims + 2, y->dims + 2, &d.window);
  TRY(check_deform(call, &d));
  for (int64_t i = 0; i < base_tensor_numel(y); i++)
    to[i] = deform_element(&d, i / d.places / d.outputs, i / d.places % d.outputs, i % d.places);
  ops_put(call, 0, TD_F64, to);
  return TD_OK;
}

/* ---- cases ---- */

static bool case_boxes(ir_case *c, int64_t columns) {
  static const double at[] = {0, 1, 1, 4, 5, 1, 0, 2, 6, 3};
  int64_t dims[] = {2, columns};
  if (!ops_case_in(c, TD_F32, OPS_DIMS(2, 3, 6, 7), OPS_NORMAL, 1) || !ops_case_in(c, TD_F32, 2, dims, OPS_UNIT, 2))
    return false;
  for (int64_t i = 0; i < 2 * columns; i++)
    base_store_f64(TD_F32, c->in[1].data, i, at[columns == 5 ? i : i / 4 * 5 + i % 4 + 1]);
  ops_case_arg(c, ARG_INT("height", 2));
  ops_case_arg(c, ARG_INT("width", 3));
  return true;
}

static bool cases_align(ir_case *c, uint32_t number) {
  static const int64_t images[] = {1, 0};
  if (number >= 4) return false;
  ops_case_arg(c, ARG_BOOL("half_pixel", number % 2));
  ops_case_arg(c, ARG_BOOL("maximum", number >= 2));
  return case_boxes(c, 4) && ops_case_ints(c, images, 2);
}

static bool cases_max_region(ir_case *c, uint32_t number) { return number < 1 && case_boxes(c, 5); }

static bool cases_deform(ir_case *c, uint32_t number) {
  if (number >= 2) return false;
  bool made = ops_case_in(c, TD_F32, OPS_DIMS(1, 2, 4, 5), OPS_NORMAL, 1) &&
              ops_case_in(c, TD_F32, OPS_DIMS(3, 2, 2, 2), OPS_NORMAL, 2) &&
              ops_case_in(c, TD_F32, OPS_DIMS(1, 8, 3, 4), OPS_NORMAL, 3);
  return made && (number == 0 || (ops_case_in(c, TD_F32, OPS_DIMS(3), OPS_NORMAL, 4) &&
                                  ops_case_in(c, TD_F32, OPS_DIMS(1, 4, 3, 4), OPS_UNIT, 5)));
}

OPS_DECLARE(roi);
const ir_op ops_roi[] = {
    {.id = OPERATOR(td, roi_align),
     .min_in = 3,
     .max_in = 3,
     .out_count = 1,
     .attrs = align_attrs,
     .attr_count = OPS_COUNT(align_attrs),
     .infer = infer_region,
     .reference = align_reference,
     .kernel = align_kernel,
     .rtol = 1e-5f,
     .atol = 1e-6f},
    {.id = OPERATOR(td, max_roi_pool),
     .min_in = 2,
     .max_in = 2,
     .out_count = 1,
     .attrs = max_attrs,
     .attr_count = OPS_COUNT(max_attrs),
     .infer = infer_region,
     .reference = max_region_reference},
    {.id = OPERATOR(td, deform_conv),
     .min_in = 3,
     .max_in = 5,
     .out_count = 1,
     .attrs = deform_attrs,
     .attr_count = OPS_COUNT(deform_attrs),
     .infer = infer_deform,
     .reference = deform_reference,
     .rtol = 1e-4f,
     .atol = 1e-5f},
};
OPS_TABLE(roi);
OPS_CASES(roi) = {
    {OP_td_roi_align, cases_align},
    {OP_td_max_roi_pool, cases_max_region},
    {OP_td_deform_conv, cases_deform},
    {0},
};
