/* ctest: memory */
/* test_pt2_archive.c -- the containers of torch.export, recorded with torch 2.15 (tests/import/pt2: the same program as
 * raw storages, as torch.save files in a folder, and flat), and archives that are damaged or made to hurt. */
#include "fmt/fmt.h"
#include "import/pt2_build.h"

static char *read_file(const char *path, size_t *size) {
  FILE *f = fopen(path, "rb");
  char *bytes = malloc(1 << 16);
  assert_non_null(f);
  assert_non_null(bytes);
  *size = fread(bytes, 1, 1 << 16, f);
  fclose(f);
  return bytes;
}

static const char *const containers[] = {"tests/import/pt2/raw.pt2", "tests/import/pt2/saved.pt2",
                                         "tests/import/pt2/flat.pt2"};

static void every_container(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof containers / sizeof *containers; i++) {
    program p = {0};
    td_value_info info = {.size = sizeof info};
    if (td_model_load(containers[i], NULL, &p.model, &p.err) != TD_OK) fail_msg("%s: %s", containers[i], p.err.text);
    assert_int_equal(td_session_new(p.model, NULL, &p.session, &p.err), TD_OK);
    assert_int_equal(td_model_input(p.model, 0, &info, &p.err), TD_OK);
    assert_string_equal(info.name, "x");
    assert_int_equal(program_run(&p, (const float[]){1, -1, 2}, 1, 3), TD_OK);
    expect_floats(&p, 0, (const float[]){49, 74}, 2);
    assert_int_equal(program_run(&p, (const float[27]){0}, 9, 3), TD_BAD_ARGUMENT);
    program_close(&p);
  }
}

static td_status load_bytes(const void *bytes, size_t size, const td_allocator *allocator, td_error *err) {
  td_load_options options = {.size = sizeof options, .backend = "eager", .allocator = allocator, .format = "pt2"};
  td_model *model = NULL;
  *err = (td_error){0};
  td_status status = td_model_load_memory(bytes, size, &options, &model, err);
  return use_and_free(model, status, err);
}

static void compiled_archives_are_refused(void **state) {
  (void)state;
  td_error err;
  size_t size;
  char *bytes = read_file("tests/import/pt2/compiled.pt2", &size);
  assert_int_equal(load_bytes(bytes, size, NULL, &err), TD_UNSUPPORTED);
  if (!strstr(err.text, "AOTInductor")) fail_msg("%s", err.text);
  free(bytes);
}

/* Whatever is cut off or changed, a status and a sentence come out. */
static void damage(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof containers / sizeof *containers; i++) {
    size_t size;
    td_error err;
    char *bytes = read_file(containers[i], &size);
    for (size_t cut = 0; cut < size; cut += 97) {
      char *part = malloc(cut + 1);
      assert_non_null(part);
      memcpy(part, bytes, cut);
      assert_int_not_equal(load_bytes(part, cut, NULL, &err), TD_OK);
      assert_true(err.text[0] != 0);
      free(part);
    }
    for (size_t at = 0; at < size; at += 13) {
      char kept = bytes[at];
      bytes[at] = (char)(kept ^ 0x55);
      if (load_bytes(bytes, size, NULL, &err) != TD_OK) assert_true(err.text[0] != 0);
      bytes[at] = kept;
    }
    free(bytes);
  }
}

typedef struct file {
  const char *bytes;
  size_t size;
} file;

static td_status load_file(const td_allocator *allocator, void *user) {
  const file *f = user;
  td_error err;
  return load_bytes(f->bytes, f->size, allocator, &err);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof containers / sizeof *containers; i++) {
    file f;
    char *bytes = read_file(containers[i], &f.size);
    f.bytes = bytes;
    assert_true(fail_each_allocation(load_file, &f, true) > 10);
    free(bytes);
  }
}

/* ---- documents that are made to hurt ---- */

static const struct {
  const char *text;
  td_status status;
  const char *says;
} hostile[] = {
    {"{'graph_module'", TD_BAD_FILE, "no JSON"},
    {"{'graph_module':1}", TD_UNSUPPORTED, "schema 0"},
    {"{'schema_version':{'major':8}}", TD_BAD_FILE, "no graph"},
    {"{'schema_version':{'major':7}}", TD_UNSUPPORTED, "schema 7"},
    {PROGRAM("", T("y"), "", "", "", RESULT("y"), ""), TD_BAD_FILE, "\"y\" is not defined"},
    {PROGRAM("", "", NODE("torch.ops.aten.nothing.default", "", T("y")), "", "", "", ""), TD_UNSUPPORTED,
     "aten::nothing (1 call, first model.py:7, in forward)"},
    {PROGRAM("", "", NODE("add", "", ""), "", "", "", ""), TD_BAD_FILE, "no target"},
    {PROGRAM("", "", NODE("torch.ops.higher_order.flex_attention", "", ""), "", "", "", ""), TD_UNSUPPORTED,
     "flex_attention"},
    {PROGRAM("", "", NODE("torch.ops.aten.neg.default", ARG("self", "{'as_thing':1}"), T("y")), "", "", "", ""),
     TD_UNSUPPORTED, "as_thing"},
    {PROGRAM("", "", NODE("torch.ops.aten.neg.default", ARG("self", "{'as_int':'1'}"), T("y")), "", "", "", ""),
     TD_BAD_FILE, "no integer"},
    {PROGRAM(T("x"), "", "", "", USER("x"), "", ""), TD_BAD_FILE, "type of a tensor is missing"},
    {PROGRAM(T("x"), "", "", VALUE("x", "99", INT(1)), USER("x"), "", ""), TD_BAD_FILE, "element type 99"},
    {PROGRAM(T("x"), "", "", VALUE("x", F32, INT(-1)), USER("x"), "", ""), TD_BAD_FILE, "negative"},
    {PROGRAM(T("x"), "", "", VALUE("x", F32, EXPR("Sin(s0)")), USER("x"), "", ""), TD_UNSUPPORTED, "Sin(s0)"},
    {PROGRAM(T("x"), "", "", VALUE("x", F32, EXPR("s0 +")), USER("x"), "", ""), TD_UNSUPPORTED, "s0 +"},
    {PROGRAM(T("x"), "", "", VALUE("x", F32, EXPR("99999999999999999999")), USER("x"), "", ""), TD_UNSUPPORTED,
     "not understood"},
    {PROGRAM(T("x"), "", "",
             VALUE("x", F32,
                   INT(1) "," INT(1) "," INT(1) "," INT(1) "," INT(1) "," INT(1) "," INT(1) "," INT(1) "," INT(1)),
             USER("x"), "", ""),
     TD_UNSUPPORTED, "9 dimensions"},
    {PROGRAM(T("x"), "", "", VALUE("x", F32, INT(2)), USER("x"), "", ",'guards_code':['L[`x`].stride() == 1']"),
     TD_UNSUPPORTED, "condition"},
    {PROGRAM(T("b"), "", "", "", BUFFER("b", "n"), "{'loss_output':{'arg':{'name':'b'}}}", ""), TD_UNSUPPORTED,
     "training"},
    {PROGRAM("", "", "", "", "{'custom_obj':{'arg':{'name':'o'}}}", "", ""), TD_UNSUPPORTED, "custom_obj"}};

static void hostile_documents(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
    expect_refusal(hostile[i].text, hostile[i].status, hostile[i].says);
}

/* Graphs in graphs, brackets in brackets. */
static void nested(const char *open, const char *inner, const char *close, size_t times, td_status status) {
  size_t room = (strlen(open) + strlen(close)) * times + strlen(inner) + 1024;
  char *text = malloc(room);
  assert_non_null(text);
  strcpy(text, "{'schema_version':{'major':8},'graph_module':{'signature':{'input_specs':[]},'graph':");
  char *at = text + strlen(text);
  for (size_t i = 0; i < times; i++) at = stpcpy(at, open);
  at = stpcpy(at, inner);
  for (size_t i = 0; i < times; i++) at = stpcpy(at, close);
  strcpy(at, "}}");
  expect_refusal(text, status, "");
  free(text);
}

static void deep_nesting(void **state) {
  (void)state;
  static const char open[] =
      "{'inputs':[],'outputs':[],'nodes':[{'target':'torch.ops.higher_order.wrap','inputs':[{'arg':"
      "{'as_graph':{'graph':";
  static const char close[] = "}},'name':''}],'outputs':[]}]}";
  nested(open, "{'nodes':[],'inputs':[],'outputs':[]}", close, 100, TD_BAD_FILE);
  nested("[", "1", "]", 100000, TD_BAD_FILE);
  nested("{'a':", "1", "}", 100000, TD_BAD_FILE);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_container),
                                     cmocka_unit_test(compiled_archives_are_refused),
                                     cmocka_unit_test(damage),
                                     cmocka_unit_test(every_allocation_may_fail),
                                     cmocka_unit_test(hostile_documents),
                                     cmocka_unit_test(deep_nesting)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
