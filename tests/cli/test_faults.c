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

/* What never ends is waited for; what ends may take its time on a busy machine. */
static const char *limit_of(const kernel_fault *fault) {
  return strstr(fault->text, "hang") ? " --time-limit 8" : " --time-limit 100";
}

/* `compare` names the node: in its table, or in what it says of a crash or an error. */
static void compare_finds(fixture *f, const kernel_fault *fault) {
  const char *line = base_arena_format(f->arena, "compare net.tdir --inject %s%s", fault->text, limit_of(fault));
  outcome got = run(f, line);
  if (got.status == 0) fail_msg("%s is not seen", fault->text);
  const char *found = strstr(got.out, "first node that parts");
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

/* Single steps of a dynamic quantisation that flip are no error; a wrong kernel is one all the same. */
static void flips_are_rounding(void **state) {
  fixture *f = *state;
  save_text("quantised.tdir",
            "tdir 1\n"
            "input %0 \"x\": f32[500, 512]\n"
            "%2 = aten::gelu(%0)  # \"node /gelu (Gelu)\"\n"
            "%3, %4, %5 = td::dynamic_quantize_linear(%2)  # \"node /quantise (DynamicQuantizeLinear)\"\n"
            "%6 = td::dequantize_linear(%3, %4, %5) {dtype = f32}  # \"node /back (DequantizeLinear)\"\n"
            "output \"y\" %6\n");
  outcome got = run(f, "compare quantised.tdir --nodes --rtol 1e-5 --atol 1e-6");
  if (got.status != 0) fail_msg("%s%s", got.out, got.err);
  got = run(f, "compare quantised.tdir --inject gelu:wrong");
  assert_int_equal(got.status, 1);
  assert_holds(got.out, "/gelu");
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
  assert_holds(got.err, "the two models part");
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
  assert_holds(got.out, "parts");
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
  assert_int_equal(system("sed -i '1i this is no C' seen/generated.*.c"), 0);
  outcome got = run(f, "replay seen");
  assert_int_not_equal(got.status, 0);
  assert_holds(got.err, "compiler failed");
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
      cmocka_unit_test(faults_are_found),
      cmocka_unit_test(faults_of_passes_are_found),
      cmocka_unit_test(flips_are_rounding),
      cmocka_unit_test(recordings_are_compared),
      cmocka_unit_test(two_files_are_compared),
      cmocka_unit_test(folders_are_replayed),
      cmocka_unit_test(bundles_run),
      cmocka_unit_test(steps_are_told),
  };
  return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
