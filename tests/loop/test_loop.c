/* test_loop.c -- programs of fused loops: text and back, words and back, what is refused, and what is built. */
#include "test.h"

#include "loop/loop.h"

static const char softmax[] =
    "fused rank 3 row 1 {\n"
    "  %0 = load 0\n"
    "  %1 = load 1 row\n"
    "  %2 = add(%0, %1)\n"
    "  %3 = reduce max %2 row\n"
    "  %4 = sub(%2, %3)\n"
    "  %5 = exp_flush(%4)\n"
    "  %6 = reduce sum %5 row\n"
    "  %7 = reciprocal(%6) row\n"
    "  %8 = mul(%5, %7)\n"
    "  %9 = leaky_relu(%8) {0.5}\n"
    "  %10 = number -1.5\n"
    "  %11 = add(%9, %10)\n"
    "  store 0 %11 f32\n"
    "  store 1 %3 bf16 drop row\n"
    "}\n";

static const char types[] =
    "fused rank 3 row 1 {\n"
    "  %0 = load 0 i64\n"
    "  %1 = load 1 bool\n"
    "  %2 = load 2 f64 row\n"
    "  %3 = number -9223372036854775808 i64\n"
    "  %4 = maximum(%0, %3) i64\n"
    "  %5 = remainder(%4, %0) i64\n"
    "  %6 = lt(%5, %0) bool\n"
    "  %7 = bitwise_and(%6, %1) bool\n"
    "  %8 = cast(%5)\n"
    "  %9 = cast(%5) f64\n"
    "  %10 = reduce sum %5 i64 row\n"
    "  %11 = reduce max %7 bool row\n"
    "  %12 = number 0.10000000000000001 f64\n"
    "  %13 = leaky_relu(%9) {0.10000000000000001} f64\n"
    "  %14 = add(%13, %12) f64\n"
    "  %15 = where(%7, %14, %2) f64\n"
    "  %16 = number 0.5\n"
    "  %17 = where(%11, %8, %16)\n"
    "  store 0 %5 i64\n"
    "  store 1 %15 f64\n"
    "  store 2 %17 bf16\n"
    "  store 3 %10 i64 drop row\n"
    "  store 4 %11 bool row\n"
    "}\n";

static const char scans[] =
    "fused rank 2 row 1 {\n"
    "  %0 = load 0\n"
    "  %1 = load 1 i64\n"
    "  %2 = cast(%0) f64\n"
    "  %3 = scan sum %2 f64\n"
    "  %4 = scan max %1 i64\n"
    "  %5 = reduce max %3 f64 row\n"
    "  %6 = div(%3, %5) f64\n"
    "  store 0 %6 f64\n"
    "  store 1 %4 i64\n"
    "}\n";

static const char across[] =
    "fused rank 4 row 1 behind 2 across {\n"
    "  %0 = load 0\n"
    "  %1 = load 1 row\n"
    "  %2 = cast(%0) f64\n"
    "  %3 = scan log_add %2 f64\n"
    "  %4 = scan sum %2 exclusive reverse f64\n"
    "  %5 = add(%3, %4) f64\n"
    "  %6 = scan max %0 reverse\n"
    "  %7 = reduce max %0 row\n"
    "  %8 = sub(%7, %1) row\n"
    "  store 0 %5 f64\n"
    "  store 1 %6 f32\n"
    "  store 2 %8 f32 drop row\n"
    "}\n";

static const char picks[] =
    "fused rank 3 row 1 {\n"
    "  %0 = load 0 pick 1 axes 3 axis 0 behind 1\n"
    "  %1 = load 2 pick 3 axes 2 axis 1 behind 0 f64\n"
    "  %2 = reduce sum %0 row\n"
    "  %3 = sub(%0, %2)\n"
    "  store 0 %3 f32\n"
    "  store 1 %1 f64\n"
    "}\n";

static void expect_round_trip(const char *program) {
  base_program p, again;
  td_error err;
  if (loop_parse(program, strlen(program), &p, &err) != TD_OK) fail_msg("%s at %lld", err.text, (long long)err.offset);
  base_text text = {.allocator = &base_libc_allocator};
  loop_print(&p, &text);
  assert_string_equal(text.at, program);
  base_text_free(&text);
  int64_t words[1 + BASE_PROGRAM_OPS * BASE_PROGRAM_WORDS];
  base_program_write(&p, words);
  assert_null(base_program_read(words, base_program_size(&p), &again));
  assert_true(base_program_equal(&p, &again));
  loop_print(&again, &text);
  assert_string_equal(text.at, program);
  base_text_free(&text);
}

static void text_and_words(void **state) {
  (void)state;
  expect_round_trip(softmax);
  expect_round_trip(types);
  expect_round_trip(picks);
  expect_round_trip(scans);
  expect_round_trip(across);
}

static void stages_and_kept(void **state) {
  (void)state;
  base_program p;
  td_error err;
  uint8_t stage[BASE_PROGRAM_OPS];
  bool kept[BASE_PROGRAM_OPS];
  assert_int_equal(loop_parse(softmax, strlen(softmax), &p, &err), TD_OK);
  assert_int_equal(base_program_stages(&p, stage), 3);
  assert_int_equal(stage[3], 0);
  assert_int_equal(stage[5], 1);
  assert_int_equal(stage[8], 2);
  assert_int_equal(base_program_kept(&p, stage, kept), 2);
  assert_true(kept[2] && kept[5]);
  /* A scan that runs back stands in a stage of its own, with what needs it. */
  assert_int_equal(loop_parse(across, strlen(across), &p, &err), TD_OK);
  assert_int_equal(base_program_stages(&p, stage), 2);
  assert_true(stage[3] == 0 && stage[4] == 1 && stage[5] == 1 && stage[6] == 1 && stage[7] == 0);
  assert_true(!base_program_runs_back(&p, stage, 0) && base_program_runs_back(&p, stage, 1));
  assert_int_equal(base_program_kept(&p, stage, kept), 2);
  assert_true(kept[2] && kept[3]);
}

static void refused_texts(void **state) {
  (void)state;
  static const char *const texts[] = {
      "",
      "fused rank 9 row 0 {\n}\n",
      "fused rank 2 row 3 {\n  %0 = load 0\n  store 0 %0 f32\n}\n",
      "fused rank 2 row 0 {\n  %0 = load 0\n}\n",
      "fused rank 2 row 0 {\n  %0 = add(%0, %1)\n  store 0 %0 f32\n}\n",
      "fused rank 2 row 0 {\n  %0 = load 0\n  %1 = reduce sum %0 row\n  store 0 %1 f32\n}\n",
      "fused rank 2 row 1 {\n  %0 = load 0\n  %1 = relu(%0) row\n  store 0 %1 f32 row\n}\n",
      "fused rank 2 row 0 {\n  %0 = load 0\n  %1 = load 0\n  store 0 %1 f32\n}\n",
      "fused rank 2 row 0 {\n  %0 = load 0\n  %1 = nothing(%0)\n  store 0 %1 f32\n}\n",
      "fused rank 2 row 0 {\n  %0 = load 0\n  store 0 %0 f32\n  store 0 %0 f32\n}\n",
      "fused rank 2 row 0 {\n  %0 = load 0\n  store 0 %0 f32",
      "fused rank 2 row 0 {\n  %0 = load 0\n  %1 = scan sum %0\n  store 0 %1 f32\n}\n",
      "fused rank 2 row 1 {\n  %0 = load 0\n  %1 = scan sum %0 row\n  store 0 %1 f32 row\n}\n",
      "fused rank 2 row 1 {\n  %0 = load 0 row\n  %1 = scan sum %0\n  store 0 %1 f32\n}\n",
      "fused rank 2 row 1 {\n  %0 = load 0 bool\n  %1 = scan sum %0 bool\n  store 0 %1 bool\n}\n",
      /* rows that are none, scans that there are not, and what is for rows across alone */
      "fused rank 2 row 0 across {\n  %0 = load 0\n  store 0 %0 f32\n}\n",
      "fused rank 2 row 0 behind 1 {\n  %0 = load 0\n  store 0 %0 f32\n}\n",
      "fused rank 2 row 1 behind 2 across {\n  %0 = load 0\n  store 0 %0 f32\n}\n",
      "fused rank 2 row 1 {\n  %0 = load 0\n  %1 = scan sum %0 backwards\n  store 0 %1 f32\n}\n",
      "fused rank 2 row 1 {\n  %0 = load 0 f64\n  %1 = scan log_add %0 f64\n  store 0 %1 f64\n}\n",
      "fused rank 2 row 1 across {\n  %0 = load 0\n  %1 = scan log_add %0\n  store 0 %1 f32\n}\n",
      "fused rank 2 row 1 across {\n  %0 = load 0 f64\n  %1 = reduce log_add %0 f64 row\n  store 0 %1 f64 row\n}\n",
      "fused rank 1 row 1 across {\n  %0 = load 0 pick 1 axes 1 axis 0 behind 0\n  store 0 %0 f32\n}\n",
      /* what tells places tells one operand's, and is nothing else */
      "fused rank 1 row 0 {\n  %0 = load 0 pick 0 axes 1 axis 0 behind 0\n  store 0 %0 f32\n}\n",
      "fused rank 1 row 0 {\n  %0 = load 0 pick 1 axes 1 axis 0 behind 0\n  %1 = load 1 i64\n  store 0 %0 f32\n}\n",
      "fused rank 1 row 0 {\n  %0 = load 0 pick 1 axes 2 axis 0 behind 0\n  store 0 %0 f32\n}\n",
      /* types that do not meet, or are none */
      "fused rank 2 row 0 {\n  %0 = load 0 i64\n  %1 = load 1\n  %2 = add(%0, %1) i64\n  store 0 %2 i64\n}\n",
      "fused rank 2 row 0 {\n  %0 = load 0 i64\n  %1 = exp(%0) i64\n  store 0 %1 i64\n}\n",
      "fused rank 2 row 0 {\n  %0 = load 0 i64\n  %1 = eq(%0, %0) i64\n  store 0 %1 i64\n}\n",
      "fused rank 2 row 0 {\n  %0 = load 0\n  %1 = where(%0, %0, %0)\n  store 0 %1 f32\n}\n",
      "fused rank 2 row 0 {\n  %0 = load 0 i64\n  %1 = cast(%0) i64\n  store 0 %1 i64\n}\n",
      "fused rank 2 row 0 {\n  %0 = load 0 i64\n  store 0 %0 i32\n}\n",
      "fused rank 2 row 0 {\n  %0 = load 0 f16\n  store 0 %0 f16\n}\n",
      "fused rank 2 row 1 {\n  %0 = load 0 bool\n  %1 = reduce sum %0 bool row\n  store 0 %1 bool row\n}\n",
      "fused rank 2 row 0 {\n  %0 = number 1.5 i64\n  store 0 %0 i64\n}\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    base_program p;
    td_error err = {0};
    if (loop_parse(texts[i], strlen(texts[i]), &p, &err) == TD_OK) fail_msg("text %zu is taken", i);
    assert_true(err.text[0] && err.offset >= 0);
  }
}

/* Words with single bits turned are refused, or are programs that keep the rules. */
static void damage(const char *program) {
  base_program p, damaged;
  td_error err;
  int64_t words[1 + BASE_PROGRAM_OPS * BASE_PROGRAM_WORDS];
  assert_int_equal(loop_parse(program, strlen(program), &p, &err), TD_OK);
  const uint32_t count = base_program_size(&p);
  for (uint32_t bit = 0; bit < count * 64; bit++) {
    base_program_write(&p, words);
    words[bit / 64] = (int64_t)((uint64_t)words[bit / 64] ^ (uint64_t)1 << bit % 64);
    if (!base_program_read(words, count, &damaged)) assert_null(base_program_check(&damaged));
  }
  base_program_write(&p, words);
  for (uint32_t n = 0; n < count; n++) assert_non_null(base_program_read(words, n, &damaged));
}

static void damaged_words(void **state) {
  (void)state;
  damage(softmax);
  damage(types);
  damage(picks);
  damage(across);
}

/* A number that text would change is none of an f32. */
static void numbers_of_f32(void **state) {
  (void)state;
  base_program p;
  td_error err;
  assert_int_equal(loop_parse(softmax, strlen(softmax), &p, &err), TD_OK);
  assert_null(base_program_check(&p));
  p.ops[9].p[0] = 0.1;
  assert_non_null(base_program_check(&p));
  p.ops[9].p[0] = (double)0.1f;
  assert_null(base_program_check(&p));
}

/* Numbers and lengths are of the type of what they meet. */
static void fitted_numbers(void **state) {
  (void)state;
  loop_build b;
  loop_start(&b, 2, 1);
  const uint16_t x = loop_load(&b, 0, BASE_TYPE_F64, false), n = loop_load(&b, 1, BASE_TYPE_I64, false);
  const uint16_t third = loop_binary(&b, BASE_SCALAR_mul, loop_number(&b, 0.1), x);
  assert_int_equal(loop_type_of(&b, third), BASE_TYPE_F64);
  assert_float_equal(b.program.ops[b.program.ops[third].in[0]].p[0], 0.1, 0);
  assert_int_equal(loop_type_of(&b, loop_binary(&b, BASE_SCALAR_lt, n, loop_number(&b, 7))), BASE_TYPE_BOOL);
  const uint16_t mean = loop_binary(&b, BASE_SCALAR_div, loop_reduce(&b, BASE_COMBINE_SUM, x), loop_length(&b));
  assert_int_equal(loop_type_of(&b, mean), BASE_TYPE_F64);
  loop_store(&b, mean, TD_F64, true);
  loop_store(&b, third, TD_F64, false);
  assert_true(loop_finish(&b));
  loop_start(&b, 1, 0);
  loop_store(
      &b,
      loop_binary(&b, BASE_SCALAR_add, loop_load(&b, 0, BASE_TYPE_I32, false), loop_load(&b, 1, BASE_TYPE_F32, false)),
      TD_F32, false);
  assert_false(loop_finish(&b)); /* nothing is converted unasked */
}

static void building(void **state) {
  (void)state;
  loop_build b;
  loop_start(&b, 2, 1);
  const uint16_t x = loop_load(&b, 0, BASE_TYPE_F32, false);
  assert_int_equal(loop_load(&b, 0, BASE_TYPE_F32, false), x);
  const uint16_t sum = loop_reduce(&b, BASE_COMBINE_SUM, x),
                 mean = loop_binary(&b, BASE_SCALAR_div, sum, loop_length(&b));
  assert_true(loop_is_row(&b, mean) && !loop_is_row(&b, x));
  loop_store(&b, loop_binary(&b, BASE_SCALAR_sub, x, mean), TD_F32, false);
  assert_true(loop_finish(&b));
  assert_int_equal(b.program.in_count, 1);
  assert_int_equal(loop_work(&b.program), 2);
  loop_start(&b, 2, 0);
  uint16_t value = loop_load(&b, 0, BASE_TYPE_F32, false);
  for (int i = 0; i < BASE_PROGRAM_OPS; i++) value = loop_binary(&b, BASE_SCALAR_add, value, loop_number(&b, i));
  loop_store(&b, value, TD_F32, false);
  assert_false(loop_finish(&b)); /* too long, and said so at the end */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(text_and_words), cmocka_unit_test(stages_and_kept),
                                     cmocka_unit_test(refused_texts),  cmocka_unit_test(damaged_words),
                                     cmocka_unit_test(building),       cmocka_unit_test(fitted_numbers),
                                     cmocka_unit_test(numbers_of_f32)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
