/* roi.h -- td::roi_align as its kernel and the reference read it: attributes, boxes, and where a sample lies. */
#ifndef KERNELS_ROI_H
#define KERNELS_ROI_H
#include "kernels/attrs.h"
#include "base/base.h"

typedef struct kern_roi_box {
  double top, left, cell_height, cell_width;
  int64_t rows, columns; /* samples per cell */
} kern_roi_box;

/* The four neighbours of a sample, as offsets in its plane, and their weights, which are zero outside the image. */
typedef struct kern_roi_sample {
  int64_t at[4];
  double weight[4];
} kern_roi_sample;

/* A box of operand 1, [left, top, right, bottom]. */
td_status kern_roi_read(const base_call *call, const double *at, kern_roi_box *box);
/* Sample (i, j) of cell (row, column), in an image that has elements. */
kern_roi_sample kern_roi_place(const kern_roi_box *box, int64_t row, int64_t column, int64_t i, int64_t j,
                               int64_t height, int64_t width);
/* Do the operands, of any strides, fit each other? */
td_status kern_roi_check(const base_call *call);
#endif
