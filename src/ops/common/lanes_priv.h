/* lanes_priv.h -- one dimension of an operand as lanes: read densely as [outer, length, inner], a lane is one of the
 * outer * inner rows. */
#ifndef OPS_LANES_PRIV_H
#define OPS_LANES_PRIV_H
#include "ops/common/ops_priv.h"

typedef struct ops_lanes {
  const void *data; /* dense; NULL: no elements */
  td_dtype dtype;
  int64_t outer, length, inner;
} ops_lanes;

/* Lanes of operand 0: dimensions [axis, end) make up one. A dense copy, where one is needed, is scratch of the call. */
td_status ops_lanes_start(const base_call *call, int64_t axis, int64_t end, ops_lanes *l);

static inline int64_t ops_lane_offset(const ops_lanes *l, int64_t lane) {
  return lane / l->inner * l->length * l->inner + lane % l->inner;
}

static inline int64_t ops_axis_of(const base_tensor *t, int64_t axis) { return axis < 0 ? axis + t->rank : axis; }

/* Does element b, later in the lane, take the place of a? NaN beats everything. */
bool ops_float_wins(double a, double b, bool largest, bool last);
#endif
