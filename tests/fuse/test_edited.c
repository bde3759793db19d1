/* test_edited.c -- fused loops that somebody has changed in the text that was made of them. */
#include "fuse/fuse.h"
#include "runtime/harness.h"

/* Two loops, of different inputs. */
static const char two_loops[] =
    "input %0 \"x\": f32[4, 37]\n"
    "input %1 \"y\": f32[3, 50]\n"
    "%2 = aten::neg(%0)  # \"a\"\n"
    "%3 = aten::tanh(%2)  # \"b\"\n"
    "%4 = aten::neg(%1)  # \"c\"\n"
    "%5 = aten::tanh(%4)  # \"d\"\n"
    "output \"u\" %3\n"
    "output \"v\" %5\n";
static const fuse_setting setting = {.isa = BASE_ISA_VECTOR, .compiled = true};

typedef struct bench {
  base_arena *arena;
  ir_graph *graph;
  td_error err;
} bench;

static void bench_open(bench *b) {
  uint32_t changes = 0;
  *b = (bench){.arena = base_arena_new(&base_libc_allocator)};
  b->graph = parse_graph(b->arena, two_loops, &base_libc_allocator);
  assert_int_equal(fuse_groups(b->graph, &setting, &changes, &b->err), TD_OK);
  assert_int_equal(changes, 2);
}

static void bench_close(bench *b) {
  ir_graph_free(b->graph);
  base_arena_free(b->arena);
}

static char *loops_of(bench *b) {
  base_text text = {.allocator = &base_libc_allocator};
  assert_int_equal(fuse_print(b->graph, &setting, &text, &b->err), TD_OK);
  char *loops = base_arena_text(b->arena, text.at);
  base_text_free(&text);
  return loops;
}

static td_status take(bench *b, const char *text) {
  return fuse_take_edited(b->graph, text, strlen(text), "loops.txt", &b->err);
}

/* `loops` with the first `old` behind `mark` replaced by `new`. */
static char *edited(bench *b, const char *loops, const char *mark, const char *old, const char *new) {
  const char *from = strstr(loops, mark), *at = from ? strstr(from, old) : NULL;
  if (!at) fail_msg("'%s' is not behind '%s' in\n%s", old, mark, loops);
  return base_arena_format(b->arena, "%.*s%s%s", (int)(at - loops), loops, new, at + strlen(old));
}

/* Each loop by its number: what was changed is computed, the other one stays. */
static void loops_are_changed(void **state) {
  (void)state;
  static const char *const marks[] = {"# loop 0:", "# loop 1:"};
  for (size_t i = 0; i < 2; i++) {
    bench b;
    bench_open(&b);
    const char *changed = edited(&b, loops_of(&b), marks[i], "neg(", "abs(");
    if (take(&b, changed) != TD_OK) fail_msg("%s", b.err.text);
    assert_int_equal(ir_verify(b.graph, &b.err), TD_OK);
    assert_string_equal(loops_of(&b), changed);
    bench_close(&b);
  }
}

/* As long as nobody has changed the text, the graph's own loops count. */
static void what_is_as_written_is_left(void **state) {
  (void)state;
  bench b;
  base_text marked = {.allocator = &base_libc_allocator};
  bench_open(&b);
  const char *loops = loops_of(&b);
  const base_text other = {.at = edited(&b, loops, "# loop 0:", "neg(", "abs("), .length = strlen(loops)};
  fuse_mark(&other, &marked);
  assert_int_equal(fuse_take_edited(b.graph, marked.at, marked.length, "loops.txt", &b.err), TD_OK);
  assert_string_equal(loops_of(&b), loops);
  const char *changed = edited(&b, loops, "# loop 1:", "neg(", "abs(");
  marked.length = 0;
  fuse_mark(&(base_text){.at = (char *)(uintptr_t)loops, .length = strlen(loops)}, &marked);
  assert_int_equal(take(&b, edited(&b, marked.at, "# loop 1:", "neg(", "abs(")), TD_OK);
  assert_string_equal(loops_of(&b), changed);
  base_text_free(&marked);
  bench_close(&b);
}

static void misfits_are_refused(void **state) {
  (void)state;
  static const char *const changes[][2] = {{"neg(", "no_function("}, {"\n}", "\n"}};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    bench b;
    bench_open(&b);
    assert_int_equal(take(&b, edited(&b, loops_of(&b), "# loop 1:", changes[i][0], changes[i][1])), TD_BAD_FILE);
    if (!strstr(b.err.text, "loop 1")) fail_msg("%s", b.err.text);
    bench_close(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(loops_are_changed), cmocka_unit_test(what_is_as_written_is_left),
                                     cmocka_unit_test(misfits_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
