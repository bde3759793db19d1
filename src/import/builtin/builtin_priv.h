/* builtin_priv.h -- what architectures are described with: layers that take a value and give a value, named by the key
 * of the module in the state_dict ("_blocks.3._expand_conv"). The first failure is kept in `status`; every layer after
 * it does nothing, so that a description reads without error handling.
 *
 * Parameters come from a state_dict, in place with their strides, or from a seed. One that does not fit is noted and
 * stood in for by zeros, so that all that do not fit are found; builtin_finish then says so. */
#ifndef IMPORT_BUILTIN_PRIV_H
#define IMPORT_BUILTIN_PRIV_H
#include "fmt/fmt.h"
#include "import/import.h"

/* Keys that do not fit, as text for people, and how many. */
typedef struct builtin_misfits {
  base_text text;
  uint32_t count;
} builtin_misfits;

typedef struct builtin_net {
  ir_graph *graph;
  const import_builtin_source *source;
  const fmt_state_dict *weights; /* NULL: seeded */
  bool *used;                    /* by entry of weights */
  builtin_misfits missing, misshaped;
  ir_value zero, six; /* bounds of ReLU6 */
  td_status status;
  td_error *err;
} builtin_net;

/* ---- parameters (param.c) ---- */

/* f32 of these dims. Seeded values are uniform in center +- spread. */
ir_value builtin_param(builtin_net *n, const char *key, int32_t rank, const int64_t *dims, double center,
                       double spread);
/* TD_BAD_FILE with every missing, misshaped and superfluous key, if any. */
td_status builtin_check_keys(builtin_net *n);

/* ---- layers (layer.c) ---- */

/* The input "input", f32[batch, 3, side, side] with an open batch. */
ir_value builtin_image_input(builtin_net *n, int64_t side);
void builtin_output(builtin_net *n, ir_value x, const char *name);
/* Appends an operator; `key` and `kind` are its origin: "_fc (Linear)". */
ir_value builtin_node(builtin_net *n, const char *op, const ir_value *in, uint32_t in_count, const base_arg *args,
                      uint32_t arg_count, const char *key, const char *kind);

/* A square convolution without bias. Padding is TensorFlow's SAME: output ceil(size / stride), an odd pixel of padding
 * below and to the right. */
typedef struct builtin_conv {
  int64_t in, out, groups;
  int64_t kernel, stride;
} builtin_conv;
ir_value builtin_convolution(builtin_net *n, ir_value x, const builtin_conv *conv, const char *key);
ir_value builtin_batch_norm(builtin_net *n, ir_value x, int64_t channels, double eps, const char *key);
ir_value builtin_relu6(builtin_net *n, ir_value x, const char *key);
ir_value builtin_add(builtin_net *n, ir_value x, ir_value y, const char *key);
/* The mean over height and width: [n, c, h, w] to [n, c]. */
ir_value builtin_global_mean(builtin_net *n, ir_value x, const char *key);
/* With bias. */
ir_value builtin_linear(builtin_net *n, ir_value x, int64_t in, int64_t out, const char *key);

/* ---- architectures ---- */

#define BUILTIN(name) void builtin_##name(builtin_net *n);
#include "import/builtin/builtin.def"
#undef BUILTIN
#endif
