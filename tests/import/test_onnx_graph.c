/* test_onnx_graph.c -- what models become: names, inputs, constants, aliases, functions, as text. */
#include "import/onnx_build.h"

static void chain_of_two(void **state) {
  (void)state;
  base_text g = message();
  put_input(&g, "x", DIMS(-2, 3));
  put_floats(&g, "w", 3, (float[]){1, 2, 3});
  put_node(&g, "Add", "first", "x,w", "s");
  put_node(&g, "Mul", "", "s,s", "y");
  put_output(&g, "y");
  base_text m = model_of(&g, NULL);
  expect_text(&m,
              "input %0 \"x\": f32[batch, 3]\n"
              "const %1 \"w\": f32[3] = {1, 2, 3}\n"
              "%2 = aten::add(%0, %1): f32[batch, 3]  # \"first (Add)\"\n"
              "%3 = aten::mul(%2, %2): f32[batch, 3]  # \"Mul_1 (Mul)\"\n"
              "output \"y\" %3\n");
}

/* A sloppy exporter: the user stands before what it uses. */
static void unsorted(void **state) {
  (void)state;
  base_text g = message();
  put_node(&g, "Mul", "late", "s,s", "y");
  put_node(&g, "Add", "early", "x,x", "s");
  put_input(&g, "x", DIMS(2));
  put_output(&g, "y");
  base_text m = model_of(&g, NULL);
  expect_text(&m,
              "input %0 \"x\": f32[2]\n"
              "%1 = aten::add(%0, %0): f32[2]  # \"early (Add)\"\n"
              "%2 = aten::mul(%1, %1): f32[2]  # \"late (Mul)\"\n"
              "output \"y\" %2\n");
}

/* Open sizes without a name get one from the input; no shape means no rank. Identity and outer names as outputs. */
static void open_inputs(void **state) {
  (void)state;
  base_text g = message();
  put_input(&g, "a", DIMS(-1, 2));
  put_input(&g, "b", -1, NULL);
  put_node(&g, "Identity", "", "a", "same");
  put_output(&g, "same");
  put_output(&g, "b");
  base_text m = model_of(&g, NULL);
  expect_text(&m,
              "input %0 \"a\": f32[\"a.0\", 2]\n"
              "input %1 \"b\": f32[...]\n"
              "output \"same\" %0\n"
              "output \"b\" %1\n");
}

static base_text model_with_default(int64_t ir_version) {
  base_text g = message(), m = message();
  put_input(&g, "x", DIMS(1));
  put_input(&g, "w", DIMS(1));
  put_floats(&g, "w", 1, (float[]){4});
  put_node(&g, "Add", "", "x,w", "y");
  put_output(&g, "y");
  fmt_put_int(&m, 1, ir_version);
  put(&m, 7, &g);
  put_opset(&m, 8, "", 9);
  return m;
}

/* Values of inputs are defaults since IR version 4, and constants where the caller names inputs, but not these. */
static void overridable_default(void **state) {
  (void)state;
  static const struct {
    int64_t ir_version;
    td_input_spec given[2]; /* up to one without a type */
    uint32_t inputs;
  } rows[] = {{4, {{0}}, 2},
              {3, {{0}}, 1},
              {4, {{.dtype = TD_F32}}, 2},
              {4, {{.name = "x", .dtype = TD_F32}}, 1},
              {4, {{.name = "x", .dtype = TD_F32}, {.name = "w", .dtype = TD_F32}}, 2},
              {3, {{.name = "w", .dtype = TD_F32}}, 2}};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const ir_opset *ops = ops_set(arena);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    base_text m = model_with_default(rows[i].ir_version);
    import_source source = {.bytes = m.at, .size = m.length, .file = "net.onnx", .inputs = rows[i].given};
    while (source.input_count < 2 && rows[i].given[source.input_count].dtype) source.input_count++;
    ir_graph *graph;
    td_error err;
    assert_int_equal(import_model(&source, ops, &base_libc_allocator, &graph, &err), TD_OK);
    assert_int_equal(ir_block_of(graph, graph->top)->params.count, rows[i].inputs);
    assert_int_equal(graph->input_defaults.at[0].id, 0);
    if (rows[i].inputs == 2) assert_non_null(ir_value_of(graph, graph->input_defaults.at[1])->info.constant);
    ir_graph_free(graph);
    base_text_free(&m);
  }
  base_arena_free(arena);
}

/* Weights stay where they are. */
static void constants_are_views(void **state) {
  (void)state;
  base_text m = model_with_default(3);
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph;
  td_error err;
  assert_int_equal(import_bytes(m.at, m.length, NULL, NULL, arena, &graph, &err), TD_OK);
  ir_node_def *add = ir_node_of(graph, ir_block_of(graph, graph->top)->nodes.at[0]);
  const base_tensor *w = ir_value_of(graph, add->in[1])->info.constant;
  assert_non_null(w);
  assert_true((const char *)w->data > m.at && (const char *)w->data < m.at + m.length);
  assert_ptr_equal(graph->segments.at[0].base, m.at);
  ir_graph_free(graph);
  base_arena_free(arena);
  base_text_free(&m);
}

/* indices {1, 3} (linear) or {0,1},{1,1} of a 2x2 tensor with values 5, 7. */
static void put_sparse(base_text *graph, bool linear) {
  base_text s = message(), values = float_tensor("w", 2, (float[]){5, 7}), indices = message();
  static const int64_t flat[] = {1, 3}, pairs[] = {0, 1, 1, 1};
  fmt_put_int(&indices, 1, 2);
  if (!linear) fmt_put_int(&indices, 1, 2);
  fmt_put_int(&indices, 2, 7);
  fmt_put_bytes(&indices, 9, linear ? flat : pairs, linear ? sizeof flat : sizeof pairs);
  put(&s, 1, &values);
  put(&s, 2, &indices);
  fmt_put_int(&s, 3, 2);
  fmt_put_int(&s, 3, 2);
  put(graph, 15, &s);
}

/* y = x + (a + b + c + d), each of which has a value, as `others` have that nobody reads; `listed`: how many of the
 * first are inputs, too. */
static base_text weighted(int listed, int others) {
  static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
  base_text g = message();
  put_input(&g, "x", DIMS(2));
  for (int i = 0; i < listed; i++) put_input(&g, names[i], DIMS(2));
  for (int i = 0; i < 4 + others; i++) put_floats(&g, names[i], 2, (float[]){(float)i, 1});
  put_node(&g, "Sum", "n", "x,a,b,c,d", "y");
  put_output(&g, "y");
  return model_of(&g, NULL);
}

/* The model is consumed. */
static int inputs_of(base_text model) {
  base_text text = imported_text(&model);
  int count = 0;
  for (const char *at = text.at; (at = strstr(at, "input %")); at++) count++;
  base_text_free(&text);
  return count;
}

/* Where most weights are listed as inputs they are weights; a few among others are inputs that need not be given. */
static void listed_weights_are_constants(void **state) {
  (void)state;
  base_text all = weighted(4, 0), some = weighted(3, 0);
  assert_int_equal(inputs_of(weighted(4, 3)), 1);
  assert_int_equal(inputs_of(weighted(4, 4)), 5);
  expect_text(&all,
              "input %0 \"x\": f32[2]\n"
              "const %1 \"a\": f32[2] = {0, 1}\n"
              "const %2 \"b\": f32[2] = {1, 1}\n"
              "const %3 \"c\": f32[2] = {2, 1}\n"
              "const %4 \"d\": f32[2] = {3, 1}\n"
              "%5 = aten::add(%0, %1): f32[2]  # \"n (Sum)\"\n"
              "%6 = aten::add(%5, %2): f32[2]  # \"n (Sum)\"\n"
              "%7 = aten::add(%6, %3): f32[2]  # \"n (Sum)\"\n"
              "%8 = aten::add(%7, %4): f32[2]  # \"n (Sum)\"\n"
              "output \"y\" %8\n");
  expect_text(&some,
              "const %4: f32[2] = {0, 1}\n"
              "const %5: f32[2] = {1, 1}\n"
              "const %6: f32[2] = {2, 1}\n"
              "input %0 \"x\": f32[2]\n"
              "input %1 \"a\": f32[2] = %4\n"
              "input %2 \"b\": f32[2] = %5\n"
              "input %3 \"c\": f32[2] = %6\n"
              "const %7 \"d\": f32[2] = {3, 1}\n"
              "%8 = aten::add(%0, %1): f32[2]  # \"n (Sum)\"\n"
              "%9 = aten::add(%8, %2): f32[2]  # \"n (Sum)\"\n"
              "%10 = aten::add(%9, %3): f32[2]  # \"n (Sum)\"\n"
              "%11 = aten::add(%10, %7): f32[2]  # \"n (Sum)\"\n"
              "output \"y\" %11\n");
}

static void sparse_initializers(void **state) {
  (void)state;
  for (int linear = 0; linear < 2; linear++) {
    base_text g = message();
    put_sparse(&g, linear);
    put_output(&g, "w");
    base_text m = model_of(&g, NULL);
    expect_text(&m, "const %0 \"w\": f32[2, 2] = {0, 5, 0, 7}\noutput \"w\" %0\n");
  }
}

static void constant_forms(void **state) {
  (void)state;
  base_text g = message(), a = message(), b = message(), c = message();
  base_text t = float_tensor("", 1, (float[]){3});
  put_attr_tensor(&a, "value", 5, &t);
  put_attr_int(&b, "value_int", -4);
  put_attr_float(&c, "value_float", 0.5f);
  put_node_as(&g, 1, "", "Constant", "", "", "a", &a);
  put_node_as(&g, 1, "", "Constant", "", "", "b", &b);
  put_node_as(&g, 1, "", "Constant", "", "", "c", &c);
  put_output(&g, "a");
  put_output(&g, "b");
  put_output(&g, "c");
  base_text m = model_of(&g, NULL);
  expect_text(&m,
              "const %0 \"a\": f32[1] = {3}\n"
              "const %1 \"b\": i64[] = {-4}\n"
              "const %2 \"c\": f32[] = {0.5}\n"
              "output \"a\" %0\n"
              "output \"b\" %1\n"
              "output \"c\" %2\n");
}

/* local.Twice(x; alpha = 2) = local.Once(x) + value_float(alpha) */
static base_text two_functions(void) {
  base_text once = message(), twice = message(), all = message(), ref = message(), fallback = message();
  fmt_put_str(&once, 1, "Once");
  put_names(&once, 4, "v");
  put_names(&once, 5, "r");
  put_node_as(&once, 7, "", "Mul", "square", "v,v", "r", NULL);
  put_opset(&once, 9, "", 17);
  fmt_put_str(&once, 10, "local");
  put(&all, 25, &once);
  fmt_put_str(&twice, 1, "Twice");
  put_names(&twice, 4, "v,unused");
  put_names(&twice, 5, "r");
  put_attr_ref(&ref, "value_float", "alpha", 1);
  put_node_as(&twice, 7, "local", "Once", "", "v", "t", NULL);
  put_node_as(&twice, 7, "", "Constant", "", "", "c", &ref);
  put_node_as(&twice, 7, "", "Add", "", "t,c", "r", NULL);
  put_opset(&twice, 9, "", 17);
  put_opset(&twice, 9, "local", 1);
  fmt_put_str(&twice, 10, "local");
  fmt_put_str(&fallback, 1, "alpha");
  fmt_put_float(&fallback, 2, 2);
  put(&twice, 11, &fallback);
  put(&all, 25, &twice);
  return all;
}

static void functions_are_inlined(void **state) {
  (void)state;
  base_text g = message(), alpha = message(), functions = two_functions();
  put_input(&g, "x", DIMS(2));
  put_attr_float(&alpha, "alpha", 9);
  put_node_as(&g, 1, "local", "Twice", "call", "x", "y", NULL);
  put_node_as(&g, 1, "local", "Twice", "", "y", "z", &alpha);
  put_output(&g, "z");
  base_text m = model_of(&g, &functions);
  expect_text(&m,
              "input %0 \"x\": f32[2]\n"
              "const %1 \"call/c\": f32[] = {2}\n"
              "const %2 \"Twice_1/c\": f32[] = {9}\n"
              "%3 = aten::mul(%0, %0): f32[2]  # \"call/Once_0/square (Mul)\"\n"
              "%4 = aten::add(%3, %1): f32[2]  # \"call/Add_2 (Add)\"\n"
              "%5 = aten::mul(%4, %4): f32[2]  # \"Twice_1/Once_0/square (Mul)\"\n"
              "%6 = aten::add(%5, %2): f32[2]  # \"Twice_1/Add_2 (Add)\"\n"
              "output \"z\" %6\n");
}

static td_status open_side_file(void *user, const char *location, const void **bytes, size_t *size, td_error *err) {
  static const float data[] = {1, 2, 3, 4};
  ++*(int *)user;
  if (strcmp(location, "side/w.bin") != 0) return base_fail(err, TD_BAD_FILE, location, -1, "no such file");
  *bytes = data;
  *size = sizeof data;
  return TD_OK;
}

static void put_external(base_text *graph, const char *name, const char *location, const char *offset,
                         const char *length) {
  base_text t = message();
  const char *pairs[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
  fmt_put_int(&t, 1, 2);
  fmt_put_int(&t, 2, 1);
  fmt_put_str(&t, 8, name);
  for (int i = 0; i < 3; i++) {
    base_text entry = message();
    if (!pairs[i][1]) continue;
    fmt_put_str(&entry, 1, pairs[i][0]);
    fmt_put_str(&entry, 2, pairs[i][1]);
    put(&t, 13, &entry);
  }
  fmt_put_int(&t, 14, 1);
  put(graph, 5, &t);
}

static void external_data(void **state) {
  (void)state;
  base_text g = message();
  put_external(&g, "a", "side/w.bin", "8", "8");
  put_external(&g, "b", "./side/w.bin", NULL, NULL);
  put_output(&g, "a");
  put_output(&g, "b");
  base_text m = model_of(&g, NULL);
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph;
  td_error err;
  int opened = 0;
  assert_int_equal(import_bytes(m.at, m.length, open_side_file, &opened, arena, &graph, &err), TD_OK);
  assert_int_equal(opened, 1);
  const ir_block_def *top = ir_block_of(graph, graph->top);
  assert_true(base_load_f64(TD_F32, ir_value_of(graph, top->results.at[0])->info.constant->data, 0) == 3);
  assert_true(base_load_f64(TD_F32, ir_value_of(graph, top->results.at[1])->info.constant->data, 1) == 2);
  ir_graph_free(graph);
  base_arena_free(arena);
  base_text_free(&m);
}

static void bad_external_data(void **state) {
  (void)state;
  static const struct {
    const char *location, *offset, *length, *error;
  } cases[] = {{"../w.bin", "0", "8", "own folder"},
               {"/etc/w.bin", "0", "8", "own folder"},
               {"side/../w.bin", "0", "8", "own folder"},
               {"side//w.bin", "0", "8", "own folder"},
               {"side/w.bin", "0", "4", "external data of 4 bytes"},
               {"side/w.bin", "12", "8", "wants 8 bytes from offset 12"},
               {"side/w.bin", "9223372036854775807", "8", "wants 8 bytes"},
               {"side/w.bin", "-1", "8", "no size"},
               {"other.bin", "0", "8", "no such file"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    base_text g = message();
    put_external(&g, "a", cases[i].location, cases[i].offset, cases[i].length);
    put_output(&g, "a");
    base_text m = model_of(&g, NULL);
    base_arena *arena = base_arena_new(&base_libc_allocator);
    ir_graph *graph;
    td_error err;
    int opened = 0;
    assert_int_equal(import_bytes(m.at, m.length, open_side_file, &opened, arena, &graph, &err), TD_BAD_FILE);
    if (!strstr(err.text, cases[i].error)) fail_msg("%s: %s", cases[i].location, err.text);
    base_arena_free(arena);
    base_text_free(&m);
  }
}

/* Names that are none: each such size is one of its own. */
static void sizes_without_a_name(void **state) {
  (void)state;
  base_text g = message();
  put_input(&g, "x", DIMS(-2, -3, -3, -4));
  put_input(&g, "b", DIMS(-4));
  put_node(&g, "Add", "", "x,b", "y");
  put_output(&g, "y");
  base_text m = model_of(&g, NULL);
  expect_text(&m,
              "input %0 \"x\": f32[batch, \"x.1\", \"x.2\", \"x.3\"]\n"
              "input %1 \"b\": f32[\"b.0\"]\n"
              "%2 = aten::add(%0, %1): f32[batch, \"x.1\", \"x.2\", bcast(\"b.0\", \"x.3\")]  # \"Add_0 (Add)\"\n"
              "output \"y\" %2\n");
}

/* torch.onnx notes the modules around a node: they stand in front of its name, unless that is a path already. */
static void modules_of_nodes(void **state) {
  (void)state;
  static const struct {
    const char *name, *scopes, *origin;
  } rows[] = {
      {"node_linear", "['', 'enc', 'enc.0', 'linear']", "enc.0/node_linear (Relu)"},
      {"node_add", "['', 'add']", "node_add (Relu)"},
      {"/enc/Relu", "['', 'enc', 'relu']", "/enc/Relu (Relu)"},
      {"node", "[\"it's\", 'relu']", "it's/node (Relu)"},
      {"node", "['open", "node (Relu)"},
      {"node", "", "node (Relu)"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    base_text g = message(), extra = message(), other = message(), entry = message();
    fmt_put_str(&other, 1, "namespace");
    fmt_put_str(&other, 2, "['a', 'b', 'c']");
    put(&extra, 9, &other);
    fmt_put_str(&entry, 1, "pkg.torch.onnx.name_scopes");
    fmt_put_str(&entry, 2, rows[i].scopes);
    put(&extra, 9, &entry);
    put_input(&g, "x", DIMS(2));
    put_node_as(&g, 1, "", "Relu", rows[i].name, "x", "y", &extra);
    put_output(&g, "y");
    base_text m = model_of(&g, NULL);
    char text[256];
    snprintf(text, sizeof text, "input %%0 \"x\": f32[2]\n%%1 = aten::relu(%%0): f32[2]  # \"%s\"\noutput \"y\" %%1\n",
             rows[i].origin);
    expect_text(&m, text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chain_of_two),          cmocka_unit_test(unsorted),
      cmocka_unit_test(open_inputs),           cmocka_unit_test(overridable_default),
      cmocka_unit_test(constants_are_views),   cmocka_unit_test(listed_weights_are_constants),
      cmocka_unit_test(sparse_initializers),   cmocka_unit_test(constant_forms),
      cmocka_unit_test(functions_are_inlined), cmocka_unit_test(external_data),
      cmocka_unit_test(bad_external_data),     cmocka_unit_test(sizes_without_a_name),
      cmocka_unit_test(modules_of_nodes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
