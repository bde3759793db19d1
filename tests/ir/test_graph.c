/* test_graph.c -- building and editing graphs, the verifier against each kind of damage, evaluation of one operator. */
#include "test.h"

#include <stdio.h>

#include "ops/ops.h"

typedef struct fixture {
  base_arena *arena;
  ir_graph *g;
  ir_value x, y;     /* inputs f32[n, 2], f32[2] */
  ir_value sum, out; /* add, relu */
  ir_node add, relu;
} fixture;

static const ir_op *op(const fixture *f, const char *name) { return ir_opset_find(f->g->ops, name); }

static int open_fixture(void **state) {
  static fixture f;
  f = (fixture){.arena = base_arena_new(&base_libc_allocator)};
  f.g = ir_graph_new(&base_libc_allocator, ops_set(f.arena));
  td_error err;
  base_dim dims[] = {base_dim_symbol(&f.g->dims, "n"), 2};
  ir_type wide = ir_tensor(TD_F32, 2, dims), narrow = ir_tensor(TD_F32, 1, dims + 1);
  assert_int_equal(ir_add_input(f.g, &wide, "x", IR_NO_VALUE, &f.x, &err), TD_OK);
  assert_int_equal(ir_add_input(f.g, &narrow, "y", IR_NO_VALUE, &f.y, &err), TD_OK);
  const char *origin = "node /sum (Add)";
  ir_value in[] = {f.x, f.y};
  ir_new_node add = {.op = op(&f, "aten::add"), .in = in, .in_count = 2, .origins = {&origin, 1}};
  assert_int_equal(ir_add_node(f.g, f.g->top, &add, &f.add, &f.sum, &err), TD_OK);
  ir_new_node relu = {.op = op(&f, "aten::relu"), .in = &f.sum, .in_count = 1};
  assert_int_equal(ir_add_node(f.g, f.g->top, &relu, &f.relu, &f.out, &err), TD_OK);
  assert_int_equal(ir_add_output(f.g, f.out, "z", &err), TD_OK);
  assert_int_equal(ir_verify(f.g, &err), TD_OK);
  *state = &f;
  return 0;
}

static int close_fixture(void **state) {
  fixture *f = *state;
  ir_graph_free(f->g);
  base_arena_free(f->arena);
  return 0;
}

static void expect_text(const fixture *f, const char *expected) {
  base_text text = {.allocator = &base_libc_allocator};
  td_error err;
  if (ir_verify(f->g, &err) != TD_OK) fail_msg("%s", err.text);
  assert_int_equal(ir_print(f->g, &text), TD_OK);
  assert_string_equal(text.at, expected);
  base_text_free(&text);
}

/* ---- building ---- */

static void refuses_nodes(void **state) {
  fixture *f = *state;
  td_error err;
  ir_value two[] = {f->x, f->y}, absent[] = {f->x, IR_NO_VALUE}, many[] = {f->x, f->x, f->x};
  base_arg unknown = ARG_INT("speed", 1), mistyped = ARG_STR("negative_slope", "a");
  base_dim odd[] = {7};
  ir_type seven = ir_tensor(TD_F32, 1, odd);
  ir_value z;
  assert_int_equal(ir_add_input(f->g, &seven, "z", IR_NO_VALUE, &z, &err), TD_OK);
  ir_value misfit[] = {f->x, z};
  const ir_new_node wrong[] = {
      {.op = op(f, "aten::add"), .in = two, .in_count = 1},
      {.op = op(f, "aten::add"), .in = many, .in_count = 3},
      {.op = op(f, "aten::add"), .in = absent, .in_count = 2},
      {.op = op(f, "aten::add"), .in = misfit, .in_count = 2},
      {.op = op(f, "aten::add"), .in = two, .in_count = 2, .out_count = 2},
      {.op = op(f, "aten::leaky_relu"), .in = two, .in_count = 1, .args = &unknown, .arg_count = 1},
      {.op = op(f, "aten::leaky_relu"), .in = two, .in_count = 1, .args = &mistyped, .arg_count = 1},
      {.op = op(f, "aten::_to_copy"), .in = two, .in_count = 1},
      {.op = op(f, "prim::If"), .in = two, .in_count = 1, .out_count = 1},
  };
  uint32_t nodes = f->g->nodes.count, values = f->g->values.count;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    err = (td_error){0};
    assert_int_equal(ir_add_node(f->g, f->g->top, &wrong[i], NULL, NULL, &err), TD_BAD_FILE);
    if (!strstr(err.text, wrong[i].op->name)) fail_msg("%s", err.text);
  }
  assert_true(nodes == f->g->nodes.count && values == f->g->values.count);
}

static void constants_know_their_contents(void **state) {
  fixture *f = *state;
  td_error err;
  ir_value v;
  int64_t numbers[] = {3, -1};
  assert_int_equal(ir_add_ints(f->g, numbers, 2, &v, &err), TD_OK);
  const ir_info *info = &ir_value_of(f->g, v)->info;
  assert_true(info->int_count == 2 && info->ints[0] == 3 && info->ints[1] == -1);
  assert_int_equal(ir_add_scalar(f->g, TD_F32, 2.5, &v, &err), TD_OK);
  info = &ir_value_of(f->g, v)->info;
  assert_true(!info->ints && info->type.rank == 0 && base_load_f64(TD_F32, info->constant->data, 0) == 2.5);
  base_tensor large = base_tensor_of(numbers, TD_I64, 2, (int64_t[]){INT64_MAX, 2});
  assert_int_equal(ir_add_constant(f->g, &large, "large", &v, &err), TD_BAD_FILE);
}

/* ---- edits ---- */

static void edits_take_effect_together(void **state) {
  fixture *f = *state;
  td_error err;
  assert_int_equal(ir_replace_value(f->g, f->out, f->sum, &err), TD_OK);
  assert_int_equal(ir_replace_value(f->g, f->sum, f->x, &err), TD_OK); /* a chain: out, sum, x */
  ir_refresh(f->g, f->relu);
  assert_int_equal(ir_node_of(f->g, f->relu)->in[0].id, f->x.id);
  ir_remove_node(f->g, f->relu);
  ir_remove_node(f->g, f->add);
  ir_settle(f->g);
  expect_text(f, "input %0 \"x\": f32[n, 2]\ninput %1 \"y\": f32[2]\noutput \"z\" %0\n");
}

static void counts_uses(void **state) {
  fixture *f = *state;
  uint32_t counts[64];
  assert_true(f->g->values.count <= 64);
  ir_count_uses(f->g, counts);
  assert_true(counts[f->x.id] == 1 && counts[f->sum.id] == 1 && counts[f->out.id] == 1);
  ir_remove_node(f->g, f->relu);
  ir_count_uses(f->g, counts);
  assert_true(counts[f->sum.id] == 0 && counts[f->out.id] == 1);
}

/* ---- the verifier ---- */

static void expect_damage(const fixture *f, const char *what) {
  td_error err;
  assert_int_equal(ir_verify(f->g, &err), TD_INTERNAL);
  if (!strstr(err.text, what)) fail_msg("\"%s\" says nothing of \"%s\"", err.text, what);
}

static void finds_bad_operands(void **state) {
  fixture *f = *state;
  ir_node_def *relu = ir_node_of(f->g, f->relu), *add = ir_node_of(f->g, f->add);
  td_error err;
  relu->in[0] = f->out; /* its own result */
  expect_damage(f, "uses before its definition");
  relu->in[0] = (ir_value){f->g->values.count};
  expect_damage(f, "uses before its definition");
  relu->in[0] = IR_NO_VALUE;
  expect_damage(f, "is without operand");
  relu->in[0] = f->sum;
  add->in[0] = f->out; /* later than it */
  assert_int_equal(ir_verify(f->g, &err), TD_INTERNAL);
  assert_string_equal(err.name, "node /sum (Add)");
  add->in[0] = f->x;
  assert_int_equal(ir_verify(f->g, &err), TD_OK);
}

static void finds_bad_results(void **state) {
  fixture *f = *state;
  ir_node_def *relu = ir_node_of(f->g, f->relu);
  ir_type *type = &ir_value_of(f->g, f->out)->info.type, good = *type;
  relu->out[0] = f->sum;
  expect_damage(f, "defines a bad value");
  relu->out[0] = IR_NO_VALUE;
  expect_damage(f, "defines a bad value");
  relu->out[0] = f->out;
  type->rank = BASE_MAX_RANK + 1;
  expect_damage(f, "bad type");
  *type = good;
  type->dtype = TD_INVALID;
  expect_damage(f, "no element type");
  *type = good;
  type->dims[0] = BASE_DIM_NONE;
  expect_damage(f, "a size is missing");
  *type = good;
  type->kind = IR_KIND_COUNT;
  expect_damage(f, "bad type");
}

/* What a task gives ends with the run. */
static void finds_futures_at_the_ends(void **state) {
  fixture *f = *state;
  const ir_type any = {.kind = IR_FUTURE}, pair[2] = {{.kind = IR_INT}, any};
  const ir_type whole = {.kind = IR_TUPLE, .elem = pair, .count = 2};
  ir_type *type = &ir_value_of(f->g, f->out)->info.type, good = *type;
  *type = any;
  expect_damage(f, "a future goes out");
  *type = whole;
  expect_damage(f, "a future goes out");
  *type = good;
  type = &ir_value_of(f->g, f->x)->info.type;
  *type = whole;
  expect_damage(f, "a future goes in");
}

static void finds_bad_lists(void **state) {
  fixture *f = *state;
  ir_block_def *top = ir_block_of(f->g, f->g->top);
  ir_node first = top->nodes.at[0];
  top->nodes.at[0] = (ir_node){f->g->nodes.count};
  expect_damage(f, "no such node");
  top->nodes.at[0] = f->relu;
  expect_damage(f, "uses before its definition");
  top->nodes.at[0] = first;
  ir_node_of(f->g, f->add)->parent = (ir_block){0};
  expect_damage(f, "misplaced node");
  ir_node_of(f->g, f->add)->parent = f->g->top;
  f->g->output_names.count = 0;
  expect_damage(f, "outputs without names");
  f->g->output_names.count = 1;
  top->results.at[0] = IR_NO_VALUE;
  expect_damage(f, "result");
  top->results.at[0] = f->out;
  f->g->input_defaults.at[0] = f->y;
  expect_damage(f, "bad default");
  f->g->input_defaults.at[0] = IR_NO_VALUE;
  f->g->input_defaults.count = 1;
  expect_damage(f, "defaults");
}

/* Inputs and outputs keep their places in front of states, whenever they are added. */
static void keeps_states_behind(void **state) {
  fixture *f = *state;
  td_error err;
  ir_value first, last, z, number;
  const ir_initial nothing = {.list = true};
  ir_type list = {.kind = IR_LIST};
  assert_int_equal(ir_add_scalar(f->g, TD_F32, 2, &number, &err), TD_OK);
  const ir_initial two = {.value = number};
  assert_int_equal(ir_add_state(f->g, ir_type_of(f->g, number), "a", &two, &first, &err), TD_OK);
  assert_int_equal(ir_add_state(f->g, &list, "b", &nothing, &last, &err), TD_OK);
  assert_int_equal(ir_add_input(f->g, ir_type_of(f->g, f->y), "z", IR_NO_VALUE, &z, &err), TD_OK);
  assert_int_equal(ir_add_output(f->g, z, "same", &err), TD_OK);
  assert_int_equal(ir_store_state(f->g, first, number, &err), TD_OK);
  assert_int_equal(ir_store_state(f->g, z, number, &err), TD_INTERNAL);
  assert_int_equal(ir_verify(f->g, &err), TD_OK);
  assert_int_equal(ir_state_before(f->g, 0).id, first.id);
  assert_int_equal(ir_state_before(f->g, 1).id, last.id);
  assert_int_equal(ir_state_after(f->g, 0).id, number.id);
  assert_int_equal(ir_state_after(f->g, 1).id, last.id);
  const ir_block_def *top = ir_block_of(f->g, f->g->top);
  for (uint32_t i = 0; i < top->params.count; i++) assert_int_equal(ir_value_of(f->g, top->params.at[i])->index, i);
  ir_block_of(f->g, f->g->top)->results.at[2] = f->sum;
  expect_damage(f, "does not fit state");
  ir_block_of(f->g, f->g->top)->results.at[2] = number;
  f->g->states.at[0].value = f->x;
  expect_damage(f, "bad first value of state");
}

static void finds_bad_regions(void **state) {
  fixture *f = *state;
  td_error err;
  ir_type one = ir_tensor(TD_F32, 0, NULL), number = ir_tensor(TD_I64, 0, NULL);
  ir_value none[] = {IR_NO_VALUE, IR_NO_VALUE, f->x}, i, carried;
  ir_node loop;
  ir_block body;
  ir_new_node spec = {
      .op = op(f, "prim::Loop"), .in = none, .in_count = 3, .out_count = 1, .out_types = ir_type_of(f->g, f->x)};
  assert_int_equal(ir_add_node(f->g, f->g->top, &spec, &loop, NULL, &err), TD_OK);
  expect_damage(f, "wrong number of blocks");
  assert_int_equal(ir_add_block(f->g, loop, &body, &err), TD_OK);
  expect_damage(f, "wrong signature");
  assert_int_equal(ir_add_param(f->g, body, &number, NULL, &i, &err), TD_OK);
  assert_int_equal(ir_add_param(f->g, body, ir_type_of(f->g, f->x), NULL, &carried, &err), TD_OK);
  assert_int_equal(ir_add_result(f->g, body, i, &err), TD_OK);
  assert_int_equal(ir_add_result(f->g, body, carried, &err), TD_OK);
  assert_int_equal(ir_verify(f->g, &err), TD_OK);
  ir_value_of(f->g, i)->info.type = one;
  expect_damage(f, "no iteration number");
  ir_value_of(f->g, i)->info.type = number;
  ir_node_of(f->g, loop)->in_count = 2;
  expect_damage(f, "wrong number of operands");
  ir_node_of(f->g, loop)->in_count = 3;
  ir_block_of(f->g, f->g->top)->results.at[0] = carried; /* what a block defines is not seen outside */
  expect_damage(f, "result");
  ir_block_of(f->g, f->g->top)->results.at[0] = f->out;
  ir_remove_node(f->g, loop);
  ir_settle(f->g);
  assert_int_equal(ir_verify(f->g, &err), TD_OK);
}

/* ---- evaluation ---- */

static void evaluates_one_operator(void **state) {
  fixture *f = *state;
  td_error err;
  float a[] = {1, 2, 3, 4}, b[] = {10, 20};
  base_value x = {.kind = BASE_TENSOR, .tensor = base_tensor_of(a, TD_F32, 2, (int64_t[]){2, 2})};
  base_value y = {.kind = BASE_TENSOR, .tensor = base_tensor_of(b, TD_F32, 1, (int64_t[]){2})};
  const base_value *in[] = {&x, &y};
  const base_attrs *attrs;
  base_value out;
  assert_int_equal(ir_make_attrs(f->arena, op(f, "aten::add"), NULL, 0, &attrs, &err), TD_OK);
  assert_int_equal(ir_evaluate(op(f, "aten::add"), attrs, in, 2, f->arena, &out, 1, &err), TD_OK);
  assert_true(out.tensor.rank == 2 && out.tensor.dims[0] == 2);
  assert_memory_equal(out.tensor.data, ((float[]){11, 22, 13, 24}), 16);
  assert_int_equal(ir_make_attrs(f->arena, op(f, "aten::nonzero"), NULL, 0, &attrs, &err), TD_OK);
  a[1] = 0;
  assert_int_equal(ir_evaluate(op(f, "aten::nonzero"), attrs, in, 1, f->arena, &out, 1, &err), TD_OK);
  assert_true(out.tensor.rank == 2 && out.tensor.dims[0] == 3 && out.tensor.dims[1] == 2);
  y.tensor.dims[0] = 3;
  assert_int_equal(ir_evaluate(op(f, "aten::add"), attrs, in, 2, f->arena, &out, 1, &err), TD_BAD_FILE);
}

/* Sizes become numbers within lists, too, and in all that a tuple holds. */
static void sizes_are_fixed_wherever_they_stand(void **state) {
  const fixture *f = *state;
  const ir_type x = *ir_type_of(f->g, f->x), pair[] = {x, ir_tensor(TD_I64, 1, x.dims)};
  const ir_type list = {.kind = IR_LIST, .elem = &x}, tuple = {.kind = IR_TUPLE, .elem = pair, .count = 2};
  td_error err;
  ir_value v;
  assert_int_equal(ir_add_input(f->g, &list, "l", IR_NO_VALUE, &v, &err), TD_OK);
  assert_int_equal(ir_add_input(f->g, &tuple, "t", IR_NO_VALUE, &v, &err), TD_OK);
  assert_int_equal(ir_fix_sizes(f->g, &(ir_size){"n", 3}, 1, &err), TD_OK);
  expect_text(f,
              "input %0 \"x\": f32[3, 2]\ninput %1 \"y\": f32[2]\ninput %2 \"l\": list(f32[3, 2])\n"
              "input %3 \"t\": tuple(f32[3, 2], i64[3])\n"
              "%4 = aten::add(%0, %1): f32[3, 2]  # \"node /sum (Add)\"\n"
              "%5 = aten::relu(%4): f32[3, 2]\noutput \"z\" %5\n");
}

/* Axes of front ends: negative ones count from the end, one past either end is an error. */
static void axes_lie_within_the_rank(void **state) {
  const fixture *f = *state;
  for (int64_t axis = -3; axis <= 2; axis++) {
    td_error err;
    ir_build b = ir_build_of(f->g, &err);
    const int64_t got = ir_build_axis(&b, axis, 2);
    const bool outside = axis < -2 || axis > 1;
    assert_int_equal(ir_build_failed(&b), outside);
    assert_int_equal(got, outside ? 0 : (axis + 2) % 2);
    if (outside)
      assert_non_null(strstr(err.text, axis < 0 ? "axis -3 is outside [-2, 2)" : "axis 2 is outside [-2, 2)"));
  }
}

#define WITH_GRAPH(test) cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)

int main(void) {
  const struct CMUnitTest tests[] = {WITH_GRAPH(refuses_nodes),
                                     WITH_GRAPH(constants_know_their_contents),
                                     WITH_GRAPH(edits_take_effect_together),
                                     WITH_GRAPH(counts_uses),
                                     WITH_GRAPH(finds_bad_operands),
                                     WITH_GRAPH(finds_bad_results),
                                     WITH_GRAPH(finds_futures_at_the_ends),
                                     WITH_GRAPH(finds_bad_lists),
                                     WITH_GRAPH(keeps_states_behind),
                                     WITH_GRAPH(finds_bad_regions),
                                     WITH_GRAPH(evaluates_one_operator),
                                     WITH_GRAPH(sizes_are_fixed_wherever_they_stand),
                                     WITH_GRAPH(axes_lie_within_the_rank)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
