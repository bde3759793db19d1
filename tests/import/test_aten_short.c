/* test_aten_short.c -- f16 and bf16 are rounded where PyTorch rounds them. */
#include "test.h"

#include "import/world.h"

static void start(world *w) { assert_true(world_open(w, &base_libc_allocator)); }

/* 0, 1, 2, ... in two rows of three. */
static aten_value two_rows(world *w, td_dtype dtype) {
  uint16_t data[6];
  for (int64_t i = 0; i < 6; i++) base_store_i64(dtype, data, i, i);
  const base_tensor t = base_tensor_of(data, dtype, 2, (int64_t[]){2, 3});
  return aten_of(w->a, ir_build_constant(&w->build, &t), true);
}

#define CALL(w, name, ...)                                     \
  aten_call((w)->a, (name), NULL, (aten_value[]){__VA_ARGS__}, \
            sizeof((aten_value[]){__VA_ARGS__}) / sizeof(aten_value), NULL, 0)

/* What makes `v`; fails where nothing does. */
static const ir_node_def *maker_of(world *w, ir_value v) {
  const ir_node made_by = ir_value_of(w->build.graph, v)->node;
  if (w->build.status != TD_OK) fail_msg("%s: %s", w->err.name, w->err.text);
  assert_int_not_equal(made_by.id, 0);
  return ir_node_of(w->build.graph, made_by);
}

/* f16 and bf16 by a number: in f32 with the number as it is, rounded once; not where it comes first, or loses no digits
 * in the short type. */
static void test_short_by_number(void **state) {
  static const td_dtype types[] = {TD_F16, TD_BF16};
  static const struct {
    const char *name;
    uint16_t op;
  } rows[] = {{"aten::mul", OP_aten_mul}, {"aten::div", OP_aten_div}, {"aten::multiply", OP_aten_mul}};
  (void)state;
  for (size_t i = 0; i < 6; i++) {
    world w;
    start(&w);
    float tenth = 0.1f;
    const base_tensor number = base_tensor_of(&tenth, TD_F32, 0, NULL);
    aten_value x = two_rows(&w, types[i % 2]), y = aten_of(w.a, ir_build_constant(&w.build, &number), true);
    const char *name = rows[i / 2].name;
    aten_value whole[] = {CALL(&w, name, x, y), CALL(&w, name, x, aten_float(0.1))};
    for (int k = 0; k < 2; k++) {
      const ir_node_def *cast = maker_of(&w, aten_read(w.a, &whole[k]));
      assert_int_equal(aten_value_dtype(w.a, aten_read(w.a, &whole[k])), types[i % 2]);
      assert_int_equal(cast->op->id, OP_aten__to_copy);
      assert_int_equal(maker_of(&w, cast->in[0])->op->id, rows[i / 2].op);
      assert_int_equal(aten_value_dtype(w.a, cast->in[0]), TD_F32);
    }
    aten_value as_is[] = {CALL(&w, name, y, x), CALL(&w, name, x, aten_float(0.5)), CALL(&w, name, x, x)};
    for (int k = 0; k < 3; k++) assert_int_equal(maker_of(&w, aten_read(w.a, &as_is[k]))->op->id, rows[i / 2].op);
    world_close(&w);
  }
}

/* Operators of several steps: f16 and bf16 are rounded once, at the end. */
static void test_short_steps(void **state) {
  static const td_dtype types[] = {TD_F16, TD_BF16};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    world w;
    start(&w);
    aten_value x = two_rows(&w, types[i]), three[] = {x, x, x}, third = aten_float(0.3);
    aten_keyword alpha = {BASE_STR("alpha"), third};
    aten_value results[] = {CALL(&w, "aten::addcmul", x, x, x),
                            CALL(&w, "aten::addcdiv", x, x, x),
                            CALL(&w, "aten::lerp", x, x, third),
                            aten_call(w.a, "aten::lerp", "Tensor", three, 3, NULL, 0),
                            CALL(&w, "aten::hypot", x, x),
                            aten_call(w.a, "aten::add", NULL, three, 2, &alpha, 1),
                            aten_call(w.a, "aten::sub", NULL, three, 2, &alpha, 1)};
    for (size_t k = 0; k < sizeof(results) / sizeof(*results); k++) {
      const ir_node_def *cast = maker_of(&w, aten_read(w.a, &results[k]));
      assert_int_equal(aten_value_dtype(w.a, aten_read(w.a, &results[k])), types[i]);
      assert_int_equal(cast->op->id, OP_aten__to_copy);
      assert_int_equal(aten_value_dtype(w.a, cast->in[0]), TD_F32);
    }
    world_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_short_by_number), cmocka_unit_test(test_short_steps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
