/* What the command gives a model: pictures in the form of the input, sizes by name, names that must be known, sounds.
 */
#include <zlib.h>

#include "cli/fixture.h"
#include "import/pt2_build.h"

static void put_chunk(base_text *png, const char *kind, const void *bytes, size_t count) {
  base_text chunk = {.allocator = &base_libc_allocator};
  base_text_add(&chunk, kind, 4);
  base_text_add(&chunk, bytes, count);
  const uint32_t sum = (uint32_t)crc32(0, (const Bytef *)chunk.at, (uInt)chunk.length);
  const uint8_t length[4] = {0, 0, (uint8_t)(count >> 8), (uint8_t)count};
  const uint8_t end[4] = {(uint8_t)(sum >> 24), (uint8_t)(sum >> 16), (uint8_t)(sum >> 8), (uint8_t)sum};
  base_text_add(png, (const char *)length, 4);
  base_text_add(png, chunk.at, chunk.length);
  base_text_add(png, (const char *)end, 4);
  base_text_free(&chunk);
}

/* A PNG file of one colour. */
static void save_png(const char *path, uint8_t width, uint8_t height, const uint8_t *rgb) {
  base_text rows = {.allocator = &base_libc_allocator}, png = rows;
  for (uint8_t y = 0; y < height; y++) {
    base_text_add(&rows, "", 1);
    for (uint8_t x = 0; x < width; x++) base_text_add(&rows, (const char *)rgb, 3);
  }
  uint8_t packed[4096];
  uLongf count = sizeof packed;
  assert_int_equal(compress(packed, &count, (const Bytef *)rows.at, rows.length), Z_OK);
  const uint8_t header[13] = {0, 0, 0, width, 0, 0, 0, height, 8, 2};
  base_text_add(&png, "\x89PNG\r\n\x1a\n", 8);
  put_chunk(&png, "IHDR", header, sizeof header);
  put_chunk(&png, "IDAT", packed, count);
  put_chunk(&png, "IEND", "", 0);
  save(path, &png);
  base_text_free(&rows);
  base_text_free(&png);
}

typedef struct row {
  int status;
  const char *arguments, *says; /* in the output, or the error */
} row;

static void run_rows(fixture *f, const row *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    outcome got = run(f, rows[i].arguments);
    if (got.status != rows[i].status) fail_msg("%s: status %d: %s", rows[i].arguments, got.status, got.err);
    assert_holds(got.status ? got.err : got.out, rows[i].says);
  }
}
#define RUN_ROWS(f, rows) run_rows((f), (rows), sizeof(rows) / sizeof *(rows))

static void pictures_become_what_the_input_is(void **state) {
  fixture *f = *state;
  save_png("a.png", 20, 10, (const uint8_t[]){255, 51, 0});
  save_png("b.png", 6, 8, (const uint8_t[]){0, 0, 255});
  save_text("large.tdir", "tdir 1\ninput %0 \"x\": f32[1, 3, 32, 16]\n%1 = aten::neg(%0)\noutput \"y\" %1\n");
  save_text("open.tdir", "tdir 1\ninput %0 \"x\": f32[n, 3, h, w]\n%1 = aten::neg(%0)\noutput \"y\" %1\n");
  save_text("bytes.tdir", "tdir 1\ninput %0 \"x\": u8[1, h, w, 3]\n%1 = aten::bitwise_not(%0)\noutput \"y\" %1\n");
  save_text("gray.tdir", "tdir 1\ninput %0 \"x\": f32[1, 1, 4, 4]\n%1 = aten::neg(%0)\noutput \"y\" %1\n");
  save_text("list.tdir", "tdir 1\ninput %0 \"images\": list(f32[...])\noutput \"y\" %0\n");
  static const row rows[] = {
      {0, "run large.tdir --input a.png", "y f32[1,3,32,16]"},
      {0, "run large.tdir --input a.png --preprocess raw", "min -1, mean -0.4, max -0:"},
      {0, "run open.tdir --input a.png", "y f32[1,3,224,224]"},
      {0, "run open.tdir --input a.png --shape x=1x3x8x8", "y f32[1,3,8,8]"},
      {0, "run open.tdir --input a.png --preprocess raw", "y f32[1,3,10,20]"},
      {0, "run bytes.tdir --input a.png --preprocess raw", "y u8[1,10,20,3], min 0, mean 153, max 255: 0 204 255"},
      {2, "run bytes.tdir --input a.png", "this input needs raw"},
      {0, "run gray.tdir --input a.png --preprocess raw", "y f32[1,1,4,4], min -0.415686"},
      {0, "run list.tdir --input a.png --input images=b.png --preprocess raw",
       "y_0 f32[3,10,20], min 0, mean 0.4, max 1"},
      {0, "run list.tdir --input images=a.png --input images=b.png --preprocess raw", "y_1 f32[3,8,6]"},
      {2, "run large.tdir --input x=a.png --input x=b.png", "is given twice"},
  };
  RUN_ROWS(f, rows);
}

static void sizes_by_name(void **state) {
  fixture *f = *state;
  save_text("net.tdir",
            "tdir 1\ninput %0 \"x\": f32[batch, seq]\ninput %1 \"mask\": f32[batch, seq]\n%2 = aten::add(%0, %1)\n"
            "output \"y\" %2\n");
  static const row rows[] = {
      {0, "run net.tdir --shape seq=24", "y f32[1,24]"},
      {0, "run net.tdir --shape seq=24 --shape batch=3", "y f32[3,24]"},
      {0, "run net.tdir --shape batch=3 --shape x=3x5", "y f32[3,5]"},
      {0, "bench net.tdir --shape seq=24 --min-time 0 --json", "\"throughput\""},
      {2, "run net.tdir --shape sek=24", "there is no input called sek"},
      {2, "run net.tdir --shape seq=2x4", "there is no input called seq"},
      {2, "run net.tdir --shape x=3x5 --input x=3x6:f32:0", "has its shape already"},
  };
  RUN_ROWS(f, rows);
  assert_holds(run(f, "run net.tdir --shape seq=24").err, "input mask: random f32[1,24]");
}

/* TorchScript files say no shapes: what --shape names must be an argument, not one more input of random numbers. */
static void names_are_arguments(void **state) {
  fixture *f = *state;
  const char *model = base_arena_format(f->arena, "%s/tests/models/torchscript/forks/model.pt", f->start);
  static const row rows[] = {
      {0, "--shape x=Nx3 --shape N=7", "f32[7,3]"},
      {0, "--shape N=7 --shape x=Nx3", "f32[7,3]"},
      {2, "--shape picture=2x3", "picture: the method has no such argument; it has: x"},
      {2, "--shape x=2x3 --shape y=2x3", "y: the method has no such argument; it has: x"},
      {2, "--input y=2x3:f32:1", "y: the method has no such argument; it has: x"},
      {2, "--shape x=Nx3 --shape M=7", "M: the method has no such argument"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    row one = rows[i];
    one.arguments = base_arena_format(f->arena, "run %s %s", model, rows[i].arguments);
    run_rows(f, &one, 1);
  }
}

static void rates_of_sounds(void **state) {
  fixture *f = *state;
  /* RIFF WAVE, PCM, 1 channel, 8000 Hz, 16 bits: 0, 1/2, -1/2, -1 */
  static const uint8_t wav[] = {'R', 'I', 'F', 'F', 44, 0, 0,  0,  'W', 'A', 'V', 'E', 'f', 'm', 't', ' ', 16, 0,
                                0,   0,   1,   0,   1,  0, 64, 31, 0,   0,   128, 62,  0,   0,   2,   0,   16, 0,
                                'd', 'a', 't', 'a', 8,  0, 0,  0,  0,   0,   0,   64,  0,   192, 0,   128};
  base_text bytes = {.allocator = &base_libc_allocator};
  base_text_add(&bytes, (const char *)wav, sizeof wav);
  save("sound.wav", &bytes);
  base_text_free(&bytes);
  save_text("plain.tdir", "tdir 1\ninput %0 \"x\": f32[n]\n%1 = aten::neg(%0)\noutput \"y\" %1\n");
  save_text("told.tdir",
            "tdir 1\ninput %0 \"x\": f32[n]\ninput %1 \"sr\": i64[]\n%2 = aten::neg(%0)\n%3 = aten::neg(%1)\n"
            "output \"y\" %2\noutput \"r\" %3\n");
  static const row rows[] = {
      {0, "run told.tdir --input x=sound.wav --input sr=:i64:8000", "y f32[4]"},
      {2, "run told.tdir --input x=sound.wav --input sr=:i64:16000",
       "sr: says 16000 samples a second, and the sound has 8000: resample it"},
      {2, "run told.tdir --input sr=:i64:16000 --input x=sound.wav", "and the sound has 8000"},
  };
  RUN_ROWS(f, rows);
  assert_holds(run(f, "run plain.tdir --input sound.wav").err, "the sound has 8000 samples a second");
}

/* Which result is no number, and what of the model or its inputs has been none from the beginning. */
static void results_that_are_no_numbers(void **state) {
  fixture *f = *state;
  save_text("weight.tdir",
            "tdir 1\nconst %0 \"layer.w\": f32[2] = {nan, 1}\ninput %1 \"x\": f32[2]\n%2 = aten::mul(%1, %0)\n"
            "output \"y\" %2\n");
  save_text("log.tdir", "tdir 1\ninput %0 \"x\": f32[2]\n%1 = aten::log(%0)  # \"/log\"\noutput \"y\" %1\n");
  static const struct {
    const char *arguments, *says, *source;
  } rows[] = {
      {"run weight.tdir", "result y holds NaN, in 1 elements", "the weight layer.w holds NaN itself"},
      {"compare weight.tdir", "result y holds NaN, in 1 elements", "the weight layer.w holds NaN itself"},
      {"run log.tdir --input x=2:f32:nan", "result y holds NaN, in 2 elements", "input x holds NaN itself"},
      {"run log.tdir --input x=2:f32:-1", "result y holds NaN", "`treadle compare --check-nan` finds the node"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    outcome got = run(f, rows[i].arguments);
    assert_int_equal(got.status, 0);
    assert_holds(got.err, rows[i].says);
    assert_holds(got.err, rows[i].source);
  }
  assert_null(strstr(run(f, "run log.tdir --input x=2:f32:2").err, "NaN"));
  json_t *root = parse(run(f, "run weight.tdir --json").out);
  assert_int_equal(json_integer_value(json_object_get(json_array_get(json_object_get(root, "outputs"), 0), "nan")), 1);
  json_decref(root);
}

static void shapes_that_do_not_go_together(void **state) {
  fixture *f = *state;
  save_text("fixed.tdir",
            "tdir 1\ninput %0 \"x\": f32[2, 3]\ninput %1 \"z\": f32[4]\n%2 = aten::add(%0, %1)\noutput \"y\" %2\n");
  save_text("open.tdir",
            "tdir 1\ninput %0 \"x\": f32[n, 3]\ninput %1 \"z\": f32[m, 3]\n%2 = aten::add(%0, %1)\noutput \"y\" %2\n");
  save_text("matrix.tdir",
            "tdir 1\ninput %0 \"x\": f32[2, 3, 4]\ninput %1 \"z\": f32[3, 4, 5]\n%2 = aten::matmul(%0, %1)\n"
            "output \"y\" %2\n");
  assert_holds(run(f, "run fixed.tdir").err, "aten::add of f32[2, 3], f32[4]: shapes do not broadcast");
  assert_holds(run(f, "run open.tdir --shape x=2x3 --shape z=4x3").err, "f32[2,3] and f32[4,3]");
  assert_holds(run(f, "run matrix.tdir").err, "f32[2, 3, 4], f32[3, 4, 5]: batch sizes do not broadcast");
}

/* The nodes of a model that does not load, those of bodies too, and which of them are to blame. */
/* They are 256 at most: one more is an error, and is not left out. */
static void more_inputs_than_there_is_room_for(void **state) {
  fixture *f = *state;
  base_text model = {.allocator = &base_libc_allocator}, options = model;
  base_text_print(&model, "tdir 1\n");
  base_text_print(&options, "run many.tdir");
  for (int i = 0; i < 257; i++) {
    base_text_print(&model, "input %%%d \"x%d\": f32[n%d]\n", i, i, i);
    base_text_print(&options, " --shape x%d=2", i);
    if (i != 255) continue;
    base_text most = {.allocator = &base_libc_allocator};
    base_text_add(&most, model.at, model.length);
    base_text_print(&most, "output \"y\" %%255\n");
    save("many.tdir", &most);
    base_text_free(&most);
    assert_int_equal(run(f, options.at).status, 0);
  }
  base_text_print(&model, "output \"y\" %%256\n");
  save("many.tdir", &model);
  const outcome got = run(f, options.at);
  assert_int_equal(got.status, 4);
  assert_holds(got.err, "more than 256 inputs");
  base_text_free(&model);
  base_text_free(&options);
}

static void graphs_with_unknown_operators(void **state) {
  fixture *f = *state;
  base_text graph = {.allocator = &base_libc_allocator}, body = graph, attribute = graph;
  base_text first = node_of("Relu", "first", "x", "a"), odd = node_of("Frobnicate", "odd", "a", "b");
  base_text inner = node_of("Whirl", "inner", "b", "c"), outer = node_of("If", "outer", "b", "y");
  int64_t dims[] = {2};
  put_message(&graph, 1, &first);
  put_message(&graph, 1, &odd);
  put_message(&body, 1, &inner);
  fmt_put_str(&attribute, 1, "then_branch");
  put_message(&attribute, 6, &body);
  put_message(&outer, 5, &attribute);
  put_message(&graph, 1, &outer);
  put_value(&graph, 11, "x", TD_F32, 1, dims);
  put_value(&graph, 12, "y", TD_F32, 1, dims);
  save_model("odd.onnx", &graph);
  const outcome got = run(f, "inspect odd.onnx");
  assert_int_equal(got.status, 4);
  assert_holds(got.out, "a = Relu(x)  # \"first\"\n");
  assert_holds(got.out, "b = Frobnicate(a)  # \"odd\": not supported\n");
  assert_holds(got.out, "y = If(b)  # \"outer\"\n");
  assert_holds(got.out, "  c = Whirl(b)  # \"inner\": not supported\n");
  assert_holds(got.err, "Frobnicate");
  assert_string_equal(run(f, "inspect odd.onnx --json").out, "");
}

/* The same of PyTorch's files: a program as it stands in the archive, and the nodes of an exported one. */
static void programs_with_unknown_operators(void **state) {
  fixture *f = *state;
  const char *path =
      base_arena_format(f->arena, "inspect %s/tests/import/torchscript/missing.pt --shape x=2x3", f->start);
  outcome got = run(f, path);
  assert_int_equal(got.status, 4);
  assert_holds(got.out, "    z = torch.linalg_eigvals(x)  # aten::linalg_eigvals: not supported\n");
  assert_holds(got.out, "    return torch.add(_4, torch.real(z))\n");
  assert_holds(got.err, "aten::linalg_eigvals");

  static const char body[] =
      GRAPH(T("r"), T("w"),
            NODE("torch.ops.mine.whirl.out",
                 ARG("x", "{'as_tensors':[{'name':'r'},{'name':'r'}]}") "," ARG("n", INT(3)), T("w")),
            "");
  char *text = quote(PROGRAM(T("x"), T("y"),
                             NODE("torch.ops.aten.relu.default", ARG("self", T("x")), T("r")) "," NODE(
                                 "torch.ops.higher_order.cond",
                                 ARG("p", "{'as_bool':false}") "," ARG(
                                     "t", "{'as_graph':{'name':'then','graph':%s}}") "," ARG("a", "{'as_none':true}"),
                                 T("y")),
                             VALUE("x", F32, "{'as_int':3}"), USER("x"), RESULT("y"), ""));
  char *inner = quote(body);
  base_text exported = {.allocator = &base_libc_allocator}, archive = exported;
  fmt_zip_writer zip = {.out = &archive, .directory = archive};
  base_text_print(&exported, text, inner);
  assert_int_equal(fmt_zip_add(&zip, "m/archive_format", "pt2", 3, NULL), TD_OK);
  assert_int_equal(fmt_zip_add(&zip, "m/models/model.json", exported.at, exported.length, NULL), TD_OK);
  assert_int_equal(fmt_zip_finish(&zip, NULL), TD_OK);
  save("odd.pt2", &archive);
  got = run(f, "inspect odd.pt2");
  assert_int_equal(got.status, 4);
  assert_holds(got.out, "r = aten::relu(x)  # \"\"\n");
  assert_holds(got.out, "y = cond(False, then, None)  # \"\"\n");
  assert_holds(got.out, "  w = mine::whirl.out([r, r], 3)  # \"\": not supported\n");
  base_text_free(&exported);
  base_text_free(&archive);
  free(inner);
  free(text);
}

/* What was asked for in JSON is one JSON value, whatever the answer. */
static void answers_in_json(void **state) {
  fixture *f = *state;
  save_text("net.tdir", "tdir 1\ninput %0 \"a\": f32[1, 8]\n%1 = aten::neg(%0)  # \"/neg\"\noutput \"y\" %1\n");
  static const struct {
    int status;
    const char *arguments, *key;
  } rows[] = {
      {0, "bisect net.tdir --json", "differs"},
      {1, "bisect net.tdir --inject neg:wrong --json", "kernels"},
      {0, "inspect net.tdir --json", "nodes"},
      {0, "inspect net.tdir --stage plan --json", "steps"},
      {0, "inspect net.tdir --stage loops --json", "text"},
      {0, "inspect net.tdir --stage loops --why --json", "text"},
      {0, "compile net.tdir -o net.tdl --json", "bytes"},
      {0, "repro net.tdir --json", "folder"},
      {0, "minify net.tdir --inject neg:wrong --json", "nodes"},
      {0, "tune b_lines --turns 1 --json", "numbers"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    outcome got = run(f, rows[i].arguments);
    if (got.status != rows[i].status) fail_msg("%s: status %d: %s", rows[i].arguments, got.status, got.err);
    json_t *root = parse(got.out);
    if (!json_object_get(root, rows[i].key)) fail_msg("%s: no %s in:\n%s", rows[i].arguments, rows[i].key, got.out);
    json_decref(root);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pictures_become_what_the_input_is),
      cmocka_unit_test(sizes_by_name),
      cmocka_unit_test(names_are_arguments),
      cmocka_unit_test(rates_of_sounds),
      cmocka_unit_test(results_that_are_no_numbers),
      cmocka_unit_test(shapes_that_do_not_go_together),
      cmocka_unit_test(more_inputs_than_there_is_room_for),
      cmocka_unit_test(graphs_with_unknown_operators),
      cmocka_unit_test(programs_with_unknown_operators),
      cmocka_unit_test(answers_in_json),
  };
  return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
