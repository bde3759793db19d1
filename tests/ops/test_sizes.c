/* Shape arithmetic keeps expressions: the chains that exporters write come out as sizes of the inputs, not as new
 * symbols. */
#include "test.h"

#include "ir/ir.h"
#include "ops/ops.h"

typedef struct fixture {
  base_arena *arena;
  ir_graph *graph;
  base_dim batch, length;
  ir_value x; /* f32[batch, length, 12] */
} fixture;

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->arena = base_arena_new(&base_libc_allocator);
  f->graph = ir_graph_new(&base_libc_allocator, ops_set(f->arena));
  f->batch = base_dim_symbol(&f->graph->dims, "batch");
  f->length = base_dim_symbol(&f->graph->dims, "length");
  ir_type type = ir_tensor(TD_F32, 3, (base_dim[]){f->batch, f->length, 12});
  ir_add_input(f->graph, &type, "x", IR_NO_VALUE, &f->x, NULL);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  ir_graph_free(f->graph);
  base_arena_free(f->arena);
  free(f);
  return 0;
}

static ir_value add(fixture *f, const char *op, const ir_value *in, uint32_t count, const base_arg *args,
                    uint32_t arg_count) {
  ir_new_node spec = {
      .op = ir_opset_find(f->graph->ops, op), .in = in, .in_count = count, .args = args, .arg_count = arg_count};
  ir_node node;
  ir_value out;
  td_error err;
  assert_non_null(spec.op);
  if (ir_add_node(f->graph, f->graph->top, &spec, &node, &out, &err) != TD_OK) fail_msg("%s", err.text);
  return out;
}
#define ADD(f, op, ...) \
  add(f, op, (ir_value[]){__VA_ARGS__}, sizeof((ir_value[]){__VA_ARGS__}) / sizeof(ir_value), NULL, 0)

static ir_value ints(fixture *f, int64_t value) {
  ir_value v;
  assert_int_equal(ir_add_ints(f->graph, &value, 1, &v, NULL), TD_OK);
  return v;
}

static ir_value join(fixture *f, ir_value *parts, uint32_t count) {
  return add(f, "aten::cat", parts, count, &ARG_INT("dim", 0), 1);
}

/* Size `axis` of x as a vector of one. */
static ir_value size_of(fixture *f, ir_value x, int64_t axis) {
  ir_value scalar;
  assert_int_equal(ir_add_scalar(f->graph, TD_I64, (double)axis, &scalar, NULL), TD_OK);
  ir_value size = ADD(f, "aten::index_select", ADD(f, "td::shape", x), scalar);
  return ADD(f, "aten::unsqueeze", size, ints(f, 0));
}

static void expect_dims(fixture *f, ir_value v, int32_t rank, const base_dim *dims) {
  const ir_type *type = ir_type_of(f->graph, v);
  base_text text = {.allocator = &base_libc_allocator};
  ir_type_print(&f->graph->dims, type, &text);
  bool same = type->rank == rank;
  for (int32_t i = 0; same && i < rank; i++) same = type->dims[i] == dims[i];
  if (!same) fail_msg("%s", text.at);
  base_text_free(&text);
}

/* Attention's heads: [batch, length, 12] to [batch, length, 3, 4], and back with an open size. */
static void a_reshape_keeps_symbols(void **state) {
  fixture *f = *state;
  ir_value shape = join(f, (ir_value[]){size_of(f, f->x, 0), size_of(f, f->x, 1), ints(f, 3), ints(f, -1)}, 4);
  ir_value heads = ADD(f, "aten::view", f->x, shape);
  expect_dims(f, heads, 4, (base_dim[]){f->batch, f->length, 3, 4});
  ir_value flat = ADD(f, "aten::view", heads, join(f, (ir_value[]){ints(f, -1), ints(f, 12)}, 2));
  expect_dims(f, flat, 2, (base_dim[]){base_dim_mul(&f->graph->dims, f->batch, f->length), 12});
  ir_value back = ADD(f, "aten::view", flat, join(f, (ir_value[]){size_of(f, f->x, 0), ints(f, -1), ints(f, 12)}, 3));
  expect_dims(f, back, 3, (base_dim[]){f->batch, f->length, 12});
}

static void slices_keep_symbols(void **state) {
  fixture *f = *state;
  base_dims *dims = &f->graph->dims;
  ir_value axis = ints(f, 1), length = size_of(f, f->x, 1), end = ints(f, INT64_MAX);
  expect_dims(f, ADD(f, "aten::slice", f->x, ints(f, 0), length, axis), 3, (base_dim[]){f->batch, f->length, 12});
  expect_dims(f, ADD(f, "aten::slice", f->x, ints(f, -1), ints(f, INT64_MIN), axis, ints(f, -1)), 3,
              (base_dim[]){f->batch, f->length, 12});
  ir_value last = ADD(f, "aten::slice", f->x, ADD(f, "aten::sub", length, ints(f, 1)), length, axis);
  expect_dims(f, last, 3, (base_dim[]){f->batch, 1, 12});
  ir_value past = ADD(f, "aten::slice", f->x, ADD(f, "aten::sub", ints(f, 0), length), end, axis);
  expect_dims(f, past, 3, (base_dim[]){f->batch, f->length, 12});
  ir_value twice = add(f, "aten::cat", (ir_value[]){f->x, f->x}, 2, &ARG_INT("dim", 1), 1);
  base_arg half[] = {ARG_INT("dim", 1), ARG_INT("parts", 2), ARG_INT("index", 1), ARG_BOOL("even", 1)};
  base_dim sum = base_dim_add(dims, f->length, f->length);
  expect_dims(f, twice, 3, (base_dim[]){f->batch, sum, 12});
  expect_dims(f, add(f, "td::chunk", &twice, 1, half, 4), 3, (base_dim[]){f->batch, base_dim_div(dims, sum, 2), 12});
}

/* Sizes cut out of a shape as a vector, expanded and repeated. */
static void vectors_of_sizes_are_cut(void **state) {
  fixture *f = *state;
  ir_value front = ADD(f, "aten::slice", ADD(f, "td::shape", f->x), ints(f, 0), ints(f, -1));
  ir_value one;
  assert_int_equal(ir_add_scalar(f->graph, TD_F32, 1, &one, NULL), TD_OK);
  expect_dims(f, ADD(f, "aten::full", front, one), 2, (base_dim[]){f->batch, f->length});
  expect_dims(f, ADD(f, "aten::expand", one, front), 2, (base_dim[]){f->batch, f->length});
  ir_value start, step, limit = ADD(f, "aten::squeeze", size_of(f, f->x, 1));
  assert_int_equal(ir_add_scalar(f->graph, TD_I64, 0, &start, NULL), TD_OK);
  assert_int_equal(ir_add_scalar(f->graph, TD_I64, 1, &step, NULL), TD_OK);
  expect_dims(f, ADD(f, "aten::arange", start, limit, step), 1, &f->length);
}

/* IR_MAX_INTS contents are known, sizes among them; of more none are. */
static void so_many_contents_are_known(void **state) {
  fixture *f = *state;
  static const int64_t zeros[IR_MAX_INTS];
  for (uint32_t more = 0; more < 2; more++) {
    ir_value front;
    assert_int_equal(ir_add_ints(f->graph, zeros, IR_MAX_INTS - 1 + more, &front, NULL), TD_OK);
    const ir_value all = join(f, (ir_value[]){front, size_of(f, f->x, 1)}, 2);
    const ir_info *info = &ir_value_of(f->graph, all)->info;
    if (more) assert_null(info->ints);
    else assert_true(info->ints && info->int_count == IR_MAX_INTS && info->ints[IR_MAX_INTS - 1] == f->length);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_reshape_keeps_symbols, setup, teardown),
      cmocka_unit_test_setup_teardown(slices_keep_symbols, setup, teardown),
      cmocka_unit_test_setup_teardown(vectors_of_sizes_are_cut, setup, teardown),
      cmocka_unit_test_setup_teardown(so_many_contents_are_known, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
