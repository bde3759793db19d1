/* The command from outside: exit statuses, messages, help, files, JSON. */
#include <zlib.h>

#include "cli/fixture.h"

enum { COLUMNS = 4 };

static const char *const commands[] = {"run", "check", "bench", "roofline", "inspect", "info", "version", "help"};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void test_help(void **state) {
  fixture *f = *state;
  outcome usage = run(f, "help");
  assert_int_equal(usage.status, 0);
  for (size_t i = 0; i < COMMANDS; i++) {
    assert_holds(usage.out, commands[i]);
    outcome one = run(f, base_arena_format(f->arena, "help %s", commands[i]));
    outcome same = run(f, base_arena_format(f->arena, "%s --nothing --help", commands[i]));
    assert_int_equal(one.status, 0);
    assert_holds(one.out, base_arena_format(f->arena, "usage: treadle %s", commands[i]));
    assert_int_equal(same.status, 2);
    same = run(f, base_arena_format(f->arena, "%s --help", commands[i]));
    assert_int_equal(same.status, 0);
    assert_string_equal(same.out, one.out);
  }
  assert_holds(run(f, "help run").out, "examples:\n  treadle run net.onnx\n");
  assert_string_equal(run(f, "--help").out, usage.out);
}

static void test_man_and_completion(void **state) {
  fixture *f = *state;
  outcome man = run(f, "help --man"), completion = run(f, "help --bash-completion");
  assert_int_equal(man.status, 0);
  assert_starts(man.out, ".TH TREADLE 1");
  assert_holds(completion.out, "complete -o filenames -F _treadle treadle");
  for (size_t i = 0; i < COMMANDS; i++) {
    assert_holds(man.out, base_arena_format(f->arena, ".SS \"treadle %s", commands[i]));
    assert_holds(completion.out, base_arena_format(f->arena, "    %s) options='--help", commands[i]));
  }
  assert_holds(completion.out, " passes='");
  save_text("complete.sh",
            "source completion.bash\nCOMP_WORDS=(treadle run --disable-passes fold,prep) COMP_CWORD=3\n"
            "_treadle\necho \"${COMPREPLY[*]}\"\n");
  save_text("completion.bash", completion.out);
  assert_int_equal(system("bash complete.sh >completed.txt"), 0);
  assert_string_equal(slurp(f, "completed.txt", NULL), "fold,prepack\n");
  assert_holds(man.out, "\\fB\\-\\-min\\-time\\fR \\fISECONDS\\fR\n");
  assert_holds(completion.out, "run:--backend) COMPREPLY=($(compgen -W 'eager aot_eager interp native' -- \"$word\"))");
}

static void test_usage_errors(void **state) {
  fixture *f = *state;
  static const struct {
    const char *arguments, *message;
  } rows[] = {
      {"", "usage: treadle COMMAND"},
      {"walk", "treadle: there is no command 'walk'; see `treadle help`\n"},
      {"help walk", "treadle: help: there is no command 'walk'"},
      {"run", "treadle: run: MODEL is missing"},
      {"run a b", "treadle: run: one word too many: 'b'"},
      {"run a --loud", "treadle: run: unknown option '--loud'; see `treadle help run`\n"},
      {"run a -v", "treadle: run: unknown option '-v'"},
      {"run a --json=1", "treadle: run: takes no value: '--json=1'"},
      {"run a --top", "treadle: run: a value is missing after '--top'"},
      {"run a --top 1 --top=2", "treadle: run: given twice: 'top'"},
      {"run a --backend warp", "treadle: run: --backend 'warp': choose one of: eager aot_eager"},
      {"run a --top 0", "treadle: run: --top '0': a number from 1 to"},
      {"bench a --min-time soon", "--min-time 'soon': a number from 0 to"},
      {"inspect a --stage nests", "--stage 'nests': choose one of: imported passes loops plan"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    outcome got = run(f, rows[i].arguments);
    assert_int_equal(got.status, 2);
    assert_string_equal(got.out, "");
    assert_holds(got.err, rows[i].message);
  }
}

/* Words after -- are operands even when they look like options. */
static void test_double_dash(void **state) {
  fixture *f = *state;
  save_unary("--net.onnx", "Flatten", COLUMNS);
  assert_int_equal(run(f, "run -- --net.onnx").status, 0);
}

static void test_version(void **state) {
  fixture *f = *state;
  outcome got = run(f, "version");
  assert_int_equal(got.status, 0);
  assert_string_equal(got.out, base_arena_format(f->arena, "treadle %s\n", td_version()));
  assert_string_equal(run(f, "--version").out, got.out);
}

static void test_run_errors(void **state) {
  fixture *f = *state;
  save_unary("net.onnx", "Flatten", COLUMNS);
  save_unary("odd.onnx", "NoSuchOperator", COLUMNS);
  save_text("damaged.onnx", "\x0a\xff\xff\xff");
  save_text("damaged.npy", "\x93NUMPY");
  static const struct {
    int status;
    const char *arguments, *message;
  } rows[] = {
      {3, "run absent.onnx", "treadle: absent.onnx: "},
      {3, "run damaged.onnx", "treadle: damaged.onnx: "},
      {4, "run odd.onnx", "NoSuchOperator"},
      {4, "run odd.onnx", "/block/one"},
      {3, "run net.onnx --input x=absent.npy", "treadle: net.onnx: absent.npy: "},
      {3, "run net.onnx --input x=damaged.npy", "treadle: net.onnx: damaged.npy: "},
      {2, "run net.onnx --input q=damaged.npy", "there is no input called q; there are: x"},
      {2, "run net.onnx --input notes.txt", "no reader for this name; there are .npy"},
      {2, "run net.onnx --shape q=1x4", "there is no input called q"},
      {2, "run net.onnx --disable-passes fold,unfold", "there is no pass called 'unfold'; there are: "},
      {2, "run net.onnx --precision bf16 --keep-f32 nobody", "no node is called 'nobody', which is to stay f32"},
      {5, "run net.onnx --output net.onnx", "net.onnx: the folder of --output cannot be made"},
      {2, "run net.onnx --shape x=1x5", "--shape 1x5 does not fit what the model declares, f32[batch,4]"},
      {2, "run net.onnx --shape x=1xx4", "is no shape"},
      {2, "run net.onnx --input x=1x5:f32:0", "treadle: net.onnx: "},
      {2, "run net.onnx --input x=1x4:i64:0", "treadle: net.onnx: "},
      {2, "run net.onnx --input x=1x4:f32:much", "'much' is no value to fill with"},
      {2, "run net.onnx --input x=1x4:f32:0 --input 1x4:f32:0", "the model has 1 inputs, and all have a value"},
      {2, "run net.onnx --disable-passes spin", "spin"},
      {2, "bench net.onnx --shape x=2x4 --batch 3", "--batch 3: the first dimension of every input is fixed"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    outcome got = run(f, rows[i].arguments);
    if (got.status != rows[i].status) fail_msg("%s: status %d: %s", rows[i].arguments, got.status, got.err);
    assert_holds(got.err, rows[i].message);
    assert_null(strstr(strstr(got.err, "treadle: ") + 1, "treadle: ")); /* said once */
  }
}

/* A .pt says no sizes: --shape does, and which of them may change. */
static void test_open_sizes(void **state) {
  fixture *f = *state;
  const char *model = base_arena_format(f->arena, "%s/tests/models/torchscript/forks/model.pt", f->start);
  static const struct {
    int status;
    const char *options, *says;
  } rows[] = {
      {0, "--shape x=2x3", "f32[2,3]"},
      {0, "--shape x=Nx3", "f32[1,3]"},
      {0, "--shape x=Nx3 --shape x=7x3", "f32[7,3]"},
      {0, "--shape x=7x3 --shape x=Nx3", "f32[7,3]"},
      {0, "--shape x=Nx3 --input x=5x3:f32:1", "f32[5,3]"},
      {2, "--shape x=Nx3 --input x=5x3x1:f32:1", "--shape says 2 dimensions"},
      {2, "--shape x=Nx3 --shape x=7x4", "does not fit what the model declares, f32[N,3]"},
      {2, "--shape x=N-x3", "or Nx3x224x224 where N may have any size"},
      {2, "--shape x=2x3 --shape x=2x3", "has its shape already"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    outcome got = run(f, base_arena_format(f->arena, "run %s %s", model, rows[i].options));
    if (got.status != rows[i].status) fail_msg("%s: status %d: %s", rows[i].options, got.status, got.err);
    assert_holds(got.status ? got.err : got.out, rows[i].says);
  }
  outcome got = run(f, base_arena_format(f->arena, "inspect %s --shape x=rowsx3", model));
  assert_holds(got.out, "f32[rows,3]");
}

static void test_run_output(void **state) {
  fixture *f = *state;
  float values[COLUMNS] = {-1, 2, -3, 4.5f};
  base_tensor x = row_of(values, COLUMNS);
  save_unary("net.onnx", "Flatten", COLUMNS);
  save_npy("x=1.npy", &x); /* a file name may hold '=' */
  save_pb("x.pb", &x);
  static const char *const inputs[] = {"--input x=x=1.npy", "--input x.pb", "--input=x=x.pb"};
  for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
    outcome got = run(f, base_arena_format(f->arena, "run net.onnx %s --output results", inputs[i]));
    assert_int_equal(got.status, 0);
    assert_string_equal(got.err, "");
    assert_holds(got.out, "a/y:0 f32[1,4] -> results/a_y_0.npy, min -3, mean 0.625, max 4.5: -1 2 -3 4.5\n");
    assert_holds(got.out, " ms per inference; load ");
    base_tensor y = load_npy(f, "results/a_y_0.npy");
    assert_int_equal(y.rank, 2);
    assert_int_equal(y.dims[1], COLUMNS);
    for (int64_t k = 0; k < COLUMNS; k++) {
      assert_true(base_load_f64(TD_F32, y.data, k) == (double)values[k]);
    }
    unlink("results/a_y_0.npy");
  }
}

static void test_run_random(void **state) {
  fixture *f = *state;
  save_unary("net.onnx", "Flatten", COLUMNS);
  outcome first = run(f, "run net.onnx --shape x=3x4");
  assert_int_equal(first.status, 0);
  assert_string_equal(first.err, "treadle: net.onnx: input x: random f32[3,4], as no --input gives it\n");
  outcome again = run(f, "run net.onnx --shape x=3x4 --seed 0"), other = run(f, "run net.onnx --shape x=3x4 --seed 1");
  size_t line = strcspn(first.out, "\n");
  assert_memory_equal(first.out, again.out, line);
  assert_memory_not_equal(first.out, other.out, line);
}

/* y = x + b, where b is an input that has a default. */
static void save_add(const char *path) {
  static float b[COLUMNS] = {10, 20, 30, 40};
  int64_t dims[] = {1, COLUMNS};
  base_tensor bias = row_of(b, COLUMNS);
  base_text graph = {.allocator = &base_libc_allocator}, tensor = graph, node = graph;
  fmt_put_str(&node, 1, "x");
  fmt_put_str(&node, 1, "b");
  fmt_put_str(&node, 2, "y");
  fmt_put_str(&node, 4, "Add");
  put_message(&graph, 1, &node);
  fmt_put_str(&graph, 2, "g");
  fmt_put_tensor_proto(&tensor, "b", &bias);
  put_message(&graph, 5, &tensor);
  put_value(&graph, 11, "x", TD_F32, 2, dims);
  put_value(&graph, 11, "b", TD_F32, 2, dims);
  put_value(&graph, 12, "y", TD_F32, 2, dims);
  save_model(path, &graph);
}

static void test_run_default(void **state) {
  fixture *f = *state;
  save_add("add.onnx");
  outcome got = run(f, "run add.onnx --input x=1x4:f32:1");
  assert_string_equal(got.err, "");
  assert_holds(got.out, ": 11 21 31 41\n");
  assert_holds(run(f, "run add.onnx --input x=1x4:f32:1 --input b=1x4:f32:2").out, ": 3 3 3 3\n");
  assert_holds(run(f, "run add.onnx --input 1x4:f32:1 --input 1x4:f32:3").out, ": 4 4 4 4\n");
}

static void test_run_archives(void **state) {
  fixture *f = *state;
  float values[COLUMNS] = {1, 2, 3, 4};
  base_tensor x = row_of(values, COLUMNS);
  base_text npy = {.allocator = &base_libc_allocator}, zip = npy, tensors = npy;
  save_add("add.onnx");
  fmt_zip_writer writer = {.out = &zip, .directory = {.allocator = &base_libc_allocator}};
  assert_int_equal(fmt_npy_write(&npy, &x, NULL), TD_OK);
  assert_int_equal(fmt_zip_add(&writer, "x.npy", npy.at, npy.length, NULL), TD_OK);
  assert_int_equal(fmt_zip_add(&writer, "b.npy", npy.at, npy.length, NULL), TD_OK);
  assert_int_equal(fmt_zip_finish(&writer, NULL), TD_OK);
  save("both.npz", &zip);
  static const char header[] = "{\"x\":{\"dtype\":\"F32\",\"shape\":[1,4],\"data_offsets\":[0,16]}} ";
  uint64_t length = sizeof header - 1;
  base_text_add(&tensors, (const char *)&length, sizeof length);
  base_text_add(&tensors, header, sizeof header - 1);
  base_text_add(&tensors, (const char *)values, sizeof values);
  save("x.safetensors", &tensors);
  assert_holds(run(f, "run add.onnx --input both.npz").out, ": 2 4 6 8\n");
  assert_holds(run(f, "run add.onnx --input x=both.npz").out, ": 11 22 33 44\n");
  assert_holds(run(f, "run add.onnx --input x.safetensors").out, ": 11 22 33 44\n");
  save_unary("net.onnx", "Flatten", COLUMNS);
  outcome got = run(f, "run net.onnx --input both.npz");
  assert_int_equal(got.status, 2);
  assert_holds(got.err, "there is no input called b; there are: x");
  base_text_free(&npy);
  base_text_free(&zip);
  base_text_free(&tensors);
}

static void put_big_endian(base_text *out, uint32_t value) {
  char bytes[] = {(char)(value >> 24), (char)(value >> 16), (char)(value >> 8), (char)value};
  base_text_add(out, bytes, 4);
}

static void put_chunk(base_text *png, const char *kind, const void *bytes, size_t size) {
  size_t start = png->length + 4;
  put_big_endian(png, (uint32_t)size);
  base_text_add(png, kind, 4);
  base_text_add(png, bytes, size);
  put_big_endian(png, (uint32_t)crc32(0, (const Bytef *)png->at + start, (uInt)(png->length - start)));
}

/* A PNG of one colour. */
static void save_png(const char *path, uint32_t side, const uint8_t rgb[3]) {
  base_text png = {.allocator = &base_libc_allocator}, rows = png;
  for (uint32_t y = 0; y < side; y++) {
    base_text_add(&rows, "", 1); /* filter 0 */
    for (uint32_t x = 0; x < side; x++) base_text_add(&rows, (const char *)rgb, 3);
  }
  uLongf packed = compressBound(rows.length);
  char *bytes = base_alloc(&base_libc_allocator, packed);
  assert_int_equal(compress((Bytef *)bytes, &packed, (const Bytef *)rows.at, rows.length), Z_OK);
  uint8_t header[13] = {0, 0, (uint8_t)(side >> 8), (uint8_t)side, 0, 0, (uint8_t)(side >> 8), (uint8_t)side, 8, 2};
  base_text_add(&png, "\x89PNG\r\n\x1a\n", 8);
  put_chunk(&png, "IHDR", header, sizeof header);
  put_chunk(&png, "IDAT", bytes, packed);
  put_chunk(&png, "IEND", "", 0);
  save(path, &png);
  base_free(&base_libc_allocator, bytes, compressBound(rows.length));
  base_text_free(&rows);
  base_text_free(&png);
}

static void test_run_picture(void **state) {
  fixture *f = *state;
  const uint8_t gray[] = {127, 127, 127}, white[] = {255, 255, 255};
  int64_t dims[] = {1, 3, 224, 224};
  base_text graph = {.allocator = &base_libc_allocator};
  base_text node = node_of("Identity", "same", "x", "y");
  put_message(&graph, 1, &node);
  put_value(&graph, 11, "x", TD_F32, 4, dims);
  put_value(&graph, 12, "y", TD_F32, 4, dims);
  save_model("net.onnx", &graph);
  save_png("gray.png", 260, gray);
  save_png("white.PNG", 300, white);
  assert_holds(run(f, "run net.onnx --input gray.png --preprocess efficientnet_lite").out, "min 0, mean 0, max 0: ");
  assert_holds(run(f, "run net.onnx --input gray.png --preprocess imagenet").out, ": 0.0569");
  assert_holds(run(f, "run net.onnx --input x=white.PNG").out, "max 2.64: 2.2489");
  assert_int_equal(run(f, "run net.onnx --input gray.png --preprocess sepia").status, 2);
}

static size_t count_lines(const char *text) {
  size_t count = 0;
  for (; *text; text++) count += *text == '\n';
  return count;
}

/* Random weights; pictures are prepared as the network was trained. */
static void test_run_builtin(void **state) {
  fixture *f = *state;
  const uint8_t orange[] = {250, 130, 20};
  save_png("orange.png", 230, orange);
  outcome got = run(f, "run builtin:efficientnet_lite0 --input orange.png --top 5");
  assert_int_equal(got.status, 0);
  assert_string_equal(got.err, "");
  assert_int_equal(count_lines(got.out), 7);
  static const char same[] = "run builtin:efficientnet_lite0 --input orange.png --top 5 --seed 0 --preprocess %s";
  size_t classes = (size_t)(strstr(got.out, " ms per inference") - got.out) - 8;
  outcome trained = run(f, base_arena_format(f->arena, same, "efficientnet_lite"));
  outcome usual = run(f, base_arena_format(f->arena, same, "imagenet"));
  assert_memory_equal(got.out, trained.out, classes);
  assert_memory_not_equal(got.out, usual.out, classes);
  assert_int_equal(run(f, "run builtin:efficientnet_lite0 --weights absent.pth").status, 3);
  assert_int_equal(run(f, "run builtin:nothing").status, 2);
  save_unary("net.onnx", "Flatten", COLUMNS);
  assert_int_equal(run(f, "run net.onnx --weights orange.png").status, 2);
}

static void test_run_sound(void **state) {
  fixture *f = *state;
  /* RIFF WAVE, PCM, 1 channel, 8000 Hz, 16 bits: 0, 1/2, -1/2, -1 */
  static const uint8_t wav[] = {'R', 'I', 'F', 'F', 44, 0, 0,  0,  'W', 'A', 'V', 'E', 'f', 'm', 't', ' ', 16, 0,
                                0,   0,   1,   0,   1,  0, 64, 31, 0,   0,   128, 62,  0,   0,   2,   0,   16, 0,
                                'd', 'a', 't', 'a', 8,  0, 0,  0,  0,   0,   0,   64,  0,   192, 0,   128};
  base_text bytes = {.allocator = &base_libc_allocator};
  base_text_add(&bytes, (const char *)wav, sizeof wav);
  save("sound.wav", &bytes);
  base_text_free(&bytes);
  save_unary("net.onnx", "Flatten", COLUMNS);
  assert_holds(run(f, "run net.onnx --input sound.wav").out, "f32[1,4], min -1, mean -0.25, max 0.5: 0 0.5 -0.5 -1\n");
}

/* A list of x twice, called `s/all`. */
static void save_list(const char *path) {
  int64_t dims[] = {-1, COLUMNS};
  base_text graph = {.allocator = &base_libc_allocator}, element = graph, sequence = graph, type = graph, value = graph;
  base_text node = node_of("SequenceConstruct", "both", "x", "s/all");
  fmt_put_str(&node, 1, "x");
  put_message(&graph, 1, &node);
  put_value(&graph, 11, "x", TD_F32, 2, dims);
  fmt_put_int(&element, 1, fmt_onnx_element(TD_F32));
  put_message(&sequence, 1, &element); /* TypeProto.Tensor in TypeProto */
  put_message(&type, 1, &sequence);    /* in TypeProto.Sequence */
  put_message(&value, 4, &type);       /* in TypeProto */
  base_text output = {.allocator = &base_libc_allocator};
  fmt_put_str(&output, 1, "s/all");
  put_message(&output, 2, &value);
  put_message(&graph, 12, &output);
  save_model(path, &graph);
}

static void test_run_list(void **state) {
  fixture *f = *state;
  save_list("list.onnx");
  outcome got = run(f, "run list.onnx --input x=2x4:f32:1.5 --output results");
  assert_int_equal(got.status, 0);
  assert_starts(got.out, "s/all, 2 items\ns/all_0 f32[2,4] -> results/s_all_0.npy, min 1.5");
  assert_int_equal(load_npy(f, "results/s_all_1.npy").dims[0], 2);
  json_t *root = parse(run(f, "run list.onnx --json").out);
  const json_t *output = json_array_get(json_object_get(root, "outputs"), 0);
  assert_int_equal(json_array_size(json_object_get(output, "items")), 2);
  json_decref(root);
  assert_holds(run(f, "info list.onnx").out, "  output s/all: list of f32");
}

static void assert_keys(const json_t *object, const char *const *keys) {
  for (; *keys; keys++) {
    if (!json_object_get(object, *keys)) fail_msg("no key %s", *keys);
  }
}

static void test_run_json(void **state) {
  fixture *f = *state;
  static const char *const keys[] = {
      "model",         "backend",      "threads",           "load_ms",    "compile_ms",    "first_ms",
      "latency_ms",    "arena_bytes",  "arena_lower_bytes", "tail_bytes", "weights_bytes", "copied_bytes",
      "anon_peak_kib", "peak_rss_kib", "outputs",           NULL};
  save_unary("net.onnx", "Flatten", COLUMNS);
  outcome got = run(f, "run net.onnx --input x=2x4:f32:-2.5 --json --threads 1 --repeat 3 --backend eager");
  assert_int_equal(got.status, 0);
  json_t *root = parse(got.out);
  assert_keys(root, keys);
  assert_int_equal(json_integer_value(json_object_get(root, "threads")), 1);
  assert_string_equal(json_string_value(json_object_get(root, "backend")), "eager");
  assert_true(json_integer_value(json_object_get(root, "anon_peak_kib")) > 0);
  const json_t *output = json_array_get(json_object_get(root, "outputs"), 0);
  assert_string_equal(json_string_value(json_object_get(output, "name")), "a/y:0");
  assert_string_equal(json_string_value(json_object_get(output, "dtype")), "f32");
  assert_int_equal(json_integer_value(json_array_get(json_object_get(output, "shape"), 0)), 2);
  assert_true(json_number_value(json_object_get(output, "max")) == -2.5);
  json_decref(root);
}

static void test_top(void **state) {
  fixture *f = *state;
  float *scores = base_new(f->arena, float, 1000);
  scores[282] = 9;
  scores[0] = 8;
  base_tensor x = row_of(scores, 1000);
  save_unary("same.onnx", "Identity", 1000);
  save_npy("scores.npy", &x);
  outcome got = run(f, "run same.onnx --input scores.npy --top 2");
  assert_int_equal(got.status, 0);
  /* e^9 and e^8 of e^9 + e^8 + 998 */
  assert_starts(got.out, " 67.07 %   282  tiger cat\n 24.67 %     0  tench\n");
  json_t *root = parse(run(f, "run same.onnx --input scores.npy --top 3 --json").out);
  const json_t *row = json_array_get(json_object_get(json_array_get(json_object_get(root, "outputs"), 0), "top"), 0);
  assert_int_equal(json_array_size(row), 3);
  assert_int_equal(json_integer_value(json_object_get(json_array_get(row, 0), "class")), 282);
  assert_string_equal(json_string_value(json_object_get(json_array_get(row, 1), "name")), "tench");
  json_decref(root);
  /* Other class counts have no names, and K may be more than there are. */
  save_unary("few.onnx", "Identity", COLUMNS);
  got = run(f, "run few.onnx --input x=1x4:f32:1 --top 9");
  assert_starts(got.out, " 25.00 %     0\n 25.00 %     1\n 25.00 %     2\n 25.00 %     3\n");
}

static void test_inspect(void **state) {
  fixture *f = *state;
  save_unary("net.onnx", "Flatten", COLUMNS);
  static const char *const stages[] = {"imported", "passes", "plan"};
  for (size_t i = 0; i < 3; i++) {
    outcome got = run(f, base_arena_format(f->arena, "inspect net.onnx --stage %s", stages[i]));
    assert_int_equal(got.status, 0);
    assert_holds(got.out, "# net.onnx\n# input   x: f32[batch,4]\n# output  a/y:0: f32[batch,4]\n");
    if (i == 1) assert_holds(got.out, "\n# pass    dead: ");
    if (i == 2) continue; /* a plan is printed as text only */
    json_decref(parse(run(f, base_arena_format(f->arena, "inspect net.onnx --stage %s --format json", stages[i])).out));
    got = run(f, base_arena_format(f->arena, "inspect net.onnx --stage %s --format dot", stages[i]));
    assert_starts(got.out, "digraph");
  }
}

static void test_info(void **state) {
  fixture *f = *state;
  static const char *const keys[] = {"version",  "machine", "backends",  "formats",
                                     "builtins", "passes",  "operators", NULL};
  outcome got = run(f, "info");
  assert_int_equal(got.status, 0);
  assert_holds(got.out, "backends");
  uint32_t lines = 0;
  for (const char *c = got.out; *c; c++) lines += *c == '\n';
  assert_true(lines < 40); /* one screen */
  assert_null(strstr(got.out, "aten::"));
  assert_holds(run(f, "info --operators").out, " aten::relu");
  assert_int_equal(run(f, "version --json").status, 0);
  json_t *root = parse(run(f, "info --json").out);
  assert_keys(root, keys);
  assert_true(json_array_size(json_object_get(root, "operators")) > 20);
  json_decref(root);
  save_unary("net.onnx", "Flatten", COLUMNS);
  root = parse(run(f, "info net.onnx --json").out);
  const json_t *input = json_array_get(json_object_get(json_object_get(root, "model"), "inputs"), 0);
  assert_string_equal(json_string_value(json_object_get(input, "name")), "x");
  assert_string_equal(json_string_value(json_array_get(json_object_get(input, "shape"), 0)), "batch");
  json_decref(root);
}

/* The threads that `treadle info` says, and by whom. */
static void expect_threads(fixture *f, const char *before, const char *options, int64_t threads, const char *by) {
  json_t *root = parse(run_after(f, before, base_arena_format(f->arena, "info --json %s", options)).out);
  const json_t *machine = json_object_get(root, "machine");
  assert_int_equal(json_integer_value(json_object_get(machine, "threads")), threads);
  assert_holds(json_string_value(json_object_get(machine, "threads_by")), by);
  assert_true(json_array_size(json_object_get(machine, "cpus")) >= 1);
  json_decref(root);
}

#define NONE_SAID "env -u TREADLE_NUM_THREADS -u OMP_NUM_THREADS -u MKL_NUM_THREADS "
static void test_who_says_threads(void **state) {
  fixture *f = *state;
  expect_threads(f, NONE_SAID "MKL_NUM_THREADS=1", "", 1, "MKL_NUM_THREADS");
  expect_threads(f, NONE_SAID "OMP_NUM_THREADS=1,4 MKL_NUM_THREADS=7", "", 1, "OMP_NUM_THREADS");
  expect_threads(f, NONE_SAID "TREADLE_NUM_THREADS=3 OMP_NUM_THREADS=1", "", 3, "TREADLE_NUM_THREADS");
  expect_threads(f, NONE_SAID "TREADLE_NUM_THREADS=3", "--threads 2", 2, "--threads");
  expect_threads(f, NONE_SAID "OMP_NUM_THREADS=x taskset -c $(taskset -pc $$ | sed 's/.*[^0-9]//')", "", 1, "affinity");
  outcome got = run_after(f, "env TREADLE_NUM_THREADS=none", "info");
  assert_int_equal(got.status, TD_BAD_ARGUMENT);
  assert_holds(got.err, "TREADLE_NUM_THREADS 'none': 1 to 4096 are allowed");
  save_unary("net.onnx", "Flatten", COLUMNS);
  json_t *root = parse(run_after(f, "env TREADLE_NUM_THREADS=1", "bench net.onnx --min-time 0.01 --json").out);
  assert_int_equal(json_integer_value(json_object_get(root, "threads")), 1);
  json_decref(root);
}

static void test_bench(void **state) {
  fixture *f = *state;
  static const char *const keys[] = {
      "model",       "threads",       "isa",   "load_ms",  "compile_ms",       "first_ms",
      "latency_ms",  "throughput",    "gflop", "limit_ms", "percent_of_limit", "peak_rss_kib",
      "arena_bytes", "weights_bytes", NULL};
  static const char *const times[] = {"min", "p50", "p90", "p99", NULL};
  save_unary("net.onnx", "Flatten", COLUMNS);
  outcome got = run(f, "bench net.onnx --min-time 0.01 --threads 1 --batch 2 --disable-passes fold,dead --json");
  assert_int_equal(got.status, 0);
  json_t *root = parse(got.out);
  assert_keys(root, keys);
  assert_string_equal(json_string_value(json_object_get(root, "backend")), "native");
  const json_t *latency = json_object_get(root, "latency_ms");
  double before = 0;
  for (size_t i = 0; times[i]; i++) {
    double now = json_number_value(json_object_get(latency, times[i]));
    assert_true(now >= before);
    before = now;
  }
  assert_true(json_number_value(json_object_get(latency, "mean")) > 0);
  assert_true(json_number_value(json_object_get(root, "arena_bytes")) >=
              json_number_value(json_object_get(root, "arena_lower_bytes")));
  json_decref(root);
  assert_holds(run(f, "bench net.onnx --min-time 0.01").out, " ms mean of ");
}

/* Relu of f32[batch, 256], batch 64: 64 KiB read and as many written. */
static void test_bench_layers(void **state) {
  fixture *f = *state;
  save_unary("relu.onnx", "Relu", 256);
  json_t *root = parse(run(f, "bench relu.onnx --min-time 0.01 --threads 1 --batch 64 --layers --json").out);
  const json_t *layers = json_object_get(root, "layers"), *layer = json_array_get(layers, 0);
  assert_int_equal(json_array_size(layers), 1);
  assert_string_equal(json_string_value(json_object_get(layer, "name")), "/block/one (Relu)");
  assert_string_equal(json_string_value(json_object_get(layer, "op")), "aten::relu");
  assert_int_equal(json_integer_value(json_object_get(layer, "calls")), 1);
  assert_true(json_number_value(json_object_get(layer, "bytes")) == 2 * 64 * 1024);
  assert_true(json_number_value(json_object_get(layer, "flop")) == 16 * 1024);
  assert_true(json_number_value(json_object_get(layer, "us")) > 0);
  assert_true(json_number_value(json_object_get(layer, "limit_us")) > 0);
  assert_true(json_number_value(json_object_get(root, "limit_ms")) > 0);
  assert_true(json_number_value(json_object_get(root, "percent_of_limit")) > 0);
  json_decref(root);
  assert_holds(run(f, "bench relu.onnx --min-time 0.01 --layers").out, " /block/one (Relu)\n");
}

/* Formats that do not say their inputs learn them from --input: that it is not there is said, not that sizes lack. */
static void missing_inputs_are_named(void **state) {
  fixture *f = *state;
  outcome got = run(
      f, base_arena_format(f->arena, "run %s/tests/models/torchscript/among/model.pt --input nofile.npy", f->start));
  assert_int_equal(got.status, 3);
  assert_holds(got.err, "nofile.npy: cannot open the file");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_help),
      cmocka_unit_test(test_man_and_completion),
      cmocka_unit_test(test_usage_errors),
      cmocka_unit_test(test_double_dash),
      cmocka_unit_test(test_version),
      cmocka_unit_test(test_run_errors),
      cmocka_unit_test(test_run_output),
      cmocka_unit_test(test_run_default),
      cmocka_unit_test(test_open_sizes),
      cmocka_unit_test(test_run_archives),
      cmocka_unit_test(test_run_picture),
      cmocka_unit_test(test_run_sound),
      cmocka_unit_test(test_run_list),
      cmocka_unit_test(test_run_builtin),
      cmocka_unit_test(test_run_random),
      cmocka_unit_test(test_run_json),
      cmocka_unit_test(test_top),
      cmocka_unit_test(test_inspect),
      cmocka_unit_test(test_info),
      cmocka_unit_test(test_who_says_threads),
      cmocka_unit_test(test_bench),
      cmocka_unit_test(test_bench_layers),
      cmocka_unit_test(missing_inputs_are_named),
  };
  return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
