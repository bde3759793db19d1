/* Indices, bounds and sizes that only running knows: those that do not fit are refused by name, and nothing is read. */
#include "test.h"

#include "ir/ir.h"
#include "ops/ops.h"

enum { MOST_OPERANDS = 4 };

typedef struct fixture {
  base_arena *arena;
  const ir_opset *set;
  base_value x; /* f32[2, 3]: 0, 1, 2, ... */
  td_error err;
} fixture;

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->arena = base_arena_new(&base_libc_allocator);
  f->set = ops_set(f->arena);
  float *data = base_new(f->arena, float, 6);
  for (int i = 0; i < 6; i++) data[i] = (float)i;
  f->x = (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(data, TD_F32, 2, (int64_t[]){2, 3})};
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  base_arena_free(f->arena);
  free(f);
  return 0;
}

static base_value ints(fixture *f, int32_t rank, const int64_t *dims, const int64_t *values, size_t count) {
  return (base_value){
      .kind = BASE_TENSOR,
      .tensor = base_tensor_of(base_arena_copy(f->arena, values, count * sizeof *values), TD_I64, rank, dims)};
}
#define INTS(f, ...)                                                                      \
  ints(f, 1, (int64_t[]){sizeof((int64_t[]){__VA_ARGS__}) / 8}, (int64_t[]){__VA_ARGS__}, \
       sizeof((int64_t[]){__VA_ARGS__}) / 8)

/* Runs the operator on x and the operands given. */
static td_status run(fixture *f, const char *name, base_arg arg, const base_value *rest, uint32_t count,
                     base_value *out) {
  const ir_op *op = ir_opset_find(f->set, name);
  const base_attrs *attrs;
  const base_value *in[MOST_OPERANDS] = {&f->x};
  assert_non_null(op);
  for (uint32_t i = 0; i < count; i++) in[1 + i] = &rest[i];
  assert_int_equal(ir_make_attrs(f->arena, op, &arg, arg.name ? 1 : 0, &attrs, &f->err), TD_OK);
  f->err.text[0] = 0;
  return ir_evaluate(op, attrs, in, 1 + count, f->arena, out, 1, &f->err);
}

static void expect_refusal(fixture *f, const char *name, base_arg arg, const base_value *rest, uint32_t count,
                           const char *text) {
  base_value out;
  assert_int_not_equal(run(f, name, arg, rest, count, &out), TD_OK);
  if (!strstr(f->err.text, name) || !strstr(f->err.text, text)) fail_msg("\"%s\"", f->err.text);
}

static const base_arg none = {0};

static void indices_outside_are_refused(void **state) {
  fixture *f = *state;
  base_value high = INTS(f, 0, 3), low = INTS(f, -4), update = f->x;
  expect_refusal(f, "aten::index_select", ARG_INT("dim", 1), &high, 1, "index 3 is outside of an axis of 3");
  expect_refusal(f, "aten::index_select", ARG_INT("dim", 1), &low, 1, "index -4");
  base_value square = ints(f, 2, (int64_t[]){1, 1}, (int64_t[]){2}, 1);
  expect_refusal(f, "aten::gather", none, &square, 1, "index 2");
  base_value tuple = INTS(f, 1, -4);
  expect_refusal(f, "td::gather_nd", none, &tuple, 1, "index -4");
  update.tensor.dims[0] = update.tensor.dims[1] = 1;
  expect_refusal(f, "aten::scatter", none, (base_value[]){square, update}, 2, "index 2");
  update.tensor.rank = 0;
  expect_refusal(f, "td::scatter_nd", none, (base_value[]){tuple, update}, 2, "index -4");
}

static void sizes_that_do_not_fit_are_refused(void **state) {
  fixture *f = *state;
  base_value shape = INTS(f, 4, -1), two = INTS(f, -1, -1), axis = INTS(f, 2), wide = INTS(f, 3, 3), k = INTS(f, 4);
  expect_refusal(f, "aten::view", none, &shape, 1, "6 elements");
  expect_refusal(f, "aten::view", none, &two, 1, "two sizes");
  expect_refusal(f, "aten::unsqueeze", none, (base_value[]){INTS(f, 4)}, 1, "axes");
  expect_refusal(f, "aten::squeeze", none, &axis, 1, "axes");
  expect_refusal(f, "aten::expand", none, &wide, 1, "broadcast");
  expect_refusal(f, "aten::topk", none, &k, 1, "the 4 largest of 3");
  expect_refusal(f, "aten::constant_pad_nd", none, (base_value[]){INTS(f, 0, -4, 0, 0)}, 1, "negative size");
  expect_refusal(f, "aten::slice", none, (base_value[]){INTS(f, 0), INTS(f, 1), INTS(f, 5)}, 3, "axis 5");
}

/* Bounds far outside of the axis are clamped, whatever they are. */
static void extreme_bounds_are_clamped(void **state) {
  fixture *f = *state;
  base_value out, all[] = {INTS(f, INT64_MIN), INTS(f, INT64_MAX), INTS(f, 1)};
  assert_int_equal(run(f, "aten::slice", none, all, 3, &out), TD_OK);
  assert_int_equal(out.tensor.dims[1], 3);
  assert_memory_equal(out.tensor.data, f->x.tensor.data, 6 * sizeof(float));
  base_value nothing[] = {INTS(f, INT64_MAX), INTS(f, INT64_MIN), INTS(f, 1)};
  assert_int_equal(run(f, "aten::slice", none, nothing, 3, &out), TD_OK);
  assert_int_equal(out.tensor.dims[1], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(indices_outside_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(sizes_that_do_not_fit_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(extreme_bounds_are_clamped, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
