/* ctest: slow memory */
/* test_hostile_attributes.c -- attributes and small integer operands that no exporter writes: each operator refuses
 * them or works, touches no memory that is not its own (the sanitizers watch), and asks for no more than it may. */
#include "test.h"

#include "base/limited.h"
#include "ops/ops.h"
#include "ops/results.h"

enum { MOST = IR_CASE_OPERANDS, MOST_INTS = 6, MEMORY_MAX = 8 << 20 };

static base_arena *set_arena;
static const ir_opset *set;

/* ---- written down ---- */

#define INT(NAME, VALUE) \
  { .name = NAME, .kind = BASE_ATTR_INT, .i = VALUE }
#define STR(NAME, VALUE) \
  { .name = NAME, .kind = BASE_ATTR_STR, .str = VALUE }
#define BOOL(NAME, VALUE) \
  { .name = NAME, .kind = BASE_ATTR_BOOL, .i = VALUE }
#define INTS(NAME, ...)                                                           \
  {                                                                               \
    .name = NAME, .kind = BASE_ATTR_INTS, .ints = (const int64_t[]){__VA_ARGS__}, \
    .count = sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)             \
  }
#define DIMS(...) .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .dims = {__VA_ARGS__}

/* An operand; `contents` are its first elements, the others are 0. dtype INVALID: left out. */
typedef struct operand {
  td_dtype dtype;
  int32_t rank;
  int64_t dims[5], contents[5];
} operand;

typedef struct refusal {
  const char *op;
  base_arg args[5];
  operand in[7];
  const char *says;
} refusal;

static const refusal refusals[] = {
    {"td::resize",
     {INTS("axes", 1, 1)},
     {{TD_F32, DIMS(2, 5)}, {0}, {0}, {TD_I64, DIMS(2), .contents = {9, 3}}},
     "axes do not fit"},
    {"td::max_unpool",
     {INTS("kernel_size", 1, 1), INTS("padding", 3, 3, 3, 3)},
     {{TD_F32, DIMS(1, 1, 1, 1)}, {TD_I64, DIMS(1, 1, 1, 1), {4}}, {TD_I64, DIMS(4), {1, 1, 1, 1}}},
     "padding"},
    {"td::max_unpool",
     {INTS("kernel_size", INT64_MIN)},
     {{TD_F32, DIMS(1, 1, 1)}, {TD_I64, DIMS(1, 1, 1)}},
     "a kernel of size"},
    {"aten::convolution",
     {BOOL("transposed", true), INTS("output_padding", INT64_MAX)},
     {{TD_F32, DIMS(1, 1, 1)}, {TD_F32, DIMS(1, 1, 1)}},
     "output_padding has the value"},
    {"td::matmul_nbits",
     {INT("k", 9), INT("n", 1), INT("bits", 2), INT("block_size", 9)},
     {{TD_F32, DIMS(1, 9)}, {TD_U8, DIMS(1, 1, 2)}, {TD_F32, DIMS(1)}},
     "blocks of 9"},
    {"td::gather_nbits",
     {INT("block_size", INT64_MAX)},
     {{TD_U8, DIMS(2, 2)}, {TD_I64, DIMS(1)}, {TD_F32, DIMS(2, 1)}},
     "blocks of 9223372036854775807"},
    {"td::group_query_attention",
     {{0}},
     {{TD_F32, DIMS(1, 1, 2)},
      {TD_F32, DIMS(1, 1, 2)},
      {TD_F32, DIMS(1, 1, 2)},
      {0},
      {0},
      {TD_I64, DIMS(1), {INT64_MAX}},
      {TD_I64, DIMS(1), {2}}},
     "do not fit 1 new rows"},
    {"td::roi_align",
     {INT("sampling_ratio", INT64_MAX)},
     {{TD_F32, DIMS(1, 1, 2, 2)}, {TD_F32, DIMS(1, 4)}, {TD_I64, DIMS(1)}},
     "samples"},
    {"td::matmul_integer", {{0}}, {{TD_F32, DIMS(1, 1)}, {TD_U8, DIMS(1, 1)}}, "element type f32"},
    {"td::linear", {INT("n", -1)}, {{TD_F32, DIMS(1, 1)}, {TD_F32, DIMS(1, 1)}}, "n or panel"},
    {"td::linear", {INT("n", 1), INT("panel", -1)}, {{TD_F32, DIMS(1, 1)}, {TD_F32, DIMS(1, 1)}}, "n or panel"},
    {"td::linear", {INT("n", 1), INT("panel", 4096)}, {{TD_F32, DIMS(1, 1)}, {TD_F32, DIMS(4096)}}, "n or panel"},
    {"td::add_i8", {{0}}, {{TD_U8, DIMS(1)}, {TD_F32, DIMS(1)}}, "of 8 bits"},
    {"td::mul_i8", {{0}}, {{TD_F32, DIMS(1)}, {TD_U8, DIMS(1)}}, "of 8 bits"},
    {"td::add_i8", {INT("y_zero", -1)}, {{TD_U8, DIMS(1)}, {TD_U8, DIMS(1)}}, "out of range"},
    {"td::add_i8", {INT("y_zero", 256)}, {{TD_U8, DIMS(1)}, {TD_U8, DIMS(1)}}, "out of range"},
    {"td::add_i8", {INT("a_zero", -1)}, {{TD_U8, DIMS(1)}, {TD_U8, DIMS(1)}}, "out of range"},
    {"td::add_i8", {INT("a_zero", 256)}, {{TD_U8, DIMS(1)}, {TD_U8, DIMS(1)}}, "out of range"},
    {"td::add_i8", {INT("b_zero", -1)}, {{TD_U8, DIMS(1)}, {TD_U8, DIMS(1)}}, "out of range"},
    {"td::add_i8", {INT("b_zero", 256)}, {{TD_U8, DIMS(1)}, {TD_U8, DIMS(1)}}, "out of range"},
    {"td::add_i8", {INT("least", -1)}, {{TD_U8, DIMS(1)}, {TD_U8, DIMS(1)}}, "out of range"},
    {"td::add_i8", {INT("least", 9), INT("most", 8)}, {{TD_U8, DIMS(1)}, {TD_U8, DIMS(1)}}, "out of range"},
    {"td::add_i8", {INT("most", 256)}, {{TD_U8, DIMS(1)}, {TD_U8, DIMS(1)}}, "out of range"},
};

static td_status evaluate(const refusal *x, base_arena *arena, td_error *err) {
  const ir_op *op = ir_opset_find(set, x->op);
  base_value in[7], out[MOST] = {{0}};
  const base_value *at[7] = {NULL};
  const base_attrs *attrs;
  uint32_t count = 0, args = 0;
  assert_non_null(op);
  while (args < 5 && x->args[args].name) args++;
  for (uint32_t i = 0; i < 7; i++) {
    const operand *o = &x->in[i];
    if (o->dtype == TD_INVALID) continue;
    int64_t numel;
    assert_true(base_numel(o->rank, o->dims, &numel));
    void *data = base_arena_alloc(arena, (size_t)numel * 8);
    assert_non_null(data);
    for (int64_t k = 0; k < numel; k++) base_store_i64(o->dtype, data, k, k < 5 ? o->contents[k] : 0);
    in[i] = (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(data, o->dtype, o->rank, o->dims)};
    at[i] = &in[i];
    count = i + 1;
  }
  assert_int_equal(ir_make_attrs(arena, op, x->args, args, &attrs, err), TD_OK);
  return ir_evaluate(op, attrs, at, count, arena, out, results_of(op, attrs), err);
}

static void refused_by_name(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    td_error err = {0};
    assert_int_not_equal(evaluate(&refusals[i], arena, &err), TD_OK);
    if (!strstr(err.text, refusals[i].op) || !strstr(err.text, refusals[i].says))
      fail_msg("\"%s\" does not say \"%s\"", err.text, refusals[i].says);
    base_arena_free(arena);
  }
}

/* ---- every operator ---- */

/* xorshift32; below `count`. */
static uint32_t pick(uint32_t *seed, uint32_t count) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 17;
  *seed ^= *seed << 5;
  return *seed % count;
}

static int64_t hostile(uint32_t *seed) {
  static const int64_t values[] = {0,
                                   -1,
                                   1,
                                   2,
                                   3,
                                   -2,
                                   7,
                                   8,
                                   63,
                                   1000003,
                                   -INT64_C(1000003),
                                   INT32_MAX,
                                   INT32_MIN,
                                   INT64_C(1) << 31,
                                   INT64_C(1) << 32,
                                   INT64_C(1) << 62,
                                   INT64_MAX,
                                   INT64_MIN,
                                   INT64_MIN + 1};
  return values[pick(seed, sizeof values / sizeof *values)];
}

/* Another value for the attribute, of the kind that it has. `room` holds its list. */
static void vary_attr(const ir_attr *attr, base_arg *arg, int64_t *room, uint32_t *seed) {
  if (arg->name == NULL) {
    *arg = (base_arg){.name = attr->name, .kind = attr->kind};
    if (attr->kind == BASE_ATTR_STR) arg->str = attr->str;
  }
  if (attr->kind == BASE_ATTR_INT) arg->i = hostile(seed);
  if (attr->kind == BASE_ATTR_BOOL) arg->i = pick(seed, 2);
  if (attr->kind == BASE_ATTR_FLOAT) arg->f = (double)hostile(seed);
  if (attr->kind != BASE_ATTR_INTS) return;
  uint32_t count = pick(seed, 2) ? arg->count : pick(seed, MOST_INTS);
  if (count > MOST_INTS) count = MOST_INTS;
  for (uint32_t k = 0; k < count; k++) room[k] = k < arg->count ? arg->ints[k] : hostile(seed);
  if (count) room[pick(seed, count)] = hostile(seed);
  arg->ints = room;
  arg->count = count;
}

/* The case with one attribute changed, or one element of one integer operand, or both. */
static void survive(const ir_op *op, uint32_t seed) {
  limited memory = {.counting = {.inner = &base_libc_allocator}, .most = MEMORY_MAX};
  const td_allocator allocator = limited_allocator(&memory);
  ir_case c = {.arena = base_arena_new(&allocator)};
  base_value in[MOST], out[MOST] = {{0}};
  const base_value *at[MOST];
  const base_attrs *attrs;
  int64_t room[MOST_INTS];
  td_error err = {0};
  if (ops_cases(op->id)(&c, pick(&seed, 12))) {
    if (op->attr_count && pick(&seed, 4)) {
      const ir_attr *attr = &op->attrs[pick(&seed, op->attr_count)];
      uint32_t k = 0;
      while (k < c.arg_count && strcmp(c.args[k].name, attr->name) != 0) k++;
      if (attr->kind != BASE_ATTR_NONE && k < sizeof c.args / sizeof *c.args) {
        vary_attr(attr, &c.args[k], room, &seed);
        if (k == c.arg_count && attr->kind != BASE_ATTR_STR && attr->kind != BASE_ATTR_FLOATS) c.arg_count++;
      }
    }
    for (uint32_t i = 0; i < c.in_count; i++) {
      base_tensor *t = &c.in[i];
      in[i] = (base_value){.kind = BASE_TENSOR, .tensor = *t};
      at[i] = c.absent[i] ? NULL : &in[i];
      if (c.absent[i] || t->dtype != TD_I64 || base_tensor_numel(t) == 0 || pick(&seed, 2)) continue;
      base_store_i64(TD_I64, t->data, pick(&seed, (uint32_t)base_tensor_numel(t)), hostile(&seed));
    }
    td_status status = ir_make_attrs(c.arena, op, c.args, c.arg_count, &attrs, &err);
    if (status == TD_OK) status = ir_evaluate(op, attrs, at, c.in_count, c.arena, out, results_of(op, attrs), &err);
    if (status != TD_OK && !err.text[0]) fail_msg("%s fails and says nothing", op->name);
  }
  base_arena_free(c.arena);
  assert_int_equal(memory.counting.live, 0);
}

static void any_attributes_are_survived(void **state) {
  (void)state;
  for (uint32_t o = 0; o < set->count; o++) {
    const ir_op *op = set->ops[o];
    bool is_run = ops_cases(op->id) && !(op->flags & (IR_OP_HOST | IR_OP_DEFINES | IR_OP_REGION));
    for (uint32_t seed = 1; seed <= 300 && is_run; seed++) survive(op, seed * 2654435761u);
  }
}

static int setup(void **state) {
  (void)state;
  set_arena = base_arena_new(&base_libc_allocator);
  set = ops_set(set_arena);
  return set ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  base_arena_free(set_arena);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refused_by_name),
      cmocka_unit_test(any_attributes_are_survived),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
