/* test_onnx_control.c -- If, Loop, Scan and functions in subgraphs, as text. */
#include "import/onnx_build.h"

/* A branch that gives `in` op `in` under its own name. */
static base_text branch(const char *op, const char *in, const char *out) {
  base_text g = message(), operands = message();
  base_text_print(&operands, "%s,%s", in, in);
  put_node(&g, op, "", operands.at, out);
  put_output(&g, out);
  base_text_free(&operands);
  return g;
}

static base_text if_model(base_text then_branch, base_text else_branch, bool known) {
  base_text g = message(), attrs = message(), flag = message();
  put_input(&g, "x", DIMS(2, 3));
  put_input(&g, "z", DIMS(2, 5));
  if (!known) put_value_as(&g, 11, "c", 9, 0, NULL);
  fmt_put_int(&flag, 2, 9);
  fmt_put_str(&flag, 8, "c");
  fmt_put_bytes(&flag, 9, "\1", 1);
  if (known) put(&g, 5, &flag);
  put_attr_graph(&attrs, "then_branch", &then_branch);
  put_attr_graph(&attrs, "else_branch", &else_branch);
  put_node_as(&g, 1, "", "If", "choose", "c", "y", &attrs);
  put_output(&g, "y");
  base_text_free(&flag);
  return model_of(&g, NULL);
}

static void if_joins_types(void **state) {
  (void)state;
  base_text m = if_model(branch("Add", "x", "a"), branch("Mul", "z", "a"), false);
  expect_text(&m,
              "input %0 \"x\": f32[2, 3]\n"
              "input %1 \"z\": f32[2, 5]\n"
              "input %2 \"c\": bool[]\n"
              "%3 = prim::If(%2): f32[2, $u0] {  # \"choose (If)\"\n"
              "  block() {\n"
              "    %4 = aten::add(%0, %0): f32[2, 3]  # \"choose/Add_0 (Add)\"\n"
              "    yield %4\n"
              "  }\n"
              "  block() {\n"
              "    %5 = aten::mul(%1, %1): f32[2, 5]  # \"choose/Mul_0 (Mul)\"\n"
              "    yield %5\n"
              "  }\n"
              "}\n"
              "output \"y\" %3\n");
}

static void known_condition_chooses(void **state) {
  (void)state;
  base_text m = if_model(branch("Add", "x", "a"), branch("Mul", "z", "a"), true);
  expect_text(&m,
              "input %0 \"x\": f32[2, 3]\n"
              "input %1 \"z\": f32[2, 5]\n"
              "%2 = aten::add(%0, %0): f32[2, 3]  # \"choose/Add_0 (Add)\"\n"
              "output \"y\" %2\n");
}

/* The inputs that every body of a loop begins with. */
static void put_round(base_text *body) {
  put_value_as(body, 11, "i", 7, 0, NULL);
  put_value_as(body, 11, "go", 9, 0, NULL);
}

/* Loop whose carried value doubles its last axis by Concat, and that collects it. */
static base_text loop_model(const char *op, const char *in) {
  base_text g = message(), body = message(), attrs = message(), axis = message();
  put_round(&body);
  put_input(&body, "v", DIMS(2, -1));
  put_attr_int(&axis, "axis", 1);
  bool is_concat = strcmp(op, "Concat") == 0;
  put_node_as(&body, 1, "", op, "step", in, "w", is_concat ? &axis : NULL);
  if (!is_concat) base_text_free(&axis);
  put_node(&body, "Identity", "", "w", "seen");
  put_node(&body, "Identity", "", "go", "on");
  put_output(&body, "on");
  put_output(&body, "w");
  put_output(&body, "seen");
  put_attr_graph(&attrs, "body", &body);
  put_value_as(&g, 11, "n", 7, 0, NULL);
  put_input(&g, "x", DIMS(2, 3));
  put_node_as(&g, 1, "", "Loop", "grow", "n,,x", "y,all", &attrs);
  put_output(&g, "y");
  put_output(&g, "all");
  return model_of(&g, NULL);
}

static void loop_of_fixed_type(void **state) {
  (void)state;
  base_text m = loop_model("Add", "v,x");
  expect_text(&m,
              "input %0 \"n\": i64[]\n"
              "input %1 \"x\": f32[2, 3]\n"
              "const %2 \"go\": bool[] = {1}\n"
              "%3 = td::list_new() {dtype = f32}: list(f32[...])  # \"grow (Loop)\"\n"
              "%4, %5 = prim::Loop(%0, -, %1, %3): f32[2, 3], list(f32[...]) {  # \"grow (Loop)\"\n"
              "  block(%6: i64[], %7: f32[2, 3], %8: list(f32[...])) {\n"
              "    %9 = aten::add(%7, %1): f32[2, 3]  # \"step (Add)\"\n"
              "    %10 = aten::append(%8, %9): list(f32[...])  # \"grow (Loop)\"\n"
              "    yield %2, %9, %10\n"
              "  }\n"
              "}\n"
              "%11 = td::stack_list(%5) {dim = 0, new_axis = 1, dtype = f32, dims = [2, 3]}: f32[$u0, 2, 3]"
              "  # \"grow (Loop)\"\n"
              "output \"y\" %4\n"
              "output \"all\" %11\n");
}

static void check_loop(base_text *m, const char *carried) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_text text = message();
  ir_graph *graph;
  td_error err;
  if (import_bytes(m->at, m->length, NULL, NULL, arena, &graph, &err) != TD_OK) fail_msg("%s: %s", err.name, err.text);
  assert_int_equal(ir_print(graph, &text), TD_OK);
  if (!strstr(text.at, carried)) fail_msg("%s", text.at);
  assert_null(strstr(text.at, ".1")); /* the rounds before the last left nothing, not even names */
  base_text_free(&text);
  base_text_free(m);
  ir_graph_free(graph);
  base_arena_free(arena);
}

/* The axis that grows is opened, the other one is not. */
static void loop_opens_sizes(void **state) {
  (void)state;
  base_text m = loop_model("Concat", "v,v");
  check_loop(&m, "prim::Loop(%0, -, %1, %3): f32[2, $u");
}

/* A loop over what a constant outside and the loop itself are called: inside, the names are the body's inputs. */
static void inputs_of_a_body_hide_what_is_around(void **state) {
  (void)state;
  base_text g = message(), body = message(), attrs = message();
  put_round(&body);
  put_input(&body, "v", DIMS(2));
  put_input(&body, "w", DIMS(2));
  put_node(&body, "Identity", "", "go", "on");
  put_node(&body, "Add", "sum", "v,w", "next");
  put_node(&body, "Identity", "", "w", "same");
  put_output(&body, "on");
  put_output(&body, "next");
  put_output(&body, "same");
  put_attr_graph(&attrs, "body", &body);
  put_value_as(&g, 11, "n", 7, 0, NULL);
  put_input(&g, "x", DIMS(2));
  put_floats(&g, "w", 2, (float[]){1, 2});
  put_node_as(&g, 1, "", "Loop", "loop", "n,,x,w", "v,last", &attrs);
  put_output(&g, "v");
  base_text m = model_of(&g, NULL);
  expect_text(&m,
              "input %0 \"n\": i64[]\n"
              "input %1 \"x\": f32[2]\n"
              "const %2 \"w\": f32[2] = {1, 2}\n"
              "const %3 \"go\": bool[] = {1}\n"
              "%4, %5 = prim::Loop(%0, -, %1, %2): f32[2], f32[2] {  # \"loop (Loop)\"\n"
              "  block(%6: i64[], %7: f32[2], %8: f32[2]) {\n"
              "    %9 = aten::add(%7, %8): f32[2]  # \"sum (Add)\"\n"
              "    yield %3, %9, %8\n"
              "  }\n"
              "}\n"
              "output \"v\" %4\n");
}

static void scan_writes_backwards(void **state) {
  (void)state;
  base_text g = message(), body = message(), attrs = message(), list = message();
  put_input(&body, "s", DIMS(3));
  put_input(&body, "e", DIMS(3));
  put_node(&body, "Add", "", "s,e", "t");
  put_node(&body, "Identity", "", "t", "o");
  put_output(&body, "t");
  put_output(&body, "o");
  put_attr_graph(&attrs, "body", &body);
  put_attr_int(&attrs, "num_scan_inputs", 1);
  fmt_put_str(&list, 1, "scan_output_directions");
  fmt_put_int(&list, 8, 1);
  fmt_put_int(&list, 20, 7);
  put(&attrs, 5, &list);
  put_input(&g, "start", DIMS(3));
  put_input(&g, "x", DIMS(4, 3));
  put_node_as(&g, 1, "", "Scan", "scan", "start,x", "y,z", &attrs);
  put_output(&g, "y");
  put_output(&g, "z");
  base_text m = model_of(&g, NULL);
  check_loop(&m, "aten::flip(%");
}

static void refusals(void **state) {
  (void)state;
  base_text m = if_model(branch("Add", "z", "x"), branch("Mul", "z", "a"), false);
  expect_error(&m, TD_BAD_FILE, "choose/Add_0", "\"x\" is defined twice");
  m = if_model(branch("Add", "x", "a"), branch("Mul", "nowhere", "a"), false);
  expect_error(&m, TD_BAD_FILE, "choose/Mul_0", "\"nowhere\" is not defined");
  m = if_model(branch("Add", "x", "a"), branch("Mul", "c", "a"), false);
  expect_error(&m, TD_BAD_FILE, "choose", "");
  m = loop_model("Foo", "v");
  expect_error(&m, TD_UNSUPPORTED, "net.onnx", "1 operator is not supported: Foo-17 (1 node, first step)");
}

static base_text read_whole(const char *path) {
  base_text text = message();
  char bytes[4096];
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("cannot read %s", path);
  for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;) base_text_add(&text, bytes, n);
  fclose(file);
  return text;
}

/* Each allocation fails in turn, in bodies and branches too: an error, and nothing leaks. */
static void no_memory(void **state) {
  (void)state;
  static const char *const cases[] = {"function_True", "if_nested_True",  "loop_if",
                                      "loop_sequence", "scan8_lengths_1", "scan9_2"};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char path[128];
    snprintf(path, sizeof path, "tests/models/control/%s/model.onnx", cases[i]);
    base_text m = read_whole(path);
    import_without_memory(&m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(if_joins_types),
      cmocka_unit_test(known_condition_chooses),
      cmocka_unit_test(loop_of_fixed_type),
      cmocka_unit_test(loop_opens_sizes),
      cmocka_unit_test(inputs_of_a_body_hide_what_is_around),
      cmocka_unit_test(scan_writes_backwards),
      cmocka_unit_test(refusals),
      cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
