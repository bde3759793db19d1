/* move_priv.h -- a copy between tensors of equal dims and any strides, brought to the fewest dimensions. */
#ifndef KERNELS_MOVE_PRIV_H
#define KERNELS_MOVE_PRIV_H
#include "base/base.h"

/* Dimensions of length 1 are gone, and neighbours merged that both sides walk as one. Strides count elements. Rank 0:
 * one element. */
typedef struct kern_move {
  void *to;
  const void *from;
  int32_t rank;
  int64_t dims[BASE_MAX_RANK], to_step[BASE_MAX_RANK], from_step[BASE_MAX_RANK];
  int64_t count; /* elements */
} kern_move;

kern_move kern_move_of(const base_tensor *to, const base_tensor *from);
/* Copies between tensors of equal dims and types of whole bytes, on the calling thread alone, within a task of `call`.
 */
td_status kern_move_now(const base_call *call, const base_tensor *to, const base_tensor *from);
#endif
