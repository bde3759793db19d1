/* The source text of TorchScript archives as a tree: the forms that PyTorch writes, and what is refused, where. */
#include "test.h"

#include "import/torchscript/ast_priv.h"

#include <stdio.h>

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

static td_status parse(const char *text, ts_source *source, td_error *err) {
  *source = (ts_source){.file = "code/net.py"};
  return ts_parse(arena, base_str_of(text), source, err);
}

static const ts_block *body_of(const char *text, ts_source *source) {
  td_error err = {0};
  td_status status = parse(text, source, &err);
  if (status != TD_OK) fail_msg("%s: %s", err.name, err.text);
  assert_int_equal(source->functions.count, 1);
  return &source->functions.at[0]->body;
}

static void classes(void **state) {
  (void)state;
  ts_source s;
  td_error err = {0};
  assert_int_equal(parse("op_version_set = 1\n"
                         "class Net(Module):\n"
                         "  __parameters__ = [\"weight\", ]\n"
                         "  weight : Tensor\n"
                         "  __annotations__[\"0\"] = __torch__.x.Linear\n"
                         "  stride : Final[Tuple[int, int]] = (1, 1)\n"
                         "  def forward(self: __torch__.Net,\n"
                         "    x: Tensor,\n"
                         "    k: int=3) -> Tensor:\n"
                         "    return torch.add(x, k)\n"
                         "class Empty(Interface):\n"
                         "  pass\n",
                         &s, &err),
                   TD_OK);
  assert_int_equal(s.classes.count, 2);
  const ts_class_def *c = s.classes.at[0];
  assert_true(base_str_is(c->name, "Net") && base_str_is(c->base, "Module"));
  assert_int_equal(c->fields.count, 4);
  assert_true(base_str_is(c->fields.at[2].name, "0"));
  assert_int_equal(c->fields.at[3].value->kind, TS_TUPLE);
  assert_int_equal(c->methods.count, 1);
  assert_int_equal(c->methods.at[0]->param_count, 3);
  assert_int_equal(c->methods.at[0]->params[2].fallback->number.i, 3);
}

static void statements(void **state) {
  (void)state;
  ts_source s;
  const ts_block *b = body_of(
      "def f(x: Tensor) -> Tensor:\n"
      "  a, b = c, d\n"
      "  h, c0, = t\n"
      "  q, = l\n"
      "  y : Optional[Tensor] = None  # a comment\n"
      "  self.state = x\n"
      "  if c:\n"
      "    pass\n"
      "  else:\n"
      "    z = 1\n"
      "  for i in range(3):\n"
      "    z0 = i\n"
      "\n"
      "  while c:\n"
      "    c = d\n"
      "  with g as k:\n"
      "    pass\n"
      "  def task():\n"
      "    return a\n"
      "  return fork(task)\n",
      &s);
  static const ts_stmt_kind kinds[] = {TS_ASSIGN, TS_ASSIGN, TS_ASSIGN, TS_ASSIGN, TS_STORE, TS_IF,
                                       TS_FOR,    TS_WHILE,  TS_WITH,   TS_DEF,    TS_RETURN};
  assert_int_equal(b->count, sizeof kinds / sizeof *kinds);
  for (uint32_t i = 0; i < b->count; i++) assert_int_equal(b->at[i].kind, kinds[i]);
  assert_false(b->at[0].unpack);
  assert_true(b->at[1].unpack && b->at[1].target_count == 2);
  assert_true(b->at[2].unpack && b->at[2].target_count == 1);
  assert_non_null(b->at[3].type);
  assert_int_equal(b->at[5].other.count, 1);
  assert_int_equal(b->at[8].target_count, 1);
  assert_int_equal(b->at[6].place.line, 11);
}

static void expressions(void **state) {
  (void)state;
  ts_source s;
  const ts_block *b = body_of(
      "def f():\n"
      "  a = torch.slice(x, 0, 9223372036854775807, dtype=4)\n"
      "  b = -9223372036854775808\n"
      "  c = 1.0000000000000001e-05\n"
      "  d = \"a\\n\\\"\\303\\251\"\n"
      "  e = (t)[0]\n"
      "  g = (t)[1:3]\n"
      "  h = annotate(List[Tensor], [])\n"
      "  i = {\"k\": 1, \"l\": (2,)}\n"
      "  j = (self.layer).forward(x, )\n"
      "  k = annotate(Tuple[()], ())\n"
      "  l = 1 + 2 * 3 == 7 and not x\n"
      "  m = [\n"
      "1,\n"
      "  2]\n",
      &s);
  assert_int_equal(b->at[0].values[0]->count, 5);
  assert_true(base_str_is(b->at[0].values[0]->keywords[4], "dtype"));
  assert_true(b->at[1].values[0]->number.i == INT64_MIN);
  assert_true(b->at[2].values[0]->number.f == 1e-5);
  assert_true(base_str_is(b->at[3].values[0]->text, "a\n\"\303\251"));
  assert_int_equal(b->at[4].values[0]->kind, TS_INDEX);
  assert_int_equal(b->at[5].values[0]->items[1]->kind, TS_SLICE);
  assert_int_equal(b->at[7].values[0]->count, 4);
  assert_int_equal(b->at[8].values[0]->count, 2);
  assert_int_equal(b->at[9].values[0]->items[1]->items[1]->kind, TS_TUPLE);
  assert_true(base_str_is(b->at[10].values[0]->text, "and"));
  assert_int_equal(b->at[11].values[0]->count, 2);
}

static void types(void **state) {
  (void)state;
  ts_expr *type;
  assert_int_equal(ts_parse_type(arena, BASE_STR("Dict[str, List[Tensor]]"), "data.pkl", &type, NULL), TD_OK);
  assert_int_equal(type->count, 3);
  assert_int_equal(ts_parse_type(arena, BASE_STR("Dict[str"), "data.pkl", &type, NULL), TD_BAD_FILE);
  assert_int_equal(ts_parse_type(arena, BASE_STR(""), "data.pkl", &type, NULL), TD_BAD_FILE);
}

static void refuses(const char *text, const char *says) {
  ts_source s;
  td_error err = {0};
  assert_int_equal(parse(text, &s, &err), TD_BAD_FILE);
  assert_string_equal(err.name, "code/net.py");
  assert_true(err.offset >= 0 && (size_t)err.offset <= strlen(text));
  if (!strstr(err.text, says)) fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static void broken_text(void **state) {
  (void)state;
  refuses("x = 1\n", "line 1: 'class' or 'def'");
  refuses("def f(:\n", "a name");
  refuses("def f():\n  x = \"abc\n", "line 2: a string has no end");
  refuses("def f():\n  x = 'a\\q'\n", "escape");
  refuses("def f():\n  x = 99999999999999999999\n", "64 bits");
  refuses("def f():\n  x = 1e\n", "exponent");
  refuses("def f():\n  x = 3x\n", "letter");
  refuses("def f():\n  x = $\n", "means nothing");
  refuses("def f():\n  x = \001\n", "0x01");
  refuses("def f():\n    x = 1\n  y = 2\n", "indented");
  refuses("def f():\n  1 = x\n", "assigned");
  refuses("def f():\n  a, b = 1, 2, 3\n", "2 names are assigned 3 values");
  refuses("def f():\n  a, b\n", "leaves it");
  refuses("def f():\n  x = g(a=1, 2)\n", "without a name");
  refuses("def f():\n  x = a[]\n", "empty");
  refuses("def f():\n", "a block");
  refuses("def f():\n  x = (1, 2\n", "closing bracket");
  refuses("class A(B:\n", "')'");
  refuses("class A:\n  x\n", "':' or '='");
}

/* Depth is refused, whatever nests: no input takes the stack. */
static void deep_text(void **state) {
  (void)state;
  static const char *const opens[] = {"(", "[", "f(", "-", "not ", "{1: ", "a[", "1 + (", "((x)."};
  enum { REPEATS = 5000 };
  char *text = base_arena_alloc(arena, 20 + REPEATS * 8);
  for (size_t i = 0; i < sizeof opens / sizeof *opens; i++) {
    char *at = text + sprintf(text, "def f():\n  x = ");
    for (int k = 0; k < REPEATS; k++) at += sprintf(at, "%s", opens[i]);
    refuses(text, i == 8 ? "name" : "deep");
  }
  char *blocks = base_arena_alloc(arena, 400 * 420), *at = blocks + sprintf(blocks, "def f():\n");
  for (int k = 1; k < 400; k++) at += sprintf(at, "%*sif c:\n", 2 * k, "");
  refuses(blocks, "deep");
  at = text + sprintf(text, "def f():\n  x = a");
  for (int k = 0; k < REPEATS; k++) at += sprintf(at, ".b");
  refuses(text, "chain");
  at = text + sprintf(text, "def f():\n  x = a");
  for (int k = 0; k < REPEATS; k++) at += sprintf(at, " + b");
  refuses(text, "chain");
}

/* A file cut off anywhere is an error, or shorter, and takes no more memory than is said. */
static void every_prefix(void **state) {
  (void)state;
  static const char text[] =
      "class A(Module):\n  w : Tensor\n  def forward(self, x: Tensor=1) -> Tensor:\n"
      "    if torch.gt(x, 1.5e3):\n      y, = {\"a\": [1, -2]}, \n    else:\n      self.w = x\n"
      "    return (y)[0:2]\n";
  for (size_t n = 0; n < sizeof text - 1; n++) {
    base_arena *a = base_arena_new(&base_libc_allocator);
    ts_source s = {.file = "net.py"};
    td_error err = {0};
    td_status status = ts_parse(a, (base_str){text, n}, &s, &err);
    assert_true(status == TD_OK || status == TD_BAD_FILE);
    base_arena_free(a);
  }
}

static void failing_allocations(void **state) {
  (void)state;
  static const char text[] =
      "class A(Module):\n  w : Tensor\n  def forward(self, x: Tensor=1) -> Tensor:\n"
      "    y, z = \"a\\n\", f(1, k=[2, {3: x[1]}])\n    return -y\n";
  td_status status = TD_NO_RESOURCE;
  for (uint64_t n = 1; status != TD_OK; n++) {
    base_counting counting = {.inner = &base_libc_allocator, .fail_at = n, .each = true};
    td_allocator failing = base_counting_allocator(&counting);
    base_arena *a = base_arena_new(&failing);
    ts_source s = {.file = "net.py"};
    td_error err = {0};
    status = a ? ts_parse(a, BASE_STR(text), &s, &err) : TD_NO_RESOURCE;
    assert_true(status == TD_OK || status == TD_NO_RESOURCE);
    base_arena_free(a);
    assert_int_equal(counting.live, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(classes, setup, teardown),
      cmocka_unit_test_setup_teardown(statements, setup, teardown),
      cmocka_unit_test_setup_teardown(expressions, setup, teardown),
      cmocka_unit_test_setup_teardown(types, setup, teardown),
      cmocka_unit_test_setup_teardown(broken_text, setup, teardown),
      cmocka_unit_test_setup_teardown(deep_text, setup, teardown),
      cmocka_unit_test(every_prefix),
      cmocka_unit_test(failing_allocations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
