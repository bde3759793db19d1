/* test_arithmetic.c -- values written down by hand: rounding, signs, wrapping, NaN, empty reductions, ties, saturation.
 */
#include "test.h"

#include <math.h>

#include "ops/ops.h"
#include "ops/results.h"

enum { MOST = 8 };

/* Numbers of a dtype and shape; rank 0 has one. `absent`: an optional operand left out. */
typedef struct numbers {
  td_dtype dtype;
  int32_t rank;
  int64_t dims[4];
  double at[MOST];
  bool absent;
} numbers;

typedef struct example {
  const char *op;
  base_arg args[3];
  numbers in[5];
  numbers out;
} example;

#define V(DTYPE, COUNT, ...)                                            \
  {                                                                     \
    .dtype = (DTYPE), .rank = 1, .dims = {COUNT}, .at = { __VA_ARGS__ } \
  }
#define S(DTYPE, VALUE)               \
  {                                   \
    .dtype = (DTYPE), .at = { VALUE } \
  }
#define M(DTYPE, ROWS, COLUMNS, ...)                                            \
  {                                                                             \
    .dtype = (DTYPE), .rank = 2, .dims = {ROWS, COLUMNS}, .at = { __VA_ARGS__ } \
  }
/* One sample, one channel. */
#define R3(DTYPE, COUNT, ...)                                                 \
  {                                                                           \
    .dtype = (DTYPE), .rank = 3, .dims = {1, 1, COUNT}, .at = { __VA_ARGS__ } \
  }

#define INF ((double)INFINITY)
#define NOT ((double)NAN)

static const int64_t axis_0[] = {0};
#define AXIS_0 \
  { .name = "dim", .kind = BASE_ATTR_INTS, .ints = axis_0, .count = 1 }
#define INT(NAME, VALUE) \
  { .name = NAME, .kind = BASE_ATTR_INT, .i = VALUE }
#define BOOL(NAME, VALUE) \
  { .name = NAME, .kind = BASE_ATTR_BOOL, .i = VALUE }
#define FLOAT(NAME, VALUE) \
  { .name = NAME, .kind = BASE_ATTR_FLOAT, .f = VALUE }
#define STR(NAME, VALUE) \
  { .name = NAME, .kind = BASE_ATTR_STR, .str = VALUE }
#define DTYPE(VALUE) \
  { .name = "dtype", .kind = BASE_ATTR_DTYPE, .i = VALUE }

static const example examples[] = {
    /* division, remainders */
    {"aten::div", {{0}}, {V(TD_F32, 3, 1, -1, 0), V(TD_F32, 3, 0, 0, 0)}, V(TD_F32, 3, INF, -INF, NOT)},
    {"aten::div",
     {STR("rounding_mode", "trunc")},
     {V(TD_I32, 4, 7, -7, 7, 5), V(TD_I32, 4, 2, 2, -2, 0)},
     V(TD_I32, 4, 3, -3, -3, 0)},
    {"aten::div",
     {STR("rounding_mode", "floor")},
     {V(TD_I64, 3, 7, -7, 7), V(TD_I64, 3, 2, 2, -2)},
     V(TD_I64, 3, 3, -4, -4)},
    {"aten::div", {STR("rounding_mode", "trunc")}, {V(TD_I8, 1, -128), V(TD_I8, 1, -1)}, V(TD_I8, 1, -128)},
    /* sums of integers wrap, and are whole beyond 2^53 */
    {"aten::convolution", {{0}}, {R3(TD_I8, 2, 100, 100), R3(TD_I8, 2, 2, 1), V(TD_I8, 1, 7)}, R3(TD_I8, 1, 51)},
    {"aten::convolution", {{0}}, {R3(TD_U8, 2, 200, 100), R3(TD_U8, 1, 2)}, R3(TD_U8, 2, 144, 200)},
    {"aten::convolution", {{0}}, {R3(TD_I16, 1, 300), R3(TD_I16, 1, 300)}, R3(TD_I16, 1, 24464)},
    {"aten::convolution", {{0}}, {R3(TD_I64, 2, 0x1p53 - 1, 0x1p53), R3(TD_I64, 2, 0x1p53 - 1, 2)}, R3(TD_I64, 1, 1)},
    {"aten::convolution",
     {BOOL("transposed", true)},
     {R3(TD_I32, 1, 65536), R3(TD_I32, 2, 65536, 3)},
     R3(TD_I32, 2, 0, 196608)},
    {"aten::remainder", {{0}}, {V(TD_I64, 4, 7, -7, 7, -7), V(TD_I64, 4, 3, 3, -3, -3)}, V(TD_I64, 4, 1, 2, -2, -1)},
    {"aten::fmod", {{0}}, {V(TD_I64, 4, 7, -7, 7, -7), V(TD_I64, 4, 3, 3, -3, -3)}, V(TD_I64, 4, 1, -1, 1, -1)},
    {"aten::remainder", {{0}}, {V(TD_F32, 2, -5.5, 5.5), V(TD_F32, 2, 2, -2)}, V(TD_F32, 2, 0.5, -0.5)},
    {"aten::fmod", {{0}}, {V(TD_F32, 2, -5.5, 5.5), V(TD_F32, 2, 2, -2)}, V(TD_F32, 2, -1.5, 1.5)},
    /* wrapping, powers, unsigned order */
    {"aten::add", {{0}}, {V(TD_U8, 2, 250, 1), V(TD_U8, 2, 10, 1)}, V(TD_U8, 2, 4, 2)},
    {"aten::pow", {{0}}, {V(TD_I64, 4, 2, -1, 3, 2), V(TD_I64, 4, 10, -3, 0, -1)}, V(TD_I64, 4, 1024, -1, 1, 0)},
    {"aten::maximum", {{0}}, {V(TD_U64, 1, 0x1p63), V(TD_U64, 1, 1)}, V(TD_U64, 1, 0x1p63)},
    {"aten::gt", {{0}}, {V(TD_U64, 1, 0x1p63), V(TD_U64, 1, 1)}, V(TD_BOOL, 1, 1)},
    {"aten::maximum", {{0}}, {V(TD_F32, 2, NOT, 1), V(TD_F32, 2, 1, NOT)}, V(TD_F32, 2, NOT, NOT)},
    {"aten::minimum", {{0}}, {V(TD_F16, 2, NOT, 1), V(TD_F16, 2, 1, -1)}, V(TD_F16, 2, NOT, -1)},
    {"aten::__lshift__", {{0}}, {V(TD_U8, 3, 255, 1, 1), V(TD_U8, 3, 1, 7, 8)}, V(TD_U8, 3, 254, 128, 0)},
    {"aten::__rshift__", {{0}}, {V(TD_I32, 2, -8, -1), V(TD_I32, 2, 1, 40)}, V(TD_I32, 2, -4, -1)},
    /* rounding half to even; signs */
    {"aten::round", {{0}}, {V(TD_F32, 5, 0.5, 1.5, 2.5, -0.5, -2.5)}, V(TD_F32, 5, 0, 2, 2, -0.0, -2)},
    {"aten::sign", {{0}}, {V(TD_F32, 3, -3, 0, NOT)}, V(TD_F32, 3, -1, 0, NOT)},
    {"aten::relu", {{0}}, {V(TD_F32, 3, -3, NOT, 2)}, V(TD_F32, 3, 0, NOT, 2)},
    {"aten::abs", {{0}}, {V(TD_I8, 2, -128, -3)}, V(TD_I8, 2, -128, 3)},
    {"aten::sigmoid", {{0}}, {V(TD_F32, 3, -1000, 0, 1000)}, V(TD_F32, 3, 0, 0.5, 1)},
    {"aten::softplus", {{0}}, {V(TD_F32, 3, -1000, 0, 1000)}, V(TD_F32, 3, 0, 0.6931471805599453, 1000)},
    {"aten::isinf", {BOOL("detect_negative", 0)}, {V(TD_F32, 4, INF, -INF, NOT, 1)}, V(TD_BOOL, 4, 1, 0, 0, 0)},
    /* clamp: the upper bound wins; either may be absent */
    {"aten::clamp", {{0}}, {V(TD_F32, 3, -5, 0, NOT), S(TD_F32, 2), S(TD_F32, 1)}, V(TD_F32, 3, 1, 1, NOT)},
    {"aten::clamp", {{0}}, {V(TD_I8, 2, -5, 5), {.absent = true}, S(TD_I8, 1)}, V(TD_I8, 2, -5, 1)},
    {"aten::clamp", {{0}}, {V(TD_U64, 2, 0x1p63, 0), S(TD_U64, 2)}, V(TD_U64, 2, 0x1p63, 2)},
    {"aten::where", {{0}}, {V(TD_BOOL, 2, 1, 0), S(TD_I16, 7), V(TD_I16, 2, 1, 2)}, V(TD_I16, 2, 7, 2)},
    /* casts */
    {"aten::_to_copy", {DTYPE(TD_I32)}, {V(TD_F32, 3, 2.9, -2.9, NOT)}, V(TD_I32, 3, 2, -2, 0)},
    {"aten::_to_copy", {DTYPE(TD_BOOL)}, {V(TD_F32, 3, 0.1, 0, NOT)}, V(TD_BOOL, 3, 1, 0, 1)},
    {"aten::_to_copy", {DTYPE(TD_F8E4M3FN)}, {V(TD_F32, 2, 1e6, -1e6)}, V(TD_F8E4M3FN, 2, 448, -448)},
    {"aten::_to_copy", {DTYPE(TD_F8E4M3FN), BOOL("saturate", 0)}, {V(TD_F32, 1, 1e6)}, V(TD_F8E4M3FN, 1, NOT)},
    {"aten::_to_copy", {DTYPE(TD_F8E8M0)}, {V(TD_F32, 3, 1, 1.5, 3)}, V(TD_F8E8M0, 3, 1, 2, 4)},
    {"td::bit_cast", {DTYPE(TD_I32)}, {V(TD_F32, 1, 1)}, V(TD_I32, 1, 0x3f800000)},
    /* reductions, empty ones too */
    {"aten::sum", {AXIS_0}, {M(TD_F32, 0, 2, 0)}, V(TD_F32, 2, 0, 0)},
    {"aten::prod", {AXIS_0}, {M(TD_I64, 0, 2, 0)}, V(TD_I64, 2, 1, 1)},
    {"aten::amax", {AXIS_0}, {M(TD_F32, 0, 1, 0)}, V(TD_F32, 1, -INF)},
    {"aten::amax", {AXIS_0}, {M(TD_I8, 0, 1, 0)}, V(TD_I8, 1, -128)},
    {"aten::amin", {AXIS_0}, {M(TD_BOOL, 0, 1, 0)}, V(TD_BOOL, 1, 1)},
    {"aten::mean", {AXIS_0}, {M(TD_F32, 0, 1, 0)}, V(TD_F32, 1, NOT)},
    {"aten::mean", {{0}}, {V(TD_I64, 3, 1, 2, 2)}, S(TD_I64, 1)},
    {"aten::logsumexp", {{0}}, {V(TD_F32, 2, 1000, 1000)}, S(TD_F32, 1000.6931471805599)},
    {"aten::logsumexp", {{0}}, {V(TD_F32, 2, -INF, -INF)}, S(TD_F32, -INF)},
    {"aten::linalg_vector_norm", {{0}}, {V(TD_F32, 2, 3, 4)}, S(TD_F32, 5)},
    {"aten::sum",
     {BOOL("noop", 1)},
     {V(TD_F32, 2, 3, 4), {.dtype = TD_I64, .rank = 1, .dims = {0}}},
     V(TD_F32, 2, 3, 4)},
    {"aten::sum", {BOOL("keepdim", 1)}, {M(TD_F32, 2, 2, 1, 2, 3, 4), V(TD_I64, 1, -1)}, M(TD_F32, 2, 1, 3, 7)},
    {"aten::argmax", {{0}}, {V(TD_F32, 4, 1, NOT, 3, NOT)}, S(TD_I64, 1)},
    {"aten::argmax", {BOOL("select_last_index", 1)}, {V(TD_I32, 4, 1, 3, 3, 2)}, S(TD_I64, 2)},
    {"aten::cumsum",
     {BOOL("exclusive", 1), BOOL("reverse", 1)},
     {V(TD_I32, 3, 1, 2, 3), S(TD_I64, 0)},
     V(TD_I32, 3, 5, 3, 0)},
    {"aten::_softmax", {{0}}, {V(TD_F32, 2, 1000, 1000)}, V(TD_F32, 2, 0.5, 0.5)},
    {"aten::_softmax",
     {INT("dim", 0), BOOL("flatten", 1)},
     {M(TD_F32, 2, 2, 5, 5, 5, 5)},
     M(TD_F32, 2, 2, 0.25, 0.25, 0.25, 0.25)},
    /* norms */
    {"aten::native_layer_norm",
     {FLOAT("eps", 0)},
     {V(TD_F32, 2, 1, 3), V(TD_F32, 2, 10, 10), S(TD_F32, 1)},
     V(TD_F32, 2, -9, 11)},
    {"aten::rms_norm", {FLOAT("eps", 0)}, {V(TD_F32, 2, 5, 5)}, V(TD_F32, 2, 1, 1)},
    {"aten::_native_batch_norm_legit_no_training",
     {FLOAT("eps", 0)},
     {M(TD_F32, 1, 2, 5, 6), V(TD_F32, 2, 2, 1), V(TD_F32, 2, 1, 0), V(TD_F32, 2, 1, 6), V(TD_F32, 2, 4, 1)},
     M(TD_F32, 1, 2, 5, 0)},
    {"td::lrn",
     {INT("size", 3), FLOAT("alpha", 3), FLOAT("beta", 1)},
     {M(TD_F32, 1, 3, 1, 2, 3)},
     M(TD_F32, 1, 3, 1.0 / 6, 2.0 / 15, 3.0 / 14)},
    /* quantisation: ties to even before the zero point is added, then saturation */
    {"td::quantize_linear",
     {DTYPE(TD_U8)},
     {V(TD_F32, 4, 0.5, 1.5, -1000, 1000), S(TD_F32, 1), S(TD_U8, 1)},
     V(TD_U8, 4, 1, 3, 0, 255)},
    {"td::quantize_linear",
     {DTYPE(TD_I4), INT("axis", 0), INT("block_size", 2)},
     {V(TD_F32, 3, 4, 6, 100), V(TD_F32, 2, 2, 10)},
     V(TD_I4, 3, 2, 3, 7)},
    {"td::dequantize_linear",
     {DTYPE(TD_F32), INT("axis", 0)},
     {V(TD_I8, 2, -128, 127), V(TD_F32, 2, 0.5, 2), V(TD_I8, 2, 0, 127)},
     V(TD_F32, 2, -64, 0)},
    {"td::dynamic_quantize_linear", {{0}}, {V(TD_F32, 3, 0, 255, 2)}, V(TD_U8, 3, 0, 255, 2)},
    /* losses, matrices */
    {"aten::nll_loss_nd",
     {INT("ignore_index", -1)},
     {M(TD_F32, 3, 2, -1, -2, -3, -4, -5, -6), V(TD_I64, 3, 0, -1, 1)},
     S(TD_F32, 3.5)},
    {"aten::nll_loss_nd",
     {STR("reduction", "none")},
     {M(TD_F32, 2, 2, -1, -2, -3, -4), V(TD_I32, 2, 1, 0), V(TD_F32, 2, 10, 1)},
     V(TD_F32, 2, 2, 30)},
    {"aten::linalg_det", {{0}}, {M(TD_F64, 2, 2, 0, 2, 3, 0)}, S(TD_F64, -6)},
    {"aten::triu", {{0}}, {M(TD_U8, 2, 2, 1, 2, 3, 4), S(TD_I64, 1)}, M(TD_U8, 2, 2, 0, 2, 0, 0)},
    {"aten::tril", {{0}}, {M(TD_U8, 2, 2, 1, 2, 3, 4)}, M(TD_U8, 2, 2, 1, 0, 3, 4)},
    {"aten::triu", {{0}}, {M(TD_U8, 2, 2, 1, 2, 3, 4), S(TD_I64, -1)}, M(TD_U8, 2, 2, 1, 2, 3, 4)},
    {"aten::tril", {{0}}, {M(TD_U8, 2, 2, 1, 2, 3, 4), S(TD_I64, -1)}, M(TD_U8, 2, 2, 0, 0, 3, 0)},
};

static const ir_opset *set;
static base_arena *arena;

static base_tensor tensor_of(const numbers *n) {
  int64_t count = 1;
  for (int32_t i = 0; i < n->rank; i++) count *= n->dims[i];
  uint8_t *data = base_arena_alloc(arena, MOST * sizeof(double));
  for (int64_t k = 0; k < count; k++) {
    if (base_is_float(n->dtype) || n->dtype == TD_U64) base_store_f64(n->dtype, data, k, n->at[k]);
    else base_store_i64(n->dtype, data, k, (int64_t)n->at[k]);
  }
  return base_tensor_of(data, n->dtype, n->rank, n->dims);
}

/* Evaluates `x`; the first output in *out. */
static td_status evaluate(const example *x, base_value *out, td_error *err) {
  const ir_op *op = ir_opset_find(set, x->op);
  base_value in[5];
  const base_value *at[5];
  const base_attrs *attrs;
  uint32_t args = 0, count = 0;
  base_value outs[3];
  if (!op) fail_msg("no operator %s", x->op);
  while (args < 3 && x->args[args].name) args++;
  for (; count < 5 && (x->in[count].dtype || x->in[count].absent); count++) {
    if (!x->in[count].absent) in[count] = (base_value){.kind = BASE_TENSOR, .tensor = tensor_of(&x->in[count])};
    at[count] = x->in[count].absent ? NULL : &in[count];
  }
  assert_int_equal(ir_make_attrs(arena, op, x->args, args, &attrs, err), TD_OK);
  td_status status = ir_evaluate(op, attrs, at, count, arena, outs, results_of(op, attrs), err);
  *out = outs[0];
  return status;
}

static bool near(double got, double want) {
  if (isnan(want)) return isnan(got);
  return got == want ? signbit(got) == signbit(want) : fabs(got - want) <= 1e-6 * fabs(want);
}

static void written_down(void **state) {
  (void)state;
  for (size_t e = 0; e < sizeof examples / sizeof *examples; e++) {
    const example *x = &examples[e];
    td_error err = {0};
    base_value got;
    if (evaluate(x, &got, &err) != TD_OK) fail_msg("example %zu: %s", e, err.text);
    assert_int_equal(got.tensor.dtype, x->out.dtype);
    assert_int_equal(got.tensor.rank, x->out.rank);
    for (int32_t i = 0; i < x->out.rank; i++) assert_int_equal(got.tensor.dims[i], x->out.dims[i]);
    for (int64_t k = 0; k < base_tensor_numel(&got.tensor); k++) {
      double value = base_load_f64(x->out.dtype, got.tensor.data, k);
      if (!near(value, x->out.at[k]))
        fail_msg("%s, example %zu: [%d] is %g, not %g", x->op, e, (int)k, value, x->out.at[k]);
    }
  }
}

/* Contents that only running shows to be wrong. */
static void refused_when_run(void **state) {
  static const struct {
    example x;
    const char *says;
  } wrong[] = {
      {{"aten::cumsum", {{0}}, {V(TD_F32, 2, 1, 2), S(TD_I64, 1)}, {0}}, "dimension"},
      {{"aten::sum", {{0}}, {V(TD_F32, 2, 1, 2), V(TD_I64, 1, 3)}, {0}}, "outside the rank"},
      {{"aten::nll_loss_nd", {{0}}, {M(TD_F32, 1, 2, 1, 2), V(TD_I64, 1, 2)}, {0}}, "class 2"},
      {{"aten::argmax", {{0}}, {V(TD_F32, 0, 0)}, {0}}, "no element"},
      {{"aten::native_group_norm", {INT("num_groups", 2)}, {M(TD_F32, 1, 3, 1, 2, 3)}, {0}}, "groups"},
      {{"aten::linalg_det", {{0}}, {M(TD_F32, 1, 2, 1, 2)}, {0}}, "square"},
      {{"td::dropout", {{0}}, {V(TD_F32, 1, 1), S(TD_F32, 0.5), S(TD_BOOL, 1)}, {0}}, "training"},
      {{"td::quantize_linear", {DTYPE(TD_U8), INT("axis", 0)}, {V(TD_F32, 3, 1, 2, 3), V(TD_F32, 2, 1, 2)}, {0}},
       "scales"},
      {{"aten::div", {{0}}, {V(TD_I64, 1, 1), V(TD_I64, 1, 1)}, {0}}, "rounding_mode"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    td_error err = {0};
    base_value got;
    assert_int_not_equal(evaluate(&wrong[i].x, &got, &err), TD_OK);
    if (!strstr(err.text, wrong[i].says)) fail_msg("\"%s\" does not say \"%s\"", err.text, wrong[i].says);
  }
}

static base_value cast(const base_tensor *t, td_dtype to, td_status expected) {
  const ir_op *op = ir_opset_find(set, "aten::_to_copy");
  base_value in = {.kind = BASE_TENSOR, .tensor = *t}, out = {0};
  const base_value *at[] = {&in};
  const base_attrs *attrs;
  td_error err = {0};
  assert_int_equal(ir_make_attrs(arena, op, (base_arg[]){ARG_DTYPE("dtype", to)}, 1, &attrs, &err), TD_OK);
  assert_int_equal(ir_evaluate(op, attrs, at, 1, arena, &out, 1, &err), expected);
  return out;
}

/* The shortest text that reads back as the number, and back again. */
static void numbers_as_text(void **state) {
  static const float floats[] = {1.5f, -3.0f, 1e20f,     1e-7f,      3.14159274f, 16777216.0f,
                                 0.1f, 0.0f,  9.999e-5f, 999.99994f, INFINITY};
  static const char *const texts[] = {"1.5", "-3.0", "1e+20",     "1e-07",     "3.1415927", "16777216.0",
                                      "0.1", "0.0",  "9.999e-05", "999.99994", "inf"};
  enum { COUNT = sizeof floats / sizeof *floats };
  float data[COUNT];
  int64_t dims[] = {COUNT};
  (void)state;
  memcpy(data, floats, sizeof data);
  base_tensor t = base_tensor_of(data, TD_F32, 1, dims);
  base_value text = cast(&t, TD_STRING, TD_OK), back = cast(&text.tensor, TD_F32, TD_OK);
  for (int i = 0; i < COUNT; i++) {
    base_str s = ((const base_str *)text.tensor.data)[i];
    if (!base_str_is(s, texts[i])) fail_msg("%.*s, not %s", (int)s.length, s.at, texts[i]);
    assert_true(((const base_f32 *)back.tensor.data)[i] == floats[i]);
  }
  base_str words[] = {BASE_STR("12x")};
  t = base_tensor_of(words, TD_STRING, 0, NULL);
  cast(&t, TD_F32, TD_BAD_ARGUMENT);
  words[0] = BASE_STR("9223372036854775807");
  back = cast(&t, TD_I64, TD_OK);
  assert_int_equal(base_load_i64(TD_I64, back.tensor.data, 0), INT64_MAX);
}

/* Texts are equal or not, broadcast like numbers. */
static void texts_are_compared(void **state) {
  base_str words[] = {BASE_STR("a"), BASE_STR("ab"), BASE_STR("")}, one[] = {BASE_STR("ab")};
  base_value left = {.kind = BASE_TENSOR}, right = {.kind = BASE_TENSOR}, out = {0};
  const base_value *at[] = {&left, &right};
  static const char *const names[] = {"aten::eq", "aten::ne"};
  (void)state;
  left.tensor = base_tensor_of(words, TD_STRING, 1, (int64_t[]){3});
  right.tensor = base_tensor_of(one, TD_STRING, 0, NULL);
  for (int n = 0; n < 2; n++) {
    const ir_op *op = ir_opset_find(set, names[n]);
    const base_attrs *attrs;
    td_error err = {0};
    assert_non_null(op);
    assert_int_equal(ir_make_attrs(arena, op, NULL, 0, &attrs, &err), TD_OK);
    assert_int_equal(ir_evaluate(op, attrs, at, 2, arena, &out, 1, &err), TD_OK);
    for (int k = 0; k < 3; k++) assert_int_equal(((const uint8_t *)out.tensor.data)[k], (k == 1) == (n == 0));
  }
}

static int setup(void **state) {
  (void)state;
  arena = base_arena_new(&base_libc_allocator);
  set = ops_set(arena);
  return set ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  base_arena_free(arena);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(written_down),
      cmocka_unit_test(refused_when_run),
      cmocka_unit_test(numbers_as_text),
      cmocka_unit_test(texts_are_compared),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
