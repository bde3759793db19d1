/* single.c -- models of one layer, described in a line of text, to measure its kernel:
 *
 *     OPERATOR SHAPE [KEY=VALUE | KEY]...        conv 1x64x56x56 out=64 kernel=3 act=relu residual
 *
 * Operators and the keys they read are rows of a table; bench/README.md explains them. */
#include "import/builtin/builtin_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = 32, MOST_WORDS = 12 };

typedef struct option {
  char key[WORD_BYTES], value[WORD_BYTES];
} option;

typedef struct line {
  char operation[WORD_BYTES];
  int32_t rank;
  int64_t dims[BASE_MAX_RANK];
  option options[MOST_WORDS];
  uint32_t option_count;
} line;

/* ---- reading a line ---- */

static td_status bad_line(builtin_net *n, const char *what, base_str word) {
  return base_fail(n->b.err, TD_BAD_ARGUMENT, NULL, -1,
                   "layer '%.200s': %s '%.*s'; a line is OPERATOR SHAPE [KEY=VALUE | KEY]..., as in "
                   "conv 1x64x56x56 out=64 kernel=3 act=relu",
                   n->source->name, what, (int)base_min_i64((int64_t)word.length, WORD_BYTES), word.at);
}

static bool keep_word(base_str word, char *to) {
  if (word.length >= WORD_BYTES) return false;
  memcpy(to, word.at, word.length);
  to[word.length] = 0;
  return true;
}

static bool read_shape(base_str word, line *l) {
  for (size_t at = 0; at < word.length && l->rank < BASE_MAX_RANK; at++) {
    size_t start = at;
    while (at < word.length && word.at[at] != 'x') at++;
    int64_t *dim = &l->dims[l->rank++];
    if (!base_str_int((base_str){word.at + start, at - start}, dim) || *dim < 1 || *dim > INT32_MAX) return false;
    if (at == word.length) return true;
  }
  return false;
}

static bool read_option(base_str word, line *l) {
  const char *equals = memchr(word.at, '=', word.length);
  size_t key = equals ? (size_t)(equals - word.at) : word.length;
  if (l->option_count == MOST_WORDS) return false;
  option *o = &l->options[l->option_count++];
  base_str value = {equals ? equals + 1 : "1", equals ? word.length - key - 1 : 1};
  return keep_word((base_str){word.at, key}, o->key) && keep_word(value, o->value);
}

static td_status read_line(builtin_net *n, const char *text, line *l) {
  uint32_t words = 0;
  *l = (line){.rank = 0};
  for (text += strspn(text, " "); *text; text += strspn(text, " "), words++) {
    base_str word = {text, strcspn(text, " ")};
    bool good = words == 0 ? keep_word(word, l->operation) : words == 1 ? read_shape(word, l) : read_option(word, l);
    if (!good) return bad_line(n, words == 1 ? "no shape is" : "cannot read", word);
    text += word.length;
  }
  return words >= 2 ? TD_OK : bad_line(n, "the shape is missing after", base_str_of(l->operation));
}

/* NULL: it is not there. */
static const char *word_of(const line *l, const char *key) {
  for (uint32_t i = 0; i < l->option_count; i++)
    if (strcmp(l->options[i].key, key) == 0) return l->options[i].value;
  return NULL;
}

static int64_t number_of(const line *l, const char *key, int64_t otherwise) {
  const char *value = word_of(l, key);
  int64_t number;
  return value && base_str_int(base_str_of(value), &number) && number >= 1 && number <= INT32_MAX ? number : otherwise;
}

/* ---- the operators ---- */

static ir_value input(builtin_net *n, const line *l, const char *name) {
  return builtin_input(n, name, TD_F32, l->rank, l->dims);
}

/* Another input that is added, when the line says `residual`; then the activation `act`. */
static ir_value finish(builtin_net *n, ir_value x, const line *l) {
  int64_t dims[BASE_MAX_RANK];
  if (word_of(l, "residual") && n->b.status == TD_OK) {
    const ir_type type = *ir_type_of(n->b.graph, x);
    for (int32_t i = 0; i < type.rank; i++) dims[i] = type.dims[i];
    x = builtin_add(n, x, builtin_input(n, "residual", TD_F32, type.rank, dims), "layer");
  }
  return builtin_activation(n, x, word_of(l, "act"), "layer");
}

static ir_value linear(builtin_net *n, const line *l) {
  return finish(n, builtin_linear(n, input(n, l, "x"), number_of(l, "out", l->dims[l->rank - 1]), "layer"), l);
}

/* The products of matrices of two inputs: [..., m, k] and [..., k, out]. */
static ir_value matmul(builtin_net *n, const line *l) {
  line right = *l;
  right.dims[l->rank - 2] = l->dims[l->rank - 1];
  right.dims[l->rank - 1] = number_of(l, "out", l->dims[l->rank - 2]);
  return builtin_binary(n, "aten::matmul", input(n, l, "x"), input(n, &right, "y"), "layer");
}

static ir_value conv_of(builtin_net *n, const line *l, bool depthwise) {
  const char *padding = word_of(l, "padding");
  const builtin_conv conv = {.kernel = number_of(l, "kernel", 1),
                             .stride = number_of(l, "stride", 1),
                             .out = depthwise ? l->dims[1] : number_of(l, "out", l->dims[1]),
                             .padding = padding && strcmp(padding, "valid") == 0 ? BUILTIN_VALID : BUILTIN_HALF,
                             .depthwise = depthwise,
                             .bias = true};
  return finish(n, builtin_convolution(n, input(n, l, "x"), &conv, "layer"), l);
}
static ir_value conv(builtin_net *n, const line *l) { return conv_of(n, l, false); }
static ir_value depthwise(builtin_net *n, const line *l) { return conv_of(n, l, true); }

/* Queries, keys and values lie side by side in one input [batch, rows, 3 * width], as one product gives them. */
static ir_value attention(builtin_net *n, const line *l) {
  const int64_t width = l->dims[l->rank - 1], rows = l->dims[1], mask_dims[] = {l->dims[0], 1, 1, rows};
  line wide = *l;
  wide.dims[l->rank - 1] = 3 * width;
  ir_value x = input(n, &wide, "qkv"), qkv[3];
  for (int64_t i = 0; i < 3; i++) qkv[i] = builtin_slice(n, x, 2, i * width, (i + 1) * width, "layer");
  ir_value mask = word_of(l, "mask") ? builtin_input(n, "mask", TD_F32, 4, mask_dims) : IR_NO_VALUE;
  return builtin_attention(n, qkv, mask, number_of(l, "heads", 1), "layer");
}

static ir_value layer_norm(builtin_net *n, const line *l) {
  ir_value x = input(n, l, "x");
  if (word_of(l, "residual")) x = builtin_add(n, x, input(n, l, "residual"), "layer");
  return builtin_layer_norm(n, x, 1e-6, "layer");
}

static ir_value softmax(builtin_net *n, const line *l) {
  const base_arg args[] = {ARG_INT("dim", -1)};
  ir_value x = input(n, l, "x");
  return builtin_node(n, "aten::_softmax", &x, 1, args, 1, "layer", "softmax");
}

/* The operator that the word `op` names, `fallback` without it; an error where there is none. */
static const char *operator_of(builtin_net *n, const line *l, const char *format, const char *fallback) {
  const char *op = word_of(l, "op"), *name = builtin_key(n, format, op ? op : fallback);
  if (n->b.status == TD_OK && !ir_opset_find(n->b.graph->ops, name))
    n->b.status = base_fail(n->b.err, TD_BAD_ARGUMENT, NULL, -1, "there is no operator %s", name);
  return name;
}

/* op=sum|mean|amax over the last dimension. */
static ir_value reduce(builtin_net *n, const line *l) {
  const int64_t last[] = {-1};
  const base_arg args[] = {ARG_INTS("dim", last, 1)};
  const char *op = operator_of(n, l, "aten::%s", "sum");
  ir_value x = input(n, l, "x");
  return builtin_node(n, op, &x, 1, args, 1, "layer", "reduce");
}

/* Pools take images as the compiler lays them out, channels last. */
static ir_value global_pool(builtin_net *n, const line *l) {
  const base_arg args[] = {ARG_BOOL("channels_last", true)};
  ir_value x = input(n, l, "x");
  return builtin_node(n, "td::avg_pool", &x, 1, args, 1, "layer", "pool");
}

static ir_value pool(builtin_net *n, const line *l) {
  const char *op = operator_of(n, l, "td::%s_pool", "max");
  const int64_t kernel = number_of(l, "kernel", 2), stride = number_of(l, "stride", kernel), half = (kernel - 1) / 2;
  const int64_t kernels[] = {kernel, kernel}, strides[] = {stride, stride}, padding[] = {half, half, half, half};
  const base_arg args[] = {ARG_BOOL("channels_last", true), ARG_INTS("kernel_size", kernels, 2),
                           ARG_INTS("stride", strides, 2), ARG_INTS("padding", padding, 4)};
  ir_value x = input(n, l, "x");
  return builtin_node(n, op, &x, 1, args, 4, "layer", "pool");
}

static ir_value unary(builtin_net *n, const line *l) {
  return builtin_activation(n, input(n, l, "x"), word_of(l, "act") ? word_of(l, "act") : "relu", "layer");
}

/* op=add|mul|... of two inputs of one shape. */
static ir_value binary(builtin_net *n, const line *l) {
  const char *op = operator_of(n, l, "aten::%s", "add");
  ir_value x = input(n, l, "x"), y = input(n, l, "y");
  x = builtin_binary(n, op, x, y, "layer");
  return builtin_activation(n, x, word_of(l, "act"), "layer");
}

/* Every channel of an image times a number, as squeeze-and-excite does; channels last. */
static ir_value gate(builtin_net *n, const line *l) {
  const int64_t one[] = {l->dims[0], 1, 1, l->dims[3]};
  return builtin_binary(n, "aten::mul", input(n, l, "x"), builtin_input(n, "gate", TD_F32, 4, one), "layer");
}

/* ---- what moves data ---- */

/* order=0231: dimension i of the result is that one of the input. */
static ir_value permute(builtin_net *n, const line *l) {
  const char *word = word_of(l, "order");
  int64_t order[BASE_MAX_RANK];
  for (int32_t i = 0; i < l->rank; i++) order[i] = word && strlen(word) > (size_t)i ? word[i] - '0' : l->rank - 1 - i;
  return builtin_permute(n, input(n, l, "x"), l->rank, order, "layer");
}

/* to=f16: the elements of another type. */
static ir_value cast(builtin_net *n, const line *l) {
  const char *word = word_of(l, "to");
  td_dtype to = TD_I32;
  for (td_dtype d = TD_F32; word && d <= TD_BOOL; d++)
    if (strcmp(td_dtype_name(d), word) == 0) to = d;
  const base_arg args[] = {ARG_DTYPE("dtype", to)};
  ir_value x = input(n, l, "x");
  return builtin_node(n, "aten::_to_copy", &x, 1, args, 1, "layer", "to");
}

/* Places of the largest along the last dimension, or along axis=A. */
static ir_value argmax(builtin_net *n, const line *l) {
  const base_arg args[] = {ARG_INT("dim", number_of(l, "axis", l->rank - 1))};
  ir_value x = input(n, l, "x");
  return builtin_node(n, "aten::argmax", &x, 1, args, 1, "layer", "argmax");
}

/* scale=S mode=linear|nearest|cubic of the last two dimensions. */
static ir_value resize(builtin_net *n, const line *l) {
  const char *mode = word_of(l, "mode");
  const int64_t axes[] = {2, 3}, scale = number_of(l, "scale", 2);
  const int64_t sizes[] = {l->dims[2] * scale, l->dims[3] * scale};
  const base_arg args[] = {ARG_STR("mode", mode ? mode : "nearest"), ARG_INTS("axes", axes, 2)};
  ir_value in[4] = {input(n, l, "x")};
  in[3] = ir_build_ints(&n->b, sizes, 2);
  return builtin_node(n, "td::resize", in, 4, args, 2, "layer", "resize");
}

/* Blocks of channels to block=B times as many rows and columns. */
static ir_value shuffle(builtin_net *n, const line *l) {
  const base_arg args[] = {ARG_INT("blocksize", number_of(l, "block", 2)), ARG_STR("mode", "CRD")};
  ir_value x = input(n, l, "x");
  return builtin_node(n, "td::depth_to_space", &x, 1, args, 2, "layer", "pixel_shuffle");
}

/* Two inputs side by side along axis=A. */
static ir_value cat(builtin_net *n, const line *l) {
  const ir_value in[] = {input(n, l, "x"), input(n, l, "y")};
  return builtin_cat(n, in, 2, number_of(l, "axis", 1), "layer");
}

/* The first half along axis=A. */
static ir_value slice(builtin_net *n, const line *l) {
  const int64_t axis = number_of(l, "axis", 1);
  return builtin_slice(n, input(n, l, "x"), axis, 0, axis < l->rank ? l->dims[axis] / 2 : 0, "layer");
}

/* size=P pixels around an image [N, C, H, W]: op=constant_pad_nd, reflection_pad, replication_pad, circular_pad. */
static ir_value pad(builtin_net *n, const line *l) {
  const int64_t p = number_of(l, "size", 1), pads[] = {0, 0, p, p, 0, 0, p, p};
  const char *op = operator_of(n, l, "aten::%s", "reflection_pad");
  const ir_value in[] = {input(n, l, "x"), ir_build_ints(&n->b, pads, 8)};
  return builtin_node(n, op, in, 2, NULL, 0, "layer", "pad");
}

/* rows=R rows of a table. */
static ir_value gather(builtin_net *n, const line *l) {
  const int64_t rows = number_of(l, "rows", 1);
  return builtin_embedding(n, builtin_input(n, "ids", TD_I64, 1, &rows), l->dims[0], l->dims[1], "layer");
}

/* [..., N, 1 or 2 parts] along the last dimension but one, or along axis=A; `inverse`, `onesided`. */
static ir_value fourier(builtin_net *n, const line *l) {
  const base_arg args[] = {ARG_BOOL("inverse", word_of(l, "inverse") != NULL),
                           ARG_BOOL("onesided", word_of(l, "onesided") != NULL)};
  ir_value in[3] = {input(n, l, "x")};
  in[2] = ir_build_int(&n->b, number_of(l, "axis", l->rank - 2));
  return builtin_node(n, "td::dft", in, 3, args, 2, "layer", "fourier");
}

/* ---- over time, and back to images ---- */

/* [steps, batch, width], hidden=H, `both` directions; op=lstm, gru or rnn. */
static ir_value recurrent(builtin_net *n, const line *l) {
  const char *op = operator_of(n, l, "td::%s", "lstm");
  const int64_t hidden = number_of(l, "hidden", l->dims[2]), directions = word_of(l, "both") ? 2 : 1;
  const int64_t gates = strstr(op, "gru") ? 3 : strstr(op, "rnn") ? 1 : 4, rows = gates * hidden;
  const int64_t w[] = {directions, rows, l->dims[2]}, r[] = {directions, rows, hidden}, bias[] = {directions, 2 * rows};
  const base_arg args[] = {ARG_STR("direction", directions == 2 ? "bidirectional" : "forward"),
                           ARG_BOOL("linear_before_reset", true)};
  const double spread = 1 / sqrt((double)hidden);
  ir_value in[4] = {input(n, l, "x")};
  in[1] = builtin_param_of(n, "layer", "w", 3, w, 0, spread);
  in[2] = builtin_param_of(n, "layer", "r", 3, r, 0, spread);
  in[3] = builtin_param_of(n, "layer", "bias", 2, bias, 0, spread);
  return builtin_node(n, op, in, 4, args, gates == 3 ? 2 : 1, "layer", "recurrent");
}

/* out=N kernel=K stride=S */
static ir_value conv_transpose(builtin_net *n, const line *l) {
  const int64_t kernel = number_of(l, "kernel", 2), stride = number_of(l, "stride", kernel);
  const int64_t out = number_of(l, "out", l->dims[1]), p = (kernel - stride) / 2;
  const int64_t dims[] = {l->dims[1], out, kernel, kernel}, strides[] = {stride, stride}, padding[] = {p, p, p, p};
  const base_arg args[] = {ARG_BOOL("transposed", true), ARG_INTS("stride", strides, 2),
                           ARG_INTS("padding", padding, 4)};
  ir_value in[3] = {input(n, l, "x")};
  in[1] = builtin_param_of(n, "layer", "weight", 4, dims, 0, 1 / sqrt((double)l->dims[1]));
  in[2] = builtin_param_of(n, "layer", "bias", 1, &out, 0, 0.1);
  return finish(n, builtin_node(n, "aten::convolution", in, 3, args, 3, "layer", "ConvTranspose2d"), l);
}

typedef struct operation {
  const char *name;
  int32_t least_rank, most_rank;
  ir_value (*build)(builtin_net *n, const line *l);
} operation;
static const operation operations[] = {
    {"linear", 2, 4, linear},
    {"matmul", 2, 4, matmul},
    {"conv", 4, 4, conv},
    {"depthwise", 4, 4, depthwise},
    {"attention", 3, 3, attention},
    {"layer_norm", 1, 4, layer_norm},
    {"softmax", 1, 4, softmax},
    {"reduce", 1, 4, reduce},
    {"pool", 4, 4, pool},
    {"global_pool", 4, 4, global_pool},
    {"unary", 1, 4, unary},
    {"binary", 1, 4, binary},
    {"gate", 4, 4, gate},
    {"permute", 1, 6, permute},
    {"cast", 1, 4, cast},
    {"argmax", 2, 4, argmax},
    {"resize", 4, 4, resize},
    {"pixel_shuffle", 4, 4, shuffle},
    {"cat", 2, 4, cat},
    {"slice", 2, 4, slice},
    {"pad", 4, 4, pad},
    {"gather", 2, 2, gather},
    {"fourier", 2, 4, fourier},
    {"recurrent", 3, 3, recurrent},
    {"conv_transpose", 4, 4, conv_transpose},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

void builtin_single_layer(builtin_net *n, const char *text) {
  line l;
  if (n->b.status == TD_OK) n->b.status = read_line(n, text, &l);
  if (n->b.status != TD_OK) return;
  const operation *o = operations;
  while (o < operations + OPERATIONS && strcmp(o->name, l.operation) != 0) o++;
  if (o == operations + OPERATIONS) n->b.status = bad_line(n, "there is no operator", base_str_of(l.operation));
  else if (l.rank < o->least_rank || l.rank > o->most_rank)
    n->b.status = bad_line(n, "another number of dimensions is needed by", base_str_of(l.operation));
  else builtin_output(n, o->build(n, &l), "y");
}
