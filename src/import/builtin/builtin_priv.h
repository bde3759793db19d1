/* builtin_priv.h -- what architectures are described with: layers that take a value and give a value, named by the key
 * of the module in the state_dict ("_blocks.3._expand_conv"). The builder keeps the first failure (ir/build.h); every
 * layer after it does nothing, so that a description reads without error handling.
 *
 * Parameters come from a state_dict, in place with their strides, or from a seed. One that does not fit is noted and
 * stood in for by zeros, so that all that do not fit are found; builtin_check_keys then says so. */
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
  ir_build b;
  const import_builtin_source *source;
  const fmt_state_dict *weights; /* NULL: seeded */
  bool *used;                    /* by entry of weights */
  builtin_misfits missing, misshaped;
} builtin_net;

/* ---- parameters (param.c) ---- */

/* f32 of these dims. Seeded values are uniform in center +- spread. */
ir_value builtin_param(builtin_net *n, const char *key, int32_t rank, const int64_t *dims, double center,
                       double spread);
/* TD_BAD_FILE with every missing, misshaped and superfluous key, if any. */
td_status builtin_check_keys(builtin_net *n);

/* A key, as printf writes it, that lives as long as the graph; "" and a status when out of memory. */
const char *builtin_key(builtin_net *n, const char *format, ...) BASE_PRINTF(2, 3);

/* ---- any layer (layer.c) ---- */

/* An input of fixed sizes but for an open batch, which is dims[0] < 0. */
ir_value builtin_input(builtin_net *n, const char *name, td_dtype dtype, int32_t rank, const int64_t *dims);
void builtin_output(builtin_net *n, ir_value x, const char *name);
/* Appends an operator; `key` and `kind` are its origin: "_fc (Linear)". */
ir_value builtin_node(builtin_net *n, const char *op, const ir_value *in, uint32_t in_count, const base_arg *args,
                      uint32_t arg_count, const char *key, const char *kind);
/* A dimension of a value whose number is known; negative ones count from the end. 0 after a failure. */
int64_t builtin_size(const builtin_net *n, ir_value x, int32_t dim);
/* A parameter `key`.`name`. */
ir_value builtin_param_of(builtin_net *n, const char *key, const char *name, int32_t rank, const int64_t *dims,
                          double center, double spread);
ir_value builtin_binary(builtin_net *n, const char *op, ir_value x, ir_value y, const char *key); /* "aten::add" */
ir_value builtin_add(builtin_net *n, ir_value x, ir_value y, const char *key);
/* By the name of a row of activations: "relu", "relu6", "hardswish", ...; NULL: x itself. */
ir_value builtin_activation(builtin_net *n, ir_value x, const char *name, const char *key);
/* Over the last dimension, with bias. */
ir_value builtin_linear(builtin_net *n, ir_value x, int64_t out, const char *key);
ir_value builtin_linear_of(builtin_net *n, ir_value x, int64_t out, const char *weight, const char *bias,
                           const char *key);
/* Parameters that a checkpoint has and this output does without. */
void builtin_unused_linear(builtin_net *n, int64_t in, int64_t out, const char *key);
ir_value builtin_layer_norm(builtin_net *n, ir_value x, double eps, const char *key); /* over the last dimension */
ir_value builtin_permute(builtin_net *n, ir_value x, int32_t rank, const int64_t *order, const char *key);
/* The same elements; a size of 0 stands for that of x, one of -1 for what is left. */
ir_value builtin_view(builtin_net *n, ir_value x, int32_t rank, const int64_t *dims, const char *key);
/* Elements [from, to) of dimension `dim`. */
ir_value builtin_slice(builtin_net *n, ir_value x, int64_t dim, int64_t from, int64_t to, const char *key);
/* [batch, rows, width] with rows of zeros before and behind. */
ir_value builtin_pad_rows(builtin_net *n, ir_value x, int64_t before, int64_t behind, const char *key);
ir_value builtin_cat(builtin_net *n, const ir_value *parts, uint32_t count, int64_t dim, const char *key);
/* Rows of a table [rows, width] of parameters. */
ir_value builtin_embedding(builtin_net *n, ir_value ids, int64_t rows, int64_t width, const char *key);
/* Elements of dimension `dim` by constant indices. */
ir_value builtin_select(builtin_net *n, ir_value x, int64_t dim, const int64_t *indices, uint32_t count,
                        const char *key);
/* Scaled dot products of [batch, rows, heads * size]; `mask` additive, or none. */
ir_value builtin_attention(builtin_net *n, const ir_value qkv[3], ir_value mask, int64_t heads, const char *key);

/* Inputs "input_ids" and "attention_mask", i64[batch, length]; *mask is what is added to scores, [batch, 1, 1, length].
 */
ir_value builtin_token_inputs(builtin_net *n, int64_t length, ir_value *mask);

/* ---- layers of images [batch, channels, height, width] (image.c) ---- */

/* The input "input", f32[batch, 3, side, side] with an open batch. */
ir_value builtin_image_input(builtin_net *n, int64_t side);

typedef enum builtin_padding {
  BUILTIN_HALF, /* (kernel - 1) / 2 on all sides */
  BUILTIN_SAME, /* TensorFlow's: output ceil(size / stride), an odd pixel of padding below and to the right */
  BUILTIN_VALID /* none */
} builtin_padding;
typedef struct builtin_conv { /* a square convolution */
  int64_t kernel, stride, out;
  builtin_padding padding;
  bool depthwise, bias;
} builtin_conv;
ir_value builtin_convolution(builtin_net *n, ir_value x, const builtin_conv *conv, const char *key);
ir_value builtin_batch_norm(builtin_net *n, ir_value x, double eps, const char *key);
/* Convolution, batch norm, activation (or NULL). */
ir_value builtin_conv_norm(builtin_net *n, ir_value x, const builtin_conv *conv, const char *conv_key,
                           const char *norm_key, double eps, const char *activation);
/* Windows of kernel x kernel, padded by `padding` on all sides; "td::max_pool" or "td::avg_pool". */
ir_value builtin_pool(builtin_net *n, ir_value x, const char *op, int64_t kernel, int64_t stride, int64_t padding,
                      const char *key);
/* The mean over height and width: to [batch, c, 1, 1]. */
ir_value builtin_global_pool(builtin_net *n, ir_value x, const char *key);
/* The same, to [batch, c]. */
ir_value builtin_global_mean(builtin_net *n, ir_value x, const char *key);
/* x times a gate per channel, found from the means of all channels by two layers KEY.fc1 and KEY.fc2 (Hu et al. 2018).
 */
ir_value builtin_squeeze_excite(builtin_net *n, ir_value x, int64_t squeeze, const char *activation, const char *gate,
                                const char *key);

/* ---- architectures ---- */

/* A model of one layer, by its description; see bench/README.md. */
void builtin_single_layer(builtin_net *n, const char *text);

#define BUILTIN(name) void builtin_##name(builtin_net *n);
#include "import/builtin/builtin.def"
#undef BUILTIN
#endif
