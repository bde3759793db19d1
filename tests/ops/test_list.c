/* Lists: appending never changes an older list, positions count from either end, stacking fits items together. */
#include "test.h"

#include "ir/ir.h"
#include "ops/ops.h"

typedef struct fixture {
  base_arena *arena;
  const ir_opset *set;
  td_error err;
} fixture;

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->arena = base_arena_new(&base_libc_allocator);
  f->set = ops_set(f->arena);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  base_arena_free(f->arena);
  free(f);
  return 0;
}

static td_status evaluate(fixture *f, const char *name, const base_arg *args, uint32_t arg_count, base_value *const *in,
                          uint32_t in_count, base_value *out) {
  const ir_op *op = ir_opset_find(f->set, name);
  const base_attrs *attrs;
  assert_non_null(op);
  assert_int_equal(ir_make_attrs(f->arena, op, args, arg_count, &attrs, &f->err), TD_OK);
  return ir_evaluate(op, attrs, (const base_value *const *)in, in_count, f->arena, out, 1, &f->err);
}

static base_value row(fixture *f, int64_t a, int64_t b) {
  int64_t *data = base_arena_copy(f->arena, (int64_t[]){a, b}, 2 * sizeof a), dims[] = {2};
  return (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(data, TD_I64, 1, dims)};
}

static int64_t element(const base_value *v, int64_t i) { return base_load_i64(TD_I64, v->tensor.data, i); }

static void appending_leaves_older_lists(void **state) {
  fixture *f = *state;
  base_value list, one, two, three, x = row(f, 1, 2), y = row(f, 3, 4), z = row(f, 5, 6);
  assert_int_equal(evaluate(f, "td::list_new", (base_arg[]){ARG_DTYPE("dtype", TD_I64)}, 1, NULL, 0, &list), TD_OK);
  assert_int_equal(evaluate(f, "aten::append", NULL, 0, (base_value *[]){&list, &x}, 2, &one), TD_OK);
  memset(x.tensor.data, 0xff, 16);
  assert_int_equal(evaluate(f, "aten::append", NULL, 0, (base_value *[]){&one, &y}, 2, &two), TD_OK);
  assert_int_equal(evaluate(f, "aten::append", NULL, 0, (base_value *[]){&one, &z}, 2, &three), TD_OK);
  assert_int_equal(one.list.count, 1);
  assert_int_equal(element(&two.list.items[0], 1), 2);
  assert_int_equal(element(&two.list.items[1], 0), 3);
  assert_int_equal(element(&three.list.items[1], 0), 5);
  for (int i = 0; i < 100; i++) {
    base_value next;
    assert_int_equal(evaluate(f, "aten::append", NULL, 0, (base_value *[]){&two, &z}, 2, &next), TD_OK);
    two = next;
  }
  assert_int_equal(two.list.count, 102);
  assert_int_equal(element(&two.list.items[1], 1), 4);
  assert_int_equal(element(&two.list.items[101], 1), 6);
}

static void stacks_and_splits(void **state) {
  fixture *f = *state;
  base_value list, out, pieces, x = row(f, 1, 2), y = row(f, 3, 4);
  assert_int_equal(evaluate(f, "td::list_new", NULL, 0, (base_value *[]){&x, &y}, 2, &list), TD_OK);
  base_arg columns[] = {ARG_INT("dim", -1), ARG_INT("new_axis", 1)};
  assert_int_equal(evaluate(f, "td::stack_list", columns, 2, (base_value *[]){&list}, 1, &out), TD_OK);
  assert_int_equal(out.tensor.rank, 2);
  int64_t expected[] = {1, 3, 2, 4};
  assert_memory_equal(out.tensor.data, expected, sizeof expected);
  base_arg drop[] = {ARG_INT("dim", 1), ARG_INT("keepdims", 0)};
  assert_int_equal(evaluate(f, "td::split_to_list", drop, 2, (base_value *[]){&out}, 1, &pieces), TD_OK);
  assert_int_equal(pieces.list.count, 2);
  assert_int_equal(pieces.list.items[1].tensor.rank, 1);
  assert_int_equal(element(&pieces.list.items[1], 1), 4);
}

static void an_empty_list_stacks_to_nothing(void **state) {
  fixture *f = *state;
  base_value list, out;
  assert_int_equal(evaluate(f, "td::list_new", (base_arg[]){ARG_DTYPE("dtype", TD_F32)}, 1, NULL, 0, &list), TD_OK);
  base_arg args[] = {ARG_INT("dim", 0), ARG_INT("new_axis", 1), ARG_DTYPE("dtype", TD_F32),
                     ARG_INTS("dims", ((int64_t[]){3, -1}), 2)};
  assert_int_equal(evaluate(f, "td::stack_list", args, 4, (base_value *[]){&list}, 1, &out), TD_OK);
  assert_int_equal(out.tensor.rank, 3);
  assert_int_equal(out.tensor.dims[0], 0);
  assert_int_equal(out.tensor.dims[1], 3);
  assert_int_equal(out.tensor.dims[2], 0);
}

/* The rank of what an empty list of items of `dims` is joined to, by inference alone; IR_UNRANKED, or the status. */
static int32_t joined_rank(fixture *f, const int64_t *dims, uint32_t count, bool new_axis) {
  const ir_op *op = ir_opset_find(f->set, "td::stack_list");
  const base_arg args[] = {ARG_INT("dim", 0), ARG_INT("new_axis", new_axis), ARG_DTYPE("dtype", TD_F32),
                           ARG_INTS("dims", dims, count)};
  const base_attrs *attrs;
  assert_int_equal(ir_make_attrs(f->arena, op, args, 4, &attrs, &f->err), TD_OK);
  base_dims symbols = {.arena = f->arena};
  ir_type elem = ir_unranked(TD_F32);
  ir_info in = {.type = {.kind = IR_LIST, .dtype = TD_F32, .elem = &elem}}, out = {0};
  const ir_info *ins = &in;
  ir_infer ctx = {.op = op, .attrs = attrs, .in = &ins, .in_count = 1, .out = &out, .out_count = 1};
  ctx.dims = &symbols, ctx.arena = f->arena, ctx.err = &f->err;
  const td_status status = op->infer(&ctx);
  return status == TD_OK ? out.type.rank : -(int32_t)status - 100;
}

/* As many dimensions as there may be are known from the attribute; with one more there is no result. */
static void items_have_as_many_dims_as_there_may_be(void **state) {
  fixture *f = *state;
  const int64_t dims[BASE_MAX_RANK] = {3, -1, 2, 1, 1, 1, 1, 5};
  base_value list, out;
  assert_int_equal(joined_rank(f, dims, BASE_MAX_RANK, false), BASE_MAX_RANK);
  assert_int_equal(joined_rank(f, dims, BASE_MAX_RANK - 1, true), BASE_MAX_RANK);
  assert_int_equal(joined_rank(f, dims, BASE_MAX_RANK, true), -TD_UNSUPPORTED - 100);
  assert_int_equal(evaluate(f, "td::list_new", (base_arg[]){ARG_DTYPE("dtype", TD_F32)}, 1, NULL, 0, &list), TD_OK);
  base_arg args[] = {ARG_INT("dim", 0), ARG_INT("new_axis", 0), ARG_DTYPE("dtype", TD_F32),
                     ARG_INTS("dims", dims, BASE_MAX_RANK)};
  assert_int_equal(evaluate(f, "td::stack_list", args, 4, (base_value *[]){&list}, 1, &out), TD_OK);
  assert_int_equal(out.tensor.rank, BASE_MAX_RANK);
  assert_int_equal(out.tensor.dims[0], 0);
  assert_int_equal(out.tensor.dims[BASE_MAX_RANK - 1], 5);
}

static void positions_are_checked(void **state) {
  fixture *f = *state;
  base_value list, out, x = row(f, 1, 2), y = row(f, 3, 4);
  int64_t at = -2, dims[1] = {0};
  base_value position = {.kind = BASE_TENSOR, .tensor = base_tensor_of(&at, TD_I64, 0, dims)};
  assert_int_equal(evaluate(f, "td::list_new", NULL, 0, (base_value *[]){&x, &y}, 2, &list), TD_OK);
  assert_int_equal(evaluate(f, "td::list_at", NULL, 0, (base_value *[]){&list, &position}, 2, &out), TD_OK);
  assert_int_equal(element(&out, 0), 1);
  at = 2;
  assert_int_equal(evaluate(f, "td::list_at", NULL, 0, (base_value *[]){&list, &position}, 2, &out), TD_BAD_ARGUMENT);
  assert_int_equal(evaluate(f, "td::list_insert", NULL, 0, (base_value *[]){&list, &x, &position}, 3, &out), TD_OK);
  assert_int_equal(out.list.count, 3);
  at = -3;
  assert_int_equal(evaluate(f, "td::list_erase", NULL, 0, (base_value *[]){&list, &position}, 2, &out),
                   TD_BAD_ARGUMENT);
  assert_int_equal(evaluate(f, "td::list_erase", NULL, 0, (base_value *[]){&list}, 1, &out), TD_OK);
  assert_int_equal(out.list.count, 1);
  assert_int_equal(element(&out.list.items[0], 0), 1);
}

static void items_of_tuples(void **state) {
  fixture *f = *state;
  base_value items[2] = {row(f, 1, 2), row(f, 3, 4)}, out;
  base_value tuple = {.kind = BASE_TUPLE, .list = {.items = items, .count = 2}}, list = tuple;
  base_arg first = ARG_INT("index", 0), second = ARG_INT("index", 1), third = ARG_INT("index", 2);
  assert_int_equal(evaluate(f, "td::tuple_at", &second, 1, (base_value *[]){&tuple}, 1, &out), TD_OK);
  assert_int_equal(element(&out, 1), 4);
  assert_ptr_not_equal(out.tensor.data, items[1].tensor.data);
  assert_int_equal(evaluate(f, "td::tuple_at", &third, 1, (base_value *[]){&tuple}, 1, &out), TD_BAD_ARGUMENT);
  list.kind = BASE_LIST;
  assert_int_equal(evaluate(f, "td::tuple_at", &first, 1, (base_value *[]){&list}, 1, &out), TD_BAD_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(appending_leaves_older_lists, setup, teardown),
      cmocka_unit_test_setup_teardown(stacks_and_splits, setup, teardown),
      cmocka_unit_test_setup_teardown(an_empty_list_stacks_to_nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(items_have_as_many_dims_as_there_may_be, setup, teardown),
      cmocka_unit_test_setup_teardown(positions_are_checked, setup, teardown),
      cmocka_unit_test_setup_teardown(items_of_tuples, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
