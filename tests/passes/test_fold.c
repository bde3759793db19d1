/* test_fold.c -- constants: what is folded, shown in its place, or left to run time. */
#include "passes/change.h"

static void fold_computes(void **state) {
  (void)state;
  expect_change("fold",
                "input %0 \"x\": f32[2, 3]\n"
                "const %1: f32[2] = {1, 2}\n"
                "%2 = aten::add(%1, %1)\n"
                "%3 = aten::neg(%2)\n"
                "%4 = td::shape(%0)\n"
                "output \"a\" %3\noutput \"b\" %4\n",
                "input %0 \"x\": f32[2, 3]\n"
                "const %1: f32[2] = {-2, -4}\n"
                "const %2: i64[2] = {2, 3}\n"
                "output \"a\" %1\noutput \"b\" %2\n",
                3);
}

/* What is computed from open sizes stays; what depends on them learns the numbers that folding finds. */
static void fold_sharpens_types(void **state) {
  (void)state;
  expect_change("fold",
                "input %0 \"x\": f32[n, 6]\n"
                "const %1: i64[1] = {2}\n"
                "const %2: i64[1] = {3}\n"
                "%3 = aten::mul(%1, %2)\n"
                "%4 = td::shape(%0)\n"
                "%5 = aten::slice(%0, %1, %3)\n"
                "output \"s\" %4\noutput \"y\" %5\n",
                "input %0 \"x\": f32[n, 6]\n"
                "const %1: i64[1] = {2}\n"
                "const %2: i64[1] = {6}\n"
                "%3 = td::shape(%0) {start = 0, end = 9223372036854775807}: i64[2]\n"
                "%4 = aten::slice(%0, %1, %2): f32[max(0, sub(min(6, n), min(2, n))), 6]\n"
                "output \"s\" %3\noutput \"y\" %4\n",
                1);
}

static void fold_goes_into_blocks(void **state) {
  (void)state;
  expect_change("fold",
                "input %0 \"c\": bool[]\n"
                "const %1: f32[] = {3}\n"
                "%2 = prim::If(%0): f32[] {\n"
                "  block() {\n"
                "    %3 = aten::square(%1): f32[]\n"
                "    yield %3\n"
                "  }\n"
                "  block() {\n"
                "    yield %1\n"
                "  }\n"
                "}\n"
                "output \"y\" %2\n",
                "input %0 \"c\": bool[]\n"
                "const %1: f32[] = {9}\n"
                "const %2: f32[] = {3}\n"
                "%3 = prim::If(%0): f32[] {\n"
                "  block() {\n"
                "    yield %1\n"
                "  }\n"
                "  block() {\n"
                "    yield %2\n"
                "  }\n"
                "}\n"
                "output \"y\" %3\n",
                1);
}

static void fold_leaves_alone(void **state) {
  (void)state;
  /* a large result out of little */
  expect_same("fold",
              "const %0: f32[] = {1}\n"
              "const %1: i64[1] = {2000000}\n"
              "%2 = aten::expand(%0, %1): f32[2000000]\n"
              "%3 = aten::repeat(%0, %1): f32[2000000]\n"
              "output \"a\" %2\noutput \"b\" %3\n");
  /* what fails, fails when it runs, if it does */
  expect_same("fold",
              "const %0: f32[2] = {1, 2}\n"
              "const %1: i64[] = {7}\n"
              "%2 = aten::index_select(%0, %1) {dim = 0}: f32[]\n"
              "output \"y\" %2\n");
  /* lists */
  expect_same("fold",
              "const %0: f32[2] = {1, 2}\n"
              "%1 = td::list_new(%0): list(f32[2])\n"
              "output \"y\" %1\n");
}

/* A view that stays since it is not dense is known all the same, and so are sizes that become numbers. */
static void fold_sees_through_views(void **state) {
  (void)state;
  expect_change("fold",
                "const %0: f32[2, 1] = {1, 2}\n"
                "const %1: i64[2] = {2, 20000}\n"
                "%2 = aten::expand(%0, %1)\n"
                "%3 = aten::sum(%2) {dim = [1]}\n"
                "output \"y\" %3\n",
                "const %0: f32[2, 1] = {1, 2}\n"
                "const %1: i64[2] = {2, 20000}\n"
                "const %2: f32[2] = {20000, 40000}\n"
                "%3 = aten::expand(%0, %1): f32[2, 20000]\n"
                "output \"y\" %2\n",
                1);
  expect_change("fold",
                "input %0 \"x\": f32[6]\n"
                "const %1: f32[1] = {1.5}\n"
                "%2 = aten::ceil(%1)\n"
                "%3 = aten::_to_copy(%2) {dtype = i64}\n"
                "const %4: i64[1] = {0}\n"
                "%5 = aten::slice(%0, %4, %3)\n"
                "%6 = td::shape(%5)\n"
                "output \"y\" %6\n",
                "input %0 \"x\": f32[6]\n"
                "const %1: i64[1] = {0}\n"
                "const %2: i64[1] = {2}\n"
                "const %3: i64[1] = {2}\n"
                "%4 = aten::slice(%0, %1, %2): f32[2]\n"
                "output \"y\" %3\n",
                3);
}

/* Of a large constant a dense part becomes a constant in the same place, so that what is made from it is constant. */
static void fold_shows_large_views(void **state) {
  (void)state;
  enum { COLUMNS = 20000 };
  td_error err;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *g = ir_graph_new(&base_libc_allocator, ops_set(arena));
  float *data = base_arena_alloc(g->arena, 2 * COLUMNS * sizeof *data);
  for (int i = 0; i < 2 * COLUMNS; i++) data[i] = (float)i;
  const int64_t dims[] = {2, COLUMNS}, one = 1, two = 2, zero = 0;
  base_tensor t = base_tensor_of(data, TD_F32, 2, dims);
  ir_value large, first, last, axes[2], y;
  assert_int_equal(ir_add_constant(g, &t, NULL, &large, &err), TD_OK);
  assert_int_equal(ir_add_ints(g, &one, 1, &first, &err), TD_OK);
  assert_int_equal(ir_add_ints(g, &two, 1, &last, &err), TD_OK);
  assert_int_equal(ir_add_ints(g, &zero, 1, &axes[0], &err), TD_OK);
  axes[1] = first;
  for (int axis = 0; axis < 2; axis++) { /* rows are dense, columns are not: of all but the first column */
    ir_value in[] = {large, first, axis ? IR_NO_VALUE : last, axes[axis]};
    const int64_t most = COLUMNS;
    if (axis) assert_int_equal(ir_add_ints(g, &most, 1, &in[2], &err), TD_OK);
    ir_new_node spec = {.op = ir_opset_find(g->ops, "aten::slice"), .in = in, .in_count = 4};
    assert_int_equal(ir_add_node(g, g->top, &spec, NULL, &y, &err), TD_OK);
    assert_int_equal(ir_add_output(g, y, axis ? "columns" : "row", &err), TD_OK);
  }
  uint32_t changes = 0;
  assert_int_equal(find_pass("fold")->run(g, &(passes_setting){0}, &changes, &err), TD_OK);
  assert_int_equal(changes, 1);
  const base_tensor *row = ir_value_of(g, ir_block_of(g, g->top)->results.at[0])->info.constant;
  assert_non_null(row);
  assert_ptr_equal(row->data, data + COLUMNS);
  assert_int_equal(row->dims[0], 1);
  assert_null(ir_value_of(g, ir_block_of(g, g->top)->results.at[1])->info.constant);
  ir_graph_free(g);
  base_arena_free(arena);
}

/* The result of a product of constants of SIDE x SIDE, both all ones, behind fold; NULL: it is computed at run time. */
enum { SIDE = 640 };
static const base_tensor *long_product(ir_graph *g, uint32_t isa) {
  td_error err;
  float *ones = base_arena_alloc(g->arena, SIDE * SIDE * sizeof *ones);
  for (int i = 0; i < SIDE * SIDE; i++) ones[i] = 1;
  const base_tensor t = base_tensor_of(ones, TD_F32, 2, (const int64_t[]){SIDE, SIDE});
  ir_value in[2], y;
  for (int i = 0; i < 2; i++) assert_int_equal(ir_add_constant(g, &t, NULL, &in[i], &err), TD_OK);
  const ir_new_node spec = {.op = ir_opset_find(g->ops, "aten::matmul"), .in = in, .in_count = 2};
  assert_int_equal(ir_add_node(g, g->top, &spec, NULL, &y, &err), TD_OK);
  assert_int_equal(ir_add_output(g, y, "y", &err), TD_OK);
  uint32_t changes = 0;
  assert_int_equal(find_pass("fold")->run(g, &(passes_setting){.isa = isa}, &changes, &err), TD_OK);
  return ir_value_of(g, ir_block_of(g, g->top)->results.at[0])->info.constant;
}

/* What would take plain loops more than half a second is done where there is a kernel with vectors. */
static void fold_does_long_products_by_kernels(void **state) {
  (void)state;
  for (int vectors = 0; vectors < 2; vectors++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    ir_graph *g = ir_graph_new(&base_libc_allocator, ops_set(arena));
    const base_tensor *y = long_product(g, vectors ? BASE_ISA_VECTOR : 0);
    assert_int_equal(y != NULL, vectors);
    for (int i = 0; y && i < SIDE * SIDE; i += SIDE + 1) assert_true(((const float *)y->data)[i] == SIDE);
    ir_graph_free(g);
    base_arena_free(arena);
  }
}

/* A copy of a constant that every run would make. */
static void fold_copies_what_no_view_can_show(void **state) {
  (void)state;
  enum { ROWS = 3, COLUMNS = 20000 };
  td_error err;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *g = ir_graph_new(&base_libc_allocator, ops_set(arena));
  float *data = base_arena_alloc(g->arena, ROWS * COLUMNS * sizeof *data);
  for (int i = 0; i < ROWS * COLUMNS; i++) data[i] = (float)i;
  const base_tensor t = base_tensor_of(data, TD_F32, 2, (const int64_t[]){ROWS, COLUMNS});
  const base_arg swap = ARG_INTS("dims", ((const int64_t[]){1, 0}), 2);
  const int64_t all = -1;
  ir_value in[2], y;
  assert_int_equal(ir_add_constant(g, &t, NULL, &in[0], &err), TD_OK);
  ir_new_node spec = {
      .op = ir_opset_find(g->ops, "aten::permute"), .in = in, .in_count = 1, .args = &swap, .arg_count = 1};
  assert_int_equal(ir_add_node(g, g->top, &spec, NULL, &in[0], &err), TD_OK);
  assert_int_equal(ir_add_ints(g, &all, 1, &in[1], &err), TD_OK);
  spec = (ir_new_node){.op = ir_opset_find(g->ops, "aten::view"), .in = in, .in_count = 2};
  assert_int_equal(ir_add_node(g, g->top, &spec, NULL, &y, &err), TD_OK);
  assert_int_equal(ir_add_output(g, y, "y", &err), TD_OK);
  uint32_t changes = 0;
  assert_int_equal(find_pass("fold")->run(g, &(passes_setting){0}, &changes, &err), TD_OK);
  const base_tensor *made = ir_value_of(g, ir_block_of(g, g->top)->results.at[0])->info.constant;
  assert_non_null(made);
  assert_true(((const float *)made->data)[1] == COLUMNS && ((const float *)made->data)[ROWS] == 1);
  ir_graph_free(g);
  base_arena_free(arena);
}

/* Weights of bytes, four times as large as that, which every run would make anew. */
static void fold_dequantises_weights(void **state) {
  (void)state;
  enum { COUNT = 1100000 };
  td_error err;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *g = ir_graph_new(&base_libc_allocator, ops_set(arena));
  uint8_t *data = base_arena_alloc(g->arena, COUNT);
  for (int i = 0; i < COUNT; i++) data[i] = (uint8_t)(i % 251);
  const base_tensor t = base_tensor_of(data, TD_U8, 1, &(int64_t){COUNT});
  const base_tensor scale = base_tensor_of(&(float){0.5f}, TD_F32, 0, NULL);
  const base_arg f32 = ARG_DTYPE("dtype", TD_F32);
  ir_value in[2], y;
  assert_int_equal(ir_add_constant(g, &t, NULL, &in[0], &err), TD_OK);
  assert_int_equal(ir_add_constant(g, &scale, NULL, &in[1], &err), TD_OK);
  const ir_new_node spec = {
      .op = ir_opset_find(g->ops, "td::dequantize_linear"), .in = in, .in_count = 2, .args = &f32, .arg_count = 1};
  assert_int_equal(ir_add_node(g, g->top, &spec, NULL, &y, &err), TD_OK);
  assert_int_equal(ir_add_output(g, y, "y", &err), TD_OK);
  uint32_t changes = 0;
  assert_int_equal(find_pass("fold")->run(g, &(passes_setting){0}, &changes, &err), TD_OK);
  const base_tensor *made = ir_value_of(g, ir_block_of(g, g->top)->results.at[0])->info.constant;
  assert_non_null(made);
  assert_true(((const float *)made->data)[COUNT - 1] == (COUNT - 1) % 251 * 0.5f);
  ir_graph_free(g);
  base_arena_free(arena);
}

/* A branch that cannot work and never runs does not keep the model from being compiled. */
static void fold_survives_dead_branches(void **state) {
  (void)state;
  rig r;
  rig_open(&r,
           "input %0 \"c\": bool[]\n"
           "input %1 \"x\": f32[6]\n"
           "const %2: f32[1] = {2.75}\n"
           "%3 = aten::mul(%2, %2)\n"
           "%4 = aten::_to_copy(%3) {dtype = i64}\n"
           "%5 = prim::If(%0): f32[$u5] {\n"
           "  block() {\n"
           "    %6 = aten::view(%1, %4)\n"
           "    yield %6\n"
           "  }\n"
           "  block() {\n"
           "    yield %1\n"
           "  }\n"
           "}\n"
           "output \"y\" %5\n",
           "aot_eager");
  rig_feed(&r, 0, TD_BOOL, ": 0");
  rig_feed(&r, 1, TD_F32, "6: 1");
  rig_run(&r);
  expect_output(&r, 0, "6: 1");
  rig_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(fold_computes),
                                     cmocka_unit_test(fold_sharpens_types),
                                     cmocka_unit_test(fold_goes_into_blocks),
                                     cmocka_unit_test(fold_leaves_alone),
                                     cmocka_unit_test(fold_shows_large_views),
                                     cmocka_unit_test(fold_sees_through_views),
                                     cmocka_unit_test(fold_does_long_products_by_kernels),
                                     cmocka_unit_test(fold_copies_what_no_view_can_show),
                                     cmocka_unit_test(fold_dequantises_weights),
                                     cmocka_unit_test(fold_survives_dead_branches)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
