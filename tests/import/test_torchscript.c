/* TorchScript archives through the public interface: session state, methods, exceptions, what is refused and how. The
 * programs are written by tests/models/torchscript/generate.py; what they compute is checked by `treadle check` there.
 */
#include "test.h"

#include <treadle/treadle.h>

#include "base/base.h"
#include "fmt/fmt.h"

#include <stdio.h>
#include <unistd.h>

static const td_input_spec matrix = {.name = "x", .dtype = TD_F32, .rank = 2, .dims = {-1, 2}};

static td_load_options options_for(const td_input_spec *spec) {
  return (td_load_options){.size = sizeof(td_load_options), .backend = "eager", .inputs = spec, .input_count = 1};
}

static td_model *load(const char *path, const td_load_options *options) {
  td_model *model = NULL;
  td_error err = {0};
  if (td_model_load(path, options, &model, &err) != TD_OK) fail_msg("%s: %s", err.name, err.text);
  return model;
}

static void run(td_session *session, const float *x, int64_t rows, td_tensor *outs, size_t count) {
  td_error err = {0};
  td_tensor in = {.dtype = TD_F32, .rank = 2, .dims = {rows, 2}, .data = (void *)(uintptr_t)x};
  if (td_session_set_input(session, 0, &in, &err) != TD_OK) fail_msg("%s", err.text);
  if (td_session_run(session, &err) != TD_OK) fail_msg("%s: %s", err.name, err.text);
  for (size_t i = 0; i < count; i++) assert_int_equal(td_session_output(session, i, &outs[i], &err), TD_OK);
}

/* Tensors, numbers, an optional that begins as None and a list, each kept by its session. */
static void state_is_kept(void **state) {
  (void)state;
  static const float x[] = {1, 2, 3, 4, 5, 6};
  td_load_options options = options_for(&matrix);
  td_model *model = load("tests/import/torchscript/state.pt", &options);
  td_session *sessions[2];
  td_error err = {0};
  td_tensor out[4];
  for (int i = 0; i < 2; i++) assert_int_equal(td_session_new(model, NULL, &sessions[i], &err), TD_OK);
  for (int64_t turn = 1; turn <= 3; turn++) {
    run(sessions[0], x, 1, out, 4);
    assert_true(((const float *)out[0].data)[1] == 2.0F * (float)turn);
    assert_int_equal(*(const int64_t *)out[1].data, turn);
    assert_int_equal(out[2].dims[0], turn);
    assert_int_equal(*(const int64_t *)out[3].data, turn);
  }
  run(sessions[1], x, 3, out, 4);
  assert_int_equal(*(const int64_t *)out[1].data, 1);
  assert_int_equal(out[2].dims[0], 3);
  assert_true(((const float *)out[0].data)[0] == 9);
  assert_int_equal(td_session_reset(sessions[0], &err), TD_OK);
  run(sessions[0], x, 2, out, 4);
  assert_int_equal(*(const int64_t *)out[1].data, 1);
  assert_int_equal(out[2].dims[0], 2);
  for (int i = 0; i < 2; i++) td_session_free(sessions[i]);
  td_model_free(model);
}

static void methods(void **state) {
  (void)state;
  static const float x[] = {1, 2};
  td_load_options options = options_for(&matrix);
  td_model *model;
  td_session *session;
  td_error err = {0};
  td_tensor out;
  options.method = "peek";
  model = load("tests/import/torchscript/state.pt", &options);
  assert_int_equal(td_session_new(model, NULL, &session, &err), TD_OK);
  run(session, x, 1, &out, 1);
  assert_true(((const float *)out.data)[1] == 2);
  td_session_free(session);
  td_model_free(model);
  options.method = "backward";
  assert_int_equal(td_model_load("tests/import/torchscript/state.pt", &options, &model, &err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "it has: forward, peek"));
}

/* The one way whose rank can be compiled for; the other one ends the run. */
static void one_of_two_ranks(void **state) {
  (void)state;
  static const float x[] = {1, 2, 3, 4}, below[] = {-1, -2, -3, -4};
  static const char *const backends[] = {"eager", "aot_eager", "native"};
  for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
    td_load_options options = options_for(&matrix);
    options.backend = backends[b];
    td_model *model = load("tests/import/torchscript/ranks.pt", &options);
    td_session *session;
    td_error err = {0};
    td_tensor out, in = {.dtype = TD_F32, .rank = 2, .dims = {2, 2}, .data = (void *)(uintptr_t)below};
    assert_int_equal(td_session_new(model, NULL, &session, &err), TD_OK);
    run(session, x, 2, &out, 1);
    assert_int_equal(out.rank, 2);
    assert_true(((const float *)out.data)[1] == 3);
    assert_int_equal(td_session_set_input(session, 0, &in, &err), TD_OK);
    assert_int_equal(td_session_run(session, &err), TD_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "another number of dimensions"));
    td_session_free(session);
    td_model_free(model);
  }
}

static void refuses_file(const char *path, const td_load_options *options, td_status want, const char *says) {
  td_model *model;
  td_error err = {0};
  assert_int_equal(td_model_load(path, options, &model, &err), want);
  if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static void set_chunk(td_session *session, int64_t rate, int64_t samples) {
  static float chunk[] = {1, 2, 3, 4};
  static int64_t rates[] = {0, 1, 2};
  td_error err = {0};
  const td_tensor x = {.dtype = TD_F32, .rank = 2, .dims = {1, samples}, .data = chunk};
  const td_tensor r = {.dtype = TD_I64, .data = &rates[rate]};
  assert_int_equal(td_session_set_input(session, 0, &x, &err), TD_OK);
  assert_int_equal(td_session_set_input(session, 1, &r, &err), TD_OK);
}

static void run_chunk(td_session *session, int64_t rate, int64_t samples, float want) {
  td_error err = {0};
  td_tensor out;
  set_chunk(session, rate, samples);
  if (td_session_run(session, &err) != TD_OK) fail_msg("%s: %s", err.name, err.text);
  assert_int_equal(td_session_output(session, 0, &out, &err), TD_OK);
  assert_int_equal(out.rank, 2);
  assert_true(((const float *)out.data)[0] == want && ((const float *)out.data)[1] == want);
}

/* State that is an empty vector until the first call, of a program that an argument leads one way or the other. */
static void state_begins_empty(void **state) {
  (void)state;
  static const char *const backends[] = {"eager", "aot_eager", "native"};
  const td_input_spec specs[] = {{.name = "x", .dtype = TD_F32, .rank = 2, .dims = {-1, -1}},
                                 {.name = "rate", .dtype = TD_I64}};
  for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
    td_load_options options = options_for(specs);
    options.backend = backends[b];
    options.input_count = 2;
    td_model *model = load("tests/import/torchscript/streaming.pt", &options);
    td_session *session;
    td_error err = {0};
    assert_int_equal(td_session_new(model, NULL, &session, &err), TD_OK);
    run_chunk(session, 2, 4, 10); /* 0 0 1 2 3 4 */
    run_chunk(session, 2, 4, 27); /* 3 4 1 2 3 4, and the sum before */
    run_chunk(session, 1, 2, 3);  /* another rate: from the beginning, 0 1 2 */
    run_chunk(session, 1, 2, 8);
    set_chunk(session, 2, 3);
    assert_int_equal(td_session_run(session, &err), TD_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "samples are expected"));
    run_chunk(session, 1, 2, 13);
    td_session_free(session);
    td_model_free(model);
  }
}

/* Whether squeeze drops an axis must be known before the model runs; a run in which it is not as it seemed ends. */
static void squeezed_axes(void **state) {
  (void)state;
  static const float both[] = {1, 2, 3, 4}, one[] = {1, 2, -3, 4};
  static const char *const methods[] = {"open_rows", "chosen_rows"};
  static const char *const says[] = {"must not be 1", "a dimension has one element"};
  for (size_t i = 0; i < 2; i++) {
    td_load_options options = options_for(&matrix);
    options.method = methods[i];
    td_model *model = load("tests/import/torchscript/streaming.pt", &options);
    td_session *session;
    td_error err = {0};
    td_tensor out, in = {.dtype = TD_F32, .rank = 2, .dims = {i ? 2 : 1, 2}, .data = (void *)(uintptr_t)one};
    assert_int_equal(td_session_new(model, NULL, &session, &err), TD_OK);
    run(session, both, 2, &out, 1);
    assert_int_equal(out.rank, 2);
    assert_true(((const float *)out.data)[3] == 8);
    td_status status = td_session_set_input(session, 0, &in, &err);
    if (status == TD_OK) status = td_session_run(session, &err);
    assert_int_equal(status, TD_BAD_ARGUMENT);
    if (!strstr(err.text, says[i])) fail_msg("\"%s\" does not say \"%s\"", err.text, says[i]);
    td_session_free(session);
    td_model_free(model);
  }
}

static void raises_on_all_ways(void **state) {
  (void)state;
  td_load_options options = options_for(&matrix);
  options.method = "raises";
  refuses_file("tests/import/torchscript/streaming.pt", &options, TD_BAD_ARGUMENT,
               "the model raises: ValueError: and the");
  refuses_file("tests/import/torchscript/streaming.pt", &options, TD_BAD_ARGUMENT, "generate.py:");
}

typedef struct printed {
  char text[8192];
  size_t length;
} printed;

static void hear(void *user, const char *text, size_t length) {
  printed *p = user;
  assert_true(p->length + length < sizeof p->text);
  memcpy(p->text + p->length, text, length);
  p->length += length;
}

/* What PyTorch printed stands in prints.txt. */
static void prints_as_pytorch_does(void **state) {
  (void)state;
  static const float x[] = {1.5F, 3, 4.5F, 6, 7.5F, 9};
  static const td_input_spec spec = {.name = "x", .dtype = TD_F32, .rank = 2, .dims = {-1, 3}};
  static printed heard, want;
  static const char *const backends[] = {"eager", "native"};
  FILE *file = fopen("tests/import/torchscript/prints.txt", "rb");
  assert_non_null(file);
  want.length = fread(want.text, 1, sizeof want.text - 1, file);
  fclose(file);
  for (size_t b = 0; b < 2; b++) {
    td_load_options options = options_for(&spec);
    options.backend = backends[b];
    td_model *model = load("tests/import/torchscript/prints.pt", &options);
    for (int listens = 0; listens < 2; listens++) {
      td_session_options how = {.size = sizeof how, .threads = 1, .print_user = &heard};
      if (listens) how.print = hear;
      td_session *session;
      td_error err = {0};
      td_tensor in = {.dtype = TD_F32, .rank = 2, .dims = {2, 3}, .data = (void *)(uintptr_t)x};
      heard = (printed){.length = 0};
      assert_int_equal(td_session_new(model, &how, &session, &err), TD_OK);
      assert_int_equal(td_session_set_input(session, 0, &in, &err), TD_OK);
      if (td_session_run(session, &err) != TD_OK) fail_msg("%s: %s", err.name, err.text);
      if (listens && strcmp(heard.text, want.text) != 0) fail_msg("%s\n---- not:\n%s", heard.text, want.text);
      if (!listens) assert_int_equal(heard.length, 0);
      td_session_free(session);
    }
    td_model_free(model);
  }
}

static void inputs_must_be_told(void **state) {
  (void)state;
  static const char path[] = "tests/models/torchscript/checks/model.pt";
  td_input_spec spec = {.name = "x", .dtype = TD_F32, .rank = 3, .dims = {1, 2, 3}};
  td_load_options options = options_for(&spec);
  options.input_count = 0;
  refuses_file(path, &options, TD_BAD_ARGUMENT, "--shape x=");
  options.input_count = 1;
  refuses_file(path, &options, TD_BAD_ARGUMENT, "the model raises: ValueError: expected a matrix, got 3 dimensions");
  refuses_file(path, &options, TD_BAD_ARGUMENT, "generate.py:");
  spec.path = "argument 7[0]";
  refuses_file(path, &options, TD_BAD_ARGUMENT, "no such argument");
  spec.path = "argument 0[";
  refuses_file(path, &options, TD_BAD_ARGUMENT, "");
  td_input_spec two[2] = {matrix, matrix};
  options.inputs = two;
  options.input_count = 2;
  refuses_file(path, &options, TD_BAD_ARGUMENT, "no argument for this input");
}

/* The user's message and line, when it is the data that is wrong. */
static void exceptions_at_run_time(void **state) {
  (void)state;
  static const float good[] = {1, 2}, bad[] = {1, (float)__builtin_nanf("")};
  td_load_options options = options_for(&matrix);
  td_model *model = load("tests/models/torchscript/checks/model.pt", &options);
  td_session *session;
  td_error err = {0};
  td_tensor out, in = {.dtype = TD_F32, .rank = 2, .dims = {1, 2}, .data = (void *)(uintptr_t)bad};
  assert_int_equal(td_session_new(model, NULL, &session, &err), TD_OK);
  run(session, good, 1, &out, 1);
  assert_int_equal(td_session_set_input(session, 0, &in, &err), TD_OK);
  assert_int_not_equal(td_session_run(session, &err), TD_OK);
  assert_non_null(strstr(err.text, "not a number"));
  assert_non_null(strstr(err.name, "generate.py:"));
  run(session, good, 1, &out, 1);
  td_session_free(session);
  td_model_free(model);
}

/* Every place that `text` tells is of the user's file; `wanted`: there is one. */
static void check_places(const char *text, bool wanted) {
  if (strstr(text, "code/__torch__")) fail_msg("\"%s\" tells a place of the archive's own text", text);
  if (wanted && !strstr(text, "generate.py:")) fail_msg("\"%s\" tells no place", text);
}

static void check_steps(const td_model *model) {
  td_error err = {0};
  td_session *session;
  td_step step = {.size = sizeof step};
  size_t count = 0;
  assert_int_equal(td_session_new(model, NULL, &session, &err), TD_OK);
  for (; td_session_get_step(session, count, &step, &err) == TD_OK; count++) {
    check_places(step.name, strchr(step.name, '(') != NULL);
    for (size_t i = 0; i < step.origins; i++) check_places(td_session_step_origin(session, count, i), true);
    assert_ptr_equal(td_session_step_origin(session, count, step.origins), NULL);
  }
  assert_true(count > 0);
  td_session_free(session);
}

/* Tables of places are read when somebody asks: each that does gets the user's. */
static void places_are_the_users(void **state) {
  (void)state;
  static const char *const stages[] = {"imported", "passes", "plan"};
  td_load_options options = options_for(&matrix);
  options.backend = "native";
  td_model *model = load("tests/models/torchscript/checks/model.pt", &options), *saved;
  char *text, path[] = "/tmp/treadle-places-XXXXXX.tdl";
  td_error err = {0};
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
    assert_int_equal(td_model_print(model, stages[i], "text", &text, &err), TD_OK);
    check_places(text, true);
    td_text_free(model, text);
  }
  check_steps(model);
  close(mkstemps(path, 4));
  assert_int_equal(td_model_save((const td_model *const *)&model, 1, path, &err), TD_OK);
  td_model_free(model);
  options = (td_load_options){.size = sizeof options};
  saved = load(path, &options);
  check_steps(saved);
  td_model_free(saved);
  remove(path);
}

static void everything_missing_is_named(void **state) {
  (void)state;
  td_input_spec spec = {.name = "x", .dtype = TD_F32, .rank = 2, .dims = {3, 3}};
  td_load_options options = options_for(&spec);
  refuses_file("tests/import/torchscript/missing.pt", &options, TD_UNSUPPORTED, "aten::linalg_eig (2 calls");
  refuses_file("tests/import/torchscript/missing.pt", &options, TD_UNSUPPORTED, "aten::linalg_eigvals");
}

/* What a branch or a loop writes may show in a tensor from before. */
static void written_in_regions(void **state) {
  (void)state;
  td_load_options options = options_for(&matrix);
  refuses_file("tests/import/torchscript/may_share.pt", &options, TD_UNSUPPORTED, "may share its memory");
  options.method = "loop";
  refuses_file("tests/import/torchscript/may_share.pt", &options, TD_UNSUPPORTED, "may share its memory");
}

/* ---- archives made here ------------------------------------------------------------------------------------------ */

typedef struct member {
  const char *name, *bytes;
  size_t size;
} member;
#define MEMBER(name, literal) ((member){(name), (literal), sizeof(literal) - 1})
#define NET MEMBER("net/data.pkl", "\x80\2c__torch__\nNet\n)\x81}b.")
#define NO_CONSTANTS MEMBER("net/constants.pkl", "\x80\2).")
#define VERSION MEMBER("net/version", "3\n")

static base_text zip_of(const member *members, size_t count) {
  base_text out = {.allocator = &base_libc_allocator};
  fmt_zip_writer w = {.out = &out, .directory = {.allocator = &base_libc_allocator}};
  for (size_t i = 0; i < count; i++)
    assert_int_equal(fmt_zip_add(&w, members[i].name, members[i].bytes, members[i].size, NULL), TD_OK);
  assert_int_equal(fmt_zip_finish(&w, NULL), TD_OK);
  return out;
}

/* The archive loads, and gives `want` for `x`, both of [1, 2]. */
static void gives(const member *members, size_t count, const float *x, const float *want) {
  base_text zip = zip_of(members, count);
  td_load_options options = options_for(&matrix);
  td_model *model = NULL;
  td_session *session;
  td_tensor out;
  td_error err = {0};
  if (td_model_load_memory(zip.at, zip.length, &options, &model, &err) != TD_OK) fail_msg("%s", err.text);
  assert_int_equal(td_session_new(model, NULL, &session, &err), TD_OK);
  run(session, x, 1, &out, 1);
  assert_memory_equal(out.data, want, 2 * sizeof *want);
  td_session_free(session);
  td_model_free(model);
  base_text_free(&zip);
}

static void refuses(const member *members, size_t count, td_status want, const char *says) {
  base_text zip = zip_of(members, count);
  td_load_options options = options_for(&matrix);
  td_model *model = NULL;
  td_error err = {0};
  td_status status = td_model_load_memory(zip.at, zip.length, &options, &model, &err);
  if (status != want || !strstr(err.text, says)) fail_msg("%d \"%s\", not %d \"%s\"", status, err.text, want, says);
  base_text_free(&zip);
}
#define REFUSES(want, says, ...) \
  refuses((member[]){__VA_ARGS__}, sizeof((member[]){__VA_ARGS__}) / sizeof(member), (want), (says))

static void other_archives(void **state) {
  (void)state;
  static const char preview[64] = "PYTORCH1";
  td_load_options options = options_for(&matrix);
  td_model *model;
  td_error err = {0};
  assert_int_equal(td_model_load_memory(preview, sizeof preview, &options, &model, &err), TD_UNSUPPORTED);
  assert_non_null(strstr(err.text, "PYTORCH1"));
  REFUSES(TD_UNSUPPORTED, "lite interpreter", MEMBER("net/bytecode.pkl", "."), VERSION);
  REFUSES(TD_UNSUPPORTED, "1.3 or older", MEMBER("net/model.json", "{}"), VERSION);
  REFUSES(TD_UNSUPPORTED, "torch.save", NET, VERSION);
  REFUSES(TD_BAD_FILE, "no TorchScript", MEMBER("net/readme", "hello"), VERSION);
  REFUSES(TD_BAD_FILE, "version", NET, NO_CONSTANTS);
  REFUSES(TD_UNSUPPORTED, "version 11", NET, NO_CONSTANTS, MEMBER("net/version", "11\n"));
  REFUSES(TD_UNSUPPORTED, "big-endian", NET, NO_CONSTANTS, VERSION, MEMBER("net/byteorder", "big"));
  REFUSES(TD_UNSUPPORTED, "optimize_for_inference", NO_CONSTANTS, VERSION,
          MEMBER("net/data.pkl",
                 "\x80\2c__torch__\nNet\n)\x81}X\1\0\0\0w"
                 "c__torch__.torch.classes.mkldnn\nConstantMKLDNNTensor\n)\x81Nbsb."),
          MEMBER("net/code/__torch__.py", "class Net(Module):\n  w : Tensor\n"));
}

static void hostile_pickles(void **state) {
  (void)state;
  REFUSES(TD_UNSUPPORTED, "os.system", NO_CONSTANTS, VERSION,
          MEMBER("net/data.pkl", "\x80\2cos\nsystem\nX\4\0\0\0true\x85R."));
  REFUSES(TD_BAD_FILE, "no module", NO_CONSTANTS, VERSION, MEMBER("net/data.pkl", "\x80\2K\1."));
  REFUSES(TD_BAD_FILE, "no class", NO_CONSTANTS, VERSION, NET);
  /* an object inside itself is no more than one object */
  REFUSES(TD_BAD_ARGUMENT, "no method", NO_CONSTANTS, VERSION,
          MEMBER("net/data.pkl", "\x80\2c__torch__\nNet\n)\x81q\0}X\1\0\0\0wh\0sb."),
          MEMBER("net/code/__torch__.py", "class Net(Module):\n  w : __torch__.Net\n"));
  enum { DEPTH = 5000 };
  char *deep = malloc(DEPTH * 2 + 64);
  assert_non_null(deep);
  int used = sprintf(deep, "%s", "\x80\2c__torch__\nNet\n)\x81}X\1");
  memcpy(deep + used, "\0\0\0w", 4);
  used += 4;
  memset(deep + used, ')', 1);
  memset(deep + used + 1, '\x85', DEPTH);
  memcpy(deep + used + 1 + DEPTH, "sb.", 3);
  REFUSES(TD_BAD_FILE, "deep", NO_CONSTANTS, VERSION, (member){"net/data.pkl", deep, (size_t)used + 4 + DEPTH},
          MEMBER("net/code/__torch__.py", "class Net(Module):\n  w : Tensor\n"));
  free(deep);
}

#define CODE(body) MEMBER("net/code/__torch__.py", "class Net(Module):\n  __parameters__ = []\n" body)

/* Programs that would run for ever, or take all memory, or mean nothing. */
static void hostile_programs(void **state) {
  (void)state;
  REFUSES(TD_UNSUPPORTED, "prim::ConstantMKLDNNTensor (1 call, first code/__torch__.py:4", NET, NO_CONSTANTS, VERSION,
          CODE("  def forward(self, x: Tensor) -> Tensor:\n    w = ops.prim.ConstantMKLDNNTensor()\n"
               "    return torch.add(x, w)\n"));
  REFUSES(TD_UNSUPPORTED, "save the model before optimize_for_inference", NET, NO_CONSTANTS, VERSION,
          CODE("  def forward(self, x: Tensor) -> Tensor:\n    w = ops.prim.ConstantMKLDNNTensor()\n"
               "    return torch.add(x, w)\n"));
#define PROGRAM(want, says, body) REFUSES(want, says, NET, NO_CONSTANTS, VERSION, CODE(body))
  PROGRAM(TD_UNSUPPORTED, "nested too deep",
          "  def forward(self, x: Tensor) -> Tensor:\n    return (self).forward(x, )\n");
  PROGRAM(TD_NO_RESOURCE, "steps",
          "  def forward(self, x: Tensor) -> Tensor:\n    for i in range(64):\n"
          "      for j in range(64):\n        for k in range(64):\n          for l in range(64):\n"
          "            for m in range(64):\n              y = i\n    return x\n");
  PROGRAM(TD_BAD_FILE, "nothing called", "  def forward(self, x: Tensor) -> Tensor:\n    return __torch__.f(x, )\n");
  PROGRAM(TD_BAD_FILE, "no attribute", "  def forward(self, x: Tensor) -> Tensor:\n    return self.w\n");
  PROGRAM(TD_BAD_FILE, "no constant", "  def forward(self, x: Tensor) -> Tensor:\n    return CONSTANTS.c0\n");
  PROGRAM(TD_BAD_FILE, "no function", "  def forward(self, x: Tensor) -> Tensor:\n    return (x)(1, )\n");
  PROGRAM(TD_BAD_FILE, "index 5", "  def forward(self, x: Tensor) -> Tensor:\n    return ((x, x))[5]\n");
  PROGRAM(TD_BAD_FILE, "too many",
          "  def f(self) -> int:\n    return 1\n"
          "  def forward(self, x: Tensor) -> Tensor:\n    return (self).f(x, )\n");
  PROGRAM(TD_BAD_FILE, "is not given",
          "  def f(self, y: int) -> int:\n    return 1\n"
          "  def forward(self, x: Tensor) -> Tensor:\n    return (self).f()\n");
  PROGRAM(TD_BAD_FILE, "line 5", "  def forward(self, x: Tensor) -> Tensor:\n    return (x\n");
  PROGRAM(
      TD_UNSUPPORTED, "may share its memory",
      "  def forward(self, x: Tensor) -> Tensor:\n    x0 = torch.clone(x)\n    if bool(torch.gt(torch.sum(x0), 0)):\n"
      "      y = x0\n    else:\n      y = torch.mul(x0, 2)\n    z = torch.add_(y, 1)\n    return torch.add(x0, y)\n");
  PROGRAM(TD_UNSUPPORTED, "aten::nothing", "  def forward(self, x: Tensor) -> Tensor:\n    return torch.nothing(x)\n");
#undef PROGRAM
}

/* What the spec says is what the program gets: (1 + 2i)^2 is -3 + 4i, and the squares of 1 and 2 are 1 and 4. */
/* The model, what is printed of it, and a saved plan. */
static void tells_complex(td_model *model, int32_t is_complex) {
  char path[] = "/tmp/treadle-pairs-XXXXXX.tdl", *text;
  td_load_options options = {.size = sizeof options};
  td_value_info info = {.size = sizeof info};
  td_error err = {0};
  assert_int_equal(td_model_print(model, "passes", "text", &text, &err), TD_OK);
  assert_true(!strstr(text, "complex") == !is_complex);
  td_text_free(model, text);
  close(mkstemps(path, 4));
  assert_int_equal(td_model_save((const td_model *const *)&model, 1, path, &err), TD_OK);
  td_model *saved = load(path, &options);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(td_model_output(i ? saved : model, 0, &info, &err), TD_OK);
    assert_true(info.is_complex == is_complex && info.dtype == TD_F32 && info.dims[1] == 2);
  }
  td_model_free(saved);
  remove(path);
}

static void inputs_may_be_complex(void **state) {
  (void)state;
  static const float x[] = {1, 2}, want[2][2] = {{1, 4}, {-3, 4}};
  const member members[] = {
      NET, NO_CONSTANTS, VERSION,
      CODE("  def forward(self, x: Tensor) -> Tensor:\n    return torch.mul(x, x)\n"
           "  def parts(self, x: Tensor) -> Tensor:\n    return torch.view_as_real(torch.mul(x, x))\n")};
  base_text zip = zip_of(members, sizeof members / sizeof *members);
  td_input_spec spec = matrix;
  td_load_options options = options_for(&spec);
  td_model *model = NULL;
  td_error err = {0};
  for (int32_t is_complex = 0; is_complex < 2; is_complex++) {
    td_session *session;
    td_tensor out;
    spec.is_complex = is_complex;
    assert_int_equal(td_model_load_memory(zip.at, zip.length, &options, &model, &err), TD_OK);
    assert_int_equal(td_session_new(model, NULL, &session, &err), TD_OK);
    run(session, x, 1, &out, 1);
    assert_memory_equal(out.data, want[is_complex], sizeof want[0]);
    td_session_free(session);
    tells_complex(model, is_complex);
    td_model_free(model);
  }
  spec.dims[1] = 3;
  assert_int_equal(td_model_load_memory(zip.at, zip.length, &options, &model, &err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "a last axis of 2"));
  spec = matrix;
  options.method = "parts";
  assert_int_equal(td_model_load_memory(zip.at, zip.length, &options, &model, &err), TD_UNSUPPORTED);
  assert_non_null(strstr(err.text, "--shape NAME=DIMS:c64"));
  base_text_free(&zip);
}

/* The module that is called has hooks: (x * 2 + 10) * 3, where what a hook leaves alone stays. */
static void hooks_are_called(void **state) {
  (void)state;
  static const float x[] = {1, 2}, want[] = {36, 42};
  const member members[] = {
      NET, NO_CONSTANTS, VERSION,
      CODE("  __forward_pre_hooks__ = [\"first\", \"looks\", ]\n  __forward_hooks__ = [\"last\", \"sees\", ]\n"
           "  def first(self, input: Tuple[Tensor]) -> Tuple[Tensor]:\n    return (torch.mul((input)[0], 2),)\n"
           "  def looks(self, input: Tuple[Tensor]) -> NoneType:\n    return None\n"
           "  def forward(self, x: Tensor) -> Tensor:\n    return torch.add(x, 10)\n"
           "  def last(self, input: Tuple[Tensor],\n    output: Tensor) -> Tensor:\n    return torch.mul(output, 3)\n"
           "  def sees(self, input: Tuple[Tensor],\n    output: Tensor) -> NoneType:\n    return None\n")};
  gives(members, sizeof members / sizeof *members, x, want);
}

/* "%s-%d-%f" takes a tuple: the 'a' and the '-' tell that it did. */
static void formats_by_percent(void **state) {
  (void)state;
  static const char code[] =
      "class Net(Module):\n  __parameters__ = []\n  def forward(self, x: Tensor) -> Tensor:\n"
      "    t = torch.percentFormat(\"%s-%d-%f%%\", (\"a\", 7, 0.5))\n"
      "    u = torch.percentFormat(\"%d\", 2.9)\n"
      "    return torch.add(x, torch.add(torch.mul(int(torch.eq(t, \"a-7-0.500000%\")), 2), int(torch.eq(u, "
      "\"2\"))))\n";
  static const float x[] = {1, 2}, want[] = {4, 5};
  const member members[] = {NET, NO_CONSTANTS, VERSION, MEMBER("net/code/__torch__.py", code)};
  gives(members, sizeof members / sizeof *members, x, want);
}

/* Views of views have strides; what they show is written to where no element is shown twice. Groups of rows have their
 * own matrices. */
static void strided_and_grouped(void **state) {
  (void)state;
  static const float x[] = {1, 2, 3, 4, 5, 6}, strided[] = {2, 5, 4, 6}, grouped[] = {3, 3, 14, 14, 22, 22};
  static const struct {
    const char *method;
    const float *want;
    int64_t rows;
  } cases[] = {{"forward", strided, 2}, {"grouped", grouped, 3}};
  const member members[] = {
      NET, NO_CONSTANTS, VERSION,
      CODE("  def forward(self, x: Tensor) -> Tensor:\n    x0 = torch.clone(x)\n"
           "    y = torch.add_(torch.as_strided(torch.slice(x0, 0, 1), [2, 2], [2, 1]), 1)\n"
           "    return torch.as_strided(torch.slice(torch.t(x0), 0, 1), [2, 2], [1, 2])\n"
           "  def grouped(self, x: Tensor) -> Tensor:\n    w = torch.reshape(torch.tensor([1, 2]), [2, 1, 1])\n"
           "    w0 = torch.mul(torch.ones([2, 2, 2]), w)\n    return torch._grouped_mm(x, w0, torch.tensor([1, 3]))\n"
           "  def shared(self, x: Tensor) -> Tensor:\n    x0 = torch.clone(x)\n"
           "    y = torch.add_(torch.as_strided(x0, [2, 2], [1, 1]), 1)\n    return x0\n")};
  base_text zip = zip_of(members, sizeof members / sizeof *members);
  td_input_spec spec = {.name = "x", .dtype = TD_F32, .rank = 2, .dims = {3, 2}};
  td_load_options options = options_for(&spec);
  td_model *model = NULL;
  td_error err = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    td_session *session;
    td_tensor out;
    options.method = cases[i].method;
    if (td_model_load_memory(zip.at, zip.length, &options, &model, &err) != TD_OK) fail_msg("%s", err.text);
    assert_int_equal(td_session_new(model, NULL, &session, &err), TD_OK);
    run(session, x, 3, &out, 1);
    assert_int_equal(out.dims[0], cases[i].rows);
    assert_memory_equal(out.data, cases[i].want, (size_t)cases[i].rows * 2 * sizeof(float));
    td_session_free(session);
    td_model_free(model);
  }
  options.method = "shared";
  assert_int_equal(td_model_load_memory(zip.at, zip.length, &options, &model, &err), TD_UNSUPPORTED);
  assert_non_null(strstr(err.text, "may share memory"));
  base_text_free(&zip);
}

/* An archive whose bytes are changed one at a time is refused or read, and takes nothing down. */
static void damaged_archives(void **state) {
  (void)state;
  FILE *file = fopen("tests/import/torchscript/state.pt", "rb");
  char *bytes = malloc(1 << 20), *copy = malloc(1 << 20);
  assert_true(file && bytes && copy);
  size_t size = fread(bytes, 1, 1 << 20, file);
  fclose(file);
  td_load_options options = options_for(&matrix);
  for (size_t i = 0; i < size; i += 1 + i % 23) {
    td_model *model = NULL;
    memcpy(copy, bytes, size);
    copy[i] = (char)(copy[i] ^ (1 << (i % 8)));
    if (td_model_load_memory(copy, size, &options, &model, NULL) == TD_OK) td_model_free(model);
    if (i % 7 == 0 && td_model_load_memory(bytes, i, &options, &model, NULL) == TD_OK) td_model_free(model);
  }
  free(bytes);
  free(copy);
}

/* Loads a file, or else bytes, with one allocation after the other refused: every one, or with `sparse` ever fewer. */
static void fail_each(const char *path, const base_text *bytes, bool sparse) {
  td_load_options options = options_for(&matrix);
  bool failed = true;
  for (uint64_t n = 1; failed; n += 1 + (sparse ? n / 16 : 0)) {
    base_counting counting = {.inner = &base_libc_allocator, .fail_at = n, .each = true};
    td_allocator failing = base_counting_allocator(&counting);
    td_model *model = NULL;
    td_error err = {0};
    options.allocator = &failing;
    td_status status = path ? td_model_load(path, &options, &model, &err)
                            : td_model_load_memory(bytes->at, bytes->length, &options, &model, &err);
    if (status != TD_OK && status != TD_NO_RESOURCE) fail_msg("allocation %d: %s", (int)n, err.text);
    char *text = NULL;
    if (status == TD_OK && td_model_print(model, "plan", "text", &text, NULL) == TD_OK) td_text_free(model, text);
    if (status == TD_OK) td_model_free(model);
    assert_int_equal(counting.live, 0);
    failed = counting.made >= n;
  }
}

static void failing_allocations(void **state) {
  (void)state;
  fail_each("tests/import/torchscript/state.pt", NULL, true);
}

/* More changes in a branch than the journal first has room for: its growth is refused, and the branch is rolled back.
 */
static void no_memory_to_note_changes(void **state) {
  (void)state;
  const member members[] = {
      NET, NO_CONSTANTS, VERSION,
#define LIST(name) "    " name " = annotate(List[int], [])\n"
#define ADD(name) "      _ = torch.append(" name ", 1)\n"
      CODE("  def forward(self, x: Tensor) -> Tensor:\n" LIST("a") LIST("b") LIST("c") LIST("d") LIST("e") LIST("f")
               LIST("g") LIST("h") LIST("i") LIST("j") "    if bool(torch.gt(torch.sum(x), 0)):\n" ADD("a") ADD("b")
                   ADD("c") ADD("d") ADD("e") ADD("f") ADD("g") ADD("h") ADD("i")
                       ADD("j") "    else:\n      pass\n"
                                "    return torch.add(x, torch.len(j))\n")};
  base_text zip = zip_of(members, sizeof members / sizeof *members);
  fail_each(NULL, &zip, false);
  base_text_free(&zip);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(state_is_kept),
      cmocka_unit_test(methods),
      cmocka_unit_test(one_of_two_ranks),
      cmocka_unit_test(state_begins_empty),
      cmocka_unit_test(squeezed_axes),
      cmocka_unit_test(raises_on_all_ways),
      cmocka_unit_test(inputs_must_be_told),
      cmocka_unit_test(prints_as_pytorch_does),
      cmocka_unit_test(exceptions_at_run_time),
      cmocka_unit_test(places_are_the_users),
      cmocka_unit_test(everything_missing_is_named),
      cmocka_unit_test(written_in_regions),
      cmocka_unit_test(other_archives),
      cmocka_unit_test(hostile_pickles),
      cmocka_unit_test(hostile_programs),
      cmocka_unit_test(inputs_may_be_complex),
      cmocka_unit_test(hooks_are_called),
      cmocka_unit_test(formats_by_percent),
      cmocka_unit_test(strided_and_grouped),
      cmocka_unit_test(damaged_archives),
      cmocka_unit_test(failing_allocations),
      cmocka_unit_test(no_memory_to_note_changes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
