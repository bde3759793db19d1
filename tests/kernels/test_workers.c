/* Every kernel that threads share, over the cases of the operators that it serves: the bits of one worker are those of
 * several, and of work that is cut for many. What is made of zeros is zero. */
#include "kernels/run_kernel.h"

#include "ops/ops.h"
#include "ops/results.h"

enum { LEVELS = 8 };

static const ir_opset *set;

/* A case of an operator as a kernel is asked for and called. */
typedef struct subject {
  const ir_op *op;
  ir_case c;
  const base_attrs *attrs;
  base_value in[IR_CASE_OPERANDS], out[RUN_OUTPUTS];
  const base_value *at[IR_CASE_OPERANDS];
  uint32_t out_count;
} subject;

static bool make_case(subject *s, base_arena *arena, uint32_t number) {
  td_error err;
  s->c = (ir_case){.arena = arena};
  if (!ops_cases(s->op->id)(&s->c, number)) return false;
  assert_int_equal(ir_make_attrs(arena, s->op, s->c.args, s->c.arg_count, &s->attrs, &err), TD_OK);
  for (uint32_t i = 0; i < s->c.in_count; i++) {
    s->in[i] = (base_value){.kind = BASE_TENSOR, .tensor = s->c.in[i]};
    s->at[i] = s->c.absent[i] ? NULL : &s->in[i];
  }
  s->out_count = results_of(s->op, s->attrs);
  if (s->out_count > RUN_OUTPUTS) return false;
  td_status status = ir_evaluate(s->op, s->attrs, s->at, s->c.in_count, arena, s->out, s->out_count, &err);
  if (status != TD_OK) fail_msg("%s case %u: %s", s->op->name, number, err.text);
  return true;
}

static ir_info info_of(base_arena *arena, const base_tensor *t) {
  base_dim *dims = base_new(arena, base_dim, BASE_MAX_RANK);
  assert_non_null(dims);
  for (int32_t i = 0; i < t->rank; i++) dims[i] = t->dims[i];
  const bool known = !base_is_float(t->dtype) && base_tensor_numel(t) <= 8;
  return (ir_info){.type = ir_tensor(t->dtype, t->rank, dims), .constant = known ? t : NULL};
}

static const kern_row *kernel_of(const subject *s, uint32_t isa) {
  ir_info in[IR_CASE_OPERANDS], out[RUN_OUTPUTS];
  const ir_info *at[IR_CASE_OPERANDS] = {0};
  for (uint32_t i = 0; i < s->c.in_count; i++) {
    if (s->at[i]) in[i] = info_of(s->c.arena, &s->in[i].tensor);
    at[i] = s->at[i] ? &in[i] : NULL;
  }
  for (uint32_t i = 0; i < s->out_count; i++) {
    if (s->out[i].kind != BASE_TENSOR) return NULL;
    out[i] = info_of(s->c.arena, &s->out[i].tensor);
  }
  const ir_kernel_query query = {
      .attrs = s->attrs, .in = at, .in_count = s->c.in_count, .out = out, .out_count = s->out_count, .isa = isa};
  return s->op->kernel(&query);
}

/* A tensor like `t` whose memory is filled with 0x55. */
static base_tensor filled(base_arena *arena, const base_tensor *t) {
  size_t bytes = base_tensor_bytes(t);
  base_tensor made = base_tensor_of(base_arena_alloc_aligned(arena, bytes + 1, 64), t->dtype, t->rank, t->dims);
  assert_non_null(made.data);
  memset(made.data, 0x55, bytes + 1);
  return made;
}

static void run_with(run_kernel *k, const subject *s, uint32_t workers) {
  for (uint32_t i = 0; i < s->out_count; i++) {
    base_tensor t = filled(s->c.arena, &s->out[i].tensor);
    if (i) k->more[i - 1] = t;
    else k->out = t;
  }
  run_kernel_on(k, workers);
}

static void expect_same_bits(const subject *s, const run_kernel *one, const run_kernel *other, uint32_t number,
                             const char *what) {
  for (uint32_t i = 0; i < s->out_count; i++) {
    const base_tensor *a = i ? &one->more[i - 1] : &one->out, *b = i ? &other->more[i - 1] : &other->out;
    if (memcmp(a->data, b->data, base_tensor_bytes(a)) != 0)
      fail_msg("%s case %u: %s: %s give other bits than one worker", s->op->name, number, one->row->name, what);
  }
}

static void expect_the_bits_of_one(const subject *s, const kern_row *row, uint32_t number) {
  run_kernel one = {.row = row, .attrs = s->attrs, .in_count = s->c.in_count};
  for (uint32_t i = 0; i < s->c.in_count && i < RUN_OPERANDS; i++)
    if (s->at[i]) one.in[i] = s->in[i].tensor;
  run_kernel several = one, cut = one;
  cut.cut_for = 112;
  run_with(&one, s, 1);
  run_with(&several, s, 3);
  run_with(&cut, s, 1);
  expect_same_bits(s, &one, &several, number, "three workers");
  expect_same_bits(s, &one, &cut, number, "tasks for 112");
}

/* All operands of floats but the weights become zeros, and the results what the reference makes of them. */
static void make_zeros(subject *s) {
  td_error err;
  for (uint32_t i = 0; i < s->c.in_count; i++)
    if (s->at[i] && i != 1 && base_is_float(s->in[i].tensor.dtype)) {
      s->in[i].tensor = filled(s->c.arena, &s->in[i].tensor);
      memset(s->in[i].tensor.data, 0, base_tensor_bytes(&s->in[i].tensor));
    }
  if (ir_evaluate(s->op, s->attrs, s->at, s->c.in_count, s->c.arena, s->out, s->out_count, &err) != TD_OK)
    fail_msg("%s: %s", s->op->name, err.text);
}

/* Where the reference's results are zero. True: there are some. */
static bool expect_zeros(const subject *s, const kern_row *row, uint32_t number) {
  bool some = false;
  run_kernel k = {.row = row, .attrs = s->attrs, .in_count = s->c.in_count};
  for (uint32_t i = 0; i < s->c.in_count && i < RUN_OPERANDS; i++)
    if (s->at[i]) k.in[i] = s->in[i].tensor;
  run_with(&k, s, 1);
  for (int64_t e = 0; k.out.dtype == TD_F32 && e < base_tensor_numel(&k.out); e++) {
    if (((const float *)s->out[0].tensor.data)[e] != 0) continue;
    some = true;
    if (((const float *)k.out.data)[e] != 0)
      fail_msg("%s case %u: %s: element %lld of a result of zeros is %g", s->op->name, number, row->name, (long long)e,
               (double)((const float *)k.out.data)[e]);
  }
  return some;
}

/* Padding is zeros, not numbers so small that no tolerance sees them. */
static void zeros_give_zeros(void **state) {
  (void)state;
  static const uint32_t ids[] = {OP_td_conv, OP_td_conv_transpose, OP_td_expand_depthwise, OP_td_linear};
  uint32_t levels;
  sys_machine machine;
  sys_cpu_read(&machine);
  const kern_level *level = kern_levels(&levels);
  for (uint32_t o = 0; o < sizeof ids / sizeof *ids; o++) {
    bool more = true, some = false;
    for (uint32_t number = 0; more; number++) {
      base_arena *arena = base_arena_new(&base_libc_allocator);
      subject s = {.op = ir_opset_at(set, ids[o])};
      more = make_case(&s, arena, number);
      if (more) make_zeros(&s);
      for (uint32_t i = 0; more && i < levels; i++) {
        const kern_row *row = base_isa_lacks(machine.isa, level[i].isa) ? NULL : kernel_of(&s, level[i].isa);
        if (row) some |= expect_zeros(&s, row, number);
      }
      base_arena_free(arena);
    }
    assert_true(some);
  }
}

/* Adds to `served` 1 for each level that has a kernel for a case of the operator. */
static void run_operator(const ir_op *op, const uint32_t *isas, uint32_t levels, uint32_t *served) {
  bool more = true;
  uint32_t runs[LEVELS] = {0};
  for (uint32_t number = 0; more; number++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    subject s = {.op = op};
    more = make_case(&s, arena, number);
    for (uint32_t i = 0; more && i < levels; i++) {
      const kern_row *row = kernel_of(&s, isas[i]);
      if (!row || !(row->flags & KERN_PARALLEL)) continue;
      expect_the_bits_of_one(&s, row, number);
      runs[i]++;
    }
    base_arena_free(arena);
  }
  for (uint32_t i = 0; i < levels; i++) served[i] += runs[i] > 0;
}

static void workers_change_no_bit(void **state) {
  (void)state;
  uint32_t count, levels = 0, isas[LEVELS], served[LEVELS] = {0};
  sys_machine machine;
  sys_cpu_read(&machine);
  const kern_level *level = kern_levels(&count);
  assert_true(count <= LEVELS);
  for (uint32_t i = 0; i < count; i++)
    if (!base_isa_lacks(machine.isa, level[i].isa)) isas[levels++] = level[i].isa;
  for (uint32_t o = 0; o < set->count; o++) {
    const ir_op *op = set->ops[o];
    if (ops_cases(op->id) && op->kernel && op->out_count != IR_VARIADIC) run_operator(op, isas, levels, served);
  }
  /* so that the test cannot pass by running none; most of what has one lane are plain loops, on one thread */
  for (uint32_t i = 0; i < levels; i++) assert_true(served[i] >= (isas[i] ? 60 : 5));
}

int main(void) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  set = ops_set(arena);
  const struct CMUnitTest tests[] = {cmocka_unit_test(workers_change_no_bit), cmocka_unit_test(zeros_give_zeros)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  base_arena_free(arena);
  return failed;
}
