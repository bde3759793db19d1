/* test_operand_kinds.c -- every operator, over its first generated case with one operand replaced: strings are refused
 * by number where the operator does not say that it takes them, lists always. */
#include "test.h"

#include "ops/ops.h"
#include "ops/results.h"

enum { MOST = IR_CASE_OPERANDS, STRINGS = 1 << 16 };

static base_arena *arena;
static const ir_opset *set;
static base_str strings[STRINGS];

/* Operand `which` of case 0 as `replace` makes it; the status of inference and, where that passes, of the reference. */
static td_status run(const ir_op *op, uint32_t which, void (*replace)(base_value *), bool *there, td_error *err) {
  ir_case c = {.arena = arena};
  base_value in[MOST], out[MOST] = {{0}};
  const base_value *at[MOST];
  const base_attrs *attrs;
  *there = ops_cases(op->id)(&c, 0) && which < c.in_count && !c.absent[which];
  if (!*there) return TD_OK;
  for (uint32_t i = 0; i < c.in_count; i++) {
    in[i] = (base_value){.kind = BASE_TENSOR, .tensor = c.in[i]};
    at[i] = c.absent[i] ? NULL : &in[i];
  }
  replace(&in[which]);
  assert_int_equal(ir_make_attrs(arena, op, c.args, c.arg_count, &attrs, err), TD_OK);
  return ir_evaluate(op, attrs, at, c.in_count, arena, out, results_of(op, attrs), err);
}

static void to_strings(base_value *v) {
  assert_true(base_tensor_numel(&v->tensor) <= STRINGS);
  v->tensor.dtype = TD_STRING;
  v->tensor.data = strings;
}

static void to_list(base_value *v) { *v = (base_value){.kind = BASE_LIST}; }

/* Operators that define their outputs do so without inference here; in a model inference comes first for them too. */
static bool is_checked(const ir_op *op) {
  return ops_cases(op->id) && !(op->flags & (IR_OP_HOST | IR_OP_DEFINES | IR_OP_REGION));
}

/* Whoever reads a program finds it by these flags, at these places. */
static void programs_are_flagged(void **state) {
  (void)state;
  uint32_t loops = 0, chains = 0;
  for (uint32_t o = 0; o < set->count; o++) {
    const ir_op *op = set->ops[o];
    const bool first = op->attr_count && strcmp(op->attrs[0].name, "program") == 0;
    const bool last = op->attr_count && strcmp(op->attrs[op->attr_count - 1].name, "chain") == 0;
    if (first != !!(op->flags & IR_OP_LOOP)) fail_msg("%s: IR_OP_LOOP does not fit its attributes", op->name);
    if (last != !!(op->flags & IR_OP_CHAIN)) fail_msg("%s: IR_OP_CHAIN does not fit its attributes", op->name);
    loops += first;
    chains += last;
  }
  assert_true(loops == 2 && chains >= 8);
}

static void strings_where_they_are_taken(void **state) {
  (void)state;
  for (uint32_t o = 0; o < set->count; o++) {
    const ir_op *op = set->ops[o];
    for (uint32_t i = 0; i < MOST && is_checked(op); i++) {
      td_error err = {0};
      bool there, taken = op->strings >> (i < 7 ? i : 7) & 1;
      td_status status = run(op, i, to_strings, &there, &err);
      if (there && !taken && (status == TD_OK || !strstr(err.text, "strings")))
        fail_msg("%s operand %u: \"%s\"", op->name, i, err.text);
    }
  }
}

static void lists_are_refused(void **state) {
  (void)state;
  for (uint32_t o = 0; o < set->count; o++) {
    const ir_op *op = set->ops[o];
    for (uint32_t i = 0; i < MOST && is_checked(op); i++) {
      td_error err = {0};
      bool there;
      td_status status = run(op, i, to_list, &there, &err);
      if (there && (status == TD_OK || !strstr(err.text, "a list")))
        fail_msg("%s operand %u: \"%s\"", op->name, i, err.text);
    }
  }
}

/* xorshift32; below `count`. */
static uint32_t pick(uint32_t *seed, uint32_t count) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 17;
  *seed ^= *seed << 5;
  return *seed % count;
}

/* Another size, another rank, another type, or as it was; small numbers inside. The caller frees the data. */
static base_tensor vary(const base_tensor *from, uint32_t *seed) {
  static const td_dtype dtypes[] = {TD_F32, TD_F16, TD_F64, TD_I64, TD_I32, TD_I8, TD_U8, TD_BOOL};
  base_tensor t = *from;
  uint32_t kind = pick(seed, 9);
  if (kind == 0 && t.rank) t.dims[pick(seed, (uint32_t)t.rank)] = pick(seed, 7);
  if (kind == 1) {
    t.rank = (int32_t)pick(seed, 5);
    for (int32_t i = 0; i < t.rank; i++) t.dims[i] = pick(seed, 5);
  }
  if (kind == 2) t.dtype = dtypes[pick(seed, sizeof dtypes / sizeof *dtypes)];
  size_t bytes;
  assert_true(base_dtype_bytes(t.dtype, base_tensor_numel(&t), &bytes));
  t = base_tensor_of(malloc(bytes ? bytes : 1), t.dtype, t.rank, t.dims);
  assert_non_null(t.data);
  for (int64_t k = 0; k < base_tensor_numel(&t); k++) base_store_f64(t.dtype, t.data, k, (double)pick(seed, 7) - 2);
  return t;
}

static void survive(const ir_op *op, uint32_t seed) {
  ir_case c = {.arena = base_arena_new(&base_libc_allocator)};
  base_value in[MOST], out[MOST] = {{0}};
  const base_value *at[MOST];
  const base_attrs *attrs;
  td_error err = {0};
  if (!ops_cases(op->id)(&c, pick(&seed, 12))) {
    base_arena_free(c.arena);
    return;
  }
  for (uint32_t i = 0; i < c.in_count; i++) {
    bool left_out = c.absent[i] || (i >= op->min_in && pick(&seed, 6) == 0);
    in[i] = (base_value){.kind = BASE_TENSOR};
    if (!left_out) in[i].tensor = vary(&c.in[i], &seed);
    at[i] = left_out ? NULL : &in[i];
  }
  assert_int_equal(ir_make_attrs(c.arena, op, c.args, c.arg_count, &attrs, &err), TD_OK);
  ir_evaluate(op, attrs, at, c.in_count, c.arena, out, results_of(op, attrs), &err);
  for (uint32_t i = 0; i < c.in_count; i++)
    if (at[i]) free(in[i].tensor.data);
  base_arena_free(c.arena);
}

static void any_shapes_are_survived(void **state) {
  (void)state;
  for (uint32_t o = 0; o < set->count; o++)
    for (uint32_t seed = 1; seed <= 100 && is_checked(set->ops[o]); seed++) survive(set->ops[o], seed * 2654435761u);
}

static int setup(void **state) {
  (void)state;
  arena = base_arena_new(&base_libc_allocator);
  set = ops_set(arena);
  for (int i = 0; i < STRINGS; i++) strings[i] = BASE_STR("ab");
  return set ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  base_arena_free(arena);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(programs_are_flagged),
      cmocka_unit_test(strings_where_they_are_taken),
      cmocka_unit_test(lists_are_refused),
      cmocka_unit_test(any_shapes_are_survived),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
