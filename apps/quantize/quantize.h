/* quantize.h -- `treadle-quantize`: an ONNX model of f32 as one whose products are of 8 or 4 bits.
 *
 * The model is edited as ONNX has it (of other formats td_model_save_onnx writes it first): nodes, their names and
 * weights that stay are the bytes of the file. What a tensor may be is measured by running the model on the caller's
 * data with the tensors in question as outputs. */
#ifndef QUANTIZE_QUANTIZE_H
#define QUANTIZE_QUANTIZE_H
#include "base/base.h"
#include "fmt/tensor_proto.h"
#include "fmt/wire.h"

#include <treadle/treadle.h>

typedef enum quant_mode { QUANT_STATIC, QUANT_DYNAMIC, QUANT_WEIGHTS, QUANT_INT4 } quant_mode;
typedef enum quant_observer { QUANT_MINMAX, QUANT_PERCENTILE, QUANT_MSE, QUANT_ENTROPY } quant_observer;

/* ---- the model (onnx.c) ---- */

typedef struct quant_node {
  fmt_wire bytes; /* the NodeProto */
  const char *name, *op, *domain;
  BASE_VEC(const char *) in, out;
  const char *label; /* name, or that of its first result */
  bool is_product;   /* a convolution or product with a constant matrix of f32 */
  bool kept;         /* in f32, as the caller or the loss will have it */
  int8_t *rounded;   /* its weights in i8, [n, k], as samples have it; NULL: to nearest (fit.h) */
  float *shift;      /* to be added to its bias; NULL: nothing */
} quant_node;

typedef struct quant_model {
  base_arena *arena;
  fmt_wire file;
  int64_t opset;
  bool is_external; /* weights are in files beside it */
  BASE_VEC(quant_node) nodes;
  BASE_VEC(base_tensor) initializers; /* of another type than f32: TD_INVALID */
  BASE_VEC(const char *) outputs;
  base_map weights;   /* name -> position in initializers */
  base_map producers; /* name -> position in nodes */
} quant_model;

enum { QUANT_OPSET = 13 /* the first with scales for each channel */ };
/* `bytes` must outlive the model, of any operator set. */
td_status quant_read(base_arena *arena, const void *bytes, size_t size, quant_model *m, td_error *err);
/* The initializer called `name`. False: it is none, or of another type than f32. */
bool quant_weight(const quant_model *m, const char *name, base_tensor *t);
/* An integer attribute of a node, `absent` where it has none; the last of a list below 128; a float one. */
int64_t quant_int(const quant_node *n, const char *name, int64_t absent);
int64_t quant_last(const quant_node *n, const char *name, int64_t absent);
float quant_float(const quant_node *n, const char *name, float absent);
/* The first `count` numbers of a list. False: the node has no such list. */
bool quant_ints(const quant_node *n, const char *name, int64_t *values, int32_t count);
/* Is the attribute this text? */
bool quant_says(const quant_node *n, const char *name, const char *text);
/* Operand `i`, or "" where there is none. */
const char *quant_in(const quant_node *n, uint32_t i);
/* Is it one of ONNX's own operators of the list, which NULL ends? */
bool quant_is_of(const quant_node *n, const char *const *list);
bool quant_is_op(const quant_node *n, const char *op);
bool quant_is_constant(const quant_model *m, const char *name); /* or none */
const quant_node *quant_producer(const quant_model *m, const char *name);
/* How often nodes and outputs of the model read it. */
uint32_t quant_readers(const quant_model *m, const char *name);
/* The matrix or window of a product, also behind a transposition; `axis`: of what comes out. False: none of f32. */
bool quant_product_weight(const quant_model *m, const quant_node *n, base_tensor *w, int32_t *axis);
/* The weight of input `i` in result `n`. */
static inline double quant_weight_at(const base_tensor *w, int32_t axis, int64_t n, int64_t i) {
  const base_f32 *x = w->data;
  return (double)(axis == 0 ? x[n * (base_tensor_numel(w) / w->dims[0]) + i] : x[i * w->dims[1] + n]);
}
/* [k, n] from [n, k]. False: out of memory. */
bool quant_transpose(const quant_model *m, const base_tensor *t, base_tensor *transposed);

/* ---- ranges of tensors (observe.c) ---- */

enum { QUANT_BINS = 2048 };
typedef struct quant_range {
  const char *name;
  float low, high; /* seen; low <= 0 <= high */
  size_t output;   /* of the measured model */
  bool seen, is_f32;
  uint64_t *bins; /* of [low, high]; NULL for QUANT_MINMAX */
  float scale;    /* of u8 */
  int32_t zero;
} quant_range;
typedef struct quant_ranges {
  BASE_VEC(quant_range) at;
  base_map index; /* name -> position */
} quant_ranges;
const quant_range *quant_range_of(const quant_ranges *r, const char *name);
/* A call for all values of a tensor. */
void quant_observe(quant_range *r, const float *x, int64_t count, bool histogram);
void quant_choose(quant_range *r, quant_observer observer);

/* ---- data (data.c) ---- */

typedef struct quant_data {
  uint32_t count;
  const char **files; /* a sample each: an array or picture, or a folder of arrays called like inputs */
  const char *preset;
} quant_data;
/* `path`: a file, or a folder of them. */
td_status quant_list_data(base_arena *arena, const char *path, quant_data *data, td_error *err);
/* At most `most` of them, spread over all: neighbours are often parts of one picture. False: out of memory. */
bool quant_spread(base_arena *arena, const quant_data *data, uint32_t most, quant_data *some);
/* Sets the session's inputs to sample `i`, whose memory is `arena`'s. */
td_status quant_set_sample(const quant_data *data, uint32_t i, const td_model *model, td_session *session,
                           base_arena *arena, td_error *err);

/* ---- the rewritten model (rewrite.c) ---- */

typedef struct quant_recipe {
  quant_mode mode;
  int64_t block;              /* of QUANT_INT4 */
  const quant_ranges *ranges; /* of QUANT_STATIC */
  const quant_node *alone;    /* quantise this node and no other; NULL: all that are not kept */
} quant_recipe;
/* Finds the products, and (static) which tensors between them have to be measured. */
td_status quant_find(quant_model *m, quant_mode mode, quant_ranges *ranges, td_error *err);
/* The weights of result `n` in i8, and their scale, which is at least `least`. */
float quant_round_nearest(const base_tensor *w, int32_t axis, int64_t n, float least, int8_t *rounded);
/* The least scale for the weights of a product's result `n` with which its bias is in range in units of both scales: of
 * channels that a norm has all but silenced the bias is what is left. 0: any will do. */
float quant_least_scale(const quant_model *m, const quant_ranges *ranges, const quant_node *node, int64_t n);
/* Appends the file. */
td_status quant_write(const quant_model *m, const quant_recipe *recipe, base_text *out, td_error *err);
/* Appends the file as it is, with these tensors as outputs behind its own. */
void quant_write_tapped(const quant_model *m, const char *const *names, uint32_t count, base_text *out);
#endif
