/* KERN_SCATTER where nothing but the axis of the indices has more than one element: one task, and so one worker's. That
 * it gives what the reference gives, tests/ops/test_operators.c sees. */
#include "kernels/run_kernel.h"

enum { LENGTH = 1 << 16 }; /* more bytes than a task has elsewhere */

/* Whoever has the task copies all of x and adds the update: a second one would do so in the midst of the first. */
static void a_vector_is_the_task_of_one_worker(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const base_arg args[] = {ARG_INT("dim", 0), ARG_STR("reduce", "add")};
  float *x = run_floats(LENGTH, 1), *y = run_floats(LENGTH, 2), *before = run_floats(LENGTH, 2);
  int64_t at = 7;
  float update = 1;
  const base_value in[] = {{.kind = BASE_TENSOR, .tensor = base_tensor_of(x, TD_F32, 1, (int64_t[]){LENGTH})},
                           {.kind = BASE_TENSOR, .tensor = base_tensor_of(&at, TD_I64, 1, (int64_t[]){1})},
                           {.kind = BASE_TENSOR, .tensor = base_tensor_of(&update, TD_F32, 1, (int64_t[]){1})}};
  base_value out = {.kind = BASE_TENSOR, .tensor = base_tensor_of(y, TD_F32, 1, (int64_t[]){LENGTH})};
  const base_value *ins[] = {&in[0], &in[1], &in[2]};
  base_value *outs[] = {&out};
  base_lane lanes[2] = {0};
  td_error err;
  base_call call = {.attrs = base_attrs_make(arena, args, 2),
                    .in = ins,
                    .out = outs,
                    .in_count = 3,
                    .out_count = 1,
                    .err = &err,
                    .workers = 2,
                    .job = 1,
                    .lanes = lanes};
  assert_int_equal(base_call_take(&call, 1), 0); /* the other worker has begun */
  call.worker = 1;
  const kern_row *row = run_row(KERN_SCATTER, 0);
  assert_int_equal(row->run(&call), TD_OK);
  assert_memory_equal(y, before, LENGTH * sizeof *y);
  call.lanes = NULL;
  assert_int_equal(row->run(&call), TD_OK);
  for (int64_t i = 0; i < LENGTH; i++) assert_true(y[i] == x[i] + (i == at ? update : 0));
  free(x);
  free(y);
  free(before);
  base_arena_free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_vector_is_the_task_of_one_worker)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
