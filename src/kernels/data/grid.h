/* grid.h -- td::grid_sample as its kernel and the reference read it: attributes, and the taps of a position. Every mode
 * is separable: a position is up to four taps per axis. */
#ifndef KERNELS_GRID_H
#define KERNELS_GRID_H
#include "kernels/attrs.h"
#include "base/base.h"

enum { KERN_GRID_AXES = 3 /* at most */, KERN_GRID_TAPS = 4 /* of an axis, at most */ };

typedef enum kern_grid_mode { KERN_GRID_NEAREST, KERN_GRID_LINEAR, KERN_GRID_CUBIC } kern_grid_mode;
typedef enum kern_grid_padding { KERN_GRID_ZEROS, KERN_GRID_BORDER, KERN_GRID_REFLECTION } kern_grid_padding;

typedef struct kern_grid {
  kern_grid_mode mode;
  kern_grid_padding padding;
  bool align;
  int32_t taps; /* of an axis, at most */
  bool fine;    /* coordinates of f64: positions are not cut to f32, as they are to match engines in f32 */
} kern_grid;

/* The taps of one axis, all inside of it: padding that counts as zero is left out. */
typedef struct kern_grid_taps {
  int32_t count;
  int64_t index[KERN_GRID_TAPS];
  double weight[KERN_GRID_TAPS];
} kern_grid_taps;

/* The attributes of a call whose operands, of any strides, fit each other. The result has elements. */
td_status kern_grid_read(const base_call *call, kern_grid *grid);
/* Where `coordinate` lies, any number, on an axis of `size` >= 1 elements. */
void kern_grid_place(const kern_grid *grid, double coordinate, int64_t size, kern_grid_taps *taps);
#endif
