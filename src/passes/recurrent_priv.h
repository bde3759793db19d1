/* recurrent_priv.h -- what the passes recurrent and recurrent_i8 share. */
#ifndef PASSES_RECURRENT_PRIV_H
#define PASSES_RECURRENT_PRIV_H
#include "kernels/products/products.h"
#include "passes/passes_priv.h"

/* Operands of td::lstm_packed and its relatives: x, w, r, bias, h0, c0, lengths, peepholes. */
enum { RECURRENT_LENGTHS = 6, RECURRENT_PEEPHOLES, RECURRENT_OPERANDS };

/* A td::lstm on f32 with ONNX's default activations and nothing more: no peepholes, no clipping. */
bool passes_recurrent_is_plain(const passes_edit *e, const ir_node_def *node);
/* The packed layer `op` in place of the layer `id`. `in`: the first four operands, and peepholes, the others absent;
 * these are those of the layer. `own`: the attribute that `op` has alone. */
td_status passes_recurrent_place(passes_edit *e, ir_node id, ir_op_id op, const kern_recurrent *layout, base_arg own,
                                 ir_value *in);
#endif
