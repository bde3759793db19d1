/* `treadle quantize`: files that run in 8 and 4 bits, what they cost, and which layers stay in f32. */
/* ctest: slow */
#include "cli/fixture.h"

#define MODEL "builtin:mobilenet_v3_small --data samples -o small.onnx --layers "

#define LAYERS "layer, alone in 8 or 4 bits"

/* Samples are pictures of noise, one file each. */
static void write_samples(fixture *f) {
  static const char text[] =
      "tdir 1\ninput %0 \"x\": f32[1, 3, 224, 224]\n%1 = aten::sigmoid(%0)\noutput \"picture\" %1\n";
  FILE *file = fopen("noise.tdir", "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, sizeof text - 1, file), sizeof text - 1);
  fclose(file);
  for (int seed = 1; seed < 3; seed++) {
    const outcome o =
        run(f, base_arena_format(f->arena, "run noise.tdir --seed %d --input x=1x3x224x224:f32:random --output s%d",
                                 seed, seed));
    if (o.status) fail_msg("%s", o.err);
    assert_int_equal(
        system(base_arena_format(f->arena, "mkdir -p samples; mv s%d/picture.npy samples/%d.npy", seed, seed)), 0);
  }
}

static outcome quantize(fixture *f, const char *words) {
  write_samples(f);
  return run(f, base_arena_format(f->arena, "quantize %s", words));
}

/* The relative error of the first output. */
static double error_of(const outcome *o) {
  const char *line = strchr(o->out, '\n');
  double error = -1;
  if (o->status || !line || sscanf(line + 1, "%*s %lf", &error) != 1) fail_msg("%s%s", o->out, o->err);
  return error;
}

static uint32_t times(const char *text, const char *word) {
  uint32_t count = 0;
  for (; (text = strstr(text, word)); text++) count++;
  return count;
}

static void all_between_convolutions_is_of_bytes(void **state) {
  static const char *const observers[] = {"minmax", "percentile", "mse"};
  fixture *f = *state;
  for (int i = 0; i < 3; i++) {
    const outcome o = quantize(f, base_arena_format(f->arena, MODEL "0 --observer %s", observers[i]));
    assert_true(error_of(&o) > 0 && error_of(&o) < 0.05);
    assert_non_null(strstr(o.out, "54 of 54 layers narrow, on 2 samples: small.onnx"));
  }
  const outcome passes = run(f, "inspect small.onnx --stage passes --isa avx2");
  assert_int_equal(passes.status, 0);
  if (strstr(run(f, "info").out, "avx2")) {
    assert_int_equal(times(passes.out, "= td::conv_i8(") + times(passes.out, "= td::linear_i8("), 54);
    assert_int_equal(times(passes.out, "= td::conv("), 0);
    assert_true(times(passes.out, "= td::lookup_i8(") > 0 && times(passes.out, "= td::mul_i8(") > 0);
  }
}

static void other_forms_narrow_matrices(void **state) {
  static const char *const modes[] = {"dynamic", "weights", "int4 --block 64"};
  static const double most[] = {0.02, 0.02, 0.2};
  fixture *f = *state;
  for (int i = 0; i < 3; i++) {
    const outcome o = quantize(f, base_arena_format(f->arena, MODEL "1 --mode %s", modes[i]));
    assert_true(error_of(&o) > 0 && error_of(&o) < most[i]);
    assert_non_null(strstr(o.out, "2 of 2 layers narrow"));
    assert_non_null(strstr(o.out, LAYERS));
    assert_int_equal(run(f, "run small.onnx --input samples/1.npy").status, 0);
  }
}

/* The report's outputs are of the samples of --test, ranges of those of --data. */
static void other_samples_judge(void **state) {
  fixture *f = *state;
  write_samples(f);
  assert_int_equal(system("mkdir one; mv samples/1.npy one"), 0);
  const outcome other = run(f, "quantize " MODEL "0 --test one"), own = run(f, "quantize " MODEL "0");
  assert_holds(other.out, "on 1 samples");
  assert_true(error_of(&other) > 0 && error_of(&other) != error_of(&own));
  assert_int_equal(run(f, "quantize " MODEL "0 --test none").status, 3);
}

/* The costliest layers stay in f32, those that the caller names too. */
static void layers_are_kept(void **state) {
  fixture *f = *state;
  const outcome all = quantize(f, MODEL "2 --mode int4");
  const double error = error_of(&all);
  const char *header = strstr(all.out, LAYERS), *name = header ? strchr(header, '\n') : NULL;
  char kept[64];
  assert_non_null(name);
  snprintf(kept, sizeof kept, "%.*s", (int)strcspn(name + 1, " "), name + 1);
  const outcome one = quantize(f, base_arena_format(f->arena, MODEL "2 --mode int4 --keep %s", kept));
  assert_true(error_of(&one) < error);
  assert_non_null(strstr(one.out, "1 of 2 layers narrow"));
  const outcome limited = quantize(f, base_arena_format(f->arena, MODEL "2 --mode int4 --max-loss %g", error * 0.99));
  assert_true(error_of(&limited) <= error * 0.99);
  assert_non_null(strstr(limited.out, "kept in f32"));
  const outcome none = quantize(f, MODEL "0 --mode int4 --max-loss 0");
  assert_true(error_of(&none) == 0);
  assert_non_null(strstr(none.out, "0 of 2 layers narrow"));
}

static void what_cannot_be_is_refused(void **state) {
  static const struct {
    const char *words, *says;
    int status;
  } rows[] = {{"builtin:mobilenet_v3_small -o y.onnx", "--data", 2},
              {"builtin:mobilenet_v3_small --data none -o y.onnx", "none", 3},
              {MODEL "0 --keep nothing", "no node is called nothing", 2},
              {MODEL "0 --mode int3", "--mode 'int3'", 2},
              {MODEL "0 --observer eye", "--observer 'eye'", 2},
              {MODEL "0 --block 24", "--block '24'", 2},
              {MODEL "few", "--layers 'few'", 2},
              {MODEL "0 --max-loss much", "--max-loss 'much'", 2},
              {MODEL "0 --fast", "there is no option --fast", 2},
              {MODEL "0 --keep", "needs a value", 2},
              {"noise.tdir --data samples -o y.onnx", "no node is a convolution", 4},
              {"small.onnx --data samples -o y.onnx", "no node is a convolution", 4},
              {"builtin:minilm_l6 --data samples/1.npy -o y.onnx", "a sample is a folder", 2}};
  fixture *f = *state;
  assert_int_equal(quantize(f, MODEL "0").status, 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const outcome o = quantize(f, rows[i].words);
    if (!strstr(o.err, rows[i].says) || o.status != rows[i].status)
      fail_msg("%s: %d: %s", rows[i].words, o.status, o.err);
  }
  const outcome help = run(f, "quantize --help");
  assert_starts(help.out, "usage: treadle quantize");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(all_between_convolutions_is_of_bytes, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(other_forms_narrow_matrices, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(other_samples_judge, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(layers_are_kept, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(what_cannot_be_is_refused, fixture_open, fixture_close)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
