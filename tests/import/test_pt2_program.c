/* test_pt2_program.c -- programs of torch.export from memory: what they compute, what they keep, what they ask of their
 * inputs. */
#include "import/pt2_build.h"

static const char *const backends[] = {"eager", "aot_eager", "native"};
#define EACH_BACKEND(b) for (size_t b = 0; b < sizeof backends / sizeof *backends; b++)

static float w[] = {1, 2, 3, 4, 5, 6}, bias[] = {0.5f, -0.5f};

/* relu(x w' + bias), of any number of rows up to 8; not 5; the rows are bound by the input. */
static const char linear[] = PROGRAM(
    T("p_w") "," T("p_b") "," T("x"), T("y"),
    NODE("torch.ops.aten.linear.default", ARG("input", T("x")) "," ARG("weight", T("p_w")) "," ARG("bias", T("p_b")),
         T("h")) "," NODE("torch.ops.aten.relu.default", ARG("self", T("h")), T("y")),
    VALUE("x", F32, EXPR("s77") "," INT(3)),
    PARAMETER("p_w", "fc.weight") "," PARAMETER("p_b", "fc.bias") "," USER("x"), RESULT("y"),
    ",'range_constraints':{'s77':{'min_val':0,'max_val':8}},'guards_code':['L[`x`].size()[0] != 5']");

static void weights_are_the_callers(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    program p;
    float turned[] = {1, 4, 2, 5, 3, 6}; /* the same matrix, its columns one after the other */
    td_named_tensor given[] = {weight("fc.bias", bias, 1, 2, 0), weight("fc.weight", turned, 2, 2, 3),
                               weight("other", w, 1, 6, 0)};
    given[1].strides[0] = 1;
    given[1].strides[1] = 2;
    program_open(&p, linear, given, 3, backends[b]);
    const float x[] = {1, -1, 2, 0, 0, -1};
    if (program_run(&p, x, 2, 3) != TD_OK) fail_msg("%s", p.err.text);
    expect_floats(&p, 0, (const float[]){5.5f, 10.5f, 0, 0}, 4);
    program_close(&p);
  }
}

static void sizes_are_checked(void **state) {
  (void)state;
  program p;
  float x[27] = {0};
  td_named_tensor given[] = {weight("fc.weight", w, 2, 2, 3), weight("fc.bias", bias, 1, 2, 0)};
  program_open(&p, linear, given, 2, "native");
  assert_int_equal(program_run(&p, x, 0, 3), TD_OK);
  assert_int_equal(program_run(&p, x, 8, 3), TD_OK);
  assert_int_equal(program_run(&p, x, 9, 3), TD_BAD_ARGUMENT);
  if (!strstr(p.err.text, "input x: dimension 0 (s77) must be at most 8")) fail_msg("%s", p.err.text);
  program_close(&p);
}

static void origins_are_the_users(void **state) {
  (void)state;
  program p;
  char *text;
  td_named_tensor given[] = {weight("fc.weight", w, 2, 2, 3), weight("fc.bias", bias, 1, 2, 0)};
  program_open(&p, linear, given, 2, "eager");
  assert_int_equal(td_model_print(p.model, "imported", "text", &text, &p.err), TD_OK);
  if (!strstr(text, "a.b.h (aten::linear) at model.py:7, in forward")) fail_msg("%s", text);
  td_text_free(p.model, text);
  program_close(&p);
}

static void missing_weights_are_named(void **state) {
  (void)state;
  expect_refusal(linear, TD_BAD_FILE, "the tensor fc.weight");
}

/* A counter that grows in place (which export leaves in the graph), and one whose new value is an output. */
static const char counters[] = PROGRAM(
    T("b_n") "," T("b_m") "," T("x"), T("sum") "," T("m2"),
    NODE("torch.ops.aten.add_.Scalar", ARG("self", T("b_n")) "," ARG("other", INT(1)), T("n2")) "," NODE(
        "torch.ops.aten.add.Tensor", ARG("self", T("b_m")) "," ARG("other", T("x")),
        T("m2")) "," NODE("torch.ops.aten.add.Tensor", ARG("self", T("n2")) "," ARG("other", T("m2")), T("sum")),
    VALUE("x", F32, INT(2)), BUFFER("b_n", "n") "," BUFFER("b_m", "m") "," USER("x"),
    RESULT("sum") "," WRITES("m2", "m"), "");

static void written_buffers_are_state(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    program p;
    float n[] = {10, 20}, m[] = {1, 2};
    td_named_tensor given[] = {weight("n", n, 1, 2, 0), weight("m", m, 1, 2, 0)};
    program_open(&p, counters, given, 2, backends[b]);
    assert_int_equal(td_model_state_count(p.model), 2);
    assert_int_equal(td_model_output_count(p.model), 1);
    const float x[] = {1, 1};
    assert_int_equal(program_run(&p, x, 2, 0), TD_OK);
    expect_floats(&p, 0, (const float[]){13, 24}, 2);
    assert_int_equal(program_run(&p, x, 2, 0), TD_OK);
    expect_floats(&p, 0, (const float[]){15, 26}, 2);
    assert_true(n[0] == 10 && m[0] == 1);
    program_close(&p);
  }
}

/* ---- graphs as arguments ---- */

#define SUBGRAPH(name, graph) "{'as_graph':{'name':'" name "','graph':" graph "}}"
#define TENSORS(list) "{'as_tensors':[" list "]}"
#define NAME(name) "{'name':'" name "'}"

static const char choice[] = PROGRAM(
    T("x"), T("y"),
    NODE("torch.ops.aten.sum.default", ARG("self", T("x")), T("s")) "," NODE(
        "torch.ops.aten.gt.Scalar", ARG("self", T("s")) "," ARG("other", INT(0)),
        T("c")) "," NODE("torch.ops.higher_order.cond",
                         ARG("", T("c")) "," ARG(
                             "", SUBGRAPH("t", GRAPH(T("a"), T("r"),
                                                     NODE("torch.ops.aten.mul.Scalar",
                                                          ARG("self", T("a")) "," ARG("other", INT(2)), T("r")),
                                                     ""))) "," ARG("", SUBGRAPH("f",
                                                                                GRAPH(T("a"), T("r"),
                                                                                      NODE("torch.ops.aten.neg.default",
                                                                                           ARG("self", T("a")), T("r")),
                                                                                      ""))) "," ARG("",
                                                                                                    TENSORS(NAME("x"))),
                         TENSORS(NAME("y"))),
    VALUE("x", F32, INT(2)), USER("x"), RESULT("y"), "");

/* while x.sum() < 20: x, i = x + x, i + 1 */
static const char doubling[] = PROGRAM(
    T("x"), T("y") "," T("n"),
    NODE("torch.ops.aten.zeros.default",
         ARG("size", "{'as_ints':[]}") ","
                                       "{'name':'dtype','arg':{'as_scalar_type':5},'kind':2}",
         T("z")) "," NODE("torch.ops.higher_order.while_loop",
                          ARG("",
                              SUBGRAPH("c",
                                       GRAPH(T("a") "," T("i"), T("r"),
                                             NODE("torch.ops.aten.sum.default", ARG("self", T("a")), T("s")) "," NODE(
                                                 "torch.ops.aten.lt.Scalar",
                                                 ARG("self", T("s")) "," ARG("other", INT(20)), T("r")),
                                             ""))) "," ARG("",
                                                           SUBGRAPH(
                                                               "b",
                                                               GRAPH(T("a") "," T("i"), T("r") "," T("j"),
                                                                     NODE("torch.ops.aten.add.Tensor",
                                                                          ARG("self", T("a")) "," ARG("other", T("a")),
                                                                          T("r")) "," NODE("torch.ops.aten.add.Scalar",
                                                                                           ARG("self", T("i")) "," ARG(
                                                                                               "other", INT(1)),
                                                                                           T("j")),
                                                                     ""))) "," ARG("",
                                                                                   TENSORS(NAME("x") "," NAME(
                                                                                       "z"))) "," ARG("", TENSORS("")),
                          T("y") "," T("n")),
    VALUE("x", F32, INT(2)), USER("x"), RESULT("y") "," RESULT("n"), "");

/* scan: sum so far, and its double at each step; map: x * 3 */
static const char walks[] = PROGRAM(
    T("x"), T("last") "," T("all") "," T("m"),
    NODE("torch.ops.aten.zeros.default", ARG("size", "{'as_ints':[2]}"), T("z")) "," NODE(
        "torch.ops.higher_order.scan",
        ARG("",
            SUBGRAPH(
                "f",
                GRAPH(T("c") "," T("v"), T("r") "," T("d"),
                      NODE("torch.ops.aten.add.Tensor", ARG("self", T("c")) "," ARG("other", T("v")), T("r")) "," NODE(
                          "torch.ops.aten.mul.Scalar", ARG("self", T("r")) "," ARG("other", INT(2)), T("d")),
                      ""))) "," ARG("", TENSORS(NAME("z"))) "," ARG("", TENSORS(NAME("x"))) "," ARG("", TENSORS("")),
        T("last") "," T(
            "all")) "," NODE("torch.ops.higher_order.map_impl",
                             ARG("", SUBGRAPH(
                                         "g",
                                         GRAPH(T("v") "," T("k"), T("r"),
                                               NODE("torch.ops.aten.mul.Tensor",
                                                    ARG("self", T("v")) "," ARG("other", T("k")), T("r")),
                                               ""))) "," ARG("", TENSORS(NAME("x"))) "," ARG("", TENSORS(NAME("last"))),
                             TENSORS(NAME("m"))),
    VALUE("x", F32, INT(3) "," INT(2)), USER("x"), RESULT("last") "," RESULT("all") "," RESULT("m"), "");

static void graphs_as_arguments(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    program p;
    program_open(&p, choice, NULL, 0, backends[b]);
    assert_int_equal(program_run(&p, (const float[]){1, 2}, 2, 0), TD_OK);
    expect_floats(&p, 0, (const float[]){2, 4}, 2);
    assert_int_equal(program_run(&p, (const float[]){1, -2}, 2, 0), TD_OK);
    expect_floats(&p, 0, (const float[]){-1, 2}, 2);
    program_close(&p);
    program_open(&p, doubling, NULL, 0, backends[b]);
    assert_int_equal(program_run(&p, (const float[]){1, 2}, 2, 0), TD_OK);
    expect_floats(&p, 0, (const float[]){8, 16}, 2);
    expect_floats(&p, 1, (const float[]){3}, 1);
    assert_int_equal(program_run(&p, (const float[]){30, 2}, 2, 0), TD_OK);
    expect_floats(&p, 1, (const float[]){0}, 1);
    program_close(&p);
    program_open(&p, walks, NULL, 0, backends[b]);
    assert_int_equal(program_run(&p, (const float[]){1, 2, 3, 4, 5, 6}, 3, 2), TD_OK);
    expect_floats(&p, 0, (const float[]){9, 12}, 2);
    expect_floats(&p, 1, (const float[]){2, 4, 8, 12, 18, 24}, 6);
    expect_floats(&p, 2, (const float[]){9, 24, 27, 48, 45, 72}, 6);
    program_close(&p);
  }
}

/* ---- sizes ---- */

/* x is [2s + 1, 2]; y takes the first s rows, s being computed from the size. */
#define SYM(name) "{'as_sym_int':{'as_name':'" name "'}}"
#define ODD "Add(Mul(Integer(2), Symbol(`s0`, positive=True)), Integer(1))"
/* clang-format off */
static const char symbolic[] = PROGRAM(
    T("x"), T("y"),
    NODE("torch.ops.aten.sym_size.int", ARG("self", T("x")) "," ARG("dim", INT(0)), SYM("n")) ","
    NODE("_operator.floordiv", ARG("a", SYM("n")) "," ARG("b", INT(2)), SYM("h")) ","
    NODE("torch.ops.aten.slice.Tensor",
         ARG("self", T("x")) "," ARG("dim", INT(0)) "," ARG("start", INT(0)) "," ARG("end", SYM("h")), T("y")),
    VALUE("x", F32, EXPR(ODD) "," INT(2)), USER("x"), RESULT("y"), "");
/* clang-format on */

static void sizes_are_computed(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    program p;
    program_open(&p, symbolic, NULL, 0, backends[b]);
    assert_int_equal(program_run(&p, (const float[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 5, 2), TD_OK);
    expect_floats(&p, 0, (const float[]){1, 2, 3, 4}, 4);
    assert_int_equal(program_run(&p, (const float[8]){0}, 4, 2), TD_BAD_ARGUMENT);
    program_close(&p);
  }
}

/* ---- conditions on the inputs ---- */

#define GUARDED(condition) GUARDED_OF("x", condition)
#define GUARDED_OF(name, condition)                                                          \
  PROGRAM(T(name), T("y"), NODE("torch.ops.aten.neg.default", ARG("self", T(name)), T("y")), \
          VALUE(name, F32, EXPR("s0")), USER(name), RESULT("y"), ",'guards_code':['" condition "']")

/* Sizes from 1 on that a program takes, as bits. */
static int takes(const char *text) {
  program p;
  int taken = 0;
  program_open(&p, text, NULL, 0, "eager");
  for (int n = 1; n < 8; n++) taken |= (program_run(&p, (const float[8]){0}, n, 0) == TD_OK) << n;
  program_close(&p);
  return taken;
}

static void conditions_have_alternatives(void **state) {
  (void)state;
#define SIZE "L[`x`].size()[0]"
  assert_int_equal(takes(GUARDED(SIZE " == 1 or " SIZE " >= 5")), 0xe2);
  assert_int_equal(takes(GUARDED("not " SIZE " == 3")), 0xf6);
  assert_int_equal(takes(GUARDED("(" SIZE " < 3 or " SIZE " > 5) and (" SIZE " + 1) % 2 == 0")), 0x82);
  assert_int_equal(takes(GUARDED("not (" SIZE " != 2 and " SIZE " <= 6)")), 0x84);
  assert_int_equal(takes(GUARDED("2 <= " SIZE " and " SIZE " <= 4")), 0x1c);
  expect_refusal(GUARDED(SIZE " == 1 or"), TD_UNSUPPORTED, "is not understood");
  expect_refusal(GUARDED("not"), TD_UNSUPPORTED, "is not understood");
}

static void conditions_have_names_of_torch(void **state) {
  (void)state;
  assert_int_equal(takes(GUARDED("torch.sym_max(3, " SIZE ") == 3")), 0x0e);
  assert_int_equal(takes(GUARDED("torch.sym_min(" SIZE ", 4) != 4")), 0x0e);
  /* what stands behind a *args */
  assert_int_equal(takes(GUARDED_OF("args_0", "L[`args`][0].size()[0] != 2")), 0xfa);
  expect_refusal(GUARDED_OF("args_0", "L[`args`][1].size()[0] != 2"), TD_UNSUPPORTED, "is not understood");
  expect_refusal(GUARDED_OF("args_0", "L[`args`][].size()[0] != 2"), TD_UNSUPPORTED, "is not understood");
}

/* ---- complex numbers, effects, operators of users ---- */

static const char conjugate[] =
    PROGRAM(T("x"), T("y"),
            NODE("torch.ops.aten.mul.Tensor", ARG("self", T("x")) "," ARG("other", T("x")), T("z")) "," NODE(
                "torch.ops.aten.view_as_real.default", ARG("self", T("z")), T("y")),
            VALUE("x", "10", INT(2)), USER("x"), RESULT("y"), "");

#define OPERATOR(name) "{'as_operator':'" name "'}"
static const char effects[] =
    PROGRAM(T("x"), T("y"),
            NODE("torch.ops.higher_order.with_effects",
                 ARG("a", T("x")) "," ARG("b", OPERATOR("torch.ops.aten.neg.default")) "," ARG("arg2", T("x")),
                 T("token") "," T("y")),
            VALUE("x", F32, INT(2)), USER("x"), RESULT("y"), "");
#define CALLS(target, first)                                                                                       \
  PROGRAM(T("x"), T("y"),                                                                                          \
          NODE("torch.ops.higher_order." target, first ARG("b", OPERATOR("torch.ops.mylib.foo.default")), T("y")), \
          VALUE("x", F32, INT(2)), USER("x"), RESULT("y"), "")

static void complex_inputs_and_effects(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    program p;
    program_open(&p, conjugate, NULL, 0, backends[b]);
    assert_int_equal(program_run(&p, (const float[]){1, 2, 0, -1}, 2, 2), TD_OK);
    expect_floats(&p, 0, (const float[]){-3, 4, -1, 0}, 4);
    program_close(&p);
    program_open(&p, effects, NULL, 0, backends[b]);
    assert_int_equal(program_run(&p, (const float[]){1, 2}, 2, 0), TD_OK);
    expect_floats(&p, 0, (const float[]){-1, -2}, 2);
    program_close(&p);
  }
  expect_refusal(CALLS("auto_functionalized_v2", ""), TD_UNSUPPORTED, "mylib::foo (1 call");
  expect_refusal(CALLS("with_effects", ARG("a", T("x")) ","), TD_UNSUPPORTED, "mylib::foo (1 call");
}

/* ---- what torch.export decomposes into ---- */

#define NUMBER(f) "{'as_float':" #f "}"
#define NO_VALUE "{'as_none':true}"
static const char batch_norm[] =
    PROGRAM(T("x"), T("y"),
            NODE("torch.ops.aten._native_batch_norm_legit.no_stats",
                 ARG("input", T("x")) "," ARG("weight", NO_VALUE) "," ARG("bias", NO_VALUE) "," ARG(
                     "training", "{'as_bool':true}") "," ARG("momentum", NUMBER(0.1)) "," ARG("eps", NUMBER(0.0)),
                 T("y") "," T("mean") "," T("rstd")),
            VALUE("x", F32, INT(3) "," INT(2)), USER("x"), RESULT("y"), "");

static void batch_norm_has_statistics_of_its_own(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    program p;
    program_open(&p, batch_norm, NULL, 0, backends[b]);
    assert_int_equal(program_run(&p, (const float[]){1, 7, 2, 7.5f, 3, 8}, 3, 2), TD_OK);
    expect_floats(&p, 0, (const float[]){-1.2247449f, -1.2247449f, 0, 0, 1.2247449f, 1.2247449f}, 6);
    program_close(&p);
  }
}

/* Rows [0, 1) by the first matrix, [1, 4) by the second: the experts of transformers' models. */
static const char grouped[] = PROGRAM(
    T("p_w") "," T("x"), T("y"),
    NODE("torch.ops.aten.view.default", ARG("self", T("p_w")) "," ARG("size", "{'as_ints':[2,3,1]}"), T("w3")) "," NODE(
        "torch.ops.aten.arange.start_step", ARG("start", INT(1)) "," ARG("end", INT(5)) "," ARG("step", INT(3)),
        T("offs")) "," NODE("torch.ops.transformers.grouped_mm_fallback.default",
                            ARG("input", T("x")) "," ARG("weight", T("w3")) "," ARG("offs", T("offs")), T("y")),
    VALUE("x", F32, INT(4) "," INT(3)), PARAMETER("p_w", "w") "," USER("x"), RESULT("y"), "");

static void rows_are_multiplied_in_groups(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    program p;
    td_named_tensor given = weight("w", w, 1, 6, 0);
    program_open(&p, grouped, &given, 1, backends[b]);
    const float x[] = {1, 0, 1, 1, 0, 1, 0, 1, 0, 0, 0, 2};
    if (program_run(&p, x, 4, 3) != TD_OK) fail_msg("%s", p.err.text);
    expect_floats(&p, 0, (const float[]){4, 10, 5, 12}, 4);
    program_close(&p);
  }
}

/* PyTorch and ONNX Runtime refuse a mirror that is wider than what it shows. */
static const char mirrored[] = PROGRAM(T("x"), T("y"),
                                       NODE("torch.ops.aten.reflection_pad1d.default",
                                            ARG("self", T("x")) "," ARG("padding", "{'as_ints':[2,0]}"), T("y")),
                                       VALUE("x", F32, INT(1) "," EXPR("s77")), USER("x"), RESULT("y"),
                                       ",'range_constraints':{'s77':{'min_val':0,'max_val':8}}");

static void mirrors_are_narrower_than_what_they_show(void **state) {
  (void)state;
  EACH_BACKEND(b) {
    program p;
    const float x[] = {1, 2, 3};
    program_open(&p, mirrored, NULL, 0, backends[b]);
    assert_int_equal(program_run(&p, x, 1, 3), TD_OK);
    expect_floats(&p, 0, (const float[]){3, 2, 1, 2, 3}, 5);
    assert_int_equal(program_run(&p, x, 1, 2), TD_BAD_ARGUMENT);
    if (!strstr(p.err.text, "a border of 2 mirrors axis 1, which has 2 elements")) fail_msg("%s", p.err.text);
    program_close(&p);
  }
}

static td_status load_all(const td_allocator *allocator, void *user) {
  td_named_tensor given[] = {weight("n", w, 1, 2, 0), weight("m", w, 1, 2, 0)};
  td_load_options options = {.size = sizeof options, .backend = "eager", .allocator = allocator};
  const char *text = user;
  td_model *model = NULL;
  td_error err;
  td_status status = td_model_load_graph(text, strlen(text), given, 2, &options, &model, &err);
  return use_and_free(model, status, &err);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  static const char *const texts[] = {counters, choice, doubling, symbolic, conjugate, effects};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char *text = quote(texts[i]);
    assert_true(fail_each_allocation(load_all, text, true) > 10);
    free(text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(weights_are_the_callers),
                                     cmocka_unit_test(sizes_are_checked),
                                     cmocka_unit_test(origins_are_the_users),
                                     cmocka_unit_test(missing_weights_are_named),
                                     cmocka_unit_test(written_buffers_are_state),
                                     cmocka_unit_test(graphs_as_arguments),
                                     cmocka_unit_test(sizes_are_computed),
                                     cmocka_unit_test(conditions_have_alternatives),
                                     cmocka_unit_test(conditions_have_names_of_torch),
                                     cmocka_unit_test(batch_norm_has_statistics_of_its_own),
                                     cmocka_unit_test(complex_inputs_and_effects),
                                     cmocka_unit_test(rows_are_multiplied_in_groups),
                                     cmocka_unit_test(mirrors_are_narrower_than_what_they_show),
                                     cmocka_unit_test(every_allocation_may_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
