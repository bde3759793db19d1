/* test_ir_text.c -- the text form: what is printed parses back to what prints the same; what is wrong is refused. */
#include "test.h"

#include <dirent.h>
#include <stdio.h>

#include "ops/ops.h"

static float weights[64];
static const ir_segment segments[] = {{"w.bin", weights, sizeof weights}};

static td_status parse(base_arena *arena, const char *text, size_t length, ir_graph **graph, td_error *err) {
  *err = (td_error){0};
  return ir_parse(&base_libc_allocator, ops_set(arena), text, length, segments, 1, graph, err);
}

static char *print(base_arena *arena, const ir_graph *graph) {
  base_text text = {.allocator = &base_libc_allocator};
  assert_int_equal(ir_print(graph, &text), TD_OK);
  char *copy = base_arena_text(arena, text.at ? text.at : "");
  base_text_free(&text);
  return copy;
}

/* Every feature, as it is printed. */
static const char features[] =
    "const %6 \"default of x\": f32[2] = {1, 2.5}\n"
    "input %0 \"x\": f32[n] = %6\n"
    "input %1 \"odd \\\"name\\\" \\\\ \\u0001 \xc3\xa9\": i64[\"a b\", 3, $u7, mul(2, n), bcast(m, n)]\n"
    "input %2: list(f32[...])\n"
    "input %3 \"o\": optional(list(i64[2]))\n"
    "input %4 \"c\": bool[]\n"
    "input %5 \"image\": f32[1, 1, 8, 8]\n"
    "const %7: f32[3] = {nan, inf, -inf}\n"
    "const %8: f32[2, 32] = @0+0\n"
    "const %9: f32[4, 7] = @0+4 strides [1, 8]\n"
    "const %10 \"text\": string[3] = {\"a\\\"b\", \"\", \"\\u0000x\"}\n"
    "const %11: i64[2] = {-9223372036854775808, 9223372036854775807}\n"
    "const %12: u64[1] = {18446744073709551615}\n"
    "const %13: f64[2] = {0.10000000000000001, 4.9406564584124654e-324}\n"
    "const %14: i4[3] = {-8, 7, 1}\n"
    "const %15: bf16[2] = {1.5, -0}\n"
    "const %16: f32[0, 4] = {}\n"
    "const %17: f32[1, 1, 1, 1] = {2}\n"
    "const %18: i64[] = {3}\n"
    "const %19: bool[] = {1}\n"
    "%20 = td::list_new(%7, %8, %9, %10, %11, %12, %13, %14, %15, %16) {dtype = f16}: list(f32[...])\n"
    "%21 = aten::convolution(%5, %17, -) {stride = [2, 2], padding = [], dilation = [], auto_pad = \"\", transposed = "
    "false, output_padding = [], groups = 1, output_size = []}: f32[1, 1, 4, 4]  # \"/a (Conv)\" \"with "
    "\\\"quotes\\\"\"\n"
    "%22, %23 = aten::topk(%0, %18) {dim = -1, largest = 1, sorted = 1}: f32[3], i64[3]\n"
    "%24 = aten::leaky_relu(%0) {negative_slope = 0.01}: f32[n]\n"
    "%25 = aten::nonzero(%0): i64[$u0, 1]\n"
    "%26, %27 = prim::Loop(%18, -, %0, %20): f32[n], list(f32[...]) {  # \"loop\"\n"
    "  block(%28: i64[], %29: f32[n], %30: list(f32[...])) {\n"
    "    %31 = prim::If(%4): f32[n] {\n"
    "      block() {\n"
    "        %32 = prim::Loop(-, %4, %29): f32[n] {\n"
    "          block(%33: i64[], %34: f32[n]) {\n"
    "            yield %4, %34\n"
    "          }\n"
    "        }\n"
    "        yield %32\n"
    "      }\n"
    "      block() {\n"
    "        %35 = aten::relu(%29): f32[n]  # \"relu\"\n"
    "        yield %35\n"
    "      }\n"
    "    }\n"
    "    %36 = aten::append(%30, %31): list(f32[...])\n"
    "    yield %19, %31, %36\n"
    "  }\n"
    "}\n"
    "output \"y\" %26\n"
    "output \"the same\" %26\n"
    "output \"constant\" %18\n";

static const char states[] =
    "const %5: f32[2, 0] = {}\n"
    "const %6: f32[1] = {1}\n"
    "const %7: f32[2] = {2, 3}\n"
    "const %8: i64[] = {4}\n"
    "input %0 \"x\": f32[2, n]\n"
    "state %1 \"cache\": f32[2, past] = %5\n"
    "state %2 \"seen\": list(f32[...]) = [%6, %7]\n"
    "state %3 \"last\": optional(f32[...]) = -\n"
    "state %4 \"count\": i64[] = %8\n"
    "%9 = aten::cat(%1, %0) {dim = 1}: f32[2, add(n, past)]\n"
    "output \"y\" %9\n"
    "store %1 = %9\n"
    "store %3 = %0\n";

/* Types of the host, and what is asked of sizes. */
static const char hosted[] =
    "input %0 \"t\": tuple(f32[2], int, tuple())\n"
    "input %1 \"named\": tuple(\"x\": float, \"y\": list(str))\n"
    "input %2 \"d\": dict(str, f32[...])\n"
    "input %3 \"o\": class \"m.Box\"(\"low\": bool, \"next\": optional(none))\n"
    "input %4 \"e\": class \"m.Empty\"()\n"
    "input %5 \"x\": bool[n, m]\n"
    "%6 = prim::fork(): future(tuple(i64[], bool[n, m])) {\n"
    "  block() {\n"
    "    %7 = aten::sym_numel(%5): i64[]\n"
    "    yield %7, %5\n"
    "  }\n"
    "}\n"
    "output \"y\" %0\n"
    "guard 4 <= n \"n must be at least 4\"\n"
    "guard mul(2, n) == m \"m is twice \\\"n\\\"\"\n"
    "guard n != 9 \"not 9\"\n";

static const char pairs[] = "input %0 \"x\": f64[n, 2]\noutput \"y\" %0\noutput \"z\" %0 complex\n";

/* Parses `text` and what that prints: the two print the same. Gives it. */
static char *round_trip(base_arena *arena, const char *text) {
  ir_graph *first, *second;
  td_error err;
  if (parse(arena, text, strlen(text), &first, &err) != TD_OK)
    fail_msg("%s at: %.60s", err.text, err.offset >= 0 ? text + err.offset : "");
  char *printed = print(arena, first);
  if (parse(arena, printed, strlen(printed), &second, &err) != TD_OK)
    fail_msg("again: %s at: %.60s", err.text, err.offset >= 0 ? printed + err.offset : "");
  assert_string_equal(print(arena, second), printed);
  ir_graph_free(first);
  ir_graph_free(second);
  return printed;
}

static void every_feature(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  assert_string_equal(round_trip(arena, features), features);
  assert_string_equal(round_trip(arena, states), states);
  assert_string_equal(round_trip(arena, hosted), hosted);
  assert_string_equal(round_trip(arena, pairs), pairs);
  assert_string_equal(round_trip(arena, ""), "");
  base_arena_free(arena);
}

/* Types and spaces may be left out, names of values are free. */
static void loose_text(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  assert_string_equal(round_trip(arena, "input %x :f32[n,2] %y=aten::add(%x,%x)\n\n output \"y\"%y"),
                      "input %0: f32[n, 2]\n%1 = aten::add(%0, %0): f32[n, 2]\noutput \"y\" %1\n");
  base_arena_free(arena);
}

static void cut_text(const char *text, size_t size) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const ir_opset *ops = ops_set(arena);
  for (size_t length = 0; length < size; length++) {
    char *exact = malloc(length + 1); /* as large as the text: a sanitizer sees any read past it */
    ir_graph *graph = NULL;
    td_error err = {0};
    memcpy(exact, text, length);
    td_status status = ir_parse(&base_libc_allocator, ops, exact, length, segments, 1, &graph, &err);
    assert_int_equal(status == TD_OK, graph != NULL);
    if (status != TD_OK && (status != TD_BAD_FILE || !err.text[0] || err.offset > (int64_t)length))
      fail_msg("cut at %d: status %d, offset %d", (int)length, (int)status, (int)err.offset);
    ir_graph_free(graph);
    free(exact);
  }
  base_arena_free(arena);
}

static void cut_anywhere(void **state) {
  (void)state;
  cut_text(features, sizeof features);
  cut_text(states, sizeof states);
  cut_text(hosted, sizeof hosted);
  cut_text(pairs, sizeof pairs);
}

static const char inner_value_in_sibling[] =
    "input %0: bool[]\n%1 = prim::If(%0): bool[] {\nblock() {\n%2 = aten::logical_not(%0)\n"
    "yield %2\n}\nblock() {\nyield %2\n}\n}";
static const char inner_value_escapes[] =
    "input %0: bool[]\n%1 = prim::If(%0): bool[] {\nblock() {\n%2 = aten::logical_not(%0)\n"
    "yield %2\n}\nblock() {\nyield %0\n}\n}\noutput \"y\" %2";

static void refused(void **state) {
  (void)state;
  static const char *const texts[] = {
      "input %0: f31[2]",
      "input %0: f32",
      "input %0: f32[2",
      "input %0: f32[1,1,1,1,1,1,1,1,1]",
      "input %0: f32[0, 4611686018427387904, 4]",
      "input %0: f32[0, 4294967296]\nconst %1: i64[3] = {0, 4294967296, 4294967296}\n%2 = aten::view(%0, %1)",
      "input %0: f32[]\ninput %0: f32[]",
      "input %0: f32[] = %1",
      "input %0: f32[]\ninput %1: f32[] = %0",
      "const %0: i64[] = {1}\ninput %1: f32[] = %0",
      "state %0: f32[] = -",
      "input %0 \"x\": dict(str)",
      "input %0 \"x\": dict(str, int, int)",
      "input %0 \"x\": tuple",
      "input %0 \"x\": tuple(int, \"a\": int)",
      "input %0 \"x\": class(\"a\": int)",
      "input %0 \"x\": class \"C\"(int)",
      "input %0 \"x\": list(\"a\": int)",
      "input %0: f32[2, n]\noutput \"y\" %0 complex",
      "input %0: i32[2]\noutput \"y\" %0 complex",
      "input %0: f32[...]\noutput \"y\" %0 complex",
      "guard n \"text\"",
      "guard n <= \"text\"",
      "guard n <= 4",
      "state %0 \"s\": f32[]",
      "state %0 \"s\": f32[] = -",
      "const %1: i64[] = {1}\nstate %0 \"s\": f32[] = %1",
      "const %1: f32[] = {1}\nstate %0 \"s\": f32[2] = %1",
      "const %1: f32[] = {1}\nstate %0 \"s\": f32[] = [%1]",
      "const %1: f32[] = {1}\nstate %0 \"s\": list(i64[]) = [%1]",
      "input %1: f32[]\nstate %0 \"s\": f32[] = %1",
      "const %1: f32[] = {1}\ninput %0: f32[]\nstore %0 = %1",
      "const %1: f32[] = {1}\nconst %2: f32[1] = {1}\nstate %0 \"s\": f32[] = %1\nstore %0 = %2",
      "const %1: f32[] = {1}\nstate %0 \"s\": f32[] = %1\nstore %0 = -",
      "const %0: f32[2] = {1}",
      "const %0: f32[2] = {1, 2, 3}",
      "const %0: f32[n] = {1}",
      "const %0: f32[...] = {1}",
      "const %0: f32[2] = {1, x}",
      "const %0: i64[] = {1.5}",
      "const %0: i64[] = {99999999999999999999}",
      "const %0: f32[9000000000000000000, 4] = {1}",
      "const %0: f32[1000000000] = {1}",
      "const %0: list(f32[]) = {1}",
      "const %0: f32[64] = @1+0",
      "const %0: f32[65] = @0+0",
      "const %0: f32[64] = @0+1",
      "const %0: f32[1] = @0+-4",
      "const %0: f32[2] = @0+0 strides [64]",
      "const %0: f32[2] = @0+0 strides [-1]",
      "const %0: f32[2] = @0+0 strides [9223372036854775807]",
      "const %0: f32[1] = @0+9223372036854775807",
      "output \"y\" %0",
      "output \"y\" -",
      "%0 = aten::nothing()",
      "%0 = aten::add(%1, %2)",
      "input %0: f32[]\n%1 = aten::add(%0)",
      "input %0: f32[]\n%1 = aten::add(%0, -)",
      "input %0: f32[]\n%1 = aten::add(%0, %0, %0, %0)",
      "input %0: f32[]\n%0 = aten::neg(%0)",
      "input %0: f32[]\n%1, %1 = aten::neg(%0)",
      "input %0: f32[]\n%1 = aten::neg(%1)",
      "input %0: f32[]\n%1 = aten::neg(%0): f64[]",
      "input %0: f32[]\n%1 = aten::neg(%0): f32[], f32[]",
      "input %0: f32[2]\ninput %1: f32[3]\n%2 = aten::add(%0, %1)",
      "input %0: f32[]\n%1 = aten::leaky_relu(%0) {slope = 1}",
      "input %0: f32[]\n%1 = aten::leaky_relu(%0) {negative_slope = a}",
      "input %0: f32[]\n%1 = aten::_to_copy(%0) {dtype = f31}",
      "input %0: f32[]\n%1 = aten::_to_copy(%0)",
      "input %0: bool[]\n%1 = prim::If(%0): f32[]",
      "input %0: bool[]\n%1 = prim::If(%0): f32[] {\nblock() {\nyield\n}\nblock() {\nyield\n}\n}",
      "input %0: bool[]\n%1 = prim::If(%0) {\nblock() {\nyield %0\n}\n}",
      inner_value_in_sibling,
      "input %0: bool[]\n%1 = prim::If(%0): bool[] {\nblock() {\nyield %0\n}\nblock() {\nyield %1\n}\n}",
      inner_value_escapes,
      "input %0: i64[]\n%1 = prim::Loop(%0, -, %0): i64[] {\nblock(%2: f32[], %3: i64[]) {\nyield %3, %3\n}\n}",
      "input %0: i64[]\n%1 = prim::Loop(%0, -): i64[] {\nblock(%2: i64[], %3: i64[]) {\nyield %3, %3\n}\n}",
      "input %0: i64[]\n%1 = prim::Loop(%0, -, %0): i64[] {\nblock(%2: i64[], %3: i64[]) {\nyield %3, %1\n}\n}",
      "input \"x\": f32[]\nconst \"\\u00\"0000000000000000000000000000000000000000000000000000000000000000000000",
      "input %0: f32[]\n%1, %2 = aten::neg(%0)",
      "what",
      "%",
      "\"",
      "#"};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    ir_graph *graph;
    td_error err;
    td_status status = parse(arena, texts[i], strlen(texts[i]), &graph, &err);
    if (status != TD_BAD_FILE || !err.text[0]) fail_msg("status %d: %s", (int)status, texts[i]);
  }
  base_arena_free(arena);
}

/* Deep nesting is refused, not followed; many quoted words take memory in proportion. */
static void absurd_text(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  base_text text = {.allocator = &base_libc_allocator};
  ir_graph *graph = NULL;
  td_error err;
  base_text_print(&text, "input %%0: ");
  for (int i = 0; i < 10000; i++) base_text_print(&text, "list(");
  assert_int_equal(parse(arena, text.at, text.length, &graph, &err), TD_BAD_FILE);
  text.length = 0;
  base_text_print(&text, "input %%c: bool[]\n");
  for (int i = 0; i < 10000; i++) base_text_print(&text, "prim::If(%%c) {\nblock() {\n");
  assert_int_equal(parse(arena, text.at, text.length, &graph, &err), TD_BAD_FILE);
  text.length = 0;
  for (int i = 0; i < 10000; i++) base_text_print(&text, "input %%%d \"x%d\": f32[]\n", i, i);
  base_counting counting = {.inner = &base_libc_allocator};
  td_allocator allocator = base_counting_allocator(&counting);
  assert_int_equal(ir_parse(&allocator, ops_set(arena), text.at, text.length, NULL, 0, &graph, &err), TD_OK);
  assert_true(counting.peak_bytes < 100 * text.length);
  ir_graph_free(graph);
  base_text_free(&text);
  base_arena_free(arena);
}

/* ---- graphs of real models, where the recorded cases are installed ---- */

static void round_trip_model(const char *path) {
  td_load_options options = {.size = sizeof options, .backend = "eager"};
  td_model *model;
  td_error err;
  char *text;
  if (td_model_load(path, &options, &model, &err) != TD_OK) return; /* what is not supported is not this test's */
  assert_int_equal(td_model_print(model, "imported", "text", &text, &err), TD_OK);
  if (!strstr(text, " = @")) { /* weights in a segment cannot be parsed without the file */
    base_arena *arena = base_arena_new(&base_libc_allocator);
    assert_string_equal(round_trip(arena, text), text);
    base_arena_free(arena);
  }
  td_text_free(model, text);
  td_model_free(model);
}

static void round_trip_folder(const char *folder) {
  DIR *dir = opendir(folder);
  char path[1024];
  for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
    const char *dot = strrchr(entry->d_name, '.');
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, dot && strcmp(dot, ".onnx") == 0 ? "%s/%s" : "%s/%s/model.onnx", folder, entry->d_name);
    round_trip_model(path);
  }
  if (dir) closedir(dir);
}

static void real_models(void **state) {
  (void)state;
  round_trip_folder("tests/fuzz/corpus/onnx");
  round_trip_folder("/usr/share/libonnx-testdata/data/simple");
  round_trip_folder("/usr/share/libonnx-testdata/data/pytorch-operator");
}

/* What no file holds is printed whole for a parser, and in part for people. */
static void long_constants(void **state) {
  (void)state;
  base_arena *arena = base_arena_new(&base_libc_allocator);
  float *ones = base_new(arena, float, 1000);
  ir_graph *graph = ir_graph_new(&base_libc_allocator, ops_set(arena));
  base_text brief = {.allocator = &base_libc_allocator};
  ir_value value;
  td_error err;
  for (int i = 0; i < 1000; i++) ones[i] = 1;
  base_tensor t = base_tensor_of(ones, TD_F32, 1, &(int64_t){1000});
  assert_int_equal(ir_add_constant(graph, &t, NULL, &value, &err), TD_OK);
  assert_int_equal(ir_add_output(graph, value, "y", &err), TD_OK);
  assert_true(strlen(print(arena, graph)) > 3000);
  assert_int_equal(ir_print_brief(graph, &brief), TD_OK);
  assert_non_null(strstr(brief.at, "const %0: f32[1000] = {1, 1, "));
  assert_non_null(strstr(brief.at, "1, 1, ...}\noutput \"y\" %0\n"));
  assert_true(strlen(brief.at) < 300);
  base_text_free(&brief);
  ir_graph_free(graph);
  base_arena_free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_feature), cmocka_unit_test(loose_text),
                                     cmocka_unit_test(cut_anywhere),  cmocka_unit_test(refused),
                                     cmocka_unit_test(absurd_text),   cmocka_unit_test(real_models),
                                     cmocka_unit_test(long_constants)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
