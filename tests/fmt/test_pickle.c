/* The pickle machine: what each instruction leaves, and what it refuses. */
#include "fmt/emit.h"

static base_arena *arena;

static int setup(void **state) {
  (void)state;
  arena = base_arena_new(&base_libc_allocator);
  return arena ? 0 : -1;
}

static int teardown(void **state) {
  (void)state;
  base_arena_free(arena);
  return 0;
}

/* Reads what stands between PROTO 2 and STOP. */
static td_status read_body(const char *body, size_t length, fmt_object **out, td_error *err) {
  char *file = base_arena_alloc(arena, length + 3);
  assert_non_null(file);
  memcpy(file, "\x80\x02", 2);
  memcpy(file + 2, body, length);
  file[length + 2] = '.';
  size_t at = 0;
  td_status status = fmt_pickle_read(arena, file, length + 3, &at, out, err);
  if (status == TD_OK) assert_int_equal(at, length + 3);
  return status;
}
#define READ(body, out) assert_int_equal(read_body((body), sizeof(body) - 1, (out), NULL), TD_OK)

static void numbers(void **state) {
  (void)state;
  static const struct {
    const char *body;
    size_t length;
    int64_t value;
  } rows[] = {{"K\xff", 2, 255},
              {"M\x01\x80", 3, 0x8001},
              {"J\xff\xff\xff\xff", 5, -1},
              {"\x8a\x00", 2, 0},
              {"\x8a\x01\x80", 3, -128},
              {"\x8a\x02\xff\x00", 4, 255},
              {"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80", 10, INT64_MIN},
              {"\x88", 1, 1},
              {"\x89", 1, 0}};
  fmt_object *o;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_int_equal(read_body(rows[i].body, rows[i].length, &o, NULL), TD_OK);
    assert_int_equal(o->u.i, rows[i].value);
  }
  READ("G\xbf\xf8\0\0\0\0\0\0", &o);
  assert_int_equal(o->kind, FMT_OBJ_FLOAT);
  assert_true(o->u.f == -1.5);
  READ("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", &o);
  assert_int_equal(o->kind, FMT_OBJ_LONG);
  assert_int_equal(o->u.str.length, 10);
}

static void containers(void **state) {
  (void)state;
  fmt_object *o;
  READ("](K\1K\2eK\3a", &o);
  assert_int_equal(o->kind, FMT_OBJ_LIST);
  assert_int_equal(o->u.items.count, 3);
  assert_int_equal(o->u.items.at[2]->u.i, 3);
  READ("}q\0(K\1K\2uK\3Ns", &o);
  assert_int_equal(o->kind, FMT_OBJ_DICT);
  assert_int_equal(o->u.items.count, 4);
}

static void tuples(void **state) {
  (void)state;
  fmt_object *o;
  READ("(K\1\x85K\2K\3\x86)(K\1l(K\1K\2dt", &o);
  assert_int_equal(o->kind, FMT_OBJ_TUPLE);
  assert_int_equal(o->u.items.count, 5);
  assert_int_equal(o->u.items.at[1]->u.items.at[1]->u.i, 3);
  assert_int_equal(o->u.items.at[2]->u.items.count, 0);
  assert_int_equal(o->u.items.at[3]->kind, FMT_OBJ_LIST);
  assert_int_equal(o->u.items.at[4]->kind, FMT_OBJ_DICT);
}

static void memo_shares_objects(void **state) {
  (void)state;
  fmt_object *o;
  READ("]q\5(h\5j\5\0\0\0e", &o); /* a list that contains itself, twice */
  assert_int_equal(o->u.items.count, 2);
  assert_ptr_equal(o->u.items.at[0], o);
  assert_ptr_equal(o->u.items.at[1], o);
}

static void instances_of_torchscript(void **state) {
  (void)state;
  fmt_object *o;
  READ("c__torch__.net\nNet\n)\x81}b", &o);
  assert_int_equal(o->kind, FMT_OBJ_INSTANCE);
  assert_int_equal(o->u.items.count, 2);
  assert_true(base_str_is(o->u.items.at[0]->u.global->name, "Net"));
  READ("ctorch.jit._pickle\nbuild_intlist\n](K\1K\2e\x85R", &o);
  assert_int_equal(o->kind, FMT_OBJ_LIST);
  assert_int_equal(o->u.items.count, 2);
}

/* A float32 tensor of two elements over an untyped storage of 8 bytes, as a parameter. */
static void rebuilt_tensors(void **state) {
  (void)state;
  base_text t = new_text();
  emit_global(&t, "torch._utils", "_rebuild_parameter");
  EMIT(&t, "(");
  emit_global(&t, "torch._utils", "_rebuild_tensor_v3");
  EMIT(&t, "((");
  emit_str(&t, "storage");
  emit_global(&t, "torch.storage", "UntypedStorage");
  emit_str(&t, "0");
  emit_str(&t, "cpu");
  EMIT(&t, "K\x08tQK\0K\2\x85K\1\x85\x89)");
  emit_global(&t, "torch", "float32");
  EMIT(&t, "}tR\x89)tR");
  fmt_object *o = NULL;
  assert_int_equal(read_body(t.at, t.length, &o, NULL), TD_OK);
  assert_int_equal(o->kind, FMT_OBJ_TENSOR);
  assert_int_equal(o->u.tensor->dtype, TD_F32);
  assert_int_equal(o->u.tensor->rank, 1);
  assert_int_equal(o->u.tensor->dims[0], 2);
  assert_int_equal(o->u.tensor->storage->dtype, TD_INVALID);
  assert_int_equal(o->u.tensor->storage->count, 8);
  base_text_free(&t);
}

static void refuses(td_status want, const char *text, const char *body, size_t length) {
  fmt_object *o;
  td_error err = {0};
  td_status status = read_body(body, length, &o, &err);
  if (status != want || !strstr(err.text, text)) fail_msg("%s: status %d, says \"%s\"", body, (int)status, err.text);
}
#define REFUSES(want, text, body) refuses((want), (text), (body), sizeof(body) - 1)

static void refused_pickles(void **state) {
  (void)state;
  REFUSES(TD_UNSUPPORTED, "os.system", "cos\nsystem\nX\2\0\0\0ls\x85R");
  REFUSES(TD_UNSUPPORTED, "builtins.eval", "cbuiltins\neval\n");
  REFUSES(TD_UNSUPPORTED, "__torch__evil.x", "c__torch__evil\nx\n");
  REFUSES(TD_UNSUPPORTED, "0x69", "(ios\nsystem\n");           /* INST */
  REFUSES(TD_UNSUPPORTED, "0x93", "X\1\0\0\0aX\1\0\0\0b\x93"); /* STACK_GLOBAL */
  REFUSES(TD_UNSUPPORTED, "protocol 4", "\x80\x04N");
  REFUSES(TD_UNSUPPORTED, "sparse", "ctorch._utils\n_rebuild_sparse_tensor\n)R");
  REFUSES(TD_BAD_FILE, "arguments of", "ctorch._utils\n_rebuild_qtensor\n)R");
  REFUSES(TD_BAD_FILE, "no function", "ctorch\nFloatStorage\n)R");
  REFUSES(TD_BAD_FILE, "no function", "K\1)R");
  REFUSES(TD_BAD_FILE, "no tuple", "K\1Q");
  REFUSES(TD_BAD_FILE, "tuple of arguments", "ccollections\nOrderedDict\nK\1R");
  REFUSES(TD_BAD_FILE, "no class", "ctorch\nFloatStorage\n)\x81");
  REFUSES(TD_BAD_FILE, "arguments of", "ctorch._utils\n_rebuild_tensor_v2\n)R");
  REFUSES(TD_BAD_FILE, "never had", "h\3");
  REFUSES(TD_BAD_FILE, "too many", "Nr\xff\xff\xff\xff");
  REFUSES(TD_BAD_FILE, "too little", "N\x86");
  REFUSES(TD_BAD_FILE, "too little", "N(N\x86"); /* not across a mark */
  REFUSES(TD_BAD_FILE, "more than", "R");
  REFUSES(TD_BAD_FILE, "no mark", "Nt");
  REFUSES(TD_BAD_FILE, "without a value", "}(K\1u");
  REFUSES(TD_BAD_FILE, "not there", "(K\1a");
  REFUSES(TD_BAD_FILE, "not there", "(e");
  REFUSES(TD_BAD_FILE, "wrong kind", "}(K\1e");
  REFUSES(TD_BAD_FILE, "on its stack", "NN");
  REFUSES(TD_BAD_FILE, "on its stack", "");
  REFUSES(TD_BAD_FILE, "ends inside", "X\xff\xff\xff\xff");
  REFUSES(TD_BAD_FILE, "inside a name", "ctorch");
}

/* What TorchScript adds: typed lists, devices, complex numbers, members of enumerations. */
static void torchscript_objects(void **state) {
  (void)state;
  fmt_object *o;
  READ("ctorch.jit._pickle\nbuild_intlist\n](K\1K\2e\x85R", &o);
  assert_int_equal(o->kind, FMT_OBJ_LIST);
  assert_true(base_str_is(o->tag->u.str, "List[int]"));
  READ("ctorch.jit._pickle\nrestore_type_tag\n}X\x0e\0\0\0Dict[str, int]\x86R", &o);
  assert_int_equal(o->kind, FMT_OBJ_DICT);
  assert_true(base_str_is(o->tag->u.str, "Dict[str, int]"));
  READ("ctorch\ndevice\nX\6\0\0\0cuda:0\x85R", &o);
  assert_int_equal(o->kind, FMT_OBJ_DEVICE);
  assert_true(base_str_is(o->u.str, "cuda:0"));
  READ("cbuiltins\ncomplex\nG\x3f\xf0\0\0\0\0\0\0G\x40\0\0\0\0\0\0\0\x86R", &o);
  assert_int_equal(o->kind, FMT_OBJ_COMPLEX);
  assert_true(o->u.items.at[1]->u.f == 2);
  READ("c__torch__\nColor\nK\3R", &o);
  assert_int_equal(o->kind, FMT_OBJ_ENUM);
  assert_int_equal(o->u.items.at[1]->u.i, 3);
}

/* Memory stays a small multiple of the pickle, whatever it does. */
static void memory_is_bounded(void **state) {
  (void)state;
  static const char *const units[] = {")", "]", "(", "N\x85", "Nq\xfe", "]Na", "(t", "}NNs", "Nr\x10\x27\0\0"};
  enum { REPEATS = 20000 };
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    base_counting counting = {.inner = &base_libc_allocator};
    td_allocator allocator = base_counting_allocator(&counting);
    base_text t = new_text();
    size_t length = units[i][0] == 'N' && units[i][1] == 'r' ? 6 : strlen(units[i]);
    EMIT(&t, "\x80\x02");
    for (int k = 0; k < REPEATS; k++) emit(&t, units[i], length);
    EMIT(&t, ".");
    base_arena *a = base_arena_new(&allocator);
    fmt_object *o;
    size_t at = 0;
    assert_int_not_equal(fmt_pickle_read(a, t.at, t.length, &at, &o, NULL), TD_OK);
    if (counting.peak_bytes > 100 * t.length + (1 << 20))
      fail_msg("unit %zu: %llu bytes for %zu", i, (unsigned long long)counting.peak_bytes, t.length);
    base_arena_free(a);
    base_text_free(&t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers),
      cmocka_unit_test(containers),
      cmocka_unit_test(tuples),
      cmocka_unit_test(memo_shares_objects),
      cmocka_unit_test(instances_of_torchscript),
      cmocka_unit_test(rebuilt_tensors),
      cmocka_unit_test(refused_pickles),
      cmocka_unit_test(torchscript_objects),
      cmocka_unit_test(memory_is_bounded),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
