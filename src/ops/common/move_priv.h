/* move_priv.h -- what the operators that only move elements share. They work on every element type: packed types go
 * element by element, strings as their slices. */
#ifndef OPS_MOVE_PRIV_H
#define OPS_MOVE_PRIV_H
#include "ops/common/ops_priv.h"

/* Copies to->dims elements: `to` from element offset `to_offset`, `from` (of the same dtype; its dims are not looked
 * at) from `from_offset`, each at its own strides. The caller has checked that both stay inside. */
void ops_move(const base_tensor *to, int64_t to_offset, const base_tensor *from, int64_t from_offset);
/* Copies `from` into `to` so that it begins at `start` along `axis`; the other dims are equal. */
void ops_move_into(const base_tensor *to, int32_t axis, int64_t start, const base_tensor *from);

/* Copies `count` adjacent elements of `dtype` between dense arrays, from element `from_at` to element `to_at`. */
void ops_move_run(td_dtype dtype, void *to, int64_t to_at, const void *from, int64_t from_at, int64_t count);

/* Every element of `to`, dense, becomes element `at` of `from`, of the same dtype. */
void ops_fill_with(const base_tensor *to, const void *from, int64_t at);

/* What a view operator shows: operand 0 with other dims and strides, from element `offset` on. */
typedef td_status (*ops_show)(const base_call *call, base_tensor *shown, int64_t *offset);
/* The `view` of such an operator: aliases. Not for packed types. */
td_status ops_show_view(const base_call *call, ops_show show);
/* The `reference` of such an operator: copies. */
td_status ops_show_reference(const base_call *call, ops_show show);

/* Inference: where operand 0 is a small integer tensor, sets out[0]'s contents to those it shows from element `offset`
 * on. strides[k] of axis k of the result counts elements of operand 0, dense. Does nothing when sizes or contents are
 * open. */
void ops_ints_shown(ir_infer *ctx, const int64_t *strides, int64_t offset);
/* Dense strides of a type whose sizes are all numbers; false when some are open. */
bool ops_type_strides(const ir_type *type, int64_t *strides);
#endif
