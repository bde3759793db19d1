/* test_onnx_hostile.c -- files that are damaged or made to hurt: each is refused with a message that says where. */
#include "import/onnx_build.h"

static base_text two_adds(const char *first_out, const char *second_in, const char *second_out) {
  base_text g = message();
  put_input(&g, "x", DIMS(2));
  put_node(&g, "Add", "one", "x,x", first_out);
  put_node(&g, "Add", "two", second_in, second_out);
  put_output(&g, "y");
  return model_of(&g, NULL);
}

static void bad_names(void **state) {
  (void)state;
  base_text m = two_adds("y", "x,x", "y");
  expect_error(&m, TD_BAD_FILE, "node two (Add)", "\"y\" is defined twice");
  m = two_adds("x", "s,s", "y");
  expect_error(&m, TD_BAD_FILE, "node one (Add)", "\"x\" is defined twice");
  m = two_adds("s", "x,missing", "y");
  expect_error(&m, TD_BAD_FILE, "node two (Add)", "\"missing\" is not defined");
  m = two_adds("s", "x,s", "z");
  expect_error(&m, TD_BAD_FILE, "output y", "defines the output");
  m = two_adds("s", "x,y", "y");
  expect_error(&m, TD_BAD_FILE, "node two (Add)", "cycle");
  m = two_adds("s", "x", "y");
  expect_error(&m, TD_BAD_FILE, "node two (Add)", "aten::add");
}

static void cycle(void **state) {
  (void)state;
  base_text g = message();
  put_node(&g, "Add", "a", "q,q", "p");
  put_node(&g, "Add", "b", "p,p", "q");
  put_output(&g, "q");
  base_text m = model_of(&g, NULL);
  expect_error(&m, TD_BAD_FILE, "node ", "cycle");
}

static void all_unsupported_at_once(void **state) {
  (void)state;
  base_text g = message();
  put_input(&g, "x", DIMS(2));
  for (int i = 0; i < 5; i++) put_node(&g, "Foo", i ? "" : "/a/b", "x", "");
  put_node_as(&g, 1, "ai.onnx.ml", "Scaler", "scale", "x", "", NULL);
  put_node(&g, "RegexFullMatch", "match", "x", "y");
  put_output(&g, "y");
  base_text m = model_of(&g, NULL);
  expect_error(
      &m, TD_UNSUPPORTED, "net.onnx",
      "3 operators are not supported: Foo-17 (5 nodes, first /a/b), Scaler of ai.onnx.ml (1 node, first scale; "
      "classical machine learning is not supported), RegexFullMatch-17 (1 node, first match; operators on "
      "strings are not supported)");
}

static void put_cast(base_text *graph, const char *name, const char *in, const char *out, int64_t to) {
  base_text attrs = message();
  put_attr_int(&attrs, "to", to);
  put_node_as(graph, 1, "", "Cast", name, in, out, &attrs);
}

/* What a lowering refuses is collected too; nodes that need a refused one are not, branches are looked into. */
static void all_refusals_at_once(void **state) {
  (void)state;
  base_text g = message(), branch = message(), other = message(), attrs = message();
  put_input(&g, "x", DIMS(2));
  put_value_as(&g, 11, "c", 9, 0, NULL);
  put_cast(&g, "one", "x", "a", 14);
  put_node(&g, "Add", "uses it", "a,a", "b");
  put_cast(&g, "lost", "b", "d", 14);
  put_cast(&g, "two", "x", "e", 14);
  put_cast(&branch, "three", "x", "f", 15);
  put_output(&branch, "f");
  put_node(&other, "Identity", "", "x", "h");
  put_output(&other, "h");
  put_attr_graph(&attrs, "then_branch", &branch);
  put_attr_graph(&attrs, "else_branch", &other);
  put_node_as(&g, 1, "", "If", "choose", "c", "y", &attrs);
  put_node(&g, "Add", "", "y,d", "z");
  put_output(&g, "z");
  base_text m = model_of(&g, NULL);
  expect_error(&m, TD_UNSUPPORTED, "net.onnx",
               "2 operators are not supported: Cast-17 (2 nodes, first one; the element type 14 is not supported), "
               "Cast-17 (1 node, first three; the element type 15 is not supported)");
}

static void put_function(base_text *all, const char *name, const char *calls) {
  base_text f = message();
  fmt_put_str(&f, 1, name);
  put_names(&f, 4, "v");
  put_names(&f, 5, "r");
  put_node_as(&f, 7, "local", calls, "", "v", "h", NULL);
  put_node_as(&f, 7, "local", calls, "", "h", "r", NULL);
  fmt_put_str(&f, 10, "local");
  put_opset(&f, 9, "local", 1);
  put(all, 25, &f);
}

static base_text call_model(const char *function, base_text *functions) {
  base_text g = message();
  put_input(&g, "x", DIMS(2));
  put_node_as(&g, 1, "local", function, "call", "x", "y", NULL);
  put_output(&g, "y");
  return model_of(&g, functions);
}

static void recursion(void **state) {
  (void)state;
  base_text functions = message();
  put_function(&functions, "Ping", "Pong");
  put_function(&functions, "Pong", "Ping");
  base_text m = call_model("Ping", &functions);
  expect_error(&m, TD_BAD_FILE, "net.onnx", "calls itself");
}

/* Each function calls the next one twice: 2^40 nodes from a small file. */
static void exponential_calls(void **state) {
  (void)state;
  base_text functions = message();
  char names[42][16];
  for (int i = 0; i < 42; i++) snprintf(names[i], sizeof names[i], "F%d", i);
  for (int i = 0; i < 41; i++) put_function(&functions, names[i], names[i + 1]);
  base_text last = message();
  fmt_put_str(&last, 1, names[41]);
  put_names(&last, 4, "v");
  put_names(&last, 5, "r");
  put_node_as(&last, 7, "", "Add", "", "v,v", "r", NULL);
  fmt_put_str(&last, 10, "local");
  put(&functions, 25, &last);
  base_text m = call_model("F0", &functions);
  expect_error(&m, TD_NO_RESOURCE, "", "asks for more than");
}

/* Graphs within graphs, deeper than any model needs. */
static void nesting(void **state) {
  (void)state;
  base_text g = message();
  put_output(&g, "x");
  for (int i = 0; i < 200; i++) {
    base_text attrs = message(), outer = message();
    put_attr_graph(&attrs, "then_branch", &g);
    put_node_as(&outer, 1, "", "If", "", "c", "x", &attrs);
    g = outer;
  }
  base_text m = model_of(&g, NULL);
  expect_error(&m, TD_BAD_FILE, "net.onnx", "nested too deep");
}

static void put_dims_tensor(base_text *graph, int64_t element, uint32_t rank, const int64_t *dims) {
  base_text t = message();
  for (uint32_t i = 0; i < rank; i++) fmt_put_int(&t, 1, dims[i]);
  fmt_put_int(&t, 2, element);
  fmt_put_str(&t, 8, "w");
  put(graph, 5, &t);
}

static void bad_tensors(void **state) {
  (void)state;
  static const struct {
    int64_t element;
    uint32_t rank;
    int64_t dims[9];
    td_status status;
  } cases[] = {{1, 2, {INT64_MAX, 4}, TD_BAD_FILE},
               {1, 3, {INT64_MAX, INT64_MAX, 0}, TD_BAD_FILE},
               {1, 1, {-1}, TD_BAD_FILE},
               {1, 1, {1000000}, TD_BAD_FILE},
               {14, 1, {1}, TD_UNSUPPORTED},
               {99, 1, {1}, TD_UNSUPPORTED},
               {0, 1, {1}, TD_BAD_FILE},
               {1, 9, {1, 1, 1, 1, 1, 1, 1, 1, 1}, TD_UNSUPPORTED}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    base_text g = message();
    put_dims_tensor(&g, cases[i].element, cases[i].rank, cases[i].dims);
    put_output(&g, "w");
    base_text m = model_of(&g, NULL);
    expect_error(&m, cases[i].status, "", "");
  }
}

/* A sparse tensor of a few bytes that would take the machine's memory. */
static void huge_sparse(void **state) {
  (void)state;
  base_text g = message(), s = message(), values = float_tensor("w", 0, NULL);
  put(&s, 1, &values);
  for (int i = 0; i < 2; i++) fmt_put_int(&s, 3, 1 << 20);
  put(&g, 15, &s);
  put_output(&g, "w");
  base_text m = model_of(&g, NULL);
  expect_error(&m, TD_BAD_FILE, "net.onnx", "too large for a file of this size");
}

static void bad_attributes(void **state) {
  (void)state;
  base_text g = message(), attrs = message();
  put_input(&g, "x", DIMS(2));
  put_attr_int(&attrs, "surprise", 1);
  put_node_as(&g, 1, "", "Add", "odd", "x,x", "y", &attrs);
  put_output(&g, "y");
  base_text m = model_of(&g, NULL);
  expect_error(&m, TD_BAD_FILE, "node odd (Add)", "no attribute \"surprise\"");
  g = message(), attrs = message();
  put_attr_int(&attrs, "value_float", 1);
  put_node_as(&g, 1, "", "Constant", "c", "", "y", &attrs);
  put_output(&g, "y");
  m = model_of(&g, NULL);
  expect_error(&m, TD_BAD_FILE, "node c (Constant)", "must be a float and is an integer");
}

static void not_a_model(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  import_source source = {.bytes = "PK\3\4", .size = 4};
  ir_graph *graph = NULL;
  td_error err = {0};
  assert_int_equal(import_model(&source, ops_set(arena), &base_libc_allocator, &graph, &err), TD_BAD_FILE);
  assert_non_null(strstr(err.text, "no model"));
  source.size = 0;
  assert_int_equal(import_model(&source, ops_set(arena), &base_libc_allocator, &graph, &err), TD_BAD_FILE);
  assert_non_null(strstr(err.text, "empty"));
  source.format = "nonsense";
  assert_int_equal(import_model(&source, ops_set(arena), &base_libc_allocator, &graph, &err), TD_BAD_ARGUMENT);
  assert_null(graph);
  base_arena_free(arena);
}

/* A model that uses most of the format: functions, a loop, sparse and dense tensors, constants. */
static base_text rich_model(void) {
  base_text g = message(), body = message(), attrs = message(), functions = message(), value = message(), f = message();
  put_value_as(&body, 11, "i", 7, 0, NULL);
  put_value_as(&body, 11, "go", 9, 0, NULL);
  put_input(&body, "v", DIMS(2));
  put_node_as(&body, 1, "local", "F", "", "v", "w", NULL);
  put_output(&body, "go");
  put_output(&body, "w");
  put_attr_graph(&attrs, "body", &body);
  put_input(&g, "x", DIMS(2));
  put_floats(&g, "k", 2, (float[]){1, 2});
  put_attr_int(&value, "value_int", 3);
  put_node_as(&g, 1, "", "Constant", "", "", "n", &value);
  put_node(&g, "Add", "add", "x,k", "s");
  put_node_as(&g, 1, "", "Loop", "loop", "n,,s", "y", &attrs);
  put_output(&g, "y");
  fmt_put_str(&f, 1, "F");
  put_names(&f, 4, "v");
  put_names(&f, 5, "r");
  put_node_as(&f, 7, "", "Mul", "", "v,v", "r", NULL);
  fmt_put_str(&f, 10, "local");
  put(&functions, 25, &f);
  return model_of(&g, &functions);
}

/* Every prefix, and every byte changed: an answer each time, and nothing leaks (the allocator counts). */
static void damage(void **state) {
  (void)state;
  base_text m = rich_model();
  base_counting counting = {.inner = &base_libc_allocator};
  td_allocator allocator = base_counting_allocator(&counting);
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const ir_opset *ops = ops_set(arena);
  uint8_t *copy = base_alloc(&base_libc_allocator, m.length);
  import_source source = {.bytes = copy, .file = "net.onnx", .format = "onnx"};
  assert_non_null(copy);
  for (size_t i = 0; i <= m.length; i++) {
    for (int flip = 0; flip < 3; flip++) {
      static const uint8_t masks[] = {0, 1, 0x80};
      ir_graph *graph = NULL;
      td_error err = {0};
      memcpy(copy, m.at, m.length);
      if (flip && i == m.length) continue;
      if (flip) copy[i] ^= masks[flip];
      source.size = flip ? m.length : i;
      td_status status = import_model(&source, ops, &allocator, &graph, &err);
      if (status != TD_OK) assert_true(err.text[0] && err.code == status);
      if (!flip) assert_int_equal(status == TD_OK, i == m.length);
      ir_graph_free(graph);
    }
  }
  assert_int_equal(counting.live, 0);
  base_free(&base_libc_allocator, copy, m.length);
  base_arena_free(arena);
  base_text_free(&m);
}

static void no_memory(void **state) {
  (void)state;
  base_text m = rich_model();
  import_without_memory(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_names),
      cmocka_unit_test(cycle),
      cmocka_unit_test(recursion),
      cmocka_unit_test(all_refusals_at_once),
      cmocka_unit_test(all_unsupported_at_once),
      cmocka_unit_test(exponential_calls),
      cmocka_unit_test(nesting),
      cmocka_unit_test(bad_tensors),
      cmocka_unit_test(huge_sparse),
      cmocka_unit_test(bad_attributes),
      cmocka_unit_test(not_a_model),
      cmocka_unit_test(damage),
      cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
