/* test_aten_calls.c -- overloads, promotion, views and in-place writes, and the journal, against what PyTorch 2.15
 * gave. Contents of small integer tensors are known while a graph is built, so nothing has to run. */
#include "base/lack.h"
#include "import/world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void start(world *w) { assert_true(world_open(w, &base_libc_allocator)); }

/* 0, 1, 2, ... of the given sizes. */
static aten_value counting(world *w, td_dtype dtype, int32_t rank, const int64_t *dims) {
  int64_t count = 1, data[64] = {0};
  for (int32_t i = 0; i < rank; i++) count *= dims[i];
  for (int64_t i = 0; i < count; i++) base_store_i64(dtype, data, i, i);
  base_tensor t = base_tensor_of(data, dtype, rank, dims);
  return aten_of(w->a, ir_build_constant(&w->build, &t), true);
}
#define COUNTING(w, dtype, ...) \
  counting((w), (dtype), (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

#define CALL(w, name, ...)                                     \
  aten_call((w)->a, (name), NULL, (aten_value[]){__VA_ARGS__}, \
            sizeof((aten_value[]){__VA_ARGS__}) / sizeof(aten_value), NULL, 0)

static aten_value ints(world *w, const int64_t *at, uint32_t count) {
  aten_value list = aten_list_of(w->a, NULL, 0);
  for (uint32_t i = 0; i < count; i++) aten_list_append(w->a, list.u.list, aten_int(at[i]));
  return list;
}
#define INTS(w, ...) ints((w), (int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void expect(world *w, const aten_value *v, const int64_t *wanted, uint32_t count) {
  const int64_t *got;
  uint32_t found;
  if (w->build.status != TD_OK) fail_msg("%s: %s", w->err.name, w->err.text);
  assert_true(ir_build_known_ints(&w->build, aten_read(w->a, v), &got, &found));
  assert_int_equal(found, count);
  for (uint32_t i = 0; i < count; i++)
    if (got[i] != wanted[i]) fail_msg("element %u is %d instead of %d", i, (int)got[i], (int)wanted[i]);
}
#define EXPECT(w, v, ...) expect((w), (v), (int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* ---- promotion ---- */

static void test_promote_types(void **state) {
  static const td_dtype order[] = {TD_BOOL, TD_U8, TD_I8, TD_I16, TD_I32, TD_I64, TD_F16, TD_BF16, TD_F32, TD_F64};
  static const td_dtype wanted[10][10] = {
      {TD_BOOL, TD_U8, TD_I8, TD_I16, TD_I32, TD_I64, TD_F16, TD_BF16, TD_F32, TD_F64},
      {TD_U8, TD_U8, TD_I16, TD_I16, TD_I32, TD_I64, TD_F16, TD_BF16, TD_F32, TD_F64},
      {TD_I8, TD_I16, TD_I8, TD_I16, TD_I32, TD_I64, TD_F16, TD_BF16, TD_F32, TD_F64},
      {TD_I16, TD_I16, TD_I16, TD_I16, TD_I32, TD_I64, TD_F16, TD_BF16, TD_F32, TD_F64},
      {TD_I32, TD_I32, TD_I32, TD_I32, TD_I32, TD_I64, TD_F16, TD_BF16, TD_F32, TD_F64},
      {TD_I64, TD_I64, TD_I64, TD_I64, TD_I64, TD_I64, TD_F16, TD_BF16, TD_F32, TD_F64},
      {TD_F16, TD_F16, TD_F16, TD_F16, TD_F16, TD_F16, TD_F16, TD_F32, TD_F32, TD_F64},
      {TD_BF16, TD_BF16, TD_BF16, TD_BF16, TD_BF16, TD_BF16, TD_F32, TD_BF16, TD_F32, TD_F64},
      {TD_F32, TD_F32, TD_F32, TD_F32, TD_F32, TD_F32, TD_F32, TD_F32, TD_F32, TD_F64},
      {TD_F64, TD_F64, TD_F64, TD_F64, TD_F64, TD_F64, TD_F64, TD_F64, TD_F64, TD_F64}};
  (void)state;
  for (int x = 0; x < 10; x++)
    for (int y = 0; y < 10; y++) assert_int_equal(aten_promote_types(order[x], order[y]), wanted[x][y]);
}

/* Tensors with dimensions, of rank 0, and numbers. */
static void test_result_type(void **state) {
  static const struct {
    aten_mix mix;
    td_dtype wanted;
  } rows[] = {{{TD_F32, TD_F64, 0}, TD_F32},    {{TD_I64, TD_F32, 0}, TD_F32},  {{TD_I32, TD_I64, 0}, TD_I32},
              {{TD_BOOL, TD_I8, 0}, TD_I8},     {{TD_F16, TD_F32, 0}, TD_F16},  {{TD_U8, TD_I64, 0}, TD_U8},
              {{TD_I8, TD_BOOL, 0}, TD_I8},     {{TD_F16, TD_BF16, 0}, TD_F16}, {{TD_F16, 0, TD_F32}, TD_F16},
              {{TD_I32, 0, TD_I64}, TD_I32},    {{TD_I64, 0, TD_F32}, TD_F32},  {{TD_BOOL, 0, TD_I64}, TD_I64},
              {{TD_BOOL, 0, TD_BOOL}, TD_BOOL}, {{TD_F64, 0, TD_F32}, TD_F64},  {{TD_U8, 0, TD_I64}, TD_U8},
              {{0, TD_F16, TD_F32}, TD_F16},    {{0, TD_I32, TD_F32}, TD_F32},  {{0, TD_BOOL, TD_I64}, TD_I64}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_int_equal(aten_mix_result(&rows[i].mix), rows[i].wanted);
}

/* ---- overloads ---- */

static void test_overloads(void **state) {
  world w;
  start(&w);
  (void)state;
  aten_value x = COUNTING(&w, TD_I64, 2, 3), f = COUNTING(&w, TD_F32, 2, 3), none = ATEN_NOTHING, v;
  v = CALL(&w, "aten::add", aten_int(2), aten_int(3));
  assert_int_equal(v.kind, ATEN_INT);
  assert_int_equal(v.u.i, 5);
  v = CALL(&w, "aten::div", aten_int(7), aten_int(2)); /* true division */
  assert_true(v.kind == ATEN_FLOAT && v.u.f == 3.5);
  v = CALL(&w, "aten::floordiv", aten_int(-7), aten_int(2));
  assert_true(v.kind == ATEN_INT && v.u.i == -4);
  v = CALL(&w, "aten::remainder", aten_int(-7), aten_int(2));
  assert_true(v.kind == ATEN_INT && v.u.i == 1);
  v = CALL(&w, "aten::add", aten_text(w.a, "ab"), aten_text(w.a, "c"));
  assert_true(v.kind == ATEN_STR && base_str_is(aten_str_of(&v), "abc"));
  v = CALL(&w, "aten::add", INTS(&w, 1), INTS(&w, 2, 3));
  assert_int_equal(CALL(&w, "aten::len", v).u.i, 3);
  assert_int_equal(CALL(&w, "aten::size", x, aten_int(-1)).u.i, 3);
  assert_int_equal(CALL(&w, "aten::len", CALL(&w, "aten::size", x)).u.i, 2);
  assert_int_equal(CALL(&w, "aten::max", x).kind, ATEN_TENSOR);
  assert_int_equal(CALL(&w, "aten::max", x, aten_int(0)).kind, ATEN_TUPLE);
  assert_int_equal(CALL(&w, "aten::max", x, x).kind, ATEN_TENSOR);
  v = CALL(&w, "aten::div", x, aten_int(2));
  assert_int_equal(aten_tensor_scalar_type(w.a, &v), 6);
  v = CALL(&w, "aten::add", f, COUNTING(&w, TD_F64, 1));
  assert_int_equal(aten_tensor_scalar_type(w.a, &v), 7);
  v = CALL(&w, "aten::sum", x, none, aten_bool(false)); /* None is an optional list: dim_IntList */
  EXPECT(&w, &v, 15);
  v = CALL(&w, "aten::slice", INTS(&w, 4, 5, 6), aten_int(1));
  assert_int_equal(CALL(&w, "aten::len", v).u.i, 2);
  v = CALL(&w, "aten::slice", x, aten_int(1), aten_int(1));
  EXPECT(&w, &v, 1, 2, 4, 5);
  v = CALL(&w, "aten::add", x, x,
           CALL(&w, "aten::select", CALL(&w, "aten::select", x, aten_int(0), aten_int(0)), aten_int(0), aten_int(2)));
  assert_int_not_equal(w.build.status, TD_OK); /* alpha is a keyword of add.Tensor */
  world_close(&w);
}

static void test_pt2_names(void **state) {
  world w;
  start(&w);
  (void)state;
  assert_true(aten_supports(w.a, "aten::add", "Tensor"));
  assert_true(aten_supports(w.a, "aten::add_", "Tensor"));
  assert_true(aten_supports(w.a, "aten::relu", "default"));
  assert_true(aten_supports(w.a, "aten::relu", ""));
  assert_true(aten_supports(w.a, "aten::add", "out"));
  assert_false(aten_supports(w.a, "aten::add", "Tensor2"));
  assert_false(aten_supports(w.a, "aten::no_such_thing", NULL));
  aten_note_missing(w.a, "aten::a", "m.py:1", NULL);
  aten_note_missing(w.a, "aten::a", "m.py:2", NULL);
  aten_note_missing(w.a, "aten::b", "m.py:3", "only of matrices");
  aten_report_missing(w.a);
  assert_int_equal(w.build.status, TD_UNSUPPORTED);
  assert_non_null(
      strstr(w.err.text, "2 operators are not supported: aten::a (2 calls, first m.py:1), aten::b (1 call"));
  world_close(&w);
}

/* ---- views ---- */

/* round() of Python, half to even. */
static void test_round(void **state) {
  (void)state;
  world w;
  start(&w);
  aten_value half = CALL(&w, "builtins::round", aten_float(2.5)),
             ten = CALL(&w, "builtins::round", aten_int(-25), aten_int(-1)),
             same = CALL(&w, "builtins::round", aten_int(25), aten_int(3)),
             tenth = CALL(&w, "builtins::round", aten_float(-1.25), aten_int(1));
  assert_int_equal(half.kind, ATEN_INT);
  assert_int_equal(half.u.i, 2);
  assert_int_equal(ten.kind, ATEN_INT);
  assert_int_equal(ten.u.i, -20);
  assert_int_equal(same.u.i, 25);
  assert_int_equal(tenth.kind, ATEN_FLOAT);
  assert_true(tenth.u.f == -1.2);
  world_close(&w);
}

static void test_views_share(void **state) {
  world w;
  start(&w);
  (void)state;
  aten_value zero = aten_int(0), one = aten_int(1), two = aten_int(2), three = aten_int(3), none = ATEN_NOTHING;
  aten_value x = COUNTING(&w, TD_I64, 3, 4), y = CALL(&w, "aten::select", x, zero, one);
  CALL(&w, "aten::add_", y, aten_int(100));
  EXPECT(&w, &x, 0, 1, 2, 3, 104, 105, 106, 107, 8, 9, 10, 11);
  x = COUNTING(&w, TD_I64, 3, 4);
  y = CALL(&w, "aten::slice", CALL(&w, "aten::t", x), zero, one, three);
  y = CALL(&w, "aten::slice", y, one, none, none, two);
  CALL(&w, "aten::mul_", y, aten_int(10));
  EXPECT(&w, &x, 0, 10, 20, 3, 4, 5, 6, 7, 8, 90, 100, 11);
  EXPECT(&w, &y, 10, 90, 20, 100);
  x = COUNTING(&w, TD_I64, 3, 4);
  y = CALL(&w, "aten::slice", CALL(&w, "aten::view", x, INTS(&w, 2, 6)), one, one, aten_int(4), two);
  CALL(&w, "aten::fill_", y, aten_int(7));
  EXPECT(&w, &x, 0, 7, 2, 7, 4, 5, 6, 7, 8, 7, 10, 11);
  x = COUNTING(&w, TD_I64, 3, 4);
  aten_value row = CALL(&w, "aten::select", x, zero, zero), flat = CALL(&w, "aten::view", x, INTS(&w, -1));
  aten_value more = CALL(&w, "aten::add", COUNTING(&w, TD_I64, 4), aten_int(50));
  CALL(&w, "aten::copy_", CALL(&w, "aten::slice", flat, zero, two, aten_int(6)), more);
  EXPECT(&w, &row, 0, 1, 50, 51);
  EXPECT(&w, &x, 0, 1, 50, 51, 52, 53, 6, 7, 8, 9, 10, 11);
  x = COUNTING(&w, TD_I64, 3, 3);
  CALL(&w, "aten::zero_", CALL(&w, "aten::diagonal", x));
  EXPECT(&w, &x, 0, 1, 2, 3, 0, 5, 6, 7, 0);
  world_close(&w);
}

static void test_parts_share(void **state) {
  world w;
  start(&w);
  (void)state;
  aten_value x = COUNTING(&w, TD_I64, 2, 3), list = CALL(&w, "aten::unbind", x, aten_int(1));
  CALL(&w, "aten::sub_", CALL(&w, "aten::__getitem__", list, aten_int(2)), aten_int(1));
  EXPECT(&w, &x, 0, 1, 1, 3, 4, 4);
  x = COUNTING(&w, TD_I64, 2, 3);
  list = CALL(&w, "aten::split", x, aten_int(1));
  CALL(&w, "aten::neg_", list.u.list->items.at[1]);
  CALL(&w, "aten::add_", x, aten_int(1));
  EXPECT(&w, &list.u.list->items.at[0], 1, 2, 3);
  EXPECT(&w, &list.u.list->items.at[1], -2, -3, -4);
  x = COUNTING(&w, TD_I64, 4);
  aten_value copy = CALL(&w, "aten::clone", x);
  CALL(&w, "aten::add_", x, aten_int(5));
  EXPECT(&w, &copy, 0, 1, 2, 3);
  EXPECT(&w, &x, 5, 6, 7, 8);
  world_close(&w);
}

static void test_out(void **state) {
  world w;
  start(&w);
  (void)state;
  aten_value x = COUNTING(&w, TD_I64, 2, 3), to = CALL(&w, "aten::select", x, aten_int(0), aten_int(1));
  aten_value args[] = {CALL(&w, "aten::select", x, aten_int(0), aten_int(0)), aten_int(9)};
  aten_keyword out = {BASE_STR("out"), to};
  aten_call(w.a, "aten::add", "out", args, 2, &out, 1);
  EXPECT(&w, &x, 0, 1, 2, 9, 10, 11);
  world_close(&w);
}

/* Overloads and arguments of forms that write are called otherwise than those of the functional ones, and what they
 * write may be a view. */
static void test_forms_that_write(void **state) {
  (void)state;
  world w;
  start(&w);
  static const char *const in_place[][2] = {
      {"aten::pow_", "Scalar"}, {"aten::pow_", "Tensor"}, {"aten::gelu_", ""},   {"aten::floor_divide_", "Tensor"},
      {"aten::polygamma_", ""}, {"aten::dropout_", ""},   {"aten::resize_", ""}, {"aten::float_power_", "Tensor"}};
  static const char *const outs[][2] = {
      {"aten::max", "dim_max"}, {"aten::sort", "values_stable"},  {"aten::linspace", "out"}, {"aten::linalg_qr", "out"},
      {"aten::svd", "U"},       {"aten::linalg_eigh", "eigvals"}, {"aten::div", "out_mode"}, {"aten::gelu", "out"}};
  for (size_t i = 0; i < sizeof in_place / sizeof *in_place; i++)
    if (!aten_supports(w.a, in_place[i][0], in_place[i][1])) fail_msg("%s.%s", in_place[i][0], in_place[i][1]);
  for (size_t i = 0; i < sizeof outs / sizeof *outs; i++)
    if (!aten_supports(w.a, outs[i][0], outs[i][1])) fail_msg("%s.%s", outs[i][0], outs[i][1]);
  assert_false(aten_supports(w.a, "aten::cat_", NULL)); /* the first operand is a list */

  aten_value x = COUNTING(&w, TD_I64, 2, 3), two = aten_int(2), zero = aten_int(0), one = aten_int(1);
  aten_value column = CALL(&w, "aten::select", x, one, two), args[] = {x, two};
  aten_call(w.a, "aten::floor_divide_", "Tensor", (aten_value[]){column, COUNTING(&w, TD_I64, 1)}, 1,
            &(aten_keyword){BASE_STR("other"), CALL(&w, "aten::add", COUNTING(&w, TD_I64, 2), one)}, 1);
  EXPECT(&w, &x, 0, 1, 2, 3, 4, 2);
  aten_call(w.a, "aten::pow_", "Scalar", args, 2, NULL, 0);
  aten_call(
      w.a, "aten::dropout_", "", NULL, 0,
      (aten_keyword[]){{BASE_STR("self"), x}, {BASE_STR("p"), aten_float(0.5)}, {BASE_STR("train"), aten_bool(false)}},
      3);
  CALL(&w, "aten::resize_", x, INTS(&w, 2, 2));
  aten_value size = CALL(&w, "aten::numel", x);
  assert_int_equal(size.u.i, 4);
  aten_value values = CALL(&w, "aten::add", COUNTING(&w, TD_I64, 2, 2), two), at = COUNTING(&w, TD_I64, 2, 2);
  aten_keyword results[] = {{BASE_STR("max"), CALL(&w, "aten::select", values, one, zero)},
                            {BASE_STR("max_values"), CALL(&w, "aten::diagonal", at)}};
  aten_value given[] = {COUNTING(&w, TD_I64, 2, 3), one, aten_bool(false)};
  aten_call(w.a, "aten::max", "dim_max", given, 3, results, 2);
  if (w.build.status != TD_OK) fail_msg("%s", w.err.text);
  aten_value parts = CALL(&w, "aten::unbind", COUNTING(&w, TD_I64, 2, 2)),
             source[] = {CALL(&w, "aten::add", COUNTING(&w, TD_I64, 2, 2), one)};
  aten_call(w.a, "aten::unbind_copy", "int_out", source, 1, &(aten_keyword){BASE_STR("out"), parts}, 1);
  EXPECT(&w, &parts.u.list->items.at[1], 3, 4);
  world_close(&w);
}

/* Operators said in others promote as these do; losses keep the type of their first operand. */
static void test_mixed_types(void **state) {
  (void)state;
  static const struct {
    const char *name;
    td_dtype x, y, wanted;
  } rows[] = {{"aten::outer", TD_F32, TD_F64, TD_F64},        {"aten::outer", TD_I64, TD_F32, TD_F32},
              {"aten::inner", TD_F64, TD_F32, TD_F64},        {"aten::dist", TD_F32, TD_F64, TD_F64},
              {"aten::mse_loss", TD_F32, TD_F64, TD_F64},     {"aten::huber_loss", TD_F32, TD_F64, TD_F32},
              {"aten::trapezoid", TD_F32, TD_F64, TD_F64},    {"aten::ldexp", TD_F32, TD_I64, TD_F32},
              {"aten::ldexp", TD_F16, TD_I64, TD_F16},        {"aten::quantile", TD_F64, TD_F64, TD_F64},
              {"aten::linalg_vecdot", TD_F32, TD_F64, TD_F64}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    world w;
    start(&w);
    aten_value y = CALL(&w, rows[i].name, COUNTING(&w, rows[i].x, 4), COUNTING(&w, rows[i].y, 4));
    if (w.build.status != TD_OK) fail_msg("%s: %s", rows[i].name, w.err.text);
    assert_int_equal(aten_tensor_scalar_type(w.a, &y), aten_scalar_type(w.a, rows[i].wanted));
    world_close(&w);
  }
}

static void test_said_in_other_calls(void **state) {
  (void)state;
  world w;
  start(&w);
  aten_value x = COUNTING(&w, TD_I64, 2, 2), y;
  y = CALL(&w, "aten::block_diag", aten_list_of(w.a, (aten_value[]){x, COUNTING(&w, TD_I64, 2)}, 2));
  EXPECT(&w, &y, 0, 1, 0, 0, 2, 3, 0, 0, 0, 0, 0, 1);
  y = CALL(&w, "aten::cartesian_prod",
           aten_list_of(w.a, (aten_value[]){COUNTING(&w, TD_I64, 2), COUNTING(&w, TD_I64, 2)}, 2));
  EXPECT(&w, &y, 0, 0, 0, 1, 1, 0, 1, 1);
  static const double orders[] = {1, -1, 2, -2, (double)INFINITY, -(double)INFINITY};
  aten_value m = COUNTING(&w, TD_F32, 3, 4, 2);
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    y = CALL(&w, "aten::linalg_matrix_norm", m, aten_float(orders[i]), INTS(&w, 0, 2), aten_bool(i % 2));
    if (w.build.status != TD_OK) fail_msg("%s", w.err.text);
    assert_int_equal(ir_build_rank(&w.build, aten_read(w.a, &y)), i % 2 ? 3 : 1);
  }
  y = CALL(&w, "aten::linalg_norm", m, aten_text(w.a, "nuc"), INTS(&w, 0, 1));
  y = CALL(&w, "aten::linalg_matrix_rank", m);
  y = CALL(&w, "aten::renorm", m, aten_float(2), aten_int(0), aten_float(1));
  if (w.build.status != TD_OK) fail_msg("%s", w.err.text);
  world_close(&w);
}

/* Up to all axes are padded, the last one first, of tensors of any rank. */
static void test_pads(void **state) {
  (void)state;
  world w;
  start(&w);
  aten_value x = COUNTING(&w, TD_I64, 1, 2), y;
  y = CALL(&w, "aten::constant_pad_nd", x, INTS(&w, 1, 0), aten_int(9));
  EXPECT(&w, &y, 9, 0, 1);
  y = CALL(&w, "aten::constant_pad_nd", x, INTS(&w, 1, 0, 0, 1), aten_int(9));
  EXPECT(&w, &y, 9, 0, 1, 9, 9, 9);
  x = COUNTING(&w, TD_I64, 1, 1, 1, 1, 1, 1, 1, 2);
  y = CALL(&w, "aten::constant_pad_nd", x, INTS(&w, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0), aten_int(9));
  EXPECT(&w, &y, 9, 9, 9, 0, 1, 9);
  CALL(&w, "aten::constant_pad_nd", COUNTING(&w, TD_I64, 2), INTS(&w, 1, 0, 0, 1), aten_int(9));
  assert_int_equal(w.build.status, TD_UNSUPPORTED);
  world_close(&w);
}

/* Nothing is chosen, of nothing. */
static void test_sizes_of_nothing(void **state) {
  (void)state;
  world w;
  start(&w);
  base_tensor t;
  aten_value x = COUNTING(&w, TD_I64, 3), mask = CALL(&w, "aten::lt", x, aten_int(0)), all;
  aten_value y = CALL(&w, "aten::masked_scatter", x, mask, COUNTING(&w, TD_I64, 0));
  assert_true(aten_evaluate(w.a, aten_read(w.a, &y), &t));
  for (int64_t i = 0; i < 3; i++) assert_int_equal(base_load_i64(t.dtype, t.data, i), i);
  y = CALL(&w, "aten::masked_scatter", x, CALL(&w, "aten::gt", x, aten_int(0)), COUNTING(&w, TD_I64, 2));
  assert_true(aten_evaluate(w.a, aten_read(w.a, &y), &t));
  assert_int_equal(base_load_i64(t.dtype, t.data, 2), 1);
  y = CALL(&w, "aten::take_along_dim", COUNTING(&w, TD_I64, 2, 3), COUNTING(&w, TD_I64, 2, 0), aten_int(1));
  if (w.build.status != TD_OK) fail_msg("%s", w.err.text);
  assert_int_equal(ir_build_type(&w.build, aten_read(w.a, &y))->dims[1], 0);
  all = CALL(&w, "aten::_is_all_true", CALL(&w, "aten::ge", x, aten_int(0)));
  assert_true(aten_evaluate(w.a, aten_read(w.a, &all), &t) && base_load_i64(t.dtype, t.data, 0) == 1);
  world_close(&w);
}

/* Whether contiguous() copies is not known of x.t() + 0: after a write to one the other is an error, not a guess. */
/* What counts elements as they stand in memory takes tensors that are known to stand in order. */
static void test_memory(void **state) {
  (void)state;
  world w;
  start(&w);
  aten_value x = COUNTING(&w, TD_I64, 2, 3), from = COUNTING(&w, TD_I64, 2, 2);
  aten_value y = CALL(&w, "aten::as_strided_scatter", x, from, INTS(&w, 2, 2), INTS(&w, 1, 2), aten_int(1));
  EXPECT(&w, &y, 0, 0, 2, 1, 3, 5);
  y = CALL(&w, "aten::resize", x, INTS(&w, 2, 2));
  EXPECT(&w, &y, 0, 1, 2, 3);
  y = CALL(&w, "aten::t", x);
  CALL(&w, "aten::resize", y, INTS(&w, 2, 2));
  assert_int_equal(w.build.status, TD_UNSUPPORTED);
  world_close(&w);

  start(&w);
  x = COUNTING(&w, TD_I64, 3);
  CALL(&w, "aten::resize", x, INTS(&w, 5)); /* two of them nobody knows */
  assert_int_equal(w.build.status, TD_UNSUPPORTED);
  world_close(&w);
}

static void test_unsure_aliases_fail(void **state) {
  world w;
  start(&w);
  (void)state;
  aten_value x = CALL(&w, "aten::t", COUNTING(&w, TD_I64, 2, 3)), y = CALL(&w, "aten::contiguous", x);
  CALL(&w, "aten::add_", y, aten_int(1));
  EXPECT(&w, &y, 1, 4, 2, 5, 3, 6);
  assert_int_equal(aten_read(w.a, &x).id, 0);
  assert_int_equal(w.build.status, TD_UNSUPPORTED);
  world_close(&w);
  start(&w);
  x = CALL(&w, "aten::expand", COUNTING(&w, TD_I64, 1, 3), INTS(&w, 2, 3));
  CALL(&w, "aten::add_", x, aten_int(1));
  assert_int_equal(w.build.status, TD_UNSUPPORTED);
  world_close(&w);
}

/* squeeze_ and the like change how the tensor shows its memory: for whoever holds it, not for views of it, and not what
 * is in the memory. */
static void test_turned_in_place(void **state) {
  world w;
  start(&w);
  (void)state;
  aten_value x = COUNTING(&w, TD_I64, 2, 3), first = CALL(&w, "aten::select", x, aten_int(0), aten_int(0));
  aten_value other = CALL(&w, "aten::detach", x), same = x;
  aten_value turned = CALL(&w, "aten::transpose_", x, aten_int(0), aten_int(1));
  EXPECT(&w, &turned, 0, 3, 1, 4, 2, 5);
  EXPECT(&w, &same, 0, 3, 1, 4, 2, 5);
  EXPECT(&w, &first, 0, 1, 2);
  EXPECT(&w, &other, 0, 1, 2, 3, 4, 5);
  CALL(&w, "aten::unsqueeze_", x, aten_int(0));
  assert_int_equal(ir_build_rank(&w.build, aten_read(w.a, &x)), 3);
  CALL(&w, "aten::add_", CALL(&w, "aten::select", x, aten_int(1), aten_int(2)), aten_int(10));
  EXPECT(&w, &other, 0, 1, 12, 3, 4, 15);
  CALL(&w, "aten::squeeze_", x, aten_int(1));
  assert_int_equal(ir_build_rank(&w.build, aten_read(w.a, &x)), 3);
  aten_mark mark = aten_mark_now(w.a);
  CALL(&w, "aten::squeeze_", x, aten_int(0));
  assert_int_equal(ir_build_rank(&w.build, aten_read(w.a, &x)), 2);
  aten_place *places;
  assert_int_equal(aten_changed(w.a, mark, &places), 1);
  assert_true(aten_place_older(w.a, &places[0], mark));
  aten_value now = aten_place_get(w.a, &places[0]);
  aten_rollback(w.a, mark);
  assert_int_equal(ir_build_rank(&w.build, aten_read(w.a, &x)), 3);
  aten_place_set(w.a, &places[0], &now); /* a branch that does this is refused */
  assert_int_equal(w.build.status, TD_UNSUPPORTED);
  world_close(&w);
}

/* ---- the journal ---- */

static void test_journal(void **state) {
  world w;
  start(&w);
  (void)state;
  aten_value x = COUNTING(&w, TD_I64, 3), list = aten_list_of(w.a, &x, 1), dict = aten_dict_of(w.a);
  aten_dict_set(w.a, dict.u.dict, aten_int(1), aten_int(2));
  aten_mark outer = aten_mark_now(w.a), inner = aten_mark_now(w.a);
  CALL(&w, "aten::add_", x, aten_int(1));
  CALL(&w, "aten::append", list, aten_int(4));
  aten_dict_set(w.a, dict.u.dict, aten_int(1), aten_int(3));
  aten_value young = aten_list_of(w.a, NULL, 0);
  aten_list_append(w.a, young.u.list, aten_int(0));
  aten_place *places;
  uint32_t count = aten_changed(w.a, inner, &places);
  assert_int_equal(count, 4);
  for (uint32_t i = 0; i < count; i++)
    assert_true(aten_place_older(w.a, &places[i], inner) == (places[i].at != young.u.list));
  aten_value kept = aten_place_get(w.a, &places[0]);
  aten_commit(w.a, inner);
  EXPECT(&w, &x, 1, 2, 3);
  aten_rollback(w.a, outer);
  EXPECT(&w, &x, 0, 1, 2);
  assert_int_equal(list.u.list->items.count, 1);
  aten_value key = aten_int(1);
  assert_int_equal(aten_dict_get(dict.u.dict, &key)->u.i, 2);
  aten_place_set(w.a, &places[0], &kept);
  EXPECT(&w, &x, 1, 2, 3);
  world_close(&w);
}

/* ---- memory ---- */

static td_status work(const td_allocator *allocator, void *user) {
  world w;
  (void)user;
  td_status status = TD_NO_RESOURCE;
  if (world_open(&w, allocator)) {
    aten_value x = COUNTING(&w, TD_I64, 3, 4), none = ATEN_NOTHING;
    aten_mark mark = aten_mark_now(w.a);
    aten_value y = CALL(&w, "aten::slice", CALL(&w, "aten::t", x), aten_int(0), aten_int(1), none, aten_int(1));
    if (y.kind == ATEN_TENSOR) CALL(&w, "aten::add_", y, aten_float(1));
    aten_value list = CALL(&w, "aten::split", x, aten_int(1));
    if (list.kind == ATEN_LIST) (void)CALL(&w, "aten::cat", list, aten_int(0));
    if (!ir_build_failed(&w.build)) aten_rollback(w.a, mark);
    status = w.build.status;
  }
  world_close(&w);
  return status;
}
static void test_lack_of_memory(void **state) {
  (void)state;
  assert_true(fail_each_allocation(work, NULL, true) > 20);
}

/* ---- a script's own numbers ---- */

/* Numbers at the ends of their range give a result or an error, no undefined arithmetic: each operator with each at
 * each of its places. 'x': [4, 3] of whole numbers, 'n': a number, 'l': two of them, 'd': 0, 's': 1. */
static void test_ends_of_ranges(void **state) {
  (void)state;
  static const char *const calls[][2] = {
      {"aten::select", "xdn"},    {"aten::select", "xnd"},      {"aten::narrow", "xdnn"},
      {"aten::slice", "xdnns"},   {"aten::slice", "xdnnn"},     {"aten::chunk", "xnd"},
      {"aten::split", "xnd"},     {"aten::split", "xld"},       {"aten::tensor_split", "xnd"},
      {"aten::view", "xl"},       {"aten::reshape", "xl"},      {"aten::expand", "xl"},
      {"aten::repeat", "xl"},     {"aten::roll", "xnd"},        {"aten::diagonal", "xnds"},
      {"aten::unflatten", "xdl"}, {"aten::flatten", "xnn"},     {"aten::transpose", "xnn"},
      {"aten::movedim", "xnn"},   {"aten::unsqueeze", "xn"},    {"aten::squeeze", "xn"},
      {"aten::unfold", "xdnn"},   {"aten::unbind", "xn"},       {"aten::flip", "xl"},
      {"aten::permute", "xl"},    {"aten::arange", "n"},        {"aten::arange", "nn"},
      {"aten::arange", "nnn"},    {"aten::cumsum", "xn"},       {"aten::constant_pad_nd", "xl"},
      {"aten::tril", "xn"},       {"aten::as_strided", "xlln"}, {"aten::add", "nn"},
      {"aten::mul", "nn"},        {"aten::floordiv", "nn"},     {"aten::remainder", "nn"}};
  static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 2, (int64_t)1 << 62, INT64_MAX - 1, INT64_MAX};
  enum { ENDS = sizeof ends / sizeof *ends };
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    for (size_t k = 0; k < ENDS * ENDS; k++) {
      world w;
      aten_value args[6];
      uint32_t count = 0;
      start(&w);
      for (const char *c = calls[i][1]; *c; c++, count++)
        args[count] = *c == 'x'   ? COUNTING(&w, TD_I64, 4, 3)
                      : *c == 'l' ? INTS(&w, ends[k % ENDS], ends[k / ENDS])
                      : *c == 'n' ? aten_int(ends[count % 2 ? k % ENDS : k / ENDS])
                                  : aten_int(*c == 's');
      (void)aten_call(w.a, calls[i][0], NULL, args, count, NULL, 0);
      if (ir_build_failed(&w.build)) assert_int_not_equal(w.err.text[0], 0);
      world_close(&w);
    }
}

/* More chunks than there are elements: one each. */
static void test_many_chunks(void **state) {
  (void)state;
  world w;
  start(&w);
  aten_value list = CALL(&w, "aten::chunk", COUNTING(&w, TD_I64, 4), aten_int(INT64_MAX), aten_int(0));
  assert_int_equal(w.build.status, TD_OK);
  assert_int_equal(list.u.list->items.count, 4);
  world_close(&w);
}

static void expect_sizes(world *w, const aten_value *v, const int64_t *dims, int32_t rank) {
  if (w->build.status != TD_OK) fail_msg("%s: %s", w->err.name, w->err.text);
  const ir_type *type = ir_build_type(&w->build, aten_read(w->a, v));
  assert_int_equal(type->rank, rank);
  for (int32_t i = 0; i < rank; i++) assert_int_equal(type->dims[i], dims[i]);
}
#define SIZES(w, v, ...) \
  expect_sizes((w), (v), (int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* Operands without elements, and what PyTorch makes of them. */
static void test_operands_of_nothing(void **state) {
  (void)state;
  world w;
  start(&w);
  const aten_value zero = aten_int(0), one = aten_int(1), two = aten_int(2);
  const aten_value empty = COUNTING(&w, TD_I64, 0), rows = COUNTING(&w, TD_I64, 2, 0), floats = COUNTING(&w, TD_F32, 0);
  aten_value y = CALL(&w, "aten::chunk", rows, aten_int(3), one);
  assert_int_equal(w.build.status, TD_OK);
  assert_int_equal(y.u.list->items.count, 3); /* as many as were asked for */
  y = CALL(&w, "aten::bincount", empty, floats, two);
  EXPECT(&w, &y, 0, 0);
  y = CALL(&w, "aten::index_add", rows, zero, COUNTING(&w, TD_I64, 3), COUNTING(&w, TD_I64, 3, 0));
  SIZES(&w, &y, 2, 0); /* rows that are not there get nothing */
  y = CALL(&w, "aten::_unsafe_masked_index", empty, CALL(&w, "aten::lt", COUNTING(&w, TD_I64, 2), zero),
           aten_list_of(w.a, (aten_value[]){COUNTING(&w, TD_I64, 2)}, 1), aten_int(7));
  EXPECT(&w, &y, 7, 7);
  y = CALL(&w, "aten::trapezoid", COUNTING(&w, TD_F32, 2, 0), COUNTING(&w, TD_F32, 2));
  SIZES(&w, &y, 2);
  y = CALL(&w, "aten::matrix_power", COUNTING(&w, TD_F32, 0, 2, 2), zero);
  SIZES(&w, &y, 0, 2, 2);
  y = CALL(&w, "aten::tensordot", COUNTING(&w, TD_F32, 3, 1), COUNTING(&w, TD_F32, 0, 5), INTS(&w, 1), INTS(&w, 0));
  SIZES(&w, &y, 3, 5); /* one element meets as many as there are */
  y = CALL(&w, "aten::embedding_bag", COUNTING(&w, TD_F32, 4, 3), COUNTING(&w, TD_I64, 2), empty);
  assert_int_equal(w.build.status, TD_OK);
  SIZES(&w, &y.u.list->items.at[0], 0, 3); /* no bags, whatever they would hold */
  y = CALL(&w, "aten::linalg_cond", COUNTING(&w, TD_F32, 3, 0, 2));
  SIZES(&w, &y, 3);
  const aten_value probabilities = COUNTING(&w, TD_F32, 2, 0);
  const aten_value means[] = {CALL(&w, "aten::median", floats),
                              CALL(&w, "aten::cross_entropy_loss", probabilities, probabilities)};
  assert_int_equal(w.build.status, TD_OK);
  for (uint32_t i = 0; i < 2; i++) { /* of nothing */
    base_tensor value;
    assert_true(aten_evaluate(w.a, aten_read(w.a, &means[i]), &value));
    assert_true(isnan(base_load_f64(TD_F32, value.data, 0)));
  }
  world_close(&w);
}

/* One sample, and one head of queries, stands for as many as the other operands have. */
static void test_batches_of_attention(void **state) {
  (void)state;
  static const char name[] = "aten::scaled_dot_product_attention";
  world w;
  start(&w);
  const aten_value all = COUNTING(&w, TD_F32, 4, 2, 3, 1), one = COUNTING(&w, TD_F32, 1, 2, 3, 1);
  aten_value y = CALL(&w, name, one, all, all);
  SIZES(&w, &y, 4, 2, 3, 1);
  y = CALL(&w, name, all, one, all);
  SIZES(&w, &y, 4, 2, 3, 1);
  y = CALL(&w, name, COUNTING(&w, TD_F32, 1, 1, 5, 1), all, one);
  SIZES(&w, &y, 4, 2, 5, 1);
  y = CALL(&w, name, COUNTING(&w, TD_F32, 1, 5, 1), COUNTING(&w, TD_F32, 4, 3, 1), COUNTING(&w, TD_F32, 4, 3, 1));
  SIZES(&w, &y, 4, 5, 1);
  y = CALL(&w, name, all, COUNTING(&w, TD_F32, 4, 1, 3, 1), COUNTING(&w, TD_F32, 4, 1, 3, 1)); /* shared */
  SIZES(&w, &y, 4, 2, 3, 1);
  world_close(&w);
}

static void test_broadcast_shapes(void **state) {
  (void)state;
  world w;
  start(&w);
  aten_value y = CALL(&w, "aten::broadcast_shapes", INTS(&w, 4, 1, 0), INTS(&w, 3, 1));
  const int64_t wanted[] = {4, 3, 0};
  assert_int_equal(w.build.status, TD_OK);
  assert_int_equal(y.u.list->items.count, 3);
  for (uint32_t i = 0; i < 3; i++) assert_int_equal(y.u.list->items.at[i].u.i, wanted[i]);
  (void)CALL(&w, "aten::broadcast_shapes", INTS(&w, 4), INTS(&w, 3));
  assert_int_equal(w.build.status, TD_UNSUPPORTED);
  world_close(&w);
}

/* PyTorch's addbmm_ makes a row larger that it writes, and what showed its memory shows other elements then. */
static void test_results_that_are_larger(void **state) {
  (void)state;
  world w;
  start(&w);
  CALL(&w, "aten::addbmm_", COUNTING(&w, TD_F32, 3), COUNTING(&w, TD_F32, 2, 4, 4), COUNTING(&w, TD_F32, 2, 4, 3));
  assert_int_equal(w.build.status, TD_UNSUPPORTED);
  assert_non_null(strstr(w.err.text, "larger"));
  world_close(&w);
}

/* Probabilities as targets, and weights of classes, promote; PyTorch refuses other mixtures. */
static void test_types_of_soft_targets(void **state) {
  (void)state;
  static const td_dtype types[][4] = {
      {TD_F32, TD_F64, TD_F32, TD_F64}, {TD_F32, TD_F32, TD_F64, TD_F64}, {TD_F16, TD_F32, TD_F16, TD_F32}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    world w;
    start(&w);
    aten_value y = CALL(&w, "aten::cross_entropy_loss", COUNTING(&w, types[i][0], 2, 3),
                        COUNTING(&w, types[i][1], 2, 3), COUNTING(&w, types[i][2], 3));
    if (w.build.status != TD_OK) fail_msg("%s", w.err.text);
    assert_int_equal(aten_tensor_scalar_type(w.a, &y), aten_scalar_type(w.a, types[i][3]));
    world_close(&w);
  }
}

/* Files of old operators have div of integers cut; what a lowering divides is today's. */
static void test_versions(void **state) {
  (void)state;
  world w;
  start(&w);
  w.a->version = 3;
  aten_value x = COUNTING(&w, TD_U8, 4), three = aten_int(3);
  aten_value cut = CALL(&w, "aten::div", x, three), area = CALL(&w, "aten::trapezoid", x, COUNTING(&w, TD_I8, 4));
  if (w.build.status != TD_OK) fail_msg("%s", w.err.text);
  assert_int_equal(aten_tensor_scalar_type(w.a, &cut), aten_scalar_type(w.a, TD_U8));
  assert_int_equal(aten_tensor_scalar_type(w.a, &area), aten_scalar_type(w.a, TD_F32));
  assert_int_equal(w.a->version, 3);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_promote_types),
                                     cmocka_unit_test(test_result_type),
                                     cmocka_unit_test(test_overloads),
                                     cmocka_unit_test(test_pt2_names),
                                     cmocka_unit_test(test_round),
                                     cmocka_unit_test(test_views_share),
                                     cmocka_unit_test(test_parts_share),
                                     cmocka_unit_test(test_out),
                                     cmocka_unit_test(test_forms_that_write),
                                     cmocka_unit_test(test_mixed_types),
                                     cmocka_unit_test(test_sizes_of_nothing),
                                     cmocka_unit_test(test_said_in_other_calls),
                                     cmocka_unit_test(test_pads),
                                     cmocka_unit_test(test_memory),
                                     cmocka_unit_test(test_unsure_aliases_fail),
                                     cmocka_unit_test(test_journal),
                                     cmocka_unit_test(test_lack_of_memory),
                                     cmocka_unit_test(test_turned_in_place),
                                     cmocka_unit_test(test_ends_of_ranges),
                                     cmocka_unit_test(test_many_chunks),
                                     cmocka_unit_test(test_broadcast_shapes),
                                     cmocka_unit_test(test_batches_of_attention),
                                     cmocka_unit_test(test_operands_of_nothing),
                                     cmocka_unit_test(test_results_that_are_larger),
                                     cmocka_unit_test(test_types_of_soft_targets),
                                     cmocka_unit_test(test_versions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
