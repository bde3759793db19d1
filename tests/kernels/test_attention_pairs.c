/* KERN_ATTENTION of operands rounded to bf16 beside that of f32, over the cases of td::attention, whose numbers are
 * made such that rounding changes none of them but the powers: each is off by half a step of bf16 at most, and so are
 * their sums. Strides change no bit; neither do workers. */
#include "kernels/run_kernel.h"

#include "ops/ops.h"

#include <math.h>

typedef struct fixture {
  base_arena *arena;
  const ir_op *op;
  const kern_row *pairs, *floats;
} fixture;

/* q, k and v in eighths from -2 to 2: times the scale, which is a power of 2, they are numbers of bf16. */
static void make_short(base_tensor *t) {
  base_f32 *x = t->data;
  for (int64_t i = 0; i < base_tensor_numel(t); i++) x[i] = roundf(fminf(fmaxf(x[i], -2), 2) * 8) / 8;
}

static double largest_of(const base_tensor *t) {
  double largest = 0;
  for (int64_t i = 0; i < base_tensor_numel(t); i++) largest = fmax(largest, fabs(base_load_f64(TD_F32, t->data, i)));
  return largest;
}

static void expect_near(const base_tensor *got, const base_tensor *want, double bound, uint32_t number) {
  for (int64_t i = 0; i < base_tensor_numel(want); i++) {
    const double a = base_load_f64(TD_F32, got->data, i), b = base_load_f64(TD_F32, want->data, i);
    if (a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= bound) continue;
    fail_msg("case %u: element %lld is %g instead of %g", number, (long long)i, a, b);
  }
}

/* The same numbers, those of a head far from each other. */
static base_tensor size_first(const fixture *f, const base_tensor *t) {
  base_tensor made = *t;
  made.data = base_arena_alloc_aligned(f->arena, base_tensor_bytes(t) + 1, 64);
  assert_non_null(made.data);
  const int64_t rows = t->dims[0] * t->dims[1] * t->dims[2];
  made.strides[3] = rows;
  for (int32_t i = 3, step = 1; i-- > 0; step *= (int32_t)t->dims[i]) made.strides[i] = step;
  base_tensor_copy(&made, t);
  return made;
}

static bool run_case(const fixture *f, uint32_t number) {
  ir_case c = {.arena = f->arena};
  if (!ops_cases(f->op->id)(&c, number)) return false;
  const base_attrs *attrs;
  td_error err;
  assert_int_equal(ir_make_attrs(f->arena, f->op, c.args, c.arg_count, &attrs, &err), TD_OK);
  const int64_t dims[] = {c.in[0].dims[0], c.in[0].dims[1], c.in[0].dims[2], c.in[2].dims[3]};
  run_kernel k = {.row = f->floats, .attrs = attrs, .in_count = c.in_count};
  for (uint32_t i = 0; i < c.in_count; i++) k.in[i] = c.in[i];
  for (uint32_t i = 0; i < 3; i++) make_short(&k.in[i]);
  base_tensor want = base_tensor_of(NULL, TD_F32, 4, dims);
  want.data = run_floats(base_tensor_numel(&want), 1);
  k.out = want;
  run_kernel_on(&k, 1);
  k.row = f->pairs;
  k.out.data = run_floats(base_tensor_numel(&want), 2);
  run_kernel_on(&k, 1);
  expect_near(&k.out, &want, 0x1p-8 * largest_of(&k.in[2]) + 1e-6, number);
  run_expect_any_workers(&k);
  memcpy(want.data, k.out.data, base_tensor_bytes(&want));
  for (uint32_t i = 0; i < 3; i++) k.in[i] = size_first(f, &k.in[i]);
  run_kernel_on(&k, 1);
  assert_memory_equal(want.data, k.out.data, base_tensor_bytes(&want));
  free(want.data), free(k.out.data);
  return true;
}

static void results_are_near_for_all_workers(void **state) {
  (void)state;
  uint32_t levels, tested = 0;
  kern_levels(&levels);
  base_arena *arena = base_arena_new(&base_libc_allocator);
  fixture f = {.arena = arena, .op = ir_opset_find(ops_set(arena), "td::attention")};
  assert_non_null(f.op);
  for (uint32_t i = 0; i < levels; i++) {
    f.floats = run_row(KERN_ATTENTION, i);
    f.pairs = f.floats ? kern_select(KERN_ATTENTION, TD_BF16, kern_levels(&levels)[i].isa) : NULL;
    for (uint32_t number = 0; f.pairs && run_case(&f, number); number++) tested++;
  }
  base_arena_free(arena);
  if (!tested) skip(); /* a release has no tiles but those of the CPU */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_near_for_all_workers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
