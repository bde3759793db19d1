/* int8_priv.h -- what the parts of the pass int8 share: values that are stored in 8 bits. */
#ifndef PASSES_INT8_PRIV_H
#define PASSES_INT8_PRIV_H
#include "passes/passes_priv.h"

/* What dequantize_linear makes a value of, with constant scales. */
typedef struct int8_stored {
  ir_value q;
  const base_tensor *scales, *zeros; /* zeros may be absent */
  int64_t axis;
} int8_stored;

/* An activation: one scale, above 0, and bytes. `zero` as it is stored. */
typedef struct int8_activation {
  ir_value q;
  td_dtype dtype;
  double scale;
  int64_t zero;
} int8_activation;

enum {
  INT8_MOST_BIAS = 1 << 29
}; /* with it, and sums of KERN_I8_MAX_K products, within i32 where k is not far beyond */

bool passes_int8_is_bytes(td_dtype dtype);
/* Element `i` of one or of n numbers. */
double passes_int8_number(const base_tensor *t, int64_t i);
/* Operand `index`, which may be absent: *t is NULL then. False: it is there and no constant. */
bool passes_int8_find_optional(passes_edit *e, const ir_node_def *node, uint32_t index, const base_tensor **t);
bool passes_int8_find_stored(passes_edit *e, ir_value v, int8_stored *s);
/* `q` with this scale and zero point. */
bool passes_int8_scaled(const passes_edit *e, ir_value q, const base_tensor *scale, const base_tensor *zero,
                        int8_activation *a);
/* The same, no constant. */
bool passes_int8_activation_of(const passes_edit *e, ir_value q, const base_tensor *scale, const base_tensor *zero,
                               int8_activation *a);
/* The one that `v` is the dequantisation of. */
bool passes_int8_find_activation(passes_edit *e, ir_value v, int8_activation *a);
/* The same, of constants too. */
bool passes_int8_find_bytes(passes_edit *e, ir_value v, int8_activation *a);
/* One whose image has a scale for each channel, axis 1, and one zero point: `node` quantises or dequantises it. Its
 * scale is 1, and each channel's is to be counted among those of what reads or makes it. */
bool passes_int8_find_channels(const passes_edit *e, const ir_node_def *node, const base_tensor *scales,
                               const base_tensor *zeros, int8_activation *a);
/* Its zero point among 0 to 255, to which kernels turn signed bytes. */
int64_t passes_int8_unsigned_zero(const int8_activation *a);
/* How far a byte can be from its zero point. */
double passes_int8_largest(const int8_activation *a);
/* The attributes of a product of such an x that say what its kernel, x and the result are. `y` NULL: it is f32. */
enum { INT8_PRODUCT_ARGS = 7 };
void passes_int8_product_args(const kern_row *row, const int8_activation *x, const int8_activation *y, base_arg *args);
/* Channels of an image to the end, or back. */
td_status passes_int8_permute_channels(passes_edit *e, ir_node at, ir_value v, bool to_last, ir_value *out);

/* int8_between.c: rules of what stands between products. */
td_status passes_int8_visit_quantize(passes_edit *e, ir_node id, const ir_node_def *node);
td_status passes_int8_visit_norm(passes_edit *e, ir_node id, const ir_node_def *node);
td_status passes_int8_visit_mover(passes_edit *e, ir_node id, const ir_node_def *node);
td_status passes_int8_visit_cat(passes_edit *e, ir_node id, const ir_node_def *node);
/* int8_activations.c: a matmul of which neither operand is weights. */
td_status passes_int8_visit_activations(passes_edit *e, ir_node id, const ir_node_def *node);
td_status passes_int8_visit_qlinear_activations(passes_edit *e, ir_node id, const ir_node_def *node);
/* int8_tables.c: a quantisation to y that no product takes; `limited` is what it limits, as `limits` say. */
td_status passes_int8_between(passes_edit *e, ir_node id, const int8_activation *y, ir_value limited,
                              const base_arg *limits, uint32_t limit_count);
#endif
