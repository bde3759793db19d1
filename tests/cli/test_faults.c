/* ctest: slow */
/* Twenty faults, an operator and a way to go wrong each: `compare` names the node, `bisect` the kernel. */
#include "cli/fixture.h"

/* Two chains of operators that models are made of. Each is there once: its name says which node is meant. */
static const char net[] =
    "tdir 1\n"
    "input %0 \"x\": f32[64, 48]\n"
    "input %1 \"shift\": f32[48]\n"
    "const %3: f32[1] = {0.5}\n"
    "%11 = aten::relu(%0)  # \"node /relu (Relu)\"\n"
    "%12 = aten::mul(%11, %3)  # \"node /mul (Mul)\"\n"
    "%13 = aten::sigmoid(%12)  # \"node /sigmoid (Sigmoid)\"\n"
    "%15 = aten::_softmax(%13) {dim = -1}  # \"node /softmax (Softmax)\"\n"
    "%20 = aten::native_layer_norm(%0, %1, %1)  # \"node /norm (LayerNormalization)\"\n"
    "%21 = aten::gelu(%20)  # \"node /gelu (Gelu)\"\n"
    "%22 = aten::tanh(%21)  # \"node /tanh (Tanh)\"\n"
    "%23 = aten::neg(%22)  # \"node /neg (Neg)\"\n"
    "%24 = aten::exp(%23)  # \"node /exp (Exp)\"\n"
    "%25 = aten::add(%24, %1)  # \"node /add (Add)\"\n"
    "output \"classes\" %15\n"
    "output \"states\" %25\n";

typedef struct kernel_fault {
  const char *text; /* operator and mode */
  const char *node; /* as compare calls it: outputs by their names */
} kernel_fault;

static const kernel_fault faults[] = {
    {"relu:wrong", "/relu"},
    {"relu:crash", "/relu"},
    {"mul:wrong", "/mul"},
    {"mul:compile", "/mul"},
    {"sigmoid:nan", "/sigmoid"},
    {"sigmoid:wrong", "/sigmoid"},
    {"_softmax:type", "classes"},
    {"_softmax:wrong", "classes"},
    {"native_layer_norm:wrong", "/norm"},
    {"native_layer_norm:hang", "/norm"},
    {"gelu:wrong", "/gelu"},
    {"gelu:nan", "/gelu"},
    {"tanh:crash", "/tanh"},
    {"tanh:wrong", "/tanh"},
    {"neg:wrong", "/neg"},
    {"neg:compile", "/neg"},
    {"exp:nan", "/exp"},
    {"exp:crash", "/exp"},
    {"add:type", "states"},
    {"add:wrong", "states"},
};

/* What never ends is waited for, and sleeps meanwhile; what ends may take its time on a busy machine. */
static const char *limit_of(const kernel_fault *fault) {
  return strstr(fault->text, "hang") ? " --time-limit 3" : " --time-limit 100";
}

/* `compare` names the node: in its table, or in what it says of a crash or an error. */
static void compare_finds(fixture *f, const kernel_fault *fault) {
  const char *line = base_arena_format(f->arena, "compare net.tdir --inject %s%s", fault->text, limit_of(fault));
  outcome got = run(f, line);
  if (got.status == 0) fail_msg("%s is not seen", fault->text);
  const char *found = strstr(got.out, "first node that differs");
  const char *row = found ? strchr(found, '\n') : got.out;
  const char *said = base_arena_format(f->arena, "%s%s", row ? row : "", got.err);
  if (!strstr(said, fault->node)) fail_msg("%s: %s is not named:\n%s%s", fault->text, fault->node, got.out, got.err);
}

/* `bisect` names one kernel, and its command shows that without it all is well. */
static void bisect_finds(fixture *f, const kernel_fault *fault) {
  outcome got = run(f, base_arena_format(f->arena, "bisect net.tdir --inject %s%s", fault->text, limit_of(fault)));
  if (got.status != 1) fail_msg("%s: %s%s", fault->text, got.out, got.err);
  const char *command = strstr(got.out, "treadle compare");
  if (!command || !strstr(got.out, "kernel ")) fail_msg("%s: no kernel is named:\n%s", fault->text, got.out);
  const char *arguments = command + strlen("treadle ");
  arguments = base_arena_slice(f->arena, arguments, strcspn(arguments, "\n"));
  const char *names = strstr(arguments, "--disable-kernels ");
  assert_non_null(names);
  if (strchr(names, ',')) fail_msg("%s: more than one kernel: %s", fault->text, names);
  assert_holds(arguments, fault->text);
  got = run(f, arguments);
  if (got.status != 0) fail_msg("%s: `%s` does not agree:\n%s%s", fault->text, arguments, got.out, got.err);
}

static void faults_are_found(void **state) {
  fixture *f = *state;
  save_text("net.tdir", net);
  assert_int_equal(run(f, "compare net.tdir --nodes").status, 0);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    compare_finds(f, &faults[i]);
    bisect_finds(f, &faults[i]);
  }
}

/* What a pass breaks is found with the pass. */
static void faults_of_passes_are_found(void **state) {
  fixture *f = *state;
  static const char layer[] = "'builtin:layer:linear 64x96 out=48 act=gelu'";
  static const struct {
    const char *model, *pass, *mode, *node;
  } broken[] = {{"net.tdir", "fuse", "nan", "/relu"},
                {"net.tdir", "fuse", "crash", "/relu"},
                {layer, "epilogue", "wrong", "y"},
                {layer, "prepack", "nan", "layer"}};
  save_text("net.tdir", net);
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    const char *arguments =
        base_arena_format(f->arena, "%s --inject pass=%s:%s", broken[i].model, broken[i].pass, broken[i].mode);
    outcome got = run(f, base_arena_format(f->arena, "compare %s", arguments));
    if (got.status == 0) fail_msg("%s is not seen", arguments);
    assert_holds(got.out, broken[i].node);
    got = run(f, base_arena_format(f->arena, "bisect %s", arguments));
    assert_int_equal(got.status, 1);
    assert_holds(got.out, base_arena_format(f->arena, "pass %s: without it", broken[i].pass));
  }
}

/* ---- dynamic quantisation ---- */

enum { LAYERS = 3, WIDE = 256, FLOATS = 4 * WIDE * WIDE, LAYER_BYTES = FLOATS + WIDE * WIDE };

static uint32_t next_number(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

static void save_weights(const char *path) {
  FILE *file = fopen(path, "wb");
  uint32_t state = 1;
  assert_non_null(file);
  for (int layer = 0; layer < LAYERS; layer++) {
    for (int i = 0; i < WIDE * WIDE; i++) {
      const float w = ((float)next_number(&state) / (1 << 23) - 1) * 0.1f;
      assert_int_equal(fwrite(&w, sizeof w, 1, file), 1);
    }
    for (int i = 0; i < WIDE * WIDE; i++)
      assert_int_not_equal(fputc((int)(next_number(&state) % 255) - 127, file), EOF);
  }
  assert_int_equal(fclose(file), 0);
}

/* A product in f32, which no two engines round alike, and one as ONNX Runtime's dynamic quantisation leaves it. Layer n
 * reads %(20 n) and makes %(20 n + 20). */
static void save_quantised(void) {
  FILE *file = fopen("quantised.tdir", "wb");
  assert_non_null(file);
  save_weights("quantised.weights");
  fprintf(file, "tdir 1\nweights \"quantised.weights\" %d\ninput %%0 \"x\": f32[%d, %d]\n", LAYERS * LAYER_BYTES, WIDE,
          WIDE);
  for (int n = 0; n < LAYERS; n++) {
    const int v = 20 * n, at = n * LAYER_BYTES;
    fprintf(file, "const %%%d: f32[%d, %d] = @0+%d\n", v + 1, WIDE, WIDE, at);
    fprintf(file, "const %%%d: i8[%d, %d] = @0+%d\n", v + 2, WIDE, WIDE, at + FLOATS);
    fprintf(file, "const %%%d: f32[1] = {0.00098}\n", v + 3);
    fprintf(file, "%%%d = aten::matmul(%%%d, %%%d)  # \"node /%d/linear (MatMul)\"\n", v + 4, v, v + 1, n);
    fprintf(file, "%%%d = aten::gelu(%%%d)  # \"node /%d/act (Gelu)\"\n", v + 5, v + 4, n);
    fprintf(file, "%%%d, %%%d, %%%d = td::dynamic_quantize_linear(%%%d)  # \"node /%d/quantise (Quantise)\"\n", v + 6,
            v + 7, v + 8, v + 5, n);
    fprintf(file, "%%%d = td::matmul_integer(%%%d, %%%d, %%%d)  # \"node /%d/product (MatMulInteger)\"\n", v + 9, v + 6,
            v + 2, v + 8, n);
    fprintf(file, "%%%d = aten::_to_copy(%%%d) {dtype = f32}  # \"node /%d/cast (Cast)\"\n", v + 10, v + 9, n);
    fprintf(file, "%%%d = aten::mul(%%%d, %%%d)  # \"node /%d/scales (Mul)\"\n", v + 11, v + 7, v + 3, n);
    fprintf(file, "%%%d = aten::mul(%%%d, %%%d)  # \"node /%d/scale (Mul)\"\n", v + 20, v + 10, v + 11, n);
  }
  fprintf(file, "output \"y\" %%%d\n", 20 * LAYERS);
  assert_int_equal(fclose(file), 0);
}

/* Output y of a comparison with --json: how large the difference is, and its verdict. */
static double difference_of(const outcome *got, char verdict[32]) {
  json_t *root = json_loads(got->out, 0, NULL);
  const json_t *y = json_array_get(json_object_get(root, "outputs"), 0);
  assert_non_null(y);
  const double distance = json_number_value(json_object_get(y, "max_abs"));
  snprintf(verdict, 32, "%s", json_string_value(json_object_get(y, "verdict")));
  json_decref(root);
  return distance;
}

/* Single steps that flip move outputs by as much as 1 % of the largest: that is no error. One of 0.6 % is found at
 * its node all the same, beside steps that flip, even where a scale of 1e-5 has it. */
static void flips_are_rounding(void **state) {
  fixture *f = *state;
  static const struct {
    const char *fault, *found;
  } slight[] = {{"mul:slight@/0/scales", "/0/scales"},
                {"mul:slight@/1/scale", "/1/scale"},
                {"mul:slight@/2/scales", "/2/scales"},
                {"mul:slight@/2/scale", "y"}};
  double largest = 0;
  int flipping = 0;
  save_quantised();
  for (int seed = 0; seed < 10; seed++) {
    char verdict[32];
    outcome got = run(f, base_arena_format(f->arena, "compare quantised.tdir --json --seed %d", seed));
    if (got.status != 0) fail_msg("seed %d: %s%s", seed, got.out, got.err);
    const double distance = difference_of(&got, verdict);
    if (strcmp(verdict, "rounding") != 0) continue;
    if (distance > largest) flipping = seed;
    largest = fmax(largest, distance);
  }
  assert_int_equal(run(f, base_arena_format(f->arena, "bisect quantised.tdir --seed %d", flipping)).status, 0);
  outcome none = run(f, base_arena_format(f->arena, "minify quantised.tdir --seed %d --output none", flipping));
  assert_holds(none.err, "the model passes: there is nothing to look for");
  outcome least = run(f, base_arena_format(f->arena, "minify quantised.tdir --seed %d --inject %s --output least",
                                           flipping, slight[0].fault));
  if (least.status != 0 || !strstr(least.out, " left; ")) fail_msg("%s%s", least.out, least.err);
  assert_true(largest > 2e-3); /* of outputs of about 1: there were flips */
  for (size_t i = 0; i < sizeof slight / sizeof *slight; i++) {
    const char *arguments =
        base_arena_format(f->arena, "compare quantised.tdir --json --seed %d --inject %s", flipping, slight[i].fault);
    outcome got = run(f, arguments);
    char verdict[32];
    assert_true(difference_of(&got, verdict) < 20 * largest); /* much the same size */
    assert_int_equal(got.status, 1);
    assert_string_equal(verdict, "differs");
    json_t *root = json_loads(got.out, 0, NULL);
    const char *name = json_string_value(json_object_get(json_object_get(root, "first_node"), "name"));
    if (!name || strcmp(name, slight[i].found) != 0)
      fail_msg("%s is found at %s", slight[i].fault, name ? name : "none");
    json_decref(root);
  }
  outcome got = run(f, "compare quantised.tdir --inject gelu:wrong");
  assert_int_equal(got.status, 1);
  assert_holds(got.out, "/act");
}

static void two_files_are_compared(void **state) {
  fixture *f = *state;
  static const char *const models[] = {"aten::relu(%0)", "aten::maximum(%0, %1)", "aten::neg(%0)"};
  for (int i = 0; i < 3; i++) {
    const char *text = base_arena_format(
        f->arena, "tdir 1\ninput %%0 \"x%d\": f32[4, 8]\nconst %%1: f32[1] = {0}\n%%2 = %s\noutput \"y%d\" %%2\n", i,
        models[i], i);
    save_text(base_arena_format(f->arena, "m%d.tdir", i), text);
  }
  save_unary("m.onnx", "Relu", 8);
  outcome got = run(f, "compare m0.tdir m1.tdir");
  assert_int_equal(got.status, 0);
  assert_holds(got.out, "ulp");
  assert_holds(got.out, "cosine");
  assert_int_equal(run(f, "compare m0.tdir m.onnx").status, 0);
  got = run(f, "compare m0.tdir m2.tdir");
  assert_int_equal(got.status, 1);
  assert_holds(got.err, "the two models differ");
  got = run(f, "compare m0.tdir 'builtin:layer:linear 64x96 out=48'");
  assert_int_not_equal(got.status, 0);
}

/* Outputs that were recorded are expected, wherever they come from. */
static void recordings_are_compared(void **state) {
  fixture *f = *state;
  save_text("net.tdir", net);
  assert_int_equal(run(f, "run net.tdir --output kept --backend eager").status, 0);
  assert_int_equal(run(f, "compare net.tdir --expect kept").status, 0);
  outcome got = run(f, "compare net.tdir --expect kept --inject gelu:wrong");
  assert_int_equal(got.status, 1);
  assert_holds(got.out, "/gelu");
  got = run(f, "compare net.tdir --expect kept --seed 3"); /* other inputs: eager itself parts from the recording */
  assert_int_equal(got.status, 1);
  assert_holds(got.out, "differs");
  assert_holds(got.err, "other inputs");
  assert_null(strstr(got.out, "first node"));
  assert_int_equal(run(f, "compare net.tdir --expect nowhere").status, 3);
}

/* What --debug-dir writes can be changed and run again. */
static void folders_are_replayed(void **state) {
  fixture *f = *state;
  save_text("net.tdir", net);
  assert_int_equal(run(f, "run net.tdir --output first --debug-dir seen").status, 0);
  static const char *const files[] = {"graph.tdir", "plan.txt", "loops.txt", "timings.txt", "options.txt", "plan.dot"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    slurp(f, base_arena_format(f->arena, "seen/%s", files[i]), NULL);
  assert_holds(slurp(f, "seen/timings.txt", NULL), "fuse");
  assert_int_equal(system("ls seen | grep -q 'graph.*-fuse.tdir'"), 0);
  assert_int_equal(run(f, "run seen/graph.tdir --output second").status, 0);
  assert_int_equal(system("cmp -s first/states.npy second/states.npy"), 0);
  assert_int_equal(run(f, "replay seen --output third").status, 0);
  assert_int_equal(system("cmp -s first/states.npy third/states.npy"), 0);
  /* The graph, edited. */
  assert_int_equal(system("sed -i s/aten::neg/aten::abs/ seen/graph.tdir"), 0);
  assert_int_equal(run(f, "replay seen --output fourth").status, 0);
  assert_int_equal(system("cmp -s first/states.npy fourth/states.npy"), 256);
  /* The C text, edited: it is what runs. */
  assert_int_equal(system("sed -i s/aten::abs/aten::neg/ seen/graph.tdir"), 0);
  if (access("seen/generated.0.c", R_OK) != 0) return; /* no compiler here */
  slurp(f, "seen/generated.0.sh", NULL);
  assert_int_equal(system("sed -i 's/= v_neg(/= v_abs(/' seen/generated.*.c"), 0);
  assert_int_equal(run(f, "replay seen --output fifth").status, 0);
  assert_int_equal(system("cmp -s fourth/states.npy fifth/states.npy"), 0);
  /* What crashes in it is named. */
  assert_int_equal(system("sed -i 's/= v_abs(/= (__builtin_trap(), v_abs)(/' seen/generated.*.c"), 0);
  outcome got = run(f, "replay seen");
  assert_int_equal(got.status, 6);
  assert_holds(got.err, " at ");
  assert_holds(got.err, "kernel fused_");
  assert_holds(got.err, "generated code ");
  assert_int_equal(system("sed -i '1i this is no C' seen/generated.*.c"), 0);
  got = run(f, "replay seen");
  assert_int_not_equal(got.status, 0);
  assert_holds(got.err, "compiler failed");
}

/* What a product computes of its result is among the loops, as remarks. */
static void chains_are_shown(void **state) {
  fixture *f = *state;
  save_text("chain.tdir",
            "tdir 1\ninput %0 \"x\": f32[64, 64]\ninput %1 \"w\": f32[64, 64]\n%2 = aten::matmul(%0, %1)  # \"fc\"\n"
            "%3 = aten::mul(%2, %2)  # \"sq\"\n%4 = aten::tanh(%3)  # \"th\"\noutput \"y\" %4\n");
  assert_int_equal(run(f, "run chain.tdir --output one --debug-dir chained").status, 0);
  const char *loops = slurp(f, "chained/loops.txt", NULL);
  assert_holds(loops, "# chain behind \"fc\" \"sq\" \"th\"\n");
  assert_holds(loops, "\n#     %2 = tanh(%1)\n");
  assert_int_equal(run(f, "replay chained --output two").status, 0);
  assert_int_equal(system("cmp -s one/y.npy two/y.npy"), 0);
}

static void steps_are_told(void **state) {
  fixture *f = *state;
  save_text("net.tdir", net);
  outcome got = run(f, "run net.tdir --verbose compile --verbose run");
  assert_int_equal(got.status, 0);
  assert_holds(got.err, "treadle,compile,0,");
  assert_holds(got.err, "treadle,run,0,");
  assert_holds(got.err, "node /gelu (Gelu)");
  assert_holds(got.err, "\"f32[64,48] f32[48] -> f32[64,48] f32[64,48]\"\n");
}

/* A bundle runs elsewhere, with its weights and without. */
static void bundles_run(void **state) {
  fixture *f = *state;
  const char *script =
      base_arena_format(f->arena, "cd / && TREADLE=%s sh %s/bundle/run.sh >/dev/null 2>&1", f->treadle, f->folder);
  for (int i = 0; i < 2; i++) {
    const char *line = base_arena_format(
        f->arena, "repro 'builtin:layer:linear 64x96 out=48 act=gelu' --output bundle%s", i ? " --drop-weights" : "");
    outcome got = run(f, line);
    if (got.status != 0) fail_msg("%s", got.err);
    assert_int_equal(system(script), 0);
    assert_holds(slurp(f, "bundle/plan.txt", NULL), "step");
    assert_holds(slurp(f, "bundle/README.md", NULL), i ? "dropped" : "beside");
    slurp(f, "bundle/environment.txt", NULL);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(faults_are_found),       cmocka_unit_test(faults_of_passes_are_found),
      cmocka_unit_test(flips_are_rounding),     cmocka_unit_test(recordings_are_compared),
      cmocka_unit_test(two_files_are_compared), cmocka_unit_test(folders_are_replayed),
      cmocka_unit_test(chains_are_shown),       cmocka_unit_test(bundles_run),
      cmocka_unit_test(steps_are_told),
  };
  return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
