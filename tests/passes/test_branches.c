/* Sums of convolutions of one image: which become one, which stay, and that numbers stay. */
#include "passes/numbers.h"

#define CONV_ARGS                                                                                                   \
  "dilation = [], auto_pad = \"\", transposed = false, output_padding = [], groups = 1, output_size = []}: f32[1, " \
  "2, 3, 3]\n"

/* 3x3 + 1x1 + norm + image + 1, and something else behind. */
static void a_block_becomes_one(void **state) {
  (void)state;
  expect_change("branches",
                "input %0 \"x\": f32[1, 2, 3, 3]\n"
                "input %1 \"r\": f32[1, 2, 3, 3]\n"
                "const %2: f32[2, 2, 3, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, "
                "21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36}\n"
                "const %3: f32[2, 2, 1, 1] = {100, 200, 300, 400}\n"
                "const %4: f32[2] = {1, 2}\n"
                "const %5: f32[2] = {3, 15}\n"
                "const %6: f32[] = {0.5}\n"
                "%7 = aten::convolution(%0, %2, %5) {padding = [1, 1, 1, 1]}\n"
                "%8 = aten::convolution(%0, %3)\n"
                "%9 = aten::_native_batch_norm_legit_no_training(%0, %4, %4, %4, %5) {eps = 1}\n"
                "%10 = aten::add(%1, %7)\n"
                "%11 = aten::add(%8, %10)\n"
                "%12 = aten::add(%6, %9)\n"
                "%13 = aten::add(%12, %0)\n"
                "%14 = aten::add(%13, %11)\n"
                "output \"y\" %14\n",
                "input %0 \"x\": f32[1, 2, 3, 3]\n"
                "input %1 \"r\": f32[1, 2, 3, 3]\n"
                "const %2: f32[2, 2, 3, 3] = {1, 2, 3, 4, 106.5, 6, 7, 8, 9, 10, 11, 12, 13, 214, 15, 16, 17, 18, 19, "
                "20, 21, 22, 323, 24, 25, 26, 27, 28, 29, 30, 31, 433.5, 33, 34, 35, 36}\n"
                "const %3: f32[2] = {4, 16.5}\n"
                "%4 = aten::convolution(%0, %2, %3) {stride = [], padding = [1, 1, 1, 1], " CONV_ARGS
                "%5 = aten::add(%4, %1): f32[1, 2, 3, 3]\n"
                "output \"y\" %5\n",
                2);
}

/* A convolution of its own, one that others read too, windows of which none has the taps of the other, an image that is
 * added to one convolution (its epilogue does that), what broadcasts. */
static void others_stay(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "%6 = aten::convolution(%0, %2) {padding = [1, 1, 1, 1]}\n%7 = aten::convolution(%1, %3)\n"
      "%8 = aten::add(%6, %7)\n",
      "%6 = aten::convolution(%0, %2) {padding = [1, 1, 1, 1]}\n%7 = aten::convolution(%0, %3)\n"
      "%8 = aten::add(%6, %7)\noutput \"z\" %7\n",
      "%6 = aten::convolution(%0, %4) {padding = [0, 1, 0, 1]}\n"
      "%7 = aten::convolution(%0, %5) {padding = [1, 0, 1, 0]}\n%8 = aten::add(%6, %7)\n",
      "%6 = aten::convolution(%0, %2) {padding = [1, 1, 1, 1]}\n%8 = aten::add(%6, %0)\n",
      "%6 = aten::convolution(%0, %2)\n%7 = aten::convolution(%0, %3)\n%8 = aten::add(%6, %7)\n",
      "%6 = aten::convolution(%0, %2) {padding = [1, 1, 1, 1]}\n%7 = aten::convolution(%0, %2) {padding = [1, 1, 1, "
      "1]}\n"
      "%8 = aten::mul(%6, %7)\n",
  };
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    base_arena *arena = base_arena_new(&base_libc_allocator);
    const char *text = base_arena_format(arena,
                                         "input %%0 \"x\": f32[1, 1, 3, 3]\ninput %%1 \"r\": f32[1, 1, 3, 3]\n"
                                         "const %%2: f32[1, 1, 3, 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9}\n"
                                         "const %%3: f32[1, 1, 1, 1] = {1}\nconst %%4: f32[1, 1, 1, 3] = {1, 2, 3}\n"
                                         "const %%5: f32[1, 1, 3, 1] = {1, 2, 3}\n%soutput \"y\" %%8\n",
                                         bodies[i]);
    ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
    td_error err;
    uint32_t changes = 0;
    assert_int_equal(find_pass("branches")->run(graph, &(passes_setting){0}, &changes, &err), TD_OK);
    if (changes) fail_msg("%s", text);
    ir_graph_free(graph);
    base_arena_free(arena);
  }
}

/* ---- generated sums ---- */

typedef struct axis {
  int kernel, dilation, begin, end;
} axis;
typedef struct window {
  axis axes[2];
  int stride, groups;
} window;

static uint32_t seed;
static int draw(int count) {
  seed = seed * 1664525 + 1013904223;
  return (int)(seed >> 16) % count;
}

/* Is each tap of `b` one of `a`? As its definition has it. */
static bool covers(const window *a, const window *b) {
  bool all = a->stride == b->stride && a->groups == b->groups;
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < b->axes[i].kernel; k++) {
      bool found = false;
      for (int t = 0; t < a->axes[i].kernel; t++)
        found |= t * a->axes[i].dilation - a->axes[i].begin == k * b->axes[i].dilation - b->axes[i].begin;
      all &= found;
    }
  return all;
}

/* Another window over as many pixels; it may be out of line with the first one. False: there is none such. */
static bool draw_window(const window *first, window *w) {
  *w = *first;
  for (int i = 0; i < 2; i++) {
    const axis *f = &first->axes[i];
    axis *a = &w->axes[i];
    a->kernel = 1 + draw(f->kernel);
    a->dilation = draw(4) ? f->dilation * (1 + draw(2)) : 1 + draw(3);
    a->begin = f->begin - draw(f->kernel) * (draw(6) ? f->dilation : 1);
    a->end = f->begin + f->end - (f->kernel - 1) * f->dilation + (a->kernel - 1) * a->dilation - a->begin;
    if (a->begin < 0 || a->end < 0) return false;
  }
  return true;
}

enum { CHANNELS = 4, MOST_BRANCHES = 4, TEXT = 1 << 16 };

static void put_convolution(char *text, const window *w, int number) {
  const axis *v = &w->axes[0], *h = &w->axes[1];
  const int inputs = CHANNELS / w->groups, count = CHANNELS * inputs * v->kernel * h->kernel;
  char *at = text + strlen(text);
  at += sprintf(at, "const %%%d: f32[%d, %d, %d, %d] = {", 10 + number, CHANNELS, inputs, v->kernel, h->kernel);
  for (int i = 0; i < count; i++) at += sprintf(at, "%s%g", i ? ", " : "", (draw(101) - 50) / 400.0);
  sprintf(at,
          "}\n%%%d = aten::convolution(%%0, %%%d%s) {stride = [%d, %d], padding = [%d, %d, %d, %d], dilation = [%d, "
          "%d], groups = %d}\n",
          20 + number, 10 + number, draw(2) ? ", %1" : "", w->stride, w->stride, v->begin, h->begin, v->end, h->end,
          v->dilation, h->dilation, w->groups);
}

/* A sum over an image, and whether some of it must become one. */
static bool make_sum(char *text) {
  const int height = 5 + draw(9), width = 5 + draw(20);
  window all[MOST_BRANCHES + 1] = {{.stride = 1 + draw(2), .groups = draw(2) ? 1 : CHANNELS}};
  int count = 1;
  for (int i = 0; i < 2; i++) {
    axis *a = &all[0].axes[i];
    *a = (axis){.kernel = 1 + draw(5), .dilation = 1 + draw(2)};
    a->begin = draw((a->kernel - 1) * a->dilation + 1);
    a->end = draw(2) ? (a->kernel - 1) * a->dilation - a->begin : (a->kernel - 1) * a->dilation;
  }
  while (count < 2 + draw(MOST_BRANCHES - 1)) count += draw_window(&all[0], &all[count]);
  sprintf(text, "input %%0 \"x\": f32[2, %d, %d, %d]\nconst %%1: f32[%d] = {0.5, -1, 0, 2}\n", CHANNELS, height, width,
          CHANNELS);
  for (int i = 0; i < count; i++) put_convolution(text, &all[i], i);
  int sum = 20, last = 40;
  for (int i = 1; i < count; i++, sum = last++) {
    const bool turned = draw(2);
    sprintf(text + strlen(text), "%%%d = aten::add(%%%d, %%%d)\n", last, turned ? 20 + i : sum, turned ? sum : 20 + i);
  }
  sprintf(text + strlen(text), "output \"y\" %%%d\n", sum);
  bool merges = false;
  for (int i = 0; i < count; i++)
    for (int k = 0; k < count; k++) merges |= i != k && covers(&all[i], &all[k]);
  return merges;
}

static void sums_become_one_where_taps_agree(void **state) {
  (void)state;
  static char text[TEXT];
  int merged = 0;
  for (seed = 1; seed < 600 * 7919; seed += 7919) {
    const uint32_t start = seed;
    const bool merges = make_sum(text);
    base_arena *arena = base_arena_new(&base_libc_allocator);
    ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
    td_error err;
    uint32_t changes = 0;
    assert_int_equal(find_pass("branches")->run(graph, &(passes_setting){0}, &changes, &err), TD_OK);
    if (ir_verify(graph, &err) != TD_OK) fail_msg("%s", err.text);
    if (merges != (changes > 0)) fail_msg("%s\n%s", merges ? "stays" : "changes", text);
    ir_graph_free(graph);
    base_arena_free(arena);
    if (merged % 4 == 0) expect_same_numbers(text);
    merged += merges;
    seed = start;
  }
  assert_true(merged > 100 && merged < 500);
}

/* What is not finite goes to no pixel that it did not reach, and the bias of zeros is the sum of biases. */
static void zeros_and_what_is_not_finite(void **state) {
  (void)state;
  static const char text[] =
      "input %0 \"x\": f32[1, 1, 5, 5]\n"
      "const %1: f32[1, 1, 3, 3] = {1, 0, 3, 4, 5, 6, 7, 8, 9}\n"
      "const %2: f32[1, 1, 1, 1] = {2}\n"
      "const %3: f32[1] = {0.25}\n"
      "const %4: f32[1] = {3}\n"
      "%5 = aten::convolution(%0, %1, %3) {padding = [1, 1, 1, 1]}\n"
      "%6 = aten::convolution(%0, %2, %4)\n"
      "%7 = aten::add(%5, %6)\n"
      "output \"y\" %7\n";
  rig plain, fast;
  rig_open(&plain, text, "eager");
  rig_open(&fast, text, "native");
  char image[] = "1x1x5x5: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 inf";
  rig_feed(&plain, 0, TD_F32, image), rig_feed(&fast, 0, TD_F32, image);
  rig_run(&plain), rig_run(&fast);
  const float *a = rig_output(&plain, 0)->data, *b = rig_output(&fast, 0)->data;
  for (int i = 0; i < 25; i++)
    if (isfinite(a[i]) ? b[i] != 3.25f : isfinite(b[i])) fail_msg("pixel %d: %g, not %g", i, b[i], a[i]);
  rig_close(&plain);
  rig_close(&fast);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_block_becomes_one),
      cmocka_unit_test(others_stay),
      cmocka_unit_test(sums_become_one_where_taps_agree),
      cmocka_unit_test(zeros_and_what_is_not_finite),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
