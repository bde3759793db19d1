/* test_bind.c -- sizes from input shapes: what they come to, and what does not fit. */
#include "plan/bind.h"
#include "runtime/harness.h"

typedef struct binder {
  rig r;
  base_arena *arena;
  plan_binding binding;
} binder;

static void start(binder *b, const char *text) {
  rig_open(&b->r, text, NULL);
  b->arena = base_arena_new(&base_libc_allocator);
}

static void finish(binder *b) {
  base_arena_free(b->arena);
  rig_close(&b->r);
}

/* Two inputs at most, as dims alone: no element is read. */
static td_status bind(binder *b, const base_tensor *x, const base_tensor *y) {
  base_value inputs[2] = {{.kind = BASE_TENSOR, .tensor = *x}, {.kind = BASE_TENSOR, .tensor = *y}};
  return plan_bind(b->r.plan, inputs, (plan_means){.threads = 1}, b->arena, &b->binding, &b->r.err);
}

static base_tensor shape(int32_t rank, int64_t a, int64_t b) {
  return base_tensor_of(NULL, TD_F32, rank, (int64_t[]){a, b});
}

static const char sums[] =
    "input %0 \"x\": f32[n, 3]\n"
    "input %1 \"y\": f32[n, m]\n"
    "const %2: i64[1] = {-1}\n"
    "%3 = aten::cat(%0, %1) {dim = 1}  # \"node /join\"\n"
    "%4 = aten::view(%3, %2)\n"
    "%5 = aten::neg(%4)\n"
    "output \"z\" %5\n";

static void sizes_follow_the_inputs(void **state) {
  (void)state;
  binder b;
  start(&b, sums);
  base_tensor x = shape(2, 4, 3), y = shape(2, 4, 5);
  if (bind(&b, &x, &y) != TD_OK) fail_msg("%s", b.r.err.text);
  const base_tensor *z = &b.binding.tensors[b.r.plan->outputs.at[0].slot];
  assert_int_equal(z->rank, 1);
  assert_int_equal(z->dims[0], 32);
  assert_true(b.binding.arena_bytes >= 128 && b.binding.arena_lower <= b.binding.arena_bytes);
  y = shape(2, 4, 0);
  assert_int_equal(bind(&b, &x, &y), TD_OK);
  assert_int_equal(b.binding.tensors[b.r.plan->outputs.at[0].slot].dims[0], 12);
  x = shape(2, 0, 3);
  y = shape(2, 0, 5);
  assert_int_equal(bind(&b, &x, &y), TD_OK);
  finish(&b);
}

/* A size that is an expression gives its symbol, and what was asked of the sizes is checked. */
static void expressions_are_solved(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": f32[add(1, mul(2, n)), 3]\n"
      "input %1 \"y\": f32[n, m]\n"
      "%2 = aten::neg(%1)\n"
      "output \"z\" %2\n"
      "guard 2 <= m \"m must be at least 2\"\n"
      "guard m != 7 \"m must not be 7\"\n"
      "guard n < m \"n must be below m\"\n";
  static const struct {
    int64_t x, n, m;
    const char *says;
  } rows[] = {{9, 4, 5, NULL},         {8, 4, 5, "dimension 0"}, {11, 4, 5, "dimension 0"},
              {1, 0, 1, "at least 2"}, {3, 1, 7, "must not be"}, {5, 2, 2, "below m"},
              {5, 2, 3, NULL}};
  binder b;
  start(&b, text);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    base_tensor x = shape(2, rows[i].x, 3), y = shape(2, rows[i].n, rows[i].m);
    td_status status = bind(&b, &x, &y);
    assert_int_equal(status, rows[i].says ? TD_BAD_ARGUMENT : TD_OK);
    if (rows[i].says && !strstr(b.r.err.text, rows[i].says)) fail_msg("%s", b.r.err.text);
  }
  finish(&b);
}

static void one_unknown_is_solved(void **state) {
  (void)state;
  binder b;
  start(&b,
        "input %0 \"x\": f32[sub(mul(3, n), 2), 1]\n"
        "input %1 \"y\": f32[1, 1]\n"
        "%2 = aten::neg(%0)\n"
        "output \"z\" %2\n");
  base_tensor x = shape(2, 7, 1), y = shape(2, 1, 1);
  assert_int_equal(bind(&b, &x, &y), TD_OK);
  assert_int_equal(b.binding.tensors[b.r.plan->outputs.at[0].slot].dims[0], 7);
  x = shape(2, 8, 1);
  assert_int_equal(bind(&b, &x, &y), TD_BAD_ARGUMENT);
  assert_string_equal(b.r.err.name, "x");
  finish(&b);
}

static void conflicts_name_the_input(void **state) {
  (void)state;
  binder b;
  start(&b, sums);
  base_tensor x = shape(2, 4, 3), y = shape(2, 5, 5);
  assert_int_equal(bind(&b, &x, &y), TD_BAD_ARGUMENT);
  assert_string_equal(b.r.err.name, "y");
  assert_non_null(strstr(b.r.err.text, "(n) is 5 here and 4 elsewhere"));
  x = shape(2, 4, 2);
  assert_int_equal(bind(&b, &x, &y), TD_BAD_ARGUMENT);
  assert_string_equal(b.r.err.name, "x");
  finish(&b);
}

static void overflow_names_the_step(void **state) {
  (void)state;
  binder b;
  start(&b, sums);
  base_tensor x = shape(2, INT64_MAX / 4, 3), y = shape(2, INT64_MAX / 4, 5);
  assert_int_equal(bind(&b, &x, &y), TD_BAD_ARGUMENT);
  assert_string_equal(b.r.err.name, "node /join");
  finish(&b);
}

static void broadcasts_must_fit(void **state) {
  (void)state;
  binder b;
  start(&b,
        "input %0 \"x\": f32[n]\n"
        "input %1 \"y\": f32[m]\n"
        "%2 = aten::add(%0, %1)  # \"node /sum\"\n"
        "output \"z\" %2\n");
  static const int64_t sizes[][3] = {{1, 7, 7}, {7, 1, 7}, {7, 7, 7}, {1, 1, 1}, {1, 0, 0}, {7, 6, -1}, {0, 7, -1}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    base_tensor x = shape(1, sizes[i][0], 0), y = shape(1, sizes[i][1], 0);
    td_status status = bind(&b, &x, &y);
    if (sizes[i][2] >= 0) assert_int_equal(b.binding.tensors[b.r.plan->outputs.at[0].slot].dims[0], sizes[i][2]);
    assert_int_equal(status, sizes[i][2] < 0 ? TD_BAD_ARGUMENT : TD_OK);
    if (status != TD_OK) assert_string_equal(b.r.err.name, "node /sum");
  }
  finish(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_follow_the_inputs), cmocka_unit_test(conflicts_name_the_input),
      cmocka_unit_test(expressions_are_solved),  cmocka_unit_test(one_unknown_is_solved),
      cmocka_unit_test(overflow_names_the_step), cmocka_unit_test(broadcasts_must_fit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
