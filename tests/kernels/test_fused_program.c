/* Programs that are read once for all calls of a step: what each call would read, and nothing of what is damaged. */
#include "test.h"

#include "kernels/loops/loops.h"

enum { OPS = 6, WORDS = 1 + OPS * BASE_PROGRAM_WORDS };

/* out = x * exp(x) - y */
static const base_program product = {.rank = 2,
                                     .in_count = 2,
                                     .out_count = 1,
                                     .count = OPS,
                                     .ops = {{.kind = BASE_PROGRAM_LOAD, .function = 0},
                                             {.kind = BASE_PROGRAM_LOAD, .function = 1},
                                             {.kind = BASE_PROGRAM_SCALAR, .function = BASE_SCALAR_exp, .in = {0}},
                                             {.kind = BASE_PROGRAM_SCALAR, .function = BASE_SCALAR_mul, .in = {0, 2}},
                                             {.kind = BASE_PROGRAM_SCALAR, .function = BASE_SCALAR_sub, .in = {3, 1}},
                                             {.kind = BASE_PROGRAM_STORE, .in = {4, 0, TD_F32}}}};

static const base_attrs *attrs_of(base_arena *arena, const base_program *p) {
  int64_t words[WORDS];
  base_program_write(p, words);
  const base_arg args[] = {ARG_INTS("program", words, base_program_size(p))};
  return base_attrs_make(arena, args, 1);
}

static void is_what_a_call_reads(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const base_attrs *attrs = attrs_of(arena, &product);
  for (int chain = 0; chain < 2; chain++) {
    kern_fused_program read;
    const kern_fused_program *ready = kern_fused_ready(attrs, chain, arena);
    assert_null(kern_fused_read(attrs, chain, &read));
    assert_non_null(ready);
    assert_true(base_program_equal(&ready->p, &product));
    assert_memory_equal(ready, &read, offsetof(kern_fused_program, p));
    assert_int_equal(ready->stages, 1);
    assert_int_equal(ready->last_work, 4);
  }
  base_arena_free(arena);
}

static void is_nothing_where_it_is_damaged(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_program p = product;
  kern_fused_program read;
  p.ops[3].in[1] = 4; /* what comes later */
  assert_null(kern_fused_ready(attrs_of(arena, &p), false, arena));
  assert_non_null(kern_fused_read(attrs_of(arena, &p), false, &read));
  p = product;
  p.ops[5].in[0] = 0; /* the product's result as it is: fine for a loop, for a chain not */
  assert_non_null(kern_fused_ready(attrs_of(arena, &p), false, arena));
  assert_null(kern_fused_ready(attrs_of(arena, &p), true, arena));
  const base_arg none[] = {{.name = "chain", .kind = BASE_ATTR_NONE}};
  assert_null(kern_fused_ready(base_attrs_make(arena, none, 1), true, arena));
  base_arena_free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(is_what_a_call_reads),
                                     cmocka_unit_test(is_nothing_where_it_is_damaged)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
